//! Forecast of a run before it starts: requests, tokens, cost, time.
//!
//! It does not know results. Invariant: a number says whether it follows from the plan, is the most that can be, or is reckoned;
//! money is what is spent at most, if every answer is as long as it may be.

use crate::bodies::QUERY_TOKENS;
use crate::plan::{Arrivals, Extent, Load, PhaseSpec};
use crate::schedule::{Schedule, ScheduleMode, Verdicts};
use crate::{Calibration, Config, Items, RequestOptions, calibrate, probe_request};
use std::collections::BTreeMap;
use std::iter::repeat_n;
use tokrate_judge::compare::{DEFAULT_METRICS, detectable_change};
use tokrate_record::{MediaAmounts, TargetPrice};
use tokrate_stats::MIN_ROUNDS;
use tokrate_wire::ItemTask;

/// Timing of one request without other load.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ProbeTiming {
    /// Time to the first token (s); of an answer that came in one piece, to its end.
    pub ttft: f64,
    /// Time of each further token (s); of an answer in one piece, whose time nobody can share between prompt and tokens, that of all its
    /// time for each of its tokens.
    pub per_token: f64,
    /// Whether it came in one piece.
    pub is_whole: bool,
    /// All the time of the answer that was seen (s).
    pub whole: f64,
    /// Opening its session, if it had one (s).
    pub opened: f64,
}

impl ProbeTiming {
    /// The time of an answer of so many tokens; in one piece, the least: as if its tokens took no time of their own.
    pub fn at_least(&self, tokens: f64) -> f64 {
        if self.is_whole { self.ttft } else { self.at_most(tokens) }
    }

    /// The same; in one piece, the most: as if its prompt took no time of its own.
    pub fn at_most(&self, tokens: f64) -> f64 {
        if self.is_whole {
            self.ttft.max(self.per_token * tokens)
        } else {
            self.ttft + self.per_token * (tokens - 1.0).max(0.0)
        }
    }
}

/// Stands for an answer where none was seen yet and the number of requests hangs on how long one takes: a hosted model of medium
/// size with nothing beside it. Whoever prints such a number says so.
pub const ASSUMED: ProbeTiming = ProbeTiming { ttft: 0.5, per_token: 0.02, is_whole: false, whole: 0.5, opened: 0.0 };

/// How a number is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Basis {
    /// It follows from the plan.
    #[default]
    Exact,
    /// It is no more than this.
    AtMost,
    /// It is reckoned.
    About,
}

/// What a run against one target will ask for.
#[derive(Clone, PartialEq, Debug)]
pub struct Forecast {
    /// Level by level, as far as they are listed.
    pub levels: Vec<Level>,
    /// The request before the load, if one is sent; its time is over when the load begins.
    pub before: Option<Level>,
    /// What is added to those at most: the most of each number that a course of the run can come to. `None` if nothing is added.
    pub added: Option<Level>,
    /// What all targets together may cost (USD).
    pub usd_limit: Option<f64>,
    /// Whether times are the most that answers in one piece can take.
    pub is_time_at_most: bool,
    /// Whether times are those of answers as long as the one that was seen, as nobody asks for a length.
    pub is_time_as_seen: bool,
    /// Whether a number stands on [`ASSUMED`].
    pub assumed: bool,
    /// How often each listed level runs, the least of them; 0 where none is listed.
    pub rounds: u64,
    /// How many different loads are listed.
    pub loads: usize,
    /// Phases after which a run with `--until` knows what the rest will take; 0 of any other.
    pub start_up: usize,
    /// What calibrations of the listed levels may take beside that (s); none where one of an earlier run serves.
    pub calibration_seconds: f64,
}

/// What one level will ask for.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Level {
    /// Its name.
    pub name: String,
    /// How the number of requests is known, and with it all but the time.
    pub basis: Basis,
    /// Requests, warm-up included.
    pub requests: Option<f64>,
    /// Input tokens of all of them.
    pub input_tokens: Option<f64>,
    /// Output tokens of all of them, at most.
    pub output_tokens: Option<f64>,
    /// What they cost at most (USD).
    pub usd: Option<f64>,
    /// Time (s).
    pub seconds: Option<f64>,
    /// Whether tokens, and what they cost, are reckoned from mean lengths.
    pub by_mean_lengths: bool,
}

