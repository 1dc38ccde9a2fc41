//! Sound of one request: when the first came, how long it plays, and where a player would have run dry.
//!
//! Invariant: a player begins with the first sound, plays at the pace of the sound, and goes on as soon as more comes; what it cannot know of
//! the length of the sound is absent.

use serde::{Deserialize, Serialize};
use tokrate_core::{SoundFormat, SoundPiece, Span, Tick};

/// Shorter gaps in the sound are not counted one by one: no ear hears them, and reads of a network are no evener.
const MIN_STALL: Span = Span::from_millis(1);
/// Why sound has no length.
const NO_LENGTH: &str = "the bytes do not say how long the sound plays";

/// The sound of an answer with ticks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SoundTrace {
    /// How it is written.
    pub format: SoundFormat,
    /// Its bytes, heads of files left out.
    pub bytes: u64,
    /// When it came: tick of a read, and how long everything up to it plays.
    pub arrivals: Vec<(Tick, Option<Span>)>,
}

/// Sound of one request, heard and said.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AudioNumbers {
    /// How the sound that came is written: `pcm`, `wav`, `mp3`, `opus`, `flac`, `aac` or `other`.
    pub format: Option<String>,
    /// Bytes of sound that came, heads of files left out.
    pub bytes: u64,
    /// Sent to the first sound that can be played (ns).
    pub first_ns: Option<u64>,
    /// How long the sound that came plays (ns).
    pub plays_ns: Option<u64>,
    /// Why that is not known although sound came.
    pub plays_missing: Option<String>,
    /// Gaps of at least 1 ms at which a player that begins with the first sound has nothing to play.
    pub stalls: Option<u64>,
    /// All its gaps together (ns): what it would have to wait before it begins in order to have none.
    pub stalled_ns: Option<u64>,
    /// How much of the sound it had played before the first of them (ns).
    pub first_stall_after_ns: Option<u64>,
    /// Opening the session, connecting included, if it was opened for this turn (ns); set by the caller.
    #[serde(default)]
    pub opened_ns: Option<u64>,
    /// How long the sound plays that was sent (ns); set by the caller.
    pub heard_ns: Option<u64>,
    /// Characters of the text that was to be said; set by the caller.
    pub characters: Option<u64>,
    /// Words of the text that was said in the sound that was sent, where it is known; set by the caller.
    pub words: Option<u64>,
    /// Words of the transcript that are missing, wrong or too many; set by the caller.
    pub word_errors: Option<u64>,
}

impl SoundTrace {
    /// Adds the sound of one read.
    pub(super) fn add(this: &mut Option<Box<SoundTrace>>, at: Tick, piece: SoundPiece) {
        let trace =
            this.get_or_insert_with(|| Box::new(SoundTrace { format: piece.format, bytes: 0, arrivals: Vec::new() }));
        trace.bytes += u64::from(piece.bytes);
        let at = trace.arrivals.last().map_or(at, |(last, _)| at.max(*last));
        trace.arrivals.push((at, piece.plays));
    }

    /// How long all of it plays, where that is known.
    pub fn plays(&self) -> Option<Span> {
        self.arrivals.last().and_then(|(_, plays)| *plays)
    }

    /// What follows from it.
    pub(super) fn numbers(&self, sent_at: Option<Tick>) -> AudioNumbers {
        let first = self.arrivals.first().map(|(at, _)| *at);
        let plays = self.plays();
        let dry = self.dry();
        AudioNumbers {
            format: Some(self.format.name().to_owned()),
            bytes: self.bytes,
            first_ns: sent_at.zip(first).map(|(sent, first)| (first - sent).as_nanos()),
            plays_ns: plays.map(Span::as_nanos),
            plays_missing: plays.is_none().then(|| NO_LENGTH.to_owned()),
            stalls: dry.map(|dry| dry.stalls),
            stalled_ns: dry.map(|dry| dry.stalled.as_nanos()),
            first_stall_after_ns: dry.and_then(|dry| dry.first_after).map(Span::as_nanos),
            ..AudioNumbers::default()
        }
    }

