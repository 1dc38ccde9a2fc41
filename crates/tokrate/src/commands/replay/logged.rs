//! Rows of the log in the form that the replay reads, with the prices that they came to.
//!
//! Invariant: a call of which the first attempt is not among the rows is left out whole; a price is only given if the
//! costs of its lane follow it.

use std::collections::BTreeMap;
use tokrate_core::{FailureKind, Price, Span, Tick};
use tokrate_record::AttemptEnd;
use tokrate_record::CostBasis;
use tokrate_route::{LaneConfig, LaneId, LoggedAttempt};
use tokrate_store::Attempt;

/// The costs of a lane follow a price if they are within this of it (root mean square, as a share).
const MAX_PRICE_ERROR: f64 = 0.05;
/// Fewer costs are too few to find a price from.
const MIN_COSTS: usize = 5;
/// Bytes of a request for each token of its prompt, where nothing better is known.
const BYTES_PER_TOKEN: u64 = 4;

/// A log as the replay reads it.
#[derive(Default)]
pub struct Logged {
    /// The attempts, call by call.
    pub rows: Vec<LoggedAttempt>,
    /// The lanes, with prices where their costs follow one.
    pub lanes: Vec<LaneConfig>,
    /// Time to the first token of each answered call (ms), rising.
    pub ttft_ms: Vec<f64>,
    /// Time to the end of each answered call (ms), rising.
    pub completion_ms: Vec<f64>,
    /// Time to each answer that came in one piece (ms), rising.
    pub answer_ms: Vec<f64>,
}

impl Logged {
    /// Of the rows of one name; `lanes` are the names of those that can be chosen.
    pub fn new(rows: &[Attempt], lanes: &[String]) -> Logged {
        let mut calls: BTreeMap<&str, Vec<&Attempt>> = BTreeMap::new();
        for row in rows {
            calls.entry(&row.call).or_default().push(row);
        }
        let mut calls: Vec<Vec<&Attempt>> = calls.into_values().collect();
        calls.iter_mut().for_each(|call| call.sort_by_key(|row| (row.sample.started_unix_ms, row.attempt)));
        calls.retain(|call| call.iter().any(|row| row.attempt == 0));
        calls.sort_by_key(|call| call[0].sample.started_unix_ms);
        let begin = calls.first().map_or(0, |call| call[0].sample.started_unix_ms);
        let mut logged = Logged { rows: Vec::new(), lanes: Vec::new(), ..Logged::default() };
        let mut costs: Vec<Vec<Cost>> = lanes.iter().map(|_| Vec::new()).collect();
        for (number, call) in calls.iter().enumerate() {
            let prompt_tokens = prompt_tokens(call);
            for row in call {
                let place = lanes.iter().position(|lane| *lane == row.lane);
                if let (Some(place), Some(cost)) = (place, Cost::of(row, prompt_tokens)) {
                    costs[place].push(cost);
                }
                // A lane that cannot be chosen has a number that none has.
                let lane = LaneId(place.map_or(u32::MAX, |place| place as u32));
                logged.rows.push(attempt(row, number as u64, lane, begin, prompt_tokens));
            }
            logged.add_times(call);
        }
        logged.lanes = costs.iter().map(|costs| price(costs)).collect();
        logged.ttft_ms.sort_by(f64::total_cmp);
        logged.completion_ms.sort_by(f64::total_cmp);
        logged.answer_ms.sort_by(f64::total_cmp);
        logged
    }

    fn add_times(&mut self, call: &[&Attempt]) {
        let Some(answered) = call.iter().find(|row| row.won && row.end == AttemptEnd::Answered) else { return };
        let waited = (answered.sample.started_unix_ms - call[0].sample.started_unix_ms) as f64;
        self.ttft_ms.extend(ttft(answered).map(|ttft| waited + ttft.as_millis_f64()));
        self.answer_ms.extend(answered.sample.answer_ns.map(|answer| answer as f64 / 1e6));
        self.completion_ms.push(waited + answered.sample.total_ns as f64 / 1e6);
    }

