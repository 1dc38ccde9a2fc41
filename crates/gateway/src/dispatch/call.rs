//! One call: performs the actions of its race, attempt by attempt, until the client has an answer or an error.
//!
//! Invariant: bytes reach the client from the winner alone, in order, once; dropping a call closes every connection of
//! it; every attempt that was started is settled exactly once.

use super::drain;
use super::eligible::{EligibleLanes, begin_at};
use crate::admission::reservation::KeyReservation;
use crate::dispatch::worker::Worker;
use crate::settle::account::{Account, AttemptLease, AttemptOutcome};
use crate::settle::row::role_in_log;
use crate::state::lane_health::is_lane_failure;
use crate::state::lock::locked;
use crate::upstream::attempt::{Attempt, AttemptStart};
use crate::upstream::body::{StreamFailure, UpstreamBody};
use crate::upstream::request::Destination;
use crate::upstream::session::SessionNumbers;
use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::{Instant, Sleep};
use tokrate_core::{FailureKind, Span, Tick};
use tokrate_meter::Failure;
use tokrate_net::server::{ConnectionTap, WriteSink};
use tokrate_net::{Limits, Redactor, Upgraded};
use tokrate_record::{AttemptEnd, AttemptRole};
use tokrate_route::{
    Action, AttemptFailure, BudgetLimit, CancelReason, Candidate, ExtraReservation, InFlightAttempt, LaneId, Race,
    Role, extra_usd,
};
use tokrate_wire::{Framing, error_event};

/// An answer up to this size fits into the socket's send buffer at once, so that it needs no wait for its writing
/// (bytes).
const SENT_AT_ONCE_BYTES: usize = 16 * 1024;
/// tokio's timers have millisecond resolution, so a timer that is late by less is not moved.
const TIMER_GRAIN: Span = Span::from_millis(1);

/// A call, from its admission to its end.
pub(crate) struct Call {
    pub account: Rc<Account>,
    worker: Rc<Worker>,
    pub(super) race: Race,
    pub(super) lanes: EligibleLanes,
    pub(super) attempts: Vec<Entry>,
    winner: Option<usize>,
    has_just_won: bool,
    /// Reserved for the attempt that is about to be started.
    granted: Granted,
    /// What has kept a lane from being asked together with the first.
    race_limit: Option<&'static str>,
    /// Whether it is the gateway's own, to see whether a lane is back; and its attempt, until it is sent.
    is_probe: bool,
    /// Whether an attempt was settled as abandoned: any other beside it was not needed.
    has_abandoned: bool,
    probe: Option<InFlightAttempt>,
    ending: Option<Step>,
    /// The gateway's own time, taken when an attempt wins: what comes later also depends on how the client reads.
    overhead: Option<Span>,
    /// The deadline, and the timer for it.
    timer: Option<(Tick, Pin<Box<Sleep>>)>,
    /// The client's connection.
    tap: Rc<ConnectionTap>,
}

/// What was reserved for a further attempt.
#[derive(Default)]
struct Granted {
    /// From the alias's budget for hedges and races.
    extra: Option<ExtraReservation>,
    /// From the limits of the client's key.
    key: Option<KeyReservation>,
}

/// An attempt and what it holds; `None` once it was settled.
pub(crate) struct Entry {
    pub attempt: Attempt,
    lease: Option<AttemptLease>,
    failed: Option<AttemptFailure>,
    /// Tokens of its prompt that the lane was expected to have in its cache, if anybody kept account of that.
    pub expected_cached: Option<u64>,
    /// Whether the router knows of its first token.
    has_reported_token: bool,
    /// Whether its answer was held against the rule of its alias.
    pub(super) is_checked: bool,
}

/// What the client's connection has to do next.
pub(crate) enum Step {
    /// Send the head: an attempt has won.
    Won,
    /// Send bytes of the answer.
    Bytes(Bytes),
    /// End the answer, which is complete.
    Finished,
    /// End the answer, which this attempt broke off; `reported` if the lane's own bytes already said so.
    Broken { attempt: usize, kind: FailureKind, reported: bool },
    /// Send an error: there is no answer.
    Failed { kind: FailureKind, attempt: Option<usize> },
}

