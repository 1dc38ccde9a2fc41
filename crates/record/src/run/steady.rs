//! The steady window of a phase, and its throughput.
//!
//! Invariant: warm-up and drain are cut by the rule in [`Steady::rule`]; a phase without a steady window has a reason
//! instead of a throughput.

use super::{Load, Sweep};
use serde::{Deserialize, Serialize};
use tokrate_core::{Rng, Span, Tick};
use tokrate_meter::request::RequestNumbers;
use tokrate_stats::{Interval, mean_interval};

/// The part of a phase with the planned load.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Steady {
    /// How it was cut, in words.
    pub rule: String,
    /// Start, exclusive.
    pub start_ns: u64,
    /// End, inclusive.
    pub end_ns: u64,
}

/// Throughput of the steady window, all requests together.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Throughput {
    /// Length of the steady window (s).
    pub window_seconds: f64,
    /// Output tokens (`tokens_std`) whose chunk arrived inside it, of all requests, failed ones included.
    pub tokens: u64,
    /// `tokens` per second of the window.
    pub tokens_per_second: f64,
    /// 95 % interval of `tokens_per_second`, the equal parts of the window taken as a sample; absent below ten parts.
    pub interval: Option<Interval>,
    /// The busiest of the equal parts of the window, each at least 1 s long (or the whole window, if it is shorter).
    pub peak_tokens_per_second: f64,
    /// How many equal parts those are.
    pub parts: u64,
    /// Answered requests that finished inside it.
    pub requests: u64,
    /// Answered requests per second of the window, each counted with the share of its time (due to finished) that lies inside: where
    /// requests come in waves, whole ones would depend on where the window cuts a wave.
    pub requests_per_second: f64,
}

impl Steady {
    /// Length of the window.
    pub fn span(&self) -> Span {
        Span::from_nanos(self.end_ns - self.start_ns)
    }

    /// Whether a tick lies in the window.
    pub fn holds(&self, at_ns: u64) -> bool {
        self.start_ns < at_ns && at_ns <= self.end_ns
    }

    /// The share of a request's time, from due to finished, that lies in the window.
    pub fn share_of(&self, request: &RequestNumbers) -> f64 {
        let (begun, finished) = (request.due_at_ns, request.finished_at_ns);
        if finished <= begun {
            return f64::from(u8::from(self.holds(finished)));
        }
        let inside = finished.min(self.end_ns).saturating_sub(begun.max(self.start_ns));
        inside as f64 / (finished - begun) as f64
    }

    /// Finds the steady window.
    ///
    /// Closed loop: from the moment at which the number of busy slots (due to ended) reached its target after the warm-up
    /// until it fell below it for good. Slots that turn over very quickly may never all be busy at one moment; then 95 % of
    /// the target is the target, and the rule says so. Open loop: from the end of the warm-up to the last arrival. Sessions
    /// think, so that their number in flight has no plateau: from the end of the warm-up until the first of the places that
    /// sessions take had no more to do. A ramp has none.
    ///
    /// # Errors
    /// The reason why there is none.
    pub(super) fn find(load: &Load, warmup_end: Tick, requests: &[RequestNumbers]) -> Result<Steady, String> {
        if requests.is_empty() {
            return Err("there was no request".to_owned());
        }
        match *load {
            Load::Closed { concurrency } | Load::Batched { concurrency, .. } => {
                Self::closed(concurrency, warmup_end, requests)
            }
            Load::ClosedRamp { .. } | Load::OpenRamp { .. } => Err(
                "the load of a ramp changes all the time, so there is no window in which it was steady; look at the \
                 numbers over time, or measure levels one by one"
                    .to_owned(),
            ),
            Load::Sessions { sessions, .. } => Self::sessions(sessions, warmup_end, requests),
            Load::Agents { sessions: Some(sessions) } => Self::sessions(sessions, warmup_end, requests),
            Load::Open { .. } | Load::Trace { .. } | Load::Agents { sessions: None } => {
                let last = requests.iter().map(|request| request.due_at_ns).max().unwrap_or(0);
                let start = warmup_end.as_nanos();
                if start >= last {
                    return Err("no second request was due after the warm-up".to_owned());
                }
                let kind = match load {
                    Load::Trace { .. } => "trace, whose rate is not steady in itself",
                    Load::Agents { .. } => "agents on their own times, whose load is not steady in itself",
                    _ => "open loop",
                };
                let rule = format!("{kind}: from the end of the warm-up to the last arrival");
                Ok(Steady { rule, start_ns: start, end_ns: last })
            }
        }
    }

