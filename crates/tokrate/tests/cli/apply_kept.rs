//! Updates that are no edit of the file at hand, over every way in: nothing is written, and files keep what was not edited.
//!
//! Invariant: what is refused leaves every byte and every name as it was.

use crate::apply::fed;
use crate::folder::Folder;
use serde_json::{Value, json};

/// What a model may write when it means an edit and gets its form wrong.
const NO_EDITS: [&str; 8] = [
    "Here is the edit:\n<<<<<<< SEARCH\nx = 1\n=======\nx = 2\n>>>>>>> REPLACE\n",
    "Sure!\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n",
    "Sure!\n*** Begin Patch\n*** Update File: a.py\n@@\n-x = 1\n+x = 2\n*** End Patch\n",
    "{\"old_string\": \"x = 1\", \"new_string\": \"x = 2\"",
    "{\"path\": \"a.py\", \"old_string\": \"x = 1\", \"new_string\": \"x = 2\", }",
    "Sure!\n{\"old_string\": \"x = 1\", \"new_string\": \"x = 2\"}",
    "{'old_string': 'x = 1', 'new_string': 'x = 2'}",
    "<<<<<<< HEAD\nx = 1\n=======\nx = 2\n>>>>>>> theirs\n",
];

fn called(id: usize, tool: &str, arguments: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
        .to_string()
}

/// The answers of `tokrate mcp` to calls.
fn answers(folder: &Folder, calls: &[(&str, Value)]) -> Vec<Value> {
    let lines: Vec<String> =
        calls.iter().enumerate().map(|(id, (tool, arguments))| called(id, tool, arguments)).collect();
    let finished = fed(folder, &["mcp"], (lines.join("\n") + "\n").as_bytes());
    finished.stdout.lines().map(|line| serde_json::from_str(line).expect("a message")).collect()
}

#[test]
fn what_looks_like_an_edit_and_is_none_is_never_written() {
    for (number, update) in NO_EDITS.into_iter().enumerate() {
        for original in ["", "x = 1\n", "x = 1"] {
            let folder = Folder::new(&format!("kept-{number}"));
            folder.write("a.py", original);
            let done = fed(&folder, &["apply", "a.py", "--in-place"], update.as_bytes());
            assert_eq!((done.code, folder.read("a.py")), (Some(1), original.to_owned()), "{update}: {done:?}");
            let edit = |path: &str| ("edit_file", json!({"path": path, "code_edit": update}));
            for answer in answers(&folder, &[edit("a.py"), edit("new.py")]) {
                assert_eq!(answer["result"]["isError"], true, "{update}: {answer}");
            }
            assert_eq!(
                (folder.read("a.py"), folder.names()),
                (original.to_owned(), vec!["a.py".to_owned()]),
                "{update}"
            );
        }
    }
    // Who says that it is the whole file has it so, byte for byte.
    let folder = Folder::new("kept-whole");
    folder.write("a.txt", "x = 1\r\n");
    let update = format!("1 | x = 1\n{}", NO_EDITS[0]);
    let done = fed(&folder, &["apply", "a.txt", "--in-place", "--format", "whole_file"], update.as_bytes());
    assert_eq!((done.code, folder.read("a.txt")), (Some(0), update.clone()), "{done:?}");
    let whole = json!({"path": "b/new.txt", "code_edit": update, "format": "whole_file"});
    assert_eq!(answers(&folder, &[("edit_file", whole)])[0]["result"]["isError"], false);
    assert_eq!(folder.read("b/new.txt"), update);
}

#[test]
fn a_word_above_a_block_makes_no_file() {
    let folder = Folder::new("kept-word");
    let patch = "Note\n<<<<<<< SEARCH\n=======\nhello\n>>>>>>> REPLACE\n";
    let done = fed(&folder, &["apply", "--patch", "-"], patch.as_bytes());
    assert!(done.code == Some(1) && done.stderr.contains("may be a word only"), "{done:?}");
    assert!(folder.names().is_empty());
    let named = patch.replace("Note", "./Makefile");
    assert_eq!(fed(&folder, &["apply", "--patch", "-"], named.as_bytes()).code, Some(0));
    assert_eq!(folder.read("Makefile"), "hello\n");
}

