//! The state machine of one call: which lanes are tried, when the next attempt starts, which one wins, and how the call
//! ends.
//!
//! Breakers and budgets are the caller's: it is asked before every start. Invariant: at most one attempt wins and nothing
//! starts after that; every attempt ends exactly once (it won, was cancelled or drained, or failed); a race that can no
//! longer be won says so at the next poll.

mod completion;
mod terms;

pub use terms::{
    Action, AttemptFailure, CancelReason, Candidate, Commit, LoserPolicy, Mode, RaceConfig, Role, WinRule,
};

use crate::breaker::{Blame, blame};
use std::collections::VecDeque;
use tokrate_core::{EventKind, FailureKind, FinishReason, Span, StreamEvent, Tick};

/// A refused start beside or instead of a slow attempt is tried again after this time at the earliest, so that one that has
/// just begun does not make the caller poll in a busy loop.
const MIN_RETRY_INTERVAL: Span = Span::from_millis(1);

/// How long the end of a response is waited for after the end mark of a whole answer, so that its connection can be kept.
const END_GRACE: Span = Span::from_secs(1);

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Running,
    /// The body ended well.
    Ended,
    Failed(AttemptFailure),
    /// Cancelled or drained.
    Abandoned,
}

#[derive(Clone, Debug)]
struct Attempt {
    candidate: usize,
    started: Tick,
    first_at: Option<Tick>,
    /// Bytes of text since its first token.
    bytes_after_first: u64,
    /// When the last event with content came.
    progress_at: Tick,
    finish: Option<FinishReason>,
    /// Whether the end marker of the answer was seen: a connection that breaks after it is no failure.
    done: bool,
    /// An error in its stream after it had won.
    reported: Option<FailureKind>,
    /// When it counts as slow enough for a hedge; `None` once it had one, or if it may never have one.
    hedge_at: Option<Tick>,
    /// When another lane is asked instead, if one can be; only with [`Commit::End`].
    replace_at: Option<Tick>,
    state: State,
}

impl Attempt {
    /// When a start that was refused is tried again: the longer it takes, the more another attempt is worth.
    fn retry_at(&self, now: Tick) -> Tick {
        now + Span::from_nanos((now.since(self.started).as_nanos() / 4).max(MIN_RETRY_INTERVAL.as_nanos()))
    }
}

/// The state machine of one call.
#[derive(Clone, Debug)]
pub struct Race {
    config: RaceConfig,
    candidates: Vec<Candidate>,
    /// Whether a candidate was started, by index.
    started: Vec<bool>,
    started_at: Tick,
    attempts: Vec<Attempt>,
    winner: Option<usize>,
    pending: VecDeque<Action>,
    over: bool,
    /// How many attempts should run at once: grows with each hedge.
    target_running: usize,
    /// When a candidate that would have spoilt the race may be asked after all.
    reserve_at: Option<Tick>,
    /// Whether a first token is held back; once there is a winner, for how long one was.
    is_holding: bool,
    hold: Option<Span>,
    polled_at: Tick,
}

impl Race {
    /// A race that begins now, with its candidates in order of preference. A lane may be listed twice, to be retried
    /// after a failure.
    pub fn new(config: RaceConfig, candidates: Vec<Candidate>, now: Tick) -> Race {
        let target_running = match config.mode {
            Mode::Race { lanes } => lanes.max(1),
            Mode::Off | Mode::Hedge => 1,
        };
        Race {
            started: vec![false; candidates.len()],
            config,
            candidates,
            started_at: now,
            attempts: Vec::new(),
            winner: None,
            pending: VecDeque::new(),
            over: false,
            target_running,
            reserve_at: None,
            is_holding: false,
            hold: None,
            polled_at: now,
        }
    }

