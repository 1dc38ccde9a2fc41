//! OpenAI's Responses API (`POST /v1/responses`), both ways.
//!
//! Invariant: nothing in here returns an error for a broken answer; what does not fit is counted and the rest is kept.

mod assemble;
mod decode;
mod encode;
mod fields;
mod item;
mod request;
mod settings;

use crate::codec::{
    Codec, Descriptor, Endpoint, Framing, KeyHeader, Operation, RequestFeatures, ResponseFeatures, Roles,
    ServerTimesField, StrictTools, UsageInStream, unchanged,
};
use crate::dialects::openai_chat;
use crate::peek::largest;
use crate::stream_assembly::AssembledRequests;
use assemble::ResponseAssembly;
use decode::ResponsesDecoder;
use encode::ResponsesEncoder;

pub(crate) static DESCRIPTOR: Descriptor = Descriptor {
    name: "openai-responses",
    endpoint: Endpoint::Fixed("/responses"),
    base_path: "/v1",
    key_header: KeyHeader::Bearer,
    required_header: None,
    framing: Framing::Sse,
    array_streams: false,
    operation: Operation::Chat,
    embeddings: true,
    id_prefix: "resp_",
    error_message: "/error/message",
    error_event_start: "event: error\n",
    rate_limit_prefix: None,
    request: RequestFeatures {
        tools: true,
        tool_choice: true,
        forbids_tools: true,
        tool_error_flag: false,
        plain_call_ids: false,
        strict_tools: StrictTools::ByDefault(request::strict_tool),
        images: true,
        image_urls: true,
        tool_result_images: true,
        unsigned_reasoning: false,
        roles: Roles::Any,
        reasoning_effort_and_budget: false,
        seed: false,
        stop: false,
        ignore_eos: true,
        prompt_list: false,
        requires_max_tokens: false,
        legacy_max_tokens: false,
        snake_case_aliases: false,
        streams_by_default: false,
    },
    response: ResponseFeatures {
        reasoning: true,
        tool_calls: true,
        interleaved_tool_calls: false,
        other_finish_reason: false,
        usage: UsageInStream::Always,
        server_times: ServerTimesField::OfLlamaCpp,
    },
    codec: Codec {
        encode_request: request::encode,
        decode_request: request::decode,
        decoder: || Box::new(ResponsesDecoder::default()),
        encoder: |_, id, model, created| Box::new(ResponsesEncoder::new(id, model, created)),
        encode_error: openai_chat::error,
        push_error_event: |_, status, message, position, out| {
            encode::push_error_event(status, message, position.sequence, out);
        },
        assembly: Some((AssembledRequests::Without(&["background"]), || Box::new(ResponseAssembly::default()))),
        output_limit: |lengths| largest(&[lengths.max_output_tokens]),
        request_fields: &fields::REQUEST,
        write_setting: settings::write,
        prepare_export: unchanged,
        prepare_import: unchanged,
    },
};

#[cfg(test)]
mod tests;
