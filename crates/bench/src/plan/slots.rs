//! Slots of a closed loop: constant, on a ramp, or one session each.
//!
//! Invariant: one request per slot at a time; slot and session numbers do not depend on the number of workers.

use super::Share;
use super::load::{Load, Think, ToolTimes};
use super::ramp::Ramp;
use std::collections::{BTreeMap, BTreeSet};
use tokrate_core::{Rng, Tick};

/// Which turn of which session a request is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Turn {
    /// Number of the session in its phase, from 0.
    pub session: u64,
    /// Number of the turn, from 0.
    pub turn: u32,
}

/// The slots of one share.
#[derive(Debug)]
pub(super) struct Slots {
    /// Slots that are free: from when on, and which.
    free: BTreeSet<(Tick, u32)>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Plain,
    Ramp { ramp: Ramp, start: Tick },
    Sessions(Sessions),
}

#[derive(Debug)]
struct Sessions {
    at_once: u32,
    turns: u32,
    think: Think,
    tools: Option<ToolTimes>,
    rng: Rng,
    /// Sessions with this number or above do not begin.
    end: u64,
    /// What each slot does next.
    next: BTreeMap<u32, Turn>,
}

impl Slots {
    /// The slots of a closed load; `None` for an open one. `sessions` bounds how many sessions there are in all.
    pub(super) fn of(load: &Load, share: Share, start: Tick, rng: &Rng, sessions: Option<u64>) -> Option<Slots> {
        let own = |slots: u32| (share.worker..slots).step_by(share.of.max(1) as usize);
        Some(match load {
            Load::Closed { concurrency } | Load::Batched { concurrency, .. } => {
                Slots { free: own(*concurrency).map(|slot| (start, slot)).collect(), kind: Kind::Plain }
            }
            Load::ClosedRamp { ramp } => {
                let opens = |slot| Some((start + ramp.slot(slot)?.0, slot));
                let slots = own(load.max_in_flight());
                Slots { free: slots.filter_map(opens).collect(), kind: Kind::Ramp { ramp: *ramp, start } }
            }
            Load::Sessions { sessions: at_once, turns, think, tools } => {
                let end = sessions.unwrap_or(u64::MAX);
                let slots: Vec<u32> = own(*at_once).filter(|slot| u64::from(*slot) < end).collect();
                let next = slots.iter().map(|&slot| (slot, Turn { session: u64::from(slot), turn: 0 })).collect();
                let (rng, turns) = (rng.child("think"), (*turns).max(1));
                Slots {
                    free: slots.into_iter().map(|slot| (start, slot)).collect(),
                    kind: Kind::Sessions(Sessions {
                        at_once: *at_once,
                        turns,
                        think: *think,
                        tools: *tools,
                        rng,
                        end,
                        next,
                    }),
                }
            }
            Load::Open { .. } | Load::OpenRamp { .. } | Load::Trace { .. } | Load::Agents { .. } => return None,
        })
    }

    /// The slot that has been free for longest or will be free first, and since when.
    pub(super) fn first(&self) -> Option<(Tick, u32)> {
        self.free.first().copied()
    }

    /// The slot's next turn, if it is in a session.
    pub(super) fn turn(&self, slot: u32) -> Option<Turn> {
        match &self.kind {
            Kind::Sessions(sessions) => sessions.next.get(&slot).copied(),
            Kind::Plain | Kind::Ramp { .. } => None,
        }
    }

    /// Takes the first slot.
    pub(super) fn take(&mut self) {
        self.free.pop_first();
    }

    /// A slot's request has ended at `now`. It is free again from `until` on (which is `now` unless it has to wait); a turn
    /// that is retried is not over.
    pub(super) fn release(&mut self, slot: u32, until: Tick, again: bool, answered: bool) {
        let free_at = match &mut self.kind {
            Kind::Plain => Some(until),
            Kind::Ramp { ramp, start } => {
                ramp.slot(slot).map(|(_, closes)| *start + closes).filter(|closes| until < *closes).map(|_| until)
            }
            Kind::Sessions(sessions) => sessions.go_on(slot, until, again, answered),
        };
        if let Some(free_at) = free_at {
            self.free.insert((free_at, slot));
        }
    }
}

impl Sessions {
    /// When the slot sends next; `None` if no session is left for it.
    fn go_on(&mut self, slot: u32, until: Tick, again: bool, answered: bool) -> Option<Tick> {
        let turn = self.next.get_mut(&slot)?;
        if again {
            return Some(until);
        }
        if answered && turn.turn + 1 < self.turns {
            turn.turn += 1;
            let tool = self.tools.filter(|tools| !turn.turn.is_multiple_of(tools.each + 1)).map(|tools| tools.time);
            let wait = tool.unwrap_or(self.think).draw(&mut self.rng.nth(turn.session).nth(u64::from(turn.turn)));
            return Some(until + wait);
        }
        *turn = Turn { session: turn.session + u64::from(self.at_once), turn: 0 };
        (turn.session < self.end).then_some(until)
    }
}
