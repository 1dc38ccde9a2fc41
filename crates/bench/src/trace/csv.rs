//! CSV trace formats, recognised by their header.
//!
//! Invariant: columns are found by name, in any order.

use super::{Row, TraceFormat, tokens_of};
use crate::bad_input::{BadInput, shown};
use tokrate_core::Date;

/// Which column holds what.
struct Columns {
    format: TraceFormat,
    time: usize,
    input: usize,
    output: usize,
    /// How many there are.
    of: usize,
}

/// Reads a CSV trace: its layout, its rows, and how many rows are no request.
pub(super) fn read(content: &str, limit: usize) -> Result<(TraceFormat, Vec<Row>, u64), BadInput> {
    let mut lines = (1..).zip(content.lines()).filter(|(_, line)| !line.trim().is_empty());
    let Some((number, header)) = lines.next() else {
        return Err(BadInput::at(1, 1, "a trace, and the file is empty"));
    };
    let columns = Columns::of(number, header)?;
    let (mut rows, mut left_out) = (Vec::new(), 0);
    for (number, line) in lines {
        if rows.len() == limit {
            break;
        }
        let fields = fields(line);
        if fields.len() != columns.of {
            let column = line.chars().count() + 1;
            return Err(BadInput::at(
                number,
                column,
                format!("{} fields as in the header, and there are {}", columns.of, fields.len()),
            ));
        }
        let (column, text) = fields[columns.time];
        let at_ns = match columns.format {
            TraceFormat::BurstGpt => seconds(text),
            _ => date_time(text),
        };
        let at_ns = at_ns.ok_or_else(|| {
            let expected = match columns.format {
                TraceFormat::BurstGpt => "a time in seconds such as 45.0",
                _ => "a date and time such as 2023-11-16 18:17:03.9799600",
            };
            BadInput::at(number, column, format!("{expected}; there is {}", shown(text)))
        })?;
        let tokens = |place: usize, name| {
            let (column, text) = fields[place];
            tokens_of(text, number, column, name)
        };
        let input_tokens = tokens(columns.input, "input tokens")?;
        let output_tokens = tokens(columns.output, "output tokens")?;
        if input_tokens == 0 || output_tokens == 0 {
            // A request that failed when the trace was taken; how long it would have been is not known.
            left_out += 1;
            continue;
        }
        rows.push(Row { at_ns, input_tokens, output_tokens, blocks: Box::default() });
    }
    Ok((columns.format, rows, left_out))
}

impl Columns {
    fn of(number: usize, header: &str) -> Result<Columns, BadInput> {
        let names: Vec<String> = fields(header).iter().map(|(_, name)| name.trim().to_ascii_lowercase()).collect();
        let find = |name: &str| names.iter().position(|found| found == name);
        let of = names.len();
        let azure = (find("timestamp"), find("contexttokens"), find("generatedtokens"));
        let burst = (find("timestamp"), find("request tokens"), find("response tokens"));
        let (format, (time, input, output)) = match (azure, burst) {
            ((Some(time), Some(input), Some(output)), _) => (TraceFormat::Azure, (time, input, output)),
            (_, (Some(time), Some(input), Some(output))) => (TraceFormat::BurstGpt, (time, input, output)),
            _ => {
                return Err(BadInput::at(
                    number,
                    1,
                    format!(
                        "the header `TIMESTAMP,ContextTokens,GeneratedTokens` (Azure), one with `Timestamp`, `Request \
                         tokens` and `Response tokens` (BurstGPT), or JSON Lines with `timestamp`, `input_length` and \
                         `output_length` (Mooncake); there is {}",
                        shown(header)
                    ),
                ));
            }
        };
        Ok(Columns { format, time, input, output, of })
    }
}

/// The fields of a line, each with its column. The layouts have no commas inside fields.
fn fields(line: &str) -> Vec<(usize, &str)> {
    let mut column = 1;
    line.trim_end_matches('\r')
        .split(',')
        .map(|field| {
            let at = column;
            column += field.chars().count() + 1;
            (at, field.trim().trim_matches('"'))
        })
        .collect()
}

/// Seconds as nanoseconds.
fn seconds(text: &str) -> Option<i128> {
    let seconds: f64 = text.trim().parse().ok()?;
    (seconds.is_finite() && (0.0..1e12).contains(&seconds)).then(|| (seconds * 1e9).round() as i128)
}

/// `2023-11-16 18:17:03.9799600`, with or without a fraction and an offset from UTC, as nanoseconds since 1970.
fn date_time(text: &str) -> Option<i128> {
    let (date, time) = text.trim().split_once([' ', 'T'])?;
    let mut parts = date.splitn(3, '-');
    let mut number = || -> Option<i64> { digits(parts.next()?) };
    let (year, month, day) = (number()?, number()?, number()?);
    let (time, offset_minutes) = split_offset(time)?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut parts = time.splitn(3, ':');
    let mut number = || -> Option<i64> { digits(parts.next()?) };
    let (hour, minute, second) = (number()?, number()?, number()?);
    let in_range = (1..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60
        && fraction.len() <= 9;
    if !in_range {
        return None;
    }
    let nanos = if fraction.is_empty() { 0 } else { digits(fraction)? * 10_i64.pow(9 - fraction.len() as u32) };
    let date = Date { year: year.unsigned_abs(), month: month.unsigned_abs(), day: day.unsigned_abs() };
    let minutes = (date.day_number() * 24 + hour) * 60 + minute - offset_minutes;
    Some(i128::from(minutes * 60 + second) * 1_000_000_000 + i128::from(nanos))
}

fn digits(text: &str) -> Option<i64> {
    (!text.is_empty() && text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
}

/// A time of day and its offset from UTC in minutes.
fn split_offset(time: &str) -> Option<(&str, i64)> {
    if let Some(time) = time.strip_suffix('Z') {
        return Some((time, 0));
    }
    let Some(place) = time.rfind(['+', '-']) else { return Some((time, 0)) };
    let (hours, minutes) = time[place + 1..].split_once(':')?;
    let ahead = digits(hours).filter(|hours| *hours < 24)? * 60 + digits(minutes).filter(|minutes| *minutes < 60)?;
    Some((&time[..place], if time[place..].starts_with('-') { -ahead } else { ahead }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_become_nanoseconds_since_1970() {
        let seconds = |text| date_time(text).map(|nanos| nanos as f64 / 1e9);
        assert_eq!(seconds("1970-01-01 00:00:00"), Some(0.0));
        assert_eq!(seconds("2023-11-16 18:17:03.9799600"), Some(1_700_158_623.979_96));
        assert_eq!(seconds("2024-02-29T00:00:00.5Z"), Some(1_709_164_800.5));
        assert_eq!(seconds("2024-05-10 02:00:00.009930+02:00"), Some(1_715_299_200.009_93));
        for bad in ["", "2023-11-16", "2023-13-16 18:17:03", "2023-11-16 18:17", "2023-11-16 25:00:00", "a b"] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
    }
}
