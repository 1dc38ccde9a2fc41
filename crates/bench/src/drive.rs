//! Runs one phase: worker threads, each with a runtime, an HTTP client and a share of the plan.
//!
//! Invariant: every request that was started is returned exactly once, also after an interrupt.

use crate::BenchError;
use crate::bodies::Bodies;
use crate::exchange::{Finished, WorkerContext};
use crate::history::History;
use crate::job::Job;
use crate::plan::{Backoff, Outcome, Plan, Reservation, Share, Start, Step, Wait, Worst};
use crate::realtime::Sessions;
use crate::watched::WorkerLoad;
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::sync::mpsc;
use tokio::task::LocalSet;
use tokrate_core::{FailureKind, Sketch, Span, Tick};
use tokrate_meter::{RequestNumbers, RequestTrace};
use tokrate_net::{Client, ClientConfig, LagProbe, LagReader, Pacer};
use tokrate_tokens::Encoding;

/// How often a worker says how busy it is: the CPU time of a thread costs a system call.
const PULSE: Span = Span::from_millis(200);

/// What a phase left behind.
#[derive(Debug)]
pub(crate) struct PhaseOutput {
    /// Every request, in order of its index.
    pub requests: Vec<Finished>,
    pub started_at: Tick,
    pub ended_at: Tick,
    /// Arrivals that were never sent because too many requests were in flight.
    pub forfeited: u64,
    /// Arrivals that were never sent because the provider had asked to wait.
    pub withheld: u64,
    /// The waits that it asked for.
    pub waits: Vec<Wait>,
    /// How late a 1 ms timer fired on the workers, ns.
    pub timer_lag: Sketch,
    /// CPU time of the worker threads between start and end.
    pub cpu: Span,
    pub interrupted: bool,
}

impl PhaseOutput {
    /// The numbers of every request, its tokens counted now that the clock has stopped. Takes the traces, so that their
    /// text is freed.
    pub fn take_rows(&mut self, job: &Job) -> Vec<RequestNumbers> {
        self.take_rows_with(job, |_, _| ())
    }

    /// The same; each request is shown with the tokens that end in each of its arrivals before its trace is freed.
    pub fn take_rows_with(&mut self, job: &Job, mut show: impl FnMut(&Finished, &[u32])) -> Vec<RequestNumbers> {
        std::mem::take(&mut self.requests)
            .into_iter()
            .map(|finished| {
                let (mut row, tokens) = RequestNumbers::with_arrival_tokens(&finished.trace, Encoding::O200kBase);
                let turn = finished.start.turn.map(|turn| turn.turn);
                describe(&job.bodies, job.first_prompt + finished.start.prompt, turn, &finished.trace, &mut row);
                show(&finished, &tokens);
                row.index = finished.start.index;
                row.warmup = finished.start.warmup;
                row.session = finished.start.turn.map(|turn| turn.session);
                row.turn = finished.start.turn.map(|turn| turn.turn);
                row.released_by = finished.start.released_by;
                row.wait_ns = row.turn.map(|_| finished.start.wait.as_nanos());
                row.request_bytes = Some(finished.request_bytes);
                row
            })
            .collect()
    }
}

/// Adds to a row what was asked of it, and whether its answer is that.
fn describe(bodies: &Bodies, number: u64, turn: Option<u32>, trace: &RequestTrace, row: &mut RequestNumbers) {
    if let Some(structure) = bodies.options.structure_of(turn) {
        structure.judge(trace, row);
    }
    if let Some(audio) = &bodies.options.audio {
        audio.describe(number, &|| bodies.text(number), trace, row);
    }
}

/// Runs a phase to its end. Blocks; must not be called from within a runtime.
pub(crate) fn run_phase(job: &Arc<Job>) -> Result<PhaseOutput, BenchError> {
    let started_at = job.clock.now();
    let mut threads = Vec::new();
    let hold = Arc::new(AtomicU64::new(0));
    for worker in 0..job.workers {
        let share = Share { worker, of: job.workers };
        let (job, hold) = (Arc::clone(job), Arc::clone(&hold));
        let thread = std::thread::Builder::new()
            .name(format!("bench-{worker}"))
            .spawn(move || run_worker(job, share, started_at, hold))
            .map_err(BenchError::Worker)?;
        threads.push(thread);
    }
    let mut whole = PhaseOutput {
        requests: Vec::new(),
        started_at,
        ended_at: started_at,
        forfeited: 0,
        withheld: 0,
        waits: Vec::new(),
        timer_lag: Sketch::new(),
        cpu: Span::ZERO,
        interrupted: false,
    };
    for thread in threads {
        let output = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        whole.requests.extend(output.requests);
        whole.forfeited += output.forfeited;
        whole.withheld += output.withheld;
        whole.waits.extend(output.waits);
        whole.timer_lag.merge(&output.timer_lag);
        whole.cpu += output.cpu;
    }
    whole.ended_at = job.clock.now();
    whole.interrupted = job.stop.is_set();
    whole.requests.sort_unstable_by_key(|finished| finished.start.index);
    Ok(whole)
}

