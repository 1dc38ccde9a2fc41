//! Rate limits of a provider, and the state that rate-limit headers report.
//!
//! Invariant: token buckets are exact in whole nanoseconds; no minute admits more than the limit plus one full bucket, and
//! a request that waits as long as it was asked to is admitted if no other comes first.

use tokrate_core::{Span, Tick};

const MINUTE_NS: u128 = 60_000_000_000;

/// Limits per minute; `None` for no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// Requests.
    pub requests_per_minute: Option<u32>,
    /// Tokens: those of the prompt plus the output limit, counted on submission.
    pub tokens_per_minute: Option<u32>,
}

/// One token bucket per limit, full at first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Allowance {
    /// Requests, if limited.
    pub requests: Option<LimitStatus>,
    /// Tokens, if limited.
    pub tokens: Option<LimitStatus>,
}

/// The state of one limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LimitStatus {
    /// The limit per minute.
    pub limit: u32,
    /// How many are allowed now.
    pub remaining: u32,
    /// How long until the bucket is full.
    pub reset: Span,
}

/// Why a request is rate-limited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Denied {
    /// How long to wait; `None` if waiting does not help.
    pub wait: Option<Span>,
    pub message: &'static str,
}

/// The state of the limits: a bucket each, full at first, that fills steadily.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buckets {
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
}

#[derive(Clone, Debug)]
struct Bucket {
    per_minute: u32,
    /// The fill level in units times the nanoseconds of a minute, so that every nanosecond adds `per_minute`.
    level: u128,
    refilled_at: Tick,
}

impl Buckets {
    pub fn new(limits: Limits) -> Buckets {
        let bucket =
            |per_minute: u32| Bucket { per_minute, level: u128::from(per_minute) * MINUTE_NS, refilled_at: Tick::ZERO };
        Buckets { requests: limits.requests_per_minute.map(bucket), tokens: limits.tokens_per_minute.map(bucket) }
    }

    /// Takes what a request needs, or nothing.
    pub fn take(&mut self, now: Tick, tokens: u64) -> Result<(), Denied> {
        let waits = [(&mut self.requests, 1), (&mut self.tokens, tokens)].map(|(bucket, wanted)| {
            let bucket = bucket.as_mut()?;
            bucket.refill(now);
            bucket.wait_for(wanted)
        });
        match waits {
            [None, None] => {}
            [_, Some(None)] => {
                return Err(Denied { wait: None, message: "the request alone is over the limit of tokens per minute" });
            }
            [requests, tokens] => {
                let (requests, tokens) = (requests.flatten(), tokens.flatten());
                let message = match requests >= tokens {
                    true => "the limit of requests per minute is reached",
                    false => "the limit of tokens per minute is reached",
                };
                return Err(Denied { wait: requests.max(tokens), message });
            }
        }
        for (bucket, wanted) in [(&mut self.requests, 1), (&mut self.tokens, tokens)] {
            if let Some(bucket) = bucket {
                bucket.level -= u128::from(wanted) * MINUTE_NS;
            }
        }
        Ok(())
    }

    /// The state at `now`.
    pub fn allowance(&self, now: Tick) -> Allowance {
        let status = |bucket: &Option<Bucket>| bucket.clone().map(|bucket| bucket.status(now));
        Allowance { requests: status(&self.requests), tokens: status(&self.tokens) }
    }
}

impl Bucket {
    fn full(&self) -> u128 {
        u128::from(self.per_minute) * MINUTE_NS
    }

    fn refill(&mut self, now: Tick) {
        let added = u128::from(now.since(self.refilled_at).as_nanos()) * u128::from(self.per_minute);
        self.level = (self.level + added).min(self.full());
        self.refilled_at = self.refilled_at.max(now);
    }

    /// How long until `wanted` are available, if they are not; `Some(None)` if they never will be.
    fn wait_for(&self, wanted: u64) -> Option<Option<Span>> {
        let wanted = u128::from(wanted) * MINUTE_NS;
        if wanted > self.full() {
            return Some(None);
        }
        wanted.checked_sub(self.level).filter(|&missing| missing > 0).map(|missing| Some(self.time_for(missing)))
    }

