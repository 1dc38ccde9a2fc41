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
    ServerTimesField, Shape, StreamPosition, StrictTools, Unsupported, UsageInStream,
};
use crate::document_decoder::DocumentDecoder;
use crate::error::WireError;
use crate::peek::Lengths;
use crate::peek::largest;
use crate::response::ResponseEncoder;
use crate::stream_assembly::{AssembledRequests, Assembly};
use crate::translate::setting::Setting;
use crate::translate::setting_fields::SettingFields;
use crate::translate::table::Table;
use assemble::MessageAssembly;
use decode::MessagesDecoder;
use encode::MessagesEncoder;
use tokrate_core::ChatRequest;

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
    codec: &Messages,
};

struct Messages;

impl Codec for Messages {
    fn encode_request(&self, request: &ChatRequest) -> Vec<u8> {
        request::encode(request)
    }

    fn decode_request(&self, body: &[u8]) -> Result<ChatRequest, WireError> {
        request::decode(body)
    }

    fn decoder(&self) -> Box<dyn DocumentDecoder> {
        Box::new(MessagesDecoder::default())
    }

    fn encoder(&self, _shape: Shape, id: &str, model: &str, _created: u64) -> Box<dyn ResponseEncoder> {
        Box::new(MessagesEncoder::new(id, model))
    }

    fn encode_error(&self, status: u16, message: &str) -> Vec<u8> {
        encode::error(status, message)
    }

    fn push_error_event(
        &self,
        _shape: Shape,
        status: u16,
        message: &str,
        _position: StreamPosition,
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(b"event: error\ndata: ");
        out.extend_from_slice(&self.encode_error(status, message));
        out.extend_from_slice(b"\n\n");
    }

    fn assembly(&self) -> Option<(AssembledRequests, Box<dyn Assembly>)> {
        Some((AssembledRequests::OfKnownFields, Box::new(MessageAssembly::default())))
    }

    fn output_limit(&self, lengths: &Lengths) -> Option<u64> {
        largest(&[lengths.max_tokens])
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
