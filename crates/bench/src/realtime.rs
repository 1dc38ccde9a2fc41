//! Turns of realtime sessions: which session a turn belongs to, and when a session is closed.
//!
//! Invariant: a request of a load without sessions has a session of its own; one with turns is open from its first turn to its last, or until
//! one fails. A turn that was refused for the rate goes on in its session.

use crate::audio::Realtime;
use crate::job::Job;
use crate::plan::{Backoff, Load, Start};
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::HashMap;
use tokrate_core::EventBatch;
use tokrate_meter::RequestTrace;
use tokrate_net::{Client, Limits};
use tokrate_probe::{RealtimeSession, RealtimeTurn};
use tokrate_wire::realtime::turn::SessionRequest;

/// Sessions that are open between two of their turns, by number.
#[derive(Default)]
pub(crate) struct Sessions(RefCell<HashMap<u64, RealtimeSession>>);

/// With what turns are taken.
pub(crate) struct TurnTaker<'a> {
    pub job: &'a Job,
    pub client: &'a Client,
    /// An event arena: empty before and after.
    pub batch: &'a RefCell<EventBatch>,
    /// Gets what each message says.
    pub on_events: &'a dyn Fn(&EventBatch),
}

impl Sessions {
    /// Takes a turn, whose events are the lines of `body`.
    pub(crate) async fn take_turn(
        &self,
        with: TurnTaker<'_>,
        realtime: &Realtime,
        start: &Start,
        body: &Bytes,
        cancelled: impl Future<Output = ()>,
    ) -> RequestTrace {
        let TurnTaker { job, client, batch, on_events } = with;
        let number = start.turn.map(|turn| turn.session);
        let mut session = number.and_then(|number| self.0.borrow_mut().remove(&number));
        let events: Vec<String> = String::from_utf8_lossy(body).lines().map(str::to_owned).collect();
        let Realtime { wants_sound, voice, .. } = realtime;
        let asked = SessionRequest { wants_sound: *wants_sound, voice, extra: &job.bodies.options.extra }.event();
        let turn = RealtimeTurn {
            client,
            path: job.path.clone(),
            headers: job.headers.clone(),
            id: format!("{}-{}", job.id_prefix, start.index),
            session: &asked,
            events: &events,
            secrets: job.secrets.clone(),
            limits: Limits {
                idle: job.limits.idle,
                total: job.limits.total,
                max_body_bytes: job.limits.max_body_bytes,
            },
            due_at: start.due_at,
            clock: job.clock,
        };
        let trace = turn.measure(&mut session, batch, cancelled, on_events).await;
        // A session of which a turn has failed is open only where the server refused it for the rate.
        let is_sent_again = trace.failure.is_some() && job.spec.backoff == Backoff::Obey;
        let has_more = match (&job.spec.load, start.turn) {
            (Load::Sessions { turns, .. }, Some(turn)) => {
                is_sent_again || (trace.failure.is_none() && turn.turn + 1 < *turns)
            }
            _ => false,
        };
        match (session, number) {
            (Some(session), Some(number)) if has_more => {
                self.0.borrow_mut().insert(number, session);
            }
            (Some(session), _) => session.close().await,
            (None, _) => {}
        }
        trace
    }
}
