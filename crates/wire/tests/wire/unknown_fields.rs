//! Fields outside of a dialect, reported when asked for.
//!
//! Invariant: a field of the dialect is never unknown, and any other always is.

use crate::body::transcript_of;
use crate::recorded::{own, own_answers, shared};
use std::collections::BTreeSet;
use std::path::Path;
use tokrate_core::{Channel, FinishReason, ServerTimings, Span, Usage};
use tokrate_wire::{Answer, Decoder, Dialect, Encoder, Framing, Piece, Shape, ToolCall};

fn unknown(dialect: Dialect, shape: Shape, body: &[u8]) -> Vec<String> {
    let decoded = transcript_of(Decoder::new(dialect, shape).with_unknown_fields(), &[body]);
    let (unknown, known): (Vec<String>, Vec<String>) =
        decoded.into_iter().partition(|line| line.starts_with("unknown "));
    assert_eq!(
        known,
        transcript_of(Decoder::new(dialect, shape), &[body]),
        "{dialect:?}: the rest is reported as ever"
    );
    unknown
}

fn bodies(dialect: Dialect) -> [(Shape, Vec<u8>); 2] {
    let usage = Usage { input: Some(3), output: Some(2), ..Usage::default() };
    let timings = ServerTimings { decode: Some(Span::from_millis(4)), ..ServerTimings::default() };
    let mut encoder = Encoder::new(dialect, Shape::Stream, "id-1", "m", 1_784_300_000);
    let mut stream = Vec::new();
    for piece in [
        Piece::Role,
        Piece::Text { channel: Channel::Reasoning, text: "hm" },
        Piece::Text { channel: Channel::Answer, text: "a" },
        Piece::ToolCall { index: 0, id: "c", name: "f" },
        Piece::Text { channel: Channel::Tool, text: "{}" },
        Piece::Finish(FinishReason::ToolCalls),
        Piece::Usage(usage),
        Piece::Timings(timings),
        Piece::Done,
    ] {
        encoder.encode_event(&piece, &mut stream);
    }
    let whole = encoder.encode_whole(&Answer {
        reasoning: "hm",
        answer: "a",
        tools: &[ToolCall { id: "c", name: "f", arguments: "{}" }],
        finish: FinishReason::ToolCalls,
        usage: Some(usage),
        timings: Some(timings),
    });
    [(Shape::Stream, stream), (Shape::Whole, whole)]
}

#[test]
fn what_we_write_ourselves_is_known_and_what_is_added_is_reported() {
    for dialect in Dialect::ALL {
        for (shape, body) in bodies(dialect) {
            assert_eq!(unknown(dialect, shape, &body), [""; 0], "{dialect:?} {shape:?}");
            if dialect.framing(shape) == Some(Framing::EventStream) {
                // A document of it cannot be changed without its checksum.
                continue;
            }
            let text = String::from_utf8(body).unwrap();
            // Every document of every dialect begins with a brace at the start of a line, or after "data: " or "error: ".
            let mut added = String::new();
            let mut documents = 0;
            for line in text.split_inclusive('\n') {
                let at = line.find('{').filter(|&at| ["", "data: ", "error: "].contains(&&line[..at]));
                match at {
                    Some(at) => {
                        documents += 1;
                        added += &format!("{}{{\"x_new\":[1,\"a\"],{}", &line[..at], &line[at + 1..]);
                    }
                    None => added += line,
                }
            }
            assert!(documents > 0, "{dialect:?} {shape:?}: {text}");
            let expected = vec![r#"unknown "x_new" [1,"a"]"#.to_owned(); documents];
            assert_eq!(unknown(dialect, shape, added.as_bytes()), expected, "{dialect:?} {shape:?}");
        }
    }
}

#[test]
fn recordings_hold_only_the_unknown_fields_that_were_read_and_judged() {
    let mut found = BTreeSet::new();
    let look = |dialect: Dialect, folder: &Path, wanted: &dyn Fn(&str) -> bool, found: &mut BTreeSet<String>| {
        let mut looked_at = 0;
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_str().unwrap();
            if !path.is_file() || !wanted(name) {
                continue;
            }
            looked_at += 1;
            let body = std::fs::read(&path).unwrap();
            for line in unknown(dialect, Shape::Stream, &body) {
                let field = line.split('"').nth(1).unwrap();
                found.insert(format!("{} {field}", dialect.name()));
            }
        }
        assert!(looked_at > 0, "nothing of {} in {}", dialect.name(), folder.display());
    };
    let llama = own("llama-server");
    look(
        Dialect::OpenAiChat,
        &llama,
        &|name| name.starts_with("stream-") && name.ends_with("sse") && !name.contains("text"),
        &mut found,
    );
    look(Dialect::OpenAiChat, &llama, &|name| name.starts_with("answer"), &mut found);
    look(Dialect::OpenAiCompletions, &llama, &|name| name.contains("text-completion"), &mut found);
    look(Dialect::LlamaCompletion, &llama, &|name| name.starts_with("native"), &mut found);
    look(Dialect::Anthropic, &llama, &|name| name.starts_with("anthropic"), &mut found);
    look(Dialect::OpenAiResponses, &llama, &|name| name.starts_with("responses"), &mut found);
    assert!(found.is_empty(), "{found:?}: llama-server sends nothing that is not read or known");
    for dialect in Dialect::ALL {
        let end = match dialect.framing(Shape::Stream) {
            Some(Framing::Lines) => "ndjson",
            Some(Framing::EventStream) => "eventstream",
            _ => "sse",
        };
        let stream = format!("sim/{}-stream.{end}", dialect.name());
        for (name, body) in own_answers(dialect, &[&stream]) {
            assert_eq!(unknown(dialect, Shape::Stream, &body), [""; 0], "{name}");
        }
    }
    let Some(shared) = shared() else { return };
    let chat = |name: &str| name.starts_with("chat_") && !name.contains("params");
    for provider in ["openai", "groq", "xai", "gemini"] {
        look(Dialect::OpenAiChat, &shared.join("gomodel").join(provider), &chat, &mut found);
    }
    for provider in ["openai", "xai"] {
        look(
            Dialect::OpenAiResponses,
            &shared.join("gomodel").join(provider),
            &|name| name.starts_with("responses"),
            &mut found,
        );
    }
    look(Dialect::Anthropic, &shared.join("gomodel/anthropic"), &|name| name.starts_with("messages"), &mut found);
    let gateway = shared.join("agentgateway/response");
    look(Dialect::OpenAiChat, &gateway.join("completions"), &|_| true, &mut found);
    look(Dialect::OpenAiResponses, &gateway.join("responses"), &|_| true, &mut found);
    look(Dialect::Anthropic, &gateway.join("anthropic"), &|name| !name.starts_with("count"), &mut found);
    look(Dialect::Gemini, &gateway.join("vertex-gemini"), &|_| true, &mut found);
    // The provider behind a router, by name; Groq's counts for each model of several.
    let judged = ["openai-chat provider", "openai-chat usage_breakdown"].map(str::to_owned);
    let judged = BTreeSet::from(judged);
    assert_eq!(found, judged);
}
