//! Requests and their answers, without sockets.
//!
//! How edits are located is tested with the engine: every edit here names one place, or plainly two or none.

use http::request::Parts;
use http::{Method, Request, StatusCode};
use serde_json::{Value, json};
use tokrate_apply_host::{MODELS, OnRefuse, Reply, Service, Stamp};
use tokrate_tokens::{Encoding, count};

const FILE: &str = "one = 1\ntwo = 2\nthree = 3\ntwin = 0\nfour = 4\ntwin = 0\n";
const MERGED: &str = "one = 1\ntwo = 22\nthree = 3\ntwin = 0\nfour = 4\ntwin = 0\n";
const STAMP: Stamp = Stamp { number: 7, seconds: 1_700_000_000 };

fn good() -> String {
    json!({"old_string": "two = 2\n", "new_string": "two = 22\n"}).to_string()
}

fn ambiguous() -> String {
    json!({"old_string": "twin = 0\n", "new_string": "twin = 1\n"}).to_string()
}

fn content(update: &str) -> String {
    format!("<instruction>I change two</instruction>\n<code>{FILE}</code>\n<update>{update}</update>")
}

fn head(method: Method, target: &str) -> Parts {
    Request::builder().method(method).uri(target).body(()).expect("a request").into_parts().0
}

fn post(target: &str, body: &Value) -> Reply {
    Service::default().answer(&head(Method::POST, target), body.to_string().as_bytes(), STAMP)
}

fn chat(update: &str, extra: &Value) -> Reply {
    chat_at("/v1/chat/completions", update, extra)
}

fn chat_at(target: &str, update: &str, extra: &Value) -> Reply {
    let mut body = json!({"model": "morph-v3-fast", "messages": [{"role": "user", "content": content(update)}]});
    for (name, value) in extra.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    post(target, &body)
}

fn header<'r>(reply: &'r Reply, name: &str) -> Option<&'r str> {
    reply.headers.get(name).and_then(|value| value.to_str().ok())
}

fn body(reply: &Reply) -> Value {
    serde_json::from_slice(&reply.whole()).expect("JSON")
}

fn shown(reply: &Reply) -> String {
    let mut headers: Vec<String> =
        reply.headers.iter().map(|(name, value)| format!("{name}: {}\n", value.to_str().expect("text"))).collect();
    headers.sort();
    let body = match serde_json::from_slice::<Value>(&reply.whole()) {
        Ok(json) => format!("{:#}", without_engine_words(json)),
        Err(_) => String::from_utf8(reply.whole()).expect("UTF-8"),
    };
    format!("{}\n{}\n{body}\n", reply.status, headers.concat())
}

/// What the engine says in its own words, which are its own tests' matter.
fn without_engine_words(mut json: Value) -> Value {
    for pointer in ["/error/hint", "/refused/hint", "/refused/message"] {
        if let Some(words) = json.pointer_mut(pointer) {
            assert_ne!(words, "", "{pointer}");
            *words = "(the engine's words)".into();
        }
    }
    if json.pointer("/error/type") == Some(&"apply_refused".into()) {
        assert_ne!(json["error"]["message"], "");
        json["error"]["message"] = "(the engine's words)".into();
    }
    for (name, check) in json.get_mut("checks").and_then(Value::as_object_mut).into_iter().flatten() {
        assert!(check == "passed" || check["skipped"].is_string(), "{name}: {check}");
        *check = "(passed or skipped)".into();
    }
    json
}

#[test]
fn a_chat_is_answered_with_the_whole_file() {
    for path in ["/v1/chat/completions", "/v1/apply/chat/completions"] {
        let reply = chat_at(path, &good(), &json!({}));
        assert_eq!((reply.status, header(&reply, "x-tokrate-apply")), (StatusCode::OK, Some("deterministic")));
        let body = body(&reply);
        assert_eq!(body["choices"][0]["message"]["content"], MERGED);
        assert_eq!((&body["choices"][0]["finish_reason"], &body["model"]), (&json!("stop"), &json!("morph-v3-fast")));
        let tokens = |text: &str| count(Encoding::O200kBase, text);
        let (prompt, completion) = (tokens(&content(&good())), tokens(MERGED));
        let usage =
            json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion});
        assert_eq!(body["usage"], usage);
    }
}

#[test]
fn an_answer_reads_as_openai_writes_it() {
    insta::assert_snapshot!("chat", shown(&chat(&good(), &json!({}))));
    let stream = json!({"stream": true, "stream_options": {"include_usage": true}});
    insta::assert_snapshot!("stream", shown(&chat(&good(), &stream)));
}

