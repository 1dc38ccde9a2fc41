//! What it would have saved to keep each session on the lane that has its prompt, estimated from a log.
//!
//! A log has no prompts, but the sessions that clients name, and what providers reported as cached. A further call of a session that went to
//! another lane than the call before is held against those that stayed: what they found in the cache, what a new token and a cached one
//! cost there, and how long a new one takes. Invariant: only calls whose tokens were reported count, and what cannot be told apart is `None`.

mod fit;

use crate::lane::LaneId;
use fit::LaneFit;
use std::collections::BTreeMap;
use tokrate_core::{Span, Tick};

/// An answered call of a session.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SessionCall {
    /// Its session.
    pub session: u64,
    /// The lane that answered.
    pub lane: LaneId,
    /// When it was started.
    pub started: Tick,
    /// Time to first token, if it was streamed.
    pub ttft: Option<Span>,
    /// Tokens of the prompt, as reported.
    pub prompt_tokens: u64,
    /// Those of them that came of a cache, as reported.
    pub cached_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Its cost (USD), if known.
    pub usd: Option<f64>,
}

/// A mean before and after, and the standard error of the difference.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Change {
    /// As it was.
    pub was: f64,
    /// As it is estimated to have been.
    pub would: f64,
    /// Standard error of the difference: chance among sessions, by the jackknife.
    pub error: f64,
}

/// What is estimated.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct SessionReport {
    /// Calls of sessions.
    pub calls: usize,
    /// Sessions.
    pub sessions: usize,
    /// Calls that had one before them in their session within [`MAX_PAUSE`].
    pub further: usize,
    /// Those of them that went to another lane than the one before.
    pub moved: usize,
    /// Moved calls of which enough is known of the lane that they left.
    pub covered: usize,
    /// Share of the prompts of covered calls that came of a cache.
    pub cached: Change,
    /// Mean cost of a covered call (USD); `None` where costs do not follow prices.
    pub usd: Option<Change>,
    /// Mean time to first token of covered calls (seconds); `None` where too few were streamed.
    pub ttft: Option<Change>,
}

/// A longer pause begins anew: few caches keep a prompt for longer.
pub const MAX_PAUSE: Span = Span::from_secs(3_600);
/// Calls that stayed on a lane after a like pause, at least, to say what one finds there.
const MIN_STAYED: usize = 5;
/// Pauses are alike within this factor.
const LIKE_PAUSE: f64 = 2.0;
/// Groups of sessions for the jackknife.
const GROUPS: u64 = 20;

/// A call with the one before it in its session.
#[derive(Clone, Copy)]
struct Further<'a> {
    call: &'a SessionCall,
    left: LaneId,
    pause: f64,
}

/// Estimates what it would have saved if no session had moved.
pub fn replay_sessions(calls: &[SessionCall]) -> SessionReport {
    let all = estimate(calls);
    let groups: Vec<SessionReport> = (0..GROUPS)
        .map(|group| {
            let others: Vec<SessionCall> =
                calls.iter().filter(|call| call.session % GROUPS != group).copied().collect();
            estimate(&others)
        })
        .collect();
    let error = |of: &dyn Fn(&SessionReport) -> Option<Change>| {
        let each: Vec<f64> = groups.iter().filter_map(of).map(|change| change.would - change.was).collect();
        let mean = each.iter().sum::<f64>() / each.len().max(1) as f64;
        let squares: f64 = each.iter().map(|one| (one - mean) * (one - mean)).sum();
        (squares * (each.len() as f64 - 1.0).max(0.0) / each.len().max(1) as f64).sqrt()
    };
    SessionReport {
        cached: Change { error: error(&|one| Some(one.cached)), ..all.cached },
        usd: all.usd.map(|change| Change { error: error(&|one| one.usd), ..change }),
        ttft: all.ttft.map(|change| Change { error: error(&|one| one.ttft), ..change }),
        ..all
    }
}

