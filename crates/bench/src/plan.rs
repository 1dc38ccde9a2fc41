//! When requests start: closed and open loops, ramps, traces, sessions and agents as one state machine. Time and completions are
//! passed in.
//!
//! Invariant: due times of an open loop depend on start, shape and seed only, never on earlier responses.

mod agents;
mod arrivals;
mod backoff;
mod budget;
mod load;
mod ramp;
mod slots;

pub use backoff::{Outcome, Wait, held_back};
pub use budget::{Budget, Reservation, Worst};
pub use load::{Arrivals, Backoff, Beginning, Load, Think, ToolTimes};
pub use ramp::{Growth, Ramp};
pub use slots::Turn;

use agents::Agents;
use arrivals::Schedule;
use backoff::Waits;
use slots::Slots;
use tokrate_core::{Rng, Span, Tick};

/// When a phase stops starting requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// After this many measured requests (warm-up excluded).
    Requests(u64),
    /// After this time, from the first measured request.
    Duration(Span),
    /// After this many sessions, each run to its end.
    Sessions(u64),
}

/// One load level, as asked for.
#[derive(Clone, PartialEq, Debug)]
pub struct PhaseSpec {
    /// How requests arrive.
    pub load: Load,
    /// When to stop.
    pub extent: Extent,
    /// Warm-up requests, excluded from the distributions.
    pub warmup: u64,
    /// Reaction to 429 responses.
    pub backoff: Backoff,
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
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Start {
    /// Number of the request in its phase, from 0, warm-up included.
    pub index: u64,
    /// When the plan wanted it.
    pub due_at: Tick,
    /// Whether it belongs to the warm-up.
    pub warmup: bool,
    /// The slot that it takes; 0 in an open loop.
    pub slot: u32,
    /// Number of its prompt in its phase: its index, but for the turns of sessions.
    pub prompt: u64,
    /// Session and turn, in a multi-turn load; of agents the step of the session.
    pub turn: Option<Turn>,
    /// The step whose end let this one start, where steps wait for each other.
    pub released_by: Option<u32>,
    /// Time of tools between that end (or the session's beginning) and `due_at`.
    pub wait: Span,
}

/// A worker's share of a phase: every `of`-th request, starting with `worker`.
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
    pub(crate) fn part_of(self, whole: u64) -> u64 {
        let (of, worker) = (u64::from(self.of.max(1)), u64::from(self.worker));
        whole / of + u64::from(worker < whole % of)
    }
}

/// The state machine of one worker's share of a phase. Call [`Plan::poll`] until it waits; report every completion to it.
#[derive(Debug)]
pub struct Plan {
    extent: Extent,
    warmup: u64,
    backoff: Backoff,
    arrivals_state: ArrivalKind,
    turns: u64,
    share: Share,
    /// Requests taken from the schedule so far, of this share.
    taken: u64,
    in_flight: u32,
    waits: Waits,
    measuring_since: Option<Tick>,
    stopped: bool,
}

#[derive(Debug)]
enum ArrivalKind {
    Closed(Slots),
    Open(Open),
    Agents(Agents),
}

/// An open loop and the fate of its arrivals.
#[derive(Debug)]
struct Open {
    schedule: Schedule,
    in_flight_limit: u32,
    forfeited: u64,
    /// Arrivals due before this are not sent.
    held_until: Tick,
    withheld: u64,
    /// When the first arrival was due.
    first_due: Option<Tick>,
    /// How long after it arrivals are sent although nothing has been answered.
    answer_within: Option<Span>,
}

/// Requests in flight up to which an open loop sends although nothing is answered: as many that hang in a row end a run.
pub(crate) const MIN_UNANSWERED: u32 = 4;

