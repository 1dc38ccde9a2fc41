//! Rows as CSV (RFC 4180): one line a row, a header, nothing that a spreadsheet would run.
//!
//! Invariant: every line has as many fields as the header; a missing number is empty, never 0; a text that begins like a formula
//! is preceded by an apostrophe.

use crate::board::{Board, Entry};
use crate::html::rfc;
use crate::view::View;
use std::fmt::Write as _;
use tokrate_core::one_line;

/// The rows of a view.
pub(crate) fn leaderboard(board: &Board, view: &View) -> String {
    let mut out = String::from(
        "model,endpoint,provider,workload,place,load,window,source,fingerprint,rank_best,rank_worst,n,failed,quarantined,output_speed,output_speed_low,output_speed_high,ttft_ms,ttft_ms_low,ttft_ms_high,e2e_ms,e2e_ms_low,e2e_ms_high,blended_usd_per_million\r\n",
    );
    let table = board.api_leaderboard(view);
    for row in &table.rows {
        let texts =
            [&row.model, &row.endpoint, &row.provider, &table.workload, &table.place, &table.load, &table.window];
        texts.into_iter().chain([&table.source, &row.fingerprint]).for_each(|cell| push_text(&mut out, cell));
        let ranks = row.rank.map(|rank| (rank.best, rank.worst)).unzip();
        push(&mut out, ranks.0);
        push(&mut out, ranks.1);
        let numbers = &row.numbers;
        [numbers.n, numbers.failed, numbers.quarantined].into_iter().for_each(|count| push(&mut out, Some(count)));
        for estimate in [numbers.output_speed, numbers.ttft_ms, numbers.e2e_ms] {
            [estimate.value, estimate.low, estimate.high].into_iter().for_each(|value| push(&mut out, value));
        }
        push(&mut out, row.blended_usd_per_million);
        end_line(&mut out);
    }
    out
}

/// Every request of an endpoint.
pub(crate) fn endpoint(board: &Board, endpoint: usize) -> String {
    let mut out = String::from(
        "at,source,workload,place,fingerprint,in_flight,input_tokens,output_tokens,ttft_ms,output_speed,e2e_ms,gap_p99_ms,cost_usd,weight,failure,reason,quarantine\r\n",
    );
    for entry in board.entries.iter().filter(|entry| entry.endpoint == endpoint) {
        series(&mut out, board, entry);
    }
    out
}

fn series(out: &mut String, board: &Board, entry: &Entry) {
    for point in board.points(entry) {
        push_text(out, &rfc(point.at));
        push_text(out, entry.source.name());
        let names =
            [&board.workloads[entry.workload], &board.places[entry.place], &board.fingerprints[entry.fingerprint]];
        names.into_iter().for_each(|name| push_text(out, &name.label));
        push(out, Some(point.in_flight));
        push(out, point.input_tokens);
        push(out, point.output_tokens);
        let numbers = [point.ttft_ms, point.output_speed, point.e2e_ms, point.gap_p99_ms, point.cost_usd];
        numbers.into_iter().for_each(|number| push(out, number.filter(|number| number.is_finite())));
        push(out, Some(point.weight));
        push_text(out, point.failure.map_or("", tokrate_core::FailureKind::name));
        push_text(out, point.reason.as_deref().unwrap_or_default());
        push_text(out, point.quarantine.as_deref().unwrap_or_default());
        end_line(out);
    }
}

fn push(out: &mut String, value: Option<impl std::fmt::Display>) {
    if let Some(value) = value {
        let _ = write!(out, "{value}");
    }
    out.push(',');
}

fn push_text(out: &mut String, text: &str) {
    let line = one_line(text, crate::names::MAX_SENTENCE_BYTES);
    let line = if line.starts_with(['=', '+', '-', '@']) { format!("'{line}") } else { line };
    if line.contains([',', '"']) {
        let _ = write!(out, "\"{}\",", line.replace('"', "\"\""));
    } else {
        let _ = write!(out, "{line},");
    }
}

/// Every field ends in a comma; the last comma of a line is its end.
fn end_line(out: &mut String) {
    out.pop();
    out.push_str("\r\n");
}
