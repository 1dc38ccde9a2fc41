//! Background load: streams of other users that slow down the measured ones.
//!
//! Invariant: the number of streams depends only on the seed and the time.

use crate::law::LawError;
use crate::timetable::Curve;
use tokrate_core::{Rng, Span};

/// Streams of other users. They count as decoding and take no slot.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Background {
    /// Mean number of streams; 0 for none.
    pub streams: f64,
    /// Coefficient of variation between draws (log-normal with the same mean); 0 for a constant number.
    pub jitter: f64,
    /// How long each draw lasts.
    pub every: Span,
    /// How the mean varies over time.
    pub curve: Option<Curve>,
}

/// Limit for the number of streams, far beyond any engine, so that the count fits its type.
const MAX_STREAMS: f64 = 1e6;

impl Default for Background {
    fn default() -> Background {
        Background { streams: 0.0, jitter: 0.0, every: Span::from_secs(1), curve: None }
    }
}

impl Background {
    /// Streams at a time since the engine's start: the mean at the beginning of the draw times its random factor,
    /// rounded. `rng` is the engine's generator for this.
    pub fn streams_at(&self, elapsed: Span, rng: &Rng) -> u32 {
        if self.streams == 0.0 {
            return 0;
        }
        let draw = elapsed.as_nanos() / self.every.as_nanos();
        let draw_start = Span::from_nanos(draw * self.every.as_nanos());
        let mean = self.streams * self.curve.map_or(1.0, |curve| curve.at(draw_start));
        let factor = if self.jitter == 0.0 { 1.0 } else { rng.nth(draw).log_normal(self.jitter) };
        (mean * factor).round().min(MAX_STREAMS) as u32
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// The first invalid value.
    pub fn check(&self) -> Result<(), LawError> {
        let settings = [
            ("streams of the background", self.streams, MAX_STREAMS, "a number from 0 to 1000000"),
            ("jitter of the background", self.jitter, 5.0, "a number from 0 to 5"),
        ];
        for (name, value, max, allowed) in settings {
            if !(0.0..=max).contains(&value) {
                return Err(LawError::Setting { name, value, allowed });
            }
        }
        if self.every == Span::ZERO {
            let name = "time for which a background holds";
            return Err(LawError::Setting { name, value: 0.0, allowed: "a time above 0" });
        }
        self.curve.as_ref().map_or(Ok(()), Curve::check)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(background: &Background, seconds: u64) -> u32 {
        background.streams_at(Span::from_secs(seconds), &Rng::root(3))
    }

    #[test]
    fn without_jitter_it_follows_the_curve_at_the_start_of_each_draw() {
        let curve = Curve { period: Span::from_secs(240), amplitude: 1.0, peak: Span::from_secs(60) };
        let background =
            Background { streams: 10.0, every: Span::from_secs(30), curve: Some(curve), ..Background::default() };
        // 10 (1 + cos(2 pi (t - 60) / 240)) at 0, 30, 60, 90, 180 s.
        let seen = [0, 29, 30, 60, 89, 90, 180, 240].map(|second| at(&background, second));
        assert_eq!(seen, [10, 10, 17, 20, 20, 17, 0, 10]);
        assert_eq!(at(&Background::default(), 5), 0);
    }

    #[test]
    fn draws_have_the_configured_mean_and_variation() {
        let background = Background { streams: 100.0, jitter: 0.5, ..Background::default() };
        let seen: Vec<f64> = (0..20_000).map(|second| f64::from(at(&background, second))).collect();
        let mean = seen.iter().sum::<f64>() / 20_000.0;
        let variance = seen.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / 20_000.0;
        assert!((mean - 100.0).abs() < 2.0, "{mean}");
        assert!((variance.sqrt() / mean - 0.5).abs() < 0.03, "{}", variance.sqrt() / mean);
        let rng = Rng::root(3);
        let (early, late) = (Span::from_millis(7_001), Span::from_millis(7_999));
        assert_eq!(background.streams_at(early, &rng), background.streams_at(late, &rng));
        assert_ne!(background.streams_at(early, &rng), background.streams_at(early, &Rng::root(4)));
    }

    #[test]
    fn an_invalid_background_is_rejected() {
        for wrong in [
            Background { streams: -1.0, ..Background::default() },
            Background { streams: f64::NAN, ..Background::default() },
            Background { jitter: 9.0, ..Background::default() },
            Background { every: Span::ZERO, ..Background::default() },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }
}
