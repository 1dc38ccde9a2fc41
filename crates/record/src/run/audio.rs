//! Sound of a phase, said or heard: when the first came, how fast it was made against how long it plays, and how often a player ran dry.
//!
//! Invariant: of measured requests; a rate is of the steady window only, each request with the share of its time (due to finished) that lies
//! inside. Sound of unknown length is in no figure of length.

use super::counts::names_of;
use super::items::rate;
use super::{NameCount, Steady};
use serde::{Deserialize, Serialize};
use tokrate_core::Rng;
use tokrate_meter::request::RequestNumbers;
use tokrate_stats::{Distribution, Interval, Unit, mean_interval};

/// The sound of a phase. All of it is empty where there was none.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AudioSummary {
    /// Measured requests with sound, said or heard.
    pub n: u64,
    /// Seconds of sound that came.
    pub said_seconds: f64,
    /// Seconds of sound that was sent.
    pub heard_seconds: f64,
    /// Answers whose sound has a length that its bytes do not say.
    pub unknown_length: u64,
    /// How the sound that came is written.
    pub formats: Vec<NameCount>,
    /// Seconds of sound, made or else heard, per second of the steady window; absent without one.
    pub seconds_per_second: Option<f64>,
    /// 95 % interval of `seconds_per_second`, the equal parts of the window (each at least 1 s long) taken as a sample; absent below ten parts.
    pub interval: Option<Interval>,
    /// Characters of the texts that were to be said, per second of the steady window.
    pub characters_per_second: Option<f64>,
    /// Answers at which a player that begins with the first sound would run dry.
    pub stalled_answers: u64,
    /// How often it would.
    pub stalls: u64,
    /// Words of the texts that were said in the sound that was sent, where they are known.
    pub words: u64,
    /// Words of the transcripts that are missing, wrong or too many.
    pub word_errors: u64,
    /// Sent to the first sound that can be played.
    pub time_to_first_audio: Distribution,
    /// Opening of a realtime session, connecting included, to the server's word that it is open.
    #[serde(default = "no_times")]
    pub session_open: Distribution,
    /// E2E of each request divided by the length of its sound.
    pub real_time_factor: Distribution,
    /// How long a player that begins with the first sound of an answer would have nothing to play.
    pub stalled_time: Distribution,
}

/// Of records that have no such times.
fn no_times() -> Distribution {
    Distribution::of_nanos(&mut [])
}

impl Default for AudioSummary {
    fn default() -> AudioSummary {
        AudioSummary::of(None, &[], &[])
    }
}

impl AudioSummary {
    /// Of all requests and the measured ones.
    pub(super) fn of(
        steady: Option<&Steady>,
        requests: &[RequestNumbers],
        measured: &[&RequestNumbers],
    ) -> AudioSummary {
        let audio = || measured.iter().filter_map(|request| request.audio.as_deref());
        let sum = |of: fn(&tokrate_meter::AudioNumbers) -> Option<u64>| audio().filter_map(of).sum::<u64>();
        let times = |of: fn(&tokrate_meter::AudioNumbers) -> Option<u64>| {
            Distribution::of_nanos(&mut audio().filter_map(of).collect::<Vec<u64>>())
        };
        let steady = steady.filter(|_| requests.iter().any(|request| request.audio.is_some()));
        let rates = |of: fn(&RequestNumbers) -> Option<u64>| steady.map(|steady| rate(steady, requests, of));
        let mean = |rates: &Vec<f64>| rates.iter().sum::<f64>() / rates.len() as f64;
        let seconds = rates(sound_ns).map(|rates| rates.into_iter().map(|rate| rate / 1e9).collect::<Vec<f64>>());
        let characters = rates(|request| request.audio.as_ref()?.characters);
        let mut factors: Vec<f64> = measured.iter().filter_map(|request| real_time_factor(request)).collect();
        AudioSummary {
            n: audio().count() as u64,
            said_seconds: sum(|audio| audio.plays_ns) as f64 / 1e9,
            heard_seconds: sum(|audio| audio.heard_ns) as f64 / 1e9,
            unknown_length: audio().filter(|audio| audio.plays_missing.is_some()).count() as u64,
            formats: names_of(audio().filter_map(|audio| audio.format.as_deref()).map(Some)),
            seconds_per_second: seconds.as_ref().map(mean).filter(|rate| *rate > 0.0),
            interval: seconds.and_then(|rates| mean_interval(&rates, 0.95, &Rng::root(0).child("audio"))),
            characters_per_second: characters.as_ref().map(mean).filter(|rate| *rate > 0.0),
            stalled_answers: audio().filter(|audio| audio.stalls.is_some_and(|stalls| stalls > 0)).count() as u64,
            stalls: sum(|audio| audio.stalls),
            words: sum(|audio| audio.words),
            word_errors: sum(|audio| audio.word_errors),
            time_to_first_audio: times(|audio| audio.first_ns),
            session_open: times(|audio| audio.opened_ns),
            real_time_factor: Distribution::of_values(&mut factors, Unit::Factor),
            stalled_time: times(|audio| audio.stalled_ns),
        }
    }

