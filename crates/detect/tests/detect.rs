//! Planted changes are found where they are, nothing is found where there are none, and no input breaks the detector.

#![allow(clippy::unwrap_used, missing_docs)]

use proptest::prelude::*;
use tokrate_core::Rng;
use tokrate_detect::{ChangeKind, Detector, Event, FalseAlarms, Sample, Source};

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

fn source(endpoint: &str) -> Source {
    Source { endpoint: endpoint.to_owned(), workload: "1k".to_owned(), place: "here".to_owned() }
}

/// Eight samples a day of a speed around 100 and a time around 400 ms, with a daily cycle; `alter` changes a sample.
fn days(endpoint: &str, days: i64, seed: u64, alter: impl Fn(&mut Sample)) -> Vec<Sample> {
    let mut rng = Rng::root(seed).child(endpoint);
    let samples = (0..days * 8).map(|slot| {
        let at = slot * 3 * HOUR_MS + (rng.unit() * 2.0 * HOUR_MS as f64) as i64;
        let angle = std::f64::consts::TAU * at.rem_euclid(DAY_MS) as f64 / DAY_MS as f64;
        let cycle = 1.0 + 0.3 * angle.cos();
        let mut value = || (0.15 * rng.normal()).exp();
        let (speed, ttft) = (100.0 * cycle * value(), 400.0 / cycle * value());
        let mut sample = Sample {
            at,
            source: source(endpoint),
            ttft_ms: Some(ttft),
            output_speed: Some(speed),
            e2e_ms: None,
            ok: true,
            in_flight: None,
            input_tokens: None,
        };
        alter(&mut sample);
        sample
    });
    samples.collect()
}

fn events(mut samples: Vec<Sample>) -> Vec<Event> {
    samples.sort_by_key(|sample| sample.at);
    let mut detector = Detector::new(FalseAlarms::default());
    let mut events: Vec<Event> = samples.into_iter().flat_map(|sample| detector.push(sample)).collect();
    events.extend(detector.end_hour());
    events
}

fn scale(value: &mut Option<f64>, factor: f64) {
    value.iter_mut().for_each(|value| *value *= factor);
}

#[test]
fn steady_endpoints_raise_few_events() {
    let found: usize = (0..40).map(|seed| events(days("a/m", 60, seed, |_| {})).len()).sum();
    // 80 endpoints of 30 days at 0.05 each are four.
    assert!(found <= 8, "{found} events in 80 months");
}

#[test]
fn a_drop_is_found_with_its_time_and_size() {
    let begins = 30 * DAY_MS;
    let (mut in_time, mut time_held, mut size_held) = (0, 0, 0);
    for seed in 0..40 {
        let samples = days("a/m", 45, 100 + seed, |sample| {
            if sample.at >= begins {
                scale(&mut sample.output_speed, 0.75);
            }
        });
        let found = events(samples)
            .into_iter()
            .find(|event| event.kind == ChangeKind::Regression && event.metric == "output_speed" && event.at >= begins);
        let Some(found) = found else { continue };
        in_time += usize::from(found.at < begins + 3 * DAY_MS);
        // A sample comes every three hours.
        time_held += usize::from(found.since_earliest <= begins + 3 * HOUR_MS && begins <= found.since_latest);
        size_held += usize::from(found.low <= -0.25 && -0.25 <= found.high);
    }
    // 95 % intervals after a choice of the most striking split hold a little less often than they say.
    assert!(in_time >= 39 && time_held >= 36 && size_held >= 36, "{in_time} {time_held} {size_held}");
}

#[test]
fn a_drop_that_goes_away_is_an_improvement() {
    let samples = days("a/m", 60, 7, |sample| {
        if (30 * DAY_MS..40 * DAY_MS).contains(&sample.at) {
            scale(&mut sample.output_speed, 0.5);
        }
    });
    let found: Vec<(ChangeKind, i64)> = events(samples)
        .iter()
        .filter(|event| event.metric == "output_speed")
        .map(|event| (event.kind, event.at / DAY_MS))
        .collect();
    assert!(
        matches!(found.as_slice(), [(ChangeKind::Regression, 30 | 31), (ChangeKind::Improvement, 40..=43)]),
        "{found:?}"
    );
}

