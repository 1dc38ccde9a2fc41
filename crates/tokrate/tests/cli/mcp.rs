//! `tokrate mcp` driven over pipes, as an agent's client drives it.
//!
//! Invariant: every line on standard output is a message of the protocol.

use crate::apply::{AMBIGUOUS, FILE, GOOD, MERGED, fed};
use crate::folder::Folder;
use crate::sdk;
use serde_json::{Value, json};

/// Sends messages, ends the input, and reads what came back.
fn talk(folder: &Folder, flags: &[&str], messages: &[Value]) -> Vec<Value> {
    let lines: String = messages.iter().map(|message| format!("{message}\n")).collect();
    raw(folder, flags, lines.as_bytes())
}

fn raw(folder: &Folder, flags: &[&str], input: &[u8]) -> Vec<Value> {
    let finished = fed(folder, &[&["mcp"], flags].concat(), input);
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""), "{finished:?}");
    finished.stdout.lines().map(|line| serde_json::from_str(line).expect("a message")).collect()
}

fn asked(id: u32, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn call(id: u32, path: &str, edit: &str) -> Value {
    let arguments = json!({"path": path, "code_edit": edit, "instruction": "I set x"});
    asked(id, "tools/call", &json!({"name": "edit_file", "arguments": arguments}))
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {answer}"))
}

#[test]
fn the_handshake_is_that_of_the_protocol() {
    let folder = Folder::new("mcp-handshake");
    for (asked_for, spoken) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("1999-01-01", "2025-06-18"),
    ] {
        let hello =
            json!({"protocolVersion": asked_for, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let messages =
            [asked(1, "initialize", &hello), ready, asked(2, "ping", &json!({})), asked(3, "tools/list", &json!({}))];
        let answers = talk(&folder, &[], &messages);
        assert_eq!(answers.len(), 3, "a notification has no answer");
        assert_eq!(answers[0]["result"]["protocolVersion"], spoken);
        assert_eq!(answers[0]["result"]["serverInfo"]["name"], "tokrate");
        assert_eq!(answers[1], json!({"jsonrpc": "2.0", "id": 2, "result": {}}));
        insta::assert_snapshot!("tools", format!("{:#}", answers[2]["result"]));
    }
}

#[test]
fn a_file_is_edited_and_the_diff_comes_back() {
    let folder = Folder::new("mcp-edit");
    folder.write("a.rs", FILE);
    let absolute = folder.join("a.rs").display().to_string();
    let answers = talk(
        &folder,
        &[],
        &[
            call(1, "a.rs", GOOD),
            call(2, &absolute, "<<<<<<< SEARCH\nfn one() -> u32 {\n=======\nfn first() -> u32 {\n>>>>>>> REPLACE\n"),
        ],
    );
    assert_eq!(answers[0]["result"]["isError"], false);
    assert_eq!(answers[0]["result"]["_meta"], json!({"tokrate/apply": "deterministic"}));
    insta::assert_snapshot!("diff", text(&answers[0]));
    assert!(text(&answers[1]).contains("+fn first()"), "{answers:?}");
    assert_eq!(folder.read("a.rs"), MERGED.replace("fn one()", "fn first()"));
    assert_eq!(folder.names(), ["a.rs"]);
}

#[test]
fn the_published_sdk_of_the_protocol_works() {
    let folder = Folder::new("mcp-sdk");
    folder.write("a.rs", FILE);
    let edit = |path: &str, edit: &str| json!({"path": path, "code_edit": edit, "instruction": "I set x"});
    let printed = sdk::node(
        "mcp.mjs",
        &json!({
            "program": env!("CARGO_BIN_EXE_tokrate"),
            "cwd": folder.join(""),
            "sdk": sdk::tools().join("node"),
            "calls": [edit("a.rs", AMBIGUOUS), edit("a.rs", GOOD), edit("../outside.rs", GOOD)],
        }),
    );
    let tools = json!(["edit_file", "str_replace_based_edit_tool"]);
    assert_eq!((&printed["server"], &printed["tools"]), (&json!("tokrate"), &tools));
    let errors: Vec<bool> = (0..3).map(|call| printed["results"][call]["isError"] == true).collect();
    assert_eq!(errors, [true, false, true], "{printed}");
    assert!(printed["results"][1]["text"].as_str().is_some_and(|text| text.contains("+    let x = 22;")), "{printed}");
    assert_eq!(folder.read("a.rs"), MERGED);
}

#[test]
fn a_refusal_is_an_answer_that_helps() {
    let folder = Folder::new("mcp-refused");
    folder.write("a.rs", FILE);
    let answers = talk(&folder, &[], &[call(1, "a.rs", AMBIGUOUS)]);
    assert_eq!(
        (&answers[0]["result"]["isError"], &answers[0]["result"]["_meta"]["tokrate/apply"]),
        (&json!(true), &json!("refused"))
    );
    let printed = text(&answers[0]);
    assert!(printed.starts_with("a.rs: refused (ambiguous_location): "), "{printed}");
    assert!(printed.contains("       7 |     let x = 1;\n") && printed.contains("\nto do: "), "{printed}");
    assert_eq!(folder.read("a.rs"), FILE);
}

#[cfg(unix)]
#[test]
fn nothing_outside_of_the_roots_is_touched() {
    use std::os::unix::fs::symlink;
    let folder = Folder::new("mcp-escape");
    for name in ["one", "two", "other"] {
        std::fs::create_dir(folder.join(name)).expect("made");
        folder.write(&format!("{name}/{name}.rs"), FILE);
    }
    symlink("../other", folder.join("one/linked")).expect("a link");
    symlink("../other/other.rs", folder.join("one/link.rs")).expect("a link");
    symlink("two.rs", folder.join("two/inside.rs")).expect("a link");
    folder.write("one/both.rs", FILE);
    folder.write("two/both.rs", FILE);
    let absolute = |name: &str| folder.join(name).display().to_string();
    let flags = ["--root", "one", "--root", "two"];
    let outside = [
        "../other/other.rs".to_owned(),
        "linked/other.rs".to_owned(),
        "linked/new.rs".to_owned(),
        "link.rs".to_owned(),
        "linked/../../other/other.rs".to_owned(),
        absolute("other/other.rs"),
        absolute("one/../other/other.rs"),
        absolute("other/nowhere.rs"),
        "../nowhere.rs".to_owned(),
        "/etc/hostname".to_owned(),
    ];
    let answers = talk(&folder, &flags, &outside.iter().map(|path| call(1, path, GOOD)).collect::<Vec<Value>>());
    for (path, answer) in outside.iter().zip(&answers) {
        assert!(text(answer).contains("refused (outside_root)"), "{path}: {answer}");
        assert_eq!(answer["result"]["isError"], true);
    }
    assert_eq!(folder.read("other/other.rs"), FILE);
    let others =
        [("nowhere.rs", "no_such_file"), (".", "not_a_file"), ("both.rs", "ambiguous_path"), ("", "no_such_file")];
    let answers = talk(&folder, &flags, &others.map(|(path, _)| call(1, path, GOOD)));
    for ((path, code), answer) in others.iter().zip(&answers) {
        assert!(text(answer).contains(&format!("refused ({code})")), "{path}: {answer}");
    }
    let inside = [absolute("two/two.rs"), "one.rs".to_owned(), "inside.rs".to_owned()];
    let answers = talk(&folder, &flags, &inside.map(|path| call(1, &path, GOOD)));
    assert!(answers[..2].iter().all(|answer| answer["result"]["isError"] == false), "{answers:?}");
    assert_eq!((folder.read("one/one.rs").as_str(), folder.read("two/two.rs").as_str()), (MERGED, MERGED));
    assert!(folder.join("two/inside.rs").is_symlink());
}

#[test]
fn broken_messages_are_answered_by_the_rules() {
    let folder = Folder::new("mcp-broken");
    folder.write("a.rs", FILE);
    let input = [
        "{broken\n",
        "\u{0}\n",
        "[]\n",
        "7\n",
        "{\"id\": 1, \"method\": \"ping\"}\n",
        "{\"jsonrpc\": \"2.0\", \"id\": {}, \"method\": \"ping\"}\n",
        "{\"jsonrpc\": \"2.0\", \"id\": 2, \"method\": \"resources/list\"}\n",
        "{\"jsonrpc\": \"2.0\", \"id\": 3, \"method\": \"tools/call\", \"params\": {\"name\": \"rm\"}}\n",
        "{\"jsonrpc\": \"2.0\", \"id\": 4, \"method\": \"tools/call\", \"params\": {\"name\": \"edit_file\"}}\n",
        "{\"jsonrpc\": \"2.0\", \"id\": 5, \"method\": \"tools/call\", \"params\": {\"name\": \"edit_file\", \"arguments\": {\"path\": 3, \"code_edit\": \"\"}}}\n",
        "\n  \n",
        "{\"jsonrpc\": \"2.0\", \"id\": 6, \"result\": {}}\n",
        "{\"jsonrpc\": \"2.0\", \"method\": \"notifications/unknown\"}\n",
        "[{\"jsonrpc\": \"2.0\", \"id\": \"a\", \"method\": \"ping\"}, {\"jsonrpc\": \"2.0\", \"method\": \"x\"}]\n",
        "{\"jsonrpc\": \"2.0\", \"id\": 7, \"method\": \"ping\"}",
    ];
    let answers = raw(&folder, &[], input.concat().as_bytes());
    let shown: Vec<String> = answers.iter().map(Value::to_string).collect();
    insta::assert_snapshot!("broken", shown.join("\n"));
}

#[test]
fn a_cancelled_request_is_not_carried_out() {
    let folder = Folder::new("mcp-cancelled");
    folder.write("a.rs", FILE);
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5, "reason": "no more"}});
    // Cancelled before it is read: then nothing depends on how fast the server is.
    let answers = talk(&folder, &[], &[cancel, call(5, "a.rs", GOOD), asked(6, "ping", &json!({}))]);
    assert_eq!(answers, [json!({"jsonrpc": "2.0", "id": 6, "result": {}})]);
    assert_eq!(folder.read("a.rs"), FILE);
    let answers = talk(&folder, &[], &[call(5, "a.rs", GOOD)]);
    assert_eq!(answers[0]["result"]["isError"], false, "another session knows nothing of it");
}

