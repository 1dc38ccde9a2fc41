//! What updates begin as, and what they are unwrapped from.

use super::*;

fn format(original: &str, update: &str) -> Format {
    detect(&Source::read(original.as_bytes()).expect("text"), update)
}

#[test]
fn each_format_is_told_by_how_it_begins() {
    for (update, expected) in [
        ("*** Begin Patch\n*** Update File: a\n@@\n-a\n+b\n*** End Patch", Format::V4a),
        ("\n*** Update File: a\n-a\n+b", Format::V4a),
        ("<<<<< SEARCH\na\n=====\nb\n>>>>> REPLACE", Format::SearchReplace),
        ("src/a.rs\n```rust\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n```", Format::SearchReplace),
        ("------- SEARCH\na\n=======\nb\n+++++++ REPLACE", Format::SearchReplace),
        ("--- a\n+++ b\n@@ -1 +1 @@\n-a\n+b", Format::UnifiedDiff),
        ("diff --git a/a b/a\n--- a/a\n+++ b/a\n@@\n-a\n+b", Format::UnifiedDiff),
        ("@@ ... @@\n-a\n+b", Format::UnifiedDiff),
        ("@@ -1,2 +1,2 @@ fn a\n-a\n+b", Format::UnifiedDiff),
        ("{\"old_string\": \"a\", \"new_string\": \"b\"}", Format::StringReplace),
        ("[{\"old_str\": \"a\", \"new_str\": \"b\"}]", Format::StringReplace),
        ("{\"path\": \"x\", \"edits\": [{\"oldText\": \"a\", \"newText\": \"b\"}]}", Format::StringReplace),
        ("a\n// ... existing code ...\n", Format::Lazy),
        ("b\n", Format::Fragment),
    ] {
        assert_eq!(format("a\nb\nc\n", update), expected, "{update}");
    }
}

#[test]
fn signs_further_in_are_content() {
    for update in [
        "# How to edit\n\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n",
        "const DIFF: &str = \"\n--- a\n+++ b\n@@ -1 +1 @@\n-a\n+b\n\";\n",
        "---\ntitle: x\n---\n",
        "@@count = 1\n",
        "@@ a macro @@ b\nno diff\n",
        "{\"name\": \"old_string\"}",
        "{\"old_string\": \"a\", \"new_string\": \"b\", \"other\": 1}",
        "=======\n",
        "<<<<<<< HEAD\na\n=======\nb\n>>>>>>> branch\n",
        "------- \nSEARCH\n",
    ] {
        assert_eq!(format("x\ny\nz\n", update), Format::Fragment, "{update}");
    }
}

#[test]
fn a_file_that_begins_as_a_format_is_a_text() {
    let patch = "--- a\n+++ b\n@@ -1 +1 @@\n-a\n+b\n";
    assert_eq!(format(patch, &patch.replace("+b", "+c")), Format::WholeFile);
    assert_eq!(format(patch, "--- x.diff\n+++ x.diff\n@@ -5 +5 @@\n-+b\n++c\n"), Format::UnifiedDiff);
}

#[test]
fn a_whole_file_has_most_lines_and_both_edges() {
    let file = "use a;\n\nfn a() {\n    1\n}\n\nfn b() {\n    2\n}\n";
    assert_eq!(format(file, &file.replace('1', "3")), Format::WholeFile);
    assert_eq!(format("", "anything\n"), Format::WholeFile);
    assert_eq!(format("\n\n", "anything\n"), Format::WholeFile);
    assert_eq!(format(file, "use a;\n\nfn b() {\n    2\n}\n"), Format::Fragment, "too short");
    // One edge is new, what stood there stands next to it.
    assert_eq!(format(file, &format!("use new;\n{file}")), Format::WholeFile);
    assert_eq!(format(file, &format!("{file}\nfn c() {{\n    3\n}}\n// end\n")), Format::WholeFile);
    assert_eq!(format(file, &file.replace("use a", "use z")), Format::WholeFile);
    // An excerpt from the second line on.
    assert_eq!(format(file, file.strip_prefix("use a;\n\n").expect("it begins so")), Format::Fragment);
    assert_eq!(format(file, "x\ny\nz\nu\nv\nw\ns\nt\n"), Format::Fragment, "nothing in common");
}

