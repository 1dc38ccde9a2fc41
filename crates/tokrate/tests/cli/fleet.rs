//! The simulated fleet through the built binary: every dialect held against the engine's log, and several providers from one
//! file.
//!
//! It does not judge how late a shared machine is. Invariant: what was measured is what the log says was written.

use crate::folder::Folder;
use crate::loopback_truth::{each, engine, hold_all, quick};
use crate::tool::{self, Bench, bench, finish, start, tokrate};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::process::Command;
use tokrate_host::TruthRow;
use tokrate_wire::Dialect;

/// What stands before the path of a dialect.
fn base(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::OllamaChat
        | Dialect::OllamaGenerate
        | Dialect::LlamaCompletion
        | Dialect::BedrockConverse
        | Dialect::CohereChat => "",
        Dialect::Gemini => "/v1beta",
        _ => "/v1",
    }
}

/// Measures an engine in a dialect and holds all rows against its log.
fn measure(dialect: Dialect, further: &[&str]) -> Bench {
    let host = engine(quick());
    let url = format!("http://{}{}", host.address(), base(dialect));
    let bench = bench(dialect.name(), &url, 4, 8, &[&["--dialect", dialect.name()], further].concat());
    hold_all(&bench, &host);
    assert!(host.truth().requests.iter().all(|request| request.dialect == dialect), "{}", dialect.name());
    assert_eq!(bench.record.conditions.dialect, dialect.name());
    bench
}

#[test]
fn a_stream_of_every_dialect_is_measured_as_it_was_written() {
    for dialect in Dialect::ALL {
        let bench = measure(dialect, &[]);
        each(&bench, "tokens_std", 40);
        each(&bench, "tokens_reported", 40);
        each(&bench, "text_events", 40);
        each(&bench, "input_reported", 50);
    }
}

#[test]
fn a_whole_answer_of_every_dialect_is_measured_as_it_was_written() {
    for dialect in Dialect::ALL {
        let bench = measure(dialect, &["--no-stream"]);
        each(&bench, "tokens_std", 40);
        each(&bench, "tokens_reported", 40);
        each(&bench, "chunks", 1);
    }
}

const PERSONAS: &str = r#"
listen = "127.0.0.1:0"

[[persona]]
name = "fast"
key_env = "FAST_KEY"
[persona.law]
delay = "5ms"
speed = 2000

[[persona]]
name = "own"
listen = "127.0.0.1:0"
model = "m"
[persona.law]
delay = "5ms"
speed = 1000
tokens_per_chunk = 4
"#;

#[test]
fn a_fleet_is_served_from_a_file_and_its_log_names_the_persona() {
    let folder = Folder::new("fleet");
    folder.write("personas.toml", PERSONAS);
    let arguments = ["sim", "--personas", "personas.toml", "--truth-log", "truth.jsonl"];
    let mut sim = start(tokrate(&folder, &arguments).env("FAST_KEY", "sk-fast-and-secret"));
    let mut lines = BufReader::new(sim.stdout.take().expect("piped"));
    let mut shown = String::new();
    while !shown.contains("truth log:") {
        assert!(lines.read_line(&mut shown).expect("text") > 0, "it ended: {shown}");
    }
    assert!(shown.starts_with("serving 2 providers at http://127.0.0.1:"), "{shown}");
    assert!(!shown.contains("secret"), "{shown}");
    // What it says is how to measure each of them; the numbers are made smaller here.
    let commands: Vec<&str> = shown.lines().filter_map(|line| line.trim().strip_prefix("tokrate ")).collect();
    assert!(commands[0].contains("--model fast/sim --key-env FAST_KEY"), "{shown}");
    for (command, events) in commands.iter().zip([40, 10]) {
        let (asked, _) = command.split_once(" --concurrency").expect("a load is named");
        let small = "--concurrency 2 --requests 4 --warmup 0 --input-tokens 50 --output-tokens 40 --calibration off --no-probe \
                     --json record.json --jsonl rows.jsonl";
        let words = format!("{asked} {small}");
        let words: Vec<&str> = words.split_whitespace().collect();
        let own = Folder::new("fleet-bench");
        let finished = finish(start(tokrate(&own, &words).env("FAST_KEY", "sk-fast-and-secret")));
        let bench = Bench::read(own, finished);
        bench.expect(0, &[]);
        each(&bench, "text_events", events);
        each(&bench, "tokens_std", 40);
    }
    let pid = sim.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill is there").success());
    let mut rest = String::new();
    lines.read_to_string(&mut rest).expect("text");
    let ended = finish(sim);
    assert_eq!(ended.code, Some(0), "{rest} {ended:?}");

    let mut asked: BTreeMap<String, u32> = BTreeMap::new();
    for line in folder.read("truth.jsonl").lines() {
        if let TruthRow::Request { persona, dialect, .. } = serde_json::from_str(line).expect("a row") {
            assert_eq!(dialect, "openai-chat");
            *asked.entry(persona).or_default() += 1;
        }
    }
    assert_eq!(asked, BTreeMap::from([("fast".to_owned(), 4), ("own".to_owned(), 4)]));
}

#[test]
fn the_example_of_the_repository_is_served() {
    // Its ports may be taken on this machine; all else of it has to be good.
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/personas.toml");
    let text = std::fs::read_to_string(example).expect("it is there");
    let folder = Folder::new("example");
    let anywhere: Vec<String> = text
        .lines()
        .map(|line| if line.starts_with("listen") { "listen = \"127.0.0.1:0\"".to_owned() } else { line.to_owned() })
        .collect();
    folder.write("personas.toml", &anywhere.join("\n"));
    let mut sim = start(&mut tokrate(&folder, &["sim", "--personas", "personas.toml"]));
    let mut line = String::new();
    let mut lines = BufReader::new(sim.stdout.take().expect("piped"));
    lines.read_line(&mut line).expect("text");
    let pid = sim.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill is there").success());
    lines.read_to_string(&mut String::new()).expect("text");
    let ended = tool::finish(sim);
    assert!(line.starts_with("serving 8 providers at "), "{line} {ended:?}");
    assert_eq!(ended.code, Some(0), "{ended:?}");
}
