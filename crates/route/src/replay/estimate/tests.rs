//! Tests of the estimates of one call: its neighbours, and races and hedges against an enumeration of all combinations.

use super::*;
use tokrate_core::{Money, Price, Span};

/// Prices of three lanes, powers of two apart, so that no two sums of them are the same.
static PRICES: [LaneConfig; 3] = [price(1, 16), price(2, 32), price(4, 64)];

/// In dollars for a million tokens.
const fn price(input: u128, output: u128) -> LaneConfig {
    const USD: u128 = 1_000_000_000_000;
    let (input, output) = (Money::from_pico_usd(input * USD), Money::from_pico_usd(output * USD));
    LaneConfig {
        price: Some(Price {
            input,
            output,
            cached_input: None,
            cache_write: None,
            audio_input: None,
            audio_cached: None,
            audio_output: None,
        }),
        max_in_flight: None,
    }
}

const SHAPE: CallShape = CallShape { prompt_tokens: 500_000, output_tokens: 100.0 };

/// A lane by the times to the first token and the seconds per token of its attempts, the quickest first.
fn lane(place: usize, failure_rate: f64, attempts: &[(f64, f64)]) -> Neighbours<'static> {
    let neighbour = |(call_index, &(ttft, tpot)): (usize, &(f64, f64))| Neighbour { ttft, tpot, call_index };
    Neighbours { attempts: attempts.iter().enumerate().map(neighbour).collect(), failure_rate, price: &PRICES[place] }
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * other.abs().max(1.0)
}

/// Time to the end, time to the first token, cost.
fn statistics(outcome: &PossibleOutcome) -> [f64; 3] {
    [outcome.completion(), outcome.ttft, outcome.usd.expect("priced")]
}

