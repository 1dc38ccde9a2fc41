//! The load curve of a lane from a record of `tokrate bench`, and from rows of the throughput log.
//!
//! Invariant: a load without times or speeds gives no point; nothing is interpolated here.

use std::collections::BTreeMap;
use tokrate_core::Span;
use tokrate_record::{Attempt, Record};
use tokrate_route::CurvePoint;

/// One point for each load level with a fixed number of requests in flight. Medians are taken even where the sample is
/// too small to state them: the router ages them and soon relies on what it measures itself. A point of an estimate, which has no
/// sample, counts as one: the first few measurements outweigh it.
pub fn curve_from_record(record: &Record) -> Vec<CurvePoint> {
    let point = |phase: &tokrate_record::PhaseResult| {
        let tokrate_record::Load::Closed { concurrency } = phase.load else { return None };
        let milliseconds = |value: f64| Span::from_secs_f64(value / 1e3);
        let ttft = phase.ttft.p50.value.or(phase.ttft.p50.descriptive)?;
        let ttft_p90 = phase.ttft.p90.value.or(phase.ttft.p90.descriptive).unwrap_or(ttft);
        let tpot = phase.tpot.p50.value.or(phase.tpot.p50.descriptive).filter(|tpot| *tpot > 0.0)?;
        let prompt_tokens = phase.input_tokens.reported_mean.or(phase.input_tokens.asked_mean).unwrap_or(0.0);
        Some(CurvePoint {
            in_flight: concurrency,
            prompt_tokens: prompt_tokens.round() as u64,
            ttft: milliseconds(ttft),
            ttft_p90: milliseconds(ttft_p90.max(ttft)),
            output_speed: 1e3 / tpot,
            n: u32::try_from(phase.ttft.n).unwrap_or(u32::MAX).max(u32::from(record.is_estimate())),
        })
    };
    record.phases.iter().filter_map(point).collect()
}

/// One point for each number of attempts in flight, of rows of one lane: of its streamed answers that say both times and
/// speed.
pub fn curve_from_log<'a>(rows: impl IntoIterator<Item = &'a Attempt>) -> Vec<CurvePoint> {
    let mut by_load: BTreeMap<u32, Load> = BTreeMap::new();
    for row in rows {
        let sample = &row.sample;
        let (Some(ttft), Some(speed)) = (sample.ttft_ns, sample.output_speed.filter(|speed| *speed > 0.0)) else {
            continue;
        };
        let load = by_load.entry(sample.in_flight).or_default();
        load.ttfts.push(ttft);
        load.speeds.push(speed);
        load.prompts.extend(sample.input_tokens);
    }
    by_load.into_iter().map(|(in_flight, load)| load.point(in_flight)).collect()
}

/// What was measured with the same number of attempts in flight.
#[derive(Default)]
struct Load {
    ttfts: Vec<u64>,
    speeds: Vec<f64>,
    prompts: Vec<u64>,
}

impl Load {
    fn point(mut self, in_flight: u32) -> CurvePoint {
        self.ttfts.sort_unstable();
        self.speeds.sort_unstable_by(f64::total_cmp);
        self.prompts.sort_unstable();
        let n = self.ttfts.len();
        CurvePoint {
            in_flight,
            prompt_tokens: self.prompts.get(self.prompts.len() / 2).copied().unwrap_or(0),
            ttft: Span::from_nanos(self.ttfts[n / 2]),
            ttft_p90: Span::from_nanos(self.ttfts[(n * 9).div_ceil(10) - 1].max(self.ttfts[n / 2])),
            output_speed: self.speeds[n / 2],
            n: u32::try_from(n).unwrap_or(u32::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_record::Sample;

    fn row(in_flight: u32, ttft_ms: Option<u64>, output_speed: Option<f64>) -> Attempt {
        let ttft_ns = ttft_ms.map(|ms| ms * 1_000_000);
        let sample = Sample { in_flight, ttft_ns, output_speed, input_tokens: Some(100), ..Sample::default() };
        Attempt { sample, ..Attempt::default() }
    }

    #[test]
    fn a_point_of_an_estimate_counts_as_one_sample() {
        let points = curve_from_record(&tokrate_record::fixtures::estimate(&[(1, 20.0), (8, 25.0)]));
        let seen: Vec<_> = points.iter().map(|it| (it.in_flight, it.output_speed, it.ttft, it.n)).collect();
        assert_eq!(seen, [(1, 50.0, Span::from_millis(200), 1), (8, 40.0, Span::from_millis(250), 1)]);
    }

    #[test]
    fn rows_are_a_point_for_each_load() {
        let mut rows: Vec<Attempt> = (1..=10).map(|n| row(1, Some(n * 10), Some(50.0))).collect();
        rows.extend([row(4, Some(400), Some(20.0)), row(4, Some(500), None), row(4, None, Some(1e3))]);
        let points = curve_from_log(&rows);
        let expected = |in_flight, ttft, p90, output_speed, n| CurvePoint {
            in_flight,
            prompt_tokens: 100,
            ttft: Span::from_millis(ttft),
            ttft_p90: Span::from_millis(p90),
            output_speed,
            n,
        };
        assert_eq!(points, [expected(1, 60, 90, 50.0, 10), expected(4, 400, 400, 20.0, 1)]);
        assert_eq!(curve_from_log(&[row(1, Some(1), Some(0.0))]), []);
    }
}
