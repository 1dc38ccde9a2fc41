//! Which requests run, which wait, and which are in the next step with how many tokens.
//!
//! Invariant: what is planned fits into the step's tokens, and who is in it holds the blocks it needs; a request that was promised
//! its blocks gets them.

use crate::args::{EngineArgs, Policy};
use crate::blocks::Blocks;
use crate::request::Sequence;
use std::cmp::Reverse;
use std::collections::VecDeque;

/// SGLang's `init_new_token_ratio`, what it falls to, and the steps that takes (0.5's defaults, from memory).
const FIRST_RESERVE_SHARE: f64 = 0.7;
const LEAST_RESERVE_SHARE: f64 = 0.7 * 0.14;
const RESERVE_DECAY_STEPS: f64 = 600.0;

/// What changed while a step was planned.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Requests admitted, with the tokens found in the prefix cache.
    pub admitted: Vec<(u64, u32)>,
    /// Requests that lost their place.
    pub preempted: Vec<u64>,
    /// Prompt tokens of those admitted.
    pub looked_up_tokens: u64,
}

/// Requests and the blocks of the cache.
#[derive(Clone, Debug)]
pub(crate) struct Scheduler {
    pub args: EngineArgs,
    pub blocks: Blocks,
    pub waiting: VecDeque<Sequence>,
    /// In the order of their admission.
    pub running: Vec<Sequence>,
    /// Blocks that running requests were promised and do not hold yet.
    promised: u32,
    /// Share of the tokens still to be generated that SGLang keeps room for.
    reserve_share: f64,
}

/// Which running requests may be in a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    All,
    Prompts,
    Decoding,
}

impl Scheduler {
    pub fn new(args: EngineArgs) -> Scheduler {
        Scheduler {
            blocks: Blocks::new(args.num_blocks),
            waiting: VecDeque::new(),
            running: Vec::new(),
            promised: 0,
            reserve_share: FIRST_RESERVE_SHARE,
            args,
        }
    }

    /// Tokens beyond the next that a step may compute for a request: those that a draft proposes.
    pub fn lookahead(&self) -> u32 {
        self.args.speculation.map_or(0, |speculation| speculation.draft_tokens)
    }

    /// Takes a request out, whether it waits or runs; false if there is none of that id.
    pub fn cancel(&mut self, id: u64) -> bool {
        if let Some(place) = self.waiting.iter().position(|sequence| sequence.id == id) {
            self.waiting.remove(place);
            return true;
        }
        let Some(place) = self.running.iter().position(|sequence| sequence.id == id) else { return false };
        let mut sequence = self.running.remove(place);
        self.release(&mut sequence);
        true
    }

    /// Takes out the requests that have all their tokens.
    pub fn remove_ended(&mut self) {
        // In place: hundreds may run, and some end in most steps of a busy engine.
        let mut running = std::mem::take(&mut self.running);
        running.retain_mut(|sequence| {
            let has_ended = sequence.generated == sequence.output_tokens;
            if has_ended {
                self.release(sequence);
            }
            !has_ended
        });
        self.running = running;
    }

    /// Gives back what a running request holds and was promised.
    fn release(&mut self, sequence: &mut Sequence) {
        self.promised -= self.still_promised(sequence);
        self.blocks.release(&mut sequence.blocks);
    }

    /// Plans the next step: sets `planned` of the requests that are in it, which hold the blocks they need.
    pub fn plan(&mut self) -> Plan {
        let mut plan = Plan::default();
        match self.args.policy {
            Policy::Vllm | Policy::TensorRt => {
                let budget = self.plan_running(Which::All, self.args.max_num_batched_tokens, &mut plan);
                // vLLM admits nothing in a step in which it had to preempt.
                if plan.preempted.is_empty() {
                    self.admit(budget, &mut plan);
                }
            }
            Policy::Sglang => self.plan_prompts_first(&mut plan),
            Policy::StaticBatch | Policy::Serial => {
                if self.running.is_empty() {
                    self.admit(self.args.max_num_batched_tokens, &mut plan);
                } else {
                    self.plan_running(Which::All, self.args.max_num_batched_tokens, &mut plan);
                }
            }
        }
        plan
    }

