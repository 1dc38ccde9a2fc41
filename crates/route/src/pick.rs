//! The order in which a call's lanes are to be asked, by policy.
//!
//! It refuses to know how lanes are measured and kept: each comes as a view of the present. Invariant: every candidate is in the
//! order once, lanes that may be asked before those that may not, and what is unknown is neither best nor worst but tried.

use crate::lane::LaneId;
use crate::lane_model::Expectation;
use tokrate_core::{Rng, Span};

/// How lanes are chosen.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Policy {
    /// The least time for all calls together: the expected time to the end of this answer at the load that it would join, times
    /// what it does to the others there; see [`crate::LaneModel::shared_seconds`].
    #[default]
    Completion,
    /// The least expected time to the end of this answer, whatever it does to the others.
    OwnCompletion,
    /// The cheapest lane that keeps both limits by what is expected of it; those that do not come after, the quickest first.
    Cheapest {
        /// Longest mean time to first token.
        ttft_most: Option<Span>,
        /// Least output speed (tokens per second).
        speed_least: Option<f64>,
    },
    /// The least sum of price and time.
    Weighted {
        /// What a second is worth (USD).
        usd_per_second: f64,
    },
    /// The better of two lanes drawn at random, by peak-EWMA latency times calls in flight plus one.
    PeakEwma,
    /// One after the other.
    RoundRobin,
    /// The fewest calls in flight.
    LeastBusy,
    /// The least average latency, whatever the load.
    LowestLatency,
    /// As they are listed.
    Fixed,
}

/// What is known of a call before it is answered.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct CallShape {
    /// Tokens of its prompt.
    pub prompt_tokens: u64,
    /// Output tokens to expect: the alias's average, as [`crate::OutputLength`] keeps it, or a guess.
    pub output_tokens: f64,
}

/// A lane in its place.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ranked {
    /// Which one.
    pub lane: LaneId,
    /// Whether it may be asked now: its breaker is not open and its cap not reached.
    pub usable: bool,
    /// What the call may expect of it; `None` if too little is known.
    pub expectation: Option<Expectation>,
}

/// A lane as it is at the moment of a choice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub ranked: Ranked,
    pub in_flight: u32,
    /// Expected cost of the call (USD).
    pub usd: Option<f64>,
    /// What it costs all calls of the lane together (seconds), where the policy asks.
    pub shared_seconds: Option<f64>,
    /// Share of calls that fail of late.
    pub failing: f64,
    /// Peak-EWMA load.
    pub peak: f64,
    /// Average latency (seconds); `None` before the first.
    pub latency: Option<f64>,
    /// Its place in a round.
    pub turn: u32,
}

/// Tiers of an order, best first; within a tier the score decides, the lowest first.
type Rank = (u8, f64);

const TRY: u8 = 0;
const KNOWN: u8 = 1;
const BELOW_LIMITS: u8 = 2;
const UNKNOWN: u8 = 3;
const UNUSABLE: u8 = 4;
/// Calls that a lane of which nothing is known gets at once.
const UNKNOWN_IN_FLIGHT_MOST: u32 = 2;

