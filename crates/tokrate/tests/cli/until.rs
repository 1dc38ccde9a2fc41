//! Bounds of a run of the built binary, and `--until` beside them: a limit in dollars, a baseline, requests of a level.
//!
//! Invariant: the bound that comes first ends the run, and the exit code, the record and the page say which it was.

use crate::folder::Folder;
use crate::tool::{Finished, folded, run};
use tokrate_core::Span;
use tokrate_host::{Host, HostConfig, RunningHost};
use tokrate_record::{Record, Status, UntilEnd};
use tokrate_sim::Law;

/// An engine whose requests differ by a fifth, so that nothing is known of it at once.
fn engine(delay_ms: u64) -> RunningHost {
    engine_at(delay_ms, 2_000.0)
}

fn engine_at(delay_ms: u64, tokens_per_second: f64) -> RunningHost {
    let law = Law {
        slots: 8,
        base_delay: Span::from_millis(delay_ms),
        prefill_tokens_per_second: f64::INFINITY,
        stream_tokens_per_second: tokens_per_second,
        contention: 0.0,
        coherency: 0.0,
        ttft_jitter: 0.2,
        ..Law::default()
    };
    Host::start(HostConfig { law, ..HostConfig::default() }).expect("it starts")
}

/// A thousandth of a dollar for each token that comes back, so that a request of 20 costs two cents at most.
const PRICES: &str = "--price-input 0 --price-output 1000";

fn measure(folder: &Folder, hosts: &[&RunningHost], record: &str, more: &str) -> Finished {
    let targets: String = hosts.iter().map(|host| format!("vllm@{}/m ", host.address())).collect();
    let line = format!(
        "bench {targets} --input-tokens 20 --output-tokens 20 --ignore-eos --calibration off --no-probe --json {record}.json --html {record}.html {more}"
    );
    run(folder, &line.split_whitespace().collect::<Vec<&str>>())
}

fn record(folder: &Folder, name: &str) -> Record {
    Record::parse(&folder.read(&format!("{name}.json"))).unwrap_or_else(|error| panic!("failed to {error}"))
}

fn started(record: &Record) -> u64 {
    record.phases.iter().map(|phase| phase.counts.started).sum()
}

#[test]
fn a_limit_in_dollars_ends_a_run_before_its_figure_is_known_and_says_so() {
    let (folder, host) = (Folder::new("until-cost"), engine(5));
    let more = format!("{PRICES} --max-cost-usd 0.5 --until ttft_p50±0.1%");
    let finished = measure(&folder, &[&host], "run", &more);
    assert_eq!(finished.code, Some(3), "{finished:?}");
    let record = record(&folder, "run");
    let until = record.until.as_ref().expect("it was asked");
    assert_eq!((until.end, record.status), (UntilEnd::Cost, Status::Partial));
    let spending = record.spending.expect("prices were given");
    // 25 requests of 20 tokens.
    assert!(spending.usd <= 0.5 + 1e-9 && started(&record) == 25, "{spending:?}");
    let why =
        "stopped by --max-cost-usd 0.5: the next request might have cost more than was left; 0.500000 USD were spent";
    assert_eq!(record.reason.as_deref(), Some(why));
    let open = "not reached after";
    assert!(until.conditions[0].sentence.contains(open), "{:?}", until.conditions);
    for text in [folded(&finished.stdout), folder.read("run.html")] {
        assert!(text.contains("stopped by --max-cost-usd 0.5") && text.contains(open), "{text}");
    }
    host.stop();
}

