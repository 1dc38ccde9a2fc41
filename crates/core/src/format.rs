//! Formats numbers for people: three to four significant digits, thousands separators, units.
//!
//! The caller's label names which of the speeds a "tok/s" is. Invariant: every function returns readable text for every
//! `f64`; NaN reads "n/a".

use crate::Span;

/// Printed for a missing number. Never 0.
pub const MISSING: &str = "n/a";

/// Three significant digits below 1,000 (trailing zeros kept, so precision shows), four above, commas between
/// thousands, scientific notation outside 0.001 to 10¹².
///
/// ```
/// use tokrate_core::format::number;
/// assert_eq!(number(33.08), "33.1");
/// assert_eq!(number(10_541.3), "10,540");
/// assert_eq!(number(0.00042), "4.20e-4");
/// assert_eq!(number(f64::NAN), "n/a");
/// ```
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return missing(value);
    }
    let size = value.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    if !(0.000_999_5..1e12).contains(&size) {
        return signed(format!("{value:.2e}"));
    }
    let places = decimals(size, 3);
    let rounded = rounded_to(value, places);
    // Rounding may carry into another digit (9.996 to 10.00), so the decimals are computed again.
    fixed(rounded, decimals(rounded.abs(), if rounded.abs() >= 1000.0 { 4 } else { 3 }))
}

/// Like [`number`] without trailing zeros: for counts, settings and tick labels that are exact.
pub fn plain(value: f64) -> String {
    if value.is_finite() && value == value.trunc() && value.abs() < 1e12 {
        return fixed(value, 0);
    }
    trimmed(number(value))
}

/// A number that somebody stated, as it was stated: at most three decimals, none that say nothing, commas between thousands.
///
/// ```
/// assert_eq!(tokrate_core::format::exact(10_541.25), "10,541.25");
/// ```
pub fn exact(value: f64) -> String {
    if value.is_finite() { trimmed(fixed(value, 3)) } else { missing(value) }
}

/// An integer with thousands separators.
pub fn count(value: u64) -> String {
    grouped(&value.to_string())
}

/// A duration in a suitable unit: "312 ms", "1.42 s", "2 min 05 s".
pub fn span(value: Span) -> String {
    seconds(value.as_secs_f64())
}

/// Seconds in a suitable unit, from nanoseconds to hours. Negative times keep their sign.
///
/// ```
/// use tokrate_core::format::seconds;
/// assert_eq!(seconds(0.3124), "312 ms");
/// assert_eq!(seconds(0.0000873), "87.3 µs");
/// assert_eq!(seconds(150.0), "2 min 30 s");
/// ```
pub fn seconds(value: f64) -> String {
    if !value.is_finite() {
        return missing(value);
    }
    let size = value.abs();
    let sign = if value < 0.0 { "−" } else { "" };
    if size == 0.0 {
        return "0 s".to_owned();
    }
    if size >= 3.6e7 {
        return format!("{} h", number(value / 3600.0));
    }
    if size >= 119.95 {
        let whole = size.round();
        let (hours, minutes, rest) = ((whole / 3600.0).floor(), (whole % 3600.0 / 60.0).floor(), whole % 60.0);
        return if hours >= 2.0 {
            format!("{sign}{} h {minutes:02} min", fixed(hours, 0))
        } else {
            format!("{sign}{} min {rest:02} s", fixed(hours * 60.0 + minutes, 0))
        };
    }
    let (scaled, unit) = match size {
        s if s >= 0.9995 => (s, "s"),
        s if s >= 0.000_999_5 => (s * 1e3, "ms"),
        s if s >= 0.000_000_999_5 => (s * 1e6, "µs"),
        s => (s * 1e9, "ns"),
    };
    format!("{sign}{} {unit}", number(scaled))
}

/// A share of one as per cent: `0.0123` is "1.23 %". A share just below 1 never reads "100 %".
pub fn percent(share: f64) -> String {
    if !share.is_finite() {
        return missing(share);
    }
    let hundredths = share * 100.0;
    let mut text = trimmed(number(hundredths));
    if text == "100" && share < 1.0 {
        text = if share >= 0.9999 { "> 99.99".to_owned() } else { format!("{hundredths:.2}") };
    }
    format!("{text} %")
}

