//! How much work an update can ask for: little, or it is refused.
//!
//! It does not measure speed. Invariant: sizes are such that work which grows with their square would take minutes or
//! hours, and the bound is far above what linear work takes.

use std::fmt::Write;
use std::time::{Duration, Instant};
use tokrate_apply::{Code, Format, Merged, Options, Outcome, Refused, merge};

/// Far above what each of these takes: 15 s in an unoptimised build on two shared processors, and machines are four times as slow.
const BOUND: Duration = Duration::from_secs(120);
/// Edits of an update. Twenty times as many, about what fits into one, take twenty times as long.
const MANY: usize = 50_000;

fn ended(original: &str, update: &str, path: Option<&str>) -> Outcome {
    let options = Options { path: path.map(str::to_owned), ..Options::default() };
    let begun = Instant::now();
    let outcome = merge(original.as_bytes(), update.as_bytes(), &options);
    let took = begun.elapsed();
    assert!(took < BOUND, "{} bytes on {} took {took:?}", update.len(), original.len());
    outcome
}

fn merged(original: &str, update: &str) -> Merged {
    match ended(original, update, None) {
        Outcome::Merged(merged) => merged,
        Outcome::Refused(refused) => panic!("{refused}"),
    }
}

fn refused(original: &str, update: &str) -> Refused {
    match ended(original, update, None) {
        Outcome::Merged(_) => panic!("merged"),
        Outcome::Refused(refused) => refused,
    }
}

/// Numbered lines of a width, so that each stands once.
fn numbered(count: usize, width: usize) -> String {
    (0..count).fold(String::new(), |mut text, number| {
        writeln!(text, "{number:0width$x}").expect("a string takes everything");
        text
    })
}

/// A part for each number.
fn repeated(count: usize, part: impl Fn(&mut String, usize) -> std::fmt::Result) -> String {
    (0..count).fold(String::new(), |mut text, number| {
        part(&mut text, number).expect("a string takes everything");
        text
    })
}

#[test]
fn many_new_lines_for_a_large_file_are_refused_before_they_are_looked_for() {
    // 20 MB and 2,000 lines: 40 GB would be searched.
    let original = numbered(20_000, 1_000);
    let marker = "// ... existing code ...\n";
    let new = repeated(2_000, |text, number| writeln!(text, "let new_{number} = {number};"));
    let shown: String = original.lines().skip(100).take(2).flat_map(|line| [line, "\n"]).collect();
    let refused = refused(&original, &format!("{marker}{shown}{new}{marker}"));
    assert_eq!(refused.code, Code::TooLarge, "{refused}");
    assert!(refused.message.contains("new lines are too many for a file"), "{refused}");
    // A few are looked for.
    let few: String = new.lines().take(3).flat_map(|line| [line, "\n"]).collect();
    let outcome = ended(&original, &format!("{marker}{shown}{few}{marker}"), None);
    assert!(!matches!(&outcome, Outcome::Refused(refused) if refused.code == Code::TooLarge), "{outcome:?}");
}

#[test]
fn a_line_for_a_file_of_50_megabytes_ends() {
    let refused = refused(&numbered(100_000, 500), "one line that is nowhere\n");
    assert_eq!(refused.code, Code::NoAnchor, "{refused}");
}

#[test]
fn a_line_between_two_of_a_large_file_ends() {
    let original = numbered(50_000, 100);
    let mut lines = original.lines().skip(33_333);
    let (line, next) = (lines.next().expect("a line"), lines.next().expect("another"));
    let marker = "// ... existing code ...";
    let merged = merged(&original, &format!("{marker}\n{line}\nand one more\n{next}\n{marker}\n"));
    assert_eq!(merged.text, original.replace(line, &format!("{line}\nand one more")));
}

#[test]
fn many_hunks_of_a_diff_end() {
    let original = numbered(MANY, 5);
    let update = repeated(MANY, |text, number| write!(text, "@@\n-{number:05x}\n+x\n"));
    let merged = merged(&original, &update);
    assert_eq!(merged.how.format, Format::UnifiedDiff);
    assert_eq!(merged.text, "x\n".repeat(MANY));
}

