//! What a model may do to a file, and what it may not.

use super::accept;
use crate::options::Options;
use crate::outcome::{Code, Stage};

const FILE: &str = "use std::io;\n\nfn one() {\n    first();\n    second();\n}\n\nfn two() {\n    first();\n    third();\n}\n\nconst LIMIT: u32 = 3;\n";
/// Fits in two places, so the engine refuses it.
const UPDATE: &str = "// ... existing code ...\n    first();\n    between();\n// ... existing code ...\n";

fn judged(original: &str, update: &str, given: &str) -> Result<String, (Code, String)> {
    let options = Options { path: Some("a.rs".into()), ..Options::default() };
    accept(original.as_bytes(), update.as_bytes(), given, &options)
        .map(|merged| {
            assert_eq!(merged.how.stage, Stage::Given);
            merged.text
        })
        .map_err(|refused| (refused.code, refused.message))
}

fn with(old: &str, new: &str) -> String {
    assert!(FILE.contains(old));
    FILE.replacen(old, new, 1)
}

#[test]
fn a_merge_that_keeps_to_the_update_is_accepted() {
    let given = with("    first();\n", "    first();\n    between();\n");
    assert_eq!(judged(FILE, UPDATE, &given), Ok(given.clone()));
    // Its own way of ending lines is not the model's to change.
    let crlf = FILE.replace('\n', "\r\n");
    assert_eq!(judged(&crlf, UPDATE, &given), Ok(given.replace('\n', "\r\n")));
    assert_eq!(judged(FILE, UPDATE, given.trim_end()), Ok(given.clone()));
    // A declaration may come between others.
    let update = "// ... existing code ...\nfn between() {\n    fourth();\n}\n// ... existing code ...\n";
    let given = with("\nfn two", "\nfn between() {\n    fourth();\n}\n\nfn two");
    assert_eq!(judged(FILE, update, &given), Ok(given.clone()));
}

#[test]
fn what_nobody_asked_for_is_not_accepted() {
    let good = with("    first();\n", "    first();\n    between();\n");
    for given in [
        FILE.to_owned(),
        good.replace("between();", "between(); // new"),
        good.replace("third();", "forth();"),
        with("    second();\n", ""),
        good.replace("const LIMIT: u32 = 3;\n", ""),
        good.replace("use std::io;\n", ""),
        good.replace("    second();\n}\n", "    second();\n"),
        UPDATE.to_owned(),
    ] {
        judged(FILE, UPDATE, &given).expect_err(&given);
    }
    // Not beside the line that the update shows.
    let update = "// ... existing code ...\n    second();\n    between();\n// ... existing code ...\n";
    judged(FILE, update, &with("    third();\n", "    third();\n    between();\n")).expect_err("elsewhere");
    let given = with("    second();\n", "    second();\n    between();\n");
    assert_eq!(judged(FILE, update, &given), Ok(given.clone()));
}

#[test]
fn no_line_may_be_left_out_of_a_model_s_file() {
    let good = with("    first();\n", "    first();\n    between();\n");
    let lines: Vec<&str> = good.split_inclusive('\n').collect();
    for (at, line) in lines.iter().enumerate() {
        let given = [&lines[..at], &lines[at + 1..]].concat().concat();
        // Of two blank lines or brackets either may be gone: the text is the same.
        let is_told = line.chars().any(char::is_alphanumeric);
        assert!(!is_told || judged(FILE, UPDATE, &given).is_err(), "{given}");
    }
}

#[test]
fn a_text_without_a_grammar_is_held_against_the_update() {
    let given = with("    first();\n", "    first();\n    between();\n");
    let options = Options { path: Some("a.txt".into()), ..Options::default() };
    assert!(accept(FILE.as_bytes(), UPDATE.as_bytes(), &given, &options).is_ok());
    let lost = given.replace("use std::io;\n", "");
    assert!(accept(FILE.as_bytes(), UPDATE.as_bytes(), &lost, &options).is_err());
}

#[test]
fn edits_that_name_their_lines_are_not_left_to_a_model() {
    let given = with("    third();\n", "    fourth();\n");
    let update = "<<<<<<< SEARCH\n  thirdd();\n=======\n  fourth();\n>>>>>>> REPLACE\n";
    let (code, _) = judged(FILE, update, &given).expect_err("the search does not stand in the file");
    assert_eq!(code, Code::InvalidFormat);
}
