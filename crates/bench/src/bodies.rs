//! Encodes the request bodies of a phase.
//!
//! Invariant: the same prompt number always gives the same body.

use crate::config::RequestOptions;
use crate::prompts::Prompts;
use bytes::Bytes;
use tokrate_core::{ChatRequest, Message};
use tokrate_wire::{Dialect, encode_request};

/// Makes the bodies of a phase's requests.
#[derive(Debug)]
pub struct Bodies {
    /// Wire dialect.
    pub dialect: Dialect,
    /// Model as the endpoint knows it.
    pub model: String,
    /// What is asked for.
    pub options: RequestOptions,
    /// Where prompts come from.
    pub prompts: Prompts,
}

impl Bodies {
    /// Output tokens that the prompt of that number asks for.
    pub fn output_tokens(&self, number: u64) -> u64 {
        u64::from(self.prompts.output_tokens(number).unwrap_or(self.options.output_tokens))
    }

    /// The body of a request: the session's history, then the prompt of that number.
    pub fn encode(&self, number: u64, history: &[Message]) -> Bytes {
        let options = &self.options;
        let prompt = self.prompts.prompt(number);
        let request = ChatRequest {
            model: self.model.clone(),
            messages: history.iter().cloned().chain(prompt.messages).collect(),
            stream: options.stream,
            include_usage: options.stream && options.include_usage,
            max_output_tokens: Some(prompt.output_tokens.unwrap_or(options.output_tokens)),
            legacy_max_tokens: options.legacy_max_tokens,
            ignore_eos: options.ignore_eos,
            temperature: options.temperature,
            extra: options.extra.clone(),
            ..ChatRequest::default()
        };
        Bytes::from(encode_request(self.dialect, &request))
    }
}
