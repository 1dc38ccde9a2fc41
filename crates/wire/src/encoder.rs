//! Answers as an engine or a gateway writes them.
//!
//! It refuses to know when a piece is written. Invariant: a decoder gives back the pieces that were encoded, as far as the
//! dialect has a place for them.

use crate::anthropic::{self, MessageWriter};
use crate::dialect::{Dialect, Shape};
use crate::gemini::{self, CandidateWriter};
use crate::llama::CompletionWriter;
use crate::ollama::{self, Endpoint, LineWriter};
use crate::openai_chat::{self, ChatWriter};
use crate::openai_completions::TextWriter;
use crate::openai_responses::{self, ResponseWriter};
use tokrate_core::{Channel, FinishReason, ServerTimings, Usage};

/// One event of an answer to be written.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Piece<'a> {
    /// The opening event, which names the role and carries no text.
    Role,
    /// Some text of one channel. Tool text is written as arguments of the latest call, or of a first one without a name.
    Text {
        /// Which of the answer's texts it belongs to.
        channel: Channel,
        /// The text.
        text: &'a str,
    },
    /// A tool call begins.
    ToolCall {
        /// Which call of the answer, from 0.
        index: u32,
        /// Its identifier.
        id: &'a str,
        /// The tool's name.
        name: &'a str,
    },
    /// The model stopped.
    Finish(FinishReason),
    /// Token counts.
    Usage(Usage),
    /// Times that the server took.
    Timings(ServerTimings),
    /// The end mark.
    Done,
    /// The stream breaks off with an error.
    Failed {
        /// What is said about it.
        message: &'a str,
    },
}

/// A whole answer to be written.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Answer<'a> {
    /// What was thought; may be empty.
    pub reasoning: &'a str,
    /// What was answered; may be empty.
    pub answer: &'a str,
    /// The tools that are called.
    pub tools: &'a [ToolCall<'a>],
    /// Why the model stopped.
    pub finish: FinishReason,
    /// Token counts.
    pub usage: Option<Usage>,
    /// Times that the server took.
    pub timings: Option<ServerTimings>,
}

/// A tool call of a whole answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ToolCall<'a> {
    /// Its identifier.
    pub id: &'a str,
    /// The tool's name.
    pub name: &'a str,
    /// The arguments, as JSON text.
    pub arguments: &'a str,
}

/// Writes one answer; what all its events share is prepared once.
#[derive(Clone, Debug)]
pub struct Encoder(Writer);

#[derive(Clone, Debug)]
enum Writer {
    Chat(ChatWriter),
    Text(TextWriter),
    Response(ResponseWriter),
    Message(MessageWriter),
    Candidate(CandidateWriter),
    Line(LineWriter),
    Completion(CompletionWriter),
}

impl Encoder {
    /// An encoder for the answer `id` of `model`, created at `created` seconds since 1970, that is asked for in `shape`.
    pub fn new(dialect: Dialect, shape: Shape, id: &str, model: &str, created: u64) -> Encoder {
        Encoder(match dialect {
            Dialect::OpenAiChat => Writer::Chat(ChatWriter::new(id, model, created)),
            Dialect::OpenAiCompletions => Writer::Text(TextWriter::new(id, model, created)),
            Dialect::OpenAiResponses => Writer::Response(ResponseWriter::new(id, model, created)),
            Dialect::Anthropic => Writer::Message(MessageWriter::new(id, model)),
            Dialect::Gemini => Writer::Candidate(CandidateWriter::new(shape, id, model)),
            Dialect::OllamaChat => Writer::Line(LineWriter::new(Endpoint::Chat, model, created)),
            Dialect::OllamaGenerate => Writer::Line(LineWriter::new(Endpoint::Generate, model, created)),
            Dialect::LlamaCompletion => Writer::Completion(CompletionWriter::new(model)),
        })
    }

    /// Appends the bytes of one piece, framing included.
    pub fn encode_event(&mut self, piece: &Piece<'_>, out: &mut Vec<u8>) {
        match &mut self.0 {
            Writer::Chat(writer) => writer.write(piece, out),
            Writer::Text(writer) => writer.write(piece, out),
            Writer::Response(writer) => writer.write(piece, out),
            Writer::Message(writer) => writer.write(piece, out),
            Writer::Candidate(writer) => writer.write(piece, out),
            Writer::Line(writer) => writer.write(piece, out),
            Writer::Completion(writer) => writer.write(piece, out),
        }
    }

    /// Number of the next event, in the dialect that counts them.
    pub(crate) fn next_sequence(&self) -> u64 {
        match &self.0 {
            Writer::Response(writer) => writer.next_sequence(),
            _ => 0,
        }
    }

    /// The answer as one JSON body.
    pub fn encode_whole(&self, answer: &Answer<'_>) -> Vec<u8> {
        match &self.0 {
            Writer::Chat(writer) => writer.whole(answer),
            Writer::Text(writer) => writer.whole(answer),
            Writer::Response(writer) => writer.whole(answer),
            Writer::Message(writer) => writer.whole(answer),
            Writer::Candidate(writer) => writer.whole(answer),
            Writer::Line(writer) => writer.whole(answer),
            Writer::Completion(writer) => writer.whole(answer),
        }
    }
}

/// The body of an answer with an error status.
pub fn encode_refusal(dialect: Dialect, status: u16, message: &str) -> Vec<u8> {
    match dialect {
        Dialect::OpenAiResponses => openai_responses::refusal(status, message),
        Dialect::Anthropic => anthropic::refusal(status, message),
        Dialect::Gemini => gemini::refusal(status, message),
        Dialect::OllamaChat | Dialect::OllamaGenerate => ollama::refusal(message),
        Dialect::OpenAiChat | Dialect::OpenAiCompletions | Dialect::LlamaCompletion => {
            openai_chat::refusal(status, message)
        }
    }
}

/// Appends a whole number.
pub(crate) fn push_number(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(number.to_string().as_bytes());
}
