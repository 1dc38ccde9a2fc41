//! Everything the workers of a phase share.
//!
//! Invariant: constant during a phase, but for the flags that stop it.

use crate::Stop;
use crate::abort::AbortPolicy;
use crate::bodies::Bodies;
use crate::config::Limits;
use crate::cost_limit::CostLimit;
use crate::plan::PhaseSpec;
use crate::progress::Progress;
use http::HeaderMap;
use std::sync::Arc;
use tokrate_core::{Rng, Span};
use tokrate_net::{Authorizer, ClientConfig, Clock, Route, Secrets};

/// Everything that a phase needs. Shared by its workers.
pub(crate) struct Job {
    pub spec: PhaseSpec,
    pub bodies: Arc<Bodies>,
    pub client: ClientConfig,
    /// Where requests go, resolved once per run.
    pub route: Route,
    /// Scheme, host and port of the endpoint.
    pub origin: String,
    pub path: String,
    pub headers: HeaderMap,
    pub authorizer: Option<Authorizer>,
    pub secrets: Secrets,
    /// First part of the `x-request-id` of every request.
    pub id_prefix: String,
    pub limits: Limits,
    pub workers: u32,
    pub arrivals: Rng,
    /// Number of the first prompt: prompts stay unique across the phases of a run.
    pub first_prompt: u64,
    /// What may be spent, if there is a limit.
    pub cost_limit: Option<CostLimit>,
    pub progress: Arc<Progress>,
    /// How long an open loop goes on sending before anything is answered.
    pub answer_within: Option<Span>,
    pub abort: AbortPolicy,
    pub clock: Clock,
    pub stop: Stop,
}

impl Job {
    /// Limits of one exchange.
    pub fn net_limits(&self) -> tokrate_net::Limits {
        let Limits { idle, total, max_body_bytes, .. } = self.limits;
        tokrate_net::Limits { idle, total, max_body_bytes }
    }

    /// Whether nothing more is to be sent: the run was interrupted or given up.
    pub fn is_over(&self) -> bool {
        self.stop.is_set() || self.abort.is_over()
    }

    /// Completes when nothing more is to be sent.
    pub async fn over(&self) {
        tokio::select! {
            () = self.stop.wait() => {}
            () = self.abort.over() => {}
        }
    }
}
