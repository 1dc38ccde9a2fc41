//! Demands, baselines and comparisons of the built binary: what is printed, what is written, what the exit code says.

use crate::folder::Folder;
use crate::tool::{Bench, Finished, bench, bench_arguments, folded, run};
use tokrate_core::Span;
use tokrate_host::{Host, HostConfig};
use tokrate_record::AssertionStatus;
use tokrate_sim::{Faults, Law};

fn engine(delay: u64, faults: &[&str]) -> tokrate_host::RunningHost {
    engine_at(400.0, delay, faults)
}

fn engine_at(tokens_per_second: f64, delay: u64, faults: &[&str]) -> tokrate_host::RunningHost {
    let mut drawn = Faults::default();
    faults.iter().for_each(|fault| drawn.set(fault).expect("a fault"));
    let law = Law {
        slots: 8,
        base_delay: Span::from_millis(delay),
        prefill_tokens_per_second: f64::INFINITY,
        stream_tokens_per_second: tokens_per_second,
        contention: 0.0,
        coherency: 0.0,
        ..Law::default()
    };
    Host::start(HostConfig { law, faults: drawn, ..HostConfig::default() }).expect("it starts")
}

fn url(host: &tokrate_host::RunningHost) -> String {
    format!("http://{}/v1", host.address())
}

/// Benches an endpoint into `record` in a folder.
fn measure(folder: &Folder, url: &str, record: &str, further: &[&str]) -> Finished {
    measure_by(folder, url, record, "off", further)
}

fn measure_by(folder: &Folder, url: &str, record: &str, calibration: &str, further: &[&str]) -> Finished {
    let mut arguments = bench_arguments(url, 4, 40);
    let place = arguments.iter().position(|argument| argument == "off").expect("it is switched off");
    arguments[place] = calibration.to_owned();
    let place = arguments.iter().position(|argument| argument == "record.json").expect("it is written");
    arguments[place] = format!("{record}.json");
    let place = arguments.iter().position(|argument| argument == "rows.jsonl").expect("they are written");
    arguments[place] = format!("{record}.jsonl");
    arguments.extend(further.iter().map(|&argument| argument.to_owned()));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    run(folder, &arguments)
}

/// The same with the client's own error, which a baseline takes.
fn calibrated(folder: &Folder, url: &str, record: &str, further: &[&str]) -> Finished {
    measure_by(folder, url, record, "run", further)
}

#[test]
fn demands_are_listed_kept_in_the_record_and_decide_the_exit_code() {
    let host = engine(20, &[]);
    let demands = [
        "--assert",
        "failures.share < 1%",
        "--assert",
        "ttft_ms.p50 < 1ms",
        "--assert",
        "itl_ms.p99_9 < 9000",
        "--assert",
        "counts.answered >= 12 @ concurrency 2",
        "--slo",
        "ttft<9s",
        "--assert",
        "goodput.share >= 0.95",
    ];
    let seen = bench("demands", &url(&host), 2, 12, &demands);
    assert_eq!(seen.finished.code, Some(1), "{:?}", seen.finished);
    let statuses: Vec<AssertionStatus> = seen.record.assertions.iter().map(|outcome| outcome.status).collect();
    use AssertionStatus::{Met, Missed, NotEnoughSamples};
    assert_eq!(statuses, [Met, Missed, NotEnoughSamples, Met, Met]);
    let text = folded(&seen.finished.stdout);
    assert!(text.contains("not enough samples (n = ") && text.contains("needs 6636"), "{text}");
    let kept = bench("demands-met", &url(&host), 2, 12, &["--assert", "failures.share < 1%"]);
    assert_eq!(kept.finished.code, Some(0), "{:?}", kept.finished);
    host.stop();
}

#[test]
fn a_broken_demand_is_refused_before_anything_is_sent() {
    let folder = Folder::new("broken-demand");
    let refused = run(&folder, &["bench", "--assert", "tftf_ms.p95 < 500"]);
    assert_eq!(refused.code, Some(2));
    insta::assert_snapshot!("broken_demand", refused.stderr);
}

