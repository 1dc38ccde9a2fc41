//! Servers that break every rule: each is named rightly, nothing hangs, nothing is lost.
//!
//! Invariant: answers depend on the request alone, so that runs repeat.

use crate::folder::Folder;
use crate::scripted::{
    CHUNKED, DONE, LAST_CHUNK, Server, Then, UNTIL_CLOSED, answer, chunk, delta, event, stop, stream, usage,
};
use crate::tool::{Bench, bench, folded, number, run};
use serde_json::json;
use std::io::{Read, Write};

/// Two requests, one after the other, to a server that always answers with these bytes and closes.
fn measured(name: &str, bytes: impl Into<Vec<u8>>) -> Bench {
    bench(name, &Server::saying(bytes).url(), 1, 2, &[])
}

fn body(content_type: &str, body: &str) -> String {
    answer("200 OK", content_type, body)
}

/// A stream of events with a known length.
fn events(parts: &[String]) -> String {
    body("text/event-stream", &parts.concat())
}

fn refused(status: &str, message: &str) -> Bench {
    let error = json!({"error": {"message": message, "type": "some_error"}}).to_string();
    measured("status", answer(status, "application/json", &error))
}

#[test]
fn every_error_status_has_its_kind() {
    let cases = [
        ("400 Bad Request", "bad_request"),
        ("401 Unauthorized", "unauthorized"),
        ("403 Forbidden", "unauthorized"),
        ("404 Not Found", "not_found"),
        ("413 Payload Too Large", "bad_request"),
        ("418 I'm a teapot", "unexpected_status"),
        ("429 Too Many Requests", "rate_limited"),
        ("500 Internal Server Error", "server_error"),
        ("502 Bad Gateway", "server_error"),
        ("503 Service Unavailable", "overloaded"),
        ("529 Overloaded", "overloaded"),
    ];
    for (status, kind) in cases {
        let bench = refused(status, "the words of the server");
        bench.expect(2, &[(kind, 2)]);
        let message = bench.row(0)["failure"]["message"].as_str().expect("text").to_owned();
        let number = status.split(' ').next().expect("a number");
        assert_eq!(message, format!("HTTP {number}: the words of the server"));
        if kind != "rate_limited" {
            assert!(folded(&bench.finished.stdout).contains("the words of the server"), "{}", bench.finished.stdout);
        }
    }
}

#[test]
fn a_redirect_is_not_followed() {
    let bench = measured(
        "redirect",
        "HTTP/1.1 302 Found\r\nConnection: close\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
    );
    bench.expect(2, &[("unexpected_status", 2)]);
    let message = bench.phase().failures[0].message.clone();
    assert_eq!(message.as_deref(), Some("HTTP 302, to http://127.0.0.1:1/"));
}

#[test]
fn a_rate_limit_says_how_long_to_wait() {
    let head = "HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n";
    // Both at once, so that nobody waits.
    let bench = bench("wait", &Server::saying(head).url(), 2, 2, &[]);
    bench.expect(2, &[("rate_limited", 2)]);
    assert_eq!(bench.row(0)["failure"]["retry_after_ns"], 7_000_000_000_u64);
    assert_eq!(bench.phase().rate_limited.retry_after_total_ms, Some(14_000.0));
}

#[test]
fn a_web_page_is_no_endpoint() {
    let page = "<!DOCTYPE html>\n<html><head><title>Welcome</title></head>\n<body><p>It works!</p></body></html>\n";
    let bench = measured("page", body("text/html", page));
    bench.expect(2, &[("not_json", 2)]);
    let failure = &bench.phase().failures[0];
    assert!(
        failure.message.as_deref().is_some_and(|message| message.starts_with("the answer is a web page")),
        "{failure:?}"
    );
}

