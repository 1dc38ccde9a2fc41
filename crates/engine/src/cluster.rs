//! Several engines behind one address: data-parallel ranks, and ranks for prompts apart from ranks for decoding.
//!
//! A request goes to the rank with the fewest requests. Invariant: emissions come out in the order of their times, and of equal
//! ones in the order of the ranks.

use crate::args::ArgsError;
use crate::engine::{Engine, EngineStats};
use crate::request::{Request, TooLarge};
use crate::step::{Emission, StepReport, StepTime};
use std::collections::BTreeMap;
use tokrate_core::{Span, Tick};

/// How long the cache of a prompt takes from the rank that processed it to the one that decodes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Transfer {
    /// Time of any transfer.
    pub latency: Span,
    /// Time of each token's keys and values.
    pub a_token: Span,
}

/// Engines that serve requests together.
#[derive(Clone, Debug)]
pub struct Cluster<T> {
    ranks: Vec<Rank<T>>,
    /// Ranks that process prompts only; the first ones.
    prompt_ranks: usize,
    transfer: Option<Transfer>,
    /// Requests whose prompt is being processed by a rank for prompts.
    prefilling: BTreeMap<u64, Request>,
    /// Requests on their way to a decoding rank, by arrival and submission.
    moving: BTreeMap<(Tick, u64), Request>,
    moved: u64,
}

#[derive(Clone, Debug)]
struct Rank<T> {
    engine: Engine<T>,
    /// The step that runs.
    step: Option<StepReport>,
    /// No request of it ends before; the end of time where it has none.
    no_end_before: Tick,
}

impl<T: StepTime> Cluster<T> {
    /// Ranks that process prompts and decode.
    ///
    /// # Errors
    /// No rank at all.
    pub fn new(engines: Vec<Engine<T>>) -> Result<Cluster<T>, ArgsError> {
        Cluster::of(Vec::new(), engines, None)
    }

    /// Ranks that process prompts, ranks that decode, and what lies between them.
    ///
    /// # Errors
    /// No rank of one of the kinds.
    pub fn disaggregated(
        prompts: Vec<Engine<T>>,
        decoding: Vec<Engine<T>>,
        transfer: Transfer,
    ) -> Result<Cluster<T>, ArgsError> {
        if prompts.is_empty() {
            return Err(ArgsError::new("build a cluster without a rank for prompts: give at least one"));
        }
        Cluster::of(prompts, decoding, Some(transfer))
    }

    fn of(
        prompts: Vec<Engine<T>>,
        others: Vec<Engine<T>>,
        transfer: Option<Transfer>,
    ) -> Result<Cluster<T>, ArgsError> {
        if others.is_empty() {
            return Err(ArgsError::new("build a cluster without a rank that decodes: give at least one"));
        }
        let prompt_ranks = prompts.len();
        let ranks = prompts
            .into_iter()
            .chain(others)
            .map(|engine| Rank { engine, step: None, no_end_before: Tick::MAX })
            .collect();
        Ok(Cluster { ranks, prompt_ranks, transfer, prefilling: BTreeMap::new(), moving: BTreeMap::new(), moved: 0 })
    }

    /// Accepts a request. Its first step begins at the next [`Cluster::poll`].
    ///
    /// # Errors
    /// A request that can never run.
    pub fn submit(&mut self, request: &Request) -> Result<(), TooLarge> {
        if self.prompt_ranks == 0 {
            return least_busy(&mut self.ranks).submit(request);
        }
        // It has to fit where it decodes, too, before work is spent on it.
        self.least_busy(self.prompt_ranks).engine.check(request)?;
        let prompt = Request { output_tokens: 1, ..request.clone() };
        self.emptiest_for_prompts().submit(&prompt)?;
        self.prefilling.insert(request.id, request.clone());
        Ok(())
    }

    /// Takes a request out; false if there is none of that id.
    pub fn cancel(&mut self, id: u64) -> bool {
        let was_prefilling = self.prefilling.remove(&id).is_some();
        let before = self.moving.len();
        self.moving.retain(|_, request| request.id != id);
        let was_moving = self.moving.len() < before;
        self.ranks.iter_mut().any(|rank| rank.engine.cancel(id)) || was_prefilling || was_moving
    }

    /// Ends steps and transfers that are over by `now`, begins steps on ranks that are free, and appends what came out with its
    /// time.
    pub fn poll(&mut self, now: Tick, out: &mut Vec<(Tick, Emission)>) {
        // What ends frees ranks and moves requests, which begins steps that may end by `now` as well.
        self.poll_to(now, Tick::ZERO, out);
    }