impl Forecast {
    /// The forecast of a run; with the timing of a probe request it includes durations.
    pub fn of(config: &Config, seen: Option<ProbeTiming>) -> Forecast {
        let searched = matches!(config.schedule_mode, ScheduleMode::Search(_) | ScheduleMode::System { .. });
        let listed = if searched { &[][..] } else { &config.phases };
        let schedule = Schedule::new(config.phases.clone(), config.schedule_mode.clone(), config.seed);
        let courses = schedule.longest_courses();
        let level = |spec: &PhaseSpec| level(config, spec, seen);
        let mut levels: Vec<Level> = listed.iter().map(level).collect();
        let mut rounds: BTreeMap<String, u64> = BTreeMap::new();
        levels.iter().for_each(|level| *rounds.entry(level.name.clone()).or_default() += 1);
        name_rounds(&mut levels);
        if matches!(config.schedule_mode, ScheduleMode::Verdict(_)) {
            levels = listed.iter().map(|spec| start_up(&level(spec), Verdicts::FIRST_LOOK)).collect();
            rounds.values_mut().for_each(|rounds| *rounds = Verdicts::FIRST_LOOK);
        }
        if let ScheduleMode::Until(until) = &config.schedule_mode {
            levels = listed.iter().map(|spec| start_up(&level(spec), until.start_up_rounds(spec))).collect();
            rounds.values_mut().for_each(|rounds| *rounds = MIN_ROUNDS);
        }
        let count = |course: &Vec<PhaseSpec>| {
            let mut loads: Vec<f64> = course.iter().map(|spec| spec.load.row().amount()).collect();
            if searched {
                // Rounds of a level stand side by side; those that a refinement adds are not known yet, and all like the highest.
                loads.dedup();
            }
            loads.len()
        };
        let name = match (levels.is_empty(), courses.iter().map(count).max().unwrap_or(0)) {
            (true, 1) => "1 level".to_owned(),
            (true, count) => format!("up to {count} levels"),
            (false, count) => format!("up to {count} more"),
        };
        let courses_summed = courses.iter().filter(|course| !course.is_empty());
        let courses_summed =
            courses_summed.map(|course| Level::sum(name.clone(), &course.iter().map(level).collect::<Vec<Level>>()));
        let added =
            courses_summed.reduce(Level::most).map(|level| Level { basis: level.basis.max(Basis::AtMost), ..level });
        Forecast {
            is_time_at_most: seen.is_some_and(|seen| seen.is_whole),
            is_time_as_seen: seen.is_some()
                && config.request.audio.is_some()
                && config.phases.iter().any(ends_by_count),
            assumed: listed.iter().chain(courses.iter().flatten()).any(|spec| is_assumed(config, spec, seen)),
            calibration_seconds: match config.calibration {
                Calibration::Off => 0.0,
                _ if !config.request.stream => 0.0,
                _ => calibrate::MAX_SECONDS * levels.len() as f64,
            },
            rounds: rounds.values().copied().min().unwrap_or(0),
            loads: rounds.len(),
            start_up: match &config.schedule_mode {
                ScheduleMode::Until(until) => listed.iter().map(|spec| until.start_up_rounds(spec) as usize).sum(),
                _ => 0,
            },
            levels,
            before: before(config),
            added: added.map(|added| added.within(config.max_cost_usd)),
            usd_limit: config.max_cost_usd,
        }
    }

    /// Totals over all levels; a total is present only if every level has the number.
    pub fn load(&self) -> Level {
        Level::sum("all".to_owned(), self.levels.iter().chain(&self.added)).within(self.usd_limit)
    }

    /// The same with the request before the load, in all but the time.
    pub fn total(&self) -> Level {
        let load = self.load();
        let all = Level::sum("all".to_owned(), [&load].into_iter().chain(&self.before));
        Level { seconds: load.seconds, ..all.within(self.usd_limit) }
    }

    /// The relative difference between two of the targets that their rounds show with 80 % probability, in every metric and at every load that
    /// are compared, where medians of rounds differ by `spread` among themselves. `None` if no level is listed; infinite for single rounds.
    pub fn detectable(forecasts: &[Forecast], spread: f64) -> Option<f64> {
        let rounds = forecasts.iter().map(|forecast| forecast.rounds).min().filter(|rounds| *rounds > 0)?;
        let loads = forecasts.iter().map(|forecast| forecast.loads).max().unwrap_or(0);
        Some(detectable_change(rounds, loads * DEFAULT_METRICS.len(), spread))
    }

    /// The runs against several targets as one.
    pub fn together(forecasts: &[Forecast]) -> Level {
        let totals: Vec<Level> = forecasts.iter().map(Forecast::total).collect();
        let limit = forecasts.iter().filter_map(|forecast| forecast.usd_limit).reduce(f64::min);
        Level::sum(format!("all {} targets", totals.len()), &totals).within(limit)
    }
}

