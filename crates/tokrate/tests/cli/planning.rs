//! `tokrate estimate` from the shell with files of other commands: records, logs, chains, traces; and what reads an estimate.
//!
//! Invariant: every file that is read here was written by tokrate or its store.

use crate::folder::Folder;
use crate::tool::{Finished, run};
use serde_json::Value;
use tokrate_record::{Attempt, Record, Sample};
use tokrate_store::{MonitorStore, ProbeStore, Sqlite};

fn words(folder: &Folder, line: &str) -> Finished {
    run(folder, &line.split_whitespace().collect::<Vec<&str>>())
}

/// What it prints, if it ends so.
fn shown(folder: &Folder, code: i32, line: &str) -> String {
    let finished = words(folder, line);
    assert_eq!(finished.code, Some(code), "{line}: {} {}", finished.stdout, finished.stderr);
    if finished.stdout.is_empty() { finished.stderr } else { finished.stdout }
}

const SPEED: &str =
    "estimate speed --model llama-3.1-8b --hardware 2xh100-sxm --precision fp8 --engine vllm -c 2 --isl 200 --osl 100";

/// An attempt of 40 tokens/s after 300 ms, so many seconds after the first.
fn attempt(number: u64, second: u64, session: Option<&str>, alias: &str) -> Attempt {
    Attempt {
        call: format!("call-{number}"),
        won: true,
        alias: alias.to_owned(),
        lane: "own".to_owned(),
        session: session.map(str::to_owned),
        sample: Sample {
            started_unix_ms: 1_768_003_200_000 + second * 1_000,
            provider: "vllm".to_owned(),
            model: "large".to_owned(),
            stream: true,
            in_flight: 1 + (number % 3) as u32,
            ttft_ns: Some(300_000_000),
            total_ns: 2_800_000_000,
            output_speed: Some(40.0),
            input_tokens: Some(500 + number * 10),
            output_tokens_std: 100,
            ..Sample::default()
        },
        ..Attempt::default()
    }
}

fn logged(folder: &Folder) {
    let mut rows: Vec<Attempt> = (0..30).map(|number| attempt(number, number * 10, None, "chat")).collect();
    rows.extend((0..3).map(|number| attempt(100 + number, 1_000 + number * 4, Some("run-17"), "reason")));
    Sqlite::open(&folder.join("calls.db")).expect("a new log").append(&rows).expect("room");
}

#[test]
fn an_estimate_is_a_record_that_other_commands_read_and_mark() {
    let folder = Folder::new("estimate-record");
    let json = shown(&folder, 0, &format!("{SPEED} --json"));
    let record = Record::parse(&json).expect("a record");
    assert!(record.is_estimate() && record.estimate.as_ref().is_some_and(|it| it.devices == 2.0));
    folder.write("estimate.json", &json);
    folder.write("measured.json", include_str!("../../src/out/testdata/record.json"));
    // The measured engine of 110 tok/s is slower than two H100.
    let compared = shown(&folder, 1, "compare estimate.json measured.json");
    assert!(compared.contains("80 % interval") && compared.contains("computed, not measured"), "{compared}");
    let report = words(&folder, "compare estimate.json measured.json --json report.json");
    assert_eq!(report.code, Some(1));
    let report: Value = serde_json::from_str(&folder.read("report.json")).expect("JSON");
    assert_eq!((&report["computed"][0], &report["outcome"]), (&"a".into(), &"regression".into()));
    // The other way round nothing got worse.
    assert!(shown(&folder, 0, "compare measured.json estimate.json").contains("Measured (before) against computed"));
    let both = shown(&folder, 0, "compare estimate.json estimate.json");
    assert!(both.contains("Both before and after are computed"), "{both}");

    let added = words(&folder, "monitor add estimate.json --model large --db board.db");
    assert_eq!(added.code, Some(0), "{}", added.stderr);
    let rows = MonitorStore::open_reader(&folder.join("board.db")).expect("a database").estimates().expect("readable");
    assert_eq!((rows.len(), rows[0].model.as_str(), rows[0].in_flight), (1, "large", 2));
    assert!(rows[0].low < rows[0].output_speed && rows[0].output_speed < rows[0].high);
    assert!(shown(&folder, 2, "monitor add estimate.json --place here --db board.db").contains("--place"));

    for line in [
        "estimate speed --model llama-3.1-8b --hardware h100 --against estimate.json",
        "estimate fit-api estimate.json",
        "estimate calibrate --trace estimate.json --hardware h100",
    ] {
        let refused = shown(&folder, 2, line);
        assert!(refused.contains("estimate.json"), "{line}: {refused}");
    }
    folder.write("tokrate.toml", LANES);
    let checked = words(&folder, "gateway --check --config tokrate.toml");
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
}

const LANES: &str = r#"
[gateway.lanes.own]
url = "http://127.0.0.1:9/v1"
model = "m"
curve = "estimate.json"
[gateway.aliases.auto]
lanes = ["own"]
"#;

#[test]
fn several_devices_are_several_records() {
    let folder = Folder::new("estimate-example");
    let document: Value = serde_json::from_str(&shown(&folder, 0, "estimate --json")).expect("JSON");
    let records = document["records"].as_array().expect("records");
    assert_eq!((records.len(), &records[0]["kind"]), (4, &"estimate".into()));
}

