//! What a log of attempts says another policy would have done: cost, time to the first token, time to the end.
//!
//! It refuses to guess where nothing was measured: a call counts only if enough attempts of a lane were measured near its time,
//! and the report says how many calls that are. Invariant: every figure of another policy is an estimate from neighbouring
//! attempts and is named so; a policy never sees what came after the call that it decides.
//!
//! What it cannot know: that other choices would have made other loads. The further a policy departs from what was done, the less
//! its estimate is worth; [`Report::as_done`] says how often it would have done the same.

mod estimate;
mod spread;

use crate::lane::{LaneConfig, LaneId};
use crate::pick::{CallShape, Policy};
use crate::router::{Came, Outcome, Router, RouterConfig};
use estimate::{Measured, Met, Neighbours, Way};
pub use spread::{LEVELS, Percentile};
use spread::{Mixture, percentile, root_of_squares};
use tokrate_core::{FailureKind, Span, Tick};

/// A logged attempt. Rows of one call stand together, in order of their starts.
#[derive(Clone, PartialEq, Debug)]
pub struct LoggedAttempt {
    /// Which call it belongs to.
    pub call: u64,
    /// Where it went.
    pub lane: LaneId,
    /// When it was begun.
    pub started: Tick,
    /// Whether it came token by token, and not at once.
    pub stream: bool,
    /// To its first token; `None` if none came.
    pub ttft: Option<Span>,
    /// To its end.
    pub total: Span,
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Tokens of the answer, as far as it came.
    pub output_tokens: u64,
    /// Output speed (tokens per second), where one was measured.
    pub output_speed: Option<f64>,
    /// What it cost (USD), where that is known.
    pub usd: Option<f64>,
    /// How it failed; [`FailureKind::Cancelled`] if it lost.
    pub failure: Option<FailureKind>,
    /// Whether the client was given its answer.
    pub won: bool,
}

/// What is to be tried instead.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Instead {
    /// One lane a call, by a policy.
    By(Policy),
    /// The best so many lanes by a policy at once; the losers are billed for their prompts and what they had said.
    Race {
        /// How the lanes are chosen.
        policy: Policy,
        /// How many.
        lanes: usize,
    },
    /// The best lane, and the second best once the first is slower than nine in ten of its measured neighbours.
    Hedge {
        /// How the lanes are chosen.
        policy: Policy,
    },
}

/// How the replay looks for neighbours.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ReplayConfig {
    /// Attempts of a lane that were begun so shortly before or after a call are its neighbours.
    pub near: Span,
    /// So many of a lane are needed for an estimate.
    pub neighbours_least: usize,
}

impl Default for ReplayConfig {
    fn default() -> ReplayConfig {
        ReplayConfig { near: Span::from_secs(300), neighbours_least: 5 }
    }
}

/// Means over the calls that count.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Means {
    /// Time to the first token (seconds).
    pub ttft: f64,
    /// Time to the end (seconds).
    pub completion: f64,
    /// Cost (USD); `None` if it is not known of every call.
    pub usd: Option<f64>,
    /// Attempts.
    pub attempts: f64,
}

/// What a replay found.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Report {
    /// Answered calls in the log.
    pub calls: usize,
    /// Those of which the other policy could be estimated; all figures below are of these.
    pub covered: usize,
    /// Those of them for which it chose what was done.
    pub as_done: usize,
    /// What was measured.
    pub measured: Means,
    /// What the other policy is estimated to have given.
    pub estimated: Means,
    /// Percentiles of the time to the first token.
    pub ttft: [Percentile; 3],
    /// Percentiles of the time to the end.
    pub completion: [Percentile; 3],
    /// Attempts that the estimate rests on: what it says beyond their number is no more than what they were.
    pub attempts: usize,
    /// Standard error of the difference of the mean completion times (seconds): what chance among calls and neighbours alone
    /// would make of it, not what other loads would.
    pub completion_error: f64,
    /// That of the mean times to the first token (seconds).
    pub ttft_error: f64,
    /// That of the mean costs (USD); `None` if one of them is not known.
    pub usd_error: Option<f64>,
}

impl Report {
    /// Share of calls that count.
    pub fn coverage(&self) -> f64 {
        self.covered as f64 / self.calls.max(1) as f64
    }
}

