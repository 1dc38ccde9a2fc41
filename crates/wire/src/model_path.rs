//! Models as parts of paths.
//!
//! Invariant: `unescaped` of what `escaped` writes is the model again.

/// A model's name as a part of a path: what could be taken for something else is percent-encoded, but for letters that are named.
pub(crate) fn escaped(model: &str, kept: &[u8]) -> String {
    let mut path = String::with_capacity(model.len());
    for &byte in model.as_bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || kept.contains(&byte) {
            path.push(char::from(byte));
        } else {
            path.push_str(&format!("%{byte:02X}"));
        }
    }
    path
}

/// The name that a part of a path stands for.
pub(crate) fn unescaped(segment: &str) -> String {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let [first, behind @ ..] = rest {
        let code = segment_code(rest);
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &rest[3..] } else { behind };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The byte that a percent-encoding at the beginning stands for.
fn segment_code(bytes: &[u8]) -> Option<u8> {
    let digits = bytes.strip_prefix(b"%")?.get(..2)?;
    let digits =
        std::str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u8::from_str_radix(digits, 16).ok()
}
