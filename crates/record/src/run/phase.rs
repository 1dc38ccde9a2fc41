//! From the requests of a phase to its result. What only the driver knows (late and forfeited arrivals, timer lag) is
//! passed in.
//!
//! Invariant: the result does not depend on the order of the requests.

use super::counts::{connections_of, failures_of, is_failed, names_of, rate_limited_of};
use super::steady::in_flight;
use super::summary::{tpot_distribution, unrepresentative_speeds};
use super::validity::with_validity;
use super::{
    AdapterSummary, AgentSummary, AudioSummary, BatchSummary, ComfortBands, Connections, Counts, FailureCount,
    InputTokens, ItemSummary, LengthSummary, Load, MediaSummary, NameCount, ObservedConcurrency, RateLimited,
    ServerTimingSummary, SessionSummary, SpeedSummary, Steady, StructureSummary, Throughput, TokenSummary,
    UnreadableEvents, Warmup,
};
use crate::gate::{self, GateViolation};
use crate::goodput::Goodput;
use crate::integrity::{self, Suspicion};
use crate::limit::LevelLimit;
use crate::record::ConditionsRow;
use crate::timeline::Sampled;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tokrate_core::{Conditions, Sketch, Span, Tick};
use tokrate_meter::ClientError;
use tokrate_meter::Comfort;
use tokrate_meter::Pool;
use tokrate_meter::request::RequestNumbers;
use tokrate_meter::server_metrics::ServerReport;
use tokrate_stats::{Distribution, SketchParts, Unit};

/// What is known of a phase besides its requests.
#[derive(Clone, PartialEq, Debug)]
pub struct PhaseInput<'a> {
    /// Name of the phase, such as `concurrency 8`.
    pub name: String,
    /// Under which conditions it ran.
    pub conditions: &'a Conditions,
    /// What decided when requests were sent.
    pub load: Load,
    /// What is left out at the beginning.
    pub warmup: Warmup,
    /// When the phase began; the first arrival is due then or later.
    pub started_at: Tick,
    /// When its last request had ended.
    pub ended_at: Tick,
    /// Whether it was ended before its plan was.
    pub interrupted: bool,
    /// What the client adds, as far as it is known.
    pub client_error: Option<ClientError>,
    /// How late a periodic timer of the client fired during the phase (ns).
    pub timer_lag: &'a Sketch,
    /// CPU time of the client's threads during the phase.
    pub client_cpu: Span,
    /// Arrivals that the client sent late.
    pub late: u64,
    /// Arrivals that were never sent because too many requests were in flight.
    pub forfeited: u64,
    /// Arrivals that were never sent because the provider had asked to wait.
    pub withheld: u64,
    /// How long refusals for the rate held the load back: of a closed loop the mean over its slots, of an open one the time
    /// in which no arrival was sent. `None` if such refusals were ignored.
    pub held_back: Option<Span>,
}

/// How late a periodic timer of the client fired during the phase.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimerLag {
    /// Ticks of the timer.
    pub n: u64,
    /// Median (ns).
    pub p50_ns: Option<u64>,
    /// 99th percentile (ns).
    pub p99_ns: Option<u64>,
    /// The latest (ns).
    pub max_ns: Option<u64>,
    /// All of them, in nanoseconds.
    pub sketch: SketchParts,
}

