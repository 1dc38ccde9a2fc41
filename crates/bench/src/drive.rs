//! Carries out one phase: worker threads, each with a runtime, a client and a share of the plan.
//!
//! It refuses to know statistics: it returns traces. Invariant: every request that a plan started is returned exactly
//! once, interrupted or not.

use crate::config::Limits;
use crate::exchange::{Bodies, Finished, Lane};
use crate::plan::{PhaseSpec, Plan, Share, Start, Step};
use crate::progress::Progress;
use crate::{BenchError, Stop};
use bytes::Bytes;
use http::HeaderMap;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::LocalSet;
use tokrate_core::{Rng, Sketch, Span, Tick};
use tokrate_meter::RequestNumbers;
use tokrate_net::{Client, ClientConfig, Clock, LagProbe, Pacer, Route};
use tokrate_tokens::Encoding;

/// Everything that a phase needs. Shared by its workers.
pub(crate) struct Job {
    pub spec: PhaseSpec,
    pub bodies: Arc<Bodies>,
    pub client: ClientConfig,
    /// Where requests go, resolved once per run.
    pub route: Route,
    pub path: String,
    pub headers: HeaderMap,
    /// Values that may never be shown; see [`secrets_of`].
    pub secrets: Vec<String>,
    /// First part of the `x-request-id` of every request.
    pub id_prefix: String,
    pub limits: Limits,
    pub workers: u32,
    pub arrivals: Rng,
    /// Number of the first prompt: prompts stay unique across the phases of a run.
    pub first_prompt: u64,
    pub progress: Arc<Progress>,
    pub clock: Clock,
    pub stop: Stop,
}

/// What of these headers may never be shown: the values that are marked sensitive, whole and without `Bearer`.
pub(crate) fn secrets_of(headers: &HeaderMap) -> Vec<String> {
    let sensitive = headers.values().filter(|value| value.is_sensitive()).filter_map(|value| value.to_str().ok());
    let mut secrets: Vec<String> =
        sensitive.flat_map(|value| [value, value.rsplit(' ').next().unwrap_or(value)]).map(str::to_owned).collect();
    // Very short values are no keys, and replacing them would garble messages.
    secrets.retain(|secret| secret.len() >= 6);
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.dedup();
    secrets
}

/// What a phase left behind.
#[derive(Debug)]
pub(crate) struct PhaseOutput {
    /// Every request, in order of its index.
    pub requests: Vec<Finished>,
    pub started_at: Tick,
    pub ended_at: Tick,
    /// Arrivals that were never sent.
    pub forfeited: u64,
    /// How late a 1 ms timer fired on the workers, ns.
    pub timer_lag: Sketch,
    /// CPU time of the worker threads between start and end.
    pub cpu: Span,
    pub interrupted: bool,
}

impl PhaseOutput {
    /// The numbers of every request, its tokens counted now that the clock has stopped. Takes the traces, so that their
    /// text is freed.
    pub fn take_rows(&mut self) -> Vec<RequestNumbers> {
        std::mem::take(&mut self.requests)
            .into_iter()
            .map(|finished| {
                let mut row = RequestNumbers::measure(&finished.trace, Encoding::O200kBase);
                row.index = finished.index;
                row.warmup = finished.warmup;
                row
            })
            .collect()
    }
}

/// Runs a phase to its end. Blocks; must not be called from within a runtime.
pub(crate) fn run_phase(job: &Arc<Job>) -> Result<PhaseOutput, BenchError> {
    let started_at = job.clock.now();
    let mut threads = Vec::new();
    for worker in 0..job.workers {
        let share = Share { worker, of: job.workers };
        let job = Arc::clone(job);
        let thread = std::thread::Builder::new()
            .name(format!("bench-{worker}"))
            .spawn(move || run_worker(job, share, started_at))
            .map_err(BenchError::Worker)?;
        threads.push(thread);
    }
    let mut whole = PhaseOutput {
        requests: Vec::new(),
        started_at,
        ended_at: started_at,
        forfeited: 0,
        timer_lag: Sketch::new(),
        cpu: Span::ZERO,
        interrupted: false,
    };
    for thread in threads {
        let output = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        whole.requests.extend(output.requests);
        whole.forfeited += output.forfeited;
        whole.timer_lag.merge(&output.timer_lag);
        whole.cpu += output.cpu;
    }
    whole.ended_at = job.clock.now();
    whole.interrupted = job.stop.is_set();
    whole.requests.sort_unstable_by_key(|finished| finished.index);
    Ok(whole)
}