impl Level {
    /// The same with no more dollars than are allowed.
    fn within(self, usd_limit: Option<f64>) -> Level {
        Level { usd: self.usd.map(|usd| usd_limit.map_or(usd, |limit| usd.min(limit))), ..self }
    }

    /// The most of each number; it is there if both have it.
    fn most(self, other: Level) -> Level {
        let most = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a.max(b));
        Level {
            name: self.name,
            basis: self.basis.max(other.basis),
            requests: most(self.requests, other.requests),
            input_tokens: most(self.input_tokens, other.input_tokens),
            output_tokens: most(self.output_tokens, other.output_tokens),
            usd: most(self.usd, other.usd),
            seconds: most(self.seconds, other.seconds),
            by_mean_lengths: self.by_mean_lengths || other.by_mean_lengths,
        }
    }

    /// Several as one; a number is there if every one has it.
    fn sum<'a>(name: String, levels: impl IntoIterator<Item = &'a Level>) -> Level {
        let levels: Vec<&Level> = levels.into_iter().collect();
        let sum = |of: fn(&Level) -> Option<f64>| {
            (!levels.is_empty()).then(|| levels.iter().map(|level| of(level)).sum::<Option<f64>>()).flatten()
        };
        Level {
            name,
            basis: levels.iter().map(|level| level.basis).max().unwrap_or_default(),
            requests: sum(|level| level.requests),
            input_tokens: sum(|level| level.input_tokens),
            output_tokens: sum(|level| level.output_tokens),
            usd: sum(|level| level.usd),
            seconds: sum(|level| level.seconds),
            by_mean_lengths: levels.iter().any(|level| level.by_mean_lengths),
        }
    }
}

/// The request before the load, if one is sent.
fn before(config: &Config) -> Option<Level> {
    config.target.remote().filter(|_| config.probe)?;
    let options = probe_request::options(config);
    let request = RequestOptions { items: options.items.map(|items| Items { batch: 1, ..items }), ..options };
    let one = Config { request, prompts: probe_request::prompt(), ..config.clone() };
    Some(Level { name: "before the load".to_owned(), seconds: None, ..level(&one, &probe_request::spec(), None) })
}

/// Whether the number of requests hangs on an answer that nobody has seen. Those of the embedded engine cost nobody anything.
fn is_assumed(config: &Config, spec: &PhaseSpec, seen: Option<ProbeTiming>) -> bool {
    let by_time = matches!(spec.extent, Extent::Duration(_)) && spec.load.row().is_closed();
    by_time && seen.is_none() && config.target.remote().is_some()
}

/// Whether a phase takes as long as its answers do.
fn ends_by_count(spec: &PhaseSpec) -> bool {
    !matches!(spec.extent, Extent::Duration(_)) && spec.load.rate().is_none()
}

/// Tells the rounds of a level apart, as their results will be.
fn name_rounds(levels: &mut [Level]) {
    let names: Vec<String> = levels.iter().map(|level| level.name.clone()).collect();
    for (place, level) in levels.iter_mut().enumerate() {
        let round = names[..=place].iter().filter(|name| **name == names[place]).count();
        if round > 1 {
            level.name = format!("{}, round {round}", level.name);
        }
    }
}

/// The first rounds of a level, before anything is decided, as one row.
fn start_up(round: &Level, rounds: u64) -> Level {
    let name = if rounds == 1 { round.name.clone() } else { format!("{}, {rounds} rounds", round.name) };
    Level::sum(name, repeat_n(round, rounds as usize))
}

/// The output tokens of an answer, at most; of lengths that differ the mean.
fn output_of(config: &Config) -> f64 {
    f64::from(config.output_tokens())
}

/// Requests of a phase, warm-up included, and how their number is known; an answer takes `end_to_end` seconds.
fn requests_of(spec: &PhaseSpec, turns: f64, end_to_end: Option<f64>, assumed: bool) -> (Basis, Option<f64>) {
    let warmup = spec.warmup as f64;
    match (spec.extent, &spec.load) {
        (Extent::Requests(requests), _) => (Basis::Exact, Some(warmup + requests as f64)),
        (Extent::Sessions(sessions), _) => (Basis::Exact, Some(sessions as f64 * turns)),
        (Extent::Duration(time), Load::Open { rate, arrivals, .. }) => {
            let basis = if *arrivals == Arrivals::Constant { Basis::Exact } else { Basis::About };
            (basis, Some(warmup + rate.per_second() * time.as_secs_f64()))
        }
        (Extent::Duration(time), Load::OpenRamp { ramp, .. }) => (Basis::About, Some(ramp.mean() * time.as_secs_f64())),
        (Extent::Duration(time), Load::Trace { due, .. }) => {
            (Basis::Exact, Some(due.iter().filter(|due| **due < time).count() as f64))
        }
        (Extent::Duration(time), load) => {
            let in_flight = f64::from(load.max_in_flight());
            let each_slot = |each: f64| match load {
                // What is in flight at the end counts too.
                Load::ClosedRamp { ramp } => ramp.mean() * time.as_secs_f64() / each + in_flight,
                _ => in_flight * (time.as_secs_f64() / each).ceil(),
            };
            // Under load an answer takes longer, so these are at most as many as an answer without load allows.
            let basis = if assumed { Basis::About } else { Basis::AtMost };
            (basis, end_to_end.map(|each| warmup + each_slot(each)))
        }
    }
}

