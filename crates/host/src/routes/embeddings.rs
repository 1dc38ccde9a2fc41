//! Embeddings, as OpenAI, Ollama and Cohere have them: vectors of length 1 that follow from their texts alone; and reranking as Jina and Cohere
//! have it, whose scores are the cosines of such vectors.
//!
//! An engine works on them like on a prompt whose answer has one token. Invariant: equal texts have equal vectors on every machine.

use super::answer::{call_id, collect, faults_of, off_thread};
use super::{ErrorResponse, Routes, with_type};
use crate::body::AnswerBody;
use crate::driver::Incoming;
use crate::truth::AnswerEnd;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use serde_json::Value;
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
/// Larger requests are read, and answers of more numbers written, on another thread: on the engine's own they would delay open
/// streams. A number takes 0.1 us.
const MAX_INLINE_BYTES: usize = 2 * 1024;
const MAX_INLINE_NUMBERS: usize = 2 * 1024;
/// Numbers that are written in one go there, so that the prompts of others are not kept waiting: some milliseconds.
const MAX_NUMBERS_A_TIME: usize = 64 * 1024;

/// Whose form of request and answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    OpenAi,
    Ollama,
    Cohere,
    /// Scores of documents for a query.
    Rerank,
}

impl Form {
    /// The form of a path.
    pub fn of_path(path: &str) -> Option<Form> {
        match path {
            "/v1/embeddings" | "/embeddings" => Some(Form::OpenAi),
            "/api/embed" => Some(Form::Ollama),
            "/v2/embed" => Some(Form::Cohere),
            "/v1/rerank" | "/v2/rerank" | "/rerank" => Some(Form::Rerank),
            _ => None,
        }
    }

    /// The dialect that has this form of errors.
    pub fn dialect(self) -> Dialect {
        match self {
            Form::OpenAi | Form::Rerank => Dialect::OpenAiChat,
            Form::Cohere => Dialect::CohereChat,
            Form::Ollama => Dialect::OllamaChat,
        }
    }
}

/// What a request asks for.
struct Asked {
    model: String,
    texts: Vec<String>,
    /// What documents are to answer.
    query: String,
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
        self.check_call(head)?;
        let BufferedBody { bytes, share: _share } = self.read_body(body).await?;
        let received_at = tap.read_at();
        let read = match bytes.len() <= MAX_INLINE_BYTES {
            true => read(form, &bytes),
            false => off_thread(move || read(form, &bytes)).await,
        };
        let (asked, tokens) = read.map_err(|message| ErrorResponse(StatusCode::BAD_REQUEST, message))?;
        let served = self.provider_of(head, &asked.model)?;
        let faults = faults_of(served, &head.headers)?;
        let request = SimRequest { input_tokens: tokens, output_tokens: Some(1), faults, ..SimRequest::default() };
        let incoming = Incoming { id: call_id(head), dialect: form.dialect(), received_at, stream: false, request };
        let handle = match served.hand_over(incoming) {
            Ok(handle) => handle,
            Err(refused) => return Ok(*refused),
        };
        if collect(&handle).await?.is_none() {
            return Ok(with_type("application/json", AnswerBody::Broken));
        }
        handle.end(AnswerEnd::Complete);
        let model = if self.provider_index.is_none() { &asked.model } else { &served.provider.model }.clone();
        let answer = answer(form, &asked, &model, tokens).await;
        Ok(with_type("application/json", AnswerBody::Plain(Some(Bytes::from(answer)))))
    }
}

/// What is asked for, and its tokens.
fn read(form: Form, body: &[u8]) -> Result<(Asked, u32), String> {
    let asked = asked(form, body)?;
    // Servers read the query with each document.
    let query = count(Encoding::O200kBase, &asked.query);
    let tokens: usize = asked.texts.iter().map(|text| count(Encoding::O200kBase, text) + query).sum();
    Ok((asked, u32::try_from(tokens).unwrap_or(u32::MAX)))
}

