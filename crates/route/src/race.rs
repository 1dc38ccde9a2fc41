//! One call: which lanes are asked, when the next one starts, who won, and how it ends.
//!
//! It refuses to know sockets, dialects, breakers and budgets: events and ticks come in, actions go out, and whoever drives
//! it is asked before every start. Invariant: at most one attempt wins and nothing starts after that; every attempt that was
//! started ends exactly once (it won, it was cancelled or drained, or its failure was told); a race that nobody can win any
//! more says so at the next poll.

use crate::breaker::{Blame, blame};
use crate::lane::LaneId;
use std::collections::VecDeque;
use tokrate_core::{FailureKind, FinishReason, Span, StreamEvent, Tick, What};

/// A hedge that was refused is asked for again after this time at the earliest.
const ASKED_AGAIN_AFTER: Span = Span::from_millis(1);

/// How many lanes one call may ask.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// One at a time; the next one when it fails.
    #[default]
    Off,
    /// So many at once.
    Race {
        /// How many, at least 1.
        lanes: usize,
    },
    /// One; the next one when it takes longer than [`Candidate::hedge_after`], or at once when it fails.
    Hedge,
}

/// What makes an attempt the winner.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Commit {
    /// Its first output text or tool call: for answers that are streamed.
    #[default]
    FirstToken,
    /// Its good end: for answers that come whole. The limits of the first token and of gaps do not hold then, and
    /// [`Candidate::hedge_after`] counts to the end.
    End,
}

/// The settings of a race.
#[derive(Clone, PartialEq, Debug)]
pub struct RaceConfig {
    /// How many lanes may be asked.
    pub mode: Mode,
    /// The most attempts of the call, failed ones included; at least 1.
    pub attempts_most: usize,
    /// An attempt without output text for longer than this has failed.
    pub first_token_limit: Span,
    /// An attempt without a sign of progress for longer than this after its first token has failed. Chunks without text are
    /// no progress.
    pub gap_limit: Span,
    /// The whole call, from [`Race::new`] on.
    pub total_limit: Span,
    /// What makes the winner.
    pub commit: Commit,
    /// How long after the first token of one attempt another one may still take over, if by its lane's speed it will be done
    /// earlier. The first token waits meanwhile.
    pub second_look: Option<Span>,
}

impl Default for RaceConfig {
    fn default() -> RaceConfig {
        RaceConfig {
            mode: Mode::Off,
            attempts_most: 3,
            first_token_limit: Span::from_secs(60),
            gap_limit: Span::from_secs(60),
            total_limit: Span::from_secs(600),
            commit: Commit::FirstToken,
            second_look: None,
        }
    }
}

/// What becomes of an attempt that lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LoserPolicy {
    /// It is cancelled, and what the provider bills for it is estimated.
    #[default]
    CancelEstimate,
    /// It is read on in the background, so that its usage is exact.
    DrainExact {
        /// For at most so long.
        time_most: Span,
        /// And at most so many bytes.
        bytes_most: u64,
    },
    /// It is cancelled; the provider bills nothing.
    Free,
}

/// A lane that may be asked.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Candidate {
    /// Which one.
    pub lane: LaneId,
    /// How long it may take to its first token (with [`Commit::End`]: to its end) before the next one is asked as well; its
    /// own 90th percentile as a rule. `None` for never.
    pub hedge_after: Option<Span>,
    /// What becomes of it when it loses.
    pub loser: LoserPolicy,
    /// Output speed to expect (tokens per second), for the second look.
    pub expected_speed: Option<f64>,
    /// Output tokens to expect, for the second look.
    pub expected_output_tokens: Option<f64>,
}

/// Why an attempt is started.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// The call's first.
    First,
    /// One before it has failed.
    Failover,
    /// One before it is slow.
    Hedge,
    /// Together with the first.
    Race,
}

/// How an attempt failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failed {
    /// In which way.
    pub kind: FailureKind,
    /// How long the provider asked to wait.
    pub retry_after: Option<Span>,
}

