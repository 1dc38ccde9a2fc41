//! Batches of requests through the binary: made, uploaded, begun, asked after, read, counted and deleted, in both APIs.
//!
//! Invariant: the engine's own log is the truth of what was answered, and its law that of how long it takes at least.

use crate::folder::Folder;
use crate::loopback_truth::{engine, quick, url};
use crate::tool::{self, BOUND, Bench, finish, folded, number, start, tokrate};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;
use tokrate_core::Span;
use tokrate_host::RunningHost;
use tokrate_sim::Law;

/// Runs a bench; everything but what is given is small.
fn measure(folder: Folder, url: &str, more: &str) -> Bench {
    let arguments = format!(
        "bench --url {url} --model sim --calibration off --json record.json --jsonl rows.jsonl --task batch --input-tokens 30 \
         --output-tokens 5 --poll 50ms {more}"
    );
    let finished = tool::run(&folder, &arguments.split_whitespace().collect::<Vec<&str>>());
    Bench::read(folder, finished)
}

/// What the engine answers to a question.
fn get(host: &RunningHost, path: &str) -> String {
    let mut stream = TcpStream::connect(host.address()).expect("it listens");
    let head = format!("GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", host.address());
    stream.write_all(head.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

/// Two at once, each 10 ms and then 4 more tokens in as many: 20 requests take 140 ms at least.
fn two_at_once() -> Law {
    Law { slots: 2, ..quick() }
}

#[test]
fn a_batch_is_answered_whole_in_both_apis_and_its_files_are_gone_afterwards() {
    for (dialect, is_files) in [("openai-chat", true), ("openai-responses", true), ("anthropic", false)] {
        let host = engine(two_at_once());
        let base = if is_files { url(&host) } else { format!("http://{}", host.address()) };
        let more = format!(
            "--batch 20 --dialect {dialect} --wide --html report.html --csv levels.csv --assert batch_throughput.per_second>1"
        );
        let bench = measure(Folder::new(&format!("batch-{dialect}")), &base, &more);
        bench.expect(0, &[]);
        let phase = &bench.record.phases[0];
        assert_eq!((phase.conditions.task.as_str(), phase.conditions.batch), ("batch", Some(20)));
        assert!(phase.conditions.options.contains("poll="), "{}", phase.conditions.options);
        let batches = phase.batches().expect("a batch");
        assert_eq!(
            (batches.n, batches.requests, batches.succeeded, batches.failed, batches.missing),
            (1, 20, 20, 0, 0)
        );
        assert_eq!((bench.rows.len(), batches.left), (1, 0));
        let row = &bench.rows[0];
        assert_eq!((number(row, "items"), number(row, "items_asked")), (20, 20), "{row}");
        assert_eq!((number(row, "input_asked"), number(row, "input_reported")), (600, 600), "{row}");
        assert_eq!(number(row, "tokens_reported"), 100, "{row}");
        assert!(number(row, "e2e_ns") >= 140_000_000, "two at once take ten turns of 14 ms: {row}");
        assert!(number(&row["batch"], "late_at_most_ns") >= 50_000_000, "{row}");
        let truth = host.truth();
        assert_eq!(truth.requests.len(), 20, "each request of it was answered once");
        assert!(truth.requests.iter().all(|request| request.id.as_ref().is_some_and(|id| id.contains(":request-"))));
        // What is deleted is not there.
        let path = if is_files { "/v1/files/file-1" } else { "/v1/messages/batches/msgbatch_1" };
        let gone = get(&host, path);
        assert!(gone.starts_with("HTTP/1.1 404"), "{dialect}: {gone}");
        let text = folded(&bench.finished.stdout);
        assert!(text.contains("a batch done after") && text.contains("0 of 20 requests failed"), "{text}");
        let page = bench.folder.read("report.html");
        assert!(page.contains("From upload to done") && page.contains("A batch holds several requests"));
        let csv = bench.folder.read("levels.csv");
        assert!(csv.lines().next().is_some_and(|head| head.contains("batch_late_at_most_p50_ms")), "{csv}");
    }
}

#[test]
fn files_that_are_to_be_kept_are_and_requests_that_fail_are_counted() {
    let host = engine(two_at_once());
    let more = "--batch 6 --keep --header x-tokrate-fault:server_error=0.5 -n 3";
    let bench = measure(Folder::new("batch-kept"), &url(&host), more);
    bench.expect(0, &[]);
    let batches = bench.record.phases[0].batches().expect("batches");
    assert_eq!((batches.n, batches.requests, batches.missing), (3, 18, 0));
    assert_eq!(batches.succeeded + batches.failed, 18);
    assert!(batches.failed > 0 && batches.succeeded > 0, "half of them on average: {batches:?}");
    let kept = get(&host, "/v1/files/file-1");
    assert!(kept.starts_with("HTTP/1.1 200"), "{kept}");
}

#[test]
fn a_batch_whose_time_is_over_is_cancelled_and_its_file_deleted() {
    let host = engine(Law { slots: 1, base_delay: Span::from_millis(200), ..quick() });
    let bench = measure(Folder::new("batch-late"), &url(&host), "--batch 50 --timeout 500ms --keep-going");
    let row = &bench.rows[0];
    assert_eq!(row["failure"]["kind"], "timed_out", "{row}");
    let state = get(&host, "/v1/batches/batch_2");
    assert!(state.contains("cancelling") || state.contains("cancelled"), "{state}");
    assert!(get(&host, "/v1/files/file-1").starts_with("HTTP/1.1 404"));
    assert!(host.truth().requests.len() < 10, "what waited was not begun");
}

#[test]
fn an_interrupted_run_cancels_its_batch() {
    let host = engine(Law { slots: 1, base_delay: Span::from_millis(100), ..quick() });
    let folder = Folder::new("batch-interrupted");
    let arguments = format!(
        "bench --url {} --model sim --calibration off --json record.json --task batch --batch 500 --input-tokens 5 --output-tokens 2 --poll 20ms",
        url(&host)
    );
    let child = start(&mut tokrate(&folder, &arguments.split_whitespace().collect::<Vec<&str>>()));
    let begun = Instant::now();
    while host.truth().requests.is_empty() {
        assert!(begun.elapsed() < BOUND, "the batch was never begun");
        std::thread::yield_now();
    }
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill is there").success());
    let finished = finish(child);
    assert_ne!(finished.code, Some(0), "{finished:?}");
    let said = "the batch batch_2 had not ended and was cancelled at the server";
    assert!(folded(&finished.stdout).contains(said), "{finished:?}");
    let state = get(&host, "/v1/batches/batch_2");
    assert!(state.contains("cancelling") || state.contains("cancelled"), "{state}");
}

/// The notes of batches in the folder of a user.
fn notes(folder: &Folder) -> Vec<PathBuf> {
    let found = std::fs::read_dir(folder.join("data/tokrate/batches"));
    found.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect()
}

#[test]
fn a_batch_of_a_run_that_was_killed_is_named_by_the_next_run_until_its_note_is_gone() {
    let host = engine(Law { slots: 1, base_delay: Span::from_millis(100), ..quick() });
    let folder = Folder::new("batch-killed");
    let arguments = format!(
        "bench --url {} --model sim --calibration off --task batch --batch 500 --input-tokens 5 --output-tokens 2 --poll 20ms",
        url(&host)
    );
    let mut child = start(&mut tokrate(&folder, &arguments.split_whitespace().collect::<Vec<&str>>()));
    let begun = Instant::now();
    let names_batch = |note: &PathBuf| std::fs::read_to_string(note).is_ok_and(|text| text.contains("/cancel"));
    while !notes(&folder).iter().any(names_batch) {
        assert!(begun.elapsed() < BOUND, "the batch was never begun");
        std::thread::yield_now();
    }
    child.kill().expect("it runs");
    child.wait().expect("it was killed");
    let next = || tool::run(&folder, &["bench", "-c", "1", "-n", "2", "--output-tokens", "5", "--calibration", "off"]);
    let (first, second) = (next(), next());
    let note = notes(&folder).pop().expect("it is still there");
    let origin = format!("http://{}", host.address());
    for part in [
        "an earlier run left something at a server",
        "a batch was left there that may go on, and cost money",
        &format!("curl -X POST -H \"Authorization: Bearer $KEY\" {origin}/v1/batches/batch_2/cancel\n"),
        &format!("curl -X DELETE -H \"Authorization: Bearer $KEY\" {origin}/v1/files/file-1\n"),
        &format!("rm {}\n", note.display()),
    ] {
        assert!(first.stderr.contains(part) && second.stderr.contains(part), "{part}: {}", first.stderr);
    }
    std::fs::remove_file(note).expect("it was there");
    assert!(!next().stderr.contains("left something"));
}

#[test]
fn a_batch_of_which_no_note_can_be_kept_is_not_begun() {
    let host = engine(quick());
    let folder = Folder::new("batch-unnoted");
    folder.write("data", "a file where the folder should be");
    let arguments =
        format!("bench --url {} --model sim --calibration off --task batch --batch 5 --poll 50ms", url(&host));
    let finished = tool::run(&folder, &arguments.split_whitespace().collect::<Vec<&str>>());
    assert_eq!(finished.code, Some(2), "{finished:?}");
    assert!(folded(&finished.stderr).contains("failed to write a note of the batch in"), "{}", finished.stderr);
    assert!(finished.stderr.contains("XDG_DATA_HOME"), "{}", finished.stderr);
    assert!(host.truth().requests.is_empty());
}
