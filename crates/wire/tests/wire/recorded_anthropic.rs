//! Recorded answers and requests in Anthropic's dialect, compared with a second, simple reading that shares no code
//! with the decoder.
//!
//! Invariant: recordings that must be there are named.

use crate::body::check_everywhere_in;
use crate::recorded::{Decoded, decoded_from_events_of, ends_well, files, own, own_answers, own_requests, shared};
use serde_json::Value;
use std::collections::BTreeMap;
use tokrate_core::{FinishReason, Usage};
use tokrate_wire::{Dialect, Shape, decode_request, encode_request};

const DIALECT: Dialect = Dialect::Anthropic;

/// The second reading: whole lines, whole JSON values.
fn decoded_by_values(body: &str) -> Decoded {
    let mut decoded = Decoded::default();
    if body.trim_start().starts_with('{') {
        let message: Value = serde_json::from_str(body).unwrap();
        for block in message["content"].as_array().into_iter().flatten() {
            read_block(block, &mut decoded);
            if block["type"] == "tool_use" {
                decoded.tool += &block["input"].to_string();
            }
        }
        read_end(&message, &message["usage"], &mut decoded);
        decoded.model = message["model"].as_str().unwrap().to_owned();
        decoded.done = true;
        return decoded;
    }
    for line in body.lines() {
        let Some(json) = line.strip_prefix("data:") else {
            assert!(line.is_empty() || line.starts_with("event:") || line.starts_with(':'), "{line}");
            continue;
        };
        let event: Value = serde_json::from_str(json).unwrap();
        let text = |field: &str| event["delta"][field].as_str().unwrap();
        match event["type"].as_str().unwrap() {
            "message_start" => {
                decoded.model = event["message"]["model"].as_str().unwrap().to_owned();
                let mut usage = event["message"]["usage"].clone();
                usage["output_tokens"] = Value::Null;
                read_end(&Value::Null, &usage, &mut decoded);
            }
            "content_block_start" => read_block(&event["content_block"], &mut decoded),
            "content_block_delta" => match event["delta"]["type"].as_str().unwrap() {
                "text_delta" => decoded.answer += text("text"),
                "thinking_delta" => decoded.reasoning += text("thinking"),
                "input_json_delta" => decoded.tool += text("partial_json"),
                "signature_delta" => {}
                other => panic!("delta {other}"),
            },
            "message_delta" => read_end(&event["delta"], &event["usage"], &mut decoded),
            "message_stop" => decoded.done = true,
            "content_block_stop" | "ping" => {}
            other => panic!("event {other}"),
        }
    }
    decoded
}

fn read_block(block: &Value, decoded: &mut Decoded) {
    decoded.answer += block["text"].as_str().unwrap_or("");
    decoded.reasoning += block["thinking"].as_str().unwrap_or("");
    decoded.tool += block["name"].as_str().unwrap_or("");
}

fn read_end(message: &Value, usage: &Value, decoded: &mut Decoded) {
    decoded.finish = match message["stop_reason"].as_str() {
        None => decoded.finish,
        Some("end_turn" | "stop_sequence") => Some(FinishReason::Stop),
        Some("max_tokens") => Some(FinishReason::Length),
        Some("tool_use") => Some(FinishReason::ToolCalls),
        Some("refusal") => Some(FinishReason::ContentFilter),
        Some(other) => panic!("stop reason {other}"),
    };
    let count = |field: &str| usage[field].as_u64();
    let (cached_input, cache_write_input) = (count("cache_read_input_tokens"), count("cache_creation_input_tokens"));
    let input = count("input_tokens").map(|input| input + cached_input.unwrap_or(0) + cache_write_input.unwrap_or(0));
    let later = Usage { input, output: count("output_tokens"), reasoning: None, cached_input, cache_write_input };
    decoded.usage = Some(decoded.usage.unwrap_or_default().updated_by(later));
}

/// Answers that must be there, of each kind.
const ANSWERS: [&str; 11] = [
    "sim/anthropic-stream.sse",
    "sim/anthropic-stream-stop-no-usage.sse",
    "sim/anthropic-stream-reasoning.sse",
    "sim/anthropic-whole-reasoning.json",
    "sim/anthropic-stream-error-inside.sse",
    "sim/anthropic-refused-429.json",
    "scripted/anthropic-tools.json",
    "scripted/anthropic-tools-stream.sse",
    "scripted/anthropic-thinking-stream.sse",
    "scripted/anthropic-length-stream.sse",
    "scripted/anthropic-tool-error.sse",
];

/// Answers only: a count of tokens is none.
fn answers() -> Vec<(String, Vec<u8>)> {
    let mut answers = own_answers(DIALECT, &ANSWERS);
    if let Some(folder) = shared() {
        let before = answers.len();
        let anthropic = folder.join("agentgateway/response/anthropic");
        answers.extend(files(&anthropic, |name| !name.starts_with("count_tokens")));
        answers.extend(files(&folder.join("gomodel/anthropic"), |_| true));
        assert!(answers.len() - before >= 15, "{} answers", answers.len());
    }
    answers
}

