//! Ollama's `/api/chat` and `/api/generate`, both ways.
//!
//! Invariant: nothing in here returns an error for a broken answer; what does not fit is counted and the rest is kept.

mod assemble;
mod decode;
mod encode;
mod fields;
mod request;
mod settings;

use crate::codec::{
    Codec, Descriptor, Endpoint, Framing, KeyHeader, Operation, RequestFeatures, ResponseFeatures, Roles,
    ServerTimesField, StrictTools, UsageInStream, unchanged,
};
use crate::peek::largest;
use crate::stream_assembly::AssembledRequests;
use assemble::LineAssembly;
use decode::OllamaDecoder;
use encode::OllamaEncoder;

pub(crate) static CHAT: Descriptor = Descriptor {
    name: "ollama-chat",
    endpoint: Endpoint::Fixed("/api/chat"),
    base_path: "",
    key_header: KeyHeader::Bearer,
    required_header: None,
    framing: Framing::Lines,
    array_streams: false,
    operation: Operation::Chat,
    embeddings: false,
    id_prefix: "",
    error_message: "/error",
    error_event_start: r#"{"error""#,
    rate_limit_prefix: None,
    request: RequestFeatures {
        tools: true,
        tool_choice: false,
        forbids_tools: false,
        tool_error_flag: false,
        plain_call_ids: false,
        strict_tools: StrictTools::Unsupported,
        images: true,
        image_urls: false,
        tool_result_images: false,
        unsigned_reasoning: true,
        roles: Roles::Any,
        reasoning_effort_and_budget: false,
        seed: true,
        stop: true,
        ignore_eos: false,
        prompt_list: false,
        requires_max_tokens: false,
        legacy_max_tokens: false,
        snake_case_aliases: false,
        streams_by_default: true,
    },
    response: ResponseFeatures {
        reasoning: true,
        tool_calls: true,
        interleaved_tool_calls: false,
        other_finish_reason: true,
        usage: UsageInStream::Always,
        server_times: ServerTimesField::Own,
    },
    codec: Codec {
        encode_request: |request| request::encode(Method::Chat, request),
        decode_request: |body| request::decode(Method::Chat, body),
        decoder: || Box::new(OllamaDecoder::default()),
        encoder: |_, _, model, created| Box::new(OllamaEncoder::new(Method::Chat, model, created)),
        encode_error: |_, message| encode::error(message),
        push_error_event: |_, _, message, _, out| {
            out.extend_from_slice(&encode::error(message));
            out.push(b'\n');
        },
        assembly: Some((AssembledRequests::OfKnownFields, || Box::new(LineAssembly::default()))),
        output_limit: |lengths| largest(&[lengths.num_predict]),
        request_fields: &fields::CHAT,
        write_setting: settings::write,
        prepare_export: unchanged,
        prepare_import: unchanged,
    },
};

/// It differs from the chat in where the text stands and in how a conversation is sent.
pub(crate) static GENERATE: Descriptor = Descriptor {
    name: "ollama-generate",
    endpoint: Endpoint::Fixed("/api/generate"),
    operation: Operation::TextCompletion,
    request: RequestFeatures {
        tools: false,
        unsigned_reasoning: false,
        roles: Roles::OnePrompt { system: true },
        ..CHAT.request
    },
    codec: Codec {
        encode_request: |request| request::encode(Method::Generate, request),
        decode_request: |body| request::decode(Method::Generate, body),
        encoder: |_, _, model, created| Box::new(OllamaEncoder::new(Method::Generate, model, created)),
        request_fields: &fields::GENERATE,
        ..CHAT.codec
    },
    ..CHAT
};

/// Which of the two endpoints.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Method {
    /// `/api/chat`: messages, the answer in `message.content`.
    Chat,
    /// `/api/generate`: one prompt, the answer in `response`.
    Generate,
}
