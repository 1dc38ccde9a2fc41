//! The prompt cache of one lane, and what a prompt can expect there.
//!
//! Time to first token is learned against *work*: the new tokens of the prompt and those of the prompts before it that have no first token
//! yet. Engines process prompts one after another, a token of any of them in about the same time; what is cached takes none.

use super::backlog::Backlog;
use super::hash::PromptBlocks;
use super::survival::Survival;
use super::table::BlockTable;
use crate::lane_model::{Expectation, LaneModel, WholeAnswer};
use std::sync::Arc;
use tokrate_core::{BilledTokens, Span, Tick};

/// What a second that others on the lane are held up weighs beside one of the call's own wait: each new token of a prompt holds up all who
/// are answered there, but what they lose is the end of their answers and not the beginning. Tuned on simulated fleets (docs/routing.md).
const OTHERS_WEIGHT: f64 = 0.3;
/// A new token takes this long even where nothing is known, so that of equal lanes the one that has the prompt is taken: 100,000
/// a second, which few engines do.
const LEAST_TOKEN_SECONDS: f64 = 1e-5;
/// Cached tokens are reported in steps, and counts here are estimates: a block is taken to be found if it ends no later than that behind.
const REPORT_STEP: f64 = 128.0;
const REPORT_TOLERANCE: f64 = 1.05;

/// What is known of one lane.
#[derive(Clone, Debug)]
pub(crate) struct LaneCache {
    table: BlockTable,
    survival: Survival,
    backlog: Backlog,
    /// Times to first token by work in place of prompt length.
    model: LaneModel,
}

/// What a prompt can expect on a lane.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct CacheView {
    /// Tokens of it that are expected to be cached.
    pub cached: f64,
    /// What one can expect of it, known or only remembered.
    pub expectation: Option<Expectation>,
    /// Seconds of others that its new tokens cost, as weighed against its own.
    pub others_seconds: f64,
}

impl CacheView {
    /// On a lane that was never sent a prompt of which the blocks are known.
    pub fn of_nothing(prompt: &PromptBlocks, model: &LaneModel, in_flight: u32) -> CacheView {
        let seconds = model.prompt_seconds().max(LEAST_TOKEN_SECONDS);
        CacheView { cached: 0.0, expectation: None, others_seconds: others_seconds(in_flight, prompt.tokens, seconds) }
    }
}

fn others_seconds(in_flight: u32, new_tokens: f64, seconds_per_token: f64) -> f64 {
    OTHERS_WEIGHT * f64::from(in_flight) * new_tokens * seconds_per_token
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
    /// New tokens up to its first token, its own included.
    work: u64,
    number: u64,
    at: Tick,
}

impl LaneCache {
    /// Of a lane of which that is known: times to first token by prompt length, as long as nothing is by work.
    pub fn new(known: &LaneModel) -> LaneCache {
        LaneCache {
            table: BlockTable::default(),
            survival: Survival::default(),
            backlog: Backlog::default(),
            model: known.clone().without_drift(),
        }
    }

    /// What is learned of another router's lane; not the prompts on their way.
    pub fn inherited(&self) -> LaneCache {
        LaneCache { backlog: Backlog::default(), ..self.clone() }
    }

    /// What a prompt can expect now, with this many calls in flight, itself included.
    pub fn view(&self, now: Tick, prompt: &PromptBlocks, in_flight: u32) -> CacheView {
        let cached = self.cached(now, prompt);
        let new = prompt.tokens - cached;
        let seconds = self.model.prompt_seconds().max(LEAST_TOKEN_SECONDS);
        let work = self.backlog.ahead(now, seconds) + new;
        CacheView {
            cached,
            expectation: self.model.expect(now, work as u64, in_flight),
            others_seconds: others_seconds(in_flight, new, seconds),
        }
    }

    /// Tokens of a prompt that are expected to be cached: never more than were sent before.
    fn cached(&self, now: Tick, prompt: &PromptBlocks) -> f64 {
        let sent = prompt.hashes.iter().map_while(|hash| self.table.sent_at(*hash));
        let blocks: f64 = sent.map(|at| self.survival.chance(now, at)).sum();
        (blocks * prompt.block_tokens).min(prompt.tokens)
    }

    /// A prompt is sent.
    pub fn send(&mut self, now: Tick, prompt: &PromptBlocks) -> SentPrompt {
        let cached = self.cached(now, prompt);
        let new = prompt.tokens - cached;
        let work = self.backlog.ahead(now, self.model.prompt_seconds()) + new;
        let before: Vec<Option<Tick>> = prompt.hashes.iter().map(|hash| self.table.note(*hash, now)).collect();
        SentPrompt {
            block_tokens: prompt.block_tokens,
            tokens: prompt.tokens,
            sent_before: before.into_iter().map_while(|at| at).collect(),
            cached,
            work: work as u64,
            number: self.backlog.push(now, new),
            at: now,
            hashes: Arc::clone(&prompt.hashes),
        }
    }

    /// Its first token came.
    pub fn first_token(&mut self, now: Tick, sent: &SentPrompt, in_flight: f64, ttft: Span) {
        self.backlog.remove(now, sent.number);
        self.model.observe_ttft(now, sent.work, in_flight, ttft);
    }

    /// It ended. `began` says whether it had a first token; `waited`, of one that was given up before that, for how long.
    pub fn finish(&mut self, now: Tick, sent: &SentPrompt, end: &PromptEnd) {
        self.backlog.remove(now, sent.number);
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
        let reach = if reported > 0.0 { reported * REPORT_TOLERANCE + REPORT_STEP } else { 0.0 };
        let found = ((reach / sent.block_tokens) as usize).min(sent.sent_before.len());
        self.survival.observe(sent.at, &sent.sent_before, found);
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
