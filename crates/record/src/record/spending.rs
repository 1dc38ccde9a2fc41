//! Cost of requests, from reported usage, else from counted tokens.
//!
//! Invariant: a rejected request costs nothing; an accepted one costs at least its input, however the answer ended.

use serde::{Deserialize, Serialize};
use tokrate_core::{BilledTokens, FailureKind, Price};
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
    /// Whether the provider reported them.
    pub reported: bool,
}

impl Billed {
    /// Of a request that has just ended. `asked` is the length of its prompt, `counted` that of its answer.
    pub fn of_trace(trace: &RequestTrace, asked: u64, counted: u64) -> Billed {
        let usage = trace.usage.unwrap_or_default();
        let kind = trace.failure.as_ref().map(|failure| failure.kind);
        Billed::of(kind, (usage.input, usage.cached_input, usage.output), asked, counted)
    }

    /// Of a request whose numbers are known.
    pub fn of_row(row: &RequestNumbers) -> Billed {
        let reported = (row.input_reported, row.cached_input_reported, row.tokens_reported);
        Billed::of(row.failure_kind(), reported, row.input_asked.unwrap_or(0), row.tokens_std)
    }

    /// As they are priced. Writes to a cache are not separate.
    pub fn tokens(&self) -> BilledTokens {
        BilledTokens { input: self.input, cached_input: self.cached, cache_write: 0, output: self.output }
    }

    fn of(
        failure: Option<FailureKind>,
        (input, cached, output): (Option<u64>, Option<u64>, Option<u64>),
        asked: u64,
        counted: u64,
    ) -> Billed {
        if failure.is_some_and(is_refusal) {
            return Billed::default();
        }
        Billed {
            input: input.unwrap_or(asked),
            cached: cached.unwrap_or(0),
            output: output.unwrap_or(counted),
            reported: input.is_some() && output.is_some(),
        }
    }
}

impl Spending {
    /// Adds what one request cost.
    pub fn add(&mut self, price: &Price, billed: &Billed) {
        self.usd += price.cost(billed.tokens()).as_usd();
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
    use tokrate_core::{EventKind, Money, Usage};
    use tokrate_meter::fixtures::{RequestBuilder, numbers};

    #[test]
    fn reported_tokens_are_billed_else_counted_ones_and_rejections_cost_nothing() {
        let price = Price::from_usd_per_million(1.0, 10.0).expect("a price");
        let price = Price { cached_input: Money::from_usd(0.5), ..price };
        let mut spending = Spending::default();
        spending.add(&price, &Billed::of(None, (Some(1000), Some(400), Some(50)), 990, 48));
        assert!((spending.usd - (600.0 + 200.0 + 500.0) / 1e6).abs() < 1e-12, "{spending:?}");
        spending.add(&price, &Billed::of(Some(FailureKind::Stalled), (None, None, None), 100, 7));
        assert!((spending.usd - (1300.0 + 100.0 + 70.0) / 1e6).abs() < 1e-12, "{spending:?}");
        spending.add(&price, &Billed::of(Some(FailureKind::RateLimited), (None, None, None), 100, 0));
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
        let of_row = Billed::of_row(&row);
        assert_eq!(Billed::of_trace(trace, 990, row.tokens_std), of_row);
        of_row
    }

    #[test]
    fn a_row_is_billed_as_its_trace_was() {
        let whole = billed(&answered(Some(1_000), Some(400), Some(9)));
        assert_eq!(whole, Billed { input: 1_000, cached: 400, output: 9, reported: true });
        let silent = billed(&answered(None, None, None));
        assert_eq!(silent, Billed { input: 990, cached: 0, output: 7, reported: false }, "as asked, and as counted");
        // What is reported is taken, but half a report is none.
        let half = billed(&answered(Some(1_000), None, None));
        assert_eq!(half, Billed { input: 1_000, cached: 0, output: 7, reported: false });
        let other_half = billed(&answered(None, None, Some(9)));
        assert_eq!(other_half, Billed { input: 990, cached: 0, output: 9, reported: false });
        let refused = billed(&RequestBuilder::sent(0, 0).failed(FailureKind::RateLimited, 3));
        assert_eq!(refused, Billed::default());
        let stalled = billed(&RequestBuilder::sent(0, 0).answer(5, " a a").failed(FailureKind::Stalled, 9));
        assert_eq!(stalled, Billed { input: 990, cached: 0, output: 2, reported: false }, "it was taken");
        let unknown = Billed::of_row(&numbers(&answered(None, None, None)));
        assert_eq!((unknown.input, unknown.output), (0, 7), "nobody knows how long its prompt was");
    }

    #[test]
    fn requests_are_counted_by_provenance_and_refusals_are_neither() {
        let price = Price::from_usd_per_million(1.0, 10.0).expect("a price");
        let mut spending = Spending::default();
        let counted = Billed { input: 5, cached: 0, output: 7, reported: false };
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
