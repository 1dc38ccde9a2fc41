//! Forecast of a run before it starts: requests, tokens, cost, time.
//!
//! It does not know results. Invariant: a number says whether it follows from the plan, is the most that can be, or is reckoned;
//! money is what is spent at most, if every answer is as long as it may be.

use crate::plan::{Arrivals, Extent, Load, PhaseSpec};
use crate::schedule::{Schedule, ScheduleMode};
use crate::{Calibration, Config, calibrate};
use tokrate_core::BilledTokens;
use tokrate_record::TargetPrice;

/// Timing of one request without other load.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ProbeTiming {
    /// Time to the first token (s); of an answer that is not streamed, to its end.
    pub ttft: f64,
    /// Time of each further token (s).
    pub per_token: f64,
}

/// Stands for an answer where none was seen yet and the number of requests hangs on how long one takes: a hosted model of medium
/// size with nothing beside it. Whoever prints such a number says so.
pub const ASSUMED: ProbeTiming = ProbeTiming { ttft: 0.5, per_token: 0.02 };

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
    /// What is added to those at most: the most of each number that a course of the run can come to. `None` if nothing is added.
    pub added: Option<Level>,
    /// What all targets together may cost (USD).
    pub usd_limit: Option<f64>,
    /// Whether a number stands on [`ASSUMED`].
    pub assumed: bool,
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
        name_rounds(&mut levels);
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
            assumed: listed.iter().chain(courses.iter().flatten()).any(|spec| is_assumed(config, spec, seen)),
            calibration_seconds: match config.calibration {
                Calibration::Off => 0.0,
                _ if !config.request.stream => 0.0,
                _ => calibrate::MAX_SECONDS * levels.len() as f64,
            },
            levels,
            added: added.map(|added| added.within(config.max_cost_usd)),
            usd_limit: config.max_cost_usd,
        }
    }

    /// Totals over all levels; a total is present only if every level has the number.
    pub fn total(&self) -> Level {
        Level::sum("all".to_owned(), self.levels.iter().chain(&self.added)).within(self.usd_limit)
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
        }
    }
}

