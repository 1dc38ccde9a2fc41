//! The error of a client's figures against what the server did.
//!
//! Invariant: every error is of one request against the server's own log of that request, ticks of one clock; the floor
//! is judged by the same log.

use super::client::{Load, Outcome, Row};
use super::paced::{Pace, Paced, Truth};
use super::summary::{Rounds, nearest_rank, one_decimal, quantile, signed_percent, two_decimals};
use super::table::Line;
use super::throughput::show;
use super::{Report, Stage};
use anyhow::{Result, bail};
use std::collections::HashMap;

const MILLISECOND: u64 = 1_000_000;
/// 50 tok/s, one token at a time.
const GAP_NS: u64 = 20 * MILLISECOND;

/// One load on the paced server.
struct Scene {
    name: &'static str,
    pace: Pace,
    streams: usize,
    warmup: u64,
    requests: u64,
    tls: bool,
}

/// 50 streams, true TTFT 200 ms.
pub fn ttft_50(stage: &Stage) -> Result<Report> {
    fifty(stage, "50 streams, true 200 ms", false)
}

/// The same over TLS: bytes are stamped before they are decrypted, so no later.
pub fn ttft_50_tls(stage: &Stage) -> Result<Report> {
    fifty(stage, "50 streams over TLS, true 200 ms", true)
}

fn fifty(stage: &Stage, name: &'static str, tls: bool) -> Result<Report> {
    let pace = Pace { ttft_ns: 200 * MILLISECOND, gap_ns: GAP_NS, events: 20, spread: 8, tokens_per_event: 1 };
    let scene = Scene { name, pace, streams: 50, warmup: 50, requests: 700, tls };
    let compared = compare(stage, &scene)?;
    let lines = vec![
        ttft_line(&scene, &compared, "p50", 0.5, Some(0.001)),
        ttft_line(&scene, &compared, "p99", 0.99, Some(0.005)),
    ];
    Ok(compared.report(&scene, lines))
}

/// Output speed with one token in an event.
pub fn speed_1(stage: &Stage) -> Result<Report> {
    let pace = Pace { ttft_ns: 50 * MILLISECOND, gap_ns: GAP_NS, events: 60, spread: 40, tokens_per_event: 1 };
    let scene =
        Scene { name: "50 streams, 1 token an event", pace, streams: 50, warmup: 50, requests: 150, tls: false };
    let compared = compare(stage, &scene)?;
    let lines = speed_lines(&scene, &compared, 0.0005);
    Ok(compared.report(&scene, lines))
}

/// Output speed with four tokens in an event.
pub fn speed_4(stage: &Stage) -> Result<Report> {
    let pace = Pace { ttft_ns: 50 * MILLISECOND, gap_ns: 4 * GAP_NS, events: 20, spread: 10, tokens_per_event: 4 };
    let scene =
        Scene { name: "50 streams, 4 tokens an event", pace, streams: 50, warmup: 50, requests: 150, tls: false };
    let compared = compare(stage, &scene)?;
    let lines = speed_lines(&scene, &compared, 0.001);
    Ok(compared.report(&scene, lines))
}

/// 400 streams of 50 tok/s.
pub fn ttft_400(stage: &Stage) -> Result<Report> {
    crowd(stage, "400 streams of 50 tok/s, true 100 ms", 400, 0.01)
}

/// 800 streams of 50 tok/s.
pub fn ttft_800(stage: &Stage) -> Result<Report> {
    crowd(stage, "800 streams of 50 tok/s, true 100 ms", 800, 0.05)
}

fn crowd(stage: &Stage, name: &'static str, streams: usize, bar: f64) -> Result<Report> {
    let pace = Pace { ttft_ns: 100 * MILLISECOND, gap_ns: GAP_NS, events: 80, spread: 60, tokens_per_event: 1 };
    let count = streams as u64;
    let scene = Scene { name, pace, streams, warmup: count, requests: 2 * count, tls: false };
    let compared = compare(stage, &scene)?;
    let mut lines =
        vec![ttft_line(&scene, &compared, "p50", 0.5, Some(bar)), ttft_line(&scene, &compared, "p99", 0.99, None)];
    lines.push(gap_line(&scene, &compared, streams >= 800));
    Ok(compared.report(&scene, lines))
}

