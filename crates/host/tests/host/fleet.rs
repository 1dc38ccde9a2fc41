//! Several providers in one host: who answers where, to which key, within which limits, and what they say of themselves.

use crate::client::{Answer, ask, request_text};
use crate::loopback::law;
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddr};
use tokrate_core::{EventKind, FailureKind, Price, Span};
use tokrate_host::{ApiKey, EmulatedEngine, FleetConfig, Host, MetricNames, Provider, RunningHost, TruthLog};
use tokrate_sim::{Law, Limits, Persona};
use tokrate_wire::decode_error_response;

fn anywhere() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

fn provider(name: &str) -> Provider {
    Provider {
        persona: Persona { name: name.to_owned(), law: law(), ..Persona::default() },
        address: None,
        model: "m".to_owned(),
        only_model: false,
        api_key: None,
        gpus: None,
        emulated_engine: EmulatedEngine::default(),
        metrics: MetricNames::default(),
        script: None,
    }
}

fn fleet(providers: Vec<Provider>) -> RunningHost {
    let config =
        FleetConfig { address: Some(anywhere()), providers, truth: TruthLog::Memory, ..FleetConfig::default() };
    Host::start(config).expect("a host on loopback")
}

fn own(host: &RunningHost, place: usize) -> SocketAddr {
    host.addresses().own[place].expect("a port of its own")
}

fn chat(model: &str, headers: &str, tokens: u32) -> String {
    let body = format!(
        r#"{{"model":"{model}","messages":[{{"role":"user","content":"How fast is it?"}}],"stream":true,"stream_options":{{"include_usage":true}},"max_tokens":{tokens}}}"#
    );
    request_text("/v1/chat/completions", headers, &body)
}

fn get(address: SocketAddr, path: &str) -> Answer {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
}

fn json(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body()).unwrap_or_else(|error| panic!("{error}: {}", answer.text()))
}

fn models_named(answer: &Answer) -> Vec<String> {
    let events = answer.events();
    let named = events.all().filter_map(|what| match what {
        EventKind::Model(model) => Some(events.0.text(model).to_owned()),
        _ => None,
    });
    named.collect()
}

#[test]
fn a_model_name_begins_with_its_provider_on_the_main_port_and_not_on_its_own() {
    let mut slow = provider("slow");
    slow.persona.law = Law { tokens_per_chunk: 5, ..law() };
    slow.address = Some(anywhere());
    let host = fleet(vec![provider("fast"), slow]);
    let main = host.address();
    for (address, model, id, named) in [
        (main, "fast/m", "a", "fast/m"),
        (main, "fast/anything", "b", "fast/anything"),
        (main, "slow/m", "c", "slow/m"),
        (main, "slow", "d", "slow"),
        (own(&host, 1), "whatever", "e", "m"),
    ] {
        let answer = ask(address, &chat(model, &format!("X-Request-Id: {id}\r\n"), 10));
        assert_eq!((answer.status, answer.events().tokens()), (200, 10), "{model}: {}", answer.text());
        assert!(models_named(&answer).iter().all(|model| model == named), "{model}: {}", answer.text());
        let truth = host.truth();
        let logged = truth.request(id).expect("logged");
        let persona = if id <= "b" { "fast" } else { "slow" };
        assert_eq!(&*logged.persona, persona);
        let events = answer.events().all().filter(|what| matches!(what, EventKind::Text { .. })).count();
        assert_eq!(events, if persona == "fast" { 10 } else { 2 }, "each has its own law");
    }
    let numbers: Vec<u64> = host.truth().requests.iter().map(|request| request.request).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4], "numbered over all providers");
    let nobody = ask(main, &chat("unknown/m", "", 1));
    assert_eq!(nobody.status, 404);
    assert!(nobody.text().contains("there is no model `unknown/m`"), "{}", nobody.text());
    assert_eq!((host.stats().submitted, host.stop().stats.ended), (5, 5));
}

