//! Sessions of agents: steps that start when those that they wait for have ended, and the time of tools has passed.
//!
//! Invariant: a step starts once, after every step that it waits for was answered; a failed step ends its session, and what is in flight of
//! it still completes. Session numbers do not depend on the number of workers.

use super::Share;
use super::load::Beginning;
use super::slots::Turn;
use crate::agents::{AgentTrace, Step};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokrate_core::{Span, Tick};

/// The sessions of one share.
#[derive(Debug)]
pub(super) struct Agents {
    trace: Arc<AgentTrace>,
    beginning: Beginning,
    share: Share,
    /// Sessions with this number or above do not begin.
    end: u64,
    /// Steps that may start: from when on, and which.
    ready: BTreeSet<(Tick, Turn)>,
    running: BTreeMap<u64, Running>,
}

/// A session under way.
#[derive(Debug)]
struct Running {
    steps: Vec<Progress>,
    /// Steps that were not answered yet.
    left: usize,
    in_flight: u32,
    has_failed: bool,
}

/// A step of a session under way.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Steps that it still waits for.
    waits_for: u32,
    /// The last of those that have ended, with its end.
    released_by: Option<(Tick, u32)>,
    /// From when on it may start, if it has not started.
    ready_at: Option<Tick>,
}

impl Agents {
    pub(super) fn new(
        trace: &Arc<AgentTrace>,
        beginning: Beginning,
        share: Share,
        start: Tick,
        sessions: Option<u64>,
    ) -> Agents {
        let trace = Arc::clone(trace);
        let end = sessions.unwrap_or(trace.sessions.len() as u64);
        let mut agents = Agents { trace, beginning, share, end, ready: BTreeSet::new(), running: BTreeMap::new() };
        match beginning {
            Beginning::AtOnce(slots, _) => {
                for slot in agents.own(u64::from(slots)) {
                    agents.begin(slot, start);
                }
            }
            Beginning::OwnTimes(speed) => {
                for session in agents.own(end) {
                    let at = agents.trace.sessions[agents.recorded(session)].at;
                    let round = session / agents.trace.sessions.len() as u64;
                    debug_assert!(round == 0, "on its own times a trace runs once");
                    agents.begin(session, start + scaled(at, speed));
                }
            }
        }
        agents
    }

    /// The step that may start first: from when on.
    pub(super) fn first(&self) -> Option<Tick> {
        self.ready.first().map(|(at, _)| *at)
    }

    /// That step, the step whose end let it start, and the time of tools between them.
    pub(super) fn upcoming(&self) -> Option<(Tick, Turn, Option<u32>, Span)> {
        let &(at, turn) = self.ready.first()?;
        let released =
            self.running.get(&turn.session).and_then(|running| running.steps[turn.turn as usize].released_by);
        let wait = self.trace.steps_of(self.recorded(turn.session))[turn.turn as usize].wait;
        Some((at, turn, released.map(|(_, step)| step), scaled(wait, self.speed())))
    }

    /// Number of a step's prompt: steps of a session that is run again have other ones.
    pub(super) fn prompt(&self, turn: Turn) -> u64 {
        let round = turn.session / self.trace.sessions.len() as u64;
        let first = self.trace.sessions[self.recorded(turn.session)].steps.start;
        round * self.trace.steps.len() as u64 + u64::from(first) + u64::from(turn.turn)
    }

    /// The first step starts.
    pub(super) fn take(&mut self) {
        if let Some((_, turn)) = self.ready.pop_first()
            && let Some(running) = self.running.get_mut(&turn.session)
        {
            running.in_flight += 1;
            running.steps[turn.turn as usize].ready_at = None;
        }
    }

    /// A step has ended at `now`. One that is to be sent `again` may be from `until` on.
    pub(super) fn release(&mut self, turn: Turn, now: Tick, until: Tick, again: bool, answered: bool) {
        let recorded = self.recorded(turn.session);
        let Some(running) = self.running.get_mut(&turn.session) else { return };
        running.in_flight = running.in_flight.saturating_sub(1);
        if again && !running.has_failed {
            running.steps[turn.turn as usize].ready_at = Some(until);
            self.ready.insert((until, turn));
            return;
        }
        if answered && !running.has_failed {
            running.left -= 1;
            let speed = self.speed();
            let trace = Arc::clone(&self.trace);
            let first = trace.sessions[recorded].steps.start as usize;
            let running = self.running.get_mut(&turn.session).expect("it is under way");
            for &place in trace.followers.of_step(first + turn.turn as usize) {
                let step = &trace.steps[first + place as usize];
                let progress = &mut running.steps[place as usize];
                progress.waits_for -= 1;
                if progress.released_by.is_none_or(|(ended, _)| ended <= now) {
                    progress.released_by = Some((now, turn.turn));
                }
                if progress.waits_for == 0 {
                    let at = now + scaled(step.wait, speed);
                    progress.ready_at = Some(at);
                    self.ready.insert((at, Turn { session: turn.session, turn: place }));
                }
            }
        } else {
            running.has_failed = true;
            for (place, progress) in (0_u32..).zip(&running.steps) {
                if let Some(at) = progress.ready_at {
                    self.ready.remove(&(at, Turn { session: turn.session, turn: place }));
                }
            }
        }
        let is_over =
            self.running.get(&turn.session).is_some_and(|it| it.in_flight == 0 && (it.left == 0 || it.has_failed));
        if is_over {
            self.running.remove(&turn.session);
            if let Beginning::AtOnce(slots, _) = self.beginning {
                self.begin(turn.session + u64::from(slots), until);
            }
        }
    }

    /// Begins a session: its first steps may start.
    fn begin(&mut self, session: u64, at: Tick) {
        if session >= self.end {
            return;
        }
        let speed = self.speed();
        let steps = self.trace.steps_of(self.recorded(session));
        let progress = |step: &Step| Progress {
            waits_for: step.after.len() as u32,
            released_by: None,
            ready_at: step.after.is_empty().then(|| at + scaled(step.wait, speed)),
        };
        let running =
            Running { steps: steps.iter().map(progress).collect(), left: steps.len(), in_flight: 0, has_failed: false };
        let free = (0_u32..).zip(steps).filter(|(_, step)| step.after.is_empty());
        self.ready.extend(free.map(|(turn, step)| (at + scaled(step.wait, speed), Turn { session, turn })));
        self.running.insert(session, running);
    }

    /// Numbers below `all` that fall to this share.
    fn own(&self, all: u64) -> impl Iterator<Item = u64> + use<> {
        (u64::from(self.share.worker)..all).step_by(self.share.of.max(1) as usize)
    }

    /// The session of the trace that one of the run repeats.
    fn recorded(&self, session: u64) -> usize {
        (session % self.trace.sessions.len() as u64) as usize
    }

    /// How many times as fast tools and agents are than recorded.
    fn speed(&self) -> f64 {
        match self.beginning {
            Beginning::AtOnce(_, speed) | Beginning::OwnTimes(speed) => speed,
        }
    }
}

fn scaled(span: Span, speed: f64) -> Span {
    match speed {
        1.0 => span,
        speed => Span::from_nanos((span.as_nanos() as f64 / speed).round() as u64),
    }
}

#[cfg(test)]
mod tests;
