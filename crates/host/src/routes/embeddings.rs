//! Embeddings, as OpenAI and Ollama have them: vectors of length 1 that follow from their texts alone.
//!
//! An engine works on them like on a prompt whose answer has one token. Invariant: equal texts have equal vectors on every machine.

use super::answer::{collect, engine_error, faults_of};
use super::{ErrorResponse, Routes, with_type};
use crate::body::AnswerBody;
use crate::driver::Incoming;
use crate::truth::AnswerEnd;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response, StatusCode};
use serde_json::{Value, json};
use std::rc::Rc;
use tokrate_core::Rng;
use tokrate_net::server::{BufferedBody, ConnectionTap, RequestBody};
use tokrate_sim::SimRequest;
use tokrate_tokens::{Encoding, count};
use tokrate_wire::Dialect;

/// Numbers of a vector where the request does not say: those of OpenAI's small model.
const DIMENSIONS: usize = 1_536;
/// Most numbers of a vector, and most texts of a request: OpenAI's limits.
const MAX_DIMENSIONS: usize = 4_096;
const MAX_TEXTS: usize = 2_048;

/// Whose form of request and answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    OpenAi,
    Ollama,
}

impl Form {
    /// The form of a path.
    pub fn of_path(path: &str) -> Option<Form> {
        match path {
            "/v1/embeddings" | "/embeddings" => Some(Form::OpenAi),
            "/api/embed" => Some(Form::Ollama),
            _ => None,
        }
    }

    /// The dialect that has this form of errors.
    pub fn dialect(self) -> Dialect {
        match self {
            Form::OpenAi => Dialect::OpenAiChat,
            Form::Ollama => Dialect::OllamaChat,
        }
    }
}

/// What a request asks for.
struct Asked {
    model: String,
    texts: Vec<String>,
    dimensions: usize,
    in_base64: bool,
}

impl Routes {
    pub(super) async fn embeddings(
        &self,
        form: Form,
        head: &Parts,
        body: RequestBody,
        tap: Rc<ConnectionTap>,
    ) -> Result<Response<AnswerBody>, ErrorResponse> {
        if let Some(index) = self.provider_index {
            self.shared.providers[index].check_key(head)?;
        }
        if head.method != Method::POST {
            let message = format!("this method is not allowed for {}; use POST", head.uri.path());
            return Err(ErrorResponse(StatusCode::METHOD_NOT_ALLOWED, message));
        }
        let BufferedBody { bytes, share: _share } = self.read_body(body).await?;
        let received_at = tap.read_at();
        let asked = asked(&bytes).map_err(|message| ErrorResponse(StatusCode::BAD_REQUEST, message))?;
        let served = self.provider_of(head, &asked.model)?;
        let faults = faults_of(served, &head.headers)?;
        let tokens: usize = asked.texts.iter().map(|text| count(Encoding::O200kBase, text)).sum();
        let tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
        let request = SimRequest { input_tokens: tokens, output_tokens: Some(1), faults, ..SimRequest::default() };
        let incoming = Incoming { id: None, dialect: form.dialect(), received_at, stream: false, request };
        let handle = match Rc::clone(&served.driver).submit(incoming) {
            Ok(handle) => handle,
            Err(refusal) => return Ok(engine_error(form.dialect(), &refusal)),
        };
        if collect(&handle).await?.is_none() {
            return Ok(with_type("application/json", AnswerBody::Broken));
        }
        handle.end(AnswerEnd::Complete);
        let model = if self.provider_index.is_none() { &asked.model } else { &served.provider.model };
        let answer = answer(form, &asked, model, tokens);
        Ok(with_type("application/json", AnswerBody::Plain(Some(Bytes::from(answer.to_string())))))
    }
}