#[test]
fn a_compressed_answer_is_called_one_and_no_advice_names_another_api_than_was_asked() {
    let mut bytes =
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n"
            .to_vec();
    bytes.extend(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03");
    let bench = bench("gzip", &Server::saying(bytes).url(), 1, 2, &["--dialect", "anthropic"]);
    bench.expect(2, &[("not_json", 2)]);
    let failure = &bench.phase().failures[0];
    let message = failure.message.as_deref().unwrap_or_default();
    assert!(message.starts_with("the answer is compressed (content-encoding: gzip)"), "{message}");
    assert!(!failure.hint.contains("OpenAI") && failure.hint.contains("--dialect"), "{failure:?}");
}

#[test]
fn a_web_page_is_no_whole_answer() {
    let server = Server::saying(body("text/html", "<html><body>It works!</body></html>"));
    bench("page-whole", &server.url(), 1, 2, &["--no-stream"]).expect(2, &[("not_json", 2)]);
}

#[test]
fn an_empty_body_is_an_empty_answer() {
    measured("empty-body", body("text/event-stream", "")).expect(2, &[("empty", 2)]);
}

#[test]
fn a_whole_answer_to_a_request_for_a_stream_is_read_all_the_same() {
    let whole = json!({"id": "c", "object": "chat.completion", "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": " one two"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 50, "completion_tokens": 2, "total_tokens": 52}});
    let bench = measured("whole", body("application/json", &whole.to_string()));
    let (kinds, text) = (bench.failures(), number(bench.row(0), "tokens_std"));
    assert!(
        (kinds.is_empty() && text == 2) || kinds.get("not_json") == Some(&2),
        "understood or named: {kinds:?} {text}"
    );
}

#[test]
fn nobody_listens() {
    // A port that only a system service could have, and none has.
    let bench = bench("refused", "http://127.0.0.1:1/v1", 2, 4, &[]);
    bench.expect(2, &[("connect", 4)]);
    assert!(bench.finished.stdout.contains("--url"), "it says what to check: {}", bench.finished.stdout);
}

#[test]
fn a_server_that_closes_at_once() {
    let server = Server::accepting(drop);
    let bench = bench("closes", &server.url(), 2, 4, &[]);
    let kinds = bench.failures();
    assert_eq!((kinds.len(), kinds["closed"]), (1, 4), "{kinds:?}");
    assert!(!folded(&bench.finished.stdout).contains("host and port"), "it was reached: {}", bench.finished.stdout);
    assert_eq!(bench.finished.code, Some(2));
}

#[test]
fn a_server_that_never_answers() {
    let server = Server::start(|_, _| {
        std::thread::park();
        Ok(Then::Close)
    });
    let bench = bench("silent", &server.url(), 2, 4, &["--idle-timeout", "200ms"]);
    bench.expect(2, &[("stalled", 4)]);
    assert!(bench.rows.iter().all(|row| row["ttft_ns"].is_null() && row["sent_at_ns"].is_u64()));
}

#[test]
fn encryption_where_there_is_none() {
    let server = Server::saying(events(&stream(3)));
    let url = server.url().replace("http://", "https://");
    let bench = bench("tls", &url, 1, 2, &["--idle-timeout", "2s", "--connect-timeout", "2s"]);
    bench.expect(2, &[("tls", 2)]);
    assert!(bench.record.conditions.tls);
    assert!(bench.finished.stdout.contains("http://"), "it says what to try: {}", bench.finished.stdout);
}

#[test]
fn no_encryption_where_there_is_some() {
    // An alert, as a TLS server sends it to a plain request.
    let bench = measured("alert", [0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x0a]);
    bench.expect(2, &[("tls", 2)]);
}

