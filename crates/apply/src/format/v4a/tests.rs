//! Patches of one file and of several.

use super::*;
use crate::format::Format;
use crate::format::properties::applied as made;
use std::fmt::Write;

fn applied(original: &str, blocks: &str) -> Result<String, String> {
    let update = format!("*** Begin Patch\n*** Update File: x.py\n{blocks}*** End Patch\n");
    made(Format::V4a, original, &update).map_err(|refused| format!("{refused} {:?}", refused.candidates))
}

const FILE: &str = "class A:\n    def f(self):\n        return 1\n\n    def g(self):\n        return 1\n\nclass B:\n    def f(self):\n        return 1\n";

#[test]
fn headers_narrow_the_range_and_stack() {
    let change = "-        return 1\n+        return 2\n";
    assert!(applied(FILE, &format!("@@\n{change}")).is_err());
    assert!(applied(FILE, &format!("@@ class A:\n{change}")).is_err(), "still two");
    assert!(applied(FILE, &format!("@@ def f(self):\n{change}")).is_err(), "one in each class");
    let expected = |at: usize| {
        let mut lines: Vec<&str> = FILE.lines().collect();
        lines[at] = "        return 2";
        Ok(lines.join("\n") + "\n")
    };
    assert_eq!(applied(FILE, &format!("@@ class B:\n{change}")), expected(9));
    assert_eq!(applied(FILE, &format!("@@ class A:\n@@ def f(self):\n{change}")), expected(2));
    assert_eq!(
        applied(FILE, &format!("@@ class A\n@@     def g(self)\n{change}")),
        expected(5),
        "the end of the line left out"
    );
    assert_eq!(applied(FILE, &format!("@@ def g(self):\n{change}")), expected(5));
    assert_eq!(applied(FILE, &format!("@@\n{change}*** End of File\n")), expected(9));
}

#[test]
fn a_block_that_stands_once_needs_no_header() {
    assert_eq!(applied("a\nb\n", "-b\n+c\n"), Ok("a\nc\n".into()), "no sign of a block");
    assert_eq!(applied("a\nb\nx\n", "@@ nowhere\n-b\n+c\n"), Ok("a\nc\nx\n".into()));
    assert!(applied("a\nb\nx\n", "@@ x\n-b\n+c\n").is_err(), "it stands above its header");
    assert_eq!(applied("a\nb\nx\n", "@@\n-a\n+1\n@@\n b\n-x\n+2\n"), Ok("1\nb\n2\n".into()));
}

#[test]
fn braces_belong_to_their_header() {
    let file = "int f(void)\n{\n    go();\n}\n\nint g(void)\n{\n    go();\n}\n";
    assert_eq!(applied(file, "@@ int f(void)\n-    go();\n+    stop();\n"), Ok(file.replacen("go", "stop", 1)));
}

#[test]
fn files_are_made_and_not_deleted_here() {
    let source = |text: &str| Source::read(text.as_bytes()).expect("text");
    let add = "*** Begin Patch\n*** Add File: x\n+a\n+\n+b\n*** End Patch";
    assert_eq!(locate(&source(""), add).map(|it| it.splices[0].new.clone()), Ok("a\n\nb\n".into()));
    assert!(locate(&source("a\n"), add).is_err());
    assert!(locate(&source("a\n"), "*** Begin Patch\n*** Delete File: x\n*** End Patch").is_err());
}

#[test]
fn headers_may_stand_behind_white_space_where_no_content_can() {
    let file = "    a\n    b\n";
    let made = |update: &str| made(Format::V4a, file, update).map_err(|it| it.to_string());
    let padded = "  *** Begin Patch\n  *** Update File: x.py\n@@\n-    b\n+    c\n  *** End Patch\n";
    assert_eq!(made(padded), Ok("    a\n    c\n".into()));
    let shifted =
        "    *** Begin Patch\n    *** Update File: x.py\n    @@\n         a\n    -    b\n    +    c\n    *** End Patch";
    assert_eq!(made(shifted), Ok("    a\n    c\n".into()));
    let file = "*** Update File: y\nb\n";
    let context = "*** Begin Patch\n*** Update File: x.txt\n *** Update File: y\n-b\n+c\n*** End Patch\n";
    assert_eq!(
        super::super::properties::applied(Format::V4a, file, context).ok(),
        Some("*** Update File: y\nc\n".into())
    );
}

#[test]
fn refusals_say_where_and_what_to_do() {
    let mut text = String::new();
    let cases = [
        ("several places", "@@\n-        return 1\n+        return 2\n"),
        ("several in the range", "@@ class A:\n-        return 1\n+        return 2\n"),
        ("no such header", "@@ class C:\n-        return 1\n+        return 2\n"),
        ("no place", "@@ class B:\n     def f(self):\n-        return 3\n+        return 2\n"),
        ("above its header", "@@ class B:\n     def g(self):\n-        return 1\n+        return 2\n"),
        ("no line of the file", "@@ class B:\n+    x = 1\n"),
        ("no change", "@@ class B:\n     def f(self):\n"),
        ("unknown section", "*** Rename File: x\n"),
    ];
    for (what, blocks) in cases {
        let refused = applied(FILE, blocks).expect_err(what);
        writeln!(text, "{what}:\n  {refused}").expect("a string takes all");
    }
    insta::assert_snapshot!(text);
}

#[test]
fn a_patch_without_its_end_is_refused_as_cut_off() {
    let file = "def b():\n    return 2\n";
    let cut = "*** Begin Patch\n*** Update File: x.py\n@@ def b():\n-    return 2\n";
    let crate::Outcome::Refused(refused) = crate::edit("x.py", file, cut, None) else { panic!("it does not end") };
    assert!(refused.message.contains("cut off"), "{refused}");
    let whole = format!("{cut}+    return 3\n*** End Patch\n");
    assert!(matches!(crate::edit("x.py", file, &whole, None), crate::Outcome::Merged(_)));
}
