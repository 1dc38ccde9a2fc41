//! What the view knows of the run: told by the run between levels, read by the thread that draws.

use super::window::Window;
use crate::out::forecast;
use std::sync::Arc;
use tokrate_bench::forecast::Forecast;
use tokrate_bench::plan::{Extent, Load, PhaseSpec};
use tokrate_bench::{FigureCounts, Figures, PhasePosition, Progress, Snapshot, Stop};
use tokrate_core::{Span, Tick, format};
use tokrate_live::{
    Alarm, Client, Counts, Doing, FigureRow, Level, LevelName, Live, Money, Present, Quantiles, Shown, Target, Unit,
};
use tokrate_record::run::{Rounds, by_load};
use tokrate_record::{Metric, PhaseResult, PrecisionStatus, Record};
use tokrate_stats::Quantile;

/// What is known of the run so far.
pub struct Stage {
    pub stop: Stop,
    pub began: Tick,
    pub targets: Vec<Known>,
    pub running: Option<Running>,
    pub doing: Doing,
    /// Spent in the levels that have ended, of each target (USD).
    pub spent: Vec<f64>,
}

/// A target.
pub struct Known {
    pub name: String,
    pub forecast: Option<Forecast>,
    /// As the view shows it.
    pub shown: Target,
    pub numbers: Shown,
    /// What the run goes on for.
    pub goals: Vec<String>,
    /// The client's own error at its last level.
    pub error: Option<String>,
    /// About how long the rest takes, where the run itself says so (s).
    pub rest: Option<f64>,
    /// How long each of its levels took, calibration included (s).
    pub took: Vec<f64>,
}

/// The level that runs.
pub struct Running {
    pub place: PhasePosition,
    pub spec: PhaseSpec,
    pub progress: Arc<Progress>,
    pub began: Tick,
    pub round: u64,
    pub window: Window,
}

impl Known {
    pub fn new(name: String) -> Known {
        Known {
            shown: Target { name: name.clone(), ..Target::default() },
            name,
            forecast: None,
            numbers: Shown::default(),
            goals: Vec::new(),
            error: None,
            rest: None,
            took: Vec::new(),
        }
    }

    /// A level has ended.
    pub fn ended(&mut self, record: &Record, seconds: f64) {
        let is_streamed = record.phases.iter().any(|phase| !phase.ttft.is_empty());
        let loads = by_load(&record.phases);
        let has_items = loads.iter().any(Rounds::has_items);
        if has_items {
            self.numbers.throughput = ("Item throughput".to_owned(), "items/s".to_owned());
        }
        self.numbers.time = if is_streamed { "TTFT" } else { "E2E" }.to_owned();
        if record.phases.iter().any(|phase| !phase.load.is_closed()) {
            self.numbers.load = "Arrivals, req/s".to_owned();
        }
        self.shown.levels = loads.iter().map(|rounds| level(rounds, is_streamed)).collect();
        self.shown.alarm = record.phases.iter().rev().find_map(|phase| {
            let why = phase.client_error.as_ref()?.reason.clone()?;
            Some(Alarm { level: phase.load.short(), why })
        });
        self.error = record.phases.last().and_then(own_error);
        self.goals = goals(record);
        self.rest = tokrate_bench::forecast::remaining(record).and_then(|rest| rest.seconds);
        self.took.push(seconds);
    }

    /// About how long the levels take that have not begun, where their number is known (s).
    fn left(&self, levels: usize) -> Option<f64> {
        let mean = |of: &[f64]| (!of.is_empty()).then(|| of.iter().sum::<f64>() / of.len() as f64);
        let forecast = self.forecast.as_ref()?;
        if let Some(rest) = self.rest {
            return Some(rest);
        }
        if forecast.added.is_some() || forecast.start_up > 0 {
            return None;
        }
        let planned: Vec<Option<f64>> = forecast.levels.iter().map(|level| level.seconds).collect();
        // Levels took longer than planned, as answers take longer under load, and their calibration takes time.
        let over = planned.iter().zip(&self.took).filter_map(|(planned, took)| Some(took - (*planned)?));
        let over = mean(&over.collect::<Vec<f64>>()).unwrap_or(0.0).max(0.0);
        let next = planned.iter().skip(planned.len().saturating_sub(levels));
        next.map(|planned| planned.map(|planned| planned + over).or_else(|| mean(&self.took))).sum()
    }
}