/// The result of one phase.
///
/// Distributions hold answered requests outside the warm-up. In those named `adj_`, failed requests and forfeited arrivals
/// outside the warm-up stand as +infinity; rate-limited and cancelled requests are in none.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PhaseResult {
    /// More than 1 % of the requests failed; shown before anything else.
    pub failures_above_limit: bool,
    /// Name of the phase.
    pub name: String,
    /// Under which conditions it ran.
    pub conditions: ConditionsRow,
    /// What decided when requests were sent.
    pub load: Load,
    /// When it began, on the monotonic clock.
    pub started_at_ns: u64,
    /// When its last request had ended.
    pub ended_at_ns: u64,
    /// Whether it was ended before its plan was.
    pub interrupted: bool,
    /// What is left out at the beginning, in words.
    pub warmup_rule: String,
    /// What became of the requests.
    pub counts: Counts,
    /// Failures by kind.
    pub failures: Vec<FailureCount>,
    /// Rate-limited requests.
    pub rate_limited: RateLimited,
    /// Multi-turn sessions, if the load had them.
    pub sessions: Option<SessionSummary>,
    /// By the model that was asked for, where requests ask for several.
    #[serde(default)]
    pub adapters: Vec<AdapterSummary>,
    /// Sessions of agents, if the load had them.
    #[serde(default)]
    pub agents: Option<AgentSummary>,
    /// From the beginning of a session of agents to the end of its last step; of sessions whose every step was answered.
    #[serde(default = "no_times")]
    pub session_time: Distribution,
    /// Vectors or scores of texts, if that is what was asked for.
    #[serde(default)]
    pub items: Option<ItemSummary>,
    /// E2E of each request, shared among its items.
    #[serde(default = "no_times")]
    pub time_per_item: Distribution,
    /// Pictures and sound of the requests, if they had any.
    #[serde(default)]
    pub media: Option<MediaSummary>,
    /// Sent to the first image of an answer, one that is not yet done included.
    #[serde(default = "no_times")]
    pub time_to_first_image: Distribution,
    /// Sound, said or heard.
    #[serde(default)]
    pub audio: AudioSummary,
    /// Answers that were to be calls of tools or JSON, if that is what was asked for.
    #[serde(default)]
    pub structure: Option<StructureSummary>,
    /// Sent to the first byte of the arguments of a tool call.
    #[serde(default = "no_times")]
    pub time_to_first_argument: Distribution,
    /// Sent to the last text of an answer that is valid by its schema.
    #[serde(default = "no_times")]
    pub time_to_valid: Distribution,
    /// The steady window.
    pub steady: Option<Steady>,
    /// Why there is no steady window, and no throughput.
    pub steady_missing: Option<String>,
    /// What went through the steady window.
    pub throughput: Option<Throughput>,
    /// Requests in flight as they were.
    pub concurrency: ObservedConcurrency,
    /// Sent to first response body byte.
    pub ttfb: Distribution,
    /// Sent to first output text, reasoning included.
    pub ttft: Distribution,
    /// Sent to first answer text, reasoning excluded.
    pub ttfat: Distribution,
    /// Time between chunks, pooled over requests.
    pub chunk_gap: Distribution,
    /// Chunk gaps shared among the tokens of the later chunk, pooled over requests.
    pub itl: Distribution,
    /// Longest chunk gap of each request.
    pub largest_gap: Distribution,
    /// 1 / output speed of each request.
    pub tpot: Distribution,
    /// Sent to finish.
    pub e2e: Distribution,
    /// Due to finish.
    pub e2e_from_due: Distribution,
    /// `ttft` with failures at +infinity.
    pub adj_ttft: Distribution,
    /// `ttfat` with failures at +infinity.
    pub adj_ttfat: Distribution,
    /// `tpot` with failures at +infinity.
    pub adj_tpot: Distribution,
    /// `e2e` with failures at +infinity.
    pub adj_e2e: Distribution,
    /// `e2e_from_due` with failures at +infinity.
    pub adj_e2e_from_due: Distribution,
    /// Speed of single requests after their first chunk.
    pub output_speed: SpeedSummary,
    /// Tokens of single requests over their whole time.
    pub e2e_speed: SpeedSummary,
    /// Requests by the band of their output speed.
    pub comfort: ComfortBands,
    /// Output tokens by provenance.
    pub tokens: TokenSummary,
    /// Input tokens asked for and reported.
    pub input_tokens: InputTokens,
    /// How long prompts and answers were; absent where the plan asks the same of every request.
    #[serde(default)]
    pub lengths: Option<LengthSummary>,
    /// Connections used.
    pub connections: Connections,
    /// Models that the answers named.
    pub models: Vec<NameCount>,
    /// Why the model stopped.
    pub finish_reasons: Vec<NameCount>,
    /// Deviations from the dialect, by name, over all requests.
    #[serde(rename = "oddities")]
    pub anomalies: BTreeMap<String, u64>,
    /// Events that could not be read, so that what they held is lost; absent where all could.
    #[serde(default)]
    pub unreadable: Option<UnreadableEvents>,
    /// How late a periodic timer of the client fired.
    pub timer_lag: TimerLag,
    /// CPU time of the client's threads during the phase, token counting not included (s).
    pub client_cpu_seconds: f64,
    /// Text events of all requests, as they were sent; several in one read are one chunk.
    pub text_events: u64,
    /// What the client adds to the numbers.
    pub client_error: Option<ClientError>,
    /// Requests that met every objective, if there were objectives.
    #[serde(default)]
    pub goodput: Option<Goodput>,
    /// The server's own metrics, if it publishes them.
    pub server: Option<ServerReport>,
    /// What was read of engine and graphics processors meanwhile, if anything was.
    #[serde(default)]
    pub sampled: Option<Sampled>,
    /// What limits at this level, if the evidence is there.
    #[serde(default)]
    pub limit: Option<LevelLimit>,
    /// Times reported by the server, next to the client's; absent if no answer carried any.
    #[serde(default)]
    pub server_timings: Option<ServerTimingSummary>,
    /// Integrity findings; empty when there are none.
    #[serde(default)]
    pub suspicions: Vec<Suspicion>,
    /// Where the numbers contradict each other; empty when all is well.
    pub gate: Vec<GateViolation>,
}

