//! The engine: requests come in, steps go by, tokens come out.
//!
//! Invariant: a request's tokens come out once each and in order, however often it is preempted; when nothing runs and nothing
//! waits, every block is free.

use crate::args::{ArgsError, EngineArgs};
use crate::request::{Request, Sequence, TooLarge};
use crate::scheduler::Scheduler;
use crate::speculation::accepted;
use crate::step::{Chunk, Emission, StepReport, StepTime, Work};
use tokrate_core::{Rng, Span, Tick};

/// An engine in virtual time.
#[derive(Clone, Debug)]
pub struct Engine<T> {
    scheduler: Scheduler,
    time: T,
    rng: Rng,
    totals: Totals,
}

#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    preemptions: u64,
    found_tokens: u64,
    looked_up_tokens: u64,
    draft_tokens: u64,
    accepted_tokens: u64,
}

/// The state of an engine, and its counts since the start.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EngineStats {
    /// Requests that run.
    pub running: u32,
    /// Requests that wait.
    pub waiting: u32,
    /// Blocks that are held.
    pub blocks_held: u32,
    /// Blocks in all.
    pub blocks: u32,
    /// How often a request was preempted.
    pub preemptions: u64,
    /// Prompt tokens that were found in the prefix cache.
    pub found_tokens: u64,
    /// Prompt tokens of all admitted requests.
    pub looked_up_tokens: u64,
    /// Tokens that drafts proposed.
    pub draft_tokens: u64,
    /// Those of them that were accepted.
    pub accepted_tokens: u64,
}

impl EngineStats {
    /// Share of the cache in use, 0 to 1.
    pub fn cache_use(&self) -> f64 {
        f64::from(self.blocks_held) / f64::from(self.blocks.max(1))
    }
}

impl<T: StepTime> Engine<T> {
    /// An engine without requests.
    ///
    /// # Errors
    /// Settings that no engine can run with.
    pub fn new(args: EngineArgs, time: T) -> Result<Engine<T>, ArgsError> {
        args.check()?;
        Ok(Engine {
            rng: Rng::root(args.seed).child("accepted"),
            scheduler: Scheduler::new(args),
            totals: Totals::default(),
            time,
        })
    }

    /// Its settings.
    pub fn args(&self) -> &EngineArgs {
        &self.scheduler.args
    }

    /// Puts a request at the end of those that wait.
    ///
    /// # Errors
    /// A request that can never run.
    pub fn submit(&mut self, request: &Request) -> Result<(), TooLarge> {
        self.check(request)?;
        self.scheduler.waiting.push_back(Sequence::new(
            request,
            self.scheduler.args.block_size,
            self.scheduler.args.prefix_caching,
        ));
        Ok(())
    }

    /// Puts a request at the end of those that wait whose prompt was processed elsewhere, where its first token came from:
    /// what is left are the other tokens, and room for the cache that comes along.
    ///
    /// # Errors
    /// A request that can never run, or has no other token.
    pub fn submit_prefilled(&mut self, request: &Request) -> Result<(), TooLarge> {
        self.check(request)?;
        if request.output_tokens < 2 {
            return Err(TooLarge::Empty);
        }
        let mut sequence = Sequence::new(request, self.scheduler.args.block_size, self.scheduler.args.prefix_caching);
        (sequence.generated, sequence.received) = (1, request.prompt_tokens);
        self.scheduler.waiting.push_back(sequence);
        Ok(())
    }

    /// Takes a request out, whether it waits or runs; false if there is none of that id.
    pub fn cancel(&mut self, id: u64) -> bool {
        self.scheduler.cancel(id)
    }

    /// Runs the next step, beginning at `now`; `None` if there is nothing to do.
    pub fn step(&mut self, now: Tick) -> Option<StepReport> {
        self.steps_to(now, Tick::ZERO)
    }

    /// Runs the next step, and as part of it those after it that begin by `until`, as long as each only decodes the same
    /// requests and none of them ends before the last. Nothing may be submitted or cancelled before `until`.
    pub fn steps_to(&mut self, now: Tick, until: Tick) -> Option<StepReport> {
        let mut plan = self.scheduler.plan();
        self.totals.preemptions += plan.preempted.len() as u64;
        self.totals.found_tokens += plan.admitted.iter().map(|(_, found)| u64::from(*found)).sum::<u64>();
        self.totals.looked_up_tokens += plan.looked_up_tokens;
        let work = self.work();
        if work.requests() == 0 {
            assert!(
                self.scheduler.running.is_empty() && self.scheduler.waiting.is_empty(),
                "what was accepted gets a step"
            );
            return None;
        }
        let is_alone = plan.admitted.is_empty() && plan.preempted.is_empty() && work.chunks.is_empty();
        let most = if is_alone && until > now { self.scheduler.steps_alike() } else { 1 };
        let steps = self.steps_begun(&work, most, now, until);
        if steps > 1 {
            self.scheduler.grow_all(steps, &mut plan);
        }
        let span = if steps > 1 { self.time.spans(&work, steps) } else { self.time.span(&work) };
        let ended_at = now + span;
        let emissions = self.compute(steps);
        Some(StepReport {
            started_at: now,
            ended_at,
            steps,
            work,
            emissions,
            admitted: plan.admitted,
            preempted: plan.preempted,
        })
    }

    /// How many of at most `most` steps begin by `until`.
    fn steps_begun(&self, work: &Work, most: u32, now: Tick, until: Tick) -> u32 {
        let (mut least, mut most) = (1, most);
        while least < most {
            // The last of so many begins when those before it are over.
            let middle = least + (most - least).div_ceil(2);
            if now + self.time.spans(work, middle - 1) <= until {
                least = middle;
            } else {
                most = middle - 1;
            }
        }
        least
    }

