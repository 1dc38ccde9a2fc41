//! Gemini's and Ollama's answers: bodies written by this project in their manner, recordings, and what the encoder
//! writes. Each transcript is a snapshot that was read, each recording is compared with a second, simple reading.
//!
//! Invariant: every body passes every general check.

use crate::body::{UNFINISHED, push, transcript_of};
use crate::recorded::{ends_well, own_answers, own_requests, shared};
use proptest::prelude::*;
use serde_json::Value;
use std::path::{Path, PathBuf};
use tokrate_core::{Channel, EventBatch, EventKind, FinishReason, ServerTimings, Span, Tick, Usage};
use tokrate_wire::{
    Answer, Decoder, Dialect, Encoder, Piece, Routed, Shape, ToolCall, decode_error_response, decode_request,
    encode_error_response, encode_request,
};

const DIALECTS: [Dialect; 3] = [Dialect::Gemini, Dialect::OllamaChat, Dialect::OllamaGenerate];

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    paths.iter().map(|path| (name(path), std::fs::read(path).unwrap())).collect()
}

fn fixtures(folder: &str) -> Vec<(String, Vec<u8>)> {
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(folder))
}

fn shape_of(name: &str) -> Shape {
    match name {
        name if name.starts_with("array") => Shape::Array,
        name if name.ends_with(".json") => Shape::Whole,
        _ => Shape::Stream,
    }
}

/// What must hold for every body: neither the template nor the places at which it was cut into reads change anything, a body
/// that breaks off says a beginning of it, and no garbled byte panics or divides the two paths.
fn check_everywhere(dialect: Dialect, shape: Shape, body: &[u8]) -> Vec<String> {
    const GARBLE: [u8; 10] = [0, 0xFF, b'"', b'\\', b'\n', b'{', b'}', b',', 0xC3, b']'];
    let fresh = || Decoder::new(dialect, shape);
    let whole = transcript_of(fresh(), &[body]);
    assert_eq!(transcript_of(fresh().without_template(), &[body]), whole, "the template changes something");
    let bytes: Vec<&[u8]> = body.chunks(1).collect();
    assert_eq!(transcript_of(fresh(), &bytes), whole, "single bytes change something");
    // Gemini says at the end why it stopped, wherever that is.
    let at_end = |line: &str| dialect == Dialect::Gemini && (line.starts_with("finish ") || line == "done");
    let decoded = |lines: Vec<String>| lines.into_iter().filter(|line| line != UNFINISHED && !at_end(line));
    let expected: Vec<String> = decoded(whole.clone()).collect();
    for at in 0..body.len() {
        assert_eq!(transcript_of(fresh(), &[&body[..at], &body[at..]]), whole, "split at {at}");
        let cut: Vec<String> = decoded(transcript_of(fresh(), &[&body[..at]])).collect();
        assert!(expected.starts_with(&cut), "cut at {at}: {cut:?}");
        let mut garbled = body.to_vec();
        garbled[at] = GARBLE[at % GARBLE.len()];
        assert_eq!(
            transcript_of(fresh(), &[&garbled]),
            transcript_of(fresh().without_template(), &[&garbled]),
            "garbled at {at}"
        );
    }
    whole
}

#[test]
fn each_gemini_body_decodes_to_its_snapshot() {
    let bodies = fixtures("gemini");
    assert!(bodies.len() >= 12, "{} bodies", bodies.len());
    for (name, body) in bodies {
        let shape = shape_of(&name);
        let lines = check_everywhere(Dialect::Gemini, shape, &body);
        insta::assert_snapshot!(format!("gemini-{name}"), lines.join("\n"));
        for other in [Shape::Stream, Shape::Whole, Shape::Array] {
            let decoded = transcript_of(Decoder::new(Dialect::Gemini, other), &[&body]);
            assert_eq!(decoded, lines, "{name}: what was asked for does not matter, only what came");
        }
    }
}

