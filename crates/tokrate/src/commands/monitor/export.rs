//! `tokrate monitor export`: the probes that are kept, in the form that `monitor replay` reads, as a table, or in columns.
//!
//! Invariant: a text of a provider cannot leave its field.

use crate::commands::Verdict;
use crate::config::clickhouse;
use crate::config::file::File;
use crate::config::log::rows_of_gateway;
use crate::config::monitor::{rows_of_monitor, traffic_log};
use crate::flags::monitor::ExportFlags;
use crate::flags::source::Source;
use crate::out::parquet::{Column, Kind, ParquetFile};
use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};
use std::io::{BufWriter, Write};
use std::path::Path;
use tokrate_core::rfc3339;
use tokrate_monitor::BoardFrame;
use tokrate_store::{ProbeQuery, ProbeRow, ProbeStore, Query};

/// Writes the file.
pub fn run(flags: &ExportFlags) -> Result<Verdict> {
    let source = flags.source.unwrap_or(Source::Monitor);
    let file = match clickhouse::settings_for(flags.db.as_deref())? {
        // It may name the log still.
        None => File::of_folder("name the log with --log").ok(),
        file => file,
    };
    let log = traffic_log(flags.log.as_deref(), file.as_ref())?;
    let probes =
        || -> Result<Box<dyn ProbeStore>> { Ok(rows_of_monitor(flags.db.as_deref(), file.as_ref())?.probes()?) };
    if let Some(folder) = &flags.static_board {
        let store = probes()?;
        if let Some(log) = &log {
            log.log()?;
        }
        let at_unix_ms = store.newest_probe()?.context("export the board: there is no probe in the database")?;
        let frame = BoardFrame { title: "How fast they answer".to_owned(), log, ..BoardFrame::default() };
        let count = super::board::write_files(&*store, &frame, at_unix_ms, folder)?;
        anstream::eprintln!("tokrate: wrote {count} files to {}; begin with index.html", folder.display());
        return Ok(Verdict::Good);
    }
    let (path, form) = match (&flags.jsonl, &flags.csv, &flags.parquet) {
        (Some(path), _, _) => (path, Form::Json),
        (_, Some(path), _) => (path, Form::Csv),
        (_, _, Some(path)) => (path, Form::Parquet),
        (None, None, None) => unreachable!("one of them is required"),
    };
    let failed = || format!("write {}", path.display());
    let mut sink = Sink::open(path, form).with_context(failed)?;
    let (mut count, mut written) = (0_u64, Ok(()));
    let mut each = |row: ProbeRow| {
        if written.is_ok() {
            written = sink.add(&row);
            count += 1;
        }
    };
    if source == Source::Gateway {
        let log = log.map_or_else(|| rows_of_gateway(None, file.as_ref()), Ok)?;
        log.log()?.visit_attempts(&Query::default(), &mut |row| each(ProbeRow::of_attempt(row)))?;
    } else {
        let source = Some(source.of_rows());
        let query = ProbeQuery { counted_only: !flags.all, source, ..ProbeQuery::default() };
        probes()?.visit_probes(&query, &mut each)?;
    }
    match written.and_then(|()| sink.finish()) {
        // A reader that has gone (`| head`) wants no more.
        Err(error) if is_broken_pipe(&error) => {}
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

/// The form of a file.
#[derive(Clone, Copy)]
enum Form {
    Json,
    Csv,
    Parquet,
}

/// A file under way.
enum Sink {
    Lines(Box<dyn Write>, fn([Value; COLUMNS.len()]) -> String),
    Parquet(Box<ParquetFile<std::fs::File>>),
}

impl Sink {
    fn open(path: &Path, form: Form) -> Result<Sink> {
        let is_stdout = path == Path::new("-");
        if let Form::Parquet = form {
            ensure!(!is_stdout, "columns do not go to standard output; name a file");
            return Ok(Sink::Parquet(Box::new(ParquetFile::new(std::fs::File::create(path)?, &COLUMNS))));
        }
        let mut out: Box<dyn Write> = if is_stdout {
            Box::new(BufWriter::new(std::io::stdout().lock()))
        } else {
            Box::new(BufWriter::new(std::fs::File::create(path)?))
        };
        if let Form::Csv = form {
            writeln!(out, "{}", COLUMNS.map(|(name, _)| name).join(","))?;
            return Ok(Sink::Lines(out, csv_line));
        }
        Ok(Sink::Lines(out, json_line))
    }

    fn add(&mut self, row: &ProbeRow) -> Result<()> {
        match self {
            Sink::Lines(out, line) => Ok(writeln!(out, "{}", line(fields(row)))?),
            Sink::Parquet(file) => file.push(fields(row)),
        }
    }

    fn finish(self) -> Result<()> {
        match self {
            Sink::Lines(mut out, _) => Ok(out.flush()?),
            Sink::Parquet(file) => file.finish(),
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

const COLUMNS: [Column; 31] = [
    ("at", Kind::Time),
    ("endpoint", Kind::Text),
    ("workload", Kind::Text),
    ("place", Kind::Text),
    ("source", Kind::Text),
    ("ttft_ms", Kind::Number),
    ("output_speed", Kind::Number),
    ("e2e_ms", Kind::Number),
    ("ok", Kind::Truth),
    ("error", Kind::Text),
    ("ttft_missing", Kind::Text),
    ("output_speed_missing", Kind::Text),
    ("quarantine", Kind::Text),
    ("id", Kind::Text),
    ("prober", Kind::Text),
    ("due", Kind::Time),
    ("slot", Kind::Time),
    ("further", Kind::Truth),
    ("provider", Kind::Text),
    ("model", Kind::Text),
    ("model_answered", Kind::Text),
    ("status", Kind::Count),
    ("finish", Kind::Text),
    ("input_tokens", Kind::Count),
    ("output_tokens", Kind::Count),
    ("gap_p50_ms", Kind::Number),
    ("gap_p99_ms", Kind::Number),
    ("dns_ms", Kind::Number),
    ("connect_ms", Kind::Number),
    ("tls_ms", Kind::Number),
    ("cost_usd", Kind::Number),
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
    Value::Object(known.map(|((name, _), value)| (name.to_owned(), value)).collect::<Map<String, Value>>()).to_string()
}

fn csv_line(fields: [Value; COLUMNS.len()]) -> String {
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
