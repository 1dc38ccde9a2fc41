//! Estimates from a log of attempts what another policy would have given: cost, time to first token, completion time.
//!
//! Only calls with enough attempts measured near them on the chosen lanes are covered; the report says how many. Invariant:
//! every figure of another policy is an estimate and is labelled so; a policy never sees what came after the call it
//! decides.
//!
//! It cannot know the loads that other choices would have caused. The more a policy differs from what was done, the less
//! its estimate is worth; [`Report::same_choice`] says how often it agreed.

mod estimate;
mod percentile;

use crate::lane::{LaneConfig, LaneId};
use crate::pick::CallShape;
use crate::policy::Policy;
use crate::router::{Delivery, Outcome, Router, RouterConfig};
use estimate::{LaneHistories, Neighbours, PossibleOutcome, Strategy};
pub use percentile::{LEVELS, Percentile};
use percentile::{Mixture, percentile, root_sum_of_squares};
use tokrate_core::{FailureKind, Span, Tick};

/// A logged attempt. Rows of one call are adjacent, in order of their starts.
#[derive(Clone, PartialEq, Debug)]
pub struct LoggedAttempt {
    /// Which call it belongs to.
    pub call: u64,
    /// Its lane.
    pub lane: LaneId,
    /// When it was started.
    pub started: Tick,
    /// Whether it was streamed.
    pub stream: bool,
    /// Time to first token; `None` if none came.
    pub ttft: Option<Span>,
    /// Total time.
    pub total: Span,
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Output tokens received.
    pub output_tokens: u64,
    /// Output speed (tokens per second), if measured.
    pub output_speed: Option<f64>,
    /// Its cost (USD), if known.
    pub usd: Option<f64>,
    /// How it failed; [`FailureKind::Cancelled`] if it lost.
    pub failure: Option<FailureKind>,
    /// Whether the client got its answer.
    pub won: bool,
}

/// The alternative to estimate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Alternative {
    /// One lane per call, by a policy.
    Single(Policy),
    /// The best lanes by a policy at once; losers are billed for their prompts and their output so far.
    Race {
        /// How the lanes are chosen.
        policy: Policy,
        /// How many.
        lanes: usize,
    },
    /// The best lane, and the second best once the first is slower than the 90th percentile of its neighbours.
    Hedge {
        /// How the lanes are chosen.
        policy: Policy,
    },
}

/// Settings for finding neighbours.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ReplayConfig {
    /// Attempts of a lane started within this time before or after a call are its neighbours.
    pub window: Span,
    /// Neighbours on a lane needed for an estimate.
    pub min_neighbours: usize,
}

impl Default for ReplayConfig {
    fn default() -> ReplayConfig {
        ReplayConfig { window: Span::from_secs(300), min_neighbours: 5 }
    }
}

/// Means over the covered calls.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Means {
    /// Time to the first token (seconds).
    pub ttft: f64,
    /// Completion time (seconds).
    pub completion: f64,
    /// Cost (USD); `None` if that of any call is unknown.
    pub usd: Option<f64>,
    /// Attempts per call.
    pub attempts: f64,
}

/// Result of a replay.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Report {
    /// Answered calls in the log whose answer has a time to first token.
    pub calls: usize,
    /// Answered calls whose answer came in one piece: they have no time to first token, and are in no other figure.
    pub whole: usize,
    /// Calls for which the alternative could be estimated; all figures below are of these.
    pub covered: usize,
    /// Covered calls for which it made the choice that was made.
    pub same_choice: usize,
    /// What was measured.
    pub measured: Means,
    /// Estimates for the alternative.
    pub estimated: Means,
    /// Percentiles of the time to the first token.
    pub ttft: [Percentile; 3],
    /// Percentiles of the completion time.
    pub completion: [Percentile; 3],
    /// Distinct attempts that the estimate rests on.
    pub attempts: usize,
    /// Standard error of the difference of the mean completion times (seconds). It covers chance among calls and
    /// neighbours, not the effect of other loads.
    pub completion_error: f64,
    /// That of the mean times to the first token (seconds).
    pub ttft_error: f64,
    /// That of the mean costs (USD); `None` if one of them is unknown.
    pub usd_error: Option<f64>,
}

impl Report {
    /// Share of the calls that are covered.
    pub fn coverage(&self) -> f64 {
        self.covered as f64 / self.calls.max(1) as f64
    }
}

