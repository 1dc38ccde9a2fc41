//! Changes of an engine over time: step changes and a periodic curve.
//!
//! Invariant: the state at a time depends on the time alone, not on how often it is queried.

use crate::faults::Faults;
use crate::law::LawError;
use std::f64::consts::TAU;
use tokrate_core::Span;

/// How an engine changes over time. An empty timetable changes nothing.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Timetable {
    /// Changes, sorted by time.
    pub changes: Vec<Change>,
    /// A curve that multiplies every speed.
    pub speed: Option<Curve>,
}

/// The state from a time on until the next change.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// When it begins, since the engine's start.
    pub at: Span,
    /// Factor on the speed of streams (1 for the law's).
    pub speed: f64,
    /// Factor on the time from slot to first chunk.
    pub ttft: f64,
    /// Factor on the probability of every fault.
    pub faults: f64,
    /// Faults that replace the engine's own.
    pub replacement: Option<Faults>,
}

/// A wave around 1: `1 + amplitude cos(2 pi (t - peak) / period)`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Curve {
    /// Period.
    pub period: Span,
    /// Amplitude, 0 to 1.
    pub amplitude: f64,
    /// Time of the maximum (phase).
    pub peak: Span,
}

impl Timetable {
    /// Whether the engine never changes.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.speed.is_none()
    }

    /// The latest change by `elapsed`.
    pub fn change_at(&self, elapsed: Span) -> Option<&Change> {
        let made = self.changes.partition_point(|change| change.at <= elapsed);
        made.checked_sub(1).map(|latest| &self.changes[latest])
    }

    /// Factor on the speed of streams.
    pub fn speed_at(&self, elapsed: Span) -> f64 {
        let changed = self.change_at(elapsed).map_or(1.0, |change| change.speed);
        changed * self.speed.map_or(1.0, |curve| curve.at(elapsed))
    }

    /// Factor on the time from slot to first chunk; a slowdown of the streams applies to it too.
    pub fn ttft_at(&self, elapsed: Span) -> f64 {
        let changed = self.change_at(elapsed).map_or(1.0, |change| change.ttft);
        changed / self.speed.map_or(1.0, |curve| curve.at(elapsed))
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// The first invalid value.
    pub fn check(&self) -> Result<(), LawError> {
        for change in &self.changes {
            let factors = [("factor on the speed", change.speed), ("factor on the ttft", change.ttft)];
            for (name, value) in factors {
                if !(value.is_finite() && value > 0.0) {
                    return Err(LawError::Setting { name, value, allowed: "a number above 0" });
                }
            }
            if !(change.faults.is_finite() && change.faults >= 0.0) {
                let (name, value) = ("factor on the faults", change.faults);
                return Err(LawError::Setting { name, value, allowed: "a number from 0 on" });
            }
            change.replacement.as_ref().map_or(Ok(()), Faults::check)?;
        }
        if !self.changes.is_sorted_by(|a, b| a.at < b.at) {
            return Err(LawError::Order);
        }
        match self.speed {
            // With a speed of 0 a stream would never end.
            Some(curve) if curve.amplitude >= 1.0 => {
                let (name, value) = ("amplitude of the speed", curve.amplitude);
                Err(LawError::Setting { name, value, allowed: "a number from 0 to below 1" })
            }
            Some(curve) => curve.check(),
            None => Ok(()),
        }
    }
}

impl Curve {
    /// Its value at a time.
    pub fn at(&self, elapsed: Span) -> f64 {
        let period = self.period.as_nanos() as i128;
        // Modulo the period in whole nanoseconds, so that it stays exact over long times.
        let since_peak = (elapsed.as_nanos() as i128 - self.peak.as_nanos() as i128).rem_euclid(period);
        1.0 + self.amplitude * (TAU * since_peak as f64 / period as f64).cos()
    }

    /// Whether the numbers make sense.
    ///
    /// # Errors
    /// The invalid value.
    pub fn check(&self) -> Result<(), LawError> {
        if self.period == Span::ZERO {
            return Err(LawError::Setting { name: "period of a curve", value: 0.0, allowed: "a time above 0" });
        }
        if !(0.0..=1.0).contains(&self.amplitude) {
            let (name, value) = ("amplitude of a curve", self.amplitude);
            return Err(LawError::Setting { name, value, allowed: "a number from 0 to 1" });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minutes(minutes: u64) -> Span {
        Span::from_secs(60 * minutes)
    }

    fn change(at: u64, speed: f64) -> Change {
        Change { at: minutes(at), speed, ttft: 1.0 / speed, faults: 1.0, replacement: None }
    }

    #[test]
    fn a_change_lasts_until_the_next() {
        let table = Timetable { changes: vec![change(10, 0.5), change(20, 2.0)], speed: None };
        assert_eq!(table.check(), Ok(()));
        let speeds = [0, 9, 10, 19, 20, 999].map(|minute| table.speed_at(minutes(minute)));
        assert_eq!(speeds, [1.0, 1.0, 0.5, 0.5, 2.0, 2.0]);
        assert_eq!(table.speed_at(minutes(10) - Span::from_nanos(1)), 1.0);
        assert_eq!(table.ttft_at(minutes(10)), 2.0);
        assert!(Timetable::default().is_empty() && !table.is_empty());
    }

    #[test]
    fn a_curve_peaks_at_its_phase_and_is_periodic() {
        let curve = Curve { period: minutes(24 * 60), amplitude: 0.25, peak: minutes(4 * 60) };
        assert_eq!(curve.at(minutes(4 * 60)), 1.25);
        assert_eq!(curve.at(minutes(16 * 60)), 0.75);
        assert!((curve.at(minutes(10 * 60)) - 1.0).abs() < 1e-12);
        assert_eq!(curve.at(minutes(400 * 24 * 60 + 4 * 60)), 1.25);
        let table = Timetable { changes: vec![change(60, 0.5)], speed: Some(curve) };
        assert_eq!(table.speed_at(minutes(16 * 60)), 0.375);
        assert_eq!(table.ttft_at(minutes(16 * 60)), 2.0 / 0.75);
    }

    #[test]
    fn an_invalid_timetable_is_rejected() {
        let wrong = |changes, speed| Timetable { changes, speed }.check().expect_err("refused").to_string();
        assert_eq!(wrong(vec![change(10, 0.0)], None), "set the factor on the speed to 0; give a number above 0");
        let order = "order the changes: each must come later than the one before it";
        assert_eq!(wrong(vec![change(10, 1.0), change(10, 1.0)], None), order);
        let standing = Curve { period: minutes(1), amplitude: 1.0, peak: Span::ZERO };
        assert!(wrong(vec![], Some(standing)).contains("from 0 to below 1"));
        assert!(wrong(vec![], Some(Curve { period: Span::ZERO, amplitude: 0.1, ..standing })).contains("period"));
    }
}
