//! What a run with `--until` is still expected to ask for, by what its requests have asked and taken so far.
//!
//! Invariant: a number is there only if requests were measured that it is made of.

use super::{Basis, Level};
use tokrate_record::run::{Rounds, by_load};
use tokrate_record::{PrecisionStatus, Record};

/// The rest of the run; `None` where nothing is left, or nobody knows how much.
pub fn remaining(record: &Record) -> Option<Level> {
    let until = record.until.as_ref()?;
    let loads = by_load(&record.phases);
    let more_at = |rounds: &Rounds<'_>| {
        let open =
            until.conditions.iter().filter(|it| it.status == PrecisionStatus::NotReached && it.phase == rounds.name());
        open.map(|outcome| outcome.more_requests).collect::<Option<Vec<u64>>>()?.into_iter().max()
    };
    let levels: Vec<Level> =
        loads.iter().filter_map(|rounds| Some(of_level(record, rounds, more_at(rounds)?))).collect();
    (!levels.is_empty()).then(|| Level { basis: Basis::About, ..Level::sum("more".to_owned(), &levels) })
}

fn of_level(record: &Record, rounds: &Rounds<'_>, more: u64) -> Level {
    let measured = rounds.count(|phase| phase.counts.measured).max(1) as f64;
    let started = rounds.count(|phase| phase.counts.started).max(1) as f64;
    // Warm-up is sent again with every round.
    let requests = more as f64 * started / measured;
    let share = requests / started;
    let nanos = rounds.count(|phase| phase.ended_at_ns - phase.started_at_ns) as f64;
    let output = rounds.count(|phase| phase.tokens.std_of_all) as f64;
    let input = rounds.phases.iter().map(|phase| phase.input_tokens.asked_mean).collect::<Option<Vec<f64>>>();
    let input = input.filter(|means| !means.is_empty()).map(|means| means.iter().sum::<f64>() / means.len() as f64);
    let all_started: u64 = record.phases.iter().map(|phase| phase.counts.started).sum();
    let usd = record.spending.map(|spending| spending.usd * requests / all_started.max(1) as f64);
    Level {
        name: rounds.name().to_owned(),
        basis: Basis::About,
        requests: Some(requests),
        input_tokens: input.map(|mean| mean * requests),
        output_tokens: Some(output * share),
        usd,
        seconds: Some(nanos / 1e9 * share),
        by_mean_lengths: true,
    }
}
