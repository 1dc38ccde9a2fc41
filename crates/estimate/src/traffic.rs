//! Requests that come to an engine in virtual time, and what they see: a number of users who ask one after another, or
//! arrivals at random.
//!
//! Invariant: the same plan gives the same samples; requests before the measured ones are in no sample.

use crate::engine_time::EngineTime;
use crate::serving::Serving;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use tokrate_core::{Rng, Span, Tick};
use tokrate_engine::{Cluster, Emission, Part, Request};

/// What requests look like.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Lengths {
    /// Tokens of a prompt, mean.
    pub isl: u32,
    /// Tokens of an answer, mean.
    pub osl: u32,
    /// First tokens of every prompt that are the same in all, such as instructions.
    pub shared: u32,
    /// Standard deviation of both lengths over their means (log-normal); 0: all alike.
    pub variation: f64,
}

/// When requests come.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Arrivals {
    /// So many users; each asks again so many seconds after its answer (exponential, mean), at once with 0.
    Users {
        /// Users.
        users: u32,
        /// Seconds.
        think: f64,
    },
    /// Independent arrivals, so many a second (Poisson).
    Rate(f64),
}

/// What one load does.
#[derive(Clone, PartialEq, Debug)]
pub struct Samples {
    /// Sent to first token (s), sorted.
    pub ttft: Vec<f64>,
    /// Time a token after the first (s), sorted.
    pub tpot: Vec<f64>,
    /// Sent to last token (s), sorted.
    pub e2e: Vec<f64>,
    /// Output tokens/s of all requests.
    pub tokens_a_second: f64,
    /// Requests answered a second.
    pub requests_a_second: f64,
    /// Mean number of requests in the system (Little: requests a second times their time).
    pub in_system: f64,
    /// Largest share of the cache in use that was seen.
    pub cache_use: f64,
    /// Preemptions since the start.
    pub preemptions: u64,
    /// Share of the prompts' tokens that was found in the cache.
    pub found: f64,
    /// Whether requests came faster than they were answered.
    pub overloaded: bool,
}

/// Requests that are measured at least: a p99 needs some hundreds.
const MEASURED: u32 = 600;
/// Requests from which on one for each user is enough: their percentiles no longer gain by more.
const ENOUGH: u32 = 3_000;
/// Requests that wait before an open load counts as lost and is ended.
const MOST_WAITING: u32 = 20_000;
/// Requests by which those in the system may grow over a run before it counts as overloaded, and the share of the arrivals.
const GROWTH: (f64, f64) = (20.0, 0.08);

/// Runs a load.
///
/// # Errors
/// Requests that can never run, or settings that no engine can run with.
pub fn run(serving: &Serving, lengths: &Lengths, arrivals: Arrivals, factor: f64) -> Result<Samples, String> {
    let (asked, longest) = (u64::from(lengths.isl) + u64::from(lengths.osl), serving.args.max_model_len);
    if asked > u64::from(longest) {
        return Err(format!("prompt and answer are {asked} tokens, and the model's context is {longest}"));
    }
    let cluster = serving.cluster(factor)?;
    Run::new(cluster, *lengths, arrivals).run()
}

struct Run {
    cluster: Cluster<EngineTime>,
    lengths: Lengths,
    arrivals: Arrivals,
    rng: Rng,
    /// When who asks next.
    due: BinaryHeap<Reverse<(Tick, u64)>>,
    submitted: u64,
    open: Open,
    skipped: u64,
    wanted: u64,
    answered: u64,
    /// When the first measured request may count, and how many were open then.
    window: Option<(Tick, usize, u64)>,
    tokens: u64,
    samples: Samples,
}