impl Plan {
    /// A plan that starts at `start`; `rng` draws gaps and think times and must be the same for all shares.
    pub fn new(spec: &PhaseSpec, share: Share, start: Tick, rng: Rng) -> Plan {
        let sessions = match spec.extent {
            Extent::Sessions(sessions) => Some(sessions),
            Extent::Requests(_) | Extent::Duration(_) => None,
        };
        let arrivals_state = match (&spec.load, Slots::of(&spec.load, share, start, &rng, sessions)) {
            (Load::Agents { trace, beginning }, _) => {
                ArrivalKind::Agents(Agents::new(trace, *beginning, share, start, sessions))
            }
            (_, Some(slots)) => ArrivalKind::Closed(slots),
            (_, None) => {
                let mut schedule = Schedule::of(&spec.load, start, rng).expect("a load is closed or open");
                // Every share walks the whole schedule and takes its own arrivals, so that the arrivals of a run do
                // not depend on the number of workers.
                schedule.skip(u64::from(share.worker));
                let in_flight_limit = share.part_of(u64::from(spec.load.max_in_flight())) as u32;
                let held_until = Tick::ZERO;
                ArrivalKind::Open(Open {
                    schedule,
                    in_flight_limit,
                    forfeited: 0,
                    held_until,
                    withheld: 0,
                    first_due: None,
                    answer_within: None,
                })
            }
        };
        let extent = match spec.extent {
            Extent::Requests(n) => Extent::Requests(
                share.part_of(spec.warmup.saturating_add(n)).saturating_sub(share.part_of(spec.warmup)),
            ),
            other => other,
        };
        let turns = match spec.load {
            Load::Sessions { turns, .. } => u64::from(turns.max(1)),
            _ => 1,
        };
        Plan {
            extent,
            warmup: share.part_of(spec.warmup),
            backoff: spec.backoff,
            arrivals_state,
            turns,
            share,
            taken: 0,
            in_flight: 0,
            waits: Waits::default(),
            measuring_since: None,
            stopped: false,
        }
    }

    /// What to do at `now`. Call again after each [`Step::Start`].
    pub fn poll(&mut self, now: Tick) -> Step {
        loop {
            let next = match &self.arrivals_state {
                ArrivalKind::Closed(slots) => slots.first().map(|(since, _)| since),
                ArrivalKind::Open(open) => open.schedule.next_due(),
                ArrivalKind::Agents(agents) => agents.first(),
            };
            let waiting = if self.in_flight == 0 { Step::Finished } else { Step::WaitForCompletion };
            let Some(due_at) = next.filter(|_| !self.stopped) else {
                return waiting;
            };
            if self.is_over(due_at) {
                // A slot that waits beyond the end does not affect the busy ones.
                self.stopped |=
                    due_at <= now || self.in_flight == 0 || matches!(self.arrivals_state, ArrivalKind::Open(_));
                return waiting;
            }
            if due_at > now {
                return Step::WaitUntil(due_at);
            }
            if let Some(start) = self.take(due_at) {
                return Step::Start(start);
            }
        }
    }

    /// Tells the plan that a request it started has ended, and how.
    pub fn completed(&mut self, start: &Start, now: Tick, outcome: Outcome) {
        self.in_flight = self.in_flight.checked_sub(1).expect("only started requests complete");
        let outcome = match (self.backoff, outcome) {
            (Backoff::Ignore, Outcome::RateLimited { .. }) => Outcome::Failed,
            _ => outcome,
        };
        let refused = matches!(outcome, Outcome::RateLimited { .. });
        match &mut self.arrivals_state {
            ArrivalKind::Closed(slots) => {
                let wait = self.waits.after(start.slot, now, outcome);
                slots.release(start.slot, now + wait, refused, outcome == Outcome::Answered);
            }
            ArrivalKind::Agents(agents) => {
                let wait = self.waits.after(start.slot, now, outcome);
                if let Some(turn) = start.turn {
                    agents.release(turn, now, now + wait, refused, outcome == Outcome::Answered);
                }
            }
            ArrivalKind::Open(open) => {
                // Several 429 responses at one moment count once: only a longer wait extends the backoff.
                let news = now >= open.held_until || matches!(outcome, Outcome::RateLimited { retry_after: Some(_) });
                if news {
                    let wait = self.waits.after(0, now, outcome);
                    // Without backoff nothing is withheld: an arrival that is polled late is still sent.
                    if !wait.is_zero() {
                        open.held_until = open.held_until.max(now + wait);
                    }
                }
            }
        }
    }

    /// Takes back a request that was handed out and not sent, and starts no more.
    pub fn withdraw(&mut self) {
        self.in_flight = self.in_flight.checked_sub(1).expect("only started requests are taken back");
        self.stopped = true;
    }

    /// Withholds arrivals of an open loop until then, because another share received `Retry-After`.
    pub fn hold_until(&mut self, tick: Tick) {
        if let ArrivalKind::Open(open) = &mut self.arrivals_state {
            open.held_until = open.held_until.max(tick);
        }
    }

