//! The same file in other bytes: line ends, byte order mark, no final newline.
//!
//! It does not touch the update, which models write with LF. Invariant: a twisted original and truth differ as the
//! plain ones do.

use super::change::Change;

/// Name of a twist, the original and the truth.
pub struct Twisted {
    /// The twist's name.
    pub style: &'static str,
    /// The file before.
    pub original: String,
    /// The file after.
    pub truth: String,
}

/// Every twist that fits a change.
pub fn all(change: &Change) -> Vec<Twisted> {
    let (old, new) = (change.file(&change.old), change.file(&change.new));
    let crlf = |text: &str| text.replace('\n', "\r\n");
    let mut all = vec![
        Twisted { style: "CRLF", original: crlf(&old), truth: crlf(&new) },
        Twisted { style: "BOM", original: format!("\u{feff}{old}"), truth: format!("\u{feff}{new}") },
    ];
    if change.final_newline && !old.ends_with("\n\n") && !new.ends_with("\n\n") {
        let cut = |text: &str| text[..text.len() - 1].to_owned();
        all.push(Twisted { style: "no final newline", original: cut(&old), truth: cut(&new) });
    }
    all.extend(mixed(change));
    all
}

/// CRLF to the middle of a long stretch of unchanged lines, LF after it: new lines have only one kind around them.
fn mixed(change: &Change) -> Option<Twisted> {
    let mut at = 0;
    let mut stretch = 0..0;
    for hunk in &change.hunks {
        if hunk.new.start - at > stretch.len() {
            stretch = at..hunk.new.start;
        }
        at = hunk.new.end;
    }
    if change.new.len() - at > stretch.len() {
        stretch = at..change.new.len();
    }
    if stretch.len() < 8 {
        return None;
    }
    let new_middle = stretch.start + stretch.len() / 2;
    let old_middle = change.kept[new_middle]?;
    let ended = |lines: &[String], middle: usize| {
        let text = change.file(&[&lines[..middle]].concat()).replace('\n', "\r\n");
        // Of a file without a final newline only the last line has no end.
        let text = if change.final_newline { text } else { text + "\r\n" };
        text + &change.file(&lines[middle..])
    };
    Some(Twisted {
        style: "mixed line ends",
        original: ended(&change.old, old_middle),
        truth: ended(&change.new, new_middle),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixed_line_ends_change_far_from_the_change() {
        let lines = |text: &str| text.split(' ').map(str::to_owned).collect();
        let change =
            Change::between(lines("a b c d e f g h i j"), lines("a X c d e f g h i j"), true).expect("a change");
        let twisted = mixed(&change).expect("a long stretch");
        assert_eq!(twisted.original, "a\r\nb\r\nc\r\nd\r\ne\r\nf\r\ng\nh\ni\nj\n");
        assert_eq!(twisted.truth, "a\r\nX\r\nc\r\nd\r\ne\r\nf\r\ng\nh\ni\nj\n");
    }
}
