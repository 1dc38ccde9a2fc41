//! Texts of strangers made fit for a line of ours.
//!
//! It does not know what they mean. Invariant: what comes out is bounded, on one line, and moves no terminal's cursor.

/// One line of at most `bytes_most` bytes, cut between characters and marked with an ellipsis where something is missing: runs
/// of white space, and of characters that a terminal would obey, become one space.
pub fn one_line(text: &str, bytes_most: usize) -> String {
    let mut line = String::new();
    for character in text.chars() {
        let is_blank = character.is_whitespace() || is_command(character);
        let character = if is_blank { ' ' } else { character };
        if is_blank && (line.is_empty() || line.ends_with(' ')) {
            continue;
        }
        // Room is kept for the mark that says that something is missing.
        if line.len() + character.len_utf8() + '…'.len_utf8() > bytes_most {
            line.push('…');
            return line;
        }
        line.push(character);
    }
    line.truncate(line.trim_end().len());
    line
}

/// Whether a text can stand in a line of ours as it is.
pub fn is_one_line(text: &str, bytes_most: usize) -> bool {
    text.len() <= bytes_most && !text.chars().any(is_command)
}

/// Whether a terminal obeys a character instead of showing it: control characters, and those that turn the direction of writing,
/// with which one text can be made to look like another.
fn is_command(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_blank() {
        let said = "gpt\u{1b}[2J\u{1b}]0;x\u{7}-4\r\n\u{202e}o\u{9b}31m";
        assert_eq!(one_line(said, 100), "gpt [2J ]0;x -4 o 31m");
        assert!(!is_one_line(said, 100) && is_one_line("gpt-4  o", 100) && !is_one_line("gpt-4", 4));
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        for most in 3..20 {
            let line = one_line("ééééééééééééé", most);
            assert!(line.len() <= most && line.ends_with('…'), "{line}");
        }
        assert_eq!(one_line("  a \n b  ", 10), "a b");
    }
}