/// Sorts the requests by `due_at` (then `index`) and marks those that belong to the warm-up; says when it is over: when the
/// first request outside it was due, or the time of the rule has passed.
pub fn mark_warmup(rule: Warmup, started_at: Tick, requests: &mut [RequestNumbers]) -> Tick {
    requests.sort_by_key(|request| (request.due_at_ns, request.index));
    let over_at = match rule {
        Warmup::None | Warmup::Requests(_) => None,
        Warmup::Time(span) => Some(started_at + span),
    };
    let count = match (rule, over_at) {
        (Warmup::Requests(count), _) => usize::try_from(count).unwrap_or(usize::MAX),
        (_, Some(over_at)) => requests.partition_point(|request| request.due_at_ns < over_at.as_nanos()),
        (_, None) => 0,
    };
    for (place, request) in requests.iter_mut().enumerate() {
        request.warmup = place < count;
    }
    let first = requests.get(count).map_or(Tick::MAX, |request| Tick::from_nanos(request.due_at_ns));
    over_at.unwrap_or(first)
}

/// Sessions of agents, if the load is of them, with the times from the beginning of each to its end.
fn agents_of(input: &PhaseInput<'_>, requests: &[RequestNumbers]) -> (Option<AgentSummary>, Distribution) {
    let (agents, times) = AgentSummary::of(&input.load, requests).unzip();
    (agents, Distribution::of_nanos(&mut times.unwrap_or_default()))
}

impl PhaseResult {
    /// Sums up a phase; sorts its requests and marks the warm-up on the way ([`mark_warmup`]), and clears the streaming
    /// figures of answers that were not streamed. Checks the result for consistency.
    pub fn of(input: &PhaseInput<'_>, requests: &mut [RequestNumbers]) -> PhaseResult {
        let warmup_end = mark_warmup(input.warmup, input.started_at, requests);
        let streamed = clear_unless_streamed(input, requests);
        let mut result = PhaseResult::unchecked(input, requests, warmup_end, streamed);
        result.gate = gate::check(&result, requests);
        result
    }

