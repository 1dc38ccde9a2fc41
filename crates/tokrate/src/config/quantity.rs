//! Quantities as people type them: `500ms`, `30s`, `2m`.

use anyhow::{Context, Result, bail};
use tokrate_core::Span;

/// Reads a span of time: a number with a unit out of `ms`, `s`, `m`, `h`; without a unit it is seconds.
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

#[cfg(test)]
mod tests {
    use super::*;

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