    /// Forfeits arrivals of an open loop that are due later than this after its first as long as nothing was answered: whoever does not
    /// answer at all is not sent a request for each second of a time limit.
    pub fn expect_answer_within(&mut self, time: Span) {
        if let ArrivalKind::Open(open) = &mut self.arrivals_state {
            open.answer_within = Some(time);
        }
    }

    /// Something was answered, if only an error.
    pub fn answered(&mut self) {
        if let ArrivalKind::Open(open) = &mut self.arrivals_state {
            open.answer_within = None;
        }
    }

    /// Until when an open loop sends nothing.
    pub fn held_until(&self) -> Option<Tick> {
        match &self.arrivals_state {
            ArrivalKind::Open(open) => Some(open.held_until).filter(|until| *until > Tick::ZERO),
            ArrivalKind::Closed(_) | ArrivalKind::Agents(_) => None,
        }
    }

    /// Starts no more requests; those in flight still complete.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// Arrivals that were due and not sent because too many requests were in flight.
    pub fn forfeited(&self) -> u64 {
        match &self.arrivals_state {
            ArrivalKind::Closed(_) | ArrivalKind::Agents(_) => 0,
            ArrivalKind::Open(open) => open.forfeited,
        }
    }

    /// Arrivals that were due and not sent because the provider had asked to wait.
    pub fn withheld(&self) -> u64 {
        match &self.arrivals_state {
            ArrivalKind::Closed(_) | ArrivalKind::Agents(_) => 0,
            ArrivalKind::Open(open) => open.withheld,
        }
    }

    /// Backoff waits so far.
    pub fn waits(&self) -> &[Wait] {
        self.waits.kept()
    }

    /// Requests started and not yet completed.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// The request that starts next unless the phase ends before, so that the driver can prepare it.
    pub fn upcoming(&self) -> Start {
        let index = self.taken * u64::from(self.share.of.max(1)) + u64::from(self.share.worker);
        let warmup = self.taken < self.warmup;
        match &self.arrivals_state {
            ArrivalKind::Closed(slots) => {
                let (due_at, slot) = slots.first().unwrap_or_default();
                let turn = slots.turn(slot);
                let prompt = turn.map_or(index, |turn| turn.session * self.turns + u64::from(turn.turn));
                Start { index, due_at, warmup, slot, prompt, turn, released_by: None, wait: Span::ZERO }
            }
            ArrivalKind::Open(open) => {
                let due_at = open.schedule.next_due().unwrap_or_default();
                Start { index, due_at, warmup, slot: 0, prompt: index, turn: None, released_by: None, wait: Span::ZERO }
            }
            ArrivalKind::Agents(agents) => {
                let Some((due_at, turn, released_by, wait)) = agents.upcoming() else {
                    return Start {
                        index,
                        due_at: Tick::ZERO,
                        warmup,
                        slot: 0,
                        prompt: 0,
                        turn: None,
                        released_by: None,
                        wait: Span::ZERO,
                    };
                };
                let (slot, prompt) = (turn.session as u32, agents.prompt(turn));
                Start { index, due_at, warmup, slot, prompt, turn: Some(turn), released_by, wait }
            }
        }
    }

    /// Takes the next request; `None` when its arrival is forfeited or withheld.
    fn take(&mut self, due_at: Tick) -> Option<Start> {
        let start = Start { due_at, ..self.upcoming() };
        self.taken += 1;
        if !start.warmup && self.measuring_since.is_none() {
            self.measuring_since = Some(due_at);
        }
        match &mut self.arrivals_state {
            ArrivalKind::Closed(slots) => slots.take(),
            ArrivalKind::Agents(agents) => agents.take(),
            ArrivalKind::Open(open) => {
                open.schedule.skip(u64::from(self.share.of.max(1)));
                if due_at < open.held_until {
                    open.withheld += 1;
                    return None;
                }
                let first_due = *open.first_due.get_or_insert(due_at);
                let is_unanswered = self.in_flight >= MIN_UNANSWERED
                    && open.answer_within.is_some_and(|time| due_at > first_due + time);
                if is_unanswered || self.in_flight >= open.in_flight_limit {
                    open.forfeited += 1;
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
            Extent::Sessions(_) => false,
        }
    }
}

#[cfg(test)]
mod tests;