#[test]
fn requests_of_a_level_end_a_run_whose_money_is_not_spent_and_the_forecast_holds() {
    let (folder, host) = (Folder::new("until-requests"), engine(5));
    let more = format!("{PRICES} --max-cost-usd 100 --max-requests 50 --until ttft_p50±0.1%");
    let planned = measure(&folder, &[&host], "none", &format!("{more} --dry-run"));
    assert_eq!(planned.code, Some(0), "{planned:?}");
    let finished = measure(&folder, &[&host], "run", &more);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    let record = record(&folder, "run");
    assert_eq!(record.until.as_ref().map(|until| until.end), Some(UntilEnd::Requests));
    assert_eq!((record.status, record.phases.len()), (Status::Complete, 8), "50 requests in rounds of seven");
    // Six rounds of seven and one to warm up, and two more: what the forecast has as the most.
    let spending = record.spending.expect("prices were given");
    assert_eq!(started(&record), 64);
    assert!((spending.usd - 1.28).abs() < 1e-9, "{spending:?}");
    let told = folded(&finished.stderr);
    for text in [&folded(&planned.stdout), &told] {
        assert!(text.contains("64") && text.contains("1.28"), "{text}");
    }
    assert!(told.contains("; the limits of the run leave 16 requests"), "{told}");
    host.stop();
}

#[test]
fn a_figure_that_is_known_ends_a_run_within_its_money() {
    let (folder, host) = (Folder::new("until-reached"), engine(5));
    let more = format!("{PRICES} --max-cost-usd 100 --until e2e_p50±95% --save-baseline base.json");
    let finished = measure(&folder, &[&host], "run", &more);
    assert_eq!(finished.code, Some(2), "its error would not be known: {finished:?}");
    let finished = measure(&folder, &[&host], "run", &more.replace("--save-baseline base.json", ""));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let record = record(&folder, "run");
    assert_eq!(record.until.as_ref().map(|until| until.end), Some(UntilEnd::Reached));
    assert_eq!((record.status, started(&record)), (Status::Complete, 48));
    host.stop();
}

#[test]
fn a_run_until_a_width_is_compared_with_its_baseline() {
    let folder = Folder::new("until-baseline");
    let (quick, slow) = (engine(10), engine(60));
    let width = "--until e2e_p50±95%";
    assert_eq!(measure(&folder, &[&quick], "base", width).code, Some(0));
    let against = format!("{width} --baseline base.json --ignore endpoint");
    let same = measure(&folder, &[&quick], "same", &against);
    assert_eq!(same.code, Some(0), "{same:?}");
    let worse = measure(&folder, &[&slow], "worse", &against);
    assert_eq!(worse.code, Some(1), "{worse:?}");
    assert!(folded(&worse.stdout).contains("Regression: TTFT at concurrency 1"), "{}", worse.stdout);
    assert_eq!(record(&folder, "worse").until.map(|until| until.end), Some(UntilEnd::Reached));
    // What the baseline has no level of, or other conditions, is refused before anything is sent.
    for (more, why) in [
        (format!("{against} -c 3"), "no load level in common"),
        (format!("{against} --temperature 0.5"), "options: "),
        (
            "--until verdict --baseline base.json --ignore endpoint -c 1,3".to_owned(),
            "the baseline has no concurrency 3",
        ),
    ] {
        let refused = measure(&folder, &[&slow], "refused", &more);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(folded(&refused.stderr).contains(why), "{}", refused.stderr);
        assert!(!folder.join("refused.json").exists(), "nothing was measured");
    }
    quick.stop();
    slow.stop();
}

