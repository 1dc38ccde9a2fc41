//! Every arrival of every request (`--chunks`), as columns (Parquet), CSV or lines of JSON, by the ending of the file's name.
//!
//! Written when a level is over, a group of rows at a time. Invariant: between two levels the file is whole and readable, if it is a
//! regular one; of a level that does not fit nothing stays, and the levels before it do.

use super::parquet::created_by;
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use tokrate_bench::{ArrivalRow, RequestArrivals};
use tokrate_columns::{Cell, Column, Kind, ParquetWriter};
use tokrate_core::Channel;

/// Bytes of lines that are gathered before they are written.
const MAX_GATHERED: usize = 1 << 20;

const COLUMNS: [Column; 11] = [
    ("target", Kind::Text),
    ("request_id", Kind::Text),
    ("level", Kind::Text),
    ("round", Kind::Count),
    ("warmup", Kind::Truth),
    ("index", Kind::Count),
    ("at_ns", Kind::Count),
    ("bytes", Kind::Count),
    ("tokens", Kind::Count),
    ("events", Kind::Count),
    ("channel", Kind::Text),
];

/// The form of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Parquet,
    Csv,
    Json,
}

fn form_of(path: &Path) -> Result<Form> {
    let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    match ending.as_deref() {
        Some("parquet") => Ok(Form::Parquet),
        Some("csv") => Ok(Form::Csv),
        Some("jsonl" | "ndjson") => Ok(Form::Json),
        _ => bail!(
            "read --chunks: the ending of {} says no form; name a file that ends in .parquet, .csv or .jsonl",
            path.display()
        ),
    }
}

/// Whether the ending of a file's name says how arrivals are written.
pub fn check_form(path: &Path) -> Result<()> {
    form_of(path).map(|_| ())
}

/// The file under way.
pub struct Arrivals {
    file: File,
    path: PathBuf,
    form: Form,
    /// Whether it can be cut, and be written at any place.
    is_regular: bool,
    columns: Option<ParquetWriter>,
    /// What is to be written next.
    next: Vec<u8>,
    /// The state when the last level was whole: bytes without the end of a Parquet file.
    whole: (u64, Option<ParquetWriter>),
    /// Why arrivals are missing, if any are.
    lost: Option<std::io::Error>,
}

impl Arrivals {
    /// Creates the file.
    pub fn create(path: &Path) -> Result<Arrivals> {
        let form = form_of(path)?;
        let file =
            File::create(path).with_context(|| format!("write {}; check that its folder exists", path.display()))?;
        let is_regular = file.metadata().is_ok_and(|metadata| metadata.is_file());
        let mut next = Vec::new();
        let columns = match form {
            Form::Parquet => Some(ParquetWriter::new(&COLUMNS, &created_by(), &mut next)),
            Form::Csv => {
                next.extend_from_slice(COLUMNS.map(|(name, _)| name).join(",").as_bytes());
                next.push(b'\n');
                None
            }
            Form::Json => None,
        };
        let mut arrivals =
            Arrivals { file, path: path.to_path_buf(), form, is_regular, columns, next, whole: (0, None), lost: None };
        // A disk that is full takes nothing from the table.
        arrivals.end_level();
        Ok(arrivals)
    }

    /// Adds the arrivals of a request. After the first that is lost no more are added: a file with a hole would look whole.
    pub fn add(&mut self, target: Option<&str>, request: RequestArrivals<'_>) {
        if self.lost.is_some() {
            return;
        }
        let id = format!("{}-{}", request.phase, request.request);
        for row in request.rows() {
            match &mut self.columns {
                Some(columns) => columns.push(cells(target, &id, &request, &row), &mut self.next),
                None => put_line(self.form, target, &id, &request, &row, &mut self.next),
            }
            if self.next.len() >= MAX_GATHERED {
                self.write();
            }
        }
    }