fn called(id: u32, tool: &str, arguments: &Value) -> Value {
    asked(id, "tools/call", &json!({"name": tool, "arguments": arguments}))
}

#[test]
fn a_file_that_is_not_there_is_made_by_all_of_its_text() {
    let folder = Folder::new("mcp-create");
    let absolute = folder.path().canonicalize().expect("a folder").join("deep/er/c.txt").display().to_string();
    let make = |path: &str, edit: &str| called(1, "edit_file", &json!({"path": path, "code_edit": edit}));
    let answers = talk(
        &folder,
        &[],
        &[
            make("new/a.rs", "fn a() {}\n"),
            make("b.rs", "<<<<<<< SEARCH\n=======\nfn b() {}\n>>>>>>> REPLACE\n"),
            make(&absolute, "text\n"),
            make("none.rs", "fn a() {\n    // ... existing code ...\n    let x = 2;\n}\n"),
            make("none.rs", GOOD),
            make("../outside.rs", "fn a() {}\n"),
            make("new/.git/config", "x\n"),
            make(".bashrc", "x\n"),
        ],
    );
    let status: Vec<&Value> = answers.iter().map(|answer| &answer["result"]["structuredContent"]["status"]).collect();
    assert_eq!(json!(status[..3]), json!(["created", "created", "created"]), "{answers:?}");
    let codes: Vec<&Value> = answers.iter().map(|answer| &answer["result"]["structuredContent"]["code"]).collect();
    let refused = json!(["no_such_file", "no_such_file", "outside_root", "protected_path", "protected_path"]);
    assert_eq!(json!(codes[3..]), refused, "{answers:?}");
    assert!(text(&answers[0]).contains("--- /dev/null\n+++ b/new/a.rs\n"), "{answers:?}");
    assert_eq!((folder.read("new/a.rs"), folder.read("b.rs")), ("fn a() {}\n".into(), "fn b() {}\n".into()));
    assert_eq!(
        (folder.read("deep/er/c.txt"), folder.names()),
        ("text\n".into(), vec!["b.rs".into(), "deep".into(), "new".into()])
    );
}

