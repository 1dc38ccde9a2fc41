//! Tests of requests, both ways.

use super::*;
use crate::Dialect;
use proptest::prelude::*;
use tokrate_core::{Content, Message, Role};

const DIALECT: Dialect = Dialect::OpenAiChat;

fn encoded(request: &ChatRequest) -> String {
    String::from_utf8(encode_request(DIALECT, request)).unwrap()
}

fn decoded(body: &str) -> Result<ChatRequest, WireError> {
    decode_request(&DIALECT.into(), body.as_bytes())
}

fn request() -> ChatRequest {
    let messages = vec![Message::text(Role::System, "Be brief."), Message::text(Role::User, "Say \"hi\"\n")];
    ChatRequest { model: "m".into(), messages, ..ChatRequest::default() }
}

#[test]
fn what_is_not_set_is_not_written() {
    let expected = r#"{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Say \"hi\"\n"}]}"#;
    assert_eq!(encoded(&request()), expected);
    let counted = ChatRequest { include_usage: true, temperature: Some(f64::NAN), ..request() };
    assert_eq!(encoded(&counted), expected, "counts are asked for with a stream only, and NaN is no JSON");
}

#[test]
fn everything_set_is_written_once() {
    let full = ChatRequest {
        stream: true,
        include_usage: true,
        max_output_tokens: Some(300),
        ignore_eos: true,
        temperature: Some(0.5),
        seed: Some(7),
        top_p: Some(0.9),
        extra: vec![("seed".into(), "8".into())],
        ..request()
    };
    let body = encoded(&full);
    let fields = r#""stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":300,"ignore_eos":true,"temperature":0.5,"top_p":0.9,"seed":8}"#;
    assert!(body.ends_with(fields), "{body}");
    let older = encoded(&ChatRequest { legacy_max_tokens: true, max_output_tokens: Some(3), ..request() });
    assert!(older.ends_with(r#","max_tokens":3}"#), "{older}");
    let replaced = encoded(&ChatRequest { extra: vec![("model".into(), "\"n\"".into())], ..request() });
    assert_eq!(replaced.matches("\"model\"").count(), 1);
    assert!(replaced.ends_with(r#","model":"n"}"#), "{replaced}");
    let all = ChatRequest { extra: vec![("model".into(), "1".into()), ("messages".into(), "[]".into())], ..request() };
    assert_eq!(encoded(&all), r#"{"model":1,"messages":[]}"#);
}

#[test]
fn unknown_fields_and_parts_of_content_survive() {
    let read = decoded(
        r#" {"model":"m","top_p":0.9,"messages":[{"role":"developer","content":"a"},{"role":"user","name":"n",
        "content":[{"type":"text","text":"b"},{"type":"image_url","image_url":{"url":"x"}},{"type":"text","text":"c"}]},
        {"role":"assistant","content":null,"tool_calls":[]},{"role":"tool","content":"d"}],"stream":true,"max_tokens":5,
        "stop": [ "x" ],"stream_options":{"include_usage":true},"temperature":null,"seed":-1}"#,
    )
    .unwrap();
    let texts: Vec<(Role, String)> =
        read.messages.iter().map(|message| (message.role, message.texts().collect())).collect();
    let expected = [(Role::System, "a"), (Role::User, "bc"), (Role::Assistant, ""), (Role::Tool, "d")];
    assert_eq!(texts, expected.map(|(role, text)| (role, text.to_owned())));
    assert_eq!((read.stream, read.include_usage, read.legacy_max_tokens), (true, true, true));
    assert_eq!((read.max_output_tokens, read.temperature, read.seed), (Some(5), None, None));
    let extra: Vec<(&str, &str)> = read.extra.iter().map(|(name, json)| (&**name, &**json)).collect();
    assert_eq!(extra, [("seed", "-1")]);
    assert_eq!((read.top_p, read.stop), (Some(0.9), vec!["x".to_owned()]));
}

#[test]
fn the_newer_limit_wins_and_the_older_is_kept() {
    let body = r#"{"model":"m","messages":[],"max_tokens":5,"max_completion_tokens":9}"#;
    let read = decoded(body).unwrap();
    assert_eq!((read.max_output_tokens, read.legacy_max_tokens), (Some(9), false));
    assert_eq!(read.extra, [("max_tokens".to_owned(), "5".to_owned())]);
    assert_eq!(decoded(&encoded(&read)).unwrap(), read);
}

#[test]
fn what_cannot_be_used_is_refused_by_name() {
    for (body, expected) in [
        ("", "read the request as JSON: EOF while parsing a value at line 1 column 0"),
        ("[]", "read the request: it must be a JSON object"),
        ("{}", "read the request: add the field `model`"),
        (r#"{"model":"m"}"#, "read the request: add the field `messages`"),
        (r#"{"model":7,"messages":[]}"#, "read the request: `model` must be a string"),
        (
            r#"{"model":"m","messages":{}}"#,
            "read the request: `messages` must be an array of objects with role and content",
        ),
        (
            r#"{"model":"m","messages":[{"role":"king"}]}"#,
            "read the request: `messages[].role` must be system, developer, user, assistant or tool",
        ),
        (
            r#"{"model":"m","messages":[],"max_tokens":-1}"#,
            "read the request: `max_tokens` must be a whole number from 0 to 4294967295",
        ),
        (r#"{"model":"m","messages":[],"stream":"yes"}"#, "read the request: `stream` must be true or false"),
    ] {
        assert_eq!(decoded(body).map_err(|error| error.to_string()), Err(expected.to_owned()), "{body}");
    }
    assert!(decode_request(&DIALECT.into(), b"{\"model\":\"\xff\",\"messages\":[]}").is_err());
}

fn any_request() -> impl Strategy<Value = ChatRequest> {
    let role = prop::sample::select(vec![Role::System, Role::User, Role::Assistant, Role::Tool]);
    let message = (role, any::<String>()).prop_map(|(role, text)| match role {
        Role::Tool => {
            let result = Content::ToolResult { id: "call".into(), name: String::new(), text, failed: false };
            Message { role, content: vec![result] }
        }
        role => Message::text(role, text),
    });
    let numbers = (any::<Option<u32>>(), any::<Option<f64>>(), any::<Option<u64>>());
    let extra = prop::sample::select(vec![vec![], vec![("metadata".to_owned(), "{\"a\":[1, 2]}".to_owned())]]);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (any::<String>(), prop::collection::vec(message, 0..4), numbers, flags, extra).prop_map(
        |(model, messages, (max_output_tokens, temperature, seed), (stream, usage, older, ignore_eos), extra)| {
            ChatRequest {
                model,
                messages,
                stream,
                include_usage: stream && usage,
                max_output_tokens,
                legacy_max_tokens: older && max_output_tokens.is_some(),
                ignore_eos,
                temperature: temperature.filter(|number| number.is_finite()),
                seed,
                extra,
                ..ChatRequest::default()
            }
        },
    )
}

proptest! {
    #[test]
    fn a_request_is_read_back_as_it_was(request in any_request()) {
        prop_assert_eq!(decoded(&encoded(&request)), Ok(request));
    }

    #[test]
    fn no_body_panics(body in any::<Vec<u8>>()) {
        let _ = decode_request(&DIALECT.into(), &body);
    }
}
