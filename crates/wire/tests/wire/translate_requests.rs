//! Requests of one dialect translated into another.
//!
//! Invariant: a server of the other dialect reads what the client sent, or the client gets an error that names the
//! field.

use crate::every_request::{calls, images, is_plain, request, routed, texts};
use proptest::prelude::*;
use tokrate_core::{ChatRequest, Role, Tool, ToolChoice};
use tokrate_wire::{
    Dialect, Routed, TranslateError, TranslatedRequest, decode_request, encode_request, translate_request,
};

fn translated(from: Dialect, to: Dialect, body: &str) -> Result<TranslatedRequest, TranslateError> {
    let path = from.path("client-model", tokrate_wire::Shape::Stream);
    translate_request(&Dialect::of_path(&path).unwrap(), to, "m", body.as_bytes())
}

/// Each target with the body it gets, or the error for the client.
fn shown(from: Dialect, targets: &[Dialect], body: &str) -> String {
    let line = |to: &Dialect| match translated(from, *to, body) {
        Ok(translated) => format!("{:<18} {}", to.name(), String::from_utf8(translated.body).unwrap()),
        Err(error) => format!("{:<18} ERROR {error}", to.name()),
    };
    format!("{body}\n{}", targets.iter().map(line).collect::<Vec<_>>().join("\n"))
}

