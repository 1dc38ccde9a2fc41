//! Rows of sound in the table of all numbers.

use super::{Row, number};
use tokrate_record::Metric;
use tokrate_stats::Level;

pub(super) const ROWS: &[Row] = &[
    Row::Quantile(Metric::SessionOpen, Level::P50),
    Row::Quantile(Metric::SessionOpen, Level::P95),
    Row::Quantile(Metric::TimeToFirstAudio, Level::P50),
    Row::Quantile(Metric::TimeToFirstAudio, Level::P95),
    Row::Quantile(Metric::RealTimeFactor, Level::P50),
    Row::Quantile(Metric::RealTimeFactor, Level::P95),
    Row::Quantile(Metric::StalledTime, Level::P95),
    Row::Own("answers that stall", |phase| match phase.audio.with_length() {
        0 => "-".to_owned(),
        of => format!("{} of {of}", phase.audio.stalled_answers),
    }),
    Row::Own("sound of all requests per second (s)", |phase| {
        phase.audio.seconds_per_second.map_or_else(|| "-".to_owned(), number)
    }),
    Row::Own("characters per second", |phase| phase.audio.characters_per_second.map_or_else(|| "-".to_owned(), number)),
    Row::Own("word error rate (%)", |phase| {
        phase.audio.word_error_rate().map_or_else(|| "-".to_owned(), |rate| number(rate * 100.0))
    }),
];
