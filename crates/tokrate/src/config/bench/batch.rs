//! Batches of requests: which flags go with them, and what they cost.
//!
//! Invariant: a price that is not that of batches is not taken for one.

use crate::config::file::File;
use crate::config::quantity;
use crate::flags::bench::{Flags, Request, Task};
use anyhow::{Context, Result, ensure};
use tokrate_bench::plan::{Extent, PhaseSpec};
use tokrate_bench::{BatchOptions, Target};
use tokrate_core::{Money, Price, Span};
use tokrate_record::TargetPrice;

/// From one question after a batch to the next where nobody says.
const DEFAULT_POLL: Span = Span::from_secs(1);
/// The longest time of a batch where nobody says: the day that providers promise, and an hour.
const TOTAL: Span = Span::from_secs(25 * 3_600);

/// How batches are carried out, if requests are sent as such.
pub(super) fn asked(flags: &Request) -> Result<Option<BatchOptions>> {
    let is_batch = flags.task == Some(Task::Batch);
    for (flag, is_given) in [("--poll", flags.batches.poll.is_some()), ("--keep", flags.batches.keep)] {
        ensure!(is_batch || !is_given, "read {flag}: it belongs to --task batch; give that too");
    }
    if !is_batch {
        return Ok(None);
    }
    let poll = flags.batches.poll.as_deref().map(quantity::span).transpose().context("read --poll")?;
    let poll = poll.unwrap_or(DEFAULT_POLL);
    ensure!(
        poll >= Span::from_millis(10) && poll <= Span::from_secs(3_600),
        "read --poll: {poll} is not between 10 ms and 1 h"
    );
    Ok(Some(BatchOptions { poll, keep: flags.batches.keep, notes: None }))
}

/// What a batch costs: half of the usual price where the catalogue says so, what was given by hand, else it is not known.
pub(super) fn price(flags: &Flags, file: &File, target: &mut Target, half: bool) {
    let Target::Remote(remote) = target else { return };
    let is_given = |typed: Option<f64>, kept: Option<f64>| typed.or(kept).is_some();
    let bench = &file.bench;
    if is_given(flags.limits.price_input, bench.price_input) || is_given(flags.limits.price_output, bench.price_output)
    {
        return;
    }
    remote.price = remote.price.take().filter(|_| half).and_then(|usual| {
        let halved = |price: Money| Money::from_usd(price.as_usd() / 2.0);
        let price =
            Price { input: halved(usual.price.input)?, output: halved(usual.price.output)?, ..Price::default() };
        Some(TargetPrice::of_tokens(price, format!("{}, half of it for batches", usual.source), usual.date))
    });
}

/// Levels where nobody says how many: one batch at once, one for each that is under way at once, none of them to warm up. At a rate no number
/// goes without saying: half a minute of it may be hundreds of batches.
pub(super) fn levels(flags: &Flags, file: &File, phases: Vec<PhaseSpec>) -> Result<Vec<PhaseSpec>> {
    let bench = &file.bench;
    let (load, counted) = (&flags.load, flags.load.requests.or(bench.requests).is_some());
    let is_counted = counted || load.duration.is_some() || bench.duration.is_some();
    ensure!(
        load.rate.is_none() || is_counted || !flags.limits.until.is_empty(),
        "read --rate: with --task batch it begins so many whole batches a second; say how many in all (--requests 10) or for how long \
         (--duration 20s)"
    );
    let warmup = load.warmup.or(bench.warmup);
    let level = |phase: PhaseSpec| PhaseSpec {
        extent: if is_counted { phase.extent } else { Extent::Requests(u64::from(phase.load.max_in_flight())) },
        warmup: warmup.unwrap_or(0),
        ..phase
    };
    let is_named =
        load.concurrency.is_some() || bench.concurrency.is_some() || load.rate.is_some() || load.ramp.is_some();
    let least = phases.first().map(|phase| phase.load.max_in_flight());
    let is_wanted = |phase: &PhaseSpec| is_named || Some(phase.load.max_in_flight()) == least;
    Ok(phases.into_iter().filter(is_wanted).map(level).collect())
}

