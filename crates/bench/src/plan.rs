//! When requests start: closed and open loops as a state machine.
//!
//! It refuses to know sockets, clocks and answers: ticks and completions are told to it. Invariant: an open loop's
//! due ticks depend on its start, rate and seed alone, never on what happened to earlier requests.

use std::collections::VecDeque;
use tokrate_core::{RequestsPerSecond, Rng, Span, Tick};

/// How requests arrive.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Load {
    /// So many requests in flight; the next starts when one ends.
    Closed {
        /// Requests in flight.
        concurrency: u32,
    },
    /// Arrivals on an absolute schedule, whatever happens to the answers.
    Open {
        /// Mean arrivals per second.
        rate: RequestsPerSecond,
        /// How the gaps between arrivals are drawn.
        arrivals: Arrivals,
        /// In-flight requests at which an arrival is forfeited (counted, never sent): keeps a dead server from
        /// eating the client.
        in_flight_limit: u32,
    },
}

/// How the gaps of an open loop are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrivals {
    /// All gaps are 1 / rate.
    Constant,
    /// Exponential gaps of mean 1 / rate: a Poisson process.
    Poisson,
}

impl Arrivals {
    /// The name used on the command line and in records.
    pub const fn name(self) -> &'static str {
        match self {
            Arrivals::Constant => "constant",
            Arrivals::Poisson => "poisson",
        }
    }
}

/// When a phase stops starting requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// After so many measured requests (warm-up not counted).
    Requests(u64),
    /// After so much time, counted from the first measured request.
    Duration(Span),
}

/// One load level, as asked for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PhaseSpec {
    /// How requests arrive.
    pub load: Load,
    /// When to stop.
    pub extent: Extent,
    /// Requests sent first and kept out of the distributions.
    pub warmup: u64,
}

/// What to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Send this request now.
    Start(Start),
    /// Nothing to do before this tick (unless a request completes).
    WaitUntil(Tick),
    /// Nothing to do until a request completes.
    WaitForCompletion,
    /// All requests were started and have completed.
    Finished,
}

/// A request that is to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    /// Number of the request in its phase, from 0, warm-up included.
    pub index: u64,
    /// When the plan wanted it.
    pub due_at: Tick,
    /// Whether it belongs to the warm-up.
    pub warmup: bool,
}

/// Which part of a phase a worker carries out: every `of`-th request, from `worker` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// Number of the worker, from 0.
    pub worker: u32,
    /// How many workers there are.
    pub of: u32,
}

impl Share {
    /// All of it.
    pub const WHOLE: Share = Share { worker: 0, of: 1 };

    /// How much of `whole` falls to this worker; over all workers the parts add up to it.
    fn part_of(self, whole: u64) -> u64 {
        let (of, worker) = (u64::from(self.of.max(1)), u64::from(self.worker));
        whole / of + u64::from(worker < whole % of)
    }
}

/// The state machine of one worker's share of a phase. Ask [`Plan::poll`] until it waits; tell it every completion.
#[derive(Debug)]
pub struct Plan {
    extent: Extent,
    warmup: u64,
    arrivals: Arriving,
    share: Share,
    /// Requests taken from the schedule so far, of this share.
    taken: u64,
    in_flight: u32,
    measuring_since: Option<Tick>,
    stopped: bool,
}

#[derive(Debug)]
enum Arriving {
    /// Slots that are free, and since when, longest first.
    Closed {
        free_since: VecDeque<Tick>,
    },
    Open(Schedule),
}

/// The absolute schedule of an open loop.
#[derive(Debug)]
struct Schedule {
    mean_gap: Span,
    arrivals: Arrivals,
    rng: Rng,
    next_due: Tick,
    in_flight_limit: u32,
    forfeited: u64,
}