fn level(config: &Config, spec: &PhaseSpec, seen: Option<ProbeTiming>) -> Level {
    let price: Option<&TargetPrice> = config.target.remote().and_then(|remote| remote.price.as_ref());
    let items = config.request.items.map_or(1, |items| items.batch);
    let (mut input, mut output) = (f64::from(config.prompts.input_tokens()), output_of(config));
    if let Some(items) = config.request.items {
        // Nothing is written; a query is read with each document.
        let query = if items.task == ItemTask::Rerank { f64::from(QUERY_TOKENS) } else { 0.0 };
        let texts = if items.task == ItemTask::Images { 1 } else { spec.load.batch().unwrap_or(items.batch) };
        let written = if items.task == ItemTask::Batch { output * f64::from(texts) } else { 0.0 };
        (input, output) = ((input + query) * f64::from(texts), written);
    }
    if config.request.audio.is_some() {
        // How much is written nobody asks for.
        output = 0.0;
    }
    let in_flight = f64::from(spec.load.max_in_flight());
    let turns = match spec.load {
        Load::Sessions { turns, .. } => f64::from(turns),
        Load::Agents { ref trace, .. } => trace.steps.len() as f64 / trace.sessions.len().max(1) as f64,
        _ => 1.0,
    };
    // How much sound or text comes back nobody asks for: the whole time of the one that was seen says what one takes.
    let end_to_end = seen.map(|seen| match config.request.audio {
        Some(_) => seen.opened / turns + seen.whole,
        None => seen.at_most(output),
    });
    let assumed = is_assumed(config, spec, seen);
    // What is asked for within a time, and paid, is the most if answers are as short as they can be.
    let least = |seen: ProbeTiming| seen.at_least(output);
    let (basis, requests) = requests_of(spec, turns, seen.or(assumed.then_some(ASSUMED)).map(least), assumed);
    let seconds = match (spec.extent, spec.load.rate()) {
        (Extent::Duration(time), _) => Some(time.as_secs_f64() + end_to_end.unwrap_or(0.0)),
        // How long a session takes hangs on its steps and tools.
        _ if matches!(spec.load, Load::Agents { .. }) => None,
        (_, Some(rate)) => requests.map(|requests| requests / rate + end_to_end.unwrap_or(0.0)),
        _ => requests.zip(end_to_end).map(|(requests, each)| (requests / in_flight).ceil() * each),
    };
    // The n-th turn of a session holds the n - 1 before it.
    let earlier_turns = match spec.load {
        Load::Sessions { .. } => (turns - 1.0) / 2.0 * (input + output),
        _ => 0.0,
    };
    // Sound that is sent has no tokens that could be counted here.
    let sends_sound = config.request.audio.as_ref().is_some_and(|audio| audio.input().is_some());
    let input_tokens = requests.filter(|_| !sends_sound).map(|requests| requests * (input + earlier_turns));
    let output_tokens = requests.map(|requests| requests * output);
    let media = config.request.media_at_most(config.prompts.input_tokens(), spec.load.batch().unwrap_or(items));
    // What has no price is not nothing: then nobody knows what it costs.
    let usd = price.filter(|price| price.media.unknown(&media).is_empty()).zip(requests);
    let usd = usd.zip(input_tokens.zip(output_tokens)).map(|((price, requests), (input, output))| {
        let (of_media, back) = price.media.tokens(&media);
        let input = (input + requests * of_media as f64).ceil() as u64;
        let output = (output + requests * back as f64).ceil() as u64;
        price.cost_at_most(input, output, &MediaAmounts::default()).as_usd()
            + requests * price.media.cost(&media).as_usd()
    });
    let by_mean_lengths = config.prompts.draws_lengths(&config.request.output_tokens);
    Level { name: spec.load.name(), basis, requests, input_tokens, output_tokens, usd, seconds, by_mean_lengths }
}

mod remaining;

pub use remaining::remaining;

#[cfg(test)]
mod tests;
