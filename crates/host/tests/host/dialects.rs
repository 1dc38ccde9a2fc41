//! Every dialect and shape: a client that decodes the answer sees exactly what the truth log says.

use crate::client::{Answer, ask, request_text};
use crate::loopback::law;
use tokrate_core::{Channel, ChatRequest, EventKind, FinishReason, Message, Role, ServerTimings, Span};
use tokrate_host::{AnswerEnd, Host, HostConfig, Kinds, RunningHost, TruthLog};
use tokrate_sim::Law;
use tokrate_tokens::{Encoding, count};
use tokrate_wire::{Dialect, Shape, encode_request};

const PROMPT: &str = "How fast is it, and how many words does it say?";

fn shapes(dialect: Dialect) -> &'static [Shape] {
    match dialect {
        Dialect::Gemini => &[Shape::Stream, Shape::Array, Shape::Whole],
        _ => &[Shape::Stream, Shape::Whole],
    }
}

/// A request as the library writes it, to the path that the library gives.
fn request(dialect: Dialect, shape: Shape, headers: &str) -> String {
    let request = ChatRequest {
        model: "sim".to_owned(),
        messages: vec![Message::text(Role::User, PROMPT)],
        stream: shape != Shape::Whole,
        include_usage: shape != Shape::Whole,
        max_output_tokens: Some(12),
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
    request_text(&format!("{base}{}", dialect.path("sim", shape)), headers, &body)
}

fn host(law: Law) -> RunningHost {
    Host::start(HostConfig { law, truth: TruthLog::Memory, ..HostConfig::default() }).expect("a host on loopback")
}

/// The server's own times that an answer carries.
fn timings(answer: &Answer, dialect: Dialect, shape: Shape) -> Option<ServerTimings> {
    let events = answer.events_of(dialect, shape);
    let mut seen = None;
    for what in events.all() {
        if let EventKind::Timings(index) = what {
            seen = Some(events.0.timings(index));
        }
    }
    seen
}

#[test]
fn what_a_client_decodes_is_what_the_log_says() {
    let host = host(Law { reasoning_tokens: 5, ..law() });
    for dialect in Dialect::ALL {
        for &shape in shapes(dialect) {
            let name = format!("{}-{shape:?}", dialect.name());
            let answer = ask(host.address(), &request(dialect, shape, &format!("X-Request-Id: {name}\r\n")));
            assert_eq!((answer.status, answer.is_whole), (200, true), "{name}: {}", answer.text());
            assert_eq!(answer.header("content-type"), Some(dialect.content_type(shape)), "{name}");
            let truth = host.truth();
            let logged = truth.request(&name).unwrap_or_else(|| panic!("{name} is not in the log"));
            assert_eq!((logged.dialect, &*logged.persona), (dialect, "sim"));
            assert_eq!(logged.input_tokens as usize, count(Encoding::O200kBase, PROMPT), "{name}");
            assert_eq!((logged.end, logged.output_limit), (Some(AnswerEnd::Complete), Some(12)), "{name}");
            assert_eq!(logged.stream, shape != Shape::Whole, "{name}");

            let events = answer.events_of(dialect, shape);
            let written: u32 = logged.writes.iter().map(|write| write.tokens).sum();
            assert_eq!((events.tokens(), written), (12, 12), "{name}: {}", answer.text());
            let bytes: u32 = logged.writes.iter().map(|write| write.bytes).sum();
            assert_eq!(bytes as usize, answer.body().len(), "{name}");
            let odd: Vec<EventKind> =
                events.all().filter(|what| matches!(what, EventKind::Anomaly(_) | EventKind::Failed { .. })).collect();
            assert_eq!(odd, [], "{name}: {}", answer.text());
            let finish = EventKind::Finish(FinishReason::Length);
            assert_eq!(events.all().filter(|what| *what == finish).count(), 1, "{name}: {}", answer.text());
            let usage = events.usage().unwrap_or_else(|| panic!("{name} has no usage: {}", answer.text()));
            assert_eq!(usage.output, Some(12), "{name}");
            let kinds = logged.writes.iter().fold(Kinds::default(), |kinds, write| kinds.with(write.kinds));
            assert!(kinds.contains(Kinds::TEXT.with(Kinds::FINISH).with(Kinds::USAGE)), "{name}: {kinds}");
        }
    }
    assert_eq!(host.stats().ended, Dialect::ALL.iter().map(|dialect| shapes(*dialect).len() as u64).sum::<u64>());
}

#[test]
fn the_prompt_is_reported_as_it_was_counted() {
    let host = host(law());
    for dialect in Dialect::ALL {
        for &shape in shapes(dialect) {
            let events = ask(host.address(), &request(dialect, shape, "")).events_of(dialect, shape);
            // Usage events merge: some dialects tell the counts in parts.
            let input = events.all().filter_map(|what| match what {
                EventKind::Usage(usage) => usage.input.filter(|input| *input > 0),
                _ => None,
            });
            let expected = count(Encoding::O200kBase, PROMPT) as u64;
            assert_eq!(input.last(), Some(expected), "{} {shape:?}", dialect.name());
        }
    }
}

#[test]
fn reasoning_and_answer_keep_their_places() {
    let host = host(Law { reasoning_tokens: 5, ..law() });
    for dialect in Dialect::ALL {
        // These two know one kind of text only.
        let split = !matches!(dialect, Dialect::LlamaCompletion | Dialect::OpenAiCompletions);
        for &shape in shapes(dialect) {
            let answer = ask(host.address(), &request(dialect, shape, ""));
            let events = answer.events_of(dialect, shape);
            let mut texts = [String::new(), String::new(), String::new()];
            for what in events.all() {
                if let EventKind::Text { channel, text } = what {
                    texts[channel as usize].push_str(events.0.text(text));
                }
            }
            let of = |channel: Channel| count(Encoding::O200kBase, &texts[channel as usize]);
            let seen = (of(Channel::Reasoning), of(Channel::Answer));
            assert_eq!(seen, if split { (5, 7) } else { (0, 12) }, "{} {shape:?}: {}", dialect.name(), answer.text());
        }
    }
}

#[test]
fn engines_that_tell_their_times_tell_those_of_the_law() {
    let host = host(law());
    let input = count(Encoding::O200kBase, PROMPT) as u64;
    for dialect in Dialect::ALL {
        let tells = matches!(dialect, Dialect::OllamaChat | Dialect::OllamaGenerate | Dialect::LlamaCompletion);
        for &shape in shapes(dialect) {
            let seen = timings(&ask(host.address(), &request(dialect, shape, "")), dialect, shape);
            assert_eq!(seen.is_some(), tells, "{} {shape:?}", dialect.name());
            let Some(seen) = seen else { continue };
            // 10 ms and the prompt at a million tokens per second; then 11 gaps of 1 ms.
            assert_eq!(seen.prefill, Some(Span::from_micros(10_000 + input)), "{} {shape:?}", dialect.name());
            assert_eq!(seen.decode, Some(Span::from_millis(11)), "{} {shape:?}", dialect.name());
        }
    }
}

#[test]
fn what_is_refused_is_refused_in_the_dialect_of_its_path() {
    let mut config = HostConfig { law: law(), ..HostConfig::default() };
    config.faults.set("rate_limited").expect("a fault");
    let host = Host::start(config).expect("a host on loopback");
    for dialect in Dialect::ALL {
        let answer = ask(host.address(), &request(dialect, Shape::Stream, ""));
        assert_eq!((answer.status, answer.header("retry-after")), (429, Some("1")), "{}", dialect.name());
        let refusal = tokrate_wire::decode_error_response(429, &[("retry-after", "1")], &answer.body(), None);
        assert_eq!(refusal.message, "too many requests", "{}: {}", dialect.name(), answer.text());
        let error = answer.text();
        let own = match dialect {
            Dialect::Anthropic => error.starts_with(r#"{"type":"error""#),
            Dialect::Gemini => error.contains("RESOURCE_EXHAUSTED"),
            Dialect::BedrockConverse => error.starts_with(r#"{"code":"ThrottlingException","#),
            Dialect::CohereChat => error == r#"{"message":"too many requests"}"#,
            Dialect::OllamaChat | Dialect::OllamaGenerate => error == r#"{"error":"too many requests"}"#,
            _ => error.starts_with(r#"{"error":{"#),
        };
        assert!(own, "{}: {error}", dialect.name());
    }
}

#[test]
fn a_broken_event_is_one_anomaly_in_every_stream() {
    let host = host(law());
    for dialect in Dialect::ALL {
        for &shape in shapes(dialect).iter().filter(|shape| **shape != Shape::Whole) {
            let answer = ask(host.address(), &request(dialect, shape, "X-Tokrate-Fault: malformed@4\r\n"));
            let events = answer.events_of(dialect, shape);
            let odd = events.all().filter(|what| matches!(what, EventKind::Anomaly(_))).count();
            assert_eq!((events.tokens(), odd), (12, 1), "{} {shape:?}: {}", dialect.name(), answer.text());
        }
    }
}

#[test]
fn an_error_inside_a_stream_is_one_in_every_dialect() {
    let host = host(law());
    for dialect in Dialect::ALL {
        for &shape in shapes(dialect).iter().filter(|shape| **shape != Shape::Whole) {
            let answer = ask(host.address(), &request(dialect, shape, "X-Tokrate-Fault: error_event@4\r\n"));
            let events = answer.events_of(dialect, shape);
            let failed = events.has(|what| matches!(what, EventKind::Failed { .. }));
            assert_eq!((events.tokens(), failed), (4, true), "{} {shape:?}: {}", dialect.name(), answer.text());
        }
    }
}
