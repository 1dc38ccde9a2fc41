//! Query parameters of the API.
//!
//! Unknown names, repeated names and unreadable values are rejected with what to write instead. Invariant: the number
//! of rows that are read is bounded.

use tokrate_core::{FailureKind, parse_rfc3339};
use tokrate_record::AttemptEnd;
use tokrate_store::{CallOrder, Grouping, Order, Query};

/// Rows in one response by default.
const DEFAULT_ROWS: u64 = 100;
/// Most rows in one response.
pub(crate) const MAX_ROWS: u64 = 10_000;
/// Calls in one response by default, and at most.
const DEFAULT_CALLS: u64 = 50;
const MAX_CALLS: u64 = 200;
/// How far back a summary looks by default.
const DEFAULT_SINCE: &str = "24h";

/// How far back a report and the pages look by default.
pub(crate) const DEFAULT_REPORT_SINCE: &str = "1h";

/// Parameters, taken one by one.
#[derive(Debug)]
pub struct QueryParams {
    left: Vec<(String, String)>,
    known: Vec<&'static str>,
}

/// What is wrong with a parameter, and what to write.
pub type ParamError = String;

impl QueryParams {
    /// Parses a query string.
    pub fn of(query: Option<&str>) -> Result<QueryParams, ParamError> {
        let mut left: Vec<(String, String)> = Vec::new();
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let broken = || format!("`{pair}` is not percent-encoded UTF-8");
            let (name, value) = (percent_decoded(name).ok_or_else(broken)?, percent_decoded(value).ok_or_else(broken)?);
            if left.iter().any(|(other, _)| *other == name) {
                return Err(format!("`{name}` is given twice; give it once"));
            }
            if value.is_empty() {
                return Err(format!("`{name}` has no value; leave it out or write {name}=VALUE"));
            }
            left.push((name, value));
        }
        Ok(QueryParams { left, known: Vec::new() })
    }

    /// The same of a form, which sends its empty fields too: they are taken as left out.
    pub fn of_form(query: Option<&str>) -> Result<QueryParams, ParamError> {
        let filled: Vec<&str> = query.unwrap_or_default().split('&').filter(|pair| !pair.ends_with('=')).collect();
        QueryParams::of(Some(&filled.join("&")))
    }

    /// The value of a parameter, if it is given.
    pub fn take(&mut self, name: &'static str) -> Option<String> {
        self.known.push(name);
        let index = self.left.iter().position(|(other, _)| other == name)?;
        Some(self.left.swap_remove(index).1)
    }

    /// An integer from 1 to a limit.
    pub fn take_count(&mut self, name: &'static str, default: u64, limit: u64) -> Result<u64, ParamError> {
        let Some(text) = self.take(name) else { return Ok(default) };
        let count = text.parse().ok().filter(|count| (1..=limit).contains(count));
        count.ok_or_else(|| format!("`{name}={text}`: write a whole number from 1 to {limit}"))
    }

    /// A wall time (ms since 1970); `None` for all time.
    pub fn take_time(
        &mut self,
        name: &'static str,
        default: Option<&str>,
        now: u64,
    ) -> Result<Option<u64>, ParamError> {
        let value = self.take(name);
        let Some(text) = value.as_deref().or(default) else { return Ok(None) };
        parse_time(text, now).ok_or_else(|| {
            format!(
                "`{name}={text}`: write a time back such as 90s, 15m, 24h or 7d, a time such as 2026-11-26T14:00 (UTC), \
                 milliseconds since 1970, or all"
            )
        })
    }

    /// One of a list of names.
    pub fn take_named<T: Copy>(
        &mut self,
        name: &'static str,
        all: &[T],
        name_of: fn(T) -> &'static str,
    ) -> Result<Option<T>, ParamError> {
        let Some(text) = self.take(name) else { return Ok(None) };
        let found = all.iter().copied().find(|one| name_of(*one) == text);
        let names = || all.iter().map(|one| name_of(*one)).collect::<Vec<_>>().join(", ");
        found.map(Some).ok_or_else(|| format!("`{name}={text}`: write one of {}", names()))
    }

    /// Rejects parameters that were not taken.
    pub fn finish(self) -> Result<(), ParamError> {
        match self.left.first() {
            None => Ok(()),
            Some((name, _)) if self.known.is_empty() => {
                Err(format!("`{name}`: this path takes no parameters; leave it out"))
            }
            Some((name, _)) => Err(format!("`{name}`: unknown parameter; known are {}", self.known.join(", "))),
        }
    }
}

