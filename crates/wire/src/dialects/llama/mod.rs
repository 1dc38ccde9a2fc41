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
    ServerTimesField, Shape, StrictTools, Unsupported, UsageInStream,
};
use crate::dialects::openai_chat;
use crate::document_decoder::DocumentDecoder;
use crate::error::WireError;
use crate::peek::Lengths;
use crate::peek::{Limit, largest};
use crate::response::ResponseEncoder;
use crate::translate::setting::Setting;
use crate::translate::setting_fields::SettingFields;
use crate::translate::table::Table;
use decode::LlamaDecoder;
use encode::LlamaEncoder;
use tokrate_core::ChatRequest;

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
    codec: &Completion,
};

struct Completion;

impl Codec for Completion {
    fn encode_request(&self, request: &ChatRequest) -> Vec<u8> {
        request::encode(request)
    }

    fn decode_request(&self, body: &[u8]) -> Result<ChatRequest, WireError> {
        request::decode(body)
    }

    fn decoder(&self) -> Box<dyn DocumentDecoder> {
        Box::new(LlamaDecoder::default())
    }

    fn encoder(&self, _shape: Shape, _id: &str, model: &str, _created: u64) -> Box<dyn ResponseEncoder> {
        Box::new(LlamaEncoder::new(model))
    }

    fn encode_error(&self, status: u16, message: &str) -> Vec<u8> {
        openai_chat::error(status, message)
    }

    fn output_limit(&self, lengths: &Lengths) -> Option<u64> {
        match lengths.n_predict {
            Limit::Unset => largest(&[lengths.max_tokens]),
            limit => largest(&[limit]),
        }
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
