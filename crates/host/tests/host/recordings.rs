//! Recordings of the simulated engine's answers, which `wire`'s tests read: each is what the engine answers today.
//!
//! It does not judge what they say. Invariant: the recordings in the repository are the engine's answers byte for byte, but
//! for the time at which they were made. After a change that is meant, `TOKRATE_RECORD=1 cargo nextest run -p tokrate-host
//! recordings` writes them anew; read the difference before you commit it.

use crate::client::{ask, request_text};
use crate::loopback::law;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tokrate_core::{ChatRequest, Message, Role};
use tokrate_host::{ApiKey, Host, HostConfig, RunningHost};
use tokrate_sim::Law;
use tokrate_wire::{Dialect, Shape, encode_request};

const PROMPT: &str = "How fast is it, and how many words does it say?";
/// Few, so that the recordings stay small.
const TOKENS: u32 = 8;
/// Set to write the recordings in place of comparing them.
const RECORD: &str = "TOKRATE_RECORD";

/// What is asked beside the prompt.
#[derive(Clone, Copy)]
struct Asked {
    shape: Shape,
    include_usage: bool,
    headers: &'static str,
}

const STREAM: Asked = Asked { shape: Shape::Stream, include_usage: true, headers: "" };
const WHOLE: Asked = Asked { shape: Shape::Whole, include_usage: false, headers: "" };

/// Answers that begin: name, how it is asked, and whether the engine's law has reasoning.
const ANSWERS: [(&str, Asked); 7] = [
    ("stream", STREAM),
    // The model stops by itself, before the limit.
    ("stream-stop-no-usage", Asked { include_usage: false, headers: "X-Tokrate-Fault: short\r\n", ..STREAM }),
    ("stream-malformed", Asked { headers: "X-Tokrate-Fault: malformed@4\r\n", ..STREAM }),
    ("stream-error-inside", Asked { headers: "X-Tokrate-Fault: error_event@4\r\n", ..STREAM }),
    ("stream-cut", Asked { headers: "X-Tokrate-Fault: disconnect@4\r\n", ..STREAM }),
    ("stream-no-end-mark", Asked { headers: "X-Tokrate-Fault: no_done\r\n", ..STREAM }),
    ("whole", WHOLE),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/tests/fixtures/recorded/sim")
}

fn request(dialect: Dialect, model: &str, asked: Asked) -> String {
    let stream = asked.shape != Shape::Whole;
    let request = ChatRequest {
        model: model.to_owned(),
        messages: vec![Message::text(Role::User, PROMPT)],
        stream,
        include_usage: asked.include_usage,
        max_output_tokens: Some(TOKENS),
        ..ChatRequest::default()
    };
    let body = String::from_utf8(encode_request(dialect, &request)).expect("JSON");
    let base = match dialect {
        Dialect::OllamaChat
        | Dialect::OllamaGenerate
        | Dialect::LlamaCompletion
        | Dialect::BedrockConverse
        | Dialect::CohereChat => "",
        Dialect::Gemini => "/v1beta",
        _ => "/v1",
    };
    request_text(&format!("{base}{}", dialect.path(model, asked.shape)), asked.headers, &body)
}

/// The end of a recording's name, which tells how it is framed.
fn end(dialect: Dialect, shape: Shape) -> &'static str {
    match (dialect, shape) {
        (_, Shape::Whole | Shape::Array) => "json",
        (Dialect::OllamaChat | Dialect::OllamaGenerate, Shape::Stream) => "ndjson",
        (Dialect::BedrockConverse, Shape::Stream) => "eventstream",
        (_, Shape::Stream) => "sse",
    }
}

fn start(law: Law, change: impl FnOnce(&mut HostConfig)) -> RunningHost {
    let mut config = HostConfig { law, ..HostConfig::default() };
    change(&mut config);
    Host::start(config).expect("a host on loopback")
}

/// Everything that is recorded: name and body. Requests come one after the other, so that their numbers are the same each time.
fn recordings() -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut record = |host: &RunningHost, name: &str, status: u16, dialect: Dialect, model: &str, asked: Asked| {
        let answer = ask(host.address(), &request(dialect, model, asked));
        assert_eq!(answer.status, status, "{} {name}: {}", dialect.name(), answer.text());
        let shape = if status == 200 { asked.shape } else { Shape::Whole };
        let name = format!("{}-{name}.{}", dialect.name(), end(dialect, shape));
        assert!(all.insert(name, answer.body()).is_none());
    };
    let plain = start(law(), |_| {});
    let reasoning = start(Law { reasoning_tokens: 3, ..law() }, |_| {});
    let counting = start(Law { usage_every_chunk: true, ..law() }, |_| {});
    let locked = start(law(), |config| config.api_key = Some(ApiKey::new("sk-of-this-test".to_owned())));
    let only = start(law(), |config| config.only_model = true);
    for dialect in Dialect::ALL {
        for (name, asked) in ANSWERS {
            record(&plain, name, 200, dialect, "sim", asked);
        }
        if dialect == Dialect::Gemini {
            record(&plain, "array", 200, dialect, "sim", Asked { shape: Shape::Array, ..STREAM });
        }
        record(&reasoning, "stream-reasoning", 200, dialect, "sim", STREAM);
        record(&reasoning, "whole-reasoning", 200, dialect, "sim", WHOLE);
        record(&counting, "stream-usage-in-every-chunk", 200, dialect, "sim", STREAM);
        record(&locked, "refused-401", 401, dialect, "sim", STREAM);
        record(&only, "refused-404", 404, dialect, "another", STREAM);
        let limited = Asked { headers: "X-Tokrate-Fault: rate_limited\r\n", ..STREAM };
        record(&plain, "refused-429", 429, dialect, "sim", limited);
        let failing = Asked { headers: "X-Tokrate-Fault: server_error\r\n", ..WHOLE };
        record(&plain, "refused-500", 500, dialect, "sim", failing);
    }
    all
}

/// A body without the times at which answers were made.
fn timeless(body: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(body).into_owned();
    for key in ["\"created\":", "\"created_at\":"] {
        let mut parts = text.split(key);
        let mut kept = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let value = part.find([',', '}']).unwrap_or(part.len());
            kept += &format!("{key}0{}", &part[value..]);
        }
        text = kept;
    }
    text
}

#[test]
fn the_recordings_are_what_the_engine_answers() {
    let now = recordings();
    assert_eq!(now.len(), Dialect::ALL.len() * 14 + 1, "{:?}", now.keys());
    if std::env::var_os(RECORD).is_some() {
        std::fs::create_dir_all(folder()).expect("a folder of the repository");
        for (name, body) in &now {
            std::fs::write(folder().join(name), body).unwrap_or_else(|error| panic!("write {name}: {error}"));
        }
    }
    let listed = std::fs::read_dir(folder()).expect("the recordings lie in the repository");
    let mut names: Vec<String> =
        listed.map(|entry| entry.expect("listed").file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    assert!(names.iter().eq(now.keys()), "recorded are {names:?}");
    for (name, body) in &now {
        let recorded = std::fs::read(folder().join(name)).expect("it is listed");
        assert_eq!(
            timeless(&recorded),
            timeless(body),
            "{name} is not what the engine answers; see the top of this file"
        );
    }
}