    /// How often and how long a player would have nothing to play; `None` where the length is not known all along.
    fn dry(&self) -> Option<Dry> {
        let (begun, first) = *self.arrivals.first()?;
        let (mut dry, mut played) = (Dry::default(), first?);
        let mut dry_at = begun + played;
        for (at, plays) in self.arrivals.iter().skip(1) {
            let plays = (*plays)?;
            let gap = *at - dry_at;
            if !gap.is_zero() && plays > played {
                dry.stalled += gap;
                if gap >= MIN_STALL {
                    dry.stalls += 1;
                    dry.first_after.get_or_insert(played);
                }
                dry_at = *at;
            }
            dry_at += plays - played;
            played = played.max(plays);
        }
        Some(dry)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Dry {
    stalls: u64,
    stalled: Span,
    first_after: Option<Span>,
}

impl AudioNumbers {
    /// How long the sound plays that the request's time is held against (ns): what was made in it, else what was heard in it, unless its answer
    /// was to be sound and none came.
    pub fn length_ns(&self) -> Option<u64> {
        if self.bytes > 0 { self.plays_ns } else { self.plays_ns.or(self.heard_ns) }
    }

    /// Time of the request divided by that length: below 1 it is faster than playing it.
    pub fn real_time_factor(&self, e2e_ns: Option<u64>) -> Option<f64> {
        Some(e2e_ns? as f64 / self.length_ns().filter(|length| *length > 0)? as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Tick {
        Tick::from_nanos(ms * 1_000_000)
    }

    fn trace(pieces: &[(u64, Option<u64>)]) -> AudioNumbers {
        let mut trace = None;
        for (ms, plays) in pieces {
            let piece = SoundPiece { format: SoundFormat::Pcm, bytes: 10, plays: plays.map(Span::from_millis) };
            SoundTrace::add(&mut trace, at(*ms), piece);
        }
        trace.expect("there was some").numbers(Some(at(100)))
    }

    #[test]
    fn a_player_runs_dry_where_the_sound_comes_later_than_it_is_played() {
        // 200 ms at 300; the next is due at 500 and comes at 650; then 100 ms ahead; then dry at 950 until 1,000.
        let numbers = trace(&[(300, Some(200)), (650, Some(300)), (700, Some(500)), (1_000, Some(600))]);
        assert_eq!(numbers.first_ns, Some(200_000_000));
        assert_eq!((numbers.stalls, numbers.stalled_ns), (Some(2), Some(200_000_000)));
        assert_eq!((numbers.first_stall_after_ns, numbers.plays_ns), (Some(200_000_000), Some(600_000_000)));
        assert_eq!(numbers.real_time_factor(Some(900_000_000)), Some(1.5));
        // Begun so much later, it would have had no gap: the most that the sound is behind is all its gaps.
        let later = [(300_u64, 0_u64), (650, 200), (700, 300), (1_000, 500)];
        let behind = later.iter().map(|(at, before)| (at - 300).saturating_sub(*before)).max();
        assert_eq!(behind, Some(200));
    }

    #[test]
    fn sound_that_is_early_never_stalls_and_of_unknown_length_nothing_is_said() {
        let early = trace(&[(300, Some(200)), (310, Some(900)), (1_100, Some(1_000))]);
        assert_eq!((early.stalls, early.stalled_ns, early.first_stall_after_ns), (Some(0), Some(0), None));
        let unknown = trace(&[(300, None), (900, None)]);
        assert_eq!((unknown.stalls, unknown.plays_ns, unknown.bytes), (None, None, 20));
        assert!(unknown.plays_missing.is_some() && unknown.first_ns == Some(200_000_000));
        assert_eq!(unknown.real_time_factor(Some(5)), None);
        let heard = AudioNumbers { heard_ns: Some(2_000), ..AudioNumbers::default() };
        assert_eq!(heard.real_time_factor(Some(500)), Some(0.25));
        let unsaid = AudioNumbers { plays_ns: Some(0), ..heard };
        assert_eq!(
            (unsaid.length_ns(), unsaid.real_time_factor(Some(500))),
            (Some(0), None),
            "a turn without an answer in sound"
        );
    }
}
