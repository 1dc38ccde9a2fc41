//! Gemini's generateContent and streamGenerateContent, both ways.
//!
//! Invariant: nothing in here returns an error for a broken answer; what does not fit is counted and the rest is kept.

mod decode;
mod encode;
mod export;
mod fields;
mod import;
mod parts;
mod path;
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
use crate::translate::schema::in_json_schema;
use crate::translate::setting::Setting;
use crate::translate::setting_fields::SettingFields;
use crate::translate::table::Table;
use decode::GeminiDecoder;
use encode::GeminiEncoder;
use tokrate_core::ChatRequest;

pub(crate) static DESCRIPTOR: Descriptor = Descriptor {
    name: "gemini",
    endpoint: Endpoint::PerModel { path: path::path, parse: path::parse },
    base_path: "/v1beta",
    key_header: KeyHeader::Named("x-goog-api-key"),
    required_header: None,
    framing: Framing::Sse,
    array_streams: true,
    operation: Operation::GenerateContent,
    embeddings: false,
    id_prefix: "",
    error_message: "/error/message",
    error_event_start: r#"data: {"error""#,
    rate_limit_prefix: None,
    request: RequestFeatures {
        tools: true,
        tool_choice: true,
        tool_error_flag: true,
        plain_call_ids: false,
        strict_tools: StrictTools::Unsupported,
        images: true,
        image_urls: true,
        tool_result_images: true,
        unsigned_reasoning: false,
        roles: Roles::SystemFirst,
        reasoning_effort_and_budget: false,
        seed: true,
        stop: true,
        ignore_eos: false,
        prompt_list: false,
        requires_max_tokens: false,
        legacy_max_tokens: false,
        snake_case_aliases: true,
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
    codec: &GenerateContent,
};

struct GenerateContent;

impl Codec for GenerateContent {
    fn encode_request(&self, request: &ChatRequest) -> Vec<u8> {
        request::encode(request)
    }

    fn decode_request(&self, body: &[u8]) -> Result<ChatRequest, WireError> {
        request::decode(body)
    }

    fn decoder(&self) -> Box<dyn DocumentDecoder> {
        Box::new(GeminiDecoder::default())
    }

    fn encoder(&self, shape: Shape, id: &str, model: &str, _created: u64) -> Box<dyn ResponseEncoder> {
        Box::new(GeminiEncoder::new(shape, id, model))
    }

    fn encode_error(&self, status: u16, message: &str) -> Vec<u8> {
        encode::error(status, message)
    }

    fn push_error_event(&self, shape: Shape, status: u16, message: &str, position: StreamPosition, out: &mut Vec<u8>) {
        let is_array = shape == Shape::Array;
        out.extend_from_slice(match (is_array, position.begun) {
            (false, _) => b"data: ".as_slice(),
            (true, true) => b",\n",
            (true, false) => b"[",
        });
        out.extend_from_slice(&self.encode_error(status, message));
        out.extend_from_slice(if is_array { b"]" } else { b"\n\n" });
    }

    fn output_limit(&self, lengths: &Lengths) -> Option<u64> {
        largest(&[lengths.generation])
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

    /// Google's schemas name types in capitals, nobody else's do.
    fn prepare_export(&self, request: &mut ChatRequest) {
        export::prepare(&mut request.messages);
        for tool in &mut request.tools {
            tool.parameters = tool.parameters.as_deref().map(in_json_schema);
        }
    }

    fn prepare_import(&self, request: &mut ChatRequest) {
        import::prepare(&mut request.messages);
    }
}
