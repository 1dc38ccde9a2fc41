//! The paths that pass byte for byte: what lanes are asked, what clients get, whose objects they reach, and what keys can spend.

use crate::client::{Answer, ask, post, read_until, request};
use crate::harness::{TestGateway, configured, lane};
use crate::scripted::{Script, Scripted, chat_events, chat_whole, stream, whole};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use tokrate_core::Money;
use tokrate_gateway::{
    AliasConfig, KeyConfig, KeyLimits, LaneConfig, Mode, RouteKind, SentBody, ServicesConfig, key_hash, routes,
    services,
};
use tokrate_wire::Dialect;

/// A lane that has every family of paths.
pub const ALL: &[Dialect] = &[
    Dialect::OpenAiChat,
    Dialect::Anthropic,
    Dialect::Gemini,
    Dialect::OllamaChat,
    Dialect::BedrockConverse,
    Dialect::CohereChat,
];
pub const FORM: &str = "multipart/form-data; boundary=cut";

pub fn form(model: &str, file: &str) -> String {
    format!(
        "--cut\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\n{model}\r\n\
         --cut\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n{file}\r\n--cut--\r\n"
    )
}

/// A row of the table that is a request and an answer: method, path, service, and what it sends.
pub type ServiceRow = (&'static str, String, &'static str, SentBody);

/// All of them.
pub fn service_rows() -> Vec<ServiceRow> {
    let rows = routes().into_iter().filter_map(|row| match row.kind {
        RouteKind::Service(service, body) => Some((row.method, row.path, service, body)),
        _ => None,
    });
    rows.collect()
}

