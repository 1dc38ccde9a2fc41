//! What a caller expects a file to be: the one that an edit was made for.
//!
//! Invariant: a file that is another one is never edited.

use crate::out::apply::Refusal;
use std::fs::Metadata;
use std::time::UNIX_EPOCH;
use tokrate_apply_host::sha256;

/// The signs of a SHA-256 in hexadecimal.
const HASH_LENGTH: usize = 64;

/// A state of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expected {
    /// The SHA-256 of its bytes.
    Hash(String),
    /// When it was last changed: seconds since 1970 and nanoseconds, if they are known.
    Changed(u64, Option<u32>),
}

impl Expected {
    /// Reads `sha256:HEX` (or the hexadecimal alone) or `mtime:SECONDS`, with a fraction or without.
    pub fn read(text: &str) -> Result<Expected, String> {
        let wrong = || "write sha256:HEX, as sha256sum prints it, or mtime:SECONDS, as `stat -c %.9Y` does".to_owned();
        if let Some(time) = text.strip_prefix("mtime:") {
            let (seconds, fraction) = time.split_once('.').map_or((time, None), |(whole, part)| (whole, Some(part)));
            let nanos = fraction
                .map(|part| format!("{part:0<9}").get(..9).and_then(|part| part.parse().ok()).ok_or_else(wrong));
            return Ok(Expected::Changed(seconds.parse().map_err(|_| wrong())?, nanos.transpose()?));
        }
        let hash = text.strip_prefix("sha256:").unwrap_or(text).to_ascii_lowercase();
        let is_hash = hash.len() == HASH_LENGTH && hash.bytes().all(|sign| sign.is_ascii_hexdigit());
        is_hash.then_some(Expected::Hash(hash)).ok_or_else(wrong)
    }

    /// Whether a file is in this state.
    pub fn check(&self, bytes: &[u8], metadata: &Metadata) -> Result<(), Refusal> {
        let stale = |now: String| {
            let message = format!("the file was changed since the edit was made for it: {now}");
            Err(Refusal::new("stale_file", message, "read the file again and make the edit for what it is now"))
        };
        match self {
            Expected::Hash(hash) => match sha256(bytes) {
                now if now == *hash => Ok(()),
                now => stale(format!("its SHA-256 is {now}")),
            },
            Expected::Changed(seconds, nanos) => {
                let changed = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
                let Some(changed) = changed else { return stale("nobody knows when".to_owned()) };
                let is_same =
                    changed.as_secs() == *seconds && nanos.is_none_or(|nanos| changed.subsec_nanos() == nanos);
                match is_same {
                    true => Ok(()),
                    false => stale(format!("it was last at {}.{:09}", changed.as_secs(), changed.subsec_nanos())),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_as_tools_print_them() {
        let hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Expected::read(hash), Ok(Expected::Hash(hash.to_owned())));
        assert_eq!(Expected::read(&format!("sha256:{}", hash.to_uppercase())), Ok(Expected::Hash(hash.to_owned())));
        assert_eq!(Expected::read("mtime:17"), Ok(Expected::Changed(17, None)));
        assert_eq!(Expected::read("mtime:17.5"), Ok(Expected::Changed(17, Some(500_000_000))));
        for wrong in ["", "sha256:abc", "mtime:", "mtime:x", "mtime:1.x", "yesterday"] {
            assert!(Expected::read(wrong).is_err(), "{wrong}");
        }
    }
}