    fn plan_prompts_first(&mut self, plan: &mut Plan) {
        let budget = self.plan_running(Which::Prompts, self.args.max_num_batched_tokens, plan);
        if self.waiting.iter().any(|sequence| !sequence.hashes.is_empty()) {
            let (blocks, block_size) = (&self.blocks, self.args.block_size);
            let found = |sequence: &Sequence| Reverse(blocks.find(sequence.findable(block_size)).0);
            self.waiting.make_contiguous().sort_by_cached_key(found);
        }
        self.admit(budget, plan);
        if self.running.is_empty() {
            // Nothing to do: it begins anew. How often an idle engine is asked changes nothing.
            self.reserve_share = FIRST_RESERVE_SHARE;
        } else if self.running.iter().all(|sequence| sequence.planned == 0) {
            self.plan_running(Which::Decoding, self.args.max_num_batched_tokens, plan);
            self.decay_reserve(1);
            if !plan.preempted.is_empty() {
                self.reserve_share = FIRST_RESERVE_SHARE;
            }
        }
    }

    /// How many steps, with the one that was planned, compute the same requests: until one ends or the blocks may be too few.
    /// One, unless each running request decodes one token a step and no one who waits can be admitted in between.
    pub fn steps_alike(&self) -> u32 {
        // SGLang keeps less free from step to step, so that one who waits may come in.
        let may_admit = self.args.policy == Policy::Sglang && !self.waiting.is_empty();
        if may_admit || self.args.speculation.is_some() || self.running.iter().any(|sequence| sequence.planned != 1) {
            return 1;
        }
        let to_end = self.running.iter().map(|sequence| sequence.output_tokens - sequence.generated).min();
        let mut steps = to_end.unwrap_or(1).max(1);
        let needed = |steps: u32| -> u64 {
            let new = |sequence: &Sequence| {
                let held = sequence.blocks.len() as u32;
                u64::from((sequence.computed + steps).div_ceil(self.args.block_size).saturating_sub(held))
            };
            self.running.iter().map(new).sum()
        };
        while steps > 1 && needed(steps) > u64::from(self.blocks.free()) {
            steps /= 2;
        }
        steps
    }

    /// Takes the blocks for so many steps of [`Scheduler::steps_alike`].
    pub fn grow_all(&mut self, steps: u32, plan: &mut Plan) {
        for place in 0..self.running.len() {
            let held = self.grow(place, steps, plan);
            debug_assert!(held, "there are blocks for all of them");
        }
        if self.args.policy == Policy::Sglang {
            self.decay_reserve(steps - 1);
        }
    }

    fn decay_reserve(&mut self, steps: u32) {
        let decay = (FIRST_RESERVE_SHARE - LEAST_RESERVE_SHARE) / RESERVE_DECAY_STEPS * f64::from(steps);
        self.reserve_share = (self.reserve_share - decay).max(LEAST_RESERVE_SHARE);
    }

    /// Gives running requests their part of the step, in order; returns the tokens that are left of the budget.
    fn plan_running(&mut self, which: Which, mut budget: u32, plan: &mut Plan) -> u32 {
        let mut place = 0;
        while place < self.running.len() && budget > 0 {
            let sequence = &self.running[place];
            let decodes = sequence.decodes();
            let wanted = match (which, decodes) {
                (Which::Prompts, true) | (Which::Decoding, false) => 0,
                (_, true) => 1 + self.lookahead(),
                (_, false) => self.part(sequence.tokens() - sequence.computed),
            };
            // A decoding request computes its token and all that were proposed, or waits for the next step.
            let is_whole = decodes || !self.args.chunked_prefill;
            let tokens = if is_whole && wanted > budget { 0 } else { wanted.min(budget) };
            if tokens == 0 {
                place += 1;
                continue;
            }
            if self.grow(place, tokens, plan) {
                self.running[place].planned = tokens;
                budget -= tokens;
                place += 1;
            }
            // If not, it was itself preempted, and what was behind it as well.
        }
        budget
    }

    /// How many of the tokens that are left of a prompt a step processes at most.
    fn part(&self, left: u32) -> u32 {
        match self.args.long_prefill_token_threshold {
            most if most > 0 && self.args.chunked_prefill && self.args.policy == Policy::Vllm => left.min(most),
            _ => left,
        }
    }