#[test]
fn an_edit_may_be_tried_only() {
    let folder = Folder::new("mcp-dry");
    folder.write("a.rs", FILE);
    let tried =
        |path: &str, edit: &str| called(1, "edit_file", &json!({"path": path, "code_edit": edit, "dry_run": true}));
    let answers = talk(&folder, &[], &[tried("a.rs", GOOD), tried("new.rs", "fn a() {}\n"), tried("a.rs", AMBIGUOUS)]);
    let structured = |at: usize| &answers[at]["result"]["structuredContent"];
    assert_eq!((&structured(0)["status"], &structured(0)["dry_run"]), (&json!("merged"), &json!(true)), "{answers:?}");
    assert!(structured(0)["diff"].as_str().is_some_and(|diff| diff.contains("+    let x = 22;")), "{answers:?}");
    assert!(text(&answers[0]).ends_with("(only tried: nothing was written)\n"), "{answers:?}");
    assert_eq!((&structured(1)["status"], &structured(2)["status"]), (&json!("created"), &json!("refused")));
    assert_eq!(structured(2)["candidates"], json!([[2, 2], [7, 7]]), "{answers:?}");
    assert_eq!((folder.read("a.rs").as_str(), folder.names()), (FILE, vec!["a.rs".to_owned()]));
}

