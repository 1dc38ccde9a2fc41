//! What the workers of a phase, or of the probe before the load, are given to carry it out.

use super::target::TargetRun;
use crate::abort::AbortPolicy;
use crate::bodies::{self, Bodies};
use crate::forecast::ASSUMED;
use crate::job::Job;
use crate::plan::{Backoff, PhaseSpec};
use crate::probe_request;
use crate::prompts::Prompts;
use std::sync::Arc;
use tokrate_core::{Rng, Span};
use tokrate_net::Secrets;
use tokrate_sim::WORDS;
use tokrate_wire::{ItemForm, Shape};

/// A first answer under load that takes so many times as long as one before it is no longer to be expected.
const UNLIKELY_DELAY: f64 = 10.0;
/// Less than this is no time to answer a burst in (s).
const MIN_ANSWER_SECONDS: f64 = 2.0;

/// Requests in flight per client thread; well within one thread's capacity.
const REQUESTS_PER_WORKER: u32 = 1000;

impl TargetRun<'_> {
    pub(super) fn probe_job(&self) -> Job {
        let mut job = self.job(0, &probe_request::spec());
        let prompts = Prompts::new(&probe_request::prompt(), WORDS, &Rng::root(0), Rng::root(0));
        job.bodies = Arc::new(Bodies {
            options: probe_request::options(self.config),
            prompts,
            model: self.endpoint.model.clone(),
            dialect: self.endpoint.dialect,
            lengths: Rng::root(0),
            text: Rng::root(0),
            items: self.items(1),
        });
        job.id_prefix = "probe".to_owned();
        job.first_prompt = 0;
        job
    }

    pub(super) fn job(&self, number: usize, spec: &PhaseSpec) -> Job {
        let config = self.config;
        let root = Rng::root(config.seed);
        let shape = if config.request.stream { Shape::Stream } else { Shape::Whole };
        Job {
            spec: spec.clone(),
            bodies: Arc::new(Bodies::of(config, spec, self.endpoint.dialect, &self.endpoint.model)),
            client: self.endpoint.client.clone(),
            route: self.route.clone(),
            origin: self.endpoint.base.origin(),
            path: self.endpoint.base.path_with(&match (self.items(1), &config.request.audio) {
                (Some((form, _)), _) => form.path().to_owned(),
                (None, Some(audio)) => audio.path(&self.endpoint.model),
                (None, None) => self.endpoint.dialect.path(&self.endpoint.model, shape),
            }),
            headers: self.headers(),
            authorizer: self.endpoint.authorizer.clone(),
            secrets: Secrets::of(&self.endpoint.headers),
            id_prefix: number.to_string(),
            limits: config.limits,
            workers: config.workers.unwrap_or_else(|| workers_for(spec)).min(self.max_workers(spec)),
            arrivals: root.child("arrivals").nth(number as u64),
            first_prompt: self.next_prompt,
            cost_limit: self.cost_limit.clone(),
            progress: Arc::clone(&self.progress),
            answer_within: (!config.keep_going).then(|| self.answer_within()),
            abort: AbortPolicy::new(
                if spec.backoff == Backoff::Obey { config.limits.wait } else { Span::from_nanos(u64::MAX) },
                Arc::clone(&self.progress),
            )
            .with_key(self.endpoint.sent_key().map(str::to_owned))
            .open(!spec.load.is_closed())
            .keep_going(config.keep_going),
            clock: self.clock,
            stop: self.stop.clone(),
        }
    }
}

impl TargetRun<'_> {
    /// What is asked for instead of text, for so many texts. That the dialect has it was looked at when the run was resolved.
    fn items(&self, batch: u32) -> Option<(ItemForm, u32)> {
        bodies::items(self.config, self.endpoint.dialect, batch)
    }

    /// More threads than requests in flight would be idle, and each needs a connection.
    fn max_workers(&self, spec: &PhaseSpec) -> u32 {
        let connections = self.endpoint.client.http2.connections.map_or(u32::MAX, |connections| connections as u32);
        spec.load.max_in_flight().min(connections).max(1)
    }

    /// Headers of the endpoint and of the body.
    fn headers(&self) -> http::HeaderMap {
        let mut headers = self.endpoint.headers.clone();
        self.config.request.audio.iter().for_each(|audio| audio.set_headers(&mut headers));
        headers
    }

    /// How long an open loop goes on sending before anything is answered: several times what the probe's answer took.
    fn answer_within(&self) -> Span {
        let output = f64::from(self.config.output_tokens());
        let seen = self.probe_timing.unwrap_or(ASSUMED);
        let first = if self.config.request.stream { seen.ttft } else { seen.at_most(output) };
        Span::from_secs_f64((first * UNLIKELY_DELAY).max(MIN_ANSWER_SECONDS)).min(self.config.limits.idle)
    }
}

/// Client threads of a level, by its requests in flight.
fn workers_for(spec: &PhaseSpec) -> u32 {
    let wanted = match spec.load.rate() {
        None => spec.load.max_in_flight().div_ceil(REQUESTS_PER_WORKER),
        Some(rate) => (rate / f64::from(REQUESTS_PER_WORKER)).ceil() as u32,
    };
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    wanted.clamp(1, cores.saturating_sub(1).max(1))
}
