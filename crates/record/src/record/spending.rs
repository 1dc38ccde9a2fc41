//! Cost of requests, from reported usage, else from counted tokens.
//!
//! Invariant: a rejected request costs nothing; an accepted one costs at least its input, however the answer ended.

use super::media_price::MediaAmounts;
use super::price::TargetPrice;
use serde::{Deserialize, Serialize};
use tokrate_core::{BilledTokens, FailureKind, Money};
use tokrate_meter::request::{RequestNumbers, RequestTrace};

/// What a run has cost.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spending {
    /// All of it (USD).
    pub usd: f64,
    /// The most that it was allowed to be (USD); absent without a limit.
    pub limit_usd: Option<f64>,
    /// Input tokens that were paid for.
    pub input_tokens: u64,
    /// Those of them that came from a cache.
    pub cached_input_tokens: u64,
    /// Output tokens that were paid for.
    pub output_tokens: u64,
    /// Requests whose tokens the provider reported.
    pub requests_reported: u64,
    /// Requests whose tokens were counted; the billed count may differ.
    pub requests_counted: u64,
}

/// The tokens of one request that are paid for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Billed {
    /// Input tokens.
    pub input: u64,
    /// Those of them that came from a cache.
    pub cached: u64,
    /// Output tokens.
    pub output: u64,
    /// Images and sound, as far as they are paid for by themselves.
    pub media: MediaAmounts,
    /// Whether the provider reported the tokens.
    pub reported: bool,
}

impl Billed {
    /// Of a request that has just ended. `asked` is the length of its prompt, `counted` that of its answer, `media` what was asked of it.
    pub fn of_trace(trace: &RequestTrace, asked: u64, counted: u64, media: MediaAmounts) -> Billed {
        let usage = trace.usage.unwrap_or_default();
        let kind = trace.failure.as_ref().map(|failure| failure.kind);
        let reported = (usage.input, usage.cached_input, usage.output);
        Billed::of(kind, reported, (asked, counted), media.with_answer(trace))
    }

    /// Of a request whose numbers are known; its images are those that were made, or those that were sent.
    pub fn of_row(row: &RequestNumbers, makes_images: bool) -> Billed {
        let reported = (row.input_reported, row.cached_input_reported, row.tokens_reported);
        let counted = (row.input_asked.unwrap_or(0), row.tokens_std);
        Billed::of(row.failure_kind(), reported, counted, MediaAmounts::of_row(row, makes_images))
    }

    /// What is paid for it.
    pub fn cost(&self, price: &TargetPrice) -> Money {
        price.price.cost(self.tokens()).saturating_add(price.media.cost(&self.media))
    }

    /// As they are priced. Writes to a cache are not separate.
    pub fn tokens(&self) -> BilledTokens {
        BilledTokens { input: self.input, cached_input: self.cached, cache_write: 0, output: self.output }
    }

    fn of(
        failure: Option<FailureKind>,
        (input, cached, output): (Option<u64>, Option<u64>, Option<u64>),
        (asked, counted): (u64, u64),
        media: MediaAmounts,
    ) -> Billed {
        if failure.is_some_and(is_refusal) {
            return Billed::default();
        }
        Billed {
            input: input.unwrap_or(asked),
            cached: cached.unwrap_or(0),
            output: output.unwrap_or(counted),
            media,
            reported: input.is_some() && output.is_some(),
        }
    }
}

impl Spending {
    /// Adds what one request cost.
    pub fn add(&mut self, price: &TargetPrice, billed: &Billed) {
        self.usd += billed.cost(price).as_usd();
        self.input_tokens += billed.input;
        self.cached_input_tokens += billed.cached;
        self.output_tokens += billed.output;
        if billed.reported {
            self.requests_reported += 1;
        } else if billed.input > 0 {
            self.requests_counted += 1;
        }
    }
}