#[test]
fn each_ollama_body_decodes_to_its_snapshot() {
    let bodies = fixtures("ollama");
    assert!(bodies.len() >= 11, "{} bodies", bodies.len());
    for (name, body) in bodies {
        let generate = name.starts_with("generate") || name.starts_with("error") || name.starts_with("load");
        let dialect = if generate { Dialect::OllamaGenerate } else { Dialect::OllamaChat };
        let shape = shape_of(&name);
        let lines = check_everywhere(dialect, shape, &body);
        insta::assert_snapshot!(format!("ollama-{name}"), lines.join("\n"));
        // Lines that nobody asked for are read as such. An indented answer is no line, and Ollama sends none.
        if shape == Shape::Stream || body.iter().filter(|byte| **byte == b'\n').count() <= 1 {
            let other = if shape == Shape::Whole { Shape::Stream } else { Shape::Whole };
            assert_eq!(transcript_of(Decoder::new(dialect, other), &[&body]), lines, "{name}");
        }
    }
}

#[test]
fn other_line_ends_decode_to_the_same() {
    for (dialect, folder, ends) in
        [(Dialect::Gemini, "gemini", &["\r\n", "\r"][..]), (Dialect::OllamaChat, "ollama", &["\r\n"][..])]
    {
        let mut streams = fixtures(folder);
        streams.retain(|(name, _)| !name.ends_with(".json"));
        assert!(streams.len() >= 6, "{} streams in {folder}", streams.len());
        for (name, body) in streams {
            let lines = transcript_of(Decoder::new(dialect, Shape::Stream), &[&body]);
            let text = String::from_utf8(body).unwrap();
            for end in ends {
                let other = text.replace('\n', end);
                assert_eq!(
                    transcript_of(Decoder::new(dialect, Shape::Stream), &[other.as_bytes()]),
                    lines,
                    "{name} {end:?}"
                );
            }
            let marked = format!("\u{feff}{text}");
            assert_eq!(
                transcript_of(Decoder::new(dialect, Shape::Stream), &[marked.as_bytes()]),
                lines,
                "{name}, marked"
            );
            let open = transcript_of(Decoder::new(dialect, Shape::Stream), &[text.trim_end().as_bytes()]);
            let open: Vec<_> =
                open.into_iter().filter(|line| dialect != Dialect::Gemini || line != UNFINISHED).collect();
            assert_eq!(open, lines, "{name} without its last line feed");
        }
    }
}

#[test]
fn the_end_of_a_stream_without_an_end_mark_is_its_last_read() {
    let chunk = br#"data: {"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}]}"#;
    let ended = |parts: &[&[u8]]| {
        let mut batch = EventBatch::new();
        let mut decoder = Decoder::new(Dialect::Gemini, Shape::Stream);
        for (part, tick) in parts.iter().zip(5..) {
            decoder.push(Tick::from_nanos(tick), part, &mut batch);
        }
        let lines = |what| batch.events().iter().any(|event| event.kind == what);
        assert!(!lines(EventKind::Done) && !lines(EventKind::Finish(FinishReason::Stop)), "more could come");
        decoder.end(Tick::from_nanos(99), &mut batch);
        batch.events().last().filter(|event| event.kind == EventKind::Done).map(|event| event.at.as_nanos())
    };
    assert_eq!(ended(&[chunk, b"\n\n", b": bye\n\n"]), Some(7));
    assert_eq!(ended(&[b"data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"x\"}]}}]}\n\n"]), None);
}

