//! Cost budget: money spent, money reserved by requests in flight, and whether another request fits.
//!
//! Invariant: every request reserves its worst case before it starts, so spent + reserved stays within the limit; amounts are exact.

use tokrate_core::{Money, Span};
use tokrate_record::{Billed, MediaAmounts, TargetPrice};

/// A limit on what a run may cost, and how much of it is used.
#[derive(Clone, PartialEq, Debug)]
pub struct Budget {
    limit: Money,
    spent: Money,
    reserved: Money,
    /// The most that input tokens as billed exceeded input tokens as counted: tokenizers differ, and templates add some.
    input_ratio: f64,
    /// The most that sound which was made was longer than had been expected.
    sound_ratio: f64,
    exhausted: bool,
}

/// The most that a request may come to, before it has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Worst {
    /// Tokens of its prompt as they were counted, images and sound left out.
    pub input_tokens: u64,
    /// Output tokens that it asks for.
    pub output_tokens: u64,
    /// Images and sound.
    pub media: MediaAmounts,
}

/// The reserved worst-case cost of one request; returned when it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reservation(Money);

impl Budget {
    /// A new budget of this many dollars; none limits more than the largest amount there is.
    pub fn new(limit_usd: f64) -> Budget {
        let limit = Money::from_usd(limit_usd).unwrap_or(Money::MAX);
        Budget {
            limit,
            spent: Money::ZERO,
            reserved: Money::ZERO,
            input_ratio: 1.0,
            sound_ratio: 1.0,
            exhausted: false,
        }
    }

    /// The most that a request may cost by what is known so far: its input uncached, and all that it may bring back.
    pub fn cost_at_most(&self, price: &TargetPrice, worst: &Worst) -> Money {
        let (input_media, output_media) = price.media.tokens(&worst.media);
        let input = ((worst.input_tokens + input_media) as f64 * self.input_ratio).ceil() as u64;
        let output = worst.output_tokens + output_media;
        let media = MediaAmounts {
            sound_out: Span::from_secs_f64(worst.media.sound_out.as_secs_f64() * self.sound_ratio),
            ..worst.media
        };
        price.cost_at_most(input, output, &media)
    }

    /// Reserves the most that a request may cost. `None` if that exceeds the limit; the budget is exhausted then.
    pub fn reserve(&mut self, price: &TargetPrice, worst: &Worst) -> Option<Reservation> {
        let worst = self.cost_at_most(price, worst);
        if self.exhausted || self.spent.saturating_add(self.reserved).saturating_add(worst) > self.limit {
            self.exhausted = true;
            return None;
        }
        self.reserved = self.reserved.saturating_add(worst);
        Some(Reservation(worst))
    }

