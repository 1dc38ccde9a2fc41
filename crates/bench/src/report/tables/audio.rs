//! Rows of sound in the table of all levels.

use super::{AddRow, MISSING, number, quantile};
use tokrate_charts::format;
use tokrate_record::{Metric, PhaseResult};
use tokrate_stats::Level;

/// Hands each row on, label and cell, if there was sound.
pub(super) fn figures(phases: &[PhaseResult], row: &mut AddRow<'_>) {
    if phases.iter().all(|phase| !phase.audio.is_there()) {
        return;
    }
    let metrics = [Metric::SessionOpen, Metric::TimeToFirstAudio, Metric::RealTimeFactor, Metric::StalledTime];
    for (metric, level) in
        metrics.into_iter().flat_map(|metric| [Level::P50, Level::P95, Level::P99].map(|level| (metric, level)))
    {
        let label = format!("{} {} ({})", metric.row().words, level.name(), metric.unit());
        row(&label, &|phase| {
            metric.times(phase).map_or_else(|| MISSING.to_owned(), |times| quantile(times.quantile(level)))
        });
    }
    row("sound of all requests per second (s)", &|phase| number(phase.audio.seconds_per_second));
    row("characters per second", &|phase| number(phase.audio.characters_per_second));
    row("answers that stall", &|phase| format::count(phase.audio.stalled_answers));
    row("word error rate (%)", &|phase| number(phase.audio.word_error_rate().map(|rate| 100.0 * rate)));
}
