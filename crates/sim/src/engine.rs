//! The engine: requests in, emissions out, in the order in which they are due.
//!
//! It refuses to know real time: every call brings its own tick, and ticks that go backwards count as the latest one
//! seen. Invariant: each call first settles everything due up to its tick, so the trace does not depend on polling.

use crate::emission::{Emission, Emitted, Outcome, Refusal, RequestId, SimRequest, Timings};
use crate::faults::Faults;
use crate::law::{Law, LawError};
use crate::limits::{Allowance, Buckets};
use crate::persona::{Moment, Persona};
use crate::schedule::Schedule;
use crate::script::{BreakOff, Refused, Script};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use tokrate_core::{Channel, Rng, Span, Tick, Usage};

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
    /// For the background.
    others: Rng,
    buckets: Buckets,
    started_at: Tick,
    now: Tick,
    next_request: u64,
    streams: Vec<Option<Stream>>,
    vacant: Vec<usize>,
    places: BTreeMap<RequestId, usize>,
    schedule: Schedule,
    /// Due tick, ticket and place of the next step of each stream that has one. A step whose ticket is not the
    /// stream's is void.
    steps: BinaryHeap<Reverse<(Tick, u64, usize)>>,
    next_ticket: u64,
    /// Emissions not handed out yet; their due ticks never fall.
    outbox: VecDeque<Emission>,
    /// Places whose steps fall on the tick being settled; kept for its allocation.
    group: Vec<usize>,
    stats: Stats,
}

/// What an engine holds and has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Requests with a slot: in prefill, decoding or stalled.
    pub running: u32,
    /// Those of `running` that are between their first and last chunk and have not stalled.
    pub decoding: u32,
    /// Requests that wait for a slot.
    pub queued: u32,
    /// Requests that were submitted, in total.
    pub submitted: u64,
    /// Those that were refused.
    pub refused: u64,
    /// Those that ended by themselves, broken connections included.
    pub ended: u64,
    /// Those that were cancelled.
    pub cancelled: u64,
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
    /// When its first token was made.
    first_at: Tick,
    /// Tokens emitted.
    sent: u32,
    malformed_sent: bool,
    /// Ticket of its next step.
    ticket: u64,
    jitter: Rng,
    /// What a burst holds back.
    held: Vec<Emitted>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Queued,
    Prefill,
    Decoding,
    Stalled,
}

impl Stream {
    /// Where its time went, with its last token at `at`.
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
    /// If a value of the law or of a fault makes no sense.
    pub fn new(law: Law, faults: Faults, seed: u64) -> Result<Engine, LawError> {
        Engine::of(Persona { law, faults, ..Persona::default() }, seed, Tick::ZERO)
    }

    /// An idle engine with a persona, whose time begins at `started_at`.
    ///
    /// # Errors
    /// If a value of the persona makes no sense.
    pub fn of(persona: Persona, seed: u64, started_at: Tick) -> Result<Engine, LawError> {
        persona.check()?;
        let root = Rng::root(seed);
        Ok(Engine {
            others: root.child("background"),
            buckets: Buckets::new(persona.limits),
            persona,
            root,
            started_at,
            now: started_at,
            next_request: 0,
            streams: Vec::new(),
            vacant: Vec::new(),
            places: BTreeMap::new(),
            schedule: Schedule::default(),
            steps: BinaryHeap::new(),
            next_ticket: 0,
            outbox: VecDeque::new(),
            group: Vec::new(),
            stats: Stats::default(),
        })
    }

    /// Takes a request at `now`, after everything that is due by then.
    ///
    /// # Errors
    /// The refusal, if a fault or the queue's limit wants one. Nothing is emitted for a refused request.
    pub fn submit(&mut self, now: Tick, request: SimRequest) -> Result<RequestId, Refusal> {
        self.settle(now);
        let id = RequestId(self.next_request);
        self.next_request += 1;
        self.stats.submitted += 1;
        let script = self.draw(id, &request).inspect_err(|_| self.stats.refused += 1)?;
        let stream = Stream {
            id,
            script,
            phase: Phase::Queued,
            submitted_at: self.now,
            admitted_at: self.now,
            first_at: self.now,
            sent: 0,
            malformed_sent: false,
            ticket: u64::MAX,
            jitter: self.root.child("jitter").nth(id.0),
            held: Vec::new(),
        };
        let place = match self.vacant.pop() {
            Some(place) => {
                self.streams[place] = Some(stream);
                place
            }
            None => {
                self.streams.push(Some(stream));
                self.streams.len() - 1
            }
        };
        self.places.insert(id, place);
        self.schedule.enqueue(place);
        self.admit(self.now);
        Ok(id)
    }

    /// Ends a request at `now`; its slot goes to the next in the queue. What was due by then is still handed out.
    /// Without effect on a request that has ended.
    pub fn cancel(&mut self, now: Tick, id: RequestId) {
        self.settle(now);
        let Some(place) = self.places.get(&id).copied() else { return };
        self.stats.cancelled += 1;
        self.remove(place);
        self.admit(self.now);
    }