#[test]
fn bad_evenings_are_one_change_of_the_cycle() {
    let samples = days("a/m", 60, 3, |sample| {
        let hour = sample.at.rem_euclid(DAY_MS) / HOUR_MS;
        if sample.at >= 30 * DAY_MS && (18..20).contains(&hour) {
            scale(&mut sample.ttft_ms, 2.0);
        }
    });
    let found: Vec<Event> = events(samples).into_iter().filter(|event| event.metric == "ttft_ms").collect();
    let kinds: Vec<ChangeKind> = found.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [ChangeKind::Cycle], "{found:?}");
}

#[test]
fn an_outage_and_its_end_are_one_event_each() {
    let samples = days("a/m", 40, 5, |sample| {
        if (30 * DAY_MS..32 * DAY_MS).contains(&sample.at) {
            (sample.ok, sample.ttft_ms, sample.output_speed) = (false, None, None);
        }
    });
    let found: Vec<(ChangeKind, &str)> = events(samples).iter().map(|event| (event.kind, event.metric)).collect();
    assert_eq!(found, [(ChangeKind::Errors, "errors"), (ChangeKind::Improvement, "errors")]);
}

#[test]
fn wider_scatter_is_no_change_of_the_level() {
    let samples = days("a/m", 60, 11, |sample| {
        if sample.at >= 30 * DAY_MS {
            let speed = sample.output_speed.unwrap();
            sample.output_speed = Some(100.0 * (speed / 100.0).powi(3));
        }
    });
    let found = events(samples);
    assert!(found.iter().any(|event| event.kind == ChangeKind::Spread && event.metric == "output_speed"), "{found:?}");
}

#[test]
fn a_fault_of_the_prober_is_no_regression_of_anybody() {
    let fault = 30 * DAY_MS..30 * DAY_MS + 9 * HOUR_MS;
    let samples = ["a/m", "b/m", "c/m", "d/m"].iter().flat_map(|endpoint| {
        days(endpoint, 40, 13, |sample| {
            // All of a cycle within the same hour.
            sample.at -= sample.at.rem_euclid(3 * HOUR_MS) - sample.at.rem_euclid(HOUR_MS) / 2;
            if fault.contains(&sample.at) {
                scale(&mut sample.ttft_ms, 6.0);
            }
        })
    });
    let found: Vec<(ChangeKind, String)> =
        events(samples.collect()).iter().map(|event| (event.kind, event.source.endpoint.clone())).collect();
    assert!(
        !found.is_empty() && found.iter().all(|(kind, at)| *kind == ChangeKind::Quarantine && at == "*"),
        "{found:?}"
    );
    assert!(found.len() <= 3, "{found:?}");
}

#[test]
fn single_failures_of_many_new_endpoints_are_no_fault_of_the_prober() {
    let mut rng = Rng::root(9);
    let mut samples = Vec::new();
    for endpoint in 0..150 {
        let of_endpoint = days(&format!("p{endpoint}/m"), 8, 9, |_| {});
        samples.extend(of_endpoint.into_iter().map(|sample| Sample { ok: !rng.chance(0.02), ..sample }));
    }
    assert_eq!(events(samples.clone()).len(), 0, "nothing is usual of them yet");
    // Not even of new endpoints does nearly every request fail by itself.
    let fails = |sample: &Sample| (3 * DAY_MS..3 * DAY_MS + 2 * HOUR_MS).contains(&sample.at);
    samples.iter_mut().filter(|sample| fails(sample)).for_each(|sample| sample.ok = false);
    let found = events(samples);
    assert!(found.len() == 1 && found[0].kind == ChangeKind::Quarantine, "{found:?}");
}