/// Whether the number of requests hangs on an answer that nobody has seen. Those of the embedded engine cost nobody anything.
fn is_assumed(config: &Config, spec: &PhaseSpec, seen: Option<ProbeTiming>) -> bool {
    let by_time = matches!(spec.extent, Extent::Duration(_)) && spec.load.row().is_closed();
    by_time && seen.is_none() && config.target.remote().is_some()
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

/// The output tokens of an answer, at most.
fn output_of(config: &Config) -> f64 {
    f64::from(config.prompts.output_tokens().unwrap_or(config.request.output_tokens))
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
    let (input, output) = (f64::from(config.prompts.input_tokens()), output_of(config));
    let time_of = |seen: ProbeTiming| seen.ttft + seen.per_token * (output - 1.0).max(0.0);
    let end_to_end = seen.map(time_of);
    let in_flight = f64::from(spec.load.max_in_flight());
    let turns = match spec.load {
        Load::Sessions { turns, .. } => f64::from(turns),
        _ => 1.0,
    };
    let assumed = is_assumed(config, spec, seen);
    let (basis, requests) = requests_of(spec, turns, seen.or(assumed.then_some(ASSUMED)).map(time_of), assumed);
    let seconds = match (spec.extent, spec.load.rate()) {
        (Extent::Duration(time), _) => Some(time.as_secs_f64() + end_to_end.unwrap_or(0.0)),
        (_, Some(rate)) => requests.map(|requests| requests / rate + end_to_end.unwrap_or(0.0)),
        _ => requests.zip(end_to_end).map(|(requests, each)| (requests / in_flight).ceil() * each),
    };
    // The n-th turn of a session holds the n - 1 before it.
    let earlier_turns = (turns - 1.0) / 2.0 * (input + output);
    let input_tokens = requests.map(|requests| requests * (input + earlier_turns));
    let output_tokens = requests.map(|requests| requests * output);
    let usd = price.zip(input_tokens.zip(output_tokens));
    let usd = usd.map(|(price, (input, output))| {
        let (input, output) = (input.ceil() as u64, output.ceil() as u64);
        price.price.cost(BilledTokens { input, output, ..BilledTokens::default() }).as_usd()
    });
    Level { name: spec.load.name(), basis, requests, input_tokens, output_tokens, usd, seconds }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Backoff, Growth, Ramp, Think};
    use crate::prompts::{PromptSource, PromptSpec};
    use crate::schedule::{Axis, Search};
    use crate::{Calibration, Embedded, Limits, RequestOptions, Target};
    use tokrate_core::{RequestsPerSecond, Span};
    use tokrate_sim::{Faults, Law};

    fn config(load: Load, extent: Extent, warmup: u64) -> Config {
        let time = Span::from_secs(1);
        Config {
            target: Target::Embedded(Box::new(Embedded { law: Law::default(), faults: Faults::default() })),
            phases: vec![PhaseSpec { load, extent, warmup, backoff: Backoff::Obey }],
            schedule_mode: ScheduleMode::Listed,
            request: RequestOptions {
                stream: true,
                include_usage: true,
                output_tokens: 101,
                ignore_eos: false,
                legacy_max_tokens: false,
                temperature: None,
                extra: Vec::new(),
                keep_unknown: false,
            },
            prompts: PromptSource::Synthetic(PromptSpec { input_tokens: 50, shared_prefix_tokens: 0 }),
            limits: Limits { connect: time, idle: time, total: time, wait: time, max_body_bytes: 1 },
            probe: true,
            keep_going: false,
            slos: Vec::new(),
            max_cost_usd: None,
            workers: None,
            calibration: Calibration::Off,
            seed: 0,
            host: String::new(),
            machine: String::new(),
            region: String::new(),
            version: String::new(),
        }
    }

    /// An answer takes 0.5 s to its first token and 100 more of 10 ms: 1.5 s.
    const SEEN: ProbeTiming = ProbeTiming { ttft: 0.5, per_token: 0.01 };

    fn total(load: Load, extent: Extent, warmup: u64, seen: Option<ProbeTiming>) -> [Option<f64>; 4] {
        let total = Forecast::of(&config(load, extent, warmup), seen).total();
        [total.requests, total.input_tokens, total.output_tokens, total.seconds.map(|s| (s * 1e6).round() / 1e6)]
    }

    #[test]
    fn a_closed_loop_takes_as_many_rounds_as_its_requests_need() {
        let load = || Load::Closed { concurrency: 4 };
        let counted = [Some(22.0), Some(1100.0), Some(2222.0)];
        let [rest @ .., seconds] = total(load(), Extent::Requests(20), 2, Some(SEEN));
        assert_eq!((rest, seconds), (counted, Some(9.0)), "six rounds of 1.5 s");
        assert_eq!(total(load(), Extent::Requests(20), 2, None)[3], None, "nobody knows before the first answer");
        let minute = Extent::Duration(Span::from_secs(60));
        assert_eq!(total(load(), minute, 0, None), [None, None, None, Some(60.0)]);
        let [requests, .., seconds] = total(load(), minute, 0, Some(SEEN));
        assert_eq!((requests, seconds), (Some(160.0), Some(61.5)), "at most as many as without load");
    }

    #[test]
    fn an_open_loop_asks_at_its_rate() {
        let rate = RequestsPerSecond::new(5.0).expect("a rate");
        let load = || Load::Open { rate, arrivals: Arrivals::Poisson, in_flight_limit: 9 };
        let minute = Extent::Duration(Span::from_secs(60));
        assert_eq!(total(load(), minute, 0, None), [Some(300.0), Some(15_000.0), Some(30_300.0), Some(60.0)]);
        assert_eq!(total(load(), Extent::Requests(50), 0, Some(SEEN))[3], Some(11.5));
    }

    #[test]
    fn a_ramp_is_reckoned_by_its_mean() {
        let ramp = Ramp { from: 1.0, to: 9.0, growth: Growth::Linear, over: Span::from_secs(60) };
        let ramped = || config(Load::ClosedRamp { ramp }, Extent::Duration(Span::from_secs(60)), 0);
        let level = Forecast::of(&ramped(), Some(SEEN)).total();
        assert_eq!(
            (level.basis, level.requests),
            (Basis::AtMost, Some(209.0)),
            "5 of 1.5 s for a minute, and the last 9"
        );
        let unseen = Forecast::of(&ramped(), None);
        assert_eq!(
            (unseen.total().requests, unseen.assumed),
            (None, false),
            "the embedded engine costs nobody anything"
        );
        let exponential = Ramp { growth: Growth::Exponential, ..ramp };
        assert!((exponential.mean() - 8.0 / 9.0_f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn what_is_added_is_bounded() {
        let closed = |schedule_mode| Config {
            schedule_mode,
            ..config(Load::Closed { concurrency: 1 }, Extent::Requests(20), 1)
        };
        let total = |mode| {
            let forecast = Forecast::of(&closed(mode), None);
            let total = forecast.total();
            assert_eq!(total.basis, Basis::AtMost);
            (forecast.added.map(|added| added.name).unwrap_or_default(), total.requests)
        };
        assert_eq!(total(ScheduleMode::Refine { max_levels: 3 }), ("up to 3 more".to_owned(), Some(84.0)));
        // 1 to 64 and 128: each as many as asked for, or three for each slot, and one for each to warm up.
        let system = f64::from(20 + 20 + 20 + 24 + 48 + 96 + 192 + 384 + 255);
        assert_eq!(total(ScheduleMode::System { max_concurrency: 130 }), ("up to 8 levels".to_owned(), Some(system)));
        let search = |max_load, max_requests| {
            total(ScheduleMode::Search(Search { axis: Axis::Concurrency, share: 0.95, max_load, max_requests }))
        };
        let (name, few) = search(1.0, 88);
        assert_eq!((name.as_str(), few), ("1 level", Some(89.0)), "88 tell 95 %, and one to warm up");
        let (name, many) = search(8.0, 200);
        // 1, 2, 4, 8, and 6 and 7 between the last two; each in two or three rounds.
        assert_eq!(name, "up to 6 levels");
        assert!(many.is_some_and(|many| (1200.0..1400.0).contains(&many)), "{many:?}");
    }

    #[test]
    fn a_search_for_a_rate_takes_two_hours_at_most_where_nothing_else_is_asked() {
        let rate = RequestsPerSecond::new(1.0).expect("a rate");
        let load = Load::Open { rate, arrivals: Arrivals::Poisson, in_flight_limit: 256 };
        let search = Search { axis: Axis::Rate, share: 0.95, max_load: 100.0, max_requests: 2_000 };
        let config = Config { schedule_mode: ScheduleMode::Search(search), ..config(load, Extent::Requests(20), 0) };
        let total = Forecast::of(&config, None).total();
        assert_eq!(total.basis, Basis::AtMost);
        assert!(total.seconds.is_some_and(|seconds| (3_000.0..7_200.0).contains(&seconds)), "{total:?}");
        assert!(total.requests.is_some_and(|requests| (10_000.0..30_000.0).contains(&requests)), "{total:?}");
    }

    #[test]
    fn several_targets_are_summed_up_and_no_more_is_spent_than_allowed() {
        let one = Forecast::of(&config(Load::Closed { concurrency: 4 }, Extent::Requests(20), 2), Some(SEEN));
        let sum = Forecast::together(&[one.clone(), one]);
        assert_eq!((sum.name.as_str(), sum.requests, sum.seconds), ("all 2 targets", Some(44.0), Some(18.0)));
    }

    #[test]
    fn a_turn_of_a_session_holds_those_before_it() {
        let load = Load::Sessions { sessions: 2, turns: 3, think: Think::Fixed(Span::ZERO) };
        let [requests, input, output, _] = total(load, Extent::Sessions(2), 0, None);
        // Of each session 50, 50 + 151 and 50 + 302 tokens.
        assert_eq!((requests, input, output), (Some(6.0), Some(1206.0), Some(606.0)));
    }
}
