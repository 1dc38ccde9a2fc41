//! Each format written out for a random edit of a random file: a block that stands once gives exactly the intended text,
//! and one that stands several times is refused.

use super::{Format, detect, locate, unwrapped};
use crate::lazy::Asked;
use crate::options::Options;
use crate::outcome::{Code, Refused};
use crate::source::Source;
use crate::splice::in_order;
use proptest::prelude::*;

/// What a format makes of an update, after it was recognised as one.
pub(super) fn applied(format: Format, original: &str, update: &str) -> Result<String, Refused> {
    let source = Source::read(original.as_bytes())?;
    assert_eq!(detect(&source, update), format, "{update}");
    let located = locate(format, &source, update, &Options::default(), Asked::Sure)?;
    let splices = in_order(located.splices, |byte| source.line_of(byte))?;
    Ok(source.with(&splices))
}

/// A file and what is to be changed in it.
#[derive(Clone, Debug)]
struct Case {
    lines: Vec<String>,
    /// First line and number of lines that go, and the lines that come.
    edit: (usize, usize, Vec<String>),
    /// Lines shown above and below.
    context: (usize, usize),
    bom: bool,
    crlf: bool,
    final_newline: bool,
}

impl Case {
    fn text(&self, lines: &[String]) -> String {
        let end = if self.crlf { "\r\n" } else { "\n" };
        let text = lines.join(end);
        let last = if self.final_newline && !lines.is_empty() { end } else { "" };
        format!("{}{text}{last}", if self.bom { "\u{feff}" } else { "" })
    }

    fn original(&self) -> String {
        self.text(&self.lines)
    }

    fn intended(&self) -> String {
        let (first, count, new) = &self.edit;
        let mut lines = self.lines.clone();
        lines.splice(*first..first + count, new.iter().cloned());
        self.text(&lines)
    }

    /// Context above, lines that go, context below.
    fn parts(&self) -> (&[String], &[String], &[String]) {
        let (first, count, _) = self.edit;
        let end = first + count;
        (
            &self.lines[first.saturating_sub(self.context.0)..first],
            &self.lines[first..end],
            &self.lines[end..(end + self.context.1).min(self.lines.len())],
        )
    }

    fn lines_before(&self) -> Vec<String> {
        let (above, old, below) = self.parts();
        [above, old, below].concat()
    }

    fn lines_after(&self) -> Vec<String> {
        let (above, _, below) = self.parts();
        [above, &self.edit.2, below].concat()
    }

    /// How often the shown lines stand in the file.
    fn times(&self) -> usize {
        let old = self.lines_before();
        self.lines.windows(old.len().max(1)).filter(|window| *window == old).count()
    }

    /// Holds what came of it against what was wanted.
    fn check(&self, format: Format, update: &str) -> Result<(), TestCaseError> {
        let wanted = match self.times() {
            1 if self.intended() != self.original() => Ok(self.intended()),
            1 => Err(Code::NotAnEdit),
            _ => Err(Code::AmbiguousLocation),
        };
        let outcome = applied(format, &self.original(), update).map_err(|refused| refused.code);
        // What changes nothing at several places is no edit either.
        if self.intended() == self.original() && outcome == Err(Code::NotAnEdit) {
            return Ok(());
        }
        prop_assert_eq!(outcome, wanted, "{}", update);
        Ok(())
    }
}

fn cases() -> impl Strategy<Value = Case> {
    let line = || "( {0,2}|\t)(let a = [0-9];|b\\(\\);|\\}|[c-z]{2,5}\u{e9}?)";
    let any_line = || prop_oneof![6 => line(), 1 => Just(String::new())];
    (
        (prop::collection::vec(any_line(), 1..24), prop::collection::vec(any_line(), 0..4)),
        (any::<prop::sample::Index>(), 0..4usize),
        (1..4usize, 0..4usize),
        any::<(bool, bool, bool)>(),
    )
        .prop_map(|((mut lines, new), (first, count), context, (bom, crlf, final_newline))| {
            // A file without a final newline ends with a line that is not empty.
            lines.push("end".to_owned());
            let first = first.index(lines.len());
            let count = count.min(lines.len() - 1 - first);
            Case { lines, edit: (first, count, new), context, bom, crlf, final_newline }
        })
        .prop_filter("the block shows text", |case| {
            let (_, old, _) = case.parts();
            case.lines_before().iter().any(|line| !line.trim().is_empty())
                && !(old.is_empty() && case.edit.2.is_empty())
        })
}

