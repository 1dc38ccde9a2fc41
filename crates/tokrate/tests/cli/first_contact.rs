//! The first minute with an endpoint: what refuses one request is told after one, what is asked for is told before it is asked,
//! and nothing is waited for in silence.
//!
//! Invariant: servers count what reaches them.

use crate::folder::Folder;
use crate::scripted::{Asked, Server, Then, UNTIL_CLOSED, answer, stream};
use crate::tool::{Finished, finish, folded, run, start, tokrate};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// A server that counts what it is asked for.
struct Counted {
    server: Server,
    asked: Arc<AtomicUsize>,
}

impl Counted {
    fn start(script: impl Fn(&Asked) -> Vec<u8> + Send + Sync + 'static) -> Counted {
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&asked);
        let server = Server::start(move |request, stream| {
            counter.fetch_add(1, SeqCst);
            stream.write_all(&script(request)).map(|()| Then::Close)
        });
        Counted { server, asked }
    }

    fn asked(&self) -> usize {
        self.asked.load(SeqCst)
    }
}

fn error(status: &str, message: &str, header: &str) -> Vec<u8> {
    let body = format!("{{\"error\":{{\"message\":\"{message}\"}}}}");
    let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: application/json\r\n{header}");
    format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn good() -> Vec<u8> {
    format!("{UNTIL_CLOSED}{}", stream(3).concat()).into_bytes()
}

fn models(names: &[&str]) -> Vec<u8> {
    let listed: Vec<String> = names.iter().map(|name| format!("{{\"id\":\"{name}\"}}")).collect();
    answer("200 OK", "application/json", &format!("{{\"data\":[{}]}}", listed.join(","))).into_bytes()
}

fn bench(url: &str, further: &str) -> Finished {
    let arguments = format!("bench --url {url} --calibration off --output-tokens 20 --input-tokens 20 {further}");
    let folder = Folder::new("first-contact");
    run(&folder, &arguments.split_whitespace().collect::<Vec<&str>>())
}

#[test]
fn what_refuses_one_request_is_told_after_one() {
    for (status, words) in [
        ("401 Unauthorized", "Incorrect API key provided"),
        ("402 Payment Required", "Insufficient balance"),
        ("404 Not Found", "The model does not exist"),
        ("400 Bad Request", "max_tokens is too large"),
    ] {
        let server = Counted::start(move |_| error(status, words, ""));
        let finished = bench(&server.server.url(), "--model m");
        assert_eq!((finished.code, server.asked()), (Some(2), 1), "{finished:?}");
        assert!(folded(&finished.stdout).contains("FAILED: one request before the load failed"), "{}", finished.stdout);
        assert!(folded(&finished.stdout).contains(words), "the provider's words: {}", finished.stdout);
    }
}

#[test]
fn a_long_wait_is_refused_and_a_server_that_fails_is_asked_three_times() {
    let server = Counted::start(|_| error("429 Too Many Requests", "slow down", "Retry-After: 3600\r\n"));
    let finished = bench(&server.server.url(), "--model m");
    assert_eq!((finished.code, server.asked()), (Some(2), 1), "{finished:?}");
    assert!(folded(&finished.stdout).contains("asks to wait 3600 s before the first request"), "{}", finished.stdout);
    let server = Counted::start(|_| error("503 Service Unavailable", "loading", "Retry-After: 0\r\n"));
    let finished = bench(&server.server.url(), "--model m");
    assert_eq!((finished.code, server.asked()), (Some(2), 3), "{finished:?}");
    assert!(folded(&finished.stdout).contains("failed, 3 times: HTTP 503: loading"), "{}", finished.stdout);
}

#[test]
fn a_server_that_says_nothing_is_given_up_after_one_time_limit() {
    // Nobody accepts; the system does, and nothing is ever answered.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/v1", silent.local_addr().expect("it is bound"));
    let finished = bench(&url, "--model m --idle-timeout 300ms");
    assert_eq!(finished.code, Some(2), "{finished:?}");
    assert!(folded(&finished.stdout).contains("no byte came for 300 ms"), "{}", finished.stdout);
}

#[test]
fn a_key_that_is_revoked_during_the_load_ends_the_run_and_what_was_measured_stands() {
    let server = Counted::start(|asked| match asked.number {
        0..10 => good(),
        _ => error("401 Unauthorized", "the key was revoked", ""),
    });
    let finished = bench(&server.server.url(), "--model m --concurrency 1,2 --requests 100");
    assert_eq!((finished.code, server.asked()), (Some(3), 13), "{finished:?}");
    assert!(
        folded(&finished.stdout).contains("PARTIAL: concurrency 1: aborted: 3 requests in a row failed"),
        "{}",
        finished.stdout
    );
    assert!(folded(&finished.stdout).contains("the key was revoked"), "{}", finished.stdout);
}

#[test]
fn a_wait_that_is_asked_for_during_the_load_is_bounded_too() {
    let server = Counted::start(|asked| match asked.number {
        0..5 => good(),
        _ => error("429 Too Many Requests", "quota", "Retry-After: 86400\r\n"),
    });
    let finished = bench(&server.server.url(), "--model m --concurrency 1 --requests 100");
    assert_eq!((finished.code, server.asked()), (Some(3), 6), "{finished:?}");
    assert!(folded(&finished.stdout).contains("longer than --max-wait 120 s"), "{}", finished.stdout);
    assert!(!finished.stderr.contains("waiting"), "nobody waits so long: {}", finished.stderr);
}

#[test]
fn a_dry_run_says_what_would_be_asked_for_and_asks_nothing() {
    let server = Counted::start(|_| good());
    let place = server.server.place();
    let prices = "--price-input 1 --price-output 10";
    let load = "--model m --concurrency 1,8 --requests 40 --warmup 2 --dry-run";
    let finished = bench(&server.server.url(), &format!("{load} {prices}"));
    assert_eq!((finished.code, server.asked(), finished.stderr.as_str()), (Some(0), 0, ""));
    insta::assert_snapshot!("dry_run", finished.stdout.replace(&place, "HOST:PORT"));
    let open = bench(&server.server.url(), "--model m --rate 5 --duration 60s --dry-run");
    insta::assert_snapshot!("dry_run_open", open.stdout.replace(&place, "HOST:PORT"));
    let searched = bench(&server.server.url(), "--model m --search concurrency --slo ttft_ms<500 --dry-run");
    insta::assert_snapshot!("dry_run_search", searched.stdout.replace(&place, "HOST:PORT"));
    let bounded = [
        "--ramp 1..16 --duration 60s",
        "--concurrency 1,4 --duration 30s --rounds 2",
        "--concurrency 1,8 --requests 40 --refine",
        "--search rate --slo ttft_ms<500 --max-load 8 --max-cost-usd 1",
        "--workload system --max-load 200",
    ];
    let shown = bounded.map(|load| {
        let finished = bench(&server.server.url(), &format!("--model m {load} {prices} --dry-run"));
        format!("$ {load}\n{}{}", finished.stdout, finished.stderr)
    });
    insta::assert_snapshot!("dry_run_bounded", shown.join("\n").replace(&place, "HOST:PORT"));
    let several = "bench vllm@127.0.0.1:9/m sglang@127.0.0.1:9/m -c 1,4 -n 20 --dry-run";
    let several = run(&Folder::new("several"), &several.split(' ').collect::<Vec<&str>>());
    insta::assert_snapshot!("dry_run_several", several.stdout);
    // Where no model is named, none is looked up.
    let unnamed = bench(&server.server.url(), "--concurrency 1 --requests 3 --dry-run");
    assert!(unnamed.stdout.starts_with("127.0.0.1/(its only model) at "), "{unnamed:?}");
    assert!(folded(&unnamed.stdout).contains("Nothing was sent."), "{unnamed:?}");
    assert_eq!(server.asked(), 0);
}

#[test]
fn a_server_that_hangs_ends_an_open_loop_after_a_few() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/v1", silent.local_addr().expect("it is bound"));
    let finished = bench(&url, "--model m --no-probe --rate 20 --arrivals constant -d 20s --idle-timeout 1s");
    assert_eq!(finished.code, Some(2), "{finished:?}");
    let text = folded(&finished.stdout);
    assert!(text.contains("aborted: 4 requests in a row failed"), "{text}");
}