    /// Appends everything due by `now`, in due order.
    pub fn poll(&mut self, now: Tick, out: &mut Vec<Emission>) {
        self.settle(now);
        let due = self.outbox.partition_point(|emission| emission.due <= self.now);
        out.extend(self.outbox.drain(..due));
    }

    /// When [`Engine::poll`] has something to hand out next; `None` if not before another request comes.
    pub fn wake_at(&self) -> Option<Tick> {
        let step = self.steps.peek().map(|Reverse((due, ..))| self.release_at(*due));
        let emission = self.outbox.front().map(|emission| emission.due);
        step.into_iter().chain(emission).min()
    }

    /// What the engine holds and has done, as of the latest call.
    pub fn stats(&self) -> Stats {
        Stats {
            running: self.schedule.holding(),
            decoding: self.schedule.decoding(),
            queued: self.schedule.queued(),
            ..self.stats
        }
    }

    /// The law that the engine obeys.
    pub fn law(&self) -> &Law {
        &self.persona.law
    }

    /// What its limits still let through, as of the latest call.
    pub fn allowance(&self) -> Allowance {
        self.buckets.allowance(self.now)
    }

    /// Whether the answer to a request that goes on names another model.
    pub fn poses(&self, id: RequestId) -> bool {
        let stream = self.places.get(&id).and_then(|&place| self.streams[place].as_ref());
        stream.is_some_and(|stream| stream.script.poses)
    }