fn joined(lines: &[String], sign: &str) -> String {
    lines.iter().flat_map(|line| [sign, line, "\n"]).collect()
}

fn diff_lines(case: &Case) -> String {
    let (above, old, below) = case.parts();
    [joined(above, " "), joined(old, "-"), joined(&case.edit.2, "+"), joined(below, " ")].concat()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn search_and_replace_gives_what_is_meant(case in cases(), signs in 5..9usize, fence in any::<bool>()) {
        let sign = |sign: &str| sign.repeat(signs);
        let (old, new) = (joined(&case.lines_before(), ""), joined(&case.lines_after(), ""));
        let block = format!("{} SEARCH\n{old}{}\n{new}{} REPLACE\n", sign("<"), sign("="), sign(">"));
        let update = if fence { format!("src/a.rs\n```rust\n{block}```\n") } else { block };
        case.check(Format::SearchReplace, &update)?;
        let cline = format!("{} SEARCH\n{old}{}\n{new}{} REPLACE\n", sign("-"), sign("="), sign("+"));
        case.check(Format::SearchReplace, &cline)?;
    }

    #[test]
    fn strings_give_what_is_meant(case in cases(), list in any::<bool>()) {
        let (old, new) = (joined(&case.lines_before(), ""), joined(&case.lines_after(), ""));
        // As a string, a block may also begin inside of a line.
        let text = joined(&case.lines, "");
        let times = (0..text.len()).filter(|&at| text.is_char_boundary(at) && text[at..].starts_with(&old)).count();
        prop_assume!(times == case.times());
        let pair = serde_json::json!({ "old_string": old, "new_string": new });
        let update = if list { serde_json::json!({ "edits": [pair] }) } else { pair };
        if old == new && times == 1 {
            let outcome = applied(Format::StringReplace, &case.original(), &update.to_string());
            prop_assert_eq!(outcome.map_err(|refused| refused.code), Ok(case.original()), "no change");
        } else {
            case.check(Format::StringReplace, &update.to_string())?;
        }
    }

    #[test]
    fn a_diff_gives_what_is_meant(case in cases(), header in 0..3usize) {
        let hunk = diff_lines(&case);
        prop_assume!(hunk.contains("\n-") || hunk.contains("\n+") || hunk.starts_with(['+', '-']));
        let update = match header {
            0 => format!("--- a/x\n+++ b/x\n@@ -900,77 +900,75 @@ fn\n{hunk}"),
            1 => format!("diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ ... @@\n{hunk}"),
            _ => format!("@@ ... @@\n{hunk}"),
        };
        case.check(Format::UnifiedDiff, &update)?;
    }

    #[test]
    fn a_diff_with_true_numbers_is_never_ambiguous(case in cases()) {
        let (above, _, _) = case.parts();
        let (old, new) = (case.lines_before().len(), case.lines_after().len());
        let first = case.edit.0 - above.len() + 1;
        let update = format!("--- a/x\n+++ b/x\n@@ -{first},{old} +{first},{new} @@\n{}", diff_lines(&case));
        prop_assume!(case.intended() != case.original());
        let outcome = applied(Format::UnifiedDiff, &case.original(), &update);
        prop_assert_eq!(outcome.map_err(|refused| refused.to_string()), Ok(case.intended()));
    }

    #[test]
    fn a_patch_gives_what_is_meant(case in cases()) {
        let update = format!("*** Begin Patch\n*** Update File: x\n@@\n{}*** End Patch\n", diff_lines(&case));
        case.check(Format::V4a, &update)?;
    }

    #[test]
    fn a_whole_file_is_taken_as_it_is(case in cases()) {
        let (first, count, _) = case.edit;
        prop_assume!(first > 0 && first + count < case.lines.len() && count * 4 <= case.lines.len());
        prop_assume!(!case.lines[0].is_empty());
        let mut lines = case.lines.clone();
        lines.splice(first..first + count, case.edit.2.iter().cloned());
        let text = |lines: &[String]| lines.iter().filter(|line| !line.is_empty()).count();
        prop_assume!(text(&lines) * 4 >= text(&case.lines) * 3);
        let outcome = applied(Format::WholeFile, &case.original(), &joined(&lines, ""));
        prop_assert_eq!(outcome.map_err(|refused| refused.to_string()), Ok(case.intended()));
    }

    #[test]
    fn two_blocks_give_both_changes(case in cases(), other in cases()) {
        // Lines of the two do not meet, as those of the second say so.
        let second: Vec<String> = other.lines.iter().map(|line| format!("{line}2")).collect();
        let (mut both, mut intended) = (case.clone(), case.lines.clone());
        intended.splice(case.edit.0..case.edit.0 + case.edit.1, case.edit.2.iter().cloned());
        both.lines.extend(second.iter().cloned());
        let (first, count, new) = &other.edit;
        let mut after = second.clone();
        after.splice(*first..first + count, new.iter().cloned());
        intended.extend(after);
        let shown = |from: usize, to: usize| second[from.saturating_sub(other.context.0)..(to + other.context.1).min(second.len())].to_vec();
        let old = shown(*first, first + count);
        prop_assume!(case.times() == 1 && both.times() == 1 && case.intended() != case.original());
        prop_assume!(both.lines.windows(old.len().max(1)).filter(|window| **window == old).count() == 1);
        let above = first.saturating_sub(other.context.0);
        let mut changed = second[above..*first].to_vec();
        changed.extend(new.iter().cloned());
        changed.extend(second[first + count..(first + count + other.context.1).min(second.len())].iter().cloned());
        let block = |old: &[String], new: &[String]| {
            format!("<<<<<<< SEARCH\n{}=======\n{}>>>>>>> REPLACE\n\n", joined(old, ""), joined(new, ""))
        };
        let update = block(&old, &changed) + &block(&case.lines_before(), &case.lines_after());
        let outcome = applied(Format::SearchReplace, &both.original(), &update);
        prop_assert_eq!(outcome.map_err(|refused| refused.to_string()), Ok(case.text(&intended)));
    }
}

