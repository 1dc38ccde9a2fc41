//! Simulated clients: they send calls, read at their own pace, disconnect at will, and record what they received.
//!
//! Invariant: every call of a client has one outcome.

use super::history::{CallEnd, Outcome};
use super::http1::Reply;
use super::pipe::End;
use super::scenario::{Call, ReadPattern, SendPattern};
use super::world::World;
use std::cell::Cell;
use std::rc::Rc;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokrate_core::Span;

/// A call without an end after this time hangs: longer than any limit of the gateway.
const HANG_TIMEOUT: Span = Span::from_secs(3_600);

/// Runs all calls of a client in sequence, over one connection if possible.
pub(super) async fn run_client(world: Rc<World>, client: usize) {
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
            kept = run_call(&world, call, end, &mut outcome).await;
        }
        outcome.ended_at = world.clock.now();
        let Reply { status, bytes, .. } = outcome.reply;
        world.note(format_args!("client {client} call {nth} {:?} {status:?} {bytes} bytes", outcome.end));
        world.outcomes.borrow_mut().push(outcome);
    }
}

/// A kept connection, unless the other end has closed it.
async fn still_open(mut end: End) -> Option<End> {
    let closed = tokio::time::timeout(std::time::Duration::ZERO, end.read(&mut [0; 1])).await;
    closed.is_err().then_some(end)
}

/// Runs one call; returns the connection if it can be reused.
async fn run_call(world: &World, call: &Call, end: End, outcome: &mut Outcome) -> Option<End> {
    let (mut reading, mut writing) = tokio::io::split(end);
    let sent = Cell::new(None);
    let sending = async {
        if send(call, &mut writing).await {
            sent.set(Some(world.clock.now()));
        }
        match call.sends {
            SendPattern::Cut(_) => CallEnd::Disconnected,
            _ => std::future::pending().await,
        }
    };
    let reply = &mut outcome.reply;
    let talk = async {
        tokio::select! {
            biased;
            end = read(call, &mut reading, reply) => end,
            end = sending => end,
            () = disconnect(call) => CallEnd::Disconnected,
        }
    };
    outcome.end = tokio::time::timeout(HANG_TIMEOUT.as_duration(), talk).await.unwrap_or(CallEnd::Hung);
    outcome.sent_at = sent.get();
    let is_reusable =
        outcome.end == CallEnd::Whole && outcome.reply.keeps_connection() && sent.get().is_some() && call.is_sound;
    is_reusable.then(|| reading.unsplit(writing))
}

/// Sends a request; false if it was not sent completely.
async fn send(call: &Call, writing: &mut WriteHalf<End>) -> bool {
    let bytes = &call.request;
    match call.sends {
        SendPattern::AtOnce => writing.write_all(bytes).await.is_ok(),
        SendPattern::Slowly { bytes: chunk_size, every } => {
            for piece in bytes.chunks(chunk_size) {
                if writing.write_all(piece).await.is_err() {
                    return false;
                }
                tokio::time::sleep(every.as_duration()).await;
            }
            true
        }
        SendPattern::Cut(at) => {
            let _ = writing.write_all(&bytes[..at.min(bytes.len())]).await;
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            false
        }
    }
}

/// Reads the response in the pattern of the client.
async fn read(call: &Call, reading: &mut ReadHalf<End>, reply: &mut Reply) -> CallEnd {
    let mut buffer = [0; 4096];
    let mut has_paused = false;
    loop {
        let chunk_size = match call.reads {
            ReadPattern::Slowly { bytes, .. } => bytes,
            ReadPattern::Disconnects { after } => (after - reply.bytes).max(1),
            ReadPattern::Pauses { after, .. } if !has_paused => (after - reply.bytes).max(1),
            _ => buffer.len(),
        };
        let chunk_size = chunk_size.min(buffer.len());
        match reading.read(&mut buffer[..chunk_size]).await {
            Ok(0) | Err(_) => return CallEnd::Closed,
            Ok(count) => reply.feed(&buffer[..count]),
        }
        if reply.is_whole || reply.wrong.is_some() {
            return CallEnd::Whole;
        }
        match call.reads {
            ReadPattern::Slowly { every, .. } => tokio::time::sleep(every.as_duration()).await,
            ReadPattern::Disconnects { after } if reply.bytes >= after => return CallEnd::Disconnected,
            ReadPattern::Pauses { after, pause } if !has_paused && reply.bytes >= after => {
                has_paused = true;
                tokio::time::sleep(pause.as_duration()).await;
            }
            _ => {}
        }
    }
}

/// Completes when the client disconnects.
async fn disconnect(call: &Call) {
    match call.disconnects_after {
        Some(span) => tokio::time::sleep(span.as_duration()).await,
        None => std::future::pending().await,
    }
}