#[test]
fn a_lane_of_a_log_answers_a_chain_and_becomes_a_law() {
    let folder = Folder::new("estimate-log");
    logged(&folder);
    let chain = |speed: &str| {
        format!(
            "name = \"c\"\n[speeds.own]\n{speed}\nfree = true\n[[steps]]\nname = \"a\"\nrole = \"own\"\ninput = 600\noutput = 101\nrepeat = 2\n"
        )
    };
    let p50 = |name: &str| {
        let text = shown(&folder, 0, &format!("estimate chain {name} --json"));
        let json: Value = serde_json::from_str(&text).expect("JSON");
        json["plans"][0]["seconds"]["p50"].as_f64().expect("a number")
    };
    folder.write("drawn.toml", &chain("log = \"calls.db\"\nlane = \"own\""));
    // Twice 300 ms and 100 tokens at 40 tok/s.
    assert!((p50("drawn.toml") - 5.6).abs() < 0.01);
    let text = shown(&folder, 0, "estimate fit-api calls.db --lane own --write law.json");
    assert!(text.contains("33 measured calls"), "{text}");
    folder.write("law.toml", &chain("curve = \"law.json\"\nusers = 2"));
    assert!((p50("law.toml") - 5.6).abs() < 0.1);
    folder.write("law.toml", &chain("curve = \"law.json\"\nusers = 50"));
    assert!(shown(&folder, 2, "estimate chain law.toml").contains("requests in flight"));
    let missing = shown(&folder, 2, "estimate fit-api calls.db --lane other");
    assert!(missing.contains("other"), "{missing}");
    assert!(shown(&folder, 1, "estimate fit-api calls.db --slo ttft<1ms").contains("not kept"));
}

#[test]
fn a_session_is_shown_as_a_chain() {
    let folder = Folder::new("log-session");
    logged(&folder);
    let text = shown(&folder, 0, "log --db calls.db --since all --session run-17");
    assert!(text.contains("session run-17: 3 calls") && text.contains("its end waited for 3 of them"), "{text}");
    let json = shown(&folder, 0, "log --db calls.db --since all --session run-17 --json");
    let json: Value = serde_json::from_str(&json).expect("JSON");
    // Calls of 2.8 s, each 4 s after the one before.
    assert_eq!(json["chain"]["elapsed_ms"].as_f64(), Some(10_800.0));
    assert_eq!(json["chain"]["critical_path"]["between_ms"].as_f64(), Some(2_400.0));
    let all = shown(&folder, 0, "log --db calls.db --since all --by session");
    assert!(all.contains("run-17") && !all.contains("chat"), "{all}");
    assert!(shown(&folder, 0, "log --db calls.db --since all --session other").contains("session other"));
    assert!(shown(&folder, 2, "log --db calls.db --since all --by session,lane").contains("session alone"));
    assert!(shown(&folder, 2, "log --source monitor --db calls.db --session x").contains("--session"));
}

#[test]
fn a_benchs_record_calibrates_and_a_profile_is_used() {
    let folder = Folder::new("estimate-calibrate");
    let bench = "bench --concurrency 2 --requests 14 --warmup 2 --input-tokens 200 --output-tokens 40 --calibration off \
                 --no-probe --json run.json --jsonl run.jsonl -q";
    let finished = words(&folder, bench);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let fit = "estimate calibrate --trace run.json --model llama-3.1-8b --hardware rtx-pro-6000 --engine vllm --precision bf16";
    let text = shown(&folder, 0, &format!("{fit} --write mine.json"));
    assert!(text.contains("Fitted to run.json") && text.contains("e_w.consumer-server"), "{text}");
    let speed =
        "estimate speed --model llama-3.1-8b --hardware rtx-pro-6000 --engine vllm --precision bf16 -c 2 --json";
    let of = |line: &str| {
        let json: Value = serde_json::from_str(&shown(&folder, 0, line)).expect("JSON");
        json["estimate"]["loads"][0]["tpot_ms"]["value"].as_f64().expect("a number")
    };
    assert_ne!(of(speed), of(&format!("{speed} --profile mine.json")));
    std::fs::remove_file(folder.join("run.jsonl")).expect("there");
    assert!(shown(&folder, 2, fit).contains("--jsonl"), "the rows are needed");
}

#[test]
fn roles_of_a_chain_are_settings_that_the_gateway_takes() {
    let folder = Folder::new("init-roles");
    let chain = shown(&folder, 0, "estimate chain --example coding --print");
    folder.write("agent.toml", &chain);
    let settings = shown(&folder, 0, "gateway --init-roles agent.toml");
    folder.write(
        "tokrate.toml",
        &settings
            .replace("target = \"anthropic/claude-sonnet-5\"", "target = \"ollama/m\"")
            .replace("target = \"anthropic/claude-haiku-4-5\"", "target = \"ollama/n\""),
    );
    let checked = words(&folder, "gateway --check --config tokrate.toml");
    assert_eq!(checked.code, Some(0), "{settings}\n{}", checked.stderr);
    assert!(checked.stdout.contains("reason") && checked.stdout.contains("compact"), "{}", checked.stdout);
}