#[test]
fn a_run_until_a_verdict_ends_with_it_against_a_baseline_and_within_its_money_without_one() {
    let folder = Folder::new("until-verdict");
    // So far apart in both that no stumble of the machine makes them alike.
    let (quick, slow) = (engine_at(10, 1_000.0), engine_at(60, 125.0));
    // As many rounds as bear that some of them fall on a busy machine: the baseline is not measured again.
    let base = measure(&folder, &[&quick], "base", "-n 10 --rounds 20");
    assert_eq!(base.code, Some(0), "{base:?}");
    let against = "--until verdict --baseline base.json --ignore endpoint";
    let worse = measure(&folder, &[&slow], "worse", against);
    assert_eq!(worse.code, Some(1), "{worse:?}");
    let judged = record(&folder, "worse");
    let text = folded(&worse.stdout);
    assert_eq!(judged.until.as_ref().map(|until| until.end), Some(UntilEnd::Reached), "{text}");
    assert!(text.contains("Regression: TTFT") && text.contains("every asked comparison has its verdict"), "{text}");
    // 30 requests of two cents: the first round of each target.
    let limited = format!("{against} {PRICES} --max-cost-usd 0.6");
    let cut = measure(&folder, &[&quick], "cut", &limited);
    assert_eq!(cut.code, Some(3), "{cut:?}");
    let cut = record(&folder, "cut");
    assert_eq!((cut.until.map(|until| until.end), cut.status), (Some(UntilEnd::Cost), Status::Partial));
    quick.stop();
    slow.stop();
}

#[test]
fn every_target_says_that_the_limit_which_all_share_ended_it() {
    let (folder, quick, slow) = (Folder::new("until-shared"), engine(5), engine(10));
    let more = format!("{PRICES} --max-cost-usd 0.5 --until ttft_p50±0.1%");
    let finished = measure(&folder, &[&quick, &slow], "run", &more);
    assert_eq!(finished.code, Some(3), "{finished:?}");
    let shown: serde_json::Value = serde_json::from_str(&folder.read("run.json")).expect("JSON");
    let records = shown["records"].as_array().expect("records");
    for record in records {
        let reason = record["reason"].as_str().unwrap_or_default();
        assert!(reason.starts_with("stopped by --max-cost-usd 0.5"), "{reason}");
        assert_eq!((&record["status"], &record["until"]["end"]), (&"partial".into(), &"cost".into()));
    }
    let usd: f64 = records.iter().filter_map(|record| record["spending"]["usd"].as_f64()).sum();
    assert!(records.len() == 2 && usd <= 0.5 + 1e-9, "{usd}");
    quick.stop();
    slow.stop();
}

#[test]
fn a_round_that_the_limit_cut_off_is_compared_with_nothing_and_that_is_said() {
    let (folder, quick, slow) = (Folder::new("cut-round"), engine(5), engine(10));
    let rounds = format!("-c 1 -n 10 --warmup 0 {PRICES}");
    let base = measure(&folder, &[&quick], "base", &format!("{rounds} --rounds 2"));
    assert_eq!(base.code, Some(0), "{base:?}");
    // 25 requests of two cents: half of the third round is missing.
    let cut = measure(&folder, &[&quick], "cut", &format!("{rounds} --rounds 3 --max-cost-usd 0.5"));
    assert_eq!((cut.code, started(&record(&folder, "cut"))), (Some(3), 25), "{cut:?}");
    let compared =
        run(&folder, &["compare", "base.json", "cut.json", "--json", "report.json", "--markdown", "report.md"]);
    let sentence = "1 round of the run after was cut short and is not compared";
    assert!(folded(&compared.stdout).contains(sentence), "{compared:?}");
    assert!(folded(&folder.read("report.md")).contains(sentence));
    let report: serde_json::Value = serde_json::from_str(&folder.read("report.json")).expect("JSON");
    assert_eq!((&report["cut_rounds"]["b"], &report["rows"][0]["n_b"]), (&1.into(), &20.into()), "{report}");
    // In turns: 10 of each, 10 of the second, and 5 of the first.
    let turns = measure(&folder, &[&quick, &slow], "turns", &format!("{rounds} --rounds 2 --max-cost-usd 0.7"));
    let sentence = format!("1 round of vllm@{}/m was cut short and is not compared", quick.address());
    assert!(turns.code == Some(3) && folded(&turns.stdout).contains(&sentence), "{turns:?}");
    let single = measure(&folder, &[&quick, &slow], "single", &format!("{rounds} --max-cost-usd 0.3"));
    let sentence = format!("vllm@{}/m is compared with nothing", slow.address());
    assert!(single.code == Some(3) && folded(&single.stdout).contains(&sentence), "{single:?}");
    quick.stop();
    slow.stop();
}

