//! Pages that need no engine: health, model lists, version, metrics. Invariant: a page depends only on configuration and counters.

use super::{ErrorResponse, Routes, ServedProvider, with_type};
use crate::body::AnswerBody;
use crate::config::EmulatedEngine;
use crate::metrics::{MetricNames, ProviderMetrics, page};
use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response, StatusCode};
use serde_json::{Value, json};
use tokrate_core::Money;

/// Version reported in place of that of the emulated engine.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Prometheus' text format.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

impl Routes {
    pub(super) fn page(&self, head: &Parts) -> Result<Response<AnswerBody>, ErrorResponse> {
        let path = head.uri.path();
        if path == "/health" || path == "/v1/health" {
            return Ok(as_json(&json!({"status": "ok"})));
        }
        let page = match path {
            "/v1/models" | "/models" => Routes::openai_models as fn(&Routes) -> Value,
            "/v1beta/models" => Routes::gemini_models,
            "/api/tags" => Routes::ollama_models,
            "/version" => |_: &Routes| json!({"version": VERSION}),
            // Clients detect the engine by these two pages, so that only the emulated engine has them.
            "/api/version" if self.emulates(EmulatedEngine::Ollama) => |_: &Routes| json!({"version": VERSION}),
            "/props" if self.emulates(EmulatedEngine::LlamaCpp) => Routes::props,
            "/metrics" => return self.metrics(),
            "/gpu-metrics" => return self.gpu_metrics(),
            path => {
                let message = format!(
                    "there is no {path}; try POST /v1/chat/completions or another dialect's path, GET /v1/models or \
                     GET /metrics"
                );
                return Err(ErrorResponse(StatusCode::NOT_FOUND, message));
            }
        };
        self.check_key(head)?;
        if head.method != Method::GET {
            return Err(ErrorResponse(
                StatusCode::METHOD_NOT_ALLOWED,
                format!("this method is not allowed for {path}"),
            ));
        }
        Ok(as_json(&page(self)))
    }

    fn emulates(&self, emulated_engine: EmulatedEngine) -> bool {
        self.served().iter().any(|served| served.provider.emulated_engine == emulated_engine)
    }

    /// Name of a model on this port.
    fn name_of(&self, served: &ServedProvider) -> String {
        if self.provider_index.is_some() { served.provider.model.clone() } else { served.full_name() }
    }

    fn openai_models(&self) -> Value {
        let model = |served: &ServedProvider| {
            let price = served.provider.persona.price;
            let mut model = json!({
                "id": self.name_of(served),
                "object": "model",
                "created": 0,
                "owned_by": served.provider.emulated_engine.owner(),
            });
            if price.input > Money::ZERO || price.output > Money::ZERO {
                // US dollars per token as text, the way OpenRouter lists them.
                let per_token = |million: Money| (million.as_usd() / 1e6).to_string();
                model["pricing"] = json!({"prompt": per_token(price.input), "completion": per_token(price.output)});
            }
            model
        };
        json!({"object": "list", "data": self.served().iter().map(model).collect::<Vec<_>>()})
    }

    fn gemini_models(&self) -> Value {
        let model = |served: &ServedProvider| {
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
        let model = |served: &ServedProvider| {
            let name = self.name_of(served);
            json!({"name": name, "model": name, "modified_at": "1970-01-01T00:00:00Z", "size": 0, "digest": ""})
        };
        json!({"models": self.served().iter().map(model).collect::<Vec<_>>()})
    }

    fn props(&self) -> Value {
        let posing = self.served().iter().find(|served| served.provider.emulated_engine == EmulatedEngine::LlamaCpp);
        let first = posing.map(|served| &served.provider);
        json!({
            "default_generation_settings": {"n_ctx": 0, "params": {}},
            "total_slots": first.map(|provider| provider.persona.law.slots),
            "model_path": first.map(|provider| provider.model.as_str()),
            "build_info": format!("tokrate-{VERSION}"),
        })
    }

    /// Graphics processors of every provider that has any.
    fn gpu_metrics(&self) -> Result<Response<AnswerBody>, ErrorResponse> {
        let pages: Vec<String> = self.served().iter().filter_map(|served| served.driver.gpu_page()).collect();
        if pages.is_empty() {
            let message = "there are no graphics processors here; `tokrate sim --power` gives it some".to_owned();
            return Err(ErrorResponse(StatusCode::NOT_FOUND, message));
        }
        Ok(with_type(METRICS_TYPE, AnswerBody::Plain(Some(Bytes::from(pages.concat())))))
    }

    fn metrics(&self) -> Result<Response<AnswerBody>, ErrorResponse> {
        let metered: Vec<_> = self
            .served()
            .iter()
            .filter(|served| served.provider.metrics != MetricNames::Off)
            .filter_map(|served| Some((served, self.name_of(served), served.driver.meter()?)))
            .collect();
        if metered.is_empty() {
            let message = "there are no metrics here; the persona's `metrics` are off".to_owned();
            return Err(ErrorResponse(StatusCode::NOT_FOUND, message));
        }
        let shown: Vec<ProviderMetrics<'_>> = metered
            .iter()
            .map(|(served, model, meter)| ProviderMetrics {
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
