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
    let between = "    first();\n    between();\n";
    let good = with("    first();\n", between);
    for (given, code, expected) in [
        (FILE.to_owned(), Code::NotAnEdit, "is the original"),
        (
            good.replace("between();", "between(); // new"),
            Code::MarkerUnresolved,
            "neither in the file nor in the update",
        ),
        (good.replace("third();", "forth();"), Code::MarkerUnresolved, "neither in the file nor in the update"),
        (with("    second();\n", ""), Code::MarkerUnresolved, "left out `between();`"),
        (
            good.replace("const LIMIT: u32 = 3;\n", ""),
            Code::AmbiguousLocation,
            "line 13: the model changed a line outside",
        ),
        (good.replace("use std::io;\n", ""), Code::AmbiguousLocation, "line 1: the model changed a line outside"),
        (good.replace("    second();\n}\n", "    second();\n"), Code::SyntaxRegression, "syntax error"),
        (UPDATE.to_owned(), Code::MarkerUnresolved, "marker"),
    ] {
        let (was, message) = judged(FILE, UPDATE, &given).expect_err(&given);
        assert!(was == code && message.contains(expected), "{given}\n{was:?}: {message}");
    }
    // Into a function of which the update shows nothing.
    let update = "// ... existing code ...\n    second();\n    between();\n// ... existing code ...\n";
    let (code, message) =
        judged(FILE, update, &with("    third();\n", "    third();\n    between();\n")).expect_err("elsewhere");
    assert!(code == Code::AmbiguousLocation && message.contains("shows no line"), "{message}");
    let given = with("    second();\n", "    second();\n    between();\n");
    assert_eq!(judged(FILE, update, &given), Ok(given.clone()));
}

#[test]
fn what_cannot_be_checked_is_not_accepted() {
    let given = with("    first();\n", "    first();\n    between();\n");
    for options in [
        Options::default(),
        Options { path: Some("a.txt".into()), ..Options::default() },
        Options { path: Some("a.rs".into()), without_tree: true, ..Options::default() },
    ] {
        let refused = accept(FILE.as_bytes(), UPDATE.as_bytes(), &given, &options).expect_err("unchecked");
        assert!(refused.message.contains("cannot be checked"), "{}", refused.message);
    }
    let broken = FILE.replacen("fn one() {", "fn one( {", 1);
    let given = broken.replacen("    first();\n", "    first();\n    between();\n", 1);
    let (code, _) = judged(&broken, UPDATE, &given).expect_err("the original does not parse");
    assert_eq!(code, Code::SyntaxRegression);
}

#[test]
fn edits_in_other_formats_are_held_against_their_own_lines() {
    let given = with("    third();\n", "    fourth();\n");
    for update in [
        "<<<<<<< SEARCH\n  thirdd();\n=======\n  fourth();\n>>>>>>> REPLACE\nfn two() {\n",
        "{\"old_string\": \"fn two() {\\n  third()\", \"new_string\": \"fn two() {\\n    fourth();\"}",
        "@@ -9,2 +9,2 @@\n fn two() {\n-    thirdd();\n+    fourth();\n",
    ] {
        assert_eq!(judged(FILE, update, &given), Ok(given.clone()), "{update}");
        assert!(judged(FILE, update, &given.replace("fourth", "fifth")).is_err());
    }
}
