//! The dialect's requests and the order of what is written; decoding is tested from outside.

use super::encode::{MessagesEncoder, error};
use super::request::{decode, encode};
use crate::error::WireError;
use crate::response::{Answer, Piece, ResponseEncoder, ToolCall};
use serde_json::{Value, json};
use tokrate_core::{Channel, ChatRequest, Content, FinishReason, Image, Message, Role, Tool, ToolChoice, Usage};

fn written(request: &ChatRequest) -> Value {
    serde_json::from_slice(&encode(request)).expect("JSON")
}

fn read(json: &Value) -> ChatRequest {
    decode(json.to_string().as_bytes()).expect("a request")
}

fn call(id: &str) -> Content {
    Content::ToolCall { id: id.to_owned(), name: "tide".to_owned(), arguments: r#"{"at":"Brest"}"#.to_owned() }
}

fn result(id: &str, text: &str, failed: bool) -> Content {
    Content::ToolResult { id: id.to_owned(), name: String::new(), text: text.to_owned(), failed }
}

fn conversation() -> ChatRequest {
    let picture = Image::Data { media_type: "image/png".to_owned(), base64: "aGk=".to_owned() };
    ChatRequest {
        model: "claude-tide-5".to_owned(),
        messages: vec![
            Message::text(Role::System, "Be brief."),
            Message::text(Role::System, "Be kind."),
            Message {
                role: Role::User,
                content: vec![
                    Content::Text("Which harbour?".to_owned()),
                    Content::Image(Image::Url("https://example.com/a.png".to_owned())),
                    Content::Image(picture.clone()),
                ],
            },
            Message {
                role: Role::Assistant,
                content: vec![
                    Content::Reasoning { text: "Look.".to_owned(), signature: Some("c2ln".to_owned()) },
                    Content::Other(r#"{"type":"redacted_thinking","data":"c2VhbGVk"}"#.to_owned()),
                    Content::Text("I look.".to_owned()),
                    call("toolu_1"),
                    call("toolu_2"),
                ],
            },
            Message { role: Role::Tool, content: vec![result("toolu_1", "noon", false), Content::Image(picture)] },
            Message { role: Role::Tool, content: vec![result("toolu_2", "no such harbour", true)] },
            Message::text(Role::User, "So?"),
        ],
        stream: true,
        include_usage: true,
        max_output_tokens: Some(300),
        temperature: Some(0.2),
        top_p: Some(0.9),
        stop: vec!["###".to_owned()],
        tools: vec![Tool {
            name: "tide".to_owned(),
            description: Some("High water".to_owned()),
            parameters: Some(r#"{"type":"object"}"#.to_owned()),
        }],
        tool_choice: Some(ToolChoice::Named("tide".to_owned())),
        extra: vec![("top_k".to_owned(), "40".to_owned())],
        ..ChatRequest::default()
    }
}

#[test]
fn a_request_is_written_in_the_dialects_own_form() {
    let expected = json!({
        "model": "claude-tide-5",
        "max_tokens": 300,
        "system": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}],
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "Which harbour?"},
                {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
            ]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Look.", "signature": "c2ln"},
                {"type": "redacted_thinking", "data": "c2VhbGVk"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "toolu_1", "name": "tide", "input": {"at": "Brest"}},
                {"type": "tool_use", "id": "toolu_2", "name": "tide", "input": {"at": "Brest"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": [
                    {"type": "text", "text": "noon"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
                ]},
                {"type": "tool_result", "tool_use_id": "toolu_2", "is_error": true, "content": "no such harbour"},
                {"type": "text", "text": "So?"},
            ]},
        ],
        "stream": true,
        "stop_sequences": ["###"],
        "temperature": 0.2,
        "top_p": 0.9,
        "tools": [{"name": "tide", "description": "High water", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "tool", "name": "tide"},
        "top_k": 40,
    });
    assert_eq!(written(&conversation()), expected);
    assert_eq!(decode(&encode(&conversation())), Ok(conversation()));
}