/// An interval with both ends to the same decimals: "31.2 to 35.6". A comma would be mistaken for one between
/// thousands, a dash for a minus. "n/a" when an end is missing.
pub fn interval(low: f64, high: f64) -> String {
    if !low.is_finite() || !high.is_finite() {
        return MISSING.to_owned();
    }
    let texts = column(&[Some(low), Some(high)]);
    format!("{} to {}", texts[0], texts[1])
}

/// A value with its unit. Seconds (`unit` "s") choose their own prefix and "%" takes a plain number of per cent;
/// a missing value has no unit.
pub fn quantity(value: f64, unit: &str) -> String {
    match unit {
        _ if !value.is_finite() => missing(value),
        "s" => seconds(value),
        "" => number(value),
        unit => format!("{} {unit}", number(value)),
    }
}

/// Units that stay on the line of their number.
const UNITS: [&str; 16] =
    ["%", "ms", "s", "µs", "us", "ns", "min", "h", "tok/s", "req/s", "tokens/s", "GB/s", "GB", "GiB", "MiB", "USD"];

/// A text whose numbers keep their units, and `n = 2` its parts, where it is broken into lines: the space between them becomes U+00A0.
///
/// ```
/// use tokrate_core::format::with_units_kept;
/// assert_eq!(with_units_kept("it grew by 30.0 %, to 5 ms"), "it grew by 30.0\u{a0}%, to 5\u{a0}ms");
/// assert_eq!(with_units_kept("100 % of 2 h"), "100\u{a0}% of 2\u{a0}h");
/// assert_eq!(with_units_kept("of 5 streams, n = 2"), "of 5 streams, n\u{a0}=\u{a0}2");
/// ```
pub fn with_units_kept(text: &str) -> String {
    let mut kept = String::with_capacity(text.len() + 8);
    for word in text.split(' ') {
        if word.as_ptr() != text.as_ptr() {
            let unit = word.trim_end_matches(['.', ',', ';', ':', ')', ']', '?', '!']);
            let is_unit = kept.ends_with(|last: char| last.is_ascii_digit()) && UNITS.contains(&unit);
            let is_equation = word == "=" || kept.ends_with("\u{a0}=");
            kept.push(if is_unit || is_equation { '\u{a0}' } else { ' ' });
        }
        kept.push_str(word);
    }
    kept
}

