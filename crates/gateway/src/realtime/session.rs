//! A session on a WebSocket: a client's connection and a lane's, from the 101 to the end.
//!
//! Invariant: the session is settled once, however it ends; when one side closes the other is closed at once, and no later than what it was
//! still owed has been passed on.

use super::meter::{Charge, Language, SessionMeter};
use super::reason::Reason;
use super::relay::{Direction, End, Observer};
use super::setup::{Beginning, Models, read_setup};
use crate::api::Api;
use crate::config::LaneConfig;
use crate::dispatch::call::Call;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Sleep;
use tokrate_core::{FailureKind, Span, Tick};
use tokrate_meter::Failure;
use tokrate_net::{Secrets, Upgraded, random_bytes};
use tokrate_record::AttemptEnd;
use tokrate_route::LimitKind;
use tokrate_wire::websocket::close_frame;

/// Time for the rest of a closing handshake, and for a client to read the end before its connection is reset.
const CLOSING: Duration = Duration::from_secs(2);

/// Ours, in a close frame: the policy of a key forbids more (RFC 6455, section 7.4.1), and nothing was said for too long.
const POLICY: u16 = 1008;
const GOING_AWAY: u16 = 1001;

/// Hands the client's connection over to a session with that of the lane, once the head of the response was written.
pub(crate) fn hand_over(call: Box<Call>, lane: Upgraded) {
    let tap = std::rc::Rc::clone(call.tap());
    let session = Session::new(call, lane);
    tap.on_upgrade(move |client| session.run(client));
}

struct Session {
    call: Option<Box<Call>>,
    lane: Option<Upgraded>,
    up: Direction,
    down: Direction,
    meter: SessionMeter,
    /// What its lane must not tell the client.
    secrets: Secrets,
    silence: Span,
    /// Fires when nothing may have been said for too long, or a closing handshake takes too long.
    timer: Pin<Box<Sleep>>,
    closes_at: Option<Tick>,
}

impl Session {
    fn new(call: Box<Call>, lane: Upgraded) -> Session {
        let silence = call.account.plan.limits.silence;
        let asked = call.account.request.api.as_ref();
        let meter = SessionMeter::new(match asked.map(|asked| &asked.route) {
            Some(route) if route.api.has_setup() => Language::Live,
            Some(route) if route.model.is_some() => Language::Responses,
            // Without a model in its query nothing but transcripts can be asked for.
            _ => Language::Transcripts,
        });
        let secrets = call
            .winning_entry()
            .map_or_else(Secrets::default, |entry| entry.attempt.body.borrow().answer.redactor().secrets().clone());
        Session {
            call: Some(call),
            lane: Some(lane),
            up: Direction::default(),
            down: Direction::default(),
            meter,
            secrets,
            silence,
            timer: Box::pin(tokio::time::sleep(silence.as_duration())),
            closes_at: None,
        }
    }

    async fn run(mut self, mut client: Upgraded) {
        let Some(mut lane) = self.lane.take() else { return };
        let reason = match self.begin(&mut client).await {
            Ok(()) => poll_fn(|context| self.poll(context, &mut client, &mut lane)).await,
            Err(reason) => reason,
        };
        let closing = match &reason {
            Reason::Silence => Some((GOING_AWAY, "nothing was said for too long")),
            Reason::Limit(message) => Some((POLICY, message.as_str())),
            _ => None,
        };
        if let Some((code, message)) = closing {
            let told = self.tell(&mut client, &mut lane, code, message);
            let _ = tokio::time::timeout(CLOSING, told).await;
        }
        self.settle(&reason);
        drop(lane);
        if reason != Reason::ClientClosed {
            linger(client).await;
        }
    }

    /// Holds back a first message that names the model, until it is known to be the lane's.
    async fn begin(&mut self, client: &mut Upgraded) -> Result<(), Reason> {
        let Some(call) = &self.call else { return Err(Reason::Dropped) };
        let account = &call.account;
        let (true, Some(entry)) = (account.request.api().is_some_and(Api::has_setup), call.winning_entry()) else {
            return Ok(());
        };
        let lane = &entry.attempt.lane;
        // Where nobody named an alias before, the first message may name any that the key may use and that has the lane.
        let is_alias = |name: &str| {
            let allowed = account.key().is_none_or(|key| key.config.allows_alias(name));
            allowed && account.plan.aliases.get(name).is_some_and(|alias| alias.lanes.contains(&lane.id))
        };
        let LaneConfig { name, model, .. } = &lane.config;
        let models = Models { asked: &account.alias.name, lane: name, model, is_alias: &is_alias };
        let setup = tokio::time::timeout(self.silence.as_duration(), read_setup(client, &models)).await;
        let Beginning { bytes, read } = setup.map_err(|_| Reason::Silence)??;
        self.meter.on_client(&bytes);
        self.up = Direction::beginning_with(bytes, read);
        Ok(())
    }

