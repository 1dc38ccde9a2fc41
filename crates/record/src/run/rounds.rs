//! Pools the phases at one load: its rounds count as one.
//!
//! Invariant: requests are pooled, never figures. A round without measured requests is skipped; if a round measured
//! requests but lacks a figure, the pool lacks it too.

use super::summary::as_speed;
use super::{Counts, FailureCount, Load, PhaseResult};
use crate::goodput::Goodput;
use crate::metric::{Metric, PhaseSource};
use tokrate_stats::{Distribution, Level, Quantile};

/// Largest share of undecided requests: above it, the decided ones may be the slow ones only. As for output speeds.
const MAX_UNDECIDED_SHARE: f64 = 0.02;

/// Seconds from which the throughput of an open loop is stated: the parts of a window from which it has an interval.
const MIN_PARTS: u64 = 10;

/// The phases of a run at one load.
#[derive(Clone, Debug)]
pub struct Rounds<'a> {
    /// The load.
    pub load: Load,
    /// Its phases, in the order in which they ran; at least one.
    pub phases: Vec<&'a PhaseResult>,
}

/// The phases by load, from the lowest to the highest, in whatever order they ran.
pub fn by_load(phases: &[PhaseResult]) -> Vec<Rounds<'_>> {
    let mut loads: Vec<Rounds<'_>> = Vec::new();
    for phase in phases {
        match loads.iter_mut().find(|rounds| rounds.load == phase.load) {
            Some(rounds) => rounds.phases.push(phase),
            None => loads.push(Rounds { load: phase.load, phases: vec![phase] }),
        }
    }
    loads.sort_by(|a, b| a.load.amount().total_cmp(&b.load.amount()));
    loads
}

/// The same without the rounds that were cut off, by an interrupt, a limit of cost or an abort: of those the short answers are there and the long
/// ones are not. A load without another round is left out.
pub fn whole_rounds(phases: &[PhaseResult]) -> Vec<Rounds<'_>> {
    let mut loads = by_load(phases);
    loads.iter_mut().for_each(|rounds| rounds.phases.retain(|phase| !phase.interrupted));
    loads.retain(|rounds| !rounds.phases.is_empty());
    loads
}

/// The phases from the lowest load to the highest, rounds of one load in the order in which they ran.
pub fn by_rising_load(phases: &[PhaseResult]) -> Vec<&PhaseResult> {
    let mut rising: Vec<&PhaseResult> = phases.iter().collect();
    rising.sort_by(|a, b| a.load.amount().total_cmp(&b.load.amount()));
    rising
}

/// Throughputs nearer than this to the highest are no less: more load brings its waiting only. Figures may be off by as much
/// (docs/method.md).
const SAME_THROUGHPUT: f64 = 0.02;