/// What another policy would have made of a log. Rows must be sorted by their calls' first starts.
pub fn replay(
    rows: &[LoggedAttempt],
    lanes: &[LaneConfig],
    instead: &Instead,
    config: &ReplayConfig,
    seed: u64,
) -> Report {
    let measured = Measured::new(rows, lanes, config);
    let settings = RouterConfig { exploration: 0.0, ..RouterConfig::default() };
    let mut past = Past::new(Router::with_config(settings, lanes.to_vec(), seed), rows);
    let ids: Vec<LaneId> = (0..lanes.len()).map(|number| LaneId(number as u32)).collect();
    let (policy, wanted) = match *instead {
        Instead::By(policy) => (policy, 1),
        Instead::Race { policy, lanes } => (policy, lanes.max(1)),
        Instead::Hedge { policy } => (policy, 2),
    };
    let way = if matches!(instead, Instead::Hedge { .. }) { Way::Hedge } else { Way::Race };
    let mut tally = Tally::new();
    let mut decided = Vec::new();
    let mut units = 0;
    for (unit, call) in rows.chunk_by(|one, other| one.call == other.call).enumerate() {
        units = unit + 1;
        let now = call[0].started;
        past.play(now);
        let Some(answered) = call.iter().find(|row| row.won && row.failure.is_none()) else { continue };
        tally.report.calls += 1;
        let shape = CallShape { prompt_tokens: call[0].prompt_tokens, output_tokens: answered.output_tokens as f64 };
        let order = past.router.order(now, &shape, &ids, &policy);
        let chosen: Vec<LaneId> = order.iter().take(wanted).map(|ranked| ranked.lane).collect();
        let Some(neighbours) = near(&measured, &chosen, now, unit).filter(|lanes| lanes.len() == wanted) else {
            continue;
        };
        let begun: Vec<LaneId> = call.iter().map(|row| row.lane).collect();
        let as_done = matches!(instead, Instead::By(_)) && begun == chosen;
        let was = Was::of(call, answered);
        tally.add(&was, &neighbours, way, &shape, as_done);
        decided.push(Decided { unit, now, shape, chosen, was });
    }
    tally.finish(units, way, &measured, &decided)
}

fn near<'a>(measured: &Measured<'a>, chosen: &[LaneId], now: Tick, unit: usize) -> Option<Vec<Neighbours<'a>>> {
    chosen.iter().map(|lane| measured.near(*lane, now, unit)).collect()
}

/// A call that counts.
struct Decided {
    unit: usize,
    now: Tick,
    shape: CallShape,
    chosen: Vec<LaneId>,
    was: Was,
}

/// What was measured of a call.
#[derive(Clone, Copy)]
struct Was {
    ttft: f64,
    completion: f64,
    usd: Option<f64>,
    attempts: f64,
}

impl Was {
    fn of(call: &[LoggedAttempt], answered: &LoggedAttempt) -> Was {
        let waited = answered.started.since(call[0].started).as_secs_f64();
        Was {
            ttft: waited + answered.ttft.unwrap_or(answered.total).as_secs_f64(),
            completion: waited + answered.total.as_secs_f64(),
            usd: call.iter().map(|row| row.usd).sum(),
            attempts: call.len() as f64,
        }
    }
}

/// A router that sees the log go by.
struct Past<'a> {
    router: Router,
    /// Ends and starts in order of their times: row, and whether it is the end.
    moments: Vec<(Tick, bool, &'a LoggedAttempt, usize)>,
    played: usize,
    open: Vec<Option<crate::lane::Started>>,
}

impl<'a> Past<'a> {
    fn new(router: Router, rows: &'a [LoggedAttempt]) -> Past<'a> {
        let known = rows.iter().enumerate().filter(|(_, row)| row.lane.index() < router.lanes());
        let mut moments: Vec<_> = known
            .flat_map(|(place, row)| [(row.started, false, row, place), (row.started + row.total, true, row, place)])
            .collect();
        moments.sort_by_key(|(at, ends, _, place)| (*at, *ends, *place));
        Past { router, moments, played: 0, open: rows.iter().map(|_| None).collect() }
    }

    /// Everything that had happened before `now`.
    fn play(&mut self, now: Tick) {
        while let Some(&(at, ends, row, place)) = self.moments.get(self.played).filter(|(at, ..)| *at < now) {
            self.played += 1;
            if !ends {
                self.open[place] = Some(self.router.start(row.lane, at));
            } else if let Some(mut started) = self.open[place].take() {
                if let Some(ttft) = row.ttft.filter(|_| row.stream) {
                    self.router.first_token(&mut started, at, ttft, row.prompt_tokens);
                }
                let outcome = Outcome {
                    failure: row.failure,
                    retry_after: None,
                    prompt_tokens: row.prompt_tokens,
                    output_tokens: row.output_tokens,
                    output_speed: row.output_speed,
                    came: match row.stream {
                        true => Came::Streamed,
                        // What was expected of it is not in the log; its own length is what its time is measured by.
                        false => Came::Whole { expected_tokens: row.output_tokens as f64 },
                    },
                };
                self.router.finish(started, at, &outcome);
            }
        }
    }
}

struct Tally {
    report: Report,
    measured_usd: Option<f64>,
    estimated_usd: Option<f64>,
    ttfts: Mixture,
    completions: Mixture,
}

impl Tally {
    fn new() -> Tally {
        Tally {
            report: Report::default(),
            measured_usd: Some(0.0),
            estimated_usd: Some(0.0),
            ttfts: Mixture::new(),
            completions: Mixture::new(),
        }
    }