/// Lines that formats are made of, in any order.
fn hostile() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        Just("<<<<<<< SEARCH"),
        Just("======="),
        Just(">>>>>>> REPLACE"),
        Just("------- SEARCH"),
        Just("+++++++ REPLACE"),
        Just(":start_line:0"),
        Just(":start_line:99999999999999999999"),
        Just("-------"),
        Just("--- a/x"),
        Just("+++ b/x"),
        Just("--- /dev/null"),
        Just("+++ /dev/null"),
        Just("@@ -1,2 +1,2 @@"),
        Just("@@ -0,0 +1 @@"),
        Just("@@"),
        Just("@@ a"),
        Just("diff --git a/x b/y"),
        Just("*** Begin Patch"),
        Just("*** Update File: x"),
        Just("*** Add File: y"),
        Just("*** Delete File: z"),
        Just("*** Move to: w"),
        Just("*** End of File"),
        Just("*** End Patch"),
        Just("..."),
        Just("```"),
        Just("```rust"),
        Just("~~~~"),
        Just("\\ No newline at end of file"),
        Just(" a"),
        Just("-a"),
        Just("+b"),
        Just("a"),
        Just("b"),
        Just("\ta"),
        Just("é"),
        Just(""),
        Just("  "),
        Just("{\"old_string\": \"a\", \"new_string\": \"\"}"),
        Just("// ... existing code ..."),
    ];
    prop::collection::vec(line, 0..14).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(3000) })]

    #[test]
    fn nothing_panics_whatever_is_written(original in prop_oneof![hostile(), ".{0,40}", "(\r?\n|a|\u{feff}){0,8}"], update in prop_oneof![hostile(), ".{0,80}"]) {
        let Ok(source) = Source::read(original.as_bytes()) else { return Ok(()) };
        let update = unwrapped(&update);
        detect(&source, update);
        for format in [Format::SearchReplace, Format::StringReplace, Format::UnifiedDiff, Format::V4a, Format::WholeFile] {
            for path in [None, Some("x")] {
                let options = Options { path: path.map(str::to_owned), ..Options::default() };
                if let Ok(located) = locate(format, &source, update, &options, Asked::Sure)
                    && let Ok(splices) = in_order(located.splices, |byte| source.line_of(byte))
                {
                    source.with(&splices);
                    crate::source::edits(&source, &splices);
                }
            }
        }
        drop(super::Patch::read(update));
    }
}
