//! Results in the forms that other tools read: each is read back by a reader of that form.
//!
//! It does not judge the numbers. Invariant: every form tells of the same requests as the record.

use crate::folder::Folder;
use crate::loopback_truth::url;
use crate::tool::{Bench, bench, finish, folded, run, start};
use serde_json::Value;
use std::process::Command;
use tokrate_host::{Host, HostConfig};
use tokrate_sim::Faults;

const ALL: [&str; 10] = [
    "--csv",
    "levels.csv",
    "--markdown",
    "result.md",
    "--vllm-json",
    "vllm.json",
    "--junit",
    "junit.xml",
    "--badge",
    "badge.svg",
];

/// A bench of two levels against the embedded engine, with every form.
fn measured(name: &str, further: &[&str]) -> Bench {
    let folder = Folder::new(name);
    let mut arguments: Vec<&str> =
        "bench --concurrency 1,3 --requests 8 --warmup 1 --output-tokens 40 --input-tokens 30 --json record.json --jsonl rows.jsonl --no-html"
            .split_whitespace()
            .collect();
    arguments.extend(ALL);
    arguments.extend(further);
    let finished = run(&folder, &arguments);
    Bench::read(folder, finished)
}

/// What Python's XML reader makes of a file: every tag with its attributes, a line each.
fn xml(folder: &Folder, name: &str) -> Vec<String> {
    let script = "import sys, xml.etree.ElementTree as tree
for element in tree.parse(sys.argv[1]).iter():
    print(element.tag.split('}')[-1], dict(element.attrib), (element.text or '').strip())";
    let finished = finish(start(Command::new("python3").args(["-c", script]).arg(folder.join(name))));
    assert_eq!(finished.code, Some(0), "{name}: {}", finished.stderr);
    finished.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn every_form_tells_of_the_same_levels() {
    let bench = measured("formats", &[]);
    assert_eq!(bench.finished.code, Some(0), "{:?}", bench.finished);
    let csv = bench.folder.read("levels.csv");
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    insta::assert_snapshot!("csv_columns", rows[0].join("\n"));
    let cell = |row: usize, name: &str| {
        let column = rows[0].iter().position(|head| *head == name).unwrap_or_else(|| panic!("no column {name}"));
        rows[row][column]
    };
    let vllm: Value = serde_json::from_str(&bench.folder.read("vllm.json")).expect("JSON");
    for (number, phase) in bench.record.phases.iter().enumerate() {
        assert_eq!(cell(number + 1, "level"), phase.name);
        assert_eq!(cell(number + 1, "answered"), phase.counts.answered.to_string());
        let ttft = phase.ttft.p50.nearest_rank().expect("measured");
        assert_eq!(cell(number + 1, "ttft_p50_ms").parse::<f64>().expect("a number"), ttft);
        assert_eq!(vllm[number]["median_ttft_ms"].as_f64(), Some(ttft));
        assert_eq!(vllm[number]["completed"].as_u64(), Some(phase.counts.answered));
        assert_eq!(vllm[number]["max_concurrency"].as_u64(), phase.conditions.concurrency.map(u64::from));
    }
    let fields: Vec<&String> = vllm[0].as_object().expect("an object").keys().collect();
    insta::assert_snapshot!("vllm_fields", fields.iter().map(|name| name.as_str()).collect::<Vec<&str>>().join("\n"));
    let markdown = bench.folder.read("result.md");
    assert!(markdown.contains("| | c = 1 | c = 3 |") && markdown.contains("| TTFT p50 (ms) | "), "{markdown}");
    let badge = xml(&bench.folder, "badge.svg").join("\n");
    assert!(badge.contains("tokrate: ") && badge.contains("TTFT") && badge.contains("at concurrency 1"), "{badge}");
    let junit = xml(&bench.folder, "junit.xml");
    assert_eq!(junit.iter().filter(|line| line.starts_with("testcase")).count(), 4, "{junit:?}");
    assert!(!junit.iter().any(|line| line.starts_with("failure")), "{junit:?}");
}

#[test]
fn levels_rise_in_every_table_in_whatever_order_they_were_typed_and_answers_have_their_length() {
    let folder = Folder::new("typed-order");
    let arguments = "bench --concurrency 3,1 --requests 4 --warmup 0 --output-tokens 5 --no-html --wide --csv levels.csv --markdown result.md";
    let finished = run(&folder, &arguments.split_whitespace().collect::<Vec<&str>>());
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let csv = folder.read("levels.csv");
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let column = |name: &str| rows[0].iter().position(|cell| *cell == name).expect("a column");
    let cells = |name: &str| rows[1..].iter().map(|row| row[column(name)]).collect::<Vec<&str>>();
    assert_eq!(cells("concurrency"), ["1", "3"]);
    for name in ["answer_length_mean_tokens", "answer_length_shortest_tokens", "answer_length_longest_tokens"] {
        assert_eq!(cells(name), ["5", "5"], "{name}");
    }
    assert!(folder.read("result.md").contains("| | c = 1 | c = 3 |"), "{}", folder.read("result.md"));
    let head = finished.stdout.lines().find(|line| line.contains("c = 3")).expect("a table");
    assert!(head.find("c = 1") < head.find("c = 3") && head.contains("c = 1"), "{head}");
    assert!(finished.stdout.contains("answer length, mean ± SD (tokens)"), "{}", finished.stdout);
}

#[test]
fn markdown_can_have_standard_output() {
    let folder = Folder::new("markdown-stdout");
    let arguments = "bench --concurrency 1 --requests 2 --warmup 0 --output-tokens 5 --no-html --markdown -";
    let finished = run(&folder, &arguments.split_whitespace().collect::<Vec<&str>>());
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(finished.stdout.starts_with("### sim\n"), "{}", finished.stdout);
    assert!(folded(&finished.stderr).contains("TTFT p50"), "the table goes elsewhere: {}", finished.stderr);
}

#[test]
fn what_a_server_says_cannot_break_a_form() {
    let folder = Folder::new("hostile-sim");
    let faults = Faults { server_error: 1.0, ..Faults::default() };
    let server = Host::start(HostConfig { faults, ..HostConfig::default() }).expect("a free port");
    let url = url(&server);
    let further: Vec<&str> = ALL.iter().copied().chain(["--model", "<m|\"&'\u{1}>,=x"]).collect();
    let arguments = format!(
        "bench --url {url} --concurrency 1 --requests 3 --warmup 0 --calibration off --no-probe --json record.json --jsonl rows.jsonl"
    );
    let arguments: Vec<&str> = arguments.split_whitespace().chain(further).collect();
    let finished = run(&folder, &arguments);
    server.stop();
    assert_eq!(finished.code, Some(2), "{finished:?}");
    let junit = xml(&folder, "junit.xml").join("\n");
    assert!(junit.contains("failure") && junit.contains("3 server_error"), "{junit}");
    assert!(xml(&folder, "badge.svg").join("\n").contains("not measured"));
    let markdown = folder.read("result.md");
    assert!(markdown.contains(r"\<m\|") && !markdown.contains("<m|"), "{markdown}");
    assert_eq!(folder.read("levels.csv").lines().count(), 2);
}

#[test]
fn one_level_of_one_target_is_one_vllm_object() {
    let server = Host::start(HostConfig::default()).expect("a free port");
    let bench = bench("vllm-one", &url(&server), 1, 4, &["--vllm-json", "vllm.json"]);
    server.stop();
    let vllm: Value = serde_json::from_str(&bench.folder.read("vllm.json")).expect("JSON");
    assert_eq!((vllm["completed"].as_u64(), vllm["request_rate"].as_str()), (Some(4), Some("inf")));
}
