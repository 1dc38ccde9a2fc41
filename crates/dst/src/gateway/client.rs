//! Simulated clients: they ask, read at their pace, leave when they like, and remember what they got.
//!
//! They do not judge it. Invariant: every call that a client was to make has one outcome.

use super::http1::Reply;
use super::pipe::End;
use super::scenario::{Call, Reads, Sends};
use super::world::World;
use std::cell::Cell;
use std::rc::Rc;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokrate_core::{Span, Tick};

/// A client that waits so long for an end is never answered: longer than any limit of the gateway.
const HANGS_AFTER: Span = Span::from_secs(3_600);

/// How a call ended for its client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallEnd {
    /// The answer came whole.
    Whole,
    /// The client left.
    Left,
    /// The gateway closed the connection.
    Closed,
    /// There was no connection.
    Refused,
    /// Nothing happened any more.
    Hung,
}

/// What became of a call.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The client, and which of its calls.
    pub client: usize,
    /// Its place among the client's calls.
    pub nth: usize,
    /// When the request was begun.
    pub began_at: Tick,
    /// When its last byte was taken by the connection.
    pub sent_at: Option<Tick>,
    /// When it ended.
    pub ended_at: Tick,
    /// What came.
    pub reply: Reply,
    /// How it ended.
    pub end: CallEnd,
}

/// Makes all calls of one client, one after the other, over one connection as long as that can be.
pub(super) async fn converse(world: Rc<World>, client: usize) {
    let script = world.scenario.clients[client].clone();
    tokio::time::sleep(script.at.as_duration()).await;
    let mut kept: Option<End> = None;
    for (nth, call) in script.calls.iter().enumerate() {
        tokio::time::sleep(call.pause.as_duration()).await;
        let began_at = world.clock.now();
        let mut outcome = Outcome {
            client,
            nth,
            began_at,
            sent_at: None,
            ended_at: began_at,
            reply: Reply::default(),
            end: CallEnd::Refused,
        };
        let open = match kept.take() {
            Some(end) => still_open(end).await,
            None => None,
        };
        if let Some(end) = open.or_else(|| world.connect(script.law)) {
            kept = ask(&world, call, end, &mut outcome).await;
        }
        outcome.ended_at = world.clock.now();
        let Reply { status, bytes, .. } = outcome.reply;
        world.note(format_args!("client {client} call {nth} {:?} {status:?} {bytes} bytes", outcome.end));
        world.outcomes.borrow_mut().push(outcome);
    }
}

/// A kept connection, unless its other end has closed it by now: then every client opens another.
async fn still_open(mut end: End) -> Option<End> {
    let closed = tokio::time::timeout(std::time::Duration::ZERO, end.read(&mut [0; 1])).await;
    closed.is_err().then_some(end)
}

/// Makes one call; hands the connection back if it can be used again.
async fn ask(world: &World, call: &Call, end: End, outcome: &mut Outcome) -> Option<End> {
    let (mut reading, mut writing) = tokio::io::split(end);
    let sent = Cell::new(None);
    let sending = async {
        if send(call, &mut writing).await {
            sent.set(Some(world.clock.now()));
        }
        match call.sends {
            Sends::Cut(_) => CallEnd::Left,
            _ => std::future::pending().await,
        }
    };
    let reply = &mut outcome.reply;
    let talk = async {
        tokio::select! {
            biased;
            end = read(call, &mut reading, reply) => end,
            end = sending => end,
            () = leave(call) => CallEnd::Left,
        }
    };
    outcome.end = tokio::time::timeout(HANGS_AFTER.as_duration(), talk).await.unwrap_or(CallEnd::Hung);
    outcome.sent_at = sent.get();
    let is_reusable =
        outcome.end == CallEnd::Whole && outcome.reply.keeps_connection() && sent.get().is_some() && call.is_sound;
    is_reusable.then(|| reading.unsplit(writing))
}

/// Sends a request; false if it did not go out whole.
async fn send(call: &Call, writing: &mut WriteHalf<End>) -> bool {
    let bytes = &call.request;
    match call.sends {
        Sends::AtOnce => writing.write_all(bytes).await.is_ok(),
        Sends::Slowly { bytes: most, every } => {
            for piece in bytes.chunks(most) {
                if writing.write_all(piece).await.is_err() {
                    return false;
                }
                tokio::time::sleep(every.as_duration()).await;
            }
            true
        }
        Sends::Cut(at) => {
            let _ = writing.write_all(&bytes[..at.min(bytes.len())]).await;
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            false
        }
    }
}

/// Reads an answer as the client does.
async fn read(call: &Call, reading: &mut ReadHalf<End>, reply: &mut Reply) -> CallEnd {
    let mut buffer = [0; 4096];
    let mut has_paused = false;
    loop {
        let most = match call.reads {
            Reads::Slowly { bytes, .. } => bytes,
            Reads::Leaves { after } => (after - reply.bytes).max(1),
            Reads::Pauses { after, .. } if !has_paused => (after - reply.bytes).max(1),
            _ => buffer.len(),
        };
        let most = most.min(buffer.len());
        match reading.read(&mut buffer[..most]).await {
            Ok(0) | Err(_) => return CallEnd::Closed,
            Ok(count) => reply.take(&buffer[..count]),
        }
        if reply.is_whole || reply.wrong.is_some() {
            return CallEnd::Whole;
        }
        match call.reads {
            Reads::Slowly { every, .. } => tokio::time::sleep(every.as_duration()).await,
            Reads::Leaves { after } if reply.bytes >= after => return CallEnd::Left,
            Reads::Pauses { after, pause } if !has_paused && reply.bytes >= after => {
                has_paused = true;
                tokio::time::sleep(pause.as_duration()).await;
            }
            _ => {}
        }
    }
}

/// Completes when the client has had enough, if it ever has.
async fn leave(call: &Call) {
    match call.leaves_after {
        Some(span) => tokio::time::sleep(span.as_duration()).await,
        None => std::future::pending().await,
    }
}
