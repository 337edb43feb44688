//! Frames: a length of four bytes, little-endian, then so many bytes of JSON.

use std::io::{Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Longest frame, bytes. A task of ten thousand points takes two million, the longest visit about twenty; text that a
/// library printed announces at least twice this.
pub const FRAME_BYTES_MAX: usize = 256 << 20;

/// Bytes of the length.
const HEADER_BYTES: usize = size_of::<u32>();

/// A stream that holds no frames.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The length cannot be right: something else than frames was written to the pipe.
    #[error(
        "a frame of {bytes} bytes was announced, at most {FRAME_BYTES_MAX} are allowed: the pipe carries something else"
    )]
    TooLarge {
        /// The length announced.
        bytes: u64,
    },
    /// The stream ended within a frame.
    #[error("the pipe ended within a frame, after {got} of its bytes")]
    Truncated {
        /// Bytes of the frame that came, its length included.
        got: usize,
    },
    /// The frame holds no message of the type expected.
    #[error("a frame could not be read as a message: {0}")]
    Message(#[from] serde_json::Error),
    /// The pipe failed.
    #[error("the pipe failed: {0}")]
    Pipe(#[from] std::io::Error),
}

/// A message as a frame.
///
/// # Errors
/// [`FrameError::Message`], or [`FrameError::TooLarge`].
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, FrameError> {
    let mut frame = vec![0; HEADER_BYTES];
    serde_json::to_writer(&mut frame, message)?;
    let bytes = frame.len() - HEADER_BYTES;
    let length = u32::try_from(bytes).ok().filter(|_| bytes <= FRAME_BYTES_MAX);
    let length = length.ok_or(FrameError::TooLarge { bytes: bytes as u64 })?;
    frame[..HEADER_BYTES].copy_from_slice(&length.to_le_bytes());
    Ok(frame)
}

/// Bytes of a message within a frame.
///
/// # Errors
/// [`FrameError::Message`].
pub fn bytes_of<T: Serialize>(message: &T) -> Result<usize, FrameError> {
    struct Counter(usize);
    impl Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    serde_json::to_writer(&mut counter, message)?;
    Ok(counter.0)
}

/// Writes a message as one frame.
///
/// # Errors
/// See [`FrameError`].
pub fn write<T: Serialize>(pipe: &mut impl Write, message: &T) -> Result<(), FrameError> {
    pipe.write_all(&encode(message)?)?;
    Ok(pipe.flush()?)
}

/// Reads one message; `None` at the end of the stream.
///
/// # Errors
/// See [`FrameError`].
pub fn read<T: DeserializeOwned>(pipe: &mut impl Read) -> Result<Option<T>, FrameError> {
    let mut decoder = Decoder::default();
    // Read exactly what the frame still lacks, so that nothing of the next one is taken.
    let mut chunk = Vec::new();
    loop {
        if let Some(message) = decoder.message()? {
            return Ok(Some(message));
        }
        chunk.clear();
        if pipe.by_ref().take(decoder.lacking() as u64).read_to_end(&mut chunk)? == 0 {
            return decoder.finish().map(|()| None);
        }
        decoder.push(&chunk);
    }
}

/// Turns bytes, however they arrive, into messages.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
}

impl Decoder {
    /// Takes bytes as they came.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next message, once all of it is there.
    ///
    /// # Errors
    /// [`FrameError::TooLarge`] or [`FrameError::Message`].
    pub fn message<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        let Some(length) = self.length()? else { return Ok(None) };
        let end = HEADER_BYTES + length;
        if self.bytes.len() < end {
            return Ok(None);
        }
        let message = serde_json::from_slice(&self.bytes[HEADER_BYTES..end]);
        self.bytes.drain(..end);
        Ok(Some(message?))
    }

    /// Called at the end of the stream.
    ///
    /// # Errors
    /// [`FrameError::Truncated`] where a frame is incomplete.
    pub fn finish(&self) -> Result<(), FrameError> {
        if self.bytes.is_empty() { Ok(()) } else { Err(FrameError::Truncated { got: self.bytes.len() }) }
    }

    /// Bytes that the frame at hand still lacks, as far as its length is known.
    fn lacking(&self) -> usize {
        let end = match self.length() {
            Ok(Some(length)) => HEADER_BYTES + length,
            Ok(None) | Err(_) => HEADER_BYTES,
        };
        end.saturating_sub(self.bytes.len())
    }

    /// Length of the frame at hand, once its header is there.
    fn length(&self) -> Result<Option<usize>, FrameError> {
        let Some(header) = self.bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let bytes = u32::from_le_bytes(*header);
        match usize::try_from(bytes) {
            Ok(length) if length <= FRAME_BYTES_MAX => Ok(Some(length)),
            _ => Err(FrameError::TooLarge { bytes: u64::from(bytes) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames() -> Vec<u8> {
        [encode(&"one"), encode(&"two")].map(|frame| frame.expect("a text can be encoded")).concat()
    }

    #[test]
    fn messages_round_trip_one_by_one() {
        let bytes = frames();
        let mut pipe = bytes.as_slice();
        assert_eq!(read::<String>(&mut pipe).expect("a whole frame").as_deref(), Some("one"));
        assert_eq!(read::<String>(&mut pipe).expect("a whole frame").as_deref(), Some("two"));
        assert_eq!(read::<String>(&mut pipe).expect("an orderly end"), None);
    }

    #[test]
    fn a_decoder_takes_bytes_in_any_portions() {
        let mut decoder = Decoder::default();
        let mut said: Vec<String> = Vec::new();
        for byte in frames() {
            decoder.push(&[byte]);
            said.extend(decoder.message::<String>().expect("good bytes"));
        }
        assert_eq!(said, ["one", "two"]);
        assert!(decoder.finish().is_ok());
    }

    #[test]
    fn every_truncation_is_said() {
        let whole = encode(&"message").expect("a text can be encoded");
        for length in 1..whole.len() {
            let outcome = read::<String>(&mut &whole[..length]);
            assert!(matches!(outcome, Err(FrameError::Truncated { got }) if got == length), "{length}: {outcome:?}");
        }
    }

    #[test]
    fn garbage_is_refused_and_not_waited_for() {
        let printed = read::<String>(&mut "Hello from a library\n".as_bytes());
        assert!(matches!(printed, Err(FrameError::TooLarge { .. })), "{printed:?}");
        let wrong = read::<u64>(&mut encode(&"text").expect("a text can be encoded").as_slice());
        assert!(matches!(wrong, Err(FrameError::Message(_))), "{wrong:?}");
    }
}
