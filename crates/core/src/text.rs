//! Makes untrusted text safe to print on one line, and says how far apart two names are.
//!
//! Invariant: the result is bounded, on one line, and contains no terminal control characters.

/// What of a name is compared (characters): a typed name may be of any length.
const MAX_COMPARED_CHARS: usize = 64;

/// Reduces a text to one line of at most `max_bytes` bytes, cut between characters and marked with an ellipsis. Runs of
/// white space and terminal control characters become one space.
pub fn one_line(text: &str, max_bytes: usize) -> String {
    let mut line = String::new();
    for character in text.chars() {
        let is_blank = character.is_whitespace() || is_control(character);
        let character = if is_blank { ' ' } else { character };
        if is_blank && (line.is_empty() || line.ends_with(' ')) {
            continue;
        }
        // Reserve room for the ellipsis.
        if line.len() + character.len_utf8() + '…'.len_utf8() > max_bytes {
            line.push('…');
            return line;
        }
        line.push(character);
    }
    line.truncate(line.trim_end().len());
    line
}

/// Whether a text can be printed on one line unchanged.
pub fn is_one_line(text: &str, max_bytes: usize) -> bool {
    // Names are ASCII as a rule, and bytes are checked several at a time.
    let is_printable_ascii = || text.bytes().fold(true, |all, byte| all & (0x20..0x7f).contains(&byte));
    text.len() <= max_bytes && (is_printable_ascii() || !text.chars().any(is_control))
}

/// Whether a terminal interprets a character instead of showing it: control characters, and bidirectional formatting
/// characters, which can disguise one text as another.
fn is_control(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Characters to insert, delete, replace or swap with their neighbour to get from one name to the other, of the first 64 of each
/// (Damerau 1964, optimal string alignment).
pub fn edit_distance(a: &str, b: &str) -> usize {
    let [a, b] = [a, b].map(|name| name.chars().take(MAX_COMPARED_CHARS).collect::<Vec<char>>());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut cost = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                cost = cost.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = cost;
        }
    }
    rows[a.len()][b.len()]
}

/// A word as a shell takes it, without control characters. For what others named and a user may paste.
pub fn shell_word(word: &str) -> String {
    let word: String = word.chars().map(|symbol| if symbol.is_control() { '?' } else { symbol }).collect();
    let plain = |symbol: char| symbol.is_ascii_alphanumeric() || "-_./:@+,=".contains(symbol);
    if !word.is_empty() && word.chars().all(plain) { word } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_spaces() {
        let text = "gpt\u{1b}[2J\u{1b}]0;x\u{7}-4\r\n\u{202e}o\u{9b}31m";
        assert_eq!(one_line(text, 100), "gpt [2J ]0;x -4 o 31m");
        assert!(!is_one_line(text, 100) && is_one_line("gpt-4  o", 100) && !is_one_line("gpt-4", 4));
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        for max_bytes in 3..20 {
            let line = one_line("ééééééééééééé", max_bytes);
            assert!(line.len() <= max_bytes && line.ends_with('…'), "{line}");
        }
        assert_eq!(one_line("  a \n b  ", 10), "a b");
    }

    #[test]
    fn two_letters_that_changed_places_are_one_edit() {
        let distance = edit_distance;
        assert_eq!((distance("kitten", "sitting"), distance("", "ab"), distance("same", "same")), (3, 2, 0));
        assert_eq!((distance("opneai", "openai"), distance("ab", "ba"), distance("é", "e")), (1, 1, 1));
        assert_eq!(distance(&"x".repeat(1 << 20), ""), MAX_COMPARED_CHARS);
    }

    #[test]
    fn a_shell_word_is_quoted_where_it_is_not_plain() {
        assert_eq!(shell_word("vllm/meta-llama/Llama-3.3:8b"), "vllm/meta-llama/Llama-3.3:8b");
        assert_eq!(shell_word("a b; rm -rf"), "'a b; rm -rf'");
        assert_eq!(shell_word("it's\u{1b}[31m"), "'it'\\''s?[31m'");
        assert_eq!(shell_word("x$(touch${IFS}/tmp/y)\ntouch"), "'x$(touch${IFS}/tmp/y)?touch'");
        assert_eq!(shell_word(""), "''");
    }
}