/// What the rounds of both clients gave.
#[derive(Default)]
struct Compared {
    floor: Vec<Judged>,
    tokrate: Vec<Judged>,
    notes: Vec<String>,
}

/// One run held against its log.
struct Judged {
    /// (TTFT as measured - true TTFT) / true TTFT, of each request.
    ttft_errors: Vec<f64>,
    /// First text as stamped - tick of its write (ns).
    arrival_delays: Vec<f64>,
    /// (output speed as stated - true speed) / true speed.
    speed_errors: Vec<f64>,
    /// 99th percentile of the gaps as the client states it and as the log has it (ns).
    gap_p99: Option<f64>,
    true_gap_p99: Option<f64>,
    late_mean: f64,
    late_most: f64,
    /// CPU time of the client, whole process, per event that was written (ns).
    cpu_per_event: f64,
}

fn compare(stage: &Stage, scene: &Scene) -> Result<Compared> {
    let mut compared = Compared::default();
    for round in 0..stage.rounds {
        let judged = run(stage, scene, |load| stage.clients.floor(load), &mut compared.notes)?;
        stage.print_progress(round, &format!("{}: floor {}", scene.name, judged.summary()));
        compared.floor.push(judged);
        if stage.floor_only {
            continue;
        }
        let judged = run(stage, scene, |load| stage.clients.tokrate(load), &mut compared.notes)?;
        stage.print_progress(round, &format!("{}: tokrate {}", scene.name, judged.summary()));
        compared.tokrate.push(judged);
    }
    Ok(compared)
}

fn run(
    stage: &Stage,
    scene: &Scene,
    client: impl Fn(&Load) -> Result<Outcome>,
    notes: &mut Vec<String>,
) -> Result<Judged> {
    let server = Paced::start(scene.pace, scene.tls.then_some(&stage.clients.tls))?;
    let load = Load {
        address: server.address,
        concurrency: scene.streams,
        requests: scene.requests,
        warmup: scene.warmup,
        tls: scene.tls,
        dialect: None,
    };
    let outcome = client(&load)?;
    let truths = server.finish()?;
    let (failed, kind) = outcome.failed();
    if failed > 0 {
        notes.push(format!("{}: {failed} requests failed, the first as {kind:?}", scene.name));
    }
    judge(scene, &outcome, &truths, notes)
}

fn judge(scene: &Scene, outcome: &Outcome, truths: &[Truth], notes: &mut Vec<String>) -> Result<Judged> {
    let by_index: HashMap<u64, &Truth> = truths.iter().filter_map(|truth| Some((truth.index?, truth))).collect();
    let measured: Vec<(&Row, &Truth)> = outcome
        .rows
        .iter()
        .filter(|row| row.index >= scene.warmup && row.failure.is_none())
        .filter_map(|row| Some((row, *by_index.get(&row.index)?)))
        .filter(|(_, truth)| truth.complete && truth.writes.len() > 1)
        .collect();
    if measured.is_empty() {
        bail!("compare with the truth: no measured request is in the server's record");
    }
    let per_event = u64::from(scene.pace.tokens_per_event);
    let miscounted = measured
        .iter()
        .filter(|(row, truth)| row.tokens.is_some_and(|tokens| tokens != truth.writes.len() as u64 * per_event));
    let miscounted = miscounted.count();
    if miscounted > 0 {
        notes.push(format!("{}: {miscounted} of {} requests have a wrong token count", scene.name, measured.len()));
    }
    let mut true_gaps: Vec<u64> =
        measured.iter().flat_map(|(_, truth)| truth.writes.windows(2).map(|pair| pair[1] - pair[0])).collect();
    true_gaps.sort_unstable();
    let writes: u64 = truths.iter().map(|truth| truth.writes.len() as u64).sum();
    Ok(Judged {
        ttft_errors: measured.iter().filter_map(|(row, truth)| ttft_error(row, truth)).collect(),
        arrival_delays: measured
            .iter()
            .filter_map(|(row, truth)| Some(row.first_text_at? as f64 - truth.writes[0] as f64))
            .collect(),
        speed_errors: measured.iter().filter_map(|(row, truth)| speed_error(row, truth, per_event)).collect(),
        gap_p99: outcome.gap_p99_ns,
        true_gap_p99: nearest_rank(&true_gaps, 0.99).map(|gap| gap as f64),
        late_mean: truths.iter().map(|truth| truth.late_sum).sum::<u64>() as f64 / writes.max(1) as f64,
        late_most: truths.iter().map(|truth| truth.late_most).max().unwrap_or(0) as f64,
        cpu_per_event: outcome.cost.cpu_ns as f64 / writes.max(1) as f64,
    })
}

