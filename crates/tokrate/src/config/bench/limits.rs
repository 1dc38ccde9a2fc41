//! When to give up, and how the client's own error is found: resolved from flags, environment and settings file.

use super::pick_text;
use crate::config::environment::Environment;
use crate::config::file::File;
use crate::config::quantity;
use crate::flags::bench as flags;
use anyhow::{Context, Result, bail, ensure};
use tokrate_bench::{Calibration, Limits, Target};
use tokrate_core::{Money, Price, Span};
use tokrate_record::TargetPrice;

/// Largest answer that is read (bytes).
const MAX_BODY_BYTES: u64 = 256 * 1024 * 1024;

pub(super) fn limits(flags: &flags::Limits, file: &File) -> Result<Limits> {
    let bench = &file.bench;
    let read = |flag, typed: &Option<String>, key, in_file: &Option<String>, default: Span| -> Result<Span> {
        let found = pick_text(flag, typed, None, file, key, in_file);
        let span = found.map(|text| {
            text.parse(|text| {
                let span = quantity::span(&text)?;
                ensure!(!span.is_zero(), "a limit of no time lets nothing through");
                Ok(span)
            })
        });
        Ok(span.transpose()?.map_or(default, |span| span.value))
    };
    Ok(Limits {
        connect: read(
            "--connect-timeout",
            &flags.connect_timeout,
            "connect_timeout",
            &bench.connect_timeout,
            Span::from_secs(10),
        )?,
        idle: read("--idle-timeout", &flags.idle_timeout, "idle_timeout", &bench.idle_timeout, Span::from_secs(60))?,
        total: read("--timeout", &flags.timeout, "timeout", &bench.timeout, Span::from_secs(600))?,
        wait: read("--max-wait", &flags.max_wait, "max_wait", &bench.max_wait, Span::from_secs(120))?,
        max_body_bytes: MAX_BODY_BYTES,
    })
}

/// What the run may cost; puts the price that was given in place of the target's own.
pub(super) fn cost(flags: &flags::Limits, file: &File, target: &mut Target) -> Result<Option<f64>> {
    let bench = &file.bench;
    let read = |flag, usd: Option<f64>| {
        let unsound = || format!("read {flag}: it must be a number of at least 0, in USD per million tokens");
        usd.map(|usd| Money::from_usd(usd).with_context(unsound)).transpose()
    };
    let input = read("--price-input", flags.price_input.or(bench.price_input))?;
    let output = read("--price-output", flags.price_output.or(bench.price_output))?;
    let known = match target {
        Target::Embedded(_) => {
            ensure!(input.is_none() && output.is_none(), "read --price-input: the embedded engine costs nothing");
            false
        }
        Target::Remote(remote) => {
            remote.price = priced(remote.price.take(), input, output)?;
            remote.price.is_some()
        }
    };
    let limit = flags.max_cost_usd.or(bench.max_cost_usd);
    let sound = limit.is_none_or(|limit| limit.is_finite() && limit > 0.0);
    ensure!(sound, "read --max-cost-usd: it must be a number above 0");
    ensure!(
        limit.is_none() || known,
        "read --max-cost-usd: what a token costs here is not known; give --price-input and --price-output (USD per \
         million tokens)"
    );
    Ok(limit)
}

fn priced(known: Option<TargetPrice>, input: Option<Money>, output: Option<Money>) -> Result<Option<TargetPrice>> {
    let given = |input, output| TargetPrice {
        price: Price { input, output, ..Price::default() },
        source: "given on the command line or in the settings file".to_owned(),
        date: String::new(),
    };
    Ok(match (input, output, known) {
        (None, None, known) => known,
        (Some(input), Some(output), _) => Some(given(input, output)),
        (Some(input), None, Some(known)) => Some(given(input, known.price.output)),
        (None, Some(output), Some(known)) => Some(given(known.price.input, output)),
        (Some(_), None, None) => bail!("read --price-input: the price of output is not known; give --price-output too"),
        (None, Some(_), None) => bail!("read --price-output: the price of input is not known; give --price-input too"),
    })
}

pub(super) fn calibration(flags: &flags::Limits, environment: &Environment) -> Calibration {
    match (flags.calibration.unwrap_or(flags::Calibration::Cached), &environment.cache_folder) {
        (flags::Calibration::Off, _) => Calibration::Off,
        (flags::Calibration::Cached, Some(folder)) => Calibration::Cached(folder.clone()),
        (flags::Calibration::Run | flags::Calibration::Cached, _) => Calibration::Run,
    }
}