    fn time_for(&self, missing: u128) -> Span {
        let nanoseconds = missing.div_ceil(u128::from(self.per_minute.max(1)));
        Span::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    fn status(mut self, now: Tick) -> LimitStatus {
        self.refill(now);
        let remaining = u32::try_from(self.level / MINUTE_NS).unwrap_or(u32::MAX);
        LimitStatus { limit: self.per_minute, remaining, reset: self.time_for(self.full() - self.level) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(milliseconds: u64) -> Tick {
        Tick::from_nanos(milliseconds * 1_000_000)
    }

    fn buckets(requests: Option<u32>, tokens: Option<u32>) -> Buckets {
        Buckets::new(Limits { requests_per_minute: requests, tokens_per_minute: tokens })
    }

    #[test]
    fn request_tokens_refill_one_by_one_to_the_nanosecond() {
        let mut buckets = buckets(Some(3), None);
        (0..3).for_each(|_| buckets.take(at(1_000_000), 5).expect("a full bucket"));
        let denied = buckets.take(at(1_000_000), 5).expect_err("empty");
        assert_eq!(denied.wait, Some(Span::from_secs(20)));
        assert_eq!(denied.message, "the limit of requests per minute is reached");
        let early = at(1_020_000) - Span::from_nanos(1);
        assert_eq!(buckets.take(early, 5).expect_err("a nanosecond early").wait, Some(Span::from_nanos(1)));
        assert_eq!(buckets.take(at(1_020_000), 5), Ok(()));
        let status = buckets.allowance(at(1_030_000)).requests.expect("limited");
        assert_eq!(status, LimitStatus { limit: 3, remaining: 0, reset: Span::from_secs(50) });
        assert_eq!(buckets.allowance(at(1_030_000)).tokens, None);
    }

    #[test]
    fn a_request_that_is_denied_takes_nothing() {
        let mut buckets = buckets(Some(10), Some(600));
        assert_eq!(buckets.take(at(0), 500), Ok(()));
        // 100 are left; 200 more take ten seconds to come.
        let denied = buckets.take(at(0), 300).expect_err("too many tokens");
        assert_eq!(
            (denied.wait, denied.message),
            (Some(Span::from_secs(20)), "the limit of tokens per minute is reached")
        );
        let status = buckets.allowance(at(0));
        assert_eq!(status.requests.map(|status| status.remaining), Some(9));
        assert_eq!(status.tokens.map(|status| (status.remaining, status.reset)), Some((100, Span::from_secs(50))));
    }

    #[test]
    fn a_request_above_the_limit_never_fits() {
        let denied = buckets(None, Some(100)).take(at(0), 101).expect_err("never");
        assert_eq!(denied.wait, None);
        assert!(denied.message.contains("alone"));
    }

    #[test]
    fn without_limits_everything_is_admitted() {
        let mut buckets = buckets(None, None);
        assert!((0..1_000).all(|_| buckets.take(at(0), u64::MAX).is_ok()));
        assert_eq!(buckets.allowance(at(0)), Allowance::default());
    }

    proptest! {
        #[test]
        fn who_waits_as_told_gets_through_and_no_sooner(
            requests in 1u32..2_000,
            tokens in 1u32..100_000,
            asked in proptest::collection::vec((0u64..20_000_000_000, 0u64..100_000), 1..40),
        ) {
            let mut buckets = buckets(Some(requests), Some(tokens));
            let mut now = Tick::ZERO;
            for (pause, wanted) in asked {
                now += Span::from_nanos(pause);
                if let Err(denied) = buckets.take(now, wanted) {
                    let Some(wait) = denied.wait else {
                        prop_assert!(wanted > u64::from(tokens));
                        continue;
                    };
                    let early = now + wait - Span::from_nanos(1);
                    prop_assert!(buckets.clone().take(early, wanted).is_err());
                    prop_assert_eq!(buckets.take(now + wait, wanted), Ok(()));
                    now += wait;
                }
            }
        }
    }
}
