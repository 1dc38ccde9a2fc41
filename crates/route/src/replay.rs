//! What a log of attempts says another policy would have done: cost, time to the first token, time to the end.
//!
//! It refuses to guess where nothing was measured: a call counts only if enough attempts of a lane were measured near its time,
//! and the report says how many calls that are. Invariant: every figure of another policy is an estimate from neighbouring
//! attempts and is named so; a policy never sees what came after the call that it decides.
//!
//! What it cannot know: that other choices would have made other loads. The further a policy departs from what was done, the less
//! its estimate is worth; [`Report::as_done`] says how often it would have done the same.

mod estimate;

use crate::lane::{LaneConfig, LaneId};
use crate::pick::{CallShape, Policy};
use crate::router::{Outcome, Router, RouterConfig};
use estimate::Measured;
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
    /// Standard error of the difference of the mean completion times (seconds): what chance among calls and neighbours alone
    /// would make of it, not what other loads would.
    pub completion_error: f64,
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
    let mut tally = Tally::default();
    for call in rows.chunk_by(|one, other| one.call == other.call) {
        let now = call[0].started;
        past.play(now);
        let Some(answered) = call.iter().find(|row| row.won && row.failure.is_none()) else { continue };
        tally.report.calls += 1;
        let shape = CallShape { prompt_tokens: call[0].prompt_tokens, output_tokens: answered.output_tokens as f64 };
        let order = past.router.order(now, &shape, &ids, &policy);
        let chosen: Vec<LaneId> = order.iter().take(wanted).map(|ranked| ranked.lane).collect();
        let neighbours: Option<Vec<_>> = chosen.iter().map(|lane| measured.near(*lane, now, call[0].call)).collect();
        let Some(neighbours) = neighbours.filter(|lanes| lanes.len() == wanted) else { continue };
        let estimate = match instead {
            Instead::By(_) | Instead::Race { .. } => estimate::race(&neighbours, &shape),
            Instead::Hedge { .. } => estimate::hedge(&neighbours, &shape),
        };
        let begun: Vec<LaneId> = call.iter().map(|row| row.lane).collect();
        tally.add(call, answered, &estimate, matches!(instead, Instead::By(_)) && begun == chosen);
    }
    tally.finish()
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
                if let Some(ttft) = row.ttft {
                    self.router.first_token(&mut started, at, ttft, row.prompt_tokens);
                }
                let outcome = Outcome {
                    failure: row.failure,
                    retry_after: None,
                    prompt_tokens: row.prompt_tokens,
                    output_tokens: row.output_tokens,
                    output_speed: row.output_speed,
                };
                self.router.finish(started, at, &outcome);
            }
        }
    }
}

#[derive(Default)]
struct Tally {
    report: Report,
    measured_usd: Option<f64>,
    estimated_usd: Option<f64>,
    differences: f64,
    squares: f64,
    /// Of the estimates themselves.
    variance: f64,
}

impl Tally {
    fn add(&mut self, call: &[LoggedAttempt], answered: &LoggedAttempt, estimate: &estimate::Estimate, as_done: bool) {
        let first = self.report.covered == 0;
        self.report.covered += 1;
        self.report.as_done += usize::from(as_done);
        let waited = answered.started.since(call[0].started).as_secs_f64();
        let completion = waited + answered.total.as_secs_f64();
        let Means { ttft, completion: sum, attempts, .. } = &mut self.report.measured;
        *ttft += waited + answered.ttft.unwrap_or(answered.total).as_secs_f64();
        *sum += completion;
        *attempts += call.len() as f64;
        let Means { ttft, completion: sum, attempts, .. } = &mut self.report.estimated;
        *ttft += estimate.ttft;
        *sum += estimate.completion;
        *attempts += estimate.attempts;
        let usd = call.iter().map(|row| row.usd).sum::<Option<f64>>();
        let add = |sum: Option<f64>, usd: Option<f64>| Some(if first { 0.0 } else { sum? } + usd?);
        self.measured_usd = add(self.measured_usd, usd);
        self.estimated_usd = add(self.estimated_usd, estimate.usd);
        let difference = estimate.completion - completion;
        self.differences += difference;
        self.squares += difference * difference;
        self.variance += estimate.variance;
    }

    fn finish(mut self) -> Report {
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
        let mean = self.differences / n;
        let between = (self.squares / n - mean * mean).max(0.0);
        self.report.completion_error = ((between + self.variance / n) / n).sqrt();
        self.report
    }
}

#[cfg(test)]
mod tests;
