//! Embeddings and reranking as a client sends and reads them: several texts in, a vector or a score for each; and images of a prompt.
//!
//! Forms: OpenAI's `/embeddings` (vLLM, SGLang, TEI, Infinity, llama.cpp), Ollama's `/api/embed`, Cohere's `/v2/embed`; `/rerank` of Jina, vLLM,
//! TEI's and Infinity's compatible servers, and Cohere's `/v2/rerank`.
//!
//! Invariant: numbers are counted and never read, so that a large answer costs little; a broken one emits no items.

use crate::batch_api::BatchForm;
use crate::dialect::Dialect;
use crate::made_images::{self, ImageDecoder, ImageOptions};
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};
use std::fmt;
use tokrate_core::{Anomaly, EventBatch, EventKind, FailureKind, Tick, Usage};

/// What is asked for each text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ItemTask {
    /// A vector.
    Embeddings,
    /// How well it answers a query.
    Rerank,
    /// Images of a prompt.
    Images,
    /// Answers to many requests of one file.
    Batch,
}

/// The form of request and answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ItemForm {
    /// OpenAI's embeddings.
    OpenAiEmbeddings,
    /// Ollama's embeddings.
    OllamaEmbeddings,
    /// Cohere's embeddings, second version.
    CohereEmbeddings,
    /// Reranking as Jina has it, and most servers after it.
    Rerank,
    /// Cohere's reranking, second version: the same at another path.
    CohereRerank,
    /// OpenAI's images.
    Images,
    /// Many requests as one.
    Batch(BatchForm),
}

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ItemRequest<'a> {
    /// Model as the endpoint knows it.
    pub model: &'a str,
    /// The texts; of images the prompt alone.
    pub texts: &'a [String],
    /// What they are to answer; of reranking only.
    pub query: &'a str,
    /// Further body fields: name and JSON text.
    pub extra: &'a [(String, String)],
    /// How many images are to be made.
    pub images: u32,
    /// What is asked of each of them.
    pub image: ImageOptions,
}

impl ItemTask {
    /// The name used on the command line and in records.
    pub const fn name(self) -> &'static str {
        match self {
            ItemTask::Embeddings => "embeddings",
            ItemTask::Rerank => "rerank",
            ItemTask::Images => "images",
            ItemTask::Batch => "batch",
        }
    }
}

impl ItemForm {
    /// The form that servers have beside a dialect; `None` if they have none.
    pub fn of(task: ItemTask, dialect: Dialect) -> Option<ItemForm> {
        match (task, dialect) {
            (ItemTask::Embeddings, Dialect::OllamaChat | Dialect::OllamaGenerate) => Some(ItemForm::OllamaEmbeddings),
            (ItemTask::Embeddings, Dialect::CohereChat) => Some(ItemForm::CohereEmbeddings),
            (ItemTask::Embeddings, dialect) if dialect.has_embeddings() => Some(ItemForm::OpenAiEmbeddings),
            (ItemTask::Rerank, Dialect::CohereChat) => Some(ItemForm::CohereRerank),
            (ItemTask::Rerank, dialect) if dialect.has_embeddings() => Some(ItemForm::Rerank),
            (ItemTask::Batch, dialect) => BatchForm::of(dialect).map(ItemForm::Batch),
            (ItemTask::Images, dialect) if dialect.has_embeddings() => Some(ItemForm::Images),
            _ => None,
        }
    }