/// The least load with the most throughput, of those whose throughput is stated; `None` if none is.
pub fn most_throughput<'l, 'p>(loads: impl IntoIterator<Item = &'l Rounds<'p>>) -> Option<&'l Rounds<'p>>
where
    'p: 'l,
{
    let stated = loads.into_iter().filter(|load| load.is_throughput_stated());
    let stated: Vec<(&Rounds<'p>, f64)> = stated.filter_map(|load| Some((load, load.throughput()?))).collect();
    let highest = stated.iter().map(|(_, throughput)| *throughput).fold(0.0, f64::max);
    let same = stated.into_iter().filter(|(_, throughput)| *throughput >= highest * (1.0 - SAME_THROUGHPUT));
    same.filter(|(_, throughput)| *throughput > 0.0)
        .min_by(|a, b| a.0.load.amount().total_cmp(&b.0.load.amount()))
        .map(|(load, _)| load)
}

impl Rounds<'_> {
    /// A count, added up.
    pub fn count(&self, of: impl Fn(&PhaseResult) -> u64) -> u64 {
        self.phases.iter().map(|phase| of(phase)).sum()
    }

    /// Whether every request opened a connection of its own, by the conditions.
    pub fn opens_connections(&self) -> bool {
        self.phases.iter().all(|phase| phase.conditions.connection.starts_with("new"))
    }

    /// What became of the requests of all rounds.
    pub fn counts(&self) -> Counts {
        self.phases.iter().map(|phase| phase.counts).sum()
    }

    /// Failures of all rounds by kind, in the order of the kinds.
    pub fn failures(&self) -> Vec<FailureCount> {
        let counts = self.counts();
        let mut failures: Vec<FailureCount> = Vec::new();
        for failure in self.phases.iter().flat_map(|phase| &phase.failures) {
            match failures.iter_mut().find(|known| known.kind == failure.kind) {
                Some(known) => {
                    known.count += failure.count;
                    known.message = known.message.take().or_else(|| failure.message.clone());
                }
                None => failures.push(failure.clone()),
            }
        }
        failures.iter_mut().for_each(|failure| failure.share = counts.share(failure.count).unwrap_or(0.0));
        failures.sort_by_key(|failure| failure.kind);
        failures
    }

    /// The samples of all rounds together in which failed requests stand at +infinity, those of a round without an answer too.
    pub fn with_failures(&self, of: impl Fn(&PhaseResult) -> &Distribution) -> Option<Distribution> {
        let parts: Vec<&Distribution> =
            self.phases.iter().map(|phase| of(phase)).filter(|part| !part.is_empty()).collect();
        Distribution::pooled(&parts)
    }

    /// The rounds in which something was measured.
    fn measured(&self) -> impl Iterator<Item = &PhaseResult> {
        self.phases.iter().copied().filter(|phase| phase.counts.measured > 0)
    }

    /// Its name: that of its only phase, or of the first without its number.
    pub fn name(&self) -> &str {
        let name = self.phases.first().map_or("", |phase| &phase.name);
        name.rsplit_once(", round ").map_or(name, |(load, _)| load)
    }

    /// The samples of all rounds together; from several rounds within 0.55 %, the resolution of a record's sketches.
    /// `None` if no round has any, or one lacks those of the requests that it measured.
    pub fn distribution(&self, of: impl Fn(&PhaseResult) -> &Distribution) -> Option<Distribution> {
        let parts: Vec<&Distribution> = self.measured().map(of).collect();
        Distribution::pooled(&parts).filter(|_| parts.iter().all(|part| !part.is_empty()))
    }

    /// The times of a metric, of all rounds together.
    pub fn times(&self, metric: Metric) -> Option<Distribution> {
        match metric.row().of_phase {
            PhaseSource::Times(of, _) => self.distribution(of),
            PhaseSource::Speeds(_)
            | PhaseSource::Throughput
            | PhaseSource::ItemThroughput
            | PhaseSource::Rate(_)
            | PhaseSource::FailureShare => None,
        }
    }

    /// The median output speed of all rounds together.
    pub fn output_speed(&self) -> Option<Quantile> {
        Some(as_speed(&self.times(Metric::Tpot)?.p50))
    }

    /// Requests that the output speed is of: those that have one, and those too quick to be timed, of which a bound is known.
    pub fn with_speed(&self) -> u64 {
        self.count(|phase| phase.output_speed.n + phase.output_speed.bounded)
    }

    /// Those of them of which only a bound is known.
    pub fn with_speed_bound(&self) -> u64 {
        self.count(|phase| phase.output_speed.bounded)
    }

    /// Why the rounds together lack a metric; `None` if they have it.
    pub fn missing_reason(&self, metric: Metric) -> Option<String> {
        let reasons: Vec<Option<String>> = self.phases.iter().map(|phase| phase.missing_reason(metric)).collect();
        let first = reasons.iter().flatten().next().cloned();
        if metric == Metric::OutputSpeed && reasons.len() > 1 {
            // Of the pooled requests, whatever one of the rounds would state.
            let is_there = |speed: Quantile| speed.value.or(speed.descriptive).is_some();
            let known = self.output_speed().is_some_and(is_there);
            return (!known).then(|| first.unwrap_or_else(|| self.unspoken_speed()));
        }
        first.filter(|_| reasons.iter().all(Option::is_some))
    }

    /// Why the rounds together state no speed although each of them does.
    fn unspoken_speed(&self) -> String {
        let (bounded, n) = (self.with_speed_bound(), self.with_speed());
        format!("{bounded} of {n} answers could not be timed; the others would give the speed of the slow ones")
    }

    /// Tokens per second of all requests together, over the steady windows one after the other.
    /// `None` if no request was answered: tokens of truncated answers alone are no usable throughput.
    pub fn throughput(&self) -> Option<f64> {
        if !self.is_text() {
            return None;
        }
        let answered = || self.phases.iter().filter(|phase| phase.counts.answered > 0);
        let windows = || answered().filter_map(|phase| phase.throughput.as_ref());
        let seconds: f64 = windows().map(|window| window.window_seconds).sum();
        let tokens: f64 = windows().map(|window| window.tokens_per_second * window.window_seconds).sum();
        (seconds > 0.0).then(|| tokens / seconds)
    }

    /// Whether texts were sent for vectors or scores.
    pub fn has_items(&self) -> bool {
        self.phases.iter().any(|phase| phase.items.is_some())
    }

    /// Whether text was asked for.
    pub fn is_text(&self) -> bool {
        self.phases.iter().all(|phase| phase.is_text())
    }

    /// Whether there was sound, said or heard.
    pub fn has_audio(&self) -> bool {
        self.phases.iter().any(|phase| phase.audio.is_there())
    }

    /// Answers that were held against a schema, and those of them that are valid; `None` where none was to be.
    pub fn valid(&self) -> Option<(u64, u64)> {
        let seen = self.phases.iter().filter_map(|phase| phase.structure.as_ref());
        seen.map(|structure| (structure.n, structure.valid)).reduce(|a, b| (a.0 + b.0, a.1 + b.1))
    }

    /// Calls of tools in an answer that was held against a schema, mean.
    pub fn calls_per_answer(&self) -> Option<f64> {
        let seen = || self.phases.iter().filter_map(|phase| phase.structure.as_ref());
        let n: u64 = seen().map(|structure| structure.n).sum();
        (n > 0).then(|| seen().map(|structure| structure.calls).sum::<u64>() as f64 / n as f64)
    }

    /// Items per second of all requests together, over the steady windows one after the other.
    pub fn item_throughput(&self) -> Option<f64> {
        self.rate(|phase| phase.items.as_ref()?.per_second)
    }

    /// Seconds of sound per second, the same way.
    pub fn audio_throughput(&self) -> Option<f64> {
        self.rate(|phase| phase.audio.seconds_per_second)
    }

    /// A rate over the steady windows one after the other.
    pub fn rate(&self, of: impl Fn(&PhaseResult) -> Option<f64>) -> Option<f64> {
        let answered = self.phases.iter().filter(|phase| phase.counts.answered > 0);
        let windows: Vec<(f64, f64)> =
            answered.filter_map(|phase| Some((of(phase)?, phase.throughput.as_ref()?.window_seconds))).collect();
        let seconds: f64 = windows.iter().map(|(_, seconds)| seconds).sum();
        (seconds > 0.0).then(|| windows.iter().map(|(rate, seconds)| rate * seconds).sum::<f64>() / seconds)
    }

    /// Whether the throughput is stated, or a sample that describes itself only. What arrives in an open loop is chance itself, and a
    /// window cuts off what is under way at its ends: it takes as many seconds as an interval does. In a closed loop the slots are
    /// always busy, and as many requests do as for a median.
    pub fn is_throughput_stated(&self) -> bool {
        let windows = || self.phases.iter().filter_map(|phase| phase.throughput.as_ref());
        if self.load.is_closed() {
            windows().map(|window| window.requests).sum::<u64>() >= Level::P50.floor()
        } else {
            windows().map(|window| window.parts).sum::<u64>() >= MIN_PARTS
        }
    }

    /// Share of the judged requests that meet every objective; `None` where so many lack a metric that the
    /// others are not representative.
    pub fn goodput_share(&self) -> Option<f64> {
        let (met, undecided, of) = self.goodput_counts();
        let known = of - undecided;
        (known > 0 && undecided as f64 <= MAX_UNDECIDED_SHARE * of as f64).then(|| met as f64 / known as f64)
    }

    /// How many requests keep every objective, of how many that is not known, and how many were judged.
    pub fn goodput_counts(&self) -> (u64, u64, u64) {
        let sum = |of: fn(&Goodput) -> u64| self.phases.iter().filter_map(|phase| phase.goodput.as_ref()).map(of).sum();
        (sum(|goodput| goodput.met), sum(|goodput| goodput.undecided), sum(|goodput| goodput.of))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{closed, phase};
    use tokrate_core::{Channel, FailureKind};
    use tokrate_meter::RequestNumbers;
    use tokrate_meter::fixtures::{RequestBuilder, at, failed_request, numbers, steady_request};

    #[test]
    fn rounds_are_pooled_by_their_requests() {
        let round = |ttft| -> Vec<_> { (1..=30).map(|i| steady_request(i, i * 2_000, ttft, 10, 40)).collect() };
        let (fast, slow, other) =
            (phase(&closed(1), &round(100)), phase(&closed(1), &round(300)), phase(&closed(2), &round(100)));
        let phases = [fast.clone(), other, slow];
        let loads = by_load(&phases);
        assert_eq!(loads.iter().map(|rounds| rounds.phases.len()).collect::<Vec<usize>>(), [2, 1]);
        let ttft = loads[0].distribution(|phase| &phase.ttft).expect("both have one");
        assert_eq!((ttft.n, loads[0].count(|phase| phase.counts.measured)), (60, 60));
        let p90 = ttft.p90.nearest_rank().expect("60 samples");
        assert!((p90 - 300.0).abs() < 300.0 * 0.0055, "half of the samples are slow: {p90}");
        assert_eq!(loads[1].throughput(), phases[1].throughput.as_ref().map(|all| all.tokens_per_second));
    }

    #[test]
    fn loads_rise_in_whatever_order_they_ran() {
        let level = |n| phase(&closed(n), &[steady_request(1, 0, 100, 10, 40)]);
        let phases = [50, 1, 10, 50].map(level);
        let loads = by_load(&phases);
        let shown: Vec<(f64, usize)> = loads.iter().map(|load| (load.load.amount(), load.phases.len())).collect();
        assert_eq!(shown, [(1.0, 1), (10.0, 1), (50.0, 2)]);
        let rising = by_rising_load(&phases);
        assert_eq!(rising.iter().map(|phase| phase.load.amount()).collect::<Vec<f64>>(), [1.0, 10.0, 50.0, 50.0]);
        assert!(std::ptr::eq(rising[2], &raw const phases[0]), "rounds stay in their order");
    }

    #[test]
    fn the_most_throughput_is_that_of_the_least_load_that_has_as_much() {
        let level = |load: u32, gap| {
            phase(&closed(load), &(0..30).map(|i| steady_request(i, i * gap, 100, 10, 40)).collect::<Vec<_>>())
        };
        let mut phases = [level(1, 1_000), level(8, 500), level(16, 496)];
        phases.iter_mut().zip([1, 8, 16]).for_each(|(phase, n)| phase.load = Load::Closed { concurrency: n });
        for (phase, throughput) in phases.iter_mut().zip([40.0, 79.0, 80.0]) {
            let window = crate::run::Throughput {
                window_seconds: 5.0,
                tokens: 0,
                tokens_per_second: throughput,
                interval: None,
                peak_tokens_per_second: throughput,
                parts: 5,
                requests: 30,
                requests_per_second: 6.0,
            };
            phase.throughput = Some(window);
        }
        let loads = by_load(&phases);
        assert_eq!(most_throughput(&loads).map(|most| most.load.amount()), Some(8.0), "1.3 % less at half the load");
        assert_eq!(most_throughput(&loads[..1]).map(|most| most.load.amount()), Some(1.0));
        assert!(most_throughput(&[]).is_none());
    }

    #[test]
    fn a_round_without_an_answer_is_ignored() {
        let round: Vec<_> = (1..=30).map(|i| steady_request(i, i * 2_000, 100, 10, 40)).collect();
        let failed = phase(&closed(1), &[failed_request(1, 0, 10, FailureKind::TimedOut)]);
        let phases = [phase(&closed(1), &round), failed.clone()];
        let loads = by_load(&phases);
        assert_eq!(loads[0].times(Metric::Ttft).map(|ttft| ttft.n), Some(30));
        assert_eq!((loads[0].missing_reason(Metric::Ttft), loads[0].with_speed()), (None, 30));
        assert_eq!(loads[0].goodput_share(), None, "nothing was asked for");
        let alone = [failed];
        let alone = by_load(&alone);
        assert_eq!((alone[0].times(Metric::Ttft), alone[0].throughput()), (None, None));
        assert_eq!(alone[0].missing_reason(Metric::Ttft).as_deref(), Some("no request was answered"));
    }

    #[test]
    fn one_round_whose_reads_came_late_takes_no_speed_from_the_others() {
        let at_pace = |i: u64| steady_request(i, i * 2_000, 100, 5, 60);
        // The same pace, read in five pieces.
        let late = |i: u64| {
            let read = |story: RequestBuilder, piece: u64| {
                story.read(|batch| {
                    (0..12).for_each(|_| batch.push_text(at(i * 2_000 + 160 + 60 * piece), Channel::Answer, " a"));
                })
            };
            let story = (0..5).fold(RequestBuilder::sent(i * 2_000, i * 2_000), read);
            RequestNumbers { index: i, ..numbers(&story.done(i * 2_000 + 400, i * 2_000 + 400)) }
        };
        assert_eq!(late(0).output_speed, None, "five reads do not determine it to 2 %");
        let round = |held: u64| {
            phase(&closed(1), &(0..5).map(|i| if i < held { late(i) } else { at_pace(i) }).collect::<Vec<_>>())
        };
        let phases = [round(0), round(4), round(0)];
        assert!(phases[1].missing_reason(Metric::OutputSpeed).is_some_and(|reason| !reason.contains("quick")));
        let loads = by_load(&phases);
        let speed = loads[0].output_speed().expect("15 answers");
        assert!(speed.value.is_some_and(|speed| (speed / 200.0 - 1.0).abs() < 0.02), "{speed:?}");
        assert!(speed.low.is_some_and(|low| low <= 200.0) && speed.high.is_some_and(|high| high >= 200.0), "{speed:?}");
        assert_eq!((loads[0].with_speed(), loads[0].with_speed_bound()), (15, 4));
        assert_eq!(crate::run::missing_figures(&phases), Vec::<String>::new());
    }

    #[test]
    fn a_figure_that_one_round_lacks_is_missing_from_the_pool() {
        let round: Vec<_> = (1..=30).map(|i| steady_request(i, i * 2_000, 100, 10, 40)).collect();
        let mut quick = phase(&closed(1), &round);
        quick.tpot = Distribution::of_nanos(&mut Vec::new());
        let phases = [phase(&closed(1), &round), quick];
        assert_eq!(by_load(&phases)[0].output_speed(), None, "the others would be the slow ones");
    }

    #[test]
    fn the_throughput_of_a_short_open_loop_is_not_stated() {
        let level = |load: Load, count: u64, gap: u64| {
            let requests: Vec<_> = (0..count).map(|i| steady_request(i, i * gap, 100, 10, 40)).collect();
            let mut measured = phase(&closed(1), &requests);
            measured.load = load;
            by_load(&[measured])[0].is_throughput_stated()
        };
        let open = Load::Open { rate: 200.0, cap: None };
        assert!(!level(open, 100, 5), "half a second of chance");
        assert!(level(open, 40, 500), "twenty seconds");
        let one = Load::Closed { concurrency: 1 };
        assert!(level(one, 20, 500), "a slot is always busy");
        assert!(!level(one, 4, 500));
    }

    #[test]
    fn no_share_is_stated_where_too_many_answers_are_undecided() {
        let round: Vec<_> = (1..=30).map(|i| steady_request(i, i * 2_000, 100, 10, 40)).collect();
        let mut judged = phase(&closed(1), &round);
        let goodput = |undecided| Goodput {
            slos: Vec::new(),
            met: 100 - undecided,
            of: 100,
            undecided,
            missed_rate_limited: 0,
            missed_failed: 0,
            share: None,
            interval: None,
            per_second: None,
        };
        judged.goodput = Some(goodput(2));
        assert_eq!(by_load(std::slice::from_ref(&judged))[0].goodput_share(), Some(1.0));
        judged.goodput = Some(goodput(3));
        assert_eq!(by_load(std::slice::from_ref(&judged))[0].goodput_share(), None);
    }
}
