//! Query strings of the gateway's admin side: what they ask of the log is bounded, and the order of their parts does not matter.
//!
//! It does not touch a database. Invariant: the first byte of the input says at which `&` the parts are turned round.

use crate::text;
use tokrate_admin::query;

/// Rows of one answer at most, as docs/throughput-log.md has it.
const ROWS_MOST: u64 = 10_000;
/// Calls of one page of a list at most.
const CALLS_MOST: usize = 200;
/// Some moment (ms since 1970).
const NOW: u64 = 1_795_262_400_000;

/// Panics if a property does not hold.
pub fn run(input: &[u8]) {
    let Some((&turn, bytes)) = input.split_first() else { return };
    let query = text(bytes);
    let places: Vec<usize> = query.match_indices('&').map(|(place, _)| place).collect();
    let turned = places.get(usize::from(turn) % places.len().max(1)).map(|&place| {
        let (first, rest) = query.split_at(place);
        format!("{}&{first}", &rest[1..])
    });
    let (rows, summary) = (query::attempts(Some(query), NOW), query::summary(Some(query), NOW));
    match &rows {
        Ok(rows) => {
            assert!(rows.limit.is_some_and(|limit| (1..=ROWS_MOST).contains(&limit)));
            assert!(rows.from_unix_ms.zip(rows.until_unix_ms).is_none_or(|(from, until)| from < until));
            let texts = [&rows.lane, &rows.alias, &rows.key, &rows.provider, &rows.call];
            assert!(
                texts.iter().all(|text| text.as_ref().is_none_or(|text| !text.is_empty() && text.len() <= query.len()))
            );
        }
        Err(why) => assert!(!why.is_empty() && why.len() <= 3 * query.len() + 500, "{why}"),
    }
    let list = query::call_list(Some(query), NOW);
    if let Ok((_, list)) = &list {
        assert!((1..=CALLS_MOST).contains(&list.limit));
    }
    let report = query::report(Some(query), NOW);
    if let Some(turned) = turned {
        assert_eq!(query::report(Some(&turned), NOW).ok(), report.ok(), "{query:?} and {turned:?}");
        assert_eq!(query::attempts(Some(&turned), NOW).ok(), rows.ok(), "{query:?} and {turned:?}");
        assert_eq!(query::summary(Some(&turned), NOW).ok(), summary.ok(), "{query:?} and {turned:?}");
    }
}