#[test]
fn fields_outside_the_dialect_are_reported_when_asked_for() {
    for (dialect, line) in [
        (
            Dialect::Gemini,
            "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"x\"}]}}],\"usageMetadata\":{},\"modelVersion\":\"m\",\"responseId\":\"r\",\"surprise\": [1]}\n\n",
        ),
        (
            Dialect::OllamaChat,
            "{\"model\":\"m\",\"created_at\":\"t\",\"message\":{\"content\":\"x\"},\"done\":false,\"surprise\": [1]}\n",
        ),
    ] {
        let mut decoder = Decoder::new(dialect, Shape::Stream).with_unknown_fields();
        let lines = push(&mut decoder, &[line.as_bytes()]);
        assert_eq!(lines, [r#"model "m""#, r#"answer "x""#, r#"unknown "surprise" [1]"#], "{}", dialect.name());
    }
}

/// The second reading of a recording: whole JSON values.
#[derive(PartialEq, Debug, Default)]
struct Decoded {
    reasoning: String,
    answer: String,
    /// Name, identifier and arguments of each call.
    calls: Vec<(String, String, Value)>,
    finish: Option<FinishReason>,
    usage: Usage,
    model: String,
}

fn decode_value(value: &Value, decoded: &mut Decoded) {
    let candidate = &value["candidates"][0];
    for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
        let text = part["text"].as_str().unwrap_or("");
        if part["thought"] == true {
            decoded.reasoning += text
        } else {
            decoded.answer += text
        }
        if let Some(call) = part.get("functionCall") {
            let field = |name: &str| call[name].as_str().unwrap_or("").to_owned();
            decoded.calls.push((field("name"), field("id"), call["args"].clone()));
        }
    }
    decoded.finish = match (candidate["finishReason"].as_str(), value["promptFeedback"]["blockReason"].as_str()) {
        (Some("STOP"), _) if decoded.calls.is_empty() => Some(FinishReason::Stop),
        (Some("STOP"), _) => Some(FinishReason::ToolCalls),
        (Some("MAX_TOKENS"), _) => Some(FinishReason::Length),
        // A stream says it with its last chunk.
        (None, None) => decoded.finish,
        (None, Some("SAFETY")) => Some(FinishReason::ContentFilter),
        (reason, block) => panic!("finish reason {reason:?}, blocked {block:?}"),
    };
    let count = |name: &str| value["usageMetadata"][name].as_u64();
    let thoughts = count("thoughtsTokenCount");
    if value["usageMetadata"].is_object() {
        decoded.usage = Usage {
            input: count("promptTokenCount"),
            output: count("candidatesTokenCount").map(|candidates| candidates + thoughts.unwrap_or(0)),
            reasoning: thoughts,
            ..Usage::default()
        };
    }
    decoded.model = value["modelVersion"].as_str().unwrap_or("").to_owned();
}

fn decoded_from_events(body: &[u8], shape: Shape) -> Decoded {
    let mut batch = EventBatch::new();
    let mut decoder = Decoder::new(Dialect::Gemini, shape);
    decoder.push(Tick::ZERO, body, &mut batch);
    decoder.end(Tick::ZERO, &mut batch);
    let (mut decoded, mut arguments) = (Decoded::default(), Vec::new());
    for event in batch.events() {
        match event.kind {
            EventKind::Text { channel: Channel::Reasoning, text } => decoded.reasoning.push_str(batch.text(text)),
            EventKind::Text { channel: Channel::Answer, text } => decoded.answer.push_str(batch.text(text)),
            EventKind::Text { channel: Channel::Tool, text } => {
                arguments.last_mut().map(|all: &mut String| *all += batch.text(text)).unwrap()
            }
            EventKind::ToolCall { index, id, name } => {
                assert_eq!(index as usize, arguments.len());
                decoded.calls.push((batch.text(name).to_owned(), batch.text(id).to_owned(), Value::Null));
                arguments.push(String::new());
            }
            EventKind::Finish(reason) => decoded.finish = Some(reason),
            EventKind::Usage(usage) => decoded.usage = decoded.usage.updated_by(usage),
            EventKind::Model(name) => decoded.model = batch.text(name).to_owned(),
            EventKind::Anomaly(anomaly) => panic!("{}", anomaly.name()),
            _ => {}
        }
    }
    assert_eq!(batch.events().last().map(|event| event.kind), Some(EventKind::Done));
    for (call, arguments) in decoded.calls.iter_mut().zip(arguments) {
        call.2 = serde_json::from_str(&arguments).unwrap();
    }
    decoded
}

#[test]
fn every_recorded_gemini_answer_says_what_a_simple_reading_says() {
    let named = [
        "sim/gemini-stream.sse",
        "sim/gemini-stream-reasoning.sse",
        "sim/gemini-stream-stop-no-usage.sse",
        "sim/gemini-whole.json",
        "sim/gemini-array.json",
    ];
    let mut answers = own_answers(Dialect::Gemini, &named);
    answers.retain(|(name, _)| ends_well(name));
    assert!(answers.len() >= 7, "{} answers", answers.len());
    if let Some(folder) = shared() {
        let further = files(&folder.join("agentgateway/response/vertex-gemini"));
        assert!(further.len() >= 5, "{} answers", further.len());
        answers.extend(further);
    }
    for (name, body) in &answers {
        let mut expected = Decoded::default();
        let text = std::str::from_utf8(body).unwrap();
        if text.trim_start().starts_with('{') {
            decode_value(&serde_json::from_str(text).unwrap(), &mut expected);
        }
        if text.trim_start().starts_with('[') {
            let elements: Vec<Value> = serde_json::from_str(text).unwrap();
            elements.iter().for_each(|element| decode_value(element, &mut expected));
        }
        for json in text.lines().filter_map(|line| line.strip_prefix("data: ")) {
            decode_value(&serde_json::from_str(json).unwrap(), &mut expected);
        }
        assert_ne!(expected, Decoded::default(), "{name}");
        for shape in [Shape::Stream, Shape::Whole] {
            assert_eq!(decoded_from_events(body, shape), expected, "{name}");
        }
        check_everywhere(Dialect::Gemini, Shape::Stream, body);
    }
}

#[test]
fn every_recorded_gemini_request_is_read_and_written_again() {
    let named = ["tools.json", "tool-results.json", "picture.json", "json-schema.json", "thinking.json"];
    let mut requests = own_requests(Dialect::Gemini, &named);
    assert!(requests.len() >= 8, "{} requests", requests.len());
    if let Some(folder) = shared() {
        let further = files(&folder.join("agentgateway/requests/gemini"));
        assert!(further.len() >= 6, "{} requests", further.len());
        requests.extend(further);
    }
    let mut lost = Vec::new();
    for (name, body) in &requests {
        let routed = Routed { dialect: Dialect::Gemini, model: Some("m".into()), shape: Some(Shape::Stream) };
        let request = decode_request(&routed, body).unwrap_or_else(|error| panic!("{name}: failed to {error}"));
        let written = encode_request(Dialect::Gemini, &request);
        assert_eq!(decode_request(&routed, &written), Ok(request.clone()), "{name}");
        // Google's SDK spells some fields as Python does, which the API takes as well.
        let body = std::str::from_utf8(body).unwrap();
        let body = body
            .replace("\"mime_type\"", "\"mimeType\"")
            .replace("\"parameters_json_schema\"", "\"parametersJsonSchema\"")
            // A text alone is what a function gave, under whatever name.
            .replace("{\"result\": \"21 degrees", "{\"output\": \"21 degrees");
        let (before, after): (Value, Value) =
            (serde_json::from_str(&body).unwrap(), serde_json::from_slice(&written).unwrap());
        assert_eq!((request.model.as_str(), request.stream), ("m", true));
        for (field, json) in before.as_object().unwrap() {
            // What stands beside a text, a declaration or a part in a field of its own is lost, and nothing else.
            let loses = name == "passthrough-fields.json"
                && ["contents", "systemInstruction", "tools"].contains(&&**field)
                || name == "tools.json" && field == "tools"
                // Who says it goes without saying.
                || field == "systemInstruction" && after[field]["parts"] == json["parts"];
            let is_nothing = json.as_object().is_some_and(|fields| fields.is_empty()) && after[field].is_null();
            if !loses && !is_nothing && &after[field] != json {
                lost.push(format!("{name}: {field}: {} was {json}", after[field]));
            }
        }
    }
    assert_eq!(lost, [""; 0]);
}

#[test]
fn refusals_are_understood_in_both_dialects() {
    let mut understood = Vec::new();
    for (status, body) in [
        (404, r#"{"error":"model 'llama9' not found"}"#),
        (400, r#"{"error":"model \"llama9\" not found, try pulling it first"}"#),
        (400, r#"{"error":"\"nomic-embed-text\" does not support chat"}"#),
        (401, r#"{"error":"unauthorized","signin_url":"https://ollama.com/connect"}"#),
        (500, r#"{"error":"llama runner process has terminated: exit status 2"}"#),
        (503, r#"{"error":"server busy, please try again.  maximum pending requests exceeded"}"#),
        (
            429,
            r#"[{"error":{"code":429,"message":"You exceeded your current quota.\nPlease retry in 27.5s.","status":"RESOURCE_EXHAUSTED","details":[
                {"@type":"type.googleapis.com/google.rpc.QuotaFailure"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"27.5s"}]}}]"#,
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}"#,
        ),
        (
            403,
            r#"{"error":{"code":403,"message":"Method doesn't allow unregistered callers.","status":"PERMISSION_DENIED"}}"#,
        ),
        (
            404,
            r#"{"error":{"code":404,"message":"models/gemini-9 is not found for API version v1beta, or is not supported for generateContent.","status":"NOT_FOUND"}}"#,
        ),
        (
            503,
            r#"{"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}"#,
        ),
        (
            504,
            r#"{"error":{"code":504,"message":"Deadline expired before operation could complete.","status":"DEADLINE_EXCEEDED"}}"#,
        ),
    ] {
        let refusal = decode_error_response(status, &[], body.as_bytes(), None);
        let wait = refusal.retry_after.map_or(String::new(), |wait| format!(", wait {wait}"));
        understood.push(format!("{status} {}{wait}: {}", refusal.kind.name(), refusal.message));
    }
    insta::assert_snapshot!("refusals-gemini-ollama", understood.join("\n"));
    for dialect in DIALECTS {
        for (status, kind) in [
            (400, "bad_request"),
            (401, "unauthorized"),
            (404, "not_found"),
            (429, "rate_limited"),
            (503, "overloaded"),
            (500, "server_error"),
        ] {
            let refusal =
                decode_error_response(status, &[], &encode_error_response(dialect, status, "say \"please\""), None);
            assert_eq!((refusal.kind.name(), &*refusal.message), (kind, "say \"please\""), "{}", dialect.name());
        }
    }
}

/// A part of an answer in the order in which it is written.
#[derive(Clone, Debug)]
enum Reply {
    Role,
    Text(Channel, String),
    Call { id: String, name: String, arguments: Vec<String> },
}

fn lines() -> impl Strategy<Value = Reply> {
    let channel = prop::sample::select(vec![Channel::Reasoning, Channel::Answer]);
    // An object comes without its white space; anything else comes as it is.
    let plain = "[^{ ].{0,12}".prop_map(|text| vec![text]);
    let object = (any::<String>(), any::<String>(), 0_usize..20).prop_map(|(name, value, at)| {
        let json = serde_json::to_string(&serde_json::json!({ name: [value, 1.5] })).unwrap();
        let at = (0..=at.min(json.len())).rev().find(|at| json.is_char_boundary(*at)).unwrap();
        vec![json[..at].to_owned(), json[at..].to_owned()]
    });
    prop_oneof![
        1 => Just(Reply::Role),
        6 => (channel, "(?s).{1,20}").prop_map(|(channel, text)| Reply::Text(channel, text)),
        2 => (".{0,8}", ".{1,8}", prop_oneof![object, plain, Just(vec![])])
            .prop_map(|(id, name, arguments)| Reply::Call { id, name, arguments }),
    ]
}

fn finish() -> impl Strategy<Value = FinishReason> {
    use FinishReason::*;
    prop::sample::select(vec![Stop, Length, ToolCalls, ContentFilter, Other])
}

fn usage() -> impl Strategy<Value = Usage> {
    let count = 1_u64..=50_000_000;
    (count.clone(), count, any::<Option<bool>>(), any::<bool>()).prop_map(|(input, output, reasoning, cached)| Usage {
        input: Some(input),
        output: Some(output),
        reasoning: reasoning.map(|all| if all { output } else { output / 3 }),
        cached_input: cached.then_some(input / 2),
        cache_write_input: None,
    })
}

fn timings() -> impl Strategy<Value = ServerTimings> {
    (any::<u64>(), any::<u64>(), any::<Option<u64>>(), any::<Option<u64>>()).prop_map(
        |(total, prefill, load, decode)| ServerTimings {
            total: Some(Span::from_nanos(total)),
            prefill: Some(Span::from_nanos(prefill)),
            load: load.map(Span::from_nanos),
            decode: decode.map(Span::from_nanos),
            ..ServerTimings::default()
        },
    )
}

/// What the dialect has a place for of how an answer ends, line by line.
fn ending(dialect: Dialect, calls: usize, finish: FinishReason, usage: Usage, timings: ServerTimings) -> Vec<String> {
    let finish = match finish {
        FinishReason::Stop | FinishReason::ToolCalls if calls > 0 => FinishReason::ToolCalls,
        FinishReason::ToolCalls => FinishReason::Stop,
        other => other,
    };
    let count = |count: Option<u64>| count.map_or("-".to_owned(), |count| count.to_string());
    let gemini = dialect == Dialect::Gemini;
    let (input, output) = (count(usage.input), count(usage.output));
    let (reasoning, cached) = (count(usage.reasoning.filter(|_| gemini)), count(usage.cached_input));
    let mut lines = vec![
        format!("finish {}", finish.name()),
        format!("usage input {input} output {output} reasoning {reasoning} cached {cached}"),
    ];
    if gemini {
        // Which reason was the last one is known at the end.
        lines.swap(0, 1);
    } else {
        let read = usage.input.unwrap() - usage.cached_input.unwrap_or(0);
        let timings = ServerTimings { prefill_tokens: Some(read), decode_tokens: usage.output, ..timings };
        lines.push(format!("timings {timings:?}"));
    }
    lines.push("done".to_owned());
    lines
}

proptest! {
    #[test]
    fn what_is_encoded_piece_by_piece_is_decoded(
        dialect in prop::sample::select(DIALECTS.to_vec()),
        array in any::<bool>(),
        lines in prop::collection::vec(lines(), 1..12),
        finish in finish(),
        usage in usage(),
        timings in timings(),
        model in ".{1,12}",
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let shape = if array { Shape::Array } else { Shape::Stream };
        let mut encoder = Encoder::new(dialect, shape, "i\"d", &model, 1_784_300_000);
        let mut body = Vec::new();
        let mut expected = vec![format!("model {model:?}")];
        let mut calls = 0;
        for lines in &lines {
            match lines {
                Reply::Role => {
                    encoder.encode_event(&Piece::Role, &mut body);
                    expected.push("empty".to_owned());
                }
                Reply::Text(channel, text) => {
                    encoder.encode_event(&Piece::Text { channel: *channel, text }, &mut body);
                    expected.push(format!("{} {text:?}", ["reasoning", "answer"][*channel as usize]));
                }
                Reply::Call { id, name, arguments } => {
                    encoder.encode_event(&Piece::ToolCall { index: calls, id, name }, &mut body);
                    for text in arguments {
                        encoder.encode_event(&Piece::Text { channel: Channel::Tool, text }, &mut body);
                    }
                    expected.push(format!("tool call {calls} {id:?} {name:?}"));
                    let arguments = arguments.concat();
                    expected.extend((!arguments.is_empty()).then(|| format!("tool {arguments:?}")));
                    calls += 1;
                }
            }
        }
        for piece in [Piece::Finish(finish), Piece::Usage(usage), Piece::Timings(timings), Piece::Done] {
            encoder.encode_event(&piece, &mut body);
        }
        expected.extend(ending(dialect, calls as usize, finish, usage, timings));
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).chain([0, body.len()]).collect();
        ends.sort_unstable();
        let parts: Vec<&[u8]> = ends.windows(2).map(|pair| &body[pair[0]..pair[1]]).collect();
        prop_assert_eq!(&transcript_of(Decoder::new(dialect, shape), &parts), &expected);
        prop_assert_eq!(&transcript_of(Decoder::new(dialect, shape).without_template(), &parts), &expected);
    }

    #[test]
    fn what_is_encoded_whole_is_decoded(
        dialect in prop::sample::select(DIALECTS.to_vec()),
        reasoning in ".{0,12}",
        answer in "(?s).{0,12}",
        called in any::<bool>(),
        finish in finish(),
        usage in usage(),
        timings in timings(),
    ) {
        let call = ToolCall { id: "c", name: "f", arguments: r#"{"a":"b c"}"# };
        let tools = if called { vec![call] } else { vec![] };
        let encoder = Encoder::new(dialect, Shape::Whole, "i", "m", 7);
        let whole = Answer {
            reasoning: &reasoning, answer: &answer, tools: &tools, finish, usage: Some(usage), timings: Some(timings),
        };
        let mut expected = vec![r#"model "m""#.to_owned()];
        expected.extend((!reasoning.is_empty()).then(|| format!("reasoning {reasoning:?}")));
        expected.extend((!answer.is_empty()).then(|| format!("answer {answer:?}")));
        if called {
            expected.extend([r#"tool call 0 "c" "f""#.to_owned(), format!("tool {:?}", call.arguments)]);
        }
        expected.extend(ending(dialect, tools.len(), finish, usage, timings));
        prop_assert_eq!(transcript_of(Decoder::new(dialect, Shape::Whole), &[&encoder.encode_whole(&whole)]), expected);
    }

    #[test]
    fn any_bytes_in_any_chunking_decode_to_the_same(
        dialect in prop::sample::select(DIALECTS.to_vec()),
        start in prop::sample::select(vec!["", "[", "{", "data: {", "[{\"error\":"]),
        rest in any::<Vec<u8>>(),
        at in any::<prop::sample::Index>(),
        shape in prop::sample::select(vec![Shape::Stream, Shape::Whole, Shape::Array]),
    ) {
        let body = [start.as_bytes(), &rest].concat();
        let (front, back) = body.split_at(at.index(body.len() + 1));
        let expected = transcript_of(Decoder::new(dialect, shape), &[&body]);
        prop_assert_eq!(&transcript_of(Decoder::new(dialect, shape), &[front, back]), &expected);
        prop_assert_eq!(&transcript_of(Decoder::new(dialect, shape).without_template(), &[front, back]), &expected);
    }
}

#[test]
fn an_answer_that_fails_on_the_way_says_so() {
    for (dialect, kind) in [
        (Dialect::Gemini, "server_error"),
        (Dialect::OllamaChat, "error_in_stream"),
        (Dialect::OllamaGenerate, "error_in_stream"),
    ] {
        for shape in [Shape::Stream, Shape::Array] {
            let mut encoder = Encoder::new(dialect, shape, "i", "m", 7);
            let mut body = Vec::new();
            encoder.encode_event(&Piece::Text { channel: Channel::Answer, text: "x" }, &mut body);
            encoder.encode_event(&Piece::Failed { message: "no \"more\"" }, &mut body);
            encoder.encode_event(&Piece::Done, &mut body);
            let lines = transcript_of(Decoder::new(dialect, shape), &[&body]);
            let failed = format!("failed {kind} \"no \\\"more\\\"\"");
            assert_eq!(
                lines[..3],
                [r#"model "m""#.to_owned(), r#"answer "x""#.to_owned(), failed],
                "{}",
                dialect.name()
            );
        }
    }
}
