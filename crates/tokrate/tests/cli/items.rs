//! Vectors and scores of texts through the binary: what the engine saw, what the record and the page hold, and what is compared.
//!
//! Invariant: the engine's own log is the truth of how many tokens were sent.

use crate::folder::Folder;
use crate::loopback_truth::{engine, quick, url};
use crate::scripted::{Server, Then};
use crate::tool::{self, Bench, folded, number};
use std::io::Write;
use tokrate_host::RunningHost;
use tokrate_record::run::Load;

/// Runs a bench for vectors or scores; everything else is small.
fn measure(folder: Folder, url: &str, more: &str) -> Bench {
    let arguments = format!(
        "bench --url {url} --model sim --calibration off --no-probe --json record.json --jsonl rows.jsonl --input-tokens 30 {more}"
    );
    let finished = tool::run(&folder, &arguments.split_whitespace().collect::<Vec<&str>>());
    Bench::read(folder, finished)
}

fn sent(host: &RunningHost, bench: &Bench) {
    let truth = host.truth();
    for row in &bench.rows {
        let served = truth.request(row["request_id"].as_str().expect("an id")).expect("the engine saw it");
        assert_eq!(u64::from(served.input_tokens), number(row, "input_asked"), "{row}");
    }
}

#[test]
fn vectors_are_counted_at_every_size_of_a_request() {
    let host = engine(quick());
    let more = "--task embeddings --batch 1,8 --body dimensions=32 -c 2 -n 12 --html report.html --csv levels.csv";
    let bench = measure(Folder::new("embeddings"), &url(&host), more);
    assert_eq!(bench.finished.code, Some(0), "{:?}", bench.finished);
    sent(&host, &bench);
    let loads: Vec<Load> = bench.record.phases.iter().map(|phase| phase.load).collect();
    assert_eq!(loads, [Load::Batched { concurrency: 2, batch: 1 }, Load::Batched { concurrency: 2, batch: 8 }]);
    for (phase, batch) in bench.record.phases.iter().zip([1_u32, 8]) {
        let conditions = &phase.conditions;
        assert_eq!(
            (conditions.task.as_str(), conditions.batch, conditions.streaming),
            ("embeddings", Some(batch), false)
        );
        let items = phase.items.as_ref().expect("there were items");
        assert_eq!((items.n, items.per_request), (12 * u64::from(batch), Some(f64::from(batch))));
        let throughput = phase.throughput.as_ref().expect("a window");
        let (rate, requests) = (items.per_second.expect("a window"), throughput.requests_per_second);
        assert!((rate / (requests * f64::from(batch)) - 1.0).abs() < 1e-6, "{rate} {requests}");
        assert!((items.input_tokens_per_second.expect("a window") / rate / 30.0 - 1.0).abs() < 1e-6);
        let (whole, each) = (phase.e2e.mean.expect("answers"), phase.time_per_item.mean.expect("answers"));
        assert!((whole / each / f64::from(batch) - 1.0).abs() < 1e-3, "{whole} {each}");
        assert!(phase.gate.is_empty() && phase.failures.is_empty());
    }
    assert!(bench.rows.iter().all(|row| row["items"] == row["items_asked"] && row["tokens_std"] == 0));
    let texts = folded(&bench.finished.stdout);
    assert!(
        texts.contains("an answer after") && texts.contains("items a second at concurrency 2, 8 a request"),
        "{texts}"
    );
    assert!(!texts.contains("not streamed") && !texts.contains("time to first token"), "it is no text: {texts}");
    let page = bench.folder.read("report.html");
    assert!(page.contains("Time of a request") && page.contains("By size of a request") && page.contains("Most items"));
    let csv = bench.folder.read("levels.csv");
    assert!(csv.lines().next().is_some_and(|head| head.contains("items_per_second") && head.contains("batch")));
}