struct WorkerOutput {
    requests: Vec<Finished>,
    forfeited: u64,
    withheld: u64,
    waits: Vec<Wait>,
    timer_lag: Sketch,
    cpu: Span,
}

/// `hold` is until when no worker of an open loop sends anything (ns).
fn run_worker(job: Arc<Job>, share: Share, started_at: Tick, hold: Arc<AtomicU64>) -> Result<WorkerOutput, BenchError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(BenchError::Worker)?;
    let cpu_before = tokrate_net::thread_cpu_time();
    let tasks = LocalSet::new();
    let (worker, timer_lag) = tasks.block_on(&runtime, async {
        let pacer = Pacer::new(job.clock).map_err(BenchError::Worker)?;
        let lag = LagProbe::start(&pacer);
        if job.progress.is_watched() {
            tokio::task::spawn_local(pulse(Arc::clone(&job), share.worker, pacer.clone(), lag.reader(), cpu_before));
        }
        let mut plan = Plan::new(&job.spec, share, started_at, job.arrivals.clone());
        if let Some(time) = job.answer_within {
            plan.expect_answer_within(time);
        }
        let client = Client::new(client_of(&job, share), job.route.clone(), job.clock)?;
        let client = client.authorized_by(job.authorizer.clone());
        let context = Rc::new(WorkerContext {
            job: Arc::clone(&job),
            share,
            client,
            batch: RefCell::default(),
            sessions: Sessions::default(),
        });
        let mut worker = Worker::new(context, plan, hold);
        worker.run(&pacer).await;
        Ok::<_, BenchError>((worker, lag.stop()))
    })?;
    Ok(WorkerOutput {
        forfeited: worker.plan.forfeited(),
        withheld: worker.plan.withheld(),
        waits: worker.plan.waits().to_vec(),
        requests: worker.requests,
        timer_lag,
        cpu: tokrate_net::thread_cpu_time() - cpu_before,
    })
}

/// Says how busy a worker is, for a display, as long as it runs.
async fn pulse(job: Arc<Job>, worker: u32, pacer: Pacer, lag: LagReader, cpu_before: Span) {
    loop {
        pacer.sleep_until(job.clock.now() + PULSE).await;
        let cpu = tokrate_net::thread_cpu_time() - cpu_before;
        job.progress.pulse(worker, WorkerLoad { cpu, timer_lag: lag.quantile(0.99).unwrap_or_default() });
    }
}

/// The client of a worker: connections that are numbered are shared out among the workers.
fn client_of(job: &Job, share: Share) -> ClientConfig {
    let mut client = job.client.clone();
    client.http2.connections = client.http2.connections.map(|all| share.part_of(all as u64) as usize);
    client
}

/// The loop of one worker: polls its plan, starts requests and receives the finished ones.
struct Worker {
    context: Rc<WorkerContext>,
    plan: Plan,
    hold: Arc<AtomicU64>,
    /// Message histories of its sessions.
    history: History,
    /// The next request's body, encoded while there was time.
    prepared: Option<(Start, Bytes)>,
    /// Cost reservations of the requests in flight, by index.
    reservations: HashMap<u64, Reservation>,
    requests: Vec<Finished>,
    ended: mpsc::UnboundedReceiver<Finished>,
    /// Kept for cloning, so that the channel never closes.
    end_sender: mpsc::UnboundedSender<Finished>,
}

impl Worker {
    fn new(context: Rc<WorkerContext>, plan: Plan, hold: Arc<AtomicU64>) -> Worker {
        let (end_sender, ended) = mpsc::unbounded_channel();
        Worker {
            context,
            plan,
            hold,
            history: History::default(),
            prepared: None,
            reservations: HashMap::new(),
            requests: Vec::new(),
            ended,
            end_sender,
        }
    }

