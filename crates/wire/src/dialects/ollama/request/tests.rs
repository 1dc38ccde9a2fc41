//! Requests in Ollama's dialects: what is read, what is written, and that both agree.

use super::*;
use tokrate_core::ToolChoice;

fn read(endpoint: Method, json: &str) -> ChatRequest {
    decode(endpoint, json.as_bytes()).unwrap_or_else(|error| panic!("{json}: failed to {error}"))
}

fn written(endpoint: Method, request: &ChatRequest) -> String {
    let json = String::from_utf8(encode(endpoint, request)).unwrap();
    serde_json::from_str::<serde_json::Value>(&json).unwrap_or_else(|error| panic!("{json}: {error}"));
    json
}

/// Decoding, encoding and decoding again gives the same request.
fn settled(endpoint: Method, json: &str) -> ChatRequest {
    let request = read(endpoint, json);
    assert_eq!(read(endpoint, &written(endpoint, &request)), request, "{json}");
    request
}

#[test]
fn it_streams_unless_asked_not_to() {
    let chat = |fields: &str| settled(Method::Chat, &format!(r#"{{"model":"m","messages":[]{fields}}}"#)).stream;
    assert!(chat(""));
    assert!(chat(r#","stream":true"#));
    assert!(!chat(r#","stream":false"#));
    assert!(settled(Method::Generate, r#"{"model":"m"}"#).stream);
}

#[test]
fn options_have_their_places_and_the_rest_is_kept() {
    let json = r#"{"model":"m","messages":[{"role":"user","content":"x"}],"think":"high","keep_alive":"5m","format":{"type":"object"},
        "options":{"num_predict":100,"temperature":0.1,"top_p":0.5,"seed":7,"stop":["a","b"],"num_ctx":4096,"top_k":20}}"#;
    let request = settled(Method::Chat, json);
    assert_eq!((request.max_output_tokens, request.seed), (Some(100), Some(7)));
    assert_eq!((request.temperature, request.top_p), (Some(0.1), Some(0.5)));
    assert_eq!(request.stop, ["a", "b"]);
    let kept: Vec<_> = request.extra.iter().map(|(name, json)| (name.as_str(), json.as_str())).collect();
    let rest = r#"{"num_ctx":4096,"top_k":20}"#;
    assert_eq!(
        kept,
        [("think", "\"high\""), ("keep_alive", "\"5m\""), ("format", r#"{"type":"object"}"#), ("options", rest)]
    );
    assert!(written(Method::Chat, &request).ends_with(
        r#""options":{"num_predict":100,"temperature":0.1,"top_p":0.5,"seed":7,"stop":["a","b"],"num_ctx":4096,"top_k":20}}"#
    ));
    let endless =
        settled(Method::Chat, r#"{"model":"m","messages":[],"options":{"num_predict":-1,"seed":-1,"stop":"x"}}"#);
    assert_eq!((endless.max_output_tokens, endless.seed, endless.stop), (None, None, vec!["x".to_owned()]));
    assert_eq!(endless.extra, [("options".to_owned(), r#"{"num_predict":-1,"seed":-1}"#.to_owned())]);
}

#[test]
fn messages_hold_thinking_pictures_calls_and_results() {
    let json = r#"{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"see","images":["/9j/4AAQ","iVBORw0KGgoA"]},
        {"role":"assistant","content":"","thinking":"hm","tool_calls":[{"id":"c1","function":{"name":"f","arguments":{ "a": "b c" }}}]},
        {"role":"tool","content":"12","tool_name":"f","tool_call_id":"c1"},{"role":"user","content":""}]}"#;
    let request = settled(Method::Chat, json);
    let content: Vec<_> = request.messages.iter().map(|message| message.content.clone()).collect();
    let data = |media_type: &str, base64: &str| {
        Content::Image(Image::Data { media_type: media_type.into(), base64: base64.into() })
    };
    let seen = [Content::Text("see".into()), data("image/jpeg", "/9j/4AAQ"), data("image/png", "iVBORw0KGgoA")];
    assert_eq!(content[1], seen);
    let called = [
        Content::Reasoning { text: "hm".into(), signature: None },
        Content::ToolCall { id: "c1".into(), name: "f".into(), arguments: r#"{"a":"b c"}"#.into() },
    ];
    assert_eq!(content[2], called);
    let result = Content::ToolResult { id: "c1".into(), name: "f".into(), text: "12".into(), failed: false };
    assert_eq!((request.messages[3].role, &content[3]), (Role::Tool, &vec![result]));
    assert_eq!(content[4], [Content::Text(String::new())]);
}

#[test]
fn each_result_becomes_a_message_with_its_tools_name() {
    let call = |id: &str, name: &str| Content::ToolCall { id: id.into(), name: name.into(), arguments: "{".into() };
    let result = |id: &str| Content::ToolResult { id: id.into(), name: String::new(), text: "r".into(), failed: false };
    let messages = vec![
        Message { role: Role::Assistant, content: vec![call("1", "f"), call("2", "g")] },
        Message { role: Role::User, content: vec![result("1"), result("2"), Content::Text("go on".into())] },
    ];
    let request = ChatRequest { messages, model: "m".into(), ..ChatRequest::default() };
    assert_eq!(
        written(Method::Chat, &request),
        concat!(
            r#"{"model":"m","messages":[{"role":"assistant","content":"","tool_calls":["#,
            r#"{"id":"1","function":{"name":"f","arguments":{"arguments":"{"}}},"#,
            r#"{"id":"2","function":{"name":"g","arguments":{"arguments":"{"}}}]},"#,
            r#"{"role":"tool","content":"r","tool_name":"f","tool_call_id":"1"},"#,
            r#"{"role":"tool","content":"r","tool_name":"g","tool_call_id":"2"},"#,
            r#"{"role":"user","content":"go on"}],"stream":false}"#
        )
    );
}

#[test]
fn tools_are_read_and_a_choice_has_no_place() {
    let json = r#"{"model":"m","messages":[],"tools":[{"type":"function","function":{"name":"f","description":"d",
        "parameters":{"type":"object"}}},{"type":"new"}]}"#;
    let mut request = settled(Method::Chat, json);
    let parameters = Some(r#"{"type":"object"}"#.to_owned());
    assert_eq!(request.tools, [Tool { name: "f".into(), description: Some("d".into()), parameters }]);
    assert_eq!(request.extra, [("tools".to_owned(), r#"[{"type":"new"}]"#.to_owned())]);
    let before = written(Method::Chat, &request);
    request.tool_choice = Some(ToolChoice::Required);
    assert_eq!(written(Method::Chat, &request), before);
}

#[test]
fn one_prompt_is_all_that_generate_takes() {
    let json =
        r#"{"model":"m","prompt":"why?","system":"s","images":["AAAA"],"raw":true,"context":[1,2],"stream":false}"#;
    let request = settled(Method::Generate, json);
    assert_eq!(request.messages[0], Message::text(Role::System, "s"));
    assert_eq!(request.messages[1].texts().collect::<String>(), "why?");
    assert_eq!(request.messages[1].content.len(), 2);
    assert_eq!(request.extra.len(), 2);
    let turns = [(Role::User, "a"), (Role::Assistant, "b"), (Role::User, "c")];
    let messages = turns.map(|(role, text)| Message::text(role, text)).to_vec();
    let request = ChatRequest { messages, model: "m".into(), stream: true, ..ChatRequest::default() };
    assert_eq!(written(Method::Generate, &request), r#"{"model":"m","prompt":"a\n\nb\n\nc","stream":true}"#);
    assert!(settled(Method::Generate, r#"{"model":"m","keep_alive":0}"#).messages.is_empty(), "the model is unloaded");
}

#[test]
fn a_picture_by_address_is_left_to_the_server_to_refuse() {
    let picture = |url: &str| {
        let content = vec![Content::Image(Image::Url(url.into()))];
        let messages = vec![Message { role: Role::User, content }];
        written(Method::Chat, &ChatRequest { messages, ..ChatRequest::default() })
    };
    assert!(picture("https://x/y.png").contains(r#""images":["https://x/y.png"]"#));
    assert!(picture("data:image/png;base64,AAAA").contains(r#""images":["AAAA"]"#));
}

#[test]
fn unreadable_requests_say_what_is_wrong() {
    for (json, expected) in [
        ("{", "read the request as JSON: "),
        ("7", "read the request: it must be a JSON object"),
        (r#"{"messages":[]}"#, "add the field `model`"),
        (r#"{"model":"m"}"#, "add the field `messages`"),
        (r#"{"model":7,"messages":[]}"#, "`model` must be a string"),
        (r#"{"model":"m","messages":7}"#, "`messages` must be an array"),
        (r#"{"model":"m","messages":[{"role":"robot"}]}"#, "`messages[].role` must be"),
        (r#"{"model":"m","messages":[{"role":"user","content":7}]}"#, "`messages[].content` must be a string"),
        (r#"{"model":"m","messages":[{"role":"user","images":[7]}]}"#, "`messages[].images` must be"),
        (r#"{"model":"m","messages":[{"role":"assistant","tool_calls":[{}]}]}"#, "`messages[].tool_calls` must be"),
        (r#"{"model":"m","messages":[],"stream":"yes"}"#, "`stream` must be true or false"),
        (r#"{"model":"m","messages":[],"options":[]}"#, "`options` must be an object"),
        (r#"{"model":"m","messages":[],"options":{"top_p":"x"}}"#, "`options.top_p` must be a number"),
        (r#"{"model":"m","messages":[],"options":{"stop":7}}"#, "`options.stop` must be"),
        (r#"{"model":"m","messages":[],"tools":7}"#, "`tools` must be"),
    ] {
        let error = decode(Method::Chat, json.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected), "{json}: {error}");
    }
    assert!(decode(Method::Generate, br#"{"model":"m","prompt":7}"#).is_err());
}
