//! An engine whose tokens come from a scheduler: steps of batches instead of a law for each stream.
//!
//! Invariant: each token that the scheduler gives a live stream is emitted once, at the end of its step.

use super::{Engine, Phase, RequestId, Stats};
use crate::emission::{Emitted, Refusal, SimRequest};
use crate::script::Script;
use tokrate_core::{Span, Tick};
use tokrate_engine::{Cluster, Emission, Request, SharedTime};

/// What the front end of an engine takes for the output of one request and step, to turn it into text and write it: about what vLLM's
/// takes (from memory; it is one process that handles the outputs of a step one after another).
const FRONT_END: Span = Span::from_micros(10);
/// Outputs wait for those before them at most so long: engines with more traffic than one front end carries have several.
const MOST_BEHIND: Span = Span::from_millis(12);

impl Engine {
    /// When the front end of a scheduler writes what a step gave at `at`: the outputs of a step leave one after another, not at one moment.
    pub(super) fn written_at(&mut self, index: usize, at: Tick) -> Tick {
        let Some(stream) = self.streams[index].as_ref().filter(|_| self.cluster.is_some()) else { return at };
        let (free_at, last) = self.front_end;
        let free_at = if last == stream.id { free_at } else { free_at + FRONT_END };
        let due = at.max(free_at.min(at + MOST_BEHIND));
        self.front_end = (due, stream.id);
        due
    }

    /// Gives a request to the scheduler, if there is one.
    pub(super) fn submit_to_cluster(
        &mut self,
        id: RequestId,
        script: &Script,
        asked: &SimRequest,
    ) -> Result<(), Refusal> {
        let Some(cluster) = &mut self.cluster else { return Ok(()) };
        // What is empty by a fault takes a step as well.
        let request = Request {
            shared: asked.parts.to_vec(),
            ..Request::unique(id.0, script.input_tokens.max(1), script.tokens.max(1))
        };
        cluster.submit(&request).map_err(|_| Refusal {
            request: id,
            status: 400,
            retry_after: None,
            message: "prompt and answer are longer than the engine's context or its cache",
        })
    }

    /// Ends the steps that are over, one after another, so that the beginning of each is seen.
    pub(super) fn advance_cluster(&mut self) {
        while let Some(at) = self.cluster.as_ref().and_then(Cluster::wake_at).filter(|at| *at <= self.now) {
            self.poll_cluster(at);
        }
    }

    /// Ends what is over at `at` and begins the next steps.
    pub(super) fn poll_cluster(&mut self, at: Tick) {
        let Some(cluster) = &mut self.cluster else { return };
        let mut emitted = Vec::new();
        cluster.poll(at, &mut emitted);
        let steps = cluster.steps().filter(|step| step.started_at == at);
        let admitted: Vec<(u64, u32)> = steps.flat_map(|step| step.admitted.iter().copied()).collect();
        for (due, emission) in emitted {
            self.take_tokens(due, emission);
        }
        for (id, cached) in admitted {
            self.begin(RequestId(id), at, cached);
        }
    }

    /// The scheduler has admitted a request, of whose prompt it found so many tokens in its cache; after a preemption it does so again.
    fn begin(&mut self, id: RequestId, at: Tick, cached: u32) {
        let Some(&index) = self.indices.get(&id) else { return };
        let Some(stream) = self.streams[index].as_mut().filter(|stream| stream.phase == Phase::Queued) else { return };
        stream.phase = Phase::Prefill;
        stream.admitted_at = at;
        stream.cached = Some(cached);
        self.schedule.take(index);
        if self.persona.law.role_first {
            self.emit(index, at, Emitted::Role);
        }
    }

    fn take_tokens(&mut self, at: Tick, emission: Emission) {
        let Some(&index) = self.indices.get(&RequestId(emission.id)) else { return };
        let mut left = emission.tokens;
        while let Some(stream) = &self.streams[index] {
            let before = stream.sent;
            // A fault after the last token has no step of its own: one more is made for it.
            let is_interrupted = emission.last && stream.script.interruption_after(before).is_some();
            if stream.phase == Phase::Stalled || (left == 0 && !is_interrupted) {
                break;
            }
            self.step(index, at, left.max(1));
            let sent = self.streams[index].as_ref().map_or(before, |stream| stream.sent);
            left = if sent > before { left.saturating_sub(sent - before) } else { 0 };
        }
        let is_stalled = self.streams[index].as_ref().is_some_and(|stream| stream.phase == Phase::Stalled);
        if let Some(cluster) = self.cluster.as_mut().filter(|_| is_stalled) {
            // What nobody gets is not computed on.
            cluster.cancel(emission.id);
        }
    }
}

/// The counts of an engine with those of its scheduler.
pub(super) fn stats(cluster: &Cluster<SharedTime>, own: Stats) -> Stats {
    let mut all = Stats { running: 0, queued: 0, ..own };
    for rank in cluster.stats() {
        all.running += rank.running;
        all.queued += rank.waiting;
        all.preemptions += rank.preemptions;
        all.cache_blocks += u64::from(rank.blocks);
        all.cache_blocks_held += u64::from(rank.blocks_held);
        all.looked_up_tokens += rank.looked_up_tokens;
        all.found_tokens += rank.found_tokens;
        all.draft_tokens += rank.draft_tokens;
        all.accepted_tokens += rank.accepted_tokens;
    }
    all
}
