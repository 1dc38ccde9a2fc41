//! What holds for every file and every update, made of few lines so that lines are met again.
//!
//! Invariant: nothing panics, nothing comes from elsewhere, and what was merged stays merged.

use proptest::prelude::*;
use std::collections::BTreeSet;
use tokrate_apply::{Format, Merged, Options, Outcome, merge};

const LINES: &[&str] = &[
    "fn one() {",
    "fn two() {",
    "    first();",
    "    second(1);",
    "    let name = third();",
    "    let name = fourth();",
    "        deeper();",
    "}",
    "    }",
    "",
    "",
    "// a comment of some words",
    "use std::io;",
    "use std::fmt;",
    "{",
    "    ]",
    "\"key\": 1,",
    "\"key\": 2,",
    "- item",
    "<a>",
    "é — ü",
];
const MARKERS: &[&str] = &[
    "// ... existing code ...",
    "# ...",
    "    // ... rest of the function",
    "<!-- ... unchanged ... -->",
    "// remove one",
];
/// Markers inside of lines.
const GAPS: &[&str] =
    &["fn one() { // ... existing code ...", "    second(/* ... existing ... */);", "    first(); # ... same ..."];

fn file() -> impl Strategy<Value = String> {
    // A file may have lines that read like markers.
    let line = prop_oneof![40 => prop::sample::select(LINES), 1 => prop::sample::select(MARKERS)];
    let lines = prop::collection::vec(line, 0..24);
    (lines, prop::sample::select(vec!["\n", "\r\n"]), any::<bool>()).prop_map(|(lines, end, closed)| {
        let text = lines.join(end);
        if closed && !text.is_empty() { text + end } else { text }
    })
}

fn update() -> impl Strategy<Value = String> {
    let line = prop_oneof![12 => prop::sample::select(LINES), 4 => prop::sample::select(MARKERS), 1 => prop::sample::select(GAPS)];
    prop::collection::vec(line, 0..16).prop_map(|lines| lines.join("\n") + "\n")
}

/// The lines of a text, without their indentation.
fn lines(text: &str) -> BTreeSet<&str> {
    text.trim_start_matches('\u{feff}').lines().map(str::trim).collect()
}

fn merged(original: &str, update: &str, options: &Options) -> Option<Merged> {
    match merge(original.as_bytes(), update.as_bytes(), options) {
        Outcome::Merged(merged) => Some(merged),
        Outcome::Refused(refused) => {
            assert!(!refused.message.is_empty() && !refused.hint.is_empty(), "{refused:?}");
            let count = original.lines().count().max(1);
            assert!(
                refused.candidates.iter().all(|&(first, last)| 0 < first && first <= last && last <= count),
                "{refused:?}"
            );
            None
        }
    }
}

fn is_snippet(format: Format) -> bool {
    matches!(format, Format::Lazy | Format::Fragment | Format::WholeFile)
}

proptest! {
    // Refusals are drawn anew, so that each case has looked at a merge; fifty refusals for each merge would be too many.
    #![proptest_config(ProptestConfig { cases: 2000, max_global_rejects: 100_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_line_is_one_of_the_file_or_of_the_update(original in file(), update in update(), path in prop::sample::select(vec!["a.rs", "a.py", "a.txt"])) {
        let options = Options { path: Some(path.to_owned()), ..Options::default() };
        let Some(merged) = merged(&original, &update, &options) else { return Err(TestCaseError::reject("refused")) };
        let known: BTreeSet<&str> = lines(&original).union(&lines(&update)).copied().collect();
        prop_assert!(lines(&merged.text).is_subset(&known), "{:?}", merged.text);
        prop_assert_eq!(merged.text.contains("\r\n"), original.contains("\r\n") && merged.text.contains('\n'));
    }

    #[test]
    fn what_was_merged_stays_merged(original in file(), update in update(), path in prop::sample::select(vec!["a.rs", "a.txt"])) {
        let options = Options { path: Some(path.to_owned()), ..Options::default() };
        let Some(first) = merged(&original, &update, &options) else { return Err(TestCaseError::reject("refused")) };
        // What asks to remove a name is a comment once the name is gone.
        prop_assume!(is_snippet(first.how.format) && !update.contains("// remove"));
        if let Some(second) = merged(&first.text, &update, &options) {
            prop_assert_eq!(second.text, first.text);
        }
    }

    #[test]
    fn bytes_of_any_kind_are_merged_or_refused(original in prop::collection::vec(any::<u8>(), 0..200), update in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = merge(&original, &update, &Options::default());
    }
}