impl Call {
    /// A call that starts now; boxed, because it moves from the handler into the response's body.
    pub fn new(
        worker: Rc<Worker>,
        account: Account,
        race: Race,
        lanes: EligibleLanes,
        tap: Rc<ConnectionTap>,
    ) -> Box<Call> {
        Box::new(Call {
            account: Rc::new(account),
            worker,
            race,
            lanes,
            attempts: Vec::with_capacity(1),
            winner: None,
            has_just_won: false,
            granted: Granted::default(),
            race_limit: None,
            is_probe: false,
            has_abandoned: false,
            probe: None,
            ending: None,
            overhead: None,
            timer: None,
            tap,
        })
    }

    /// Makes it a probe of its lane with an attempt that the router has begun.
    pub fn probe_with(&mut self, started: InFlightAttempt) {
        (self.is_probe, self.probe) = (true, Some(started));
    }

    /// Drives the call until its connection has something to do.
    pub fn poll_step(&mut self, context: &mut Context<'_>) -> Poll<Step> {
        loop {
            // Nothing begins for a client that has left; its connection drops the call next.
            if self.tap.has_left() {
                return Poll::Pending;
            }
            self.drive(context);
            let (now, mut has_started) = (self.now(), false);
            while let Some(action) = self.next_action(now) {
                has_started |= matches!(action, Action::Start { .. });
                self.perform(action, now);
            }
            if std::mem::take(&mut self.has_just_won) {
                self.overhead = self.own_time();
                return Poll::Ready(Step::Won);
            }
            if let Some(bytes) = self.winner.and_then(|winner| self.body(winner).borrow_mut().take_ready()) {
                return Poll::Ready(Step::Bytes(bytes));
            }
            if let Some(step) = self.ending.take() {
                return Poll::Ready(step);
            }
            if !has_started && self.poll_timer(now, context).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// The winner, once there is one.
    pub fn winning_entry(&self) -> Option<&Entry> {
        self.winner.map(|winner| &self.attempts[winner])
    }

    /// What has kept a lane from being asked together with the first, if anything has.
    pub fn race_limit(&self) -> Option<&'static str> {
        self.race_limit
    }

    /// The attempts that were started.
    pub fn attempts(&self) -> &[Entry] {
        &self.attempts
    }

    /// The gateway's own time: from the request's last byte to the first attempt, and from what the win waited for last until it came, or
    /// for as long as a first token was held back. `None` before the win.
    pub fn overhead(&self) -> Option<Span> {
        self.overhead
    }

    /// For how long a first token was held back, if one was.
    pub fn hold(&self) -> Option<Span> {
        self.race.hold()
    }

    /// Waiting is not the gateway's own time: neither for the winner's bytes, nor for the end of another attempt, nor until the race's
    /// timer was due.
    fn own_time(&self) -> Option<Span> {
        let now = self.now();
        let due_at = self.timer.as_ref().map(|(due_at, _)| *due_at).filter(|due_at| *due_at <= now);
        let last_byte_at = self.winning_entry()?.attempt.body.borrow().answer.last_byte_at();
        let ended_at = self.attempts.iter().filter_map(|entry| entry.attempt.ended_at()).max();
        let waited_until = last_byte_at.max(due_at).max(ended_at)?;
        let after = self.race.hold().unwrap_or(now - waited_until);
        Some((self.attempts[0].attempt.started_at - self.account.arrived_at) + after)
    }

    /// The whole answer was given to the client's connection.
    pub fn complete(&mut self) {
        if let Some(winner) = self.winner {
            self.settle(winner, AttemptEnd::Answered);
        }
    }

    /// A whole answer of `bytes` was given to the client's connection. One that may not fit into the send buffer counts
    /// as answered once all of it was written, and as abandoned if it never is.
    pub fn complete_when_written(mut self: Box<Call>, bytes: usize) {
        if bytes <= SENT_AT_ONCE_BYTES {
            return self.complete();
        }
        let tap = Rc::clone(&self.tap);
        tap.mark(Rc::new(PendingCompletion(Cell::new(Some(self)))), 0);
    }

    /// The event that ends a stream that broke off; `tail` is the end of what was sent before.
    pub fn error_event_bytes(&self, kind: FailureKind, tail: &[u8]) -> Bytes {
        let error = self.error_response(kind, self.winner);
        let request = &self.account.request;
        let failure = StreamFailure { dialect: request.dialect(), shape: request.shape, kind, message: &error.message };
        match self.winning_entry() {
            Some(entry) => Bytes::from(entry.attempt.body.borrow_mut().break_off(&failure, tail)),
            None => Bytes::from(error_event(failure.dialect, failure.shape, kind, failure.message, tail)),
        }
    }

    /// Takes the WebSocket that the winner has opened.
    pub fn take_connection(&mut self) -> Option<Upgraded> {
        self.attempts.get_mut(self.winner?)?.attempt.take_connection()
    }

    /// The client's connection.
    pub fn tap(&self) -> &Rc<ConnectionTap> {
        &self.tap
    }

    /// The session on the winner's WebSocket has ended.
    pub fn end_session(&mut self, end: AttemptEnd, numbers: SessionNumbers, failure: Option<Failure>) {
        let Some(winner) = self.winner else { return };
        let now = self.now();
        let entry = &mut self.attempts[winner];
        if let Some(Failure { kind, .. }) = failure.as_ref().filter(|_| end == AttemptEnd::Failed) {
            entry.failed = Some(AttemptFailure { kind: *kind, retry_after: None });
        }
        entry.attempt.close_session(now, numbers, failure);
        self.settle(winner, end);
    }

    /// Whether the client gets a lane's own binary messages, in any cut.
    pub fn passes_binary_messages(&self) -> bool {
        let request = &self.account.request;
        let is_binary = request.dialect().framing(request.shape) == Some(Framing::EventStream);
        is_binary && self.winning_entry().is_some_and(|entry| !entry.attempt.body.borrow().is_translated())
    }

    fn body(&self, attempt: usize) -> &Rc<RefCell<UpstreamBody>> {
        &self.attempts[attempt].attempt.body
    }

    /// The clock's time.
    pub fn now(&self) -> Tick {
        self.account.shared.clock.now()
    }

    /// Polls every attempt and reports events and endings to the race.
    fn drive(&mut self, context: &mut Context<'_>) {
        for number in 0..self.attempts.len() {
            let entry = &mut self.attempts[number];
            if !entry.attempt.is_running() {
                continue;
            }
            let mut has_ended = entry.attempt.poll(context);
            for event in entry.attempt.body.borrow_mut().take_race_events() {
                self.race.on_event(number, &event);
            }
            // It may win with the end of its answer, before its connection has ended.
            if has_ended || self.race.has_whole_answer(number) {
                has_ended |= entry.check(&self.account);
            }
            // A call that waits for its end does not win with a token, of which the router is to know all the same.
            let has_token = !entry.has_reported_token && entry.attempt.body.borrow().meter.first_text_at().is_some();
            if has_token && !self.account.request.is_stream() {
                self.report_first_token(number);
            }
            let entry = &mut self.attempts[number];
            if has_ended {
                let now = self.account.shared.clock.now();
                let end = if entry.attempt.failure().is_some() { AttemptEnd::Failed } else { AttemptEnd::Answered };
                // Its cost is known now, so that the rest of the reservation is free for the next attempt.
                entry.lease.iter_mut().for_each(|lease| self.account.settle_cost(&entry.attempt, lease, end));
                match entry.attempt.failure() {
                    None => self.race.ended(number, now),
                    Some(failed) => {
                        entry.failed = Some(failed);
                        let is_converted = entry.attempt.streamed && !self.account.request.is_stream();
                        if is_converted && entry.attempt.refused_to_stream() {
                            entry.attempt.lane.remember_unfit_streams(now, "it refuses to stream them");
                            self.race.retry_unstreamed(number);
                        }
                        self.race.failed(number, now, failed);
                    }
                }
            }
        }
    }

    fn next_action(&mut self, now: Tick) -> Option<Action> {
        let Call { race, account, granted, attempts, lanes, race_limit, is_probe, .. } = self;
        let mut allow = |candidate: &Candidate, role: Role| {
            // The router has begun the attempt of a probe already.
            if *is_probe {
                return true;
            }
            let is_tried = |lane: LaneId| attempts.iter().any(|entry| entry.attempt.lane.id == lane);
            if !lanes.allows(account, is_tried, candidate.lane, role) {
                return false;
            }
            // The first attempt was covered when the call was admitted.
            if role == Role::First {
                return true;
            }
            let Ok(key) = account.reserve_further(candidate.lane, role) else {
                if role == Role::Race {
                    race_limit.get_or_insert("key");
                }
                return false;
            };
            if role == Role::Failover {
                granted.key = key;
                return true;
            }
            let running = attempts.iter().filter(|entry| entry.lease.is_some());
            let running = running.map(|entry| account.expected_usd(entry.attempt.lane.id));
            let cost = extra_usd(account.expected_usd(candidate.lane), running);
            let mut budget = locked(&account.alias.budget);
            granted.extra = budget.reserve(now, cost);
            if granted.extra.is_none() && role == Role::Race && race_limit.is_none() {
                *race_limit = budget.limit_for(now, cost).map(BudgetLimit::name);
            }
            granted.key = key.filter(|_| granted.extra.is_some());
            granted.extra.is_some()
        };
        race.poll(now, &mut allow)
    }

    fn perform(&mut self, action: Action, now: Tick) {
        match action {
            Action::Start { candidate, lane, role, streamed, .. } => {
                let to = Destination { endpoint: self.lanes.endpoints[candidate], streamed };
                self.start(lane, to, role, now);
            }
            Action::Win { attempt } => {
                self.winner = Some(attempt);
                self.body(attempt).borrow_mut().is_forwarded = true;
                self.report_first_token(attempt);
                self.note_race_limit();
                // Reported after the losers are settled, so that the head can say what they cost.
                self.has_just_won = true;
            }
            Action::Cancel { attempt, reason } => {
                self.attempts[attempt].attempt.cancel(now);
                let end = match reason {
                    CancelReason::Lost => AttemptEnd::Lost,
                    CancelReason::Failed(kind) => {
                        self.attempts[attempt].failed = Some(AttemptFailure { kind, retry_after: None });
                        AttemptEnd::Failed
                    }
                };
                self.settle(attempt, end);
            }
            Action::Drain { attempt, until, max_bytes } => self.drain(attempt, until, max_bytes),
            Action::Finish { .. } => self.ending = Some(Step::Finished),
            Action::Break { attempt, kind, reported } => {
                self.attempts[attempt].attempt.cancel(now);
                self.attempts[attempt].failed.get_or_insert(AttemptFailure { kind, retry_after: None });
                self.settle(attempt, AttemptEnd::Failed);
                self.ending = Some(Step::Broken { attempt, kind, reported });
            }
            Action::Fail { kind, attempt } => self.ending = Some(Step::Failed { kind, attempt }),
        }
    }

    fn start(&mut self, lane: LaneId, to: Destination, role: Role, now: Tick) {
        let number = self.attempts.len();
        let account = &self.account;
        let lane = Arc::clone(account.plan.lane(lane));
        let Destination { endpoint, streamed } = to;
        let started = self.probe.take().unwrap_or_else(|| begin_at(account, lane.id, now));
        let attempt_start = AttemptStart {
            endpoint,
            streamed,
            role: if self.is_probe { AttemptRole::Probe } else { role_in_log(role) },
            at: now,
            unix_ms: account.shared.clock.wall_nanos() / 1_000_000,
            in_flight: started.in_flight,
            lane: Arc::clone(&lane),
            api: account.request.api(),
        };
        // The race bounds the time and watches tokens; bytes without tokens (keep-alive comments) do not count as
        // progress.
        let limits = Limits { idle: Span::MAX, total: Span::MAX, max_body_bytes: account.plan.limits.answer_bytes };
        let client = match account.request.opens_session() {
            true => self.worker.upgrading_client(&account.plan, &lane, endpoint),
            false => self.worker.client(&account.plan, &lane, endpoint),
        };
        let client = client.map_err(|error| (FailureKind::Connect, error.to_string()));
        let prepared = account.request.upstream_request(&lane, to, account.plan.limits.answer_bytes);
        let prepared = prepared.map_err(|message| (FailureKind::BadRequest, message));
        let batch = Rc::clone(&self.worker.batch);
        let (attempt, failed) = match (prepared, client) {
            (Ok((mut outgoing, reader)), Ok(client)) => {
                // So that the provider's log can be matched with ours.
                let id = [account.request.id.as_str(), "-", number.to_string().as_str()].concat();
                if let Ok(id) = HeaderValue::from_maybe_shared(Bytes::from(id)) {
                    outgoing.headers.insert(HeaderName::from_static("x-request-id"), id);
                }
                if let Some(context) = account.trace.as_ref().and_then(|trace| trace.context_for(number)) {
                    context.write_to(&mut outgoing.headers);
                }
                let secrets = lane.endpoints[endpoint].secrets.clone();
                let redactor = Redactor::new(secrets, account.request.body.clone());
                let mut body =
                    UpstreamBody::new(reader, batch).with_redactor(redactor).with_byte_budget(&account.shared.answers);
                if account.answer_check_of(&lane.config.name).is_some() {
                    body = body.with_answer_text();
                }
                body.answer.set_wall_seconds(account.shared.clock.wall_seconds());
                let outgoing = (outgoing, account.request.take_rest());
                (Attempt::start(attempt_start, client, outgoing, body, limits), None)
            }
            (Err((kind, message)), _) | (_, Err((kind, message))) => {
                let failed = AttemptFailure { kind, retry_after: None };
                self.race.failed(number, now, failed);
                (Attempt::unsendable(attempt_start, batch, kind, message), Some(failed))
            }
        };
        let Granted { extra, key } = std::mem::take(&mut self.granted);
        let key = key.or_else(|| self.account.take_first(lane.id));
        let expected_cached = started.expected_cached_tokens();
        let mut lease = AttemptLease { started, reserved: extra, key, cost: None };
        if failed.is_some() {
            self.account.settle_cost(&attempt, &mut lease, AttemptEnd::Failed);
        }
        self.attempts.push(Entry {
            attempt,
            lease: Some(lease),
            failed,
            expected_cached,
            has_reported_token: false,
            is_checked: false,
        });
    }

    /// Hands a loser over to a task that reads it to its end.
    fn drain(&mut self, number: usize, until: Tick, max_bytes: u64) {
        let Some(entry) = self.attempts.get_mut(number) else { return };
        let Some(lease) = entry.lease.take() else { return };
        let attempt = entry.attempt.detach();
        // The race no longer bounds its time.
        let until = until.min(attempt.started_at + self.account.plan.limits.total);
        self.worker.drains.reap();
        drain::spawn(
            &self.worker.drains,
            Rc::clone(&self.account),
            attempt,
            lease,
            drain::Bounds { number, until, max_bytes },
        );
    }

    /// Reports an attempt's first token to the router while the answer still runs.
    fn report_first_token(&mut self, number: usize) {
        let clock = self.account.shared.clock;
        let Entry { attempt, lease, has_reported_token, .. } = &mut self.attempts[number];
        // An answer in one piece has no first token of its own.
        if std::mem::replace(has_reported_token, true) || !attempt.has_streamed() {
            return;
        }
        let body = attempt.body.borrow();
        if let (Some(lease), Some(first), Some(sent)) = (lease, body.meter.first_text_at(), body.sent_at()) {
            let prompt_tokens = self.account.prompt_tokens;
            locked(&self.account.plan.router).first_token(&mut lease.started, clock.now(), first - sent, prompt_tokens);
        }
    }

    /// Says in the log that a race had fewer lanes than it was to have.
    fn note_race_limit(&self) {
        let Some(limit) = self.race_limit else { return };
        let alias = &self.account.alias;
        if alias.race_notice.is_due(self.now()) {
            let name = &alias.name;
            tracing::warn!(alias = %name, limit, "a race has fewer lanes than it was to have: a limit of its alias or key \
                 does not allow more");
        }
    }

    /// Releases what an attempt holds and writes its row.
    fn settle(&mut self, number: usize, end: AttemptEnd) {
        let won = self.winner == Some(number);
        let (overhead, hold) = if won { (self.overhead, self.race.hold()) } else { (None, None) };
        let entry = &mut self.attempts[number];
        let Some(lease) = entry.lease.take() else { return };
        // A settled attempt has ended: a body that was completed early may not have been polled to its end.
        entry.attempt.cancel(self.account.shared.clock.now());
        let failure = match end {
            AttemptEnd::Failed => entry.failed.map(|failed| failed.kind).or(entry.attempt.measured_failure()),
            // The client got everything; the log notes that a part could not be decoded.
            AttemptEnd::Answered if entry.attempt.has_unreadable_parts() => Some(FailureKind::NotJson),
            AttemptEnd::Abandoned if self.tap.has_stalled() => Some(FailureKind::ClientStalled),
            // A session on which nobody said anything.
            AttemptEnd::Abandoned => entry.attempt.measured_failure().filter(|kind| *kind == FailureKind::Stalled),
            _ => None,
        };
        let lane = &entry.attempt.lane;
        if end == AttemptEnd::Answered && entry.attempt.body.borrow().is_inexact() {
            lane.remember_unfit_streams(self.account.shared.clock.now(), "its streams hold what is not known here");
        }
        if let Some(kind) = failure.filter(|kind| end == AttemptEnd::Failed && is_lane_failure(*kind)) {
            lane.health.record_failure(entry.attempt.lane_failure(kind));
        }
        if end == AttemptEnd::Failed
            && let Some(service) = entry.attempt.missing_service()
        {
            lane.health.record_missing(service, self.account.shared.clock.now());
        }
        let retry_after = entry.failed.and_then(|failed| failed.retry_after);
        let is_abandoned = end == AttemptEnd::Abandoned;
        let is_beside = is_abandoned && std::mem::replace(&mut self.has_abandoned, true);
        let outcome = AttemptOutcome { number, end, won, failure, retry_after, overhead, hold, is_beside };
        self.account.settle(&self.attempts[number].attempt, lease, outcome);
    }

    #[expect(clippy::disallowed_methods, reason = "tokio's timers count from its own instants")]
    fn poll_timer(&mut self, now: Tick, context: &mut Context<'_>) -> Poll<()> {
        let Some(wake_at) = self.race.wake_at() else { return Poll::Pending };
        let until = || Instant::now() + (wake_at - now).as_duration();
        let (due, timer) = self.timer.get_or_insert_with(|| (wake_at, Box::pin(tokio::time::sleep_until(until()))));
        // A timer that fires early only costs a poll, and is reset when it does.
        if *due > wake_at + TIMER_GRAIN || timer.is_elapsed() {
            *due = wake_at;
            timer.as_mut().reset(until());
        }
        timer.as_mut().poll(context)
    }
}

/// A call whose answer is being written to the socket.
struct PendingCompletion(Cell<Option<Box<Call>>>);

impl WriteSink for PendingCompletion {
    fn written(&self, _: u64, _: Tick) {
        if let Some(mut call) = self.0.take() {
            call.complete();
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let now = self.now();
        for number in 0..self.attempts.len() {
            // What is left has failed, or its client disconnected.
            let Entry { attempt, failed, .. } = &mut self.attempts[number];
            // An attempt that ended without text, after which another lane was tried, counts as failed.
            let was_replaced = !attempt.is_running() && self.winner != Some(number);
            // Who closes the connection on the end of the answer has got all of it, read or not what the lane's connection ends with.
            // A client that took nothing for too long has not, nor one that a whole answer was still being written to.
            let may_have_all = self.account.request.is_stream() && !self.tap.has_stalled();
            let has_answered = self.winner == Some(number)
                && may_have_all
                && self.race.has_whole_answer(number)
                && attempt.body.borrow().is_forwarded_whole();
            let end = match () {
                () if failed.is_some() || was_replaced => AttemptEnd::Failed,
                () if has_answered => AttemptEnd::Answered,
                () => AttemptEnd::Abandoned,
            };
            attempt.cancel(now);
            self.settle(number, end);
        }
        if let Some(reserved) = self.granted.extra.take() {
            locked(&self.account.alias.budget).release(reserved);
        }
        if let Some(trace) = &self.account.trace {
            trace.end(now, self.account.request.is_stream(), self.race.hold());
        }
    }
}