fn ttft_error(row: &Row, truth: &Truth) -> Option<f64> {
    let measured = row.first_text_at?.checked_sub(row.sent_at?)? as f64;
    let true_ttft = (truth.writes[0] - truth.read_at) as f64;
    Some((measured - true_ttft) / true_ttft)
}

/// The error of the speed that the client states; of a client that states none, of what its stamps say.
fn speed_error(row: &Row, truth: &Truth, per_event: u64) -> Option<f64> {
    let tokens = ((truth.writes.len() as u64 - 1) * per_event) as f64;
    let (first, last) = (truth.writes.first()?, truth.writes.last()?);
    let true_speed = tokens / ((last - first) as f64 / 1e9);
    let from_stamps = || Some(tokens / ((row.last_text_at?.checked_sub(row.first_text_at?)?) as f64 / 1e9));
    let speed = if row.tokens.is_some() { row.output_speed } else { from_stamps() }?;
    Some((speed - true_speed) / true_speed)
}

impl Judged {
    fn summary(&self) -> String {
        let percent = |errors: &[f64], level| quantile(errors.to_vec(), level).map_or("-".to_owned(), signed_percent);
        format!(
            "TTFT error p50 {} p99 {}, speed error p50 {}, gap p99 {:.2} ms (true {:.2} ms), server late {:.0} µs mean, {:.1} ms most, client CPU {:.1} µs per event",
            percent(&self.ttft_errors, 0.5),
            percent(&self.ttft_errors, 0.99),
            percent(&self.speed_errors, 0.5),
            self.gap_p99.unwrap_or(f64::NAN) / 1e6,
            self.true_gap_p99.unwrap_or(f64::NAN) / 1e6,
            self.late_mean / 1e3,
            self.late_most / 1e6,
            self.cpu_per_event / 1e3,
        )
    }
}

impl Compared {
    fn report(self, scene: &Scene, lines: Vec<Line>) -> Report {
        let mut notes = self.notes.clone();
        let judged = || self.tokrate.iter().chain(&self.floor);
        let late = Rounds::of(judged().map(|judged| judged.late_mean / 1e3).collect());
        if let Some(late) = late {
            let most = judged().map(|judged| judged.late_most / 1e6).fold(0.0, f64::max);
            notes.push(format!(
                "{}: the server wrote {} µs after the due tick on average, {most:.1} ms at most (the truth is the write)",
                scene.name,
                late.show(one_decimal)
            ));
        }
        Report { lines, notes }
    }
}

/// A quantile of each round's samples, over the rounds.
fn over_rounds(judged: &[Judged], samples: fn(&Judged) -> &Vec<f64>, level: f64) -> Option<Rounds> {
    Rounds::of(judged.iter().filter_map(|judged| quantile(samples(judged).clone(), level)).collect())
}

