//! Digests: of one content, and of a set in any order.

use std::fmt;

use sha2::{Digest, Sha256};

/// A SHA-256 digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sha256Digest([u8; 32]);

impl Sha256Digest {
    /// Digests bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// 64 hexadecimal digits, lower case.
    pub fn to_hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Reads what [`Sha256Digest::to_hex`] writes; `None` for anything else.
    pub fn from_hex(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        if text.len() != 64 {
            return None;
        }
        let digit = |letter: u8| char::from(letter).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let mut bytes = [0_u8; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for Sha256Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}

/// Digest of a set of contents, whatever their order: the sum of their SHA-256 digests modulo 2^256, and their count.
///
/// It survives compaction, which moves rows between files and changes their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetDigest {
    sum: [u8; 32],
    count: u64,
}

impl SetDigest {
    /// Adds one content by its digest.
    pub fn insert(&mut self, digest: Sha256Digest) {
        let mut carry = 0_u16;
        for (total, byte) in self.sum.iter_mut().zip(digest.0) {
            let wide = u16::from(*total) + u16::from(byte) + carry;
            *total = wide.to_le_bytes()[0];
            carry = wide >> 8;
        }
        self.count += 1;
    }

    /// How many contents were added.
    pub fn count(&self) -> u64 {
        self.count
    }
}

impl fmt::Display for SetDigest {
    /// `COUNT:HEX`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.count)?;
        self.sum.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_round_trips_and_foreign_text_is_refused() {
        let digest = Sha256Digest::of(b"abc");
        assert_eq!(digest.to_hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(Sha256Digest::from_hex(&digest.to_hex()), Some(digest));
        assert_eq!(Sha256Digest::from_hex("ba78"), None);
        assert_eq!(Sha256Digest::from_hex(&"g".repeat(64)), None);
    }

    #[test]
    fn a_set_digest_ignores_order_and_sees_repeats() {
        let digests: Vec<_> = [b"a", b"b", b"c"].iter().map(|text| Sha256Digest::of(*text)).collect();
        let sum = |order: &[usize]| {
            let mut set = SetDigest::default();
            order.iter().for_each(|&index| set.insert(digests[index]));
            set.to_string()
        };
        assert_eq!(sum(&[0, 1, 2]), sum(&[2, 0, 1]));
        assert_ne!(sum(&[0, 1]), sum(&[0, 1, 1]));
    }
}
