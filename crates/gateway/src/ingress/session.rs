//! The session that a client names with a call, as the log keeps it.
//!
//! Invariant: what is kept is short and of plain characters; the same name is kept in the same way each time.

use sha2::{Digest, Sha256};

/// Longest name that is kept as it is (bytes): identifiers in use (UUIDs, ULIDs, traces) are shorter.
const MAX_BYTES: usize = 64;
/// Bytes of the hash that stand for another: two of a million names are the same with a chance of one in 10^7.
const HASH_BYTES: usize = 8;
/// How keys begin: one that was sent by mistake must not stand in a log.
const KEYS: [&[u8]; 2] = [b"sk-", b"Bearer"];

/// The name of a session: as it was sent where that is an identifier, else a hash of it.
pub(super) fn session_of(value: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/".contains(byte);
    let is_key = KEYS.iter().any(|key| value.starts_with(key));
    if !value.is_empty() && value.len() <= MAX_BYTES && value.iter().all(is_plain) && !is_key {
        return String::from_utf8_lossy(value).into_owned();
    }
    let hash = Sha256::digest(value);
    hash.iter().take(HASH_BYTES).fold("#".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::session_of;

    #[test]
    fn an_identifier_is_kept_and_anything_else_is_a_hash() {
        for name in ["run-17", "01JD:agent/3", &"a".repeat(64)] {
            assert_eq!(session_of(name.as_bytes()), name);
        }
        for value in ["", "ada@example.org", "two words", "sk-live-123", &"a".repeat(65), "\u{fc}"] {
            let kept = session_of(value.as_bytes());
            assert!(kept.len() == 17 && kept.starts_with('#'), "{kept}");
            assert_eq!(session_of(value.as_bytes()), kept, "the same each time");
        }
        assert_ne!(session_of(b"a b"), session_of(b"a c"));
    }
}