/// Why an attempt is cancelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// Another one won.
    Lost,
    /// It failed: over a limit of time, or by an error in its stream.
    Failed(FailureKind),
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Action {
    /// Begin an attempt.
    Start {
        /// Its number, from 0 in order of starts.
        attempt: usize,
        /// Place of its candidate in the list.
        candidate: usize,
        /// The candidate's lane.
        lane: LaneId,
        /// Why.
        role: Role,
    },
    /// From here on its bytes go to the client, those that came before first.
    Win {
        /// Whose.
        attempt: usize,
    },
    /// Give an attempt up: close its connection.
    Cancel {
        /// Which one.
        attempt: usize,
        /// Why.
        why: Why,
    },
    /// Read an attempt that lost to its end, in the background. The race takes no more interest in it.
    Drain {
        /// Which one.
        attempt: usize,
        /// Until when at most.
        until: Tick,
        /// How many bytes at most, from now on.
        bytes_most: u64,
    },
    /// The winner ended well; its connection is to be closed if it is open after the end mark. Nothing comes after it.
    Finish {
        /// The winner.
        attempt: usize,
    },
    /// The winner failed after it had won; its connection is to be closed if it is open. Nothing comes after it.
    Break {
        /// The winner.
        attempt: usize,
        /// How it failed.
        kind: FailureKind,
        /// Whether its own stream has said so already, and the client with it.
        told: bool,
    },
    /// No attempt can win any more. Nothing comes after it.
    Fail {
        /// How the call failed. [`FailureKind::Overloaded`] without an attempt if no lane could be asked at all.
        kind: FailureKind,
        /// Whose error is to be shown: a client's own fault first, or else the last one; `None` if there was no attempt, or the
        /// time of the whole call was up.
        attempt: Option<usize>,
    },
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Running,
    /// The body ended well.
    Ended,
    Failed(Failed),
    /// Cancelled or drained.
    Left,
}

#[derive(Clone, Debug)]
struct Attempt {
    candidate: usize,
    started: Tick,
    first_at: Option<Tick>,
    /// The last event that carried anything.
    progress_at: Tick,
    finish: Option<FinishReason>,
    /// Whether the answer's end mark was seen: what breaks after it breaks nothing.
    done: bool,
    /// An error that its stream told after it had won.
    told: Option<FailureKind>,
    /// From when on its slowness may start another one; `None` once it has, or if it never may.
    hedge_at: Option<Tick>,
    state: State,
}

/// The state machine of one call.
#[derive(Clone, Debug)]
pub struct Race {
    config: RaceConfig,
    candidates: Vec<Candidate>,
    /// Whether a candidate was started, by its place.
    started: Vec<bool>,
    began: Tick,
    attempts: Vec<Attempt>,
    winner: Option<usize>,
    pending: VecDeque<Action>,
    over: bool,
    /// How many are to run at once: grows with each hedge.
    wanted: usize,
}

impl Race {
    /// A race that begins now, with its candidates in order of preference. A lane may stand there twice, to be asked again
    /// when it has failed.
    pub fn new(config: RaceConfig, candidates: Vec<Candidate>, now: Tick) -> Race {
        let wanted = match config.mode {
            Mode::Race { lanes } => lanes.max(1),
            Mode::Off | Mode::Hedge => 1,
        };
        Race {
            started: vec![false; candidates.len()],
            config,
            candidates,
            began: now,
            attempts: Vec::new(),
            winner: None,
            pending: VecDeque::new(),
            over: false,
            wanted,
        }
    }

    /// An event of an attempt's answer. An error in the stream ends an attempt that has not won.
    pub fn on(&mut self, attempt: usize, event: &StreamEvent) {
        let (at, won) = (event.at, self.winner == Some(attempt));
        let Some(run) = self.live(attempt) else { return };
        match event.what {
            What::Empty => return,
            What::Text { .. } | What::ToolCall { .. } | What::Opaque => {
                run.first_at.get_or_insert(at);
            }
            What::Finish(reason) => run.finish = Some(reason),
            What::Done => run.done = true,
            What::Failed { kind, .. } if won => run.told = Some(kind),
            What::Failed { kind, retry_after, .. } => {
                run.state = State::Failed(Failed { kind, retry_after });
                self.pending.push_back(Action::Cancel { attempt, why: Why::Failed(kind) });
                return;
            }
            _ => {}
        }
        run.progress_at = run.progress_at.max(at);
    }

    /// An attempt's answer ended well at `now`. Without effect on one that has ended.
    pub fn ended(&mut self, attempt: usize, now: Tick) {
        if let Some(run) = self.live(attempt) {
            run.progress_at = run.progress_at.max(now);
            run.state = match run.told {
                Some(kind) => State::Failed(Failed { kind, retry_after: None }),
                None => State::Ended,
            };
        }
    }

    /// An attempt failed at `now`, as whoever drives it noticed. Without effect on one that has ended.
    pub fn failed(&mut self, attempt: usize, now: Tick, failed: Failed) {
        if let Some(run) = self.live(attempt) {
            run.progress_at = run.progress_at.max(now);
            run.state = match run.told {
                Some(kind) => State::Failed(Failed { kind, ..failed }),
                // An end mark behind what nobody can read ends no answer.
                None if run.done && failed.kind != FailureKind::NotJson => State::Ended,
                None => State::Failed(failed),
            };
        }
    }

