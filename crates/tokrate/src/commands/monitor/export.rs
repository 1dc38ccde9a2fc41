//! `tokrate monitor export`: the probes that are kept, in the form that `monitor replay` reads, or as a table.
//!
//! Invariant: a text of a provider cannot leave its field.

use super::open;
use crate::commands::Verdict;
use crate::config::file::File;
use crate::config::monitor::traffic_log;
use crate::flags::monitor::ExportFlags;
use crate::flags::source::Source;
use anyhow::{Context, Result};
use serde_json::{Map, Value, json};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use tokrate_core::rfc3339;
use tokrate_monitor::BoardFrame;
use tokrate_store::{ProbeQuery, ProbeRow, Query, Sqlite};

/// Writes the file.
pub fn run(flags: &ExportFlags) -> Result<Verdict> {
    let source = flags.source.unwrap_or(Source::Monitor);
    let file = File::of_folder("name the log with --log").ok();
    let log = traffic_log(flags.log.as_deref(), file.as_ref());
    if let Some(folder) = &flags.static_board {
        let store = open(flags.db.as_deref())?;
        if let Some(log) = &log {
            Sqlite::open_reader(log)?;
        }
        let at_unix_ms = store.newest_probe()?.context("export the board: there is no probe in the database")?;
        let frame = BoardFrame { title: "How fast they answer".to_owned(), log, ..BoardFrame::default() };
        let count = super::board::write_files(&store, &frame, at_unix_ms, folder)?;
        anstream::eprintln!("tokrate: wrote {count} files to {}; begin with index.html", folder.display());
        return Ok(Verdict::Good);
    }
    let (path, is_csv) = match (&flags.jsonl, &flags.csv) {
        (Some(path), _) => (path, false),
        (None, Some(path)) => (path, true),
        (None, None) => unreachable!("one of them is required"),
    };
    let failed = || format!("write {}", path.display());
    let mut out: Box<dyn Write> = if path.as_os_str() == "-" {
        Box::new(BufWriter::new(std::io::stdout().lock()))
    } else {
        Box::new(BufWriter::new(std::fs::File::create(path).with_context(failed)?))
    };
    let mut written = if is_csv { writeln!(out, "{}", COLUMNS.join(",")) } else { Ok(()) };
    let mut count = 0_u64;
    let each = |row: ProbeRow| {
        let fields = fields(&row);
        let line = if is_csv { csv_line(&fields) } else { json_line(fields) };
        if written.is_ok() {
            written = writeln!(out, "{line}");
            count += 1;
        }
    };
    if source == Source::Gateway {
        let log = log.unwrap_or_else(|| PathBuf::from(crate::config::log::DEFAULT_NAME));
        let mut each = each;
        Sqlite::open_reader(&log)?.visit_attempts(&Query::default(), |row| each(ProbeRow::of_attempt(row)))?;
    } else {
        let source = Some(source.of_rows());
        let query = ProbeQuery { counted_only: !flags.all, source, ..ProbeQuery::default() };
        open(flags.db.as_deref())?.visit_probes(&query, each)?;
    }
    match written.and_then(|()| out.flush()) {
        // A reader that has gone (`| head`) wants no more.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        written => written.with_context(failed)?,
    }
    if path != Path::new("-") {
        anstream::eprintln!(
            "tokrate: wrote {count} rows of the source `{}` to {}",
            source.of_rows().name(),
            path.display()
        );
    }
    Ok(Verdict::Good)
}

const COLUMNS: [&str; 31] = [
    "at",
    "endpoint",
    "workload",
    "place",
    "source",
    "ttft_ms",
    "output_speed",
    "e2e_ms",
    "ok",
    "error",
    "ttft_missing",
    "output_speed_missing",
    "quarantine",
    "id",
    "prober",
    "due",
    "slot",
    "further",
    "provider",
    "model",
    "model_answered",
    "status",
    "finish",
    "input_tokens",
    "output_tokens",
    "gap_p50_ms",
    "gap_p99_ms",
    "dns_ms",
    "connect_ms",
    "tls_ms",
    "cost_usd",
];

/// The values of [`COLUMNS`].
fn fields(row: &ProbeRow) -> [Value; COLUMNS.len()] {
    let (probe, sample) = (&row.probe, &row.probe.sample);
    let ms = |ns: Option<u64>| json!(ns.map(|ns| ns as f64 / 1e6));
    let is_ok = row.reason.is_none();
    [
        json!(time(sample.started_unix_ms)),
        json!(probe.endpoint),
        json!(probe.workload),
        json!(probe.place),
        json!(probe.source.name()),
        ms(sample.ttft_ns),
        json!(sample.output_speed),
        ms((is_ok && !row.is_cut_off).then_some(sample.total_ns)),
        json!(is_ok),
        json!(row.reason),
        json!(sample.ttft_missing),
        json!(sample.output_speed_missing),
        json!(probe.quarantine),
        json!(probe.id),
        json!(probe.prober),
        json!(time(probe.due_unix_ms)),
        json!(time(row.slot_unix_ms)),
        json!(row.is_further),
        json!(sample.provider),
        json!(sample.model),
        json!(sample.model_answered),
        json!(sample.status),
        json!(sample.finish.map(tokrate_core::FinishReason::name)),
        json!(sample.input_tokens.or(sample.input_tokens_std)),
        json!(sample.output_tokens.unwrap_or(sample.output_tokens_std)),
        ms(sample.gap_p50_ns),
        ms(sample.gap_p99_ns),
        ms(sample.dns_ns),
        ms(sample.connect_ns),
        ms(sample.tls_ns),
        json!(sample.cost_usd),
    ]
}

/// A time with its milliseconds (RFC 3339).
fn time(unix_ms: u64) -> String {
    let seconds = rfc3339(unix_ms / 1_000);
    format!("{}.{:03}Z", seconds.trim_end_matches('Z'), unix_ms % 1_000)
}

fn json_line(fields: [Value; COLUMNS.len()]) -> String {
    let known = COLUMNS.into_iter().zip(fields).filter(|(_, value)| !value.is_null());
    Value::Object(known.map(|(name, value)| (name.to_owned(), value)).collect::<Map<String, Value>>()).to_string()
}

fn csv_line(fields: &[Value]) -> String {
    let cells: Vec<String> = fields.iter().map(csv_cell).collect();
    cells.join(",")
}

/// A cell; spreadsheets take a text that begins with one of `=+-@` for a formula.
fn csv_cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => {
            let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
            format!("\"{guard}{}\"", text.replace('"', "\"\""))
        }
        other => other.to_string(),
    }
}
