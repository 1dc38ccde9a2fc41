//! Slices and levels of requests and readings whose truth is known.

use super::*;
use crate::fixtures::{closed, phase};
use proptest::prelude::*;
use tokrate_core::{FailureKind, Span, Tick};
use tokrate_meter::RequestNumbers;
use tokrate_meter::fixtures::{at, failed_request, steady_request};
use tokrate_meter::server_metrics::{EngineSample, GpuReading, GpuSample};

/// Readings each second of 21: running rises by one a second, waiting is 8, 100 tokens a second are written, a tenth of what is looked up
/// is found; two processors draw 100 and 200 W, and their clock is 1500 MHz.
fn samples() -> Samples {
    let engine = |second: u64| EngineSample {
        at: at(second * 1_000),
        running: Some(second as f64),
        waiting: Some(8.0),
        cache_use: Some(0.5),
        output_tokens: Some(5.0 + 100.0 * second as f64),
        cache_queries: Some(50.0 * second as f64),
        cache_hits: Some(5.0 * second as f64),
        ..EngineSample::default()
    };
    let gpu = |name: &str, power, second: u64| GpuReading {
        name: name.to_owned(),
        // A little of it moves, as power does.
        power_w: Some(power + if second.is_multiple_of(2) { 0.5 } else { -0.5 }),
        clock_mhz: Some(1500.0),
        ..GpuReading::default()
    };
    let gpus = |second: u64| GpuSample {
        at: at(second * 1_000),
        gpus: vec![gpu("a", 100.0, second), gpu("b", 200.0, second)],
    };
    Samples {
        every: Span::from_secs(1),
        engine: (0..=20).map(engine).collect(),
        gpus: vec![(0..=20).map(gpus).collect()],
    }
}

/// Two requests of 4 s each, one after the other, with 40 tokens each, and one that fails.
fn rows() -> Vec<RequestNumbers> {
    vec![
        steady_request(0, 1_000, 100, 100, 40),
        steady_request(1, 6_000, 300, 100, 40),
        failed_request(2, 15_000, 15_500, FailureKind::ServerError),
    ]
}

fn close(found: Option<f64>, wanted: f64) {
    assert!(found.is_some_and(|found| (found - wanted).abs() < 1e-6), "{found:?} is not {wanted}");
}

#[test]
fn slices_hold_what_came_in_them() {
    let mut builder = TimelineBuilder::new(Tick::ZERO);
    let mut input = closed(1);
    input.ended_at = at(20_000);
    builder.add(&phase(&input, &rows()), &rows());
    let timeline = builder.timeline(&samples(), Some(Span::from_secs(5)));
    assert_eq!((timeline.slice_seconds, timeline.sampled_every_seconds), (5.0, Some(1.0)));
    assert_eq!(timeline.gpus, ["a", "b"]);
    let values = |series| timeline.values(series).unwrap_or_else(|| panic!("no {series:?}")).to_vec();
    let counts = |series| values(series).into_iter().map(|value| value.expect("a count")).collect::<Vec<f64>>();
    assert_eq!(counts(TimeSeries::Begun), [1.0, 1.0, 0.0, 1.0]);
    assert_eq!(counts(TimeSeries::Failed), [0.0, 0.0, 0.0, 1.0]);
    assert_eq!(counts(TimeSeries::Answered).iter().sum::<f64>(), 2.0);
    let tokens: f64 = counts(TimeSeries::Throughput).iter().map(|rate| rate * 5.0).sum();
    assert!((tokens - 80.0).abs() < 1e-9, "no token is lost: {tokens}");
    let whole: f64 = rows().iter().map(|row| (row.ended_at_ns - row.sent_at_ns.expect("sent")) as f64 / 1e9).sum();
    let in_flight: f64 = counts(TimeSeries::InFlight).iter().map(|mean| mean * 5.0).sum();
    assert!((in_flight - whole).abs() < 1e-9, "{in_flight} s in flight are not {whole}");
    assert_eq!(values(TimeSeries::TtftP50), [Some(100.0), Some(300.0), None, None]);
    for (slice, running) in [2.5, 7.5, 12.5, 17.5].into_iter().enumerate() {
        close(values(TimeSeries::Running)[slice], running);
        close(values(TimeSeries::EngineThroughput)[slice], 100.0);
        close(values(TimeSeries::CacheHits)[slice], 0.1);
        close(values(TimeSeries::Power)[slice], 300.0);
        close(values(TimeSeries::Clock)[slice], 1500.0);
    }
    assert_eq!(timeline.values(TimeSeries::Memory), None, "what nobody says has no series");
}

