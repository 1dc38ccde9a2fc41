//! Requests in every dialect, there and back.
//!
//! Invariant: a request that was read is written so that it is read as the same, and what a dialect has a field for is
//! not lost on the way.

use proptest::prelude::*;
use std::collections::BTreeMap;
use tokrate_core::{ChatRequest, Content, Image, Message, Role, Tool, ToolChoice};
use tokrate_wire::{Dialect, Routed, Shape, WireError, decode_request, encode_request};

/// Dialects that take one prompt and no conversation.
pub fn is_plain(dialect: Dialect) -> bool {
    matches!(dialect, Dialect::OpenAiCompletions | Dialect::OllamaGenerate | Dialect::LlamaCompletion)
}

pub fn routed(dialect: Dialect, request: &ChatRequest) -> Routed {
    let shape = if request.stream { Shape::Stream } else { Shape::Whole };
    Dialect::of_path(&format!("/v1{}", dialect.path(&request.model, shape))).unwrap()
}

fn there_and_back(dialect: Dialect, request: &ChatRequest) -> Result<ChatRequest, WireError> {
    decode_request(&routed(dialect, request), &encode_request(dialect, request))
}

/// A conversation that makes sense: instructions, then turns, of which some call a tool and hear its answer.
fn conversation() -> impl Strategy<Value = Vec<Message>> {
    let text = || prop_oneof![3 => "[a-z ]{1,12}", 1 => any::<String>().prop_map(|text| format!("{text}."))];
    let asked = (text(), prop::option::weighted(0.2, image())).prop_map(|(text, image)| {
        let content = [Content::Text(text)].into_iter().chain(image.map(Content::Image)).collect();
        vec![Message { role: Role::User, content }]
    });
    let answered = text().prop_map(|text| vec![Message::text(Role::Assistant, text)]);
    let arguments = prop::sample::select(vec!["{}", r#"{"a":1}"#, r#"{"place":"Brest\n","days":[1,2]}"#]);
    let called = (1_u32..99, "[a-z_]{1,8}", arguments, text()).prop_map(|(id, name, arguments, text)| {
        let id = format!("call_{id}");
        let call = Content::ToolCall { id: id.clone(), name: name.clone(), arguments: arguments.to_owned() };
        let result = Content::ToolResult { id, name, text, failed: false };
        let message = |role, content| Message { role, content: vec![content] };
        vec![message(Role::Assistant, call), message(Role::Tool, result)]
    });
    let turns = prop::collection::vec((asked, prop_oneof![3 => answered, 1 => called]), 0..3);
    (prop::option::of(text()), turns, text()).prop_map(|(system, turns, last)| {
        let system = system.map(|text| Message::text(Role::System, text));
        let turns = turns.into_iter().flat_map(|(asked, answered)| asked.into_iter().chain(answered));
        system.into_iter().chain(turns).chain([Message::text(Role::User, last)]).collect()
    })
}

fn image() -> impl Strategy<Value = Image> {
    let data = || ("image/(png|jpeg)", "[A-Za-z0-9+/]{4,12}");
    data().prop_map(|(media_type, base64)| Image::Data { media_type, base64 })
}

fn tool() -> impl Strategy<Value = Tool> {
    let parameters = r#"{"type":"object","properties":{"a":{"type":"integer"}}}"#;
    ("[a-z_]{1,9}", prop::option::of("[ -~]{1,12}")).prop_map(|(name, description)| Tool {
        name,
        description,
        parameters: Some(parameters.to_owned()),
    })
}

pub fn request() -> impl Strategy<Value = ChatRequest> {
    use ToolChoice::*;
    let choice = prop::sample::select(vec![None, Some(Auto), Some(Never), Some(Required), Some(Named("f".into()))]);
    let numbers = (prop::option::of(1_u32..1 << 31), prop::option::of(0.0..2.0), prop::option::of(0.0..1.0));
    let limits = (numbers, prop::option::of(0_u64..1 << 31), prop::collection::vec("[a-z\n\"]{1,5}", 0..3));
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let extra = prop::option::weighted(0.2, Just(("x_vendor".to_owned(), r#"{"a":[1,null]}"#.to_owned())));
    let model = prop_oneof!["[a-z0-9.:-]{1,12}", "[a-z]{1,5}/[a-z0-9.-]{1,9}"];
    (model, conversation(), limits, flags, (prop::collection::vec(tool(), 0..3), choice), extra).prop_map(
        |(model, messages, (numbers, seed, stop), (stream, usage, older, ignore_eos), (tools, choice), extra)| {
            ChatRequest {
                model,
                messages,
                stream,
                include_usage: stream && usage,
                max_output_tokens: numbers.0,
                legacy_max_tokens: older && numbers.0.is_some(),
                ignore_eos,
                temperature: numbers.1,
                top_p: numbers.2,
                stop,
                seed,
                tool_choice: choice.filter(|_| !tools.is_empty()),
                tools,
                extra: extra.into_iter().collect(),
            }
        },
    )
}

/// All that each role says; where a dialect has one prompt, all that anybody says.
pub fn texts(request: &ChatRequest, plain: bool) -> BTreeMap<&'static str, String> {
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    for message in &request.messages {
        for content in &message.content {
            // The role of results differs from dialect to dialect, their words do not.
            let (role, text) = match content {
                Content::ToolResult { text, .. } => ("result", text),
                Content::ToolCall { arguments, .. } => ("call", arguments),
                Content::Text(text) => (message.role.name(), text),
                _ => continue,
            };
            let role = if plain { "all" } else { role };
            // Blank lines part the texts of a prompt.
            texts.entry(role).or_default().extend(text.split_whitespace());
        }
    }
    texts
}

pub fn calls(request: &ChatRequest) -> Vec<&str> {
    let contents = request.messages.iter().flat_map(|message| &message.content);
    contents
        .filter_map(|content| if let Content::ToolCall { name, .. } = content { Some(name.as_str()) } else { None })
        .collect()
}

pub fn images(request: &ChatRequest) -> Vec<&Image> {
    let contents = request.messages.iter().flat_map(|message| &message.content);
    contents.filter_map(|content| if let Content::Image(image) = content { Some(image) } else { None }).collect()
}

fn check_kept(dialect: Dialect, sent: &ChatRequest, read: &ChatRequest) -> Result<(), TestCaseError> {
    use Dialect::*;
    prop_assert_eq!(&read.model, &sent.model);
    prop_assert_eq!(read.stream, sent.stream);
    prop_assert_eq!(read.temperature, sent.temperature);
    prop_assert_eq!(read.top_p, sent.top_p);
    prop_assert_eq!(&read.extra, &sent.extra);
    if sent.max_output_tokens.is_some() {
        prop_assert_eq!(read.max_output_tokens, sent.max_output_tokens);
    }
    if dialect != OpenAiResponses {
        prop_assert_eq!(&read.stop, &sent.stop);
    }
    if !matches!(dialect, OpenAiResponses | Anthropic | BedrockConverse) {
        prop_assert_eq!(read.seed, sent.seed);
    }
    let plain = is_plain(dialect);
    if dialect != OllamaGenerate {
        prop_assert_eq!(texts(read, plain), texts(sent, plain));
    }
    if plain {
        return Ok(());
    }
    prop_assert_eq!(calls(read), calls(sent));
    if dialect != OllamaChat {
        prop_assert_eq!(images(read), images(sent));
    }
    prop_assert_eq!(&read.tools, &sent.tools);
    // Bedrock has no choice of no tool, Cohere none of a certain one, and the usual choice has no word there.
    let has_none = match sent.tool_choice {
        Some(ToolChoice::Never) => dialect == BedrockConverse,
        Some(ToolChoice::Auto | ToolChoice::Named(_)) => dialect == CohereChat,
        _ => false,
    };
    if dialect != OllamaChat && !has_none {
        prop_assert_eq!(&read.tool_choice, &sent.tool_choice);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_was_written_is_read_and_written_again(sent in request()) {
        for dialect in Dialect::ALL {
            let read = there_and_back(dialect, &sent);
            prop_assert!(read.is_ok(), "{dialect:?} {read:?} {}", String::from_utf8_lossy(&encode_request(dialect, &sent)));
            let read = read.unwrap();
            let context = |error: TestCaseError| {
                let body = encode_request(dialect, &sent);
                TestCaseError::fail(format!("{dialect:?}: {error}\n{}", String::from_utf8_lossy(&body)))
            };
            check_kept(dialect, &sent, &read).map_err(context)?;
            prop_assert_eq!(there_and_back(dialect, &read), Ok(read), "{:?}", dialect);
        }
    }

    #[test]
    fn no_body_panics(body in prop_oneof![any::<Vec<u8>>(), r#"[{}\[\]":,a-z0-9 ]{0,60}"#.prop_map(String::into_bytes)]) {
        for dialect in Dialect::ALL {
            let _ = decode_request(&dialect.into(), &body);
        }
    }

    #[test]
    fn a_garbled_request_is_refused_or_read_to_the_same(
        sent in request(),
        garbled in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        for dialect in Dialect::ALL {
            let routed = routed(dialect, &sent);
            let mut body = encode_request(dialect, &sent);
            let length = body.len();
            garbled.iter().for_each(|(at, byte)| body[at.index(length)] = *byte);
            if let Ok(read) = decode_request(&routed, &body) {
                let written = encode_request(dialect, &read);
                let again = decode_request(&routed, &written);
                prop_assert!(again.is_ok(), "{:?} {:?} {}", dialect, again, String::from_utf8_lossy(&written));
            }
        }
    }
}
