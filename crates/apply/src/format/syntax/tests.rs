//! Edits that were not read as such, and texts that are none.

use crate::{Code, Format, Outcome, edit};

const BLOCK: &str = "<<<<<<< SEARCH\na = 1\n=======\na = 2\n>>>>>>> REPLACE\n";
const DIFF: &str = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a = 1\n+a = 2\n";
const HUNK: &str = "@@ -1 +1 @@\n-a = 1\n+a = 2\n";
const V4A: &str = "*** Begin Patch\n*** Update File: x.py\n@@\n-a = 1\n+a = 2\n*** End Patch\n";
const JSON: &str = "{\"old_string\": \"a = 1\", \"new_string\": \"a = 2\"}\n";

fn merged(original: &str, update: &str, format: Option<Format>) -> Result<String, Code> {
    merged_in("x.py", original, update, format)
}

fn merged_in(path: &str, original: &str, update: &str, format: Option<Format>) -> Result<String, Code> {
    match edit(path, original, update, format) {
        Outcome::Merged(merged) => Ok(merged.text),
        Outcome::Refused(refused) => Err(refused.code),
    }
}

#[test]
fn an_edit_below_words_is_never_written_into_a_file() {
    for original in ["", "a = 1\n", "a = 1", "\n\n", "a = 1\nb = 2\nc = 3\n"] {
        for syntax in [BLOCK, DIFF, HUNK, V4A, JSON] {
            for words in ["Here is the edit:\n", "Sure.\n\n", "x = 1\n"] {
                for format in [None, Some(Format::Lazy), Some(Format::Fragment)] {
                    let update = format!("{words}{syntax}");
                    assert_eq!(merged(original, &update, format), Err(Code::InvalidFormat), "{original:?} {update}");
                }
            }
        }
    }
}

#[test]
fn an_edit_that_breaks_its_rules_is_never_written_into_a_file() {
    for update in [
        "<<<<<<< HEAD\na\n=======\nb\n>>>>>>> branch\n",
        "<<<<<<< ORIGINAL\na\n=======\nb\n>>>>>>> UPDATED\n",
        "a = 2\n>>>>>>> REPLACE\n",
        "*** End Patch\n",
        "{\"old_string\": \"a\", \"new_string\": \"b\", \"other\": 1}",
        "{\"path\": \"x\", \"old_string\": \"a\",\n\"new_string\": \"b",
        "{'old_string': 'a', 'new_string': 'b'}",
        "{old_string: `a`, new_string: `b`}",
        "[{\"file\": \"x\", \"old_str\": \"a\", \"new_str\": \"b\"}, ]",
        "{\"command\": \"str_replace\", \"old_str\": \"a\", \"new_str\": \"b\"",
        "{\"command\": \"insert\", \"insert_line\": 1, \"insert_text\": \"b\", \"and\": 1}",
        "{\"edits\": [{\"lines\": \"1:cd20\", \"content\": \"x\", \"why\": \"y\"}]}",
        "{\"edits\": [{\"lines\": \"1:cd20\", \"content\": \"x\"",
        "{\"name\": \"edit\", \"arguments\": {\"old_str\": \"a\", \"new_str\": \"b\"}}",
        "{\"code_edit\": \"b\"}",
        "[{\"search\": \"a\", \"replace\": \"b\"}]",
        "<<<<<<<\na\n=======\nb\n>>>>>>>\n",
        "Fix:\n    <<<<<<< SEARCH\n    a\n    =======\n    b\n    >>>>>>> REPLACE\n",
        "SEARCH\na\n=======\nREPLACE\nb\n",
        "<search>a</search>\n<replace>b</replace>\n",
        "<old_string>a</old_string>\n<new_string>b</new_string>\n",
        "<invoke name=\"str_replace\">\n<parameter name=\"old_str\">a</parameter>\n</invoke>\n",
        "<think>I set b.</think>\nb\n",
        "old_string: a\nnew_string: b\n",
        "*** begin patch\n*** update file: x.py\n@@\n-a\n+b\n*** end patch\n",
        "-a\n+b\n",
        "1c1\n< a\n---\n> b\n",
    ] {
        for original in ["", "a\n"] {
            let refused = merged(original, update, None);
            assert!(refused.is_err(), "{original:?} {update}: {refused:?}");
        }
    }
}

#[test]
fn the_name_of_the_file_above_its_text_is_not_written_into_it() {
    for name in ["x.py", "**x.py**", "`src/x.py`:", "./x.py"] {
        for original in ["", "a = 1\n"] {
            let update = format!("{name}\na = 2\n");
            assert_eq!(merged(original, &update, None), Err(Code::InvalidFormat), "{original:?} {update}");
        }
    }
    assert_eq!(merged("", "# x.py\na = 2\n", None).as_deref(), Ok("# x.py\na = 2\n"));
    assert_eq!(merged("", "x.py\n```\na = 2\n```\n", None).as_deref(), Ok("a = 2\n"));
}

