//! Workloads that are mixed: many clients, several models, tools within conversations.

use crate::folder::Folder;
use crate::tool::{Bench, folded, number, run};
use tokrate_core::Span;
use tokrate_host::{Host, HostConfig, RunningHost};
use tokrate_sim::Law;

fn engine() -> RunningHost {
    let law = Law { base_delay: Span::from_millis(5), stream_tokens_per_second: 2_000.0, ..Law::default() };
    Host::start(HostConfig { law, ..HostConfig::default() }).expect("loopback has a free port")
}

/// Runs a bench of the engine with these further words.
fn measured(folder: Folder, host: &RunningHost, words: &str) -> Bench {
    let line = format!(
        "bench --url http://{}/v1 --model sim --warmup 0 --calibration off --no-probe --json record.json --jsonl rows.jsonl {words}",
        host.address()
    );
    let finished = run(&folder, &line.split_whitespace().collect::<Vec<_>>());
    Bench::read(folder, finished)
}

#[test]
fn clients_of_servegen_send_what_their_files_say() {
    let (folder, host) = (Folder::new("servegen"), engine());
    std::fs::create_dir(folder.join("clients")).expect("a new folder");
    let dataset = |tokens: u32| {
        format!(r#"{{"0": {{"input_tokens": "{{{tokens}: 1.0}}", "output_tokens": "{{4: 0.5, 6: 0.5}}"}}}}"#)
    };
    for (client, rate, law, tokens) in [(3, 20, "Gamma", 30), (12, 10, "Weibull", 60)] {
        folder
            .write(&format!("clients/chunk-{client}-trace.csv"), &format!("0,0,0,,0,0\n600,{rate},1.2,{law},0.7,1\n"));
        folder.write(&format!("clients/chunk-{client}-dataset.json"), &dataset(tokens));
    }
    let bench = measured(folder, &host, "--clients clients --clients-from 10m --duration 2s --clients-rate 45");
    bench.expect(0, &[]);
    let sent = bench.rows.len();
    assert!((40..160).contains(&sent), "90 on average: {sent}");
    let of = |tokens: u64| bench.rows.iter().filter(|row| number(row, "input_asked") == tokens).count();
    assert!(of(30) > of(60) && of(30) + of(60) == sent, "two to one: {} {}", of(30), of(60));
    let prompts = &bench.phase().conditions.prompts;
    assert!(
        prompts.contains("as drawn from 2 of 2 clients, 2 s from 600 s on, 45 a second (ServeGen), hash "),
        "{prompts}"
    );
    std::fs::remove_file(bench.folder.join("clients/chunk-3-dataset.json")).expect("it was written");
    let refused = run(&bench.folder, &["bench", "--clients", "clients"]);
    assert!(folded(&refused.stderr).contains("of chunk-3 there is one file"), "{}", refused.stderr);
    bench.folder.write("clients/chunk-3-dataset.json", "{\"0\": 3}");
    let refused = run(&bench.folder, &["bench", "--clients", "clients"]);
    let message = folded(&refused.stderr);
    assert!(message.contains("chunk-3-dataset.json: line 1, column 1: expected `input_tokens`"), "{message}");
    host.stop();
}

#[test]
fn sessions_that_the_number_of_requests_cuts_short_are_told() {
    let host = engine();
    let words = "--sessions 1 --turns 3 --input-tokens 10 --output-tokens 4";
    let bench = measured(Folder::new("cut-sessions"), &host, &format!("{words} -n 4"));
    bench.expect(0, &[]);
    let sessions = bench.phase().sessions.as_ref().expect("a load of sessions");
    assert_eq!((bench.rows.len(), sessions.started, sessions.completed, sessions.cut), (4, 2, 1, 1));
    let sentence =
        "1 of 2 sessions was cut short, as --requests and --duration end a level in the middle of its last sessions";
    assert!(bench.record.notes.iter().any(|note| note.contains(sentence)), "{:?}", bench.record.notes);
    assert!(folded(&bench.finished.stdout).contains(sentence), "{}", bench.finished.stdout);
    let whole = measured(Folder::new("whole-sessions"), &host, words);
    assert!(!whole.finished.stdout.contains("cut short"), "{}", whole.finished.stdout);
    host.stop();
}

#[test]
fn requests_ask_for_several_models_by_weight_and_each_has_its_figures() {
    let (folder, host) = (Folder::new("lora"), engine());
    let words = "-c 4 -n 80 --input-tokens 20 --output-tokens 8 --lora sql:3,fr --html page.html";
    let bench = measured(folder, &host, words);
    bench.expect(0, &[]);
    let adapters = &bench.phase().adapters;
    let names: Vec<&str> = adapters.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["sql", "fr"]);
    assert_eq!(adapters.iter().map(|row| row.n).sum::<u64>(), 80);
    assert!((45..75).contains(&adapters[0].n), "60 on average: {}", adapters[0].n);
    let rows = bench.rows.iter().filter(|row| row["adapter"] == "sql").count() as u64;
    assert_eq!(rows, adapters[0].n);
    assert!(bench.phase().conditions.options.contains("models=sql:3,fr:1"), "{}", bench.phase().conditions.options);
    assert!(bench.folder.read("page.html").contains("Time to first token by model"));
    // Without a limit of requests each session runs to its end: a limit would cut one short, by which is quicker.
    let talks = "--sessions 24 --turns 3 --input-tokens 20 --output-tokens 8 --lora sql:3,fr";
    let talks = measured(Folder::new("lora-sessions"), &host, talks);
    let mut models: std::collections::BTreeMap<u64, Vec<String>> = std::collections::BTreeMap::new();
    for row in &talks.rows {
        let model = row["adapter"].as_str().expect("each row says its model").to_owned();
        models.entry(number(row, "session")).or_default().push(model);
    }
    assert!(
        models.values().all(|of| of.len() == 3 && of.iter().all(|model| *model == of[0])),
        "one a session: {models:?}"
    );
    assert!(["sql", "fr"].iter().all(|model| models.values().any(|of| of[0] == *model)), "{models:?}");
    let refused = run(&bench.folder, &["bench", "--lora", "a,a"]);
    assert!(folded(&refused.stderr).contains("read --lora: `a` is named twice"), "{}", refused.stderr);
    let refused = run(&bench.folder, &["bench", "--lora-skew", "1"]);
    assert!(folded(&refused.stderr).contains("read --lora-skew: it says how often"), "{}", refused.stderr);
    host.stop();
}