    /// Attempts that were given up before their first output.
    pub fn given_up_early(&self) -> usize {
        let given_up = |row: &&LoggedAttempt| row.failure == Some(FailureKind::Cancelled) && row.ttft.is_none();
        self.rows.iter().filter(given_up).count()
    }

    /// For each lane its attempts, and those of which a TTFT and an output speed are known.
    pub fn measurable(&self) -> Vec<(usize, usize)> {
        let of = |place: usize| self.rows.iter().filter(move |row| row.lane == LaneId(place as u32));
        let measured = |row: &&LoggedAttempt| row.ttft.is_some() && row.output_speed.is_some();
        (0..self.lanes.len()).map(|place| (of(place).count(), of(place).filter(measured).count())).collect()
    }
}

fn attempt(row: &Attempt, call: u64, lane: LaneId, begin: u64, prompt_tokens: u64) -> LoggedAttempt {
    let failure = match row.end {
        AttemptEnd::Answered => None,
        AttemptEnd::Failed => Some(row.sample.failure.unwrap_or(FailureKind::Truncated)),
        // Neither is the lane's fault.
        AttemptEnd::Lost | AttemptEnd::Abandoned => Some(FailureKind::Cancelled),
    };
    LoggedAttempt {
        call,
        lane,
        started: Tick::ZERO + Span::from_millis(row.sample.started_unix_ms - begin),
        // A stream may be asked for and the answer come in one piece all the same.
        stream: row.sample.stream && row.sample.answer_ns.is_none(),
        ttft: ttft(row),
        total: Span::from_nanos(row.sample.total_ns),
        prompt_tokens,
        // Those that the output speed is measured in.
        output_tokens: row.sample.output_tokens_std,
        output_speed: row.sample.output_speed,
        usd: row.sample.cost_usd.or((row.sample.cost_basis == CostBasis::Free).then_some(0.0)),
        failure,
        won: row.won,
    }
}

/// Begun to the first output: the log has it from the moment of sending.
fn ttft(row: &Attempt) -> Option<Span> {
    row.sample.ttft_ns.map(|ns| Span::from_nanos(ns + row.sample.wait_ns.unwrap_or(0)))
}

/// Tokens of a call's prompt: as reported of the attempt that won, of any other, as counted, or by the request's size.
fn prompt_tokens(call: &[&Attempt]) -> u64 {
    let won = call.iter().filter(|row| row.won).find_map(|row| row.sample.input_tokens);
    won.or_else(|| call.iter().find_map(|row| row.sample.input_tokens))
        .or_else(|| call.iter().find_map(|row| row.sample.input_tokens_std))
        .unwrap_or(call[0].sample.request_bytes.unwrap_or(0) / BYTES_PER_TOKEN)
}

/// What an answer cost, and for what.
#[derive(Clone, Copy)]
struct Cost {
    input: f64,
    output: f64,
    usd: f64,
}

impl Cost {
    fn of(row: &Attempt, prompt_tokens: u64) -> Option<Cost> {
        let plain = row.sample.cached_tokens.unwrap_or(0) == 0 && row.sample.cache_write_tokens.unwrap_or(0) == 0;
        let billed = matches!(row.sample.cost_basis, CostBasis::Reported | CostBasis::Estimated);
        let usd = row.sample.cost_usd.filter(|_| plain && billed && row.end == AttemptEnd::Answered)?;
        Some(Cost { input: prompt_tokens as f64, output: row.sample.output_tokens_std as f64, usd })
    }
}