#[test]
fn what_the_dialect_does_not_know_is_not_written() {
    let request = ChatRequest {
        model: "m".to_owned(),
        messages: vec![Message::text(Role::User, "Hi")],
        include_usage: true,
        ignore_eos: true,
        seed: Some(4),
        temperature: Some(f64::NAN),
        ..ChatRequest::default()
    };
    let expected = json!({"model": "m", "max_tokens": 4096, "messages": [{"role": "user", "content": "Hi"}]});
    assert_eq!(written(&request), expected, "a limit is demanded, so one is stated");
}

#[test]
fn each_choice_of_tools_has_its_name() {
    for (choice, kind) in [(ToolChoice::Auto, "auto"), (ToolChoice::Never, "none"), (ToolChoice::Required, "any")] {
        let request = ChatRequest { tool_choice: Some(choice), ..conversation() };
        assert_eq!(written(&request)["tool_choice"], json!({"type": kind}));
        assert_eq!(decode(&encode(&request)), Ok(request));
    }
}

#[test]
fn tools_of_the_providers_own_survive_beside_the_others() {
    let tools = json!([
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 5},
        {"name": "tide", "input_schema": {"type": "object"}},
    ]);
    let choice = json!({"type": "auto", "disable_parallel_tool_use": true});
    let json = json!({"model": "m", "max_tokens": 1, "messages": [], "tools": tools, "tool_choice": choice});
    let request = read(&json);
    let names: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!((names, &request.tool_choice), (vec!["tide"], &Some(ToolChoice::Auto)));
    assert_eq!(written(&request), json);
}

#[test]
fn a_system_message_may_stand_within_a_conversation() {
    let messages =
        vec![Message::text(Role::User, "a"), Message::text(Role::System, "b"), Message::text(Role::User, "c")];
    let request = ChatRequest { messages, max_output_tokens: Some(1), ..ChatRequest::default() };
    assert_eq!(written(&request)["messages"][1], json!({"role": "system", "content": "b"}));
    assert_eq!(decode(&encode(&request)), Ok(request));
}

#[test]
fn arguments_that_are_no_object_are_put_into_one() {
    let input = |arguments: &str| {
        let content = vec![Content::ToolCall { id: "i".into(), name: "n".into(), arguments: arguments.to_owned() }];
        let messages = vec![Message { role: Role::Assistant, content }];
        written(&ChatRequest { messages, ..ChatRequest::default() })["messages"][0]["content"][0]["input"].clone()
    };
    assert_eq!(input(" {\"a\": 1}"), json!({"a": 1}));
    assert_eq!(input(""), json!({}));
    assert_eq!(input("{\"a\": "), json!({"arguments": "{\"a\": "}));
    assert_eq!(input("[1]"), json!({"arguments": "[1]"}));
}

