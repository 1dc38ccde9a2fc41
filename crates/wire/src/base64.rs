//! Base64 with padding (RFC 4648, section 4), read strictly. Invariant: what is no such text is `None`, and never a part of it.

/// The bytes that a text stands for.
pub(crate) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    let digits = &text[..text.len() - padding.min(2)];
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    for group in digits.chunks(4) {
        let mut bits = 0_u32;
        for digit in group {
            bits = bits << 6 | u32::from(value(*digit)?);
        }
        let missing = 4 - group.len();
        // One digit alone is less than a byte.
        if missing == 3 {
            return None;
        }
        bits <<= 6 * missing;
        let [_, bytes @ ..] = bits.to_be_bytes();
        let (kept, rest) = bytes.split_at(3 - missing);
        if rest.iter().any(|byte| *byte != 0) {
            return None;
        }
        out.extend_from_slice(kept);
    }
    Some(out)
}

/// Bytes as such a text.
pub(crate) fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let mut three = [0; 3];
        three[..group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

fn value(digit: u8) -> Option<u8> {
    match digit {
        b'A'..=b'Z' => Some(digit - b'A'),
        b'a'..=b'z' => Some(digit - b'a' + 26),
        b'0'..=b'9' => Some(digit - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_of_the_standard_are_read_and_others_are_none() {
        for (text, bytes) in [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYmFy", "foobar")] {
            assert_eq!(decode(text.as_bytes()).as_deref(), Some(bytes.as_bytes()), "{text}");
        }
        for other in ["Z", "Zg", "Zg=", "Zh==", "Zm9=", "====", "A===", "Zm9v\n", "Zm-v", "Z=g="] {
            assert_eq!(decode(other.as_bytes()), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_read_again(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            prop_assert_eq!(decode(encode(&bytes).as_bytes()), Some(bytes));
        }
    }
}
