//! Makes untrusted text safe to print on one line.
//!
//! Invariant: the result is bounded, on one line, and contains no terminal control characters.

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
    text.len() <= max_bytes && !text.chars().any(is_control)
}

/// Whether a terminal interprets a character instead of showing it: control characters, and bidirectional formatting
/// characters, which can disguise one text as another.
fn is_control(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
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
}
