//! Points in wall time as people type them: back from an end, or a date.

use crate::config::quantity;
use anyhow::{Context, Result};
use tokrate_core::Date;

const DAY_MS: u64 = 86_400_000;

/// The wall time (ms since 1970) that a text means: `24h` or `7d` before `end_unix_ms`, a UTC date with or without a time of
/// day; `None` for `all`.
pub fn moment(text: &str, end_unix_ms: u64) -> Result<Option<u64>> {
    let text = text.trim();
    if text == "all" {
        return Ok(None);
    }
    if text.contains('-') && !text.starts_with('-') {
        let hint = || format!("`{text}` is no date; write for example 2026-11-21 or 2026-11-21T08:00 (UTC)");
        return parse(text).map(Some).with_context(hint);
    }
    let back = match text.strip_suffix('d') {
        Some(days) => days.trim().parse::<u32>().ok().map(|days| u64::from(days) * DAY_MS),
        None => quantity::span(text).ok().map(|span| span.as_nanos() / 1_000_000),
    };
    let hint = || format!("`{text}` is no time; write for example 90m, 24h, 7d, 2026-11-21, 2026-11-21T08:00 or all");
    back.with_context(hint).map(|back| Some(end_unix_ms.saturating_sub(back)))
}

/// A wall time as `2026-11-21 08:00:05` in UTC.
pub fn date(unix_ms: u64) -> String {
    let Date { year, month, day } = Date::of_day(unix_ms / DAY_MS);
    let seconds = unix_ms % DAY_MS / 1_000;
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

fn parse(text: &str) -> Option<u64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
    let numbers = |text: &str, between: char| -> Option<Vec<u64>> {
        text.split(between).map(|part| part.parse().ok().filter(|_| part.bytes().all(|b| b.is_ascii_digit()))).collect()
    };
    let (date, time) = (numbers(date, '-')?, numbers(time, ':')?);
    let ([year, month, day], [hour, minute, rest @ ..]) = (date.as_slice(), time.as_slice()) else { return None };
    let second = match rest {
        [] => 0,
        [second] => *second,
        _ => return None,
    };
    let sane = (1970..10_000).contains(year) && (1..=12).contains(month) && *hour < 24 && *minute < 60 && second < 60;
    if !sane {
        return None;
    }
    let date = Date { year: *year, month: *month, day: *day };
    // A date that the calendar lacks comes back as another.
    let days = u64::try_from(date.day_number()).ok().filter(|days| Date::of_day(*days) == date)?;
    Some(days * DAY_MS + ((hour * 60 + minute) * 60 + second) * 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar_both_ways() {
        let seconds = |text| parse(text).map(|ms| ms / 1_000);
        assert_eq!(seconds("1970-01-01"), Some(0));
        assert_eq!(seconds("2000-02-29T23:59:59Z"), Some(951_868_799));
        assert_eq!(seconds("2026-11-21 08:30"), Some(1_795_219_200 + 8 * 3_600 + 1_800));
        for day in 0..150_000 {
            assert_eq!(u64::try_from(Date::of_day(day).day_number()), Ok(day));
        }
        assert_eq!(date(1_795_219_205_999), "2026-11-21 00:00:05");
        for bad in
            ["2026-02-29", "2026-13-01", "2026-1", "2026-11-21T8", "2026-11-21T25:00", "1969-12-31", "2026-+1-01"]
        {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn times_back_are_taken_from_the_end() {
        let read = |text| moment(text, 10 * DAY_MS).ok();
        assert_eq!(
            (read("7d"), read("24h"), read("90m")),
            (Some(Some(3 * DAY_MS)), Some(Some(9 * DAY_MS)), Some(Some(10 * DAY_MS - 5_400_000)))
        );
        assert_eq!((read("all"), read("1970-01-02")), (Some(None), Some(Some(DAY_MS))));
        assert_eq!(read("99d"), Some(Some(0)));
        for bad in ["", "yesterday", "-3h", "2d3", "-1d"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