    /// Whether there was any.
    pub fn is_there(&self) -> bool {
        self.n > 0
    }

    /// Answers with sound whose length is known.
    pub fn with_length(&self) -> u64 {
        self.stalled_time.n
    }

    /// Errors as a share of the words that were said; above 1 where a transcript has many words too many.
    pub fn word_error_rate(&self) -> Option<f64> {
        (self.words > 0).then(|| self.word_errors as f64 / self.words as f64)
    }
}

/// Length of the sound of a request that counts (ns): of what was made, else of what was heard.
fn sound_ns(request: &RequestNumbers) -> Option<u64> {
    request.audio.as_ref()?.length_ns()
}

/// Real-time factor of a request.
pub(crate) fn real_time_factor(request: &RequestNumbers) -> Option<f64> {
    request.audio.as_ref()?.real_time_factor(request.e2e_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_meter::AudioNumbers;
    use tokrate_meter::fixtures::steady_request;

    /// An answer from `start` to `end` (ms) whose sound plays so long (ms).
    fn said(start: u64, end: u64, plays: Option<u64>, stalled: u64) -> RequestNumbers {
        let ns = |ms: u64| ms * 1_000_000;
        let audio = AudioNumbers {
            format: Some("pcm".to_owned()),
            bytes: 1,
            first_ns: Some(ns(50)),
            plays_ns: plays.map(ns),
            plays_missing: plays.is_none().then(|| "why".to_owned()),
            stalls: plays.map(|_| u64::from(stalled > 0)),
            stalled_ns: plays.map(|_| ns(stalled)),
            characters: Some(100),
            ..AudioNumbers::default()
        };
        RequestNumbers {
            audio: Some(Box::new(audio)),
            e2e_ns: Some(ns(end - start)),
            due_at_ns: ns(start),
            finished_at_ns: ns(end),
            ..steady_request(0, start, 1, 1, 4)
        }
    }

    #[test]
    fn sound_is_summed_up_and_a_length_that_is_not_known_is_in_no_figure_of_length() {
        let steady = Steady { rule: String::new(), start_ns: 1_000_000_000, end_ns: 3_000_000_000 };
        let rows =
            [said(1_000, 2_000, Some(4_000), 0), said(2_000, 3_000, Some(2_000), 30), said(2_000, 3_000, None, 0)];
        let measured: Vec<&RequestNumbers> = rows.iter().collect();
        let audio = AudioSummary::of(Some(&steady), &rows, &measured);
        assert_eq!((audio.n, audio.unknown_length, audio.with_length(), audio.said_seconds), (3, 1, 2, 6.0));
        assert_eq!((audio.stalls, audio.stalled_answers), (1, 1));
        assert!((audio.seconds_per_second.expect("a window") - 3.0).abs() < 1e-9);
        assert!((audio.characters_per_second.expect("a window") - 150.0).abs() < 1e-9);
        assert_eq!((audio.real_time_factor.n, audio.real_time_factor.mean), (2, Some(0.375)));
        assert_eq!((audio.real_time_factor.min, audio.real_time_factor.max), (Some(0.25), Some(0.5)));
        assert_eq!((audio.word_error_rate(), audio.heard_seconds), (None, 0.0));
        let none = AudioSummary::default();
        assert!(!none.is_there() && none.seconds_per_second.is_none() && none.time_to_first_audio.is_empty());
    }

    #[test]
    fn heard_sound_counts_where_none_was_made() {
        let mut row = said(0, 1_000, None, 0);
        row.audio = Some(Box::new(AudioNumbers {
            heard_ns: Some(10_000_000_000),
            words: Some(8),
            word_errors: Some(2),
            ..AudioNumbers::default()
        }));
        let audio = AudioSummary::of(None, std::slice::from_ref(&row), &[&row]);
        assert_eq!(
            (audio.heard_seconds, audio.real_time_factor.max, audio.word_error_rate()),
            (10.0, Some(0.1), Some(0.25))
        );
    }
}