/// The longest time of a batch, unless one was given.
pub(super) fn total(flags: &Flags, file: &File, otherwise: Span) -> Span {
    if flags.limits.timeout.is_some() || file.bench.timeout.is_some() { otherwise } else { TOTAL }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::bench::resolve;
    use crate::config::environment::Environment;
    use clap::{Args, FromArgMatches};
    use tokrate_bench::Config;

    fn resolved(line: &str) -> Result<Config, String> {
        let command = Flags::augment_args(clap::Command::new("bench"));
        let matches = command.try_get_matches_from(["bench"].into_iter().chain(line.split_whitespace()));
        let flags = Flags::from_arg_matches(&matches.map_err(|error| error.to_string())?).expect("flags");
        let resolved = resolve(&flags, &Environment::default(), &File::default());
        resolved.map(|(mut configs, _)| configs.remove(0)).map_err(|error| format!("{error:#}"))
    }

    /// Dollars of a million tokens in and out.
    fn price_of(line: &str) -> Option<(f64, f64)> {
        let config = resolved(&format!("{line} --key-env PATH --dry-run")).expect("flags that go together");
        let price = config.target.remote().and_then(|remote| remote.price.clone())?.price;
        Some((price.input.as_usd(), price.output.as_usd()))
    }

    #[test]
    fn batches_cost_half_where_that_is_known_what_is_given_where_it_is_and_else_it_is_not_known() {
        let (usual, half) = (price_of("openai/gpt-5-mini"), price_of("openai/gpt-5-mini --task batch"));
        assert_eq!(usual.zip(half).map(|(usual, half)| (usual.0 / half.0, usual.1 / half.1)), Some((2.0, 2.0)));
        assert!(price_of("anthropic/claude-haiku-4-5 --task batch").is_some());
        let local = "--url http://127.0.0.1:9/v1 --model m --task batch";
        assert_eq!(price_of(local), None);
        let given = price_of(&format!("{local} --price-input 1 --price-output 2")).expect("it was given");
        assert!((given.1 / given.0 - 2.0).abs() < 1e-9, "{given:?}");
    }

    #[test]
    fn one_batch_for_each_that_is_under_way_at_once_and_time_enough() {
        let local = "--url http://127.0.0.1:9/v1 --model m --task batch";
        let plain = resolved(&format!("{local} --batch 10,20")).expect("flags that go together");
        let in_flight: Vec<u32> = plain.phases.iter().map(|phase| phase.load.max_in_flight()).collect();
        assert_eq!(in_flight, [1, 1], "one at once of each size");
        let config = resolved(&format!("{local} -c 1,3 --poll 250ms --keep")).expect("flags that go together");
        let extents: Vec<Extent> = config.phases.iter().map(|phase| phase.extent).collect();
        assert_eq!(extents, [Extent::Requests(1), Extent::Requests(3)]);
        assert!(config.phases.iter().all(|phase| phase.warmup == 0) && !config.probe);
        assert_eq!((config.limits.total, config.request.batches.as_ref().map(|it| it.keep)), (TOTAL, Some(true)));
        assert_eq!(resolved(&format!("{local} --timeout 5s")).expect("flags").limits.total, Span::from_secs(5));
        for (line, words) in [
            ("--poll 1s", "it belongs to --task batch"),
            ("--keep", "it belongs to --task batch"),
            ("--url http://127.0.0.1:9/v1 --model m --task batch --poll 1ms", "is not between 10 ms and 1 h"),
            ("--url http://127.0.0.1:9 --model m --task batch --dialect gemini", "servers that speak gemini have none"),
            ("--task batch", "it needs an endpoint"),
            (
                &format!("{local} --rate 5"),
                "read --rate: with --task batch it begins so many whole batches a second; say how many",
            ),
            (&format!("{local} --rate 0.5,1"), "say how many in all (--requests 10) or for how long (--duration 20s)"),
        ] {
            let refused = resolved(line).expect_err(line);
            assert!(refused.contains(words), "{line}: {refused}");
        }
        for (more, extent) in [("-n 3", Extent::Requests(3)), ("-d 2s", Extent::Duration(Span::from_secs(2)))] {
            let config = resolved(&format!("{local} --rate 5 {more}")).expect("it says how many");
            assert_eq!(config.phases.iter().map(|phase| phase.extent).collect::<Vec<Extent>>(), [extent]);
        }
    }
}
