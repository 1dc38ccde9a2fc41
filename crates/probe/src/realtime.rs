//! Turns of a realtime session: opens the WebSocket for the first one, says what the turn says, and measures the answer.
//!
//! Invariant: a turn is timed from when its last event, which asks for the answer, was handed to the socket; whatever ends it, the trace keeps
//! what was measured before. A session that failed is closed; one that refused a turn for the rate is open, and the turn goes on in it.

use crate::answer::Answer;
use bytes::Bytes;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue};
use std::cell::RefCell;
use std::pin::pin;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokrate_core::{EventBatch, FailureKind, Span, Tick};
use tokrate_meter::{Ending, RequestMeter, RequestTrace, Timing};
use tokrate_net::{
    Client, Clock, ConnectionUse, Departure, Exchange, Head, Limits, Outgoing, Redactor, Secrets, Sink, Upgraded,
    random_bytes,
};
use tokrate_wire::realtime::turn::TurnDecoder;
use tokrate_wire::websocket::{FrameKind, FrameReader, Message, close_frame, write_frame};

/// Largest message that is read: events hold some seconds of sound in base64 (bytes).
const MAX_MESSAGE_BYTES: usize = 16 << 20;
const READ_BYTES: usize = 32 * 1024;
/// What the server says once a session is open, and once it is as was asked for.
const CREATED: &[u8] = b"\"session.created\"";
const UPDATED: &[u8] = b"\"session.updated\"";

/// A session that is open.
#[derive(Debug)]
pub struct RealtimeSession {
    connection: Upgraded,
    reader: FrameReader,
    /// What the next turn says was said already: the server has refused to answer it for the rate.
    is_said: bool,
}

/// A turn that is to be measured.
pub struct RealtimeTurn<'a> {
    /// Who sends it.
    pub client: &'a Client,
    /// Path of the session, with its model.
    pub path: String,
    /// Headers of the endpoint; those of the handshake and `id` are added.
    pub headers: HeaderMap,
    /// The turn's `x-request-id`, which a session has of its first turn.
    pub id: String,
    /// The event that says what the session is to be.
    pub session: &'a str,
    /// The events of the turn.
    pub events: &'a [String],
    /// What is masked in everything that the server sends.
    pub secrets: Secrets,
    /// Time limits.
    pub limits: Limits,
    /// When it was wanted.
    pub due_at: Tick,
    /// The clock of all times.
    pub clock: Clock,
}

/// Why a turn ends early.
struct Broken(FailureKind, String, Option<Span>);

/// What is known of a turn so far.
#[derive(Default)]
struct Progress {
    meter: RequestMeter,
    sent_at: Option<Tick>,
    first_byte_at: Option<Tick>,
    opened: Option<Span>,
    connection: ConnectionUse,
    /// Whether the server has said how the turn ended.
    is_answered: bool,
}

