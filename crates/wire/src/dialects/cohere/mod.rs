//! Cohere's chat (`POST /v2/chat`), both ways.
//!
//! Facts: the types of Cohere's own client (cohere 7 on PyPI, `cohere/v2`). Messages and tools are those of OpenAI's chat; settings, answers and
//! events are not. Answers do not name their model. Invariant: nothing in here returns an error for a broken answer; what does not fit is
//! counted and the rest is kept.

mod decode;
mod encode;
mod fields;
mod request;
mod settings;
#[cfg(test)]
mod tests;

use crate::codec::{
    Codec, Descriptor, Endpoint, Framing, KeyHeader, Operation, RequestFeatures, ResponseFeatures, Roles,
    ServerTimesField, StrictTools, UsageInStream, unchanged,
};
use crate::peek::largest;
use decode::CohereDecoder;
use encode::CohereEncoder;

pub(crate) static DESCRIPTOR: Descriptor = Descriptor {
    name: "cohere-chat",
    endpoint: Endpoint::Fixed("/v2/chat"),
    base_path: "",
    key_header: KeyHeader::Bearer,
    required_header: None,
    framing: Framing::Sse,
    array_streams: false,
    operation: Operation::Chat,
    embeddings: false,
    id_prefix: "",
    error_message: "/message",
    error_event_start: "event: message-end\n",
    rate_limit_prefix: None,
    request: RequestFeatures {
        tools: true,
        tool_choice: true,
        forbids_tools: true,
        tool_error_flag: false,
        plain_call_ids: false,
        strict_tools: StrictTools::Unsupported,
        images: true,
        image_urls: true,
        tool_result_images: false,
        unsigned_reasoning: false,
        roles: Roles::Any,
        reasoning_effort_and_budget: false,
        seed: true,
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
        decoder: || Box::new(CohereDecoder::default()),
        encoder: |_, id, _, _| Box::new(CohereEncoder::new(id)),
        encode_error: |_, message| encode::error(message),
        push_error_event: |_, _, message, _, out| encode::push_failure(message, out),
        assembly: None,
        output_limit: |lengths| largest(&[lengths.max_tokens]),
        request_fields: &fields::REQUEST,
        write_setting: settings::write,
        prepare_export: unchanged,
        prepare_import: request::prepare_import,
    },
};
