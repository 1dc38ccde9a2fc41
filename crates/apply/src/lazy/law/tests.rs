//! Texts that a snippet may make of a file, and such that break the law.

use super::Breach;
use crate::lazy::Snippet;
use crate::source::Source;

const FILE: &str = "head one\n  first line\n  second line\n  third line\nend one\nhead two\n  other line\nend two";

fn check(original: &[&str], snippet: &Snippet<'_>, merged: &[&str]) -> Result<(), Breach> {
    let merged: String = merged.iter().flat_map(|line| [*line, "\n"]).collect();
    super::check(&Source::of_lines(original.iter().copied()), snippet, &merged)
}

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

/// What comes of a text that an update is said to make of a file.
fn held(file: &str, update: &str, merged: &str) -> Result<(), Breach> {
    let [file, merged] = [file, merged].map(|text| text.lines().collect::<Vec<_>>());
    check(&file, &Snippet::read(update, |_| false), &merged)
}

#[test]
fn an_end_that_is_only_like_a_line_of_the_file_takes_no_other_line_with_it() {
    let file = "def main(args):\n    load()\n    unshown = Info()\n    return main(args)\n\n\ndef last():\n    pass";
    let update = "# ...\ndef make(name):\n    load()\n    return make(name)\n\n\n# ...\n";
    let merged = "def make(name):\n    load()\n    return make(name)\n\n\ndef last():\n    pass";
    assert!(held(file, update, merged).is_err());
}

#[test]
fn a_bracket_that_is_not_the_end_of_a_part_takes_no_line_with_it() {
    let file = "for user in users {\n  write(user.mail);\n  }\n  unshown();\n});\n\nlisten(3000);";
    let update = "// ...\n  write(user.mail);\n});\n  }\n\n// ...\n";
    let merged = "for user in users {\n  write(user.mail);\n});\n  }\n\nlisten(3000);";
    assert_eq!(held(file, update, merged), Err(Breach::Lost(2)));
    // The same bracket at the end says that what is above it goes.
    let update = "// ...\n  write(user.mail);\n});\n// ...\n";
    assert_eq!(held(file, update, "for user in users {\n  write(user.mail);\n});\n\nlisten(3000);"), Ok(()));
}

#[test]
fn one_bracket_does_not_stand_for_another() {
    let file = "call(\n  first,\n)\nnext(one)";
    let update = "// ...\n  first,\n]\n// ...\n";
    assert_eq!(held(file, update, "call(\n  first,\n]\nnext(one)"), Err(Breach::Lost(2)));
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

#[test]
fn lines_that_both_texts_have_are_not_read_again() {
    let lines = ["", "a", "a\nb", "a\nb\na", "\n", "b\n\na", "a\na\na", "b", "a\nb\nc\nb\na"];
    for old in lines.map(|text| if text.is_empty() { String::new() } else { format!("{text}\n") }) {
        for new in lines.iter().flat_map(|text| [(*text).to_owned(), format!("{text}\n")]) {
            let source = Source::of_lines(old.split_terminator('\n'));
            let (same, middle) = super::changed(&source, &new);
            let all = source.lines().collect::<Vec<_>>();
            let made = [&all[..same.start], &middle, &all[same.end..]].concat();
            assert_eq!(made, new.split_terminator('\n').collect::<Vec<_>>(), "{old:?} {new:?}");
        }
    }
}