#[test]
fn a_stream_comes_in_large_deltas() {
    let long = "é".repeat(20_000) + "\n";
    let update = json!({"old_string": "two = 2\n", "new_string": long}).to_string();
    let reply = chat(&update, &json!({"stream": true}));
    assert_eq!(header(&reply, "content-type"), Some("text/event-stream"));
    let text = String::from_utf8(reply.whole()).expect("UTF-8");
    let events: Vec<&str> =
        text.split_terminator("\n\n").map(|event| event.strip_prefix("data: ").expect("data")).collect();
    assert_eq!(events.last(), Some(&"[DONE]"));
    let chunks: Vec<Value> =
        events[..events.len() - 1].iter().map(|event| serde_json::from_str(event).expect("JSON")).collect();
    let deltas: Vec<&str> =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(deltas.concat(), FILE.replace("two = 2\n", &long));
    assert!(deltas.iter().all(|delta| delta.len() <= 16 * 1024), "{:?}", deltas.iter().map(|it| it.len()));
    assert_eq!(reply.body.len(), 3, "40 KB in pieces of 16");
    assert!(!text.contains("usage"), "nobody asked for it");
}

#[test]
fn every_model_of_the_list_is_served_and_no_other() {
    for model in MODELS {
        assert_eq!(chat(&good(), &json!({"model": model})).status, StatusCode::OK, "{model}");
    }
    insta::assert_snapshot!("other_model", shown(&chat(&good(), &json!({"model": "gpt-4"}))));
}

#[test]
fn the_last_message_of_the_user_is_the_request() {
    let old = content("nothing");
    let parts = content(&good());
    let (first, second) = parts.split_at(40);
    let messages = json!([
        {"role": "system", "content": "merge"},
        {"role": "user", "content": old},
        {"role": "assistant", "content": "no"},
        {"role": "user", "content": [{"type": "text", "text": first}, {"type": "text", "text": second}]},
    ]);
    let reply = chat("", &json!({"messages": messages}));
    assert_eq!(body(&reply)["choices"][0]["message"]["content"], MERGED, "{}", shown(&reply));
}

#[test]
fn who_wants_tags_gets_tags() {
    let asked = format!(
        "Answer with the whole file between <updated-code> and </updated-code> tags.\n\n<code>{FILE}</code>\n\n<update>{}</update>\n",
        good()
    );
    for stream in [false, true] {
        let reply = chat("", &json!({"messages": [{"role": "user", "content": asked}], "stream": stream}));
        let text = String::from_utf8(reply.whole()).expect("UTF-8");
        assert!(text.contains("<updated-code>one = 1\\n") && text.contains("twin = 0\\n</updated-code>"), "{text}");
    }
}

#[test]
fn a_refused_edit_is_an_error_that_says_everything() {
    insta::assert_snapshot!("refused", shown(&chat(&ambiguous(), &json!({}))));
    let streamed = chat(&ambiguous(), &json!({"stream": true}));
    assert_eq!(streamed, chat(&ambiguous(), &json!({})), "a stream that cannot begin is an error as well");
}

#[test]
fn the_original_is_given_only_on_request_and_never_silently() {
    let asked_in_header = {
        let mut head = head(Method::POST, "/v1/chat/completions");
        head.headers.insert("x-tokrate-on-refuse", "original".parse().expect("a value"));
        let body = json!({"model": "auto", "messages": [{"role": "user", "content": content(&ambiguous())}]});
        Service::default().answer(&head, body.to_string().as_bytes(), STAMP)
    };
    let default = Service { on_refuse: OnRefuse::Original, ..Service::default() };
    let body_of = json!({"model": "auto", "messages": [{"role": "user", "content": content(&ambiguous())}]});
    let by_default = default.answer(&head(Method::POST, "/v1/chat/completions"), body_of.to_string().as_bytes(), STAMP);
    for reply in [
        chat(&ambiguous(), &json!({"on_refuse": "original"})),
        chat_at("/v1/chat/completions?on_refuse=original", &ambiguous(), &json!({})),
        asked_in_header,
        by_default,
    ] {
        assert_eq!(reply.status, StatusCode::OK);
        assert_eq!(header(&reply, "x-tokrate-apply"), Some("refused"));
        assert_eq!(header(&reply, "x-tokrate-apply-code"), Some("ambiguous_location"));
        assert_eq!(body(&reply)["choices"][0]["message"]["content"], FILE);
    }
    let error = chat_at("/v1/chat/completions?on_refuse=error", &ambiguous(), &json!({"on_refuse": "original"}));
    assert_eq!(error.status, StatusCode::UNPROCESSABLE_ENTITY, "the query counts before the body");
}

#[test]
fn the_structured_route_takes_both_spellings() {
    let snake = json!({"initial_code": FILE, "edit_snippet": good(), "instructions": "I change two", "path": "a.txt"});
    let camel = json!({"initialCode": FILE, "editSnippet": good(), "instruction": "I change two", "stream": false,
        "model": "relace-apply-3", "filePath": "a.txt"});
    let reply = post("/v1/code/apply", &snake);
    assert_eq!(reply, post("/v1/code/apply", &camel));
    insta::assert_snapshot!("structured", shown(&reply));
    insta::assert_snapshot!(
        "structured_refused",
        shown(&post("/v1/code/apply?on_refuse=original", &json!({"initial_code": FILE, "edit_snippet": ambiguous()})))
    );
    let refused = post("/v1/code/apply", &json!({"initial_code": FILE, "edit_snippet": ambiguous()}));
    assert_eq!(refused, chat(&ambiguous(), &json!({})), "the same error on every route");
}