    fn add(&mut self, was: &Was, neighbours: &[Neighbours<'_>], way: Way, shape: &CallShape, as_done: bool) {
        let report = &mut self.report;
        report.covered += 1;
        report.as_done += usize::from(as_done);
        report.measured.ttft += was.ttft;
        report.measured.completion += was.completion;
        report.measured.attempts += was.attempts;
        self.measured_usd = self.measured_usd.zip(was.usd).map(|(sum, usd)| sum + usd);
        let usd = &mut self.estimated_usd;
        let attempts = estimate::outcomes(way, neighbours, shape, &mut |share, met| {
            report.estimated.ttft += share * met.ttft;
            report.estimated.completion += share * met.completion();
            *usd = usd.zip(met.usd).map(|(sum, usd)| sum + share * usd);
            self.ttfts.add(met.ttft, share);
            met.ends().for_each(|(part, seconds)| self.completions.add(seconds, share * part));
        });
        report.estimated.attempts += attempts;
    }

    fn finish(mut self, units: usize, way: Way, measured: &Measured<'_>, decided: &[Decided]) -> Report {
        let n = self.report.covered as f64;
        if self.report.covered == 0 {
            return self.report;
        }
        let usd = [self.measured_usd, self.estimated_usd];
        for (means, usd) in [&mut self.report.measured, &mut self.report.estimated].into_iter().zip(usd) {
            means.ttft /= n;
            means.completion /= n;
            means.attempts /= n;
            means.usd = usd.map(|usd| usd / n);
        }
        self.add_errors(units, way, measured, decided);
        self.report
    }

    /// Standard errors and percentiles, by what each call of the log contributes (the infinitesimal jackknife).
    fn add_errors(&mut self, units: usize, way: Way, measured: &Measured<'_>, decided: &[Decided]) {
        let cuts = [&self.ttfts, &self.completions].map(|mixture| LEVELS.map(|level| mixture.quantile(level)));
        let value = |met: &Met| figures(met, &cuts);
        let n = decided.len() as f64;
        let mut influences = vec![[0.0; FIGURES]; units];
        let mut used = vec![false; units];
        let mut sums = [0.0; FIGURES];
        for call in decided {
            let Some(lanes) = near(measured, &call.chosen, call.now, call.unit) else { continue };
            let projected = estimate::projections(way, &lanes, &call.shape, &value);
            let mean = mean_of(&projected[0]);
            for (lane, projected) in lanes.iter().zip(&projected) {
                let m = projected.len() as f64;
                // A mean of few is nearer to each of them than the truth is.
                let widened = (m / (m - 1.0).max(1.0)).sqrt() / m / n;
                let centre = mean_of(projected);
                for (neighbour, projected) in lane.attempts().iter().zip(projected) {
                    used[neighbour.unit] = true;
                    let influence = &mut influences[neighbour.unit];
                    (0..FIGURES).for_each(|which| influence[which] += (projected[which] - centre[which]) * widened);
                }
            }
            let was = [call.was.completion, call.was.ttft, call.was.usd.unwrap_or(0.0)];
            for which in 0..FIGURES {
                let own = mean[which] - was.get(which).unwrap_or(&0.0);
                sums[which] += own / n;
                influences[call.unit][which] += own / n;
            }
        }
        for call in decided {
            let influence = &mut influences[call.unit];
            (0..FIGURES).for_each(|which| influence[which] -= sums[which] / n);
        }
        let error = |which: usize| root_of_squares(influences.iter().map(|influence| influence[which]));
        let report = &mut self.report;
        (report.completion_error, report.ttft_error) = (error(0), error(1));
        report.usd_error = report.measured.usd.and(report.estimated.usd).map(|_| error(2));
        report.attempts = used.into_iter().filter(|used| *used).count();
        let (mut ttfts, mut completions) = (vec![None; units], vec![None; units]);
        for call in decided {
            ttfts[call.unit] = Some(call.was.ttft);
            completions[call.unit] = Some(call.was.completion);
        }
        for (place, level) in LEVELS.into_iter().enumerate() {
            let of = |figure: usize| influences.iter().map(|influence| influence[figure]).collect::<Vec<f64>>();
            report.ttft[place] = percentile(level, &self.ttfts, &of(3 + place), &ttfts);
            report.completion[place] = percentile(level, &self.completions, &of(6 + place), &completions);
        }
    }
}

/// Completion, time to the first token, cost, and whether each of both times is at most its percentiles.
const FIGURES: usize = 3 + 2 * LEVELS.len();

fn figures(met: &Met, cuts: &[[f64; 3]; 2]) -> [f64; FIGURES] {
    let [ttfts, completions] = cuts;
    let [t50, t90, t99] = ttfts.map(|cut| f64::from(met.ttft <= cut));
    let [c50, c90, c99] = completions.map(|cut| met.share_by(cut));
    [met.completion(), met.ttft, met.usd.unwrap_or(0.0), t50, t90, t99, c50, c90, c99]
}

fn mean_of(projected: &[[f64; FIGURES]]) -> [f64; FIGURES] {
    let sum = |which: usize| projected.iter().map(|values| values[which]).sum::<f64>();
    std::array::from_fn(|which| sum(which) / projected.len() as f64)
}

#[cfg(test)]
mod tests;
