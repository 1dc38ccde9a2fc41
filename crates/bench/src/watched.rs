//! Figures of the phase that runs, for a display on another thread: distributions, failures by kind, and how busy the client is.
//!
//! Invariant: whoever measures only adds to counters, and only while somebody watches; it never waits for a reader.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use tokrate_core::{Buckets, FailureKind, Span, Tick};
use tokrate_meter::RequestTrace;

/// Counts of one figure, within 2.2 % of every value.
pub type FigureCounts = Buckets<SCALE>;

const SCALE: u32 = 4;
/// Threads whose load is kept: one carries a thousand requests in flight.
const MAX_WORKERS: usize = 64;

/// What is counted while somebody watches.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    is_on: AtomicBool,
    ttft: Counters,
    gap: Counters,
    e2e: Counters,
    /// Bytes of text per 1,000 s of one request after its first chunk.
    pace: Counters,
    failures: [AtomicU64; FailureKind::ALL.len()],
    workers: Workers,
}

/// The figures at one moment; warm-up is left out.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Figures {
    /// Time to first token (ns), of requests in flight too.
    pub ttft: FigureCounts,
    /// Gaps between chunks (ns), of requests in flight too.
    pub gap: FigureCounts,
    /// Time of a request that was answered (ns).
    pub e2e: FigureCounts,
    /// Bytes of text per 1,000 s of one request after its first chunk.
    pub pace: FigureCounts,
    /// Failures by kind, warm-up included.
    pub failures: Vec<(FailureKind, u64)>,
    /// The client's threads, from the start of the phase on.
    pub workers: Vec<WorkerLoad>,
}

/// How busy a client thread is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WorkerLoad {
    /// CPU time that it has taken.
    pub cpu: Span,
    /// How late a 1 ms timer of it fires, 99th percentile.
    pub timer_lag: Span,
}

impl Watched {
    /// Whether anybody watches.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// From now on somebody watches.
    pub fn turn_on(&self) {
        self.is_on.store(true, Relaxed);
    }

    /// Sets everything to zero.
    pub fn reset(&self) {
        [&self.ttft, &self.gap, &self.e2e, &self.pace].into_iter().for_each(Counters::reset);
        self.failures.iter().for_each(|count| count.store(0, Relaxed));
        self.workers.0.iter().flatten().for_each(|value| value.store(0, Relaxed));
    }

    /// Adds a request that has ended.
    pub fn ended(&self, trace: &RequestTrace, is_warmup: bool) {
        if let Some(failure) = &trace.failure {
            if let Some(kind) = FailureKind::ALL.iter().position(|kind| *kind == failure.kind) {
                self.failures[kind].fetch_add(1, Relaxed);
            }
            return;
        }
        let Some(sent_at) = trace.timing.sent_at.filter(|_| !is_warmup) else { return };
        self.e2e.add(trace.timing.ended_at.since(sent_at).as_nanos());
        if let (Some(first), Some(last), false) = (trace.arrivals.first(), trace.arrivals.last(), trace.in_one_piece) {
            let (bytes, time) = (u64::from(last.text_end - first.text_end), last.at.since(first.at).as_secs_f64());
            if bytes > 0 && time > 0.0 {
                self.pace.add((bytes as f64 / time * 1000.0) as u64);
            }
        }
    }

    /// Notes how busy a worker is.
    pub fn pulse(&self, worker: u32, load: WorkerLoad) {
        if let Some([cpu, lag]) = self.workers.0.get(worker as usize) {
            cpu.store(load.cpu.as_nanos(), Relaxed);
            lag.store(load.timer_lag.as_nanos(), Relaxed);
        }
    }

    /// Everything so far.
    pub fn figures(&self) -> Figures {
        let failures = FailureKind::ALL.into_iter().zip(&self.failures);
        let failures = failures.map(|(kind, count)| (kind, count.load(Relaxed))).filter(|(_, count)| *count > 0);
        let workers = self.workers.0.iter().map(|[cpu, lag]| WorkerLoad {
            cpu: Span::from_nanos(cpu.load(Relaxed)),
            timer_lag: Span::from_nanos(lag.load(Relaxed)),
        });
        Figures {
            ttft: self.ttft.counts(),
            gap: self.gap.counts(),
            e2e: self.e2e.counts(),
            pace: self.pace.counts(),
            failures: failures.collect(),
            workers: workers.filter(|worker| worker.cpu > Span::ZERO).collect(),
        }
    }
}

/// CPU time and timer lag of each worker (ns).
#[derive(Debug)]
struct Workers(Box<[[AtomicU64; 2]]>);

impl Default for Workers {
    fn default() -> Workers {
        Workers((0..MAX_WORKERS).map(|_| Default::default()).collect())
    }
}