#[test]
fn a_server_that_hangs_after_its_first_answer_is_not_asked_for_each_second_of_the_time_limit() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let server = Server::start(move |_, stream| {
        if counter.fetch_add(1, SeqCst) > 0 {
            // Until the client goes.
            let _ = stream.read(&mut [0; 1]);
            return Ok(Then::Close);
        }
        stream.write_all(&good()).map(|()| Then::Close)
    });
    let finished = bench(&server.url(), "--model m --rate 20 --arrivals constant -d 60s --idle-timeout 4s");
    assert_eq!(finished.code, Some(2), "{finished:?}");
    assert!(folded(&finished.stdout).contains("aborted: 4 requests in a row failed"), "{finished:?}");
    // The probe's, two seconds of arrivals, and some that a busy machine sends late; four seconds of them would be 80.
    let asked = asked.load(SeqCst);
    assert!((5..60).contains(&asked), "{asked} were sent");
}

#[test]
fn the_plan_stands_before_every_run() {
    let server = Counted::start(|_| good());
    let prices = "--price-input 1 --price-output 10";
    let finished = bench(&server.server.url(), &format!("--model m --concurrency 1 --requests 3 --warmup 0 {prices}"));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let plan = "127.0.0.1/m: 1 level, 4 requests (one before the load), 69 tokens in and up to 76 out, up to $0.00083, about 1 s";
    assert_eq!(folded(&finished.stderr), plan);
    assert_eq!(server.asked(), 4, "three and the one before");
}

