//! Sends one prompt to several lanes at once and measures each to its end, for `tokrate race`.
//!
//! Invariant: all lanes get the same prompt at the same moment, and none is cancelled because another was quicker.

use crate::config::LaneConfig;
use crate::error::GatewayError;
use crate::state::plan::Lane;
use crate::upstream::body::{BodyReader, BodySink, UpstreamBody};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use tokrate_core::{ChatRequest, FailureKind, Message, Money, Role, Span, Tick};
use tokrate_meter::{Ending, StreamNumbers};
use tokrate_net::{Client, ClientConfig, Clock, ConnectionUse, Limits, Outgoing, Redactor};
use tokrate_probe::deliver;
use tokrate_wire::{Decoder, Shape, encode_request};

/// A comparison of lanes.
#[derive(Clone, Debug)]
pub struct LaneComparison {
    /// The lanes.
    pub lanes: Vec<LaneConfig>,
    /// The prompt.
    pub prompt: String,
    /// Upper limit of output tokens.
    pub output_tokens: u32,
    /// Time limit of the comparison.
    pub total: Span,
    /// How to connect to the lanes.
    pub client: ClientConfig,
}

/// A lane while it answers.
#[derive(Clone, Debug, Default)]
pub struct LaneProgress {
    /// Its text so far.
    pub text: String,
    /// Time since the request.
    pub elapsed: Span,
    /// Time to its first token.
    pub ttft: Option<Span>,
    /// Whether it has ended.
    pub ended: bool,
}

/// The result of a lane.
#[derive(Clone, PartialEq, Debug)]
pub struct LaneResult {
    /// Its measurements.
    pub numbers: StreamNumbers,
    /// Request to the end of the answer.
    pub total: Span,
    /// Cost (USD), if the lane has a price and the provider reports usage.
    pub cost_usd: Option<f64>,
}

impl LaneComparison {
    /// Runs it on the caller's thread; `show` gets the progress of all lanes once every `every`.
    ///
    /// # Errors
    ///
    /// If a lane has no address, or no runtime can be created.
    pub fn run(&self, every: Duration, mut show: impl FnMut(&[LaneProgress])) -> Result<Vec<LaneResult>, GatewayError> {
        let clock = Clock::monotonic();
        let lanes = Lane::resolve_all(&self.lanes, &self.client, clock)?;
        if let Some((lane, reason)) = lanes.iter().find_map(|lane| Some((lane, lane.unresolved()?))) {
            return Err(GatewayError::NoAddress { lane: lane.config.name.clone(), reason: reason.to_owned() });
        }
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(GatewayError::Thread)?;
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let started = clock.now();
            let batch = Rc::default();
            let mut lanes_running = Vec::new();
            for lane in &lanes {
                lanes_running.push(self.send(lane, clock, Rc::clone(&batch))?);
            }
            let mut ticks = tokio::time::interval(every);
            let mut unfinished: Vec<_> = lanes_running.iter().map(|lane| Rc::clone(&lane.completion)).collect();
            loop {
                ticks.tick().await;
                let progress: Vec<LaneProgress> =
                    lanes_running.iter().map(|lane| lane.progress(started, clock.now())).collect();
                show(&progress);
                unfinished.retain(|completion| completion.borrow().is_none());
                if unfinished.is_empty() {
                    break;
                }
            }
            Ok(lanes_running.into_iter().zip(&lanes).map(|(running, lane)| running.result(started, lane)).collect())
        })
    }

    fn send(
        &self,
        lane: &Lane,
        clock: Clock,
        batch: Rc<RefCell<tokrate_core::EventBatch>>,
    ) -> Result<RunningLane, GatewayError> {
        let endpoint = &lane.endpoints[0];
        let request = ChatRequest {
            model: lane.config.model.clone(),
            messages: vec![Message::text(Role::User, self.prompt.as_str())],
            stream: true,
            include_usage: !endpoint.config.no_stream_options,
            max_output_tokens: Some(self.output_tokens),
            legacy_max_tokens: endpoint.config.max_tokens_field,
            ..ChatRequest::default()
        };
        let dialect = endpoint.config.dialect;
        let mut headers = endpoint.config.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let path = endpoint.config.base.path_with(&dialect.path(&lane.config.model, Shape::Stream));
        let body = Bytes::from(encode_request(dialect, &request));
        let client = Client::new(self.client.clone(), endpoint.route.clone(), clock)?;
        let client = client.authorized_by(endpoint.config.authorizer.clone());
        let reader = BodyReader::PassThrough { decoder: Box::new(Decoder::new(dialect, Shape::Stream)), filter: None };
        let redactor = Redactor::new(endpoint.secrets.clone(), Bytes::from(self.prompt.clone()));
        let response = UpstreamBody::new(reader, batch).with_redactor(redactor).with_text();
        let response = Rc::new(RefCell::new(response));
        let limits = Limits { idle: SILENCE_TIMEOUT, total: self.total, max_body_bytes: MAX_ANSWER_BYTES };
        let completion: Rc<RefCell<Completion>> = Rc::default();
        let outgoing = Outgoing { method: Method::POST, path, headers, body };
        let (completed, receiving) = (Rc::clone(&completion), Rc::clone(&response));
        tokio::task::spawn_local(async move {
            let exchange = deliver(&client, &outgoing, limits, &mut BodySink(Rc::clone(&receiving))).await;
            receiving.borrow_mut().end(exchange.ended_at);
            let ending = receiving.borrow().ending_of(exchange.outcome);
            *completed.borrow_mut() = Some((exchange.ended_at, ending));
        });
        Ok(RunningLane { body: response, completion })
    }
}

/// A lane that sends nothing for so long is given up, so that the others' results do not wait much longer.
const SILENCE_TIMEOUT: Span = Span::from_secs(30);
/// Limit of one answer.
const MAX_ANSWER_BYTES: u64 = 16 << 20;

struct RunningLane {
    body: Rc<RefCell<UpstreamBody>>,
    completion: Rc<RefCell<Completion>>,
}

/// When and how an exchange ended, once it has.
type Completion = Option<(Tick, Ending)>;

impl RunningLane {
    fn progress(&self, started: Tick, now: Tick) -> LaneProgress {
        let body = self.body.borrow();
        let ended = self.completion.borrow().as_ref().map(|(at, _)| *at);
        LaneProgress {
            text: body.text().to_owned(),
            elapsed: ended.unwrap_or(now) - started,
            ttft: body.meter.first_text_at().and_then(|first| Some(first - body.sent_at()?)),
            ended: ended.is_some(),
        }
    }

    fn result(self, started: Tick, lane: &Lane) -> LaneResult {
        let outcome = self.completion.take();
        let cancelled = || Ending::Failed { kind: FailureKind::Cancelled, message: String::new(), retry_after: None };
        let (ended_at, ending) = outcome.unwrap_or_else(|| (started, cancelled()));
        let mut body = self.body.borrow_mut();
        let timing = body.answer.timing(started, ended_at, ConnectionUse::default());
        let numbers = body.measure(&timing, ending);
        drop(body);
        let usage = numbers.usage;
        let cost = lane.config.full_price().zip(usage.billed()).map(|(price, tokens)| price.cost(tokens));
        let cost_usd = cost.map(Money::as_usd);
        LaneResult { total: ended_at - started, cost_usd, numbers }
    }
}