    /// What is said to a request, or why it is refused.
    fn draw(&mut self, id: RequestId, request: &SimRequest) -> Result<Script, Refusal> {
        let refusal = |status, retry_after, message| Refusal { request: id, status, retry_after, message };
        let law = &self.persona.law;
        let most = request.output_tokens.unwrap_or(law.default_output_tokens).min(law.output_tokens_most);
        let taken = self.buckets.take(self.now, u64::from(request.input_tokens) + u64::from(most));
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

    fn moment(&self, at: Tick) -> Moment {
        self.persona.at(at.since(self.started_at), &self.others)
    }

    /// Carries out every step due by `now`, tick by tick.
    fn settle(&mut self, now: Tick) {
        self.now = self.now.max(now);
        let mut group = std::mem::take(&mut self.group);
        while let Some(&Reverse((at, ..))) = self.steps.peek()
            && at <= self.now
        {
            while let Some(&Reverse((due, ticket, place))) = self.steps.peek()
                && due == at
            {
                self.steps.pop();
                if self.streams[place].as_ref().is_some_and(|stream| stream.ticket == ticket) {
                    group.push(place);
                }
            }
            for &place in &group {
                self.step(place, at);
            }
            // Only now is it known how many decode at this tick, which is what the next gaps depend on.
            for place in group.drain(..) {
                self.schedule_gap(place, at);
            }
            self.admit(at);
        }
        self.group = group;
    }

    /// Gives free slots to those who wait.
    fn admit(&mut self, at: Tick) {
        while let Some(place) = self.schedule.admit(&self.persona.law) {
            let factor = self.moment(at).ttft;
            let law = &self.persona.law;
            let stream = self.streams[place].as_mut().expect("only live streams queue");
            stream.phase = Phase::Prefill;
            stream.admitted_at = at;
            let delay = stretched(law.first_chunk_delay(stream.script.input_tokens), factor);
            let delay = jittered(delay, law.ttft_jitter, &mut stream.jitter);
            if law.role_first {
                self.emit(place, at, Emitted::Role);
            }
            self.schedule_step(place, at + delay);
        }
    }

    /// Carries out what a stream has to do at `at`: a chunk, a fault, the end.
    fn step(&mut self, place: usize, at: Tick) {
        let law_chunk = self.persona.law.tokens_per_chunk;
        let stream = self.streams[place].as_mut().expect("a valid step belongs to a live stream");
        if stream.phase == Phase::Prefill {
            stream.phase = Phase::Decoding;
            stream.first_at = at;
            self.schedule.start_decoding();
        }
        self.emit_malformed(place, at);
        let stream = self.streams[place].as_mut().expect("still live");
        if let Some(how) = stream.script.breaks_after(stream.sent) {
            return self.break_off(place, at, how);
        }
        let tokens = stream.script.next_chunk(stream.sent, law_chunk);
        if tokens > 0 {
            let channel = stream.script.channel_after(stream.sent);
            let words = stream.script.words(stream.sent, tokens);
            stream.sent += tokens;
            let usage = self.persona.law.usage_every_chunk && stream.script.report_usage;
            if !(stream.script.hides_reasoning && channel == Channel::Reasoning) {
                self.emit(place, at, Emitted::Text { channel, words });
            }
            if usage {
                self.emit_usage(place, at);
            }
        }
        let stream = self.streams[place].as_ref().expect("still live");
        if stream.sent == stream.script.tokens && stream.script.breaks_after(stream.sent).is_none() {
            self.finish(place, at);
        }
    }

    fn finish(&mut self, place: usize, at: Tick) {
        self.emit_malformed(place, at);
        let stream = self.streams[place].as_ref().expect("still live");
        let (finish, usage, done) = (stream.script.finish, stream.script.report_usage, stream.script.done);
        let timings = stream.script.report_timings.then(|| stream.timings(at));
        self.emit(place, at, Emitted::Finish(finish));
        if let Some(timings) = timings {
            self.emit(place, at, Emitted::Timings(timings));
        }
        if usage
            && !(self.persona.law.usage_every_chunk
                && self.streams[place].as_ref().is_some_and(|stream| stream.sent > 0))
        {
            self.emit_usage(place, at);
        }
        if done {
            self.emit(place, at, Emitted::Done);
        }
        self.end(place, at, Outcome::Complete);
    }

    fn break_off(&mut self, place: usize, at: Tick, how: BreakOff) {
        match how {
            BreakOff::Stall => {
                if let Some(stream) = &mut self.streams[place] {
                    stream.phase = Phase::Stalled;
                    self.schedule.stop_decoding();
                }
            }
            BreakOff::Disconnect => self.end(place, at, Outcome::Disconnected),
            BreakOff::ErrorEvent => {
                self.emit(place, at, Emitted::Failed { message: "the engine failed while it answered" });
                self.emit(place, at, Emitted::Done);
                self.end(place, at, Outcome::Complete);
            }
        }
    }

    fn end(&mut self, place: usize, at: Tick, outcome: Outcome) {
        self.emit(place, at, Emitted::End(outcome));
        self.stats.ended += 1;
        self.remove(place);
    }

    /// Forgets a stream and gives back what it holds.
    fn remove(&mut self, place: usize) {
        let Some(stream) = self.streams[place].take() else { return };
        if stream.phase == Phase::Decoding {
            self.schedule.stop_decoding();
        }
        match stream.phase {
            Phase::Queued => self.schedule.leave_queue(place),
            Phase::Prefill | Phase::Decoding | Phase::Stalled => self.schedule.release(),
        }
        self.places.remove(&stream.id);
        self.vacant.push(place);
    }

    fn schedule_gap(&mut self, place: usize, at: Tick) {
        let moment = self.moment(at);
        let Some(stream) = &mut self.streams[place] else { return };
        if stream.phase != Phase::Decoding {
            return;
        }
        // A fault behind the last token comes when one more token would.
        let tokens = stream.script.next_chunk(stream.sent, self.persona.law.tokens_per_chunk).max(1);
        let decoding = self.schedule.decoding().saturating_add(moment.others);
        let gap = self.persona.law.gap_at(tokens, decoding, moment.speed);
        let gap = jittered(gap, self.persona.law.gap_jitter, &mut stream.jitter);
        self.schedule_step(place, at + gap);
    }

    fn schedule_step(&mut self, place: usize, due: Tick) {
        if let Some(stream) = &mut self.streams[place] {
            stream.ticket = self.next_ticket;
            self.steps.push(Reverse((due, self.next_ticket, place)));
            self.next_ticket += 1;
        }
    }

    fn emit_malformed(&mut self, place: usize, at: Tick) {
        let Some(stream) = &mut self.streams[place] else { return };
        if stream.script.malformed == Some(stream.sent) && !stream.malformed_sent {
            stream.malformed_sent = true;
            self.emit(place, at, Emitted::Malformed);
        }
    }

    fn emit_usage(&mut self, place: usize, at: Tick) {
        let Some(stream) = &self.streams[place] else { return };
        let reasoning = stream.sent.min(stream.script.reasoning);
        let usage = Usage {
            input: Some(u64::from(stream.script.input_tokens)),
            output: Some(stream.script.reported(stream.sent)),
            reasoning: (stream.script.reasoning > 0).then_some(u64::from(reasoning)),
            cached_input: None,
            cache_write_input: None,
        };
        self.emit(place, at, Emitted::Usage(usage));
    }

    fn emit(&mut self, place: usize, at: Tick, what: Emitted) {
        let due = self.release_at(at);
        let Some(stream) = &mut self.streams[place] else { return };
        let request = stream.id;
        if stream.script.burst && !matches!(what, Emitted::End(_)) {
            stream.held.push(what);
            return;
        }
        let held = std::mem::take(&mut stream.held);
        self.outbox.extend(held.into_iter().chain([what]).map(|what| Emission { request, due, what }));
    }

    /// When something said at `at` leaves the engine: the next multiple of the coalescing span.
    fn release_at(&self, at: Tick) -> Tick {
        match self.persona.law.coalesce.as_nanos() {
            0 => at,
            span => at.as_nanos().checked_next_multiple_of(span).map_or(Tick::MAX, Tick::from_nanos),
        }
    }
}

fn stretched(span: Span, factor: f64) -> Span {
    match factor {
        1.0 => span,
        factor => Span::from_nanos((span.as_nanos() as f64 * factor).round() as u64),
    }
}

/// A span times a log-normal factor of mean 1 and the given coefficient of variation.
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