#[test]
fn arguments_that_the_tool_does_not_know_are_refused() {
    let folder = Folder::new("mcp-unknown");
    folder.write("a.rs", FILE);
    let calls = [
        json!({"path": "a.rs", "code_edit": GOOD, "dryRun": true}),
        json!({"path": "a.rs", "code_edit": GOOD, "dry_run": "yes"}),
        json!({"path": "a.rs", "code_edit": GOOD, "edits": []}),
        json!({"path": "a.rs", "code_edit": GOOD, "expected": "yesterday"}),
    ];
    let editor = json!({"command": "str_replace", "path": "a.rs", "old_str": "one", "new_str": "1", "all": true});
    let messages: Vec<Value> = calls.iter().map(|it| called(1, "edit_file", it)).collect();
    let messages = [&messages[..], &[called(1, "str_replace_based_edit_tool", &editor)]].concat();
    for answer in talk(&folder, &[], &messages) {
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    assert_eq!(folder.read("a.rs"), FILE);
}

#[test]
fn an_edit_for_another_state_of_the_file_is_refused() {
    let folder = Folder::new("mcp-stale");
    folder.write("a.rs", FILE);
    let edit = |state: &str| called(1, "edit_file", &json!({"path": "a.rs", "code_edit": GOOD, "expected": state}));
    let now = tokrate_apply_host::sha256(FILE.as_bytes());
    let answers =
        talk(&folder, &[], &[edit(&tokrate_apply_host::sha256(b"x")), edit("mtime:7"), edit(&now), edit(&now)]);
    let code = |at: usize| &answers[at]["result"]["structuredContent"]["code"];
    assert_eq!(
        (code(0), code(1), code(3)),
        (&json!("stale_file"), &json!("stale_file"), &json!("stale_file")),
        "{answers:?}"
    );
    let merged = tokrate_apply_host::sha256(MERGED.as_bytes());
    assert_eq!(answers[2]["result"]["structuredContent"]["sha256"], merged, "the state for the next edit: {answers:?}");
    assert_eq!(folder.read("a.rs"), MERGED);
}

#[test]
fn strings_are_replaced_one_after_the_other() {
    let folder = Folder::new("mcp-multi");
    folder.write("a.txt", "one\ntwo\n");
    let edits = json!([{"old_string": "one", "new_string": "1"}, {"old_string": "1\ntwo", "new_string": "1\n2", "replace_all": false}]);
    let answers = talk(&folder, &[], &[called(1, "edit_file", &json!({"path": "a.txt", "edits": edits}))]);
    assert_eq!(
        (&answers[0]["result"]["isError"], folder.read("a.txt")),
        (&json!(false), "1\n2\n".into()),
        "{answers:?}"
    );
}

#[test]
fn the_text_editor_views_edits_and_creates() {
    let folder = Folder::new("mcp-editor");
    folder.write("a.txt", "one\ntwo\nthree\n");
    folder.write(".env", "SECRET=1\n");
    let command = |arguments: Value| called(1, "str_replace_based_edit_tool", &arguments);
    let answers = talk(
        &folder,
        &[],
        &[
            command(json!({"command": "view", "path": "a.txt"})),
            command(json!({"command": "view", "path": "a.txt", "view_range": [2, -1], "hashes": true})),
            command(json!({"command": "str_replace", "path": "a.txt", "old_str": "two", "new_str": "2"})),
            command(json!({"command": "insert", "path": "a.txt", "insert_line": 1, "insert_text": "one and a half\n"})),
            command(json!({"command": "create", "path": "new/b.txt", "file_text": "b\n"})),
            command(json!({"command": "create", "path": "a.txt", "file_text": "b\n"})),
            command(json!({"command": "str_replace", "path": "a.txt", "old_str": "nowhere", "new_str": ""})),
            command(json!({"command": "view", "path": ".env"})),
            command(json!({"command": "view", "path": "../other/a.txt"})),
            command(json!({"command": "create", "path": ".git/hooks/pre-commit", "file_text": "x\n"})),
            command(json!({"command": "insert", "path": ".env", "insert_line": 0, "insert_text": "x\n"})),
        ],
    );
    assert_eq!(text(&answers[0]), "     1\tone\n     2\ttwo\n     3\tthree\n");
    let hash = tokrate_apply::line_hash;
    assert_eq!(text(&answers[1]), format!("     2:{}\ttwo\n     3:{}\tthree\n", hash("two"), hash("three")));
    assert!(text(&answers[2]).contains("-two\n+2\n") && text(&answers[3]).contains("+one and a half\n"), "{answers:?}");
    let errors: Vec<bool> = answers.iter().map(|answer| answer["result"]["isError"] == true).collect();
    assert_eq!(errors, [false, false, false, false, false, true, true, true, true, true, true], "{answers:?}");
    for at in [7, 9, 10] {
        assert!(
            text(&answers[at]).contains("(protected_path)") && !text(&answers[at]).contains("SECRET"),
            "{answers:?}"
        );
    }
    assert_eq!(
        (folder.read("a.txt"), folder.read("new/b.txt")),
        ("one\none and a half\n2\nthree\n".into(), "b\n".into())
    );
    assert_eq!(folder.names(), [".env", "a.txt", "new"]);
}