    /// What is to be done at `now`, one action a time, until `None`. `allow` is asked before every start; a candidate that it
    /// refuses is passed over, and asked again for the next start. If it refuses every one for a hedge, it is asked again when
    /// the slow attempt has run for a quarter longer: the longer it takes, the more a hedge is worth.
    pub fn poll(&mut self, now: Tick, allow: &mut dyn FnMut(&Candidate, Role) -> bool) -> Option<Action> {
        loop {
            if let Some(action) = self.pending.pop_front() {
                return Some(action);
            }
            if self.over {
                return None;
            }
            match self.winner {
                Some(winner) => self.follow(winner, now),
                None => self.compete(now, allow),
            }
            if self.pending.is_empty() {
                return None;
            }
        }
    }

    /// When [`Race::poll`] has something to say although nothing happens: later than a poll that gave `None`, if nothing was
    /// told to the race since.
    pub fn wake_at(&self) -> Option<Tick> {
        if !self.pending.is_empty() {
            return Some(Tick::ZERO);
        }
        if self.over {
            return None;
        }
        let mut wake_at = self.began + self.config.total_limit;
        // While a win is held back nothing more is started.
        let undecided = self.winner.is_none() && self.leader().is_none();
        for (number, run) in self.attempts.iter().enumerate().filter(|(_, run)| run.state == State::Running) {
            wake_at = wake_at.min(self.limit_of(run).0);
            if let Some(hedge_at) = run.hedge_at.filter(|_| undecided && self.may_hedge(number)) {
                wake_at = wake_at.min(hedge_at);
            }
        }
        if self.winner.is_none()
            && let Some(leader) = self.leader()
        {
            wake_at = wake_at.min(self.hold_until(leader));
        }
        Some(wake_at)
    }

    /// The winner, once there is one.
    pub fn winner(&self) -> Option<usize> {
        self.winner
    }

    /// Whether the last action was said.
    pub fn is_over(&self) -> bool {
        self.over && self.pending.is_empty()
    }

