//! Pages that need no engine: health, lists of models, what an engine says of itself, metrics.
//!
//! It refuses to know requests to models. Invariant: a page is built from the configuration and the counts alone.

use super::{Refused, Routes, Served, with_type};
use crate::body::AnswerBody;
use crate::config::Guise;
use crate::metrics::{MetricNames, Shown, page};
use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response, StatusCode};
use serde_json::{Value, json};

/// What the engines that this one poses as say when they are asked for their version.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Prometheus' text format.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

impl Routes {
    pub(super) fn page(&self, head: &Parts) -> Result<Response<AnswerBody>, Refused> {
        let path = head.uri.path();
        if path == "/health" || path == "/v1/health" {
            return Ok(as_json(&json!({"status": "ok"})));
        }
        let page = match path {
            "/v1/models" | "/models" => Routes::openai_models as fn(&Routes) -> Value,
            "/v1beta/models" => Routes::gemini_models,
            "/api/tags" => Routes::ollama_models,
            "/version" => |_: &Routes| json!({"version": VERSION}),
            // By these two pages clients tell which engine it is: they are there only where one poses as that engine.
            "/api/version" if self.poses_as(Guise::Ollama) => |_: &Routes| json!({"version": VERSION}),
            "/props" if self.poses_as(Guise::LlamaCpp) => Routes::props,
            "/metrics" => return self.metrics(),
            path => {
                let message = format!(
                    "there is no {path}; try POST /v1/chat/completions or another dialect's path, GET /v1/models or \
                     GET /metrics"
                );
                return Err(Refused(StatusCode::NOT_FOUND, message));
            }
        };
        if let Some(own) = self.own {
            self.house.providers[own].check_key(head)?;
        }
        if head.method != Method::GET {
            return Err(Refused(StatusCode::METHOD_NOT_ALLOWED, format!("{path} is not asked with this method")));
        }
        Ok(as_json(&page(self)))
    }

    fn poses_as(&self, guise: Guise) -> bool {
        self.served().iter().any(|served| served.provider.guise == guise)
    }

    /// What a model is called at this port.
    fn name_of(&self, served: &Served) -> String {
        if self.own.is_some() { served.provider.model.clone() } else { served.full_name() }
    }

    fn openai_models(&self) -> Value {
        let model = |served: &Served| {
            let price = served.provider.persona.price;
            let mut model = json!({
                "id": self.name_of(served),
                "object": "model",
                "created": 0,
                "owned_by": served.provider.guise.owner(),
            });
            if price.input > 0.0 || price.output > 0.0 {
                // US dollars per token as text, the way OpenRouter lists them.
                let per_token = |million: f64| (million / 1e6).to_string();
                model["pricing"] = json!({"prompt": per_token(price.input), "completion": per_token(price.output)});
            }
            model
        };
        json!({"object": "list", "data": self.served().iter().map(model).collect::<Vec<_>>()})
    }

    fn gemini_models(&self) -> Value {
        let model = |served: &Served| {
            let name = self.name_of(served);
            json!({
                "name": format!("models/{name}"),
                "displayName": name,
                "outputTokenLimit": served.provider.persona.law.max_output_tokens,
                "supportedGenerationMethods": ["generateContent"],
            })
        };
        json!({"models": self.served().iter().map(model).collect::<Vec<_>>()})
    }

    fn ollama_models(&self) -> Value {
        let model = |served: &Served| {
            let name = self.name_of(served);
            json!({"name": name, "model": name, "modified_at": "1970-01-01T00:00:00Z", "size": 0, "digest": ""})
        };
        json!({"models": self.served().iter().map(model).collect::<Vec<_>>()})
    }

    fn props(&self) -> Value {
        let posing = self.served().iter().find(|served| served.provider.guise == Guise::LlamaCpp);
        let first = posing.map(|served| &served.provider);
        json!({
            "default_generation_settings": {"n_ctx": 0, "params": {}},
            "total_slots": first.map(|provider| provider.persona.law.slots),
            "model_path": first.map(|provider| provider.model.as_str()),
            "build_info": format!("tokrate-{VERSION}"),
        })
    }

    fn metrics(&self) -> Result<Response<AnswerBody>, Refused> {
        let metered: Vec<_> = self
            .served()
            .iter()
            .filter(|served| served.provider.metrics != MetricNames::Off)
            .filter_map(|served| Some((served, self.name_of(served), served.driver.meter()?)))
            .collect();
        if metered.is_empty() {
            let message = "there are no metrics here; the persona's `metrics` are off".to_owned();
            return Err(Refused(StatusCode::NOT_FOUND, message));
        }
        let shown: Vec<Shown<'_>> = metered
            .iter()
            .map(|(served, model, meter)| Shown {
                names: served.provider.metrics,
                model,
                meter,
                stats: served.driver.stats(),
            })
            .collect();
        Ok(with_type(METRICS_TYPE, AnswerBody::Plain(Some(Bytes::from(page(&shown))))))
    }
}

fn as_json(value: &Value) -> Response<AnswerBody> {
    with_type("application/json", AnswerBody::Plain(Some(Bytes::from(value.to_string()))))
}
