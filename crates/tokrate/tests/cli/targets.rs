//! Targets by name: which address, path, header and body a name of the catalog comes to, and what is said when it comes to
//! nothing.
//!
//! It does not reach a provider: an address of this machine stands for each. Invariant: a key is sent in the one header
//! that the provider wants it in.

use crate::folder::Folder;
use crate::scripted::{Server, Then, answer, stream};
use crate::tool::{Bench, Finished, finish, start, tokrate};
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{Arc, Mutex};

const SMALL: &str = "--concurrency 1 --requests 1 --warmup 0 --input-tokens 50 --output-tokens 40 --calibration off \
                     --json record.json --jsonl rows.jsonl --no-html";

/// Requests that reached a server: head and body.
type Seen = Mutex<Vec<(String, String)>>;

/// A server of the OpenAI dialect, and every request that reached it: head and body.
fn server() -> (Server, Arc<Seen>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&seen);
    let server = Server::start(move |asked, stream_to| {
        if asked.head.starts_with("GET ") {
            stream_to.write_all(answer("404 Not Found", "text/plain", "").as_bytes())?;
            return Ok(Then::Close);
        }
        let body = String::from_utf8(asked.body.clone()).expect("text");
        keep.lock().expect("no panic").push((asked.head.to_lowercase(), body));
        let body: String = stream(40).concat();
        stream_to.write_all(answer("200 OK", "text/event-stream", &body).as_bytes())?;
        Ok(Then::Close)
    });
    (server, seen)
}

fn run(folder: &Folder, line: &str, variables: &[(&str, &str)]) -> Finished {
    let arguments: Vec<&str> = line.split_whitespace().collect();
    finish(start(tokrate(folder, &arguments).envs(variables.iter().copied())))
}

/// Benches a target and returns its record with the one request that was sent.
fn bench(target: &str, variables: &[(&str, &str)], seen: &Seen) -> (Bench, String, String) {
    let folder = Folder::new("target");
    let finished = run(&folder, &format!("bench {target} {SMALL}"), variables);
    let bench = Bench::read(folder, finished);
    bench.expect(0, &[]);
    let (head, body) = seen.lock().expect("no panic").pop().expect("a request");
    (bench, head, body)
}

#[test]
fn an_engine_is_reached_by_its_name_and_place() {
    let (server, seen) = server();
    for target in [format!("vllm@{}/a/model", server.place()), format!("vllm/a/model@{}", server.place())] {
        let (bench, head, body) = bench(&target, &[], &seen);
        let conditions = &bench.record.conditions;
        assert_eq!((conditions.provider.as_str(), conditions.model.as_str()), ("vllm", "a/model"));
        assert_eq!(conditions.endpoint, server.url());
        assert!(head.starts_with("post /v1/chat/completions http/1.1"), "{head}");
        assert!(!head.contains("authorization"), "{head}");
        assert!(body.contains("\"max_tokens\":40") && !body.contains("max_completion_tokens"), "{body}");
        assert_eq!(bench.record.price, None);
    }
}

#[test]
fn a_key_goes_into_the_header_that_the_provider_wants() {
    let (server, seen) = server();
    let base = format!("--url {}", server.url());
    let (bench, head, body) =
        self::bench(&format!("groq/llama-3.3-70b-versatile {base}"), &[("GROQ_API_KEY", "gsk-1234567")], &seen);
    assert!(head.contains("authorization: bearer gsk-1234567"), "{head}");
    assert!(body.contains("\"max_completion_tokens\":40") && body.contains("include_usage"), "{body}");
    let price = bench.record.price.expect("a price");
    assert_eq!((price.price.input.as_usd(), price.price.output.as_usd()), (0.59, 0.79));
    assert!(price.source.starts_with("https://") && price.date.starts_with("20"), "{price:?}");

    let (_, head, _) =
        self::bench(&format!("azure/my-deployment {base}"), &[("AZURE_OPENAI_API_KEY", "az-1234567")], &seen);
    assert!(head.contains("api-key: az-1234567") && !head.contains("authorization"), "{head}");

    // What is typed wins over the provider's variable; a quirk of the provider is kept.
    let variables = [("MISTRAL_API_KEY", "wrong-one"), ("MINE", "mine-1234")];
    let (_, head, body) = self::bench(&format!("mistral/m {base} --key-env MINE"), &variables, &seen);
    assert!(head.contains("authorization: bearer mine-1234"), "{head}");
    assert!(body.contains("\"max_tokens\":40") && !body.contains("stream_options"), "{body}");
}