    /// Path of the endpoint, to be appended to the base URL of the dialect.
    pub const fn path(self) -> &'static str {
        match self {
            ItemForm::OpenAiEmbeddings => "/embeddings",
            ItemForm::OllamaEmbeddings => "/api/embed",
            ItemForm::CohereEmbeddings => "/v2/embed",
            ItemForm::Rerank => "/rerank",
            ItemForm::CohereRerank => "/v2/rerank",
            ItemForm::Images => "/images/generations",
            ItemForm::Batch(BatchForm::OpenAi) => "/files",
            ItemForm::Batch(BatchForm::Anthropic) => "/messages/batches",
        }
    }

    /// The body of a request. A further field replaces one of the same name.
    pub fn encode(self, request: &ItemRequest<'_>) -> Vec<u8> {
        let ItemRequest { model, texts, query, extra, images, image } = *request;
        let body = match self {
            ItemForm::OpenAiEmbeddings | ItemForm::OllamaEmbeddings => json!({ "model": model, "input": texts }),
            ItemForm::CohereEmbeddings => json!({
                "model": model,
                "texts": texts,
                "input_type": "search_document",
                "embedding_types": ["float"],
            }),
            ItemForm::Rerank | ItemForm::CohereRerank => json!({ "model": model, "query": query, "documents": texts }),
            ItemForm::Images | ItemForm::Batch(_) => {
                let prompt = texts.first().map(String::as_str).unwrap_or_default();
                Value::Object(made_images::body(model, prompt, images, image))
            }
        };
        let mut fields = match body {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        for (name, json) in extra {
            // What is no JSON was refused when it was typed.
            fields.insert(name.clone(), serde_json::from_str(json).unwrap_or(Value::Null));
        }
        Value::Object(fields).to_string().into_bytes()
    }
}

/// Reads the answer to one request.
#[derive(Clone, Debug)]
pub struct ItemDecoder {
    form: ItemForm,
    /// How many texts were sent.
    asked: u32,
    body: Vec<u8>,
    /// In place of the body, where images were asked for: they may come one by one.
    images: Option<Box<ImageDecoder>>,
}

impl ItemDecoder {
    /// A decoder of the answer to so many texts.
    pub fn new(form: ItemForm, asked: u32) -> ItemDecoder {
        let images = (form == ItemForm::Images).then(|| Box::new(ImageDecoder::new()));
        ItemDecoder { form, asked, body: Vec::new(), images }
    }

    /// Takes bytes of the body, and emits what has come whole with them. How many there may be is for whoever reads it to say.
    pub fn push(&mut self, at: Tick, bytes: &[u8], out: &mut EventBatch) {
        match &mut self.images {
            Some(images) => images.push(at, bytes, out),
            None => self.body.extend_from_slice(bytes),
        }
    }

    /// The body has ended: emits what it holds, as of that read. Fewer items than texts are a failure.
    pub fn end(&mut self, at: Tick, out: &mut EventBatch) {
        if let Some(images) = &mut self.images {
            if let Some(images) = images.end(at, out) {
                self.finish(at, images, out);
            }
            return;
        }
        let body = std::mem::take(&mut self.body);
        if body.is_empty() {
            return;
        }
        let Ok(read) = serde_json::from_slice::<Body>(&body) else {
            out.push(at, EventKind::Anomaly(Anomaly::Unreadable));
            return;
        };
        if let Some(model) = read.model.as_deref().filter(|model| !model.is_empty()) {
            let model = out.store(model);
            out.push(at, EventKind::Model(model));
        }
        let input = read.usage.as_ref().and_then(Tokens::input).or(read.prompt_eval_count);
        let input = input.or_else(|| read.meta?.billed_units?.input_tokens.map(|tokens| tokens as u64));
        if input.is_some() {
            out.push(at, EventKind::Usage(Usage { input, ..Usage::default() }.plausible()));
        }
        let items = match self.form {
            ItemForm::OpenAiEmbeddings => read.data,
            ItemForm::OllamaEmbeddings => read.embeddings.and_then(Vectors::list),
            ItemForm::CohereEmbeddings => read.embeddings.and_then(Vectors::float),
            ItemForm::Rerank | ItemForm::CohereRerank => read.results,
            ItemForm::Images | ItemForm::Batch(_) => None,
        };
        let Some(Count(items)) = items else {
            out.push(at, EventKind::Anomaly(Anomaly::Malformed));
            return;
        };
        self.finish(at, items, out);
    }

