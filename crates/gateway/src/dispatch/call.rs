//! One call: carries out what its race decides, attempt by attempt, until the client has an answer or an error.
//!
//! It refuses to decide who wins, what may start and what is billed. Invariant: bytes reach the client from the winner alone,
//! in order, once; dropping a call closes every connection of it; every attempt that was begun is settled exactly once.

use super::drain;
use crate::admission::reservation::KeyReservation;
use crate::dispatch::worker::Worker;
use crate::respond::error::{ErrorResponse, UnavailableLane};
use crate::respond::headers::CALL_HEADER;
use crate::settle::account::{Account, AttemptLease, AttemptOutcome};
use crate::settle::row::role_in_log;
use crate::state::lane_health::is_lane_failure;
use crate::state::lock::locked;
use crate::upstream::attempt::{Attempt, AttemptStart};
use crate::upstream::body::{StreamFailure, UpstreamBody};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, Response};
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::{Instant, Sleep};
use tokrate_core::{FailureKind, Span, Tick};
use tokrate_meter::AttemptEnd;
use tokrate_net::server::{ConnectionTap, WriteSink};
use tokrate_net::{Limits, Redactor};
use tokrate_route::{
    Action, Blame, BreakerState, Candidate, Failed, LaneId, Race, Reserved, Role, Why, blame, extra_usd,
};
use tokrate_wire::error_event;

/// Up to here a whole answer finds room in a socket that has sent what came before (bytes).
const SENT_AT_ONCE_BYTES: usize = 16 * 1024;
/// A timer that is later than it should be by no more than this is left as it is: tokio's are no finer.
const TIMER_GRAIN: Span = Span::from_millis(1);

/// The lanes that can carry a call.
pub(crate) struct EligibleLanes {
    /// The endpoint of each candidate.
    pub endpoints: Vec<usize>,
    /// The only one, if there is no other: what it refuses, nobody else can cure.
    pub alone: Option<LaneId>,
}

/// A call, from its admission to its end.
pub(crate) struct Call {
    pub account: Rc<Account>,
    worker: Rc<Worker>,
    race: Race,
    lanes: EligibleLanes,
    attempts: Vec<Entry>,
    winner: Option<usize>,
    has_just_won: bool,
    /// Granted for the attempt that is about to be begun.
    granted: Granted,
    ending: Option<Step>,
    /// Known before the client takes its time.
    overhead_at_end: Option<Span>,
    /// When it is due, and itself.
    timer: Option<(Tick, Pin<Box<Sleep>>)>,
    /// The client's connection.
    tap: Rc<ConnectionTap>,
}

/// What a further attempt was granted.
#[derive(Default)]
struct Granted {
    /// By the budget of its alias, if it is extra.
    extra: Option<Reserved>,
    /// By the limits of the client's key.
    key: Option<KeyReservation>,
}

/// An attempt with what has to be given back for it; `None` once it has been settled.
pub(crate) struct Entry {
    pub attempt: Attempt,
    lease: Option<AttemptLease>,
    failed: Option<Failed>,
}

/// What happens next to a call.
pub(crate) enum Step {
    /// An attempt has won; its head can be sent.
    Won,
    /// Bytes of the answer.
    Bytes(Bytes),
    /// The answer is whole.
    Finished,
    /// The answer broke off; `told` if the client has heard so in the lane's own bytes.
    Broken { kind: FailureKind, told: bool },
    /// There is no answer.
    Failed { kind: FailureKind, attempt: Option<usize> },
}

