//! The hash by which an edit names a line.
//!
//! Invariant: it is made of the bytes that the file has, in whatever encoding they are.

/// The hash of a line: FNV-1a of its bytes in the file without white space of ASCII at its end, folded to 16 bits, in four hexadecimal
/// digits. A byte order mark is no part of the first line.
pub fn line_hash(line: impl AsRef<[u8]>) -> String {
    let bytes = line.as_ref().trim_ascii_end();
    let hash = bytes.iter().fold(0x811c_9dc5_u32, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{:04x}", (hash >> 16) ^ (hash & 0xffff))
}

#[cfg(test)]
mod tests {
    use super::line_hash;

    #[test]
    fn hashes_are_as_they_are_documented() {
        assert_eq!(
            [line_hash(""), line_hash("a"), line_hash("foobar \t")],
            ["1cd9", "cd20", "46f4"].map(str::to_owned)
        );
    }
}