#[test]
fn a_baseline_that_is_not_there_is_refused_before_anything_is_sent_unless_this_run_becomes_it() {
    let folder = Folder::new("absent-baseline");
    for further in [&[][..], &["--save-baseline", "other.json"]] {
        let refused =
            calibrated(&folder, "http://127.0.0.1:9/v1", "run", &[&["--baseline", "base.json"], further].concat());
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(
            folded(&refused.stderr).contains("there is no base.json; check the path, or add --save-baseline"),
            "{refused:?}"
        );
        assert!(!folder.join("run.json").exists(), "nothing was measured");
    }
    let host = engine(20, &[]);
    let kept = ["--baseline", "base.json", "--save-baseline", "base.json"];
    let refused = measure(&folder, &url(&host), "run", &kept);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(
        folded(&refused.stderr).contains("read --save-baseline: it takes figures whose error is known"),
        "{refused:?}"
    );
    let first =
        calibrated(&folder, &url(&host), "first", &[&kept[..], &["--markdown", "table.md", "--quiet"]].concat());
    host.stop();
    assert_eq!((first.code, first.stdout.as_str()), (Some(0), ""), "{first:?}");
    assert!(folded(&first.stderr).contains("tokrate: no baseline at base.json yet"), "{first:?}");
    assert!(folder.read("table.md").contains("> no baseline at base.json yet"));
}

#[test]
fn a_slower_engine_is_a_regression_against_the_baseline() {
    let folder = Folder::new("baseline");
    let (fast, slow) = (engine(20, &[]), engine(120, &[]));
    let absent = calibrated(&folder, &url(&fast), "zeroth", &["--baseline", "new.json", "--save-baseline", "new.json"]);
    assert_eq!(absent.code, Some(0), "{absent:?}");
    let nothing = "no baseline at new.json yet, so nothing was compared";
    assert!(absent.stdout.contains(nothing) && absent.stderr.contains(nothing), "{absent:?}");
    assert_eq!(measure(&folder, &url(&fast), "first", &[]).code, Some(0));
    folder.write("base.json", &folder.read("first.json"));
    let refused = measure(&folder, &url(&slow), "second", &["--baseline", "base.json"]);
    assert_eq!(refused.code, Some(2), "another port is another endpoint");
    assert!(folded(&refused.stderr).contains("add --ignore endpoint"), "{}", refused.stderr);
    assert!(!folder.join("second.json").exists(), "nothing is measured that cannot be compared");
    let held = ["--baseline", "base.json", "--ignore", "endpoint"];
    let kept = ["--markdown", "table.md", "--junit", "junit.xml", "--html", "page.html"];
    let worse = measure(&folder, &url(&slow), "third", &[&held[..], &kept[..]].concat());
    assert_eq!(worse.code, Some(1), "{worse:?}");
    assert!(folded(&worse.stdout).contains("Regression: TTFT at concurrency 4"), "{}", worse.stdout);
    assert!(folder.read("table.md").contains("Regression: TTFT at concurrency 4"));
    let page = folder.read("page.html");
    assert!(page.contains("Against the baseline") && page.contains("Regression: TTFT at concurrency 4"), "{page}");
    let quiet = ["--baseline", "base.json", "--ignore", "endpoint", "--quiet"];
    let quiet = measure(&folder, &url(&slow), "quiet", &quiet);
    assert_eq!((quiet.code, quiet.stdout.as_str()), (Some(1), ""), "{quiet:?}");
    assert!(folded(&quiet.stderr).contains("tokrate: Regression: TTFT at concurrency 4"), "{}", quiet.stderr);
    assert!(folder.read("junit.xml").contains("TTFT against the baseline"));

    let compared = run(&folder, &["compare", "first.json", "third.json", "--ignore", "endpoint", "--json", "-"]);
    assert_eq!(compared.code, Some(1), "{compared:?}");
    let report: serde_json::Value = serde_json::from_str(&compared.stdout).expect("JSON");
    assert_eq!((&report["schema"], &report["outcome"]), (&"tokrate.compare.v1".into(), &"regression".into()));
    let ttft = &report["rows"][0];
    assert!(ttft["change"].as_f64().is_some_and(|change| change > 2.0), "{ttft}");
    assert!(!report["notes"].to_string().contains("sketches"), "rows lie beside both records");
    let back = run(&folder, &["compare", "third.json", "first.json", "--ignore", "endpoint"]);
    assert_eq!(back.code, Some(0), "faster is no regression: {back:?}");
    fast.stop();
    slow.stop();
}

