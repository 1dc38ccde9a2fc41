//! Recorded exchanges, each decoded and compared with a second, simple reading that shares no code with the decoder:
//! those of the repository, and those of providers that lie beside it on some machines and may not be copied.
//!
//! Invariant: a test that reads recordings names some that must be there, so that none passes without having looked at
//! anything.

use crate::body::{check_everywhere, decoder};
use serde_json::Value;
use std::path::{Path, PathBuf};
use tokrate_core::{Channel, EventBatch, EventKind, FinishReason, Tick, Usage};
use tokrate_wire::{Decoder, Dialect, Shape, decode_request, encode_request};

/// A folder of the repository's fixtures.
pub fn own(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(folder)
}

/// Recordings of providers that are not in the repository; read beside its own where they are, and never in their place.
pub fn shared() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/wire");
    folder.is_dir().then_some(folder)
}

/// Every recorded answer of the repository whose name begins so: those of the simulated engine and a scripted provider.
/// Fails unless those that are named are among them.
pub fn own_answers(dialect: Dialect, named: &[&str]) -> Vec<(String, Vec<u8>)> {
    let begins = format!("{}-", dialect.name());
    let mut answers = files(&own("recorded/sim"), |name| name.starts_with(&begins));
    answers.extend(files(&own("recorded/scripted"), |name| name.starts_with(&begins)));
    hold_named(&answers, named);
    answers
}

/// Every recorded request of the repository in a dialect; fails unless those that are named are among them.
pub fn own_requests(dialect: Dialect, named: &[&str]) -> Vec<(String, Vec<u8>)> {
    let requests = files(&own("recorded/requests").join(dialect.name()), |_| true);
    hold_named(&requests, named);
    requests
}

fn hold_named(found: &[(String, Vec<u8>)], named: &[&str]) {
    assert!(!named.is_empty());
    for name in named {
        assert!(found.iter().any(|(path, _)| path.ends_with(name)), "no recording {name} among {}", found.len());
    }
}

/// Whether an answer is complete and has only fields of its dialect, so that the simple reader of these tests understands it.
pub fn ends_well(name: &str) -> bool {
    !["refused", "malformed", "error-inside", "cut", "no-end-mark"].iter().any(|part| name.contains(part))
}

pub fn files(folder: &Path, wanted: impl Fn(&str) -> bool) -> Vec<(String, Vec<u8>)> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
        .into_iter()
        .filter(|path| wanted(path.file_name().unwrap().to_str().unwrap()))
        .map(|path| (path.display().to_string(), std::fs::read(&path).unwrap()))
        .collect()
}

/// What an answer says in all.
#[derive(PartialEq, Debug, Default)]
pub struct Decoded {
    pub reasoning: String,
    pub answer: String,
    pub tool: String,
    pub finish: Option<FinishReason>,
    pub usage: Option<Usage>,
    pub model: String,
    pub done: bool,
}

fn decoded_from_events(body: &[u8], shape: Shape) -> Decoded {
    decoded_from_events_of(Dialect::OpenAiChat, body, shape)
}

/// The same in any dialect.
pub fn decoded_from_events_of(dialect: Dialect, body: &[u8], shape: Shape) -> Decoded {
    let mut batch = EventBatch::new();
    let mut decoder = Decoder::new(dialect, shape);
    decoder.push(Tick::ZERO, body, &mut batch);
    decoder.end(Tick::ZERO, &mut batch);
    let mut decoded = Decoded::default();
    for event in batch.events() {
        match event.kind {
            EventKind::Text { channel, text } => match channel {
                Channel::Reasoning => decoded.reasoning.push_str(batch.text(text)),
                Channel::Answer => decoded.answer.push_str(batch.text(text)),
                Channel::Tool => decoded.tool.push_str(batch.text(text)),
            },
            EventKind::Finish(reason) => decoded.finish = Some(reason),
            EventKind::Usage(usage) => decoded.usage = Some(decoded.usage.unwrap_or_default().updated_by(usage)),
            EventKind::Model(name) => decoded.model = batch.text(name).to_owned(),
            EventKind::Done => decoded.done = true,
            EventKind::ToolCall { name, .. } => decoded.tool.push_str(batch.text(name)),
            EventKind::Items(_)
            | EventKind::Image { .. }
            | EventKind::Sound(_)
            | EventKind::Silence
            | EventKind::Timings(_)
            | EventKind::Unknown { .. } => {}
            EventKind::Empty | EventKind::Opaque | EventKind::Failed { .. } | EventKind::Anomaly(_) => {}
        }
    }
    decoded
}