    /// An event in the response of an attempt. An error in the stream ends an attempt that has not won.
    pub fn on_event(&mut self, attempt: usize, event: &StreamEvent) {
        let (at, won) = (event.at, self.winner == Some(attempt));
        let Some(run) = self.running_mut(attempt) else { return };
        match event.kind {
            EventKind::Empty => return,
            EventKind::Text { text, .. } if run.first_at.is_some() => run.bytes_after_first += text.len() as u64,
            EventKind::Text { .. } | EventKind::ToolCall { .. } | EventKind::Opaque => {
                run.first_at.get_or_insert(at);
            }
            EventKind::Finish(reason) => run.finish = Some(reason),
            EventKind::Done => run.done = true,
            EventKind::Failed { kind, .. } if won => run.reported = Some(kind),
            EventKind::Failed { kind, retry_after, .. } => {
                run.state = State::Failed(AttemptFailure { kind, retry_after });
                self.pending.push_back(Action::Cancel { attempt, reason: CancelReason::Failed(kind) });
                return;
            }
            _ => {}
        }
        run.progress_at = run.progress_at.max(at);
    }

    /// The response of an attempt ended without an error at `now`. Ignored if the attempt has ended already.
    pub fn ended(&mut self, attempt: usize, now: Tick) {
        if let Some(run) = self.running_mut(attempt) {
            run.progress_at = run.progress_at.max(now);
            run.state = match run.reported {
                Some(kind) => State::Failed(AttemptFailure { kind, retry_after: None }),
                None => State::Ended,
            };
        }
    }

    /// An attempt failed at `now`, as seen by the caller. Ignored if the attempt has ended already.
    pub fn failed(&mut self, attempt: usize, now: Tick, failed: AttemptFailure) {
        let is_whole = self.config.commit == Commit::End;
        if let Some(run) = self.running_mut(attempt) {
            run.progress_at = run.progress_at.max(now);
            // An end marker makes up for neither unreadable data nor, where the whole is waited for, for the lack of it; nor does it for an
            // answer that was rejected when it had ended.
            let is_incomplete = match failed.kind {
                FailureKind::NotJson | FailureKind::EditRefused => true,
                FailureKind::Empty | FailureKind::Untranslatable => is_whole,
                _ => false,
            };
            run.state = match run.reported {
                Some(kind) => State::Failed(AttemptFailure { kind, ..failed }),
                None if run.done && !is_incomplete => State::Ended,
                None => State::Failed(failed),
            };
        }
    }

    /// The lane refused the request of an attempt because it was to be streamed: it may be asked once more, for the
    /// answer in one piece, and that is no failure of the call. Ignored if the attempt has ended already.
    pub fn retry_unstreamed(&mut self, attempt: usize) {
        let Some(run) = self.running_mut(attempt) else { return };
        run.state = State::Abandoned;
        let candidate = run.candidate;
        self.candidates[candidate].streamed = false;
        self.started[candidate] = false;
        self.config.max_attempts += 1;
    }

    /// The next action at `now`; to be called until it returns `None`. `allow` is asked before every start; a candidate
    /// that it refuses is skipped, and asked about again for the next start. If it refuses all of them for a hedge, it
    /// is asked again when the slow attempt has run a quarter longer: the longer that takes, the more a hedge is worth.
    pub fn poll(&mut self, now: Tick, allow: &mut dyn FnMut(&Candidate, Role) -> bool) -> Option<Action> {
        self.polled_at = now;
        loop {
            if let Some(action) = self.pending.pop_front() {
                return Some(action);
            }
            if self.over {
                return None;
            }
            match self.winner {
                Some(winner) => self.poll_won(winner, now),
                None => self.poll_undecided(now, allow),
            }
            if self.pending.is_empty() {
                return None;
            }
        }
    }

    /// When [`Race::poll`] must be called next if no event comes first. Always later than a poll that returned `None`.
    pub fn wake_at(&self) -> Option<Tick> {
        if !self.pending.is_empty() {
            return Some(Tick::ZERO);
        }
        if self.over {
            return None;
        }
        let mut wake_at = self.started_at + self.config.total_limit;
        let standing = if self.winner.is_none() { self.standing(self.polled_at) } else { None };
        // Nothing is started while a win is held back.
        let undecided = self.winner.is_none() && standing.is_none();
        for (number, run) in self.attempts.iter().enumerate().filter(|(_, run)| run.state == State::Running) {
            wake_at = wake_at.min(self.deadline_of(run).0);
            if let Some(replace_at) = self.replace_at(run).filter(|_| undecided) {
                wake_at = wake_at.min(replace_at);
            }
            if let Some(hedge_at) = run.hedge_at.filter(|_| undecided && self.can_hedge(number)) {
                wake_at = wake_at.min(hedge_at);
            }
        }
        if let Some(reserve_at) = self.reserve_at.filter(|_| undecided) {
            wake_at = wake_at.min(reserve_at);
        }
        if let Some(standing) = standing {
            wake_at = wake_at.min(standing.held_until);
        }
        Some(wake_at)
    }

