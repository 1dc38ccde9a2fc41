//! The prompt cache of one lane, and what a prompt can expect there.
//!
//! What a first token waits for is the queue of new tokens before it ([`FirstTokens`]); what is cached takes no time. Of a lane that
//! answers in one piece, where no first token is seen, times are learned against *work*: the new tokens of all prompts that wait.

use super::answers::Answers;
use super::backlog::{Ahead, Backlog};
use super::evictions::Evictions;
use super::first_tokens::{FirstTokens, LEAST_TOKEN_SECONDS, Wait};
use super::hash::PromptBlocks;
use super::survival::Survival;
use super::table::BlockTable;
use crate::lane_model::{Expectation, LaneModel, TokenTime, WholeAnswer};
use std::sync::Arc;
use tokrate_core::{BilledTokens, Span, Tick};

/// Cached tokens are reported in steps, and counts here are estimates: a prompt is taken to be found as far as it
/// was sent before if that is no more than so much above what is reported.
const REPORT_STEP: f64 = 128.0;
const REPORT_TOLERANCE: f64 = 1.05;

/// What is known of one lane.
#[derive(Clone, Debug)]
pub(crate) struct LaneCache {
    table: BlockTable,
    survival: Survival,
    answers: Answers,
    backlog: Backlog,
    firsts: FirstTokens,
    /// Whether a first token was ever seen.
    streams: bool,
    evictions: Evictions,
    /// Times to first token by work in place of prompt length, and times per token.
    model: LaneModel,
}

/// What a prompt can expect on a lane.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct CacheView {
    /// Tokens of it that are expected to be cached.
    pub cached: f64,
    /// What one can expect of it, known or only remembered.
    pub expectation: Option<Expectation>,
    /// Seconds by which the first tokens of others come later for it.
    pub others_seconds: f64,
    /// Since when the lane has shown no first token.
    pub unheard: Span,
}

/// A prompt on its way.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct SentPrompt {
    hashes: Arc<[u64]>,
    block_tokens: f64,
    tokens: f64,
    /// When its blocks were sent before, as far as they were.
    sent_before: Vec<Tick>,
    /// Tokens that were expected to be cached.
    pub cached: f64,
    /// Where the answer ends that it goes on after, if it does (tokens).
    goes_on_at: Option<f64>,
    /// New tokens of all that wait, its own included.
    work: u64,
    /// What its first token waits for.
    wait: Option<Wait>,
    number: u64,
    at: Tick,
}

/// A prompt as a lane holds it.
struct Held {
    cached: f64,
    /// Blocks that were sent before.
    blocks: usize,
    goes_on_at: Option<f64>,
}

impl LaneCache {
    /// Of a lane of which that is known: times to first token by prompt length, as long as nothing is by work.
    pub fn new(known: &LaneModel) -> LaneCache {
        LaneCache {
            table: BlockTable::default(),
            survival: Survival::default(),
            answers: Answers::default(),
            backlog: Backlog::default(),
            firsts: FirstTokens::default(),
            streams: false,
            evictions: Evictions::default(),
            model: known.clone().without_drift(),
        }
    }

    /// What is learned of another router's lane; not the prompts on their way.
    pub fn inherited(&self) -> LaneCache {
        LaneCache { backlog: Backlog::default(), ..self.clone() }
    }

    /// What a prompt can expect now, with this many calls in flight, itself included.
    pub fn view(&self, now: Tick, prompt: &PromptBlocks, in_flight: u32) -> CacheView {
        let cached = self.held(now, prompt).cached;
        let new = prompt.tokens - cached;
        let by_work = self.model.expect(now, (self.backlog.tokens() + new) as u64, in_flight);
        let mut view =
            CacheView { cached, expectation: by_work, others_seconds: 0.0, unheard: self.firsts.unheard(now) };
        if let (Some(expectation), Some(token)) = (&mut view.expectation, self.model.token_time(in_flight)) {
            let ahead = self.ahead(now, &token);
            let mut first = expectation.ttft.as_secs_f64();
            if self.firsts.is_known() {
                let by_queue = self.firsts.expect(now, &self.firsts.wait(&ahead, new));
                *expectation = expectation.with_ttft(by_queue);
                first = by_queue;
            }
            let own = new * self.firsts.token_seconds();
            let others = self.firsts.others(now, &ahead, new, first, (&token, in_flight));
            view.others_seconds = (own + others) * self.evictions.cost() - own;
        }
        if !self.streams {
            // What is expected may know nothing of prompts' lengths: of lanes alike the one that has the prompt is taken.
            view.others_seconds += new * LEAST_TOKEN_SECONDS;
        }
        view
    }

    fn ahead(&self, now: Tick, token: &TokenTime) -> Ahead {
        self.backlog.ahead(now, self.firsts.step_seconds(now, token), self.firsts.token_seconds())
    }