/// The query for rows of attempts.
pub fn attempts(query: Option<&str>, now: u64) -> Result<Query, ParamError> {
    let mut params = QueryParams::of(query)?;
    let mut query = filters(&mut params, None, now)?;
    query.limit = Some(params.take_count("limit", DEFAULT_ROWS, MAX_ROWS)?);
    let order_name = |order| match order {
        Order::Newest => "newest",
        Order::Oldest => "oldest",
    };
    query.order = params.take_named("order", &[Order::Newest, Order::Oldest], order_name)?.unwrap_or(Order::Newest);
    params.finish()?;
    Ok(query)
}

/// The query for groups of attempts.
pub fn summary(query: Option<&str>, now: u64) -> Result<(Query, Grouping), ParamError> {
    let mut params = QueryParams::of(query)?;
    let query = filters(&mut params, Some(DEFAULT_SINCE), now)?;
    let by = params.take("by").unwrap_or_else(|| "lane".to_owned());
    let mut grouping = Grouping::default();
    for name in by.split(',') {
        match name {
            "lane" => grouping.lane = true,
            "hour" => grouping.hour = true,
            "all" if by == "all" => {}
            _ => return Err(format!("`by={by}`: write lane, hour, lane,hour or all")),
        }
    }
    params.finish()?;
    Ok((query, grouping))
}

/// The query of a report.
pub fn report(query: Option<&str>, now: u64) -> Result<Query, ParamError> {
    let mut params = QueryParams::of(query)?;
    let query = filters(&mut params, Some(DEFAULT_REPORT_SINCE), now)?;
    params.finish()?;
    Ok(query)
}

/// Which page of a list of calls.
#[derive(Debug)]
pub struct ListParams {
    /// What calls are sorted by.
    pub order: CallOrder,
    /// The last call of the page before.
    pub after: Option<String>,
    /// Calls at most.
    pub limit: usize,
}

/// The query for a list of calls.
pub fn call_list(query: Option<&str>, now: u64) -> Result<(Query, ListParams), ParamError> {
    let mut params = QueryParams::of(query)?;
    let query = filters(&mut params, Some(DEFAULT_REPORT_SINCE), now)?;
    let order = params.take_named("sort", &CallOrder::ALL, CallOrder::name)?.unwrap_or_default();
    let after = params.take("after");
    let limit = params.take_count("limit", DEFAULT_CALLS, MAX_CALLS)? as usize;
    params.finish()?;
    Ok((query, ListParams { order, after, limit }))
}

/// Filters that the log's paths and the pages have in common.
pub(crate) fn filters(params: &mut QueryParams, since: Option<&str>, now: u64) -> Result<Query, ParamError> {
    let query = Query {
        from_unix_ms: params.take_time("since", since, now)?,
        until_unix_ms: params.take_time("until", None, now)?,
        lane: params.take("lane"),
        alias: params.take("alias"),
        key: params.take("key"),
        provider: params.take("provider"),
        call: params.take("call"),
        end: params.take_named("end", &AttemptEnd::ALL, AttemptEnd::name)?,
        failure: params.take_named("failure", &FailureKind::ALL, FailureKind::name)?,
        ..Query::default()
    };
    match (query.from_unix_ms, query.until_unix_ms) {
        (Some(from), Some(until)) if from >= until => Err("`since` is not before `until`; swap them".to_owned()),
        _ => Ok(query),
    }
}