/// A file of fifty lines that tell much.
fn long_file() -> String {
    (0..50).map(|at| format!("line number {at} of the file\n")).collect()
}

#[test]
fn a_long_file_is_whole_though_its_first_lines_go() {
    let file = long_file();
    let without_head = file.split_once('\n').expect("several lines").1;
    assert_eq!(format(&file, without_head), Format::WholeFile);
    let other_head = format!("use {{\n    something,\n}};\n{without_head}");
    assert_eq!(format(&file, &other_head), Format::WholeFile);
    let other_tail = file.replace("line number 49 of the file", "something else at the end\nand more of it");
    assert_eq!(format(&file, &other_tail), Format::WholeFile);
    // The last line says little, and much is new above it.
    let closed = format!("{file}}});\n");
    let more: String = (0..20).map(|at| format!("    a new line {at}\n")).collect();
    assert_eq!(format(&closed, &format!("use {{\n    other,\n}};\n{without_head}{more}}});\n")), Format::WholeFile);
}

#[test]
fn a_long_file_that_was_cut_is_not_whole() {
    let file = long_file();
    let lines: Vec<&str> = file.lines().collect();
    assert_eq!(format(&file, &lines[..47].join("\n")), Format::Fragment, "it ends with a line from further up");
    let within_a_line = format!("{}\nline number 48 of", lines[..48].join("\n"));
    assert_eq!(format(&file, &within_a_line), Format::Fragment, "it ends within a line");
}

#[test]
fn lines_of_the_file_that_read_like_markers_make_no_snippet() {
    let file = "a first line\n// ... existing code ...\na second line\na third line\n";
    assert_eq!(format(file, &file.replace("second", "2nd")), Format::WholeFile);
    assert_eq!(format(file, &format!("{file}// ... existing code ...\n")), Format::Lazy, "one more than the file has");
    assert_eq!(format(file, "a first line\n// ... rest ...\n"), Format::Lazy);
}

#[test]
fn one_fence_around_everything_is_taken_off() {
    for (update, expected) in [
        ("```rust\na\nb\n```\n", "a\nb\n"),
        ("\n~~~\na\n~~~", "a\n"),
        ("src/a.rs\n```rust\na\n```", "a\n"),
        ("**src/a.rs**\n\n```\na\n```\n\n", "a\n"),
        ("````md\n```\na\n```\n````", "```\na\n```\n"),
        ("```md\n# T\n```js\na\n```\nb\n```", "# T\n```js\na\n```\nb\n"),
        ("```ts\n// filepath: src/a.ts\na\n```", "a\n"),
        (
            "Here is the edit:\n\n```rust\na\n// ... existing code ...\n```\nThat is all.\n",
            "a\n// ... existing code ...\n",
        ),
    ] {
        assert_eq!(unwrapped(update), expected, "{update}");
    }
}

#[test]
fn what_may_be_content_stays() {
    for update in [
        "a\nb\n",
        "",
        "\n\n",
        "```\na\n",
        "```js\na\n```\ntext\n```py\nb\n```\n",
        "# Title\n\n```js\na\n```\n",
        "Run it:\n\n```sh\nmake\n```\n",
        "// src/a.ts\na\n",
        "src/a.rs\na\n",
        "  indented\n",
        "Use `a`:\n```\na\n```\n\n// ... existing code ...\n",
    ] {
        assert_eq!(unwrapped(update), update, "{update}");
    }
}

#[test]
fn an_answer_with_parts_of_a_text_in_fences_is_none_of_it() {
    let file = "alpha one\nbeta two\ngamma three\ndelta four\nepsilon five\nzeta six\n";
    let answer = "Here is the first part:\n```\nalpha one\nbeta 2\ngamma three\n```\nAnd the second:\n```\ndelta four\nepsilon five\nzeta 6\n```\n";
    for path in ["notes.txt", "notes.md"] {
        let crate::Outcome::Refused(refused) = crate::edit(path, file, answer, None) else { panic!("{path}") };
        assert_eq!(refused.code, crate::Code::InvalidFormat);
    }
    let page = "alpha one\nbeta two\n\n```sh\nrun it now\n```\n\ngamma three\ndelta four\nepsilon five\nzeta six\n";
    assert!(matches!(crate::edit("notes.md", file, page, None), crate::Outcome::Merged(_)), "a fence that is new");
}