#[test]
fn there_are_30_to_120_slices_unless_their_length_is_named() {
    for seconds in [3_u64, 4, 10, 12, 13, 59, 60, 61, 599, 600, 601, 3_599, 7_200, 86_400, 430_000] {
        let mut builder = TimelineBuilder::new(Tick::ZERO);
        let mut input = closed(1);
        input.ended_at = at(seconds * 1_000);
        builder.add(&phase(&input, &[]), &[]);
        let count = builder.timeline(&Samples::default(), None).series[0].values.len();
        assert!((30..=120).contains(&count), "{count} slices of {seconds} s");
        let fine = builder.timeline(&Samples::default(), Some(Span::from_millis(250)));
        assert!(fine.series[0].values.len() <= 10_000 && fine.slice_seconds >= 0.2, "{}", fine.slice_seconds);
    }
}

#[test]
fn a_level_has_its_means_and_joules_of_the_whole_window() {
    let found = Sampled::of(&samples(), (2_500_000_000, 12_500_000_000), Some(1_000)).expect("there are readings");
    close(found.running.map(|gauge| gauge.mean), 7.5);
    assert_eq!(found.running.map(|gauge| (gauge.min, gauge.max)), Some((3.0, 12.0)));
    assert_eq!((found.engine_readings, found.gpus, found.preemptions), (10, 2, None));
    close(found.prefix_cache_hits, 0.1);
    close(found.joules, 3_000.0);
    close(found.joules_per_token, 3.0);
    assert_eq!(Sampled::of(&Samples::default(), (0, 10), None), None);
}

#[test]
fn joules_are_stated_only_if_every_processor_is_known_all_the_time() {
    let why = |spoil: &dyn Fn(&mut Samples), window| {
        let mut samples = samples();
        spoil(&mut samples);
        let found = Sampled::of(&samples, window, Some(1_000)).expect("there are readings");
        assert_eq!((found.joules, found.joules_per_token), (None, None));
        found.joules_missing.expect("a reason")
    };
    let window = (2_500_000_000, 12_500_000_000);
    let lost = why(&|samples| samples.gpus[0].drain(5..9).for_each(drop), window);
    assert_eq!(lost, "the power of every processor is known for 50 % of the window only");
    let gone = why(&|samples| samples.gpus[0][7..9].iter_mut().for_each(|sample| sample.gpus.truncate(1)), window);
    assert!(gone.contains("known for"), "one of two processors is no sum: {gone}");
    let late = why(&|_| (), (15_000_000_000, 25_000_000_000));
    assert!(late.contains("known for 75 %"), "{late}");
    let short = why(&|_| (), (2_000_000_000, 5_000_000_000));
    assert_eq!(short, "power was read anew every 1.0 s, too seldom for a window of 3.0 s");
    // An exporter that looks every 6 s shows the same six times.
    let stale = why(
        &|samples| {
            let before = samples.gpus[0].clone();
            samples.gpus[0]
                .iter_mut()
                .enumerate()
                .for_each(|(place, sample)| sample.gpus = before[place / 6 * 6].gpus.clone());
            // Each reading differs from the last.
            samples.gpus[0].iter_mut().enumerate().for_each(|(place, sample)| {
                sample.gpus[0].power_w = Some(100.0 + (place / 6) as f64);
            });
        },
        (500_000_000, 19_500_000_000),
    );
    assert_eq!(stale, "power was read anew every 6.0 s, too seldom for a window of 19.0 s");
}

proptest! {
    #[test]
    fn no_readings_make_a_number_that_json_lacks(values in proptest::collection::vec(any::<f64>(), 1..40), at in 0..30_u64) {
        let engine = |(place, value): (usize, &f64)| EngineSample {
            at: tokrate_meter::fixtures::at(place as u64 * 700),
            running: Some(*value),
            output_tokens: Some(*value),
            draft_tokens: Some(*value),
            accepted_tokens: Some(-*value),
            ..EngineSample::default()
        };
        let gpu = |(place, value): (usize, &f64)| GpuSample {
            at: tokrate_meter::fixtures::at(place as u64 * 900),
            gpus: vec![GpuReading { power_w: Some(*value), memory_bytes: Some(*value * 1e6), ..GpuReading::default() }; 3],
        };
        let samples = Samples {
            every: Span::from_secs(1),
            engine: values.iter().enumerate().map(engine).collect(),
            gpus: vec![values.iter().enumerate().map(gpu).collect()],
        };
        let mut builder = TimelineBuilder::new(Tick::ZERO);
        builder.add(&phase(&closed(1), &rows()), &rows());
        let timeline = builder.timeline(&samples, None);
        let text = serde_json::to_string(&timeline).expect("it can be written");
        prop_assert_eq!(serde_json::from_str::<Timeline>(&text).expect("it can be read"), timeline);
        let sampled = Sampled::of(&samples, (at * 500_000_000, 20_000_000_000), Some(7));
        let text = serde_json::to_string(&sampled).expect("it can be written");
        prop_assert_eq!(serde_json::from_str::<Option<Sampled>>(&text).expect("it can be read"), sampled);
    }
}
