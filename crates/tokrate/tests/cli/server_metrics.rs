//! What the server counts beside what the client sees: pages of metrics before and after, whatever they hold.
//!
//! It does not believe either side: the scripted server counts what it really answered. Invariant: no page makes a run
//! fail.

use crate::folder::Folder;
use crate::scripted::{Asked, Server, Then, answer, stream};
use crate::tool::{Bench, finish, folded, start, tokrate};
use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use tokrate_meter::server_metrics::{Between, ServerReport};

const TOKENS: u32 = 40;

/// A server that answers `TOKENS` tokens to each POST, and at `/metrics` what `page` makes of the number of its answers.
fn engine(page: impl Fn(u64, &Asked) -> String + Send + Sync + 'static) -> Server {
    let answered = Arc::new(AtomicU64::new(0));
    Server::start(move |asked, to: &mut TcpStream| {
        let text = if asked.head.starts_with("GET /metrics ") {
            page(answered.load(SeqCst), asked)
        } else {
            answered.fetch_add(1, SeqCst);
            answer("200 OK", "text/event-stream", &stream(TOKENS).concat())
        };
        to.write_all(text.as_bytes())?;
        Ok(Then::Close)
    })
}

fn metrics(text: &str) -> String {
    answer("200 OK", "text/plain; version=0.0.4", text)
}

/// What vLLM would publish after `n` answers of `tokens` tokens, each with a TTFT of a millisecond by its own clock.
fn vllm(n: u64, tokens: u64) -> String {
    format!(
        "# TYPE vllm:request_success_total counter\n\
         vllm:request_success_total{{finished_reason=\"stop\",model_name=\"m\"}} {n}.0\n\
         vllm:generation_tokens_total{{model_name=\"m\"}} {}.0\n\
         vllm:prompt_tokens_total{{model_name=\"m\"}} {}.0\n\
         vllm:num_requests_running{{model_name=\"m\"}} 0.0\n\
         vllm:time_to_first_token_seconds_bucket{{le=\"0.0005\",model_name=\"m\"}} 0.0\n\
         vllm:time_to_first_token_seconds_bucket{{le=\"0.002\",model_name=\"m\"}} {n}.0\n\
         vllm:time_to_first_token_seconds_bucket{{le=\"+Inf\",model_name=\"m\"}} {n}.0\n\
         vllm:time_to_first_token_seconds_count{{model_name=\"m\"}} {n}.0\n\
         vllm:time_to_first_token_seconds_sum{{model_name=\"m\"}} {}\n",
        n * tokens,
        n * 50,
        n as f64 * 0.001,
    )
}

fn bench(target: &str) -> Bench {
    let folder = Folder::new("metrics");
    let line = format!(
        "bench {target} --concurrency 2 --requests 6 --warmup 2 --input-tokens 50 --output-tokens {TOKENS} --calibration off \
         --no-probe --wide --json record.json --jsonl rows.jsonl --html report.html"
    );
    let mut command = tokrate(&folder, &line.split_whitespace().collect::<Vec<_>>());
    let finished = finish(start(command.env("LLAMA_API_KEY", "local-secret-1").env("GROQ_API_KEY", "gsk-1234567")));
    let bench = Bench::read(folder, finished);
    bench.expect(0, &[]);
    bench
}

fn server(bench: &Bench) -> &ServerReport {
    bench.phase().server.as_ref().unwrap_or_else(|| panic!("no metrics: {:?}", bench.record.notes))
}

/// The record's warnings but for one of the scripted engine.
fn warnings(bench: &Bench) -> Vec<&str> {
    let warnings = bench.record.warnings.iter().map(String::as_str);
    // It says the same at once to everybody, which is noticed.
    warnings.filter(|warning| !warning.contains(" answers (")).collect()
}