    /// The sums, not yet checked for consistency.
    fn unchecked(input: &PhaseInput<'_>, requests: &[RequestNumbers], warmup_end: Tick, streamed: bool) -> PhaseResult {
        let (measured, (steady, missing, throughput)) = (measured_of(requests), steady_of(input, warmup_end, requests));
        let (counts, times) = (counts_of(input, requests), Times::of(&measured, unanswered(input, requests, streamed)));
        let ((ttft, itl, tpot, e2e), (agents, session_time)) = (times.judged(), agents_of(input, requests));
        PhaseResult {
            client_error: with_validity(input, &measured, [&ttft, &itl, &tpot, &e2e], throughput.as_ref()),
            failures_above_limit: counts.failed_share().is_some_and(|share| share > Counts::FAILURE_LIMIT),
            name: input.name.clone(),
            conditions: ConditionsRow::from(input.conditions),
            load: input.load,
            started_at_ns: input.started_at.as_nanos(),
            ended_at_ns: input.ended_at.as_nanos(),
            interrupted: input.interrupted,
            warmup_rule: input.warmup.rule(),
            failures: failures_of(requests, &counts),
            rate_limited: limited_of(input, requests, &counts),
            sessions: SessionSummary::of(&input.load, requests),
            items: ItemSummary::of(steady.as_ref(), requests, &measured),
            time_per_item: times.plain(time_per_item_ns),
            time_to_first_image: times.plain(|request| request.first_image_ns),
            media: MediaSummary::of(steady.as_ref(), requests, &measured),
            audio: AudioSummary::of(steady.as_ref(), requests, &measured),
            structure: StructureSummary::of(&measured),
            time_to_first_argument: times.plain(|request| request.first_argument_ns),
            time_to_valid: times.plain(|request| request.valid_ns),
            adapters: AdapterSummary::of(requests),
            agents,
            session_time,
            counts,
            throughput,
            steady,
            steady_missing: missing,
            concurrency: concurrency_of(input, requests),
            ttfb: times.plain(|request| request.ttfb_ns),
            ttfat: times.plain(|request| request.ttfat_ns),
            chunk_gap: Pool::ChunkGap.distribution(&measured),
            ttft,
            itl,
            largest_gap: times.plain(|request| request.largest_gap_ns),
            e2e,
            e2e_from_due: times.plain(|request| request.e2e_from_due_ns),
            adj_ttft: times.adjusted(times.unanswered.1, |request| request.ttft_ns),
            adj_ttfat: times.adjusted(times.unanswered.1, |request| request.ttfat_ns),
            adj_tpot: times.tpot(times.unanswered.1),
            adj_e2e: times.adjusted(times.unanswered.0, |request| request.e2e_ns),
            adj_e2e_from_due: times.adjusted(times.unanswered.0, |request| request.e2e_from_due_ns),
            comfort: times.comfort(),
            output_speed: times.output_speed(&tpot),
            tpot,
            e2e_speed: e2e_speed(&times.e2e_per_token(), &measured),
            tokens: TokenSummary::of(requests, &measured),
            input_tokens: InputTokens::of(&measured),
            lengths: LengthSummary::of(&measured),
            connections: connections_of(requests, &measured),
            models: names_of(measured.iter().map(|request| request.model.as_deref())),
            finish_reasons: names_of(measured.iter().map(|request| request.finish.map(|reason| reason.name()))),
            anomalies: anomalies_of(requests),
            unreadable: UnreadableEvents::of(&measured),
            timer_lag: TimerLag::from(input.timer_lag),
            client_cpu_seconds: input.client_cpu.as_secs_f64(),
            text_events: requests.iter().map(|request| request.text_events).sum(),
            goodput: None,
            server: None,
            sampled: None,
            limit: None,
            server_timings: ServerTimingSummary::of(&measured),
            suspicions: integrity::examine(&ConditionsRow::from(input.conditions), &measured),
            gate: Vec::new(),
        }
    }

    /// Its batches, if requests were sent as such.
    pub fn batches(&self) -> Option<&BatchSummary> {
        self.items.as_ref()?.batches.as_ref()
    }

    /// Whether text was asked for: vectors, scores and speech are none.
    pub fn is_text(&self) -> bool {
        self.items.is_none() && self.conditions.task != "speech"
    }

    /// Whether the client's own error was measured at this load.
    pub fn is_client_error_known(&self) -> bool {
        self.client_error.as_ref().is_some_and(|error| error.moved.is_some())
    }

    /// Whether the numbers may be called a measurement: consistent among themselves, and not set by the client.
    pub fn is_valid(&self) -> bool {
        self.gate.is_empty() && !self.client_error.as_ref().is_some_and(|error| error.client_limited)
    }
}

/// E2E of a request shared among its items (ns).
pub(crate) fn time_per_item_ns(request: &RequestNumbers) -> Option<u64> {
    let items = request.items.filter(|items| *items > 0)?;
    Some(request.e2e_ns? / items)
}

/// Of records that have no such times.
fn no_times() -> Distribution {
    Distribution::of_nanos(&mut [])
}

impl From<&Sketch> for TimerLag {
    fn from(sketch: &Sketch) -> TimerLag {
        TimerLag {
            n: sketch.count(),
            p50_ns: sketch.quantile(0.5),
            p99_ns: sketch.quantile(0.99),
            max_ns: sketch.max(),
            sketch: SketchParts(sketch.clone()),
        }
    }
}

/// Answered requests outside the warm-up.
fn measured_of(requests: &[RequestNumbers]) -> Vec<&RequestNumbers> {
    requests.iter().filter(|request| request.is_answered() && !request.warmup).collect()
}

/// Failed requests outside the warm-up and arrivals that were never sent; and the same of text, which only a stream has times of.
fn unanswered(input: &PhaseInput<'_>, requests: &[RequestNumbers], streamed: bool) -> (u64, u64) {
    let failed = requests.iter().filter(|request| is_failed(request.failure_kind()) && !request.warmup);
    let unanswered = failed.count() as u64 + input.forfeited;
    (unanswered, if streamed { unanswered } else { 0 })
}