/// `Some(None)` for all time; `None` for what cannot be parsed.
fn parse_time(text: &str, now: u64) -> Option<Option<u64>> {
    if text == "all" {
        return Some(None);
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().map(Some);
    }
    if let Some(time) = parse_date_time(text) {
        return Some(Some(time));
    }
    let (number, unit) = text.split_at_checked(text.len() - 1)?;
    let unit_ms = match unit {
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let back: u64 = number.parse().ok()?;
    Some(Some(now.saturating_sub(back.saturating_mul(unit_ms))))
}

/// A date and time in UTC, as RFC 3339 has it or shortened as browsers' forms send it: without seconds and zone.
fn parse_date_time(text: &str) -> Option<u64> {
    let seconds = if text.len() == "2026-11-26T14:00".len() { ":00" } else { "" };
    let zone = if text.ends_with(['Z', 'z']) || text.rfind(['+', '-']).is_some_and(|at| at > 10) { "" } else { "Z" };
    u64::try_from(parse_rfc3339(&format!("{text}{seconds}{zone}"))?).ok()
}

/// Decodes percent-encoding, and `+` as a space; `None` for what is not UTF-8 or incomplete.
fn percent_decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                u8::try_from(high * 16 + low).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: u64 = 1_795_262_400_000;

    #[test]
    fn filters_become_those_of_the_log() {
        let query = attempts(
            Some("since=15m&until=1795262300000&lane=a%20b%2Fc&end=failed&failure=rate_limited&limit=7&order=oldest"),
            NOW,
        );
        let expected = Query {
            from_unix_ms: Some(NOW - 900_000),
            until_unix_ms: Some(1_795_262_300_000),
            lane: Some("a b/c".to_owned()),
            end: Some(AttemptEnd::Failed),
            failure: Some(FailureKind::RateLimited),
            order: Order::Oldest,
            limit: Some(7),
            ..Query::default()
        };
        assert_eq!(query, Ok(expected));
        let default = attempts(None, NOW).expect("every parameter has a default");
        assert_eq!((default.limit, default.order, default.from_unix_ms), (Some(100), Order::Newest, None));
    }

    #[test]
    fn a_summary_is_of_a_day_by_lane_by_default() {
        let (query, by) = summary(None, NOW).expect("every parameter has a default");
        assert_eq!((query.from_unix_ms, by), (Some(NOW - 86_400_000), Grouping { lane: true, ..Grouping::default() }));
        let (query, by) = summary(Some("since=all&by=lane,hour"), NOW).expect("good");
        assert_eq!((query.from_unix_ms, by), (None, Grouping { lane: true, hour: true, ..Grouping::default() }));
    }

    #[test]
    fn a_bad_parameter_is_rejected_with_what_to_write() {
        let stats = |query| attempts(Some(query), NOW).expect_err("refused");
        insta::assert_snapshot!(
            [
                "limit=0",
                "limit=10001",
                "limit=x",
                "since=yesterday",
                "since=5w",
                "end=won",
                "lane=",
                "lane=%ff",
                "lane=%4",
                "lane=a&lane=b",
                "model=x",
                "since=1h&until=2h",
                "failure=oops",
                "order=up"
            ]
            .map(stats)
            .join("\n")
        );
        assert_eq!(summary(Some("by=day"), NOW).expect_err("refused"), "`by=day`: write lane, hour, lane,hour or all");
        assert!(summary(Some("by=all,lane"), NOW).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

        #[test]
        fn no_query_string_panics_or_reads_too_many_rows(text in "[a-z=&%+0-9é,]{0,40}|since=.{0,12}|limit=[0-9]{0,22}") {
            if let Ok(query) = attempts(Some(&text), NOW) {
                prop_assert!(query.limit.is_some_and(|limit| (1..=MAX_ROWS).contains(&limit)));
            }
            let _ = summary(Some(&text), NOW);
        }
    }
}
