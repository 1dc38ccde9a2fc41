//! Drives the engine: sleeps until it has something due, and passes emissions to the answers.
//!
//! Invariant: a wake-up costs work for what is due, not for all open requests.

use crate::gpu::{GpuLaw, GpuMeter};
use crate::metrics::{Meter, RequestProgress};
use crate::truth::log::Log;
use crate::truth::{AnswerEnd, RequestTruth, WriteTruth};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use tokio::sync::Notify;
use tokrate_core::Tick;
use tokrate_net::server::WriteSink;
use tokrate_net::{Clock, Pacer};
use tokrate_sim::{Allowance, Emission, Emitted, Engine, Refusal, RequestId, SimRequest, Stats};
use tokrate_wire::Dialect;

/// An engine and its open answers.
pub(crate) struct Driver {
    persona: Arc<str>,
    clock: Clock,
    engine: RefCell<Engine>,
    /// Answers that the engine has not ended.
    answers: RefCell<HashMap<RequestId, Rc<Answer>>>,
    /// Scratch buffer for due emissions.
    due: RefCell<Vec<Emission>>,
    /// When the driving task wakes up.
    sleeps_until: Cell<Option<Tick>>,
    wake_signal: Notify,
    log: Rc<RefCell<Log>>,
    /// Metrics of what is emitted, if they are exposed.
    meter: Option<RefCell<Meter>>,
    /// Its graphics processors, if it has any.
    gpus: Option<Cell<GpuMeter>>,
}

/// A received request.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub id: Option<String>,
    pub dialect: Dialect,
    pub received_at: Tick,
    pub stream: bool,
    pub request: SimRequest,
}

impl Driver {
    pub fn new(
        persona: &str,
        engine: Engine,
        log: Rc<RefCell<Log>>,
        clock: Clock,
        (metered, gpus): (bool, Option<GpuLaw>),
    ) -> Driver {
        let gpus = gpus.map(|law| Cell::new(GpuMeter::new(law, engine.places(), clock.now())));
        Driver {
            gpus,
            persona: persona.into(),
            clock,
            engine: RefCell::new(engine),
            answers: RefCell::default(),
            due: RefCell::default(),
            sleeps_until: Cell::new(None),
            wake_signal: Notify::new(),
            log,
            meter: metered.then(RefCell::default),
        }
    }

    /// Runs the engine while polled.
    pub async fn drive(&self, pacer: Pacer) {
        loop {
            let wake_at = self.engine.borrow().wake_at();
            self.sleeps_until.set(wake_at);
            match wake_at {
                None => self.wake_signal.notified().await,
                Some(wake_at) => tokio::select! {
                    biased;
                    _ = pacer.sleep_until(wake_at) => {}
                    () = self.wake_signal.notified() => {}
                },
            }
            self.dispatch(self.clock.now());
        }
    }

    /// Submits a request to the engine.
    ///
    /// # Errors
    /// The engine's refusal.
    pub fn submit(self: Rc<Self>, incoming: Incoming) -> Result<AnswerHandle, Refusal> {
        let now = self.clock.now();
        let mut truth = RequestTruth {
            request: self.log.borrow_mut().next_request(),
            persona: Arc::clone(&self.persona),
            dialect: incoming.dialect,
            id: incoming.id,
            received_at: incoming.received_at,
            submitted_at: now,
            input_tokens: incoming.request.input_tokens,
            output_limit: incoming.request.output_tokens,
            stream: incoming.stream,
            pictures: incoming.request.pictures,
            pixels: incoming.request.pixels,
            sound: incoming.request.sound,
            writes: Vec::new(),
            end: None,
        };
        let submitted = self.engine.borrow_mut().submit(now, incoming.request);
        let id = match submitted {
            Ok(id) => id,
            Err(refusal) => {
                truth.end = Some(AnswerEnd::Refused);
                let mut log = self.log.borrow_mut();
                log.request(&truth);
                log.end(truth);
                return Err(refusal);
            }
        };
        let names_other_model = self.engine.borrow().claims_other_model(id);
        self.log.borrow_mut().request(&truth);
        let answer = Rc::new(Answer {
            driver: Rc::clone(&self),
            id,
            names_other_model,
            submitted_at: now,
            progress: Cell::default(),
            pending: RefCell::default(),
            reader: Cell::new(None),
            truth: RefCell::new(truth),
            pending_writes: RefCell::default(),
            wake_after_write: Cell::new(false),
        });
        self.answers.borrow_mut().insert(id, Rc::clone(&answer));
        self.dispatch(now);
        self.wake_earlier();
        Ok(AnswerHandle { answer })
    }

    /// Requests that the engine has not ended.
    pub fn open(&self) -> usize {
        self.answers.borrow().len()
    }

    pub fn stats(&self) -> Stats {
        self.engine.borrow().stats()
    }

    /// What the engine's limits still let through.
    pub fn allowance(&self) -> Allowance {
        self.engine.borrow().allowance()
    }

    /// What was counted, if it was.
    pub fn meter(&self) -> Option<Meter> {
        self.meter.as_ref().map(|meter| meter.borrow().clone())
    }

    /// The page of its graphics processors, if it has any.
    pub fn gpu_page(&self) -> Option<String> {
        self.gpus.as_ref().map(|gpus| gpus.get().page(self.clock.now()))
    }

    /// The truth of requests that go on.
    pub fn open_truths(&self) -> Vec<RequestTruth> {
        self.answers.borrow().values().map(|answer| answer.truth.borrow().clone()).collect()
    }