fn asked(body: &[u8]) -> Result<Asked, String> {
    let body: Value = serde_json::from_slice(body).map_err(|error| format!("failed to read the body: {error}"))?;
    let model = body.get("model").and_then(Value::as_str).unwrap_or_default().to_owned();
    let input = body.get("input").ok_or("`input` is missing")?;
    let texts = texts_of(input)?;
    if texts.is_empty() || texts.len() > MAX_TEXTS {
        return Err(format!("`input` has {} texts; from 1 to {MAX_TEXTS} are possible", texts.len()));
    }
    let dimensions = match body.get("dimensions") {
        None | Some(Value::Null) => DIMENSIONS,
        Some(number) => number
            .as_u64()
            .and_then(|number| usize::try_from(number).ok())
            .filter(|number| (1..=MAX_DIMENSIONS).contains(number))
            .ok_or_else(|| format!("`dimensions` is a number from 1 to {MAX_DIMENSIONS}"))?,
    };
    let in_base64 = match body.get("encoding_format").and_then(Value::as_str) {
        None | Some("float") => false,
        Some("base64") => true,
        Some(other) => return Err(format!("`encoding_format` is float or base64, not `{other}`")),
    };
    Ok(Asked { model, texts, dimensions, in_base64 })
}

/// A text, several of them, or either as token numbers, of which each stands for itself.
fn texts_of(input: &Value) -> Result<Vec<String>, String> {
    let wrong = || "`input` is a text, a list of texts, or lists of token numbers".to_owned();
    let numbers = |list: &[Value]| -> Option<String> {
        let words: Option<Vec<String>> = list.iter().map(|number| Some(number.as_u64()?.to_string())).collect();
        words.filter(|words| !words.is_empty()).map(|words| words.join(" "))
    };
    match input {
        Value::String(text) => Ok(vec![text.clone()]),
        Value::Array(list) => match numbers(list) {
            Some(text) => Ok(vec![text]),
            None => list
                .iter()
                .map(|item| match item {
                    Value::String(text) => Ok(text.clone()),
                    Value::Array(list) => numbers(list).ok_or_else(wrong),
                    _ => Err(wrong()),
                })
                .collect(),
        },
        _ => Err(wrong()),
    }
}

fn answer(form: Form, asked: &Asked, model: &str, tokens: u32) -> Value {
    let vectors = asked.texts.iter().map(|text| vector(text, asked.dimensions));
    match form {
        Form::OpenAi => {
            let data: Vec<Value> = vectors
                .enumerate()
                .map(|(index, vector)| {
                    let embedding = if asked.in_base64 { json!(in_base64(&vector)) } else { json!(vector) };
                    json!({"object": "embedding", "index": index, "embedding": embedding})
                })
                .collect();
            let usage = json!({"prompt_tokens": tokens, "total_tokens": tokens});
            json!({"object": "list", "data": data, "model": model, "usage": usage})
        }
        Form::Ollama => {
            let embeddings: Vec<Vec<f32>> = vectors.collect();
            json!({"model": model, "embeddings": embeddings, "prompt_eval_count": tokens})
        }
    }
}

/// A vector of length 1, drawn from the text.
fn vector(text: &str, dimensions: usize) -> Vec<f32> {
    let mut rng = Rng::root(0).child("embedding").child(text);
    let drawn: Vec<f64> = (0..dimensions).map(|_| rng.normal()).collect();
    let length = drawn.iter().map(|number| number * number).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
    drawn.iter().map(|number| (number / length) as f32).collect()
}

/// Numbers of 32 bits, the lowest byte first, as OpenAI sends them.
fn in_base64(vector: &[f32]) -> String {
    let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
    STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_follows_from_its_text_and_has_length_one() {
        let (one, same, other) = (vector("one", 64), vector("one", 64), vector("other", 64));
        assert_eq!(one, same);
        assert_ne!(one, other);
        let length: f32 = one.iter().map(|number| number * number).sum();
        assert!((length - 1.0).abs() < 1e-5, "{length}");
    }

    #[test]
    fn every_form_of_input_is_read_and_others_are_refused() {
        let texts = |input: Value| texts_of(&input);
        assert_eq!(texts(json!("a")), Ok(vec!["a".to_owned()]));
        assert_eq!(texts(json!(["a", "b"])), Ok(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(texts(json!([1, 2])), Ok(vec!["1 2".to_owned()]));
        assert_eq!(texts(json!([[1, 2], [3]])), Ok(vec!["1 2".to_owned(), "3".to_owned()]));
        for wrong in [json!(1), json!({}), json!([null]), json!([[]])] {
            assert!(texts(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
