//! A key goes into one header and nowhere else, even when the server sends it back.
//!
//! It does not trust any single output. Invariant: everything that the process printed or wrote is searched.

use crate::folder::Folder;
use crate::scripted::{Server, Then, answer, delta, event};
use crate::tool::{Finished, bench_arguments, finish, folded, start, tokrate};
use serde_json::json;
use std::io::Write;
use std::path::Path;

const KEY: &str = "sk-test-6h4jZq-very-secret-0042";
const HEADER: &str = "other-Secret-77xK";

/// Runs a bench with a key in the environment and a secret header; returns it with its folder.
fn run(server: &Server, further: &[&str]) -> (Folder, Finished) {
    let folder = Folder::new("secret");
    let mut arguments = bench_arguments(&server.url(), 2, 4);
    let header = format!("api-key: {HEADER}");
    let more = ["--key-env", "MY_KEY", "--header", &header, "--html", "report.html"];
    arguments.extend(more.iter().chain(further).map(|&argument| argument.to_owned()));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let finished = finish(start(tokrate(&folder, &arguments).env("MY_KEY", KEY)));
    (folder, finished)
}

fn expect_no_secret(folder: &Folder, finished: &Finished) {
    let mut places =
        vec![("stdout".to_owned(), finished.stdout.clone()), ("stderr".to_owned(), finished.stderr.clone())];
    collect(folder.path(), &mut places);
    assert!(places.len() >= 5, "the files are there");
    for (place, text) in places {
        for secret in [KEY, HEADER] {
            // Not even the beginning, where a long message is cut.
            assert!(!text.contains(&secret[..12]), "{secret} is in {place}");
        }
    }
}

fn collect(folder: &Path, places: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).expect("it is there") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, places);
        } else {
            let text = String::from_utf8_lossy(&std::fs::read(&path).expect("it can be read")).into_owned();
            places.push((path.display().to_string(), text));
        }
    }
}

#[test]
fn a_refusal_that_quotes_the_key_shows_no_key() {
    let server = Server::start(|asked, stream| {
        let authorization = asked.header("authorization").expect("the key is sent");
        assert_eq!(authorization, format!("Bearer {KEY}"));
        let other = asked.header("api-key").expect("the header is sent");
        let message = format!("Incorrect API key provided: {KEY} ({authorization}; {other})");
        let body = json!({"error": {"message": message, "type": "invalid_request_error", "code": "invalid_api_key"}});
        stream.write_all(answer("401 Unauthorized", "application/json", &body.to_string()).as_bytes())?;
        Ok(Then::Keep)
    });
    let (folder, finished) = run(&server, &[]);
    assert_eq!(finished.code, Some(2));
    assert!(folded(&finished.stdout).contains("Incorrect API key provided"), "{}", finished.stdout);
    assert!(folder.read("rows.jsonl").contains("unauthorized"));
    assert!(folder.read("record.json").contains("--key-env"), "the hint says what to check");
    expect_no_secret(&folder, &finished);
}

#[test]
fn an_error_in_a_stream_that_quotes_the_key_shows_no_key() {
    let server = Server::start(|_, stream| {
        let error = event(&json!({"error": {"message": format!("key {KEY} and {HEADER} expired"), "code": 401}}));
        let body = delta(" word") + &error;
        stream.write_all(answer("200 OK", "text/event-stream", &body).as_bytes())?;
        Ok(Then::Keep)
    });
    let (folder, finished) = run(&server, &[]);
    assert!(folder.read("rows.jsonl").contains("expired"));
    expect_no_secret(&folder, &finished);
}

#[test]
fn a_message_that_is_cut_within_the_key_shows_no_part_of_it() {
    let server = Server::start(|_, stream| {
        // Messages are kept up to 500 bytes.
        let message = format!("{} {KEY} {HEADER}", "x".repeat(480));
        let body = json!({"error": {"message": message}}).to_string();
        stream.write_all(answer("401 Unauthorized", "application/json", &body).as_bytes())?;
        Ok(Then::Keep)
    });
    let (folder, finished) = run(&server, &[]);
    assert_eq!(finished.code, Some(2));
    expect_no_secret(&folder, &finished);
}

#[test]
fn a_model_name_that_quotes_the_key_shows_no_key() {
    let server = Server::start(|_, stream| {
        let body = json!({"model": format!("for-{KEY}"), "choices": [{"index": 0, "delta": {"content": "x"},
            "finish_reason": "stop"}]});
        let body = event(&body) + "data: [DONE]\n\n";
        stream.write_all(answer("200 OK", "text/event-stream", &body).as_bytes())?;
        Ok(Then::Keep)
    });
    let (folder, finished) = run(&server, &[]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    expect_no_secret(&folder, &finished);
}

#[test]
fn a_key_that_is_spelt_in_escapes_in_any_field_is_not_kept_and_a_models_name_commands_no_terminal() {
    let server = Server::start(|_, stream| {
        let body = json!({"model": "m\u{1b}[2J-1", "x_debug": {"auth": KEY}, "choices": [{"index": 0,
            "delta": {"content": "x"}, "finish_reason": "stop"}]});
        let body = event(&body).replace(KEY, &KEY.replace('-', "\\u002d")) + "data: [DONE]\n\n";
        stream.write_all(answer("200 OK", "text/event-stream", &body).as_bytes())?;
        Ok(Then::Keep)
    });
    let (folder, finished) = run(&server, &[]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    expect_no_secret(&folder, &finished);
    assert!(!finished.stdout.contains("\u{1b}[2J"), "{}", finished.stdout);
    for file in ["rows.jsonl", "record.json"] {
        let text = folder.read(file);
        assert!(!text.contains("u001b") && !text.contains("u002d"), "{file}: {text}");
    }
}

#[test]
fn a_page_that_quotes_the_key_shows_no_key() {
    let server = Server::start(|_, stream| {
        let page = format!("<html><body>Forbidden: {KEY} {HEADER}</body></html>");
        stream.write_all(answer("403 Forbidden", "text/html", &page).as_bytes())?;
        Ok(Then::Keep)
    });
    let (folder, finished) = run(&server, &[]);
    assert_eq!(finished.code, Some(2));
    expect_no_secret(&folder, &finished);
}

#[test]
fn a_key_that_cannot_be_sent_is_not_shown() {
    let server = Server::saying("");
    let folder = Folder::new("bad-key");
    let arguments = bench_arguments(&server.url(), 1, 1);
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    arguments.extend(["--key-env", "MY_KEY"]);
    let finished = finish(start(tokrate(&folder, &arguments).env("MY_KEY", format!("{KEY} with\nlines"))));
    assert_eq!(finished.code, Some(2));
    assert!(finished.stderr.contains("MY_KEY"), "{}", finished.stderr);
    assert!(!finished.stderr.contains("very-secret"), "{}", finished.stderr);
}