/// Whether the provider did nothing for the request.
fn is_refusal(kind: FailureKind) -> bool {
    use FailureKind as K;
    matches!(
        kind,
        K::Dns
            | K::Connect
            | K::ConnectTimeout
            | K::Tls
            | K::Proxy
            | K::Unauthorized
            | K::NotFound
            | K::BadRequest
            | K::EditRefused
            | K::RateLimited
            | K::Overloaded
            | K::ServerError
            | K::UnexpectedStatus
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::media_price::{MediaKind, MediaPrice};
    use tokrate_core::{EventKind, Price, Usage};
    use tokrate_meter::fixtures::{RequestBuilder, numbers};

    fn listed(price: Price) -> TargetPrice {
        TargetPrice::of_tokens(price, "", "")
    }

    fn of(
        failure: Option<FailureKind>,
        reported: (Option<u64>, Option<u64>, Option<u64>),
        counted: (u64, u64),
    ) -> Billed {
        Billed::of(failure, reported, counted, MediaAmounts::default())
    }

    fn tokens(input: u64, cached: u64, output: u64, reported: bool) -> Billed {
        Billed { input, cached, output, reported, media: MediaAmounts::default() }
    }

    #[test]
    fn images_and_sound_are_paid_beside_tokens_unless_the_request_was_refused() {
        let mut price = listed(Price::from_usd_per_million(1.0, 10.0).expect("a price"));
        price.media.set(MediaKind::ImageIn, MediaPrice::Each(Money::from_usd(0.01).expect("an amount")));
        let media = MediaAmounts { images_in: 2, ..MediaAmounts::default() };
        let billed = |failure| Billed::of(failure, (Some(1000), None, Some(50)), (0, 0), media);
        let mut spending = Spending::default();
        spending.add(&price, &billed(None));
        assert!((spending.usd - 0.0215).abs() < 1e-12, "{spending:?}");
        spending.add(&price, &billed(Some(FailureKind::RateLimited)));
        assert!((spending.usd - 0.0215).abs() < 1e-12, "{spending:?}");
    }

    #[test]
    fn reported_tokens_are_billed_else_counted_ones_and_rejections_cost_nothing() {
        let price = Price::from_usd_per_million(1.0, 10.0).expect("a price");
        let price = listed(Price { cached_input: Money::from_usd(0.5), ..price });
        let mut spending = Spending::default();
        spending.add(&price, &of(None, (Some(1000), Some(400), Some(50)), (990, 48)));
        assert!((spending.usd - (600.0 + 200.0 + 500.0) / 1e6).abs() < 1e-12, "{spending:?}");
        spending.add(&price, &of(Some(FailureKind::Stalled), (None, None, None), (100, 7)));
        assert!((spending.usd - (1300.0 + 100.0 + 70.0) / 1e6).abs() < 1e-12, "{spending:?}");
        spending.add(&price, &of(Some(FailureKind::RateLimited), (None, None, None), (100, 0)));
        assert_eq!((spending.requests_reported, spending.requests_counted), (1, 1));
        assert_eq!((spending.input_tokens, spending.cached_input_tokens, spending.output_tokens), (1100, 400, 57));
    }

    /// An answer of seven tokens of which the provider says so much.
    fn answered(input: Option<u64>, cached_input: Option<u64>, output: Option<u64>) -> RequestTrace {
        let usage = Usage { input, output, cached_input, ..Usage::default() };
        let actual = input.is_some() || output.is_some();
        let story = RequestBuilder::sent(0, 0).answer(5, &" a".repeat(7));
        (if actual { story.event(6, EventKind::Usage(usage)) } else { story }).done(7, 7)
    }

    /// What is paid for a request, by its trace and by its row, which must agree.
    fn billed(trace: &RequestTrace) -> Billed {
        let row = RequestNumbers { input_asked: Some(990), ..numbers(trace) };
        let of_row = Billed::of_row(&row, false);
        assert_eq!(Billed::of_trace(trace, 990, row.tokens_std, MediaAmounts::default()), of_row);
        of_row
    }

    #[test]
    fn a_row_is_billed_as_its_trace_was() {
        let whole = billed(&answered(Some(1_000), Some(400), Some(9)));
        assert_eq!(whole, tokens(1_000, 400, 9, true));
        let silent = billed(&answered(None, None, None));
        assert_eq!(silent, tokens(990, 0, 7, false), "as asked, and as counted");
        // What is reported is taken, but half a report is none.
        let half = billed(&answered(Some(1_000), None, None));
        assert_eq!(half, tokens(1_000, 0, 7, false));
        let other_half = billed(&answered(None, None, Some(9)));
        assert_eq!(other_half, tokens(990, 0, 9, false));
        let refused = billed(&RequestBuilder::sent(0, 0).failed(FailureKind::RateLimited, 3));
        assert_eq!(refused, Billed::default());
        let stalled = billed(&RequestBuilder::sent(0, 0).answer(5, " a a").failed(FailureKind::Stalled, 9));
        assert_eq!(stalled, tokens(990, 0, 2, false), "it was taken");
        let unknown = Billed::of_row(&numbers(&answered(None, None, None)), false);
        assert_eq!((unknown.input, unknown.output), (0, 7), "nobody knows how long its prompt was");
    }

    #[test]
    fn requests_are_counted_by_provenance_and_refusals_are_neither() {
        let price = listed(Price::from_usd_per_million(1.0, 10.0).expect("a price"));
        let mut spending = Spending::default();
        let counted = tokens(5, 0, 7, false);
        let reported = Billed { reported: true, ..counted };
        let refused = Billed::default();
        for billed in [&counted, &reported, &counted, &refused, &counted, &refused] {
            spending.add(&price, billed);
        }
        assert_eq!((spending.requests_reported, spending.requests_counted), (1, 3));
        assert_eq!((spending.input_tokens, spending.output_tokens), (20, 28));
        assert!((spending.usd - 300e-6).abs() < 1e-12, "four times 5 and 70 millionths: {spending:?}");
    }
}
