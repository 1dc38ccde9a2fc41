//! Ollama's `/api/chat` and `/api/generate`, both ways.
//!
//! Invariant: nothing in here returns an error for a broken answer; what does not fit is counted and the rest is kept.

mod assemble;
mod decode;
mod encode;
mod fields;
mod request;
mod settings;

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
use assemble::LineAssembly;
use decode::OllamaDecoder;
use encode::OllamaEncoder;
use tokrate_core::ChatRequest;

pub(crate) static CHAT: Descriptor = Descriptor {
    name: "ollama-chat",
    endpoint: Endpoint::Fixed("/api/chat"),
    base_path: "",
    key_header: KeyHeader::Bearer,
    required_header: None,
    framing: Framing::Lines,
    array_streams: false,
    operation: Operation::Chat,
    embeddings: false,
    id_prefix: "",
    error_message: "/error",
    error_event_start: r#"{"error""#,
    rate_limit_prefix: None,
    request: RequestFeatures {
        tools: true,
        tool_choice: false,
        tool_error_flag: false,
        plain_call_ids: false,
        strict_tools: StrictTools::Unsupported,
        images: true,
        image_urls: false,
        tool_result_images: false,
        unsigned_reasoning: true,
        roles: Roles::Any,
        reasoning_effort_and_budget: false,
        seed: true,
        stop: true,
        ignore_eos: false,
        prompt_list: false,
        requires_max_tokens: false,
        legacy_max_tokens: false,
        snake_case_aliases: false,
        streams_by_default: true,
    },
    response: ResponseFeatures {
        reasoning: true,
        tool_calls: true,
        interleaved_tool_calls: false,
        other_finish_reason: true,
        usage: UsageInStream::Always,
        server_times: ServerTimesField::Own,
    },
    codec: &Ollama(Method::Chat),
};

pub(crate) static GENERATE: Descriptor = Descriptor {
    name: "ollama-generate",
    endpoint: Endpoint::Fixed("/api/generate"),
    base_path: "",
    key_header: KeyHeader::Bearer,
    required_header: None,
    framing: Framing::Lines,
    array_streams: false,
    operation: Operation::TextCompletion,
    embeddings: false,
    id_prefix: "",
    error_message: "/error",
    error_event_start: r#"{"error""#,
    rate_limit_prefix: None,
    request: RequestFeatures {
        tools: false,
        tool_choice: false,
        tool_error_flag: false,
        plain_call_ids: false,
        strict_tools: StrictTools::Unsupported,
        images: true,
        image_urls: false,
        tool_result_images: false,
        unsigned_reasoning: false,
        roles: Roles::OnePrompt { system: true },
        reasoning_effort_and_budget: false,
        seed: true,
        stop: true,
        ignore_eos: false,
        prompt_list: false,
        requires_max_tokens: false,
        legacy_max_tokens: false,
        snake_case_aliases: false,
        streams_by_default: true,
    },
    response: ResponseFeatures {
        reasoning: true,
        tool_calls: true,
        interleaved_tool_calls: false,
        other_finish_reason: true,
        usage: UsageInStream::Always,
        server_times: ServerTimesField::Own,
    },
    codec: &Ollama(Method::Generate),
};

struct Ollama(Method);

/// Which of the two endpoints; they differ in where the text stands and in how a conversation is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Method {
    /// `/api/chat`: messages, the answer in `message.content`.
    Chat,
    /// `/api/generate`: one prompt, the answer in `response`.
    Generate,
}

impl Codec for Ollama {
    fn encode_request(&self, request: &ChatRequest) -> Vec<u8> {
        request::encode(self.0, request)
    }

    fn decode_request(&self, body: &[u8]) -> Result<ChatRequest, WireError> {
        request::decode(self.0, body)
    }

    fn decoder(&self) -> Box<dyn DocumentDecoder> {
        Box::new(OllamaDecoder::default())
    }

    fn encoder(&self, _shape: Shape, _id: &str, model: &str, created: u64) -> Box<dyn ResponseEncoder> {
        Box::new(OllamaEncoder::new(self.0, model, created))
    }

    fn encode_error(&self, _status: u16, message: &str) -> Vec<u8> {
        encode::error(message)
    }

    fn push_error_event(
        &self,
        _shape: Shape,
        status: u16,
        message: &str,
        _position: StreamPosition,
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(&self.encode_error(status, message));
        out.push(b'\n');
    }

    fn assembly(&self) -> Option<(AssembledRequests, Box<dyn Assembly>)> {
        Some((AssembledRequests::OfKnownFields, Box::new(LineAssembly::default())))
    }

    fn output_limit(&self, lengths: &Lengths) -> Option<u64> {
        largest(&[lengths.num_predict])
    }

    fn request_fields(&self) -> &'static Table {
        match self.0 {
            Method::Chat => &fields::CHAT,
            Method::Generate => &fields::GENERATE,
        }
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
