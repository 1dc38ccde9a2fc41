//! What sessions on WebSockets use of their key's limits while they last, and what they cost.
//!
//! Invariant: every response counts, with its tokens and, beyond the first, as a request; what cannot be priced by its tokens costs the
//! lane's fee for a session, which is what was reserved.

use super::account::Account;
use super::attempt_cost::AttemptCost;
use crate::admission::calendar::month_of;
use crate::api::Meter;
use crate::state::lock::locked;
use crate::state::plan::Lane;
use crate::upstream::attempt::Attempt;
use crate::upstream::session::SessionNumbers;
use tokrate_core::Money;
use tokrate_record::CostBasis;
use tokrate_route::{LimitKind, ReservationRequest};

impl Account {
    /// Counts a response that has begun as a request of its key; the first is that of the session itself.
    ///
    /// # Errors
    /// The limit that it has reached.
    pub fn count_response(&self, number: u32) -> Result<(), LimitKind> {
        let Some(key) = self.key().filter(|_| number > 1) else { return Ok(()) };
        locked(&key.meter).count_request(self.shared.clock.now()).map_err(|refused| refused.limit)
    }

    /// Counts the tokens of a response that has ended.
    ///
    /// # Errors
    /// The limit that is used up.
    pub fn count_session_tokens(&self, tokens: u64) -> Result<(), LimitKind> {
        let Some(key) = self.key() else { return Ok(()) };
        let (now, month) = (self.shared.clock.now(), month_of(self.shared.clock.wall_seconds()));
        let mut meter = locked(&key.meter);
        let reservation = meter.reserve(now, month, ReservationRequest::default()).map_err(|refused| refused.limit)?;
        meter.settle(now, reservation, tokens, Money::ZERO);
        meter.has_tokens(now).then_some(()).ok_or(LimitKind::Tokens)
    }

    /// Whether the key of a session has limits that its responses count against.
    pub fn is_session_metered(&self) -> bool {
        self.key().is_some_and(|key| {
            let limits = key.config.limits;
            limits.requests_per_minute.is_some() || limits.tokens_per_minute.is_some() || limits.usd_per_month.is_some()
        })
    }

    /// Whether a session has used what was reserved for it.
    pub fn is_fee_used_up(&self, lane: &Lane, numbers: &SessionNumbers) -> bool {
        let Some((Meter::Session, service)) = self.request.api().map(|api| (api.meter, api.service)) else {
            return false;
        };
        let most = session_at_most(lane, service).filter(|most| *most > Money::ZERO && self.needs_prices());
        let next = response_at_most(lane).unwrap_or_default();
        most.zip(priced(lane, numbers)).is_some_and(|(most, cost)| cost >= most || cost.saturating_add(next) > most)
    }

    /// What a session cost.
    pub(super) fn cost_of_session(&self, attempt: &Attempt) -> AttemptCost {
        let lane = &attempt.lane;
        let fee = self.request.api().and_then(|api| lane.config.services.fee(api.service));
        let free = AttemptCost { amount: Some(Money::ZERO), basis: CostBasis::Free };
        let body = attempt.body.borrow();
        let is_refused = body.answer.head().is_some_and(|head| head.status != http::StatusCode::SWITCHING_PROTOCOLS);
        if is_refused || body.sent_at().is_none() {
            return free;
        }
        let by_fee = || match fee {
            Some(fee) => AttemptCost { amount: Some(fee), basis: CostBasis::Estimated },
            None => AttemptCost { amount: None, basis: CostBasis::Unknown },
        };
        match attempt.session() {
            // Nobody bills an open line.
            Some(numbers) if numbers.responses == 0 && !numbers.has_unreported && numbers.usage.billed().is_none() => {
                free
            }
            Some(numbers) if !numbers.has_unreported => match priced(lane, numbers) {
                Some(cost) => AttemptCost { amount: Some(cost), basis: CostBasis::Reported },
                None => by_fee(),
            },
            _ => by_fee(),
        }
    }
}

/// What is reserved for a session: the fee, and no less than its first response may cost.
pub(crate) fn session_at_most(lane: &Lane, service: &str) -> Option<Money> {
    let fee = lane.config.services.fee(service)?;
    Some(response_at_most(lane).map_or(fee, |response| fee.max(response)))
}

/// The most that one response costs, on a lane whose settings say how long prompts and answers are.
fn response_at_most(lane: &Lane) -> Option<Money> {
    let limits = lane.config.token_limits;
    Some(lane.config.full_price()?.cost_at_most_with_audio(limits.input?, limits.output?))
}

/// The cost by tokens; `None` where there are tokens of another price.
fn priced(lane: &Lane, numbers: &SessionNumbers) -> Option<Money> {
    let price = lane.config.full_price().filter(|_| !numbers.has_pictures)?;
    price.cost_with_audio(numbers.usage.billed()?, numbers.audio)
}