#[test]
fn a_limit_of_a_millionth_of_a_dollar_is_no_plan_for_nothing() {
    let plan = "--model m -c 1 -n 3 --price-input 0.02 --price-output 0.02 --max-cost-usd 0.000001 --dry-run";
    let finished = bench("http://127.0.0.1:9/v1", plan);
    assert!(finished.stdout.contains("≤ 0.000001") && !finished.stdout.contains("0.0000 "), "{}", finished.stdout);
}

#[test]
fn of_answers_in_one_piece_the_plan_says_the_most_time_that_they_can_take() {
    let whole = r#"{"object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"one two three"},"finish_reason":"stop"}]}"#;
    let server = Counted::start(move |_| answer("200 OK", "application/json", whole).into_bytes());
    let finished = bench(&server.server.url(), "--model m --concurrency 1 --requests 3 --warmup 0 --no-stream");
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(
        folded(&finished.stderr),
        "127.0.0.1/m: 1 level, 4 requests (one before the load), 69 tokens in and up to 76 out, up to about 1 s"
    );
}

#[test]
fn a_provider_that_is_paid_is_asked_little_unless_told_otherwise() {
    let plan = |further: &str| {
        let finished = bench("http://127.0.0.1:9/v1", &format!("--model m --dry-run {further}"));
        finished
            .stdout
            .lines()
            .filter(|line| line.contains("concurrency"))
            .map(|line| line.trim().to_owned())
            .collect::<Vec<_>>()
    };
    let paid = plan("--price-input 1 --price-output 1");
    assert_eq!(paid.len(), 4, "{paid:?}");
    assert!(paid[3].starts_with("concurrency 8"), "{paid:?}");
    assert!(plan("")[3].starts_with("concurrency 50"));
}

