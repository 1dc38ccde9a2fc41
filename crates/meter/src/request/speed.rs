//! The times of a stream since its request was sent, and its output speed, for every way of reading it.
//!
//! Invariant: a speed is stated only if two timestamps determine it to two percent; else the reason is given.

use tokrate_core::{Span, Tick};

/// Fewest tokens for an output speed: with fewer, one token more or less in the first chunk changes it too much.
pub const MIN_SPEED_TOKENS: u64 = 16;
/// Fewest reads and fewest text events for an output speed.
const MIN_CHUNKS: u64 = 8;
/// Why an answer that was not asked for as a stream has no time to first token and no speed of writing.
pub const NOT_STREAMED: &str = "not streamed: the answer came in one piece";
/// How far the time of one read may be off (measured against an engine that logs its writes: 0.03 to 0.085 ms at 600 to 2,500
/// tokens a second).
pub(super) const TIMESTAMP_ERROR: Span = Span::from_micros(100);
/// Largest relative error of an output speed.
const MAX_SPEED_ERROR: f64 = 0.02;

/// The shortest time from first text to last of which a speed is stated: at both ends the time may be off.
pub(super) fn min_decode_window() -> Span {
    Span::from_nanos((2.0 * TIMESTAMP_ERROR.as_nanos() as f64 / MAX_SPEED_ERROR) as u64)
}

/// Why an answer has no output speed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoSpeedReason {
    /// It is too short.
    FewTokens,
    /// It was sent in few pieces.
    FewChunks,
    /// It was sent in enough pieces, which came together in few reads.
    FewReads,
    /// It was over too soon to be timed.
    ShortWindow,
    /// All of it came with the first chunk.
    NoLaterToken,
    /// Its tokens were not counted.
    NotCounted,
    /// It was not asked for as a stream.
    NotStreamed,
}

impl NoSpeedReason {
    /// All of them.
    pub const ALL: [NoSpeedReason; 7] = [
        NoSpeedReason::FewTokens,
        NoSpeedReason::FewChunks,
        NoSpeedReason::FewReads,
        NoSpeedReason::ShortWindow,
        NoSpeedReason::NoLaterToken,
        NoSpeedReason::NotCounted,
        NoSpeedReason::NotStreamed,
    ];

    /// The reason, as written in rows.
    pub const fn reason(self) -> &'static str {
        match self {
            NoSpeedReason::FewTokens => "fewer than 16 tokens",
            NoSpeedReason::FewChunks => "fewer than 8 chunks",
            NoSpeedReason::FewReads => "fewer than 8 reads",
            NoSpeedReason::ShortWindow => "decode window shorter than 10 ms",
            NoSpeedReason::NoLaterToken => "no token after the first chunk",
            NoSpeedReason::NotCounted => "tokens were not counted",
            NoSpeedReason::NotStreamed => NOT_STREAMED,
        }
    }

    /// Whether it affects fast answers, so that the remaining speeds are biased.
    pub const fn depends_on_speed(self) -> bool {
        matches!(self, NoSpeedReason::FewReads | NoSpeedReason::ShortWindow)
    }
}

/// When the text of a stream came, and how much there was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamTimes {
    /// When the last byte of the request was handed to the socket.
    pub sent_at: Option<Tick>,
    pub first_text_at: Option<Tick>,
    /// The first text that is not reasoning.
    pub first_answer_at: Option<Tick>,
    pub last_text_at: Option<Tick>,
    /// Text events that the server sent.
    pub text_events: u64,
    /// Reads that brought text.
    pub chunks: u64,
    /// Output tokens; `None` if they were not counted.
    pub tokens: Option<u64>,
    /// Those of them that the first chunk completed.
    pub tokens_first_chunk: u64,
}

impl StreamTimes {
    /// From the request's sending to a tick (ns).
    pub fn since_sent(&self, tick: Option<Tick>) -> Option<u64> {
        tick.zip(self.sent_at).map(|(tick, sent_at)| (tick - sent_at).as_nanos())
    }

    /// First text to last.
    pub fn window(&self) -> Span {
        self.first_text_at.zip(self.last_text_at).map_or(Span::ZERO, |(first, last)| last - first)
    }

    /// The output speed: tokens after the first chunk over the time from first text to last, in tokens per second; or why it
    /// cannot be stated.
    pub fn speed(&self) -> Result<f64, NoSpeedReason> {
        let tokens = self.tokens.ok_or(NoSpeedReason::NotCounted)?;
        let later = tokens - self.tokens_first_chunk;
        if tokens < MIN_SPEED_TOKENS {
            Err(NoSpeedReason::FewTokens)
        } else if self.text_events < MIN_CHUNKS {
            Err(NoSpeedReason::FewChunks)
        } else if self.chunks < MIN_CHUNKS {
            Err(NoSpeedReason::FewReads)
        } else if self.window() < min_decode_window() {
            Err(NoSpeedReason::ShortWindow)
        } else if later == 0 {
            Err(NoSpeedReason::NoLaterToken)
        } else {
            Ok(later as f64 / self.window().as_secs_f64())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_stated_once_two_timestamps_determine_it_to_two_percent() {
        let seen = |text_events, chunks, window_us| StreamTimes {
            sent_at: None,
            first_text_at: Some(Tick::ZERO),
            first_answer_at: None,
            last_text_at: Some(Tick::ZERO + Span::from_micros(window_us)),
            text_events,
            chunks,
            tokens: Some(60),
            tokens_first_chunk: 1,
        };
        assert_eq!(seen(60, 60, 10_000).speed(), Ok(5_900.0));
        assert_eq!(seen(60, 60, 9_999).speed(), Err(NoSpeedReason::ShortWindow));
        assert_eq!(
            seen(60, 7, 24_000).speed(),
            Err(NoSpeedReason::FewReads),
            "sixty events came together in seven reads"
        );
        assert_eq!(seen(7, 7, 24_000).speed(), Err(NoSpeedReason::FewChunks), "so many were sent");
    }

    #[test]
    fn reasons_say_the_limits() {
        let [tokens, chunks, reads, window, ..] = NoSpeedReason::ALL.map(NoSpeedReason::reason);
        assert_eq!(tokens, format!("fewer than {MIN_SPEED_TOKENS} tokens"));
        assert_eq!(chunks, format!("fewer than {MIN_CHUNKS} chunks"));
        assert_eq!(reads, format!("fewer than {MIN_CHUNKS} reads"));
        assert_eq!(window, format!("decode window shorter than {} ms", min_decode_window().as_nanos() / 1_000_000));
    }
}
