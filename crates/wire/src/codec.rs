//! What a dialect is made of: one descriptor with its facts, and one [`Codec`] with the functions of its formats.
//!
//! Both live in the dialect's folder and are named in `dialects.rs` alone. Invariant: no field of a descriptor has a default,
//! so a new dialect answers every question that anybody asks of a dialect before it compiles.

use crate::document_decoder::DocumentDecoder;
use crate::error::WireError;
use crate::json_text::push_string;
use crate::peek::Lengths;
use crate::response::ResponseEncoder;
use crate::stream_assembly::{AssembledRequests, Assembly};
use crate::translate::setting::Setting;
use crate::translate::setting_fields::SettingFields;
use crate::translate::table::Table;
use tokrate_core::{ChatRequest, Tool};

/// How the answer was asked for. What the server sends instead is recognised by the first byte of its body.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Shape {
    /// Piece by piece, as server-sent events or lines.
    Stream,
    /// In one JSON body.
    Whole,
    /// Piece by piece, as the elements of one JSON array: Gemini's stream without `alt=sse`. As [`Shape::Stream`] elsewhere.
    Array,
}

/// How the events of a streamed body are delimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// Server-sent events.
    Sse,
    /// A JSON object a line (NDJSON).
    Lines,
    /// The elements of one JSON array.
    Array,
    /// AWS's binary event stream.
    EventStream,
}

/// The path of a request, and what it holds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Endpoint {
    /// One path for every request, below the base URL.
    Fixed(&'static str),
    /// The path names the model and the shape.
    PerModel {
        path: fn(model: &str, shape: Shape) -> String,
        /// `None` for a path that is not of this form.
        parse: fn(path: &str, query: &str) -> Option<ModelPath>,
    },
}

/// A path that names a model, taken apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ModelPath {
    /// Length of what stands before the endpoint: the path of a base URL.
    pub(crate) base_bytes: usize,
    pub(crate) model: String,
    /// `None` for a method that asks for no answer, such as counting tokens.
    pub(crate) shape: Option<Shape>,
}

/// The header that carries an API key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyHeader {
    /// `Authorization: Bearer KEY`.
    Bearer,
    /// A header of this name, with nothing but the key.
    Named(&'static str),
}

/// What kind of generation a request asks for, as OpenTelemetry's `gen_ai.operation.name` has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// `chat`.
    Chat,
    /// `text_completion`: one prompt, no conversation.
    TextCompletion,
    /// `generate_content`: Google's.
    GenerateContent,
}

/// When a streamed answer carries token counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UsageInStream {
    /// When the request has `stream_options.include_usage`.
    OnRequest,
    /// Always, near the end.
    Always,
    /// Always: the input's in the opening event and both beside the finish reason. Clients read them without looking
    /// whether they are there.
    OpeningAndEnd,
}

/// Whether answers carry the server's own times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerTimesField {
    /// The dialect has no field for them.
    None,
    /// llama.cpp adds its `timings`.
    OfLlamaCpp,
    /// The dialect has fields for them.
    Own,
}

/// Which roles a conversation may consist of, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Roles {
    /// Any message anywhere.
    Any,
    /// Instructions of the system stand before everything else.
    SystemFirst,
    /// One prompt of the user; with `system`, instructions before it.
    OnePrompt { system: bool },
}

/// Whether a model can be held to the schemas of its tools, and how a tool with such a flag is written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StrictTools {
    Unsupported,
    /// Where the request asks for it.
    OnRequest(fn(tool: &Tool, strict: bool) -> String),
    /// Unless the request sets it.
    ByDefault(fn(tool: &Tool, strict: bool) -> String),
}

/// What a request may carry: where a feature is absent, a translation is refused or spells it otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestFeatures {
    /// Tools, calls of them, and their results.
    pub(crate) tools: bool,
    /// The choice of a tool.
    pub(crate) tool_choice: bool,
    /// A choice of no tool, beside tools.
    pub(crate) forbids_tools: bool,
    /// A field that marks the result of a tool as failed; elsewhere it stands in the text.
    pub(crate) tool_error_flag: bool,
    /// Identifiers of calls consist of letters, digits, `_` and `-` only.
    pub(crate) plain_call_ids: bool,
    pub(crate) strict_tools: StrictTools,
    /// Pictures.
    pub(crate) images: bool,
    /// Pictures by their URL.
    pub(crate) image_urls: bool,
    /// Pictures in the result of a tool.
    pub(crate) tool_result_images: bool,
    /// Earlier reasoning that no provider signed.
    pub(crate) unsigned_reasoning: bool,
    pub(crate) roles: Roles,
    /// Both an effort and a budget of reasoning; elsewhere the effort includes the budget.
    pub(crate) reasoning_effort_and_budget: bool,
    pub(crate) seed: bool,
    pub(crate) stop: bool,
    /// Going on past the end-of-text token.
    pub(crate) ignore_eos: bool,
    /// A list of prompts, each of which gets its own answer.
    pub(crate) prompt_list: bool,
    /// `max_tokens` must be set.
    pub(crate) requires_max_tokens: bool,
    /// Servers differ in the name of the output limit: some know the older `max_tokens` only.
    pub(crate) legacy_max_tokens: bool,
    /// Fields are also read in `snake_case`, as Protocol Buffers' JSON does.
    pub(crate) snake_case_aliases: bool,
    /// Whether a request without `stream` asks for a stream.
    pub(crate) streams_by_default: bool,
}