/// Estimates what an alternative would have given. Rows must be sorted by the first starts of their calls.
pub fn replay(
    rows: &[LoggedAttempt],
    lanes: &[LaneConfig],
    alternative: &Alternative,
    config: &ReplayConfig,
    seed: u64,
) -> Report {
    let measured = LaneHistories::new(rows, lanes, config);
    let settings = RouterConfig { exploration: 0.0, ..RouterConfig::default() };
    let mut playback = LogPlayback::new(Router::with_config(settings, lanes.to_vec(), seed), rows);
    let ids: Vec<LaneId> = (0..lanes.len()).map(|number| LaneId(number as u32)).collect();
    let (policy, wanted) = match *alternative {
        Alternative::Single(policy) => (policy, 1),
        Alternative::Race { policy, lanes } => (policy, lanes.max(1)),
        Alternative::Hedge { policy } => (policy, 2),
    };
    let strategy = if matches!(alternative, Alternative::Hedge { .. }) { Strategy::Hedge } else { Strategy::Race };
    let mut tally = Tally::new();
    let mut covered_calls = Vec::new();
    let mut log_calls = 0;
    for (call_index, call) in rows.chunk_by(|one, other| one.call == other.call).enumerate() {
        log_calls = call_index + 1;
        let now = call[0].started;
        playback.play(now);
        let Some(answered) = call.iter().find(|row| row.won && row.failure.is_none()) else { continue };
        let Some(ttft) = answered.ttft else {
            tally.report.whole += 1;
            continue;
        };
        tally.report.calls += 1;
        let shape = CallShape { prompt_tokens: call[0].prompt_tokens, output_tokens: answered.output_tokens as f64 };
        let order = playback.router.order(now, &shape, &ids, &policy);
        let chosen: Vec<LaneId> = order.iter().take(wanted).map(|ranked| ranked.lane).collect();
        let Some(neighbours) = near(&measured, &chosen, now, call_index).filter(|lanes| lanes.len() == wanted) else {
            continue;
        };
        let lanes_used: Vec<LaneId> = call.iter().map(|row| row.lane).collect();
        let same_choice = matches!(alternative, Alternative::Single(_)) && lanes_used == chosen;
        let actual = MeasuredCall::of(call, answered, ttft);
        tally.add(&actual, &neighbours, strategy, &shape, same_choice);
        covered_calls.push(CoveredCall { call_index, now, shape, chosen, actual });
    }
    tally.finish(log_calls, strategy, &measured, &covered_calls)
}

fn near<'a>(
    measured: &LaneHistories<'a>,
    chosen: &[LaneId],
    now: Tick,
    call_index: usize,
) -> Option<Vec<Neighbours<'a>>> {
    chosen.iter().map(|lane| measured.near(*lane, now, call_index)).collect()
}

/// A covered call.
struct CoveredCall {
    call_index: usize,
    now: Tick,
    shape: CallShape,
    chosen: Vec<LaneId>,
    actual: MeasuredCall,
}

/// What was measured of a call.
#[derive(Clone, Copy)]
struct MeasuredCall {
    ttft: f64,
    completion: f64,
    usd: Option<f64>,
    attempts: f64,
}

impl MeasuredCall {
    fn of(call: &[LoggedAttempt], answered: &LoggedAttempt, ttft: Span) -> MeasuredCall {
        let waited = answered.started.since(call[0].started).as_secs_f64();
        MeasuredCall {
            ttft: waited + ttft.as_secs_f64(),
            completion: waited + answered.total.as_secs_f64(),
            usd: call.iter().map(|row| row.usd).sum(),
            attempts: call.len() as f64,
        }
    }
}

/// Feeds the log to a router in order of time.
struct LogPlayback<'a> {
    router: Router,
    /// Starts and ends by time: row, and whether it is the end.
    moments: Vec<(Tick, bool, &'a LoggedAttempt, usize)>,
    played: usize,
    open: Vec<Option<crate::lane::InFlightAttempt>>,
}