fn asked(form: Form, body: &[u8]) -> Result<Asked, String> {
    let body: Value = serde_json::from_slice(body).map_err(|error| format!("failed to read the body: {error}"))?;
    let model = body.get("model").and_then(Value::as_str).unwrap_or_default().to_owned();
    let field = match form {
        Form::OpenAi | Form::Ollama => "input",
        Form::Cohere => "texts",
        Form::Rerank => "documents",
    };
    let input = body.get(field).ok_or_else(|| format!("`{field}` is missing"))?;
    let texts = texts_of(field, input)?;
    if texts.is_empty() || texts.len() > MAX_TEXTS {
        return Err(format!("`{field}` has {} texts; from 1 to {MAX_TEXTS} are possible", texts.len()));
    }
    let query = match (form, body.get("query").and_then(Value::as_str)) {
        (Form::Rerank, None) => return Err("`query` is missing".to_owned()),
        (_, query) => query.unwrap_or_default().to_owned(),
    };
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
    Ok(Asked { model, texts, query, dimensions, in_base64 })
}

/// A text, several of them, or either as token numbers, of which each stands for itself.
fn texts_of(field: &str, input: &Value) -> Result<Vec<String>, String> {
    let wrong = || format!("`{field}` is a text, a list of texts, or lists of token numbers");
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
                    // A document may be an object, of which the text is ranked.
                    Value::Object(document) if field == "documents" => {
                        document.get("text").and_then(Value::as_str).map(str::to_owned).ok_or_else(wrong)
                    }
                    Value::Array(list) => numbers(list).ok_or_else(wrong),
                    _ => Err(wrong()),
                })
                .collect(),
        },
        _ => Err(wrong()),
    }
}

/// The answer as JSON, made a few texts at a time: a large one takes most of a second, in which other streams go on and other work
/// of the second thread is done.
async fn answer(form: Form, asked: &Asked, model: &str, tokens: u32) -> Vec<u8> {
    let model = Value::from(model);
    if form == Form::Rerank {
        return ranked(asked, &model, tokens).to_string().into_bytes();
    }
    let mut json = match form {
        Form::OpenAi => b"{\"object\":\"list\",\"data\":[".to_vec(),
        Form::Ollama => format!("{{\"model\":{model},\"embeddings\":[").into_bytes(),
        Form::Cohere | Form::Rerank => b"{\"id\":\"emb\",\"embeddings\":{\"float\":[".to_vec(),
    };
    let a_time = (MAX_NUMBERS_A_TIME / asked.dimensions).max(1);
    for (nth, texts) in asked.texts.chunks(a_time).enumerate() {
        let (dimensions, in_base64) = (asked.dimensions, asked.in_base64);
        let first = nth * a_time;
        if asked.texts.len() * dimensions <= MAX_INLINE_NUMBERS {
            push_vectors(form, texts, first, dimensions, in_base64, &mut json);
            continue;
        }
        let (texts, mut begun) = (texts.to_vec(), std::mem::take(&mut json));
        json = off_thread(move || {
            push_vectors(form, &texts, first, dimensions, in_base64, &mut begun);
            begun
        })
        .await;
    }
    json.extend_from_slice(
        match form {
            Form::OpenAi => {
                format!("],\"model\":{model},\"usage\":{{\"prompt_tokens\":{tokens},\"total_tokens\":{tokens}}}}}")
            }
            Form::Ollama => format!("],\"prompt_eval_count\":{tokens}}}"),
            Form::Cohere | Form::Rerank => {
                format!("]}},\"meta\":{{\"billed_units\":{{\"input_tokens\":{tokens}.0}}}}}}")
            }
        }
        .as_bytes(),
    );
    json
}

/// Writes the elements of some texts, the first of which has that place in the list.
fn push_vectors(form: Form, texts: &[String], first: usize, dimensions: usize, in_base64: bool, json: &mut Vec<u8>) {
    for (index, text) in (first..).zip(texts) {
        if index > 0 {
            json.push(b',');
        }
        let vector = vector(text, dimensions);
        let embedding = match in_base64 && form == Form::OpenAi {
            true => serde_json::to_string(&self::in_base64(&vector)),
            false => serde_json::to_string(&vector),
        };
        let embedding = embedding.expect("numbers and texts can be written as JSON");
        match form {
            Form::OpenAi => json.extend_from_slice(
                format!("{{\"object\":\"embedding\",\"index\":{index},\"embedding\":{embedding}}}").as_bytes(),
            ),
            Form::Ollama | Form::Cohere | Form::Rerank => json.extend_from_slice(embedding.as_bytes()),
        }
    }
}

