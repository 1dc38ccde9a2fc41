//! How an engine changes while time goes by: sudden changes, a daily curve.
//!
//! It refuses to know the engine's state. Invariant: what holds at a moment follows from the time alone, so it does not
//! matter who asks how often.

use crate::faults::Faults;
use crate::law::LawError;
use std::f64::consts::TAU;
use tokrate_core::Span;

/// What becomes of an engine over time. The empty timetable changes nothing.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Timetable {
    /// Changes in the order of their times.
    pub changes: Vec<Change>,
    /// A curve that multiplies every speed.
    pub speed: Option<Curve>,
}

/// What holds from a time on, until the next change.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// From when on, since the engine's start.
    pub at: Span,
    /// Factor on the speed of streams (1 for the law's).
    pub speed: f64,
    /// Factor on the time from slot to first chunk.
    pub ttft: f64,
    /// Factor on the probability of every fault.
    pub faults: f64,
    /// Faults in place of the engine's own.
    pub instead: Option<Faults>,
}

/// A wave around 1: `1 + amplitude cos(2 pi (t - peak) / period)`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Curve {
    /// Time of one round.
    pub period: Span,
    /// How far it goes up and down, 0 to 1.
    pub amplitude: f64,
    /// When it is highest (its phase).
    pub peak: Span,
}

impl Timetable {
    /// Whether the engine is always the same.
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

    /// Factor on the time from slot to first chunk; what slows the streams slows this too.
    pub fn ttft_at(&self, elapsed: Span) -> f64 {
        let changed = self.change_at(elapsed).map_or(1.0, |change| change.ttft);
        changed / self.speed.map_or(1.0, |curve| curve.at(elapsed))
    }

    /// Whether the numbers make sense.
    ///
    /// # Errors
    /// Names the first value that does not.
    pub fn check(&self) -> Result<(), LawError> {
        for change in &self.changes {
            let factors = [("factor on the speed", change.speed), ("factor on the ttft", change.ttft)];
            for (name, value) in factors {
                if !(value.is_finite() && value > 0.0) {
                    return Err(LawError::Setting { name, value, wanted: "a number above 0" });
                }
            }
            if !(change.faults.is_finite() && change.faults >= 0.0) {
                let (name, value) = ("factor on the faults", change.faults);
                return Err(LawError::Setting { name, value, wanted: "a number from 0 on" });
            }
            change.instead.as_ref().map_or(Ok(()), Faults::check)?;
        }
        if !self.changes.is_sorted_by(|a, b| a.at < b.at) {
            return Err(LawError::Order);
        }
        match self.speed {
            // A speed of 0 would never come to an end.
            Some(curve) if curve.amplitude >= 1.0 => {
                let (name, value) = ("amplitude of the speed", curve.amplitude);
                Err(LawError::Setting { name, value, wanted: "a number from 0 to below 1" })
            }
            Some(curve) => curve.check(),
            None => Ok(()),
        }
    }
}

impl Curve {
    /// Its height at a time.
    pub fn at(&self, elapsed: Span) -> f64 {
        let period = self.period.as_nanos() as i128;
        // Taken modulo the period in whole nanoseconds, so that the last day is as exact as the first.
        let since_peak = (elapsed.as_nanos() as i128 - self.peak.as_nanos() as i128).rem_euclid(period);
        1.0 + self.amplitude * (TAU * since_peak as f64 / period as f64).cos()
    }

    /// Whether the numbers make sense.
    ///
    /// # Errors
    /// Names the value that does not.
    pub fn check(&self) -> Result<(), LawError> {
        if self.period == Span::ZERO {
            return Err(LawError::Setting { name: "period of a curve", value: 0.0, wanted: "a time above 0" });
        }
        if !(0.0..=1.0).contains(&self.amplitude) {
            let (name, value) = ("amplitude of a curve", self.amplitude);
            return Err(LawError::Setting { name, value, wanted: "a number from 0 to 1" });
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
        Change { at: minutes(at), speed, ttft: 1.0 / speed, faults: 1.0, instead: None }
    }

    #[test]
    fn a_change_holds_from_its_minute_to_the_next() {
        let table = Timetable { changes: vec![change(10, 0.5), change(20, 2.0)], speed: None };
        assert_eq!(table.check(), Ok(()));
        let speeds = [0, 9, 10, 19, 20, 999].map(|minute| table.speed_at(minutes(minute)));
        assert_eq!(speeds, [1.0, 1.0, 0.5, 0.5, 2.0, 2.0]);
        assert_eq!(table.speed_at(minutes(10) - Span::from_nanos(1)), 1.0);
        assert_eq!(table.ttft_at(minutes(10)), 2.0);
        assert!(Timetable::default().is_empty() && !table.is_empty());
    }

    #[test]
    fn a_curve_has_its_peak_where_it_says_and_comes_round() {
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
    fn a_timetable_that_makes_no_sense_is_refused() {
        let wrong = |changes, speed| Timetable { changes, speed }.check().expect_err("refused").to_string();
        assert_eq!(wrong(vec![change(10, 0.0)], None), "set the factor on the speed to 0; give a number above 0");
        let order = "order the changes: each must come later than the one before it";
        assert_eq!(wrong(vec![change(10, 1.0), change(10, 1.0)], None), order);
        let standing = Curve { period: minutes(1), amplitude: 1.0, peak: Span::ZERO };
        assert!(wrong(vec![], Some(standing)).contains("from 0 to below 1"));
        assert!(wrong(vec![], Some(Curve { period: Span::ZERO, amplitude: 0.1, ..standing })).contains("period"));
    }
}
