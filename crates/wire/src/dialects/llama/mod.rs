//! The native completion of llama.cpp's server (`POST /completion`), both ways.
//!
//! Invariant: nothing in here returns an error for a broken answer; what does not fit is counted and the rest is kept.

mod decode;
mod encode;
mod fields;
mod request;
mod settings;

use crate::codec::{
    Codec, Descriptor, Endpoint, Framing, KeyHeader, Operation, RequestFeatures, ResponseFeatures, Roles,
    ServerTimesField, StrictTools, UsageInStream, unchanged,
};
use crate::dialects::openai_chat;
use crate::peek::{Limit, largest};
use decode::LlamaDecoder;
use encode::LlamaEncoder;

pub(crate) static DESCRIPTOR: Descriptor = Descriptor {
    name: "llama-completion",
    endpoint: Endpoint::Fixed("/completion"),
    base_path: "",
    key_header: KeyHeader::Bearer,
    required_header: None,
    framing: Framing::Sse,
    array_streams: false,
    operation: Operation::TextCompletion,
    embeddings: false,
    id_prefix: "",
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
        usage: UsageInStream::Always,
        server_times: ServerTimesField::Own,
    },
    codec: Codec {
        encode_request: request::encode,
        decode_request: request::decode,
        decoder: || Box::new(LlamaDecoder::default()),
        encoder: |_, _, model, _| Box::new(LlamaEncoder::new(model)),
        encode_error: openai_chat::error,
        push_error_event: openai_chat::push_error_event,
        assembly: None,
        output_limit: |lengths| match lengths.n_predict {
            Limit::Unset => largest(&[lengths.max_tokens]),
            limit => largest(&[limit]),
        },
        request_fields: &fields::REQUEST,
        write_setting: settings::write,
        prepare_export: unchanged,
        prepare_import: unchanged,
    },
};

#[cfg(test)]
mod tests;