#[test]
fn a_run_that_does_not_pass_leaves_the_baseline_that_is_there() {
    let folder = Folder::new("kept-baseline");
    let (fast, slow) = (engine(20, &[]), engine(120, &[]));
    assert_eq!(measure(&folder, &url(&fast), "first", &[]).code, Some(0));
    let good = folder.read("first.json");
    folder.write("base.json", &good);
    let both = ["--baseline", "base.json", "--save-baseline", "base.json"];
    let missed = ["--save-baseline", "base.json", "--assert", "ttft_ms.p50 < 1"];
    let why = "no baseline is kept in base.json: ";
    for (further, code, why) in [
        (&[&both[..], &["--ignore", "endpoint"]].concat()[..], 1, why),
        // Another port is another endpoint.
        (&both, 2, "add --ignore endpoint"),
        (&missed, 1, why),
    ] {
        let finished = calibrated(&folder, &url(&slow), "run", further);
        assert_eq!(finished.code, Some(code), "{finished:?}");
        assert!(folded(&finished.stderr).contains(why), "{finished:?}");
        assert!(folder.read("base.json") == good, "{further:?} replaced it");
    }
    fast.stop();
    slow.stop();
}

#[test]
fn a_comparison_says_that_a_record_is_of_a_part_and_what_is_no_record() {
    let folder = Folder::new("odd-records");
    let whole = include_str!("../../src/out/testdata/record.json");
    folder.write("whole.json", whole);
    folder.write("part.json", &whole.replacen("\"status\":\"complete\"", "\"status\":\"partial\"", 1));
    folder.write("list.json", "[]");
    let compared = run(&folder, &["compare", "whole.json", "part.json"]);
    assert!(folded(&compared.stdout).contains("after: the record is partial"), "{compared:?}");
    for line in [&["compare", "list.json", "whole.json"][..], &["bench", "--baseline", "list.json", "-n", "1"]] {
        let refused = run(&folder, line);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(
            folded(&refused.stderr).contains("list.json: it holds no record, which is a JSON object"),
            "{refused:?}"
        );
    }
}

#[test]
fn a_scorecard_tells_the_quick_from_the_slow_in_every_form() {
    let folder = Folder::new("scorecard");
    // Half a second apart, and answers of a second: beside both it is little how long a busy machine stops one.
    let (quick, slow) = (engine_at(130.0, 20, &[]), engine_at(130.0, 520, &[]));
    let (near, far) = (format!("vllm@{}/m", quick.address()), format!("vllm@{}/m", slow.address()));
    let line = format!(
        "bench {far} {near} --concurrency 1,10 --requests 8 --rounds 1 --input-tokens 20 --output-tokens 120 --calibration off \
         --price-input 1 --price-output 2 --scorecard --json all.json --markdown all.md --html all.html"
    );
    let finished = run(&folder, &line.split_whitespace().collect::<Vec<&str>>());
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let shown: serde_json::Value = serde_json::from_str(&folder.read("all.json")).expect("JSON");
    let rows = shown["scorecard"]["rows"].as_array().expect("rows");
    let place = |row: &serde_json::Value| (row["ttft"]["first"].as_u64(), row["ttft"]["last"].as_u64());
    assert_eq!((&rows[0]["target"], place(&rows[0])), (&far.as_str().into(), (Some(2), Some(2))));
    assert_eq!((&rows[1]["target"], place(&rows[1])), (&near.as_str().into(), (Some(1), Some(1))));
    for (row, record) in rows.iter().zip(shown["records"].as_array().expect("records")) {
        let tpot = |phase: usize| record["phases"][phase]["tpot"]["p50"]["value"].as_f64().expect("it was measured");
        let kept = row["degradation"][0]["kept"]["value"].as_f64().expect("10 were measured");
        assert!((kept * tpot(1) / tpot(0) - 1.0).abs() < 0.02, "{kept} of what was measured alone, {record}");
    }
    // 20 input tokens (as the engine counts them, with the frame of a chat) and 120 output tokens.
    let usd = rows[0]["usd_per_answer"].as_f64().expect("the price was given");
    assert!((2.4e-4..9e-4).contains(&usd), "{usd}");
    let against = &shown["against_first"][0];
    assert_eq!((&against["first"], &against["report"]["rows"][0]["verdict"]), (&far.as_str().into(), &"better".into()));
    // The terminal's lines are broken at its width.
    let stdout = folded(&finished.stdout);
    for text in [&stdout, &folder.read("all.md").replace('\\', ""), &folder.read("all.html")] {
        assert!(text.contains("rank by TTFT") && text.contains(&format!("{near} against {far}: better in TTFT (")));
    }
    let card = finished.stdout.lines().skip_while(|line| !line.starts_with("Scorecard"));
    let card: Vec<&str> = card.take_while(|line| !line.is_empty()).collect();
    assert!(card.iter().all(|line| line.chars().count() <= 80), "{card:#?}");
    // The head is named by addresses; a line that belongs to the one above it is indented by two.
    let labels = card.iter().map(|line| match line.starts_with("   ") {
        true => "",
        false => line.trim_start().split("  ").next().unwrap_or_default(),
    });
    insta::assert_snapshot!("scorecard", labels.collect::<Vec<&str>>().join("\n"));
    let alone = run(&folder, &["bench", &near, "--scorecard"]);
    assert_eq!(alone.code, Some(2), "{alone:?}");
    assert!(folded(&alone.stderr).contains("name at least two"), "{}", alone.stderr);
    quick.stop();
    slow.stop();
}

