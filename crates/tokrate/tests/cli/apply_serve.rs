//! `tokrate apply --serve`: the published SDKs of Morph and OpenAI against it, its flags and its end.
//!
//! Invariant: the server listens on loopback, on a port of its own.

use crate::apply::{AMBIGUOUS, FILE, GOOD, MERGED};
use crate::folder::Folder;
use crate::sdk;
use crate::tool::{BOUND, Finished, finish, start, tokrate};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};

/// A server until it is stopped.
pub struct Served {
    child: Child,
    address: String,
    rest: Receiver<String>,
}

impl Served {
    pub fn start(folder: &Folder, flags: &[&str]) -> Served {
        let mut child = start(&mut tokrate(folder, &[&["apply", "--serve", "127.0.0.1:0"], flags].concat()));
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, rest) = channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = stdout.read_line(&mut line);
            let _ = sender.send(std::mem::take(&mut line));
            let _ = stdout.read_to_string(&mut line);
            let _ = sender.send(line);
        });
        let first = rest.recv_timeout(BOUND).expect("it says where it listens");
        let address = first.strip_prefix("merging edits at http://").and_then(|rest| rest.split('/').next());
        let address = address.unwrap_or_else(|| panic!("no address in {first:?}")).to_owned();
        Served { child, address, rest }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Posts JSON and reads the whole answer.
    pub fn post(&self, path: &str, body: &Value) -> String {
        let body = body.to_string();
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(BOUND)).expect("a bound");
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).expect("taken");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer within the bound");
        answer
    }

    /// Ends it as Ctrl-C does; what it said after its first line.
    pub fn stop(self) -> Finished {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill is there").success());
        let stdout = self.rest.recv_timeout(BOUND).expect("it ends");
        Finished { stdout, ..finish(self.child) }
    }
}

fn content(update: &str) -> String {
    format!("<instruction>I set x</instruction>\n<code>{FILE}</code>\n<update>{update}</update>")
}

fn request(model: &str, update: &str, further: &Value) -> Value {
    let mut request = json!({"model": model, "messages": [{"role": "user", "content": content(update)}]});
    for (name, value) in further.as_object().into_iter().flatten() {
        request[name] = value.clone();
    }
    request
}

/// A file that the SDK compacts: more than 131,072 characters in long lines.
fn large() -> String {
    let lines: String = (0..5000).map(|line| format!("    let value_{line} = compute(\"é\", {line});\n")).collect();
    format!("fn large() {{\n{lines}}}\n")
}

#[test]
fn the_published_sdk_of_morph_works_unchanged() {
    let folder = Folder::new("morph");
    folder.write("a.rs", FILE);
    let served = Served::start(&folder, &[]);
    let snippet = "// ... existing code ...\n    let value_2500 = compute(\"é\", 2500);\n    let extra = 1;\n    let value_2501 = compute(\"é\", 2501);\n// ... existing code ...\n";
    let edit = |code: &str, update: &str| json!({"originalCode": code, "codeEdit": update, "instruction": "I set x"});
    let with = |mut edit: Value, config: Value| {
        edit["config"] = config;
        edit
    };
    let input = json!({
        "url": served.url(),
        "edits": [
            edit(FILE, GOOD),
            with(edit(FILE, GOOD), json!({"large": false})),
            edit(FILE, AMBIGUOUS),
            edit(&large(), snippet),
            with(edit(&large(), snippet), json!({"anchorCompaction": false})),
        ],
        "file": {"baseDir": folder.path(), "input": {"target_filepath": "a.rs", "code_edit": GOOD, "instruction": "I set x"}},
    });
    let output = sdk::node("morph.cjs", &input);
    let results = output["results"].as_array().expect("a list");
    for result in &results[..2] {
        assert_eq!((&result["success"], &result["mergedCode"]), (&json!(true), &json!(MERGED)));
        assert_eq!(result["changes"], json!({"linesAdded": 0, "linesRemoved": 0, "linesModified": 1}));
    }
    assert_eq!(results[2]["success"], json!(false));
    assert!(results[2]["error"].as_str().is_some_and(|error| error.starts_with("422 ")), "{}", results[2]);
    let merged = large().replace("    let value_2501", "    let extra = 1;\n    let value_2501");
    for result in &results[3..] {
        assert_eq!(result["mergedCode"], json!(merged), "{}", result["error"]);
    }
    assert_eq!(output["edited"]["success"], json!(true), "{}", output["edited"]);
    assert_eq!(folder.read("a.rs"), MERGED, "the SDK wrote the file");
    let stopped = served.stop();
    assert_eq!(stopped.code, Some(0));
    assert!(stopped.stdout.ends_with("merged 5 edits, refused 1: ambiguous_location 1\n"), "{stopped:?}");
}