    /// Takes the blocks that a running request needs for its next tokens; preempts others until there are enough. False if it
    /// had to be preempted itself.
    fn grow(&mut self, place: usize, tokens: u32, plan: &mut Plan) -> bool {
        let computed = self.running[place].computed;
        let needed = (computed + tokens).div_ceil(self.args.block_size) as usize;
        while self.running[place].blocks.len() < needed {
            if let Some(block) = self.blocks.take() {
                let before = self.still_promised(&self.running[place]);
                self.running[place].blocks.push(block);
                self.promised -= before - self.still_promised(&self.running[place]);
                continue;
            }
            let victim = self.victim(place);
            self.preempt(victim, plan);
            if victim == place {
                return false;
            }
            debug_assert!(victim > place, "those before it keep what they were given");
        }
        true
    }

    /// Who loses its place for `place`: the request admitted last. SGLang takes the one with the fewest tokens generated of those
    /// that were not planned yet.
    fn victim(&self, place: usize) -> usize {
        match self.args.policy {
            Policy::Sglang => {
                let later = place..self.running.len();
                later.min_by_key(|&at| (self.running[at].generated, Reverse(at))).unwrap_or(place)
            }
            _ => self.running.len() - 1,
        }
    }

    fn preempt(&mut self, place: usize, plan: &mut Plan) {
        let mut sequence = self.running.remove(place);
        self.release(&mut sequence);
        (sequence.computed, sequence.planned) = (0, 0);
        plan.preempted.push(sequence.id);
        self.waiting.push_front(sequence);
    }

    /// Admits waiting requests in their order, until one does not fit.
    fn admit(&mut self, mut budget: u32, plan: &mut Plan) {
        let most = if self.args.policy == Policy::Serial { 1 } else { self.args.max_num_seqs };
        // A static batch is complete before its prompts are processed, in as many steps as that takes.
        let is_static = self.args.policy == Policy::StaticBatch;
        while (budget > 0 || is_static) && (self.running.len() as u32) < most {
            let Some(sequence) = self.waiting.front() else { return };
            let (found, unheld) = self.blocks.find(sequence.findable(self.args.block_size));
            let cached = found * self.args.block_size;
            let ready = cached.max(sequence.received);
            let missing = self.part(sequence.tokens() - ready);
            let tokens = match missing.min(budget) {
                part if part == missing || self.args.chunked_prefill => part,
                _ if is_static => 0,
                _ => return,
            };
            let now = (ready + tokens).div_ceil(self.args.block_size) - found;
            let room = (self.blocks.free() - unheld).saturating_sub(self.promised);
            if now > room || self.kept_free(sequence, found) > u64::from(room) {
                return;
            }
            let Some(mut sequence) = self.waiting.pop_front() else { return };
            self.blocks.hold(&sequence.hashes, found, &mut sequence.blocks);
            let taken = (0..now).map_while(|_| self.blocks.take());
            sequence.blocks.extend(taken);
            (sequence.computed, sequence.planned, sequence.received) = (ready, tokens, 0);
            plan.admitted.push((sequence.id, cached));
            plan.looked_up_tokens += u64::from(sequence.tokens());
            self.promised += self.still_promised(&sequence);
            budget -= tokens;
            self.running.push(sequence);
        }
    }

    /// Blocks that have to be free for a request to be admitted, besides those it finds in the cache.
    fn kept_free(&self, sequence: &Sequence, found: u32) -> u64 {
        match self.args.policy {
            Policy::Vllm => 0,
            Policy::TensorRt | Policy::StaticBatch | Policy::Serial => u64::from(self.blocks_at_end(sequence) - found),
            Policy::Sglang => {
                let expected = |one: &Sequence| f64::from(one.output_tokens - one.generated) * self.reserve_share;
                let growth: f64 = self.running.iter().map(expected).sum();
                let own = f64::from(sequence.tokens()) + expected(sequence);
                ((growth + own) / f64::from(self.args.block_size)).ceil() as u64 - u64::from(found)
            }
        }
    }

    fn blocks_at_end(&self, sequence: &Sequence) -> u32 {
        (sequence.tokens_at_end() + self.lookahead()).div_ceil(self.args.block_size)
    }

    /// Blocks that a running request was promised and does not hold.
    fn still_promised(&self, sequence: &Sequence) -> u32 {
        match self.args.policy {
            Policy::Vllm | Policy::Sglang => 0,
            Policy::TensorRt | Policy::StaticBatch | Policy::Serial => {
                self.blocks_at_end(sequence).saturating_sub(sequence.blocks.len() as u32)
            }
        }
    }
}
