//! Requests in Gemini's dialect: what is read, what is written, and that both agree.

use super::super::parts::{read_result, written_result};
use super::*;
use crate::{Dialect, Routed, Shape, translate_request};
use tokrate_core::Image;

fn read(json: &str) -> ChatRequest {
    decode(json.as_bytes()).unwrap_or_else(|error| panic!("{json}: failed to {error}"))
}

fn written(request: &ChatRequest) -> String {
    let json = String::from_utf8(encode(request)).unwrap();
    serde_json::from_str::<serde_json::Value>(&json).unwrap_or_else(|error| panic!("{json}: {error}"));
    json
}

/// Decoding, encoding and decoding again gives the same request.
fn settled(json: &str) -> ChatRequest {
    let request = read(json);
    assert_eq!(read(&written(&request)), request, "{json}");
    request
}

#[test]
fn a_conversation_is_read_in_both_spellings() {
    let camel = r#"{"systemInstruction":{"parts":[{"text":"Be brief."}]},
        "contents":[{"role":"user","parts":[{"text":"Hi"}]},{"role":"model","parts":[{"text":"Hello"}]},{"parts":[{"text":"?"}]}],
        "generationConfig":{"maxOutputTokens":9,"temperature":0.1,"topP":0.5,"stopSequences":["END"],"seed":4,"topK":40,
        "thinkingConfig":{"thinkingBudget":0}},"safetySettings":[]}"#;
    let request = settled(camel);
    let texts: Vec<_> = request.messages.iter().map(|m| (m.role, m.texts().collect::<String>())).collect();
    let expected = [(Role::System, "Be brief."), (Role::User, "Hi"), (Role::Assistant, "Hello"), (Role::User, "?")];
    assert_eq!(texts, expected.map(|(role, text)| (role, text.to_owned())));
    assert_eq!((request.max_output_tokens, request.temperature, request.top_p), (Some(9), Some(0.1), Some(0.5)));
    assert_eq!((request.stop.clone(), request.seed, request.include_usage), (vec!["END".to_owned()], Some(4), true));
    let kept = |name: &str, json: &str| (name.to_owned(), json.to_owned());
    let rest = r#"{"topK":40,"thinkingConfig":{"thinkingBudget":0}}"#;
    assert_eq!(request.extra, [kept("generationConfig", rest), kept("safetySettings", "[]")]);
    let snake = camel
        .replace("systemInstruction", "system_instruction")
        .replace("generationConfig", "generation_config")
        .replace("maxOutputTokens", "max_output_tokens")
        .replace("topP", "top_p")
        .replace("stopSequences", "stop_sequences");
    assert_eq!(read(&snake), request);
}