#[test]
fn documents_are_ranked_in_both_forms_and_ollama_and_cohere_have_vectors_of_their_own() {
    let host = engine(quick());
    let root = format!("http://{}", host.address());
    let v1 = url(&host);
    for (name, url, task, dialect) in [
        ("rerank", v1.as_str(), "rerank", "openai-chat"),
        ("rerank-cohere", root.as_str(), "rerank", "cohere-chat"),
        ("embed-cohere", root.as_str(), "embeddings", "cohere-chat"),
        ("embed-ollama", root.as_str(), "embeddings", "ollama-chat"),
    ] {
        let more = format!("--task {task} --batch 5 --dialect {dialect} -c 1 -n 6");
        let bench = measure(Folder::new(name), url, &more);
        bench.expect(0, &[]);
        sent(&host, &bench);
        // A server reads the query with each of the five.
        let query = if task == "rerank" { 5 * 20 } else { 0 };
        assert!(bench.rows.iter().all(|row| number(row, "items") == 5 && number(row, "input_asked") == 150 + query));
        assert_eq!(number(&bench.rows[0], "input_reported"), 150 + query, "{name}");
    }
    let refused = tool::run(
        &Folder::new("rerank-ollama"),
        &format!("bench --url {root} --model sim --task rerank --dialect ollama-chat")
            .split_whitespace()
            .collect::<Vec<&str>>(),
    );
    assert_eq!(refused.code, Some(2));
    assert!(
        folded(&refused.stderr).contains("servers that speak ollama-chat have none beside it"),
        "{}",
        refused.stderr
    );
}

#[test]
fn assertions_and_comparisons_hold_vectors_to_figures_of_their_own() {
    let host = engine(quick());
    let more = "--task embeddings --batch 4 --body dimensions=8 -c 1 -n 30";
    let asserted =
        format!("{more} --assert e2e_p50<2s --assert time_per_item_p50<1s --assert item_throughput.items_per_second>1");
    let one = measure(Folder::new("items-one"), &url(&host), &asserted);
    one.expect(0, &[]);
    assert_eq!(one.record.assertions.len(), 3);
    let below = measure(
        Folder::new("items-below"),
        &url(&host),
        &format!("{more} --assert item_throughput.items_per_second>1000000"),
    );
    assert_eq!(below.finished.code, Some(1), "{}", below.finished.stdout);
    let text = tool::run(
        &one.folder,
        &["bench", "--url", &url(&host), "--model", "sim", "--task", "embeddings", "--slo", "ttft<1s"],
    );
    assert!(folded(&text.stderr).contains("vectors and scores have no ttft"), "{}", text.stderr);
    let first = one.folder.join("record.json");
    let second = below.folder.join("record.json");
    let compared = tool::run(&one.folder, &["compare", &first.to_string_lossy(), &second.to_string_lossy()]);
    assert_eq!(compared.code, Some(0), "{compared:?}");
    assert!(compared.stdout.contains("E2E"), "{}", compared.stdout);
    let other =
        measure(Folder::new("items-other"), &url(&host), "--task embeddings --batch 5 --body dimensions=8 -c 1 -n 30");
    let unlike = tool::run(
        &one.folder,
        &["compare", &first.to_string_lossy(), &other.folder.join("record.json").to_string_lossy()],
    );
    assert_ne!(unlike.code, Some(0), "other sizes are other measurements: {unlike:?}");
}

#[test]
fn an_answer_that_lacks_vectors_is_a_failure() {
    let body = r#"{"data":[{"index":0,"embedding":[0.1]}],"model":"sim"}"#;
    let answer =
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let server = Server::start(move |_, stream| stream.write_all(answer.as_bytes()).map(|()| Then::Keep));
    let bench = measure(Folder::new("items-short"), &server.url(), "--task embeddings --batch 3 -c 1 -n 2 --warmup 0");
    assert!(bench.rows.iter().all(|row| row["failure"]["kind"] == "truncated"), "{:?}", bench.rows);
    assert!(bench.finished.stdout.contains("the answer holds 1 of 3 items"), "{}", bench.finished.stdout);
}
