//! Opens connections to lanes before a call needs them: a handshake with a provider far away takes longer than all that the gateway
//! itself does.
//!
//! A lane that was used lately keeps an idle connection, and a lane that a call may be hedged or raced to gets one while the first is
//! waited for. Invariant: nothing is sent on such a connection, at most one is being opened for an endpoint and thread, and a lane that
//! cannot be reached is found out by the calls that need it.

use super::worker::Worker;
use crate::state::plan::Plan;
use std::rc::Rc;
use std::sync::Arc;
use tokio::task::spawn_local;
use tokrate_core::Span;
use tokrate_net::Client;
use tokrate_route::Mode;

/// How often lanes that were used lately are looked after. Providers close an idle connection after a minute or more.
const LOOK_EVERY: Span = Span::from_secs(5);
/// How often it is looked whether other settings want that, where these do not.
const LOOK_WHILE_OFF: Span = Span::from_secs(60);
/// Most lanes that are warmed for one call: the first hedge is likely, a third one is not.
const MAX_AHEAD: usize = 2;

/// Keeps a connection to each lane that was used lately, until it is dropped.
pub(crate) async fn run(worker: Rc<Worker>) {
    loop {
        let keep_warm = worker.plan().keep_warm;
        if keep_warm == Span::ZERO {
            tokio::time::sleep(LOOK_WHILE_OFF.as_duration()).await;
            continue;
        }
        let now = worker.shared.clock.now();
        let is_recent = |client: &Rc<Client>| client.used_at().is_some_and(|at| now - at <= keep_warm);
        worker.clients().into_iter().filter(is_recent).for_each(warm);
        tokio::time::sleep(LOOK_EVERY.as_duration()).await;
    }
}

/// Opens connections to the lanes that a call may be sent to after its first: those of `ahead`, each with its endpoint, in order.
pub(crate) fn ahead_of_call(
    worker: &Worker,
    plan: &Arc<Plan>,
    mode: Mode,
    ahead: impl Iterator<Item = (tokrate_route::LaneId, usize)>,
) {
    if plan.keep_warm == Span::ZERO || mode == Mode::Off {
        return;
    }
    for (lane, endpoint) in ahead.take(MAX_AHEAD) {
        if let Ok(client) = worker.client(plan, plan.lane(lane), endpoint) {
            warm(client);
        }
    }
}

fn warm(client: Rc<Client>) {
    if !client.is_warm() {
        spawn_local(async move { client.warm().await });
    }
}