#[test]
fn the_whole_address_of_an_api_is_understood() {
    let chat = Counted::start(|asked| {
        assert!(asked.head.starts_with("POST /v1/chat/completions "), "{}", asked.head);
        good()
    });
    let finished = bench(&format!("{}/chat/completions", chat.server.url()), "--model m --concurrency 1 --requests 2");
    assert_eq!(finished.code, Some(0), "{finished:?}");
    // The path says the dialect too.
    let messages = Counted::start(|asked| {
        assert!(asked.head.starts_with("POST /v1/messages "), "{}", asked.head);
        error("401 Unauthorized", "x-api-key", "")
    });
    let url = format!("{}/messages", messages.server.url());
    assert!(bench(&url, "--model m").stdout.contains("anthropic"));
    let refused = bench(&url, "--model m --dialect openai-chat");
    assert_eq!((refused.code, messages.asked()), (Some(2), 1));
    assert!(
        folded(&refused.stderr).contains("ends in the path of anthropic, and --dialect says openai-chat"),
        "{}",
        refused.stderr
    );
}

#[test]
fn the_only_model_of_an_endpoint_needs_no_name() {
    let one = Counted::start(|asked| match asked.head.split(' ').nth(1) {
        Some("/v1/models") => models(&["the-only-one"]),
        Some("/v1/chat/completions") => good(),
        // As many people type it: without the /v1.
        _ => error("404 Not Found", "nothing here", ""),
    });
    for url in [one.server.url(), format!("http://{}", one.server.place()), format!("{}/models", one.server.url())] {
        let finished = bench(&url, "--concurrency 1 --requests 2");
        assert_eq!(finished.code, Some(0), "{finished:?}");
        assert!(finished.stdout.starts_with(&format!("the-only-one at {}\n", one.server.url())), "{}", finished.stdout);
    }
    for (listed, words) in
        [(&["a", "b"][..], "the endpoint has 2: a, b; name one with --model"), (&[], "the endpoint has none loaded")]
    {
        let server = Counted::start(move |_| models(listed));
        let finished = bench(&server.server.url(), "");
        assert_eq!((finished.code, server.asked()), (Some(2), 1), "{finished:?}");
        assert!(finished.stderr.contains(words), "{}", finished.stderr);
    }
    let locked = Counted::start(|_| error("401 Unauthorized", "no key", ""));
    let finished = bench(&locked.server.url(), "");
    assert!(folded(&finished.stderr).contains("lists none (HTTP 401); name it with --model"), "{}", finished.stderr);
}

#[test]
fn pictures_of_own_prompts_are_sent() {
    let server = Counted::start(|asked| {
        let is_probe = asked.header("x-request-id").is_some_and(|id| id.starts_with("probe"));
        let picture = &asked.json()["messages"][0]["content"][1]["image_url"]["url"];
        assert!(is_probe || picture == "data:image/png;base64,AAAA", "{}", asked.json());
        good()
    });
    let folder = Folder::new("pictures");
    folder.write(
        "prompts.jsonl",
        &r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}]}"#
            .replace('\n', ""),
    );
    let url = server.server.url();
    let arguments =
        format!("bench --url {url} --model m --calibration off --prompts prompts.jsonl --requests 2 -c 1 --json -");
    let finished = run(&folder, &arguments.split_whitespace().collect::<Vec<&str>>());
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(folded(&finished.stdout).contains("(1 with pictures, which are not counted)"), "{}", finished.stdout);
}