#[test]
fn hunks_that_go_by_their_numbers_end() {
    // Every line is the same: what chooses is the number.
    let original = "a\n".repeat(MANY);
    let update = repeated(MANY, |text, number| write!(text, "@@ -{0} +{0} @@\n-a\n+b\n", number + 1));
    ended(&original, &update, None);
}

#[test]
fn a_hunk_of_many_lines_ends() {
    // Blank lines were written without the space before them: each may be the first that is no part of the hunk.
    let original = "one\n".to_owned() + &"\n".repeat(8 * MANY);
    let count = 8 * MANY + 1;
    let update = format!("@@ -1,{count} +1,{count} @@\n-one\n+two\n{}", "\n".repeat(8 * MANY));
    let merged = merged(&original, &update);
    assert_eq!((merged.how.format, merged.text), (Format::UnifiedDiff, original.replace("one", "two")));
}

#[test]
fn many_blocks_of_search_and_replacement_end() {
    let original = numbered(MANY + 1, 5);
    let block = |text: &mut String, number| write!(text, "<<<<< SEARCH\n{number:05x}\n=====\nx\n>>>>> REPLACE\n");
    let update = repeated(MANY, block);
    let merged = merged(&original, &update);
    assert_eq!(merged.how.format, Format::SearchReplace);
    assert_eq!(merged.text, "x\n".repeat(MANY) + &original[MANY * 6..]);
}

#[test]
fn many_replaced_strings_end() {
    let pair = |text: &mut String, number| write!(text, ",{{\"old_str\":\"{number:04x}\",\"new_str\":\"\"}}");
    let list = |count| format!("[{}]", &repeated(count, pair)[1..]);
    let merged = merged(&numbered(2_000, 4), &list(2_000));
    assert_eq!((merged.how.format, &*merged.text), (Format::StringReplace, &*"\n".repeat(2_000)));
    // Each would be searched for in the whole file.
    let refused = refused(&numbered(60_000, 4), &list(MANY));
    assert_eq!(refused.code, Code::TooLarge, "{refused}");
}

#[test]
fn many_strings_in_one_line_end() {
    let original = repeated(300_000, |text, number| write!(text, "{number:05x} ")) + "\n";
    let update = r#"{"old_string":"0 ","new_string":"1 ","replace_all":true}"#;
    let merged = merged(&original, update);
    assert_eq!(merged.text, original.replace("0 ", "1 "));
}

#[test]
fn many_sections_of_a_patch_end() {
    let original = numbered(MANY, 5);
    let section = |text: &mut String, number| write!(text, "@@ {:05x}\n-{number:05x}\n+x\n", number / 2);
    let update = format!("*** Begin Patch\n*** Update File: a\n{}*** End Patch\n", repeated(MANY, section));
    ended(&original, &update, None);
}

#[test]
fn many_changes_of_a_file_with_a_tree_end() {
    // Just below what is parsed.
    let original = repeated(MANY, |text, number| writeln!(text, "f({number:05x});", number = number));
    let update = repeated(MANY, |text, number| write!(text, "@@\n-f({number:05x});\n+g();\n"));
    ended(&original, &update, Some("a.js"));
}

#[test]
fn many_changes_between_padded_markers_end() {
    // Each third line of the file is shown with a new one below it and the next.
    let original = numbered(15_000, 12);
    let update = repeated(5_000, |text, number| {
        let first = 3 * number;
        write!(text, "\n{first:012x}\n> new {number}\n{:012x}\n\n// ... existing code ...\n", first + 1)
    });
    let merged = merged(&original, &format!("// ... existing code ...\n{update}"));
    assert_eq!(merged.edits.len(), 5_000);
}

#[test]
fn lines_that_stand_everywhere_end() {
    // Each of 8,000 lines stands in 40,000 places: as places, 5 GB.
    let original = "x = 1\ny = 2\n".repeat(40_000);
    let update = format!("# ... existing code ...\n{}z = 3\n# ... existing code ...\n", "x = 1\ny = 2\n".repeat(4_000));
    refused(&original, &update);
}