    /// So many came.
    fn finish(&self, at: Tick, items: u32, out: &mut EventBatch) {
        out.push(at, EventKind::Items(items));
        if items < self.asked {
            let message = out.store(&format!("the answer holds {items} of {} items", self.asked));
            out.push(at, EventKind::Failed { kind: FailureKind::Truncated, message, retry_after: None });
        }
        out.push(at, EventKind::Done);
    }
}

/// The fields of all forms; each has some of them.
#[derive(Deserialize)]
struct Body {
    model: Option<String>,
    data: Option<Count>,
    results: Option<Count>,
    embeddings: Option<Vectors>,
    usage: Option<Tokens>,
    prompt_eval_count: Option<u64>,
    meta: Option<Meta>,
}

#[derive(Deserialize)]
struct Tokens {
    prompt_tokens: Option<u64>,
    total_tokens: Option<u64>,
}

impl Tokens {
    /// Nothing is written, so that the total is what was read.
    fn input(&self) -> Option<u64> {
        self.prompt_tokens.filter(|tokens| *tokens > 0).or(self.total_tokens)
    }
}

#[derive(Deserialize, Clone, Copy)]
struct Meta {
    billed_units: Option<Billed>,
}

#[derive(Deserialize, Clone, Copy)]
struct Billed {
    /// Cohere writes whole numbers with a decimal point.
    input_tokens: Option<f64>,
}

/// A list of vectors, or one for each type of number.
enum Vectors {
    List(Count),
    ByType(Option<Count>),
}

impl Vectors {
    fn list(self) -> Option<Count> {
        if let Vectors::List(count) = self { Some(count) } else { None }
    }

    fn float(self) -> Option<Count> {
        if let Vectors::ByType(count) = self { count } else { None }
    }
}

/// How many elements a list has.
struct Count(u32);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Count, D::Error> {
        deserializer.deserialize_seq(Counting)
    }
}

struct Counting;

impl<'de> Visitor<'de> for Counting {
    type Value = Count;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Count, A::Error> {
        let mut count = 0_u32;
        while items.next_element::<IgnoredAny>()?.is_some() {
            count = count.saturating_add(1);
        }
        Ok(Count(count))
    }
}

