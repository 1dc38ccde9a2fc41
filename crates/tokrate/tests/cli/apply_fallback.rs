//! `--fallback`: a model is asked when the engine refuses, and what it says counts only if it holds.
//!
//! Invariant: every answer says who merged, and no key is told to anybody but the model.

use crate::apply::{FILE, GOOD, MERGED};
use crate::apply_serve::Served;
use crate::folder::Folder;
use crate::scripted::{Server, Then, answer};
use crate::tool::{Finished, finish, start, tokrate};
use serde_json::{Value, json};
use std::io::Write;
use std::sync::mpsc::{Receiver, channel};

const KEY: &str = "sk-fallback-1234567890";
/// Two places of the file would do.
pub const SNIPPET: &str = "// ... existing code ...\n    let x = 1;\n    let y = 2;\n// ... existing code ...\n";

/// A model that answers with a text, and what it was asked.
fn model(text: &str) -> (Server, Receiver<(Option<String>, Value)>) {
    let message = json!({"role": "assistant", "content": text});
    let body = json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).to_string();
    let (sender, asked) = channel();
    let server = Server::start(move |request, stream| {
        let _ = sender.send((request.header("authorization").map(str::to_owned), request.json()));
        stream.write_all(answer("200 OK", "application/json", &body).as_bytes()).map(|()| Then::Close)
    });
    (server, asked)
}

fn apply(folder: &Folder, server: &str, flags: &[&str]) -> Finished {
    let fallback = format!("{server},merger");
    let given = ["apply", "a.rs", "--update", "update.txt", "--fallback", &fallback, "--key-env", "MERGER_KEY"];
    let mut command = tokrate(folder, &[&given, flags].concat());
    let finished = finish(start(command.env("MERGER_KEY", KEY)));
    assert!(!format!("{finished:?}").contains(&KEY[..12]), "the key is told: {finished:?}");
    finished
}

fn folder(name: &str, update: &str) -> Folder {
    let folder = Folder::new(name);
    folder.write("a.rs", FILE);
    folder.write("update.txt", update);
    folder
}

#[test]
fn what_the_engine_refuses_a_model_may_merge() {
    let merged = FILE.replacen("    let x = 1;\n", "    let x = 1;\n    let y = 2;\n", 1);
    let (server, asked) = model(&format!("<updated-code>{merged}</updated-code>"));
    let folder = folder("fallback-merged", SNIPPET);
    let finished = apply(&folder, &server.url(), &[]);
    assert_eq!((finished.code, finished.stdout.as_str()), (Some(0), merged.as_str()), "{finished:?}");
    assert_eq!(finished.stderr, "a.rs: merged (model)\n");
    let (authorization, body) = asked.recv().expect("it was asked");
    assert_eq!((authorization, &body["model"]), (Some(format!("Bearer {KEY}")), &json!("merger")));
    let content = body["messages"][1]["content"].as_str().expect("a text");
    assert!(content.contains(FILE) && content.contains(SNIPPET), "{content}");
    let reported = apply(&folder, &server.url(), &["--json", "--in-place"]);
    let reported: Value = serde_json::from_str(&reported.stdout).expect("JSON");
    assert_eq!((&reported["status"], &reported["by"]), (&json!("merged"), &json!("model")), "{reported}");
    assert_eq!(folder.read("a.rs"), merged);
}

#[test]
fn what_the_engine_merges_is_no_business_of_a_model() {
    let (server, asked) = model("nothing");
    let folder = folder("fallback-unasked", GOOD);
    let finished = apply(&folder, &server.url(), &[]);
    assert_eq!((finished.code, finished.stdout.as_str()), (Some(0), MERGED));
    assert_eq!(finished.stderr, "a.rs: merged (deterministic)\n");
    drop(server);
    assert!(asked.try_recv().is_err(), "it was asked");
}

#[test]
fn a_model_that_does_more_than_it_was_asked_leaves_the_refusal_standing() {
    let merged = FILE.replacen("    let x = 1;\n", "    let x = 1;\n    let y = 2;\n", 1);
    for (answered, output) in [
        (merged.replace("fn two", "fn three"), "cannot be laid over the file"),
        (FILE.to_owned(), "the model's file is the original"),
        ("I cannot do that.".to_owned(), "cannot be laid over the file"),
    ] {
        let (server, _asked) = model(&answered);
        let folder = folder("fallback-refused", SNIPPET);
        let finished = apply(&folder, &server.url(), &["--in-place"]);
        assert_eq!((finished.code, finished.stdout.as_str()), (Some(1), ""), "{finished:?}");
        assert!(finished.stderr.starts_with("a.rs: refused (ambiguous_location): "), "{}", finished.stderr);
        assert!(finished.stderr.contains("the model's answer was not accepted") && finished.stderr.contains(output));
        assert_eq!(folder.read("a.rs"), FILE);
    }
}

#[test]
fn a_model_that_fails_leaves_the_refusal_standing() {
    let folder = folder("fallback-failed", SNIPPET);
    let echo = Server::start(|request, stream| {
        let sent = request.header("authorization").unwrap_or_default().to_owned();
        stream.write_all(answer("401 Unauthorized", "text/plain", &sent).as_bytes()).map(|()| Then::Close)
    });
    let finished = apply(&folder, &echo.url(), &[]);
    assert_eq!(finished.code, Some(1));
    assert!(finished.stderr.contains("answered with status 401"), "{}", finished.stderr);
    let gone = echo.url();
    drop(echo);
    let finished = apply(&folder, &gone, &[]);
    assert_eq!(finished.code, Some(1));
    assert!(finished.stderr.contains("gave no answer"), "{}", finished.stderr);
}

#[test]
fn a_server_says_that_a_model_merged() {
    let merged = FILE.replacen("    let x = 1;\n", "    let x = 1;\n    let y = 2;\n", 1);
    let (server, _asked) = model(&merged);
    let served = Served::start(&Folder::new("fallback-served"), &["--fallback", &format!("{},merger", server.url())]);
    let body = |update: &str| json!({"initial_code": FILE, "edit_snippet": update, "path": "a.rs"});
    let answer = served.post("/v1/code/apply", &body(SNIPPET));
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("x-tokrate-apply: model\r\n"), "{answer}");
    let answer = served.post("/v1/code/apply", &body(GOOD));
    assert!(answer.contains("x-tokrate-apply: deterministic\r\n"), "{answer}");
    let answer = served.post("/v1/code/apply", &body("<<<<<<< SEARCH\n    x\n=======\n    y\n>>>>>>> REPLACE\n"));
    assert!(answer.starts_with("HTTP/1.1 422 ") && answer.contains("the model's answer was not accepted"), "{answer}");
    let stopped = served.stop();
    assert!(stopped.stdout.contains("merged 1 edits, 1 more by the model, refused 1"), "{stopped:?}");
}
