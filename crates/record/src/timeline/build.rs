//! From requests and readings to slices.
//!
//! Invariant: what is held grows with requests and with the length of the run, not with its tokens.

use super::samples::{Samples, Together};
use super::{PhaseSpan, SeriesRow, TimeSeries, Timeline};
use crate::run::PhaseResult;
use tokrate_core::{Span, Tick};
use tokrate_meter::request::RequestNumbers;
use tokrate_meter::server_metrics::EngineSample;

/// Tokens are counted in cells of this length; slices are whole numbers of them.
const CELL: u64 = 100_000_000;
/// Lengths of slices that are chosen from (cells): each is at most 2.5 times the one before, so that there are 48 to 120 slices of any
/// run of more than 12 s.
const LENGTHS: [u64; 16] = [1, 2, 5, 10, 20, 50, 100, 200, 300, 600, 1_200, 3_000, 6_000, 12_000, 30_000, 36_000];
/// Most slices, where the length is chosen here.
const MAX_CHOSEN: u64 = 120;
/// Most slices of all; a shorter length is made as much longer.
const MAX_SLICES: u64 = 10_000;

/// What is kept of a request.
#[derive(Clone, Copy, Debug)]
struct Compact {
    /// Since the run began (ns), as all times here.
    sent: u64,
    first: Option<u64>,
    ended: u64,
    ttft: Option<u64>,
    answered: bool,
}

/// The requests of a run, level after level.
#[derive(Clone, Debug)]
pub struct TimelineBuilder {
    began_at: Tick,
    requests: Vec<Compact>,
    /// Output tokens that came in each cell.
    tokens: Vec<u64>,
    phases: Vec<PhaseSpan>,
    ended: u64,
}

impl TimelineBuilder {
    /// Of a run that began then.
    pub fn new(began_at: Tick) -> TimelineBuilder {
        TimelineBuilder { began_at, requests: Vec::new(), tokens: Vec::new(), phases: Vec::new(), ended: 0 }
    }

    /// Adds a level.
    pub fn add(&mut self, phase: &PhaseResult, rows: &[RequestNumbers]) {
        let since = |at: u64| at.saturating_sub(self.began_at.as_nanos());
        let (start, end) = (since(phase.started_at_ns), since(phase.ended_at_ns));
        self.ended = self.ended.max(end);
        let seconds = |ns: u64| ns as f64 / 1e9;
        self.phases.push(PhaseSpan { name: phase.name.clone(), start: seconds(start), end: seconds(end) });
        for row in rows {
            let Some(sent) = row.sent_at_ns.map(since) else { continue };
            self.requests.push(Compact {
                sent,
                first: row.first_text_at_ns.map(since),
                ended: since(row.ended_at_ns).max(sent),
                ttft: row.ttft_ns,
                answered: row.is_answered(),
            });
        }
        for chunk in rows.iter().flat_map(|row| &row.chunk_list) {
            let cell = (since(chunk.at.as_nanos()) / CELL) as usize;
            if self.tokens.len() <= cell {
                self.tokens.resize(cell + 1, 0);
            }
            self.tokens[cell] += u64::from(chunk.tokens);
        }
    }

    /// The run so far in slices of a length, or of one that is chosen.
    pub fn timeline(&self, samples: &Samples, slice: Option<Span>) -> Timeline {
        let cells = slice_cells(self.ended, slice);
        let slices = Slices { length: cells * CELL, count: self.ended.div_ceil(cells * CELL).max(1) as usize };
        let mut series = self.client(&slices);
        series.extend(engine(samples, self.began_at, &slices));
        series.extend(gpu(samples, self.began_at, &slices));
        let row = |(of, values): (TimeSeries, Vec<Option<f64>>)| {
            let info = of.info();
            let is_known = values.iter().any(Option::is_some);
            is_known.then(|| SeriesRow {
                name: info.name.to_owned(),
                unit: if info.unit == "share" { String::new() } else { info.unit.to_owned() },
                source: info.source,
                values,
            })
        };
        let is_sampled = !samples.engine.is_empty() || !samples.gpus.is_empty();
        Timeline {
            began_at_ns: self.began_at.as_nanos(),
            slice_seconds: slices.length as f64 / 1e9,
            sampled_every_seconds: is_sampled.then(|| samples.every.as_secs_f64()),
            gpus: samples.gpu_names(),
            phases: self.phases.clone(),
            series: series.into_iter().filter_map(row).collect(),
        }
    }