#[test]
fn the_address_of_an_azure_resource_comes_from_its_variable() {
    let (server, seen) = server();
    let endpoint = format!("http://{}/", server.place());
    let variables = [("AZURE_OPENAI_ENDPOINT", endpoint.as_str()), ("AZURE_OPENAI_API_KEY", "az-1234567")];
    let (bench, head, _) = bench("azure/my-deployment", &variables, &seen);
    assert!(head.starts_with("post /openai/v1/chat/completions http/1.1"), "{head}");
    assert_eq!(bench.record.conditions.provider, "azure");
}

#[test]
fn a_target_may_stand_in_the_settings_file() {
    let (server, seen) = server();
    let folder = Folder::new("settings-target");
    folder.write("tokrate.toml", &format!("[bench]\ntargets = [\"vllm@{}/from-file\"]\n", server.place()));
    assert_eq!(run(&folder, "trust", &[]).code, Some(0));
    let finished = run(&folder, &format!("bench {SMALL}"), &[]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let (_, body) = seen.lock().expect("no panic").pop().expect("a request");
    assert!(body.contains("\"model\":\"from-file\""), "{body}");
    // What is typed wins, also over an address in the environment.
    let target = format!("vllm@{}/typed", server.place());
    let finished = run(&folder, &format!("bench {target} {SMALL}"), &[("TOKRATE_URL", "http://127.0.0.1:9/v1")]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let (_, body) = seen.lock().expect("no panic").pop().expect("a request");
    assert!(body.contains("\"model\":\"typed\""), "{body}");
}

#[test]
fn several_targets_are_measured_in_one_run() {
    let (server, seen) = server();
    let folder = Folder::new("several");
    let line = format!("bench vllm@{0}/one llama-cpp@{0}/two {SMALL}", server.place());
    let finished = run(&folder, &line, &[]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    // They take turns, so each is asked as often as the other.
    let seen = seen.lock().expect("no panic");
    let asked = |model: &str| seen.iter().filter(|(_, body)| body.contains(&format!("\"model\":\"{model}\""))).count();
    assert!(asked("one") > 0 && asked("one") == asked("two"), "{} and {}", asked("one"), asked("two"));
    let shown: serde_json::Value = serde_json::from_str(&folder.read("record.json")).expect("JSON");
    let providers: Vec<_> =
        shown["records"].as_array().expect("records").iter().map(|record| &record["conditions"]["provider"]).collect();
    assert_eq!(providers, ["vllm", "llama-cpp"]);
}

#[test]
fn targets_of_one_name_are_told_apart_by_their_address() {
    let ((one, _), (other, _)) = (server(), server());
    let folder = Folder::new("alike");
    let line = format!("bench vllm@{}/m vllm@{}/m {SMALL} --markdown table.md", one.place(), other.place());
    let finished = run(&folder, &line, &[]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    for place in [one.place(), other.place()] {
        assert!(finished.stdout.contains(&format!("== vllm@{place}/m ==")), "{}", finished.stdout);
    }
    assert!(folder.read("table.md").contains(&format!("### vllm\\@{}/m compared with", other.place())));
}

#[test]
fn fields_outside_the_dialect_are_kept_when_asked_for() {
    let mut events = stream(40);
    let last = events.len() - 2;
    events.insert(last, "data: {\"choices\":[],\"x_carbon\":{\"grams\":[1,\"2\"]},\"usage\":null}\n\n".to_owned());
    let body = answer("200 OK", "text/event-stream", &events.concat());
    let server = Server::saying(body);
    let folder = Folder::new("unknown");
    let line = format!("bench --url {} --model m {SMALL}", server.url());
    let rows = |further: &str| {
        let finished = run(&folder, &format!("{line} {further}"), &[]);
        assert_eq!(finished.code, Some(0), "{finished:?}");
        let text = folder.read("rows.jsonl");
        serde_json::from_str::<serde_json::Value>(text.lines().next().expect("a row")).expect("JSON")
    };
    let (kept, plain) = (rows("--keep-unknown"), rows(""));
    assert_eq!(kept["unknown"]["x_carbon"], serde_json::json!({ "grams": [1, "2"] }), "{kept}");
    assert_eq!(plain["unknown"], serde_json::json!({}));
    assert_eq!((&kept["tokens_std"], &kept["chunks"]), (&plain["tokens_std"], &plain["chunks"]));
    let refused = run(&folder, &format!("bench --url {} --model m --keep-unknown", server.url()), &[]);
    assert_eq!(refused.code, Some(2), "there is no row to keep them in: {refused:?}");
}

#[test]
fn a_name_that_comes_to_nothing_is_refused_before_anything_is_sent() {
    let folder = Folder::new("no-target");
    let mut shown = String::new();
    let lines = [
        "gorq/llama-3.3-70b-versatile",
        "my-server/model",
        "now",
        "groq/",
        "groq",
        "vllm@127.0.0.1:9",
        "groq/m",
        "gemini/m",
        "azure/m --key-env GOOD_KEY",
        "groq/m --dialect gemini --key-env GOOD_KEY",
        "groq@127.0.0.1:8000/m",
        "vllm@127.0.0.1/m",
        "http://127.0.0.1:8000/v1",
        "vllm/m --model other",
        "vllm/m --url 127.0.0.1:8000",
        "vllm/m ollama/m --url http://127.0.0.1:9/v1",
        "vllm/m llama-cpp/m --key-env GOOD_KEY",
        "--url http://127.0.0.1:9/v1 --model m --dialect esperanto",
        "--dialect anthropic",
        "vllm/m --server-metrics on",
        "vllm/m --server-metrics ftp://h/metrics",
        "vllm/m llama-cpp/m --server-metrics http://h/metrics",
    ];
    for line in lines {
        let finished = run(&folder, &format!("bench {line}"), &[("GOOD_KEY", "sk-good")]);
        assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), ""), "{line}: {finished:?}");
        writeln!(shown, "$ tokrate bench {line}\n{}", finished.stderr).expect("a string takes all");
    }
    assert_eq!(folder.names(), [""; 0]);
    insta::assert_snapshot!("no_target", shown);
}

#[test]
fn every_dialect_is_spoken_as_its_maker_wants_it() {
    let (server, seen) = server();
    let keys = [("ANTHROPIC_API_KEY", "ant-1234567"), ("GEMINI_API_KEY", "gem-1234567"), ("MINE", "mine-1234567")];
    let (base, place) = (server.url(), server.place());
    let targets = [
        (format!("anthropic/m --url {base}"), "post /v1/messages", "x-api-key: ant-1234567"),
        (format!("anthropic/m --url {base}"), "post /v1/messages", "anthropic-version: 2023-06-01"),
        (
            format!("anthropic/m --url {base} --dialect openai-chat"),
            "post /v1/chat/completions",
            "authorization: bearer ant-1234567",
        ),
        (
            format!("gemini/m --url {base}"),
            "post /v1/models/m:streamgeneratecontent?alt=sse",
            "x-goog-api-key: gem-1234567",
        ),
        (
            format!("gemini/m --url {base} --no-stream"),
            "post /v1/models/m:generatecontent",
            "x-goog-api-key: gem-1234567",
        ),
        (format!("ollama@{place}/m"), "post /api/chat", "host: "),
        (format!("ollama@{place}/m --dialect ollama-generate"), "post /api/generate", "host: "),
        (format!("llama-cpp@{place}/m --dialect llama-completion"), "post /completion", "host: "),
        (format!("vllm@{place}/m --dialect openai-responses"), "post /v1/responses", "host: "),
        (
            format!("--url {base} --model m --dialect anthropic --key-env MINE"),
            "post /v1/messages",
            "x-api-key: mine-1234567",
        ),
        (
            format!("--url {base} --model m --dialect openai-completions --key-env MINE"),
            "post /v1/completions",
            "authorization: bearer mine-1234567",
        ),
    ];
    for (target, path, header) in targets {
        let folder = Folder::new("dialect");
        // The server answers in another dialect; only what it was asked counts here.
        run(&folder, &format!("bench {target} {SMALL}"), &keys);
        let (head, _) = seen.lock().expect("no panic").pop().unwrap_or_else(|| panic!("{target}: no request"));
        assert!(head.starts_with(&format!("{path} http/1.1")) && head.contains(header), "{target}: {head}");
        let record = tokrate_record::Record::parse(&folder.read("record.json")).expect("a record");
        assert!(target.contains(&record.conditions.dialect) || !target.contains("--dialect"), "{target}");
    }
}
