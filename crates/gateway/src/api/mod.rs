//! The paths of providers' APIs that pass byte for byte, as a table: who has them, what is sent and answered, how it is metered.
//!
//! The generation of text and tokens is no part of it: it is translated where lanes speak another dialect, and measured.
//! Invariant: a path that is not in the table reaches no provider; every row says how it is priced.

mod form;
mod form_scanner;
mod route;
#[cfg(test)]
mod tests;

pub(crate) use form::Form;
pub(crate) use form_scanner::FormScanner;
pub(crate) use route::{ApiMatch, ApiRoute, is_object_id, without_version};

use tokrate_wire::Dialect;

/// Whose API a path belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Family {
    /// OpenAI's and that of those who have its paths.
    OpenAi,
    Anthropic,
    Gemini,
    Ollama,
    /// AWS's own paths, beside Converse.
    Bedrock,
    /// Cohere's second version; its reranking has OpenAI-like servers' path.
    Cohere,
}

/// What a request sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BodyKind {
    None,
    Json,
    /// `multipart/form-data`.
    Form,
    JsonOrForm,
}

/// How an answer is passed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AnswerKind {
    /// In one piece: it is short, and its token counts are read.
    Whole,
    /// As it comes.
    Stream,
    /// As it comes if the request says `stream`, else in one piece.
    AsAsked,
}

/// How a call is metered and priced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Meter {
    /// By the tokens that it sends; the answer has none.
    Input,
    /// By the call: what a call costs does not follow from its tokens, so the lane's `fees` say how much it can be.
    Fee,
    /// By what its responses use, and at most by the fee that the lane's `fees` say of one.
    Session,
    /// Nobody bills it.
    Free,
}

/// One path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Api {
    /// What a lane's `serves` and the log call it; several paths can be of one service.
    pub service: &'static str,
    pub method: &'static str,
    /// Behind the base URL; `{id}` is an object of the provider's, `{model}` a model.
    pub path: &'static str,
    pub family: Family,
    pub body: BodyKind,
    pub answer: AnswerKind,
    pub meter: Meter,
    /// Whether asking twice changes nothing, so that calls are hedged and raced as their alias says.
    pub may_repeat: bool,
    /// Whether the answer names an object that only its lane has from then on.
    pub creates: bool,
    /// Whether it begins work that nobody can bound or see from here: calls of any model, of any length.
    pub is_unbounded: bool,
    /// Whether it opens a WebSocket, on which both sides speak until it is closed.
    pub upgrades: bool,
}

use AnswerKind::{AsAsked, Stream, Whole};
use BodyKind::{JsonOrForm, None as NoBody};
use Family::{Anthropic, Bedrock, Cohere, Gemini, Ollama, OpenAi};
use Meter::{Fee, Free, Input, Session};

/// All of them.
pub(crate) static APIS: &[Api] = &[
    post("embeddings", "/embeddings", OpenAi, Input).repeatable(),
    post("embeddings", "/models/{model}:embedContent", Gemini, Input).repeatable(),
    post("embeddings", "/models/{model}:batchEmbedContents", Gemini, Input).repeatable(),
    post("embeddings", "/embed", Cohere, Input).repeatable(),
    post("embeddings", "/api/embed", Ollama, Input).repeatable(),
    post("embeddings", "/api/embeddings", Ollama, Input).repeatable(),
    post("rerank", "/rerank", OpenAi, Input).repeatable(),
    post("moderations", "/moderations", OpenAi, Input).repeatable(),
    post("count_tokens", "/messages/count_tokens", Anthropic, Free).repeatable(),
    post("count_tokens", "/models/{model}:countTokens", Gemini, Free).repeatable(),
    post("count_tokens", "/responses/input_tokens", OpenAi, Free).repeatable(),
    post("speech", "/audio/speech", OpenAi, Fee).answering(Stream),
    post("transcriptions", "/audio/transcriptions", OpenAi, Fee).sending(BodyKind::Form).answering(AsAsked),
    post("translations", "/audio/translations", OpenAi, Fee).sending(BodyKind::Form),
    post("images", "/images/generations", OpenAi, Fee).answering(AsAsked),
    post("images", "/images/edits", OpenAi, Fee).sending(JsonOrForm).answering(AsAsked),
    post("images", "/images/variations", OpenAi, Fee).sending(BodyKind::Form),
    post("files", "/files", OpenAi, Free).sending(BodyKind::Form).creating(),
    get("files", "/files", OpenAi),
    get("files", "/files/{id}", OpenAi),
    get("files", "/files/{id}/content", OpenAi).answering(Stream),
    Api { method: "DELETE", ..get("files", "/files/{id}", OpenAi) },
    Api { is_unbounded: true, ..post("batches", "/batches", OpenAi, Fee).creating() },
    get("batches", "/batches", OpenAi),
    get("batches", "/batches/{id}", OpenAi),
    post("batches", "/batches/{id}/cancel", OpenAi, Free).sending(NoBody),
    Api { meter: Session, upgrades: true, ..get("realtime", "/realtime", OpenAi).answering(Stream) },
    live("/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"),
    live("/ws/google.ai.generativelanguage.v1alpha.GenerativeService.BidiGenerateContent"),
    // The body is the model's own, whose limits are not known here.
    Api { is_unbounded: true, ..post("invoke", "/model/{model}/invoke", Bedrock, Fee) },
    Api {
        is_unbounded: true,
        ..post("invoke", "/model/{model}/invoke-with-response-stream", Bedrock, Fee).answering(Stream)
    },
    post("show", "/api/show", Ollama, Free).repeatable(),
    get("ps", "/api/ps", Ollama),
];