/// The price that the costs follow, by least squares; none if they follow none, or if prompts and answers always stand in the
/// same proportion, so that the two prices cannot be separated.
fn price(costs: &[Cost]) -> LaneConfig {
    let sum = |of: fn(&Cost) -> f64| costs.iter().map(of).sum::<f64>();
    let spent = sum(|cost| cost.usd * cost.usd);
    let found = |input: f64, output: f64| LaneConfig {
        price: Price::from_usd_per_million(input * 1e6, output * 1e6),
        max_in_flight: None,
    };
    if costs.len() < MIN_COSTS {
        return LaneConfig::default();
    }
    if spent == 0.0 {
        return found(0.0, 0.0);
    }
    let (inputs, outputs) = (sum(|cost| cost.input * cost.input), sum(|cost| cost.output * cost.output));
    let both = sum(|cost| cost.input * cost.output);
    let (of_input, of_output) = (sum(|cost| cost.input * cost.usd), sum(|cost| cost.output * cost.usd));
    let determinant = inputs * outputs - both * both;
    if determinant <= 1e-6 * inputs * outputs {
        return LaneConfig::default();
    }
    let input = (of_input * outputs - of_output * both) / determinant;
    let output = (of_output * inputs - of_input * both) / determinant;
    let missed: f64 = costs.iter().map(|cost| (cost.usd - input * cost.input - output * cost.output).powi(2)).sum();
    let follows = input >= -1e-12 && output >= -1e-12 && missed <= MAX_PRICE_ERROR.powi(2) * spent;
    if follows { found(input.max(0.0), output.max(0.0)) } else { LaneConfig::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_record::Sample;

    fn costs(input: f64, output: f64, answer: impl Fn(u64) -> u64) -> Vec<Cost> {
        let cost = |n: u64| {
            let (prompt, answer) = (1_000 + n % 7 * 300, answer(n));
            let usd = (prompt as f64 * input + answer as f64 * output) / 1e6;
            Cost { input: prompt as f64, output: answer as f64, usd }
        };
        (0..50).map(cost).collect()
    }

    #[test]
    fn a_price_is_found_from_what_was_paid() {
        let lane = price(&costs(0.5, 8.0, |n| 100 + n % 5 * 40));
        let (input, output) = lane.price.map(|price| (price.input.as_usd(), price.output.as_usd())).expect("a price");
        assert!((input - 0.5).abs() < 1e-6 && (output - 8.0).abs() < 1e-6, "{input} {output}");
        assert_eq!(price(&costs(0.0, 0.0, |n| n)).price, Some(Price::default()));
    }

    #[test]
    fn a_price_that_cannot_be_separated_or_was_changed_is_unknown() {
        let proportional = costs(0.5, 8.0, |n| (1_000 + n % 7 * 300) / 10);
        let mut changed = costs(0.5, 8.0, |n| 100 + n % 5 * 40);
        changed.iter_mut().skip(25).for_each(|cost| cost.usd *= 3.0);
        let few = &costs(0.5, 8.0, |n| 100 + n % 5 * 40)[..4];
        for costs in [&proportional[..], &changed, few] {
            assert_eq!(price(costs), LaneConfig::default());
        }
    }

    #[test]
    fn a_call_whose_beginning_is_missing_is_left_out() {
        let row = |call: &str, attempt: u32, ms: u64| Attempt {
            call: call.to_owned(),
            attempt,
            lane: "a".to_owned(),
            won: true,
            sample: Sample {
                started_unix_ms: ms,
                wait_ns: Some(2_000_000),
                ttft_ns: Some(8_000_000),
                total_ns: 50_000_000,
                ..Sample::default()
            },
            ..Attempt::default()
        };
        let lost = Attempt { won: false, end: AttemptEnd::Lost, ..row("y", 0, 1_000) };
        let logged = Logged::new(&[row("x", 1, 990), row("y", 1, 1_300), lost], &["a".to_owned()]);
        let seen: Vec<_> = logged.rows.iter().map(|row| (row.call, row.started.as_nanos(), row.failure)).collect();
        assert_eq!(seen, [(0, 0, Some(FailureKind::Cancelled)), (0, 300_000_000, None)]);
        // The call waited 300 ms for the attempt that answered it, which waited 2 ms for a connection.
        assert_eq!((logged.ttft_ms, logged.completion_ms), (vec![310.0], vec![350.0]));
    }
}
