//! Points in time and durations, in whole nanoseconds.
//!
//! A [`Tick`] always comes from the caller, who owns the real or simulated clock. Invariant: arithmetic saturates; it never
//! wraps or panics.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A point in time: nanoseconds since an origin that is fixed for the process (or simulation).
///
/// On a real clock the origin is that of the operating system's monotonic clock, so that ticks of two processes on one
/// machine can be compared. Ticks of different machines cannot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tick(u64);

/// A duration in nanoseconds, never negative.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(u64);

impl Tick {
    /// The origin of the clock.
    pub const ZERO: Tick = Tick(0);
    /// Later than every other tick: "never".
    pub const MAX: Tick = Tick(u64::MAX);

    /// A tick `nanoseconds` after the origin.
    pub const fn from_nanos(nanoseconds: u64) -> Tick {
        Tick(nanoseconds)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to `self`; zero if `earlier` is the later one.
    pub const fn since(self, earlier: Tick) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// Nanoseconds from `other` to `self`, negative if `self` is the earlier one.
    pub const fn signed_nanos_since(self, other: Tick) -> i64 {
        if self.0 >= other.0 {
            let ahead = self.0 - other.0;
            if ahead > i64::MAX as u64 { i64::MAX } else { ahead as i64 }
        } else {
            let behind = other.0 - self.0;
            if behind > i64::MAX as u64 { i64::MIN } else { -(behind as i64) }
        }
    }
}

impl Span {
    /// Zero.
    pub const ZERO: Span = Span(0);
    /// Longer than every other span.
    pub const MAX: Span = Span(u64::MAX);

    /// A span of whole nanoseconds.
    pub const fn from_nanos(nanoseconds: u64) -> Span {
        Span(nanoseconds)
    }

    /// A span of whole microseconds.
    pub const fn from_micros(microseconds: u64) -> Span {
        Span(microseconds.saturating_mul(1_000))
    }

    /// A span of whole milliseconds.
    pub const fn from_millis(milliseconds: u64) -> Span {
        Span(milliseconds.saturating_mul(1_000_000))
    }

    /// A span of whole seconds.
    pub const fn from_secs(seconds: u64) -> Span {
        Span(seconds.saturating_mul(1_000_000_000))
    }

    /// A span of `seconds`, rounded to the nanosecond; zero for negative numbers and NaN.
    pub fn from_secs_f64(seconds: f64) -> Span {
        Span((seconds * 1e9).round() as u64)
    }

    /// Whole nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Milliseconds, with their fraction.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Seconds, with their fraction.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// True when the span is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// As a duration of the standard library, for external interfaces.
    pub const fn as_duration(self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0)
    }
}

impl From<std::time::Duration> for Span {
    fn from(duration: std::time::Duration) -> Span {
        Span(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Add<Span> for Tick {
    type Output = Tick;

    fn add(self, span: Span) -> Tick {
        Tick(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Tick {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Sub<Tick> for Tick {
    type Output = Span;

    fn sub(self, earlier: Tick) -> Span {
        self.since(earlier)
    }
}

impl Sub<Span> for Tick {
    type Output = Tick;

    fn sub(self, span: Span) -> Tick {
        Tick(self.0.saturating_sub(span.0))
    }
}

impl Add for Span {
    type Output = Span;

    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Span) {
        *self = *self + other;
    }
}

impl Sub for Span {
    type Output = Span;

    fn sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}

impl fmt::Debug for Tick {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "@{}ns", self.0)
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}ns", self.0)
    }
}

/// Prints with a unit that fits: `812 ns`, `4.20 µs`, `13.1 ms`, `2.50 s`.
impl fmt::Display for Span {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = self.0 as f64;
        let (value, unit) = match self.0 {
            0..1_000 => return write!(formatter, "{} ns", self.0),
            1_000..1_000_000 => (nanoseconds / 1e3, "µs"),
            1_000_000..1_000_000_000 => (nanoseconds / 1e6, "ms"),
            _ => (nanoseconds / 1e9, "s"),
        };
        let decimals = if value >= 100.0 {
            0
        } else if value >= 10.0 {
            1
        } else {
            2
        };
        write!(formatter, "{value:.decimals$} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Tick::from_nanos(3) - Tick::from_nanos(5), Span::ZERO);
        assert_eq!(Tick::MAX + Span::from_nanos(1), Tick::MAX);
        assert_eq!(Tick::from_nanos(3).signed_nanos_since(Tick::from_nanos(5)), -2);
        assert_eq!(Tick::ZERO.signed_nanos_since(Tick::MAX), i64::MIN);
        assert_eq!(Span::from_secs_f64(-1.0), Span::ZERO);
        assert_eq!(Span::from_secs_f64(f64::NAN), Span::ZERO);
    }

    #[test]
    fn a_span_prints_with_a_fitting_unit() {
        let shown: Vec<String> = [812, 4_200, 13_100_000, 250_000_000, 2_500_000_000]
            .map(|nanoseconds| Span::from_nanos(nanoseconds).to_string())
            .to_vec();
        assert_eq!(shown, ["812 ns", "4.20 µs", "13.1 ms", "250 ms", "2.50 s"]);
    }
}