#[test]
fn arguments_that_do_not_go_with_a_call_are_refused_by_name() {
    let folder = Folder::new("kept-arguments");
    folder.write("a.txt", "one\ntwo\n");
    let strings = json!([{"old_string": "one", "new_string": "1"}]);
    let editor = "str_replace_based_edit_tool";
    let calls = [
        ("edit_file", json!({"path": "a.txt", "edits": strings, "format": "v4a"}), "`format`"),
        ("edit_file", json!({"path": "a.txt", "code_edit": "x", "edits": "y"}), "`edits`"),
        ("edit_file", json!({"path": "a.txt", "edits": "y"}), "`edits`"),
        (
            "edit_file",
            json!({"path": "a.txt", "edits": [{"old_string": "one", "new_string": "1", "path": "b.txt"}]}),
            "`path`",
        ),
        (editor, json!({"command": "view", "path": "a.txt", "old_str": "one"}), "`old_str`"),
        (editor, json!({"command": "view", "path": "a.txt", "expected": "mtime:1"}), "`expected`"),
        (
            editor,
            json!({"command": "str_replace", "path": "a.txt", "old_str": "one", "new_str": "1", "insert_line": 1}),
            "`insert_line`",
        ),
        (
            editor,
            json!({"command": "str_replace", "path": "a.txt", "old_str": "one", "new_str": "1", "hashes": true}),
            "`hashes`",
        ),
        (
            editor,
            json!({"command": "insert", "path": "a.txt", "insert_line": 1, "insert_text": "x", "file_text": "y"}),
            "`file_text`",
        ),
        (editor, json!({"command": "create", "path": "b.txt", "file_text": "y", "new_str": "z"}), "`new_str`"),
    ];
    let asked: Vec<(&str, Value)> = calls.iter().map(|(tool, arguments, _)| (*tool, arguments.clone())).collect();
    for (answer, (_, arguments, name)) in answers(&folder, &asked).iter().zip(&calls) {
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(name), "{arguments}: {answer}");
    }
    assert_eq!((folder.read("a.txt"), folder.names()), ("one\ntwo\n".to_owned(), vec!["a.txt".to_owned()]));
    // One that is null is not there.
    let nulls =
        json!({"command": "str_replace", "path": "a.txt", "old_str": "one", "new_str": "1", "insert_line": null});
    assert_eq!(answers(&folder, &[(editor, nulls)])[0]["result"]["isError"], false);
}

#[test]
fn what_is_viewed_can_be_edited_by_its_hashes() {
    let folder = Folder::new("kept-view");
    let long = "x".repeat(2_500);
    let file = [b"\xef\xbb\xbffirst\r\n", long.as_bytes(), b"\r\nlast\r\n"].concat();
    std::fs::write(folder.join("a.txt"), &file).expect("written");
    let editor = "str_replace_based_edit_tool";
    let view = json!({"command": "view", "path": "a.txt", "hashes": true});
    let answer = answers(&folder, &[(editor, view)]).remove(0);
    let shown = answer["result"]["content"][0]["text"].as_str().expect("a text");
    assert!(shown.contains("(line 2 goes on: 2000 of its 2500 characters are shown)"), "{shown}");
    let hash = |number: usize| {
        let sign = format!("{number}:");
        let line = shown.lines().find_map(|line| line.trim_start().strip_prefix(&sign)).expect("it is shown");
        format!("{number}:{}", &line[..4])
    };
    let update = json!({"edits": [
        {"lines": hash(1), "content": "1st\n"},
        {"lines": hash(2), "content": "short\n"},
        {"after": hash(3), "content": "end\n"},
    ]});
    let edit = json!({"path": "a.txt", "code_edit": update.to_string()});
    let answer = answers(&folder, &[("edit_file", edit)]).remove(0);
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    assert_eq!(folder.read("a.txt"), "\u{feff}1st\r\nshort\r\nlast\r\nend\r\n");
}