/// Brings the lanes into order. `exploration` is the share of calls that go to a lane which is not the best, to know it.
pub(crate) fn order(views: &mut [(Rank, View)], shape: &CallShape, policy: &Policy, exploration: f64, rng: &mut Rng) {
    let all_unknown = views.iter().all(|(_, view)| view.ranked.expectation.is_none());
    let by_peak = matches!(policy, Policy::PeakEwma) || needs_model(policy) && all_unknown;
    for (place, (rank, view)) in views.iter_mut().enumerate() {
        *rank = match view.ranked.usable {
            false => (UNUSABLE, place as f64),
            true if by_peak => (KNOWN, view.peak),
            true => score(view, place, shape, policy),
        };
    }
    views.sort_by(|(one, _), (other, _)| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
    let usable = views.partition_point(|(rank, _)| rank.0 < UNUSABLE);
    if by_peak {
        draw_two(views, usable, rng);
    } else if needs_model(policy) && usable > 1 && views[0].0.0 != TRY && rng.chance(exploration) {
        let chosen = 1 + rng.below(usable as u64 - 1) as usize;
        views[..=chosen].rotate_right(1);
    }
}

fn needs_model(policy: &Policy) -> bool {
    matches!(policy, Policy::Completion | Policy::OwnCompletion | Policy::Cheapest { .. } | Policy::Weighted { .. })
}

/// Puts the better of two lanes drawn at random first. They are in order of their loads already.
fn draw_two(views: &mut [(Rank, View)], usable: usize, rng: &mut Rng) {
    if usable > 2 {
        let one = rng.below(usable as u64) as usize;
        let other = (one + 1 + rng.below(usable as u64 - 1) as usize) % usable;
        views[..=one.min(other)].rotate_right(1);
    }
}

fn score(view: &View, place: usize, shape: &CallShape, policy: &Policy) -> Rank {
    match policy {
        Policy::Fixed => return (KNOWN, place as f64),
        Policy::RoundRobin => return (KNOWN, f64::from(view.turn)),
        Policy::LeastBusy => return (KNOWN, f64::from(view.in_flight)),
        Policy::LowestLatency => return (KNOWN, view.latency.unwrap_or(0.0)),
        Policy::Completion
        | Policy::OwnCompletion
        | Policy::Cheapest { .. }
        | Policy::Weighted { .. }
        | Policy::PeakEwma => {}
    }
    let Some(expectation) = view.ranked.expectation else {
        // Few at a time, until the first have answered.
        let tier = if view.in_flight < UNKNOWN_IN_FLIGHT_MOST { TRY } else { UNKNOWN };
        return (tier, f64::from(view.in_flight));
    };
    let seconds = seconds(&expectation, view, shape);
    match *policy {
        Policy::Cheapest { ttft_most, speed_least } => {
            let in_time = ttft_most.is_none_or(|most| expectation.ttft <= most);
            let quick = speed_least.is_none_or(|least| expectation.speed >= least);
            match view.usd {
                // A hair of time, so that the quicker one of two of the same price comes first.
                Some(usd) if in_time && quick => (KNOWN, usd + seconds * 1e-12),
                _ => (BELOW_LIMITS, seconds),
            }
        }
        Policy::Weighted { usd_per_second } => match view.usd {
            Some(usd) => (KNOWN, usd + seconds * usd_per_second),
            None => (BELOW_LIMITS, seconds),
        },
        Policy::Completion => {
            let own = expectation.completion_seconds(shape.output_tokens);
            (KNOWN, seconds * view.shared_seconds.unwrap_or(own) / own.max(f64::MIN_POSITIVE))
        }
        _ => (KNOWN, seconds),
    }
}

/// Expected time to the end; a lane that fails is worth as much less as it has to be asked again.
fn seconds(expectation: &Expectation, view: &View, shape: &CallShape) -> f64 {
    expectation.completion_seconds(shape.output_tokens) / (1.0 - view.failing.min(0.95))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::LaneId;

    const SHAPE: CallShape = CallShape { prompt_tokens: 1_000, output_tokens: 200.0 };

    /// A lane that takes 1 s to its first token and 2 s for 200 more.
    fn view(failing: f64, shared_seconds: Option<f64>) -> View {
        let second = Span::from_secs(1);
        let expectation = Expectation { ttft: second, ttft_p50: second, ttft_p90: second, speed: 100.0, weight: 9.0 };
        View {
            ranked: Ranked { lane: LaneId(0), usable: true, expectation: Some(expectation) },
            in_flight: 0,
            usd: Some(0.01),
            shared_seconds,
            failing,
            peak: 0.0,
            latency: None,
            turn: 0,
        }
    }

    #[track_caller]
    fn scores(view: &View, policy: &Policy, expected: f64) {
        let (tier, found) = score(view, 0, &SHAPE, policy);
        assert!(tier == KNOWN && (found - expected).abs() < 1e-9, "{found} of tier {tier} instead of {expected}");
    }

    #[test]
    fn a_lane_of_which_half_the_calls_fail_takes_twice_as_long_and_never_more_than_twenty_times() {
        scores(&view(0.0, None), &Policy::OwnCompletion, 3.0);
        scores(&view(0.5, None), &Policy::OwnCompletion, 6.0);
        scores(&view(0.999, None), &Policy::OwnCompletion, 60.0);
        scores(&view(0.5, None), &Policy::Weighted { usd_per_second: 0.1 }, 0.01 + 0.6);
    }

    #[test]
    fn what_a_call_costs_the_others_stands_in_the_place_of_its_own_time() {
        scores(&view(0.0, Some(4.5)), &Policy::Completion, 4.5);
        scores(&view(0.5, Some(4.5)), &Policy::Completion, 9.0);
        scores(&view(0.5, None), &Policy::Completion, 6.0);
        scores(&view(0.0, Some(4.5)), &Policy::OwnCompletion, 3.0);
    }
}
