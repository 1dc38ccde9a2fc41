//! What a run comes to in a few lines: how fast, up to which load, how sure, what limits.
//!
//! It does not judge anew: every number is in the record. Invariant: a figure that is not there says why.

use std::collections::BTreeSet;
use tokrate_bench::report::{agent_sentence, capacity_sentences, shows, sign_sentences};
use tokrate_charts::format::{number, usd};
use tokrate_record::run::{BatchSummary, Rounds, by_load, by_rising_load, most_throughput};
use tokrate_record::{LimitedBy, Metric, PhaseSource, Record};
use tokrate_stats::Quantile;

/// The lines, each with its label. A line that goes on under the same label has an empty one.
pub fn lines(record: &Record) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(search) = &record.search {
        lines.push(("Found", search.sentence.clone()));
    }
    if let Some(until) = &record.until {
        lines.extend(labelled("Asked", until.sentences().map(str::to_owned).collect()));
    }
    let loads = by_load(&record.phases);
    let measured: Vec<&Rounds<'_>> =
        loads.iter().filter(|load| load.count(|phase| phase.counts.answered) > 0).collect();
    let Some(first) = measured.first() else { return lines };
    let n = first.count(|phase| phase.counts.measured);
    lines.push(("How fast", format!("{} ({}, n = {n})", at(first), first.name())));
    lines.extend(labelled("Sessions", measured.iter().filter_map(|load| agent_sentence(load)).collect()));
    lines.extend(most(&measured).map(|most| ("Most", most)));
    if let Some(curve) = &record.curve {
        lines.extend(labelled("Carries", capacity_sentences(curve)));
        lines.extend(labelled("Limits", sign_sentences(curve).into_iter().take(2).collect()));
    }
    lines.extend(labelled("Limit", limits(record)));
    lines.push(("How sure", certainty(&measured)));
    if let Some(spending) = record.spending.filter(|spending| spending.usd > 0.0) {
        lines.push(("Cost", format!("${} in all", usd(spending.usd, 6))));
    }
    lines
}

/// What limits, each once, at the first level at which it does. The client's own limits stand above everything else.
fn limits(record: &Record) -> Vec<String> {
    let mut known = Vec::new();
    let mut sentences = Vec::new();
    for phase in by_rising_load(&record.phases) {
        let Some(limit) = phase.limit.as_ref().filter(|limit| limit.by != LimitedBy::Client) else { continue };
        if !known.contains(&limit.by) {
            known.push(limit.by);
            sentences.push(format!("at {}: {}", phase.name, limit.sentence));
        }
    }
    sentences
}