    /// A level is over: the file holds all of it.
    pub fn end_level(&mut self) {
        if let Some(columns) = self.columns.as_mut().filter(|_| self.lost.is_none()) {
            columns.flush(&mut self.next);
        }
        self.write();
        if self.lost.is_some() {
            return;
        }
        let place = self.file.stream_position().unwrap_or(0);
        if let Err(error) = self.write_end(place) {
            self.lose(error);
            return;
        }
        self.whole = (place, self.columns.clone());
    }

    /// What became of the file.
    pub fn finish(mut self) -> Result<()> {
        if let (Some(columns), false) = (&self.columns, self.is_regular) {
            columns.put_end(&mut self.next);
            self.write();
        }
        match self.lost.take() {
            None => Ok(()),
            Some(error) => Err(error).with_context(|| {
                format!("write {}; check that its disk is not full; it holds the levels before", self.path.display())
            }),
        }
    }

    /// Writes the end of a Parquet file; what comes next takes its place.
    fn write_end(&mut self, place: u64) -> std::io::Result<()> {
        let Some(columns) = self.columns.as_ref().filter(|_| self.is_regular) else { return Ok(()) };
        let mut end = Vec::new();
        columns.put_end(&mut end);
        self.file.write_all(&end)?;
        self.file.set_len(place + end.len() as u64)?;
        self.file.seek(SeekFrom::Start(place))?;
        Ok(())
    }

    fn write(&mut self) {
        if self.lost.is_none()
            && let Err(error) = self.file.write_all(&self.next)
        {
            self.lose(error);
        }
        self.next.clear();
    }

    /// Goes back to the last whole level: half of one would make the file unreadable.
    fn lose(&mut self, error: std::io::Error) {
        self.lost = Some(error);
        let (place, columns) = std::mem::take(&mut self.whole);
        self.columns = columns;
        if self.is_regular {
            // What cannot be cut stays as it is; the error says that the file is not whole.
            let _ = self.file.set_len(place);
            let _ = self.file.seek(SeekFrom::Start(place));
            let _ = self.write_end(place);
        }
    }
}

fn channel(channel: Channel) -> &'static str {
    match channel {
        Channel::Reasoning => "reasoning",
        Channel::Answer => "answer",
        Channel::Tool => "tool",
    }
}

fn cells<'c>(
    target: Option<&'c str>,
    id: &'c str,
    request: &RequestArrivals<'c>,
    row: &ArrivalRow,
) -> [Cell<'c>; COLUMNS.len()] {
    [
        target.map_or(Cell::Missing, Cell::Text),
        Cell::Text(id),
        Cell::Text(request.level),
        Cell::Count(request.round as i64),
        Cell::Truth(request.warmup),
        Cell::Count(row.index as i64),
        Cell::Count(row.at_ns as i64),
        Cell::Count(row.bytes.into()),
        Cell::Count(row.tokens.into()),
        Cell::Count(row.events.into()),
        Cell::Text(channel(row.channel)),
    ]
}

fn put_line(
    form: Form,
    target: Option<&str>,
    id: &str,
    request: &RequestArrivals<'_>,
    row: &ArrivalRow,
    out: &mut Vec<u8>,
) {
    let line = match form {
        Form::Csv => {
            let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
            let ArrivalRow { index, at_ns, bytes, tokens, events, .. } = row;
            format!(
                "{},{id},{},{},{},{index},{at_ns},{bytes},{tokens},{events},{}",
                target.map(quoted).unwrap_or_default(),
                quoted(request.level),
                request.round,
                request.warmup,
                channel(row.channel),
            )
        }
        _ => {
            let mut fields = json!({
                "request_id": id, "level": request.level, "round": request.round, "warmup": request.warmup,
                "index": row.index, "at_ns": row.at_ns, "bytes": row.bytes, "tokens": row.tokens, "events": row.events,
                "channel": channel(row.channel),
            });
            if let Some(target) = target {
                fields["target"] = json!(target);
            }
            fields.to_string()
        }
    };
    out.extend_from_slice(line.as_bytes());
    out.push(b'\n');
}
