//! Sorts the lanes of a call by policy.
//!
//! Invariant: every candidate appears once, usable lanes before unusable ones; a lane without samples is tried a few times
//! instead of being ranked best or worst.

use crate::lane::LaneId;
use crate::lane_model::Expectation;
use crate::policy::Policy;
use tokrate_core::{Rng, Span};

/// What is known of a call before it is answered.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct CallShape {
    /// Tokens of its prompt.
    pub prompt_tokens: u64,
    /// Expected output tokens: the average of the alias, as [`crate::OutputLength`] keeps it, or a guess.
    pub output_tokens: f64,
}

/// A lane in the order.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ranked {
    /// Which one.
    pub lane: LaneId,
    /// Whether it may be used now: its breaker is not open and its cap not reached.
    pub usable: bool,
    /// What the call can expect of it; `None` if too little is known, or if there was nothing to choose from.
    pub expectation: Option<Expectation>,
    /// The same, or what was expected when it was last known, for at most an hour: better than nothing where lanes race.
    pub remembered: Option<Expectation>,
    /// Whether nothing is known of it but that it was given up a few times before it answered.
    pub is_silent: bool,
    /// Tokens of the prompt that are expected to be in its cache; `None` if no account of it is kept.
    pub cached_tokens: Option<u64>,
}

/// A lane at the time of a decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneView {
    pub ranked: Ranked,
    pub in_flight: u32,
    /// Expected cost of the call (USD).
    pub usd: Option<f64>,
    /// Seconds by which the first tokens of others come later for it, if its cache is kept account of.
    pub others_seconds: f64,
    /// Since when it has shown no first token, if its cache is kept account of.
    pub unheard: Span,
    /// Time that this call costs all calls of the lane together (seconds), if the policy needs it.
    pub marginal_seconds: Option<f64>,
    /// Recent share of failed calls.
    pub failure_rate: f64,
    /// Peak-EWMA load.
    pub peak: f64,
    /// Average latency (seconds); `None` before the first.
    pub latency: Option<f64>,
    /// Its position in the round-robin order.
    pub turn: u32,
    /// How long until it may be tried again (seconds), if it is unusable.
    pub wait: f64,
}

/// Tier, best first, and the score within it, lowest first.
type Rank = (u8, f64);

const EXPLORE: u8 = 0;
const KNOWN: u8 = 1;
const OVER_LIMITS: u8 = 2;
const UNKNOWN: u8 = 3;
const UNUSABLE: u8 = 4;
/// Calls that a lane without samples gets at once: enough to learn from, few enough not to bet on it.
const MAX_UNKNOWN_IN_FLIGHT: u32 = 2;

/// A lane that shows no first token for so long is tried by one of the calls that explore.
const LONG_UNHEARD: Span = Span::from_secs(30);
/// But not where it is expected to be so many times worse than the best: one call in a hundred then costs some 3 % at most.
const MOST_UNHEARD_SCORE: f64 = 4.0;

/// A product of new tokens and calls may be so many times the least: with twice agents lose what estimates gain them, with four times lanes
/// fill up with documents (docs/routing.md).
const MOST_OF_LEAST_PRODUCT: f64 = 3.0;
/// New tokens that a call has at least, as far as that goes: below, prompts differ by how their ends fall into blocks.
const LEAST_NEW_TOKENS: f64 = 64.0;