fn ttft_line(scene: &Scene, compared: &Compared, name: &str, level: f64, bar: Option<f64>) -> Line {
    let errors = |judged: &Judged| -> Option<f64> { quantile(judged.ttft_errors.clone(), level) };
    let floor = Rounds::of(compared.floor.iter().filter_map(errors).collect());
    let tokrate = Rounds::of(compared.tokrate.iter().filter_map(errors).collect());
    let delays = |judged: &[Judged]| over_rounds(judged, |judged| &judged.arrival_delays, level);
    let micros =
        |rounds: Option<Rounds>| rounds.map_or("-".to_owned(), |rounds| format!("{:.0} µs", rounds.median / 1e3));
    Line {
        what: format!("TTFT error {name}, {}", scene.name),
        floor: show(floor, signed_percent),
        tokrate: show(tokrate, signed_percent),
        against: format!(
            "write to stamp {} against {}",
            micros(delays(&compared.tokrate)),
            micros(delays(&compared.floor))
        ),
        bar: bar.map_or("-".to_owned(), |bar| format!("≤ {:+} %", bar * 100.0)),
        met: bar.zip(tokrate).map(|(bar, error)| error.median.abs() <= bar),
    }
}

fn speed_lines(scene: &Scene, compared: &Compared, bar: f64) -> Vec<Line> {
    let of = |judged: &[Judged], level| over_rounds(judged, |judged| &judged.speed_errors, level);
    let sizes = |judged: &Judged| quantile(judged.speed_errors.iter().map(|error| error.abs()).collect(), 0.99);
    let worst = |judged: &[Judged]| Rounds::of(judged.iter().filter_map(sizes).collect());
    let tokrate = of(&compared.tokrate, 0.5);
    vec![
        Line {
            what: format!("output_speed error p50, {}", scene.name),
            floor: show(of(&compared.floor, 0.5), signed_percent),
            tokrate: show(tokrate, signed_percent),
            against: "-".to_owned(),
            bar: format!("≤ {} %", bar * 100.0),
            met: tokrate.map(|error| error.median.abs() <= bar),
        },
        Line {
            what: format!("size of the output_speed error p99, {}", scene.name),
            floor: show(worst(&compared.floor), signed_percent),
            tokrate: show(worst(&compared.tokrate), signed_percent),
            against: "-".to_owned(),
            bar: "-".to_owned(),
            met: None,
        },
    ]
}

fn gap_line(scene: &Scene, compared: &Compared, has_bar: bool) -> Line {
    let millis = |judged: &[Judged], gap: fn(&Judged) -> Option<f64>| {
        Rounds::of(judged.iter().filter_map(gap).map(|gap| gap / 1e6).collect())
    };
    let truth = |judged: &[Judged]| millis(judged, |judged| judged.true_gap_p99);
    let tokrate = millis(&compared.tokrate, |judged| judged.gap_p99);
    let true_gap = |rounds: Option<Rounds>| rounds.map_or("-".to_owned(), |rounds| two_decimals(rounds.median));
    Line {
        what: format!("gap p99 (ms), {}", scene.name),
        floor: show(millis(&compared.floor, |judged| judged.gap_p99), two_decimals),
        tokrate: show(tokrate, two_decimals),
        against: format!("true {}, floor's {}", true_gap(truth(&compared.tokrate)), true_gap(truth(&compared.floor))),
        bar: if has_bar { "≤ 21.5" } else { "-" }.to_owned(),
        met: if has_bar { tokrate.map(|gap| gap.median <= 21.5) } else { None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_those_of_the_client_against_the_log() {
        let truth = Truth {
            index: Some(7),
            read_at: 1_000_000,
            writes: vec![201_000_000, 221_000_000, 241_000_000],
            late_sum: 0,
            late_most: 0,
            complete: true,
        };
        let row = Row {
            index: 7,
            sent_at: Some(900_000),
            first_text_at: Some(201_100_000),
            last_text_at: Some(241_500_000),
            finished_at: 241_500_000,
            events: 3,
            tokens: None,
            output_speed: None,
            failure: None,
        };
        // 200.2 ms for 200 ms.
        assert!((ttft_error(&row, &truth).expect("both known") - 0.001).abs() < 1e-12);
        // 40.4 ms for 40 ms, from the stamps; then what the client says itself.
        let speed = speed_error(&row, &truth, 4).expect("both known");
        assert!((speed - (40.0 / 40.4 - 1.0)).abs() < 1e-12, "{speed}");
        let stated = Row { tokens: Some(12), output_speed: Some(202.0), ..row };
        assert!((speed_error(&stated, &truth, 4).expect("both known") - 0.01).abs() < 1e-12);
    }
}