#[test]
fn every_list_of_models_has_all_of_them() {
    let mut dear = provider("dear");
    dear.persona.price = Price::from_usd_per_million(0.5, 15.0).expect("a price");
    dear.emulated_engine = EmulatedEngine::Vllm;
    dear.address = Some(anywhere());
    let host = fleet(vec![provider("free"), dear]);
    let list = json(&get(host.address(), "/v1/models"));
    let ids: Vec<&str> =
        list["data"].as_array().expect("a list").iter().filter_map(|model| model["id"].as_str()).collect();
    assert_eq!(ids, ["free/m", "dear/m"]);
    assert_eq!(list["data"][0]["pricing"], Value::Null);
    assert_eq!(list["data"][1]["pricing"]["prompt"], "0.0000005");
    assert_eq!(list["data"][1]["pricing"]["completion"], "0.000015");
    assert_eq!(list["data"][1]["owned_by"], "vllm");
    assert_eq!(json(&get(own(&host, 1), "/v1/models"))["data"][0]["id"], "m");
    assert_eq!(json(&get(host.address(), "/v1beta/models"))["models"][1]["name"], "models/dear/m");
    assert_eq!(json(&get(host.address(), "/api/tags"))["models"][0]["name"], "free/m");
    assert!(json(&get(host.address(), "/version"))["version"].is_string());
    assert_eq!(json(&get(host.address(), "/health"))["status"], "ok");
    let gemini = request_text("/v1beta/models/free/m:generateContent", "", r#"{"contents":[]}"#);
    assert_eq!(ask(host.address(), &gemini).status, 200);
}

#[test]
fn an_engine_is_told_by_its_page_only_where_one_poses_as_it() {
    let posing =
        |name: &str, emulated_engine| Provider { address: Some(anywhere()), emulated_engine, ..provider(name) };
    let host = fleet(vec![
        posing("plain", EmulatedEngine::Tokrate),
        posing("llama", EmulatedEngine::LlamaCpp),
        posing("ollama", EmulatedEngine::Ollama),
    ]);
    let status = |place, path| get(own(&host, place), path).status;
    assert_eq!([0, 1, 2].map(|place| status(place, "/props")), [404, 200, 404]);
    assert_eq!([0, 1, 2].map(|place| status(place, "/api/version")), [404, 404, 200]);
    assert!(json(&get(own(&host, 1), "/props"))["default_generation_settings"].is_object());
    assert!(json(&get(own(&host, 2), "/api/version"))["version"].is_string());
    assert_eq!(json(&get(own(&host, 1), "/v1/models"))["data"][0]["owned_by"], "llamacpp");
}

#[test]
fn a_key_is_shown_the_way_of_each_dialect_and_only_where_it_is_wanted() {
    let mut locked = provider("locked");
    locked.api_key = Some(ApiKey::new("secret".to_owned()));
    locked.address = Some(anywhere());
    let host = fleet(vec![provider("open"), locked]);
    let status = |address, headers: &str, model: &str| ask(address, &chat(model, headers, 1)).status;
    assert_eq!(status(host.address(), "", "open/m"), 200);
    for (headers, expected) in [
        ("", 401),
        ("Authorization: Bearer secre\r\n", 401),
        ("Authorization: Bearer secret\r\n", 200),
        ("X-Api-Key: secret\r\n", 200),
        ("X-Goog-Api-Key: secret\r\n", 200),
        ("Api-Key: secret\r\n", 200),
        ("X-Api-Key: wrong\r\n", 401),
    ] {
        assert_eq!(status(host.address(), headers, "locked/m"), expected, "{headers}");
        assert_eq!(status(own(&host, 1), headers, "m"), expected, "{headers}");
    }
    let by_query = |key: &str| {
        let path = format!("/v1beta/models/m:streamGenerateContent?alt=sse&key={key}");
        ask(own(&host, 1), &request_text(&path, "", r#"{"contents":[]}"#))
    };
    assert_eq!(by_query("secret").status, 200);
    let refused = by_query("secre");
    assert_eq!(refused.status, 401);
    assert!(refused.text().contains("UNAUTHENTICATED"), "in the dialect's own words: {}", refused.text());
    assert_eq!(get(own(&host, 1), "/v1/models").status, 401);
}

#[test]
fn limits_are_told_with_every_answer_and_kept() {
    let mut limited = provider("limited");
    limited.persona.limits = Limits { requests_per_minute: Some(2), tokens_per_minute: Some(1_000) };
    let host = fleet(vec![limited]);
    let anthropic = || {
        let body = r#"{"model":"limited/m","max_tokens":100,"messages":[{"role":"user","content":"How fast is it?"}]}"#;
        ask(host.address(), &request_text("/v1/messages", "", body))
    };
    let first = anthropic();
    assert_eq!(first.status, 200, "{}", first.text());
    assert_eq!(first.header("x-ratelimit-limit-requests"), Some("2"));
    assert_eq!(first.header("x-ratelimit-remaining-requests"), Some("1"));
    assert_eq!(first.header("x-ratelimit-limit-tokens"), Some("1000"));
    assert_eq!(first.header("x-ratelimit-remaining-tokens"), Some("895"), "5 of the prompt and 100 to come");
    assert_eq!(first.header("anthropic-ratelimit-requests-remaining"), Some("1"));
    assert_eq!(anthropic().status, 200);
    let refused = anthropic();
    assert_eq!((refused.status, refused.header("x-ratelimit-remaining-requests")), (429, Some("0")));
    assert!(refused.text().starts_with(r#"{"type":"error","error":{"type":"rate_limit_error""#), "{}", refused.text());
    // A request comes back every 30 s; some of that has passed.
    let wait: u64 = refused.header("retry-after").and_then(|wait| wait.parse().ok()).expect("a wait");
    assert!((1..=30).contains(&wait), "{wait}");
    let headers: Vec<(&str, &str)> = refused.head.lines().skip(1).filter_map(|line| line.split_once(": ")).collect();
    let understood = decode_error_response(429, &headers, &refused.body(), None);
    assert_eq!((understood.kind, understood.retry_after), (FailureKind::RateLimited, Some(Span::from_secs(wait))));
    assert_eq!(host.stats().refused, 1);
}

#[test]
fn metrics_tell_what_the_truth_log_tells() {
    let mut sglang = provider("sg");
    sglang.metrics = MetricNames::Sglang;
    sglang.address = Some(anywhere());
    let mut silent = provider("silent");
    silent.metrics = MetricNames::Off;
    silent.address = Some(anywhere());
    let host = fleet(vec![provider("fast"), sglang, silent]);
    for model in ["fast/m", "fast/m", "sg/m", "silent/m"] {
        assert_eq!(ask(host.address(), &chat(model, "", 10)).events().tokens(), 10);
    }
    let page = get(host.address(), "/metrics");
    assert_eq!(page.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let page = page.text();
    for line in [
        r#"vllm:generation_tokens_total{engine="0",model_name="fast/m"} 20"#,
        r#"vllm:prompt_tokens_total{engine="0",model_name="fast/m"} 10"#,
        r#"vllm:time_to_first_token_seconds_count{engine="0",model_name="fast/m"} 2"#,
        // 10 ms and five tokens at a million per second, twice.
        r#"vllm:time_to_first_token_seconds_sum{engine="0",model_name="fast/m"} 0.02001"#,
        r#"sglang:generation_tokens_total{model_name="sg/m"} 10"#,
    ] {
        assert!(page.lines().any(|found| found == line), "no {line} in {page}");
    }
    assert!(!page.contains("silent"), "{page}");
    assert!(get(own(&host, 1), "/metrics").text().contains(r#"sglang:num_running_reqs{model_name="m"} 0"#));
    assert_eq!(get(own(&host, 2), "/metrics").status, 404);
}

#[test]
fn a_guise_decides_who_sends_its_times() {
    let mut llama = provider("llama");
    llama.emulated_engine = EmulatedEngine::LlamaCpp;
    let host = fleet(vec![provider("plain"), llama]);
    let times = |model: &str| {
        let answer = ask(host.address(), &chat(model, "", 10));
        assert_eq!(answer.events().tokens(), 10);
        answer.events().has(|what| matches!(what, EventKind::Timings(_)))
    };
    assert!(times("llama/m") && !times("plain/m"));
    let whole = r#"{"model":"llama/m","messages":[],"max_tokens":9}"#;
    assert_eq!(
        json(&ask(host.address(), &request_text("/v1/chat/completions", "", whole)))["timings"]["predicted_n"],
        9
    );
}

#[test]
fn tricks_are_played_on_the_wire() {
    let host = fleet(vec![provider("sly")]);
    let asked = |fault: &str| ask(host.address(), &chat("sly/m", &format!("X-Tokrate-Fault: {fault}\r\n"), 40));
    assert!(models_named(&asked("other_model")).iter().all(|model| model == "another-model"));
    assert_eq!(asked("replay").events().text(), asked("replay").events().text());
    assert_ne!(asked("burst").events().text(), asked("burst").events().text());
    let short = asked("short").events();
    assert!(short.has(|what| what == EventKind::Finish(tokrate_core::FinishReason::Stop)) && short.tokens() <= 30);
    let inflated = asked("usage_inflated").events();
    assert_eq!((inflated.tokens(), inflated.usage().and_then(|usage| usage.output)), (40, Some(60)));
    let hidden = asked("hidden_reasoning").events();
    let usage = hidden.usage().expect("asked for");
    assert_eq!((hidden.tokens(), usage.output, usage.reasoning), (20, Some(40), Some(20)));
    let words = asked("repeat").events().text();
    let words: Vec<&str> = words.split(' ').skip(1).collect();
    assert!(words.len() == 40 && words.chunks(4).all(|round| round == &words[..4]));
}

#[test]
fn what_keeps_a_fleet_from_starting_is_named() {
    let error = |address, providers| {
        let config = FleetConfig { address, providers, ..FleetConfig::default() };
        Host::start(config).expect_err("refused").to_string()
    };
    let twice = error(Some(anywhere()), vec![provider("a"), provider("a")]);
    assert_eq!(twice, "start the providers: two of them are called `a`; rename one");
    assert!(error(None, vec![provider("a")]).starts_with("reach the provider `a`: it has no address"));
    let mut broken = provider("b");
    broken.persona.law.slots = 0;
    let broken = error(Some(anywhere()), vec![provider("a"), broken]);
    assert_eq!(broken, "make the provider `b`: set the slots to 0; give at least 1");
}