    /// The same, where nothing is submitted or cancelled before `until` but in answer to the last token of a request, as soon as
    /// that comes out: steps that are alike may be taken together, and their tokens come out at the end of the last. First and
    /// last tokens come when they would come step by step.
    pub fn poll_to(&mut self, now: Tick, until: Tick, out: &mut Vec<(Tick, Emission)>) {
        let first = out.len();
        // Where ranks pass requests on, each step may bring one.
        let until = if self.prompt_ranks == 0 { until } else { Tick::ZERO };
        let within = |out: &[(Tick, Emission)]| {
            let is_answered = out[first..].iter().any(|(_, emission)| emission.last);
            if is_answered { Tick::ZERO } else { until }
        };
        while let Some(at) = self.wake_at().filter(|at| *at <= now) {
            self.end_steps(at, out);
            self.arrive(at);
            self.begin_steps(at, within(out));
        }
        self.begin_steps(now, within(out));
        debug_assert!(out[first..].windows(2).all(|pair| pair[0].0 <= pair[1].0), "emissions in order of time");
    }

    /// When the next step or transfer is over; `None` if nothing runs.
    pub fn wake_at(&self) -> Option<Tick> {
        let steps = self.ranks.iter().filter_map(|rank| Some(rank.step.as_ref()?.ended_at));
        steps.chain(self.moving.keys().map(|(at, _)| *at).take(1)).min()
    }

    /// State and counts of each rank, those for prompts first.
    pub fn stats(&self) -> impl Iterator<Item = EngineStats> {
        self.ranks.iter().map(|rank| rank.engine.stats())
    }

    /// Requests that run at once at most, ranks for prompts left out.
    pub fn places(&self) -> u32 {
        self.ranks[self.prompt_ranks..].iter().map(|rank| rank.engine.args().max_num_seqs).sum()
    }

    /// The steps that run now, one a busy rank.
    pub fn steps(&self) -> impl Iterator<Item = &StepReport> {
        self.ranks.iter().filter_map(|rank| rank.step.as_ref())
    }

    fn begin_steps(&mut self, now: Tick, until: Tick) {
        for place in 0..self.ranks.len() {
            if self.ranks[place].step.is_some() {
                continue;
            }
            // A request that ends on another rank may be answered by one that comes to this.
            let others = self.ranks.iter().enumerate().filter(|(other, _)| *other != place);
            let until = others.map(|(_, rank)| rank.no_end_before).fold(until, Tick::min);
            let is_alone = self.ranks.len() == 1;
            self.ranks[place].begin_step(now, until, is_alone);
        }
    }

    fn end_steps(&mut self, now: Tick, out: &mut Vec<(Tick, Emission)>) {
        for rank in &mut self.ranks {
            let Some(step) = rank.step.take_if(|step| step.ended_at <= now) else { continue };
            for mut emission in step.emissions {
                let request = self.prefilling.remove(&emission.id);
                if let Some((request, transfer)) = request.zip(self.transfer)
                    && request.output_tokens > 1
                {
                    emission.last = false;
                    let taken = transfer.a_token.as_nanos().saturating_mul(u64::from(request.prompt_tokens));
                    let arrival = step.ended_at + transfer.latency + Span::from_nanos(taken);
                    self.moving.insert((arrival, self.moved), request);
                    self.moved += 1;
                }
                out.push((step.ended_at, emission));
            }
        }
    }

    fn arrive(&mut self, now: Tick) {
        while let Some(entry) = self.moving.first_entry().filter(|entry| entry.key().0 <= now) {
            let request = entry.remove();
            let accepted = self.least_busy(self.prompt_ranks).engine.submit_prefilled(&request);
            debug_assert!(accepted.is_ok(), "it was checked when it came");
        }
    }

    fn emptiest_for_prompts(&mut self) -> &mut Rank<T> {
        let prompt_ranks = self.prompt_ranks;
        least_busy(&mut self.ranks[..prompt_ranks])
    }

    fn least_busy(&mut self, from: usize) -> &mut Rank<T> {
        least_busy(&mut self.ranks[from..])
    }
}