/// The second reading: whole lines, whole JSON values.
fn decoded_by_values(body: &str) -> Decoded {
    let mut decoded = Decoded::default();
    if body.trim_start().starts_with('{') {
        read_value(&serde_json::from_str(body).unwrap(), "message", &mut decoded);
        decoded.done = true;
        return decoded;
    }
    for line in body.lines() {
        match line.strip_prefix("data: ") {
            Some("[DONE]") => decoded.done = true,
            Some(json) => read_value(&serde_json::from_str(json).unwrap(), "delta", &mut decoded),
            None => assert!(line.is_empty(), "a line of a kind that the second reading does not know: {line}"),
        }
    }
    decoded
}

fn read_value(value: &Value, answer: &str, decoded: &mut Decoded) {
    decoded.model = value["model"].as_str().map_or(std::mem::take(&mut decoded.model), str::to_owned);
    for choice in value["choices"].as_array().into_iter().flatten() {
        let reply = &choice[answer];
        let text = |field: &str| reply[field].as_str().unwrap_or("");
        decoded.reasoning +=
            if text("reasoning_content").is_empty() { text("reasoning") } else { text("reasoning_content") };
        decoded.answer += text("content");
        decoded.answer += text("refusal");
        for call in reply["tool_calls"].as_array().into_iter().flatten() {
            decoded.tool += call["function"]["name"].as_str().unwrap_or("");
            decoded.tool += call["function"]["arguments"].as_str().unwrap_or("");
        }
        decoded.finish = match choice["finish_reason"].as_str() {
            None => decoded.finish,
            Some("stop") => Some(FinishReason::Stop),
            Some("length") => Some(FinishReason::Length),
            Some("tool_calls") => Some(FinishReason::ToolCalls),
            Some(other) => panic!("finish reason {other}"),
        };
    }
    let usage = &value["usage"];
    if usage.is_object() {
        let reasoning = usage["completion_tokens_details"]["reasoning_tokens"].as_u64();
        let (input, mut output) = (usage["prompt_tokens"].as_u64(), usage["completion_tokens"].as_u64());
        // xAI counts reasoning beside the completion; the vocabulary counts it within.
        let beside = input.unwrap() + output.unwrap() + reasoning.unwrap_or(0);
        if reasoning > Some(0) && usage["total_tokens"].as_u64() == Some(beside) {
            output = output.map(|output| output + reasoning.unwrap());
        }
        let cached_input = usage["prompt_tokens_details"]["cached_tokens"].as_u64();
        let cache_write_input = usage["prompt_tokens_details"]["cache_write_tokens"].as_u64();
        decoded.usage = Some(Usage { input, output, reasoning, cached_input, cache_write_input });
    }
}

/// llama-server's answers in this dialect.
fn of_llama_server() -> Vec<(String, Vec<u8>)> {
    let answers = files(&own("llama-server"), |name| {
        name.starts_with("stream-") && name.ends_with(".sse") && !name.contains("text-completion")
            || name.starts_with("answer")
    });
    hold_named(&answers, &["stream-usage.sse", "stream-reasoning.sse", "stream-bytes.sse", "answer.json"]);
    answers
}

/// Answers that must be there, of each kind.
const ANSWERS: [&str; 12] = [
    "sim/openai-chat-stream.sse",
    "sim/openai-chat-stream-stop-no-usage.sse",
    "sim/openai-chat-stream-reasoning.sse",
    "sim/openai-chat-stream-usage-in-every-chunk.sse",
    "sim/openai-chat-whole.json",
    "sim/openai-chat-stream-error-inside.sse",
    "sim/openai-chat-refused-429.json",
    "scripted/openai-chat-tools.json",
    "scripted/openai-chat-tools-stream.sse",
    "scripted/openai-chat-reasoning-stream.sse",
    "scripted/openai-chat-refusal-stream.sse",
    "scripted/openai-chat-length-stream.sse",
];