#[test]
fn a_limit_below_the_cost_of_one_request_is_refused_with_both_before_anything_is_sent() {
    let (folder, host) = (Folder::new("tiny-limit"), engine(5));
    for more in ["", "--dry-run", "--sessions 2 --turns 2"] {
        let load = if more.starts_with("--sessions") { "" } else { "-c 1 -n 3" };
        let refused = measure(&folder, &[&host], "run", &format!("{load} {PRICES} --max-cost-usd 0.019 {more}"));
        assert_eq!(refused.code, Some(2), "{more}: {refused:?}");
        let why = "read --max-cost-usd: 0.019 USD is below the estimated cost of one request to m, up to 0.020000 USD, so nothing was sent";
        assert!(folded(&refused.stderr).contains(why), "{more}: {refused:?}");
    }
    assert!(folder.names().is_empty(), "{:?}", folder.names());
    let enough = measure(&folder, &[&host], "run", &format!("-c 1 -n 1 --warmup 0 {PRICES} --max-cost-usd 0.02"));
    assert_eq!(enough.code, Some(0), "{enough:?}");
    host.stop();
}

#[test]
fn images_and_sound_are_reserved_by_their_own_price_and_refused_without_one() {
    let (folder, host) = (Folder::new("media-cost"), engine(5));
    let bench = |more: &str| {
        let line = format!(
            "bench --url http://{}/v1 --model sim --calibration off --no-probe --warmup 0 -c 2 -n 20 --json run.json {more}",
            host.address()
        );
        run(&folder, &line.split_whitespace().collect::<Vec<&str>>())
    };
    // Six seconds are a tenth of a minute.
    let (heard, made) = ("--task transcription --audio-seconds 6", "--task images --batch 2 --image-size 64x64");
    let seen = format!("--images 1 --image-size 64x64 --input-tokens 20 --output-tokens 4 {PRICES}");
    for (more, requests, usd) in [
        (format!("{heard} --price-of minute-in=1 --max-cost-usd 0.55"), 5, 0.5),
        (format!("{made} --price-of image-out=0.04 --max-cost-usd 0.5"), 6, 0.48),
        (format!("{seen} --price-of image-in=0.1 --max-cost-usd 0.55"), 5, 0.52),
    ] {
        let finished = bench(&more);
        assert_eq!(finished.code, Some(3), "{more}: {finished:?}");
        let record = record(&folder, "run");
        let spending = record.spending.expect("prices were given");
        assert_eq!(started(&record), requests, "{more}");
        assert!((spending.usd - usd).abs() < 1e-9, "{more}: {spending:?}");
    }
    for (more, why) in [
        (format!("{heard} {PRICES} --max-cost-usd 1"), "what a minute of sound that is sent costs here is not known"),
        (format!("{made} {PRICES} --max-cost-usd 1"), "give --price-of image-out=USD, or --price-of image-out=tokens"),
        (format!("{heard} --price-of minute-in=tokens --max-cost-usd 1"), "what a token costs here is not known"),
        (format!("{heard} --price-of minutes=1"), "kinds are image-in, image-out, minute-in, minute-out, characters"),
    ] {
        let refused = bench(&more);
        assert_eq!(refused.code, Some(2), "{more}: {refused:?}");
        assert!(folded(&refused.stderr).contains(why), "{more}: {}", refused.stderr);
    }
    // Without a limit the dollars say what they leave out.
    assert_eq!(bench(&format!("{heard} {PRICES}")).code, Some(0));
    let notes = record(&folder, "run").notes.join(" ");
    assert!(
        notes.contains("what a minute of sound that is sent costs is not known (--price-of minute-in=USD)"),
        "{notes}"
    );
    host.stop();
}
