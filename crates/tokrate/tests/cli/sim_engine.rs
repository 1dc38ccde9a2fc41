//! `tokrate sim --engine`: a scheduler with step times of given hardware, served in real time; a bench against it agrees with
//! the same requests in virtual time.
//!
//! Invariant: both sides have the requests and arrivals of the truth log.

use crate::folder::Folder;
use crate::tool::{Bench, finish, number, run, start, tokrate};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command};
use tokrate_host::TruthRow;

const ENGINE: &str = "sim --listen 127.0.0.1:0 --truth-log truth.jsonl --engine vllm --model llama-3.1-8b --hardware h100-sxm --precision bf16";

fn serve(folder: &Folder, arguments: &str) -> (Child, BufReader<ChildStdout>, String) {
    let mut sim = start(&mut tokrate(folder, &arguments.split_whitespace().collect::<Vec<&str>>()));
    let mut lines = BufReader::new(sim.stdout.take().expect("piped"));
    let mut line = String::new();
    lines.read_line(&mut line).expect("a line");
    let url = line.split_whitespace().find(|word| word.starts_with("http://")).expect("the address").to_owned();
    (sim, lines, url)
}

fn end(sim: Child, mut lines: BufReader<ChildStdout>) {
    let pid = sim.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill is there").success());
    let mut rest = String::new();
    lines.read_to_string(&mut rest).expect("text");
    let ended = finish(sim);
    assert_eq!(ended.code, Some(0), "{rest} {ended:?}");
}

