//! The rows of the catalogue that are of sound.

use super::row::{TIME, milliseconds, plain};
use super::{Metric, MetricRow, MetricUnit, PhaseSource};

pub(super) const TIME_TO_FIRST_AUDIO: MetricRow = MetricRow {
    metric: Metric::TimeToFirstAudio,
    name: "time_to_first_audio",
    label: "first audio",
    words: "time to first audio",
    definition: "sent to the first sound that can be played: a sample, or a whole frame or page of a compressed format; heads of files are none",
    of_request: Some(|request| milliseconds(request.audio.as_ref()?.first_ns)),
    of_phase: plain(|phase| &phase.audio.time_to_first_audio),
    ..TIME
};

pub(super) const REAL_TIME_FACTOR: MetricRow = MetricRow {
    metric: Metric::RealTimeFactor,
    name: "real_time_factor",
    label: "real-time factor",
    words: "real-time factor",
    definition: "E2E of a request divided by how long its sound plays, made or else heard: below 1 is faster than playing it",
    unit: MetricUnit::Factor,
    of_request: Some(crate::run::real_time_factor),
    of_phase: plain(|phase| &phase.audio.real_time_factor),
    ..TIME
};

pub(super) const STALLED_TIME: MetricRow = MetricRow {
    metric: Metric::StalledTime,
    name: "stalled_time",
    label: "stalled",
    words: "time without sound to play",
    definition: "how long a player that begins with the first sound has nothing to play; as long as it would have to wait to have no gap",
    of_request: Some(|request| milliseconds(request.audio.as_ref()?.stalled_ns)),
    of_phase: plain(|phase| &phase.audio.stalled_time),
    ..TIME
};

pub(super) const SESSION_OPEN: MetricRow = MetricRow {
    metric: Metric::SessionOpen,
    name: "session_open",
    label: "session open",
    words: "time to open a session",
    definition: "beginning of a realtime session's handshake, connecting included, to the server's word that it is open; of first turns",
    of_request: Some(|request| milliseconds(request.audio.as_ref()?.opened_ns)),
    of_phase: plain(|phase| &phase.audio.session_open),
    ..TIME
};

pub(super) const AUDIO_THROUGHPUT: MetricRow = MetricRow {
    metric: Metric::AudioThroughput,
    name: "audio_throughput",
    label: "audio",
    words: "audio throughput",
    definition: "seconds of sound, made or else heard, of all requests per second of the steady window (RTFx)",
    unit: MetricUnit::Factor,
    more_is_better: true,
    of_phase: PhaseSource::Rate(|phase| phase.audio.seconds_per_second),
    ..TIME
};