/// A counter for each bucket.
#[derive(Debug)]
struct Counters(Box<[AtomicU64]>);

impl Default for Counters {
    fn default() -> Counters {
        Counters((0..FigureCounts::END).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Counters {
    fn reset(&self) {
        self.0.iter().for_each(|count| count.store(0, Relaxed));
    }

    fn add(&self, value: u64) {
        self.0[usize::from(FigureCounts::index_of(value.max(1)))].fetch_add(1, Relaxed);
    }

    fn counts(&self) -> FigureCounts {
        let mut counts = FigureCounts::default();
        (0..).zip(&self.0).for_each(|(index, count)| counts.add(index, count.load(Relaxed)));
        counts
    }
}

/// The arrivals of one request, as far as the time to the first and the gaps between them need them.
pub(crate) struct Arrivals<'a> {
    /// `None` if nobody watches, or the request is left out.
    watched: Option<&'a Watched>,
    last: std::cell::Cell<Option<Tick>>,
}

impl<'a> Arrivals<'a> {
    /// Of a request that begins; one of the warm-up, or whose answer comes in one piece, is left out.
    pub fn new(watched: &'a Watched, is_left_out: bool) -> Arrivals<'a> {
        Arrivals { watched: Some(watched).filter(|watched| watched.is_on() && !is_left_out), last: Default::default() }
    }

    /// A read has come, with text if there is a time for it.
    pub fn on(&self, text_at: Option<Tick>, sent_at: Option<Tick>) {
        let (Some(watched), Some(at)) = (self.watched, text_at) else { return };
        match (self.last.replace(Some(at)), sent_at) {
            (Some(last), _) if last < at => watched.gap.add((at - last).as_nanos()),
            (None, Some(sent_at)) => watched.ttft.add(at.since(sent_at).as_nanos()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_core::Channel;
    use tokrate_meter::{Arrival, Failure};

    fn at(millis: u64) -> Tick {
        Tick::ZERO + Span::from_millis(millis)
    }

    fn trace(failure: Option<FailureKind>) -> RequestTrace {
        let arrival = |millis, text_end| Arrival { at: at(millis), text_end, events: 1, channel: Channel::Answer };
        let mut trace =
            RequestTrace { arrivals: vec![arrival(300, 10), arrival(1300, 510)], ..RequestTrace::default() };
        (trace.timing.sent_at, trace.timing.ended_at) = (Some(at(100)), at(1400));
        trace.failure = failure.map(|kind| Failure { kind, message: String::new(), retry_after: None });
        trace
    }

    #[test]
    fn requests_that_have_ended_are_counted_and_those_of_the_warm_up_are_not() {
        let watched = Watched::default();
        watched.ended(&trace(None), false);
        watched.ended(&trace(None), true);
        watched.ended(&trace(Some(FailureKind::Stalled)), false);
        let figures = watched.figures();
        let near = |counts: &FigureCounts, value: f64| {
            assert_eq!(counts.count(), 1);
            let middle = counts.quantile(0.5).expect("one") as f64;
            assert!((middle / value - 1.0).abs() <= FigureCounts::RELATIVE_ERROR, "{middle} for {value}");
        };
        near(&figures.e2e, 1300e6);
        near(&figures.pace, 500_000.0);
        assert_eq!(figures.failures, [(FailureKind::Stalled, 1)]);
        watched.reset();
        assert_eq!(watched.figures(), Figures::default());
    }

    #[test]
    fn the_first_text_and_gaps_are_counted_only_while_somebody_watches() {
        let watched = Watched::default();
        let receive = |is_left_out| {
            let arrivals = Arrivals::new(&watched, is_left_out);
            [None, Some(at(10)), None, Some(at(10)), Some(at(30))]
                .into_iter()
                .for_each(|it| arrivals.on(it, Some(at(4))));
            let figures = watched.figures();
            [figures.ttft, figures.gap]
                .map(|counts| counts.quantile(0.5).map_or(0, |nanos| (nanos as f64 / 1e6).round() as u64))
        };
        assert_eq!(receive(false), [0, 0], "nobody watches");
        watched.turn_on();
        assert_eq!(receive(true), [0, 0], "a warm-up");
        assert_eq!(receive(false), [6, 20], "two reads at one instant have no gap");
        assert_eq!(watched.figures().gap.count(), 1);
        watched.reset();
        assert!(watched.is_on(), "the next level is watched too");
    }

    #[test]
    fn workers_say_how_busy_they_are() {
        let watched = Watched::default();
        let load = WorkerLoad { cpu: Span::from_millis(40), timer_lag: Span::from_micros(90) };
        watched.pulse(1, load);
        watched.pulse(MAX_WORKERS as u32, load);
        assert_eq!(watched.figures().workers, [load]);
    }
}