impl<'a> LogPlayback<'a> {
    fn new(router: Router, rows: &'a [LoggedAttempt]) -> LogPlayback<'a> {
        let known = rows.iter().enumerate().filter(|(_, row)| row.lane.index() < router.lanes());
        let mut moments: Vec<_> = known
            .flat_map(|(place, row)| [(row.started, false, row, place), (row.started + row.total, true, row, place)])
            .collect();
        moments.sort_by_key(|(at, ends, _, place)| (*at, *ends, *place));
        LogPlayback { router, moments, played: 0, open: rows.iter().map(|_| None).collect() }
    }

    /// Feeds everything before `now`.
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
                    billed: None,
                    output_tokens: row.output_tokens,
                    output_speed: row.output_speed,
                    delivery: match row.stream {
                        true => Delivery::Streamed,
                        // The expected length is not in the log; the actual one stands for it.
                        false => Delivery::Whole { expected_tokens: row.output_tokens as f64 },
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

    fn add(
        &mut self,
        actual: &MeasuredCall,
        neighbours: &[Neighbours<'_>],
        strategy: Strategy,
        shape: &CallShape,
        same_choice: bool,
    ) {
        let report = &mut self.report;
        report.covered += 1;
        report.same_choice += usize::from(same_choice);
        report.measured.ttft += actual.ttft;
        report.measured.completion += actual.completion;
        report.measured.attempts += actual.attempts;
        self.measured_usd = self.measured_usd.zip(actual.usd).map(|(sum, usd)| sum + usd);
        let usd = &mut self.estimated_usd;
        let attempts = estimate::outcomes(strategy, neighbours, shape, &mut |share, outcome| {
            report.estimated.ttft += share * outcome.ttft;
            report.estimated.completion += share * outcome.completion();
            *usd = usd.zip(outcome.usd).map(|(sum, usd)| sum + share * usd);
            self.ttfts.add(outcome.ttft, share);
            outcome.completion_times().for_each(|(part, seconds)| self.completions.add(seconds, share * part));
        });
        report.estimated.attempts += attempts;
    }

    fn finish(
        mut self,
        log_calls: usize,
        strategy: Strategy,
        measured: &LaneHistories<'_>,
        covered_calls: &[CoveredCall],
    ) -> Report {
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
        self.add_errors(log_calls, strategy, measured, covered_calls);
        self.report
    }

    /// Standard errors and percentiles, from the influence of each call (infinitesimal jackknife).
    fn add_errors(
        &mut self,
        log_calls: usize,
        strategy: Strategy,
        measured: &LaneHistories<'_>,
        covered_calls: &[CoveredCall],
    ) {
        let cut_points = [&self.ttfts, &self.completions].map(|mixture| LEVELS.map(|level| mixture.quantile(level)));
        let value = |outcome: &PossibleOutcome| statistics(outcome, &cut_points);
        let n = covered_calls.len() as f64;
        let mut influences = vec![[0.0; STATISTICS]; log_calls];
        let mut used = vec![false; log_calls];
        let mut sums = [0.0; STATISTICS];
        for call in covered_calls {
            let Some(lanes) = near(measured, &call.chosen, call.now, call.call_index) else { continue };
            let projected = estimate::projections(strategy, &lanes, &call.shape, &value);
            let mean = mean_of(&projected[0]);
            for (lane, projected) in lanes.iter().zip(&projected) {
                let m = projected.len() as f64;
                // Bessel's correction: few samples lie nearer to their own mean than to the true one.
                let scale = (m / (m - 1.0).max(1.0)).sqrt() / m / n;
                let centre = mean_of(projected);
                for (neighbour, projected) in lane.attempts().iter().zip(projected) {
                    used[neighbour.call_index] = true;
                    let influence = &mut influences[neighbour.call_index];
                    (0..STATISTICS).for_each(|which| influence[which] += (projected[which] - centre[which]) * scale);
                }
            }
            let actual = [call.actual.completion, call.actual.ttft, call.actual.usd.unwrap_or(0.0)];
            for which in 0..STATISTICS {
                let own = mean[which] - actual.get(which).unwrap_or(&0.0);
                sums[which] += own / n;
                influences[call.call_index][which] += own / n;
            }
        }
        for call in covered_calls {
            let influence = &mut influences[call.call_index];
            (0..STATISTICS).for_each(|which| influence[which] -= sums[which] / n);
        }
        let error = |which: usize| root_sum_of_squares(influences.iter().map(|influence| influence[which]));
        let report = &mut self.report;
        (report.completion_error, report.ttft_error) = (error(0), error(1));
        report.usd_error = report.measured.usd.and(report.estimated.usd).map(|_| error(2));
        report.attempts = used.into_iter().filter(|used| *used).count();
        let (mut ttfts, mut completions) = (vec![None; log_calls], vec![None; log_calls]);
        for call in covered_calls {
            ttfts[call.call_index] = Some(call.actual.ttft);
            completions[call.call_index] = Some(call.actual.completion);
        }
        for (place, level) in LEVELS.into_iter().enumerate() {
            let of = |figure: usize| influences.iter().map(|influence| influence[figure]).collect::<Vec<f64>>();
            report.ttft[place] = percentile(level, &self.ttfts, &of(3 + place), &ttfts);
            report.completion[place] = percentile(level, &self.completions, &of(6 + place), &completions);
        }
    }
}

/// Completion time, time to first token, cost, and for each percentile of both times whether the time is at most that.
const STATISTICS: usize = 3 + 2 * LEVELS.len();

fn statistics(outcome: &PossibleOutcome, cut_points: &[[f64; 3]; 2]) -> [f64; STATISTICS] {
    let [ttfts, completions] = cut_points;
    let [t50, t90, t99] = ttfts.map(|cut| f64::from(outcome.ttft <= cut));
    let [c50, c90, c99] = completions.map(|cut| outcome.probability_by(cut));
    [outcome.completion(), outcome.ttft, outcome.usd.unwrap_or(0.0), t50, t90, t99, c50, c90, c99]
}

fn mean_of(projected: &[[f64; STATISTICS]]) -> [f64; STATISTICS] {
    let sum = |which: usize| projected.iter().map(|values| values[which]).sum::<f64>();
    std::array::from_fn(|which| sum(which) / projected.len() as f64)
}

#[cfg(test)]
mod tests;
