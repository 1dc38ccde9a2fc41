//! The dialect's requests and the order of what is written; decoding is tested from outside.

use super::encode::ResponsesEncoder;
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

fn result(id: &str, text: &str) -> Content {
    Content::ToolResult { id: id.to_owned(), name: String::new(), text: text.to_owned(), failed: false }
}

fn conversation() -> ChatRequest {
    let picture = Image::Data { media_type: "image/png".to_owned(), base64: "aGk=".to_owned() };
    let file = r#"{"type":"input_file","file_id":"f"}"#;
    let search = r#"{"type":"web_search_call","id":"ws_1","status":"completed"}"#;
    ChatRequest {
        model: "gpt-tide-5".to_owned(),
        messages: vec![
            Message::text(Role::System, "Be brief."),
            Message::text(Role::System, "Be kind."),
            Message {
                role: Role::User,
                content: vec![
                    Content::Text("Which harbour?".to_owned()),
                    Content::Image(Image::Url("https://example.com/a.png".to_owned())),
                    Content::Other(file.to_owned()),
                ],
            },
            Message { role: Role::Assistant, content: vec![Content::Other(search.to_owned())] },
            Message {
                role: Role::Assistant,
                content: vec![
                    Content::Reasoning { text: "Look.".to_owned(), signature: Some("c2ln".to_owned()) },
                    Content::Text("I look.".to_owned()),
                    call("call_1"),
                    call("call_2"),
                ],
            },
            Message { role: Role::Tool, content: vec![result("call_1", "noon"), Content::Image(picture)] },
            Message { role: Role::Tool, content: vec![result("call_2", "one")] },
            Message::text(Role::User, "So?"),
            Message::text(Role::Assistant, "Noon."),
        ],
        stream: true,
        include_usage: true,
        max_output_tokens: Some(300),
        ignore_eos: true,
        temperature: Some(0.2),
        top_p: Some(0.9),
        tools: vec![Tool {
            name: "tide".to_owned(),
            description: Some("High water".to_owned()),
            parameters: Some(r#"{"type":"object"}"#.to_owned()),
        }],
        tool_choice: Some(ToolChoice::Named("tide".to_owned())),
        extra: vec![("store".to_owned(), "false".to_owned())],
        ..ChatRequest::default()
    }
}

#[test]
fn a_request_is_written_in_the_dialects_own_form() {
    let arguments = r#"{"at":"Brest"}"#;
    let expected = json!({
        "model": "gpt-tide-5",
        "instructions": "Be brief.",
        "input": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": [
                {"type": "input_text", "text": "Which harbour?"},
                {"type": "input_image", "image_url": "https://example.com/a.png"},
                {"type": "input_file", "file_id": "f"},
            ]},
            {"type": "web_search_call", "id": "ws_1", "status": "completed"},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Look."}], "encrypted_content": "c2ln"},
            {"role": "assistant", "content": "I look."},
            {"type": "function_call", "call_id": "call_1", "name": "tide", "arguments": arguments},
            {"type": "function_call", "call_id": "call_2", "name": "tide", "arguments": arguments},
            {"type": "function_call_output", "call_id": "call_1", "output": [
                {"type": "input_text", "text": "noon"},
                {"type": "input_image", "image_url": "data:image/png;base64,aGk="},
            ]},
            {"type": "function_call_output", "call_id": "call_2", "output": "one"},
            {"role": "user", "content": "So?"},
            {"role": "assistant", "content": "Noon."},
        ],
        "stream": true,
        "max_output_tokens": 300,
        "ignore_eos": true,
        "temperature": 0.2,
        "top_p": 0.9,
        "tools": [{
            "type": "function", "name": "tide", "description": "High water", "parameters": {"type": "object"},
        }],
        "tool_choice": {"type": "function", "name": "tide"},
        "store": false,
    });
    assert_eq!(written(&conversation()), expected);
    assert_eq!(decode(&encode(&conversation())), Ok(conversation()));
}

#[test]
fn a_single_text_of_the_user_stands_for_itself() {
    let request = ChatRequest {
        model: "m".to_owned(),
        messages: vec![Message::text(Role::User, "Hi")],
        include_usage: true,
        seed: Some(4),
        stop: vec!["###".to_owned()],
        ..ChatRequest::default()
    };
    assert_eq!(written(&request), json!({"model": "m", "input": "Hi"}), "what the dialect does not know is left out");
    let instructed = ChatRequest {
        messages: vec![Message::text(Role::System, "Be brief."), Message::text(Role::User, "Hi")],
        ..request
    };
    assert_eq!(written(&instructed), json!({"model": "m", "instructions": "Be brief.", "input": "Hi"}));
}

#[test]
fn each_choice_of_tools_has_its_name() {
    let choices = [(ToolChoice::Auto, "auto"), (ToolChoice::Never, "none"), (ToolChoice::Required, "required")];
    for (choice, name) in choices {
        let request = ChatRequest { tool_choice: Some(choice), ..conversation() };
        assert_eq!(written(&request)["tool_choice"], json!(name));
        assert_eq!(decode(&encode(&request)), Ok(request));
    }
}

#[test]
fn tools_of_the_servers_own_survive_beside_the_others() {
    let json = json!({
        "model": "m", "input": "Hi",
        "tools": [{"type": "web_search"}, {"type": "function", "name": "tide", "parameters": {}, "strict": true}],
        "tool_choice": {"type": "web_search"},
    });
    let request = read(&json);
    let names: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!((names, &request.tool_choice), (vec!["tide"], &None));
    assert_eq!(written(&request), json);
}

