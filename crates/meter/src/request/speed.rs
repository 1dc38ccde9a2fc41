//! The times of a stream since its request was sent, and its output speed, for every way of reading it.
//!
//! Invariant: a speed is stated only if it is known to two percent; else the reason is given.

use tokrate_core::{Span, Tick};

/// Fewest tokens for an output speed: with fewer, one token more or less in the first chunk changes it too much.
pub const MIN_SPEED_TOKENS: u64 = 16;
/// From so many reads on, of about an event each, the last gap is one of many that vary as the engine does, and no sign of text that
/// was held back.
const MANY_CHUNKS: u64 = 8;
/// From so many text events a read on, on average, text waits for others before it is sent.
const COALESCED_EVENTS: u64 = 2;
/// Why an answer that was not asked for as a stream has no time to first token and no speed of writing.
pub const NOT_STREAMED: &str = "not streamed: the answer came in one piece";
/// How far the time of one read may be off (measured against an engine that logs its writes: 0.03 to 0.085 ms at 600 to 2,500
/// tokens a second).
pub const TIMESTAMP_ERROR: Span = Span::from_micros(100);
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
    /// It was sent in few pieces, of which the last came too late or too early for its size.
    FewChunks,
    /// It was held back and came together, in few reads.
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
            NoSpeedReason::FewChunks => "so few chunks that the time of one decides",
            NoSpeedReason::FewReads => "text came together in too few reads",
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
    /// Those of them that the last chunk completed.
    pub tokens_last_chunk: u64,
    /// The gap before the last chunk.
    pub last_gap: Span,
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
        } else if later == 0 {
            Err(if self.text_events > 1 { NoSpeedReason::FewReads } else { NoSpeedReason::NoLaterToken })
        } else if self.window() < min_decode_window() {
            Err(NoSpeedReason::ShortWindow)
        } else if self.relative_error(later) > MAX_SPEED_ERROR {
            Err(if self.is_coalesced() { NoSpeedReason::FewReads } else { NoSpeedReason::FewChunks })
        } else {
            Ok(later as f64 / self.window().as_secs_f64())
        }
    }

    /// How far the speed may be off, as a share of it. With W the time from first text to last, g the gap before the last chunk, L the
    /// tokens after the first chunk and k those of the last one, it is the sum of
    ///
    /// - 2 e / W: both stamps may be off by e ([`TIMESTAMP_ERROR`]);
    /// - |(1 - g / W) / (1 - k / L) - 1|: by how much the speed L / W differs from the one up to the chunk before the last,
    ///   (L - k) / (W - g). The last chunk may have been done before it was sent, and by this the whole speed is too low. Of one token
    ///   in each of many reads it is left out: there the last gap is no sign of text held back;
    /// - s / (L - k - s) with the tokens s of an event, where text is held back until more is there: a read then ends somewhere within
    ///   an event, so that the count between two reads is off by less than one of them.
    ///
    /// What is held back for less than the time of two events cannot be told from an engine whose gaps vary.
    ///
    /// The terms are bounds of what an engine of constant speed may show, from the definition of the speed; they are held against
    /// simulated engines of known speed in the tests.
    fn relative_error(&self, later: u64) -> f64 {
        let window = self.window().as_secs_f64();
        let stamps = 2.0 * TIMESTAMP_ERROR.as_secs_f64() / window;
        let before_last = later.saturating_sub(self.tokens_last_chunk) as f64;
        let (time_share, token_share) = (1.0 - self.last_gap.as_secs_f64() / window, before_last / later as f64);
        let coalesced = self.is_coalesced();
        let last = match () {
            () if self.chunks >= MANY_CHUNKS && !coalesced => 0.0,
            () if before_last > 0.0 => (time_share / token_share - 1.0).abs(),
            () => f64::INFINITY,
        };
        let of_event = self.tokens.unwrap_or(0).div_ceil(self.text_events.max(1)) as f64;
        let count = match () {
            () if !coalesced => 0.0,
            () if before_last > of_event => of_event / (before_last - of_event),
            () => f64::INFINITY,
        };
        stamps + last + count
    }

    /// Whether text waits for others before it is sent.
    fn is_coalesced(&self) -> bool {
        self.text_events >= COALESCED_EVENTS * self.chunks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chunks at these times (us), each with so many tokens and text events.
    fn stream(chunks: &[(u64, u64, u64)]) -> StreamTimes {
        let at = |place: usize| Tick::ZERO + Span::from_micros(chunks[place].0);
        let last = chunks.len() - 1;
        StreamTimes {
            sent_at: None,
            first_text_at: Some(at(0)),
            first_answer_at: None,
            last_text_at: Some(at(last)),
            text_events: chunks.iter().map(|chunk| chunk.2).sum(),
            chunks: chunks.len() as u64,
            tokens: Some(chunks.iter().map(|chunk| chunk.1).sum()),
            tokens_first_chunk: chunks[0].1,
            tokens_last_chunk: chunks[last].1,
            last_gap: if last > 0 { at(last) - at(last - 1) } else { Span::ZERO },
        }
    }

    #[test]
    fn a_speed_is_stated_once_two_timestamps_determine_it_to_two_percent() {
        let seen = |step: u64| stream(&(0..60).map(|place| (place * step, 1, 1)).collect::<Vec<_>>());
        assert_eq!(seen(170).speed(), Ok(59.0 / 0.010_03));
        assert_eq!(seen(169).speed(), Err(NoSpeedReason::ShortWindow));
    }

    #[test]
    fn few_chunks_of_many_tokens_have_a_speed_where_the_last_came_in_time() {
        // 60 tokens at 800 tok/s, 16 a chunk: 20, 20 and 15 ms, and 0.2 ms of them are uncertain.
        let seen = |last: u64| stream(&[(0, 16, 1), (20_000, 16, 1), (40_000, 16, 1), (last, 12, 1)]);
        assert_eq!(seen(55_000).speed(), Ok(800.0));
        assert_eq!(seen(62_000).speed(), Err(NoSpeedReason::FewChunks), "the last one waited");
        assert_eq!(
            stream(&[(0, 30, 1), (37_500, 30, 1)]).speed(),
            Err(NoSpeedReason::FewChunks),
            "nothing to hold it against"
        );
        assert_eq!(stream(&[(0, 60, 1)]).speed(), Err(NoSpeedReason::NoLaterToken));
    }

    #[test]
    fn text_that_was_held_back_is_not_called_quick() {
        // 48 tokens by the first read, the other 12 of 800 tok/s with the next, 100 ms later: 120 tok/s would be wrong.
        let reason = stream(&[(0, 48, 48), (100_000, 12, 12)]).speed().expect_err("it was held back");
        assert_eq!(reason, NoSpeedReason::FewReads);
        assert!(!reason.reason().contains("quick") && !reason.reason().contains("8"));
        assert_eq!(stream(&[(0, 60, 60)]).speed(), Err(NoSpeedReason::FewReads));
        // Ten reads of 80 tokens, the last as full as the others.
        let full: Vec<(u64, u64, u64)> = (0..10).map(|place| (place * 100_000, 80, 80)).collect();
        assert_eq!(stream(&full).speed(), Ok(800.0));
        let mut short = full;
        short[9] = (900_000, 30, 30);
        assert_eq!(stream(&short).speed(), Err(NoSpeedReason::FewReads), "the last was done after 38 of its 100 ms");
    }

    #[test]
    fn no_speed_that_is_stated_of_a_steady_engine_is_off_by_more_than_two_percent() {
        // Tokens at k / rate, held back until the next multiple of an interval (0: never), so many tokens an event.
        let mut stated = [0_u32; 2];
        for rate in [90.0, 317.0, 800.0, 1_913.0] {
            for (tokens, an_event, held_ms) in (16..400_u64).step_by(7).flat_map(|tokens| {
                [(1, 0.0), (16, 0.0), (5, 0.0), (1, 100.0), (1, 37.0), (1, 9.0), (4, 50.0)]
                    .map(|(event, held)| (tokens, event, held))
            }) {
                // Less than two events each time is not told from gaps that vary.
                if held_ms > 0.0 && held_ms * rate < 2e3 * an_event as f64 {
                    continue;
                }
                let mut chunks: Vec<(u64, u64, u64)> = Vec::new();
                let mut done = 0;
                while done < tokens {
                    let of_event = u64::min(an_event, tokens - done);
                    done += of_event;
                    let ready = 40.0 + 1e3 * done as f64 / rate;
                    let sent = if held_ms > 0.0 { (ready / held_ms).ceil() * held_ms } else { ready };
                    let at = (sent * 1e3) as u64;
                    match chunks.last_mut() {
                        Some(last) if last.0 == at => (last.1, last.2) = (last.1 + of_event, last.2 + 1),
                        _ => chunks.push((at, of_event, 1)),
                    }
                }
                let seen = stream(&chunks);
                if let Ok(speed) = seen.speed() {
                    let off = (speed / rate - 1.0).abs();
                    let error = seen.relative_error(tokens - chunks[0].1);
                    assert!(
                        off <= error + 1e-3 && error <= MAX_SPEED_ERROR,
                        "{rate} {tokens} {an_event} {held_ms}: {off} {error}"
                    );
                    stated[usize::from(held_ms > 0.0)] += 1;
                }
            }
        }
        assert!(stated[0] > 500 && stated[1] > 100, "{stated:?}");
    }

    #[test]
    fn reasons_say_the_limits() {
        let [tokens, _, _, window, ..] = NoSpeedReason::ALL.map(NoSpeedReason::reason);
        assert_eq!(tokens, format!("fewer than {MIN_SPEED_TOKENS} tokens"));
        assert_eq!(window, format!("decode window shorter than {} ms", min_decode_window().as_nanos() / 1_000_000));
    }
}