/// What the SDKs of OpenAI make of the same requests.
fn expect_openai(output: &Value) {
    let answers = output["answers"].as_array().expect("a list");
    for answer in &answers[..3] {
        assert_eq!((&answer["text"], &answer["finish"]), (&json!(MERGED), &json!("stop")), "{answer}");
        assert_eq!(answer["apply"], "deterministic");
    }
    let counts = |text: &str| tokrate_tokens::count(tokrate_tokens::Encoding::O200kBase, text);
    let (prompt, completion) = (counts(&content(GOOD)), counts(MERGED));
    let usage = json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion});
    assert_eq!((&answers[0]["usage"], &answers[1]["usage"]), (&usage, &Value::Null), "{output}");
    assert_eq!((&answers[2]["usage"], &answers[0]["model"]), (&usage, &json!("apply")));
    for answer in &answers[3..5] {
        let seen = [&answer["status"], &answer["type"], &answer["code"]];
        assert_eq!(seen, [&json!(422), &json!("apply_refused"), &json!("ambiguous_location")], "{answer}");
        assert!(answer["message"].is_string());
    }
    assert_eq!((&answers[5]["text"], &answers[5]["apply"]), (&json!(FILE), &json!("refused")));
    assert_eq!(answers[6]["status"], 404);
    assert!(answers[6]["message"].as_str().is_some_and(|message| message.contains("relace-apply-3")), "{answers:?}");
    assert_eq!(answers[7]["status"], 400);
    assert_eq!(output["models"], json!(["auto", "apply", "morph-v3-fast", "morph-v3-large", "relace-apply-3"]));
}

fn openai_requests() -> Vec<Value> {
    vec![
        request("apply", GOOD, &json!({})),
        request("auto", GOOD, &json!({"stream": true})),
        request("relace-apply-3", GOOD, &json!({"stream": true, "stream_options": {"include_usage": true}})),
        request("apply", AMBIGUOUS, &json!({})),
        request("apply", AMBIGUOUS, &json!({"stream": true})),
    ]
}

#[test]
fn the_published_sdk_of_openai_for_node_works() {
    let served = Served::start(&Folder::new("openai-node"), &[]);
    let mut requests = openai_requests();
    requests.push(request("apply", AMBIGUOUS, &json!({"on_refuse": "original"})));
    requests.push(request("gpt-4", GOOD, &json!({})));
    requests.push(json!({"model": "apply", "messages": [{"role": "user", "content": "hello"}]}));
    expect_openai(&sdk::node("openai.cjs", &json!({"url": served.url(), "requests": requests})));
    assert_eq!(served.stop().code, Some(0));
}

#[test]
fn the_published_sdk_of_openai_for_python_works() {
    let served = Served::start(&Folder::new("openai-python"), &[]);
    let mut requests = openai_requests();
    requests.push(request("apply", AMBIGUOUS, &json!({"extra_body": {"on_refuse": "original"}})));
    requests.push(request("gpt-4", GOOD, &json!({})));
    requests.push(json!({"model": "apply", "messages": [{"role": "user", "content": "hello"}]}));
    expect_openai(&sdk::python("openai_chat.py", &json!({"url": served.url(), "requests": requests})));
    assert_eq!(served.stop().code, Some(0));
}

#[test]
fn the_flags_of_the_server_count() {
    let folder = Folder::new("serve-flags");
    let served = Served::start(&folder, &["--on-refuse", "original", "--max-body-bytes", "2000", "--no-tree"]);
    let answer =
        served.post("/v1/code/apply", &json!({"initial_code": FILE, "edit_snippet": AMBIGUOUS, "path": "a.rs"}));
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("x-tokrate-apply: refused\r\n"), "{answer}");
    let answer = served.post("/v1/code/apply", &json!({"initial_code": FILE, "edit_snippet": GOOD, "path": "a.rs"}));
    assert!(answer.contains("\"parse\":{\"skipped\":"), "{answer}");
    let answer = served.post("/v1/code/apply", &json!({"initial_code": "x".repeat(2000), "edit_snippet": GOOD}));
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("more than 2000 bytes"), "{answer}");
    let stopped = served.stop();
    assert!(stopped.stdout.ends_with("merged 1 edits, refused 1: ambiguous_location 1\n"), "{stopped:?}");
}
