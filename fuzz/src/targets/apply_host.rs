//! Requests to the merge engine behind HTTP: the same request gives the same answer, a refusal says why, and the three forms of
//! an answer hold the same file.
//!
//! It does not know what the right file is. Invariant: the first bytes of the input say the path and whether the rest is a
//! body, or a file and an edit of which bodies are made.

use crate::text;
use http::request::Parts;
use http::{Method, Request, StatusCode};
use serde_json::{Value, json};
use tokrate_apply_host::{OnRefuse, Reply, Service, Stamp};
use tokrate_core::{EventBatch, EventKind, Tick};
use tokrate_wire::{Decoder, Dialect, Shape};

const PATHS: [&str; 5] = [
    "/v1/chat/completions",
    "/v1/apply/chat/completions",
    "/v1/code/apply",
    "/v1/models",
    "/v1/code/apply?on_refuse=original",
];
/// Of the languages some, one without a grammar among them.
const LANGUAGES: [Option<&str>; 4] = [None, Some("rust"), Some("python"), Some("json")];
const STAMP: Stamp = Stamp { number: 1, seconds: 1 };

/// Panics if a property does not hold.
pub fn run(input: &[u8]) {
    let Some((&[kind, cut, fine], body)) = input.split_first_chunk::<3>() else { return };
    let service = Service { on_refuse: OnRefuse::default(), without_tree: kind & 0x40 != 0, has_fallback: false };
    if kind & 0x80 != 0 {
        let text = text(body);
        let cut = text.floor_char_boundary(usize::from(cut) << 4 | usize::from(fine) & 15);
        let (original, update) = text.split_at(cut);
        edited(service, original, update, LANGUAGES[usize::from(kind) % LANGUAGES.len()]);
        return;
    }
    let method = if kind & 0x20 != 0 { Method::GET } else { Method::POST };
    let head = head(method, PATHS[usize::from(kind) % PATHS.len()]);
    let reply = service.answer(&head, body, STAMP);
    assert_eq!(service.answer(&head, body, STAMP), reply, "the same request, the same answer");
    let has_told = match reply.status {
        StatusCode::OK => true,
        status if status.is_client_error() => {
            let error: Value = serde_json::from_slice(&reply.whole()).expect("an error is JSON");
            error["error"]["message"].as_str().is_some_and(|message| !message.is_empty())
        }
        _ => false,
    };
    assert!(has_told, "{} {}", reply.status, String::from_utf8_lossy(&reply.whole()));
}

fn head(method: Method, path: &str) -> Parts {
    let request = Request::builder().method(method).uri(path).body(()).expect("a path of ours");
    request.into_parts().0
}

/// Asks for the same edit in all three forms.
fn edited(service: Service, original: &str, update: &str, language: Option<&str>) {
    let structured = json!({"initial_code": original, "edit_snippet": update, "language": language}).to_string();
    let chat = |stream: bool| {
        let content = format!("<code>{original}</code>\n<update>{update}</update>");
        let messages = json!([{"role": "user", "content": content}]);
        json!({"model": "auto", "messages": messages, "stream": stream, "language": language}).to_string()
    };
    let ask = |path: &str, body: &str| service.answer(&head(Method::POST, path), body.as_bytes(), STAMP);
    let structured = ask(PATHS[2], &structured);
    let (whole, stream) = (ask(PATHS[0], &chat(false)), ask(PATHS[0], &chat(true)));
    assert_eq!(whole.status, stream.status);
    let merged = |reply: &Reply| (reply.status == StatusCode::OK).then(|| reply.whole());
    let of_structured = merged(&structured).map(|body| {
        let answer: Value = serde_json::from_slice(&body).expect("an answer is JSON");
        assert_eq!(answer["mergedCode"], answer["merged_code"]);
        answer["merged_code"].as_str().expect("a text").to_owned()
    });
    let of_whole = merged(&whole).map(|body| answer_text(Shape::Whole, &body));
    assert_eq!(merged(&stream).map(|body| answer_text(Shape::Stream, &body)), of_whole);
    // A text that holds the tags itself is split elsewhere when it comes in a chat.
    let is_plain = |text: &str| !text.contains('<') && text.trim() == text;
    if is_plain(original) && is_plain(update) && !original.is_empty() && !update.is_empty() {
        assert_eq!(of_whole, of_structured, "{original:?} {update:?}");
    }
}

/// The text of a chat's answer.
fn answer_text(shape: Shape, body: &[u8]) -> String {
    let (mut decoder, mut batch) = (Decoder::new(Dialect::OpenAiChat, shape), EventBatch::new());
    decoder.push(Tick::ZERO, body, &mut batch);
    decoder.end(Tick::ZERO, &mut batch);
    let texts = batch.events().iter().filter_map(|event| match event.kind {
        EventKind::Text { text, .. } => Some(batch.text(text)),
        _ => None,
    });
    texts.collect()
}