#[test]
fn pages_say_what_is_there() {
    let get = |path| Service::default().answer(&head(Method::GET, path), b"", STAMP);
    let pages = ["/health", "/v1/models", "/", "/v1/chat/completions"].map(|path| shown(&get(path)));
    insta::assert_snapshot!("pages", pages.concat() + &shown(&post("/health", &json!({}))));
}

#[test]
fn invalid_requests_get_an_error() {
    let raw =
        |text: &str| Service::default().answer(&head(Method::POST, "/v1/chat/completions"), text.as_bytes(), STAMP);
    let user = |content: Value| json!({"model": "auto", "messages": [{"role": "user", "content": content}]});
    let replies = [
        raw(""),
        raw("{\"model\": \"auto\", "),
        raw("[]"),
        raw("\u{0}"),
        post("/v1/chat/completions", &json!({"messages": []})),
        post("/v1/chat/completions", &json!({"model": "auto", "messages": []})),
        post("/v1/chat/completions", &user(json!("hello"))),
        post("/v1/chat/completions", &user(json!("<code>a</code>"))),
        post("/v1/chat/completions", &user(json!(7))),
        chat(&good(), &json!({"on_refuse": "maybe"})),
        chat(&good(), &json!({"on_refuse": 1})),
        chat(&good(), &json!({"language": "cobol"})),
        post("/v1/code/apply", &json!({"initial_code": FILE})),
        post("/v1/code/apply", &json!({"initial_code": FILE, "initialCode": FILE, "edit_snippet": "x"})),
    ];
    assert!(replies.iter().all(|reply| reply.status == StatusCode::BAD_REQUEST), "{replies:?}");
    let texts: Vec<String> = replies
        .iter()
        .map(|reply| {
            let error = &body(reply)["error"];
            assert_eq!((&error["type"], &error["code"]), (&json!("invalid_request_error"), &json!(null)));
            error["message"].as_str().expect("text").to_owned()
        })
        .collect();
    insta::assert_snapshot!("bad_requests", texts.join("\n"));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_body_is_answered(body in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200), structured: bool) {
        let path = if structured { "/v1/code/apply" } else { "/v1/chat/completions" };
        let reply = Service::default().answer(&head(Method::POST, path), &body, STAMP);
        proptest::prop_assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    }

    #[test]
    fn any_texts_are_answered(original in "(a|b|<code>|\n){0,20}", update in "(a|b|</update>|// \\.\\.\\.|\n){0,20}") {
        let reply = post("/v1/code/apply", &json!({"initial_code": original, "edit_snippet": update}));
        let known = [StatusCode::OK, StatusCode::UNPROCESSABLE_ENTITY];
        proptest::prop_assert!(known.contains(&reply.status), "{}", shown(&reply));
    }
}

#[test]
fn an_edit_may_be_json_and_is_made_to_the_file_that_it_was_made_for() {
    let head = || head(Method::POST, "/v1/code/apply");
    let answer = |body: &Value| Service::default().answer(&head(), body.to_string().as_bytes(), STAMP);
    let edits =
        json!([{"old_string": "two = 2", "new_string": "two = 3"}, {"old_string": "two = 3", "new_string": "two = 4"}]);
    let insert = json!({"command": "insert", "insert_line": 0, "insert_text": "zero = 0\n"});
    let merged =
        |edit: &Value| body(&answer(&json!({"initial_code": FILE, "edit_snippet": edit})))["merged_code"].clone();
    assert_eq!(merged(&json!({ "edits": edits })), FILE.replace("two = 2", "two = 4"));
    assert_eq!(merged(&edits), FILE.replace("two = 2", "two = 4"));
    assert_eq!(merged(&insert), format!("zero = 0\n{FILE}"));
    assert_eq!(answer(&json!({"initial_code": FILE, "edit_snippet": 7})).status, StatusCode::BAD_REQUEST);
    let hashed =
        |hash: &str| answer(&json!({"initial_code": FILE, "edit_snippet": insert, "original_sha256": hash})).status;
    let now = tokrate_apply_host::sha256(FILE.as_bytes());
    let other = tokrate_apply_host::sha256(b"another file");
    assert_eq!((hashed(&now), hashed(&other)), (StatusCode::OK, StatusCode::CONFLICT));
    assert_eq!(chat(&good(), &json!({"original_sha256": other})).status, StatusCode::CONFLICT);
}

#[test]
fn an_edit_of_another_state_of_the_file_is_refused_with_a_code() {
    let other = tokrate_apply_host::sha256(b"another file");
    let reply = chat(&good(), &json!({"original_sha256": other}));
    let error = &body(&reply)["error"];
    assert_eq!((&error["type"], &error["code"]), (&json!("apply_refused"), &json!("stale_file")), "{error}");
    assert!(error["message"].as_str().is_some_and(|text| text.contains("read the file again")), "{error}");
    let header = |name: &str| reply.headers.get(name).and_then(|value| value.to_str().ok());
    assert_eq!((header("x-tokrate-apply"), header("x-tokrate-apply-code")), (Some("refused"), Some("stale_file")));
}