#[test]
fn settings_that_every_dialect_spells_differently_are_translated() {
    use Dialect::*;
    let chat = [OpenAiResponses, Anthropic, Gemini, OllamaChat, LlamaCompletion];
    let mut sent = Vec::new();
    for field in [
        r#""stop":["a","b"]"#,
        r#""stop":"a""#,
        r#""max_tokens":7,"temperature":0.5,"top_p":0.9"#,
        r#""seed":1"#,
        r#""response_format":{"type":"json_object"}"#,
        r#""response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":{"type":"object"}}}"#,
        r#""reasoning_effort":"high""#,
        r#""reasoning_effort":"none""#,
        r#""user":"u","metadata":{"a":"b"},"n":1,"store":false,"service_tier":"auto","logit_bias":{},"logprobs":false"#,
        r#""service_tier":"flex""#,
        r#""frequency_penalty":0,"presence_penalty":0.5"#,
        r#""top_k":5"#,
        r#""n":2"#,
        r#""logprobs":true"#,
        r#""logit_bias":{"50256":-100}"#,
        r#""tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"parallel_tool_calls":false"#,
        r#""tools":[{"type":"function","function":{"name":"f","strict":true}}],"tool_choice":"required""#,
        r#""tools":[],"stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false}"#,
        r#""web_search_options":{}"#,
    ] {
        let body = format!(r#"{{"model":"g","messages":[{{"role":"user","content":"Hi"}}],{field}}}"#);
        sent.push(shown(OpenAiChat, &chat, &body));
    }
    insta::assert_snapshot!(sent.join("\n\n"));
}

#[test]
fn settings_of_the_other_dialects_are_translated_or_named() {
    use Dialect::*;
    let targets = [OpenAiChat, OpenAiResponses, Anthropic, Gemini, OllamaChat];
    let mut sent = Vec::new();
    for field in [
        r#""thinking":{"type":"enabled","budget_tokens":10000},"top_k":5,"metadata":{"user_id":"u","x":1}"#,
        r#""thinking":{"type":"adaptive"},"output_config":{"effort":"max","format":{"type":"json_schema","schema":{"type":"object"}}}"#,
        r#""tools":[{"name":"f","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}],"tool_choice":{"type":"any","disable_parallel_tool_use":true}"#,
        r#""tools":[{"type":"web_search_20250305","name":"web_search"}]"#,
        r#""context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},"service_tier":"standard_only""#,
        r#""container":"c""#,
        r#""stop_sequences":["a"],"system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}},{"type":"text","text":"Be kind."}]"#,
    ] {
        let body = format!(r#"{{"model":"c","max_tokens":9,"messages":[{{"role":"user","content":"Hi"}}],{field}}}"#);
        sent.push(shown(Anthropic, &targets[..2], &body));
        sent.push(shown(Anthropic, &targets[3..], &body));
    }
    for field in [
        r#""reasoning":{"effort":"minimal","summary":"auto"},"text":{"format":{"type":"json_object"},"verbosity":"low"}"#,
        r#""text":{"format":{"type":"json_schema","name":"x","schema":{"type":"object"}}},"truncation":"disabled","include":["reasoning.encrypted_content"]"#,
        r#""store":true"#,
        r#""previous_response_id":"r""#,
        r#""tools":[{"type":"function","name":"f","strict":false},{"type":"web_search"}]"#,
    ] {
        sent.push(shown(OpenAiResponses, &targets, &format!(r#"{{"model":"g","input":"Hi",{field}}}"#)));
    }
    for field in [
        r#""generationConfig":{"thinkingConfig":{"thinkingBudget":8192,"includeThoughts":true},"topK":3,"candidateCount":1}"#,
        r#""generation_config":{"response_mime_type":"application/json","response_schema":{"type":"OBJECT"},"thinking_config":{"thinking_level":"LOW"}}"#,
        r#""safetySettings":[{"category":"HARM_CATEGORY_HARASSMENT","threshold":"OFF"}],"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"OBJECT","properties":{"type":{"type":"STRING"}}}}]}]"#,
        r#""tools":[{"googleSearch":{}}]"#,
        r#""cachedContent":"cachedContents/1""#,
    ] {
        sent.push(shown(Gemini, &targets, &format!(r#"{{"contents":[{{"parts":[{{"text":"Hi"}}]}}],{field}}}"#)));
    }
    for field in [
        r#""think":true,"keep_alive":"5m","options":{"num_ctx":4096,"num_predict":-1,"seed":-1,"temperature":0}"#,
        r#""think":"low","format":{"type":"object"},"options":{"repeat_penalty":1.1}"#,
        r#""think":false,"format":"json""#,
    ] {
        sent.push(shown(
            OllamaChat,
            &targets,
            &format!(r#"{{"model":"l","messages":[{{"role":"user","content":"Hi"}}],{field}}}"#),
        ));
    }
    insta::assert_snapshot!(sent.join("\n\n"));
}

#[test]
fn conversations_keep_roles_and_texts() {
    use Dialect::*;
    let chat = |messages: &str| format!(r#"{{"model":"g","messages":[{messages}]}}"#);
    let mut sent = Vec::new();
    for messages in [
        r#"{"role":"developer","content":"D"},{"role":"system","content":[{"type":"text","text":"S"}]},{"role":"user","content":"U"}"#,
        r#"{"role":"user","content":"U"},{"role":"system","content":"late"},{"role":"user","content":"V"}"#,
        r#"{"role":"user","content":[{"type":"text","text":"What?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBO","detail":"auto"}}]}"#,
        r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x/y.png"}}]}"#,
        r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x/y.png","detail":"high"}}]}"#,
        r#"{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AA","format":"wav"}}]}"#,
        r#"{"role":"user","content":"U","name":"Ann"}"#,
        r#"{"role":"user","content":"U"},{"role":"assistant","content":null,"refusal":"No."},{"role":"user","content":"V"}"#,
        r#"{"role":"user","content":"U"},{"role":"assistant","content":null,"tool_calls":[{"id":"functions.f:0","type":"function","function":{"name":"f","arguments":""}},{"id":"b","type":"function","function":{"name":"g","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"functions.f:0","content":[{"type":"text","text":"R"}]},{"role":"tool","tool_call_id":"b","content":"S"}"#,
        r#"{"role":"user","content":"U"},{"role":"assistant","content":"","reasoning_content":"hm","tool_calls":[{"id":"a","type":"custom","custom":{"name":"f","input":"x"}}]}"#,
        r#"{"role":"user","content":"U"},{"role":"assistant","content":"A","reasoning_content":"hm","reasoning_details":[]},{"role":"user","content":"V"}"#,
        r#"{"role":"user","content":"U"},{"role":"assistant","content":"A","audio":{"id":"x"}}"#,
        r#"{"role":"function","name":"f","content":"R"}"#,
    ] {
        let targets = [OpenAiResponses, Anthropic, Gemini, OllamaChat, OllamaGenerate, OpenAiCompletions];
        sent.push(shown(OpenAiChat, &targets, &chat(messages)));
    }
    for messages in [
        r#"{"role":"user","content":"U"},{"role":"assistant","content":[{"type":"thinking","thinking":"sealed","signature":"S"},{"type":"thinking","thinking":"open","signature":""},{"type":"redacted_thinking","data":"x"},{"type":"text","text":""},{"type":"tool_use","id":"a","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","is_error":true,"content":"not found"},{"type":"text","text":"Go on."}]}"#,
        r#"{"role":"user","content":"U"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"T"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBO"}}]}]}"#,
        r#"{"role":"user","content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"x"}}]}"#,
    ] {
        let body = format!(r#"{{"model":"c","max_tokens":9,"messages":[{messages}]}}"#);
        sent.push(shown(Anthropic, &[OpenAiChat, OpenAiResponses, Gemini, OllamaChat], &body));
    }
    let gemini = r#"{"contents":[{"parts":[{"text":"U"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{}},"thoughtSignature":"S"},{"functionCall":{"name":"f","args":{"a":1}}}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"1"}}},{"functionResponse":{"name":"f","response":{"error":"2"}}}]}]}"#;
    sent.push(shown(Gemini, &[OpenAiChat, OpenAiResponses, Anthropic, OllamaChat], gemini));
    insta::assert_snapshot!(sent.join("\n\n"));
}

/// What may stand in the way of that request to that dialect: the part of the field's name that tells.
fn obstacle(to: Dialect, sent: &ChatRequest) -> Vec<&'static str> {
    use Dialect::*;
    let mut fields = Vec::new();
    let plain = is_plain(to);
    let has_tools = !sent.tools.is_empty() || !calls(sent).is_empty();
    if plain && (has_tools || sent.messages.len() > 1) {
        fields.extend(["tool", "messages[", "messages", "input[", "contents[", "toolConfig"]);
    }
    if plain && !images(sent).is_empty() {
        fields.extend(["image", "source", "content", "inlineData"]);
    }
    if matches!(to, Anthropic | OpenAiResponses | BedrockConverse) && sent.seed.is_some() {
        fields.push("seed");
    }
    if to == OpenAiResponses && !sent.stop.is_empty() {
        fields.push("stop");
    }
    if sent.ignore_eos && matches!(to, Anthropic | Gemini | OllamaChat | OllamaGenerate | BedrockConverse | CohereChat)
    {
        fields.push("ignore_eos");
    }
    if to == OllamaChat && !matches!(sent.tool_choice, None | Some(ToolChoice::Auto)) {
        fields.push("tool_choice");
    }
    if to == BedrockConverse && sent.tool_choice == Some(ToolChoice::Never) {
        fields.push("tool");
    }
    fields
}

/// The tools and the choice of one as that dialect has them: without a word for no tool none is shown, and where a certain one cannot be
/// chosen it is the only one that is shown.
fn choice_in(to: Dialect, sent: &ChatRequest) -> (Vec<Tool>, Option<ToolChoice>) {
    let (tools, choice) = (sent.tools.clone(), sent.tool_choice.clone());
    match (to, choice) {
        (Dialect::BedrockConverse, Some(ToolChoice::Never)) => (Vec::new(), None),
        (Dialect::OllamaChat | Dialect::CohereChat, Some(ToolChoice::Auto)) => (tools, None),
        (Dialect::CohereChat, Some(ToolChoice::Named(named))) => {
            let is_known = tools.iter().any(|tool| tool.name == named);
            let shown = tools.into_iter().filter(|tool| !is_known || tool.name == named).collect();
            (shown, Some(ToolChoice::Required))
        }
        (_, choice) => (tools, choice),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_request_keeps_its_meaning_or_the_field_in_its_way_is_named(sent in request()) {
        let sent = ChatRequest { extra: Vec::new(), ..sent };
        let bare = ChatRequest { tools: Vec::new(), tool_choice: None, ..sent.clone() };
        for from in Dialect::ALL {
            let sent = if is_plain(from) { &bare } else { &sent };
            let body = encode_request(from, sent);
            let path = routed(from, sent);
            // What the client's own dialect can say of it.
            let sent = decode_request(&path, &body).unwrap();
            for to in Dialect::ALL.into_iter().filter(|to| *to != from) {
                let context = format!("{from:?} to {to:?}: {}", String::from_utf8_lossy(&body));
                let translated = match translate_request(&path, to, "alias", &body) {
                    Ok(translated) => translated,
                    Err(error) => {
                        let known = obstacle(to, &sent).iter().any(|field| error.field.contains(field));
                        prop_assert!(known, "{error}\n{}", context);
                        continue;
                    }
                };
                check_meaning(to, &sent, &translated, &context)?;
            }
        }
    }

    #[test]
    fn garbled_requests_never_panic(
        sent in request(),
        garbled in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        for from in Dialect::ALL {
            let mut body = encode_request(from, &sent);
            let length = body.len();
            garbled.iter().for_each(|(at, byte)| body[at.index(length)] = *byte);
            for to in Dialect::ALL {
                if let Ok(translated) = translate_request(&routed(from, &sent), to, "alias", &body) {
                    let read = decode_request(&routed(to, &translated.request), &translated.body);
                    prop_assert!(read.is_ok(), "{:?}", String::from_utf8_lossy(&translated.body));
                }
            }
        }
    }

    #[test]
    fn garbage_is_refused(from in prop::sample::select(Dialect::ALL.to_vec()), body in any::<Vec<u8>>()) {
        for to in Dialect::ALL {
            prop_assert!(translate_request(&Routed::from(from), to, "alias", &body).is_err());
        }
    }
}

fn check_meaning(
    to: Dialect,
    sent: &ChatRequest,
    translated: &TranslatedRequest,
    context: &str,
) -> Result<(), TestCaseError> {
    let written = String::from_utf8_lossy(&translated.body);
    let read = decode_request(&routed(to, &translated.request), &translated.body);
    prop_assert!(read.is_ok(), "{read:?} {written}\n{context}");
    let read = read.unwrap();
    prop_assert_eq!(&read.model, "alias");
    prop_assert_eq!(read.stream, sent.stream, "{}", context);
    prop_assert!(!sent.stream || read.include_usage, "{} {}", written, context);
    prop_assert_eq!(translated.include_usage, sent.include_usage, "{}", context);
    prop_assert_eq!(read.temperature, sent.temperature, "{} {}", written, context);
    prop_assert_eq!(read.top_p, sent.top_p, "{} {}", written, context);
    prop_assert_eq!(&read.stop, &sent.stop, "{} {}", written, context);
    prop_assert_eq!(read.seed, sent.seed, "{} {}", written, context);
    if sent.max_output_tokens.is_some() {
        prop_assert_eq!(read.max_output_tokens, sent.max_output_tokens, "{} {}", written, context);
    }
    prop_assert_eq!(texts(&read, is_plain(to)), texts(sent, is_plain(to)), "{} {}", written, context);
    prop_assert_eq!(calls(&read), calls(sent), "{} {}", written, context);
    prop_assert_eq!(images(&read).len(), images(sent).len(), "{} {}", written, context);
    let (tools, choice) = choice_in(to, sent);
    prop_assert_eq!(&read.tools, &tools, "{} {}", written, context);
    prop_assert_eq!(&read.tool_choice, &choice, "{} {}", written, context);
    prop_assert!(read.messages.iter().any(|message| message.role == Role::User), "{} {}", written, context);
    Ok(())
}