impl Plan {
    /// A plan that starts at `start`; `rng` draws the gaps of Poisson arrivals and must be the same for all shares.
    pub fn new(spec: PhaseSpec, share: Share, start: Tick, rng: Rng) -> Plan {
        let arrivals = match spec.load {
            Load::Closed { concurrency } => {
                let slots = share.part_of(u64::from(concurrency)) as usize;
                Arriving::Closed { free_since: std::iter::repeat_n(start, slots).collect() }
            }
            Load::Open { rate, arrivals, in_flight_limit } => {
                let mut schedule = Schedule {
                    mean_gap: rate.interval().unwrap_or(Span::MAX),
                    arrivals,
                    rng,
                    next_due: start,
                    in_flight_limit: share.part_of(u64::from(in_flight_limit)) as u32,
                    forfeited: 0,
                };
                // Every share walks the whole schedule and takes its own arrivals, so that the arrivals of a run do
                // not depend on the number of workers.
                schedule.skip(u64::from(share.worker));
                Arriving::Open(schedule)
            }
        };
        let extent = match spec.extent {
            Extent::Requests(n) => Extent::Requests(
                share.part_of(spec.warmup.saturating_add(n)).saturating_sub(share.part_of(spec.warmup)),
            ),
            duration => duration,
        };
        let warmup = share.part_of(spec.warmup);
        Plan { extent, warmup, arrivals, share, taken: 0, in_flight: 0, measuring_since: None, stopped: false }
    }

    /// What to do at `now`. Call again after each [`Step::Start`].
    pub fn poll(&mut self, now: Tick) -> Step {
        loop {
            let due_at = match &self.arrivals {
                Arriving::Closed { free_since } => free_since.front().map(|&since| since.min(now)),
                Arriving::Open(schedule) => Some(schedule.next_due),
            };
            if self.stopped || self.is_over(due_at.unwrap_or(now)) {
                self.stopped = true;
                return if self.in_flight == 0 { Step::Finished } else { Step::WaitForCompletion };
            }
            let Some(due_at) = due_at else {
                // No slot is free and none is busy: this share has none.
                return if self.in_flight == 0 { Step::Finished } else { Step::WaitForCompletion };
            };
            if due_at > now {
                return Step::WaitUntil(due_at);
            }
            if let Some(start) = self.take(due_at) {
                return Step::Start(start);
            }
        }
    }

    /// Tells the plan that a request it started has ended, well or not.
    pub fn completed(&mut self, now: Tick) {
        self.in_flight = self.in_flight.checked_sub(1).expect("only started requests complete");
        if let Arriving::Closed { free_since } = &mut self.arrivals {
            free_since.push_back(now);
        }
    }

    /// Starts no more requests; those in flight still complete.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// Arrivals that were due and not sent because too many requests were in flight.
    pub fn forfeited(&self) -> u64 {
        match &self.arrivals {
            Arriving::Closed { .. } => 0,
            Arriving::Open(schedule) => schedule.forfeited,
        }
    }

    /// Requests started and not yet completed.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// The request that will be started next, unless the phase ends before: lets the driver prepare it.
    pub fn upcoming(&self) -> u64 {
        self.global_index(self.taken)
    }

    /// Takes the next request; `None` when its arrival is forfeited.
    fn take(&mut self, due_at: Tick) -> Option<Start> {
        let start = Start { index: self.upcoming(), due_at, warmup: self.taken < self.warmup };
        self.taken += 1;
        if !start.warmup && self.measuring_since.is_none() {
            self.measuring_since = Some(due_at);
        }
        match &mut self.arrivals {
            Arriving::Closed { free_since } => {
                free_since.pop_front();
            }
            Arriving::Open(schedule) => {
                schedule.skip(u64::from(self.share.of.max(1)));
                if self.in_flight >= schedule.in_flight_limit {
                    schedule.forfeited += 1;
                    return None;
                }
            }
        }
        self.in_flight += 1;
        Some(start)
    }

    fn is_over(&self, due_at: Tick) -> bool {
        match self.extent {
            Extent::Requests(n) => self.taken >= self.warmup + n,
            Extent::Duration(duration) => self.measuring_since.is_some_and(|since| due_at >= since + duration),
        }
    }

    fn global_index(&self, taken: u64) -> u64 {
        taken * u64::from(self.share.of.max(1)) + u64::from(self.share.worker)
    }
}

impl Schedule {
    /// Moves on by `n` arrivals.
    fn skip(&mut self, n: u64) {
        for _ in 0..n {
            let gap = match self.arrivals {
                Arrivals::Constant => self.mean_gap,
                Arrivals::Poisson => self.rng.exponential(self.mean_gap),
            };
            self.next_due += gap;
        }
    }
}

#[cfg(test)]
mod tests;
