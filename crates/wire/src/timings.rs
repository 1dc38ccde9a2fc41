//! Times that servers measured themselves, in the spellings seen in the wild.
//!
//! Invariant: a time that is no number of zero or more is left out.

use crate::object::Object;
use tokrate_core::{ServerTimings, Span};

/// Longest time that is believed (ns): more than a year is a mistake.
const LONGEST_NANOSECONDS: f64 = 4e16;

/// Nanoseconds of a unit.
const MILLISECOND: f64 = 1e6;
const SECOND: f64 = 1e9;

/// llama.cpp's `timings`: milliseconds of reading the prompt and of writing, with the tokens of each.
pub(crate) fn read_engine_timings(json: &str) -> Option<ServerTimings> {
    let times = Object::read(json).ok()??;
    let timings = ServerTimings {
        prefill: span(&times, "prompt_ms", MILLISECOND),
        decode: span(&times, "predicted_ms", MILLISECOND),
        prefill_tokens: times.count("prompt_n", &mut false),
        decode_tokens: times.count("predicted_n", &mut false),
        ..ServerTimings::default()
    };
    non_empty(timings)
}

/// Groq's times within `usage` and Cerebras' `time_info`: seconds.
pub(crate) fn read_times_in_seconds(json: &str) -> Option<ServerTimings> {
    let times = Object::read(json).ok()??;
    let timings = ServerTimings {
        queue: span(&times, "queue_time", SECOND),
        prefill: span(&times, "prompt_time", SECOND),
        decode: span(&times, "completion_time", SECOND),
        total: span(&times, "total_time", SECOND),
        ..ServerTimings::default()
    };
    non_empty(timings)
}

/// Writes llama.cpp's `timings`.
pub(crate) fn push_engine_timings(timings: ServerTimings, out: &mut Vec<u8>) {
    let mut separator: &[u8] = b"{";
    let mut field = |name: &str, number: Option<String>| {
        let Some(number) = number else { return };
        out.extend_from_slice(separator);
        out.extend_from_slice(b"\"");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
        out.extend_from_slice(number.as_bytes());
        separator = b",";
    };
    let milliseconds = |span: Option<Span>| span.map(milliseconds);
    field("prompt_n", timings.prefill_tokens.map(|tokens| tokens.to_string()));
    field("prompt_ms", milliseconds(timings.prefill));
    field("predicted_n", timings.decode_tokens.map(|tokens| tokens.to_string()));
    field("predicted_ms", milliseconds(timings.decode));
    if separator == b"{" {
        out.push(b'{');
    }
    out.push(b'}');
}

/// Whole nanoseconds as a decimal number of milliseconds, without a rounding.
fn milliseconds(span: Span) -> String {
    let nanoseconds = span.as_nanos();
    format!("{}.{:06}", nanoseconds / 1_000_000, nanoseconds % 1_000_000)
}

/// A number of units of so many nanoseconds, to the nearest nanosecond.
fn span(times: &Object<'_>, field: &str, unit: f64) -> Option<Span> {
    let number: f64 = times.get(field)?.parse().ok()?;
    let nanoseconds = (number * unit).round();
    (0.0..=LONGEST_NANOSECONDS).contains(&nanoseconds).then(|| Span::from_nanos(nanoseconds as u64))
}

fn non_empty(timings: ServerTimings) -> Option<ServerTimings> {
    (timings != ServerTimings::default()).then_some(timings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engines_times_survive_the_way_there_and_back() {
        let timings = ServerTimings {
            prefill: Some(Span::from_nanos(8_825_001)),
            decode: Some(Span::from_nanos(24_741_000)),
            prefill_tokens: Some(32),
            decode_tokens: Some(12),
            ..ServerTimings::default()
        };
        let mut out = Vec::new();
        push_engine_timings(timings, &mut out);
        let json = String::from_utf8(out).unwrap();
        assert_eq!(json, r#"{"prompt_n":32,"prompt_ms":8.825001,"predicted_n":12,"predicted_ms":24.741000}"#);
        assert_eq!(read_engine_timings(&json), Some(timings));
    }

    #[test]
    fn no_nanosecond_is_lost() {
        for nanoseconds in [0, 1, 999_999, 1_000_001, 1_234_567_890_123, 86_399_999_999_999] {
            let timings = ServerTimings { decode: Some(Span::from_nanos(nanoseconds)), ..ServerTimings::default() };
            let mut out = Vec::new();
            push_engine_timings(timings, &mut out);
            assert_eq!(read_engine_timings(std::str::from_utf8(&out).unwrap()), Some(timings));
        }
    }

    #[test]
    fn what_is_no_time_is_left_out() {
        assert_eq!(read_engine_timings(r#"{"prompt_ms":-1,"predicted_ms":"x","predicted_n":1.5}"#), None);
        let times = read_times_in_seconds(r#"{"queue_time":0.25,"total_time":1e300,"prompt_time":null}"#).unwrap();
        assert_eq!(times, ServerTimings { queue: Some(Span::from_millis(250)), ..ServerTimings::default() });
        assert_eq!(read_engine_timings("[]"), None);
    }
}