/// The page of metrics.
fn metrics(url: &str) -> String {
    let address = url.trim_start_matches("http://").trim_end_matches("/v1");
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").expect("sent");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("a page");
    page
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The requests of the truth log as a trace.
fn trace(log: &str, output: u32) -> String {
    let mut text = "request,arrival_ms,input_tokens,output_tokens\n".to_owned();
    let mut first = None;
    for line in log.lines() {
        let TruthRow::Request { request, submitted_ns, input_tokens, .. } = serde_json::from_str(line).expect("a row")
        else {
            continue;
        };
        let start = *first.get_or_insert(submitted_ns);
        text += &format!("{request},{},{input_tokens},{output}\n", (submitted_ns - start) as f64 / 1e6);
    }
    text
}

#[test]
fn a_bench_against_the_engine_agrees_with_the_same_run_in_virtual_time() {
    let folder = Folder::new("sim-engine");
    let (sim, lines, url) = serve(&folder, ENGINE);
    let words = format!(
        "bench --url {url} --model llama-3.1-8b --concurrency 4 --requests 16 --warmup 0 --input-tokens 600 \
         --output-tokens 60 --calibration off --no-probe --json record.json --jsonl rows.jsonl"
    );
    let bench_folder = Folder::new("sim-engine-bench");
    let finished = run(&bench_folder, &words.split_whitespace().collect::<Vec<&str>>());
    let bench = Bench::read(bench_folder, finished);
    let page = metrics(&url);
    end(sim, lines);
    bench.expect(0, &[]);

    folder.write("trace.csv", &trace(&folder.read("truth.jsonl"), 60));
    let arguments =
        "estimate replay --trace trace.csv --model llama-3.1-8b --hardware h100-sxm --precision bf16 --json";
    let replayed = run(&folder, &arguments.split_whitespace().collect::<Vec<&str>>());
    let replayed: Value = serde_json::from_str(&replayed.stdout).expect("JSON");
    let rows = replayed["rows"].as_array().expect("rows");
    assert_eq!((rows.len(), bench.rows.len()), (16, 16));
    let computed = |name: &str| median(rows.iter().map(|row| row[name].as_f64().expect("a number")).collect());
    let measured = |of: &dyn Fn(&Value) -> f64| median(bench.rows.iter().map(of).collect());
    let e2e = measured(&|row| number(row, "e2e_ns") as f64 / 1e6);
    let tpot = measured(&|row| 1e3 / row["output_speed"].as_f64().expect("a speed"));
    for (name, seen, expected) in
        [("latency", e2e, computed("latency_ms")), ("time a token", tpot, computed("tpot_ms"))]
    {
        // A busy machine delays what is measured and never hurries it.
        let ratio = seen / expected;
        assert!((0.98..1.05).contains(&ratio), "{name}: {seen} ms measured, {expected} ms in virtual time");
    }

    for line in ["vllm:kv_cache_usage_perc", "vllm:num_preemptions_total", "vllm:prefix_cache_queries_total"] {
        assert!(page.contains(line), "{page}");
    }
    let value = |name: &str| {
        let row = page.lines().find(|line| line.starts_with(name) && !line.starts_with('#')).expect("a row");
        row.split_whitespace().last().and_then(|text| text.parse::<f64>().ok()).expect("a number")
    };
    assert_eq!(
        value("vllm:request_success_total{engine=\"0\",model_name=\"llama-3.1-8b\",finished_reason=\"length\""),
        16.0
    );
    assert_eq!(value("vllm:generation_tokens_total"), 960.0);
}

#[test]
fn a_beginning_that_prompts_share_is_found_in_the_prefix_cache() {
    let folder = Folder::new("sim-engine-prefix");
    let (sim, lines, url) = serve(&folder, ENGINE);
    let words = format!(
        "bench --url {url} --model llama-3.1-8b --concurrency 1 --requests 6 --warmup 0 --input-tokens 600 \
         --shared-prefix 480 --output-tokens 2 --calibration off --no-probe"
    );
    let finished = run(&folder, &words.split_whitespace().collect::<Vec<&str>>());
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let page = metrics(&url);
    end(sim, lines);
    let value = |name: &str| {
        let row = page.lines().find(|line| line.starts_with(name) && !line.starts_with('#')).expect("a row");
        row.split_whitespace().last().and_then(|text| text.parse::<f64>().ok()).expect("a number")
    };
    let (queried, found) = (value("vllm:prefix_cache_queries_total"), value("vllm:prefix_cache_hits_total"));
    // Five of six prompts find the blocks of 16 tokens that lie within the first 480 wholly.
    assert!((5.0 * 448.0..=5.0 * 496.0).contains(&found), "{found} of {queried} tokens");
    assert!(queried >= 6.0 * 590.0 && found % 16.0 == 0.0, "{found} of {queried} tokens");
}

#[test]
fn prompts_of_an_earlier_run_are_not_sent_again_unless_a_seed_asks_for_them_and_then_it_is_said() {
    let folder = Folder::new("sim-engine-again");
    let (sim, lines, url) = serve(&folder, ENGINE);
    let run_again = |seed: &str| {
        let words = format!(
            "bench --url {url} --model llama-3.1-8b --concurrency 1 --requests 4 --warmup 0 --input-tokens 600 --output-tokens 2 \
             --calibration off --no-probe --json record.json {seed}"
        );
        let finished = run(&folder, &words.split_whitespace().collect::<Vec<&str>>());
        assert_eq!(finished.code, Some(0), "{finished:?}");
        let record: Value = serde_json::from_str(&folder.read("record.json")).expect("JSON");
        record["warnings"].to_string()
    };
    let said = "4 of 4 answers (100 %) report that more than half of their prompt was in the server's cache";
    let seen = ["", "", "--seed 0", "--seed 0", ""].map(|seed| run_again(seed).contains(said));
    let twice = "bench --url URL --model llama-3.1-8b --concurrency 1 --requests 4 --warmup 0 --input-tokens 600 --output-tokens 2 \
                 --calibration off --no-probe --self-check --rounds 2 --seed 7";
    let finished = run(&folder, &twice.replace("URL", &url).split_whitespace().collect::<Vec<&str>>());
    end(sim, lines);
    assert_eq!(seen, [false, false, false, true, false]);
    assert!(!finished.stdout.contains("was in the server's cache"), "{}", finished.stdout);
    assert!(finished.stdout.contains("/llama-3.1-8b (2)") && !finished.stdout.contains('@'), "{}", finished.stdout);
}

#[test]
fn an_engine_that_cannot_be_is_refused() {
    let folder = Folder::new("sim-engine-refused");
    let refused = |arguments: &str| {
        let finished = run(&folder, &arguments.split_whitespace().collect::<Vec<&str>>());
        assert_eq!(finished.code, Some(2), "{finished:?}");
        finished.stderr
    };
    let texts = [
        refused("sim --engine lottery --model llama-3.1-8b --hardware h100"),
        refused("sim --engine vllm --model sim --hardware h100"),
        refused("sim --engine vllm --model llama-3.1-405b --hardware h100"),
        refused("sim --engine vllm --model llama-3.1-8b --hardware h100 --speculation 3"),
        refused("sim --engine vllm --model llama-3.1-8b"),
        refused("sim --engine vllm --model llama-3.1-8b --hardware h100 --speed 50"),
    ];
    insta::assert_snapshot!("sim_engine_refused", texts.join("----\n"));
}
