//! When to give up, and how the client's own error is found: resolved from flags, environment and settings file.

use super::pick_text;
use crate::config::environment::Environment;
use crate::config::file::File;
use crate::config::quantity;
use crate::flags::bench as flags;
use anyhow::{Context, Result, bail, ensure};
use tokrate_bench::{Calibration, Limits, Target};
use tokrate_core::{Money, Price, Span};
use tokrate_record::{MediaAmounts, MediaKind, MediaPrice, MediaPrices, TargetPrice};

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

/// What the run may cost; puts the price that was given in place of the target's own. `media` is what a request has of images and sound at most;
/// where it has text besides, `bills_text`, that is billed too.
pub(super) fn cost(
    flags: &flags::Limits,
    file: &File,
    target: &mut Target,
    (media, bills_text): (&MediaAmounts, bool),
) -> Result<Option<f64>> {
    let bench = &file.bench;
    let read = |flag, usd: Option<f64>| {
        let unsound = || format!("read {flag}: it must be a number of at least 0, in USD per million tokens");
        usd.map(|usd| Money::from_usd(usd).with_context(unsound)).transpose()
    };
    let input = read("--price-input", flags.price_input.or(bench.price_input))?;
    let output = read("--price-output", flags.price_output.or(bench.price_output))?;
    let prices = media_prices(&flags.price_of)?;
    let known = match target {
        Target::Embedded(_) => {
            let is_given = input.is_some() || output.is_some() || !flags.price_of.is_empty();
            ensure!(!is_given, "read --price-input: the embedded engine costs nothing");
            None
        }
        Target::Remote(remote) => {
            let known = priced(remote.price.take(), input, output)?;
            // Whoever names the price of a minute or of an image, and none of tokens, is billed by those alone.
            let is_by_tokens = flags.price_of.iter().any(|text| text.trim_end().ends_with(IN_TOKENS));
            let is_alone = !bills_text && !flags.price_of.is_empty() && !is_by_tokens;
            remote.price = known.or_else(|| is_alone.then(|| TargetPrice::of_tokens(Price::default(), GIVEN, "")));
            if let Some(price) = &mut remote.price {
                price.media = prices;
            }
            remote.price.as_ref()
        }
    };
    let limit = flags.max_cost_usd.or(bench.max_cost_usd);
    let sound = limit.is_none_or(|limit| limit.is_finite() && limit > 0.0);
    ensure!(sound, "read --max-cost-usd: it must be a number above 0");
    ensure!(
        limit.is_none() || known.is_some(),
        "read --max-cost-usd: what a token costs here is not known; give --price-input and --price-output (USD per \
         million tokens)"
    );
    let unknown = known.map(|price| price.media.unknown(media)).unwrap_or_default();
    if let Some(kind) = unknown.first().filter(|_| limit.is_some()) {
        bail!(
            "read --max-cost-usd: what {} costs here is not known; give --price-of {kind}=USD, or --price-of {kind}=tokens where it is billed in tokens",
            kind.words()
        );
    }
    Ok(limit)
}

/// Where a price comes from that nobody listed.
const GIVEN: &str = "given on the command line or in the settings file";

/// What stands for the prices of tokens in `--price-of`.
const IN_TOKENS: &str = "tokens";

/// The prices of `--price-of`.
fn media_prices(texts: &[String]) -> Result<MediaPrices> {
    let mut prices = MediaPrices::default();
    for text in texts {
        let parted = text.split_once('=').and_then(|(name, price)| {
            let kind = MediaKind::ALL.into_iter().find(|kind| kind.name() == name.trim())?;
            let price = match price.trim() {
                IN_TOKENS => MediaPrice::InTokens,
                usd => MediaPrice::Each(Money::from_usd(usd.trim_start_matches('$').parse().ok()?)?),
            };
            Some((kind, price))
        });
        let (kind, price) = parted.with_context(|| {
            let kinds = MediaKind::ALL.map(MediaKind::name).join(", ");
            format!(
                "read --price-of: `{text}` is no KIND=USD or KIND=tokens, such as image-out=0.04; kinds are {kinds}"
            )
        })?;
        prices.set(kind, price);
    }
    Ok(prices)
}

fn priced(known: Option<TargetPrice>, input: Option<Money>, output: Option<Money>) -> Result<Option<TargetPrice>> {
    let given = |input, output| TargetPrice::of_tokens(Price { input, output, ..Price::default() }, GIVEN, "");
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
