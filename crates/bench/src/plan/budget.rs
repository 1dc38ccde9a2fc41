//! Cost budget: money spent, money reserved by requests in flight, and whether another request fits.
//!
//! Invariant: every request reserves its worst case before it starts, so spent + reserved stays within the limit; amounts are exact.

use tokrate_core::{BilledTokens, Money, Price};
use tokrate_record::Billed;

/// A limit on what a run may cost, and how much of it is used.
#[derive(Clone, PartialEq, Debug)]
pub struct Budget {
    limit: Money,
    spent: Money,
    reserved: Money,
    /// The most that input tokens as billed exceeded input tokens as counted: tokenizers differ, and templates add some.
    input_ratio: f64,
    exhausted: bool,
}

/// The reserved worst-case cost of one request; returned when it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reservation(Money);

impl Budget {
    /// A new budget of this many dollars; none limits more than the largest amount there is.
    pub fn new(limit_usd: f64) -> Budget {
        let limit = Money::from_usd(limit_usd).unwrap_or(Money::MAX);
        Budget { limit, spent: Money::ZERO, reserved: Money::ZERO, input_ratio: 1.0, exhausted: false }
    }

    /// Reserves the worst case of a request: its input uncached, and its full output limit. `None` if that
    /// exceeds the limit; the budget is exhausted then.
    pub fn reserve(&mut self, price: &Price, input_tokens: u64, output_tokens: u64) -> Option<Reservation> {
        let input = (input_tokens as f64 * self.input_ratio).ceil() as u64;
        let worst = price.cost(BilledTokens { input, output: output_tokens, ..BilledTokens::default() });
        if self.exhausted || self.spent.saturating_add(self.reserved).saturating_add(worst) > self.limit {
            self.exhausted = true;
            return None;
        }
        self.reserved = self.reserved.saturating_add(worst);
        Some(Reservation(worst))
    }

    /// Replaces a reservation by the billed cost; `asked` is the counted length of the prompt.
    pub fn settle(&mut self, price: &Price, reservation: Reservation, asked: u64, billed: &Billed) {
        self.reserved = self.reserved.saturating_sub(reservation.0);
        self.spent = self.spent.saturating_add(price.cost(billed.tokens()));
        if asked > 0 {
            self.input_ratio = self.input_ratio.max(billed.input as f64 / asked as f64);
        }
    }

    /// Spent so far.
    pub fn spent(&self) -> Money {
        self.spent
    }

    /// Spent so far (USD).
    pub fn spent_usd(&self) -> f64 {
        self.spent.as_usd()
    }

    /// The most that may be spent (USD).
    pub fn limit_usd(&self) -> f64 {
        self.limit.as_usd()
    }

    /// Whether a request exceeded the budget.
    pub fn is_exhausted(&self) -> bool {
        self.exhausted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, proptest};

    fn price() -> Price {
        let price = Price::from_usd_per_million(1.0, 4.0).expect("a price");
        Price { cached_input: Money::from_usd(0.1), ..price }
    }

    fn billed(input: u64, cached: u64, output: u64) -> Billed {
        Billed { input, cached, output, reported: true }
    }

    #[test]
    fn prompts_that_are_billed_longer_than_they_were_counted_are_claimed_so() {
        let mut budget = Budget::new(0.01);
        let reservation = budget.reserve(&price(), 1000, 0).expect("fits");
        budget.settle(&price(), reservation, 1000, &billed(1500, 0, 0));
        assert!((budget.spent_usd() - 0.0015).abs() < 1e-12);
        assert_eq!(budget.reserve(&price(), 6000, 0), None, "9,000 tokens would be billed, and 8,500 are left");
    }

    #[test]
    fn a_request_that_may_cost_too_much_is_not_started_and_none_after_it() {
        // Each may cost 1000 + 4 * 1000 millionths of a dollar.
        let mut budget = Budget::new(0.0149);
        let first = budget.reserve(&price(), 1000, 1000).expect("fits");
        let second = budget.reserve(&price(), 1000, 1000).expect("fits");
        assert_eq!(budget.reserve(&price(), 1000, 1000), None, "0.015 is over 0.0149");
        budget.settle(&price(), first, 1000, &billed(1000, 0, 10));
        assert!(budget.is_exhausted() && budget.reserve(&price(), 1, 1).is_none(), "stopped is stopped");
        budget.settle(&price(), second, 1000, &billed(1000, 1000, 0));
        assert!((budget.spent_usd() - (0.00104 + 0.0001)).abs() < 1e-12, "{}", budget.spent_usd());
    }

    proptest! {
        #[test]
        fn nothing_is_overspent_while_requests_use_what_they_claim_at_most(
            limit in 0.0f64..0.1, requests in proptest::collection::vec((0u64..5000, 0u64..5000, 0u64..101), 0..60),
        ) {
            let mut budget = Budget::new(limit);
            let mut open = Vec::new();
            for (input, output, share) in requests {
                if let Some(reservation) = budget.reserve(&price(), input, output) {
                    open.push((reservation, input, output * share / 100));
                }
                if open.len() > 3 {
                    let (reservation, input, output) = open.remove(0);
                    budget.settle(&price(), reservation, input, &billed(input, 0, output));
                }
            }
            for (reservation, input, output) in open {
                budget.settle(&price(), reservation, input, &billed(input, 0, output));
            }
            prop_assert!(budget.spent_usd() <= limit + 1e-9);
        }
    }
}