    fn poll(&mut self, context: &mut Context<'_>, client: &mut Upgraded, lane: &mut Upgraded) -> Poll<Reason> {
        let Some(call) = &self.call else { return Poll::Ready(Reason::Dropped) };
        let mut limit = None;
        let mut on_charge = |charge, numbers: &dyn Fn() -> crate::upstream::session::SessionNumbers| {
            if let Some(reached) = charged(call, charge, numbers) {
                limit.get_or_insert(reached);
            }
        };
        let up = self.up.poll(context, client, lane, &mut FromClient(&mut self.meter));
        let down = self.down.poll(context, lane, client, &mut FromLane(&mut self.meter, &self.secrets, &mut on_charge));
        if let Some(message) = limit {
            return Poll::Ready(Reason::Limit(message));
        }
        match (up, down) {
            (_, Poll::Ready(End::Source)) => return Poll::Ready(Reason::LaneClosed),
            (_, Poll::Ready(End::Sink)) => return Poll::Ready(Reason::ClientClosed),
            // One that has said so waits for the answer to it; any other client has left.
            (Poll::Ready(End::Source), _) if self.meter.client_close.is_none() => {
                return Poll::Ready(Reason::ClientClosed);
            }
            _ => {}
        }
        let has_closed = self.meter.client_close.is_some() || self.meter.lane_close.is_some() || up.is_ready();
        self.poll_timer(context, client, lane, has_closed)
    }

