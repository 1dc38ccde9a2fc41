//! Streamed answers put back into one body, against the bodies that the same servers sent for the same requests, and
//! against the events of the streams themselves.
//!
//! Invariant: what a client reads in the body is what it would have read in the stream.

use crate::dialects::{Decoded, decoded};
use crate::translate_recorded::{answers, fixture};
use serde_json::Value;
use std::path::Path;
use tokrate_wire::{AnswerAssembler, Dialect, Shape};

const LIMIT: usize = 1 << 20;

/// The body, and whether it is exact.
fn assembled(dialect: Dialect, stream: &[u8], pieces: usize) -> (Vec<u8>, bool) {
    let mut assembler = AnswerAssembler::for_request(dialect, b"{}", LIMIT).expect("it can be assembled");
    stream.chunks(pieces).for_each(|piece| assembler.push(piece));
    let mut body = Vec::new();
    let is_made = assembler.finish(&mut body);
    assert_eq!(is_made, !body.is_empty());
    assert!(assembler.finish(&mut body), "a second time");
    (body, assembler.is_exact())
}

fn can_be_assembled(dialect: Dialect) -> bool {
    AnswerAssembler::for_request(dialect, b"{}", LIMIT).is_some()
}

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures"))
}

/// What differs between a body and a stream of the same server without being part of the answer: lists without elements, which
/// a stream has no event for.
fn without_empty_lists(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
            fields.values_mut().for_each(without_empty_lists);
        }
        Value::Array(elements) => elements.iter_mut().for_each(without_empty_lists),
        _ => {}
    }
}

#[test]
fn a_stream_becomes_the_body_that_its_server_sends_without_one() {
    let scripted = folder().join("recorded/scripted");
    let mut compared = 0;
    for (stream, whole) in [
        ("openai-chat-stream-usage", "openai-chat-plain"),
        ("openai-chat-reasoning-stream", "openai-chat-reasoning"),
        ("openai-chat-refusal-stream", "openai-chat-refusal"),
        ("openai-chat-tools-stream", "openai-chat-tools"),
        ("openai-completions-stream", "openai-completions-plain"),
        ("openai-responses-stream", "openai-responses-plain"),
        ("openai-responses-reasoning-stream", "openai-responses-reasoning"),
        ("openai-responses-refusal-stream", "openai-responses-refusal"),
        ("openai-responses-tools-stream", "openai-responses-tools"),
        ("anthropic-stream", "anthropic-plain"),
        ("anthropic-thinking-stream", "anthropic-thinking"),
        ("anthropic-tools-stream", "anthropic-tools"),
    ] {
        let dialect = fixture(&format!("fixtures/recorded/scripted/{stream}.sse")).expect("a dialect");
        let bytes = std::fs::read(scripted.join(format!("{stream}.sse"))).expect("recorded");
        let (body, is_exact) = assembled(dialect, &bytes, 7);
        let mut body: Value = serde_json::from_slice(&body).expect("JSON");
        let whole = std::fs::read(scripted.join(format!("{whole}.json"))).expect("recorded");
        let mut whole: Value = serde_json::from_slice(&whole).expect("JSON");
        without_empty_lists(&mut body);
        without_empty_lists(&mut whole);
        assert_eq!(body, whole, "{stream}");
        assert!(is_exact || dialect == Dialect::OpenAiCompletions, "{stream}");
        compared += 1;
    }
    assert_eq!(compared, 12);
}

/// Without what the two forms may differ in: the number of end marks, and white space within arguments.
fn comparable(decoded: Decoded) -> Decoded {
    let plain =
        |arguments: String| serde_json::from_str::<Value>(&arguments).map_or(arguments, |json| json.to_string());
    let calls = decoded.calls.into_iter().map(|(id, name, arguments)| (id, name, plain(arguments)));
    Decoded { done: 1, calls: calls.collect(), ..decoded }
}

#[test]
fn a_body_says_what_its_stream_has_said_however_it_was_cut() {
    let streams = answers(folder(), fixture);
    let streams = streams.into_iter().filter(|(path, dialect, _)| {
        let is_stream = path.extension().is_some_and(|end| end == "sse" || end == "ndjson");
        // A list of ends, a last event that leaves out a part, calls of both kinds: no server's answers.
        let made_up = ["anthropic/stop_reasons.sse", "without_deltas.sse", "tool_calls.sse"];
        let is_answer = !made_up.iter().any(|name| path.ends_with(name));
        is_stream && is_answer && can_be_assembled(*dialect)
    });
    let mut seen = 0;
    for (path, dialect, stream) in streams {
        let wanted = decoded(dialect, Shape::Stream, &stream);
        // Of a stream that broke off or failed no body is made: nobody is given a part for the whole.
        if !wanted.trouble.is_empty() || wanted.done == 0 {
            continue;
        }
        let (body, _) = assembled(dialect, &stream, stream.len());
        for pieces in [1, 5, 64] {
            assert_eq!(assembled(dialect, &stream, pieces).0, body, "{}", path.display());
        }
        let got = decoded(dialect, Shape::Whole, &body);
        let shown = String::from_utf8_lossy(&body);
        assert_eq!(comparable(got), comparable(wanted), "{}: {shown}", path.display());
        seen += 1;
    }
    assert!(seen >= 20, "{seen} streams");
}