/// Sorts the lanes. `exploration` is the share of calls that go to a lane other than the best, to keep its estimate
/// current.
pub(crate) fn order(
    views: &mut [(Rank, LaneView)],
    shape: &CallShape,
    policy: &Policy,
    exploration: f64,
    rng: &mut Rng,
) {
    let all_unknown = views.iter().all(|(_, view)| view.ranked.expectation.is_none());
    let by_peak = matches!(policy, Policy::PeakEwma) || needs_model(policy) && all_unknown;
    for (place, (rank, view)) in views.iter_mut().enumerate() {
        *rank = match view.ranked.usable {
            false => (UNUSABLE, view.wait),
            true if by_peak => (KNOWN, view.peak),
            true => score(view, place, shape, policy),
        };
    }
    if matches!(policy, Policy::Cache) && !by_peak {
        set_back_what_computes_much_beside_many(views, shape);
    }
    views.sort_by(|(one, _), (other, _)| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
    let usable = views.partition_point(|(rank, _)| rank.0 < UNUSABLE);
    if by_peak {
        put_better_of_two_first(views, usable, rng);
    } else if needs_model(policy) && usable > 1 && views[0].0.0 != EXPLORE && rng.chance(exploration) {
        let chosen = 1 + rng.below(usable as u64 - 1) as usize;
        if let Some(unheard) = longest_unheard(&views[..usable]) {
            return views[..=unheard].rotate_right(1);
        }
        // Where a cache would be given up for it, nothing is learned that is worth as much.
        let cached = |place: usize| views[place].1.ranked.cached_tokens.unwrap_or(0);
        if cached(0) <= cached(chosen) + shape.prompt_tokens / 10 {
            views[..=chosen].rotate_right(1);
        }
    }
}

/// New tokens times calls, which is what LMETRIC (arXiv 2603.15202) goes by: it knows no times, so that no wrong estimate of them misleads it.
fn product(view: &LaneView, shape: &CallShape) -> f64 {
    let new = shape.prompt_tokens.saturating_sub(view.ranked.cached_tokens.unwrap_or(0)) as f64;
    new.max(LEAST_NEW_TOKENS) * f64::from(view.in_flight + 1)
}

/// Lanes of which the product is many times the least are no choice while there is another, whatever is expected of them: where prompts are so
/// long that caches and memory are full, expectations are wrong in the same way for many calls, which all go to the same lane.
fn set_back_what_computes_much_beside_many(views: &mut [(Rank, LaneView)], shape: &CallShape) {
    let known = views.iter().filter(|(rank, _)| rank.0 == KNOWN);
    let least = known.map(|(_, view)| product(view, shape)).fold(f64::MAX, f64::min);
    for (rank, view) in views.iter_mut().filter(|(rank, _)| rank.0 == KNOWN) {
        if product(view, shape) > MOST_OF_LEAST_PRODUCT * least {
            rank.0 = OVER_LIMITS;
        }
    }
}

/// The lane that has shown nothing for longest, if any has for long and is not taken to be much worse than the best: what is known of it
/// is of another time, and nothing else would ever tell, nor fill its cache.
fn longest_unheard(views: &[(Rank, LaneView)]) -> Option<usize> {
    let unheard = |place: &usize| views[*place].1.unheard;
    let most = views[0].0.1 * MOST_UNHEARD_SCORE;
    let is_candidate = |place: &usize| unheard(place) >= LONG_UNHEARD && views[*place].0 <= (KNOWN, most);
    (1..views.len()).filter(is_candidate).max_by_key(unheard)
}

fn needs_model(policy: &Policy) -> bool {
    matches!(
        policy,
        Policy::Completion | Policy::OwnCompletion | Policy::Cache | Policy::Cheapest { .. } | Policy::Weighted { .. }
    )
}

/// Moves the better of two random lanes to the front. They are sorted by load already.
fn put_better_of_two_first(views: &mut [(Rank, LaneView)], usable: usize, rng: &mut Rng) {
    if usable > 2 {
        let one = rng.below(usable as u64) as usize;
        let other = (one + 1 + rng.below(usable as u64 - 1) as usize) % usable;
        views[..=one.min(other)].rotate_right(1);
    }
}

fn score(view: &LaneView, place: usize, shape: &CallShape, policy: &Policy) -> Rank {
    match policy {
        Policy::Fixed => return (KNOWN, place as f64),
        Policy::RoundRobin => return (KNOWN, f64::from(view.turn)),
        Policy::LeastBusy => return (KNOWN, f64::from(view.in_flight)),
        Policy::LowestLatency => return (KNOWN, view.latency.unwrap_or(0.0)),
        Policy::Completion
        | Policy::OwnCompletion
        | Policy::Cache
        | Policy::Cheapest { .. }
        | Policy::Weighted { .. }
        | Policy::PeakEwma => {}
    }
    let Some(expectation) = view.ranked.expectation else {
        // A few at a time, until the first have answered.
        let tier = if view.in_flight < MAX_UNKNOWN_IN_FLIGHT { EXPLORE } else { UNKNOWN };
        return (tier, f64::from(view.in_flight));
    };
    let seconds = seconds(&expectation, view, shape);
    match *policy {
        Policy::Cheapest { max_ttft, min_speed } => {
            let in_time = max_ttft.is_none_or(|most| expectation.ttft <= most);
            let quick = min_speed.is_none_or(|least| expectation.speed >= least);
            match view.usd {
                // A negligible term for time, so that the faster of two lanes with equal prices comes first.
                Some(usd) if in_time && quick => (KNOWN, usd + seconds * 1e-12),
                _ => (OVER_LIMITS, seconds),
            }
        }
        Policy::Weighted { usd_per_second } => match view.usd {
            Some(usd) => (KNOWN, usd + seconds * usd_per_second),
            None => (OVER_LIMITS, seconds),
        },
        Policy::Completion => {
            let own = expectation.completion_seconds(shape.output_tokens);
            (KNOWN, seconds * view.marginal_seconds.unwrap_or(own) / own.max(f64::MIN_POSITIVE))
        }
        Policy::Cache => {
            let first = expectation.ttft.as_secs_f64() + view.others_seconds;
            (KNOWN, first / (1.0 - view.failure_rate.min(0.95)))
        }
        _ => (KNOWN, seconds),
    }
}

/// Expected completion time, divided by the success rate: a failed call has to be retried.
fn seconds(expectation: &Expectation, view: &LaneView, shape: &CallShape) -> f64 {
    expectation.completion_seconds(shape.output_tokens) / (1.0 - view.failure_rate.min(0.95))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::LaneId;

    const SHAPE: CallShape = CallShape { prompt_tokens: 1_000, output_tokens: 200.0 };

    /// A lane that takes 1 s to its first token and 2 s for 200 more.
    fn view(failure_rate: f64, marginal_seconds: Option<f64>) -> LaneView {
        let second = Span::from_secs(1);
        let expectation = Expectation { ttft: second, ttft_p50: second, ttft_p90: second, speed: 100.0, weight: 9.0 };
        LaneView {
            ranked: Ranked {
                lane: LaneId(0),
                usable: true,
                expectation: Some(expectation),
                remembered: None,
                is_silent: false,
                cached_tokens: None,
            },
            in_flight: 0,
            usd: Some(0.01),
            others_seconds: 0.0,
            unheard: Span::ZERO,
            marginal_seconds,
            failure_rate,
            peak: 0.0,
            latency: None,
            turn: 0,
            wait: 0.0,
        }
    }

    #[track_caller]
    fn scores(view: &LaneView, policy: &Policy, expected: f64) {
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

    #[test]
    fn a_lane_that_computes_much_beside_many_calls_is_no_choice_however_early_a_first_token_is_expected() {
        let beside = |lane: u32, calls: u32, cached: u64, ttft: Span| {
            let mut view = view(0.0, None);
            view.in_flight = calls;
            view.ranked.lane = LaneId(lane);
            view.ranked.cached_tokens = Some(cached);
            view.ranked.expectation = view.ranked.expectation.map(|expectation| Expectation { ttft, ..expectation });
            ((0, 0.0), view)
        };
        let first = |views: [(Rank, LaneView); 2]| {
            let mut views = views;
            order(&mut views, &SHAPE, &Policy::Cache, 0.0, &mut Rng::root(1));
            views[0].1.ranked.lane.0
        };
        let (early, late) = (Span::from_millis(100), Span::from_secs(1));
        assert_eq!(first([beside(0, 1, 0, late), beside(1, 4, 0, early)]), 1, "two and a half times the calls");
        assert_eq!(first([beside(0, 1, 0, late), beside(1, 19, 0, early)]), 0, "ten times the calls");
        assert_eq!(first([beside(0, 1, 0, late), beside(1, 19, 900, early)]), 1, "and a tenth of the tokens");
    }
}
