//! OpenAI's older text completions as engines really send them, both ways.
//!
//! Invariant: nothing in here returns an error for a broken answer; what does not fit is counted and the rest is kept.

mod decode;
mod encode;
mod fields;
mod request;
mod settings;

pub(crate) use request::prompt_of;

use crate::codec::{
    Codec, Descriptor, Endpoint, Framing, KeyHeader, Operation, RequestFeatures, ResponseFeatures, Roles,
    ServerTimesField, StrictTools, UsageInStream, unchanged,
};
use crate::dialects::openai_chat;
use crate::dialects::openai_chat::CompletionAssembly;
use crate::stream_assembly::AssembledRequests;
use decode::CompletionsDecoder;
use encode::CompletionsEncoder;

pub(crate) static DESCRIPTOR: Descriptor = Descriptor {
    name: "openai-completions",
    endpoint: Endpoint::Fixed("/completions"),
    base_path: "/v1",
    key_header: KeyHeader::Bearer,
    required_header: None,
    framing: Framing::Sse,
    array_streams: false,
    operation: Operation::TextCompletion,
    embeddings: true,
    id_prefix: "cmpl-",
    error_message: "/error/message",
    error_event_start: r#"data: {"error""#,
    rate_limit_prefix: None,
    request: RequestFeatures {
        tools: false,
        tool_choice: true,
        forbids_tools: true,
        tool_error_flag: false,
        plain_call_ids: false,
        strict_tools: StrictTools::Unsupported,
        images: false,
        image_urls: false,
        tool_result_images: false,
        unsigned_reasoning: false,
        roles: Roles::OnePrompt { system: false },
        reasoning_effort_and_budget: false,
        seed: true,
        stop: true,
        ignore_eos: true,
        prompt_list: true,
        requires_max_tokens: false,
        legacy_max_tokens: false,
        snake_case_aliases: false,
        streams_by_default: false,
    },
    response: ResponseFeatures {
        reasoning: false,
        tool_calls: false,
        interleaved_tool_calls: false,
        other_finish_reason: false,
        usage: UsageInStream::OnRequest,
        server_times: ServerTimesField::OfLlamaCpp,
    },
    codec: Codec {
        encode_request: request::encode,
        decode_request: request::decode,
        decoder: || Box::new(CompletionsDecoder::default()),
        encoder: |_, id, model, created| Box::new(CompletionsEncoder::new(id, model, created)),
        encode_error: openai_chat::error,
        push_error_event: openai_chat::push_error_event,
        assembly: Some((AssembledRequests::OfKnownFields, || Box::new(CompletionAssembly::text()))),
        output_limit: |lengths| lengths.of_openai(&[lengths.max_tokens]),
        request_fields: &fields::REQUEST,
        write_setting: settings::write,
        prepare_export: unchanged,
        prepare_import: unchanged,
    },
};
