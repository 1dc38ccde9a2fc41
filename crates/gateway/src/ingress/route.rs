//! Routes: what the method and the path of a request ask for. Paths of dialects are those of `wire`.

use crate::api::{ApiMatch, ApiRoute};
use crate::dispatch::follow_up::StoredResponse;
use http::Method;
use tokrate_wire::{Dialect, Routed};

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Route {
    /// Text or tokens of a model, in a dialect.
    Generate(Routed),
    /// What passes byte for byte by the table of paths.
    Api(ApiRoute),
    /// The list of models, in that form.
    Models(ListForm),
    /// One model of that list.
    Model(String, ListForm),
    /// The version of the API, as Ollama's clients ask for it.
    Version,
    /// A response that goes on in the background.
    Stored(StoredResponse),
    /// A health check.
    Health,
    /// A known path with the wrong method.
    MethodNotAllowed,
    /// An unknown path.
    NotFound,
}

/// Whose form the list of models has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ListForm {
    /// OpenAI's, or Anthropic's for its SDKs.
    OpenAi,
    Gemini,
    /// Ollama's `/api/tags`.
    Ollama,
}

impl ListForm {
    fn dialect(self) -> Dialect {
        match self {
            ListForm::OpenAi => Dialect::OpenAiChat,
            ListForm::Gemini => Dialect::Gemini,
            ListForm::Ollama => Dialect::OllamaChat,
        }
    }
}

impl Route {
    /// The route of a method and a path with its query.
    pub fn of(method: &Method, path_and_query: &str) -> Route {
        let (path, query) =
            path_and_query.split_once('?').map_or((path_and_query, None), |(path, query)| (path, Some(query)));
        let path = path.trim_end_matches('/');
        // Text first: it is what most calls ask for, and no other path is one of its paths.
        if let Some(routed) = Dialect::of_path(path_and_query) {
            return if *method == Method::POST { Route::Generate(routed) } else { Route::MethodNotAllowed };
        }
        match ApiRoute::of(method, path, query) {
            ApiMatch::Found(route) => return Route::Api(route),
            ApiMatch::WrongMethod => return Route::MethodNotAllowed,
            ApiMatch::Unknown => {}
        }
        if let Some(stored) = StoredResponse::of(method, path, query) {
            return if stored.is_allowed() { Route::Stored(stored) } else { Route::MethodNotAllowed };
        }
        let route = if path == "/v1/models" || path == "/models" {
            Route::Models(ListForm::OpenAi)
        } else if path == "/v1beta/models" {
            Route::Models(ListForm::Gemini)
        } else if path == "/api/tags" {
            Route::Models(ListForm::Ollama)
        } else if path == "/api/version" {
            Route::Version
        } else if let Some(name) = path.strip_prefix("/v1beta/models/") {
            Route::Model(name.to_owned(), ListForm::Gemini)
        } else if let Some((_, name)) = path.split_once("/models/") {
            Route::Model(name.to_owned(), ListForm::OpenAi)
        } else if path == "/healthz" {
            Route::Health
        } else {
            return Route::NotFound;
        };
        if *method == Method::GET || *method == Method::HEAD { route } else { Route::MethodNotAllowed }
    }

    /// The dialect of the response, errors included.
    pub fn dialect(&self) -> Dialect {
        match self {
            Route::Generate(routed) => routed.dialect,
            Route::Api(route) => route.api.family.dialect(),
            Route::Models(form) | Route::Model(_, form) => form.dialect(),
            Route::Version => Dialect::OllamaChat,
            Route::Stored(_) => Dialect::OpenAiResponses,
            _ => Dialect::OpenAiChat,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_of_the_table_is_one_of_text() {
        for (method, path, service, _) in crate::api::rows() {
            for prefix in ["", "/v1", "/v1beta", "/openai/v1"] {
                let path = format!("{prefix}{}", path.replace("{id}", "obj-1").replace("{model}", "m"));
                assert!(Dialect::of_path(&path).is_none(), "{path}");
                let route = Route::of(&method.parse().expect("a method"), &path);
                assert!(matches!(route, Route::Api(route) if route.api.service == service), "{method} {path}");
            }
        }
        for path in ["/v1/responses/resp_1", "/v1/responses/resp_1/cancel", "/v1/responses/resp_1/input_items"] {
            assert!(Dialect::of_path(path).is_none(), "{path}");
        }
    }

    #[test]
    fn method_and_path_decide_the_route() {
        let get = |path: &str| Route::of(&Method::GET, path);
        let post = |path: &str| Route::of(&Method::POST, path);
        assert_eq!(post("/v1/chat/completions"), Route::Generate(Dialect::OpenAiChat.into()));
        assert_eq!(post("/v1/messages?beta=true"), Route::Generate(Dialect::Anthropic.into()));
        assert!(
            matches!(post("/v1beta/models/fast:generateContent"), Route::Generate(routed) if routed.model.as_deref() == Some("fast"))
        );
        assert!(matches!(post("/v1/embeddings"), Route::Api(route) if route.api.service == "embeddings"));
        assert!(matches!(post("/v1/messages/count_tokens"), Route::Api(route) if route.api.service == "count_tokens"));
        assert!(matches!(post("/v1/responses/input_tokens"), Route::Api(route) if route.api.service == "count_tokens"));
        assert_eq!(get("/v1/models"), Route::Models(ListForm::OpenAi));
        assert_eq!(get("/v1beta/models"), Route::Models(ListForm::Gemini));
        assert_eq!(get("/api/tags"), Route::Models(ListForm::Ollama));
        assert_eq!(get("/api/version"), Route::Version);
        assert_eq!(get("/v1/models/openai/gpt-5"), Route::Model("openai/gpt-5".to_owned(), ListForm::OpenAi));
        assert_eq!(get("/v1beta/models/auto"), Route::Model("auto".to_owned(), ListForm::Gemini));
        assert_eq!(get("/healthz"), Route::Health);
        assert!(matches!(get("/v1/responses/resp_1"), Route::Stored(stored) if stored.id == "resp_1"));
        assert_eq!(post("/v1/responses/resp_1"), Route::MethodNotAllowed);
        assert_eq!(post("/v1/responses"), Route::Generate(Dialect::OpenAiResponses.into()));
        assert_eq!(get("/v1/chat/completions"), Route::MethodNotAllowed);
        assert_eq!(post("/v1/models"), Route::MethodNotAllowed);
        for nothing in ["/", "/v1", "/v1/vector_stores", "/metrics", "//"] {
            assert_eq!(post(nothing), Route::NotFound, "{nothing}");
        }
    }
}
