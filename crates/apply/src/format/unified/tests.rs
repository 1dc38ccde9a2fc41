//! Diffs with right, wrong and missing numbers.

use super::*;
use crate::format::Format;
use crate::format::properties::applied as made;
use std::fmt::Write;

fn applied(original: &str, update: &str) -> Result<String, String> {
    made(Format::UnifiedDiff, original, update).map_err(|refused| format!("{refused} {:?}", refused.candidates))
}

const HEAD: &str = "--- a/x.rs\n+++ b/x.rs\n";

#[test]
fn numbers_are_read() {
    assert_eq!(numbers("@@ -12,5 +13,6 @@ fn a()"), Some((12, 5, 6)));
    assert_eq!(numbers("@@ -1 +1 @@"), Some((1, 1, 1)));
    assert_eq!(numbers("@@ -a +1 @@"), None);
    assert_eq!(numbers("@@ fn a() @@"), None);
}

#[test]
fn lines_count_and_numbers_do_not() {
    let update = format!("{HEAD}@@ -700,2 +1 @@\n a\n-b\n+c\n");
    assert_eq!(applied("a\nb\nd\n", &update), Ok("a\nc\nd\n".into()));
    assert_eq!(applied("a\nb\n", "@@\n a\n-b\n+c"), Ok("a\nc\n".into()));
    assert_eq!(applied("a\nb\n", &format!("{HEAD} a\n-b\n+c")), Ok("a\nc\n".into()), "no header of a hunk");
    let two = format!("{HEAD}@@ -1 +1 @@\n-a\n+x\n@@ -9 +9 @@\n-c\n+z\n");
    assert_eq!(applied("a\nb\nc\n", &two), Ok("x\nb\nz\n".into()));
}

#[test]
fn numbers_break_ties_if_the_counts_are_right() {
    let file = "a\nb\n".repeat(2) + &"x\n".repeat(30) + "a\nb\n";
    let at =
        |line: usize, count: usize| applied(&file, &format!("{HEAD}@@ -{line},{count} +{line},2 @@\n a\n-b\n+c\n"));
    assert_eq!(at(35, 2), Ok("a\nb\n".repeat(2) + &"x\n".repeat(30) + "a\nc\n"));
    assert_eq!(at(3, 2), Ok("a\nb\na\nc\n".to_owned() + &"x\n".repeat(30) + "a\nb\n"));
    assert!(at(2, 2).is_err(), "between two");
    assert!(at(35, 3).is_err(), "a count that is wrong");
    assert!(at(20, 2).is_err(), "far from all");
}

#[test]
fn sloppy_context_is_tolerated() {
    assert_eq!(
        applied("fn a() {\n\n    b();\n}\n", &format!("{HEAD}@@\n fn a() {{\n\n-    b();\n+    c();\n }}\n\n")),
        Ok("fn a() {\n\n    c();\n}\n".into())
    );
    assert_eq!(
        applied(
            "fn a() {\n    b();\n    c();\n}\n",
            &format!("{HEAD}@@\nfn a() {{\n    b();\n-    c();\n+    d();\n}}\n")
        ),
        Ok("fn a() {\n    b();\n    d();\n}\n".into()),
        "no space before any line of context"
    );
}

#[test]
fn outer_context_may_be_gone() {
    let file = "first line\nsecond line\nthird line\nfourth line\nfifth line\n";
    let update = format!("{HEAD}@@\n gone\n second line\n-third line\n+3\n fourth line\n");
    assert_eq!(applied(file, &update), Ok(file.replace("third line", "3")));
    let update = format!("{HEAD}@@\n gone\n-third line\n+3\n fourth line\n");
    assert!(applied(file, &update).is_err(), "the only context on its side");
    let update = format!("{HEAD}@@\n first line\n gone\n-third line\n+3\n fourth line\n");
    assert!(applied(file, &update).is_err(), "inner context");
}

#[test]
fn a_new_file_a_deleted_one_and_none() {
    assert_eq!(applied("", "--- /dev/null\n+++ b/x\n@@ -0,0 +1,2 @@\n+a\n+b\n"), Ok("a\nb\n".into()));
    assert!(applied("a\n", "--- /dev/null\n+++ b/x\n@@ -0,0 +1,2 @@\n+a\n+b\n").is_err());
    assert!(applied("a\n", "--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n").is_err());
    let update = format!("{HEAD}@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
    assert!(applied("a", &update).is_err(), "the end of the file stays as it is");
    let update =
        format!("{HEAD}@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n");
    assert_eq!(applied("a\nb\na\nb", &update), Ok("a\nb\na\nc".into()), "the end of the file tells which");
}

#[test]
fn a_line_may_look_like_a_header() {
    let update = format!("{HEAD}@@ -1,2 +1,2 @@\n--- old\n+++ new\n b\n");
    assert_eq!(applied("-- old\nb\n", &update), Ok("++ new\nb\n".into()));
    let mail = format!("diff --git a/x b/x\nindex 1..2\n{HEAD}@@ -1 +1 @@\n-a\n+b\n-- \n2.39.0\n");
    assert_eq!(applied("a\n", &mail), Ok("b\n".into()));
}

#[test]
fn a_diff_of_several_files_is_no_edit_of_one() {
    let update =
        "--- a/src/x.rs\n+++ b/src/x.rs\n@@ -1 +1 @@\n-a\n+b\n--- a/src/y.rs\n+++ b/src/y.rs\n@@ -1 +1 @@\n-c\n+d\n";
    let source = Source::read(b"a\nc\n").expect("text");
    let refused = locate(&source, update).expect_err("two files");
    assert!(refused.message.contains("src/x.rs and src/y.rs") && refused.hint.contains("--patch"), "{refused}");
}

#[test]
fn refusals_say_where_and_what_to_do() {
    let mut text = String::new();
    let file = "fn a() {\n    return nil\n}\nfn b() {\n    return nil\n}\n";
    let cases = [
        ("several places", "@@ -1 +1 @@\n-    return nil\n+    return 1\n"),
        ("no place", "@@ -1,2 +1,2 @@\n fn a() {\n-    return null\n+    return 1\n"),
        ("no line of the file", "@@ -1,0 +1 @@\n+x\n"),
        ("no change", "@@ -1 +1 @@\n fn a() {\n"),
        ("the second hunk", "@@ -1 +1 @@\n-fn a() {\n+fn c() {\n@@ -9 +9 @@\n-fn d() {\n+fn e() {\n"),
        ("several files", "@@ -1 +1 @@\n-a\n+b\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-c\n+d\n"),
    ];
    for (what, update) in cases {
        let refused = applied(file, &format!("{HEAD}{update}")).expect_err(what);
        writeln!(text, "{what}:\n  {refused}").expect("a string takes all");
    }
    insta::assert_snapshot!(text);
}

#[test]
fn a_diff_that_ends_before_what_comes_is_refused_as_cut_off() {
    let file = "def a():\n    return 1\n\ndef b():\n    return 2\n";
    let cut = "--- a/x.py\n+++ b/x.py\n@@ -4,2 +4,3 @@\n def b():\n-    return 2\n";
    let refused = applied(file, cut).expect_err("lines are to come");
    assert!(refused.contains("cut off"), "{refused}");
    let whole = format!("{cut}+    x = 2\n+    return x\n");
    assert!(applied(file, &whole).is_ok());
    // Right counts, and none.
    for header in ["@@ -4,2 +4,1 @@", "@@"] {
        assert!(applied(file, &cut.replace("@@ -4,2 +4,3 @@", header)).is_ok(), "{header}");
    }
}