    /// Replaces a reservation by the billed cost; `asked` is what was reserved.
    pub fn settle(&mut self, price: &TargetPrice, reservation: Reservation, asked: &Worst, billed: &Billed) {
        self.reserved = self.reserved.saturating_sub(reservation.0);
        self.spent = self.spent.saturating_add(billed.cost(price));
        let counted = asked.input_tokens + price.media.tokens(&asked.media).0;
        if counted > 0 {
            self.input_ratio = self.input_ratio.max(billed.input as f64 / counted as f64);
        }
        let expected = asked.media.sound_out.as_secs_f64();
        if expected > 0.0 {
            self.sound_ratio = self.sound_ratio.max(billed.media.sound_out.as_secs_f64() / expected);
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
    use tokrate_core::Price;
    use tokrate_record::{MediaKind, MediaPrice};

    fn price() -> TargetPrice {
        let price = Price::from_usd_per_million(1.0, 4.0).expect("a price");
        let price = Price { cached_input: Money::from_usd(0.1), ..price };
        TargetPrice::of_tokens(price, "", "")
    }

    fn tokens(input_tokens: u64, output_tokens: u64) -> Worst {
        Worst { input_tokens, output_tokens, media: MediaAmounts::default() }
    }

    fn billed(input: u64, cached: u64, output: u64) -> Billed {
        Billed { input, cached, output, reported: true, media: MediaAmounts::default() }
    }

    #[test]
    fn images_and_sound_are_reserved_by_the_item_by_the_minute_and_in_tokens() {
        let mut price = price();
        let usd = |usd| MediaPrice::Each(Money::from_usd(usd).expect("an amount"));
        price.media.set(MediaKind::ImageOut, usd(0.04));
        price.media.set(MediaKind::MinuteIn, usd(0.006));
        price.media.set(MediaKind::MinuteOut, usd(0.6));
        price.media.set(MediaKind::ImageIn, MediaPrice::InTokens);
        let asked = |media| Worst { media, ..Worst::default() };
        let made = asked(MediaAmounts { images_out: 2, ..MediaAmounts::default() });
        let mut budget = Budget::new(0.1);
        let reservation = budget.reserve(&price, &made).expect("0.08 of 0.1");
        assert_eq!(budget.clone().reserve(&price, &made), None, "another two are 0.16");
        // One of them came.
        let came = MediaAmounts { images_out: 1, ..MediaAmounts::default() };
        budget.settle(&price, reservation, &made, &Billed { media: came, ..billed(0, 0, 0) });
        assert!((budget.spent_usd() - 0.04).abs() < 1e-12, "{}", budget.spent_usd());
        let heard = asked(MediaAmounts { sound_in: Span::from_secs(601), ..MediaAmounts::default() });
        assert_eq!(budget.clone().reserve(&price, &heard), None, "ten minutes are all that is left");
        // 10,000 tokens of pictures are a cent, and are billed as three.
        let seen = asked(MediaAmounts { images_in: 1, pixels_in: 7_500_000, ..MediaAmounts::default() });
        let reservation = budget.reserve(&price, &seen).expect("a cent");
        budget.settle(&price, reservation, &seen, &billed(30_000, 0, 0));
        assert!(budget.clone().reserve(&price, &seen).is_some(), "three of three are left");
        // A second of sound was expected, and five came.
        let said = asked(MediaAmounts { sound_out: Span::from_secs(1), ..MediaAmounts::default() });
        let mut budget = Budget::new(0.11);
        let reservation = budget.reserve(&price, &said).expect("a cent");
        let long = MediaAmounts { sound_out: Span::from_secs(5), ..MediaAmounts::default() };
        budget.settle(&price, reservation, &said, &Billed { media: long, ..billed(0, 0, 0) });
        assert!(budget.reserve(&price, &said).is_some(), "five more cents");
        assert_eq!(budget.reserve(&price, &said), None);
    }

    #[test]
    fn prompts_that_are_billed_longer_than_they_were_counted_are_claimed_so() {
        let mut budget = Budget::new(0.01);
        let reservation = budget.reserve(&price(), &tokens(1000, 0)).expect("fits");
        budget.settle(&price(), reservation, &tokens(1000, 0), &billed(1500, 0, 0));
        assert!((budget.spent_usd() - 0.0015).abs() < 1e-12);
        assert_eq!(
            budget.reserve(&price(), &tokens(6000, 0)),
            None,
            "9,000 tokens would be billed, and 8,500 are left"
        );
    }

    #[test]
    fn a_request_that_may_cost_too_much_is_not_started_and_none_after_it() {
        // Each may cost 1000 + 4 * 1000 millionths of a dollar.
        let mut budget = Budget::new(0.0149);
        let first = budget.reserve(&price(), &tokens(1000, 1000)).expect("fits");
        let second = budget.reserve(&price(), &tokens(1000, 1000)).expect("fits");
        assert_eq!(budget.reserve(&price(), &tokens(1000, 1000)), None, "0.015 is over 0.0149");
        budget.settle(&price(), first, &tokens(1000, 1000), &billed(1000, 0, 10));
        assert!(budget.is_exhausted() && budget.reserve(&price(), &tokens(1, 1)).is_none(), "stopped is stopped");
        budget.settle(&price(), second, &tokens(1000, 1000), &billed(1000, 1000, 0));
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
                if let Some(reservation) = budget.reserve(&price(), &tokens(input, output)) {
                    open.push((reservation, input, output * share / 100));
                }
                if open.len() > 3 {
                    let (reservation, input, output) = open.remove(0);
                    budget.settle(&price(), reservation, &tokens(input, output), &billed(input, 0, output));
                }
            }
            for (reservation, input, output) in open {
                budget.settle(&price(), reservation, &tokens(input, output), &billed(input, 0, output));
            }
            prop_assert!(budget.spent_usd() <= limit + 1e-9);
        }
    }
}