    /// Session numbers go round the places, so a session's place is its number modulo the sessions at once.
    fn sessions(sessions: u32, warmup_end: Tick, requests: &[RequestNumbers]) -> Result<Steady, String> {
        let mut last = vec![0; sessions.max(1) as usize];
        for request in requests {
            let place = request.session.unwrap_or(0) % u64::from(sessions.max(1));
            let ended = &mut last[place as usize];
            *ended = request.ended_at_ns.max(*ended);
        }
        let (start, end) = (warmup_end.as_nanos(), last.into_iter().min().unwrap_or(0));
        if start >= end {
            return Err(format!("{sessions} sessions were never under way at once after the warm-up"));
        }
        let rule = format!("sessions: from the end of the warm-up until the first of {sessions} had no more to do");
        Ok(Steady { rule, start_ns: start, end_ns: end })
    }

    fn closed(concurrency: u32, warmup_end: Tick, requests: &[RequestNumbers]) -> Result<Steady, String> {
        let slots = slots(requests);
        let nearly = (u64::from(concurrency) * 95).div_ceil(100) as u32;
        let rule = |target: u32| {
            let share = if target < concurrency { format!(" (95 % of {concurrency})") } else { String::new() };
            format!(
                "closed loop: from the moment concurrency reached {target}{share} after the warm-up until it fell below \
                 for good"
            )
        };
        for target in [concurrency, nearly] {
            if let Some((start, end)) = slots.plateau(target.max(1), warmup_end) {
                return Ok(Steady { rule: rule(target), start_ns: start.as_nanos(), end_ns: end.as_nanos() });
            }
        }
        Err(match slots.peak() {
            peak if peak >= concurrency => format!("concurrency reached {concurrency} in the warm-up only"),
            peak => format!("concurrency never reached {concurrency} (peak {peak})"),
        })
    }
}

impl Throughput {
    /// Computes the throughput of the window.
    pub(super) fn of(steady: &Steady, requests: &[RequestNumbers]) -> Throughput {
        let length = steady.end_ns - steady.start_ns;
        let parts = (length / 1_000_000_000).max(1);
        let mut tokens_of_part = vec![0_u64; parts as usize];
        for request in requests {
            for chunk in &request.chunk_list {
                let at = chunk.at.as_nanos();
                if steady.holds(at) {
                    let part = u128::from(at - steady.start_ns - 1) * u128::from(parts) / u128::from(length);
                    tokens_of_part[part as usize] += u64::from(chunk.tokens);
                }
            }
        }
        let tokens: u64 = tokens_of_part.iter().sum();
        let peak = tokens_of_part.iter().copied().max().unwrap_or(0);
        let finished = |request: &&RequestNumbers| request.is_answered() && steady.holds(request.finished_at_ns);
        let answered: f64 =
            requests.iter().filter(|request| request.is_answered()).map(|request| steady.share_of(request)).sum();
        let requests = requests.iter().filter(finished).count() as u64;
        let window_seconds = Span::from_nanos(length).as_secs_f64();
        let per_part = parts as f64 / window_seconds;
        let rates: Vec<f64> = tokens_of_part.iter().map(|&tokens| tokens as f64 * per_part).collect();
        Throughput {
            window_seconds,
            tokens,
            tokens_per_second: tokens as f64 / window_seconds,
            interval: mean_interval(&rates, 0.95, &Rng::root(0).child("throughput")),
            peak_tokens_per_second: peak as f64 * per_part,
            parts,
            requests,
            requests_per_second: answered / window_seconds,
        }
    }
}

/// Busy slots of the plan: from due to ended.
pub(crate) fn slots(requests: &[RequestNumbers]) -> Sweep {
    Sweep::over(
        requests.iter().map(|request| (Tick::from_nanos(request.due_at_ns), Tick::from_nanos(request.ended_at_ns))),
    )
}