/// The JSON of tools without regard to the order of its fields and to how its letters are escaped.
fn same(mut decoded: Decoded) -> Decoded {
    let (mut tools, mut rest) = (String::new(), decoded.tool.as_str());
    while let Some(start) = rest.find('{') {
        let mut values = serde_json::Deserializer::from_str(&rest[start..]).into_iter::<Value>();
        let Some(Ok(value)) = values.next() else { break };
        tools += &format!("{}{value}", &rest[..start]);
        rest = &rest[start + values.byte_offset()..];
    }
    tools += rest;
    decoded.tool = tools;
    decoded
}

#[test]
fn every_recorded_answer_decodes_as_a_simple_reading_does() {
    let mut answers = answers();
    answers.retain(|(name, _)| ends_well(name));
    assert!(answers.len() >= 20, "{} answers", answers.len());
    let llama = files(&own("llama-server"), |name| name.starts_with("anthropic-") && !name.contains("error"));
    assert_eq!(llama.len(), 2);
    answers.extend(llama);
    for (name, body) in &answers {
        let expected = same(decoded_by_values(std::str::from_utf8(body).unwrap()));
        let silent = [&expected.reasoning, &expected.answer, &expected.tool].iter().all(|text| text.is_empty());
        let is_refusal = expected.finish == Some(FinishReason::ContentFilter);
        assert!(
            !silent || is_refusal || name.ends_with("stream_message_delta_usage.json"),
            "{name}: nothing is compared"
        );
        assert!(expected.finish.is_some() && expected.done, "{name}");
        for shape in [Shape::Stream, Shape::Whole] {
            assert_eq!(same(decoded_from_events_of(DIALECT, body, shape)), expected, "{name}");
        }
    }
}

#[test]
fn every_recorded_answer_survives_splits_cuts_and_garbled_bytes() {
    for (_, body) in answers() {
        check_everywhere_in(DIALECT, &body, Shape::Stream);
    }
}

#[test]
fn every_recorded_request_is_read_and_written_again() {
    let named = ["thinking-turns.json", "tool-results.json", "tool-error.json", "picture.json", "cache-control.json"];
    let mut requests = own_requests(DIALECT, &named);
    assert!(requests.len() >= 15, "{} requests", requests.len());
    if let Some(folder) = shared() {
        let mut further = files(&folder.join("agentgateway/requests/messages"), |_| true);
        further.extend(files(&folder.join("agentgateway/requests/policies"), |name| name.starts_with("anthropic")));
        assert!(further.len() >= 15, "{} requests", further.len());
        requests.extend(further);
    }
    for (name, body) in &requests {
        let request = decode_request(&DIALECT.into(), body).unwrap_or_else(|error| panic!("{name}: {error}"));
        let value: Value = serde_json::from_slice(body).unwrap();
        assert_eq!(request.model, value["model"].as_str().unwrap(), "{name}");
        let written: Value = serde_json::from_slice(&encode_request(DIALECT, &request)).unwrap();
        for (field, json) in value.as_object().unwrap() {
            if !matches!(&**field, "messages" | "system") {
                assert_eq!(&written[field], json, "{name}: {field}");
            }
        }
        assert_eq!(words(&written), words(&value), "{name}");
        assert_eq!(decode_request(&DIALECT.into(), &encode_request(DIALECT, &request)), Ok(request), "{name}");
    }
}

/// What each role says in all, and everything else of note in a conversation: texts within one result of a tool may be
/// joined, and pictures follow them.
fn words(request: &Value) -> (BTreeMap<String, String>, Vec<String>) {
    fn collect(role: &str, value: &Value, texts: &mut BTreeMap<String, String>, notes: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                for field in ["thinking", "signature", "id", "tool_use_id", "name", "data", "url", "file_id"] {
                    notes.extend(fields.get(field).map(|json| format!("{role} {field} {json}")));
                }
                for field in ["input", "is_error"] {
                    notes.extend(fields.get(field).map(|json| format!("{role} {field} {json}")));
                }
                for field in ["text", "content", "source"] {
                    collect(role, fields.get(field).unwrap_or(&Value::Null), texts, notes);
                }
            }
            Value::Array(values) => values.iter().for_each(|value| collect(role, value, texts, notes)),
            Value::String(text) => texts.entry(role.to_owned()).or_default().push_str(text),
            _ => {}
        }
    }
    let (mut texts, mut notes) = (BTreeMap::new(), Vec::new());
    collect("system", &request["system"], &mut texts, &mut notes);
    for message in request["messages"].as_array().into_iter().flatten() {
        collect(message["role"].as_str().unwrap(), &message["content"], &mut texts, &mut notes);
    }
    notes.sort();
    (texts, notes)
}
