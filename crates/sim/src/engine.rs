//! The engine: turns requests into emissions in the order of their due ticks.
//!
//! Every call brings its own tick; a tick in the past counts as the latest one seen. Invariant: each call first processes
//! everything due up to its tick, so the trace does not depend on polling.

use crate::emission::{Emission, Emitted, Outcome, Refusal, RequestId, SimRequest, Timings};
use crate::faults::Faults;
use crate::law::{Law, LawError};
use crate::limits::{Allowance, Buckets};
use crate::persona::{Deviation, Persona};
use crate::schedule::Schedule;
use crate::scheduled::Scheduled;
use crate::script::{Interruption, Refused, Script};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use tokrate_core::{Channel, Rng, Span, Tick, Usage};
use tokrate_engine::{Cluster, SharedTime};

mod batched;
#[cfg(test)]
mod batched_tests;

/// A simulated inference engine.
///
/// ```
/// use tokrate_core::Tick;
/// use tokrate_sim::{Engine, Faults, Law, SimRequest};
///
/// let mut engine = Engine::new(Law::default(), Faults::default(), 0)?;
/// engine.submit(Tick::ZERO, SimRequest { output_tokens: Some(3), ..SimRequest::default() }).expect("no faults");
/// let mut emissions = Vec::new();
/// while let Some(due) = engine.wake_at() {
///     engine.poll(due, &mut emissions);
/// }
/// // The role at once, the first word after 40 ms, two more at 120 tok/s.
/// assert_eq!(emissions[1].due.as_nanos(), 40_000_000);
/// assert_eq!(emissions[2].due.as_nanos(), 48_333_333);
/// # Ok::<(), tokrate_sim::LawError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Engine {
    persona: Persona,
    root: Rng,
    /// Generator of the background load.
    background_rng: Rng,
    buckets: Buckets,
    started_at: Tick,
    now: Tick,
    next_request: u64,
    streams: Vec<Option<Stream>>,
    free_indices: Vec<usize>,
    indices: BTreeMap<RequestId, usize>,
    schedule: Schedule,
    /// What decides when tokens come, if it is not the law.
    cluster: Option<Cluster<SharedTime>>,
    /// Due tick, ticket and index of the next step of each stream that has one. A step whose ticket is not that of its
    /// stream is stale.
    steps: BinaryHeap<Reverse<(Tick, u64, usize)>>,
    next_ticket: u64,
    /// Emissions not yet returned; their due ticks never decrease.
    outbox: VecDeque<Emission>,
    /// When the front end of a scheduler is done with what it was given, and whose output it had last.
    front_end: (Tick, RequestId),
    /// Indices of the streams with steps at the tick being processed; kept for its allocation.
    group: Vec<usize>,
    stats: Stats,
}

/// Counters of an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Requests with a slot: in prefill, decoding or stalled.
    pub running: u32,
    /// Running requests between their first and last chunk that have not stalled.
    pub decoding: u32,
    /// Requests waiting for a slot.
    pub queued: u32,
    /// Requests submitted in total.
    pub submitted: u64,
    /// Requests refused.
    pub refused: u64,
    /// Requests that ended by themselves, broken connections included.
    pub ended: u64,
    /// Requests cancelled.
    pub cancelled: u64,
    /// How often a scheduler took a request's place away.
    pub preemptions: u64,
    /// Blocks of a scheduler's cache.
    pub cache_blocks: u64,
    /// Those in use.
    pub cache_blocks_held: u64,
    /// Prompt tokens that a scheduler looked up in its prefix cache.
    pub looked_up_tokens: u64,
    /// Those that it found.
    pub found_tokens: u64,
    /// Tokens that the drafts of a scheduler proposed.
    pub draft_tokens: u64,
    /// Those of them that were accepted.
    pub accepted_tokens: u64,
}

