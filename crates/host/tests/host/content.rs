//! Answers that a request asks to be something other than words: calls of tools, JSON, embeddings.

use crate::client::{Answer, ask, request_text};
use crate::loopback::law;
use serde_json::{Value, json};
use std::sync::Arc;
use tokrate_core::{Channel, ChatRequest, EventKind, FinishReason, Message, Role, Tool, ToolChoice};
use tokrate_host::{AnswerScript, Host, HostConfig, RunningHost, ScriptRule, ScriptedCall, TruthLog};
use tokrate_tokens::{Encoding, count};
use tokrate_wire::{Dialect, Shape, encode_request};

/// The dialects whose requests have a way to demand a tool.
const WITH_TOOLS: [Dialect; 4] = [Dialect::OpenAiChat, Dialect::OpenAiResponses, Dialect::Anthropic, Dialect::Gemini];
const PARAMETERS: &str = r#"{"type":"object","properties":{"city":{"type":"string","enum":["Oslo","Bergen"]},"days":{"type":"integer","minimum":1,"maximum":7}},"required":["city","days"],"additionalProperties":false}"#;

fn host() -> RunningHost {
    Host::start(HostConfig { law: law(), truth: TruthLog::Memory, ..HostConfig::default() })
        .expect("a host on loopback")
}

fn request(choice: ToolChoice, limit: Option<u32>, stream: bool) -> ChatRequest {
    let tool = |name: &str| Tool { name: name.to_owned(), description: None, parameters: Some(PARAMETERS.to_owned()) };
    ChatRequest {
        model: "sim".to_owned(),
        messages: vec![Message::text(Role::User, "What is the weather like?")],
        tools: vec![tool("other"), tool("weather")],
        tool_choice: Some(choice),
        max_output_tokens: limit,
        stream,
        include_usage: stream,
        ..ChatRequest::default()
    }
}

fn asked(host: &RunningHost, dialect: Dialect, shape: Shape, request: &ChatRequest) -> Answer {
    let body = String::from_utf8(encode_request(dialect, request)).expect("JSON");
    let base = if dialect == Dialect::Gemini { "/v1beta" } else { "/v1" };
    ask(host.address(), &request_text(&format!("{base}{}", dialect.path("sim", shape)), "", &body))
}

/// The tools that are called, the arguments, and why the answer ended.
fn called(answer: &Answer, dialect: Dialect, shape: Shape) -> (Vec<String>, String, Option<FinishReason>) {
    let events = answer.events_of(dialect, shape);
    let (mut names, mut arguments, mut finish) = (Vec::new(), String::new(), None);
    for what in events.all() {
        match what {
            EventKind::ToolCall { name, .. } => names.push(events.0.text(name).to_owned()),
            // The name of a tool is text of this channel too.
            EventKind::Text { channel: Channel::Tool, text } => arguments.push_str(events.0.text(text)),
            EventKind::Finish(reason) => finish = Some(reason),
            EventKind::Anomaly(_) | EventKind::Failed { .. } => panic!("{}: {}", dialect.name(), answer.text()),
            _ => {}
        }
    }
    (names, arguments, finish)
}

#[test]
fn a_tool_that_a_request_demands_is_called_with_arguments_of_its_schema_in_every_dialect_and_shape() {
    let host = host();
    for dialect in WITH_TOOLS {
        for shape in [Shape::Stream, Shape::Whole] {
            let named = request(ToolChoice::Named("weather".to_owned()), Some(500), shape == Shape::Stream);
            let answer = asked(&host, dialect, shape, &named);
            assert_eq!(answer.status, 200, "{}: {}", dialect.name(), answer.text());
            let (names, arguments, finish) = called(&answer, dialect, shape);
            assert_eq!(names, ["weather"], "{} {shape:?}: {}", dialect.name(), answer.text());
            let arguments: Value = serde_json::from_str(arguments.trim_start_matches("weather")).expect("JSON");
            let object = arguments.as_object().expect("an object");
            assert_eq!(object.len(), 2, "{arguments}");
            assert!(["Oslo", "Bergen"].contains(&arguments["city"].as_str().expect("a text")), "{arguments}");
            assert!((1..=7).contains(&arguments["days"].as_i64().expect("a whole number")), "{arguments}");
            assert_eq!(finish, Some(FinishReason::ToolCalls), "{} {shape:?}: {}", dialect.name(), answer.text());
            let again = asked(&host, dialect, shape, &named);
            assert_eq!(
                called(&again, dialect, shape).1,
                called(&answer, dialect, shape).1,
                "the same request, the same call"
            );
        }
    }
}

