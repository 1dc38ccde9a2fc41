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
    assert_eq!((&printed["server"], &printed["tools"]), (&json!("tokrate"), &json!(["edit_file"])));
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
