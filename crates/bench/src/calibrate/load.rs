//! The load that a calibration repeats, derived from the rows of the measured phase: concurrency, event rate, TTFT,
//! variation.
//!
//! Invariant: medians and quartiles only, so that a few stalls of the client do not change it.

use crate::plan::{Load, PhaseSpec};
use tokrate_core::Span;
use tokrate_meter::RequestNumbers;

/// Longest TTFT of the calibration's engine: longer waits put no further load on the client.
const MAX_DELAY: Span = Span::from_millis(250);
/// The longest stream of a calibration (s).
const MAX_STREAM_SECONDS: f64 = 2.0;
/// Approximate time limit of a calibration (s); at low concurrency streams are shortened to fit.
pub const MAX_SECONDS: f64 = 5.0;
/// Text events of a calibration's stream: enough gaps, bounded time.
const EVENTS: std::ops::RangeInclusive<f64> = 2.0..=400.0;
/// Approximate minimum duration of the load (s).
const SECONDS: f64 = 1.5;
/// Measured requests: enough samples at low concurrency, bounded time for short answers.
const REQUESTS: std::ops::RangeInclusive<f64> = 12.0..=4_000.0;
/// Cached calibrations serve rates and sizes of the same step; rates are rounded up.
const STEP: f64 = 1.25;
/// Steps to which cached calibrations round coefficients of variation.
const VARIATION_STEPS: [f64; 7] = [0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6];
/// Smaller variation may be the client's own, and counts as 0: requests in lockstep are the worst case for a client.
const MIN_VARIATION: f64 = 0.04;
/// Larger variation would make single requests as long as the calibration.
const MAX_VARIATION: f64 = 2.0;

/// The load on the client that a calibration repeats, with its synchronisation between requests.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct ClientLoad {
    pub concurrency: u32,
    /// Text events per second of one stream.
    pub event_rate: f64,
    /// Tokens of each.
    pub event_tokens: u32,
    /// Text events of an answer.
    pub(super) events: f64,
    pub(super) ttft: Span,
    /// Coefficient of variation of TTFT from request to request.
    pub ttft_spread: f64,
    /// The same of the gaps between events.
    pub gap_spread: f64,
    pub workers: u32,
}

impl ClientLoad {
    /// The load that a phase put on the client; `None` if no stream was seen.
    pub fn seen(rows: &[RequestNumbers], spec: &PhaseSpec, workers: u32) -> Option<ClientLoad> {
        let concurrency = match spec.load {
            Load::Closed { concurrency } => concurrency,
            // The mean in flight by Little's law: busy time over the phase's time.
            _ => {
                let busy: u128 = rows.iter().map(|row| u128::from(row.ended_at_ns - row.due_at_ns)).sum();
                let first = rows.iter().map(|row| row.due_at_ns).min()?;
                let last = rows.iter().map(|row| row.ended_at_ns).max()?;
                (busy as f64 / (last - first).max(1) as f64).ceil().max(1.0) as u32
            }
        };
        let streams = || rows.iter().filter(|row| row.text_events > 1);
        let rates = streams().filter_map(|row| {
            let window = row.last_text_at_ns? - row.first_text_at_ns?;
            (window > 0).then(|| (row.text_events - 1) as f64 / (window as f64 / 1e9))
        });
        let per_event = streams().map(|row| row.tokens_std as f64 / row.text_events as f64);
        let ttft = Quartiles::of(streams().filter_map(|row| row.ttft_ns).map(|ns| ns as f64));
        let gaps = Quartiles::of(streams().flat_map(|row| row.gaps().map(|(gap, _)| gap as f64)));
        Some(ClientLoad {
            concurrency,
            event_rate: Quartiles::of(rates)?.median.clamp(1.0, 1e6),
            event_tokens: Quartiles::of(per_event)?.median.round().clamp(1.0, 1_000.0) as u32,
            events: Quartiles::of(streams().map(|row| row.text_events as f64))?.median,
            ttft: Span::from_nanos(ttft.as_ref().map_or(0.0, |ttft| ttft.median) as u64),
            ttft_spread: ttft.map_or(0.0, |ttft| ttft.spread()),
            gap_spread: gaps.map_or(0.0, |gaps| gaps.spread()),
            workers,
        })
    }

    /// Text events of a calibration's answer: as many as the phase's had, if there is time for them.
    pub fn events_of_answer(&self) -> f64 {
        let rounds = 1.0 + REQUESTS.start() / f64::from(self.concurrency);
        let stream = (MAX_SECONDS / rounds - self.delay().as_secs_f64()).min(MAX_STREAM_SECONDS);
        self.events.min(self.event_rate * stream).clamp(*EVENTS.start(), *EVENTS.end()).round()
    }

    /// TTFT of the calibration's engine.
    pub fn delay(&self) -> Span {
        self.ttft.min(MAX_DELAY)
    }

    /// Measured requests of a calibration.
    pub fn requests(&self) -> u64 {
        let one = self.delay().as_secs_f64() + self.events_of_answer() / self.event_rate;
        let requests = f64::from(self.concurrency) * (SECONDS / one).max(1.0);
        requests.clamp(*REQUESTS.start(), *REQUESTS.end()) as u64
    }

