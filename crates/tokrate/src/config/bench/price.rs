//! What tokens, images and sound cost and what a run may cost: resolved from flags and settings file.
//!
//! Invariant: a price that is asked for is one that the requests of the run are billed by, and none is given twice.

use crate::config::file::File;
use crate::flags::bench as flags;
use anyhow::{Context, Result, bail, ensure};
use tokrate_bench::Target;
use tokrate_core::{Money, Price};
use tokrate_record::{MediaAmounts, MediaKind, MediaPrice, MediaPrices, TargetPrice};

/// Where a price comes from that nobody listed.
const GIVEN: &str = "given on the command line or in the settings file";

/// What stands for the prices of tokens in `--price-of`.
const IN_TOKENS: &str = "tokens";

/// What a request is billed for.
pub(super) struct Bill {
    /// Images and sound at most.
    pub media: MediaAmounts,
    /// Whether text is billed too.
    pub has_text: bool,
}

/// What the run may cost; puts the price that was given in place of the target's own.
pub(super) fn limit(flags: &flags::Limits, file: &File, target: &mut Target, bill: &Bill) -> Result<Option<f64>> {
    let bench = &file.bench;
    let read = |flag, usd: Option<f64>| {
        let unsound = || format!("read {flag}: it must be a number of at least 0, in USD per million tokens");
        usd.map(|usd| Money::from_usd(usd).with_context(unsound)).transpose()
    };
    let input = read("--price-input", flags.price_input.or(bench.price_input))?;
    let output = read("--price-output", flags.price_output.or(bench.price_output))?;
    let listed = media_prices(&flags.price_of)?;
    let mut media = MediaPrices::default();
    listed.iter().for_each(|(kind, price)| media.set(*kind, *price));
    let known = match target {
        Target::Embedded(_) => {
            let given = [
                ("--price-input", input.is_some()),
                ("--price-output", output.is_some()),
                ("--price-of", !listed.is_empty()),
            ];
            if let Some((flag, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
                bail!("read {flag}: the embedded engine costs nothing");
            }
            None
        }
        Target::Remote(remote) => {
            // A settings file lists prices for every task; a kind that was typed is meant for this one.
            if bench.price_of.as_ref() != Some(&flags.price_of) {
                check_kinds(&listed, bill)?;
            }
            let known = priced(remote.price.take(), input, output)?;
            // Whoever names the price of a minute or of an image, and none of tokens, is billed by those alone.
            let is_by_tokens = listed.iter().any(|(_, price)| *price == MediaPrice::InTokens);
            let is_alone = !bill.has_text && !listed.is_empty() && !is_by_tokens;
            remote.price = known.or_else(|| is_alone.then(|| TargetPrice::of_tokens(Price::default(), GIVEN, "")));
            if let Some(price) = &mut remote.price {
                price.media = media;
            }
            remote.price.as_ref()
        }
    };
    let limit = flags.max_cost_usd.or(bench.max_cost_usd);
    let sound = limit.is_none_or(|limit| limit.is_finite() && limit > 0.0);
    ensure!(sound, "read --max-cost-usd: it must be a number above 0");
    if limit.is_some() {
        check_known(known.is_some(), &media, bill)?;
    }
    Ok(limit)
}

/// Refuses a limit where nobody knows what a part of the bill costs, and says which flags say it.
fn check_known(are_tokens_known: bool, media: &MediaPrices, bill: &Bill) -> Result<()> {
    let of_tokens = "give --price-input and --price-output (USD per million tokens)";
    let Some(kind) = media.unknown(&bill.media).first().copied() else {
        ensure!(are_tokens_known, "read --max-cost-usd: what a token costs here is not known; {of_tokens}");
        return Ok(());
    };
    let what = kind.words();
    let of_kind = format!("--price-of {kind}=USD, or --price-of {kind}=tokens where it is billed in tokens");
    ensure!(
        are_tokens_known || !bill.has_text,
        "read --max-cost-usd: what a token costs here is not known, nor what {what} does; {of_tokens}, and {of_kind}"
    );
    let with = if are_tokens_known { "" } else { ", with --price-input and --price-output" };
    bail!("read --max-cost-usd: what {what} costs here is not known; give {of_kind}{with}")
}

/// Refuses the price of what no request of the run has.
fn check_kinds(listed: &[(MediaKind, MediaPrice)], bill: &Bill) -> Result<()> {
    let Some((kind, _)) = listed.iter().find(|(kind, _)| !bill.media.has(*kind)) else { return Ok(()) };
    let kinds: Vec<&str> =
        MediaKind::ALL.into_iter().filter(|kind| bill.media.has(*kind)).map(MediaKind::name).collect();
    let has = match kinds.as_slice() {
        [] => "they have text alone, whose price is --price-input and --price-output".to_owned(),
        kinds => format!("they have {}", kinds.join(" and ")),
    };
    bail!("read --price-of: no request of this run has {} ({kind}); {has}", kind.words())
}

/// The prices of `--price-of`.
fn media_prices(texts: &[String]) -> Result<Vec<(MediaKind, MediaPrice)>> {
    let mut prices: Vec<(MediaKind, MediaPrice)> = Vec::new();
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
        ensure!(
            prices.iter().all(|(known, _)| *known != kind),
            "read --price-of: the price of {kind} is given twice; keep one of them"
        );
        prices.push((kind, price));
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

#[cfg(test)]
mod tests {
    use crate::config::bench::resolve;
    use crate::config::environment::Environment;
    use crate::config::file::File;
    use crate::flags::bench::Flags;
    use clap::{Args, FromArgMatches};
    use std::path::Path;

    const HEARD: &str = "--task transcription --audio-seconds 6";

    /// Why a run is refused; nothing if it is not.
    fn refusal(line: &str, file: &File) -> String {
        let command = Flags::augment_args(clap::Command::new("bench"));
        let words = format!("bench --url http://127.0.0.1:9/v1 --model m {line}");
        let flags =
            command.try_get_matches_from(words.split_whitespace()).map(|matches| Flags::from_arg_matches(&matches));
        let flags = flags.expect("they are known").expect("flags");
        let refused = resolve(&flags, &Environment::default(), file).err();
        refused.map_or_else(String::new, |error| format!("{error:#}"))
    }

    #[test]
    fn a_limit_asks_for_the_prices_that_the_task_is_billed_by() {
        let of = |line: &str| refusal(&format!("{line} --max-cost-usd 1"), &File::default());
        assert_eq!(
            of(HEARD),
            "read --max-cost-usd: what a minute of sound that is sent costs here is not known; give --price-of minute-in=USD, or \
             --price-of minute-in=tokens where it is billed in tokens, with --price-input and --price-output"
        );
        assert_eq!(of(&format!("{HEARD} --price-of minute-in=0.006")), "");
        assert_eq!(
            of(&format!("{HEARD} --price-of minute-in=tokens")),
            "read --max-cost-usd: what a token costs here is not known; give --price-input and --price-output (USD per million tokens)"
        );
        assert!(of("--task speech").contains("give --price-of minute-out=USD"), "{}", of("--task speech"));
        assert_eq!(of("--task speech --price-of characters=15"), "");
        assert!(of("--task images").contains("give --price-of image-out=USD"), "{}", of("--task images"));
        let both = of("--audio-input 2s");
        assert!(
            both.contains("--price-input and --price-output") && both.contains("and --price-of minute-in=USD"),
            "{both}"
        );
        assert!(of("").ends_with("give --price-input and --price-output (USD per million tokens)"));
    }

    #[test]
    fn a_price_of_what_no_request_has_is_refused_and_so_is_a_second_one_of_a_kind() {
        let of = |line: &str| refusal(line, &File::default());
        assert_eq!(
            of(&format!("{HEARD} --price-of minute-in=1 --price-of image-out=1")),
            "read --price-of: no request of this run has an image that is made (image-out); they have minute-in"
        );
        assert_eq!(
            of("--price-of minute-in=1"),
            "read --price-of: no request of this run has a minute of sound that is sent (minute-in); they have text alone, whose price is \
             --price-input and --price-output"
        );
        assert!(of("--task speech --price-of image-in=1").ends_with("they have minute-out and characters"));
        let twice = of(&format!("{HEARD} --price-of minute-in=1 --price-of minute-in=1"));
        assert_eq!(twice, "read --price-of: the price of minute-in is given twice; keep one of them");
        let file = File::parse(Path::new("t.toml"), "[bench]\nprice_of = [\"minute-in=1\", \"image-out=1\"]\n")
            .expect("settings");
        assert_eq!(refusal(HEARD, &file), "", "a settings file lists what every task costs");
    }
}
