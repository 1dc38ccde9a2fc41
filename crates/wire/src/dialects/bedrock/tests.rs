//! What Bedrock's own documents show, and what its SDKs send.

use crate::event_stream::push_message;
use crate::{Decoder, Dialect, Routed, Shape, decode_request, encode_request, translate_request};
use tokrate_core::{EventBatch, EventKind, FailureKind, Tick};

fn told(shape: Shape, body: &[u8]) -> Vec<String> {
    let (mut decoder, mut batch) = (Decoder::new(Dialect::BedrockConverse, shape), EventBatch::new());
    decoder.push(Tick::ZERO, body, &mut batch);
    decoder.end(Tick::ZERO, &mut batch);
    let tell = |kind: &EventKind| match *kind {
        EventKind::Text { channel, text } => format!("{channel:?} {}", batch.text(text)),
        EventKind::ToolCall { index, id, name } => format!("call {index} {} {}", batch.text(id), batch.text(name)),
        EventKind::Failed { kind, message, .. } => format!("{kind:?} {}", batch.text(message)),
        ref other => format!("{other:?}"),
    };
    batch.events().iter().map(|event| tell(&event.kind)).collect()
}

fn stream(events: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, payload) in events {
        let kind = if name.ends_with("Exception") { "exception" } else { "event" };
        push_message(kind, name, payload.as_bytes(), &mut out);
    }
    out
}