#[test]
fn http2_where_there_is_none() {
    let server = Server::accepting(|mut stream| {
        // The greeting is read first, and the rest until the client leaves: closing must not become a reset.
        let mut greeting = [0; 24];
        if stream.read_exact(&mut greeting).is_ok()
            && stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").is_ok()
        {
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    bench("not-h2", &server.url(), 1, 2, &["--http", "2"]).expect(2, &[("protocol", 2)]);
}

#[test]
fn a_host_without_an_address() {
    let folder = Folder::new("dns");
    let arguments = "bench --url http://nonexistent.invalid/v1 --model m --requests 1 --calibration off";
    let finished = run(&folder, &arguments.split_whitespace().collect::<Vec<&str>>());
    assert_eq!(finished.code, Some(2), "{finished:?}");
    assert!(finished.stderr.starts_with("tokrate: failed to "), "{finished:?}");
    assert!(finished.stderr.contains("nonexistent.invalid"), "{finished:?}");
}

#[test]
fn what_is_no_http_is_named() {
    measured("garbage", "SSH-2.0-OpenSSH_9.9\r\n").expect(2, &[("protocol", 2)]);
}

/// Every spelling of the same stream gives the same numbers.
#[test]
fn framing_changes_nothing() {
    let plain = stream(6).concat();
    let spellings = [
        ("line feeds", plain.clone()),
        ("carriage returns with line feeds", plain.replace('\n', "\r\n")),
        ("carriage returns", plain.replace('\n', "\r")),
        ("no space after data:", plain.replace("data: ", "data:")),
        ("comments and other fields", plain.replace("data: ", ": a comment\nid: 7\nretry: 10\nevent: message\ndata: ")),
        ("a byte order mark", format!("\u{feff}{plain}")),
    ];
    for (name, text) in spellings {
        let bench = measured("framing", body("text/event-stream", &text));
        bench.expect(0, &[]);
        let row = bench.row(0);
        let seen = [number(row, "tokens_std"), number(row, "tokens_reported"), number(row, "text_events")];
        assert_eq!(seen, [6, 6, 6], "{name}: {row}");
        assert_eq!(
            (&row["finish"], &row["model"], &row["oddities"]),
            (&json!("stop"), &json!("m"), &json!({})),
            "{name}"
        );
    }
}

#[test]
fn every_byte_in_a_chunk_of_its_own_gives_the_same_numbers() {
    // With characters of two, three and four bytes, so that each is cut everywhere.
    let text = [delta(" é€𝄞 word"), delta(" word"), stop(), usage(8), DONE.to_owned()].concat();
    let whole = measured("whole-bytes", body("text/event-stream", &text));
    let mut single = CHUNKED.as_bytes().to_vec();
    single.extend(text.bytes().flat_map(|byte| chunk(&[byte])));
    single.extend(LAST_CHUNK);
    let single = measured("single-bytes", single);
    single.expect(0, &[]);
    assert_eq!(single.row(0)["tokens_std"], whole.row(0)["tokens_std"]);
    assert_eq!(single.row(0)["oddities"], json!({}), "a character in two reads is whole");
}

#[test]
fn invalid_utf8_is_an_anomaly() {
    let (before, after) = (delta(" word"), [stop(), usage(3), DONE.to_owned()].concat());
    let broken = delta(" x?y");
    let mut bytes = CHUNKED.as_bytes().to_vec();
    // The first two bytes of a euro sign, in two chunks, and no third.
    let at = broken.find('?').expect("it is there");
    bytes.extend(chunk(before.as_bytes()));
    bytes.extend(chunk(&[&broken.as_bytes()[..at], &[0xe2]].concat()));
    bytes.extend(chunk(&[&[0x82], &broken.as_bytes()[at + 1..]].concat()));
    bytes.extend(chunk(after.as_bytes()));
    bytes.extend(LAST_CHUNK);
    let bench = measured("utf8", bytes);
    bench.expect(0, &[]);
    assert_eq!(bench.anomalies("invalid_utf8"), 2);
    assert_eq!(number(bench.row(0), "text_events"), 2);
}

#[test]
fn an_event_of_five_megabytes_is_measured() {
    let bench = measured("large", events(&[delta(&" word".repeat(1_000_000)), stop(), DONE.to_owned()]));
    bench.expect(0, &[]);
    assert_eq!(number(bench.row(0), "tokens_std"), 1_000_000);
}

#[test]
fn an_event_beyond_the_limit_is_skipped_and_counted() {
    let huge = delta(&" word".repeat(4_000_000));
    let bench = measured("huge", events(&[delta(" word"), huge, delta(" word"), stop(), DONE.to_owned()]));
    bench.expect(0, &[]);
    assert_eq!(bench.anomalies("event_too_large"), 2);
    assert_eq!(number(bench.row(0), "tokens_std"), 2, "the others are measured");
    assert!(folded(&bench.finished.stdout).contains("2 events were too large to be read"), "{}", bench.finished.stdout);
}

#[test]
fn events_that_cannot_be_read_in_every_answer_are_said_once_with_how_one_began() {
    let broken = "data: {\"choices\": [{\"delta\": {\"content\": \" lost\"}\n\n".to_owned();
    let parts = [delta(" word"), broken.clone(), broken, delta(" word"), stop(), usage(4), DONE.to_owned()];
    let server = Server::saying(events(&parts));
    let bench = bench("unreadable", &server.url(), 1, 3, &["--html", "page.html"]);
    bench.expect(0, &[]);
    assert_eq!(bench.anomalies("unreadable_event"), 6);
    let words = "6 events in 3 of 3 answers could not be read (no JSON object), such as";
    let shown = folded(&bench.finished.stdout);
    assert_eq!(shown.matches("could not be read").count(), 1, "{shown}");
    assert!(
        shown.contains(words) && shown.contains("`{\"choices\": [{\"delta\": {\"content\": \" lost\"}`"),
        "{shown}"
    );
    assert!(bench.folder.read("page.html").contains(words));
    assert_eq!(bench.row(0)["unreadable"], "{\"choices\": [{\"delta\": {\"content\": \" lost\"}");
}

#[test]
fn a_second_choice_and_implausible_usage_are_anomalies() {
    let second = event(&json!({"choices": [{"index": 1, "delta": {"content": " other"}}]}));
    let wrong =
        event(&json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 1}}));
    let bench = measured("odd", events(&[delta(" word"), second, stop(), wrong, delta(" late"), DONE.to_owned()]));
    bench.expect(0, &[]);
    for name in ["extra_choice", "implausible_usage", "text_after_finish"] {
        assert_eq!(bench.anomalies(name), 2, "{name}");
    }
}

