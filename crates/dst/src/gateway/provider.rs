//! Simulated providers: they read requests, answer as their faults have it, and remember what they wrote.
//!
//! They decide nothing about the gateway's calls. Invariant: the ledger says of every request that reached a lane what was
//! written of its answer, whoever read it.

use super::fate::{Asked, Ending, Response};
use super::http1::{RequestHead, read_request};
use super::pipe::End;
use super::world::World;
use std::rc::Rc;
use tokio::io::AsyncWriteExt;
use tokrate_core::{Rng, Span, Tick};
use tokrate_wire::{Dialect, Routed, Shape, decode_request};

/// What a lane knows of one request that reached it.
#[derive(Clone, PartialEq, Debug)]
pub struct Served {
    /// The lane's place.
    pub lane: usize,
    /// The request's `x-request-id`: its call and its attempt.
    pub id: String,
    /// When it had come whole.
    pub at: Tick,
    /// The dialect and shape; `None` for embeddings.
    pub routed: Option<(Dialect, Shape)>,
    /// Whether its body could be understood.
    pub is_understood: bool,
    /// What was to be answered.
    pub response: Response,
    /// Bytes of the response that were written.
    pub wrote: usize,
    /// Whether all of it was written.
    pub is_whole: bool,
}

/// Serves one connection to a lane until it ends.
pub(super) async fn serve(world: Rc<World>, lane: usize, mut end: End) {
    let mut held = Vec::new();
    while let Some((head, body)) = read_request(&mut end, &mut held).await {
        let number = begin(&world, lane, &head, &body);
        let response = world.served.borrow()[number].response.clone();
        let ending = response.ending.unwrap_or(Ending::Kept);
        let wrote_all = write(&world, number, &mut end, &response, ending).await;
        world.note(format_args!(
            "lane {lane} request {number} wrote {} {ending:?}",
            world.served.borrow()[number].wrote
        ));
        match ending {
            _ if !wrote_all => return,
            Ending::Kept => {}
            Ending::Closed | Ending::Cut(_) => return,
            Ending::Reset(_) => return end.reset(),
            Ending::Stalled(_) => return end.left().await,
        }
    }
}

/// Puts a request into the ledger.
fn begin(world: &World, lane: usize, head: &RequestHead, body: &[u8]) -> usize {
    let mut served = world.served.borrow_mut();
    let number = served.len();
    let routed: Option<Routed> = Dialect::of_path(&head.path);
    let request = routed.as_ref().and_then(|routed| decode_request(routed, body).ok());
    let shape = routed.as_ref().map(|routed| {
        let asked = if request.as_ref().is_some_and(|request| request.stream) { Shape::Stream } else { Shape::Whole };
        (routed.dialect, routed.shape.unwrap_or(asked))
    });
    let nth = served.iter().filter(|other| other.lane == lane).count();
    let mut rng = Rng::root(world.scenario.seed).child("fates").nth(lane as u64).nth(nth as u64);
    let mark = format!("L{lane}R{number}");
    let output_most = request.as_ref().and_then(|request| request.max_output_tokens).map(u64::from);
    let asked = Asked { routed: shape, mark: &mark, input: 3 + body.len() as u64 / 5, output_most };
    let response = world.scenario.lanes[lane].draw(&mut rng, &asked);
    let id = head.header("x-request-id").unwrap_or_default().to_owned();
    world.note(format_args!("lane {lane} request {number} {id} {} of {} bytes", head.path, body.len()));
    let is_understood = routed.is_none() || request.is_some();
    let at = world.clock.now();
    served.push(Served { lane, id, at, routed: shape, is_understood, response, wrote: 0, is_whole: false });
    number
}

/// Writes a response up to its end or its break; false if the gateway left before.
async fn write(world: &World, number: usize, end: &mut End, response: &Response, ending: Ending) -> bool {
    let all: usize = response.pieces.iter().map(|(_, bytes)| bytes.len()).sum();
    let most = match ending {
        Ending::Kept | Ending::Closed => all,
        Ending::Cut(at) | Ending::Reset(at) | Ending::Stalled(at) => at,
    };
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
