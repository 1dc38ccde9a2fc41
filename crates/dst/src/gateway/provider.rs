//! Simulated providers: they read requests, respond according to their faults, and record what they wrote.
//!
//! Invariant: the ledger has every request that reached a lane, with what was written of its response.

use super::history::ServedRequest;
use super::http1::{RequestHead, read_request};
use super::pipe::End;
use super::response::{Ending, RequestInfo, Response};
use super::world::World;
use std::rc::Rc;
use tokio::io::AsyncWriteExt;
use tokrate_core::{Rng, Span};
use tokrate_wire::{Dialect, Routed, Shape, decode_request};

/// Serves one connection until it ends.
pub(super) async fn serve(world: Rc<World>, lane: usize, mut end: End) {
    let mut buffer = Vec::new();
    let mut is_kept = false;
    while let Some((head, body)) = read_request(&mut end, &mut buffer).await {
        let number = record_request(&world, lane, &head, &body, is_kept);
        is_kept = true;
        let response = world.served.borrow()[number].response.clone();
        let ending = response.ending.unwrap_or(Ending::StoredRows);
        let wrote_all = write(&world, number, &mut end, &response, ending).await;
        world.note(format_args!(
            "lane {lane} request {number} wrote {} {ending:?}",
            world.served.borrow()[number].wrote
        ));
        match ending {
            _ if !wrote_all => return,
            Ending::StoredRows => {}
            Ending::Closed | Ending::Cut(_) => return,
            Ending::Reset(_) => return end.reset(),
            Ending::Stalled(_) => return end.peer_closed().await,
        }
    }
}

/// Records a request and draws its response.
fn record_request(world: &World, lane: usize, head: &RequestHead, body: &[u8], is_kept: bool) -> usize {
    let mut served = world.served.borrow_mut();
    let number = served.len();
    let routed: Option<Routed> = Dialect::of_path(&head.path);
    let request = routed.as_ref().and_then(|routed| decode_request(routed, body).ok());
    let shape = routed.as_ref().map(|routed| {
        let requested_shape =
            if request.as_ref().is_some_and(|request| request.stream) { Shape::Stream } else { Shape::Whole };
        (routed.dialect, routed.shape.unwrap_or(requested_shape))
    });
    let nth = served.iter().filter(|other| other.lane == lane).count();
    let mut rng = Rng::root(world.scenario.seed).child("fates").nth(lane as u64).nth(nth as u64);
    let mark = format!("L{lane}R{number}");
    let max_output_tokens = request.as_ref().and_then(|request| request.max_output_tokens).map(u64::from);
    let requested = RequestInfo { routed: shape, mark: &mark, input: 3 + body.len() as u64 / 5, max_output_tokens };
    let faults = &world.scenario.lanes[lane];
    let mut response = faults.draw_response(&mut rng, &requested);
    if is_kept && rng.chance(faults.stale) {
        response.ending = Some(Ending::Cut(0));
    }
    let id = head.header("x-request-id").unwrap_or_default().to_owned();
    world.note(format_args!("lane {lane} request {number} {id} {} of {} bytes", head.path, body.len()));
    let is_understood = routed.is_none() || request.is_some();
    let at = world.clock.now();
    served.push(ServedRequest { lane, id, at, routed: shape, is_understood, response, wrote: 0, is_whole: false });
    number
}

/// Writes a response up to its end or fault; false if the gateway closed the connection first.
async fn write(world: &World, number: usize, end: &mut End, response: &Response, ending: Ending) -> bool {
    let all: usize = response.pieces.iter().map(|(_, bytes)| bytes.len()).sum();
    let most = match ending {
        Ending::StoredRows | Ending::Closed => all,
        Ending::Cut(at) | Ending::Reset(at) | Ending::Stalled(at) => at,
    };
    if most == 0 {
        return true;
    }
    let mut left = most;
    for (wait, bytes) in &response.pieces {
        if *wait > Span::ZERO {
            tokio::time::sleep(wait.as_duration()).await;
        }
        let mut rest = &bytes[..bytes.len().min(left)];
        left -= rest.len();
        while !rest.is_empty() {
            let Ok(count) = end.write(rest).await else { return false };
            rest = &rest[count..];
            let mut served = world.served.borrow_mut();
            served[number].wrote += count;
            served[number].is_whole = served[number].wrote == all;
        }
        if left == 0 && most < all {
            break;
        }
    }
    true
}