#[test]
fn an_update_that_names_another_file_does_not_fill_an_empty_one() {
    let block = "<<<<<<< SEARCH\n=======\na = 2\n>>>>>>> REPLACE\n";
    let v4a = |name: &str| format!("*** Begin Patch\n*** Add File: {name}\n+a = 2\n*** End Patch\n");
    let diff = |name: &str| format!("--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+a = 2\n");
    for update in [v4a("y.py"), diff("src/y.py"), format!("y.py\n{block}")] {
        assert_eq!(merged("", &update, None), Err(Code::InvalidFormat), "{update}");
    }
    for update in [v4a("x.py"), diff("src/x.py"), format!("x.py\n{block}"), block.to_owned()] {
        assert_eq!(merged("", &update, None).as_deref(), Ok("a = 2\n"), "{update}");
    }
}

#[test]
fn a_fence_that_nothing_closes_is_not_written_into_a_file() {
    let update = "````markdown\n# T\n\n```sh\nmake\n```\n";
    for original in ["", "# T\n\n```sh\nmake\n```\n\nRun it:\n\n```sh\nrun\n```\n"] {
        let refused = edit("x.md", original, update, None);
        assert!(
            matches!(&refused, Outcome::Refused(it) if it.code == Code::InvalidFormat),
            "{original:?}: {refused:?}"
        );
    }
}

#[test]
fn words_above_the_lines_of_a_small_file_are_not_written_into_it() {
    for (original, update) in [("x = 1\n", "Sure, here:\nx = 2\n"), ("x = 1\ny = 1\n", "So:\nx = 2\ny = 2\n")] {
        assert_eq!(merged(original, update, None), Err(Code::NoAnchor), "{update}");
    }
    // Without the grammar nothing says that the one line is the whole file.
    let whole = merged("x = 1\n", "x = 2\n", None);
    assert_eq!(
        whole.as_deref(),
        if cfg!(feature = "all-languages") { Ok("x = 2\n") } else { Err(&Code::AmbiguousLocation) }
    );
}

#[test]
fn a_stated_whole_file_may_hold_an_edit() {
    for syntax in [BLOCK, DIFF, HUNK, V4A, JSON] {
        let update = format!("How to:\n{syntax}");
        // In a language that nothing checks, whatever grammars are built in.
        let whole = merged_in("x.txt", "a = 1\n", &update, Some(Format::WholeFile));
        assert_eq!(whole.as_deref(), Ok(&*update));
    }
}

#[test]
fn signs_that_the_file_has_are_its_content() {
    let original = format!("# Blocks\n\nThey look so:\n\n{BLOCK}\nThat is all.\n");
    let update = original.replace("That is all", "Nothing more");
    assert_eq!(merged(&original, &update, None).as_deref(), Ok(&*update));
    let diff = format!("{DIFF}@@ -9 +9 @@\n-x\n+y\n");
    let next = diff.replace("-9 +9", "-8 +8");
    assert_eq!(merged(&diff, &next, None).as_deref(), Ok(&*next), "a diff kept as a file");
}

#[test]
fn json_and_code_that_are_no_edit_are_content() {
    for text in [
        "{\"command\": \"npm\", \"args\": [\"insert\"]}\n",
        "{\"mcpServers\": {\"x\": {\"command\": \"create\", \"args\": []}}}\n",
        "{\"name\": \"edit\", \"properties\": {\"old_string\": {\"type\": \"string\"}, \"new_string\": {\"type\": \"string\"}}}\n",
        "{\n    old_string: z.string(),\n    new_string: z.string(),\n}\n",
        "Title\n=====\n\n- one\n- two\n",
        "---\ntitle: x\n---\n",
        "@@count = 1\n",
        "*** bold ***\n",
        "- one\n+ two\n",
        "- one\n- two\n",
        "SEARCH = 1\n",
        "1st\n< 2nd\n",
        "<searches>\n",
        "{\"edits\": 3}\n",
        "[1, 2]\n",
    ] {
        assert_eq!(merged_in("x.txt", "", text, None).as_deref(), Ok(text));
    }
}

#[test]
fn arguments_of_a_tool_are_never_written_into_a_file() {
    for update in [
        r#"{"path": "empty.txt", "content": "a\n"}"#,
        r#"{"appendContent": "first\nsecond"}"#,
        r#"{"startLine": 1, "endLine": 2, "content": "a"}"#,
        r#"{"symbol": "f", "content": "a"}"#,
        r#"{"set_line": "1:ab", "new_text": "a"}"#,
        r#"{"path": "a", "insert_after": "1:ab", "lines": "a"}"#,
        r#"{"command": "create", "path": "a"}"#,
        r#"{"input": "a"}"#,
        "{\n  \"file_path\": \"a.md\",\n  \"content\": \"a\"\n}\n",
    ] {
        for (path, original) in [("x.txt", ""), ("x.py", ""), ("x.py", "a = 1\n"), ("x", "")] {
            assert_eq!(
                merged_in(path, original, update, None),
                Err(Code::InvalidFormat),
                "{path} {original:?} {update}"
            );
        }
        assert!(merged_in("x.txt", "", update, Some(Format::WholeFile)).is_ok(), "{update}");
        assert!(merged_in("x.json", "", update, None).is_ok(), "data: {update}");
    }
    for update in [r#"{"semi": false, "content": "a"}"#, r#"{"path": "a"}"#, r#"{"lines": 3}"#] {
        assert!(merged_in(".prettierrc", "", update, None).is_ok(), "{update}");
    }
}