    /// Bounds silence, and the time from the first close on.
    fn poll_timer(
        &mut self,
        context: &mut Context<'_>,
        client: &Upgraded,
        lane: &Upgraded,
        has_closed: bool,
    ) -> Poll<Reason> {
        let Some(call) = &self.call else { return Poll::Ready(Reason::Dropped) };
        let now = call.now();
        if has_closed && self.closes_at.is_none() {
            self.closes_at = Some(now + Span::from_nanos(CLOSING.as_nanos() as u64));
        }
        loop {
            let heard_at = client.read_at().max(lane.read_at());
            let due_at = self.closes_at.unwrap_or(heard_at + self.silence);
            if now >= due_at {
                return Poll::Ready(if self.closes_at.is_some() { Reason::BothClosed } else { Reason::Silence });
            }
            #[expect(clippy::disallowed_methods, reason = "tokio's timers count from its own instants")]
            let until = tokio::time::Instant::now() + (due_at - now).max(Span::from_millis(1)).as_duration();
            // Moved when it fires, and when a closing begins: reads come too often for more.
            if self.timer.is_elapsed() || (self.closes_at.is_some() && self.timer.deadline() > until) {
                self.timer.as_mut().reset(until);
            }
            if self.timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Tells both sides that the session ends, where a frame can stand.
    async fn tell(&mut self, client: &mut Upgraded, lane: &mut Upgraded, code: u16, message: &str) {
        if self.down.is_empty() && self.meter.is_client_at_boundary() {
            let _ = client.write_all(&close_frame(code, message, None)).await;
        }
        if self.up.is_empty() && self.meter.is_lane_at_boundary() {
            let mask = random_bytes().unwrap_or_default();
            let _ = lane.write_all(&close_frame(code, "", Some(mask))).await;
            let _ = lane.shutdown().await;
        }
        let _ = client.shutdown().await;
    }

    fn settle(&mut self, reason: &Reason) {
        let Some(mut call) = self.call.take() else { return };
        let mut numbers = self.meter.numbers();
        (numbers.bytes_from_client, numbers.bytes_to_client) = (self.up.bytes(), self.down.bytes());
        let (end, failure) = self.outcome(reason);
        let failure = failure.map(|(kind, message)| Failure { kind, message: message.to_owned(), retry_after: None });
        call.end_session(end, numbers, failure);
    }

    /// How it ended for the log: a lane that closes without a word has broken off, a client that does has left.
    fn outcome(&self, reason: &Reason) -> (AttemptEnd, Option<(FailureKind, &'static str)>) {
        let failed = |kind, message| (AttemptEnd::Failed, Some((kind, message)));
        match (reason, self.meter.lane_close) {
            (Reason::Silence, _) => {
                (AttemptEnd::Abandoned, Some((FailureKind::Stalled, "nothing was said for too long")))
            }
            (Reason::Limit(_) | Reason::Dropped, _) => (AttemptEnd::Abandoned, None),
            (_, Some(Some(1011 | 1014))) => failed(FailureKind::ServerError, "it closed the session with an error"),
            (_, Some(Some(1012 | 1013))) => {
                failed(FailureKind::Overloaded, "it closed the session to restart or for load")
            }
            (_, Some(_)) => (AttemptEnd::Answered, None),
            (_, None) if self.meter.client_close.is_some() => (AttemptEnd::Answered, None),
            (Reason::LaneClosed, None) => {
                failed(FailureKind::Truncated, "it closed the connection without a close frame")
            }
            (_, None) => (AttemptEnd::Abandoned, None),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.settle(&Reason::Dropped);
    }
}

/// Closes a connection so that its client can read all of it: closing with unread input would reset it.
async fn linger(mut client: Upgraded) {
    let rest = async {
        let mut piece = [0; 1024];
        let _ = client.shutdown().await;
        while client.read(&mut piece).await.is_ok_and(|count| count > 0) {}
    };
    let _ = tokio::time::timeout(CLOSING, rest).await;
}

/// Counts what a session uses; says which limit it has reached, if any.
fn charged(
    call: &Call,
    charge: Charge,
    numbers: &dyn Fn() -> crate::upstream::session::SessionNumbers,
) -> Option<String> {
    let account = &call.account;
    let key = account.key()?;
    let counted = match charge {
        Charge::Response(number) => account.count_response(number),
        Charge::Tokens(tokens) => account.count_session_tokens(tokens),
        Charge::Unreadable if account.is_session_metered() => {
            return Some("what the provider sends cannot be counted against the limits of this key".to_owned());
        }
        Charge::Unreadable => Ok(()),
    };
    let name = &key.config.name;
    if let Err(limit) = counted {
        let what = match limit {
            LimitKind::Requests => "requests per minute",
            LimitKind::Tokens => "tokens per minute",
            LimitKind::Streams => "concurrent calls",
            LimitKind::Budget => "dollars per month",
        };
        return Some(format!("key `{name}` has reached its limit of {what}"));
    }
    let lane = &call.winning_entry()?.attempt.lane;
    account
        .is_fee_used_up(lane, &numbers())
        .then(|| format!("key `{name}`: the session has cost what `fees` allows for one"))
}

/// Hears what the client sends.
struct FromClient<'m>(&'m mut SessionMeter);

impl Observer for FromClient<'_> {
    fn read(&mut self, _: &Upgraded, bytes: &mut [u8], known: usize) -> usize {
        self.0.on_client(&bytes[known..]);
        0
    }

    fn flushed(&mut self, to: &Upgraded) {
        self.0.on_sent(to.stamps().wrote_at());
    }
}

/// Hears what the lane sends, charges for it, and masks the lane's key in it: with as many bytes, so that frames stay what they are.
struct FromLane<'m, F>(&'m mut SessionMeter, &'m Secrets, &'m mut F);

impl<F: FnMut(Charge, &dyn Fn() -> crate::upstream::session::SessionNumbers)> Observer for FromLane<'_, F> {
    fn read(&mut self, from: &Upgraded, bytes: &mut [u8], known: usize) -> usize {
        let FromLane(meter, secrets, charge) = self;
        let mut charges = Vec::new();
        meter.on_lane(from.read_at(), &bytes[known..], |charge| charges.push(charge));
        for one in charges {
            charge(one, &|| meter.numbers());
        }
        let may_go_on = secrets.mask_in_place(bytes);
        // What has a whole frame before it waits for nothing.
        if meter.is_client_at_boundary() { 0 } else { may_go_on }
    }

    fn flushed(&mut self, _: &Upgraded) {}
}
