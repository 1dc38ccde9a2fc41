//! OpenAI's chat completions as engines and providers really send them, both ways.
//!
//! Invariant: nothing in here returns an error for a broken answer; what does not fit is counted and the rest is kept.

mod assemble;
mod chunk;
mod decode;
mod encode;
pub(crate) mod fields;
pub(crate) mod request;
mod settings;
mod usage;
mod visitor;

pub(crate) use assemble::CompletionAssembly;
pub(crate) use chunk::finish_reason;
pub(crate) use encode::{error, push_counts, push_error, push_head, push_middle, push_usage};
pub(crate) use request::{Limits, push_sampling, read_sampling};
pub(crate) use usage::read_usage;

use crate::codec::{
    Codec, Descriptor, Endpoint, Framing, KeyHeader, Operation, RequestFeatures, ResponseFeatures, Roles,
    ServerTimesField, Shape, StreamPosition, StrictTools, UsageInStream, unchanged,
};
use crate::stream_assembly::AssembledRequests;
use decode::ChatDecoder;
use encode::ChatEncoder;

pub(crate) static DESCRIPTOR: Descriptor = Descriptor {
    name: "openai-chat",
    endpoint: Endpoint::Fixed("/chat/completions"),
    base_path: "/v1",
    key_header: KeyHeader::Bearer,
    required_header: None,
    framing: Framing::Sse,
    array_streams: false,
    operation: Operation::Chat,
    embeddings: true,
    id_prefix: "chatcmpl-",
    error_message: "/error/message",
    error_event_start: r#"data: {"error""#,
    rate_limit_prefix: None,
    request: RequestFeatures {
        tools: true,
        tool_choice: true,
        forbids_tools: true,
        tool_error_flag: false,
        plain_call_ids: false,
        strict_tools: StrictTools::OnRequest(request::strict_tool),
        images: true,
        image_urls: true,
        tool_result_images: false,
        unsigned_reasoning: true,
        roles: Roles::Any,
        reasoning_effort_and_budget: false,
        seed: true,
        stop: true,
        ignore_eos: true,
        prompt_list: false,
        requires_max_tokens: false,
        legacy_max_tokens: true,
        snake_case_aliases: false,
        streams_by_default: false,
    },
    response: ResponseFeatures {
        reasoning: true,
        tool_calls: true,
        interleaved_tool_calls: true,
        other_finish_reason: false,
        usage: UsageInStream::OnRequest,
        server_times: ServerTimesField::OfLlamaCpp,
    },
    codec: Codec {
        encode_request: request::encode,
        decode_request: request::decode,
        decoder: || Box::new(ChatDecoder::default()),
        encoder: |_, id, model, created| Box::new(ChatEncoder::new(id, model, created)),
        encode_error: error,
        push_error_event,
        assembly: Some((AssembledRequests::OfKnownFields, || Box::new(CompletionAssembly::chat()))),
        output_limit: |lengths| lengths.of_openai(&[lengths.max_completion_tokens, lengths.max_tokens]),
        request_fields: &fields::REQUEST,
        write_setting: settings::write,
        prepare_export: unchanged,
        prepare_import: unchanged,
    },
};

/// Appends the event that ends a failed stream, as llama.cpp's server has it too.
pub(crate) fn push_error_event(_: Shape, status: u16, message: &str, _: StreamPosition, out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(&error(status, message));
    out.extend_from_slice(b"\n\n");
}