struct ShareOutput {
    requests: Vec<Finished>,
    forfeited: u64,
    timer_lag: Sketch,
    cpu: Span,
}

fn run_worker(job: Arc<Job>, share: Share, started_at: Tick) -> Result<ShareOutput, BenchError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(BenchError::Worker)?;
    let cpu_before = tokrate_net::thread_cpu_time();
    let tasks = LocalSet::new();
    let (requests, forfeited, timer_lag) = tasks.block_on(&runtime, async {
        let pacer = Pacer::new(job.clock).map_err(BenchError::Worker)?;
        let lag = LagProbe::start(&pacer);
        let plan = Plan::new(job.spec, share, started_at, job.arrivals.clone());
        let client = Client::new(job.client.clone(), job.route.clone(), job.clock)?;
        let lane = Rc::new(Lane { job: Arc::clone(&job), client, batch: RefCell::default() });
        let mut worker = Worker::new(lane, plan);
        worker.run(&pacer).await;
        Ok::<_, BenchError>((worker.requests, worker.plan.forfeited(), lag.stop()))
    })?;
    Ok(ShareOutput { requests, forfeited, timer_lag, cpu: tokrate_net::thread_cpu_time() - cpu_before })
}

/// The loop of one worker: asks its plan, starts requests, hears of their ends.
struct Worker {
    lane: Rc<Lane>,
    plan: Plan,
    /// The next request's body, encoded while there was time.
    prepared: Option<(u64, Bytes)>,
    requests: Vec<Finished>,
    ended: mpsc::UnboundedReceiver<Finished>,
    /// Kept to make more of them; so the receiver never sees the channel closed.
    end_sender: mpsc::UnboundedSender<Finished>,
}

impl Worker {
    fn new(lane: Rc<Lane>, plan: Plan) -> Worker {
        let (end_sender, ended) = mpsc::unbounded_channel();
        Worker { lane, plan, prepared: None, requests: Vec::new(), ended, end_sender }
    }

    async fn run(&mut self, pacer: &Pacer) {
        let clock = self.lane.job.clock;
        let stop = self.lane.job.stop.clone();
        loop {
            if stop.is_set() {
                self.plan.stop();
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
                () = stop.wait(), if !stop.is_set() => {}
            }
            while let Ok(finished) = self.ended.try_recv() {
                self.end(finished, clock.now());
            }
        }
    }

    fn start(&mut self, start: Start) {
        let body = match self.prepared.take() {
            Some((index, body)) if index == start.index => body,
            _ => self.encode(start.index),
        };
        self.lane.job.progress.start();
        let (lane, sender) = (Rc::clone(&self.lane), self.end_sender.clone());
        tokio::task::spawn_local(async move {
            let stop = lane.job.stop.clone();
            let trace = lane.carry_out(start.index, start.due_at, body, stop.wait()).await;
            // The receiver lives as long as the plan has requests in flight.
            let _ = sender.send(Finished { index: start.index, warmup: start.warmup, trace });
        });
    }

    fn end(&mut self, finished: Finished, now: Tick) {
        self.lane.job.progress.end(finished.trace.failure.is_none());
        self.plan.completed(now);
        self.requests.push(finished);
    }

    /// Encodes the next body ahead of time, so that its making does not sit between due and sent.
    fn prepare(&mut self) {
        let index = self.plan.upcoming();
        if self.prepared.as_ref().is_none_or(|(prepared, _)| *prepared != index) {
            self.prepared = Some((index, self.encode(index)));
        }
    }

    fn encode(&self, index: u64) -> Bytes {
        let job = &self.lane.job;
        job.bodies.encode(job.first_prompt + index)
    }
}