/// The least load with the most tokens per second in all, if there are several; a figure that is mostly chance leads to nothing.
fn most(measured: &[&Rounds<'_>]) -> Option<String> {
    if measured.len() > 1 && measured.iter().any(|load| load.has_items()) {
        let rate = |load: &Rounds<'_>| load.item_throughput().unwrap_or(0.0);
        let most = measured.iter().copied().max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
        return Some(format!("{} items a second at {}: {}", number(rate(most)), most.name(), at(most)));
    }
    if measured.len() > 1 && measured.iter().any(|load| load.has_audio()) {
        let rate = |load: &Rounds<'_>| load.audio_throughput().unwrap_or(0.0);
        let most = measured.iter().copied().max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
        return Some(format!("{} s of sound a second at {}: {}", number(rate(most)), most.name(), at(most)));
    }
    let throughput = |load: &Rounds<'_>| load.throughput().unwrap_or(0.0);
    if measured.len() < 2 || measured.iter().all(|load| throughput(load) <= 0.0) {
        return None;
    }
    let Some(most) = most_throughput(measured.iter().copied()) else {
        return Some("no level ran long enough to state tok/s in all; give more --duration or --requests".to_owned());
    };
    let p95 = most.times(Metric::Ttft).and_then(|ttft| value(&ttft.p95));
    let p95 = p95.map_or_else(String::new, |p95| format!("; TTFT p95 {p95} ms"));
    Some(format!("{} tok/s in all at {}: {}{p95}", number(throughput(most)), most.name(), at(most)))
}

fn labelled(label: &'static str, texts: Vec<String>) -> impl Iterator<Item = (&'static str, String)> {
    texts.into_iter().enumerate().map(move |(place, text)| (if place == 0 { label } else { "" }, text))
}

/// Speed and time to first token of a load.
fn at(load: &Rounds<'_>) -> String {
    let median = |metric| load.times(metric).and_then(|times| value(&times.p50));
    if load.has_items() {
        let time = |metric| median(metric).map_or_else(|| without(load, metric), |time| format!("{time} ms"));
        if let Some(batches) = load.phases.iter().find_map(|phase| phase.batches()) {
            return batch(load, batches);
        }
        let item = if load.phases.iter().any(|phase| phase.conditions.task == "images") { "image" } else { "item" };
        let (whole, each) = (time(Metric::E2e), time(Metric::TimePerItem));
        return format!("an answer after {whole}, {each} an {item}{}", media(load));
    }
    if load.has_audio() {
        return of_sound(load);
    }
    let (of, n) = (load.with_speed(), load.count(|phase| phase.counts.measured));
    let has_speed = load.output_speed().is_some_and(|median| value(&median).is_some());
    let speed = match (load.output_speed().and_then(|median| value(&median)), of < n) {
        (Some(speed), false) => format!("{speed} tok/s a request"),
        (Some(speed), true) => format!("{speed} tok/s a request (of {of} answers)"),
        (None, _) => without(load, Metric::OutputSpeed),
    };
    let first = match (median(Metric::Ttft), median(Metric::E2e)) {
        (Some(ttft), _) => format!("first token after {ttft} ms"),
        // Both are missing for the same reason; what is known comes first.
        (None, Some(e2e)) if !has_speed => {
            let why = load.missing_reason(Metric::OutputSpeed).map_or_else(String::new, |why| format!(": {why}"));
            return format!("whole answer after {e2e} ms; no output speed and no time to first token{why}");
        }
        (None, Some(e2e)) => format!("{}; whole answer after {e2e} ms", without(load, Metric::Ttft)),
        (None, None) => without(load, Metric::Ttft),
    };
    // Reasons have commas and brackets of their own.
    format!("{speed}{} {first}{}{}{}", if has_speed { "," } else { ";" }, cold(load), valid(load), media(load))
}

/// What the first token takes where every request opens its connection.
fn cold(load: &Rounds<'_>) -> String {
    let median = load.times(Metric::ColdTtft).filter(|_| load.opens_connections()).and_then(|times| value(&times.p50));
    median.map_or_else(String::new, |median| format!(", {median} ms with a new connection"))
}

/// When the first of an answer came, how fast all of it was against its sound, and where a player ran dry.
fn of_sound(load: &Rounds<'_>) -> String {
    let median = |metric| load.times(metric).and_then(|times| value(&times.p50));
    let first = |name: &str, metric| median(metric).map(|time| format!("{name} after {time} ms"));
    let factor = median(Metric::RealTimeFactor);
    let factor =
        factor.map_or_else(|| without(load, Metric::RealTimeFactor), |factor| format!("real-time factor {factor}"));
    let of = load.count(|phase| phase.audio.with_length());
    let stalled = load.count(|phase| phase.audio.stalled_answers);
    let stalled = (stalled > 0).then(|| format!("{stalled} of {of} answers stall a player"));
    let (words, errors) = (load.count(|phase| phase.audio.words), load.count(|phase| phase.audio.word_errors));
    let errors = (words > 0).then(|| format!("word error rate {} %", number(100.0 * errors as f64 / words as f64)));
    let parts = [
        first("first text", Metric::Ttft),
        first("first audio", Metric::TimeToFirstAudio),
        first("whole answer", Metric::E2e),
        Some(factor),
        stalled,
        errors,
    ];
    parts.into_iter().flatten().collect::<Vec<String>>().join(", ")
}

/// When answers that were to be calls or JSON were whole, and how many of them were valid.
fn valid(load: &Rounds<'_>) -> String {
    let Some((n, valid)) = load.valid() else { return String::new() };
    let whole = load.times(Metric::TimeToValid).and_then(|times| value(&times.p50));
    let whole = whole.map_or_else(String::new, |whole| format!(", a valid whole after {whole} ms"));
    format!("{whole}; {valid} of {n} valid")
}

/// When a batch was done, how sure that is, and how much it was a second.
fn batch(load: &Rounds<'_>, batches: &BatchSummary) -> String {
    let done = load.times(Metric::E2e).and_then(|times| value(&times.p50));
    let done = done.map_or_else(|| without(load, Metric::E2e), |done| format!("a batch done after {done} ms"));
    let late =
        batches.late_at_most.max.map_or_else(String::new, |late| format!(", seen at most {} ms late", number(late)));
    let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), number);
    let (requests, tokens) = (rate(batches.requests_per_second), rate(batches.output_tokens_per_second));
    let failed = batches.requests - batches.succeeded;
    format!("{done}{late}; {requests} requests/s, {tokens} tok/s out; {failed} of {} requests failed", batches.requests)
}