#[test]
fn a_conversation_calls_its_tools_and_goes_on_with_their_results() {
    let (folder, host) = (Folder::new("tool-turns"), engine());
    let words = "--sessions 2 --turns 2 --task tools --tool-turns 2 --tool-time 50ms --tool-tokens 30 --input-tokens 20 --output-tokens 400";
    let bench = measured(folder, &host, words);
    bench.expect(0, &[]);
    // A prompt, two results: three requests a turn, of which two demand a call.
    assert_eq!(bench.rows.len(), 12);
    let structure = bench.phase().structure.as_ref().expect("calls were demanded");
    assert_eq!((structure.n, structure.valid), (8, 8), "{structure:?}");
    let of = |session: u64, turn: u64| {
        let is = |row: &&serde_json::Value| number(row, "session") == session && number(row, "turn") == turn;
        bench.rows.iter().find(is).unwrap_or_else(|| panic!("no turn {turn} of {session}"))
    };
    for session in 0..2 {
        assert!(
            of(session, 2)["tool_calls"].is_null() && of(session, 1)["tool_calls"].is_u64(),
            "the last answers with text"
        );
        let waited = number(of(session, 1), "due_at_ns") - number(of(session, 0), "ended_at_ns");
        assert!(waited >= 50_000_000, "the tool takes its time: {waited}");
        let asked = number(of(session, 1), "input_asked") - number(of(session, 0), "input_asked");
        assert!(asked >= 30, "the result is read: {asked}");
    }
    assert!(bench.phase().conditions.arrivals.contains("after each prompt 2 results of tools, each in 0.05 s"));
    let refused = run(&bench.folder, &["bench", "--sessions", "2", "--tool-turns", "1"]);
    assert!(
        folded(&refused.stderr).contains("read --tool-turns: the model has to be asked for calls"),
        "{}",
        refused.stderr
    );
    host.stop();
}
