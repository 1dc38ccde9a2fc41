//! Hashes and repetition of an answer's text, so that the text itself need not be kept.
//!
//! Invariant: equal texts have equal hashes; the repetition of a short text is absent, never 0.

/// Bytes of the beginning that are compared on their own: long enough that two answers to different prompts do not share
/// them by a common opening sentence.
const PREFIX_BYTES: usize = 256;
/// Length of the windows that repetition looks for again.
const WINDOW_BYTES: usize = 32;
/// Shortest text with a repetition figure; shorter ones repeat by chance.
const MIN_REPETITION_BYTES: usize = 512;
/// Bytes examined at most, to bound the cost of huge answers.
const MAX_EXAMINED_BYTES: usize = 64 * 1024;

/// The traits of one text.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct TextFingerprint {
    /// Hash of the whole text; absent without text.
    pub hash: Option<String>,
    /// Hash of its first 256 bytes; absent if it is shorter.
    pub prefix_hash: Option<String>,
    /// Share of its 32-byte windows that occurred in it before; absent below 512 bytes.
    pub repetition: Option<f64>,
}

impl TextFingerprint {
    pub fn of(text: &str) -> TextFingerprint {
        let bytes = text.as_bytes();
        TextFingerprint {
            hash: (!bytes.is_empty()).then(|| hex(bytes)),
            prefix_hash: bytes.get(..PREFIX_BYTES).map(hex),
            repetition: repetition(&bytes[..bytes.len().min(MAX_EXAMINED_BYTES)]),
        }
    }
}

/// FNV-1a of 64 bits, as 16 hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    format!("{hash:016x}")
}

fn repetition(bytes: &[u8]) -> Option<f64> {
    if bytes.len() < MIN_REPETITION_BYTES {
        return None;
    }
    let mut windows = rolling_hashes(bytes);
    let all = windows.len();
    windows.sort_unstable();
    windows.dedup();
    Some((all - windows.len()) as f64 / all as f64)
}

/// The hash of every window, each from the one before it (Karp and Rabin 1987, modulo 2^64).
fn rolling_hashes(bytes: &[u8]) -> Vec<u64> {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let oldest = (1..WINDOW_BYTES).fold(1_u64, |power, _| power.wrapping_mul(FACTOR));
    let value = |byte: u8| u64::from(byte) + 1;
    let first =
        bytes[..WINDOW_BYTES].iter().fold(0_u64, |hash, &byte| hash.wrapping_mul(FACTOR).wrapping_add(value(byte)));
    let mut hashes = Vec::with_capacity(bytes.len() - WINDOW_BYTES + 1);
    hashes.push(first);
    let mut hash = first;
    for (&gone, &come) in bytes.iter().zip(&bytes[WINDOW_BYTES..]) {
        hash = hash.wrapping_sub(value(gone).wrapping_mul(oldest)).wrapping_mul(FACTOR).wrapping_add(value(come));
        hashes.push(hash);
    }
    hashes
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_core::Rng;

    #[test]
    fn equal_texts_and_equal_prefixes_have_equal_hashes() {
        let (one, other) = ("x".repeat(300), format!("{}y", "x".repeat(299)));
        let fingerprint = [&one, &other].map(|text| TextFingerprint::of(text));
        assert_ne!(fingerprint[0].hash, fingerprint[1].hash);
        assert_eq!(fingerprint[0].prefix_hash, fingerprint[1].prefix_hash);
        assert_eq!(TextFingerprint::of("short").prefix_hash, None);
        assert_eq!(TextFingerprint::of(""), TextFingerprint::default());
        // The published value of FNV-1a for "a".
        assert_eq!(TextFingerprint::of("a").hash.as_deref(), Some("af63dc4c8601ec8c"));
    }

    #[test]
    fn repetition_is_the_share_of_windows_seen_before() {
        let sentence = "The quick brown fox jumps over the lazy dog, and nobody sees it. ";
        assert_eq!(TextFingerprint::of(&sentence.repeat(2)).repetition, None, "too short to judge");
        // 10 times 65 bytes: 65 distinct windows among 619.
        let looped = TextFingerprint::of(&sentence.repeat(10)).repetition.expect("long enough");
        assert_eq!(looped, (619.0 - 65.0) / 619.0);
        let mut rng = Rng::root(3);
        let varied: String = (0..2_000).map(|_| char::from(b'a' + rng.below(26) as u8)).collect();
        assert_eq!(TextFingerprint::of(&varied).repetition, Some(0.0));
    }

    #[test]
    fn repetition_is_stated_from_512_bytes_on() {
        assert_eq!(TextFingerprint::of(&"x".repeat(511)).repetition, None);
        // 481 windows, all alike.
        assert_eq!(TextFingerprint::of(&"x".repeat(512)).repetition, Some(480.0 / 481.0));
    }

    #[test]
    fn the_beginning_is_compared_from_256_bytes_on() {
        assert_eq!(TextFingerprint::of(&"x".repeat(255)).prefix_hash, None);
        let exactly = TextFingerprint::of(&"x".repeat(256));
        assert!(exactly.prefix_hash.is_some() && exactly.prefix_hash == exactly.hash);
    }
}