impl Run {
    fn new(cluster: Cluster<EngineTime>, lengths: Lengths, arrivals: Arrivals) -> Run {
        let users = match arrivals {
            Arrivals::Users { users, .. } => users,
            Arrivals::Rate(_) => 0,
        };
        let skipped = match arrivals {
            Arrivals::Users { users, .. } => u64::from(users),
            Arrivals::Rate(_) => u64::from(MEASURED / 2),
        };
        Run {
            cluster,
            lengths,
            arrivals,
            rng: Rng::root(0).child("traffic"),
            due: BinaryHeap::new(),
            submitted: 0,
            open: Open::default(),
            skipped,
            wanted: u64::from(MEASURED.max((3 * users).min(users.max(ENOUGH)))),
            answered: 0,
            window: None,
            tokens: 0,
            samples: Samples {
                ttft: Vec::new(),
                tpot: Vec::new(),
                e2e: Vec::new(),
                tokens_a_second: 0.0,
                requests_a_second: 0.0,
                in_system: 0.0,
                cache_use: 0.0,
                preemptions: 0,
                found: 0.0,
                overloaded: false,
            },
        }
    }

    fn run(mut self) -> Result<Samples, String> {
        match self.arrivals {
            // Users begin one after another, a token's worth apart, so that they are not in step for ever.
            Arrivals::Users { users, think } => {
                for user in 0..u64::from(users) {
                    let at = if think > 0.0 { self.rng.unit() * think } else { 0.02 * user as f64 };
                    self.due.push(Reverse((tick(at), user)));
                }
            }
            Arrivals::Rate(_) => self.due.push(Reverse((Tick::ZERO, 0))),
        }
        let mut emitted = Vec::new();
        let mut now = Tick::ZERO;
        while self.answered < self.skipped + self.wanted {
            let next = [self.cluster.wake_at(), self.due.peek().map(|Reverse((at, _))| *at)];
            let Some(at) = next.into_iter().flatten().min() else { break };
            now = at;
            self.cluster.poll_to(now, self.next_due(), &mut emitted);
            for (at, emission) in emitted.drain(..) {
                self.emission(at, emission);
            }
            while let Some(Reverse((at, user))) = self.due.peek().copied()
                && at <= now
            {
                self.due.pop();
                self.submit(now, user)?;
            }
            self.cluster.poll_to(now, self.next_due(), &mut emitted);
            if self.open.len() as u64 > u64::from(MOST_WAITING) && matches!(self.arrivals, Arrivals::Rate(_)) {
                self.samples.overloaded = true;
                break;
            }
        }
        Ok(self.finish(now))
    }

    /// When the next one asks of whom that is known now: others do when they are answered.
    fn next_due(&self) -> Tick {
        self.due.peek().map_or(Tick::MAX, |Reverse((at, _))| *at)
    }

    fn length(&mut self, mean: u32) -> u32 {
        let drawn = match self.lengths.variation {
            0.0 => f64::from(mean),
            variation => f64::from(mean) * self.rng.log_normal(variation),
        };
        drawn.round().max(1.0) as u32
    }

    fn submit(&mut self, now: Tick, user: u64) -> Result<(), String> {
        let id = self.submitted;
        self.submitted += 1;
        let (isl, osl) = (self.lengths.isl, self.lengths.osl);
        let prompt = self.length(isl).max(self.lengths.shared + 1);
        let request = Request {
            shared: match self.lengths.shared {
                0 => Vec::new(),
                tokens => vec![Part { content: 1, tokens }],
            },
            ..Request::unique(id, prompt, self.length(osl))
        };
        self.cluster.submit(&request).map_err(|error| error.to_string())?;
        self.open.push(OpenRequest { sent: now, first: None, tokens: request.output_tokens, user });
        if let Arrivals::Rate(rate) = self.arrivals {
            let gap = self.rng.exponential(Span::from_secs_f64(1.0 / rate));
            self.due.push(Reverse((now + gap, 0)));
        }
        Ok(())
    }

