//! Reads files that anybody may have written.
//!
//! Invariant: no file takes more memory than its limit, however long it is: a link to a device has no end.

use std::fs::File;
use std::io::{Error, Read, Result};
use std::path::Path;

/// Settings, keys, personas: what people write by hand (bytes).
pub const MAX_SETTINGS_BYTES: u64 = 4 << 20;
/// Records, their rows, prompts and traces: what programs write (bytes). The longest public ones, ShareGPT's, have 0.6 GiB.
pub const MAX_DATA_BYTES: u64 = 1 << 30;

/// What a file holds.
///
/// # Errors
/// When it cannot be read, or is longer than `max_bytes`.
pub fn bytes_of(path: &Path, max_bytes: u64) -> Result<Vec<u8>> {
    bytes_from(File::open(path)?, max_bytes)
}

/// The same of a file that is open.
///
/// # Errors
/// As [`bytes_of`].
pub fn bytes_from(reader: impl Read, max_bytes: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > max_bytes {
        true => Err(Error::other(format!("it has more than {max_bytes} bytes"))),
        false => Ok(bytes),
    }
}

/// What a file of text holds.
///
/// # Errors
/// As [`bytes_of`], and when it is not UTF-8.
pub fn text_of(path: &Path, max_bytes: u64) -> Result<String> {
    String::from_utf8(bytes_of(path, max_bytes)?).map_err(|_| Error::other("it is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_limit_and_one_beyond_it_or_without_an_end_is_refused() {
        let path = std::env::temp_dir().join(format!("tokrate-reading-{}", std::process::id()));
        std::fs::write(&path, "12345").expect("a file");
        assert_eq!(text_of(&path, 5).expect("it fits"), "12345");
        assert_eq!(text_of(&path, 4).expect_err("too long").to_string(), "it has more than 4 bytes");
        std::fs::remove_file(&path).expect("it is there");
        assert!(bytes_from(std::io::repeat(0), 1 << 16).is_err());
        assert!(text_of(&path, 5).is_err(), "there is none");
    }
}
