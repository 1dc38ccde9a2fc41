//! Which traces are kept, and their queue to the exporting thread.
//!
//! Whether a trace is kept is decided when its call has ended: the client's word or the share of traces first, and beside that
//! every call that failed and every slow one. Invariant: the queue is bounded; what finds no room is dropped and counted.

use super::finished::FinishedTrace;
use super::identity::mixed;
use crate::config::TracesConfig;
use crate::state::lock::locked;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Notify;

/// Calls that wait at most: about 1.5 KiB each with one attempt. OpenTelemetry's SDKs keep 2,048 spans.
const MAX_WAITING: usize = 4_096;
/// With so many waiting the exporter is woken before its time: a quarter, so that it has time for them while the rest fills.
const WAKE_AT: usize = MAX_WAITING / 4;

/// The traces of calls that have ended.
pub(crate) struct TraceQueue {
    config: TracesConfig,
    /// Parentless traces below this are sampled, by the last 56 bits of their identifier, as OpenTelemetry's SDKs do.
    threshold: u64,
    waiting: Mutex<Vec<FinishedTrace>>,
    /// Told when the exporter should not wait for its time.
    pub wanted: Notify,
    seeds: [u64; 2],
    begun: AtomicU64,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    exported: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

/// Spans since the start, by what became of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SpanCounts {
    /// A collector took them.
    pub exported: u64,
    /// There was no room for them: the collector was too slow, or did not answer.
    pub dropped: u64,
    /// The collector refused them.
    pub failed: u64,
}

const RANDOM_BITS: u32 = 56;

impl TraceQueue {
    /// The seed tells the identifiers of this run from those of others.
    pub fn new(config: TracesConfig, seed: u64) -> TraceQueue {
        let threshold = (config.ratio.clamp(0.0, 1.0) * (1_u64 << RANDOM_BITS) as f64) as u64;
        TraceQueue {
            config,
            threshold,
            waiting: Mutex::default(),
            wanted: Notify::new(),
            seeds: [mixed(seed), mixed(seed ^ u64::from(std::process::id()).rotate_left(32) ^ 0x5a)],
            begun: AtomicU64::new(0),
            counts: Counts::default(),
        }
    }

    /// A span and a trace that no other call has.
    pub fn next_identity(&self) -> ([u8; 8], [u8; 16]) {
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        // Odd steps visit every number; three different ones, so that no two runs walk the same way.
        let random = |seed: u64, step: u64| mixed(seed.wrapping_add(number.wrapping_mul(step))).max(1).to_be_bytes();
        let span_id = random(self.seeds[0] ^ self.seeds[1], 0x9e37_79b9_7f4a_7c15);
        let (first, last) =
            (random(self.seeds[0], 0xd1b5_4a32_d192_ed03), random(self.seeds[1], 0x8cb9_2ba7_2f3d_8dd7));
        let mut trace_id = [0; 16];
        trace_id[..8].copy_from_slice(&first);
        trace_id[8..].copy_from_slice(&last);
        (span_id, trace_id)
    }

    /// Whether lanes are told of traces.
    pub fn propagates(&self) -> bool {
        self.config.propagate
    }

    /// Whether a trace that begins here is sampled.
    pub fn is_in_share(&self, trace_id: &[u8; 16]) -> bool {
        let last: [u8; 8] = *trace_id.last_chunk().expect("it has sixteen bytes");
        u64::from_be_bytes(last) & ((1 << RANDOM_BITS) - 1) < self.threshold
    }

    /// Takes a trace that has ended, if it is one to be kept.
    pub fn push(&self, trace: FinishedTrace) {
        let is_slow = || self.config.slow.is_some_and(|slow| trace.duration() >= slow);
        if !trace.context.is_sampled && !trace.is_fault() && !is_slow() {
            return;
        }
        let spans = trace.spans();
        let mut waiting = locked(&self.waiting);
        if waiting.len() >= MAX_WAITING {
            drop(waiting);
            self.count_dropped(spans);
            return;
        }
        waiting.push(trace);
        let count = waiting.len();
        drop(waiting);
        if count == WAKE_AT {
            self.wanted.notify_one();
        }
    }

    /// Takes all that wait.
    pub fn take(&self) -> Vec<FinishedTrace> {
        std::mem::take(&mut locked(&self.waiting))
    }

    /// Counts spans that a collector took.
    pub fn count_exported(&self, spans: u64) {
        self.counts.exported.fetch_add(spans, Ordering::Relaxed);
    }

    /// Counts spans that are given up.
    pub fn count_dropped(&self, spans: u64) {
        self.counts.dropped.fetch_add(spans, Ordering::Relaxed);
    }