impl RealtimeTurn<'_> {
    /// Takes the turn in `session`, which is opened if there is none, and closed if the turn fails. `batch` is an event arena: empty before and
    /// after. `on_events` gets what each message says.
    pub async fn measure(
        self,
        session: &mut Option<RealtimeSession>,
        batch: &RefCell<EventBatch>,
        cancelled: impl Future<Output = ()>,
        on_events: &dyn Fn(&EventBatch),
    ) -> RequestTrace {
        let mut progress = Progress::default();
        let limit = self.limits.total.as_duration();
        let ending = tokio::select! {
            biased;
            ended = tokio::time::timeout(limit, self.take(session, &mut progress, batch, on_events)) => match ended {
                Ok(Ok(())) => Ending::Complete,
                Ok(Err(Broken(kind, message, retry_after))) => Ending::Failed { kind, message, retry_after },
                Err(_) => failed(FailureKind::TimedOut, format!("the turn took longer than {}", self.limits.total)),
            },
            () = cancelled => failed(FailureKind::Cancelled, "the run ended before the answer did".to_owned()),
        };
        let timing = Timing {
            due_at: self.due_at,
            sent_at: progress.sent_at,
            first_byte_at: progress.first_byte_at,
            ended_at: self.clock.now(),
            connection_new: progress.connection.new,
            dns: progress.connection.dns,
            connect: progress.connection.connect,
            tls: progress.connection.tls,
            ..Timing::default()
        };
        let mut trace = progress.meter.finish(timing, ending);
        trace.opened = progress.opened;
        if let Some(failure) = &mut trace.failure {
            failure.message = self.secrets.redacted(std::mem::take(&mut failure.message));
            if !(progress.is_answered && failure.kind == FailureKind::RateLimited) {
                *session = None;
            }
        }
        if let Some(session) = session {
            session.is_said = trace.failure.is_some();
        }
        trace
    }

    async fn take(
        &self,
        session: &mut Option<RealtimeSession>,
        progress: &mut Progress,
        batch: &RefCell<EventBatch>,
        on_events: &dyn Fn(&EventBatch),
    ) -> Result<(), Broken> {
        if session.is_none() {
            *session = Some(self.open(progress).await?);
        }
        let Some(session) = session else { return Ok(()) };
        // The conversation has what was said; only the answer is asked for again.
        let said = if session.is_said { self.events.len().saturating_sub(1) } else { 0 };
        session.send(&self.events[said..]).await?;
        progress.sent_at = Some(self.clock.now());
        let mut decoder = TurnDecoder::new();
        while !decoder.is_over() {
            let (at, messages) = session.messages(self.limits.idle).await?;
            progress.first_byte_at.get_or_insert(at);
            let mut batch = batch.borrow_mut();
            for message in messages {
                decoder.message(at, &message, &mut batch);
            }
            progress.meter.on(&batch);
            on_events(&batch);
            batch.clear();
        }
        progress.is_answered = true;
        Ok(())
    }

    /// Opens a session, and waits until it is as was asked for.
    async fn open(&self, progress: &mut Progress) -> Result<RealtimeSession, Broken> {
        let begun = self.clock.now();
        let mut sink = OpeningSink {
            answer: Answer::new(Redactor::new(self.secrets.clone(), Bytes::new())),
            clock: self.clock,
            connection: None,
        };
        let exchange = self.client.exchange(&self.handshake(), self.limits, &mut sink).await;
        progress.connection = exchange.connection;
        let Some(connection) = sink.connection.take() else { return Err(sink.why_not(exchange)) };
        let mut session = RealtimeSession { connection, reader: FrameReader::new(MAX_MESSAGE_BYTES), is_said: false };
        let created_at = session.wait_for(CREATED, self.limits.idle).await?;
        progress.opened = Some(created_at - begun);
        session.send(&[self.session.to_owned()]).await?;
        session.wait_for(UPDATED, self.limits.idle).await?;
        Ok(session)
    }

    fn handshake(&self) -> Outgoing {
        let key = tokrate_wire::websocket::websocket_key(random_bytes().unwrap_or_default());
        let mut headers = self.headers.clone();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(HeaderName::from_static("sec-websocket-version"), HeaderValue::from_static("13"));
        for (name, value) in [("sec-websocket-key", key.as_str()), ("x-request-id", self.id.as_str())] {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        Outgoing { method: http::Method::GET, path: self.path.clone(), headers, body: Bytes::new() }
    }
}

fn failed(kind: FailureKind, message: String) -> Ending {
    Ending::Failed { kind, message, retry_after: None }
}

impl RealtimeSession {
    /// Says goodbye; that is not waited for.
    pub async fn close(mut self) {
        let frame = close_frame(1000, "", Some(random_bytes().unwrap_or_default()));
        let _ = self.connection.write_all(&frame).await;
        let _ = self.connection.flush().await;
    }

    async fn send(&mut self, events: &[String]) -> Result<(), Broken> {
        let mut frames = Vec::new();
        for event in events {
            write_frame(FrameKind::Text, event.as_bytes(), Some(random_bytes().unwrap_or_default()), &mut frames);
        }
        self.write(&frames).await
    }

    async fn write(&mut self, frames: &[u8]) -> Result<(), Broken> {
        let broken = |error: std::io::Error| Broken(FailureKind::Closed, format!("the session broke: {error}"), None);
        self.connection.write_all(frames).await.map_err(broken)?;
        self.connection.flush().await.map_err(broken)
    }

