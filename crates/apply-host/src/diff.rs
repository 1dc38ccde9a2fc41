//! Unified diffs, as `patch` and git read them. Invariant: applying the diff to the old text gives the new one, final newlines included.

use imara_diff::{Algorithm, Diff, Hunk, InternedInput};
use std::fmt::Write;
use std::ops::Range;

/// Unchanged lines around a change.
const CONTEXT: u32 = 3;

/// The diff of two texts, with the names of both in its head; empty if they are equal.
pub fn unified_diff(old: &str, new: &str, old_name: &str, new_name: &str) -> String {
    let input = InternedInput::new(old, new);
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_lines(&input);
    let hunks: Vec<Hunk> = diff.hunks().collect();
    let mut out = String::new();
    if hunks.is_empty() {
        return out;
    }
    // Writing to a string cannot fail.
    let _ = writeln!(out, "--- {old_name}\n+++ {new_name}");
    let old_count = u32::try_from(input.before.len()).unwrap_or(u32::MAX);
    let line = |token| input.interner[token];
    for group in hunks.chunk_by(|one, next| next.before.start - one.before.end <= 2 * CONTEXT) {
        let (first, last) = (&group[0], &group[group.len() - 1]);
        let before = first.before.start.saturating_sub(CONTEXT)..old_count.min(last.before.end + CONTEXT);
        let lead = first.before.start - before.start;
        let tail = before.end - last.before.end;
        let after = first.after.start - lead..last.after.end + tail;
        let _ = writeln!(out, "@@ -{} +{} @@", place(&before), place(&after));
        let mut at = before.start;
        for hunk in group {
            push(&mut out, ' ', input.before[range(at..hunk.before.start)].iter().map(|&token| line(token)));
            push(&mut out, '-', input.before[range(hunk.before.clone())].iter().map(|&token| line(token)));
            push(&mut out, '+', input.after[range(hunk.after.clone())].iter().map(|&token| line(token)));
            at = hunk.before.end;
        }
        push(&mut out, ' ', input.before[range(at..before.end)].iter().map(|&token| line(token)));
    }
    out
}

/// First line and count, as a hunk's head has them.
fn place(lines: &Range<u32>) -> String {
    match lines.len() {
        // Nothing stands after the line before it.
        0 => format!("{},0", lines.start),
        1 => (lines.start + 1).to_string(),
        count => format!("{},{count}", lines.start + 1),
    }
}

fn range(lines: Range<u32>) -> Range<usize> {
    lines.start as usize..lines.end as usize
}

fn push<'l>(out: &mut String, sign: char, lines: impl Iterator<Item = &'l str>) {
    for line in lines {
        out.push(sign);
        out.push_str(line);
        if !line.ends_with('\n') {
            out.push_str("\n\\ No newline at end of file\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn diffs_read_as_git_writes_them() {
        let old: String = (1..=30).map(|line| format!("line {line}\n")).collect();
        let new = old.replace("line 3\n", "").replace("line 5\n", "five\nand more\n").replace("line 30\n", "line 30");
        insta::assert_snapshot!(unified_diff(&old, &new, "a/x", "b/x"));
        assert_eq!(unified_diff(&old, &old, "a", "b"), "");
        assert_eq!(unified_diff("", "x\n", "a", "b"), "--- a\n+++ b\n@@ -0,0 +1 @@\n+x\n");
        assert_eq!(unified_diff("x", "", "a", "b"), "--- a\n+++ b\n@@ -1 +0,0 @@\n-x\n\\ No newline at end of file\n");
    }

    /// Carries a diff out, believing its numbers.
    fn applied(old: &str, diff: &str) -> String {
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let (mut out, mut at) = (String::new(), 0);
        let mut lines = diff.split_inclusive('\n').skip(2).peekable();
        while let Some(line) = lines.next() {
            if let Some(head) = line.strip_prefix("@@ -") {
                let place = head.split([' ', ',']).next().expect("a number");
                let start: usize = place.parse().expect("a number");
                let start = if head.split(' ').next().is_some_and(|it| it.ends_with(",0")) { start } else { start - 1 };
                out.extend(old[at..start].iter().copied());
                at = start;
                continue;
            }
            let cut = lines.peek().is_some_and(|next| next.starts_with('\\'));
            let text = if cut { &line[1..line.len() - 1] } else { &line[1..] };
            match line.as_bytes()[0] {
                b' ' => {
                    assert_eq!(old[at], text);
                    out.push_str(text);
                    at += 1;
                }
                b'-' => {
                    assert_eq!(old[at], text);
                    at += 1;
                }
                b'+' => out.push_str(text),
                _ => assert!(line.starts_with('\\')),
            }
        }
        out.extend(old[at..].iter().copied());
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_diff_gives_the_new_text(old in "([ab\r]{0,2}\n){0,24}[ab]{0,2}", new in "([ab\r]{0,2}\n){0,24}[ab]{0,2}") {
            let diff = unified_diff(&old, &new, "old", "new");
            let got = if diff.is_empty() { old.clone() } else { applied(&old, &diff) };
            prop_assert_eq!(got, new);
        }
    }
}
