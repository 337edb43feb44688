//! Text files that people name, read whole and never without a bound.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The text of a file of at most so many bytes. A pipe is read as a file is, as `<(…)` of a shell makes one.
///
/// # Errors
/// It cannot be read, is no UTF-8, or holds more.
pub(crate) fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(bytes_max.saturating_add(1)).read_to_string(&mut text)?;
    if text.len() as u64 > bytes_max {
        return Err(io::Error::other(format!("it holds more than {bytes_max} bytes")));
    }
    Ok(text)
}

/// [`read_text`] of a regular file. Files that a pattern names must not be waited for.
///
/// # Errors
/// As [`read_text`]; and it is a folder, a pipe or a device.
pub(crate) fn read_data(path: &Path, bytes_max: u64) -> io::Result<String> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    read_text(path, bytes_max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_or_no_file_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("plan.toml");
        std::fs::write(&path, "name").expect("written");
        assert_eq!(read_data(&path, 4).expect("it fits"), "name");
        let error = read_text(&path, 3).expect_err("one byte too many").to_string();
        assert!(error.contains("more than 3 bytes"), "{error}");
        let error = read_data(folder.path(), 4).expect_err("a folder").to_string();
        assert!(error.contains("no regular file"), "{error}");
    }
}