/// The measured requests.
struct Times<'a> {
    measured: &'a [&'a RequestNumbers],
    /// Why the speeds are not representative, if they are not.
    unrepresentative: Option<String>,
    /// How many were not answered, and the same of text.
    unanswered: (u64, u64),
}

impl<'a> Times<'a> {
    fn of(measured: &'a [&'a RequestNumbers], unanswered: (u64, u64)) -> Times<'a> {
        Times { measured, unrepresentative: unrepresentative_speeds(measured), unanswered }
    }

    /// What the client's own error is held against: TTFT, ITL, TPOT and E2E.
    fn judged(&self) -> (Distribution, Distribution, Distribution, Distribution) {
        let (ttft, e2e) = (self.plain(|request| request.ttft_ns), self.plain(|request| request.e2e_ns));
        (ttft, Pool::Itl.distribution(self.measured), self.tpot(0), e2e)
    }

    fn plain(&self, of: impl Fn(&RequestNumbers) -> Option<u64>) -> Distribution {
        Distribution::of_nanos(&mut self.samples(of))
    }

    fn adjusted(&self, infinite: u64, of: impl Fn(&RequestNumbers) -> Option<u64>) -> Distribution {
        Distribution::of_nanos_adjusted(&mut self.samples(of), infinite)
    }

    fn tpot(&self, infinite: u64) -> Distribution {
        tpot_distribution(self.measured, infinite)
    }

    fn output_speed(&self, tpot: &Distribution) -> SpeedSummary {
        let speeds = self.measured.iter().filter_map(|request| request.output_speed);
        let missing = self.measured.iter().filter_map(|request| request.output_speed_missing.clone());
        SpeedSummary::of(tpot, speeds, missing, self.unrepresentative.clone())
    }

    /// Comfort bands, if the speeds are representative: those of answers too quick to be timed are known where even their bound is in
    /// the last band.
    fn comfort(&self) -> ComfortBands {
        let least = |request: &RequestNumbers| request.tpot_bounds_ms().map(|(_, at_most)| 1e3 / at_most);
        let is_fast = |speed: &f64| Comfort::of(*speed) == Comfort::FasterThanReading;
        let quick = || self.measured.iter().filter_map(|request| least(request));
        if self.unrepresentative.is_some() && !quick().all(|speed| is_fast(&speed)) {
            return ComfortBands::default();
        }
        let timed = self.measured.iter().filter_map(|request| request.output_speed);
        ComfortBands::of(timed.chain(quick().filter(is_fast)))
    }

    fn e2e_per_token(&self) -> Distribution {
        let speeds = self.measured.iter().filter_map(|request| request.e2e_speed);
        let mut samples: Vec<f64> = speeds.filter(|&speed| speed > 0.0).map(|speed| 1e3 / speed).collect();
        Distribution::of_values(&mut samples, Unit::Milliseconds)
    }

    fn samples(&self, of: impl Fn(&RequestNumbers) -> Option<u64>) -> Vec<u64> {
        self.measured.iter().filter_map(|request| of(request)).collect()
    }
}

/// Clears streaming figures of answers that were not streamed; returns whether they were streamed.
fn clear_unless_streamed(input: &PhaseInput<'_>, requests: &mut [RequestNumbers]) -> bool {
    let streamed = input.conditions.streaming;
    if !streamed {
        requests.iter_mut().for_each(RequestNumbers::clear_streaming_figures);
    }
    streamed
}

/// The steady window and what went through it, or why there is none.
fn steady_of(
    input: &PhaseInput,
    warmup_end: Tick,
    requests: &[RequestNumbers],
) -> (Option<Steady>, Option<String>, Option<Throughput>) {
    match Steady::find(&input.load, warmup_end, requests) {
        Ok(steady) => {
            let throughput = Throughput::of(&steady, requests);
            (Some(steady), None, Some(throughput))
        }
        Err(reason) => (None, Some(reason), None),
    }
}

fn e2e_speed(per_token: &Distribution, measured: &[&RequestNumbers]) -> SpeedSummary {
    let speeds = measured.iter().filter_map(|request| request.e2e_speed);
    let without = measured.iter().filter(|request| request.e2e_speed.is_none());
    SpeedSummary::of(per_token, speeds, without.map(|_| "no time passed between sending and finish".to_owned()), None)
}

