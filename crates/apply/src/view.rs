//! A file as an editor shows it: its lines, and the hashes by which edits may name them.
//!
//! Invariant: the hash of a line that is shown is the one that an edit of the same file is held against.

use crate::encoding::Encoding;
use crate::outcome::Refused;
use crate::source::Source;

/// A line of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ViewedLine {
    /// Its text, without its end; without the byte order mark, if it is the first.
    pub text: String,
    /// Its hash.
    pub hash: String,
}

/// The lines of a file, in the encoding that is stated or that it shows.
///
/// # Errors
/// When it is no text, or not in the encoding that is stated.
pub fn view(bytes: &[u8], encoding: Option<Encoding>) -> Result<Vec<ViewedLine>, Refused> {
    let source = Source::read_as(bytes, encoding)?;
    let line = |number| ViewedLine { text: source.line(number).to_owned(), hash: source.line_hash(number) };
    Ok((0..source.line_count()).map(line).collect())
}

#[cfg(test)]
mod tests {
    use super::view;
    use crate::{Encoding, Options, Outcome, line_hash, merge};
    use serde_json::json;

    #[test]
    fn the_hash_that_is_shown_names_the_line_in_an_edit() {
        let files: [(&[u8], Option<Encoding>); 4] = [
            (b"\xef\xbb\xbfa\nb\n", None),
            (b"# \xcf\xf0\r\nb\r\n", None),
            (b"# \xcf\xf0\r\nb\r\n", Some(Encoding::Windows1251)),
            ("\u{feff}\u{e9}\u{a0}\n\n".as_bytes(), None),
        ];
        for (file, encoding) in files {
            let lines = view(file, encoding).expect("text");
            for (at, line) in lines.iter().enumerate() {
                let edit =
                    json!({"edits": [{"lines": format!("{}:{}", at + 1, line.hash), "content": "x\n"}]}).to_string();
                let options = Options { encoding, ..Options::default() };
                let outcome = merge(file, edit.as_bytes(), &options);
                assert!(matches!(outcome, Outcome::Merged(_)), "{file:?} {at}: {outcome:?}");
            }
        }
    }

    #[test]
    fn a_hash_is_that_of_the_bytes_of_the_file() {
        let hash = |file: &[u8], encoding| view(file, encoding).expect("text")[0].hash.clone();
        assert_eq!(hash(b"\xef\xbb\xbfa\n", None), "cd20", "that of `a`, as the documents have it");
        assert_eq!(hash(b"\xe9 \n", None), line_hash(b"\xe9"));
        assert_eq!(hash(b"\xe9 \n", Some(Encoding::Latin1)), line_hash(b"\xe9"));
        assert!(view(b"a\0", None).is_err());
    }
}
