//! Texts that a snippet may make of a file, and such that break the law.

use super::{Breach, check};
use crate::lazy::Snippet;

const FILE: &str = "head one\n  first line\n  second line\n  third line\nend one\nhead two\n  other line\nend two";

fn checked(update: &str, merged: &str) -> Result<(), Breach> {
    let lines = |text: &'static str| text.lines().collect::<Vec<_>>();
    let merged: Vec<&str> = merged.lines().collect();
    check(&lines(FILE), &Snippet::read(update, |_| false), &merged)
}

#[test]
fn a_line_between_two_that_are_shown_together_goes() {
    let update = "// ...\n  first line\n  third line\n// ...\n";
    assert_eq!(checked(update, &FILE.replace("  second line\n", "")), Ok(()));
}

#[test]
fn a_line_beside_a_marker_does_not_go() {
    let update = "// ...\n  first line\n  new line of all\n// ...\n";
    assert_eq!(checked(update, &FILE.replace("  second line", "  new line of all")), Err(Breach::Lost(2)));
    assert_eq!(checked(update, &FILE.replace("  second line", "  new line of all\n  second line")), Ok(()));
}

#[test]
fn a_line_beside_a_marker_goes_for_one_of_its_name() {
    let old = "a {\n  timeout: 30,\n  retries: 2,\n}";
    let update = "// ...\na {\n  timeout: seconds(60),\n// ...\n";
    let merged = old.replace("30", "seconds(60)");
    let snippet = Snippet::read(update, |_| false);
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let (old, merged) = (lines(old), lines(&merged));
    let [old, merged] = [&old, &merged].map(|lines| lines.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(check(&old, &snippet, &merged), Ok(()));
}

#[test]
fn a_line_of_the_file_at_an_edge_is_not_written_a_second_time() {
    let update = "// ...\n  other line\n  new line\nend one\n// ...\n";
    let merged = FILE.replace("end one", "  other line\n  new line\nend one");
    assert_eq!(checked(update, &merged), Err(Breach::Inserted(6)));
}

#[test]
fn a_part_that_the_file_has_does_not_come_twice() {
    let update = "// ...\nhead two\n  other line\n// ...\n";
    let merged = format!("{FILE}\nhead two\n  other line");
    assert_eq!(checked(update, &merged), Err(Breach::Twice(5)));
}

#[test]
fn a_line_that_a_marker_stands_for_does_not_go() {
    let update = "// ...\n  first line\n  new line\n  second line\n// ...\n";
    let merged = FILE.replace("  second line", "  new line\n  second line");
    assert_eq!(checked(update, &merged), Ok(()));
    for line in ["head one\n", "  third line\n", "  other line\n"] {
        assert!(checked(update, &merged.replace(line, "")).is_err(), "{line}");
    }
}

#[test]
fn many_equal_parts_are_checked_in_bounded_time() {
    let file: Vec<&str> = std::iter::repeat_n("same", 3_000).collect();
    let update = "same\n// ...\n".repeat(500);
    // Either answer is right, if it comes.
    let _ = check(&file, &Snippet::read(&update, |_| false), &file);
}