impl<T: StepTime> Rank<T> {
    fn begin_step(&mut self, now: Tick, until: Tick, is_alone: bool) {
        self.step = self.engine.steps_to(now, until);
        // Only other ranks ask when one of its requests may end, and all that run and wait are looked at for it.
        let Some(step) = self.step.as_ref().filter(|_| !is_alone) else {
            self.no_end_before = Tick::MAX;
            return;
        };
        let steps = match step.emissions.iter().any(|emission| emission.last) {
            true => 0,
            // The last of those that are left ends it.
            false => self.engine.steps_to_an_end().unwrap_or(0),
        };
        self.no_end_before =
            step.ended_at + Span::from_nanos(self.engine.shortest_step().as_nanos().saturating_mul(u64::from(steps)));
    }

    /// Accepts a request, which may end in any step from the next one on.
    fn submit(&mut self, request: &Request) -> Result<(), TooLarge> {
        let begins = self.step.as_ref().map_or(Tick::ZERO, |step| step.ended_at);
        self.no_end_before = self.no_end_before.min(begins);
        self.engine.submit(request)
    }
}

fn least_busy<T: StepTime>(ranks: &mut [Rank<T>]) -> &mut Rank<T> {
    let requests = |rank: &&mut Rank<T>| {
        let stats = rank.engine.stats();
        stats.running + stats.waiting
    };
    ranks.iter_mut().min_by_key(requests).expect("a cluster has ranks of each kind it uses")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::EngineArgs;
    use crate::step::Work;

    /// Each step takes 10 ms, and 1 ms for each prompt token.
    fn time(work: &Work) -> Span {
        Span::from_millis(10 + work.prompt_tokens())
    }

    type Timed = fn(&Work) -> Span;

    fn engine() -> Engine<Timed> {
        Engine::new(EngineArgs { num_blocks: 64, ..EngineArgs::default() }, time as Timed)
            .expect("settings that can run")
    }

    /// Ends of all emissions in milliseconds, with the request and whether it was the last.
    fn run(cluster: &mut Cluster<Timed>) -> Vec<(u64, u64, bool)> {
        let mut out = Vec::new();
        cluster.poll(Tick::ZERO, &mut out);
        while let Some(at) = cluster.wake_at() {
            cluster.poll(at, &mut out);
        }
        out.iter()
            .map(|(at, emission)| (at.since(Tick::ZERO).as_nanos() / 1_000_000, emission.id, emission.last))
            .collect()
    }

    #[test]
    fn ranks_share_the_requests() {
        let mut cluster = Cluster::new(vec![engine(), engine()]).expect("two ranks");
        for id in 0..3 {
            cluster.submit(&Request::unique(id, 10, 1)).expect("fits");
        }
        // 0 and 2 on the first rank in one step of 20 prompt tokens, 1 on the second.
        assert_eq!(run(&mut cluster), [(20, 1, true), (30, 0, true), (30, 2, true)]);
        assert!(Cluster::<Timed>::new(Vec::new()).is_err());
    }

    #[test]
    fn a_prompt_is_processed_on_one_rank_and_decoded_on_another() {
        let transfer = Transfer { latency: Span::from_millis(2), a_token: Span::from_micros(100) };
        let mut cluster = Cluster::disaggregated(vec![engine()], vec![engine()], transfer).expect("a rank of each");
        cluster.submit(&Request::unique(7, 30, 3)).expect("fits");
        cluster.submit(&Request::unique(8, 30, 1)).expect("fits");
        // The prompts in one step of 60 tokens; 2 + 3 ms on the way; then two tokens. The other has its one token already.
        assert_eq!(run(&mut cluster), [(70, 7, false), (70, 8, true), (85, 7, false), (95, 7, true)]);
        assert!(cluster.stats().all(|stats| (stats.running, stats.waiting, stats.blocks_held) == (0, 0, 0)));
        assert!(Cluster::disaggregated(Vec::new(), vec![engine()], transfer).is_err());
    }

    #[test]
    fn a_request_is_cancelled_wherever_it_is() {
        let transfer = Transfer { latency: Span::from_millis(50), a_token: Span::ZERO };
        for at in [0, 15, 30, 95] {
            let mut cluster = Cluster::disaggregated(vec![engine()], vec![engine()], transfer).expect("a rank of each");
            cluster.submit(&Request::unique(1, 10, 9)).expect("fits");
            let mut out = Vec::new();
            cluster.poll(Tick::ZERO + Span::from_millis(at), &mut out);
            assert!(cluster.cancel(1) && !cluster.cancel(1), "at {at} ms");
            let emitted = out.len();
            while let Some(at) = cluster.wake_at() {
                cluster.poll(at, &mut out);
            }
            assert!(out[emitted..].len() <= 1, "at most the step that runs: {out:?}");
            assert!(cluster.stats().all(|stats| stats.blocks_held == 0));
        }
    }
}