fn concurrency_of(input: &PhaseInput, requests: &[RequestNumbers]) -> ObservedConcurrency {
    let in_flight = in_flight(requests);
    ObservedConcurrency { mean: in_flight.mean(), peak: in_flight.peak(), cap: input.load.cap() }
}

fn counts_of(input: &PhaseInput, requests: &[RequestNumbers]) -> Counts {
    let (late, forfeited, withheld) = (input.late, input.forfeited, input.withheld);
    Counts { late, forfeited, withheld, ..Counts::of(requests) }
}

fn limited_of(input: &PhaseInput, requests: &[RequestNumbers], counts: &Counts) -> RateLimited {
    let whole = input.ended_at - input.started_at;
    let share = |part: Span| (!whole.is_zero()).then(|| part.as_secs_f64() / whole.as_secs_f64());
    RateLimited {
        held_back_seconds: input.held_back.map(Span::as_secs_f64),
        held_back_share: input.held_back.and_then(share),
        ..rate_limited_of(requests, counts)
    }
}

fn anomalies_of(requests: &[RequestNumbers]) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (name, &count) in requests.iter().flat_map(|request| &request.anomalies) {
        *sums.entry(name.clone()).or_insert(0) += u64::from(count);
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{closed, phase};
    use tokrate_meter::fixtures::{at, steady_request};

    #[test]
    fn the_time_that_refusals_held_the_load_back_is_a_share_of_the_phase() {
        let requests = [steady_request(0, 6_000, 100, 10, 40)];
        let held = |input: PhaseInput<'_>| {
            let limited = phase(&input, &requests).rate_limited;
            (limited.held_back_seconds, limited.held_back_share)
        };
        let input = || PhaseInput {
            started_at: at(5_000),
            ended_at: at(15_000),
            held_back: Some(Span::from_secs(2)),
            ..closed(1)
        };
        assert_eq!(held(input()), (Some(2.0), Some(0.2)));
        assert_eq!(held(PhaseInput { held_back: Some(Span::ZERO), ..input() }), (Some(0.0), Some(0.0)));
        assert_eq!(held(PhaseInput { held_back: None, ..input() }), (None, None), "refusals were ignored");
        assert_eq!(held(PhaseInput { ended_at: at(5_000), ..input() }), (Some(2.0), None), "no share of no time");
    }

    #[test]
    fn withheld_arrivals_are_counted_and_in_no_distribution() {
        let requests: Vec<RequestNumbers> = (0..6).map(|index| steady_request(index, 0, 100, 10, 40)).collect();
        let result = phase(&PhaseInput { withheld: 7, forfeited: 3, ..closed(6) }, &requests);
        assert_eq!((result.counts.withheld, result.counts.forfeited, result.counts.started), (7, 3, 6));
        assert_eq!((result.adj_ttft.n, result.adj_ttft.infinite), (9, 3));
    }

    #[test]
    fn a_request_that_is_due_when_the_warm_up_ends_does_not_belong_to_it() {
        let mut requests: Vec<RequestNumbers> =
            [599, 600, 601].map(|due| steady_request(due, 1_000 + due, 100, 10, 40)).to_vec();
        let over_at = mark_warmup(Warmup::Time(Span::from_millis(600)), at(1_000), &mut requests);
        let marks: Vec<(u64, bool)> = requests.iter().map(|request| (request.index, request.warmup)).collect();
        assert_eq!(marks, [(599, true), (600, false), (601, false)]);
        assert_eq!(over_at, at(1_600), "the time of the rule counts from the start of the phase");
    }

    #[test]
    fn the_timer_lag_of_a_phase_replaces_that_of_the_calibration_if_there_is_one() {
        let calibrated =
            ClientError { timer_lag_p50_ns: Some(40_000), timer_lag_p99_ns: Some(90_000), ..ClientError::default() };
        let requests = [steady_request(0, 0, 100, 10, 40)];
        let lag_of = |lag: &Sketch| {
            let input = PhaseInput { client_error: Some(calibrated.clone()), timer_lag: lag, ..closed(1) };
            let error = phase(&input, &requests).client_error.expect("it was given");
            (error.timer_lag_p50_ns, error.timer_lag_p99_ns)
        };
        assert_eq!(lag_of(&Sketch::new()), (Some(40_000), Some(90_000)));
        // A sketch is exact of values this small: it errs by less than half a nanosecond.
        let mut lag = Sketch::new();
        lag.record_many(50, 90);
        lag.record_many(80, 10);
        assert_eq!(lag_of(&lag), (Some(50), Some(80)));
    }
}
