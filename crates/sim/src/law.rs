//! The performance law of an engine: how long a request waits and how fast it is answered.
//!
//! Invariant: a law that passed [`Law::check`] gives finite, non-negative times.

use crate::encoder::Encoder;
use std::fmt;
use tokrate_core::Span;

/// How requests are scheduled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Scheduler {
    /// A fixed number of slots. Running requests affect each other only through the speed law; the others wait in order
    /// of arrival.
    #[default]
    Slots,
}

/// The performance of an engine without faults.
///
/// With `n` streams decoding, each runs at `v(n) = v1 / (1 + alpha (n-1) + beta n (n-1))` tokens per second, so that
/// the total `n v(n)` follows the Universal Scalability Law (Gunther 1993). `v1` is `stream_tokens_per_second`, `alpha`
/// is `contention` and `beta` is `coherency`.
///
/// A stream *decodes* from the tick of its first chunk to that of its last. The gap before a chunk of `k` tokens lasts
/// `k / v(n)`, with `n` at the tick where the gap begins: streams whose first chunk falls on that tick are counted,
/// streams whose last chunk does are not. A gap that has begun does not change.
///
/// TTFT = wait for a slot + `base_delay` + time of the `encoder` + `input_tokens / prefill_tokens_per_second`.
#[derive(Clone, PartialEq, Debug)]
pub struct Law {
    /// How requests get to run.
    pub scheduler: Scheduler,
    /// Requests that run (prefill or decode) concurrently; the others queue.
    pub slots: u32,
    /// Limit of the queue; one more request is refused with 503. `None` for no limit.
    pub queue_limit: Option<u32>,
    /// From the start of prefill to the first chunk, without the time for the prompt.
    pub base_delay: Span,
    /// Prompt tokens per second; may be infinite.
    pub prefill_tokens_per_second: f64,
    /// How pictures and sound become tokens; without a scheduler.
    pub encoder: Encoder,
    /// Pixels per second and step of an image that is painted alone; it is slowed by others as streams are.
    pub pixel_steps_per_second: f64,
    /// Tokens per second of a single stream (`v1`); infinite for gaps of zero.
    pub stream_tokens_per_second: f64,
    /// How much each further stream slows every stream (`alpha`).
    pub contention: f64,
    /// How much each pair of streams slows every stream (`beta`).
    pub coherency: f64,
    /// Tokens per chunk. The last one, and the last of the reasoning, may have fewer.
    pub tokens_per_chunk: u32,
    /// Coefficient of variation of the gaps (log-normal, the mean is kept); 0 for none.
    pub gap_jitter: f64,
    /// Coefficient of variation of the time from slot to first chunk (log-normal, the mean is kept); 0 for none.
    pub ttft_jitter: f64,
    /// Output tokens that are reasoning, before the answer; they count towards the output limit.
    pub reasoning_tokens: u32,
    /// Chunks leave the engine only at multiples of this interval; zero for immediately.
    pub coalesce: Span,
    /// Send a chunk with nothing but the role when prefill begins.
    pub role_first: bool,
    /// Report usage after every chunk, if usage was asked for.
    pub usage_every_chunk: bool,
    /// Output tokens of a request without a limit. It finishes with `stop`, one with a limit with `length`.
    pub default_output_tokens: u32,
    /// Upper limit of output tokens.
    pub max_output_tokens: u32,
}

impl Default for Law {
    /// An engine that shows the effect of load within a minute: 120 tok/s for a single stream, 67 tok/s for each of 25,
    /// and a queue above 32.
    fn default() -> Law {
        Law {
            scheduler: Scheduler::Slots,
            slots: 32,
            queue_limit: None,
            base_delay: Span::from_millis(40),
            prefill_tokens_per_second: 20_000.0,
            encoder: Encoder::default(),
            pixel_steps_per_second: 2e7,
            stream_tokens_per_second: 120.0,
            contention: 0.02,
            coherency: 0.0005,
            tokens_per_chunk: 1,
            gap_jitter: 0.0,
            ttft_jitter: 0.0,
            reasoning_tokens: 0,
            coalesce: Span::ZERO,
            role_first: true,
            usage_every_chunk: false,
            default_output_tokens: 256,
            max_output_tokens: 131_072,
        }
    }
}

