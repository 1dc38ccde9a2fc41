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
    ServerTimesField, Shape, StreamPosition, StrictTools, Unsupported, UsageInStream,
};
use crate::dialects::openai_chat;
use crate::document_decoder::DocumentDecoder;
use crate::error::WireError;
use crate::peek::Lengths;
use crate::peek::largest;
use crate::response::ResponseEncoder;
use crate::stream_assembly::{AssembledRequests, Assembly};
use crate::translate::setting::Setting;
use crate::translate::setting_fields::SettingFields;
use crate::translate::table::Table;
use assemble::ResponseAssembly;
use decode::ResponsesDecoder;
use encode::ResponsesEncoder;
use tokrate_core::ChatRequest;

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
    codec: &Responses,
};

struct Responses;

impl Codec for Responses {
    fn encode_request(&self, request: &ChatRequest) -> Vec<u8> {
        request::encode(request)
    }

    fn decode_request(&self, body: &[u8]) -> Result<ChatRequest, WireError> {
        request::decode(body)
    }

    fn decoder(&self) -> Box<dyn DocumentDecoder> {
        Box::new(ResponsesDecoder::default())
    }

    fn encoder(&self, _shape: Shape, id: &str, model: &str, created: u64) -> Box<dyn ResponseEncoder> {
        Box::new(ResponsesEncoder::new(id, model, created))
    }

    fn encode_error(&self, status: u16, message: &str) -> Vec<u8> {
        openai_chat::error(status, message)
    }

    fn push_error_event(&self, _shape: Shape, status: u16, message: &str, position: StreamPosition, out: &mut Vec<u8>) {
        encode::push_error_event(status, message, position.sequence, out);
    }

    fn assembly(&self) -> Option<(AssembledRequests, Box<dyn Assembly>)> {
        Some((AssembledRequests::Without(&["background"]), Box::new(ResponseAssembly::default())))
    }

    fn output_limit(&self, lengths: &Lengths) -> Option<u64> {
        largest(&[lengths.max_output_tokens])
    }

    fn request_fields(&self) -> &'static Table {
        &fields::REQUEST
    }

    fn write_setting(
        &self,
        setting: &Setting,
        request: &mut ChatRequest,
        fields: &mut SettingFields,
    ) -> Result<(), Unsupported> {
        settings::write(setting, request, fields)
    }
}

#[cfg(test)]
mod tests;