#[test]
fn every_recorded_chat_answer_says_what_a_simple_reading_says() {
    let mut answers = own_answers(Dialect::OpenAiChat, &ANSWERS);
    answers.retain(|(name, _)| ends_well(name));
    assert!(answers.len() >= 19, "{} answers", answers.len());
    answers.extend(of_llama_server());
    if let Some(folder) = shared() {
        let before = answers.len();
        answers.extend(files(&folder.join("agentgateway/response/completions"), |name| name.ends_with(".json")));
        for provider in ["openai", "groq", "xai", "gemini"] {
            let wanted =
                |name: &str| name.starts_with("chat_") && (name.ends_with(".json") || name.ends_with("_stream.txt"));
            answers.extend(files(&folder.join("gomodel").join(provider), wanted));
        }
        assert!(answers.len() - before >= 26, "{} answers", answers.len());
    }
    for (name, body) in &answers {
        let expected = decoded_by_values(std::str::from_utf8(body).unwrap());
        let empty = [&expected.reasoning, &expected.answer, &expected.tool].iter().all(|text| text.is_empty());
        assert!(!empty || name.ends_with("gemini_zero_completion_tokens.json"), "{name}: nothing is compared");
        for shape in [Shape::Stream, Shape::Whole] {
            assert_eq!(decoded_from_events(body, shape), expected, "{name}");
        }
    }
}

#[test]
fn every_recorded_chat_answer_survives_splits_cuts_and_garbled_bytes() {
    let mut bodies = own_answers(Dialect::OpenAiChat, &ANSWERS);
    if let Some(folder) = shared() {
        bodies.extend(files(&folder.join("agentgateway/response/completions"), |_| true));
        bodies.extend(files(&folder.join("agentgateway/response/detect"), |_| true));
        for provider in ["openai", "groq", "xai", "gemini"] {
            bodies.extend(files(&folder.join("gomodel").join(provider), |name| name.starts_with("chat_")));
        }
    }
    for (_, body) in &bodies {
        if body.contains(&b'\r') || std::str::from_utf8(body).is_err() {
            // Binary recordings for other dialects: nothing is expected of them but that they are survived.
            crate::body::transcript_of(decoder(Shape::Stream), &[body]);
        } else {
            check_everywhere(body, Shape::Stream);
        }
    }
}

#[test]
fn every_recorded_chat_request_is_read_and_written_again() {
    let named = ["stream-usage.json", "tools.json", "tool-results.json", "pictures.json", "json-schema.json"];
    let mut requests = own_requests(Dialect::OpenAiChat, &named);
    assert!(requests.len() >= 14, "{} requests", requests.len());
    if let Some(folder) = shared() {
        let further = files(&folder.join("agentgateway/requests/completions"), |name| name.ends_with(".json"));
        assert!(further.len() >= 10, "{} requests", further.len());
        requests.extend(further);
    }
    for (name, body) in &requests {
        let request =
            decode_request(&Dialect::OpenAiChat.into(), body).unwrap_or_else(|error| panic!("{name}: {error}"));
        let value: Value = serde_json::from_slice(body).unwrap();
        assert_eq!(request.model, value["model"].as_str().unwrap(), "{name}");
        assert_eq!(request.messages.len(), value["messages"].as_array().unwrap().len(), "{name}");
        let written: Value = serde_json::from_slice(&encode_request(Dialect::OpenAiChat, &request)).unwrap();
        for (field, json) in value.as_object().unwrap() {
            let unset = field == "stream" && json == &Value::Bool(false);
            if field != "messages" && !unset {
                assert_eq!(&written[field], json, "{name}: {field}");
            }
        }
        assert_eq!(
            decode_request(&Dialect::OpenAiChat.into(), &encode_request(Dialect::OpenAiChat, &request)),
            Ok(request),
            "{name}"
        );
    }
}