#[test]
fn the_engine_takes_as_long_and_bills_as_much_as_the_content_has_tokens() {
    let host = host();
    let required = request(ToolChoice::Required, None, false);
    let answer = asked(&host, Dialect::OpenAiChat, Shape::Whole, &required);
    let body: Value = serde_json::from_slice(&answer.body()).expect("JSON");
    let arguments = body.pointer("/choices/0/message/tool_calls/0/function/arguments").and_then(Value::as_str);
    let tokens = count(Encoding::O200kBase, arguments.expect("arguments"));
    assert_eq!(body["usage"]["completion_tokens"].as_u64(), Some(tokens as u64), "{body}");
    // A limit cuts it short, as everywhere.
    let cut = asked(&host, Dialect::OpenAiChat, Shape::Whole, &request(ToolChoice::Required, Some(3), false));
    let body: Value = serde_json::from_slice(&cut.body()).expect("JSON");
    assert_eq!(body["usage"]["completion_tokens"], 3, "{body}");
    assert_eq!(body["choices"][0]["finish_reason"], "length", "{body}");
}

#[test]
fn tools_that_are_only_offered_are_not_called() {
    // An agent would carry out what is drawn.
    let host = host();
    for choice in [ToolChoice::Auto, ToolChoice::Never] {
        let answer = asked(&host, Dialect::OpenAiChat, Shape::Whole, &request(choice, Some(10), false));
        let (names, _, finish) = called(&answer, Dialect::OpenAiChat, Shape::Whole);
        assert_eq!((names.len(), finish), (0, Some(FinishReason::Length)));
    }
}

#[test]
fn a_tool_that_nobody_offered_or_whose_schema_is_not_understood_is_refused_by_name() {
    let host = host();
    let unknown = request(ToolChoice::Named("missing".to_owned()), None, false);
    let answer = asked(&host, Dialect::OpenAiChat, Shape::Whole, &unknown);
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("not among `tools`"), "{}", answer.text());
    let mut odd = request(ToolChoice::Required, None, false);
    odd.tools = vec![Tool { name: "t".to_owned(), description: None, parameters: Some(r#"{"not":{}}"#.to_owned()) }];
    let answer = asked(&host, Dialect::OpenAiChat, Shape::Whole, &odd);
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("the tool `t`") && answer.text().contains("`not`"), "{}", answer.text());
}

/// Bodies that ask for JSON of a schema, by path.
fn asking_for_json() -> Vec<(&'static str, Dialect, Value)> {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false});
    let messages = json!([{"role": "user", "content": "hi"}]);
    vec![
        (
            "/v1/chat/completions",
            Dialect::OpenAiChat,
            json!({"model": "m", "messages": messages, "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}}),
        ),
        (
            "/v1/responses",
            Dialect::OpenAiResponses,
            json!({"model": "m", "input": "hi", "text": {"format": {"type": "json_schema", "name": "a", "schema": schema}}}),
        ),
        (
            "/v1beta/models/m:generateContent",
            Dialect::Gemini,
            json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}],
                "generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": schema}}),
        ),
        (
            "/api/chat",
            Dialect::OllamaChat,
            json!({"model": "m", "messages": messages, "stream": false, "format": schema}),
        ),
        (
            "/v1/messages",
            Dialect::Anthropic,
            json!({"model": "m", "max_tokens": 500, "messages": messages, "output_config": {"format": {"type": "json_schema", "schema": schema}}}),
        ),
    ]
}

#[test]
fn an_answer_that_is_to_follow_a_schema_does() {
    let host = host();
    for (path, dialect, body) in asking_for_json() {
        let answer = ask(host.address(), &request_text(path, "", &body.to_string()));
        let text = answer.events_of(dialect, Shape::Whole).text();
        let value: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}: {text}"));
        assert!(value["n"].is_i64() && value.as_object().is_some_and(|object| object.len() == 1), "{path}: {value}");
    }
}

#[test]
fn what_cannot_be_answered_as_it_is_asked_for_is_refused_and_never_answered_with_words() {
    let host = host();
    let messages = json!([{"role": "user", "content": "hi"}]);
    let json_object = json!({"type": "json_object"});
    for (path, body, names) in [
        (
            "/v1/chat/completions",
            json!({"model": "m", "n": 2, "messages": messages, "response_format": json_object}),
            "`n`",
        ),
        (
            "/v1/chat/completions",
            json!({"model": "m", "messages": messages, "response_format": {"type": "grammar"}}),
            "`response_format`",
        ),
        (
            "/v1/chat/completions",
            json!({"model": "m", "messages": messages, "response_format": "json"}),
            "response_format",
        ),
        ("/api/chat", json!({"model": "m", "messages": messages, "stream": false, "format": "xml"}), "`format`"),
    ] {
        let answer = ask(host.address(), &request_text(path, "", &body.to_string()));
        assert!(answer.status == 400 && answer.text().contains(names), "{body}: {}", answer.text());
    }
    // Words are what these ask for.
    for body in [
        json!({"model": "m", "n": 2, "messages": messages, "response_format": {"type": "text"}, "max_tokens": 3}),
        json!({"model": "m", "messages": messages, "max_tokens": 3}),
    ] {
        let answer = ask(host.address(), &request_text("/v1/chat/completions", "", &body.to_string()));
        assert_eq!(answer.status, 200, "{body}: {}", answer.text());
    }
}

