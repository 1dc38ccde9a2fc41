//! Probes of simulated engines in virtual time: the engine's emissions go through the same meter as a real stream's events.
//!
//! Invariant: a probe is worked out whole when it is sent; its completion is due at the tick at which it ended.

use crate::send::Sent;
use std::collections::BTreeMap;
use tokrate_core::{Anomaly, EventBatch, EventKind, FailureKind, Span, Tick};
use tokrate_meter::{Ending, RequestMeter, RequestNumbers, Timing};
use tokrate_sim::{Emission, Emitted, Engine, Outcome, Persona, Refusal, RequestId, SimRequest};
use tokrate_tokens::Encoding;

/// An endpoint of virtual time.
pub(crate) struct VirtualEndpoint {
    engine: Engine,
    round_trip: Span,
}

/// What a probe asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub input_tokens: u32,
    pub output_tokens: u32,
    pub requests: u32,
    /// The longest time without a byte.
    pub idle: Span,
    /// What the prober's own network adds to every way.
    pub delay: Span,
}

/// A request under way.
struct Stream {
    meter: RequestMeter,
    first_byte_at: Option<Tick>,
    ended: Option<(Tick, Ending)>,
}

impl VirtualEndpoint {
    pub fn new(persona: Persona, round_trip: Span, seed: u64, started_at: Tick) -> Result<VirtualEndpoint, String> {
        let engine = Engine::with_persona(persona, seed, started_at).map_err(|error| error.to_string())?;
        Ok(VirtualEndpoint { engine, round_trip })
    }

    /// Sends the requests of a probe at `now` and works out what comes of them, and when all have ended.
    pub fn probe(&mut self, now: Tick, wall_ms: u64, asked: &Asked) -> (Vec<Sent>, Tick) {
        let half = Span::from_nanos(self.round_trip.as_nanos() / 2) + asked.delay;
        let sent_at = now + self.round_trip;
        let arrives_at = sent_at + half;
        let mut streams = Vec::new();
        let mut by_id = BTreeMap::new();
        for place in 0..asked.requests as usize {
            let request = SimRequest {
                input_tokens: asked.input_tokens,
                output_tokens: Some(asked.output_tokens),
                include_usage: true,
                ..SimRequest::default()
            };
            let mut stream = Stream { meter: RequestMeter::new(), first_byte_at: None, ended: None };
            match self.engine.submit(arrives_at, request) {
                Ok(id) => drop(by_id.insert(id, place)),
                Err(refusal) => {
                    stream.first_byte_at = Some(arrives_at + half);
                    stream.ended = Some((arrives_at + half, refused(&refusal)));
                }
            }
            streams.push(stream);
        }
        self.run(&mut streams, &by_id, half);
        let ended_at = streams.iter().filter_map(|stream| Some(stream.ended.as_ref()?.0)).max().unwrap_or(sent_at);
        let stalled_at = ended_at.max(arrives_at) + asked.idle;
        for id in by_id.keys() {
            self.engine.cancel(stalled_at, *id);
        }
        let sent = |stream: Stream| {
            let stalled = || {
                let message = format!("no byte for {}", asked.idle);
                (stalled_at, Ending::Failed { kind: FailureKind::Stalled, message, retry_after: None })
            };
            let (ended_at, ending) = stream.ended.unwrap_or_else(stalled);
            let timing = Timing {
                due_at: now,
                sent_at: Some(sent_at),
                first_byte_at: stream.first_byte_at,
                ended_at,
                connection_new: true,
                connect: self.round_trip,
                ..Timing::default()
            };
            let status = match &ending {
                Ending::Failed { kind: FailureKind::RateLimited, .. } => 429,
                Ending::Failed { kind: FailureKind::ServerError, .. } => 500,
                Ending::Failed { kind: FailureKind::Overloaded, .. } => 503,
                _ => 200,
            };
            let trace = stream.meter.finish(timing, ending);
            let numbers = RequestNumbers::measure(&trace, Encoding::O200kBase);
            Sent { numbers, status: Some(status), started_unix_ms: wall_ms, wrong: None }
        };
        let sent: Vec<Sent> = streams.into_iter().map(sent).collect();
        let end = sent.iter().map(|sent| Tick::from_nanos(sent.numbers.ended_at_ns)).max().unwrap_or(ended_at);
        (sent, end)
    }

    /// Lets the engine run until nothing more happens.
    fn run(&mut self, streams: &mut [Stream], by_id: &BTreeMap<RequestId, usize>, half: Span) {
        let (mut batch, mut text, mut due) = (EventBatch::new(), String::new(), Vec::new());
        while let Some(wake_at) = self.engine.wake_at() {
            due.clear();
            self.engine.poll(wake_at, &mut due);
            for emission in &due {
                if let Some(place) = by_id.get(&emission.request) {
                    receive(&mut streams[*place], emission, emission.due + half, &mut batch, &mut text);
                }
            }
        }
    }
}

fn receive(stream: &mut Stream, emission: &Emission, at: Tick, batch: &mut EventBatch, text: &mut String) {
    stream.first_byte_at.get_or_insert(at);
    match emission.what {
        Emitted::Role => batch.push(at, EventKind::Empty),
        Emitted::Text { channel, words } => {
            text.clear();
            words.push_to(text);
            batch.push_text(at, channel, text);
        }
        Emitted::Malformed => batch.push(at, EventKind::Anomaly(Anomaly::Unreadable)),
        Emitted::Finish(reason) => batch.push(at, EventKind::Finish(reason)),
        Emitted::Usage(usage) => batch.push(at, EventKind::Usage(usage)),
        Emitted::Timings(_) => {}
        Emitted::Done => batch.push(at, EventKind::Done),
        Emitted::Failed { message } => {
            let message = batch.store(message);
            batch.push(at, EventKind::Failed { kind: FailureKind::ErrorInStream, message, retry_after: None });
        }
        Emitted::End(Outcome::Complete) => stream.ended = Some((at, Ending::Complete)),
        Emitted::End(Outcome::Disconnected) => {
            let message = "the connection broke".to_owned();
            stream.ended = Some((at, Ending::Failed { kind: FailureKind::Truncated, message, retry_after: None }));
        }
    }
    stream.meter.on(batch);
    batch.clear();
}

fn refused(refusal: &Refusal) -> Ending {
    let kind = match refusal.status {
        429 => FailureKind::RateLimited,
        503 | 529 => FailureKind::Overloaded,
        _ => FailureKind::ServerError,
    };
    let message = format!("HTTP {}: {}", refusal.status, refusal.message);
    Ending::Failed { kind, message, retry_after: refusal.retry_after }
}