impl Stage {
    /// The run at this moment.
    pub fn live(&mut self, now: Tick) -> Live {
        let present = self.present(now);
        let left = self.left(present.as_ref());
        let target = present.as_ref().map_or(0, |present| present.target);
        let known = self.targets.get(target);
        let reason = self.running.as_ref().and_then(|running| running.progress.reason());
        let goals = known.map_or_else(Vec::new, |known| known.goals.clone());
        Live {
            targets: self.targets.iter().map(|target| target.shown.clone()).collect(),
            doing: self.doing,
            shown: self.shown(known),
            seconds: (now - self.began).as_secs_f64(),
            left,
            money: self.money(),
            notes: goals.into_iter().chain(reason).collect(),
            is_interrupted: self.stop.is_set(),
            present,
        }
    }

    fn shown(&self, known: Option<&Known>) -> Shown {
        let mut shown = known.map_or_else(Shown::default, |known| known.numbers.clone());
        if let Some(running) = &self.running {
            if running.spec.load.batch().is_some() {
                shown.throughput = ("Item throughput".to_owned(), "items/s".to_owned());
                shown.load = "Texts in flight".to_owned();
            }
            if !running.spec.load.is_closed() {
                shown.load = "Arrivals, req/s".to_owned();
            }
        }
        shown
    }

    fn present(&mut self, now: Tick) -> Option<Present> {
        let running = self.running.as_mut()?;
        let (snapshot, figures) = (running.progress.snapshot(now), running.progress.figures());
        if self.doing == Doing::Measuring {
            running.window.add(now, snapshot, figures.workers.clone());
        }
        let seconds = (now - running.began).as_secs_f64();
        let bytes_per_token = running.progress.bytes_per_token();
        let row = running.spec.load.row();
        let batch = running.spec.load.batch();
        let known = &self.targets[running.place.target];
        let throughput = match (batch, running.window.rates()) {
            (Some(batch), Some((_, answers))) => Some(answers * f64::from(batch)),
            (None, Some((bytes, _))) => bytes_per_token.map(|length| bytes / length).filter(|rate| *rate > 0.0),
            (_, None) => None,
        };
        let mut errors: Vec<(String, u64)> =
            figures.failures.iter().map(|(kind, n)| (kind.name().to_owned(), *n)).collect();
        errors.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        Some(Present {
            target: running.place.target,
            name: LevelName { text: row.short(), amount: row.amount() },
            number: running.place.phase + 1,
            of: running.place.of,
            round: running.round,
            seconds,
            share: share_done(&running.spec, snapshot, now - running.began),
            counts: Counts {
                answered: snapshot.answered,
                failed: snapshot.failed,
                limited: snapshot.limited,
                in_flight: snapshot.in_flight(),
                per_second: running.window.rates().map(|(_, answers)| answers).filter(|rate| *rate > 0.0),
                throughput,
            },
            figures: figure_rows(&figures, bytes_per_token),
            errors,
            wait: snapshot.held.map(Span::as_secs_f64),
            client: Client {
                cpu: running.window.busiest(),
                threads: figures.workers.len(),
                timer_lag: figures.workers.iter().map(|worker| worker.timer_lag.as_secs_f64()).reduce(f64::max),
                error: known.error.clone(),
            },
            beside: beside(&running.progress),
        })
    }

    fn left(&self, present: Option<&Present>) -> Option<f64> {
        let present = present.filter(|_| self.doing != Doing::Ended)?;
        let levels = |place: usize, of: usize| of - place.min(of);
        let planned =
            self.targets[present.target].forecast.as_ref().and_then(|it| it.levels.get(present.number - 1)?.seconds);
        let of_level = match (present.share > 0.02, planned) {
            _ if self.doing == Doing::Calibrating => 0.0,
            (true, _) => present.seconds * (1.0 - present.share) / present.share,
            (false, planned) => planned?,
        };
        let rest = self.targets.iter().enumerate().map(|(place, known)| {
            let ended = known.took.len() + usize::from(place == present.target);
            known.left(levels(ended, known.forecast.as_ref().map_or(0, |forecast| forecast.levels.len())))
        });
        Some(of_level + rest.sum::<Option<f64>>()?)
    }