/// A stream cut at every byte, in HTTP chunks: request `i` gets the first `i` bytes.
#[test]
fn a_chunked_answer_cut_at_every_byte_is_truncated_and_kept() {
    let mut bytes = CHUNKED.as_bytes().to_vec();
    stream(3).iter().for_each(|event| bytes.extend(chunk(event.as_bytes())));
    let (head, length) = (CHUNKED.len(), bytes.len());
    bytes.extend(LAST_CHUNK);
    // From here on the end mark has arrived.
    let done = length - "\n\n\r\n".len();
    let bench = cut("cut-chunked", bytes);
    assert_eq!(bench.finished.code, Some(1), "{:?}", bench.finished);
    bench.failures();
    let mut tokens = 0;
    for (index, row) in (0..).zip(&bench.rows) {
        let kind = row["failure"]["kind"].as_str();
        let expected = match index {
            0 => Some("closed"),
            index if index < head => Some("protocol"),
            index if index < done => Some("truncated"),
            _ => None,
        };
        assert_eq!(kind, expected, "cut after {index} of {length} bytes: {row}");
        assert!(number(row, "tokens_std") >= tokens, "cut after {index} bytes: {row}");
        tokens = number(row, "tokens_std");
    }
    assert_eq!(tokens, 3);
}

/// The same where the body ends with the connection, so that HTTP cannot tell an end from a cut.
#[test]
fn an_answer_that_ends_with_its_connection_is_judged_by_what_it_said() {
    let mut bytes = UNTIL_CLOSED.as_bytes().to_vec();
    let head = bytes.len();
    bytes.extend(stream(3).concat().into_bytes());
    let finished = bytes.len() - (usage(3) + DONE + "\n\n").len();
    let bench = cut("cut-closed", bytes);
    assert_eq!(bench.finished.code, Some(1), "{:?}", bench.finished);
    bench.failures();
    let mut tokens = 0;
    for (index, row) in (0..).zip(&bench.rows) {
        let kind = row["failure"]["kind"].as_str();
        match index {
            0 => assert_eq!(kind, Some("closed")),
            index if index < head => assert_eq!(kind, Some("protocol"), "{index}: {row}"),
            _ if number(row, "tokens_std") == 0 => {
                let broken = row["oddities"]["unfinished_event"].is_u64();
                assert_eq!(kind, Some(if broken { "truncated" } else { "empty" }), "{index}: {row}");
            }
            index if index < finished => assert_eq!(kind, Some("truncated"), "{index}: {row}"),
            // The finish reason may already be read out of an event whose end is missing.
            _ => assert!(matches!(kind, None | Some("truncated")), "{index}: {row}"),
        }
        assert!(number(row, "tokens_std") >= tokens, "cut after {index} bytes: {row}");
        tokens = number(row, "tokens_std");
    }
    assert!(bench.rows.last().expect("rows")["failure"].is_null());
}

/// One request for each length from nothing to all of it.
fn cut(name: &str, bytes: Vec<u8>) -> Bench {
    let requests = bytes.len() as u32 + 1;
    let server = Server::start(move |asked, stream| stream.write_all(&bytes[..asked.index()]).map(|()| Then::Close));
    let bench = bench(name, &server.url(), 4, requests, &["--keep-going"]);
    assert_eq!(bench.rows.len(), requests as usize);
    for (index, row) in (0..).zip(&bench.rows) {
        assert_eq!(row["index"], index);
    }
    bench
}
