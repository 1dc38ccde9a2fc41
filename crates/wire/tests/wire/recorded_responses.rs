//! Recorded answers and requests of the Responses API, compared with a second, simple reading that shares no code with
//! the decoder.
//!
//! Invariant: recordings that must be there are named.

use crate::body::check_everywhere_in;
use crate::recorded::{Decoded, decoded_from_events_of, ends_well, files, own, own_answers, own_requests, shared};
use serde_json::Value;
use tokrate_core::{FinishReason, Usage};
use tokrate_wire::{Dialect, Shape, decode_request, encode_request};

const DIALECT: Dialect = Dialect::OpenAiResponses;

/// The second reading: whole lines, whole JSON values; of a stream the deltas and the last event.
fn decoded_by_values(body: &str) -> Decoded {
    let mut decoded = Decoded::default();
    if body.trim_start().starts_with('{') {
        let response: Value = serde_json::from_str(body).unwrap();
        for item in response["output"].as_array().into_iter().flatten() {
            read_item(item, &mut decoded);
        }
        read_end(&response, &mut decoded);
        return decoded;
    }
    for line in body.lines() {
        let Some(json) = line.strip_prefix("data: ") else {
            assert!(line.is_empty() || line.starts_with("event: "), "{line}");
            continue;
        };
        if json == "[DONE]" {
            continue;
        }
        let event: Value = serde_json::from_str(json).unwrap();
        let delta = event["delta"].as_str().unwrap_or("");
        match event["type"].as_str().unwrap() {
            "response.output_text.delta" | "response.refusal.delta" => decoded.answer += delta,
            "response.reasoning_text.delta" | "response.reasoning_summary_text.delta" => decoded.reasoning += delta,
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => decoded.tool += delta,
            "response.output_item.added" => decoded.tool += event["item"]["name"].as_str().unwrap_or(""),
            "response.completed" | "response.incomplete" => read_end(&event["response"], &mut decoded),
            other => assert!(!other.ends_with(".delta"), "{other}"),
        }
    }
    decoded
}

fn read_item(item: &Value, decoded: &mut Decoded) {
    let parts = ["summary", "content"].into_iter().flat_map(|field| item[field].as_array().into_iter().flatten());
    for part in parts {
        match part["type"].as_str().unwrap() {
            "output_text" => decoded.answer += part["text"].as_str().unwrap(),
            "refusal" => decoded.answer += part["refusal"].as_str().unwrap(),
            "reasoning_text" | "summary_text" => decoded.reasoning += part["text"].as_str().unwrap(),
            other => panic!("part {other}"),
        }
    }
    for field in ["name", "arguments", "input"] {
        decoded.tool += item[field].as_str().unwrap_or("");
    }
}

fn read_end(response: &Value, decoded: &mut Decoded) {
    decoded.model = response["model"].as_str().unwrap().to_owned();
    decoded.done = true;
    decoded.finish = match response["status"].as_str().unwrap() {
        "completed" if decoded.tool.is_empty() => Some(FinishReason::Stop),
        "completed" => Some(FinishReason::ToolCalls),
        "incomplete" if response["incomplete_details"]["reason"] == "max_output_tokens" => Some(FinishReason::Length),
        "incomplete" => Some(FinishReason::Other),
        other => panic!("status {other}"),
    };
    let usage = &response["usage"];
    if usage.is_object() {
        decoded.usage = Some(Usage {
            input: usage["input_tokens"].as_u64(),
            output: usage["output_tokens"].as_u64(),
            reasoning: usage["output_tokens_details"]["reasoning_tokens"].as_u64(),
            cached_input: usage["input_tokens_details"]["cached_tokens"].as_u64(),
            cache_write_input: usage["input_tokens_details"]["cache_write_tokens"].as_u64(),
        });
    }
}

/// Answers that must be there, of each kind.
const ANSWERS: [&str; 10] = [
    "sim/openai-responses-stream.sse",
    "sim/openai-responses-stream-reasoning.sse",
    "sim/openai-responses-whole.json",
    "sim/openai-responses-stream-error-inside.sse",
    "sim/openai-responses-refused-429.json",
    "scripted/openai-responses-tools.json",
    "scripted/openai-responses-tools-stream.sse",
    "scripted/openai-responses-reasoning-stream.sse",
    "scripted/openai-responses-refusal-stream.sse",
    "scripted/openai-responses-length-stream.sse",
];