#[test]
fn a_stream_of_text_reasoning_and_a_call_is_told() {
    let body = stream(&[
        ("messageStart", r#"{"p":"abcd","role":"assistant"}"#),
        ("contentBlockDelta", r#"{"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"Hm"}},"p":"ab"}"#),
        ("contentBlockDelta", r#"{"contentBlockIndex":0,"delta":{"reasoningContent":{"signature":"EqoB"}},"p":"a"}"#),
        ("contentBlockStop", r#"{"contentBlockIndex":0,"p":"abc"}"#),
        ("contentBlockDelta", r#"{"contentBlockIndex":1,"delta":{"text":"Hi"},"p":"abcdef"}"#),
        (
            "contentBlockStart",
            r#"{"contentBlockIndex":2,"start":{"toolUse":{"name":"f","toolUseId":"tooluse_1"}},"p":"a"}"#,
        ),
        ("contentBlockDelta", r#"{"contentBlockIndex":2,"delta":{"toolUse":{"input":""}},"p":"ab"}"#),
        ("contentBlockDelta", r#"{"contentBlockIndex":2,"delta":{"toolUse":{"input":"{\"a\":1}"}},"p":"ab"}"#),
        ("messageStop", r#"{"p":"abc","stopReason":"tool_use"}"#),
        (
            "metadata",
            r#"{"metrics":{"latencyMs":551},"usage":{"inputTokens":7,"outputTokens":9,"totalTokens":46,"cacheReadInputTokens":30,"cacheWriteInputTokens":0}}"#,
        ),
    ]);
    let told = told(Shape::Stream, &body);
    let expected =
        ["Empty", "Reasoning Hm", "Empty", "Empty", "Answer Hi", "call 0 tooluse_1 f", "Empty", "Tool {\"a\":1}"];
    assert_eq!(&told[..8], expected);
    assert_eq!(told[8], "Finish(ToolCalls)");
    assert!(told[9].contains("input: Some(37)") && told[9].contains("cached_input: Some(30)"), "{}", told[9]);
    assert_eq!(&told[10..], ["Done"]);
}

#[test]
fn an_exception_in_a_stream_is_a_failure_of_its_kind() {
    for (name, expected) in [
        ("throttlingException", FailureKind::RateLimited),
        ("serviceUnavailableException", FailureKind::Overloaded),
        ("validationException", FailureKind::BadRequest),
        ("modelStreamErrorException", FailureKind::ServerError),
        ("internalServerException", FailureKind::ServerError),
    ] {
        let told = told(Shape::Stream, &stream(&[(name, r#"{"message":"Too many requests"}"#)]));
        assert_eq!(told, [format!("{expected:?} Too many requests")], "{name}");
    }
}

#[test]
fn a_stream_that_stops_without_its_counts_is_complete_and_one_without_a_stop_is_not() {
    let stopped = stream(&[("messageStop", r#"{"stopReason":"end_turn"}"#)]);
    assert_eq!(told(Shape::Stream, &stopped), ["Finish(Stop)", "Done"]);
    let broken = stream(&[("contentBlockDelta", r#"{"contentBlockIndex":0,"delta":{"text":"Hi"}}"#)]);
    assert_eq!(told(Shape::Stream, &broken), ["Answer Hi"]);
}

#[test]
fn the_path_names_a_model_with_colons_and_slashes() {
    for model in
        ["anthropic.claude-3-haiku-20240307-v1:0", "arn:aws:bedrock:us-east-1:1:inference-profile/us.x/converse"]
    {
        for shape in [Shape::Whole, Shape::Stream] {
            let path = Dialect::BedrockConverse.path(model, shape);
            let expected =
                Routed { dialect: Dialect::BedrockConverse, model: Some(model.to_owned()), shape: Some(shape) };
            assert_eq!(Dialect::of_path(&path), Some(expected), "{path}");
        }
    }
    assert_eq!(Dialect::BedrockConverse.path("a.b-v1:0", Shape::Whole), "/model/a.b-v1%3A0/converse");
    for other in ["/model/x/invoke", "/model//converse", "/x/converse", "/model/converse"] {
        assert_eq!(Dialect::of_path(other), None, "{other}");
    }
}

#[test]
fn turns_of_one_side_become_one_and_a_request_is_read_as_it_was_written() {
    let body = br#"{"messages":[{"role":"user","content":[{"text":"a"},{"cachePoint":{"type":"default"}}]},
        {"role":"assistant","content":[{"toolUse":{"toolUseId":"t1","name":"f","input":{"x":1}}}]},
        {"role":"user","content":[{"toolResult":{"toolUseId":"t1","content":[{"json":{"y": 2}}],"status":"error"}},{"text":"b"}]}],
        "system":[{"text":"be brief"}],"inferenceConfig":{"maxTokens":9,"stopSequences":["x"]},
        "toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object"}}}}],"toolChoice":{"any":{}}}}"#;
    let request = decode_request(&Dialect::BedrockConverse.into(), body).expect("a request");
    let written = String::from_utf8(encode_request(Dialect::BedrockConverse, &request)).expect("text");
    let expected = concat!(
        r#"{"system":[{"text":"be brief"}],"messages":[{"role":"user","content":[{"text":"a"}]},"#,
        r#"{"role":"assistant","content":[{"toolUse":{"toolUseId":"t1","name":"f","input":{"x":1}}}]},"#,
        r#"{"role":"user","content":[{"toolResult":{"toolUseId":"t1","content":[{"text":"{\"y\":2}"}],"status":"error"}},{"text":"b"}]}],"#,
        r#""inferenceConfig":{"maxTokens":9,"stopSequences":["x"]},"#,
        r#""toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object"}}}}],"toolChoice":{"any":{}}}}"#,
    );
    assert_eq!(written, expected);
}

#[test]
fn a_budget_of_reasoning_goes_to_the_models_own_api_and_only_where_it_is_known() {
    let body = br#"{"model":"m","max_tokens":9000,"messages":[{"role":"user","content":"hi"}],
        "thinking":{"type":"enabled","budget_tokens":2048},"top_k":5}"#;
    let routed = Dialect::Anthropic.into();
    let translated = translate_request(&routed, Dialect::BedrockConverse, "us.anthropic.claude-sonnet-4-5", body);
    let text = String::from_utf8(translated.expect("it has a place").body).expect("text");
    let expected = r#""additionalModelRequestFields":{"thinking":{"type":"enabled","budget_tokens":2048},"top_k":5}"#;
    assert!(text.contains(expected), "{text}");
    let error =
        translate_request(&routed, Dialect::BedrockConverse, "amazon.nova-pro-v1:0", body).expect_err("no place");
    assert!(error.to_string().contains("bedrock-converse"), "{error}");
}
