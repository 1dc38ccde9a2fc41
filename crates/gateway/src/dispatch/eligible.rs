//! The lanes that can carry a call, and whether one of them may be asked now.

use crate::settle::account::Account;
use crate::state::lock::locked;
use tokrate_core::Tick;
use tokrate_route::{InFlightAttempt, LaneId, Role};

/// The lanes that can carry a call, in the order of the race's candidates.
#[derive(Default)]
pub(crate) struct EligibleLanes {
    pub ids: Vec<LaneId>,
    pub endpoints: Vec<usize>,
}

impl EligibleLanes {
    /// Each lane with its endpoint.
    pub fn in_order(&self) -> impl Iterator<Item = (LaneId, usize)> {
        self.ids.iter().copied().zip(self.endpoints.iter().copied())
    }

    /// The lane, if there is only one: no other could make up for its refusal.
    pub fn only(&self) -> Option<LaneId> {
        match *self.ids {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Whether a lane may be asked now. One whose breaker is open may be if no other is left that could be asked instead: an attempt
    /// that fails is no worse for the client than none.
    pub fn allows(&self, account: &Account, is_tried: impl Fn(LaneId) -> bool, lane: LaneId, role: Role) -> bool {
        let now = account.shared.clock.now();
        let router = locked(&account.plan.router);
        if router.allows(lane, now) {
            return true;
        }
        let is_needed = matches!(role, Role::First | Role::Failover);
        is_needed
            && router.allows_as_last_resort(lane, now)
            && self.ids.iter().filter(|id| !is_tried(**id)).all(|id| !router.allows(*id, now))
    }
}

/// Tells the router of an attempt that begins.
pub(crate) fn begin_at(account: &Account, lane: LaneId, now: Tick) -> InFlightAttempt {
    let mut router = locked(&account.plan.router);
    let mut started = router.start(lane, now);
    if let Some(prompt) = &account.prompt_blocks {
        router.send_prompt(&mut started, now, prompt);
    }
    started
}