    /// The attempts that go on, for a caller that gives the whole call up.
    pub fn running(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.attempts.len()).filter(|&attempt| self.attempts[attempt].state == State::Running)
    }

    /// Attempts that were started.
    pub fn attempts(&self) -> usize {
        self.attempts.len()
    }

    /// Place of an attempt's candidate in the list.
    pub fn candidate_of(&self, attempt: usize) -> Option<usize> {
        self.attempts.get(attempt).map(|run| run.candidate)
    }

    /// How an attempt failed, if it did.
    pub fn failure_of(&self, attempt: usize) -> Option<Failed> {
        match self.attempts.get(attempt)?.state {
            State::Failed(failed) => Some(failed),
            _ => None,
        }
    }

    /// The shortest wait that any failed attempt's provider asked for.
    pub fn retry_after(&self) -> Option<Span> {
        (0..self.attempts.len()).filter_map(|attempt| self.failure_of(attempt)?.retry_after).min()
    }

    fn live(&mut self, attempt: usize) -> Option<&mut Attempt> {
        self.attempts.get_mut(attempt).filter(|run| run.state == State::Running)
    }

    fn is_running(&self) -> bool {
        self.attempts.iter().any(|run| run.state == State::Running)
    }

    /// After the win: the winner's end, good or bad.
    fn follow(&mut self, winner: usize, now: Tick) {
        let run = &self.attempts[winner];
        let broken = |kind, told: Option<FailureKind>| Action::Break {
            attempt: winner,
            kind: told.unwrap_or(kind),
            told: told.is_some(),
        };
        let total_at = self.began + self.config.total_limit;
        let action = match run.state {
            State::Ended => Action::Finish { attempt: winner },
            State::Failed(failed) => broken(failed.kind, run.told),
            State::Running | State::Left => {
                let (limit_at, kind) = self.limit_of(run);
                if run.done && run.told.is_none() && now >= limit_at.min(total_at) {
                    Action::Finish { attempt: winner }
                } else if now >= total_at {
                    broken(FailureKind::TimedOut, run.told)
                } else if now >= limit_at {
                    broken(kind, run.told)
                } else {
                    return;
                }
            }
        };
        self.end(action);
    }

    /// Before the win: limits, the win itself, starts, and the end if there is nothing left.
    fn compete(&mut self, now: Tick, allow: &mut dyn FnMut(&Candidate, Role) -> bool) {
        // Whoever has a token has it, even if the poll comes late; so the winner is looked for before the limits.
        if let Some(leader) = self.leader().filter(|&leader| now >= self.hold_until(leader)) {
            let best = self.best_of_those_with_tokens(leader);
            return self.win(best, now);
        }
        if now >= self.began + self.config.total_limit {
            self.leave_all(Why::Failed(FailureKind::TimedOut), now);
            self.end(Action::Fail { kind: FailureKind::TimedOut, attempt: None });
            return;
        }
        self.enforce_limits(now);
        if self.leader().is_some() || !self.pending.is_empty() {
            return;
        }
        if !self.start_more(now, allow) && !self.is_running() {
            self.give_up(now);
        }
    }

    /// The attempt that would win now: of those with a first token (or a good end) the earliest one.
    fn leader(&self) -> Option<usize> {
        let ready = self.attempts.iter().enumerate().filter_map(|(number, run)| Some((self.ready_at(run)?, number)));
        ready.min().map(|(_, number)| number)
    }

    fn ready_at(&self, run: &Attempt) -> Option<Tick> {
        match (self.config.commit, run.state) {
            (Commit::End, State::Ended) => Some(run.progress_at),
            (Commit::FirstToken, State::Running) => run.first_at,
            // An answer that ended without text is one only if the model meant it so.
            (Commit::FirstToken, State::Ended) => {
                let meant = matches!(
                    run.finish,
                    Some(FinishReason::Length | FinishReason::ToolCalls | FinishReason::ContentFilter)
                );
                run.first_at.or(meant.then_some(run.progress_at))
            }
            _ => None,
        }
    }

    /// Until when the leader's win is held back: no longer than some other attempt could still be done earlier.
    fn hold_until(&self, leader: usize) -> Tick {
        let run = &self.attempts[leader];
        let ready_at = self.ready_at(run).expect("a leader is ready");
        let (Some(window), Commit::FirstToken, State::Running) =
            (self.config.second_look, self.config.commit, run.state)
        else {
            return ready_at;
        };
        let Some(done_at) = self.expected_end(leader) else { return ready_at };
        let others = self.attempts.iter().filter(|other| other.state == State::Running && other.first_at.is_none());
        let latest = others.filter_map(|other| Some(done_at - self.decode_time(other)?)).max();
        latest.map_or(ready_at, |latest| latest.min(ready_at + window).max(ready_at))
    }

    fn decode_time(&self, run: &Attempt) -> Option<Span> {
        let candidate = &self.candidates[run.candidate];
        let speed = candidate.expected_speed.filter(|speed| *speed > 0.0)?;
        Some(Span::from_secs_f64(candidate.expected_output_tokens? / speed))
    }

    /// When an attempt with a first token will be done, by its lane's speed.
    fn expected_end(&self, attempt: usize) -> Option<Tick> {
        let run = &self.attempts[attempt];
        Some(run.first_at? + self.decode_time(run)?)
    }

    fn best_of_those_with_tokens(&self, leader: usize) -> usize {
        let (true, Some(leads_at)) = (self.config.second_look.is_some(), self.expected_end(leader)) else {
            return leader;
        };
        let rivals = (0..self.attempts.len()).filter(|&other| self.ready_at(&self.attempts[other]).is_some());
        let ends = rivals.filter_map(|other| Some((self.expected_end(other)?, other)));
        ends.min().filter(|(ends_at, _)| *ends_at < leads_at).map_or(leader, |(_, best)| best)
    }

    fn win(&mut self, winner: usize, now: Tick) {
        self.winner = Some(winner);
        self.pending.push_back(Action::Win { attempt: winner });
        self.leave_all(Why::Lost, now);
    }

    /// Ends every running attempt but the winner.
    fn leave_all(&mut self, why: Why, now: Tick) {
        for (number, run) in self.attempts.iter_mut().enumerate() {
            if Some(number) == self.winner || run.state != State::Running {
                continue;
            }
            run.state = State::Left;
            let action = match (why, self.candidates[run.candidate].loser) {
                (Why::Lost, LoserPolicy::DrainExact { time_most, bytes_most }) => {
                    Action::Drain { attempt: number, until: now + time_most, bytes_most }
                }
                _ => Action::Cancel { attempt: number, why },
            };
            self.pending.push_back(action);
        }
    }

    /// When an attempt will have failed if it goes on in silence, and how.
    fn limit_of(&self, run: &Attempt) -> (Tick, FailureKind) {
        match (self.config.commit, run.first_at) {
            (Commit::End, _) => (Tick::MAX, FailureKind::TimedOut),
            (Commit::FirstToken, None) => (run.started + self.config.first_token_limit, FailureKind::FirstTokenTimeout),
            (Commit::FirstToken, Some(_)) => (run.progress_at + self.config.gap_limit, FailureKind::Stalled),
        }
    }

    fn enforce_limits(&mut self, now: Tick) {
        for attempt in 0..self.attempts.len() {
            let run = &self.attempts[attempt];
            let (limit_at, kind) = self.limit_of(run);
            if run.state == State::Running && now >= limit_at {
                self.attempts[attempt].state = State::Failed(Failed { kind, retry_after: None });
                self.pending.push_back(Action::Cancel { attempt, why: Why::Failed(kind) });
            }
        }
    }

    /// Starts the next attempt if one is wanted and allowed.
    fn start_more(&mut self, now: Tick, allow: &mut dyn FnMut(&Candidate, Role) -> bool) -> bool {
        let running = self.attempts.iter().filter(|run| run.state == State::Running).count();
        if !self.may_start() {
            return false;
        }
        if running < self.wanted {
            let role = match self.attempts.len() {
                0 => Role::First,
                started if started < self.wanted && self.attempts.iter().all(|run| run.state == State::Running) => {
                    Role::Race
                }
                _ => Role::Failover,
            };
            if self.start(now, role, allow) {
                return true;
            }
            // What is refused now is not asked for again: the race goes on with fewer.
            self.wanted = running.max(1);
        }
        let Some(slow) = self.attempts.iter().rposition(|run| run.state == State::Running) else { return false };
        if !self.may_hedge(slow) || self.attempts[slow].hedge_at.is_none_or(|hedge_at| now < hedge_at) {
            return false;
        }
        let granted = self.start(now, Role::Hedge, allow);
        let slow = &mut self.attempts[slow];
        slow.hedge_at = match granted {
            true => None,
            false => {
                Some(now + Span::from_nanos((now.since(slow.started).as_nanos() / 4).max(ASKED_AGAIN_AFTER.as_nanos())))
            }
        };
        self.wanted += usize::from(granted);
        granted
    }

    fn start(&mut self, now: Tick, role: Role, allow: &mut dyn FnMut(&Candidate, Role) -> bool) -> bool {
        let mut waiting = (0..self.candidates.len()).filter(|&place| !self.started[place]);
        let Some(candidate) = waiting.find(|&place| allow(&self.candidates[place], role)) else { return false };
        self.started[candidate] = true;
        let attempt = self.attempts.len();
        let hedge_at = self.candidates[candidate].hedge_after.map(|after| now + after);
        self.attempts.push(Attempt {
            candidate,
            started: now,
            first_at: None,
            progress_at: now,
            finish: None,
            done: false,
            told: None,
            hedge_at,
            state: State::Running,
        });
        self.pending.push_back(Action::Start { attempt, candidate, lane: self.candidates[candidate].lane, role });
        true
    }

    /// Whether the call may have another attempt. What one lane refused as the client's own fault is not tried on another.
    fn may_start(&self) -> bool {
        self.attempts.len() < self.config.attempts_most.max(1)
            && self.started.iter().any(|started| !started)
            && !self.attempts.iter().any(|run| matches!(run.state, State::Failed(failed) if !is_curable(failed.kind)))
    }

    /// Whether the slowness of an attempt may start another one. Only the latest one's does.
    fn may_hedge(&self, attempt: usize) -> bool {
        self.config.mode == Mode::Hedge
            && self.may_start()
            && self.attempts.iter().rposition(|run| run.state == State::Running) == Some(attempt)
            && self.attempts[attempt].first_at.is_none()
    }

    /// Nothing runs and nothing can start: a good answer without text is better than none, or else the call fails.
    fn give_up(&mut self, now: Tick) {
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
        let shown = failures()
            .find(|(_, kind)| !is_curable(*kind))
            .or_else(|| failures().max_by_key(|(number, _)| (self.attempts[*number].progress_at, *number)));
        let action = match shown {
            Some((attempt, kind)) => Action::Fail { kind, attempt: Some(attempt) },
            None => Action::Fail { kind: FailureKind::Overloaded, attempt: None },
        };
        self.end(action);
    }

    fn end(&mut self, action: Action) {
        self.over = true;
        self.pending.push_back(action);
    }
}

/// Whether another lane may answer where one failed in this way: not if the client is at fault or has left.
fn is_curable(kind: FailureKind) -> bool {
    blame(kind) != Blame::Client && kind != FailureKind::Cancelled
}

#[cfg(test)]
mod tests;
