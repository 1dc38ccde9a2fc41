//! Random calls for text in every dialect, and what each may be billed at most.
//!
//! Invariant: what a lane is told to bill for one is no more than its bytes as input, and its limit as output.

use crate::billing::Bill;
use proptest::prelude::*;
use tokrate_wire::{Dialect, Shape};

/// A call of a random case.
#[derive(Clone, Debug)]
pub struct RandomCall {
    limit: Option<u64>,
    answers: u64,
    /// Percent of what may be billed at most.
    input: u64,
    output: u64,
    first_fails: bool,
    padding: usize,
}

/// Longest answer of the random lanes.
pub const LONGEST: u64 = 500;

pub fn random_call() -> impl Strategy<Value = RandomCall> {
    let limit = proptest::option::weighted(0.6, 1..700_u64);
    (limit, 1..4_u64, 0..=100_u64, 0..=100_u64, proptest::bool::weighted(0.2), 0..300_usize).prop_map(
        |(limit, answers, input, output, first_fails, padding)| RandomCall {
            limit,
            answers,
            input,
            output,
            first_fails,
            padding,
        },
    )
}

impl RandomCall {
    /// Its body in a dialect, and what it may be billed at most.
    pub fn body(&self, dialect: Dialect, shape: Shape) -> String {
        use Dialect::{Anthropic, BedrockConverse, CohereChat, Gemini, LlamaCompletion, OllamaChat, OllamaGenerate};
        use Dialect::{OpenAiChat, OpenAiCompletions, OpenAiResponses};
        let has_answers = matches!(dialect, OpenAiChat | OpenAiCompletions | Gemini);
        let answers = if has_answers { self.answers } else { 1 };
        let most = self.limit.unwrap_or(LONGEST).min(LONGEST) * answers;
        let padding = "x".repeat(self.padding);
        let streams = shape != Shape::Whole;
        // Where no path says it.
        let stream = if streams { ",\"stream\":true" } else { "" };
        let write = |input: u64| {
            let bill = Bill { input, output: most * self.output / 100, first_fails: self.first_fails };
            let text = format!("{} {padding}", bill.text());
            let number = |name: &str| self.limit.map_or(String::new(), |limit| format!(",\"{name}\":{limit}"));
            let messages = format!(r#""messages":[{{"role":"user","content":"{text}"}}]"#);
            let n = |name: &str| format!(",\"{name}\":{answers}");
            match dialect {
                OpenAiChat => {
                    format!(r#"{{"model":"all",{messages}{}{}{stream}}}"#, number("max_completion_tokens"), n("n"))
                }
                OpenAiCompletions => {
                    format!(r#"{{"model":"all","prompt":"{text}"{}{}{stream}}}"#, number("max_tokens"), n("best_of"))
                }
                OpenAiResponses => {
                    format!(r#"{{"model":"all","input":"{text}"{}{stream}}}"#, number("max_output_tokens"))
                }
                Anthropic | CohereChat => format!(r#"{{"model":"all",{messages}{}{stream}}}"#, number("max_tokens")),
                Gemini => format!(
                    r#"{{"contents":[{{"role":"user","parts":[{{"text":"{text}"}}]}}],"generationConfig":{{"candidateCount":{answers}{}}}}}"#,
                    number("maxOutputTokens")
                ),
                OllamaChat => {
                    let limit = self.limit.map_or("-1".to_owned(), |limit| limit.to_string());
                    format!(r#"{{"model":"all","stream":{streams},{messages},"options":{{"num_predict":{limit}}}}}"#)
                }
                OllamaGenerate => {
                    let limit = self.limit.map_or("-2".to_owned(), |limit| limit.to_string());
                    format!(
                        r#"{{"model":"all","stream":{streams},"prompt":"{text}","options":{{"num_predict":{limit}}}}}"#
                    )
                }
                BedrockConverse => {
                    let limit = self.limit.map_or(String::new(), |limit| format!("\"maxTokens\":{limit}"));
                    let messages = format!(r#""messages":[{{"role":"user","content":[{{"text":"{text}"}}]}}]"#);
                    format!(r#"{{{messages},"inferenceConfig":{{{limit}}}}}"#)
                }
                LlamaCompletion => format!(r#"{{"model":"all","prompt":"{text}"{}{stream}}}"#, number("n_predict")),
            }
        };
        // A text has no more tokens than its body has bytes; what is billed is written in the body itself.
        let bytes = write(0).len() as u64;
        write(bytes * self.input / 100)
    }
}