    /// The winner, once there is one.
    pub fn winner(&self) -> Option<usize> {
        self.winner
    }

    /// For how long a first token was held back for a better attempt; `None` before the win, and if none was.
    pub fn hold(&self) -> Option<Span> {
        self.hold
    }

    /// Whether an attempt's answer is complete, its end included, as far as its events say; what may follow is framing.
    pub fn has_whole_answer(&self, attempt: usize) -> bool {
        self.attempts.get(attempt).is_some_and(|run| run.state == State::Ended || run.done && run.reported.is_none())
    }

    /// Whether the last action was returned.
    pub fn is_over(&self) -> bool {
        self.over && self.pending.is_empty()
    }

    /// The attempts that are running, for a caller that aborts the whole call.
    pub fn running(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.attempts.len()).filter(|&attempt| self.attempts[attempt].state == State::Running)
    }

    /// How many attempts were started.
    pub fn attempts(&self) -> usize {
        self.attempts.len()
    }

    /// Index of the candidate of an attempt.
    pub fn candidate_of(&self, attempt: usize) -> Option<usize> {
        self.attempts.get(attempt).map(|run| run.candidate)
    }

    /// How an attempt failed, if it did.
    pub fn failure_of(&self, attempt: usize) -> Option<AttemptFailure> {
        match self.attempts.get(attempt)?.state {
            State::Failed(failed) => Some(failed),
            _ => None,
        }
    }

    /// The shortest wait that the provider of a failed attempt asked for.
    pub fn retry_after(&self) -> Option<Span> {
        (0..self.attempts.len()).filter_map(|attempt| self.failure_of(attempt)?.retry_after).min()
    }

    fn running_mut(&mut self, attempt: usize) -> Option<&mut Attempt> {
        self.attempts.get_mut(attempt).filter(|run| run.state == State::Running)
    }

    fn is_running(&self) -> bool {
        self.attempts.iter().any(|run| run.state == State::Running)
    }

    /// After the win: waits for the winner to end.
    fn poll_won(&mut self, winner: usize, now: Tick) {
        let run = &self.attempts[winner];
        let broken = |kind, reported: Option<FailureKind>| Action::Break {
            attempt: winner,
            kind: reported.unwrap_or(kind),
            reported: reported.is_some(),
        };
        let total_at = self.started_at + self.config.total_limit;
        let action = match run.state {
            State::Ended => Action::Finish { attempt: winner },
            State::Failed(failed) => broken(failed.kind, run.reported),
            State::Running | State::Abandoned => {
                let (limit_at, kind) = self.deadline_of(run);
                let is_complete = self.config.commit == Commit::End && self.is_complete(run);
                if is_complete || run.done && run.reported.is_none() && now >= limit_at.min(total_at) {
                    Action::Finish { attempt: winner }
                } else if now >= total_at {
                    broken(FailureKind::TimedOut, run.reported)
                } else if now >= limit_at {
                    broken(kind, run.reported)
                } else {
                    return;
                }
            }
        };
        self.end(action);
    }

    /// Before the win: checks time limits, picks the winner, starts attempts, or fails.
    fn poll_undecided(&mut self, now: Tick, allow: &mut dyn FnMut(&Candidate, Role) -> bool) {
        // An attempt with a token wins even if the poll is late, so the winner is determined before the limits.
        let standing = self.standing(now);
        if let Some(standing) = standing.filter(|standing| now >= standing.held_until) {
            self.hold = self.held_since().filter(|_| self.is_holding).map(|since| now.since(since));
            return self.win(standing.winner, now);
        }
        self.is_holding |= standing.is_some();
        if now >= self.started_at + self.config.total_limit {
            self.abandon_all(CancelReason::Failed(FailureKind::TimedOut), now);
            self.end(Action::Fail { kind: FailureKind::TimedOut, attempt: None });
            return;
        }
        self.enforce_limits(now);
        if standing.is_some() || !self.pending.is_empty() {
            return;
        }
        if !self.start_more(now, allow) && !self.is_running() {
            self.conclude(now);
        }
    }

    /// The earliest attempt with a first token (or a successful end).
    fn earliest_ready(&self) -> Option<usize> {
        let ready = self.attempts.iter().enumerate().filter_map(|(number, run)| Some((self.ready_at(run)?, number)));
        ready.min().map(|(_, number)| number)
    }

    /// When the first token came that is held back. What waits for the end of an answer holds none.
    fn held_since(&self) -> Option<Tick> {
        let first = self.earliest_ready().filter(|_| self.config.commit == Commit::FirstToken)?;
        self.ready_at(&self.attempts[first])
    }

    fn ready_at(&self, run: &Attempt) -> Option<Tick> {
        match (self.config.commit, run.state) {
            (Commit::End, State::Ended) => Some(run.progress_at),
            (Commit::End, State::Running) => {
                self.is_complete(run).then(|| run.progress_at + END_GRACE.min(self.config.gap_limit))
            }
            (Commit::FirstToken, State::Running) => run.first_at,
            // An answer without text counts only if its finish reason explains it.
            (Commit::FirstToken, State::Ended) => {
                let explained = matches!(
                    run.finish,
                    Some(FinishReason::Length | FinishReason::ToolCalls | FinishReason::ContentFilter)
                );
                run.first_at.or(explained.then_some(run.progress_at))
            }
            _ => None,
        }
    }

    fn win(&mut self, winner: usize, now: Tick) {
        debug_assert!(self.winner.is_none(), "a race has one winner");
        self.winner = Some(winner);
        self.pending.push_back(Action::Win { attempt: winner });
        self.abandon_all(CancelReason::Lost, now);
    }

    /// Ends every running attempt except the winner.
    fn abandon_all(&mut self, reason: CancelReason, now: Tick) {
        for (number, run) in self.attempts.iter_mut().enumerate() {
            if Some(number) == self.winner || run.state != State::Running {
                continue;
            }
            run.state = State::Abandoned;
            let action = match (reason, self.candidates[run.candidate].loser) {
                (CancelReason::Lost, LoserPolicy::DrainExact { max_time, max_bytes }) => {
                    Action::Drain { attempt: number, until: now + max_time, max_bytes }
                }
                _ => Action::Cancel { attempt: number, reason },
            };
            self.pending.push_back(action);
        }
    }

    /// When an attempt without further events fails, and how.
    fn deadline_of(&self, run: &Attempt) -> (Tick, FailureKind) {
        let stalls_at = run.progress_at + self.config.gap_limit;
        match (self.config.commit, run.first_at) {
            (Commit::FirstToken, None) => (run.started + self.config.first_token_limit, FailureKind::FirstTokenTimeout),
            (Commit::FirstToken, Some(_)) => (stalls_at, FailureKind::Stalled),
            (Commit::End, first_at) => {
                let limit_at = self.config.attempt_limit.map_or(Tick::MAX, |limit| run.started + limit);
                match self.is_streamed(run) && first_at.is_some() && stalls_at < limit_at {
                    true => (stalls_at, FailureKind::Stalled),
                    false => (limit_at, FailureKind::TimedOut),
                }
            }
        }
    }

    /// Whether the end mark of an answer with content has come.
    fn is_complete(&self, run: &Attempt) -> bool {
        run.done && run.reported.is_none() && (run.first_at.is_some() || run.finish.is_some())
    }

    fn is_streamed(&self, run: &Attempt) -> bool {
        self.candidates[run.candidate].streamed
    }

    /// When another lane is asked instead of a running attempt, if one may be: not once it has begun to answer.
    fn replace_at(&self, run: &Attempt) -> Option<Tick> {
        let has_begun = self.is_streamed(run) && run.first_at.is_some();
        run.replace_at.filter(|_| run.state == State::Running && !has_begun && self.can_start())
    }

    /// When an attempt that starts now is replaced: after its share of the time that is left, or without a first token.
    fn replaced_after(&self, candidate: usize, now: Tick) -> Option<Tick> {
        if self.config.commit == Commit::FirstToken {
            return None;
        }
        let waiting = self.started.iter().filter(|started| !**started).count();
        let attempts_left = waiting.min(self.config.max_attempts.max(1) - self.attempts.len()).max(1);
        let time_left = self.started_at + self.config.total_limit - now;
        let share = Span::from_nanos(time_left.as_nanos() / attempts_left as u64);
        let first_token = if self.candidates[candidate].streamed { self.config.first_token_limit } else { Span::MAX };
        Some(now + share.min(first_token))
    }

    fn enforce_limits(&mut self, now: Tick) {
        for attempt in 0..self.attempts.len() {
            let run = &self.attempts[attempt];
            let (limit_at, kind) = self.deadline_of(run);
            if run.state == State::Running && now >= limit_at {
                self.attempts[attempt].state = State::Failed(AttemptFailure { kind, retry_after: None });
                self.pending.push_back(Action::Cancel { attempt, reason: CancelReason::Failed(kind) });
            }
        }
    }

    /// Starts the next attempt if one is needed and allowed.
    fn start_more(&mut self, now: Tick, allow: &mut dyn FnMut(&Candidate, Role) -> bool) -> bool {
        self.reserve_at = None;
        let running = self.attempts.iter().filter(|run| run.state == State::Running).count();
        if !self.can_start() {
            return false;
        }
        if running < self.target_running {
            let role = match self.attempts.len() {
                0 => Role::First,
                started
                    if started < self.target_running && self.attempts.iter().all(|run| run.state == State::Running) =>
                {
                    Role::Race
                }
                _ => Role::Failover,
            };
            if self.start(now, role, allow) {
                return true;
            }
            // A refused start is not retried: the race continues with fewer attempts. One that is put off is.
            if self.reserve_at.is_none() {
                self.target_running = running.max(1);
            }
        }
        self.replace_overdue(now, allow) || self.start_hedge(now, allow)
    }

    /// Asks another lane instead of an attempt that takes too long, if one may be asked.
    fn replace_overdue(&mut self, now: Tick, allow: &mut dyn FnMut(&Candidate, Role) -> bool) -> bool {
        let is_overdue = |race: &Race, attempt: &usize| {
            race.replace_at(&race.attempts[*attempt]).is_some_and(|replace_at| now >= replace_at)
        };
        let Some(overdue) = (0..self.attempts.len()).find(|attempt| is_overdue(self, attempt)) else { return false };
        if !self.start(now, Role::Failover, allow) {
            for attempt in overdue..self.attempts.len() {
                if is_overdue(self, &attempt) {
                    self.attempts[attempt].replace_at = Some(self.attempts[attempt].retry_at(now));
                }
            }
            return false;
        }
        let run = &self.attempts[overdue];
        let waited_for_token = self.is_streamed(run) && now >= run.started + self.config.first_token_limit;
        let kind = if waited_for_token { FailureKind::FirstTokenTimeout } else { FailureKind::TimedOut };
        self.attempts[overdue].state = State::Failed(AttemptFailure { kind, retry_after: None });
        self.pending.push_back(Action::Cancel { attempt: overdue, reason: CancelReason::Failed(kind) });
        true
    }

    /// Starts another attempt beside one that is slow.
    fn start_hedge(&mut self, now: Tick, allow: &mut dyn FnMut(&Candidate, Role) -> bool) -> bool {
        let Some(slow) = self.attempts.iter().rposition(|run| run.state == State::Running) else { return false };
        if !self.can_hedge(slow) || self.attempts[slow].hedge_at.is_none_or(|hedge_at| now < hedge_at) {
            return false;
        }
        let started = self.start(now, Role::Hedge, allow);
        let slow = &mut self.attempts[slow];
        slow.hedge_at = if started { None } else { Some(slow.retry_at(now)) };
        self.target_running += usize::from(started);
        started
    }

    fn start(&mut self, now: Tick, role: Role, allow: &mut dyn FnMut(&Candidate, Role) -> bool) -> bool {
        let Some(candidate) = self.next_candidate(now, role, allow) else { return false };
        debug_assert!(self.winner.is_none(), "nothing starts after the win");
        let attempt = self.attempts.len();
        let hedge_at = self.candidates[candidate].hedge_after.map(|after| now + after);
        let replace_at = self.replaced_after(candidate, now);
        self.started[candidate] = true;
        self.attempts.push(Attempt {
            candidate,
            started: now,
            first_at: None,
            bytes_after_first: 0,
            progress_at: now,
            finish: None,
            done: false,
            reported: None,
            hedge_at,
            replace_at,
            state: State::Running,
        });
        let Candidate { lane, streamed, .. } = self.candidates[candidate];
        let streamed = streamed || self.config.commit == Commit::FirstToken;
        self.pending.push_back(Action::Start { attempt, candidate, lane, role, streamed });
        true
    }

    /// The first candidate that may be asked now. One that would spoil the race is put off.
    fn next_candidate(
        &mut self,
        now: Tick,
        role: Role,
        allow: &mut dyn FnMut(&Candidate, Role) -> bool,
    ) -> Option<usize> {
        if role == Role::First
            && let Some(fastest) = self.fastest_entrant(allow)
        {
            return Some(fastest);
        }
        for index in (0..self.candidates.len()).filter(|&index| !self.started[index]) {
            if let Some(until) = self.spoils_until(index, now).filter(|_| role == Role::Race) {
                self.reserve_at = Some(self.reserve_at.map_or(until, |earlier| earlier.min(until)));
            } else if allow(&self.candidates[index], role) {
                return Some(index);
            }
        }
        None
    }

    /// Whether the call may have another attempt. A client error from one lane is not retried on another.
    fn can_start(&self) -> bool {
        self.attempts.len() < self.config.max_attempts.max(1)
            && self.started.iter().any(|started| !started)
            && !self.attempts.iter().any(|run| matches!(run.state, State::Failed(failed) if !is_retryable(failed.kind)))
    }

    /// Whether a slow attempt may be hedged. Only the latest one.
    fn can_hedge(&self, attempt: usize) -> bool {
        self.config.mode == Mode::Hedge
            && self.can_start()
            && self.attempts.iter().rposition(|run| run.state == State::Running) == Some(attempt)
            && self.attempts[attempt].first_at.is_none()
    }

    /// Nothing runs and nothing can start: an answer without text wins if there is one, else the call fails.
    fn conclude(&mut self, now: Tick) {
        if let Some(empty) = self.attempts.iter().position(|run| run.state == State::Ended) {
            self.win(empty, now);
            return;
        }
        let failures = || {
            self.attempts.iter().enumerate().filter_map(|(number, run)| match run.state {
                State::Failed(failed) => Some((number, failed.kind)),
                _ => None,
            })
        };
        let failure = failures()
            .find(|(_, kind)| !is_retryable(*kind))
            .or_else(|| failures().max_by_key(|(number, _)| (self.attempts[*number].progress_at, *number)));
        let action = match failure {
            Some((attempt, kind)) => Action::Fail { kind, attempt: Some(attempt) },
            None => Action::Fail { kind: FailureKind::Overloaded, attempt: None },
        };
        self.end(action);
    }

    fn end(&mut self, action: Action) {
        debug_assert!(!self.over, "a race ends once");
        debug_assert!(self.winner.is_some() || !self.is_running(), "no attempt runs on after a failed call");
        self.over = true;
        self.pending.push_back(action);
    }
}

/// Whether another lane could answer after this failure: not if the client caused it or has disconnected.
fn is_retryable(kind: FailureKind) -> bool {
    blame(kind) != Blame::Client && kind != FailureKind::Cancelled
}

#[cfg(test)]
mod tests;