    fn money(&self) -> Option<Money> {
        let limit = self.targets.iter().filter_map(|known| known.forecast.as_ref()?.usd_limit).reduce(f64::min);
        let counted = self.running.as_ref().and_then(|running| running.progress.spent_usd());
        let spent = self.spent.iter().sum::<f64>().max(counted.unwrap_or(0.0));
        (spent > 0.0 || limit.is_some()).then_some(Money { spent, limit })
    }
}

/// A load as the view shows it.
fn level(rounds: &Rounds<'_>, is_streamed: bool) -> Level {
    let known = |quantile: &Quantile| quantile.value.or(quantile.descriptive);
    let times = rounds.times(if is_streamed { Metric::Ttft } else { Metric::E2e });
    let seconds = |of: fn(&tokrate_stats::Distribution) -> &Quantile| Some(known(of(times.as_ref()?))? / 1e3);
    let counts = rounds.counts();
    Level {
        name: LevelName { text: rounds.load.short(), amount: rounds.load.amount() },
        rounds: rounds.phases.len() as u64,
        throughput: rounds.throughput().or_else(|| rounds.item_throughput()),
        p50: seconds(|times| &times.p50),
        p99: seconds(|times| &times.p99),
        speed: rounds.output_speed().as_ref().and_then(known),
        failed: counts.failed,
        is_valid: rounds.phases.iter().all(|phase| phase.is_valid()),
    }
}

/// The client's own error at a level, as it was measured.
fn own_error(phase: &PhaseResult) -> Option<String> {
    let error = phase.client_error.as_ref()?;
    let ttft = error.ttft_added_p99_ns.map(|nanos| format!("TTFT {}", format::seconds(nanos as f64 / 1e9)));
    let gaps = error.gap_added_p99_ns.map(|nanos| format!("gaps {}", format::seconds(nanos as f64 / 1e9)));
    let parts: Vec<String> = ttft.into_iter().chain(gaps).collect();
    (!parts.is_empty()).then(|| format!("{} (p99) at {}", parts.join(", "), phase.load.short()))
}

/// What a search has found so far, and how well asked figures are known.
fn goals(record: &Record) -> Vec<String> {
    let search = record.search.iter().map(|search| search.sentence.clone());
    let asked = record.until.iter().flat_map(|until| &until.conditions).map(|outcome| {
        let more = outcome
            .more_requests
            .map_or(String::new(), |more| format!(", about {} more requests", format::count(more)));
        let state = if outcome.status == PrecisionStatus::Reached { "reached, " } else { "" };
        format!("{} at {}: {state}{}{more}", outcome.condition, outcome.phase, forecast::width(outcome))
    });
    search.chain(asked).collect()
}

/// What is read beside the requests, a line each.
fn beside(progress: &Progress) -> Vec<String> {
    let readings = progress.readings();
    let engine = readings.engine.map(|engine| {
        let running = engine.running.map(|n| format!("{n:.0} running"));
        let waiting = engine.waiting.map(|n| format!("{n:.0} waiting"));
        let cache = engine.cache_use.map(|share| format!("cache {}", format::percent(share)));
        let preempted = engine.preemptions.filter(|n| *n > 0.0).map(|n| format!("{n:.0} preempted"));
        running.into_iter().chain(waiting).chain(cache).chain(preempted).collect::<Vec<String>>()
    });
    let engine = engine.filter(|parts| !parts.is_empty()).map(|parts| format!("engine: {}", parts.join(", ")));
    let gpus = readings.gpus.iter().map(|gpu| {
        let busy = gpu.busy.map(|share| format!("{} busy", format::percent(share)));
        let power = gpu.power_w.map(|watts| match gpu.power_limit_w {
            Some(limit) => format!("{watts:.0} W of {limit:.0} W"),
            None => format!("{watts:.0} W"),
        });
        let memory = gpu.memory_bytes.map(|bytes| format!("{} GB", format::number(bytes / 1e9)));
        let parts: Vec<String> = busy.into_iter().chain(power).chain(memory).collect();
        format!("{}: {}", gpu.name, parts.join(", "))
    });
    engine.into_iter().chain(gpus).collect()
}