impl std::iter::Sum for Stats {
    fn sum<I: Iterator<Item = Stats>>(all: I) -> Stats {
        all.fold(Stats::default(), |sum, one| Stats {
            running: sum.running + one.running,
            decoding: sum.decoding + one.decoding,
            queued: sum.queued + one.queued,
            submitted: sum.submitted + one.submitted,
            refused: sum.refused + one.refused,
            ended: sum.ended + one.ended,
            cancelled: sum.cancelled + one.cancelled,
            preemptions: sum.preemptions + one.preemptions,
            cache_blocks: sum.cache_blocks + one.cache_blocks,
            cache_blocks_held: sum.cache_blocks_held + one.cache_blocks_held,
            looked_up_tokens: sum.looked_up_tokens + one.looked_up_tokens,
            found_tokens: sum.found_tokens + one.found_tokens,
            draft_tokens: sum.draft_tokens + one.draft_tokens,
            accepted_tokens: sum.accepted_tokens + one.accepted_tokens,
        })
    }
}

#[derive(Clone, Debug)]
struct Stream {
    id: RequestId,
    script: Script,
    phase: Phase,
    submitted_at: Tick,
    /// When it got a slot.
    admitted_at: Tick,
    /// Prompt tokens that the scheduler found in its prefix cache; `None` without a scheduler.
    cached: Option<u32>,
    /// When its first token was generated.
    first_at: Tick,
    /// Tokens emitted.
    sent: u32,
    malformed_sent: bool,
    /// Ticket of its next step.
    ticket: u64,
    jitter: Rng,
    /// Emissions buffered by the burst fault.
    buffered: Vec<Emitted>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Queued,
    Prefill,
    Decoding,
    Stalled,
}

impl Stream {
    /// Timings, with the last token at `at`.
    fn timings(&self, at: Tick) -> Timings {
        Timings {
            queue: self.admitted_at.since(self.submitted_at),
            prefill: self.first_at.since(self.admitted_at),
            decode: at.since(self.first_at),
            input_tokens: self.script.input_tokens,
            output_tokens: self.sent,
        }
    }
}

impl Engine {
    /// An idle engine.
    ///
    /// # Errors
    /// If a value of the law or of a fault is invalid.
    pub fn new(law: Law, faults: Faults, seed: u64) -> Result<Engine, LawError> {
        Engine::with_persona(Persona { law, faults, ..Persona::default() }, seed, Tick::ZERO)
    }

    /// An idle engine with a persona that starts at `started_at`.
    ///
    /// # Errors
    /// If a value of the persona is invalid.
    pub fn with_persona(persona: Persona, seed: u64, started_at: Tick) -> Result<Engine, LawError> {
        persona.check()?;
        let root = Rng::root(seed);
        Ok(Engine {
            background_rng: root.child("background"),
            buckets: Buckets::new(persona.limits),
            cluster: persona.scheduled.as_ref().map(Scheduled::start),
            persona,
            root,
            started_at,
            now: started_at,
            next_request: 0,
            streams: Vec::new(),
            free_indices: Vec::new(),
            indices: BTreeMap::new(),
            schedule: Schedule::default(),
            steps: BinaryHeap::new(),
            next_ticket: 0,
            outbox: VecDeque::new(),
            front_end: (started_at, RequestId(u64::MAX)),
            group: Vec::new(),
            stats: Stats::default(),
        })
    }

    /// Submits a request at `now`, after everything that is due by then.
    ///
    /// # Errors
    /// The refusal, by a fault, a rate limit or a full queue. Nothing is emitted for a refused request.
    pub fn submit(&mut self, now: Tick, request: SimRequest) -> Result<RequestId, Refusal> {
        self.advance(now);
        let id = RequestId(self.next_request);
        self.next_request += 1;
        self.stats.submitted += 1;
        let script = self.draw_script(id, &request).inspect_err(|_| self.stats.refused += 1)?;
        self.submit_to_cluster(id, &script, &request).inspect_err(|_| self.stats.refused += 1)?;
        let stream = Stream {
            id,
            script,
            phase: Phase::Queued,
            submitted_at: self.now,
            admitted_at: self.now,
            cached: None,
            first_at: self.now,
            sent: 0,
            malformed_sent: false,
            ticket: u64::MAX,
            jitter: self.root.child("jitter").nth(id.0),
            buffered: Vec::new(),
        };
        let index = match self.free_indices.pop() {
            Some(index) => {
                self.streams[index] = Some(stream);
                index
            }
            None => {
                self.streams.push(Some(stream));
                self.streams.len() - 1
            }
        };
        self.indices.insert(id, index);
        self.schedule.enqueue(index);
        self.admit(self.now);
        self.poll_cluster(self.now);
        Ok(id)
    }

