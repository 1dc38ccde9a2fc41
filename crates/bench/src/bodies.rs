//! Encodes the request bodies of a phase.
//!
//! Invariant: the same prompt number always gives the same body.

use crate::audio::AudioInput;
use crate::config::RequestOptions;
use crate::prompts::Prompts;
use bytes::Bytes;
use tokrate_core::{ChatRequest, Message, Rng};
use tokrate_probe::synthetic::append_words;
use tokrate_sim::WORDS;
use tokrate_wire::{Dialect, ItemForm, ItemRequest, encode_request};

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
    /// Draws how long answers are to be, where their lengths are drawn.
    pub lengths: Rng,
    /// What is asked for instead of text, and for how many texts.
    pub items: Option<(ItemForm, u32)>,
}

/// Tokens of the query that texts are ranked by: a question of a sentence or two.
pub(crate) const QUERY_TOKENS: u32 = 20;
/// Numbers of the prompts of a request's texts are so far apart that no other request has them, whatever its number.
const TEXT_STRIDE: u64 = 1 << 40;

impl Bodies {
    /// Output tokens that the prompt of that number asks for.
    pub fn output_tokens(&self, number: u64) -> u64 {
        if self.items.is_some() || self.options.audio.is_some() {
            return 0;
        }
        let own = self.prompts.output_tokens(number);
        u64::from(own.unwrap_or_else(|| self.options.output_tokens.draw(&mut self.lengths.nth(number))))
    }

    /// The same where it differs from request to request.
    pub fn own_output_tokens(&self, number: u64) -> Option<u64> {
        let is_own = self.prompts.output_tokens(number).is_some() || !self.options.output_tokens.is_fixed();
        (is_own && self.items.is_none() && self.options.audio.is_none()).then(|| self.output_tokens(number))
    }

    /// Input tokens of the request of that number, without the history of its session.
    pub fn input_tokens(&self, number: u64) -> u64 {
        if self.options.audio.as_ref().is_some_and(|audio| audio.input().is_some()) {
            return 0;
        }
        let Some((form, batch)) = self.items else { return self.prompts.input_tokens(number) };
        let query = if is_ranked(form) { u64::from(QUERY_TOKENS) } else { 0 };
        (0..u64::from(batch)).map(|text| self.prompts.input_tokens(number + text * TEXT_STRIDE)).sum::<u64>() + query
    }

    /// The body of a request: the session's history, then the prompt of that number.
    pub fn encode(&self, number: u64, history: &[Message]) -> Bytes {
        let options = &self.options;
        if let Some((form, batch)) = self.items {
            let texts: Vec<String> = (0..u64::from(batch)).map(|text| self.text(number + text * TEXT_STRIDE)).collect();
            let mut query = String::new();
            if is_ranked(form) {
                append_words(&mut query, WORDS, QUERY_TOKENS, &mut self.lengths.child("query").nth(number));
            }
            let request = ItemRequest { model: &self.model, texts: &texts, query: &query, extra: &options.extra };
            return Bytes::from(form.encode(&request));
        }
        if let Some(audio) = &options.audio {
            let (model, extra) = (self.model.as_str(), options.extra.as_slice());
            return audio.encode(&AudioInput { model, number, text: &|| self.text(number), extra });
        }
        let prompt = self.prompts.prompt(number);
        let mut request = ChatRequest {
            model: self.model.clone(),
            messages: history.iter().cloned().chain(prompt.messages).collect(),
            stream: options.stream,
            include_usage: options.stream && options.include_usage,
            max_output_tokens: Some(self.output_tokens(number) as u32),
            legacy_max_tokens: options.legacy_max_tokens,
            ignore_eos: options.ignore_eos,
            temperature: options.temperature,
            extra: options.extra.clone(),
            ..ChatRequest::default()
        };
        if let Some(structure) = &options.structure {
            structure.put_in(&mut request);
        }
        Bytes::from(encode_request(self.dialect, &request))
    }

    /// The prompt of a number as one text.
    pub(crate) fn text(&self, number: u64) -> String {
        let texts: Vec<String> =
            self.prompts.prompt(number).messages.iter().flat_map(|it| it.texts().map(str::to_owned)).collect();
        texts.join("\n\n")
    }
}

fn is_ranked(form: ItemForm) -> bool {
    matches!(form, ItemForm::Rerank | ItemForm::CohereRerank)
}