/// What an answer may carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ResponseFeatures {
    pub(crate) reasoning: bool,
    pub(crate) tool_calls: bool,
    /// A stream may go back to the arguments of an earlier call.
    pub(crate) interleaved_tool_calls: bool,
    /// A finish reason for anything that has none of its own.
    pub(crate) other_finish_reason: bool,
    pub(crate) usage: UsageInStream,
    pub(crate) server_times: ServerTimesField,
}

/// The facts of a dialect.
#[derive(Clone, Copy)]
pub(crate) struct Descriptor {
    /// The name used in flags and records.
    pub(crate) name: &'static str,
    pub(crate) endpoint: Endpoint,
    /// The path of its usual base URL: `/v1` for OpenAI's.
    pub(crate) base_path: &'static str,
    pub(crate) key_header: KeyHeader,
    /// A header that its makers demand with every request, such as an API version.
    pub(crate) required_header: Option<(&'static str, &'static str)>,
    /// How streams are framed.
    pub(crate) framing: Framing,
    /// Whether a stream may also come as the elements of one JSON array.
    pub(crate) array_streams: bool,
    pub(crate) operation: Operation,
    /// Whether servers that speak it usually have OpenAI's `/embeddings` beside it.
    pub(crate) embeddings: bool,
    /// What the identifiers of its answers begin with.
    pub(crate) id_prefix: &'static str,
    /// Where the message stands in the body of an error, as a JSON pointer.
    pub(crate) error_message: &'static str,
    /// What an error event begins with.
    pub(crate) error_event_start: &'static str,
    /// What its makers' headers with rate limits begin with, where they are not OpenAI's `x-ratelimit-`.
    pub(crate) rate_limit_prefix: Option<&'static str>,
    pub(crate) request: RequestFeatures,
    pub(crate) response: ResponseFeatures,
    pub(crate) codec: Codec,
}

/// How far a stream has come when it fails.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamPosition {
    /// Something was sent.
    pub(crate) begun: bool,
    /// Number of the next event, in the dialect that counts them.
    pub(crate) sequence: u64,
}

/// Why a setting cannot be carried over; empty if there is no place for it at all.
pub(crate) type Unsupported = String;

/// No place at all: the caller names the dialect.
pub(crate) const NO_PLACE: Result<(), Unsupported> = Err(String::new());

/// Makes the collector of one stream.
pub(crate) type NewAssembly = fn() -> Box<dyn Assembly>;

/// The formats of a dialect, both ways.
#[derive(Clone, Copy)]
pub(crate) struct Codec {
    /// The body of a request.
    pub(crate) encode_request: fn(&ChatRequest) -> Vec<u8>,
    /// Reads the body of a request.
    pub(crate) decode_request: fn(&[u8]) -> Result<ChatRequest, WireError>,
    /// A decoder at the start of an answer.
    pub(crate) decoder: fn() -> Box<dyn DocumentDecoder>,
    /// An encoder for the answer `id` of `model`, created at `created` seconds since 1970, that is asked for in `shape`.
    pub(crate) encoder: fn(shape: Shape, id: &str, model: &str, created: u64) -> Box<dyn ResponseEncoder>,
    /// The body of an answer with an error status.
    pub(crate) encode_error: fn(status: u16, message: &str) -> Vec<u8>,
    /// Appends the event that ends a failed stream.
    pub(crate) push_error_event:
        fn(shape: Shape, status: u16, message: &str, position: StreamPosition, out: &mut Vec<u8>),
    /// What puts a streamed answer back into one body, and for which requests; `None` where that cannot be done exactly.
    pub(crate) assembly: Option<(AssembledRequests, NewAssembly)>,
    /// The largest number of tokens that one answer may have; `None` without a limit.
    pub(crate) output_limit: fn(&Lengths) -> Option<u64>,
    /// What becomes of each field of a request that is translated into another dialect.
    pub(crate) request_fields: &'static Table,
    /// Writes a setting of a translated request as a field of this dialect, or says why there is none for it.
    pub(crate) write_setting: fn(&Setting, &mut ChatRequest, &mut SettingFields) -> Result<(), Unsupported>,
    /// Makes a request that was read in this dialect fit for any other.
    pub(crate) prepare_export: fn(&mut ChatRequest),
    /// Makes a request that was read in another dialect fit for this one.
    pub(crate) prepare_import: fn(&mut ChatRequest),
}

/// Of a dialect whose requests need no preparation.
pub(crate) fn unchanged(_request: &mut ChatRequest) {}

/// A text as JSON.
pub(crate) fn quoted(text: &str) -> String {
    let mut json = Vec::with_capacity(text.len() + 2);
    push_string(text, &mut json);
    String::from_utf8(json).expect("it was put together from a text")
}