    /// Cancels a request at `now`; its slot goes to the next in the queue. Emissions that were due by then are still
    /// returned. Ignored if the request has ended.
    pub fn cancel(&mut self, now: Tick, id: RequestId) {
        self.advance(now);
        let Some(index) = self.indices.get(&id).copied() else { return };
        self.stats.cancelled += 1;
        self.remove(index);
        self.admit(self.now);
        self.poll_cluster(self.now);
    }

    /// Appends everything due by `now`, in due order.
    pub fn poll(&mut self, now: Tick, out: &mut Vec<Emission>) {
        self.advance(now);
        let due = self.outbox.partition_point(|emission| emission.due <= self.now);
        out.extend(self.outbox.drain(..due));
    }

    /// When [`Engine::poll`] has something to return next; `None` if not before another request is submitted.
    pub fn wake_at(&self) -> Option<Tick> {
        let step = self.steps.peek().map(|Reverse((due, ..))| self.flush_at(*due));
        let emission = self.outbox.front().map(|emission| emission.due);
        let scheduled = self.cluster.as_ref().and_then(Cluster::wake_at).map(|due| self.flush_at(due));
        step.into_iter().chain(emission).chain(scheduled).min()
    }

    /// Counters as of the latest call.
    pub fn stats(&self) -> Stats {
        let stats = Stats {
            running: self.schedule.running(),
            decoding: self.schedule.decoding(),
            queued: self.schedule.queued(),
            ..self.stats
        };
        self.cluster.as_ref().map_or(stats, |cluster| batched::stats(cluster, stats))
    }

    /// How many requests run at once at most.
    pub fn places(&self) -> u32 {
        self.cluster.as_ref().map_or(self.persona.law.slots, Cluster::places)
    }

    /// The law of the engine.
    pub fn law(&self) -> &Law {
        &self.persona.law
    }

    /// What its rate limits still allow, as of the latest call.
    pub fn allowance(&self) -> Allowance {
        self.buckets.allowance(self.now)
    }

    /// Whether the answer to a running request names another model.
    pub fn claims_other_model(&self, id: RequestId) -> bool {
        let stream = self.indices.get(&id).and_then(|&index| self.streams[index].as_ref());
        stream.is_some_and(|stream| stream.script.claims_other_model)
    }

    /// Draws the script of a request, or refuses it.
    fn draw_script(&mut self, id: RequestId, request: &SimRequest) -> Result<Script, Refusal> {
        let refusal = |status, retry_after, message| Refusal { request: id, status, retry_after, message };
        let law = &self.persona.law;
        let (output_tokens, _) = request.answer_tokens(law);
        let taken = self.buckets.take(self.now, u64::from(request.input_tokens) + u64::from(output_tokens));
        taken.map_err(|denied| refusal(429, denied.wait, denied.message))?;
        let drawn = self.persona.faults_at(self.now.since(self.started_at));
        let faults = request.faults.as_deref().unwrap_or(&drawn);
        match Script::draw(law, faults, &self.root, id, request) {
            Ok(script) if !self.schedule.is_full(law) => Ok(script),
            Ok(_) => Err(refusal(503, None, "the queue is full")),
            Err(Refused::RateLimited) => Err(refusal(429, Some(faults.retry_after), "too many requests")),
            Err(Refused::ServerError) => Err(refusal(faults.server_error_status, None, "the engine failed")),
        }
    }

    fn deviation(&self, at: Tick) -> Deviation {
        self.persona.at(at.since(self.started_at), &self.background_rng)
    }

    /// Processes every step due by `now`, tick by tick.
    fn advance(&mut self, now: Tick) {
        self.now = self.now.max(now);
        self.advance_cluster();
        let mut group = std::mem::take(&mut self.group);
        while let Some(&Reverse((at, ..))) = self.steps.peek()
            && at <= self.now
        {
            while let Some(&Reverse((due, ticket, index))) = self.steps.peek()
                && due == at
            {
                self.steps.pop();
                if self.streams[index].as_ref().is_some_and(|stream| stream.ticket == ticket) {
                    group.push(index);
                }
            }
            for &index in &group {
                self.step(index, at, self.persona.law.tokens_per_chunk);
            }
            // The number of decoding streams at this tick, which the next gaps depend on, is known only now.
            for index in group.drain(..) {
                self.schedule_gap(index, at);
            }
            self.admit(at);
        }
        self.group = group;
    }

