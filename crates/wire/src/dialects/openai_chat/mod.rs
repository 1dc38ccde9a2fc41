//! OpenAI's chat completions as engines and providers really send them, both ways.
//!
//! Invariant: nothing in here returns an error for a broken answer; what does not fit is counted and the rest is kept.

mod assemble;
mod chunk;
mod decode;
mod encode;
pub(crate) mod fields;
mod request;
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
    ServerTimesField, Shape, StrictTools, Unsupported, UsageInStream,
};
use crate::document_decoder::DocumentDecoder;
use crate::error::WireError;
use crate::peek::Lengths;
use crate::response::ResponseEncoder;
use crate::stream_assembly::{AssembledRequests, Assembly};
use crate::translate::setting::Setting;
use crate::translate::setting_fields::SettingFields;
use crate::translate::table::Table;
use decode::ChatDecoder;
use encode::ChatEncoder;
use tokrate_core::ChatRequest;

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
    codec: &ChatCompletions,
};

struct ChatCompletions;

impl Codec for ChatCompletions {
    fn encode_request(&self, request: &ChatRequest) -> Vec<u8> {
        request::encode(request)
    }

    fn decode_request(&self, body: &[u8]) -> Result<ChatRequest, WireError> {
        request::decode(body)
    }

    fn decoder(&self) -> Box<dyn DocumentDecoder> {
        Box::new(ChatDecoder::default())
    }

    fn encoder(&self, _shape: Shape, id: &str, model: &str, created: u64) -> Box<dyn ResponseEncoder> {
        Box::new(ChatEncoder::new(id, model, created))
    }

    fn encode_error(&self, status: u16, message: &str) -> Vec<u8> {
        error(status, message)
    }

    fn assembly(&self) -> Option<(AssembledRequests, Box<dyn Assembly>)> {
        Some((AssembledRequests::OfKnownFields, Box::new(CompletionAssembly::chat())))
    }

    fn output_limit(&self, lengths: &Lengths) -> Option<u64> {
        lengths.of_openai(&[lengths.max_completion_tokens, lengths.max_tokens])
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