/// The outcome if the lane answers like the given attempt, computed independently.
fn answered(lanes: &[Neighbours<'_>], place: usize, attempt: usize, ttft: f64, lost: &[usize]) -> [f64; 3] {
    let own = lanes[place].attempts[attempt];
    let completion = (ttft + 100.0 * own.tpot) / (1.0 - lanes[place].failure_rate);
    let dollars = |lane: usize| f64::from(1 << lane);
    let prompts: f64 = lost.iter().map(|lane| 0.5 * dollars(*lane)).sum();
    [completion, ttft, 0.5 * dollars(place) + 100.0 * 16.0 * dollars(place) / 1e6 + prompts]
}

/// Every way to draw one attempt of each lane.
fn draws(lanes: &[Neighbours<'_>]) -> Vec<Vec<usize>> {
    lanes.iter().fold(vec![Vec::new()], |drawn, lane| {
        let longer = |draw: &Vec<usize>| -> Vec<Vec<usize>> {
            (0..lane.attempts.len()).map(|next| [draw.as_slice(), &[next]].concat()).collect()
        };
        drawn.iter().flat_map(longer).collect()
    })
}

/// What comes of a race if each lane does what was drawn of it: the quickest answers, and two of the same time by halves.
fn raced(lanes: &[Neighbours<'_>], draw: &[usize]) -> [f64; 3] {
    let ttft = |place: usize| lanes[place].attempts[draw[place]].ttft;
    let least = (0..lanes.len()).map(ttft).fold(f64::MAX, f64::min);
    let first: Vec<usize> = (0..lanes.len()).filter(|place| ttft(*place) <= least).collect();
    let mut sum = [0.0; 3];
    for place in &first {
        let lost: Vec<usize> = (0..lanes.len()).filter(|other| other != place).collect();
        let own = answered(lanes, *place, draw[*place], least, &lost);
        (0..3).for_each(|which| sum[which] += own[which] / first.len() as f64);
    }
    sum
}

/// What comes of a hedge: the second lane is asked once the first has had `after` seconds.
fn hedged(lanes: &[Neighbours<'_>], draw: &[usize], after: f64) -> [f64; 3] {
    let (own, late) = (lanes[0].attempts[draw[0]].ttft, after + lanes[1].attempts[draw[1]].ttft);
    match (own <= after, own < late) {
        (true, _) => answered(lanes, 0, draw[0], own, &[]),
        (false, true) => answered(lanes, 0, draw[0], own, &[1]),
        (false, false) => answered(lanes, 1, draw[1], late, &[0]),
    }
}

fn mean(of: impl Iterator<Item = [f64; 3]>) -> [f64; 3] {
    let all: Vec<[f64; 3]> = of.collect();
    std::array::from_fn(|which| all.iter().map(|values| values[which]).sum::<f64>() / all.len() as f64)
}

/// Holds a way to ask against all draws: the means over them, and those over all in which a lane does a certain thing.
fn check(strategy: Strategy, lanes: &[Neighbours<'_>], attempts: f64, comes: &dyn Fn(&[usize]) -> [f64; 3]) {
    let (mut shares, mut sums) = (0.0, [0.0; 3]);
    let asked = outcomes(strategy, lanes, &SHAPE, &mut |share, outcome| {
        shares += share;
        (0..3).for_each(|which| sums[which] += share * statistics(outcome)[which]);
    });
    let drawn = draws(lanes);
    let all = mean(drawn.iter().map(|draw| comes(draw)));
    assert!(near(asked, attempts) && near(shares, 1.0), "{asked} attempts, {shares} in all");
    assert!((0..3).all(|which| near(sums[which], all[which])), "{sums:?} and not {all:?}");
    let projected = projections(strategy, lanes, &SHAPE, &statistics);
    assert_eq!(projected.len(), lanes.len());
    for (place, lane) in lanes.iter().enumerate() {
        assert_eq!(projected[place].len(), lane.attempts.len());
        for (attempt, found) in projected[place].iter().enumerate() {
            let known = mean(drawn.iter().filter(|draw| draw[place] == attempt).map(|draw| comes(draw)));
            let same = (0..3).all(|which| near(found[which], known[which]));
            assert!(same, "lane {place}, attempt {attempt}: {found:?} and not {known:?}");
        }
    }
}

#[test]
fn a_race_is_the_mean_over_all_combinations() {
    // The first two lanes may come at the same moment; the second has done the same twice.
    let lanes = [
        lane(0, 0.25, &[(0.5, 0.01), (1.0, 0.02), (3.0, 0.005)]),
        lane(1, 0.0, &[(0.25, 0.04), (1.0, 0.03), (1.0, 0.01), (4.0, 0.002)]),
        lane(2, 0.5, &[(0.75, 0.02), (2.0, 0.001)]),
    ];
    for count in 1..=3 {
        check(Strategy::Race, &lanes[..count], count as f64, &|draw| raced(&lanes[..count], draw));
    }
}

#[test]
fn the_fastest_lane_answers_and_the_others_are_billed_for_their_prompts() {
    let lanes = [lane(0, 0.0, &[(2.0, 0.01)]), lane(1, 0.5, &[(1.0, 0.02)]), lane(2, 0.0, &[(3.0, 0.01)])];
    let mut outcome = Vec::new();
    outcomes(Strategy::Race, &lanes, &SHAPE, &mut |share, one| outcome.push((share, statistics(one))));
    // Half a million tokens of prompt at 1, 2 and 4 USD a million, and a hundred of answer at 32: 3.5032 USD. Half of its
    // tries fail, so its 3 s become 6.
    let likely: Vec<_> = outcome.iter().filter(|(share, _)| *share > 0.0).collect();
    let [(share, [completion, ttft, usd])] = likely[..] else { panic!("{outcome:?}") };
    assert!(near(*share, 1.0) && near(*completion, 6.0) && near(*ttft, 1.0) && near(*usd, 3.5032), "{outcome:?}");
}

#[test]
fn a_hedge_is_the_mean_over_all_combinations() {
    // Of twenty times the 90th percentile is the eighteenth: 2 s. Two are slower.
    let quick = (1..=18).map(|n| (f64::from(n) / 9.0, 0.001 * f64::from(n)));
    let first: Vec<(f64, f64)> = quick.chain([(3.0, 0.05), (5.0, 0.01)]).collect();
    // After those 2 s the second lane beats both, only the slowest, or none of them.
    let second = [(0.5, 0.02), (1.25, 0.04), (8.0, 0.01)];
    let lanes = [lane(0, 0.2, &first), lane(1, 0.5, &second)];
    check(Strategy::Hedge, &lanes, 1.1, &|draw| hedged(&lanes, draw, 2.0));
}

#[test]
fn completion_times_of_a_failing_lane_follow_its_tries() {
    let outcome = PossibleOutcome { ttft: 0.5, per_try: 2.0, failure_rate: 0.75, usd: None };
    assert!(near(outcome.completion(), 8.0));
    let shares = [(0.0, 0.0), (1.99, 0.0), (2.0, 0.25), (3.99, 0.25), (4.0, 0.4375), (6.5, 0.578_125)];
    for (seconds, share) in shares {
        assert!(near(outcome.probability_by(seconds), share), "{seconds} s: {}", outcome.probability_by(seconds));
    }
    let ends: Vec<(f64, f64)> = outcome.completion_times().collect();
    // 1/4 at once, 3/16 the second time, 9/64 the third; what is left after many is not lost.
    for (place, (share, seconds)) in [(0.25, 2.0), (0.1875, 4.0), (0.140_625, 6.0)].into_iter().enumerate() {
        assert!(near(ends[place].0, share) && near(ends[place].1, seconds), "{ends:?}");
    }
    assert!(near(ends.iter().map(|(share, _)| share).sum(), 1.0), "{ends:?}");
}

#[test]
fn a_lane_that_never_fails_needs_one_try() {
    let outcome = PossibleOutcome { ttft: 0.5, per_try: 2.0, failure_rate: 0.0, usd: None };
    assert_eq!(outcome.completion_times().collect::<Vec<_>>(), [(1.0, 2.0)]);
    assert!(
        near(outcome.probability_by(1.99), 0.0)
            && near(outcome.probability_by(2.0), 1.0)
            && near(outcome.completion(), 2.0)
    );
}

fn at(milliseconds: u64) -> Tick {
    Tick::ZERO + Span::from_millis(milliseconds)
}

/// An answered call of one attempt on the first lane.
fn row(call: u64, milliseconds: u64, ttft: f64, speed: Option<f64>) -> LoggedAttempt {
    LoggedAttempt {
        call,
        lane: LaneId(0),
        started: at(milliseconds),
        stream: true,
        ttft: Some(Span::from_secs_f64(ttft)),
        total: Span::from_secs_f64(ttft + 1.0),
        prompt_tokens: 1_000,
        output_tokens: 100,
        output_speed: speed,
        usd: None,
        failure: None,
        won: true,
    }
}

fn config(seconds: u64, min_neighbours: usize) -> ReplayConfig {
    ReplayConfig { window: Span::from_secs(seconds), min_neighbours }
}

#[test]
fn neighbours_lie_within_the_window_and_exclude_the_call_itself() {
    let starts = [89_999, 90_000, 95_000, 100_000, 110_000, 110_001];
    let rows: Vec<LoggedAttempt> =
        (0..6).map(|call| row(call, starts[call as usize], 6.0 - call as f64, Some(10.0))).collect();
    let measured = LaneHistories::new(&rows, &PRICES[..2], &config(10, 1));
    let found = measured.near(LaneId(0), at(100_000), 3).expect("neighbours");
    // By their times to the first token, the quickest first.
    let log_calls: Vec<(usize, f64)> =
        found.attempts().iter().map(|attempt| (attempt.call_index, attempt.ttft)).collect();
    assert_eq!(log_calls, [(4, 2.0), (2, 4.0), (1, 5.0)]);
    assert!(measured.near(LaneId(1), at(100_000), 3).is_none(), "nothing was measured there");
    assert!(measured.near(LaneId(9), at(100_000), 3).is_none(), "no such lane");
}

#[test]
fn an_attempt_without_a_speed_gets_the_mean_time_per_token_of_the_others() {
    let speeds = [Some(10.0), None, Some(50.0), Some(0.0)];
    let rows: Vec<LoggedAttempt> =
        (0..4).map(|call| row(call, call, 1.0 + call as f64, speeds[call as usize])).collect();
    let measured = LaneHistories::new(&rows, &PRICES[..1], &config(10, 2));
    let found = measured.near(LaneId(0), at(5), 4).expect("neighbours");
    // A tenth and a fiftieth of a second per token: 0.06 s on average. No speed at all is as good as none.
    let tpots: Vec<f64> = found.attempts().iter().map(|attempt| attempt.tpot).collect();
    assert!(tpots.iter().zip([0.1, 0.06, 0.02, 0.06]).all(|(found, known)| near(*found, known)), "{tpots:?}");
}

#[test]
fn a_lane_needs_the_minimum_number_of_neighbours() {
    let mut rows: Vec<LoggedAttempt> = (0..4).map(|call| row(call, call, 1.0, Some(10.0))).collect();
    let enough = |rows: &[LoggedAttempt], least: usize| {
        LaneHistories::new(rows, &PRICES[..1], &config(10, least)).near(LaneId(0), at(5), 9).is_some()
    };
    assert_eq!([3, 4, 5].map(|least| enough(&rows, least)), [true, true, false]);
    rows[0].output_speed = None;
    assert_eq!([2, 3, 4].map(|least| enough(&rows, least)), [true, true, false]);
    rows[1].ttft = None;
    rows[2].ttft = None;
    assert_eq!([1, 2, 3].map(|least| enough(&rows, least)), [true, true, false]);
    assert!(!enough(&[], 0), "of nothing nothing is estimated");
}

#[test]
fn the_failure_rate_is_that_of_the_neighbours_without_lost_races() {
    let mut rows: Vec<LoggedAttempt> = (0..5).map(|call| row(call, call, 1.0, Some(10.0))).collect();
    rows[1].failure = Some(FailureKind::Truncated);
    rows[3].failure = Some(FailureKind::Cancelled);
    let failure_rate = |rows: &[LoggedAttempt]| {
        LaneHistories::new(rows, &PRICES[..1], &config(10, 1))
            .near(LaneId(0), at(5), 9)
            .expect("neighbours")
            .failure_rate
    };
    assert!(near(failure_rate(&rows), 0.2));
    // A lane that always fails would never end: it is taken to answer one time in twenty.
    rows.iter_mut().for_each(|row| row.failure = Some(FailureKind::Truncated));
    assert!(near(failure_rate(&rows), 0.95));
}
