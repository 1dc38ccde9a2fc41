//! Encodes the request bodies of a phase.
//!
//! Invariant: the same prompt number always gives the same body.

use crate::attachments::Draws;
use crate::audio::AudioInput;
use crate::config::{Items, RequestOptions};
use crate::plan::{PhaseSpec, Worst};
use crate::prompts::Prompts;
use crate::{Config, ToolTurns};
use bytes::Bytes;
use tokrate_core::{ChatRequest, Message, Rng, Span, ToolChoice};
use tokrate_meter::Media;
use tokrate_probe::synthetic::append_words;
use tokrate_record::MediaAmounts;
use tokrate_sim::WORDS;
use tokrate_wire::batch_api::BatchForm;
use tokrate_wire::{Dialect, ItemForm, ItemRequest, ItemTask, Shape, encode_request};

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
    /// Draws what queries, images and sound hold; how large they are follows `lengths`.
    pub text: Rng,
    /// What is asked for instead of text, and for how many texts.
    pub items: Option<(ItemForm, u32)>,
}

/// Tokens of the query that texts are ranked by: a question of a sentence or two.
pub(crate) const QUERY_TOKENS: u32 = 20;
/// Numbers of the prompts of a request's texts are so far apart that no other request has them, whatever its number.
const TEXT_STRIDE: u64 = 1 << 40;

/// Size of images where none is asked for, as servers make them.
const UNNAMED_SIZE: (u32, u32) = (1024, 1024);

/// What is asked for instead of text, for so many texts. That the dialect has it was looked at when the run was resolved.
pub(crate) fn items(config: &Config, dialect: Dialect, batch: u32) -> Option<(ItemForm, u32)> {
    let task = config.request.items?.task;
    ItemForm::of(task, dialect).map(|form| (form, batch))
}

impl Bodies {
    /// Those of a level.
    pub(crate) fn of(config: &Config, spec: &PhaseSpec, dialect: Dialect, model: &str) -> Bodies {
        let root = Rng::root(config.seed);
        let text = Rng::root(config.text_seed).child("prompts");
        let prompts = Prompts::new(&config.prompts, WORDS, &root.child("prompts"), text);
        Bodies {
            dialect,
            model: model.to_owned(),
            options: config.request.clone(),
            prompts: match (config.request.items, &config.request.audio) {
                (None, None) | (Some(Items { task: ItemTask::Batch, .. }), _) => prompts,
                (Some(_), _) => prompts.without_instruction(),
                (None, Some(_)) => prompts.in_sentences(),
            },
            items: config
                .request
                .items
                .and_then(|asked| items(config, dialect, spec.load.batch().unwrap_or(asked.batch))),
            lengths: root.child("output lengths"),
            text: Rng::root(config.text_seed).child("content"),
        }
    }

    /// Output tokens that the prompt of that number asks for.
    pub fn output_tokens(&self, number: u64) -> u64 {
        if self.options.audio.is_some() {
            return 0;
        }
        if let Some((form, batch)) = self.items {
            let of_each = if is_batch(form) { u64::from(batch) } else { 0 };
            return (0..of_each).map(|request| self.asked_output(number + request * TEXT_STRIDE)).sum();
        }
        self.asked_output(number)
    }

    /// Output tokens that one prompt asks for.
    fn asked_output(&self, number: u64) -> u64 {
        let own = self.prompts.output_tokens(number);
        u64::from(own.unwrap_or_else(|| self.options.output_tokens.draw(&mut self.lengths.nth(number))))
    }

    /// The same where it differs from request to request.
    pub fn own_output_tokens(&self, number: u64) -> Option<u64> {
        let is_own = self.prompts.output_tokens(number).is_some() || !self.options.output_tokens.is_fixed();
        (is_own && self.items.is_none() && self.options.audio.is_none()).then(|| self.output_tokens(number))
    }

    /// The adapter that the request of that number asks for, if requests ask for several models: all turns of a conversation the same.
    pub fn adapter(&self, number: u64, turn: Option<u32>) -> Option<&str> {
        // Its turns have numbers that follow each other.
        let first = number - u64::from(turn.unwrap_or(0)).min(number);
        self.options.adapters.as_ref().map(|adapters| adapters.of(first, &self.lengths))
    }

    fn model_of(&self, number: u64, turn: Option<u32>) -> &str {
        self.adapter(number, turn).unwrap_or(&self.model)
    }

    /// Input tokens of the request of that number, without the history of its session.
    pub fn input_tokens(&self, number: u64, turn: Option<u32>) -> u64 {
        if self.options.audio.as_ref().is_some_and(|audio| audio.input().is_some()) {
            return 0;
        }
        if let Some(tools) = self.sends_results(turn) {
            return u64::from(tools.result_tokens(number, &self.lengths));
        }
        let Some((form, batch)) = self.items else { return self.prompts.input_tokens(number) };
        let batch = if form == ItemForm::Images { 1 } else { batch };
        // A server reads the query with each document.
        let query = if is_ranked(form) { u64::from(QUERY_TOKENS) } else { 0 };
        (0..u64::from(batch)).map(|text| self.prompts.input_tokens(number + text * TEXT_STRIDE) + query).sum()
    }

    /// Pictures and sound of the request of that number.
    pub fn media(&self, number: u64) -> Option<Media> {
        let attachments = self.options.attachments.as_ref()?;
        Some(attachments.media(&self.draws(), number))
    }

