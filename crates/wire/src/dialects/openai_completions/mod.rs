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
    ServerTimesField, Shape, StrictTools, Unsupported, UsageInStream,
};
use crate::dialects::openai_chat;
use crate::dialects::openai_chat::CompletionAssembly;
use crate::document_decoder::DocumentDecoder;
use crate::error::WireError;
use crate::peek::Lengths;
use crate::response::ResponseEncoder;
use crate::stream_assembly::{AssembledRequests, Assembly};
use crate::translate::setting::Setting;
use crate::translate::setting_fields::SettingFields;
use crate::translate::table::Table;
use decode::CompletionsDecoder;
use encode::CompletionsEncoder;
use tokrate_core::ChatRequest;

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
    codec: &Completions,
};

struct Completions;

impl Codec for Completions {
    fn encode_request(&self, request: &ChatRequest) -> Vec<u8> {
        request::encode(request)
    }

    fn decode_request(&self, body: &[u8]) -> Result<ChatRequest, WireError> {
        request::decode(body)
    }

    fn decoder(&self) -> Box<dyn DocumentDecoder> {
        Box::new(CompletionsDecoder::default())
    }

    fn encoder(&self, _shape: Shape, id: &str, model: &str, created: u64) -> Box<dyn ResponseEncoder> {
        Box::new(CompletionsEncoder::new(id, model, created))
    }

    fn encode_error(&self, status: u16, message: &str) -> Vec<u8> {
        openai_chat::error(status, message)
    }

    fn assembly(&self) -> Option<(AssembledRequests, Box<dyn Assembly>)> {
        Some((AssembledRequests::OfKnownFields, Box::new(CompletionAssembly::text())))
    }

    fn output_limit(&self, lengths: &Lengths) -> Option<u64> {
        lengths.of_openai(&[lengths.max_tokens])
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
