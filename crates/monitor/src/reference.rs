//! The engine on loopback whose truth is known: what it shows of a probe is the client's own error.
//!
//! Invariant: its law has no jitter, so that every difference is the client's or the machine's.

use crate::MonitorError;
use crate::send::{Answered, send};
use bytes::Bytes;
use http::HeaderMap;
use tokrate_core::{ChatRequest, Message, Role, Span};
use tokrate_host::{Host, HostConfig, RunningHost};
use tokrate_net::{ClientConfig, Clock, Limits, Target};
use tokrate_prober::ReferenceResult;
use tokrate_sim::Law;
use tokrate_wire::{Dialect, encode_request};

/// What the engine does: enough tokens for a speed, in half a second.
const DELAY: Span = Span::from_millis(50);
const SPEED: f64 = 200.0;
const TOKENS: u32 = 96;
/// The prompt is so short that reading it takes no time.
const PROMPT: &str = "Count.";
const LIMITS: Limits = Limits { idle: Span::from_secs(5), total: Span::from_secs(10), max_body_bytes: 1 << 20 };

/// A running engine on loopback.
pub(crate) struct Reference {
    // Dropping it stops it.
    _host: RunningHost,
    target: Target,
    clock: Clock,
}

impl Reference {
    /// Starts the engine.
    pub fn start(clock: Clock) -> Result<Reference, MonitorError> {
        let law = Law {
            base_delay: DELAY,
            prefill_tokens_per_second: f64::INFINITY,
            stream_tokens_per_second: SPEED,
            tokens_per_chunk: 1,
            ttft_jitter: 0.0,
            gap_jitter: 0.0,
            contention: 0.0,
            coherency: 0.0,
            ..Law::default()
        };
        let host = Host::start(HostConfig { law, ..HostConfig::default() }).map_err(MonitorError::Reference)?;
        let target = Target::parse(&format!("http://{}/v1", host.address()))?;
        Ok(Reference { _host: host, target, clock })
    }

    /// Probes it once.
    pub async fn probe(&self, id: &str) -> ReferenceResult {
        let request = ChatRequest {
            model: "sim".to_owned(),
            messages: vec![Message::text(Role::User, PROMPT)],
            stream: true,
            include_usage: true,
            max_output_tokens: Some(TOKENS),
            ..ChatRequest::default()
        };
        let body = Bytes::from(encode_request(Dialect::OpenAiChat, &request));
        let client = ClientConfig { rx_timestamps: true, reuse: false, ..ClientConfig::default() };
        let to = Answered {
            target: &self.target,
            client: &client,
            headers: &HeaderMap::new(),
            authorizer: None,
            dialect: Dialect::OpenAiChat,
            model: "sim",
            limits: LIMITS,
            clock: self.clock,
            task: None,
        };
        let numbers = send(&to, id.to_owned(), body).await.numbers;
        let failure = numbers.failure.map(|failure| failure.message);
        match (numbers.ttft_ns, numbers.output_speed, failure) {
            (Some(ttft), Some(speed), None) => ReferenceResult {
                ttft_error_ns: i64::try_from(ttft).unwrap_or(i64::MAX).saturating_sub(DELAY.as_nanos() as i64),
                speed_error: speed / SPEED - 1.0,
                failure: None,
            },
            (.., failure) => {
                let failure = failure.or(numbers.output_speed_missing).unwrap_or_else(|| "it has no speed".to_owned());
                ReferenceResult { ttft_error_ns: 0, speed_error: 0.0, failure: Some(failure) }
            }
        }
    }
}