#[test]
fn a_crowded_source_is_followed_in_bounded_work() {
    // One sample in 20 s for 23 days took minutes when each looked at all that stood before it.
    let mut rng = Rng::root(17);
    let samples = (0..100_000).map(|nth| Sample {
        at: nth * 20_000,
        source: source("a/m"),
        ttft_ms: None,
        output_speed: Some((0.15 * rng.normal()).exp() * if nth >= 70_000 { 80.0 } else { 100.0 }),
        e2e_ms: None,
        ok: true,
        in_flight: None,
        input_tokens: None,
    });
    let found = events(samples.collect());
    let regressions = found.iter().filter(|event| event.kind == ChangeKind::Regression).collect::<Vec<_>>();
    assert!(matches!(regressions.as_slice(), [one] if one.at < 70_100 * 20_000), "{found:?}");
}

#[test]
fn a_line_is_a_sample_or_says_why_not() {
    let sample =
        Sample::parse(r#"{"at":"1970-01-01T00:00:01Z","endpoint":"a/m","ttft_ms":0,"output_speed":12.5,"extra":[1]}"#);
    let expected = Sample {
        at: 1_000,
        source: Source { endpoint: "a/m".to_owned(), workload: String::new(), place: String::new() },
        ttft_ms: None,
        output_speed: Some(12.5),
        e2e_ms: None,
        ok: true,
        in_flight: None,
        input_tokens: None,
    };
    assert_eq!(sample, Ok(expected));
    let failed = Sample::parse(r#"{"at":"1970-01-01T00:00:01Z","endpoint":"a","error":"timeout"}"#);
    assert!(!failed.unwrap().ok, "an error is a failure where `ok` is missing");
    for (line, why) in [
        ("[]", "a sample is a JSON object"),
        (r#"{"endpoint":"a"}"#, "missing field `at`"),
        (r#"{"at":"yesterday","endpoint":"a"}"#, "`at` is \"yesterday\"; a time is written as 2026-11-24T10:00:00Z"),
        (r#"{"at":"2026-11-24T10:00:00Z","endpoint":""}"#, "`endpoint` is empty"),
    ] {
        assert_eq!(Sample::parse(line), Err(why.to_owned()), "{line}");
    }
    assert_eq!(
        Sample::parse(&format!(r#"{{"at":"1970-01-01T00:00:01Z","endpoint":"{}"}}"#, "é".repeat(10_000)))
            .unwrap()
            .source
            .endpoint
            .len(),
        256
    );
}

proptest! {
    #[test]
    fn no_line_breaks_the_reader(line in ".{0,200}") {
        let _ = Sample::parse(&line);
        let _ = Sample::parse(&format!("{{\"at\":{line:?},\"endpoint\":\"x\"}}"));
    }

    #[test]
    fn whatever_comes_events_are_finite_and_in_order(
        rows in prop::collection::vec((0_i64..200 * DAY_MS, 0_usize..4, prop_oneof![Just(1e-300), Just(1e300), 0.1..1e4_f64], any::<bool>()), 0..400),
    ) {
        let names = ["a/m", "b/m", "c/m", "d/m"];
        let samples = rows.iter().map(|(at, name, value, ok)| Sample {
            at: *at,
            source: source(names[*name]),
            ttft_ms: Some(*value),
            output_speed: (value * 7.0).is_finite().then_some(value * 7.0),
            e2e_ms: Some(*value),
            ok: *ok,
            in_flight: None,
            input_tokens: None,
        });
        for event in events(samples.collect()) {
            prop_assert!(event.change.is_finite() && event.low.is_finite() && event.high.is_finite() && (0.0..=1.0).contains(&event.p), "{event:?}");
            prop_assert!(event.since_earliest <= event.since && event.since <= event.since_latest && event.since <= event.at, "{event:?}");
        }
    }
}