impl Law {
    /// No delays, no gaps, and a slot for every request.
    pub fn unlimited() -> Law {
        Law {
            slots: u32::MAX,
            base_delay: Span::ZERO,
            prefill_tokens_per_second: f64::INFINITY,
            pixel_steps_per_second: f64::INFINITY,
            stream_tokens_per_second: f64::INFINITY,
            contention: 0.0,
            coherency: 0.0,
            ..Law::default()
        }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// The first invalid value and its valid range.
    pub fn check(&self) -> Result<(), LawError> {
        let whole = [
            ("slots", self.slots),
            ("tokens per chunk", self.tokens_per_chunk),
            ("output tokens by default", self.default_output_tokens),
            ("largest number of output tokens", self.max_output_tokens),
        ];
        if let Some((name, _)) = whole.into_iter().find(|(_, value)| *value == 0) {
            return Err(LawError::Zero { name });
        }
        let painted = Some(("pixels that are painted per second and step", self.pixel_steps_per_second));
        let painted = painted.filter(|(_, value)| value.is_nan() || *value <= 0.0);
        if let Some((name, value)) = self.encoder.invalid().or(painted) {
            return Err(LawError::Setting { name, value, allowed: "a number above 0, or inf" });
        }
        let speeds =
            [("prefill speed", self.prefill_tokens_per_second), ("stream speed", self.stream_tokens_per_second)];
        if let Some((name, value)) = speeds.into_iter().find(|(_, value)| value.is_nan() || *value <= 0.0) {
            return Err(LawError::Speed { name, value });
        }
        let factors = [
            ("contention (alpha)", self.contention, 1e6),
            ("coherency (beta)", self.coherency, 1e6),
            ("gap jitter", self.gap_jitter, 5.0),
            ("ttft jitter", self.ttft_jitter, 5.0),
        ];
        match factors.into_iter().find(|(_, value, max)| value.is_nan() || *value < 0.0 || value > max) {
            Some((name, value, max)) => Err(LawError::Factor { name, value, max }),
            None => Ok(()),
        }
    }

    /// Speed of each of `decoding` streams in tokens per second, `v(n)`; `v(1)` also for 0.
    pub fn stream_speed(&self, decoding: u32) -> f64 {
        let n = f64::from(decoding.max(1));
        self.stream_tokens_per_second / (1.0 + self.contention * (n - 1.0) + self.coherency * n * (n - 1.0))
    }

    /// The gap before a chunk of `tokens` that begins with `decoding` streams, without jitter; rounded to the
    /// nanosecond.
    pub fn gap(&self, tokens: u32, decoding: u32) -> Span {
        self.gap_at(tokens, decoding, 1.0)
    }

    /// The same with all speeds multiplied by `factor`.
    pub fn gap_at(&self, tokens: u32, decoding: u32, factor: f64) -> Span {
        Span::from_secs_f64(f64::from(tokens) / (self.stream_speed(decoding) * factor))
    }

    /// Time of an image of that size with so many steps that is painted alone, divided by the pieces that are shown of it; rounded to
    /// the nanosecond.
    pub fn painting_time(&self, (width, height): (u32, u32), steps: u64, pieces: u32) -> Span {
        let pixels = f64::from(width) * f64::from(height);
        Span::from_secs_f64(pixels * steps as f64 / self.pixel_steps_per_second / f64::from(pieces.max(1)))
    }

    /// The gap before a piece that alone takes so long, with `decoding` streams.
    pub(crate) fn slowed(&self, alone: Span, decoding: u32, factor: f64) -> Span {
        if self.stream_tokens_per_second.is_infinite() {
            return alone;
        }
        Span::from_secs_f64(alone.as_secs_f64() * self.stream_speed(1) / (self.stream_speed(decoding) * factor))
    }

    /// Time from getting a slot to the first chunk, without jitter; the part for the prompt is rounded to the
    /// nanosecond.
    pub fn first_chunk_delay(&self, input_tokens: u32) -> Span {
        self.base_delay + Span::from_secs_f64(f64::from(input_tokens) / self.prefill_tokens_per_second)
    }
}

/// An invalid value of a law, fault or persona. Messages complete "failed to ...".
#[derive(Clone, PartialEq, Debug)]
pub enum LawError {
    /// A count that must not be zero.
    Zero {
        /// What it counts.
        name: &'static str,
    },
    /// A speed that is zero, negative or not a number.
    Speed {
        /// Which speed.
        name: &'static str,
        /// Tokens per second as given.
        value: f64,
    },
    /// A factor outside its range.
    Factor {
        /// Which factor.
        name: &'static str,
        /// As given.
        value: f64,
        /// The highest allowed value.
        max: f64,
    },
    /// A probability outside of 0 to 1.
    Probability {
        /// Of which fault.
        name: &'static str,
        /// As given.
        value: f64,
    },
    /// An invalid setting of a persona.
    Setting {
        /// Which one.
        name: &'static str,
        /// As given.
        value: f64,
        /// The valid values.
        allowed: &'static str,
    },
    /// Changes of a timetable that are not sorted by time.
    Order,
    /// A status outside of 500 to 599.
    Status {
        /// As given.
        value: u16,
    },
    /// A fault that cannot be parsed.
    Fault {
        /// As written.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
        /// The known kinds.
        kinds: &'static [&'static str],
    },
}

