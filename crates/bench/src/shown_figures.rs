//! Which of the figures that the client's own error may make invalid the table by load, or a line above it, shows. `--wide`, the
//! report and the record show the others too.

use tokrate_meter::FigureValidity;
use tokrate_record::Metric;
use tokrate_stats::Level;

const SHOWN: [(Metric, Level); 3] = [(Metric::Ttft, Level::P50), (Metric::E2e, Level::P50), (Metric::Tpot, Level::P50)];

/// Whether a figure is among them.
pub fn shows(figure: &FigureValidity) -> bool {
    let name = |(metric, level): (Metric, Level)| format!("{} {}", metric.label(), level.name());
    figure.figure == Metric::Throughput.label() || SHOWN.into_iter().any(|shown| name(shown) == figure.figure)
}