/// A process may open as many files as its hard limit says, and no load asks for more.
#[cfg(unix)]
#[test]
fn a_load_that_needs_more_connections_than_may_be_opened_is_refused() {
    let server = Counted::start(|_| good());
    let folder = Folder::new("open-files");
    let limited = |arguments: &str| {
        let program = tokrate(&folder, &[]).get_program().to_owned();
        let mut shell = std::process::Command::new("sh");
        let line = format!("ulimit -n 256; exec \"$0\" {arguments}");
        finish(start(shell.current_dir(folder.path()).arg("-c").arg(line).arg(program)))
    };
    let load = format!("bench --url {} --model m --calibration off", server.server.url());
    let refused = limited(&format!("{load} --concurrency 1,400 --requests 400"));
    assert_eq!((refused.code, server.asked()), (Some(2), 0), "{refused:?}");
    assert!(
        folded(&refused.stderr).contains("raise the limit (`ulimit -n 464`), or ask for at most 192 at once"),
        "{}",
        refused.stderr
    );
    assert_eq!(limited(&format!("{load} --concurrency 3 --requests 3")).code, Some(0));
    // What an open loop needs is not known before it; it is not cut to what there is without a word.
    let refused = limited(&format!("{load} --rate 20 --duration 1s"));
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(
        folded(&refused.stderr).contains("may have 256 open files, so that 192 requests in flight are the most"),
        "{}",
        refused.stderr
    );
    assert_eq!(limited(&format!("{load} --rate 20 --requests 3 --max-in-flight 192")).code, Some(0));
}

#[test]
fn pictures_are_refused_where_the_api_has_no_place_for_them() {
    let server = Counted::start(|_| good());
    let folder = Folder::new("misplaced-pictures");
    let prompt = |url: &str| {
        format!(
            r#"{{"messages":[{{"role":"user","content":[{{"type":"text","text":"?"}},{{"type":"image_url","image_url":{{"url":"{url}"}}}}]}}]}}"#
        )
    };
    folder.write("data.jsonl", &prompt("data:image/png;base64,AAAA"));
    folder.write("linked.jsonl", &prompt("https://h/picture.png"));
    for (dialect, prompts, words) in [
        ("openai-completions", "data.jsonl", "they hold pictures, for which openai-completions has no place"),
        ("llama-completion", "data.jsonl", "they hold pictures, for which llama-completion has no place"),
        ("ollama-chat", "linked.jsonl", "Ollama takes pictures as data only"),
    ] {
        let url = server.server.url();
        let line = format!("bench --url {url} --model m --dialect {dialect} --prompts {prompts} -c 1 --requests 2");
        let refused = run(&folder, &line.split_whitespace().collect::<Vec<&str>>());
        assert_eq!((refused.code, server.asked()), (Some(2), 0), "{refused:?}");
        assert!(refused.stderr.contains(words), "{}", refused.stderr);
    }
}

#[test]
fn whoever_wants_no_table_hears_why_a_run_failed() {
    let server = Counted::start(|_| error("401 Unauthorized", "no such key", ""));
    let finished = bench(&server.server.url(), "--model m -q");
    assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), ""), "{finished:?}");
    assert!(folded(&finished.stderr).contains("no such key"), "{}", finished.stderr);
}

#[test]
fn a_key_that_is_refused_is_named_by_where_it_comes_from_and_never_shown() {
    let server = Counted::start(|_| error("401 Unauthorized", "no such key", ""));
    let (folder, url) = (Folder::new("refused-key"), server.server.url());
    folder.write("key.txt", "sk-very-secret");
    let refused = |further: &[&str]| {
        let seen = run(&folder, &[&["bench", "--url", &url, "--model", "m", "-q"], further].concat());
        assert_eq!(seen.code, Some(2), "{seen:?}");
        assert!(!seen.stderr.contains("sk-very-secret"), "{seen:?}");
        seen.stderr
    };
    let named = refused(&["--key-file", "key.txt"]);
    assert!(named.contains("no such key; the server refused the key from key.txt: check"), "{named}");
    let command = refused(&["--key-cmd", "printf sk-very-secret"]);
    assert!(
        command.contains("the server refused the key from what the command of `key_cmd` (or --key-cmd) printed"),
        "{command}"
    );
    // A header that was typed takes the place of the key.
    let typed = refused(&["--key-file", "key.txt", "--header", "authorization: Bearer sk-other"]);
    assert!(typed.contains("the server refused the key in the headers that were given (--header)"), "{typed}");
    let none = refused(&[]);
    assert!(none.contains("no key was sent"), "{none}");
}