    fn client(&self, slices: &Slices) -> Vec<(TimeSeries, Vec<Option<f64>>)> {
        let zeros = || vec![0.0; slices.count];
        let (mut begun, mut answered, mut failed) = (zeros(), zeros(), zeros());
        let (mut in_flight, mut throughput) = (zeros(), zeros());
        let mut times: Vec<Vec<u64>> = vec![Vec::new(); slices.count];
        for request in &self.requests {
            begun[slices.of(request.sent)] += 1.0;
            let ended = if request.answered { &mut answered } else { &mut failed };
            ended[slices.of(request.ended)] += 1.0;
            let (first, last) = (slices.of(request.sent), slices.of(request.ended));
            for (slice, mean) in in_flight.iter_mut().enumerate().take(last + 1).skip(first) {
                let (from, to) = slices.bounds(slice);
                let inside = request.ended.min(to).saturating_sub(request.sent.max(from));
                *mean += inside as f64 / slices.length as f64;
            }
            if let (Some(first), Some(ttft)) = (request.first, request.ttft) {
                times[slices.of(first)].push(ttft);
            }
        }
        for (cell, tokens) in self.tokens.iter().enumerate() {
            throughput[slices.of(cell as u64 * CELL)] += *tokens as f64 * 1e9 / slices.length as f64;
        }
        let rank = |times: &Vec<u64>, share: f64| {
            let rank = (times.len() as f64 * share).ceil() as usize;
            times.get(rank.saturating_sub(1)).map(|ns| *ns as f64 / 1e6)
        };
        times.iter_mut().for_each(|times| times.sort_unstable());
        let known = |values: Vec<f64>| values.into_iter().map(Some).collect::<Vec<_>>();
        vec![
            (TimeSeries::Begun, known(begun)),
            (TimeSeries::Answered, known(answered)),
            (TimeSeries::Failed, known(failed)),
            (TimeSeries::InFlight, known(in_flight)),
            (TimeSeries::Throughput, known(throughput)),
            (TimeSeries::TtftP50, times.iter().map(|times| rank(times, 0.5)).collect()),
            (TimeSeries::TtftP99, times.iter().map(|times| rank(times, 0.99)).collect()),
        ]
    }
}

/// Slices of equal length from the beginning of the run.
struct Slices {
    length: u64,
    count: usize,
}

impl Slices {
    /// The slice that a moment lies in; what comes after the end belongs to the last.
    fn of(&self, at: u64) -> usize {
        ((at / self.length) as usize).min(self.count - 1)
    }

    fn bounds(&self, slice: usize) -> (u64, u64) {
        (slice as u64 * self.length, (slice as u64 + 1) * self.length)
    }

    /// A value of each slice, by its bounds on the monotonic clock.
    fn each(&self, began_at: Tick, of: impl Fn(u64, u64) -> Option<f64>) -> Vec<Option<f64>> {
        let zero = began_at.as_nanos();
        let bounds = (0..self.count).map(|slice| self.bounds(slice));
        bounds.map(|(from, to)| of(zero + from, zero + to)).collect()
    }
}

/// Cells of a slice.
fn slice_cells(ended: u64, slice: Option<Span>) -> u64 {
    let cells = ended.div_ceil(CELL).max(1);
    match slice {
        Some(slice) => (slice.as_nanos() / CELL).max(1).max(cells.div_ceil(MAX_SLICES)),
        None => {
            let fits = LENGTHS.into_iter().find(|length| cells.div_ceil(*length) <= MAX_CHOSEN);
            fits.unwrap_or_else(|| cells.div_ceil(MAX_CHOSEN))
        }
    }
}

fn engine(samples: &Samples, began_at: Tick, slices: &Slices) -> Vec<(TimeSeries, Vec<Option<f64>>)> {
    let curve = |of: fn(&EngineSample) -> Option<f64>| samples.engine_curve(of);
    let mean = |of: fn(&EngineSample) -> Option<f64>| {
        let curve = curve(of);
        slices.each(began_at, |from, to| curve.mean(from, to))
    };
    let share = |part: fn(&EngineSample) -> Option<f64>, whole: fn(&EngineSample) -> Option<f64>| {
        let (part, whole) = (curve(part), curve(whole));
        slices.each(began_at, |from, to| {
            let whole = whole.rise(from, to).filter(|whole| *whole > 0.0)?;
            Some((part.rise(from, to)? / whole).clamp(0.0, 1.0))
        })
    };
    let (preempted, written) = (curve(|sample| sample.preemptions), curve(|sample| sample.output_tokens));
    let seconds = slices.length as f64 / 1e9;
    vec![
        (TimeSeries::Running, mean(|sample| sample.running)),
        (TimeSeries::Waiting, mean(|sample| sample.waiting)),
        (TimeSeries::CacheUse, mean(|sample| sample.cache_use)),
        (TimeSeries::Preemptions, slices.each(began_at, |from, to| preempted.rise(from, to))),
        (TimeSeries::CacheHits, share(|sample| sample.cache_hits, |sample| sample.cache_queries)),
        (TimeSeries::Accepted, share(|sample| sample.accepted_tokens, |sample| sample.draft_tokens)),
        (TimeSeries::EngineThroughput, slices.each(began_at, |from, to| Some(written.rise(from, to)? / seconds))),
    ]
}

fn gpu(samples: &Samples, began_at: Tick, slices: &Slices) -> Vec<(TimeSeries, Vec<Option<f64>>)> {
    let together = |curves: &[super::curve::Curve], share: f64| {
        slices.each(began_at, |from, to| {
            let sum = curves.iter().map(|curve| curve.mean(from, to)).sum::<Option<f64>>()?;
            (!curves.is_empty()).then_some(sum * share)
        })
    };
    let sources = samples.gpus.len().max(1) as f64;
    let power = samples.gpu_curves(Together::Sum, |gpu| gpu.power_w);
    let clock = samples.gpu_curves(Together::Mean, |gpu| gpu.clock_mhz);
    let busy = samples.gpu_curves(Together::Mean, |gpu| gpu.busy);
    let memory = samples.gpu_curves(Together::Sum, |gpu| gpu.memory_bytes);
    vec![
        (TimeSeries::Power, together(&power, 1.0)),
        (TimeSeries::Clock, together(&clock, 1.0 / sources)),
        (TimeSeries::Busy, together(&busy, 1.0 / sources)),
        (TimeSeries::Memory, together(&memory, 1e-9)),
    ]
}
