//! Quantities as people type them: `500ms`, `30s`, `2m`, `5%`.

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use tokrate_core::Span;

/// Reads a span of time: a number with a unit out of `ms`, `s`, `m`, `h`, `d`; without a unit it is seconds.
pub fn span(text: &str) -> Result<Span> {
    let text = text.trim();
    let split = text.find(|letter: char| letter.is_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds_each = match unit.trim() {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        other => bail!("`{other}` is no unit of time; write for example 500ms, 30s, 2m or 1h"),
    };
    let number: f64 = number
        .trim()
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite() && *number >= 0.0)
        .with_context(|| format!("`{text}` is no time; write for example 500ms, 30s, 2m or 1h"))?;
    Ok(Span::from_secs_f64(number * seconds_each))
}

/// Refuses a time that is shorter than the least one, and says what to write.
pub fn at_least(least: Span, span: Span) -> Result<Span> {
    ensure!(span >= least, "{} is less than {}; write {1} or more", typed(span), typed(least));
    Ok(span)
}

/// A time as one would type it.
fn typed(span: Span) -> String {
    match span.as_nanos() {
        nanos if nanos.is_multiple_of(1_000_000_000) => format!("{}s", nanos / 1_000_000_000),
        nanos if nanos.is_multiple_of(1_000_000) => format!("{}ms", nanos / 1_000_000),
        _ => span.to_string(),
    }
}

/// A span as people say it: whole days and hours as such, and anything else as everywhere.
pub fn shown(span: Span) -> String {
    const HOUR: u64 = 3_600_000_000_000;
    let hours = span.as_nanos() / HOUR;
    match span.as_nanos() % HOUR {
        0 if hours > 0 && hours.is_multiple_of(24) => format!("{} d", hours / 24),
        0 if hours > 0 => format!("{hours} h"),
        _ => span.to_string(),
    }
}

/// Reads a share: a number from 0 to 1, or one in per cent (`50%`).
pub fn share(text: &str) -> Result<f64> {
    let text = text.trim();
    let in_percent = text.strip_suffix('%').map(str::trim);
    let number: f64 = in_percent
        .unwrap_or(text)
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite())
        .with_context(|| format!("`{text}` is no share; write for example 5% or 0.05"))?;
    if in_percent.is_none() && number > 1.0 && number <= 100.0 {
        bail!("{text} is more than the whole; write {text}% for per cent");
    }
    let share = if in_percent.is_some() { number / 100.0 } else { number };
    ensure!((0.0..=1.0).contains(&share), "{text} is not a share between 0 and 1 (0% and 100%)");
    Ok(share)
}

/// A share in a settings file: a number, or a text such as `"50%"`.
#[derive(Deserialize, Clone, Copy, PartialEq, Debug)]
#[serde(try_from = "Written")]
pub struct Share(pub f64);

/// A quantity as a settings file may hold it.
#[derive(Deserialize, Clone, Debug)]
#[serde(untagged)]
pub(super) enum Written {
    Number(f64),
    Text(String),
}

impl Written {
    /// As it would be typed on the command line.
    pub fn into_text(self) -> String {
        match self {
            Written::Number(number) => number.to_string(),
            Written::Text(text) => text,
        }
    }
}

impl TryFrom<Written> for Share {
    type Error = String;

    fn try_from(written: Written) -> Result<Share, String> {
        share(&written.into_text()).map(Share).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_days_and_hours_are_shown_as_such_and_read_again() {
        for (seconds, text) in
            [(7_776_000, "90 d"), (86_400, "1 d"), (7_200, "2 h"), (1_800, "1800 s"), (90_000, "25 h")]
        {
            let span = Span::from_secs(seconds);
            assert_eq!(shown(span), text);
            assert_eq!(super::span(text).expect("a time"), span, "{text}");
        }
        assert_eq!(shown(Span::ZERO), Span::ZERO.to_string());
        assert_eq!(shown(Span::from_millis(86_400_001)), Span::from_millis(86_400_001).to_string());
    }

    #[test]
    fn shares_are_numbers_or_per_cent_and_nothing_above_the_whole() {
        let read = |text| share(text).ok();
        assert_eq!((read("50%"), read("50 %"), read("0.5"), read(" 1 ")), (Some(0.5), Some(0.5), Some(0.5), Some(1.0)));
        assert_eq!((read("0"), read("100%"), read("0.1%")), (Some(0.0), Some(1.0), Some(0.001)));
        for bad in ["", "50", "1.5", "101%", "-1%", "-0.1", "five", "nan", "%", "1000"] {
            assert_eq!(read(bad), None, "{bad}");
        }
        assert_eq!(share("50").expect_err("no sign").to_string(), "50 is more than the whole; write 50% for per cent");
        let file = |text: &str| toml::from_str::<crate::config::file::File>(text).map(|file| file.bench.max_failures);
        assert_eq!(file("bench.max_failures = \"50 %\"\n").expect("a share"), Some(Share(0.5)));
        assert_eq!(file("bench.max_failures = 0.5\n").expect("a share"), Some(Share(0.5)));
        assert!(file("bench.max_failures = 50\n").expect_err("no sign").to_string().contains("write 50% for per cent"));
    }

    #[test]
    fn a_time_that_is_too_short_is_answered_with_what_to_write() {
        let least = Span::from_millis(100);
        assert_eq!(at_least(least, least).expect("as long"), least);
        let refused = |text: &str| span(text).and_then(|span| at_least(least, span)).expect_err("shorter").to_string();
        assert_eq!(refused("50ms"), "50ms is less than 100ms; write 100ms or more");
        assert_eq!(refused("0"), "0s is less than 100ms; write 100ms or more");
        assert_eq!(
            at_least(Span::from_secs(1), least).expect_err("shorter").to_string(),
            "100ms is less than 1s; write 1s or more"
        );
    }

    #[test]
    fn times_are_read_with_their_units() {
        let read = |text| span(text).ok().map(Span::as_nanos);
        assert_eq!(read("500ms"), Some(500_000_000));
        assert_eq!(read("1.5"), Some(1_500_000_000));
        assert_eq!(read("2 m"), Some(120_000_000_000));
        assert_eq!(read("1h"), Some(3_600_000_000_000));
        for bad in ["", "abc", "-3s", "3 parsecs", "nan"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