#[test]
fn json_without_a_schema_is_an_object() {
    let host = host();
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "JSON!"}], "response_format": {"type": "json_object"}});
    let answer = ask(host.address(), &request_text("/v1/chat/completions", "", &body.to_string()));
    let value: Value = serde_json::from_str(&answer.events_of(Dialect::OpenAiChat, Shape::Whole).text()).expect("JSON");
    assert!(value.is_object(), "{value}");
}

#[test]
fn embeddings_have_the_dimension_that_is_asked_for_and_length_one() {
    let host = host();
    let post = |path: &str, body: Value| {
        let answer = ask(host.address(), &request_text(path, "", &body.to_string()));
        (answer.status, serde_json::from_slice::<Value>(&answer.body()).expect("JSON"))
    };
    let (status, body) = post("/v1/embeddings", json!({"model": "m", "input": ["one", "two words"], "dimensions": 64}));
    assert_eq!(status, 200, "{body}");
    let vectors: Vec<Vec<f64>> = body["data"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|item| item["embedding"].as_array().expect("a list").iter().filter_map(Value::as_f64).collect())
        .collect();
    assert_eq!((vectors.len(), vectors[0].len()), (2, 64));
    assert!(vectors.iter().all(|vector| (vector.iter().map(|number| number * number).sum::<f64>() - 1.0).abs() < 1e-4));
    assert_eq!(body["usage"], json!({"prompt_tokens": 3, "total_tokens": 3}));
    let (_, ollama) = post("/api/embed", json!({"model": "m", "input": "one", "dimensions": 64}));
    assert_eq!(ollama["embeddings"][0], body["data"][0]["embedding"], "the same text, the same vector");
    let (_, packed) = post("/v1/embeddings", json!({"model": "m", "input": "one", "encoding_format": "base64"}));
    // 1,536 numbers of four bytes.
    assert_eq!(packed["data"][0]["embedding"].as_str().map(str::len), Some(1_536 * 4 / 3 * 4));
    for wrong in [
        json!({"model": "m"}),
        json!({"input": []}),
        json!({"input": "a", "dimensions": 0}),
        json!({"input": "a", "encoding_format": "x"}),
    ] {
        assert_eq!(post("/v1/embeddings", wrong.clone()).0, 400, "{wrong}");
    }
    let (status, body) = post("/api/embed", json!({"input": 7}));
    assert!(status == 400 && body["error"].is_string(), "in Ollama's form: {body}");
}

#[test]
fn a_script_answers_with_text_and_several_calls_in_every_dialect_and_shape() {
    let call = |tool: &str, city: &str| ScriptedCall {
        tool: tool.to_owned(),
        arguments: format!("{{\"city\":\"{city}\",\"days\":2}}"),
    };
    let rule = ScriptRule {
        turn: Some(1),
        last: Some("weather".to_owned()),
        text: "I look it up: ☔".to_owned(),
        calls: vec![call("weather", "Oslo"), call("other", "Bergen")],
        ..ScriptRule::default()
    };
    let script = Some(Arc::new(AnswerScript { rules: vec![rule] }));
    let config = HostConfig { law: law(), truth: TruthLog::Memory, script, ..HostConfig::default() };
    let host = Host::start(config).expect("a host on loopback");
    for dialect in WITH_TOOLS {
        for shape in [Shape::Stream, Shape::Whole] {
            let asked_for = request(ToolChoice::Auto, Some(500), shape == Shape::Stream);
            let answer = asked(&host, dialect, shape, &asked_for);
            let (names, arguments, finish) = called(&answer, dialect, shape);
            let name = format!("{} {shape:?}: {}", dialect.name(), answer.text());
            assert_eq!(names, ["weather", "other"], "{name}");
            let (oslo, bergen) = (arguments.find("Oslo"), arguments.find("Bergen"));
            assert!(oslo.is_some() && oslo < bergen, "{name}");
            assert_eq!(finish, Some(FinishReason::ToolCalls), "{name}");
            let events = answer.events_of(dialect, shape);
            let text: String = events
                .all()
                .filter_map(|what| match what {
                    EventKind::Text { channel: Channel::Answer, text } => Some(events.0.text(text).to_owned()),
                    _ => None,
                })
                .collect();
            assert_eq!(text, "I look it up: ☔", "{name}");
        }
    }
    let other = ChatRequest { tools: Vec::new(), tool_choice: None, ..request(ToolChoice::Auto, Some(9), false) };
    let answer = asked(&host, Dialect::OpenAiChat, Shape::Whole, &other);
    assert_eq!(called(&answer, Dialect::OpenAiChat, Shape::Whole).2, Some(FinishReason::Length), "words");
}
