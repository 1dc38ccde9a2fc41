//! The other users of an engine: streams that nobody reads and that slow ours.
//!
//! It refuses to know our requests. Invariant: how many there are at a moment follows from the seed and the time alone.

use crate::law::LawError;
use crate::timetable::Curve;
use tokrate_core::{Rng, Span};

/// Streams of other users, which count as decoding and take no slot.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Background {
    /// How many on average; 0 for none.
    pub streams: f64,
    /// Coefficient of variation from one draw to the next (log-normal, the mean is kept); 0 for always the same.
    pub jitter: f64,
    /// How long a draw holds.
    pub every: Span,
    /// How the average goes up and down.
    pub curve: Option<Curve>,
}

/// More streams than this are no load that an engine could have.
const STREAMS_MOST: f64 = 1e6;

impl Default for Background {
    fn default() -> Background {
        Background { streams: 0.0, jitter: 0.0, every: Span::from_secs(1), curve: None }
    }
}

impl Background {
    /// Streams at a time since the engine's start: the average at the beginning of the draw times its factor, rounded.
    /// `rng` is the generator that the engine keeps for this.
    pub fn streams_at(&self, elapsed: Span, rng: &Rng) -> u32 {
        if self.streams == 0.0 {
            return 0;
        }
        let draw = elapsed.as_nanos() / self.every.as_nanos();
        let begun = Span::from_nanos(draw * self.every.as_nanos());
        let mean = self.streams * self.curve.map_or(1.0, |curve| curve.at(begun));
        let factor = if self.jitter == 0.0 { 1.0 } else { rng.nth(draw).log_normal(self.jitter) };
        (mean * factor).round().min(STREAMS_MOST) as u32
    }

    /// Whether the numbers make sense.
    ///
    /// # Errors
    /// Names the first value that does not.
    pub fn check(&self) -> Result<(), LawError> {
        let settings = [
            ("streams of the background", self.streams, STREAMS_MOST, "a number from 0 to 1000000"),
            ("jitter of the background", self.jitter, 5.0, "a number from 0 to 5"),
        ];
        for (name, value, most, wanted) in settings {
            if !(0.0..=most).contains(&value) {
                return Err(LawError::Setting { name, value, wanted });
            }
        }
        if self.every == Span::ZERO {
            let name = "time for which a background holds";
            return Err(LawError::Setting { name, value: 0.0, wanted: "a time above 0" });
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
    fn without_jitter_it_is_the_curve_at_the_beginning_of_each_draw() {
        let curve = Curve { period: Span::from_secs(240), amplitude: 1.0, peak: Span::from_secs(60) };
        let background =
            Background { streams: 10.0, every: Span::from_secs(30), curve: Some(curve), ..Background::default() };
        // 10 (1 + cos(2 pi (t - 60) / 240)) at 0, 30, 60, 90, 180 s.
        let seen = [0, 29, 30, 60, 89, 90, 180, 240].map(|second| at(&background, second));
        assert_eq!(seen, [10, 10, 17, 20, 20, 17, 0, 10]);
        assert_eq!(at(&Background::default(), 5), 0);
    }

    #[test]
    fn a_draw_holds_and_the_draws_have_the_mean_and_the_variation_asked_for() {
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
    fn a_background_that_makes_no_sense_is_refused() {
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