    /// The messages of the next read that completes some, and when it returned. Pings are no news: a server may send them for ever beside
    /// an answer that never comes.
    async fn messages(&mut self, idle: Span) -> Result<(Tick, Vec<Vec<u8>>), Broken> {
        let mut piece = [0; READ_BYTES];
        let mut overdue = pin!(tokio::time::sleep(idle.as_duration()));
        loop {
            let read = tokio::select! {
                biased;
                read = self.connection.read(&mut piece) => Some(read),
                () = overdue.as_mut() => None,
            };
            let count = match read {
                Some(Ok(0)) => {
                    return Err(Broken(FailureKind::Truncated, "the server closed the session".to_owned(), None));
                }
                Some(Ok(count)) => count,
                Some(Err(error)) => {
                    return Err(Broken(FailureKind::Truncated, format!("the session broke: {error}"), None));
                }
                None => return Err(Broken(FailureKind::Stalled, format!("no event for {idle}"), None)),
            };
            let at = self.connection.read_at();
            let (mut messages, mut pongs, mut why) = (Vec::new(), Vec::new(), None);
            self.reader.push(&piece[..count], |message| match message {
                Message::Text(text) => messages.push(text.to_vec()),
                Message::Ping(said) => {
                    write_frame(FrameKind::Pong, said, Some(random_bytes().unwrap_or_default()), &mut pongs);
                }
                Message::Close(code) => {
                    let code = code.map_or_else(String::new, |code| format!(" with code {code}"));
                    why = Some(Broken(FailureKind::Truncated, format!("the server ended the session{code}"), None));
                }
                Message::TooLarge => {
                    let message = format!("a message is larger than {MAX_MESSAGE_BYTES} bytes");
                    why = Some(Broken(FailureKind::TooLarge, message, None));
                }
                Message::Broken => {
                    let message = "these are no frames of a WebSocket".to_owned();
                    why = Some(Broken(FailureKind::Protocol, message, None));
                }
                Message::Binary(_) | Message::Pong => {}
            });
            if pongs.is_empty() {
                overdue.set(tokio::time::sleep(idle.as_duration()));
            } else {
                self.write(&pongs).await?;
            }
            // What came before the end counts.
            match why {
                Some(why) if messages.is_empty() => return Err(why),
                _ if messages.is_empty() => {}
                _ => return Ok((at, messages)),
            }
        }
    }

    /// Waits for an event of that type; an error that comes first is the failure.
    async fn wait_for(&mut self, kind: &[u8], idle: Span) -> Result<Tick, Broken> {
        loop {
            let (at, messages) = self.messages(idle).await?;
            for message in messages {
                let (mut decoder, mut batch) = (TurnDecoder::new(), EventBatch::new());
                decoder.message(at, &message, &mut batch);
                let failure = batch.events().iter().find_map(|event| match event.kind {
                    tokrate_core::EventKind::Failed { kind, message, .. } => Some((kind, message)),
                    _ => None,
                });
                if let Some((_, text)) = failure {
                    let message = format!("the session was refused: {}", batch.text(text));
                    return Err(Broken(FailureKind::BadRequest, message, None));
                }
                if message.windows(kind.len()).any(|part| part == kind) {
                    return Ok(at);
                }
            }
        }
    }
}

/// What comes of the handshake.
struct OpeningSink {
    answer: Answer,
    clock: Clock,
    connection: Option<Upgraded>,
}

impl OpeningSink {
    /// Why no session was opened.
    fn why_not(mut self, exchange: Exchange) -> Broken {
        self.answer.end();
        let status = self.answer.head().map(|head| head.status);
        let status = status.map_or_else(String::new, |status| format!("HTTP {}: ", status.as_u16()));
        match self.answer.ending(exchange.outcome) {
            Ending::Failed { kind, message, retry_after } => Broken(kind, format!("{status}{message}"), retry_after),
            Ending::Complete | Ending::Unsealed { .. } => {
                Broken(FailureKind::UnexpectedStatus, format!("{status}the server opened no WebSocket"), None)
            }
        }
    }
}

impl Sink for OpeningSink {
    fn begin(&mut self, departure: &Departure) {
        self.answer.begin(departure);
    }

    fn authorized(&mut self, secrets: &Secrets) {
        self.answer.authorized(secrets);
    }

    fn sent(&mut self, _: Tick) {}

    fn head(&mut self, _: Tick, head: &Head) {
        self.answer.set_head(head.clone());
        self.answer.set_wall_seconds(self.clock.wall_seconds());
    }

    fn body(&mut self, at: Tick, bytes: &[u8]) {
        self.answer.push(at, bytes);
    }

    fn upgraded(&mut self, connection: Upgraded) {
        self.connection = Some(connection);
    }
}

#[cfg(test)]
mod tests;
