//! Calls of tools and JSON by a schema through the binary: what was asked for, when it was whole, and what was valid.
//!
//! Invariant: the engine's own log is the truth of when each token was written.

use crate::folder::Folder;
use crate::loopback_truth::{engine, quick, url};
use crate::scripted::{CHUNKED, DONE, Server, Then};
use crate::tool::{self, Bench, folded, number};
use std::io::Write;

/// Runs a bench; everything but what is given is small.
fn measure(folder: Folder, url: &str, more: &str) -> Bench {
    let arguments = format!(
        "bench --url {url} --model sim --calibration off --no-probe --json record.json --jsonl rows.jsonl --input-tokens 30 --warmup 0 {more}"
    );
    let finished = tool::run(&folder, &arguments.split_whitespace().collect::<Vec<&str>>());
    Bench::read(folder, finished)
}

#[test]
fn calls_and_json_of_the_engine_are_valid_and_timed_in_every_dialect() {
    let host = engine(quick());
    let root = format!("http://{}", host.address());
    let v1 = url(&host);
    for (task, dialect, url) in [
        ("tools", "openai-chat", &v1),
        ("tools", "openai-responses", &v1),
        ("tools", "anthropic", &root),
        ("tools", "gemini", &root),
        ("json", "openai-chat", &v1),
        ("json", "anthropic", &root),
    ] {
        let more = format!("--task {task} --dialect {dialect} -c 2 -n 20 --html report.html --csv levels.csv");
        let bench = measure(Folder::new(&format!("structure-{task}-{dialect}")), url, &more);
        assert_eq!(bench.finished.code, Some(0), "{task} {dialect}: {:?}", bench.finished);
        let phase = &bench.record.phases[0];
        assert_eq!(phase.conditions.task, task);
        let seen = phase.structure.as_ref().expect("answers were to have a form");
        assert_eq!(
            (seen.n, seen.valid, seen.calls),
            (20, 20, if task == "tools" { 20 } else { 0 }),
            "{dialect}: {seen:?}"
        );
        let truth = host.truth();
        for row in &bench.rows {
            let served = truth.request(row["request_id"].as_str().expect("an id")).expect("the engine saw it");
            let whole_at = number(row, "sent_at_ns") + number(row, "valid_ns");
            // When it is called whole, every token had been written.
            let late = served.writes.iter().filter(|write| write.written_at.as_nanos() > whole_at);
            assert_eq!(late.map(|write| write.tokens).sum::<u32>(), 0, "{row}");
            assert!(number(row, "valid_ns") <= number(row, "e2e_ns") && row["invalid"].is_null(), "{row}");
            if task == "tools" {
                assert!(number(row, "first_argument_ns") >= number(row, "ttft_ns"), "{row}");
                assert!(number(row, "first_argument_ns") <= number(row, "valid_ns"), "{row}");
            }
        }
        let text = folded(&bench.finished.stdout);
        assert!(text.contains("a valid whole after") && text.contains("20 of 20 valid"), "{text}");
        let page = bench.folder.read("report.html");
        assert!(page.contains("Answers that a program reads") && !page.contains("Why answers are not valid"));
        assert!(bench.folder.read("levels.csv").lines().next().is_some_and(|head| head.contains("valid_share")));
    }
}

#[test]
fn invalid_answers_are_counted_with_their_reasons_and_can_be_asserted() {
    let answers = [
        r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"now","arguments":"{\"zone\":\"UTC\"}"}}]}"#,
        r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"now","arguments":"{\"zone\":5}"}}]}"#,
        r#"{"content":"It is late."}"#,
    ];
    let server = Server::start(move |asked, stream| {
        assert_eq!(asked.json()["tool_choice"], "required");
        assert_eq!(asked.json()["tools"][0]["function"]["name"], "now");
        let delta = answers[asked.index() % 3];
        let event =
            format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":\"stop\"}}]}}\n\n{DONE}");
        write!(stream, "{CHUNKED}{:x}\r\n{event}\r\n0\r\n\r\n", event.len()).map(|()| Then::Close)
    });
    let folder = Folder::new("structure-invalid");
    let tools = r#"[{"type":"function","function":{"name":"now","parameters":{"type":"object","properties":{"zone":{"type":"string"}},"required":["zone"]}}}]"#;
    std::fs::write(folder.join("tools.json"), tools).expect("writable");
    let more = "--task tools --tools tools.json -c 1 -n 30 --no-usage --html report.html --assert valid.share>50%";
    let bench = measure(folder, &server.url(), more);
    assert_eq!(bench.finished.code, Some(1), "a third is valid: {:?}", bench.finished);
    let seen = bench.record.phases[0].structure.as_ref().expect("answers were to have a form");
    assert_eq!((seen.n, seen.valid), (30, 10));
    let text = folded(&format!("{}{}", bench.finished.stdout, bench.finished.stderr));
    assert!(text.contains("20 of 30 answers are not what was asked for"), "{text}");
    assert!(text.contains("10: no tool was called") && text.contains("/zone breaks `type`"), "{text}");
    assert!(bench.folder.read("report.html").contains("Why answers are not valid"));
    assert!(bench.rows.iter().all(|row| row["invalid"].is_null() == row["valid_ns"].is_u64()));
}

#[test]
fn what_does_not_go_together_is_refused_before_anything_is_sent() {
    let folder = Folder::new("structure-refused");
    std::fs::write(folder.join("schema.json"), r#"{"type": "object", "patternProperties": {}}"#).expect("writable");
    for (more, why) in [
        ("--tools x.json", "they are called with --task tools"),
        ("--schema schema.json", "it belongs to --task json"),
        (
            "--task json --schema schema.json",
            "read --schema schema.json: the keyword `patternProperties` is not checked here",
        ),
        ("--task json --schema none.json", "read --schema none.json"),
        ("--task tools --ignore-eos", "no longer valid"),
        ("--task tools --sessions 2", "a call has to be answered by a tool"),
        ("--task json --slo time_to_first_argument<1s", "JSON has no time_to_first_argument; give --task tools"),
        ("--slo time_to_valid<1s", "free text has no time_to_valid; give --task tools or json"),
        ("--task tools --batch 3", "--task embeddings or rerank"),
        ("--url http://127.0.0.1:9/v1 --model m --task json --dialect openai-completions", "cannot be asked for it"),
    ] {
        let arguments = format!("bench {more}");
        let refused = tool::run(&folder, &arguments.split_whitespace().collect::<Vec<&str>>());
        assert_eq!(refused.code, Some(2), "{more}: {refused:?}");
        assert!(folded(&refused.stderr).contains(why), "{more}: {}", refused.stderr);
    }
}
