//! Rates as types, so that the speed of a request and an arrival rate cannot be swapped.
//!
//! The field that holds a value names which speed of the glossary it is. Invariant: a value is finite and not
//! negative.

use crate::Span;
use std::fmt;

/// Tokens per second.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct TokensPerSecond(f64);

/// Requests per second.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct RequestsPerSecond(f64);

macro_rules! rate {
    ($name:ident, $unit:literal) => {
        impl $name {
            /// The rate, or `None` unless it is finite and not negative.
            pub fn new(per_second: f64) -> Option<$name> {
                (per_second.is_finite() && per_second >= 0.0).then_some($name(per_second))
            }

            /// `count` in `span`; `None` when the span is zero.
            pub fn of(count: u64, span: Span) -> Option<$name> {
                if span.is_zero() { None } else { $name::new(count as f64 / span.as_secs_f64()) }
            }

            /// The plain number, per second.
            pub fn per_second(self) -> f64 {
                self.0
            }

            /// The mean interval; `None` for a rate of zero.
            pub fn interval(self) -> Option<Span> {
                (self.0 > 0.0).then(|| Span::from_secs_f64(1.0 / self.0))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                let decimals = if self.0 >= 100.0 { 0 } else { 1 };
                write!(formatter, "{:.decimals$} {}", self.0, $unit)
            }
        }
    };
}

rate!(TokensPerSecond, "tok/s");
rate!(RequestsPerSecond, "req/s");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_finite_or_absent() {
        assert_eq!(TokensPerSecond::of(3, Span::ZERO), None);
        assert_eq!(TokensPerSecond::new(f64::NAN), None);
        assert_eq!(TokensPerSecond::of(30, Span::from_secs(2)).map(TokensPerSecond::per_second), Some(15.0));
        let rate = RequestsPerSecond::new(4.0).expect("finite");
        assert_eq!(rate.interval(), Some(Span::from_millis(250)));
    }
}