fn answers() -> Vec<(String, Vec<u8>)> {
    let mut answers = own_answers(DIALECT, &ANSWERS);
    if let Some(folder) = shared() {
        let before = answers.len();
        answers.extend(files(&folder.join("agentgateway/response/responses"), |_| true));
        for provider in ["openai", "xai"] {
            answers.extend(files(&folder.join("gomodel").join(provider), |name| name.starts_with("responses")));
        }
        assert!(answers.len() - before >= 13, "{} answers", answers.len());
    }
    answers
}

#[test]
fn every_recorded_answer_decodes_as_a_simple_reading_does() {
    let mut answers = answers();
    answers.retain(|(name, _)| ends_well(name));
    assert!(answers.len() >= 18, "{} answers", answers.len());
    let llama = files(&own("llama-server"), |name| name.starts_with("responses-") && !name.contains("error"));
    assert_eq!(llama.len(), 3);
    answers.extend(llama);
    for (name, body) in &answers {
        let expected = decoded_by_values(std::str::from_utf8(body).unwrap());
        let silent = [&expected.reasoning, &expected.answer, &expected.tool].iter().all(|text| text.is_empty());
        assert!(!silent || name.ends_with("stream-image.json"), "{name}: nothing is compared");
        for shape in [Shape::Stream, Shape::Whole] {
            assert_eq!(decoded_from_events_of(DIALECT, body, shape), expected, "{name}");
        }
    }
}

#[test]
fn every_recorded_answer_survives_splits_cuts_and_garbled_bytes() {
    for (_, body) in answers() {
        check_everywhere_in(DIALECT, &without_middle(&body), Shape::Stream);
    }
}

/// A long stream without its middle, whose events are all alike.
fn without_middle(body: &[u8]) -> Vec<u8> {
    let text = std::str::from_utf8(body).unwrap();
    let mut events: Vec<&str> = text.split_inclusive("\n\n").collect();
    if events.len() > 60 {
        events.drain(20..events.len() - 20);
    }
    events.concat().into_bytes()
}

#[test]
fn every_recorded_request_is_read_and_written_again() {
    let named = ["history.json", "tools.json", "tool-results.json", "picture.json", "json-schema.json"];
    let mut requests = own_requests(DIALECT, &named);
    assert!(requests.len() >= 12, "{} requests", requests.len());
    if let Some(folder) = shared() {
        let further = files(&folder.join("agentgateway/requests/responses"), |_| true);
        assert!(further.len() >= 8, "{} requests", further.len());
        requests.extend(further);
    }
    for (name, body) in &requests {
        let request = decode_request(&DIALECT.into(), body).unwrap_or_else(|error| panic!("{name}: {error}"));
        let value: Value = serde_json::from_slice(body).unwrap();
        assert_eq!(request.model, value["model"].as_str().unwrap(), "{name}");
        let written: Value = serde_json::from_slice(&encode_request(DIALECT, &request)).unwrap();
        for (field, json) in value.as_object().unwrap() {
            if field != "input" {
                assert_eq!(&written[field], json, "{name}: {field}");
            }
        }
        assert_eq!(conversation(&written), conversation(&value), "{name}");
        assert_eq!(decode_request(&DIALECT.into(), &encode_request(DIALECT, &request)), Ok(request), "{name}");
    }
}

/// Every text of a conversation, in order. A text alone is the user's, and instructions are what the system says first.
fn conversation(request: &Value) -> Vec<String> {
    let reply = |role: &str, field: &str| {
        let role = request[field].is_string().then(|| role.to_owned());
        role.into_iter().chain(words(&request[field]))
    };
    reply("system", "instructions").chain(reply("user", "input")).collect()
}

fn words(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(values) => values.iter().flat_map(words).collect(),
        Value::Object(fields) => {
            let reply = |field: &&str| fields.get(*field).map(words).unwrap_or_default();
            let named = [
                "role",
                "text",
                "refusal",
                "image_url",
                "file_data",
                "file_url",
                "filename",
                "call_id",
                "name",
                "arguments",
                "output",
                "content",
            ];
            named.iter().flat_map(reply).collect()
        }
        _ => Vec::new(),
    }
}
