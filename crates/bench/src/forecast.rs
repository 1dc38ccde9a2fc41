//! Forecast of a run before it starts: requests, tokens, cost, time.
//!
//! Invariant: what cannot be known in advance is absent; the cost is an upper bound, with every answer at its maximum
//! length.

use crate::Config;
use crate::plan::{Extent, Load, PhaseSpec};
use crate::schedule::ScheduleMode;
use tokrate_meter::Price;

/// Timing of one request without other load.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ProbeTiming {
    /// Time to the first token (s); of an answer that is not streamed, to its end.
    pub ttft: f64,
    /// Time of each further token (s).
    pub per_token: f64,
}

/// What a run against one target will ask for.
#[derive(Clone, PartialEq, Debug)]
pub struct Forecast {
    /// Level by level, as far as they are listed.
    pub levels: Vec<Level>,
    /// What is added to the listed levels, in words; empty if nothing is.
    pub additional: &'static str,
}

/// What one level will ask for.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Level {
    /// Its name.
    pub name: String,
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
        let additional = match config.schedule_mode {
            ScheduleMode::Listed => "",
            ScheduleMode::Refine { .. } => "and the levels that --refine adds",
            ScheduleMode::Search(_) => "as many levels as the search takes",
            ScheduleMode::System { .. } => "as many levels as throughput rises for",
        };
        let listed = if searched { &[][..] } else { &config.phases };
        let price = config.target.remote().and_then(|remote| remote.price.as_ref());
        Forecast { levels: listed.iter().map(|spec| level(config, spec, price, seen)).collect(), additional }
    }

    /// Totals over all levels; a total is present only if every level has the number.
    pub fn total(&self) -> Level {
        let sum = |of: fn(&Level) -> Option<f64>| {
            let known = self.additional.is_empty() && !self.levels.is_empty();
            known.then(|| self.levels.iter().map(of).sum::<Option<f64>>()).flatten()
        };
        Level {
            name: "all".to_owned(),
            requests: sum(|level| level.requests),
            input_tokens: sum(|level| level.input_tokens),
            output_tokens: sum(|level| level.output_tokens),
            usd: sum(|level| level.usd),
            seconds: sum(|level| level.seconds),
        }
    }
}

fn level(config: &Config, spec: &PhaseSpec, price: Option<&Price>, seen: Option<ProbeTiming>) -> Level {
    let input = f64::from(config.prompts.input_tokens());
    let output = f64::from(config.prompts.output_tokens().unwrap_or(config.request.output_tokens));
    let end_to_end = seen.map(|seen| seen.ttft + seen.per_token * (output - 1.0).max(0.0));
    let in_flight = f64::from(spec.load.max_in_flight());
    let warmup = spec.warmup as f64;
    let turns = match spec.load {
        Load::Sessions { turns, .. } => f64::from(turns),
        _ => 1.0,
    };
    let requests = match (spec.extent, &spec.load) {
        (Extent::Requests(requests), _) => Some(warmup + requests as f64),
        (Extent::Sessions(sessions), _) => Some(sessions as f64 * turns),
        (Extent::Duration(time), Load::Open { rate, .. }) => Some(warmup + rate.per_second() * time.as_secs_f64()),
        (Extent::Duration(time), Load::OpenRamp { ramp, .. }) => Some((ramp.from + ramp.to) / 2.0 * time.as_secs_f64()),
        (Extent::Duration(time), Load::Trace { due, .. }) => Some(due.iter().filter(|due| **due < time).count() as f64),
        // Under load an answer takes longer, so these are at most as many.
        (Extent::Duration(time), _) => end_to_end.map(|each| warmup + in_flight * (time.as_secs_f64() / each).ceil()),
    };
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
    let usd = usd.map(|(price, (input, output))| price.cost_usd(input.ceil() as u64, 0, output.ceil() as u64));
    Level { name: spec.load.name(), requests, input_tokens, output_tokens, usd, seconds }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Arrivals, Backoff, Think};
    use crate::prompts::{PromptSource, PromptSpec};
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
    fn a_turn_of_a_session_holds_those_before_it() {
        let load = Load::Sessions { sessions: 2, turns: 3, think: Think::Fixed(Span::ZERO) };
        let [requests, input, output, _] = total(load, Extent::Sessions(2), 0, None);
        // Of each session 50, 50 + 151 and 50 + 302 tokens.
        assert_eq!((requests, input, output), (Some(6.0), Some(1206.0), Some(606.0)));
    }
}