/// How many pictures requests brought, where they brought any. The size of pictures that are only linked is not known.
fn media(load: &Rounds<'_>) -> String {
    let rate = |metric: Metric| match metric.row().of_phase {
        PhaseSource::Rate(of) => load.rate(of),
        _ => None,
    };
    let Some(images) = rate(Metric::ImageThroughput) else { return String::new() };
    let pixels = rate(Metric::MegapixelThroughput);
    let pixels = pixels.map_or_else(String::new, |pixels| format!(" ({} megapixels)", number(pixels)));
    format!("; {} images a second{pixels}", number(images))
}

/// That a figure is not there, and why.
fn without(load: &Rounds<'_>, metric: Metric) -> String {
    let why = load.missing_reason(metric).map_or_else(String::new, |why| format!(": {why}"));
    format!("no {}{why}", metric.row().words)
}

/// A number with its interval; `~` before one that describes too few samples.
fn value(quantile: &Quantile) -> Option<String> {
    match (quantile.value, quantile.low.zip(quantile.high), quantile.descriptive) {
        (Some(value), Some((low, high)), _) => Some(format!("{} [{}..{}]", number(value), number(low), number(high))),
        (Some(value), None, _) => Some(number(value)),
        (None, _, Some(value)) => Some(format!("~{}", number(value))),
        (None, _, None) => None,
    }
}

/// How many requests stand behind the numbers and what the client adds to them.
fn certainty(measured: &[&Rounds<'_>]) -> String {
    let counts = || measured.iter().map(|load| load.count(|phase| phase.counts.measured));
    let phases = || measured.iter().flat_map(|load| &load.phases);
    let (least, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
    let n = if least == most { format!("n = {least}") } else { format!("n = {least} to {most} a level") };
    let worst = |of: fn(&tokrate_meter::ClientError) -> Option<f64>| {
        phases().filter_map(|phase| of(phase.client_error.as_ref()?)).max_by(f64::total_cmp)
    };
    let ttft = worst(|error| Some(error.ttft_added_p50_ns? as f64 / 1e6));
    let gap = worst(|error| Some(error.gap_added_p50_ns? as f64 / 1e6));
    let client = match ttft.zip(gap) {
        Some((ttft, gap)) => format!("; the client adds up to {ttft:.2} ms to TTFT and {gap:.3} ms to gaps (medians)"),
        None => "; the client's own error is not known".to_owned(),
    };
    let invalid: Vec<String> = measured.iter().filter_map(|load| not_valid(load)).collect();
    let invalid = if invalid.is_empty() { String::new() } else { format!("; NOT VALID: {}", invalid.join("; ")) };
    format!("[a..b] are 95 % intervals, ~ is too few to state one; {n}{client}{invalid}")
}

/// The figures of a load that the lines or the table below them show and that are not valid.
fn not_valid(load: &Rounds<'_>) -> Option<String> {
    let invalid = load.phases.iter().flat_map(|phase| &phase.client_error).flat_map(|error| error.invalid());
    let names: BTreeSet<&str> = invalid.filter(|figure| shows(figure)).map(|figure| figure.figure.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let contradictory = load.phases.iter().any(|phase| !phase.gate.is_empty());
    match (contradictory, names.is_empty()) {
        (true, _) => Some(format!("all of {}", load.name())),
        (false, true) => None,
        (false, false) => Some(format!("{} at {}", names.join(", "), load.name())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_record::run::Load;

    fn record() -> Record {
        Record::parse(include_str!("testdata/record.json")).expect("a record")
    }

    #[test]
    fn how_fast_is_told_of_the_lowest_load_in_whatever_order_loads_were_typed() {
        let mut record = record();
        let in_order = lines(&record);
        record.phases.reverse();
        let reversed = lines(&record);
        assert!(reversed[0].1.contains("(concurrency 2, n = 40)"), "{reversed:?}");
        assert_eq!(in_order[0], reversed[0]);
    }

    #[test]
    fn a_throughput_that_is_mostly_chance_does_not_lead() {
        let mut record = record();
        for (place, phase) in record.phases.iter_mut().enumerate() {
            phase.load = Load::Open { rate: 200.0 + place as f64, cap: None };
            phase.throughput.iter_mut().for_each(|window| window.parts = 1);
        }
        let most = lines(&record).into_iter().find(|(label, _)| *label == "Most").expect("there are several loads").1;
        assert!(most.starts_with("no level ran long enough to state tok/s in all"), "{most}");
        record.phases[0].throughput.iter_mut().for_each(|window| window.parts = 10);
        let most = lines(&record).into_iter().find(|(label, _)| *label == "Most").expect("there are several loads").1;
        assert!(most.contains("tok/s in all at concurrency 2"), "{most}");
    }
}