impl Call {
    /// A call that begins now; in a box, because it is handed on from one to the next.
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
            ending: None,
            overhead_at_end: None,
            timer: None,
            tap,
        })
    }

    /// Goes on until something happens that the client's connection has to know.
    pub fn poll_step(&mut self, context: &mut Context<'_>) -> Poll<Step> {
        loop {
            self.drive(context);
            let mut has_started = false;
            while let Some(action) = self.next_action() {
                has_started |= matches!(action, Action::Start { .. });
                self.perform(action);
            }
            if std::mem::take(&mut self.has_just_won) {
                return Poll::Ready(Step::Won);
            }
            if let Some(bytes) = self.winner.and_then(|winner| self.body(winner).borrow_mut().take_ready()) {
                return Poll::Ready(Step::Bytes(bytes));
            }
            if let Some(step) = self.ending.take() {
                return Poll::Ready(step);
            }
            if !has_started && self.poll_timer(context).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// The winner, once there is one.
    pub fn winner(&self) -> Option<usize> {
        self.winner
    }

    /// The winner's attempt, once there is one.
    pub fn winning_entry(&self) -> Option<&Entry> {
        self.winner.map(|winner| &self.attempts[winner])
    }

    /// Attempts that were begun.
    pub fn attempts(&self) -> &[Entry] {
        &self.attempts
    }

    /// Time that the gateway itself took so far: from the request's last byte to the first attempt, and from the winner's
    /// latest byte to now.
    pub fn overhead(&self) -> Option<Span> {
        let before = self.attempts.first()?.attempt.started_at - self.account.arrived_at;
        let behind = self.now() - self.winning_entry()?.attempt.body.borrow().answer.last_byte_at()?;
        Some(before + behind)
    }

    /// The whole answer was given to the client's connection.
    pub fn complete(&mut self) {
        if let Some(winner) = self.winner {
            self.settle(winner, AttemptEnd::Answered);
        }
    }

    /// A whole answer of `bytes` is given to the client's connection. If that may not have room for it, it is handed over once
    /// all of it was written, and abandoned if it never is.
    pub fn complete_when_written(mut self: Box<Call>, bytes: usize) {
        if bytes <= SENT_AT_ONCE_BYTES {
            return self.complete();
        }
        self.overhead_at_end = self.overhead();
        let tap = Rc::clone(&self.tap);
        tap.mark(Rc::new(PendingCompletion(Cell::new(Some(self)))), 0);
    }

    /// The event that tells the client that its answer broke off; `tail` is the end of what it got.
    pub fn error_event_bytes(&self, kind: FailureKind, tail: &[u8]) -> Bytes {
        let error = self.error_response(kind, self.winner);
        let request = &self.account.request;
        let broken = StreamFailure { dialect: request.dialect(), shape: request.shape, kind, message: &error.message };
        match self.winning_entry() {
            Some(entry) => Bytes::from(entry.attempt.body.borrow_mut().break_off(&broken, tail)),
            None => Bytes::from(error_event(broken.dialect, broken.shape, kind, broken.message, tail)),
        }
    }

    /// What the client is told when there is no answer, or no more of it.
    pub fn error_response(&self, kind: FailureKind, attempt: Option<usize>) -> ErrorResponse {
        let retry_after = self.race.retry_after();
        let error = match attempt.and_then(|attempt| self.attempts.get(attempt)) {
            Some(entry) => {
                let attempt = &entry.attempt;
                let error =
                    ErrorResponse::of_failure(kind, &attempt.lane.config.name, &attempt.error_message(), retry_after);
                match attempt.refused_status().filter(|_| self.is_final(kind)) {
                    Some(status) => ErrorResponse { status, ..error },
                    None => error,
                }
            }
            None if kind == FailureKind::TimedOut => ErrorResponse::out_of_time(&self.account.alias.name),
            None => {
                let (now, alias) = (self.now(), &self.account.alias);
                let router = locked(&self.account.plan.router);
                let lanes = alias.lanes.iter().filter_map(|id| {
                    let lane = self.account.plan.lane(*id);
                    let (name, trouble) = (lane.config.name.clone(), lane.health.last_failure());
                    Some(UnavailableLane { name, breaker: router.breaker(*id, now)?, trouble })
                });
                let lanes: Vec<UnavailableLane> = lanes.collect();
                ErrorResponse::without_lane(&alias.name, &lanes, now)
            }
        };
        let is_logged = !self.attempts.is_empty();
        ErrorResponse { call: is_logged.then(|| self.account.request.id.clone()), ..error }
    }

    /// Whether a failure of the settings is the answer, because no other lane could cure it.
    fn is_final(&self, kind: FailureKind) -> bool {
        self.lanes.alone.is_some() && blame(kind) == Blame::Key
    }

    /// What the only lane of a call refused before, while it is left alone for that: asking again would change nothing, and a
    /// client that is told 503 asks again.
    pub fn cached_refusal(&self) -> Option<Response<Bytes>> {
        let lane = self.account.plan.lane(self.lanes.alone?);
        let breaker = locked(&self.account.plan.router).breaker(lane.id, self.now())?;
        let trouble = lane.health.last_failure().filter(|trouble| blame(trouble.kind) == Blame::Key)?;
        if !matches!(breaker, BreakerState::Open { why: Blame::Key, .. }) {
            return None;
        }
        let (status, refusal) = (trouble.status?, trouble.refusal.as_ref()?);
        let dialect = self.account.request.dialect();
        if refusal.dialect != dialect {
            let error = ErrorResponse::of_failure(trouble.kind, &lane.config.name, &trouble.message, None);
            return Some(ErrorResponse { status, ..error }.into_response(dialect));
        }
        let mut response = Response::new(refusal.body.clone());
        *response.status_mut() = status;
        if let Some(content_type) = &refusal.content_type {
            response.headers_mut().insert(CONTENT_TYPE, content_type.clone());
        }
        Some(response)
    }

    /// A lane's refusal of the client's own request, in the client's dialect as the provider wrote it; of a call with one lane
    /// also that of its key or its model.
    pub fn upstream_refusal(&self, attempt: usize) -> Option<Response<Bytes>> {
        let attempt = &self.attempts[attempt].attempt;
        let kind = attempt.failure()?.kind;
        let is_own = blame(kind) == Blame::Client || kind == FailureKind::NotFound || self.is_final(kind);
        let is_same = attempt.dialect() == self.account.request.dialect();
        let body = attempt.body.borrow();
        let head = body.answer.head().filter(|head| head.status.is_client_error())?;
        if !is_own || !is_same || !attempt.has_whole_refusal() {
            return None;
        }
        let mut response = Response::new(attempt.refusal_body_redacted(&body));
        *response.status_mut() = head.status;
        *response.headers_mut() = head.headers.clone();
        if let Ok(id) = HeaderValue::from_str(&self.account.request.id) {
            response.headers_mut().insert(HeaderName::from_static(CALL_HEADER), id);
        }
        Some(response)
    }

    fn body(&self, attempt: usize) -> &Rc<RefCell<UpstreamBody>> {
        &self.attempts[attempt].attempt.body
    }

    fn now(&self) -> Tick {
        self.account.shared.clock.now()
    }

    /// Goes on with every attempt and tells the race what came of it.
    fn drive(&mut self, context: &mut Context<'_>) {
        for number in 0..self.attempts.len() {
            let entry = &mut self.attempts[number];
            if !entry.attempt.is_running() {
                continue;
            }
            let has_ended = entry.attempt.poll(context);
            for event in entry.attempt.body.borrow_mut().take_race_events() {
                self.race.on(number, &event);
            }
            if has_ended {
                let now = self.account.shared.clock.now();
                let end = if entry.attempt.failure().is_some() { AttemptEnd::Failed } else { AttemptEnd::Answered };
                // What it cost is known, and what was held for it can be used for the next.
                entry.lease.iter_mut().for_each(|lease| self.account.settle_cost(&entry.attempt, lease, end));
                match entry.attempt.failure() {
                    None => self.race.ended(number, now),
                    Some(failed) => {
                        entry.failed = Some(failed);
                        self.race.failed(number, now, failed);
                    }
                }
            }
        }
    }

    fn next_action(&mut self) -> Option<Action> {
        let now = self.now();
        let Call { race, account, granted, attempts, .. } = self;
        let mut allow = |candidate: &Candidate, role: Role| {
            if !locked(&account.plan.router).allows(candidate.lane, now) {
                return false;
            }
            // What the first one may use was held when the call was admitted.
            if role == Role::First {
                return true;
            }
            let Ok(key) = account.reserve_further(candidate.lane, role) else { return false };
            if role == Role::Failover {
                granted.key = key;
                return true;
            }
            let under_way = attempts.iter().filter(|entry| entry.lease.is_some());
            let under_way = under_way.map(|entry| account.expected_usd(entry.attempt.lane.id));
            let cost = extra_usd(account.expected_usd(candidate.lane), under_way);
            granted.extra = locked(&account.alias.budget).reserve(now, cost);
            granted.key = key.filter(|_| granted.extra.is_some());
            granted.extra.is_some()
        };
        race.poll(now, &mut allow)
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Start { candidate, lane, role, .. } => self.start(candidate, lane, role),
            Action::Win { attempt } => {
                self.winner = Some(attempt);
                self.body(attempt).borrow_mut().is_forwarded = true;
                self.report_first_token(attempt);
                // Told when those that lost have been settled, so that what they cost is known.
                self.has_just_won = true;
            }
            Action::Cancel { attempt, why } => {
                let now = self.now();
                self.attempts[attempt].attempt.give_up(now);
                let end = match why {
                    Why::Lost => AttemptEnd::Lost,
                    Why::Failed(kind) => {
                        self.attempts[attempt].failed = Some(Failed { kind, retry_after: None });
                        AttemptEnd::Failed
                    }
                };
                self.settle(attempt, end);
            }
            Action::Drain { attempt, until, bytes_most } => self.drain(attempt, until, bytes_most),
            Action::Finish { .. } => self.ending = Some(Step::Finished),
            Action::Break { attempt, kind, told } => {
                let now = self.now();
                self.attempts[attempt].attempt.give_up(now);
                self.attempts[attempt].failed.get_or_insert(Failed { kind, retry_after: None });
                self.settle(attempt, AttemptEnd::Failed);
                self.ending = Some(Step::Broken { kind, told });
            }
            Action::Fail { kind, attempt } => self.ending = Some(Step::Failed { kind, attempt }),
        }
    }

    fn start(&mut self, candidate: usize, lane: LaneId, role: Role) {
        let number = self.attempts.len();
        let now = self.now();
        let account = &self.account;
        let lane = Arc::clone(account.plan.lane(lane));
        let endpoint = self.lanes.endpoints[candidate];
        let started = locked(&account.plan.router).start(lane.id, now);
        let beginning = AttemptStart {
            endpoint,
            role: role_in_log(role),
            at: now,
            unix_ms: account.shared.clock.wall_nanos() / 1_000_000,
            in_flight: started.in_flight,
            lane: Arc::clone(&lane),
        };
        // The race bounds the time, and watches tokens: bytes without any (comments that keep a connection alive) are no news.
        let limits = Limits { idle: Span::MAX, total: Span::MAX, max_body_bytes: account.plan.limits.answer_bytes };
        let client = self.worker.client(&account.plan, &lane, endpoint);
        let client = client.map_err(|error| (FailureKind::Connect, error.to_string()));
        let prepared = account.request.upstream_request(&lane, endpoint, account.plan.limits.answer_bytes);
        let prepared = prepared.map_err(|said| (FailureKind::BadRequest, said));
        let batch = Rc::clone(&self.worker.batch);
        let (attempt, failed) = match (prepared, client) {
            (Ok((mut outgoing, reader)), Ok(client)) => {
                // The provider's log and ours then tell of the same attempt.
                if let Ok(id) = HeaderValue::from_str(&format!("{}-{number}", account.request.id)) {
                    outgoing.headers.insert(HeaderName::from_static("x-request-id"), id);
                }
                let secrets = lane.endpoints[endpoint].secrets.clone();
                let redactor = Redactor::new(secrets, account.request.body.clone());
                let body =
                    UpstreamBody::new(reader, batch).with_redactor(redactor).with_byte_budget(&account.shared.answers);
                (Attempt::begin(beginning, client, outgoing, body, limits), None)
            }
            (Err((kind, said)), _) | (_, Err((kind, said))) => {
                let failed = Failed { kind, retry_after: None };
                self.race.failed(number, now, failed);
                (Attempt::unsendable(beginning, batch, kind, said), Some(failed))
            }
        };
        let Granted { extra, key } = std::mem::take(&mut self.granted);
        let key = key.or_else(|| self.account.take_first(lane.id));
        let mut lease = AttemptLease { started, reserved: extra, key, cost: None };
        if failed.is_some() {
            self.account.settle_cost(&attempt, &mut lease, AttemptEnd::Failed);
        }
        self.attempts.push(Entry { attempt, lease: Some(lease), failed });
    }

    /// Leaves an attempt that lost to a task of its own.
    fn drain(&mut self, number: usize, until: Tick, bytes_most: u64) {
        let Some(entry) = self.attempts.get_mut(number) else { return };
        let Some(lease) = entry.lease.take() else { return };
        let attempt = entry.attempt.detach();
        // The race no longer bounds it.
        let until = until.min(attempt.started_at + self.account.plan.limits.total);
        self.worker.drains.tidy();
        drain::spawn(
            &self.worker.drains,
            Rc::clone(&self.account),
            attempt,
            lease,
            drain::Bounds { number, until, bytes_most },
        );
    }

    /// The router hears of a first token when it is news, not when the answer has ended.
    fn report_first_token(&mut self, number: usize) {
        if !self.account.request.is_stream() {
            // What came whole came at its end.
            return;
        }
        let now = self.now();
        let Entry { attempt, lease, .. } = &mut self.attempts[number];
        let body = attempt.body.borrow();
        if let (Some(lease), Some(first), Some(sent)) = (lease, body.meter.first_text_at(), body.sent_at()) {
            let prompt_tokens = self.account.prompt_tokens;
            locked(&self.account.plan.router).first_token(&mut lease.started, now, first - sent, prompt_tokens);
        }
    }

    /// Gives back what an attempt held, and writes its row.
    fn settle(&mut self, number: usize, end: AttemptEnd) {
        let won = self.winner == Some(number);
        let overhead = if won { self.overhead_at_end.or_else(|| self.overhead()) } else { None };
        let entry = &mut self.attempts[number];
        let Some(lease) = entry.lease.take() else { return };
        // Settled means ended: a body that was handed over whole may not have been asked for its end.
        entry.attempt.give_up(self.account.shared.clock.now());
        let failure = match end {
            AttemptEnd::Failed => entry.failed.map(|failed| failed.kind).or(entry.attempt.measured_failure()),
            // The client got all that came, and what it was is told in the log.
            AttemptEnd::Answered if entry.attempt.is_unreadable_in_part() => Some(FailureKind::NotJson),
            AttemptEnd::Abandoned => self.tap.has_stalled().then_some(FailureKind::ClientStalled),
            _ => None,
        };
        let lane = &entry.attempt.lane;
        if let Some(kind) = failure.filter(|kind| end == AttemptEnd::Failed && is_lane_failure(*kind)) {
            lane.health.record_failure(entry.attempt.lane_failure(kind));
        }
        if end == AttemptEnd::Failed && entry.attempt.lacks_embeddings() {
            lane.health.record_missing_embeddings(self.account.shared.clock.now());
        }
        let retry_after = entry.failed.and_then(|failed| failed.retry_after);
        self.account.settle(&entry.attempt, lease, AttemptOutcome { number, end, won, failure, retry_after, overhead });
    }

    fn poll_timer(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(wake_at) = self.race.wake_at() else { return Poll::Pending };
        let now = || self.account.shared.clock.now();
        let until = || Instant::now() + (wake_at - now()).as_duration();
        let (due, timer) = self.timer.get_or_insert_with(|| (wake_at, Box::pin(tokio::time::sleep_until(until()))));
        // One that is too early only costs a look; it is moved when it fires.
        if *due > wake_at + TIMER_GRAIN || timer.is_elapsed() {
            *due = wake_at;
            timer.as_mut().reset(until());
        }
        timer.as_mut().poll(context)
    }
}

/// A call whose answer is being written.
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
            // What is left has failed, or its client went away.
            let Entry { attempt, failed, .. } = &mut self.attempts[number];
            // An answer without text, after which another lane was asked, ended well and was of no use.
            let is_useless = !attempt.is_running() && self.winner != Some(number);
            let end = if failed.is_some() || is_useless { AttemptEnd::Failed } else { AttemptEnd::Abandoned };
            attempt.give_up(now);
            self.settle(number, end);
        }
        if let Some(reserved) = self.granted.extra.take() {
            locked(&self.account.alias.budget).give_back(reserved);
        }
    }
}