/// Formats a column with equal decimals, so that decimal points align: enough for three significant digits of the
/// median. Missing values read "n/a"; integers stay integers.
pub fn column(values: &[Option<f64>]) -> Vec<String> {
    let mut sizes: Vec<f64> =
        values.iter().flatten().filter(|v| v.is_finite() && **v != 0.0).map(|v| v.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let extreme = sizes.first().is_some_and(|low| *low < 1e-6) || sizes.last().is_some_and(|high| *high >= 1e12);
    let whole = sizes.iter().all(|v| *v == v.trunc());
    let places = match sizes.get(sizes.len() / 2) {
        Some(median) if !whole => decimals(*median, 3),
        _ => 0,
    };
    let write = |value: f64| if extreme { number(value) } else { fixed(value, places) };
    values.iter().map(|v| v.filter(|v| v.is_finite()).map_or_else(|| MISSING.to_owned(), write)).collect()
}

/// `value` with exactly `places` decimals, commas and a true minus sign. Values must be finite.
pub fn fixed(value: f64, places: usize) -> String {
    let text = format!("{:.places$}", value.abs());
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let zero = !text.contains(|c: char| ('1'..='9').contains(&c));
    let sign = if value < 0.0 && !zero { "−" } else { "" };
    format!("{sign}{}{fraction}", grouped(whole))
}

fn missing(value: f64) -> String {
    if value.is_nan() { MISSING.to_owned() } else { if value > 0.0 { "∞" } else { "−∞" }.to_owned() }
}

/// Decimals that show `digits` significant digits of `size`; 0 at least, 9 at most.
fn decimals(size: f64, digits: i32) -> usize {
    if size <= 0.0 {
        return 0;
    }
    usize::try_from(digits - 1 - size.log10().floor() as i32).unwrap_or(0).min(9)
}

fn rounded_to(value: f64, places: usize) -> f64 {
    let size = value.abs();
    let step = if places == 0 && size >= 1000.0 { 10f64.powi(size.log10().floor() as i32 - 3) } else { 1.0 };
    if places > 0 {
        let scale = 10f64.powi(places as i32);
        (value * scale).round() / scale
    } else {
        (value / step).round() * step
    }
}

fn trimmed(text: String) -> String {
    if !text.contains('.') || text.contains('e') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn signed(text: String) -> String {
    match text.strip_prefix('-') {
        Some(rest) => format!("−{rest}"),
        None => text,
    }
}

fn grouped(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// An amount of dollars with so many decimals, and more where that would leave less than two of its digits: what is small is not nothing.
pub fn usd(value: f64, places: usize) -> String {
    let shown = format!("{value:.places$}");
    if value == 0.0 || !value.is_finite() || value.abs() >= 10.0_f64.powi(1 - places as i32) {
        return shown;
    }
    let needed = (1 - value.abs().log10().floor() as i32).clamp(0, 15) as usize;
    let exact = format!("{value:.needed$}");
    let trimmed = exact.trim_end_matches('0');
    if trimmed.len() < shown.len() { shown } else { trimmed.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_sums_have_digits_enough_and_others_so_many_as_are_asked() {
        let cases = [
            (1.5, "1.5000"),
            (0.0123, "0.0123"),
            (0.00123, "0.0012"),
            (0.0002, "0.0002"),
            (0.000123, "0.00012"),
            (0.000001, "0.000001"),
            (2.5e-9, "0.0000000025"),
            (0.0, "0.0000"),
            (-0.000004, "-0.000004"),
        ];
        for (value, text) in cases {
            assert_eq!(usd(value, 4), text);
        }
        assert_eq!((usd(0.25, 6), usd(1e-7, 6)), ("0.250000".to_owned(), "0.0000001".to_owned()));
    }

    #[test]
    fn numbers_keep_three_to_four_digits() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1.00"),
            (9.996, "10.0"),
            (99.96, "100"),
            (999.6, "1,000"),
            (1154.2, "1,154"),
            (12_345.0, "12,350"),
            (99_996.0, "100,000"),
            (1_234_567.0, "1,235,000"),
            (-33.08, "−33.1"),
            (0.001, "0.00100"),
            (1e12, "1.00e12"),
            (-2.5e-9, "−2.50e-9"),
            (f64::INFINITY, "∞"),
            (f64::NEG_INFINITY, "−∞"),
        ] {
            assert_eq!(number(value), text, "{value}");
        }
    }

    #[test]
    fn exact_numbers_have_no_trailing_zeros() {
        assert_eq!(plain(64.0), "64");
        assert_eq!(plain(2.5), "2.5");
        assert_eq!(plain(12_345.0), "12,345");
        assert_eq!(count(1_234_567), "1,234,567");
    }

    #[test]
    fn times_choose_their_unit() {
        for (value, text) in [
            (0.0, "0 s"),
            (0.999_6, "1.00 s"),
            (0.000_999_6, "1.00 ms"),
            (5e-9, "5.00 ns"),
            (119.96, "2 min 00 s"),
            (3_725.0, "62 min 05 s"),
            (7_200.0, "2 h 00 min"),
            (-0.25, "−250 ms"),
            (2.6e235, "7.22e231 h"),
        ] {
            assert_eq!(seconds(value), text, "{value}");
        }
        assert_eq!(span(Span::from_millis(87)), "87.0 ms");
    }

    #[test]
    fn almost_all_is_not_all() {
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(percent(0.99996), "> 99.99 %");
        assert_eq!(percent(0.9997), "99.97 %");
        assert_eq!(percent(0.0123), "1.23 %");
    }

    #[test]
    fn columns_align() {
        assert_eq!(column(&[Some(7.123), Some(33.08), None, Some(104.96)]), ["7.1", "33.1", "n/a", "105.0"]);
        assert_eq!(column(&[Some(1.0), Some(64.0)]), ["1", "64"]);
        assert_eq!(interval(31.2, 35.64), "31.2 to 35.6");
    }
}