const fn post(service: &'static str, path: &'static str, family: Family, meter: Meter) -> Api {
    let (body, answer) = (BodyKind::Json, Whole);
    Api {
        service,
        method: "POST",
        path,
        family,
        body,
        answer,
        meter,
        may_repeat: false,
        creates: false,
        is_unbounded: false,
        upgrades: false,
    }
}

/// A session whose first message names the model.
const fn live(path: &'static str) -> Api {
    Api { meter: Session, upgrades: true, ..get("live", path, Gemini).answering(Stream) }
}

const fn get(service: &'static str, path: &'static str, family: Family) -> Api {
    Api { method: "GET", body: NoBody, ..post(service, path, family, Free) }
}

impl Api {
    const fn repeatable(self) -> Api {
        Api { may_repeat: true, ..self }
    }

    const fn creating(self) -> Api {
        Api { creates: true, ..self }
    }

    const fn sending(self, body: BodyKind) -> Api {
        Api { body, ..self }
    }

    const fn answering(self, answer: AnswerKind) -> Api {
        Api { answer, ..self }
    }

    /// Whether the path names an object or a model of its own, so that a 404 is about that.
    pub fn names_object(&self) -> bool {
        self.path.contains("{id}")
    }

    /// Whether it lists the objects of everyone.
    pub fn lists(&self) -> bool {
        self.method == "GET" && !self.names_object() && !self.upgrades && self.family == OpenAi
    }

    /// Whether an endpoint of that dialect has it, as far as dialects say.
    pub fn is_of(&self, dialect: Dialect) -> bool {
        let is_cohere = self.service == "rerank" && dialect == Dialect::CohereChat;
        self.family.has(dialect) || is_cohere
    }

    /// Whether the model of a session stands in its first message, beside what names the lane.
    pub fn has_setup(&self) -> bool {
        self.upgrades && self.family == Gemini
    }

    /// Whether a request of that content type may be sent there as a form.
    pub fn takes_forms(&self) -> bool {
        matches!(self.body, BodyKind::Form | BodyKind::JsonOrForm)
    }
}

impl Family {
    /// The dialect of its errors.
    pub fn dialect(self) -> Dialect {
        match self {
            OpenAi => Dialect::OpenAiChat,
            Anthropic => Dialect::Anthropic,
            Gemini => Dialect::Gemini,
            Ollama => Dialect::OllamaChat,
            Bedrock => Dialect::BedrockConverse,
            Cohere => Dialect::CohereChat,
        }
    }

    /// Whether an endpoint of that dialect belongs to it.
    pub fn has(self, dialect: Dialect) -> bool {
        match self {
            OpenAi => dialect.has_embeddings(),
            Anthropic => dialect == Dialect::Anthropic,
            Gemini => dialect == Dialect::Gemini,
            Ollama => matches!(dialect, Dialect::OllamaChat | Dialect::OllamaGenerate),
            Bedrock => dialect == Dialect::BedrockConverse,
            Cohere => dialect == Dialect::CohereChat,
        }
    }

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            OpenAi => "OpenAI",
            Anthropic => "Anthropic",
            Gemini => "Gemini",
            Ollama => "Ollama",
            Bedrock => "Bedrock",
            Cohere => "Cohere",
        }
    }
}

/// The names of all services, for settings.
pub fn services() -> Vec<&'static str> {
    let mut names: Vec<&'static str> = APIS.iter().map(|api| api.service).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The name of a service as the table has it.
pub(crate) fn service(name: &str) -> Option<&'static str> {
    APIS.iter().map(|api| api.service).find(|service| *service == name)
}