#[test]
fn one_part_may_stand_without_its_array() {
    let bare = read(r#"{"system_instruction":{"parts":{"text":"s"}},"contents":{"parts":{"text":"u"}}}"#);
    let listed =
        r#"{"systemInstruction":{"parts":[{"text":"s"}]},"contents":[{"role":"user","parts":[{"text":"u"}]}]}"#;
    assert_eq!(bare, read(listed));
    assert_eq!(
        written(&bare),
        r#"{"contents":[{"role":"user","parts":[{"text":"u"}]}],"systemInstruction":{"parts":[{"text":"s"}]}}"#
    );
    assert_eq!(read(r#"{"systemInstruction":"s","contents":[{"role":"user","parts":[{"text":"u"}]}]}"#), bare);
}

#[test]
fn what_is_changed_is_written_beside_what_was_kept() {
    let mut request =
        read(r#"{"contents":[],"generationConfig":{"topK":4,"temperature":1},"tools":[{"googleSearch":{}}]}"#);
    assert_eq!(request.temperature, Some(1.0));
    request.temperature = Some(0.5);
    request.tools.push(Tool { name: "f".into(), description: None, parameters: Some(r#"{"type":"object"}"#.into()) });
    assert_eq!(
        written(&request),
        r#"{"contents":[],"generationConfig":{"temperature":0.5,"topK":4},"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"object"}}]},{"googleSearch":{}}]}"#
    );
    request.extra[0].1 = "null".into();
    assert!(written(&request).contains(r#""generationConfig":null"#), "what is no object takes the whole's place");
}

#[test]
fn calls_and_results_keep_their_signatures() {
    let json = r#"{"contents":[{"role":"model","parts":[
        {"text":"Hm.","thought":true,"thoughtSignature":"s1"},{"text":"Let me look.","thoughtSignature":"s2"},
        {"functionCall":{"id":"c1","name":"look","args":{ "a b": [1, 2] }},"thoughtSignature":"s3"},{"text":"","thoughtSignature":"s4"}]},
        {"role":"user","parts":[{"functionResponse":{"id":"c1","name":"look","response":{"output":"found"}}}]},
        {"role":"user","parts":[{"functionResponse":{"name":"look","response":{"x": 1}}},{"functionResponse":{"name":"look","response":{"error":"no"}}}]}]}"#;
    let request = settled(json);
    let signature_only =
        |signature: &str| Content::Reasoning { text: String::new(), signature: Some(signature.into()) };
    let expected = [
        Content::Reasoning { text: "Hm.".into(), signature: Some("s1".into()) },
        signature_only("s2"),
        Content::Text("Let me look.".into()),
        signature_only("s3"),
        Content::ToolCall { id: "c1".into(), name: "look".into(), arguments: r#"{"a b":[1,2]}"#.into() },
        signature_only("s4"),
    ];
    assert_eq!(request.messages[0].content, expected);
    let result = |id: &str, text: &str, failed| {
        vec![Content::ToolResult { id: id.into(), name: "look".into(), text: text.into(), failed }]
    };
    assert_eq!((request.messages[1].role, &request.messages[1].content), (Role::Tool, &result("c1", "found", false)));
    let both = [result("", r#"{"x":1}"#, false), result("", "no", true)].concat();
    assert_eq!(request.messages[2].content, both);
    assert!(
        written(&request)
            .contains(r#"{"functionCall":{"id":"c1","name":"look","args":{"a b":[1,2]}},"thoughtSignature":"s3"}"#)
    );
}

#[test]
fn a_result_learns_its_tools_name_from_the_call() {
    let call = Content::ToolCall { id: "7".into(), name: "f".into(), arguments: "cut o".into() };
    let result = Content::ToolResult { id: "7".into(), name: String::new(), text: "{".into(), failed: false };
    let messages = vec![
        Message { role: Role::Assistant, content: vec![call] },
        Message { role: Role::Tool, content: vec![result] },
    ];
    let json = written(&ChatRequest { messages, ..ChatRequest::default() });
    assert!(json.contains(r#"{"functionCall":{"id":"7","name":"f","args":{"arguments":"cut o"}}}"#), "{json}");
    assert!(json.contains(r#"{"functionResponse":{"id":"7","name":"f","response":{"output":"{"}}}"#), "{json}");
}

#[test]
fn results_are_read_back_whatever_they_look_like() {
    for text in ["", "plain", "7", "{", r#"{"a":1}"#, r#"{"output":"x"}"#, r#"{"error":"x"}"#, r#"{"output":1}"#, "{}"]
    {
        for failed in [false, true] {
            assert_eq!(read_result(&written_result(text, failed)), (text.to_owned(), failed), "{text}");
        }
    }
}

#[test]
fn pictures_are_read_and_the_rest_is_kept() {
    let json = r#"{"contents":[{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"AAAA"}},
        {"fileData":{"mimeType":"image/jpeg","fileUri":"gs://b/c.jpg"}},{"inline_data":{"mime_type":"audio/wav","data":"UUUU"}},
        {"fileData":{"mimeType":"video/mp4","fileUri":"gs://b/c.mp4"},"videoMetadata":{"fps":2}},{"newKind":{"a":1}}]}]}"#;
    let content = &settled(json).messages[0].content;
    assert_eq!(content[0], Content::Image(Image::Data { media_type: "image/png".into(), base64: "AAAA".into() }));
    assert_eq!(content[1], Content::Image(Image::Url("gs://b/c.jpg".into())));
    assert!(matches!(&content[2], Content::Other(json) if json.contains("audio/wav")));
    assert!(matches!(&content[3], Content::Other(json) if json.contains("fps")));
    assert_eq!(content[4], Content::Other(r#"{"newKind":{"a":1}}"#.into()));
    assert!(written(&settled(json)).contains(r#"{"mimeType":"image/jpeg","fileUri":"gs://b/c.jpg"}"#));
}

#[test]
fn pictures_of_googles_client_libraries_are_pictures_elsewhere() {
    for (sent, standard) in [("-_8A", "+/8A"), ("-_8", "+/8="), ("_w", "/w=="), ("+/8=", "+/8="), ("", "")] {
        let json =
            format!(r#"{{"contents":[{{"parts":[{{"inlineData":{{"mimeType":"image/png","data":"{sent}"}}}}]}}]}}"#);
        let routed = Routed { dialect: Dialect::Gemini, model: Some("m".into()), shape: Some(Shape::Whole) };
        let translated = translate_request(&routed, Dialect::OpenAiChat, "m", json.as_bytes()).expect("a picture");
        let body = String::from_utf8(translated.body).expect("JSON");
        assert!(body.contains(&format!(r#""data:image/png;base64,{standard}""#)), "{sent}: {body}");
    }
}

#[test]
fn the_choice_of_a_tool_is_a_mode() {
    let of = |config: &str| {
        let request = settled(&format!(r#"{{"contents":[],"toolConfig":{config}}}"#));
        (request.tool_choice, request.extra.len())
    };
    assert_eq!(of(r#"{"functionCallingConfig":{"mode":"AUTO"}}"#), (Some(ToolChoice::Auto), 0));
    assert_eq!(of(r#"{"functionCallingConfig":{"mode":"NONE"}}"#), (Some(ToolChoice::Never), 0));
    assert_eq!(of(r#"{"functionCallingConfig":{"mode":"ANY"}}"#), (Some(ToolChoice::Required), 0));
    let one = r#"{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]}}"#;
    assert_eq!(of(one), (Some(ToolChoice::Named("f".into())), 0));
    let two = r#"{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f","g"]}}"#;
    assert_eq!(of(two), (Some(ToolChoice::Required), 1), "what has no place is kept whole");
    assert_eq!(of(r#"{"functionCallingConfig":{"mode":"VALIDATED"}}"#), (None, 1));
    assert_eq!(of(r#"{"retrievalConfig":{}}"#), (None, 1));
}

#[test]
fn a_schema_stands_where_the_server_takes_it() {
    let tool = |schema: &str| {
        let tools = vec![Tool { name: "f".into(), description: Some("d".into()), parameters: Some(schema.into()) }];
        let request = ChatRequest { tools, ..ChatRequest::default() };
        assert_eq!(read(&written(&request)).tools, request.tools);
        written(&request)
    };
    assert!(tool(r#"{"type":"OBJECT"}"#).contains(r#""parameters":{"#));
    assert!(tool(r#"{"type":"object","additionalProperties":false}"#).contains(r#""parametersJsonSchema":{"#));
}

#[test]
fn unreadable_requests_say_what_is_wrong() {
    for (json, expected) in [
        ("{", "read the request as JSON: "),
        ("[]", "read the request: it must be a JSON object"),
        ("{}", "read the request: add the field `contents`"),
        (r#"{"contents":7}"#, "`contents` must be an array of objects"),
        (r#"{"contents":[{"role":"robot"}]}"#, "`contents[].role` must be user or model"),
        (r#"{"contents":[{"parts":[7]}]}"#, "`contents[].parts` must be"),
        (r#"{"contents":[],"generationConfig":{"maxOutputTokens":-1}}"#, "`generationConfig.maxOutputTokens` must be"),
        (r#"{"contents":[],"generationConfig":{"topP":"x"}}"#, "`generationConfig.topP` must be a number"),
        (r#"{"contents":[],"generationConfig":{"stopSequences":"x"}}"#, "`generationConfig.stopSequences` must be"),
        (r#"{"contents":[],"tools":{}}"#, "`tools` must be"),
        (r#"{"contents":[],"tools":[{"functionDeclarations":[{}]}]}"#, "`tools[].functionDeclarations` must be"),
        (r#"{"contents":[],"systemInstruction":7}"#, "`systemInstruction` must be"),
        (r#"{"contents":[{"parts":[{"functionResponse":{}}]}]}"#, "`contents[].parts[].functionResponse` must be"),
    ] {
        let error = decode(json.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected), "{json}: {error}");
    }
    assert!(decode(b"\xFF").is_err());
}