/// The percentiles so far; of speeds those on the slow side.
fn figure_rows(figures: &Figures, bytes_per_token: Option<f64>) -> Vec<FigureRow> {
    let times = |name: &str, counts: &FigureCounts| {
        let at = |q: f64| counts.quantile(q).unwrap_or(0) as f64 / 1e9;
        row(name, Unit::Seconds, counts, [at(0.5), at(0.9), at(0.99), at(1.0)])
    };
    let pace = |length: f64| {
        let at = |q: f64| figures.pace.quantile(q).unwrap_or(0) as f64 / 1e3 / length;
        row("Output speed", Unit::TokensPerSecond, &figures.pace, [at(0.5), at(0.1), at(0.01), at(0.0)])
    };
    let e2e = times("E2E", &figures.e2e);
    if e2e.at.is_some() && figures.ttft.count() == 0 {
        return vec![e2e];
    }
    let pace = pace(bytes_per_token.unwrap_or(f64::INFINITY));
    vec![times("TTFT", &figures.ttft), times("Chunk gap", &figures.gap), pace, e2e]
}

fn row(name: &str, unit: Unit, counts: &FigureCounts, [p50, p90, p99, worst]: [f64; 4]) -> FigureRow {
    let n = counts.count();
    FigureRow { name: name.to_owned(), unit, at: (n > 0).then_some(Quantiles { p50, p90, p99, worst, n }) }
}

/// How much of a level is done, 0 to 1.
pub fn share_done(spec: &PhaseSpec, snapshot: Snapshot, elapsed: Span) -> f64 {
    let share = match spec.extent {
        Extent::Requests(n) => snapshot.ended() as f64 / (n + spec.warmup).max(1) as f64,
        Extent::Sessions(sessions) => {
            let turns = match spec.load {
                Load::Sessions { turns, .. } => f64::from(turns),
                Load::Agents { ref trace, .. } => trace.steps.len() as f64 / trace.sessions.len().max(1) as f64,
                _ => 1.0,
            };
            snapshot.ended() as f64 / (sessions as f64 * turns).max(1.0)
        }
        Extent::Duration(span) => elapsed.as_secs_f64() / span.as_secs_f64().max(1e-9),
    };
    share.clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_bench::plan::Backoff;

    #[test]
    fn the_share_follows_requests_or_time() {
        let spec =
            |extent| PhaseSpec { load: Load::Closed { concurrency: 1 }, extent, warmup: 2, backoff: Backoff::Obey };
        let snapshot = Snapshot { answered: 3, ..Snapshot::default() };
        assert_eq!(share_done(&spec(Extent::Requests(4)), snapshot, Span::ZERO), 0.5);
        let timed = spec(Extent::Duration(Span::from_secs(8)));
        assert_eq!(share_done(&timed, snapshot, Span::from_secs(2)), 0.25);
        assert_eq!(share_done(&timed, snapshot, Span::from_secs(20)), 1.0);
    }

    #[test]
    fn of_a_speed_the_percentiles_are_on_the_slow_side() {
        let mut figures = Figures::default();
        (1..=100_u64).for_each(|speed| figures.pace.record(speed * 4_000));
        figures.ttft.record(1_000_000);
        let rows = figure_rows(&figures, Some(4.0));
        let Quantiles { p50, p90, p99, worst, n } = rows[2].at.expect("a hundred answers");
        let near = |value: f64, wanted: f64| (value / wanted - 1.0).abs() < 0.03;
        assert!(near(p50, 50.0) && near(p90, 10.0) && near(p99, 1.0) && near(worst, 1.0) && n == 100);
        assert_eq!(rows[3].at, None, "no request has ended");
        figures.e2e.record(5);
        figures.ttft = FigureCounts::default();
        assert_eq!(figure_rows(&figures, None).len(), 1, "an answer in one piece has one figure");
    }
}
