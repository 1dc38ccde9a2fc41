//! Several lanes asked the same at once, each to its end: what is shown to people who want to see who is quicker.
//!
//! It refuses to know terminals. Invariant: all lanes get the same request at the same moment, and nobody is given up because
//! another was quicker.

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
use tokrate_meter::{Ending, LiveNumbers};
use tokrate_net::{Client, ClientConfig, Clock, ConnectionUse, Limits, Outgoing, Redactor};
use tokrate_probe::deliver;
use tokrate_wire::{Decoder, Shape, encode_request};

/// What is asked.
#[derive(Clone, Debug)]
pub struct LaneComparison {
    /// The lanes.
    pub lanes: Vec<LaneConfig>,
    /// The prompt.
    pub prompt: String,
    /// Upper limit of output tokens.
    pub output_tokens: u32,
    /// Time for all of it.
    pub total: Span,
    /// How lanes are connected to.
    pub client: ClientConfig,
}

/// One lane while it answers.
#[derive(Clone, Debug, Default)]
pub struct LaneProgress {
    /// What it wrote so far.
    pub text: String,
    /// Time since it was asked.
    pub elapsed: Span,
    /// Time to its first token.
    pub ttft: Option<Span>,
    /// Whether it has ended.
    pub ended: bool,
}

/// How a lane did.
#[derive(Clone, PartialEq, Debug)]
pub struct LaneResult {
    /// What was measured.
    pub numbers: LiveNumbers,
    /// Asked to the end of the answer.
    pub total: Span,
    /// What it cost (USD), if there is a price and the provider says how many tokens it was.
    pub cost_usd: Option<f64>,
}

impl LaneComparison {
    /// Runs it on the caller's thread; `show` is told how everybody stands, every `every`.
    ///
    /// # Errors
    /// When a lane's name has no address, or there is no runtime.
    pub fn run(&self, every: Duration, mut show: impl FnMut(&[LaneProgress])) -> Result<Vec<LaneResult>, GatewayError> {
        let clock = Clock::monotonic();
        let lanes: Vec<Lane> = self
            .lanes
            .iter()
            .enumerate()
            .map(|(place, lane)| Lane::resolve(place, lane, &self.client, clock))
            .collect::<Result<_, _>>()?;
        if let Some((lane, reason)) = lanes.iter().find_map(|lane| Some((lane, lane.unresolved()?))) {
            return Err(GatewayError::NoAddress { lane: lane.config.name.clone(), reason: reason.to_owned() });
        }
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(GatewayError::Thread)?;
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let started = clock.now();
            let batch = Rc::default();
            let mut asked = Vec::new();
            for lane in &lanes {
                asked.push(self.ask(lane, clock, Rc::clone(&batch))?);
            }
            let mut ticks = tokio::time::interval(every);
            let mut running: Vec<_> = asked.iter().map(|asked| Rc::clone(&asked.seen)).collect();
            loop {
                ticks.tick().await;
                let runners: Vec<LaneProgress> = asked.iter().map(|asked| asked.runner(started, clock.now())).collect();
                show(&runners);
                running.retain(|seen| seen.borrow().is_none());
                if running.is_empty() {
                    break;
                }
            }
            Ok(asked.into_iter().zip(&lanes).map(|(asked, lane)| asked.finish(started, lane)).collect())
        })
    }

    fn ask(
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
        let reader = BodyReader::PassThrough { decoder: Box::new(Decoder::new(dialect, Shape::Stream)), filter: None };
        let redactor = Redactor::new(endpoint.secrets.clone(), Bytes::from(self.prompt.clone()));
        let inbox = UpstreamBody::new(reader, batch).with_redactor(redactor).with_text();
        let inbox = Rc::new(RefCell::new(inbox));
        let limits = Limits { idle: MAX_SILENCE, total: self.total, max_body_bytes: MAX_ANSWER_BYTES };
        let seen: Rc<RefCell<Completion>> = Rc::default();
        let outgoing = Outgoing { method: Method::POST, path, headers, body };
        let (told, watched) = (Rc::clone(&seen), Rc::clone(&inbox));
        tokio::task::spawn_local(async move {
            let exchange = deliver(&client, &outgoing, limits, &mut BodySink(Rc::clone(&watched))).await;
            watched.borrow_mut().end(exchange.ended_at);
            let ending = watched.borrow().ending_of(exchange.outcome);
            *told.borrow_mut() = Some((exchange.ended_at, ending));
        });
        Ok(RunningLane { inbox, seen })
    }
}

/// A lane that says nothing for so long is out, so that the others' result is not waited for much longer than they took.
const MAX_SILENCE: Span = Span::from_secs(30);
/// Answers are no longer than that.
const MAX_ANSWER_BYTES: u64 = 16 << 20;

struct RunningLane {
    inbox: Rc<RefCell<UpstreamBody>>,
    seen: Rc<RefCell<Completion>>,
}

/// When and how an exchange ended, once it has.
type Completion = Option<(Tick, Ending)>;

impl RunningLane {
    fn runner(&self, started: Tick, now: Tick) -> LaneProgress {
        let inbox = self.inbox.borrow();
        let ended = self.seen.borrow().as_ref().map(|(at, _)| *at);
        LaneProgress {
            text: inbox.text().to_owned(),
            elapsed: ended.unwrap_or(now) - started,
            ttft: inbox.meter.first_text_at().and_then(|first| Some(first - inbox.sent_at()?)),
            ended: ended.is_some(),
        }
    }

    fn finish(self, started: Tick, lane: &Lane) -> LaneResult {
        let outcome = self.seen.take();
        let given_up = || Ending::Failed { kind: FailureKind::Cancelled, message: String::new(), retry_after: None };
        let (ended_at, ending) = outcome.unwrap_or_else(|| (started, given_up()));
        let mut inbox = self.inbox.borrow_mut();
        let timing = inbox.answer.timing(started, ended_at, ConnectionUse::default());
        let numbers = inbox.measure(&timing, ending);
        drop(inbox);
        let usage = numbers.usage;
        let cost = lane.config.token_price().zip(usage.billed()).map(|(price, tokens)| price.cost(tokens));
        let cost_usd = cost.map(Money::as_usd);
        LaneResult { total: ended_at - started, cost_usd, numbers }
    }
}