#[test]
fn a_file_of_an_unknown_encoding_is_edited_in_ascii_or_in_the_encoding_that_is_stated() {
    let folder = Folder::new("kept-encoding");
    // `Привет` in windows-1251.
    let file = b"# \xcf\xf0\xe8\xe2\xe5\xf2\nx = 1\n";
    std::fs::write(folder.join("a.py"), file).expect("written");
    let read = || std::fs::read(folder.join("a.py")).expect("there");
    let pair = |old: &str, new: &str| json!({"old_string": old, "new_string": new}).to_string();
    let apply = |flags: &[&str], update: &str| {
        fed(&folder, &[&["apply", "a.py", "--in-place"], flags].concat(), update.as_bytes())
    };
    let refused = apply(&[], &pair("x = 1", "x = '\u{e9}'"));
    assert!(refused.code == Some(1) && refused.stderr.contains("windows-1251"), "{refused:?}");
    assert_eq!(read(), file);
    let done = apply(&["--encoding", "windows-1251"], &pair("Привет", "Пока"));
    assert_eq!((done.code, read()), (Some(0), b"# \xcf\xee\xea\xe0\nx = 1\n".to_vec()), "{done:?}");
    let edit = json!({"path": "a.py", "code_edit": pair("Пока", "Да"), "encoding": "cp1251"});
    let answer = answers(&folder, &[("edit_file", edit)]).remove(0);
    assert_eq!((&answer["result"]["isError"], read()), (&json!(false), b"# \xc4\xe0\nx = 1\n".to_vec()), "{answer}");
    let patch = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-# Да\n+# Нет\n";
    assert_eq!(fed(&folder, &["apply", "--patch", "-", "--encoding", "windows-1251"], patch.as_bytes()).code, Some(0));
    assert_eq!(read(), b"# \xcd\xe5\xf2\nx = 1\n");
}

#[cfg(unix)]
#[test]
fn two_names_of_one_file_are_not_changed_in_one_patch() {
    let folder = Folder::new("kept-links");
    folder.write("a.txt", "one\ntwo\n");
    std::fs::hard_link(folder.join("a.txt"), folder.join("b.txt")).expect("a second name");
    let section = |name: &str, old: &str| format!("--- a/{name}\n+++ b/{name}\n@@\n-{old}\n+x\n");
    let patch = section("a.txt", "one") + &section("b.txt", "two");
    let done = fed(&folder, &["apply", "--patch", "-"], patch.as_bytes());
    assert!(done.code == Some(1) && done.stderr.contains("under different names"), "{done:?}");
    assert_eq!((folder.read("a.txt"), folder.read("b.txt")), ("one\ntwo\n".to_owned(), "one\ntwo\n".to_owned()));
}

#[test]
fn a_file_that_is_not_what_a_v4a_patch_deletes_stays() {
    let folder = Folder::new("kept-delete");
    folder.write("a.txt", "one\ntwo\n");
    let patch = |lines: &str| format!("*** Begin Patch\n*** Delete File: a.txt\n{lines}*** End Patch\n");
    let refused = fed(&folder, &["apply", "--patch", "-"], patch("-one\n-three\n").as_bytes());
    assert_eq!((refused.code, folder.read("a.txt")), (Some(1), "one\ntwo\n".to_owned()), "{refused:?}");
    assert_eq!(fed(&folder, &["apply", "--patch", "-"], patch("-one\n-two\n").as_bytes()).code, Some(0));
    assert!(folder.names().is_empty());
}

#[cfg(unix)]
#[test]
fn errors_of_the_system_are_said_in_words() {
    use std::os::unix::fs::symlink;
    let folder = Folder::new("kept-errors");
    folder.write("file", "one\n");
    symlink("loop", folder.join("loop")).expect("a link");
    let long = "n".repeat(300);
    let update = json!({"old_string": "one", "new_string": "1"}).to_string();
    for path in ["loop", "file/below", long.as_str(), "nowhere"] {
        let done = fed(&folder, &["apply", path, "--in-place"], update.as_bytes());
        assert!(done.code == Some(2) && !done.stderr.contains("os error"), "{done:?}");
        let patch = format!("--- a/{path}\n+++ b/{path}\n@@\n-one\n+1\n");
        let done = fed(&folder, &["apply", "--patch", "-"], patch.as_bytes());
        assert!(done.code != Some(0) && !done.stderr.contains("os error"), "{done:?}");
        let made = patch.replace("--- a/", "--- /dev/null #").replace("-one\n", "");
        let done = fed(&folder, &["apply", "--patch", "-"], made.as_bytes());
        assert!(!done.stderr.contains("os error"), "{done:?}");
        let edit = json!({"path": path, "edits": [{"old_string": "one", "new_string": "1"}]});
        let answer = answers(&folder, &[("edit_file", edit)]).remove(0);
        assert!(answer["result"]["isError"] == true && !answer.to_string().contains("os error"), "{answer}");
    }
    assert_eq!(folder.read("file"), "one\n");
    let done = fed(&folder, &["mcp", "--root", "nowhere"], b"");
    assert!(done.code == Some(2) && !done.stderr.contains("os error"), "{done:?}");
}
