//! Peak-EWMA latency of a lane, as power-of-two-choices balancers use it: it rises at once and falls slowly.
//!
//! Invariant: a sample above the average replaces it; without samples it decays.
//!
//! After Twitter's Finagle ("peak exponentially weighted moving average"), which linkerd and tower follow.

use tokrate_core::{Span, Tick};

/// Larger than any latency: ranks lanes last that are busy and have never answered.
const UNKNOWN_BUT_BUSY_SECONDS: f64 = 1e6;

#[derive(Clone, Copy, Debug)]
pub(crate) struct PeakEwma {
    seconds: f64,
    at: Tick,
    decay: Span,
}

impl PeakEwma {
    pub fn new(decay: Span) -> PeakEwma {
        PeakEwma { seconds: 0.0, at: Tick::ZERO, decay }
    }

    /// A sample.
    pub fn observe(&mut self, now: Tick, latency: Span) {
        let seconds = latency.as_secs_f64();
        let decay_factor = self.decay_factor(now);
        self.seconds =
            if seconds > self.seconds { seconds } else { self.seconds * decay_factor + seconds * (1.0 - decay_factor) };
        self.at = self.at.max(now);
    }

    /// A censored sample (a lower bound): it may raise the average but never lowers it.
    pub fn observe_lower_bound(&mut self, now: Tick, latency: Span) {
        if latency.as_secs_f64() > self.seconds * self.decay_factor(now) {
            self.observe(now, latency);
        }
    }

    /// The average now.
    pub fn seconds(&self, now: Tick) -> f64 {
        self.seconds * self.decay_factor(now)
    }

    /// Expected load for one more call, with `pending` calls in flight.
    pub fn load(&self, now: Tick, pending: u32) -> f64 {
        match self.seconds(now) {
            0.0 if pending > 0 => UNKNOWN_BUT_BUSY_SECONDS + f64::from(pending),
            seconds => seconds * (f64::from(pending) + 1.0),
        }
    }

    fn decay_factor(&self, now: Tick) -> f64 {
        (-(now.since(self.at).as_nanos() as f64) / self.decay.as_nanos().max(1) as f64).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Tick {
        Tick::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn it_goes_up_at_once_and_down_slowly() {
        let mut ewma = PeakEwma::new(Span::from_secs(10));
        ewma.observe(at(0), Span::from_secs(1));
        ewma.observe(at(1), Span::from_secs(8));
        assert_eq!(ewma.seconds(at(1)), 8.0, "the peak");
        ewma.observe(at(11), Span::from_secs(1));
        let e = (-1.0f64).exp();
        assert!((ewma.seconds(at(11)) - (8.0 * e + 1.0 - e)).abs() < 1e-9);
        ewma.observe_lower_bound(at(11), Span::from_millis(100));
        assert!(ewma.seconds(at(11)) > 3.0, "a lower bound does not lower it");
    }

    #[test]
    fn a_lower_bound_above_what_is_left_of_the_average_lifts_it_and_no_other_does() {
        let mut ewma = PeakEwma::new(Span::from_secs(10));
        ewma.observe(at(0), Span::from_secs(8));
        let untouched = ewma;
        let e = (-1.0f64).exp();
        // 8 s have become 2.94 s.
        ewma.observe_lower_bound(at(10), Span::from_millis(2_900));
        assert_eq!((ewma.seconds(at(10)), ewma.at), (untouched.seconds(at(10)), at(0)));
        ewma.observe_lower_bound(at(10), Span::from_secs(3));
        assert!((ewma.seconds(at(10)) - (8.0 * e + 3.0 * (1.0 - e))).abs() < 1e-9, "as one more sample");
        ewma.observe_lower_bound(at(10), Span::from_secs(20));
        assert_eq!(ewma.seconds(at(10)), 20.0, "above all that was seen");
        assert!((ewma.seconds(at(20)) - 20.0 * e).abs() < 1e-9, "and it fades as any other");
    }

    #[test]
    fn a_call_more_waits_for_those_in_flight_and_for_itself() {
        let mut ewma = PeakEwma::new(Span::from_secs(10));
        ewma.observe(at(0), Span::from_secs(2));
        assert_eq!((ewma.load(at(0), 0), ewma.load(at(0), 3)), (2.0, 8.0));
    }

    #[test]
    fn a_lane_that_never_answered_is_tried_once() {
        let ewma = PeakEwma::new(Span::from_secs(10));
        assert_eq!(ewma.load(at(5), 0), 0.0);
        assert!(ewma.load(at(5), 1) > 1e6 && ewma.load(at(5), 2) > ewma.load(at(5), 1));
    }
}