    /// The fewest steps before a request can end; `None` where none runs or waits.
    pub(crate) fn steps_to_an_end(&self) -> Option<u32> {
        let all = self.scheduler.running.iter().chain(&self.scheduler.waiting);
        all.map(|sequence| (sequence.output_tokens - sequence.generated).div_ceil(1 + self.scheduler.lookahead())).min()
    }

    /// The time of the shortest step there is.
    pub(crate) fn shortest_step(&self) -> Span {
        self.time.span(&Work { decoding: 1, tokens_each: 1, ..Work::default() })
    }

    /// Tokens of a request's prompt that the prefix cache holds now.
    pub fn cached_tokens(&self, request: &Request) -> u32 {
        let args = &self.scheduler.args;
        let sequence = Sequence::new(request, args.block_size, args.prefix_caching);
        self.scheduler.blocks.find(sequence.findable(args.block_size)).0 * args.block_size
    }

    /// Tokens of prompts that were accepted and are still to be computed: those that the cache holds now are left out.
    pub fn prompt_tokens_left(&self) -> u64 {
        let size = self.scheduler.args.block_size;
        let waits = |sequence: &Sequence| {
            let cached = self.scheduler.blocks.find(sequence.findable(size)).0 * size;
            sequence.tokens() - cached.max(sequence.received)
        };
        let runs = |sequence: &Sequence| if sequence.decodes() { 0 } else { sequence.tokens() - sequence.computed };
        let waiting = self.scheduler.waiting.iter().map(waits);
        waiting.chain(self.scheduler.running.iter().map(runs)).map(u64::from).sum()
    }

    /// State and counts.
    pub fn stats(&self) -> EngineStats {
        EngineStats {
            running: self.scheduler.running.len() as u32,
            waiting: self.scheduler.waiting.len() as u32,
            blocks_held: self.scheduler.blocks.count() - self.scheduler.blocks.free(),
            blocks: self.scheduler.blocks.count(),
            preemptions: self.totals.preemptions,
            found_tokens: self.totals.found_tokens,
            looked_up_tokens: self.totals.looked_up_tokens,
            draft_tokens: self.totals.draft_tokens,
            accepted_tokens: self.totals.accepted_tokens,
        }
    }

    pub(crate) fn check(&self, request: &Request) -> Result<(), TooLarge> {
        if request.prompt_tokens == 0 || request.output_tokens == 0 {
            return Err(TooLarge::Empty);
        }
        let tokens = u64::from(request.prompt_tokens) + u64::from(request.output_tokens);
        if tokens > u64::from(self.scheduler.args.max_model_len) {
            return Err(TooLarge::Context { tokens, most: self.scheduler.args.max_model_len });
        }
        let blocks =
            (tokens + u64::from(self.scheduler.lookahead())).div_ceil(u64::from(self.scheduler.args.block_size));
        if blocks > u64::from(self.scheduler.args.num_blocks) {
            return Err(TooLarge::Cache { blocks, most: self.scheduler.args.num_blocks });
        }
        if !self.scheduler.args.chunked_prefill && tokens > u64::from(self.scheduler.args.max_num_batched_tokens) {
            return Err(TooLarge::Step { tokens, most: self.scheduler.args.max_num_batched_tokens });
        }
        Ok(())
    }

    fn work(&self) -> Work {
        let mut work = Work { tokens_each: 1 + self.scheduler.lookahead(), ..Work::default() };
        for sequence in self.scheduler.running.iter().filter(|sequence| sequence.planned > 0) {
            if sequence.decodes() && sequence.planned == work.tokens_each {
                work.decoding += 1;
                work.decode_context += u64::from(sequence.computed);
            } else {
                work.chunks.push(Chunk { tokens: sequence.planned, context: sequence.computed });
            }
        }
        debug_assert!(
            work.tokens() <= u64::from(self.scheduler.args.max_num_batched_tokens),
            "a step keeps its limit of tokens"
        );
        work
    }

    /// Carries out what was planned; of several steps every request in them decodes a token in each.
    fn compute(&mut self, steps: u32) -> Vec<Emission> {
        let mut emissions = Vec::new();
        let mut ended = false;
        let tokens_each = 1 + self.scheduler.lookahead();
        let Scheduler { args, running, blocks, .. } = &mut self.scheduler;
        for sequence in running.iter_mut().filter(|sequence| sequence.planned > 0) {
            let has_draft = sequence.decodes() && sequence.planned == tokens_each;
            let wanted = if has_draft { accepted(args.speculation, &mut self.rng) * steps } else { 1 };
            let computed = if has_draft { wanted } else { sequence.planned };
            if let Some(drafts) = args.speculation.filter(|_| has_draft) {
                self.totals.draft_tokens += u64::from(drafts.draft_tokens);
                self.totals.accepted_tokens += u64::from(wanted - 1);
            }
            let known = sequence.tokens();
            let full_before = sequence.computed / args.block_size;
            sequence.computed += computed;
            sequence.planned = 0;
            if sequence.computed >= known {
                let tokens = wanted.min(sequence.output_tokens - sequence.generated);
                let first = sequence.generated == 0;
                sequence.generated += tokens;
                // The newest token is known and not in the cache; rejected proposals leave nothing there.
                sequence.computed = sequence.tokens() - 1;
                let last = sequence.generated == sequence.output_tokens;
                emissions.push(Emission { id: sequence.id, tokens, first, last });
                ended |= last;
            }
            let full = (sequence.computed / args.block_size).min(sequence.hashes.len() as u32);
            for place in full_before..full {
                blocks.label(sequence.blocks[place as usize], sequence.hashes[place as usize]);
            }
        }
        if ended {
            self.scheduler.remove_ended();
        }
        emissions
    }
}

#[cfg(test)]
mod tests;