#[test]
fn the_items_of_one_turn_become_one_message() {
    let json = json!({"model": "m", "input": [
        {"type": "reasoning", "summary": [], "encrypted_content": "a"},
        {"type": "function_call", "call_id": "1", "name": "n", "arguments": "{}"},
        {"type": "message", "role": "assistant", "content": [
            {"type": "output_text", "text": "x", "annotations": []}, {"type": "refusal", "refusal": "y"},
        ]},
        {"type": "function_call", "call_id": "2", "name": "n", "arguments": "{}"},
        {"role": "developer", "content": "z"},
        {"type": "function_call", "call_id": "3", "name": "n", "arguments": "{}"},
    ]});
    let sizes: Vec<(Role, usize)> =
        read(&json).messages.iter().map(|message| (message.role, message.content.len())).collect();
    let model = Role::Assistant;
    assert_eq!(sizes, [(model, 2), (model, 3), (Role::System, 1), (model, 1)]);
}

#[test]
fn a_broken_request_names_what_is_wrong() {
    let error = |json: &str| decode(json.as_bytes()).expect_err("broken");
    assert!(matches!(error("{"), WireError::NotJson(_)));
    assert_eq!(error("[]"), WireError::NotAnObject);
    assert_eq!(error(r#"{"input":"a"}"#), WireError::Missing("model"));
    assert_eq!(error(r#"{"model":"m"}"#), WireError::Missing("input"));
    let call = r#"{"model":"m","input":[{"type":"function_call","name":"n","arguments":"{}"}]}"#;
    assert_eq!(error(call), WireError::Missing("input[].call_id"));
    let invalid = |json: &str| match error(json) {
        WireError::Invalid { field, .. } => field,
        other => panic!("{other:?}"),
    };
    assert_eq!(invalid(r#"{"model":"m","input":7}"#), "input");
    assert_eq!(invalid(r#"{"model":"m","input":[7]}"#), "input");
    assert_eq!(invalid(r#"{"model":"m","input":[{"role":"sage","content":"a"}]}"#), "input[].role");
    assert_eq!(invalid(r#"{"model":"m","input":[{"role":"user","content":7}]}"#), "input[].content");
    assert_eq!(invalid(r#"{"model":"m","input":"a","instructions":[]}"#), "instructions");
    assert_eq!(invalid(r#"{"model":"m","input":"a","max_output_tokens":"9"}"#), "max_output_tokens");
    assert_eq!(invalid(r#"{"model":"m","input":"a","tools":7}"#), "tools");
    assert_eq!(invalid(r#"{"model":"m","input":"a","tool_choice":7}"#), "tool_choice");
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
        Piece::ToolCall { index: 0, id: "call_1", name: "tide" },
        text(Channel::Tool, "{\"at\":"),
        text(Channel::Tool, "\"Brest\"}"),
        Piece::Finish(FinishReason::ToolCalls),
        Piece::Usage(USAGE),
        Piece::Done,
    ];
    let mut encoder = ResponsesEncoder::new("1", "gpt-tide-5", 1_784_300_000);
    let mut out = Vec::new();
    for piece in &pieces {
        encoder.encode_event(piece, &mut out);
    }
    insta::assert_snapshot!(String::from_utf8(out).expect("UTF-8"));
}

#[test]
fn a_whole_response_holds_an_item_of_each_kind() {
    let tools = [ToolCall { id: "call_1", name: "tide", arguments: "{\"at\":\"Brest\"}" }];
    let answer = Answer {
        reasoning: "Look.",
        answer: "I look.",
        tools: &tools,
        finish: FinishReason::Length,
        usage: Some(USAGE),
        timings: None,
    };
    let body: Value = serde_json::from_slice(&ResponsesEncoder::new("1", "m", 7).encode_whole(&answer)).expect("JSON");
    assert_eq!(body["status"], "incomplete");
    assert_eq!(body["incomplete_details"], json!({"reason": "max_output_tokens"}));
    let kinds: Vec<&str> =
        body["output"].as_array().expect("items").iter().filter_map(|item| item["type"].as_str()).collect();
    assert_eq!(kinds, ["reasoning", "message", "function_call"]);
    assert_eq!(body["output"][0]["content"][0]["text"], "Look.");
    assert_eq!(body["output"][1]["content"][0]["text"], "I look.");
    assert_eq!(body["output"][2]["arguments"], "{\"at\":\"Brest\"}");
    let usage = json!({
        "input_tokens": 50, "input_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 8},
        "output_tokens": 9, "output_tokens_details": {"reasoning_tokens": 4}, "total_tokens": 59,
    });
    assert_eq!(body["usage"], usage);
}

#[test]
fn a_failed_response_is_not_marked_complete() {
    let (mut encoder, mut out) = (ResponsesEncoder::new("1", "m", 7), Vec::new());
    encoder.encode_event(&Piece::Text { channel: Channel::Answer, text: "I lo" }, &mut out);
    encoder.encode_event(&Piece::Failed { message: "no more" }, &mut out);
    encoder.encode_event(&Piece::Done, &mut out);
    let text = String::from_utf8(out).expect("text");
    assert!(text.contains("event: error\n") && !text.contains("response.completed"), "{text}");
}