#[test]
fn a_baseline_that_cannot_be_read_names_the_place_before_anything_is_sent() {
    let folder = Folder::new("broken-baseline");
    folder.write("base.json", "{\n  \"schema\": \"tokrate.record.v1\",\n  \"tool\": 3\n}\n");
    let refused = run(&folder, &["bench", "--baseline", "base.json"]);
    assert_eq!(refused.code, Some(2));
    insta::assert_snapshot!("broken_baseline", refused.stderr);
    folder.write("rows.jsonl", "{\"phase\": 1}\n");
    folder.write("rows.json", "{}");
    let refused = run(&folder, &["compare", "rows.json", "rows.json"]);
    insta::assert_snapshot!("no_record", refused.stderr);
    let refused = run(&folder, &["compare", "rows.json", "rows.json", "--metric", "ttfft"]);
    insta::assert_snapshot!("no_metric", refused.stderr);
}

/// A bench of answers long enough to be judged, of their full length.
fn long_answers(name: &str, url: &str, requests: u32) -> Bench {
    let mut arguments = bench_arguments(url, 4, requests);
    let place = arguments.iter().position(|argument| argument == "--output-tokens").expect("it is asked for");
    arguments[place + 1] = "200".to_owned();
    arguments.push("--ignore-eos".to_owned());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let folder = Folder::new(name);
    let finished = run(&folder, &arguments);
    Bench::read(folder, finished)
}

/// Each trick of the simulated engine against the sign that it must raise, and no other engine's.
#[test]
fn every_trick_raises_its_sign() {
    for (fault, sign) in [
        ("replay", "replayed"),
        ("repeat", "repetition"),
        ("other_model", "other_model"),
        ("same_start", "shared_prefix"),
        ("short", "length_not_honoured"),
        ("burst", "one_burst"),
        ("usage_inflated", "usage_disagrees"),
        ("hidden_reasoning", "reasoning_hidden"),
    ] {
        let host = engine(5, &[fault]);
        let seen = long_answers(&format!("trick-{fault}"), &url(&host), 8);
        let signs: Vec<String> = seen.phase().suspicions.iter().map(|it| it.kind.name().to_owned()).collect();
        assert!(signs.iter().any(|seen| seen == sign), "{fault} raises {signs:?}");
        host.stop();
    }
}

#[test]
fn an_honest_engine_raises_no_sign() {
    // Answers of two seconds: a client that is stopped reads what came meanwhile at one moment.
    let host = engine_at(100.0, 5, &[]);
    let seen = long_answers("honest", &url(&host), 12);
    let signs: Vec<&str> = seen.phase().suspicions.iter().map(|it| it.sentence.as_str()).collect();
    assert_eq!(signs, [""; 0]);
    host.stop();
}
