//! Flags of `tokrate bench` that say what is asked for. Nothing is resolved or checked here beyond its form.

use super::attachments::Attachments;
use super::batch::Batches;
use crate::config::length::{Length, Prefix};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// What is asked for.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Request")]
pub struct Request {
    /// A reference workload: input/output tokens, or the levels of a system load test, or both
    #[arg(long, value_enum, value_name = "NAME,…", value_delimiter = ',')]
    pub workload: Vec<Workload>,
    /// What is asked for: text, calls of tools, JSON by a schema, vectors of texts, their scores for a query, images, answers to a batch of requests, speech, transcripts of sound, or turns of realtime sessions [default: chat]
    #[arg(long, value_enum)]
    pub task: Option<Task>,
    /// Ask for several models in turns, such as LoRA adapters: names with a weight each, or file:FILE with a name and perhaps a weight a
    /// line; figures are kept by model
    #[arg(long, value_name = "NAME[:WEIGHT],…|file:FILE")]
    pub lora: Option<String>,
    /// The k-th model of --lora as often as 1 / k^S says (Zipf's law), in place of weights
    #[arg(long, allow_negative_numbers = true, value_name = "S")]
    pub lora_skew: Option<f64>,
    /// Tools to call with --task tools: a JSON list as OpenAI's chat completions take it [default: three of an agent's]
    #[arg(long, value_name = "FILE")]
    pub tools: Option<PathBuf>,
    /// JSON Schema of the answer with --task json [default: a record with lists]
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,
    /// Texts of a request for vectors or scores, images that it asks for, or requests of a batch; a list is a sweep [default: 1; rerank: 10; batch: 100]
    #[arg(long, allow_negative_numbers = true, value_name = "N,…", value_delimiter = ',')]
    pub batch: Option<Vec<u32>>,
    /// Prompt length in o200k tokens, exact: N, normal:MEAN,SD, lognormal:MEDIAN,SIGMA, uniform:A..B or empirical:FILE [default: 1000; embedded engine, vectors and scores: 200; speech: 40]
    #[arg(long, value_name = "LENGTH")]
    pub input_tokens: Option<Length>,
    /// Output tokens asked for, written as --input-tokens [default: 1000; embedded engine: 100; ShareGPT and other conversations: as their answers]
    #[arg(long, value_name = "LENGTH")]
    pub output_tokens: Option<Length>,
    /// Leading prompt tokens that all requests share, or a share of each prompt such as 50%; the rest is unique per request [default: 0]
    #[arg(long, allow_negative_numbers = true, value_name = "N")]
    pub shared_prefix: Option<Prefix>,
    /// How many different prefixes there are, each shared by the requests that draw it [default: 1]
    #[arg(long, value_name = "K")]
    pub prefix_pool: Option<u32>,
    /// Exponent of Zipf's law by which prefixes are drawn: 0 all equally often, 1 the k-th as often as 1 / k [default: 0]
    #[arg(long, allow_negative_numbers = true, value_name = "S")]
    pub prefix_skew: Option<f64>,
    /// Prompts from a file or a dataset's folder: ShareGPT .json, .jsonl (prompt, text, question, messages, instruction), else one a line
    #[arg(long, value_name = "FILE", conflicts_with_all = ["input_tokens", "shared_prefix"])]
    pub prompts: Option<PathBuf>,
    /// Column of --prompts that holds the prompt or the conversation [default: found by the names in use]
    #[arg(long, value_name = "NAME")]
    pub column: Option<String>,
    /// Column of --prompts with answers, whose lengths are asked for [default: those of a conversation]
    #[arg(long, value_name = "NAME")]
    pub answer_column: Option<String>,
    /// The whole file of --prompts is one prompt
    #[arg(long)]
    pub prompts_whole: bool,
    #[command(flatten)]
    pub attached: Attachments,
    #[command(flatten)]
    pub batches: Batches,
    /// Ask for whole answers instead of streams
    #[arg(long)]
    pub no_stream: bool,
    /// Do not ask for token counts in the stream (some endpoints refuse stream_options)
    #[arg(long)]
    pub no_usage: bool,
    /// Send ignore_eos, so that engines that know it write the full length (vLLM, SGLang, llama.cpp)
    #[arg(long)]
    pub ignore_eos: bool,
    /// Send the output limit as max_tokens (older engines) instead of max_completion_tokens
    #[arg(long)]
    pub max_tokens_field: bool,
    /// Sampling temperature [default: not sent]
    #[arg(long, allow_negative_numbers = true, value_name = "T")]
    pub temperature: Option<f64>,
    /// Further body field, NAME=JSON; repeatable
    #[arg(long = "body", value_name = "NAME=JSON")]
    pub body: Vec<String>,
}

/// What is asked for.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Task {
    /// Text
    Chat,
    /// A call of a tool, held against its schema
    Tools,
    /// JSON, held against its schema
    Json,
    /// A vector of each text
    Embeddings,
    /// A score of each text for a query of 20 tokens
    Rerank,
    /// Images of a prompt
    Images,
    /// Many requests as one batch: uploaded, begun, asked after, read and deleted
    Batch,
    /// The text, said
    Speech,
    /// What is said in sound
    Transcription,
    /// A turn of a session over a WebSocket
    Realtime,
}

impl Task {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Task::Chat => "chat",
            Task::Tools => "tools",
            Task::Json => "json",
            Task::Embeddings => "embeddings",
            Task::Rerank => "rerank",
            Task::Images => "images",
            Task::Batch => "batch",
            Task::Speech => "speech",
            Task::Transcription => "transcription",
            Task::Realtime => "realtime",
        }
    }

    /// Whether it is asked for with messages, that may bring more than text.
    pub fn is_of_chat(self) -> bool {
        matches!(self, Task::Chat | Task::Tools | Task::Json)
    }
}

/// Reference workloads.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workload {
    /// A short question: 100 in, 300 out
    #[value(name = "100/300", alias = "chat")]
    Chat,
    /// As much in as out: 1,000 each
    #[value(name = "1k/1k", alias = "balanced")]
    Balanced,
    /// A document: 10,000 in, 1,500 out
    #[value(name = "10k/1.5k", alias = "document")]
    Document,
    /// A long context: 100,000 in, 2,000 out
    #[value(name = "100k/2k", alias = "long")]
    Long,
    /// Concurrency 1, 2, 4 … 64, then 64 more at a time while throughput rises
    System,
}

impl Workload {
    /// Input and output tokens, if it sets them.
    pub fn lengths(self) -> Option<(u32, u32)> {
        Some(match self {
            Workload::Chat => (100, 300),
            Workload::Balanced => (1_000, 1_000),
            Workload::Document => (10_000, 1_500),
            Workload::Long => (100_000, 2_000),
            Workload::System => return None,
        })
    }
}
