//! The detector on the Turing Change Point Dataset (van den Burg and Williams 2020), scored as TCPDBench scores: F1 with a margin of five
//! observations, its recall averaged over annotators. `cargo run --release -p tokrate-detect --example tcpd FOLDER`, where FOLDER holds
//! `annotations.json` and a JSON file for each series, as github.com/alan-turing-institute/TCPD has them below `datasets` (`make export`).
//!
//! An observation stands for a sample, eight a day; its value is scaled to a spread of 0.15, as the detector looks at ratios. Series of several
//! dimensions are left out.
#![allow(clippy::print_stdout)]

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use tokrate_detect::{ChangeKind, Detector, Event, FalseAlarms, Sample, Source};

const SAMPLE_MS: i64 = 3 * 3_600_000;
const SPREAD: f64 = 0.15;
const MARGIN: usize = 5;
/// The bar of the segmentation, and the best published one of default settings, over all 42 series.
const LEAST: f64 = 0.72;

fn main() {
    let folder = std::env::args().nth(1).expect("the folder of the data set");
    let folder = Path::new(&folder);
    let read = |name: &str| -> Option<Value> {
        let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).ok()?;
        Some(serde_json::from_str(&text).expect("JSON"))
    };
    let annotations = read("annotations").expect("annotations.json");
    let (mut scores, mut nothing, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    for (name, by_annotator) in annotations.as_object().expect("an object") {
        let of = |value: &Value| -> BTreeSet<usize> {
            let places = value.as_array().into_iter().flatten();
            places.filter_map(|place| usize::try_from(place.as_u64()?).ok()).collect()
        };
        let truths: Vec<BTreeSet<usize>> =
            by_annotator.as_object().into_iter().flat_map(|all| all.values()).map(of).collect();
        let Some(values) = read(name).as_ref().and_then(values) else {
            left_out.push(name.as_str());
            continue;
        };
        let found = changes(&values);
        let score = f1(&truths, &found);
        println!("{name}: {} observations, {found:?}, F1 {score:.3}", values.len());
        scores.push(score);
        nothing.push(f1(&truths, &BTreeSet::new()));
    }
    let mean = |scores: &[f64]| scores.iter().sum::<f64>() / scores.len().max(1) as f64;
    println!("not there, or of several dimensions: {}", left_out.join(", "));
    println!("never an alarm: F1 {:.3} on these {} series", mean(&nothing), nothing.len());
    let figure = format!("{:.3} on {} of {} series", mean(&scores), scores.len(), scores.len() + left_out.len());
    let verdict = if mean(&scores) >= LEAST { "met" } else { "missed" };
    println!("BAR|Turing Change Point Dataset: F1 of the detector, default settings|>= {LEAST}|{figure}|{verdict}");
}

/// The observations of a series of one dimension; a missing one is like the one before.
fn values(series: &Value) -> Option<Vec<f64>> {
    let [only] = series["series"].as_array()?.as_slice() else { return None };
    let mut last = only["raw"].as_array()?.iter().find_map(Value::as_f64)?;
    let mut values = Vec::new();
    for value in only["raw"].as_array()? {
        last = value.as_f64().unwrap_or(last);
        values.push(last);
    }
    Some(values)
}

/// The first observations after the changes of the level that the detector reports.
fn changes(values: &[f64]) -> BTreeSet<usize> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let spread = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt();
    let mut detector = Detector::new(FalseAlarms::default());
    let source = Source { endpoint: "tcpd/series".to_owned(), workload: String::new(), place: String::new() };
    let mut events: Vec<Event> = Vec::new();
    for (place, value) in values.iter().enumerate() {
        let scaled = 100.0 * (SPREAD * (value - mean) / spread.max(f64::MIN_POSITIVE)).exp();
        events.extend(detector.push(Sample {
            at: place as i64 * SAMPLE_MS,
            source: source.clone(),
            ttft_ms: Some(scaled),
            output_speed: None,
            e2e_ms: None,
            ok: true,
            in_flight: None,
            input_tokens: None,
        }));
    }
    events.extend(detector.end_hour());
    let is_level = |event: &&Event| matches!(event.kind, ChangeKind::Regression | ChangeKind::Improvement);
    events.iter().filter(is_level).map(|event| usize::try_from(event.since / SAMPLE_MS).unwrap_or(0)).collect()
}

/// TCPDBench's F1: the first observation is a change of everyone's; precision is against what any annotator marked.
fn f1(truths: &[BTreeSet<usize>], found: &BTreeSet<usize>) -> f64 {
    let with_first = |places: &BTreeSet<usize>| -> BTreeSet<usize> { places.iter().copied().chain([0]).collect() };
    let found = with_first(found);
    let truths: Vec<BTreeSet<usize>> = truths.iter().map(with_first).collect();
    let any: BTreeSet<usize> = truths.iter().flatten().copied().collect();
    let precision = hits(&any, &found) as f64 / found.len() as f64;
    let recall = truths.iter().map(|truth| hits(truth, &found) as f64 / truth.len() as f64).sum::<f64>();
    let recall = recall / truths.len().max(1) as f64;
    if precision + recall > 0.0 { 2.0 * precision * recall / (precision + recall) } else { 0.0 }
}

/// How many places have a found one within the margin, each its own.
fn hits(truth: &BTreeSet<usize>, found: &BTreeSet<usize>) -> usize {
    let mut left = found.clone();
    let nearest = |place: usize, left: &BTreeSet<usize>| {
        left.iter()
            .copied()
            .filter(|other| other.abs_diff(place) <= MARGIN)
            .min_by_key(|other| (other.abs_diff(place), *other))
    };
    truth.iter().filter(|place| nearest(**place, &left).is_some_and(|other| left.remove(&other))).count()
}