    async fn run(&mut self, pacer: &Pacer) {
        let clock = self.context.job.clock;
        let job = Arc::clone(&self.context.job);
        loop {
            if job.is_over() {
                self.plan.stop();
            }
            self.plan.hold_until(Tick::from_nanos(self.hold.load(Relaxed)));
            if job.progress.has_answer() {
                self.plan.answered();
            }
            let wake_at = match self.plan.poll(clock.now()) {
                Step::Start(start) => {
                    self.start(start);
                    continue;
                }
                Step::Finished => return,
                Step::WaitUntil(tick) => Some(tick),
                Step::WaitForCompletion => None,
            };
            self.prepare();
            let wake = async {
                match wake_at {
                    Some(tick) => drop(pacer.sleep_until(tick).await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(finished) = self.ended.recv() => self.end(finished, clock.now()),
                () = wake => {}
                () = job.over(), if !job.is_over() => {}
            }
            while let Ok(finished) = self.ended.try_recv() {
                self.end(finished, clock.now());
            }
        }
    }

    fn start(&mut self, start: Start) {
        let body = match self.prepared.take() {
            Some((prepared, body)) if is_same(&prepared, &start) => body,
            _ => self.encode(&start),
        };
        if let Some(cost_limit) = &self.context.job.cost_limit {
            let Some(reservation) = cost_limit.reserve(&self.worst(&start)) else {
                self.plan.withdraw();
                return;
            };
            self.reservations.insert(start.index, reservation);
        }
        self.context.job.progress.start();
        let (context, sender) = (Rc::clone(&self.context), self.end_sender.clone());
        tokio::task::spawn_local(async move {
            let job = Arc::clone(&context.job);
            let request_bytes = body.len() as u64;
            let trace = context.execute(&start, body, job.over()).await;
            // The receiver lives as long as the plan has requests in flight.
            let _ = sender.send(Finished { start, request_bytes, trace });
        });
    }

    fn end(&mut self, finished: Finished, now: Tick) {
        let Finished { start, trace, .. } = &finished;
        self.context.job.progress.end(trace, start.warmup);
        self.context.job.progress.keep(&trace.text);
        let number = self.prompt_number(start);
        if let (Some(cost_limit), Some(reservation)) =
            (&self.context.job.cost_limit, self.reservations.remove(&start.index))
        {
            let spent = cost_limit.settle(reservation, &self.worst(start), trace);
            self.context.job.progress.set_spent(spent);
        }
        if start.turn.is_some() && !self.context.job.bodies.prompts.are_whole() {
            let counted = self.context.job.cost_limit.is_some();
            self.history.record_turn(start, trace, &self.context.job.bodies, number, counted);
        }
        self.context.job.abort.record(trace.failure.as_ref(), !trace.text.is_empty());
        let failure = trace.failure.as_ref().map(|failure| (failure.kind, failure.retry_after));
        if let Some((FailureKind::RateLimited, Some(wait))) = failure
            && self.context.job.spec.backoff == Backoff::Obey
            // A longer one ends the run.
            && wait <= self.context.job.limits.wait
        {
            self.context.job.progress.hold(now + wait);
        }
        self.plan.completed(start, now, Outcome::of(failure));
        if let Some(until) = self.plan.held_until() {
            self.hold.fetch_max(until.as_nanos(), Relaxed);
        }
        self.requests.push(finished);
    }

    /// Encodes the next body ahead of time, so that its making does not sit between due and sent.
    fn prepare(&mut self) {
        let next = self.plan.upcoming();
        if self.prepared.as_ref().is_none_or(|(prepared, _)| !is_same(prepared, &next)) {
            self.prepared = Some((next, self.encode(&next)));
        }
    }

    fn encode(&self, start: &Start) -> Bytes {
        self.context.job.bodies.encode(self.prompt_number(start), turn_of(start), self.history.messages(start))
    }

    /// The most that a request may come to: its session's history is part of its prompt.
    fn worst(&self, start: &Start) -> Worst {
        let own = self.context.job.bodies.worst(self.prompt_number(start), turn_of(start));
        Worst { input_tokens: own.input_tokens + self.history.tokens(start), ..own }
    }

    /// Number of a request's prompt in the run.
    fn prompt_number(&self, start: &Start) -> u64 {
        self.context.job.first_prompt + start.prompt
    }
}

/// Number of the turn in its session, of a request that has one.
fn turn_of(start: &Start) -> Option<u32> {
    start.turn.map(|turn| turn.turn)
}

/// Whether a body for one is a body for the other.
fn is_same(prepared: &Start, start: &Start) -> bool {
    (prepared.index, prepared.prompt) == (start.index, start.prompt)
}