/// Requests in flight: from sent to ended.
pub(crate) fn in_flight(requests: &[RequestNumbers]) -> Sweep {
    Sweep::over(requests.iter().filter_map(|request| {
        let sent_at = request.sent_at_ns?;
        Some((Tick::from_nanos(sent_at), Tick::from_nanos(request.ended_at_ns)))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{closed, phase};
    use tokrate_meter::fixtures::{MS, at, steady_request};

    #[test]
    fn requests_of_a_wave_that_the_window_cuts_are_counted_in_part() {
        let steady = Steady { rule: String::new(), start_ns: 1_000 * MS, end_ns: 3_000 * MS };
        // Answers of 1 s: before, half in, whole, half in, behind; and one that took no time.
        let requests: Vec<RequestNumbers> =
            [(0, 1_000), (500, 1_500), (1_500, 2_500), (2_500, 3_500), (3_000, 4_000), (2_000, 2_000)]
                .into_iter()
                .zip(0..)
                .map(|((due, end), index)| RequestNumbers {
                    due_at_ns: due * MS,
                    finished_at_ns: end * MS,
                    ..steady_request(index, due, 0, 1, 1)
                })
                .collect();
        let shares: Vec<f64> = requests.iter().map(|request| steady.share_of(request)).collect();
        assert_eq!(shares, [0.0, 0.5, 1.0, 0.5, 0.0, 1.0]);
        let throughput = Throughput::of(&steady, &requests);
        assert_eq!((throughput.requests, throughput.requests_per_second), (3, 1.5));
    }

    const TWO: Load = Load::Sessions { sessions: 2, turns: 3 };

    /// A turn of a session, from one moment to another (ms).
    fn turn(session: u64, start: u64, end: u64) -> RequestNumbers {
        RequestNumbers { session: Some(session), ..steady_request(0, start, end - start, 1, 1) }
    }

    #[test]
    fn sessions_are_steady_until_the_first_place_has_no_more_to_do() {
        // Sessions 0 and 2 take the first place, 1 and 3 the second; between turns they think.
        let requests = [
            turn(0, 0, 400),
            turn(1, 0, 200),
            turn(2, 1_500, 4_000),
            turn(0, 700, 1_000),
            turn(3, 2_500, 3_000),
            turn(1, 800, 1_500),
            turn(3, 1_500, 2_000),
        ];
        let steady = Steady::find(&TWO, at(600), &requests).expect("both places were taken");
        assert_eq!((steady.start_ns, steady.end_ns), (600 * MS, 3_000 * MS), "4,000 ms is when the last place ends");
        assert_eq!(steady.span(), Span::from_millis(2_400));
        assert_eq!(steady.rule, "sessions: from the end of the warm-up until the first of 2 had no more to do");
        assert_eq!(Steady::find(&TWO, at(2_999), &requests).map(|steady| steady.span()), Ok(Span::from_millis(1)));
        let never = Err("2 sessions were never under way at once after the warm-up".to_owned());
        assert_eq!(Steady::find(&TWO, at(3_000), &requests), never);
        assert_eq!(
            Steady::find(&TWO, Tick::ZERO, &[turn(0, 0, 400), turn(2, 400, 900)]),
            never,
            "one place stood empty"
        );
    }

    #[test]
    fn the_interval_of_the_throughput_is_in_tokens_per_second() {
        // A token each 350 ms for 10.5 s: ten parts of 1.05 s with three tokens each.
        let result = phase(&closed(1), &[steady_request(0, 0, 350, 350, 30)]);
        let throughput = result.throughput.expect("one was in flight");
        assert_eq!((throughput.parts, throughput.window_seconds, throughput.tokens), (10, 10.5, 30));
        let interval = throughput.interval.expect("ten parts are enough");
        for rate in [throughput.tokens_per_second, throughput.peak_tokens_per_second, interval.low, interval.high] {
            assert!((rate - 3.0 / 1.05).abs() < 1e-9, "{throughput:?}");
        }
    }

    #[test]
    fn below_ten_parts_the_throughput_has_no_interval_and_an_uneven_one_has_a_wide_one() {
        // 9.9 s are nine parts.
        let short = phase(&closed(1), &[steady_request(0, 0, 330, 330, 30)]).throughput.expect("one was in flight");
        assert_eq!((short.parts, short.interval), (9, None));
        // 20 s: ten tokens a second in the first half, one a second in the second, so 110 tokens.
        let requests = [steady_request(0, 0, 100, 100, 100), steady_request(1, 10_000, 1_000, 1_000, 10)];
        let uneven = phase(&closed(1), &requests).throughput.expect("one was in flight");
        assert_eq!((uneven.parts, uneven.tokens_per_second, uneven.peak_tokens_per_second), (20, 5.5, 10.0));
        let interval = uneven.interval.expect("twenty parts");
        // Ten parts of 10 and ten of 1: a standard error of 4.5 / sqrt(20), so about 5.5 - 1.96 and 5.5 + 1.96.
        assert!(interval.holds(5.5) && (1.5..2.5).contains(&((interval.high - interval.low) / 2.0)), "{interval:?}");
    }
}