    /// What of a prompt is expected to be cached: never more than was sent before, and the answer behind it.
    fn held(&self, now: Tick, prompt: &PromptBlocks) -> Held {
        let (mut sum, mut blocks, mut last) = (0.0, 0, 0.0);
        for sent_at in prompt.hashes.iter().map_while(|hash| self.table.sent_at(*hash)) {
            last = self.survival.chance(now, sent_at);
            sum += last;
            blocks += 1;
        }
        let goes_on_at = match blocks {
            0 => None,
            all if all == prompt.hashes.len() => None,
            some => self.answers.end_of(prompt.hashes[some - 1]),
        };
        let sent = blocks as f64 * prompt.block_tokens;
        let answer = goes_on_at.map_or(0.0, |end| (end - sent).max(0.0) * last * self.answers.share());
        Held { cached: (sum * prompt.block_tokens + answer).min(prompt.tokens), blocks, goes_on_at }
    }

    /// A prompt is sent, with this many calls in flight, itself included.
    pub fn send(&mut self, now: Tick, prompt: &PromptBlocks, in_flight: u32) -> SentPrompt {
        let held = self.held(now, prompt);
        let new = prompt.tokens - held.cached;
        let token = self.model.token_time(in_flight);
        let wait = token.map(|token| self.firsts.wait(&self.ahead(now, &token), new));
        self.firsts.sent(now, new);
        let work = (self.backlog.tokens() + new) as u64;
        let before: Vec<Option<Tick>> = prompt.hashes.iter().map(|hash| self.table.note(*hash, now)).collect();
        SentPrompt {
            block_tokens: prompt.block_tokens,
            tokens: prompt.tokens,
            sent_before: before.into_iter().take(held.blocks).map_while(|at| at).collect(),
            cached: held.cached,
            goes_on_at: held.goes_on_at,
            work,
            wait,
            number: self.backlog.push(now, new),
            at: now,
            hashes: Arc::clone(&prompt.hashes),
        }
    }

    /// Its first token came.
    pub fn first_token(&mut self, now: Tick, sent: &SentPrompt, in_flight: f64, ttft: Span) {
        self.streams = true;
        self.backlog.first_token(now, sent.number);
        if let Some(wait) = &sent.wait {
            self.firsts.observe(now, wait, ttft.as_secs_f64());
        }
        self.model.observe_ttft(now, sent.work, in_flight, ttft);
    }

    /// It ended. `began` says whether it had a first token; `waited`, of one that was given up before that, for how long.
    pub fn finish(&mut self, now: Tick, sent: &SentPrompt, end: &PromptEnd) {
        self.backlog.remove(sent.number);
        if end.began {
            sent.hashes.iter().for_each(|hash| self.table.used(*hash, now));
        }
        if let Some(billed) = &end.billed {
            self.learn(sent, billed);
        } else if !end.began {
            // It was refused or given up: it may never have been processed.
            let before = sent.sent_before.iter().copied().map(Some).chain(std::iter::repeat(None));
            for (hash, before) in sent.hashes.iter().zip(before) {
                self.table.take_back(*hash, sent.at, before);
            }
        }
        if let Some((load, speed, tokens)) = end.speed {
            self.model.observe_speed(now, load, speed, tokens);
        }
        if let Some((answer, output_tokens)) = end.whole {
            self.model.observe_whole(now, &WholeAnswer { prompt_tokens: sent.work, ..answer }, output_tokens);
        }
        if let Some((in_flight, waited)) = end.given_up {
            self.model.observe_cancelled(now, sent.work, in_flight, waited);
        }
    }

    /// Holds what was expected against what the provider says was cached.
    fn learn(&mut self, sent: &SentPrompt, billed: &BilledTokens) {
        if sent.tokens <= 0.0 || billed.input == 0 {
            return;
        }
        // In tokens as they are estimated here.
        let reported = billed.cached_input.min(billed.input) as f64 * sent.tokens / billed.input as f64;
        let known = sent.sent_before.len() as f64 * sent.block_tokens;
        let is_whole = reported > 0.0 && reported * REPORT_TOLERANCE + REPORT_STEP >= known;
        let found = if is_whole { sent.sent_before.len() } else { (reported / sent.block_tokens) as usize };
        let lost = if is_whole { 0.0 } else { (known - reported).max(0.0) };
        self.evictions.observe(lost, (sent.tokens - reported).max(0.0));
        self.survival.observe(sent.at, &sent.sent_before, found);
        if let Some(end) = sent.goes_on_at.filter(|end| is_whole && *end > known) {
            self.answers.observe((reported - known) / (end - known));
        }
        if let Some(last) = sent.hashes.last() {
            self.answers.note(*last, sent.tokens, billed);
        }
    }
}

/// How an attempt ended, as far as its prompt is concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PromptEnd {
    /// What the provider reported.
    pub billed: Option<BilledTokens>,
    /// Whether it had a first token.
    pub began: bool,
    /// Mean load, output speed and tokens.
    pub speed: Option<(f64, f64, u64)>,
    /// An answer in one piece, and its length.
    pub whole: Option<(WholeAnswer, u64)>,
    /// Load at its start and how long it waited for a first token in vain.
    pub given_up: Option<(f64, Span)>,
}
