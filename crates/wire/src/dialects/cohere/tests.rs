//! What Cohere's own documents show, and what its client sends.

use crate::{Decoder, Dialect, Shape, decode_request, encode_request, translate_request};
use tokrate_core::{EventBatch, EventKind, Tick};

fn told(shape: Shape, body: &str) -> Vec<String> {
    let (mut decoder, mut batch) = (Decoder::new(Dialect::CohereChat, shape), EventBatch::new());
    decoder.push(Tick::ZERO, body.as_bytes(), &mut batch);
    decoder.end(Tick::ZERO, &mut batch);
    let tell = |kind: &EventKind| match *kind {
        EventKind::Text { channel, text } => format!("{channel:?} {}", batch.text(text)),
        EventKind::ToolCall { index, id, name } => format!("call {index} {} {}", batch.text(id), batch.text(name)),
        EventKind::Failed { kind, message, .. } => format!("{kind:?} {}", batch.text(message)),
        ref other => format!("{other:?}"),
    };
    batch.events().iter().map(|event| tell(&event.kind)).collect()
}

#[test]
fn a_stream_of_a_plan_a_call_and_a_text_is_told() {
    let events = [
        r#"{"id":"1","type":"message-start","delta":{"message":{"role":"assistant","content":[],"tool_plan":"","tool_calls":[],"citations":[]}}}"#,
        r#"{"type":"tool-plan-delta","delta":{"message":{"tool_plan":"I"}}}"#,
        r#"{"type":"tool-call-start","index":0,"delta":{"message":{"tool_calls":{"id":"f_1","type":"function","function":{"name":"f","arguments":""}}}}}"#,
        r#"{"type":"tool-call-delta","index":0,"delta":{"message":{"tool_calls":{"function":{"arguments":"{\"a\":1}"}}}}}"#,
        r#"{"type":"tool-call-end","index":0}"#,
        r#"{"type":"content-start","index":0,"delta":{"message":{"content":{"type":"text","text":""}}}}"#,
        r#"{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"Hi"}}}}"#,
        r#"{"type":"citation-start","index":0,"delta":{"message":{"citations":{"start":0,"end":2,"text":"Hi"}}}}"#,
        r#"{"type":"content-end","index":0}"#,
        r#"{"type":"message-end","delta":{"finish_reason":"TOOL_CALL","usage":{"billed_units":{"input_tokens":17,"output_tokens":12},"tokens":{"input_tokens":215,"output_tokens":12},"cached_tokens":16.0}}}"#,
    ];
    let body: String = events.iter().map(|event| format!("event: x\ndata: {event}\n\n")).collect();
    let told = told(Shape::Stream, &body);
    let expected =
        ["Empty", "Answer I", "call 0 f_1 f", "Tool {\"a\":1}", "Empty", "Empty", "Answer Hi", "Empty", "Empty"];
    assert_eq!(&told[..9], expected);
    assert_eq!((told[9].as_str(), told[11].as_str()), ("Finish(ToolCalls)", "Done"));
    assert!(told[10].contains("input: Some(17)") && told[10].contains("cached_input: Some(16)"), "{}", told[10]);
}

#[test]
fn an_error_at_the_end_of_a_stream_is_a_failure() {
    let body = "event: message-end\ndata: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"ERROR\",\"error\":\"it broke\"}}\n\n";
    assert_eq!(told(Shape::Stream, body), ["ErrorInStream it broke"]);
    assert_eq!(told(Shape::Whole, r#"{"message":"no such thing"}"#), ["ErrorInStream no such thing"]);
}

#[test]
fn its_own_names_of_settings_are_read_and_written() {
    let body = concat!(
        r#"{"model":"command-a","messages":[{"role":"user","content":"hi"}],"stream":true,"max_tokens":9,"seed":3,"#,
        r#""p":0.5,"stop_sequences":["x"],"tool_choice":"REQUIRED","k":4}"#,
    );
    let request = decode_request(&Dialect::CohereChat.into(), body.as_bytes()).expect("a request");
    assert_eq!((request.top_p, request.stop.len(), request.max_output_tokens), (Some(0.5), 1, Some(9)));
    let written = String::from_utf8(encode_request(Dialect::CohereChat, &request)).expect("text");
    let again = decode_request(&Dialect::CohereChat.into(), written.as_bytes());
    assert_eq!(again, Ok(request), "{written}");
    for part in [r#""p":0.5"#, r#""stop_sequences":["x"]"#, r#""tool_choice":"REQUIRED""#, r#""k":4"#] {
        assert!(written.contains(part), "{part}: {written}");
    }
}

#[test]
fn a_certain_tool_is_the_only_one_that_is_shown_and_a_schema_finds_its_place() {
    let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"tool_choice":{"type":"function","function":{"name":"g"}},
        "tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}],
        "response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}},"top_k":7}"#;
    let translated = translate_request(&Dialect::OpenAiChat.into(), Dialect::CohereChat, "command-a", body.as_bytes());
    let text = String::from_utf8(translated.expect("it has a place").body).expect("text");
    for part in [
        r#""tool_choice":"REQUIRED""#,
        r#""response_format":{"type":"json_object","json_schema":{"type":"object"}}"#,
        r#""k":7"#,
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains(r#""name":"g""#) && !text.contains(r#""name":"f""#), "{text}");
}