#[test]
fn an_answer_that_came_in_one_piece_anyway_stays_as_it_is() {
    let body = br#" {"id":"x","choices":[{"index":0,"message":{"content":"a"}}], "odd": 1 }"#;
    let (passed, is_exact) = assembled(Dialect::OpenAiChat, body, 3);
    assert_eq!((passed.as_slice(), is_exact), (body.trim_ascii_start(), true));
    let page = b"<html>busy</html>";
    assert_eq!(assembled(Dialect::Anthropic, page, 4).0, page);
}

#[test]
fn what_is_not_known_is_kept_and_makes_the_body_inexact() {
    let chunk = |delta: &str| format!("data: {{\"id\":\"x\",\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n");
    let end = "data: {\"id\":\"x\",\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\ndata: [DONE]\n\n";
    let chat = |deltas: &[&str]| {
        let stream: String = deltas.iter().map(|delta| chunk(delta)).chain([end.to_owned()]).collect();
        let (body, is_exact) = assembled(Dialect::OpenAiChat, stream.as_bytes(), 1_000);
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        (body["choices"][0]["message"].clone(), is_exact)
    };
    let (message, is_exact) =
        chat(&[r#"{"content":"a","reasoning_details":[{"text":"b"}]}"#, r#"{"reasoning_details":[{"text":"c"}]}"#]);
    assert_eq!(message["reasoning_details"], serde_json::json!([{"text": "b"}, {"text": "c"}]));
    assert!(!is_exact && message["content"] == "a");
    let (message, is_exact) =
        chat(&[r#"{"content":[{"type":"text","text":"a"}]}"#, r#"{"content":[{"type":"text","text":"b"}]}"#]);
    assert!(!is_exact && message["content"].as_array().is_some_and(|parts| parts.len() == 2), "{message}");
    // Two calls under one number, as Google's servers of this dialect write them.
    let (message, is_exact) = chat(&[
        r#"{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}"#,
        r#"{"tool_calls":[{"index":0,"id":"b","type":"function","function":{"name":"g","arguments":"{\"x\":1}"}}]}"#,
    ]);
    let calls = message["tool_calls"].as_array().expect("calls");
    assert!(is_exact && calls.len() == 2 && calls[1]["function"]["arguments"] == "{\"x\":1}", "{message}");
    assert!(message["content"].is_null() && message["role"] == "assistant");
    let events = concat!(
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":3}}}\n\n",
        "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"later\",\"note\":\"a\"}}\n\n",
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"note_delta\",\"note\":\"b\"}}\n\n",
        "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\n",
    );
    let (body, is_exact) = assembled(Dialect::Anthropic, events.as_bytes(), 9);
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(body["content"], serde_json::json!([{"type": "later", "note": "ab"}]));
    assert_eq!(body["usage"], serde_json::json!({"input_tokens": 3, "output_tokens": 2}));
    assert!(!is_exact && body["stop_reason"] == "end_turn");
}

#[test]
fn items_that_the_last_event_leaves_out_are_in_the_body() {
    let event = |kind: &str, rest: &str| format!("data: {{\"type\":\"response.{kind}\",{rest}}}\n\n");
    let completed = event("completed", r#""response":{"id":"r","status":"completed","output":[]}"#);
    let text = event("output_text.delta", r#""delta":"hi""#);
    let item = event("output_item.done", r#""item":{"type":"message","content":[{"type":"output_text","text":"hi"}]}"#);
    let (body, is_exact) = assembled(Dialect::OpenAiResponses, format!("{text}{item}{completed}").as_bytes(), 11);
    assert_eq!(decoded(Dialect::OpenAiResponses, Shape::Whole, &body).answer, "hi");
    assert!(!is_exact && serde_json::from_slice::<Value>(&body).is_ok_and(|body| body["id"] == "r"));
    let (nothing, _) = assembled(Dialect::OpenAiResponses, format!("{text}{completed}").as_bytes(), 11);
    assert_eq!(nothing, b"", "a text that is in no item is not left out silently");
}

#[test]
fn nothing_is_made_of_a_stream_without_an_answer() {
    for (dialect, stream) in [
        (Dialect::OpenAiChat, "data: [DONE]\n\n"),
        (Dialect::OpenAiChat, "data: {\"error\":{\"message\":\"no\"}}\n\n"),
        (Dialect::OpenAiResponses, "data: {\"type\":\"response.created\",\"response\":{}}\n\n"),
        (Dialect::Anthropic, "event: ping\ndata: {\"type\":\"ping\"}\n\n"),
        (Dialect::OllamaChat, ""),
    ] {
        assert_eq!(assembled(dialect, stream.as_bytes(), 3).0, b"", "{stream}");
    }
}