impl<'de> Deserialize<'de> for Vectors {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Vectors, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Vectors;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list of vectors, or one for each type")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Vectors, A::Error> {
                Counting.visit_seq(items).map(Vectors::List)
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut types: A) -> Result<Vectors, A::Error> {
                let mut float = None;
                while let Some(name) = types.next_key::<String>()? {
                    match name.as_str() {
                        "float" => float = Some(types.next_value::<Count>()?),
                        _ => drop(types.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(Vectors::ByType(float))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    fn read(form: ItemForm, asked: u32, body: &str) -> Vec<String> {
        let (mut decoder, mut batch) = (ItemDecoder::new(form, asked), EventBatch::new());
        body.as_bytes().chunks(7).for_each(|piece| decoder.push(Tick::ZERO, piece, &mut batch));
        decoder.end(Tick::from_nanos(5), &mut batch);
        let event = |kind: EventKind| match kind {
            EventKind::Model(name) => format!("model {}", batch.text(name)),
            EventKind::Usage(usage) => format!("input {:?}", usage.input),
            EventKind::Items(items) => format!("items {items}"),
            EventKind::Failed { kind, message, .. } => format!("failed {kind:?}: {}", batch.text(message)),
            other => format!("{other:?}"),
        };
        batch.events().iter().map(|one| event(one.kind)).collect()
    }

    #[test]
    fn every_form_of_answer_is_counted() {
        let open_ai = r#"{"object":"list","data":[{"index":0,"embedding":[0.1,-2e-3]},{"index":1,"embedding":"AAAA"}],"model":"m","usage":{"prompt_tokens":7,"total_tokens":7}}"#;
        assert_eq!(read(ItemForm::OpenAiEmbeddings, 2, open_ai), ["model m", "input Some(7)", "items 2", "Done"]);
        let ollama = r#"{"model":"m","embeddings":[[0.1],[0.2],[0.3]],"prompt_eval_count":9}"#;
        assert_eq!(read(ItemForm::OllamaEmbeddings, 3, ollama), ["model m", "input Some(9)", "items 3", "Done"]);
        let cohere = r#"{"id":"x","embeddings":{"int8":[[1]],"float":[[0.1],[0.2]]},"meta":{"billed_units":{"input_tokens":4.0}}}"#;
        assert_eq!(read(ItemForm::CohereEmbeddings, 2, cohere), ["input Some(4)", "items 2", "Done"]);
        let rerank = r#"{"model":"m","results":[{"index":1,"relevance_score":0.9},{"index":0,"relevance_score":0.1}],"usage":{"total_tokens":12}}"#;
        assert_eq!(read(ItemForm::Rerank, 2, rerank), ["model m", "input Some(12)", "items 2", "Done"]);
    }

    #[test]
    fn an_answer_that_lacks_items_is_a_failure_and_one_that_is_none_says_so() {
        let short = r#"{"results":[{"index":0}]}"#;
        assert_eq!(
            read(ItemForm::CohereRerank, 3, short),
            ["items 1", "failed Truncated: the answer holds 1 of 3 items", "Done"]
        );
        assert_eq!(read(ItemForm::Rerank, 1, "{\"results\":[{"), ["Anomaly(Unreadable)"]);
        assert_eq!(read(ItemForm::Rerank, 1, "{\"data\":[1]}"), ["Anomaly(Malformed)"]);
        assert!(read(ItemForm::Rerank, 1, "").is_empty(), "nothing came");
    }

    #[test]
    fn requests_are_those_of_their_form() {
        let texts = ["a".to_owned(), "b \"c\"".to_owned()];
        let extra = [("dimensions".to_owned(), "8".to_owned()), ("model".to_owned(), "\"other\"".to_owned())];
        let body = |form: ItemForm, extra: &[(String, String)]| -> Value {
            let request = ItemRequest { model: "m", texts: &texts, query: "q", extra, ..ItemRequest::default() };
            serde_json::from_slice(&form.encode(&request)).expect("JSON")
        };
        assert_eq!(
            body(ItemForm::OpenAiEmbeddings, &extra),
            json!({"model": "other", "input": ["a", "b \"c\""], "dimensions": 8})
        );
        assert_eq!(body(ItemForm::CohereEmbeddings, &[])["texts"], json!(["a", "b \"c\""]));
        let rerank = json!({"model": "m", "query": "q", "documents": ["a", "b \"c\""]});
        assert_eq!(body(ItemForm::Rerank, &[]), rerank);
        assert_eq!(body(ItemForm::CohereRerank, &[]), rerank);
        assert_eq!(ItemForm::of(ItemTask::Rerank, Dialect::OllamaChat), None, "Ollama has no reranking");
        assert_eq!(ItemForm::of(ItemTask::Embeddings, Dialect::Anthropic), None);
        assert_eq!(ItemForm::of(ItemTask::Rerank, Dialect::OpenAiChat).map(ItemForm::path), Some("/rerank"));
    }

    proptest! {
        #[test]
        fn no_body_breaks_it_and_any_chunking_gives_the_same(body in "[\\[\\]{}\":,a-z0-9.]{0,80}", cut in 0_usize..80) {
            let whole = read(ItemForm::OpenAiEmbeddings, 1, &body);
            let (mut decoder, mut batch) = (ItemDecoder::new(ItemForm::OpenAiEmbeddings, 1), EventBatch::new());
            let (one, two) = body.as_bytes().split_at(cut.min(body.len()));
            decoder.push(Tick::ZERO, one, &mut batch);
            decoder.push(Tick::ZERO, two, &mut batch);
            decoder.end(Tick::ZERO, &mut batch);
            prop_assert_eq!(batch.events().len(), whole.len());
            prop_assert!(batch.events().len() <= 5);
        }
    }
}
