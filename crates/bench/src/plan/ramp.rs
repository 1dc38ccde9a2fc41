//! Load that rises or falls over time.
//!
//! Invariant: a ramp is a function of time only, so an open loop on a ramp keeps an absolute schedule too.

use std::fmt;
use tokrate_core::Span;

/// A level that changes from one value to another.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ramp {
    /// The level at the start; above 0.
    pub from: f64,
    /// The level at the end; above 0.
    pub to: f64,
    /// By equal steps or by equal factors.
    pub growth: Growth,
    /// How long it takes.
    pub over: Span,
}

/// How a level changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Growth {
    /// By as much in any time of one length.
    #[default]
    Linear,
    /// By the same factor in any time of one length.
    Exponential,
}

impl Growth {
    /// The name used on the command line and in records.
    pub const fn name(self) -> &'static str {
        match self {
            Growth::Linear => "linear",
            Growth::Exponential => "exponential",
        }
    }
}

impl Ramp {
    /// Its mean over time.
    pub fn mean(&self) -> f64 {
        let ratio = self.to / self.from;
        match self.growth {
            Growth::Exponential if (ratio - 1.0).abs() > 1e-9 => (self.to - self.from) / ratio.ln(),
            _ => f64::midpoint(self.from, self.to),
        }
    }

    /// When slot `slot` (from 0) of a closed loop on this ramp is open: from, until; `None` if it never is.
    ///
    /// Each whole level is held for its share of the time, the last one too: linear equally long, exponential so that equal
    /// factors take equally long. A falling ramp is the rising one seen backwards.
    pub(super) fn slot(&self, slot: u32) -> Option<(Span, Span)> {
        let (low, high) = (self.from.min(self.to), self.from.max(self.to));
        let needs = f64::from(slot) + 1.0;
        if needs > high {
            return None;
        }
        let share = if needs <= low {
            0.0
        } else {
            match self.growth {
                Growth::Linear => (needs - low) / (high + 1.0 - low),
                Growth::Exponential => (needs / low).ln() / ((high + 1.0) / low).ln(),
            }
        };
        let part = Span::from_secs_f64(self.over.as_secs_f64() * share);
        Some(if self.from <= self.to { (part, self.over) } else { (Span::ZERO, self.over - part) })
    }

    /// When the `arrivals`-th arrival (a real number) is due on a schedule with this rate per second; `None` after the end.
    ///
    /// The inverse of the rate's integral: gaps of mean 1, mapped through it, become a process of that rate (the time
    /// rescaling of point processes).
    pub(super) fn due(&self, arrivals: f64) -> Option<Span> {
        let time = self.over.as_secs_f64();
        let (from, to) = (self.from, self.to);
        let seconds = match self.growth {
            _ if from == to => arrivals / from,
            Growth::Linear => {
                // from t + (to - from) t^2 / (2 T) = n, solved without cancellation.
                let slope = (to - from) / time;
                let root = from * from + 2.0 * slope * arrivals;
                if root < 0.0 {
                    return None;
                }
                2.0 * arrivals / (from + root.sqrt())
            }
            Growth::Exponential => {
                // from T / ln(to/from) ((to/from)^(t/T) - 1) = n.
                let log = (to / from).ln();
                let inside = 1.0 + arrivals * log / (from * time);
                if inside <= 0.0 {
                    return None;
                }
                time * inside.ln() / log
            }
        };
        (seconds < time).then(|| Span::from_secs_f64(seconds))
    }
}

impl fmt::Display for Ramp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}..{} {} over {} s", self.from, self.to, self.growth.name(), self.over.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ramp(from: f64, to: f64, growth: Growth) -> Ramp {
        Ramp { from, to, growth, over: Span::from_secs(60) }
    }

    fn open_at(ramp: &Ramp, second: f64) -> usize {
        let at = Span::from_secs_f64(second);
        (0..100).filter_map(|slot| ramp.slot(slot)).filter(|(from, until)| *from <= at && at < *until).count()
    }

    #[test]
    fn every_level_of_a_closed_ramp_is_held_for_its_share() {
        let rising = ramp(1.0, 6.0, Growth::Linear);
        assert_eq!([0.0, 9.9, 10.1, 35.0, 50.1, 59.9].map(|second| open_at(&rising, second)), [1, 1, 2, 4, 6, 6]);
        let falling = ramp(6.0, 1.0, Growth::Linear);
        assert_eq!([0.0, 9.9, 10.1, 25.0, 50.1, 59.9].map(|second| open_at(&falling, second)), [6, 6, 5, 4, 1, 1]);
        let doubling = ramp(1.0, 63.0, Growth::Exponential);
        assert_eq!([0.0, 9.9, 10.1, 20.1, 30.1, 50.1].map(|second| open_at(&doubling, second)), [1, 1, 2, 4, 8, 32]);
        assert_eq!(open_at(&ramp(3.0, 3.0, Growth::Exponential), 59.0), 3);
    }

    #[test]
    fn arrivals_of_an_open_ramp_have_its_rate_at_every_time() {
        for (from, to) in [(1.0, 20.0), (20.0, 1.0), (5.0, 5.0)] {
            for growth in [Growth::Linear, Growth::Exponential] {
                let ramp = ramp(from, to, growth);
                let due: Vec<f64> = (0..).map_while(|n| ramp.due(f64::from(n))).map(Span::as_secs_f64).collect();
                let total = match growth {
                    _ if from == to => from * 60.0,
                    Growth::Linear => (from + to) / 2.0 * 60.0,
                    Growth::Exponential => (to - from) / (to / from).ln() * 60.0,
                };
                assert!((due.len() as f64 - total).abs() <= 1.0, "{ramp}: {} of {total}", due.len());
                assert!(due.is_sorted());
                for pair in due.windows(2) {
                    let share = (pair[0] + pair[1]) / 120.0;
                    let rate = match growth {
                        Growth::Linear => from + (to - from) * share,
                        Growth::Exponential => from * (to / from).powf(share),
                    };
                    let seen = 1.0 / (pair[1] - pair[0]);
                    assert!((seen / rate - 1.0).abs() < 0.05, "{ramp}: {seen} instead of {rate} at {share}");
                }
            }
        }
    }
}