    /// Counts spans that a collector refused.
    pub fn count_failed(&self, spans: u64) {
        self.counts.failed.fetch_add(spans, Ordering::Relaxed);
    }

    /// What became of spans until now.
    pub fn counts(&self) -> SpanCounts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = &self.counts;
        SpanCounts { exported: of(&counts.exported), dropped: of(&counts.dropped), failed: of(&counts.failed) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::active::{ActiveTrace, Beginning};
    use super::super::finished::{AttemptSpan, RefusedSpan};
    use super::*;
    use http::HeaderMap;
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use tokrate_core::Tick;

    const BEGAN: Beginning = Beginning { at: Tick::ZERO, unix_ns: 1_000 };

    fn refuse(queue: &Arc<TraceQueue>) {
        let trace = ActiveTrace::begin(queue, &HeaderMap::new(), "chat", BEGAN);
        trace.set_status(503);
        trace.refuse(Tick::ZERO, RefusedSpan { reason: "unavailable", alias: None, key: None });
    }

    #[test]
    fn what_finds_no_room_is_dropped_and_counted() {
        let queue = Arc::new(TraceQueue::new(TracesConfig::default(), 1));
        (0..MAX_WAITING + 3).for_each(|_| refuse(&queue));
        assert_eq!(queue.counts(), SpanCounts { dropped: 3, ..SpanCounts::default() });
        assert_eq!(queue.take().len(), MAX_WAITING);
        refuse(&queue);
        assert_eq!(queue.take().len(), 1);
    }

    #[test]
    fn no_two_calls_have_an_identifier_in_common() {
        let queues = [1, 2].map(|seed| TraceQueue::new(TracesConfig::default(), seed));
        let identities: Vec<_> = queues.iter().flat_map(|queue| (0..10_000).map(|_| queue.next_identity())).collect();
        let spans: BTreeSet<_> = identities.iter().map(|(span, _)| *span).collect();
        let traces: BTreeSet<_> = identities.iter().map(|(_, trace)| *trace).collect();
        assert_eq!((spans.len(), traces.len()), (20_000, 20_000));
    }

    #[test]
    fn the_share_of_traces_that_is_kept_is_the_one_that_was_asked_for() {
        for (ratio, range) in [(0.0, 0..=0), (0.25, 2_300..=2_700), (1.0, 10_000..=10_000)] {
            let queue = TraceQueue::new(TracesConfig { ratio, ..TracesConfig::default() }, 7);
            let kept = (0..10_000).filter(|_| queue.is_in_share(&queue.next_identity().1)).count();
            assert!(range.contains(&kept), "{ratio}: {kept}");
        }
    }

    #[test]
    fn a_call_whose_client_left_before_it_was_read_leaves_no_trace() {
        let queue = Arc::new(TraceQueue::new(TracesConfig::default(), 1));
        drop(ActiveTrace::begin(&queue, &HeaderMap::new(), "chat", BEGAN));
        assert!(queue.take().is_empty());
    }

    /// Figures, not bars. `cargo nextest run --release -p tokrate-gateway --run-ignored only tracing_a_call --no-capture`
    #[test]
    #[ignore = "prints figures, which only a quiet machine and an optimised build make true"]
    #[allow(clippy::print_stdout)]
    fn tracing_a_call_costs_less_than_two_microseconds() {
        const CALLS: u64 = 200_000;
        let clock = tokrate_net::Clock::monotonic();
        let row = crate::sample::row(1, "openai-1");
        let queue = Arc::new(TraceQueue::new(TracesConfig::default(), 7));
        let mut headers = HeaderMap::new();
        for (name, parent) in
            [("no parent", None), ("a parent", Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"))]
        {
            headers.extend(
                parent.map(|parent| {
                    (http::HeaderName::from_static("traceparent"), http::HeaderValue::from_static(parent))
                }),
            );
            let started_at = clock.now();
            for number in 0..CALLS {
                let began = Beginning { at: clock.now(), unix_ns: clock.wall_nanos() };
                let trace = ActiveTrace::begin(&queue, std::hint::black_box(&headers), "chat", began);
                trace.add(AttemptSpan {
                    row: std::hint::black_box(&row).clone(),
                    started_at: began.at,
                    ended_at: began.at,
                    sent_at: None,
                    server: ("api.example.com".to_owned(), 443),
                    is_beside: false,
                });
                trace.end(began.at, true, None);
                drop(trace);
                // What the exporting thread does; its cost is another thread's.
                if number % 1_024 == 1_023 {
                    drop(queue.take());
                }
            }
            let each = (clock.now() - started_at).as_nanos() / CALLS;
            println!("{name}: {each} ns a call with one attempt, of one thread");
            assert!(each < 2_000, "{name}: {each} ns");
        }
    }
}