#[test]
fn a_broken_request_names_what_is_wrong() {
    let error = |json: &str| decode(json.as_bytes()).expect_err("broken");
    assert!(matches!(error("{"), WireError::NotJson(_)));
    assert!(matches!(error(r#"{"model":"\ud800"}"#), WireError::NotJson(_)));
    assert_eq!(error("[]"), WireError::NotAnObject);
    assert_eq!(error(r#"{"messages":[]}"#), WireError::Missing("model"));
    assert_eq!(error(r#"{"model":"m"}"#), WireError::Missing("messages"));
    let invalid = |json: &str| match error(json) {
        WireError::Invalid { field, .. } => field,
        other => panic!("{other:?}"),
    };
    assert_eq!(invalid(r#"{"model":1}"#), "model");
    assert_eq!(invalid(r#"{"model":"m","messages":{}}"#), "messages");
    assert_eq!(invalid(r#"{"model":"m","messages":[7]}"#), "messages");
    assert_eq!(invalid(r#"{"model":"m","messages":[{"role":"tool","content":""}]}"#), "messages[].role");
    assert_eq!(invalid(r#"{"model":"m","messages":[{"role":"user","content":7}]}"#), "messages[].content");
    assert_eq!(invalid(r#"{"model":"m","messages":[{"role":"user","content":["a"]}]}"#), "messages[].content");
    assert_eq!(invalid(r#"{"model":"m","messages":[],"system":7}"#), "system");
    assert_eq!(invalid(r#"{"model":"m","messages":[],"max_tokens":-1}"#), "max_tokens");
    assert_eq!(invalid(r#"{"model":"m","messages":[],"stream":"yes"}"#), "stream");
    assert_eq!(invalid(r#"{"model":"m","messages":[],"stop_sequences":"a"}"#), "stop_sequences");
    assert_eq!(invalid(r#"{"model":"m","messages":[],"tools":{}}"#), "tools");
    assert_eq!(invalid(r#"{"model":"m","messages":[],"tool_choice":"any"}"#), "tool_choice");
}

const USAGE: Usage =
    Usage { input: Some(50), output: Some(9), reasoning: Some(4), cached_input: Some(30), cache_write_input: Some(8) };

#[test]
fn events_come_in_the_order_that_clients_rely_on() {
    let text = |channel, text| Piece::Text { channel, text };
    let pieces = [
        Piece::Role,
        text(Channel::Reasoning, "Look \"there\"."),
        text(Channel::Answer, "I"),
        text(Channel::Answer, " look.\n"),
        Piece::ToolCall { index: 0, id: "toolu_1", name: "tide" },
        text(Channel::Tool, "{\"at\":"),
        text(Channel::Tool, "\"Brest\"}"),
        Piece::ToolCall { index: 1, id: "toolu_2", name: "now" },
        Piece::Finish(FinishReason::ToolCalls),
        Piece::Usage(USAGE),
        Piece::Done,
    ];
    let mut encoder = MessagesEncoder::new("msg_1", "claude-tide-5");
    let mut out = Vec::new();
    for piece in &pieces {
        encoder.encode_event(piece, &mut out);
    }
    insta::assert_snapshot!(String::from_utf8(out).expect("UTF-8"));
}

#[test]
fn the_input_is_named_at_the_start_when_it_is_known() {
    let mut encoder = MessagesEncoder::new("msg_1", "m");
    let mut out = Vec::new();
    for piece in [Piece::Usage(USAGE), Piece::Role, Piece::Failed { message: "Overloaded" }] {
        encoder.encode_event(&piece, &mut out);
    }
    let out = String::from_utf8(out).expect("UTF-8");
    let usage =
        r#""usage":{"input_tokens":12,"cache_creation_input_tokens":8,"cache_read_input_tokens":30,"output_tokens":0}"#;
    assert!(out.starts_with("event: message_start\n") && out.contains(usage), "{out}");
    let error =
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"Overloaded\"}}\n\n";
    assert!(out.ends_with(error), "{out}");
}

#[test]
fn a_whole_message_holds_a_block_of_each_kind() {
    let tools = [ToolCall { id: "toolu_1", name: "tide", arguments: "{\"at\":\"Brest\"}" }];
    let answer = Answer {
        reasoning: "Look.",
        answer: "I look.",
        tools: &tools,
        finish: FinishReason::ToolCalls,
        usage: Some(USAGE),
        timings: None,
    };
    let body = MessagesEncoder::new("msg_1", "claude-tide-5").encode_whole(&answer);
    let expected = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-tide-5",
        "content": [
            {"type": "thinking", "thinking": "Look.", "signature": ""},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "toolu_1", "name": "tide", "input": {"at": "Brest"}},
        ],
        "stop_reason": "tool_use", "stop_sequence": null,
        "usage": {
            "input_tokens": 12, "cache_creation_input_tokens": 8, "cache_read_input_tokens": 30, "output_tokens": 9,
        },
    });
    assert_eq!(serde_json::from_slice::<Value>(&body).expect("JSON"), expected);
}

#[test]
fn a_refusal_names_its_kind() {
    let kinds =
        [(400, "invalid_request_error"), (413, "request_too_large"), (429, "rate_limit_error"), (500, "api_error")];
    for (status, kind) in kinds {
        let body: Value = serde_json::from_slice(&error(status, "No.")).expect("JSON");
        assert_eq!(body, json!({"type": "error", "error": {"type": kind, "message": "No."}}));
    }
}
