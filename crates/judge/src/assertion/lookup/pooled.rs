//! The values of several rounds at one load: those of their requests together, as in the table of a report.
//!
//! Invariant: a value that cannot be had from the rounds' figures is known to lie between the least and the most of them, and no
//! more is said.

use super::{
    Group, Lookup, Source, Subject, audio, find_count, find_quantile, find_time, find_valid, inverted, maybe,
    speed_level,
};
use tokrate_record::Metric;
use tokrate_record::run::{PhaseResult, Rounds};

/// The value of all rounds together.
pub(super) fn find(subject: Subject, statistic: &str, rounds: &Rounds<'_>) -> Lookup {
    match (subject.source(), statistic) {
        (Source::Times(of), _) => {
            let times = match subject {
                // Failures count in these, those of a round without an answer too.
                Subject::Adjusted(_) => rounds.with_failures(of),
                _ => rounds.distribution(of),
            };
            times.map_or_else(|| missing(subject, rounds), |times| find_time(&times, statistic))
        }
        (Source::Speeds(of), "n") => sum(rounds, |phase| of(phase).n),
        (Source::Speeds(_), _) if subject.metric() == Some(Metric::OutputSpeed) => {
            find_speed(subject, statistic, rounds)
        }
        (Source::Throughput, "peak_tokens_per_second") => {
            let windows = rounds.phases.iter().filter_map(|phase| phase.throughput.as_ref());
            let peak = windows.map(|window| window.peak_tokens_per_second).reduce(f64::max);
            maybe(peak, "there is no steady window")
        }
        (Source::Throughput, "output_tokens_per_second" | "tokens_per_second") => {
            maybe(rounds.throughput(), "there is no steady window")
        }
        (Source::Rate(of), _) => maybe(rounds.rate(subject.rate(of, statistic)), "there is no steady window"),
        (Source::Items, "items_per_second") => maybe(rounds.item_throughput(), "there is no steady window"),
        (Source::Group(group), _) => find_in_group(subject, group, statistic, rounds),
        (Source::Speeds(_) | Source::Throughput | Source::Items, _) => between_rounds(subject, statistic, rounds),
    }
}

fn find_in_group(subject: Subject, group: Group, statistic: &str, rounds: &Rounds<'_>) -> Lookup {
    let counts = rounds.counts();
    let has_objective = || rounds.phases.iter().any(|phase| phase.goodput.is_some());
    match (group, statistic) {
        (Group::Failures, "share") => maybe(counts.failed_share(), "no request was started"),
        (Group::Failures, _) => Lookup::Value(counts.failed as f64),
        (Group::RateLimited, "share") => maybe(counts.rate_limited_share(), "no request was started"),
        (Group::RateLimited, _) => Lookup::Value(counts.rate_limited as f64),
        (Group::WordErrors, _) => audio::find_errors(&rounds.phases, statistic),
        (Group::Valid, _) => find_valid(rounds.valid(), statistic),
        (Group::Counts, _) => Lookup::Value(find_count(&counts, statistic) as f64),
        (Group::Goodput, "share") if has_objective() => maybe(rounds.goodput_share(), "too few requests were judged"),
        (Group::Goodput, "met") if has_objective() => Lookup::Value(rounds.goodput_counts().0 as f64),
        (Group::Goodput, "of") if has_objective() => Lookup::Value(rounds.goodput_counts().2 as f64),
        (Group::Concurrency, "peak") => {
            let peak = rounds.phases.iter().map(|phase| phase.concurrency.peak).max();
            maybe(peak.map(f64::from), "no request was sent")
        }
        (Group::Tokens, "std") => sum(rounds, |phase| phase.tokens.std),
        (Group::Tokens, "reported") => {
            let reported = rounds.phases.iter().filter_map(|phase| phase.tokens.reported).reduce(|a, b| a + b);
            maybe(reported.map(|tokens| tokens as f64), "the provider reported no tokens")
        }
        (Group::Goodput | Group::Concurrency | Group::Tokens, _) => between_rounds(subject, statistic, rounds),
    }
}

fn find_speed(subject: Subject, statistic: &str, rounds: &Rounds<'_>) -> Lookup {
    let found = match speed_level(statistic) {
        Some(level) => rounds.times(Metric::Tpot).map(|tpot| inverted(find_quantile(&tpot, level))),
        None => mean_speed(rounds).map(Lookup::Value),
    };
    found.unwrap_or_else(|| missing(subject, rounds))
}

/// The mean of all requests that have an output speed; `None` if none has one, or a round lacks its mean.
fn mean_speed(rounds: &Rounds<'_>) -> Option<f64> {
    let (mut total, mut n) = (0.0, 0);
    for speed in rounds.phases.iter().map(|phase| &phase.output_speed).filter(|speed| speed.n > 0) {
        total += speed.mean? * speed.n as f64;
        n += speed.n;
    }
    (n > 0).then(|| total / n as f64)
}

/// From the least to the most of the rounds, of what is a mean or a percentile of the requests of each.
fn between_rounds(subject: Subject, statistic: &str, rounds: &Rounds<'_>) -> Lookup {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for phase in rounds.phases.iter().filter(|phase| phase.counts.answered > 0) {
        match subject.find_in(statistic, phase) {
            Lookup::Value(value) => (low, high) = (low.min(value), high.max(value)),
            Lookup::Between { low: least, high: most, .. } => (low, high) = (low.min(least), high.max(most)),
            other => return other,
        }
    }
    if low > high {
        return missing(subject, rounds);
    }
    Lookup::Between { low, high, reason: "known of each round, not of all their requests together".to_owned() }
}

fn missing(subject: Subject, rounds: &Rounds<'_>) -> Lookup {
    let reason = subject.metric().and_then(|metric| rounds.missing_reason(metric));
    Lookup::Missing(reason.unwrap_or_else(|| "no request has it".to_owned()))
}

fn sum(rounds: &Rounds<'_>, of: impl Fn(&PhaseResult) -> u64) -> Lookup {
    Lookup::Value(rounds.count(of) as f64)
}