    /// Gives free slots to queued streams.
    fn admit(&mut self, at: Tick) {
        // A scheduler admits by itself.
        while self.persona.scheduled.is_none()
            && let Some(index) = self.schedule.admit(&self.persona.law)
        {
            let factor = self.deviation(at).ttft;
            let law = &self.persona.law;
            let stream = self.streams[index].as_mut().expect("only live streams queue");
            stream.phase = Phase::Prefill;
            stream.admitted_at = at;
            let whole = law.first_chunk_delay(stream.script.input_tokens) + stream.script.media.before;
            let delay = scaled(whole, factor);
            let delay = jittered(delay, law.ttft_jitter, &mut stream.jitter);
            if law.role_first {
                self.emit(index, at, Emitted::Role);
            }
            self.schedule_step(index, at + delay);
        }
    }

    /// Processes the step of a stream at `at`: a chunk of at most so many tokens, a fault, or the end.
    fn step(&mut self, index: usize, at: Tick, most: u32) {
        let stream = self.streams[index].as_mut().expect("a valid step belongs to a live stream");
        if stream.phase == Phase::Prefill {
            stream.phase = Phase::Decoding;
            stream.first_at = at;
            self.schedule.start_decoding();
        }
        self.emit_malformed(index, at);
        let stream = self.streams[index].as_mut().expect("still live");
        if let Some(how) = stream.script.interruption_after(stream.sent) {
            return self.interrupt(index, at, how);
        }
        let tokens = stream.script.next_chunk(stream.sent, most);
        if tokens > 0 {
            let channel = stream.script.channel_after(stream.sent);
            let words = stream.script.words(stream.sent, tokens);
            stream.sent += tokens;
            let usage = self.persona.law.usage_every_chunk && stream.script.report_usage;
            if !(stream.script.hides_reasoning && channel == Channel::Reasoning) {
                self.emit(index, at, Emitted::Text { channel, words });
            }
            if usage {
                self.emit_usage(index, at);
            }
        }
        let stream = self.streams[index].as_ref().expect("still live");
        if stream.sent == stream.script.tokens && stream.script.interruption_after(stream.sent).is_none() {
            self.finish(index, at);
        }
    }

    fn finish(&mut self, index: usize, at: Tick) {
        self.emit_malformed(index, at);
        let stream = self.streams[index].as_ref().expect("still live");
        let (finish, usage, done) = (stream.script.finish, stream.script.report_usage, stream.script.done);
        let timings = stream.script.report_timings.then(|| stream.timings(at));
        self.emit(index, at, Emitted::Finish(finish));
        if let Some(timings) = timings {
            self.emit(index, at, Emitted::Timings(timings));
        }
        if usage
            && !(self.persona.law.usage_every_chunk
                && self.streams[index].as_ref().is_some_and(|stream| stream.sent > 0))
        {
            self.emit_usage(index, at);
        }
        if done {
            self.emit(index, at, Emitted::Done);
        }
        self.end(index, at, Outcome::Complete);
    }

    fn interrupt(&mut self, index: usize, at: Tick, how: Interruption) {
        match how {
            Interruption::Stall => {
                if let Some(stream) = &mut self.streams[index] {
                    stream.phase = Phase::Stalled;
                    self.schedule.stop_decoding();
                }
            }
            Interruption::Disconnect => self.end(index, at, Outcome::Disconnected),
            Interruption::ErrorEvent => {
                self.emit(index, at, Emitted::Failed { message: "the engine failed while it answered" });
                self.emit(index, at, Emitted::Done);
                self.end(index, at, Outcome::Complete);
            }
        }
    }

    fn end(&mut self, index: usize, at: Tick, outcome: Outcome) {
        self.emit(index, at, Emitted::End(outcome));
        self.stats.ended += 1;
        self.remove(index);
    }