#[test]
fn what_the_server_counts_stands_beside_what_the_client_saw() {
    let vllm = engine(|n, _| metrics(&vllm(n, u64::from(TOKENS))));
    let bench = bench(&format!("vllm@{}/m", vllm.place()));
    let truth = server(&bench);
    assert_eq!((truth.family.as_str(), truth.endpoint.clone()), ("vllm", format!("http://{}/metrics", vllm.place())));
    let sent = bench.rows.len() as u64;
    assert_eq!((truth.requests, truth.foreign_requests, truth.restarted), (Some(sent), Some(0), false));
    assert_eq!((truth.output_tokens, truth.output_tokens_apart), (Some(sent * u64::from(TOKENS)), Some(0.0)));
    assert_eq!((truth.client.started, truth.client.answered), (sent, sent));
    let ttft = truth.ttft.as_ref().expect("a histogram");
    assert_eq!((ttft.n, ttft.p50), (sent, Some(Between { low_ms: 0.5, high_ms: Some(2.0) })));
    let gap = truth.client.ttft_mean_ms.expect("a mean") - 1.0;
    assert!((truth.ttft_gap_ms.expect("a gap") - gap).abs() < 1e-6);
    assert_eq!((truth.warnings.len(), warnings(&bench)), (0, Vec::new()));
    let shown = &bench.finished.stdout;
    assert!(shown.contains("server: TTFT mean (ms)") && shown.contains("0.500..2.00"), "{shown}");
    assert!(shown.contains(&format!("{} (+0.0 %)", sent * u64::from(TOKENS))), "{shown}");
    let report = bench.folder.read("report.html");
    assert!(report.contains("What the server says"), "the report has a section");
    let row = report.rsplit("What the server says").next().and_then(|rest| rest.split("</table>").next());
    // Numbers are kept together on narrow pages.
    assert!(row.is_some_and(|row| row.contains("0.500\u{a0}to\u{a0}2.00")), "{row:?}");
    let host = bench.record.engine_host.as_ref().expect("the engine is on this machine");
    assert!(
        host.cores.is_some_and(|cores| cores > 0) && report.contains("engine&#39;s machine")
            || report.contains("engine's machine")
    );
}

#[test]
fn other_users_and_other_counts_are_warned_of() {
    let shared = engine(|n, _| metrics(&vllm(n + n / 2, u64::from(TOKENS))));
    let found = bench(&format!("vllm@{}/m", shared.place()));
    assert!(server(&found).foreign_requests.is_some_and(|foreign| foreign > 0));
    assert!(warnings(&found)[0].contains("others use it"), "{:?}", found.record.warnings);
    assert!(
        folded(&found.finished.stdout).contains("warning: concurrency 2: the server finished"),
        "{}",
        found.finished.stdout
    );
    let more = engine(|n, _| metrics(&vllm(n, u64::from(TOKENS) + 2)));
    let found = bench(&format!("vllm@{}/m", more.place()));
    let warnings = warnings(&found);
    assert!(warnings.len() == 1 && warnings[0].contains("(+5.0 %)"), "{warnings:?}");
}

#[test]
fn a_page_that_comes_late_is_waited_for() {
    // The first page after the last answer lacks two of them.
    let asked = AtomicU64::new(0);
    let late = engine(move |n, _| {
        let times = asked.fetch_add(1, SeqCst);
        metrics(&vllm(if times == 1 { n - 2 } else { n }, u64::from(TOKENS)))
    });
    let found = bench(&format!("vllm@{}/m", late.place()));
    assert_eq!(server(&found).warnings, [""; 0]);
}

#[test]
fn a_server_without_a_page_is_a_note_and_no_failure() {
    let long = "vllm:x 1\n".repeat(3_000_000);
    let pages: [(&str, String); 5] = [
        ("answers 404", answer("404 Not Found", "text/plain", "no")),
        ("holds no metrics", answer("200 OK", "text/html", "<html><body>hello</body></html>")),
        ("holds no metrics", metrics("")),
        ("metrics", "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nvllm:x 1\n".to_owned()),
        ("larger than", metrics(&long)),
    ];
    for (printed, page) in pages {
        let silent = engine(move |_, _| page.clone());
        let found = bench(&format!("vllm@{}/m", silent.place()));
        assert_eq!(found.phase().server, None);
        let note = found.record.notes.iter().find(|note| note.contains("server's own metrics were not read"));
        assert!(note.is_some_and(|note| note.contains(printed)), "{printed}: {:?}", found.record.notes);
        assert_eq!(warnings(&found), [""; 0]);
    }
}

