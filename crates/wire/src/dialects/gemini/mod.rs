//! Gemini's generateContent and streamGenerateContent, both ways.
//!
//! Invariant: nothing in here returns an error for a broken answer; what does not fit is counted and the rest is kept.

mod decode;
mod encode;
mod export;
mod fields;
mod import;
mod parts;
mod path;
mod request;
mod settings;
mod usage;

use crate::codec::{
    Codec, Descriptor, Endpoint, Framing, KeyHeader, Operation, RequestFeatures, ResponseFeatures, Roles,
    ServerTimesField, StrictTools, UsageInStream,
};
use crate::peek::largest;
use decode::GeminiDecoder;
use encode::GeminiEncoder;

pub(crate) static DESCRIPTOR: Descriptor = Descriptor {
    name: "gemini",
    endpoint: Endpoint::PerModel { path: path::path, parse: path::parse },
    base_path: "/v1beta",
    key_header: KeyHeader::Named("x-goog-api-key"),
    required_header: None,
    framing: Framing::Sse,
    array_streams: true,
    operation: Operation::GenerateContent,
    embeddings: false,
    id_prefix: "",
    error_message: "/error/message",
    error_event_start: r#"data: {"error""#,
    rate_limit_prefix: None,
    request: RequestFeatures {
        tools: true,
        tool_choice: true,
        forbids_tools: true,
        tool_error_flag: true,
        plain_call_ids: false,
        strict_tools: StrictTools::Unsupported,
        images: true,
        image_urls: true,
        tool_result_images: true,
        unsigned_reasoning: false,
        roles: Roles::SystemFirst,
        reasoning_effort_and_budget: false,
        seed: true,
        stop: true,
        ignore_eos: false,
        prompt_list: false,
        requires_max_tokens: false,
        legacy_max_tokens: false,
        snake_case_aliases: true,
        streams_by_default: false,
    },
    response: ResponseFeatures {
        reasoning: true,
        tool_calls: true,
        interleaved_tool_calls: false,
        other_finish_reason: true,
        usage: UsageInStream::Always,
        server_times: ServerTimesField::None,
    },
    codec: Codec {
        encode_request: request::encode,
        decode_request: request::decode,
        decoder: || Box::new(GeminiDecoder::default()),
        encoder: |shape, id, model, _| Box::new(GeminiEncoder::new(shape, id, model)),
        encode_error: encode::error,
        push_error_event: encode::push_error_event,
        assembly: None,
        output_limit: |lengths| largest(&[lengths.generation]),
        request_fields: &fields::REQUEST,
        write_setting: settings::write,
        prepare_export: export::prepare,
        prepare_import: |request| import::prepare(&mut request.messages),
    },
};
