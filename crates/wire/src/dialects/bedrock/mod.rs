//! AWS Bedrock's Converse and ConverseStream, both ways.
//!
//! Facts: the service's own model in botocore (`bedrock-runtime/2023-09-30/service-2.json`, 1.44.8). The model's name and the method stand in
//! the path, streams are binary ([`crate::event_stream`]), and answers do not name their model. Invariant: nothing in here returns an
//! error for a broken answer; what does not fit is counted and the rest is kept.

mod content;
mod decode;
mod encode;
mod fields;
mod path;
mod request;
mod settings;
#[cfg(test)]
mod tests;
mod usage;

use crate::codec::{
    Codec, Descriptor, Endpoint, Framing, KeyHeader, Operation, RequestFeatures, ResponseFeatures, Roles,
    ServerTimesField, StrictTools, UsageInStream, unchanged,
};
use crate::peek::largest;
use decode::ConverseDecoder;
use encode::ConverseEncoder;

pub(crate) static DESCRIPTOR: Descriptor = Descriptor {
    name: "bedrock-converse",
    endpoint: Endpoint::PerModel { path: path::path, parse: path::parse },
    base_path: "",
    // AWS_BEARER_TOKEN_BEDROCK; without one, requests are signed.
    key_header: KeyHeader::Bearer,
    required_header: None,
    framing: Framing::EventStream,
    array_streams: false,
    operation: Operation::Chat,
    embeddings: false,
    id_prefix: "",
    error_message: "/message",
    // The highest byte of a length.
    error_event_start: "\0",
    rate_limit_prefix: None,
    request: RequestFeatures {
        tools: true,
        tool_choice: true,
        forbids_tools: false,
        tool_error_flag: true,
        plain_call_ids: true,
        strict_tools: StrictTools::OnRequest(request::strict_tool),
        images: true,
        image_urls: false,
        tool_result_images: true,
        unsigned_reasoning: false,
        roles: Roles::SystemFirst,
        reasoning_effort_and_budget: false,
        seed: false,
        stop: true,
        ignore_eos: false,
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
        other_finish_reason: true,
        usage: UsageInStream::Always,
        server_times: ServerTimesField::None,
    },
    codec: Codec {
        encode_request: request::encode,
        decode_request: request::decode,
        decoder: || Box::new(ConverseDecoder::default()),
        encoder: |_, _, _, _| Box::new(ConverseEncoder::default()),
        encode_error: encode::error,
        push_error_event: encode::push_error_event,
        assembly: None,
        output_limit: |lengths| largest(&[lengths.inference]),
        request_fields: &fields::REQUEST,
        write_setting: settings::write,
        prepare_export: unchanged,
        prepare_import: request::prepare_import,
    },
};