    /// Removes a stream and releases what it holds.
    fn remove(&mut self, index: usize) {
        let Some(stream) = self.streams[index].take() else { return };
        if stream.phase == Phase::Decoding {
            self.schedule.stop_decoding();
        }
        match stream.phase {
            Phase::Queued => self.schedule.remove_from_queue(index),
            Phase::Prefill | Phase::Decoding | Phase::Stalled => self.schedule.release(),
        }
        self.indices.remove(&stream.id);
        if let Some(cluster) = &mut self.cluster {
            cluster.cancel(stream.id.0);
        }
        self.free_indices.push(index);
    }

    fn schedule_gap(&mut self, index: usize, at: Tick) {
        let deviation = self.deviation(at);
        let Some(stream) = &mut self.streams[index] else { return };
        if stream.phase != Phase::Decoding {
            return;
        }
        // A fault after the last token comes when one more token would.
        let most = if stream.script.media.piece.is_some() { 1 } else { self.persona.law.tokens_per_chunk };
        let tokens = stream.script.next_chunk(stream.sent, most).max(1);
        let decoding = self.schedule.decoding().saturating_add(deviation.background_streams);
        let law = &self.persona.law;
        let gap = match stream.script.media.piece {
            // Pieces come one by one.
            Some(alone) => law.slowed(alone, decoding, deviation.speed),
            None => law.gap_at(tokens, decoding, deviation.speed),
        };
        let gap = jittered(gap, self.persona.law.gap_jitter, &mut stream.jitter);
        self.schedule_step(index, at + gap);
    }

    fn schedule_step(&mut self, index: usize, due: Tick) {
        if let Some(stream) = &mut self.streams[index] {
            stream.ticket = self.next_ticket;
            self.steps.push(Reverse((due, self.next_ticket, index)));
            self.next_ticket += 1;
        }
    }

    fn emit_malformed(&mut self, index: usize, at: Tick) {
        let Some(stream) = &mut self.streams[index] else { return };
        if stream.script.malformed == Some(stream.sent) && !stream.malformed_sent {
            stream.malformed_sent = true;
            self.emit(index, at, Emitted::Malformed);
        }
    }

    fn emit_usage(&mut self, index: usize, at: Tick) {
        let Some(stream) = &self.streams[index] else { return };
        let reasoning = stream.sent.min(stream.script.reasoning);
        let usage = Usage {
            input: Some(u64::from(stream.script.input_tokens)),
            output: Some(stream.script.reported(stream.sent)),
            reasoning: (stream.script.reasoning > 0).then_some(u64::from(reasoning)),
            cached_input: stream.cached.map(u64::from),
            cache_write_input: None,
        };
        self.emit(index, at, Emitted::Usage(usage));
    }

    fn emit(&mut self, index: usize, at: Tick, what: Emitted) {
        let due = self.written_at(index, self.flush_at(at));
        let Some(stream) = &mut self.streams[index] else { return };
        let request = stream.id;
        if stream.script.burst && !matches!(what, Emitted::End(_)) {
            stream.buffered.push(what);
            return;
        }
        let buffered = std::mem::take(&mut stream.buffered);
        debug_assert!(self.outbox.back().is_none_or(|last| last.due <= due), "due ticks never decrease");
        self.outbox.extend(buffered.into_iter().chain([what]).map(|what| Emission { request, due, what }));
    }

    /// When something emitted at `at` leaves the engine: the next multiple of the coalescing interval.
    fn flush_at(&self, at: Tick) -> Tick {
        match self.persona.law.coalesce.as_nanos() {
            0 => at,
            span => at.as_nanos().checked_next_multiple_of(span).map_or(Tick::MAX, Tick::from_nanos),
        }
    }
}

fn scaled(span: Span, factor: f64) -> Span {
    match factor {
        1.0 => span,
        factor => Span::from_nanos((span.as_nanos() as f64 * factor).round() as u64),
    }
}

/// Multiplies a span by a log-normal factor of mean 1 with the given coefficient of variation.
fn jittered(span: Span, variation: f64, rng: &mut Rng) -> Span {
    if variation == 0.0 {
        return span;
    }
    Span::from_nanos((span.as_nanos() as f64 * rng.log_normal(variation)).round() as u64)
}

#[cfg(test)]
mod persona_tests;
#[cfg(test)]
mod tests;