fn estimate(calls: &[SessionCall]) -> SessionReport {
    let mut sessions: BTreeMap<u64, Vec<&SessionCall>> = BTreeMap::new();
    let mut lanes: BTreeMap<LaneId, Vec<&SessionCall>> = BTreeMap::new();
    for call in calls {
        sessions.entry(call.session).or_default().push(call);
        lanes.entry(call.lane).or_default().push(call);
    }
    sessions.values_mut().for_each(|calls| calls.sort_by_key(|call| call.started));
    let further: Vec<Further<'_>> = sessions
        .values()
        .flat_map(|calls| calls.windows(2))
        .filter(|pair| pair[1].started.since(pair[0].started) <= MAX_PAUSE)
        .map(|pair| Further {
            call: pair[1],
            left: pair[0].lane,
            pause: pair[1].started.since(pair[0].started).as_secs_f64(),
        })
        .collect();
    let (stayed, moved): (Vec<_>, Vec<_>) = further.iter().partition(|further| further.left == further.call.lane);
    let fits: BTreeMap<LaneId, LaneFit> = lanes.iter().map(|(lane, calls)| (*lane, LaneFit::of(calls))).collect();
    let mut sums = Sums::default();
    for one in &moved {
        if let Some(share) = share_found(&stayed, one) {
            sums.add(one.call, share, &fits[&one.left]);
        }
    }
    SessionReport {
        calls: calls.len(),
        sessions: sessions.len(),
        further: further.len(),
        moved: moved.len(),
        ..sums.report()
    }
}

/// What share of the prompt those found who stayed on the lane that this one left, after a like pause.
fn share_found(stayed: &[&Further<'_>], moved: &Further<'_>) -> Option<f64> {
    let alike = |one: &&&Further<'_>| {
        let ratio = (one.pause / moved.pause.max(1e-3)).max(1e-9);
        one.left == moved.left && (1.0 / LIKE_PAUSE..=LIKE_PAUSE).contains(&ratio)
    };
    let (mut count, mut cached, mut prompt) = (0, 0.0, 0.0);
    for one in stayed.iter().filter(alike) {
        count += 1;
        cached += one.call.cached_tokens.min(one.call.prompt_tokens) as f64;
        prompt += one.call.prompt_tokens as f64;
    }
    (count >= MIN_STAYED && prompt > 0.0).then(|| cached / prompt)
}

#[derive(Default)]
struct Sums {
    covered: usize,
    prompt: f64,
    cached: (f64, f64),
    usd: (f64, f64),
    priced: usize,
    ttft: (f64, f64),
    timed: usize,
}

impl Sums {
    fn add(&mut self, call: &SessionCall, share: f64, left: &LaneFit) {
        let prompt = call.prompt_tokens as f64;
        let would_find = share * prompt;
        self.covered += 1;
        self.prompt += prompt;
        self.cached.0 += call.cached_tokens.min(call.prompt_tokens) as f64;
        self.cached.1 += would_find;
        let output = call.output_tokens as f64;
        if let Some((usd, would)) = call.usd.zip(left.usd(prompt - would_find, would_find, output)) {
            self.priced += 1;
            self.usd = (self.usd.0 + usd, self.usd.1 + would);
        }
        if let Some((ttft, would)) = call.ttft.zip(left.ttft(prompt - would_find)) {
            self.timed += 1;
            self.ttft = (self.ttft.0 + ttft.as_secs_f64(), self.ttft.1 + would);
        }
    }

    fn report(&self) -> SessionReport {
        let change = |(was, would): (f64, f64), of: f64| Change { was: was / of, would: would / of, error: 0.0 };
        // Of a part of the calls nothing is said: it may not be like the others.
        let all = |count: usize| count > 0 && count == self.covered;
        SessionReport {
            covered: self.covered,
            cached: change(self.cached, self.prompt.max(1.0)),
            usd: all(self.priced).then(|| change(self.usd, self.priced as f64)),
            ttft: all(self.timed).then(|| change(self.ttft, self.timed as f64)),
            ..SessionReport::default()
        }
    }
}

#[cfg(test)]
mod tests;
