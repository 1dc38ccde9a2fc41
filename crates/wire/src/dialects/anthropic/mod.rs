//! Anthropic's messages (`POST /v1/messages`), both ways.
//!
//! Invariant: nothing in here returns an error for a broken answer; what does not fit is counted and the rest is kept.

mod assemble;
mod decode;
mod encode;
mod fields;
mod request;
mod settings;
mod usage;

use crate::codec::{
    Codec, Descriptor, Endpoint, Framing, KeyHeader, Operation, RequestFeatures, ResponseFeatures, Roles,
    ServerTimesField, StrictTools, UsageInStream, unchanged,
};
use crate::peek::largest;
use crate::stream_assembly::AssembledRequests;
use assemble::MessageAssembly;
use decode::MessagesDecoder;
use encode::MessagesEncoder;

pub(crate) static DESCRIPTOR: Descriptor = Descriptor {
    name: "anthropic",
    endpoint: Endpoint::Fixed("/messages"),
    base_path: "/v1",
    key_header: KeyHeader::Named("x-api-key"),
    required_header: Some(("anthropic-version", "2023-06-01")),
    framing: Framing::Sse,
    array_streams: false,
    operation: Operation::Chat,
    embeddings: false,
    id_prefix: "msg_",
    error_message: "/error/message",
    error_event_start: "event: error\n",
    rate_limit_prefix: Some("anthropic-ratelimit-"),
    request: RequestFeatures {
        tools: true,
        tool_choice: true,
        forbids_tools: true,
        tool_error_flag: true,
        plain_call_ids: true,
        strict_tools: StrictTools::OnRequest(request::strict_tool),
        images: true,
        image_urls: true,
        tool_result_images: true,
        unsigned_reasoning: false,
        roles: Roles::Any,
        reasoning_effort_and_budget: true,
        seed: false,
        stop: true,
        ignore_eos: false,
        prompt_list: false,
        requires_max_tokens: true,
        legacy_max_tokens: false,
        snake_case_aliases: false,
        streams_by_default: false,
    },
    response: ResponseFeatures {
        reasoning: true,
        tool_calls: true,
        interleaved_tool_calls: false,
        other_finish_reason: false,
        usage: UsageInStream::OpeningAndEnd,
        server_times: ServerTimesField::None,
    },
    codec: Codec {
        encode_request: request::encode,
        decode_request: request::decode,
        decoder: || Box::new(MessagesDecoder::default()),
        encoder: |_, id, model, _| Box::new(MessagesEncoder::new(id, model)),
        encode_error: encode::error,
        push_error_event: encode::push_error_event,
        assembly: Some((AssembledRequests::OfKnownFields, || Box::new(MessageAssembly::default()))),
        output_limit: |lengths| largest(&[lengths.max_tokens]),
        request_fields: &fields::REQUEST,
        write_setting: settings::write,
        prepare_export: unchanged,
        prepare_import: unchanged,
    },
};

#[cfg(test)]
mod tests;