impl fmt::Display for LawError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LawError::Zero { name } => write!(formatter, "set the {name} to 0; give at least 1"),
            LawError::Speed { name, value } => {
                write!(formatter, "set the {name} to {value} tok/s; give a number above 0, or inf")
            }
            LawError::Factor { name, value, max } => {
                write!(formatter, "set the {name} to {value}; give a number from 0 to {max}")
            }
            LawError::Probability { name, value } => {
                write!(formatter, "set the probability of {name} to {value}; give a number from 0 to 1")
            }
            LawError::Setting { name, value, allowed } => {
                write!(formatter, "set the {name} to {value}; give {allowed}")
            }
            LawError::Order => formatter.write_str("order the changes: each must come later than the one before it"),
            LawError::Status { value } => {
                write!(formatter, "set the status of server errors to {value}; give one from 500 to 599")
            }
            LawError::Fault { text, reason, kinds } => write!(
                formatter,
                "read the fault `{text}`: {reason}; write KIND=P or KIND@TOKEN=P with one of {}",
                kinds.join(", ")
            ),
        }
    }
}

impl std::error::Error for LawError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_law_and_the_unlimited_one_are_valid() {
        assert_eq!(Law::default().check(), Ok(()));
        assert_eq!(Law::unlimited().check(), Ok(()));
        assert_eq!(Law::unlimited().gap(1, 1_000), Span::ZERO);
        assert_eq!(Law::unlimited().first_chunk_delay(u32::MAX), Span::ZERO);
    }

    #[test]
    fn the_speed_follows_the_formula() {
        let law = Law::default();
        assert_eq!(law.stream_speed(1), 120.0);
        // 1 + 0.02 * 24 + 0.0005 * 25 * 24 = 1.78
        assert!((law.stream_speed(25) - 120.0 / 1.78).abs() < 1e-9);
        assert_eq!(law.gap(2, 1), Span::from_nanos(16_666_667));
        assert_eq!(law.first_chunk_delay(1_000), Span::from_millis(90));
    }

    #[test]
    fn an_invalid_value_is_named() {
        let message = |law: Law| law.check().expect_err("refused").to_string();
        let law = Law::default;
        assert_eq!(message(Law { slots: 0, ..law() }), "set the slots to 0; give at least 1");
        assert_eq!(
            message(Law { stream_tokens_per_second: f64::NAN, ..law() }),
            "set the stream speed to NaN tok/s; give a number above 0, or inf"
        );
        assert_eq!(
            message(Law { contention: -0.1, ..law() }),
            "set the contention (alpha) to -0.1; give a number from 0 to 1000000"
        );
        assert!(Law { prefill_tokens_per_second: 0.0, ..law() }.check().is_err());
        assert!(Law { gap_jitter: f64::INFINITY, ..law() }.check().is_err());
    }
}