    /// Forgets the answers that have not ended.
    pub fn abandon(&self) {
        // Taken out first: an answer that goes writes to the log.
        drop(self.answers.take());
    }

    fn cancel(&self, id: RequestId) {
        let answer = self.answers.borrow_mut().remove(&id);
        if answer.is_some() {
            let now = self.clock.now();
            self.engine.borrow_mut().cancel(now, id);
            self.dispatch(now);
            self.wake_earlier();
        }
    }

    /// Gives everything due to its answer. What belongs to an answer that is gone is forgotten.
    fn dispatch(&self, now: Tick) {
        let mut due = self.due.take();
        self.engine.borrow_mut().poll(now, &mut due);
        let mut answers = self.answers.borrow_mut();
        let mut ended = Vec::new();
        for emission in due.drain(..) {
            let Some(answer) = answers.get(&emission.request) else { continue };
            if let Some(meter) = &self.meter {
                let mut progress = answer.progress.get();
                meter.borrow_mut().on(&emission, answer.submitted_at, &mut progress);
                answer.progress.set(progress);
            }
            answer.pending.borrow_mut().push_back(emission);
            answer.wake();
            if matches!(emission.what, Emitted::End(_)) {
                ended.extend(answers.remove(&emission.request));
            }
        }
        drop(answers);
        self.due.replace(due);
        if let Some(gpus) = &self.gpus {
            let mut meter = gpus.get();
            meter.set(self.engine.borrow().stats().running, now);
            gpus.set(meter);
        }
    }

    /// Wakes the driving task if the engine has something due before its timer.
    fn wake_earlier(&self) {
        let wake_at = self.engine.borrow().wake_at();
        if wake_at.is_some_and(|wake_at| self.sleeps_until.get().is_none_or(|sleeps_until| wake_at < sleeps_until)) {
            self.wake_signal.notify_one();
        }
    }
}

/// Emissions for one request that the connection has not taken yet.
pub(crate) struct Answer {
    driver: Rc<Driver>,
    id: RequestId,
    /// Whether it names another model than requested (a fault).
    names_other_model: bool,
    submitted_at: Tick,
    progress: Cell<RequestProgress>,
    pending: RefCell<VecDeque<Emission>>,
    reader: Cell<Option<Waker>>,
    truth: RefCell<RequestTruth>,
    /// Frames handed to the connection but not yet to the socket.
    pending_writes: RefCell<VecDeque<WriteTruth>>,
    /// Whether the reader also waits for a write.
    wake_after_write: Cell<bool>,
}

impl Answer {
    fn wake(&self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

impl WriteSink for Answer {
    fn written(&self, mark: u64, at: Tick) {
        let mut pending_writes = self.pending_writes.borrow_mut();
        while let Some(write) = pending_writes.pop_front_if(|write| u64::from(write.sequence) <= mark) {
            let write = WriteTruth { written_at: at, ..write };
            self.driver.log.borrow_mut().write(&mut self.truth.borrow_mut(), write);
        }
        drop(pending_writes);
        if self.wake_after_write.take() {
            self.wake();
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let mut truth = self.truth.borrow().clone();
        truth.end.get_or_insert(AnswerEnd::Cancelled);
        self.driver.log.borrow_mut().end(truth);
    }
}

/// Handle of one answer. Dropping it before the end cancels the request.
pub(crate) struct AnswerHandle {
    answer: Rc<Answer>,
}

impl AnswerHandle {
    /// Number of the request, over all providers.
    pub fn number(&self) -> u64 {
        self.answer.truth.borrow().request
    }

    /// Whether the answer names another model.
    pub fn names_other_model(&self) -> bool {
        self.answer.names_other_model
    }

    /// Takes pending emissions in order, as long as `take` returns true.
    pub fn take(&self, mut take: impl FnMut(&Emission) -> bool) {
        let mut pending = self.answer.pending.borrow_mut();
        while let Some(emission) = pending.pop_front() {
            if !take(&emission) {
                return;
            }
        }
    }

    /// Whether nothing is pending; the context's task is then woken by the next emission.
    pub fn is_waiting(&self, context: &Context<'_>) -> bool {
        let is_waiting = self.answer.pending.borrow().is_empty();
        if is_waiting {
            self.answer.reader.set(Some(context.waker().clone()));
        }
        is_waiting
    }

    /// Whether frames that the connection was given are not yet handed to the socket. The context's task is then woken
    /// after the next write.
    pub fn is_writing(&self, context: &Context<'_>) -> bool {
        let is_writing = !self.answer.pending_writes.borrow().is_empty();
        if is_writing {
            self.answer.reader.set(Some(context.waker().clone()));
            self.answer.wake_after_write.set(true);
        }
        is_writing
    }

    /// Registers a frame about to be handed to the connection; its write is reported to the returned sink under its sequence.
    pub fn frame(&self, write: WriteTruth) -> Rc<Answer> {
        self.answer.pending_writes.borrow_mut().push_back(write);
        Rc::clone(&self.answer)
    }

    /// Records what was handed to the socket without the connection's own marks, as a session does.
    pub fn wrote(&self, write: WriteTruth) {
        self.answer.driver.log.borrow_mut().write(&mut self.answer.truth.borrow_mut(), write);
    }

    /// Records how the answer ends.
    pub fn end(&self, end: AnswerEnd) {
        self.answer.truth.borrow_mut().end = Some(end);
    }
}

impl Drop for AnswerHandle {
    fn drop(&mut self) {
        self.answer.driver.cancel(self.answer.id);
    }
}