    /// The most that the request of that number may come to, the history of its session left out.
    pub fn worst(&self, number: u64, turn: Option<u32>) -> Worst {
        Worst {
            input_tokens: self.input_tokens(number, turn),
            output_tokens: match &self.options.audio {
                Some(audio) => audio.output_tokens_at_most(number),
                None => self.output_tokens(number),
            },
            media: self.media_at_most(number),
        }
    }

    /// Images and sound that it brings, and those that may come.
    fn media_at_most(&self, number: u64) -> MediaAmounts {
        let sent = self.media(number).unwrap_or_default();
        let amounts = MediaAmounts {
            images_in: sent.pictures,
            pixels_in: sent.pixels,
            sound_in: Span::from_nanos(sent.sound_ns),
            ..MediaAmounts::default()
        };
        match (&self.options.audio, self.items) {
            (Some(audio), _) => audio.amounts(number, &|| self.text(number).chars().count() as u64),
            (None, Some((ItemForm::Images, images))) => {
                let asked = self.options.images.as_ref().and_then(|asked| asked.options(&self.lengths, number).size);
                let (width, height) = asked.unwrap_or(UNNAMED_SIZE);
                let images = u64::from(images);
                MediaAmounts {
                    images_out: images,
                    pixels_out: images * u64::from(width) * u64::from(height),
                    ..amounts
                }
            }
            (None, _) => amounts,
        }
    }

    fn draws(&self) -> Draws {
        Draws { plan: self.lengths.child("attachments"), content: self.text.child("attachments") }
    }

    /// The tools whose results a turn of a session sends; `None` if it sends a prompt.
    fn sends_results(&self, turn: Option<u32>) -> Option<&ToolTurns> {
        self.options
            .tool_turns
            .as_deref()
            .zip(turn)
            .filter(|(tools, turn)| tools.sends_results(*turn))
            .map(|(tools, _)| tools)
    }

    /// What a request adds to the history of its session.
    pub(crate) fn own_messages(&self, number: u64, turn: Option<u32>, history: &[Message]) -> Vec<Message> {
        match self.sends_results(turn) {
            Some(tools) => tools.results(number, history, &self.lengths),
            None => self.prompts.prompt(number).messages,
        }
    }

    /// The body of a request: the session's history, then what the turn adds to it.
    pub fn encode(&self, number: u64, turn: Option<u32>, history: &[Message]) -> Bytes {
        let options = &self.options;
        if let Some((ItemForm::Batch(form), batch)) = self.items {
            return self.batch(form, number, u64::from(batch));
        }
        if let Some((form, batch)) = self.items {
            let of_images = form == ItemForm::Images;
            let image = options.images.as_ref().map(|asked| asked.options(&self.lengths, number)).unwrap_or_default();
            let texts = if of_images { 1 } else { u64::from(batch) };
            let texts: Vec<String> = (0..texts).map(|text| self.text(number + text * TEXT_STRIDE)).collect();
            let mut query = String::new();
            if is_ranked(form) {
                append_words(&mut query, WORDS, QUERY_TOKENS, &mut self.text.child("query").nth(number));
            }
            let (model, extra) = (self.model_of(number, None), &options.extra);
            let request = ItemRequest { model, texts: &texts, query: &query, extra, images: batch, image };
            return Bytes::from(form.encode(&request));
        }
        if let Some(audio) = &options.audio {
            let (model, extra) = (self.model.as_str(), options.extra.as_slice());
            return audio.encode(&AudioInput { model, number, text: &|| self.text(number), extra });
        }
        Bytes::from(self.chat(number, turn, history))
    }

    /// Many requests as one document.
    fn batch(&self, form: BatchForm, number: u64, requests: u64) -> Bytes {
        let path = self.request_path();
        let entry = |request: u64| {
            let mut entry = Vec::new();
            form.entry(request, &path, &self.chat(number + request * TEXT_STRIDE, None, &[]), &mut entry);
            entry
        };
        Bytes::from(form.document(&(0..requests).map(entry).collect::<Vec<Vec<u8>>>()))
    }

    /// Where a request of a batch would be sent alone.
    pub fn request_path(&self) -> String {
        format!("/v1{}", self.dialect.path(&self.model, Shape::Whole))
    }

    fn chat(&self, number: u64, turn: Option<u32>, history: &[Message]) -> Vec<u8> {
        let options = &self.options;
        let own = self.own_messages(number, turn, history);
        let mut request = ChatRequest {
            model: self.model_of(number, turn).to_owned(),
            messages: history.iter().cloned().chain(own).collect(),
            stream: options.stream,
            include_usage: options.stream && options.include_usage,
            max_output_tokens: Some(self.asked_output(number) as u32),
            legacy_max_tokens: options.legacy_max_tokens,
            ignore_eos: options.ignore_eos,
            temperature: options.temperature,
            extra: options.extra.clone(),
            ..ChatRequest::default()
        };
        if let Some(attachments) = &options.attachments {
            attachments.put_in(self.dialect, &self.draws(), number, &mut request);
        }
        if let Some(structure) = &options.structure {
            structure.put_in(&mut request);
            if options.structure_of(turn).is_none() {
                request.tool_choice = Some(ToolChoice::Never);
            }
        }
        encode_request(self.dialect, &request)
    }

    /// The prompt of a number as one text.
    pub(crate) fn text(&self, number: u64) -> String {
        let texts: Vec<String> =
            self.prompts.prompt(number).messages.iter().flat_map(|it| it.texts().map(str::to_owned)).collect();
        texts.join("\n\n")
    }
}

fn is_batch(form: ItemForm) -> bool {
    matches!(form, ItemForm::Batch(_))
}

fn is_ranked(form: ItemForm) -> bool {
    matches!(form, ItemForm::Rerank | ItemForm::CohereRerank)
}