    /// The load of its step, so that a cached result can serve a like one; never fewer events a second.
    pub fn rounded(self) -> ClientLoad {
        let step = |value: f64, round: fn(f64) -> f64| STEP.powf(round(value.max(1.0).log(STEP)));
        let nearest = |spread: f64| {
            let distance = |known: &f64| (known - spread).abs();
            VARIATION_STEPS.into_iter().min_by(|one, other| distance(one).total_cmp(&distance(other))).unwrap_or(spread)
        };
        ClientLoad {
            event_rate: step(self.event_rate, f64::ceil),
            events: step(self.events, f64::round),
            ttft: Span::from_nanos(step(self.delay().as_nanos() as f64, f64::round) as u64),
            ttft_spread: nearest(self.ttft_spread),
            gap_spread: nearest(self.gap_spread),
            ..self
        }
    }
}

/// Quartiles of a sample; robust against a few stalls of the client.
struct Quartiles {
    low: f64,
    median: f64,
    high: f64,
}

impl Quartiles {
    fn of(samples: impl Iterator<Item = f64>) -> Option<Quartiles> {
        let mut sorted: Vec<f64> = samples.collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| sorted.get((share * sorted.len() as f64) as usize).copied();
        Some(Quartiles { low: at(0.25)?, median: at(0.5)?, high: at(0.75)? })
    }

    /// The coefficient of variation of the log-normal distribution that has these quartiles.
    fn spread(&self) -> f64 {
        // The quartiles of a normal distribution lie 1.349 standard deviations apart.
        let sigma = (self.high.max(1.0) / self.low.max(1.0)).ln() / 1.349;
        let spread = ((sigma * sigma).exp() - 1.0).sqrt();
        if spread < MIN_VARIATION { 0.0 } else { spread.min(MAX_VARIATION) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: ClientLoad = ClientLoad {
        concurrency: 20,
        event_rate: 100.0,
        event_tokens: 1,
        events: 50.0,
        ttft: Span::from_millis(100),
        ttft_spread: 0.12,
        gap_spread: 0.0,
        workers: 1,
    };

    #[test]
    fn the_spread_is_that_of_the_middle_half() {
        // Quartiles of a log-normal distribution with sigma 0.3: its coefficient of variation is sqrt(exp(0.09) - 1) = 0.3069.
        let at = |z: f64| 1e7 * (0.3 * z).exp();
        let spread = |low: f64, high: f64| Quartiles { low, median: 1e7, high }.spread();
        assert!((spread(at(-0.6745), at(0.6745)) - 0.3069).abs() < 1e-4);
        assert_eq!(spread(0.98e7, 1.02e7), 0.0, "that much may be the client's own");
        assert_eq!(spread(1.0, 1e9), 2.0);
        let with_stalls = (0..100).map(|n| if n < 20 { 9e9 } else { 1e7 });
        assert_eq!(Quartiles::of(with_stalls).expect("a hundred").spread(), 0.0);
        assert!(Quartiles::of(std::iter::empty()).is_none());
    }

    #[test]
    fn an_answer_is_as_long_as_the_phases_or_as_there_is_time_for() {
        assert_eq!(LOAD.events_of_answer(), 50.0);
        let long = ClientLoad { events: 1_000.0, ..LOAD };
        assert_eq!(long.events_of_answer(), 200.0, "2 s");
        // One after the other, 12 requests and the warm-up share 5 s: 0.385 s each, 0.1 s of it before the first event.
        assert_eq!(ClientLoad { concurrency: 1, ..long }.events_of_answer(), 28.0);
        let slow = ClientLoad { ttft: Span::from_secs(9), event_rate: 1.0, concurrency: 1, ..LOAD };
        assert_eq!((slow.delay(), slow.events_of_answer()), (Span::from_millis(250), 2.0));
    }

    #[test]
    fn the_load_lasts_a_while_and_no_slot_is_without_a_request() {
        // 0.6 s each, so two and a half rounds.
        assert_eq!(LOAD.requests(), 50);
        assert_eq!(ClientLoad { events: 1_000.0, ..LOAD }.requests(), 20);
        assert_eq!(ClientLoad { concurrency: 1, ..LOAD }.requests(), 12);
        let quick = ClientLoad { ttft: Span::ZERO, event_rate: 1e6, concurrency: 400, ..LOAD };
        assert_eq!(quick.requests(), 4_000);
    }

    #[test]
    fn like_loads_share_a_calibration_at_no_fewer_events() {
        let rounded = LOAD.rounded();
        // 1.25^21 = 108.4 and 1.25^17 = 44.4, 1.25^18 = 55.5: ln 50 / ln 1.25 = 17.53.
        assert!((rounded.event_rate - 108.42).abs() < 0.01, "{rounded:?}");
        assert!((rounded.events - 55.51).abs() < 0.01, "{rounded:?}");
        assert_eq!((rounded.ttft_spread, rounded.gap_spread, rounded.concurrency), (0.1, 0.0, 20));
        let like =
            ClientLoad { event_rate: 95.0, events: 52.0, ttft: Span::from_millis(99), ttft_spread: 0.09, ..LOAD };
        assert_eq!(like.rounded(), rounded);
        assert_ne!(ClientLoad { event_rate: 110.0, ..LOAD }.rounded(), rounded);
        assert_eq!(rounded.rounded().ttft, rounded.ttft);
    }
}