/// A row of the table as a client asks for it, of that model: method, path, content type, body.
pub fn asked(row: &ServiceRow, model: &str, text: &str) -> Asked {
    let (method, path, _, body) = row;
    let prefix = if path.starts_with("/api/") { "" } else { "/v1" };
    let path = format!("{prefix}{}", path.replace("{id}", "obj-1").replace("{model}", model));
    let (content_type, body) = match body {
        SentBody::None => ("application/json", String::new()),
        SentBody::Form => (FORM, form(model, text)),
        _ => ("application/json", format!(r#"{{ "x" : 1.50, "model":"{model}" ,"input":"{text}" }}"#)),
    };
    Asked { method, path, content_type, body }
}

pub struct Asked {
    method: &'static str,
    path: String,
    content_type: &'static str,
    pub body: String,
}

impl Asked {
    pub fn send(&self, address: SocketAddr, key: &str) -> Answer {
        let bearer = format!("Bearer {key}");
        let headers = [("content-type", self.content_type), ("authorization", bearer.as_str())];
        let headers = if key.is_empty() { &headers[..1] } else { &headers[..] };
        ask(address, self.method, &self.path, headers, self.body.as_bytes())
    }
}

fn key(name: &str, limits: KeyLimits) -> KeyConfig {
    KeyConfig { name: name.to_owned(), sha256: key_hash(&format!("sk-{name}")), aliases: Vec::new(), limits }
}

pub fn fees(usd: f64) -> ServicesConfig {
    let fee = Money::from_usd(usd).expect("a sum");
    let fees = services().into_iter().map(|service| (service.to_owned(), fee)).collect();
    ServicesConfig { fees, ..ServicesConfig::default() }
}

#[test]
fn every_path_passes_byte_for_byte_but_for_the_model_and_leaves_a_row() {
    const ANSWER: &str = "{ \"odd\" : [1.0e2],\n\"id\":\"obj-1\"}";
    for row in &service_rows() {
        let one = Scripted::start(vec![Script::Send(vec![whole("200 OK", ANSWER)])]);
        let mut gateway = TestGateway::start(configured(vec![lane("one", one.address, ALL)], Mode::Off));
        let answer = asked(row, "all", "say \\u00e4").send(gateway.address, "");
        assert_eq!((answer.status, answer.text().as_str()), (200, ANSWER), "{row:?}");
        assert_eq!(answer.header("x-tokrate-winner"), Some("one"), "{row:?}");
        let sent = &one.requests()[0];
        let wanted = asked(row, "model-one", "say \\u00e4");
        let path = wanted.path.trim_start_matches("/v1");
        // Cohere's version stands behind the base.
        let path = if path == "/embed" { "/v2/embed" } else { path };
        assert!(sent.head.starts_with(&format!("{} /v1{path} HTTP/1.1\r\n", wanted.method)), "{row:?}: {}", sent.head);
        let body = String::from_utf8_lossy(&sent.body).into_owned();
        match row.1.contains("{model}:") {
            // Gemini's bodies name a model as a path does.
            true => assert!(body.contains(r#""models/model-one""#), "{body}"),
            false => assert_eq!(body, wanted.body, "{row:?}"),
        }
        let head = sent.head.to_ascii_lowercase();
        assert_eq!(head.contains("content-type: multipart/form-data; boundary=cut"), row.3 == SentBody::Form, "{head}");
        assert_eq!(head.contains("content-type:"), row.3 != SentBody::None, "{head}");
        let rows = gateway.rows();
        assert_eq!((rows.len(), rows[0].dialect_in.as_ref(), rows[0].won), (1, row.2, true), "{row:?}");
    }
}

/// A head of a chunked answer of sound, with its first piece.
fn sound(piece: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: audio/mpeg\r\nopenai-version: 2020-10-01\r\nx-ms-region: Sweden\r\nset-cookie: a=b\r\n\
         transfer-encoding: chunked\r\n\r\n{:x}\r\n{piece}\r\n",
        piece.len()
    )
    .into_bytes()
}

const SPEECH: &str = r#"{"model":"all","voice":"x","input":"hi"}"#;

#[test]
fn sound_is_passed_on_as_it_comes_with_the_headers_that_support_asks_for() {
    let one = Scripted::start(vec![Script::SendHoldSend(sound("first"), b"4\r\nrest\r\n0\r\n\r\n".to_vec())]);
    let gateway = TestGateway::start(configured(vec![lane("one", one.address, ALL)], Mode::Off));
    let mut client = TcpStream::connect(gateway.address).expect("it listens");
    client.write_all(&request("POST", "/v1/audio/speech", &[], SPEECH.as_bytes())).expect("it reads");
    let head = String::from_utf8_lossy(&read_until(&mut client, "first")).into_owned();
    for header in ["content-type: audio/mpeg", "openai-version: 2020-10-01", "x-ms-region: Sweden"] {
        assert!(head.contains(header), "{head}");
    }
    assert!(!head.contains("set-cookie"), "{head}");
    one.release();
    assert!(String::from_utf8_lossy(&read_until(&mut client, "0\r\n\r\n")).contains("rest"));
}

#[test]
fn headers_that_support_desks_ask_for_pass_with_every_kind_of_answer_and_no_others_do() {
    const ASKED_FOR: [(&str, &str); 5] = [
        ("openai-version", "2020-10-01"),
        ("openai-project", "proj_1"),
        ("openai-model", "m-1"),
        ("apim-request-id", "7f3a"),
        ("x-ms-region", "Sweden Central"),
    ];
    let with_headers = |answer: Vec<u8>| {
        let more: String = ASKED_FOR.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let text = String::from_utf8(answer).expect("text");
        text.replacen("\r\n", &format!("\r\n{more}set-cookie: a=b\r\nx-internal: 1\r\n"), 1).into_bytes()
    };
    let chat = r#"{"model":"all","messages":[{"role":"user","content":"hi"}]}"#;
    let streamed = chat.replace("{\"model\"", "{\"stream\":true,\"model\"");
    let message = r#"{"model":"all","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
    for (path, body, answer) in [
        ("/v1/chat/completions", chat, whole("200 OK", &chat_whole("yes"))),
        ("/v1/chat/completions", streamed.as_str(), stream(&chat_events(&["yes"]))),
        ("/v1/messages", message, whole("200 OK", &chat_whole("yes"))),
        ("/v1/chat/completions", chat, whole("400 Bad Request", r#"{"error":{"message":"no"}}"#)),
        ("/v1/embeddings", r#"{"model":"all","input":"hi"}"#, whole("200 OK", "{}")),
    ] {
        let one = Scripted::start(vec![Script::Send(vec![with_headers(answer)])]);
        let lane = lane("one", one.address, &[Dialect::OpenAiChat]);
        let gateway = TestGateway::start(configured(vec![lane], Mode::Off));
        let answer = post(gateway.address, path, body);
        for (name, value) in ASKED_FOR {
            assert_eq!(answer.header(name), Some(value), "{path}: {}", answer.head);
        }
        assert!(answer.header("set-cookie").or(answer.header("x-internal")).is_none(), "{path}: {}", answer.head);
    }
}

#[test]
fn sound_that_breaks_off_is_cut_and_nothing_is_written_into_it() {
    let one = Scripted::start(vec![Script::SendAndHold(sound("first"))]);
    let mut gateway = TestGateway::start(configured(vec![lane("one", one.address, ALL)], Mode::Off));
    let mut client = TcpStream::connect(gateway.address).expect("it listens");
    client.write_all(&request("POST", "/v1/audio/speech", &[], SPEECH.as_bytes())).expect("it reads");
    let mut all = read_until(&mut client, "first\r\n");
    one.release();
    client.read_to_end(&mut all).expect("it closes");
    let text = String::from_utf8_lossy(&all).into_owned();
    assert!(text.ends_with("5\r\nfirst\r\n"), "{text}");
    assert!(gateway.rows()[0].sample.failure.is_some());
}

#[test]
fn what_no_lane_serves_is_not_found_and_the_message_says_which_lane_or_setting_would() {
    let one = Scripted::start(vec![Script::Send(vec![whole("200 OK", "{}")])]);
    let listing = |serves: &[&str]| {
        let serves = Some(serves.iter().map(|service| (*service).to_owned()).collect());
        ServicesConfig { serves, ..ServicesConfig::default() }
    };
    let anthropic = lane("anthropic", one.address, &[Dialect::Anthropic]);
    let chats = LaneConfig { services: listing(&["embeddings"]), ..lane("chats", one.address, ALL) };
    let talks = LaneConfig { services: listing(&["speech"]), ..lane("talks", one.address, ALL) };
    let mut config = configured(vec![anthropic, chats, talks], Mode::Off);
    config.aliases[0].lanes = vec![0, 1];
    let gateway = TestGateway::start(config);
    let answer = post(gateway.address, "/v1/audio/speech", SPEECH);
    assert_eq!(answer.status, 404, "{}", answer.text());
    for said in ["lane anthropic has no OpenAI endpoint", "lane chats does not list `speech`", "may have it: talks"] {
        assert!(answer.text().contains(said), "{said}: {}", answer.text());
    }
    let answer = post(gateway.address, "/v1/rerank", r#"{"model":"all","query":"a","documents":[]}"#);
    assert!(answer.status == 404 && answer.text().contains(r#"set `serves = [\"rerank\"]`"#), "{}", answer.text());
    assert!(one.requests().is_empty());
    let named = post(gateway.address, "/v1/audio/speech", &SPEECH.replace("all", "talks"));
    assert_eq!(named.status, 200, "an alias offers what its lanes offer, and a lane what it has");
}

#[test]
fn a_key_hears_of_no_lane_that_it_may_not_ask_for() {
    let one = Scripted::start(vec![Script::Send(vec![whole("200 OK", "{}")])]);
    let talks = |number| lane(&format!("talks-{number}"), one.address, ALL);
    let lanes = [lane("mute", one.address, &[Dialect::Anthropic])].into_iter().chain((0..20).map(talks));
    let mut config = configured(lanes.collect(), Mode::Off);
    config.aliases[0].lanes = vec![0];
    config.aliases.push(AliasConfig { name: "sound".to_owned(), lanes: vec![1, 2], ..config.aliases[0].clone() });
    let of = |name: &str, aliases: &[&str]| {
        let aliases = aliases.iter().map(|alias| (*alias).to_owned()).collect();
        KeyConfig { aliases, ..key(name, KeyLimits::default()) }
    };
    config.keys = vec![of("one", &["all"]), of("two", &["all", "sound"]), of("every", &[])];
    let gateway = TestGateway::start(config);
    let told = |name: &str| {
        let bearer = format!("Bearer sk-{name}");
        let headers = [("content-type", "application/json"), ("authorization", bearer.as_str())];
        let answer = ask(gateway.address, "POST", "/v1/audio/speech", &headers, SPEECH.as_bytes());
        assert_eq!(answer.status, 404, "{}", answer.text());
        answer.text()
    };
    let (one_alias, two_aliases, all) = (told("one"), told("two"), told("every"));
    assert!(!one_alias.contains("talks") && one_alias.contains("set `serves"), "{one_alias}");
    assert!(!two_aliases.contains("talks") && two_aliases.contains("may have it: sound"), "{two_aliases}");
    assert!(all.contains("talks-7 and 12 more") && !all.contains("talks-8"), "{all}");
}

#[test]
fn a_model_that_the_provider_does_not_have_comes_back_as_it_said_when_the_client_named_the_lane() {
    let said = r#"{"error":{"message":"The model `model-one` does not exist","type":"invalid_request_error","code":"model_not_found"}}"#;
    let one = Scripted::start(vec![Script::Send(vec![whole("404 Not Found", said)])]);
    let gateway = TestGateway::start(configured(vec![lane("one", one.address, ALL)], Mode::Off));
    for (path, body) in [
        ("/v1/chat/completions", r#"{"model":"one","messages":[{"role":"user","content":"hi"}]}"#),
        ("/v1/images/generations", r#"{"model":"one","prompt":"hi"}"#),
    ] {
        let answer = post(gateway.address, path, body);
        assert_eq!((answer.status, answer.text().as_str()), (404, said), "{path}");
    }
}

#[test]
fn a_call_without_a_model_goes_to_the_only_lane_that_has_it_or_to_the_one_that_is_named() {
    let lanes = ["one", "two"].map(|_| Scripted::start(vec![Script::Send(vec![whole("200 OK", "{\"data\":[]}")])]));
    let configs: Vec<LaneConfig> =
        ["one", "two"].iter().zip(&lanes).map(|(name, at)| lane(name, at.address, ALL)).collect();
    let gateway = TestGateway::start(configured(configs.clone(), Mode::Off));
    let answer = ask(gateway.address, "GET", "/v1/files?limit=2&key=k", &[], b"");
    assert!(answer.status == 400 && answer.text().contains("(one, two)"), "{}", answer.text());
    let answer = ask(gateway.address, "GET", "/v1/files?limit=2&key=k", &[("x-tokrate-model", "two")], b"");
    assert_eq!((answer.status, answer.header("x-tokrate-winner")), (200, Some("two")), "{}", answer.text());
    assert!(lanes[1].requests()[0].head.starts_with("GET /v1/files?limit=2 HTTP/1.1\r\n"));
    let mut config = configured(configs, Mode::Off);
    config.lanes[0].services.serves = Some(Vec::new());
    let gateway = TestGateway::start(config);
    assert_eq!(ask(gateway.address, "GET", "/v1/files", &[], b"").header("x-tokrate-winner"), Some("two"));
}

#[test]
fn a_key_reaches_what_it_made_where_it_made_it_and_nothing_of_others() {
    let made = || Scripted::start(vec![Script::Send(vec![whole("200 OK", r#"{"id":"file-7","object":"file"}"#)])]);
    let (one, two) = (made(), made());
    let mut config = configured(vec![lane("one", one.address, ALL), lane("two", two.address, ALL)], Mode::Off);
    config.keys = vec![key("a", KeyLimits::default()), key("b", KeyLimits::default())];
    let gateway = TestGateway::start(config);
    let of = |key: &str, method: &str, path: &str, more: &[(&str, &str)], body: &str| {
        let bearer = format!("Bearer sk-{key}");
        let headers = [&[("authorization", bearer.as_str())][..], more].concat();
        ask(gateway.address, method, path, &headers, body.as_bytes())
    };
    let upload = form("two", "data");
    assert_eq!(
        of("a", "POST", "/v1/files", &[("content-type", FORM)], &upload).header("x-tokrate-winner"),
        Some("two")
    );
    for path in ["/v1/files/file-7", "/v1/files/file-7/content"] {
        assert_eq!(of("a", "GET", path, &[], "").header("x-tokrate-winner"), Some("two"), "{path}");
        assert_eq!(of("b", "GET", path, &[], "").status, 404, "{path}");
    }
    assert_eq!(of("b", "DELETE", "/v1/files/file-7", &[], "").status, 404);
    let batch = r#"{"input_file_id":"file-7","endpoint":"/v1/chat/completions","completion_window":"24h"}"#;
    assert_eq!(of("b", "POST", "/v1/batches", &[("x-tokrate-model", "two")], batch).status, 404);
    assert_eq!(of("a", "POST", "/v1/batches", &[], batch).header("x-tokrate-winner"), Some("two"));
    for key in ["a", "b"] {
        assert_eq!(of(key, "GET", "/v1/files", &[("x-tokrate-model", "two")], "").status, 403, "a list is everybody's");
    }
    assert!(one.requests().is_empty());
}

#[test]
fn what_a_key_made_is_still_its_own_and_where_it_was_after_a_restart() {
    let made = || Scripted::start(vec![Script::Send(vec![whole("200 OK", r#"{"id":"file-7","object":"file"}"#)])]);
    let (one, two) = (made(), made());
    let mut config = configured(vec![lane("one", one.address, ALL), lane("two", two.address, ALL)], Mode::Off);
    config.keys = vec![key("a", KeyLimits::default()), key("b", KeyLimits::default())];
    let mut gateway = TestGateway::start(config.clone());
    let of = |address, key: &str, method: &str, path: &str, more: &[(&str, &str)], body: &str| {
        let bearer = format!("Bearer sk-{key}");
        let headers = [&[("authorization", bearer.as_str())][..], more].concat();
        ask(address, method, path, &headers, body.as_bytes())
    };
    let upload = form("two", "data");
    assert_eq!(of(gateway.address, "a", "POST", "/v1/files", &[("content-type", FORM)], &upload).status, 200);
    gateway.restart(config.clone());
    let winner = |address, key: &str| {
        let answer = of(address, key, "GET", "/v1/files/file-7", &[], "");
        (answer.status, answer.header("x-tokrate-winner").map(str::to_owned))
    };
    assert_eq!(winner(gateway.address, "a"), (200, Some("two".to_owned())));
    assert_eq!(winner(gateway.address, "b"), (404, None));
    // A lane of that name that leads elsewhere has it no more.
    config.lanes[1].model = "another".to_owned();
    gateway.restart(config);
    assert_eq!(winner(gateway.address, "a"), (404, None));
}

#[test]
fn a_body_that_names_a_file_of_another_key_is_refused_as_the_path_of_that_file_is() {
    let one = Scripted::start(vec![
        Script::Send(vec![whole("200 OK", r#"{"id":"file-7","object":"file"}"#)]),
        Script::Send(vec![whole(
            "200 OK",
            r#"{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}]}"#,
        )]),
    ]);
    let mut config = configured(vec![lane("one", one.address, ALL)], Mode::Off);
    config.keys = vec![key("a", KeyLimits::default()), key("b", KeyLimits::default())];
    let gateway = TestGateway::start(config);
    let of = |key: &str, path: &str, content_type: &str, body: &str| {
        let bearer = format!("Bearer sk-{key}");
        let headers = [("authorization", bearer.as_str()), ("content-type", content_type)];
        ask(gateway.address, "POST", path, &headers, body.as_bytes())
    };
    assert_eq!(of("a", "/v1/files", FORM, &form("one", "data")).status, 200);
    let chat = |field: &str, id: &str| {
        format!(
            r#"{{"model":"one","messages":[{{"role":"user","content":[{{"type":"file","file":{{"{field}":"{id}"}}}}]}}]}}"#
        )
    };
    for field in ["file_id", "file\\u005fid"] {
        let answer = of("b", "/v1/chat/completions", "application/json", &chat(field, "file-7"));
        assert_eq!(answer.status, 404, "{field}: {}", answer.text());
        assert!(answer.text().contains("`file-7` is not known here"), "{}", answer.text());
    }
    let responses = r#"{"model":"one","input":[{"role":"user","content":[{"type":"input_file","file_id":"file-7"}]}]}"#;
    assert_eq!(of("b", "/v1/responses", "application/json", responses).status, 404);
    assert_eq!(one.requests().len(), 1, "nothing of it reached a lane");
    for (key, id) in [("a", "file-7"), ("b", "file-8")] {
        assert_eq!(of(key, "/v1/chat/completions", "application/json", &chat("file_id", id)).status, 200, "{key}");
    }
}

#[test]
fn a_batch_is_not_for_a_key_whose_limits_it_would_get_around() {
    let one = Scripted::start(vec![Script::Send(vec![whole("200 OK", r#"{"id":"batch_1"}"#)])]);
    let mut config = configured(vec![lane("one", one.address, ALL)], Mode::Off);
    let limited = KeyLimits { tokens_per_minute: Some(1_000_000), ..KeyLimits::default() };
    let spending = KeyLimits { usd_per_month: Money::from_usd(1_000.0), ..KeyLimits::default() };
    let aliased = KeyConfig { aliases: vec!["all".to_owned()], ..key("aliased", KeyLimits::default()) };
    config.keys = vec![key("limited", limited), key("spending", spending), aliased, key("free", KeyLimits::default())];
    let gateway = TestGateway::start(config);
    let batch = Asked {
        method: "POST",
        path: "/v1/batches".to_owned(),
        content_type: "application/json",
        body: r#"{"endpoint":"/v1/chat/completions"}"#.to_owned(),
    };
    for (key, said) in [("limited", "`tokens_per_minute`"), ("spending", "fees = { batches"), ("aliased", "`aliases`")]
    {
        let answer = batch.send(gateway.address, &format!("sk-{key}"));
        assert!(answer.status == 403 && answer.text().contains(said), "{key}: {}", answer.text());
    }
    assert!(one.requests().is_empty());
    assert_eq!(batch.send(gateway.address, "sk-free").status, 200);
}

#[test]
fn lists_of_models_have_the_form_of_their_clients() {
    let one = Scripted::start(vec![Script::Send(vec![whole("200 OK", "{}")])]);
    let gateway = TestGateway::start(configured(vec![lane("one", one.address, ALL)], Mode::Off));
    let get = |path: &str| {
        let answer = ask(gateway.address, "GET", path, &[], b"");
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        serde_json::from_slice::<serde_json::Value>(&answer.body).expect("JSON")
    };
    assert_eq!(get("/v1beta/models")["models"][0]["name"], "models/all");
    assert_eq!(get("/v1beta/models/all")["name"], "models/all");
    assert_eq!(get("/api/tags")["models"][0]["name"], "all");
    assert!(get("/api/version")["version"].is_string());
    let missing = ask(gateway.address, "GET", "/v1beta/models/none", &[], b"");
    assert_eq!(missing.status, 404);
    assert!(missing.text().contains("\"status\""), "in Gemini's form: {}", missing.text());
    let ollama = post(gateway.address, "/api/embed", r#"{"model":"none","input":"a"}"#);
    let error: serde_json::Value = serde_json::from_slice(&ollama.body).expect("JSON");
    assert!(ollama.status == 404 && error["error"].is_string(), "in Ollama's form: {error}");
    assert!(one.requests().is_empty());
}
