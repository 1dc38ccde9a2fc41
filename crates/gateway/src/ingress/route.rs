//! Routes: what the method and the path of a request ask for. Paths of dialects are those of `wire`.

use crate::api::{APIS, ApiMatch, ApiRoute, BodyKind};
use crate::dispatch::follow_up::{STORED, StoredResponse};
use http::Method;
use tokrate_wire::{Dialect, Routed, Shape};

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

/// A path that the gateway answers by itself.
struct OwnPath {
    /// `{name}` at its end is the rest of a path; `{any}` before it is whatever stands there.
    pattern: &'static str,
    route: fn(&str) -> Route,
}

/// All of them; the first that fits counts.
static OWN: [OwnPath; 8] = [
    OwnPath { pattern: "/v1/models", route: |_| Route::Models(ListForm::OpenAi) },
    OwnPath { pattern: "/models", route: |_| Route::Models(ListForm::OpenAi) },
    OwnPath { pattern: "/v1beta/models", route: |_| Route::Models(ListForm::Gemini) },
    OwnPath { pattern: "/api/tags", route: |_| Route::Models(ListForm::Ollama) },
    OwnPath { pattern: "/api/version", route: |_| Route::Version },
    OwnPath { pattern: "/v1beta/models/{name}", route: |name| Route::Model(name.to_owned(), ListForm::Gemini) },
    OwnPath { pattern: "{any}/models/{name}", route: |name| Route::Model(name.to_owned(), ListForm::OpenAi) },
    OwnPath { pattern: "/healthz", route: |_| Route::Health },
];

impl OwnPath {
    fn route(&self, path: &str) -> Option<Route> {
        let Some(before) = self.pattern.strip_suffix("{name}") else {
            return (path == self.pattern).then(|| (self.route)(""));
        };
        let name = match before.strip_prefix("{any}") {
            Some(part) => path.split_once(part).map(|(_, name)| name),
            None => path.strip_prefix(before),
        };
        name.map(self.route)
    }
}

/// What becomes of a request by one row of the tables.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RouteKind {
    /// Text of a model.
    Text(Dialect, Shape),
    /// A row of the table of services, which is a request and an answer: its service, and whether it sends a form.
    Service(&'static str, SentBody),
    /// A WebSocket.
    Session,
    /// A response that a provider keeps.
    Stored,
    /// The gateway answers by itself.
    Own,
}

/// What a row of the table of services sends.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SentBody {
    /// Nothing.
    None,
    /// JSON.
    Json,
    /// `multipart/form-data`.
    Form,
    /// Either of both.
    Either,
}

/// One row of the tables by which requests are routed.
#[doc(hidden)]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RouteRow {
    /// The method.
    pub method: &'static str,
    /// The path, with `{id}`, `{model}` or `{name}` where the client puts one.
    pub path: String,
    /// What it is.
    pub kind: RouteKind,
}

/// Every row of the tables that [`Route::of`] reads, for tests that must know of each.
#[doc(hidden)]
pub fn routes() -> Vec<RouteRow> {
    let shapes = [Shape::Whole, Shape::Stream, Shape::Array];
    let texts = Dialect::ALL.into_iter().flat_map(|dialect| {
        let shapes = shapes.into_iter().filter(move |shape| *shape != Shape::Array || dialect == Dialect::Gemini);
        shapes.map(move |shape| RouteRow {
            method: "POST",
            path: dialect.path("MODEL", shape).replace("MODEL", "{model}"),
            kind: RouteKind::Text(dialect, shape),
        })
    });
    let services = APIS.iter().map(|api| {
        let kind = match (api.upgrades, api.body) {
            (true, _) => RouteKind::Session,
            (false, BodyKind::None) => RouteKind::Service(api.service, SentBody::None),
            (false, BodyKind::Json) => RouteKind::Service(api.service, SentBody::Json),
            (false, BodyKind::Form) => RouteKind::Service(api.service, SentBody::Form),
            (false, BodyKind::JsonOrForm) => RouteKind::Service(api.service, SentBody::Either),
        };
        RouteRow { method: api.method, path: api.path.to_owned(), kind }
    });
    let stored = STORED.iter().flat_map(|(tail, methods)| {
        let name = |method: &Method| match *method {
            Method::GET => "GET",
            Method::POST => "POST",
            _ => "DELETE",
        };
        let row = move |method| RouteRow {
            method: name(method),
            path: format!("/v1/responses/{{id}}{tail}"),
            kind: RouteKind::Stored,
        };
        methods.iter().map(row)
    });
    let own = OWN.iter().map(|own| RouteRow {
        method: "GET",
        path: own.pattern.replace("{any}", "/v1"),
        kind: RouteKind::Own,
    });
    texts.chain(services).chain(stored).chain(own).collect()
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
        match OWN.iter().find_map(|own| own.route(path)) {
            Some(route) if *method == Method::GET || *method == Method::HEAD => route,
            Some(_) => Route::MethodNotAllowed,
            None => Route::NotFound,
        }
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
        for RouteRow { method, path, kind } in routes() {
            let RouteKind::Service(service, _) = kind else { continue };
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
    fn every_row_of_the_tables_leads_to_what_it_says() {
        for RouteRow { method, path, kind } in routes() {
            let path = path.replace("{id}", "obj-1").replace("{model}", "m").replace("{name}", "m");
            let route = Route::of(&method.parse().expect("a method"), &path);
            let fits = match kind {
                RouteKind::Text(dialect, shape) => {
                    matches!(&route, Route::Generate(routed) if routed.dialect == dialect
                        && routed.shape.is_none_or(|found| found == shape))
                }
                RouteKind::Service(service, _) => {
                    matches!(&route, Route::Api(route) if route.api.service == service && !route.api.upgrades)
                }
                RouteKind::Session => matches!(&route, Route::Api(route) if route.api.upgrades),
                RouteKind::Stored => matches!(&route, Route::Stored(stored) if stored.is_allowed()),
                RouteKind::Own => {
                    matches!(&route, Route::Models(_) | Route::Model(..) | Route::Version | Route::Health)
                }
            };
            assert!(fits, "{method} {path} is {route:?} and no {kind:?}");
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