/// Numbers of the vectors whose cosine is a score.
const SCORED_DIMENSIONS: usize = 64;

/// The documents by their scores, the best first.
fn ranked(asked: &Asked, model: &Value, tokens: u32) -> Value {
    let query = vector(&asked.query, SCORED_DIMENSIONS);
    let score = |text: &String| {
        let cosine: f32 = vector(text, SCORED_DIMENSIONS).iter().zip(&query).map(|(a, b)| a * b).sum();
        f64::from(cosine).mul_add(0.5, 0.5).clamp(0.0, 1.0)
    };
    let mut results: Vec<(usize, f64)> = asked.texts.iter().map(score).enumerate().collect();
    results.sort_by(|a, b| b.1.total_cmp(&a.1));
    let results: Vec<Value> = results
        .into_iter()
        .map(|(index, score)| serde_json::json!({ "index": index, "relevance_score": score }))
        .collect();
    serde_json::json!({ "model": model, "results": results, "usage": { "total_tokens": tokens } })
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
    use serde_json::json;

    #[test]
    fn an_answer_is_the_same_whether_it_is_made_here_or_a_few_texts_at_a_time() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let asked = |texts: usize, dimensions| Asked {
            model: "m".to_owned(),
            texts: (0..texts).map(|number| format!("text {number}")).collect(),
            query: String::new(),
            dimensions,
            in_base64: false,
        };
        let parsed = |texts: usize, dimensions| -> Value {
            let json = runtime.block_on(answer(Form::OpenAi, &asked(texts, dimensions), "a \"model\"", 7));
            serde_json::from_slice(&json).expect("JSON")
        };
        let (here, elsewhere) = (parsed(3, 8), parsed(40, 4_096));
        assert_eq!(here["usage"], json!({"prompt_tokens": 7, "total_tokens": 7}));
        assert_eq!((&here["model"], elsewhere["data"].as_array().map(Vec::len)), (&json!("a \"model\""), Some(40)));
        for (index, item) in elsewhere["data"].as_array().expect("a list").iter().enumerate() {
            assert_eq!((item["index"].as_u64(), item["object"].as_str()), (Some(index as u64), Some("embedding")));
            let written: Vec<f32> = serde_json::from_value(item["embedding"].clone()).expect("numbers");
            assert!(written == vector(&format!("text {index}"), 4_096), "{index}");
        }
    }

    #[test]
    fn documents_come_by_their_scores_and_the_query_itself_is_the_best_answer() {
        let body = json!({"model": "m", "query": "one", "documents": ["two", {"text": "one"}, "three"]}).to_string();
        let (asked, tokens) = read(Form::Rerank, body.as_bytes()).expect("a request");
        let answer = ranked(&asked, &json!("m"), tokens);
        let results = answer["results"].as_array().expect("a list");
        // The query is read with each document.
        assert_eq!((results.len(), results[0]["index"].as_u64(), tokens), (3, Some(1), 6));
        let scores: Vec<f64> = results.iter().filter_map(|one| one["relevance_score"].as_f64()).collect();
        assert!((scores[0] - 1.0).abs() < 1e-6 && scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
        assert_eq!(read(Form::Rerank, b"{\"documents\": [\"a\"]}").map(|_| ()), Err("`query` is missing".to_owned()));
    }

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
        let texts = |input: Value| texts_of("input", &input);
        assert_eq!(texts(json!("a")), Ok(vec!["a".to_owned()]));
        assert_eq!(texts(json!(["a", "b"])), Ok(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(texts(json!([1, 2])), Ok(vec!["1 2".to_owned()]));
        assert_eq!(texts(json!([[1, 2], [3]])), Ok(vec!["1 2".to_owned(), "3".to_owned()]));
        for wrong in [json!(1), json!({}), json!([null]), json!([[]])] {
            assert!(texts(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