    fn emission(&mut self, at: Tick, emission: Emission) {
        if self.window.is_some() {
            self.tokens += u64::from(emission.tokens);
        }
        if !(emission.first || emission.last) {
            return;
        }
        let Some(entry) = self.open.get_mut(emission.id) else { return };
        entry.first.get_or_insert(at);
        if !emission.last {
            return;
        }
        let Some(OpenRequest { sent, first, tokens, user }) = self.open.remove(emission.id) else { return };
        self.answered += 1;
        if let Arrivals::Users { think, .. } = self.arrivals {
            let pause = if think > 0.0 { self.rng.exponential(Span::from_secs_f64(think)) } else { Span::ZERO };
            self.due.push(Reverse((at + pause, user)));
        }
        if self.answered <= self.skipped {
            if self.answered == self.skipped {
                self.window = Some((at, self.open.len(), self.submitted));
            }
            return;
        }
        let first = first.unwrap_or(at);
        self.samples.ttft.push(first.since(sent).as_secs_f64());
        self.samples.e2e.push(at.since(sent).as_secs_f64());
        if tokens > 1 {
            self.samples.tpot.push(at.since(first).as_secs_f64() / f64::from(tokens - 1));
        }
        let cache = self.cluster.stats().map(|stats| stats.cache_use()).fold(0.0, f64::max);
        self.samples.cache_use = self.samples.cache_use.max(cache);
    }

    fn finish(self, now: Tick) -> Samples {
        let mut samples = self.samples;
        for values in [&mut samples.ttft, &mut samples.tpot, &mut samples.e2e] {
            values.sort_by(f64::total_cmp);
        }
        let (begun, open, submitted) = self.window.unwrap_or((Tick::ZERO, 0, 0));
        let seconds = now.since(begun).as_secs_f64().max(1e-9);
        samples.tokens_a_second = self.tokens as f64 / seconds;
        samples.requests_a_second = samples.e2e.len() as f64 / seconds;
        samples.in_system = samples.requests_a_second * mean(&samples.e2e);
        samples.preemptions = self.cluster.stats().map(|stats| stats.preemptions).sum();
        let (found, looked) = self
            .cluster
            .stats()
            .fold((0, 0), |sum, stats| (sum.0 + stats.found_tokens, sum.1 + stats.looked_up_tokens));
        samples.found = found as f64 / (looked as f64).max(1.0);
        if matches!(self.arrivals, Arrivals::Rate(_)) {
            let growth = self.open.len() as f64 - open as f64;
            let arrived = (self.submitted - submitted) as f64;
            samples.overloaded |= growth > GROWTH.0 + GROWTH.1 * arrived;
        }
        samples
    }
}

/// A request that is not answered yet.
struct OpenRequest {
    sent: Tick,
    first: Option<Tick>,
    tokens: u32,
    user: u64,
}

/// Requests by their numbers, which count up: those since the oldest that is open.
#[derive(Default)]
struct Open {
    requests: VecDeque<Option<OpenRequest>>,
    oldest: u64,
    len: usize,
}

impl Open {
    fn push(&mut self, request: OpenRequest) {
        self.requests.push_back(Some(request));
        self.len += 1;
    }

    fn get_mut(&mut self, id: u64) -> Option<&mut OpenRequest> {
        self.requests.get_mut(id.checked_sub(self.oldest)? as usize)?.as_mut()
    }

    fn remove(&mut self, id: u64) -> Option<OpenRequest> {
        let request = self.requests.get_mut(id.checked_sub(self.oldest)? as usize)?.take()?;
        self.len -= 1;
        while self.requests.pop_front_if(|request| request.is_none()).is_some() {
            self.oldest += 1;
        }
        Some(request)
    }

    fn len(&self) -> usize {
        self.len
    }
}

fn tick(seconds: f64) -> Tick {
    Tick::ZERO + Span::from_secs_f64(seconds)
}

/// Mean; 0 of nothing.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / (values.len() as f64).max(1.0)
}

/// The value below which a share of sorted values lies (nearest rank); 0 of nothing.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or(0.0)
}