#[test]
fn a_page_of_nonsense_changes_no_number() {
    let odd = engine(|n, _| {
        metrics(&format!(
            "vllm:request_success_total NaN\nvllm:generation_tokens_total -Inf\nvllm:prompt_tokens_total 1e308\n\
             vllm:time_to_first_token_seconds_count {n}\nvllm:time_to_first_token_seconds_sum 1e308\n\
             vllm:time_to_first_token_seconds_bucket{{le=\"x\"}} 1\n\u{0}\u{fffd}{{{{\n"
        ))
    });
    let found = bench(&format!("vllm@{}/m", odd.place()));
    let truth = server(&found);
    assert_eq!((truth.requests, truth.output_tokens, truth.ttft.clone()), (None, None, None));
}

/// Notes that tell of the server's metrics.
fn about_the_server(found: &Bench) -> usize {
    found.record.notes.iter().filter(|note| note.contains("metrics")).count()
}

#[test]
fn only_engines_of_ones_own_are_asked_and_off_means_off() {
    let watched = || engine(|_, asked| panic!("nobody wanted {}", asked.head));
    let hosted = watched();
    let found = bench(&format!("groq/m --url {}", hosted.url()));
    assert_eq!((found.phase().server.clone(), about_the_server(&found)), (None, 0));
    let unnamed = watched();
    assert_eq!(bench(&format!("--url {} --model m", unnamed.url())).phase().server, None);
    let off = watched();
    let found = bench(&format!("vllm@{}/m --server-metrics off", off.place()));
    assert_eq!((found.phase().server.clone(), about_the_server(&found)), (None, 0));
}

#[test]
fn a_page_may_be_named_and_a_key_stays_with_its_server() {
    let engine_at = engine(|n, asked| {
        let key = asked.header("authorization");
        assert_eq!(key, Some("Bearer local-secret-1"), "the engine's own page is asked with its key");
        metrics(&format!("llamacpp:tokens_predicted_total {}\nllamacpp:tokens_predicted_seconds_total {n}\n", n * 40))
    });
    let found = bench(&format!("llama-cpp@{}/m", engine_at.place()));
    assert_eq!((server(&found).family.as_str(), server(&found).decode_speed()), ("llama-cpp", Some(40.0)));
    assert!(folded(&found.finished.stdout).contains("server: speed while writing (tok/s)"));

    let elsewhere = engine(|n, asked| {
        assert_eq!(asked.header("authorization"), None, "a key goes nowhere else");
        metrics(&vllm(n, 1))
    });
    let behind = engine(|_, _| metrics("unread 1\n"));
    let target = format!(
        "--url {} --model m --key-env LLAMA_API_KEY --server-metrics http://{}",
        behind.url(),
        elsewhere.place()
    );
    let found = bench(&target);
    // The page is that of a server that did nothing.
    assert_eq!(server(&found).requests, Some(0));
    assert!(server(&found).warnings[0].contains("less than were answered"), "{:?}", server(&found).warnings);
}

#[test]
fn an_answer_that_is_not_streamed_has_no_first_token_to_compare() {
    let whole = serde_json::json!({"model": "m", "choices": [{"index": 0, "message": {"content": "word word"},
        "finish_reason": "stop"}], "usage": {"prompt_tokens": 50, "completion_tokens": 40}});
    let answered = AtomicU64::new(0);
    let engine = Server::start(move |asked, to| {
        let text = if asked.head.starts_with("GET /metrics ") {
            metrics(&vllm(answered.load(SeqCst), u64::from(TOKENS)))
        } else {
            answered.fetch_add(1, SeqCst);
            answer("200 OK", "application/json", &whole.to_string())
        };
        to.write_all(text.as_bytes()).map(|()| Then::Close)
    });
    let found = bench(&format!("vllm@{}/m --no-stream", engine.place()));
    let truth = server(&found);
    assert!(truth.ttft.is_some() && truth.requests == Some(8), "{truth:?}");
    assert_eq!((truth.ttft_gap_ms, truth.client.ttft_mean_ms), (None, None));
}
