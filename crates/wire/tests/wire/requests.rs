//! Requests of the dialects with structured content: whatever is written is read again as it was.
//!
//! Invariant: conversations are generated in the one form in which the dialects divide them into messages; what a
//! dialect has no place for is left out.

use proptest::prelude::*;
use tokrate_core::{ChatRequest, Content, Image, Message, Role, Tool, ToolChoice};
use tokrate_wire::{Dialect, decode_request, encode_request};

fn picture() -> impl Strategy<Value = Content> {
    prop_oneof![
        "https://[a-z]{1,8}/[ -~é]{0,8}".prop_map(|url| Content::Image(Image::Url(url))),
        "[A-Za-z0-9+/]{0,12}"
            .prop_map(|base64| Content::Image(Image::Data { media_type: "image/png".to_owned(), base64 })),
    ]
}

fn parts() -> impl Strategy<Value = Vec<Content>> {
    prop::collection::vec(prop_oneof![3 => any::<String>().prop_map(Content::Text), 1 => picture()], 1..4)
}

/// What the model says in one turn: a thought, a text, calls; and what the tools answer.
fn turn() -> impl Strategy<Value = Vec<Message>> {
    let thought = prop::option::of((any::<String>(), any::<Option<String>>()));
    let call =
        (any::<String>(), any::<String>(), any::<String>(), prop::collection::vec(picture(), 0..2), any::<bool>());
    (parts(), thought, prop::option::of(any::<String>()), prop::collection::vec(call, 0..3)).prop_map(
        |(asked, thought, text, calls)| {
            let mut sent: Vec<Content> =
                thought.into_iter().map(|(text, signature)| Content::Reasoning { text, signature }).collect();
            sent.extend(text.map(Content::Text));
            let mut results = Vec::new();
            for (id, name, text, pictures, failed) in calls {
                let arguments = serde_json::json!({ &name: [text] }).to_string();
                let mut content = vec![Content::ToolResult { id: id.clone(), name: String::new(), text, failed }];
                content.extend(pictures);
                results.push(Message { role: Role::Tool, content });
                sent.push(Content::ToolCall { id, name, arguments });
            }
            let mut messages = vec![Message { role: Role::User, content: asked }];
            if !sent.is_empty() {
                messages.push(Message { role: Role::Assistant, content: sent });
            }
            messages.extend(results);
            messages
        },
    )
}

fn tool() -> impl Strategy<Value = Tool> {
    (any::<String>(), any::<Option<String>>()).prop_map(|(name, description)| {
        let parameters = serde_json::json!({"type": "object", "properties": {&name: {}}});
        Tool { name, description, parameters: Some(parameters.to_string()) }
    })
}

fn tool_choice() -> impl Strategy<Value = Option<ToolChoice>> {
    prop_oneof![
        Just(None),
        Just(Some(ToolChoice::Auto)),
        Just(Some(ToolChoice::Never)),
        Just(Some(ToolChoice::Required)),
        any::<String>().prop_map(|name| Some(ToolChoice::Named(name))),
    ]
}

fn finite() -> impl Strategy<Value = Option<f64>> {
    prop::option::of(any::<f64>().prop_filter("JSON cannot say the others", |number| number.is_finite()))
}

fn request() -> impl Strategy<Value = ChatRequest> {
    let messages = (prop::collection::vec(any::<String>(), 0..3), prop::collection::vec(turn(), 0..4));
    let numbers = (any::<u32>(), finite(), finite());
    let tools = (prop::collection::vec(tool(), 0..3), tool_choice());
    let extra = prop::sample::select(vec![vec![], vec![("metadata".to_owned(), "{\"a\": [1]}".to_owned())]]);
    (any::<String>(), messages, any::<bool>(), numbers, prop::collection::vec(any::<String>(), 0..3), tools, extra)
        .prop_map(|(model, (system, turns), stream, (limit, temperature, top_p), stop, (tools, tool_choice), extra)| {
            let mut messages: Vec<Message> = system.into_iter().map(|text| Message::text(Role::System, text)).collect();
            messages.extend(turns.into_iter().flatten());
            ChatRequest {
                model,
                messages,
                stream,
                include_usage: stream,
                max_output_tokens: Some(limit),
                temperature,
                top_p,
                stop,
                tools,
                tool_choice,
                extra,
                ..ChatRequest::default()
            }
        })
}

fn check(dialect: Dialect, request: &ChatRequest) -> Result<(), TestCaseError> {
    let body = encode_request(dialect, request);
    prop_assert!(serde_json::from_slice::<serde_json::Value>(&body).is_ok());
    prop_assert_eq!(
        &decode_request(&dialect.into(), &body),
        &Ok(request.clone()),
        "{}",
        String::from_utf8_lossy(&body)
    );
    Ok(())
}

proptest! {
    #[test]
    fn anthropics_requests_are_read_as_they_were_written(request in request()) {
        check(Dialect::Anthropic, &request)?;
    }

    #[test]
    fn requests_for_responses_are_read_as_they_were_written(mut request in request(), ignore_eos in any::<bool>()) {
        // Neither stop texts nor the failure of a tool have a place there.
        request.stop.clear();
        request.ignore_eos = ignore_eos;
        for content in request.messages.iter_mut().flat_map(|message| &mut message.content) {
            if let Content::ToolResult { failed, .. } = content {
                *failed = false;
            }
        }
        check(Dialect::OpenAiResponses, &request)?;
    }

    #[test]
    fn no_bytes_break_the_reading_of_a_request(
        dialect in prop::sample::select(Dialect::ALL.to_vec()),
        request in request(),
        garbled in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut body = encode_request(dialect, &request);
        let length = body.len();
        garbled.iter().for_each(|(at, byte)| body[at.index(length)] = *byte);
        if let Err(error) = decode_request(&dialect.into(), &body) {
            prop_assert!(error.to_string().starts_with("read the request"));
        }
    }
}
