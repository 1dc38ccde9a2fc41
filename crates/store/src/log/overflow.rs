//! Rows that wait on disk: those that arrive faster than the database takes them, or while another process has locked it.
//!
//! A file beside the log, `<log>-overflow`, that exists only while rows wait in it. It begins with the names of the columns, so that a later
//! version reads what an earlier one left, and each row has its length and checksum (CRC-32). One process uses it at a time.
//!
//! Invariant: rows are added whole or not at all, taken in their order, and gone only after they were written elsewhere. After a kill
//! the file is read from its beginning, so rows may be found that are in the database already.

use crate::StoreError;
use crate::row::{COLUMNS, Reader, Values, Writer};
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use tokrate_record::{Attempt, SharedConditions};

/// First line of the file; the second one has the columns.
const MAGIC: &[u8] = b"tokrate overflow 1\n";
/// Largest size of the file. Some 800,000 rows: seconds to write them when the database can.
const MAX_BYTES: u64 = 256 << 20;
/// Largest row that is believed; the texts of a row come from requests, whose size is limited.
const MAX_ROW: usize = 16 << 20;
/// Bytes that are read at once: some two hundred rows.
const READ_BYTES: usize = 64 << 10;
/// Bytes before a row: its length and its checksum.
const FRAME: usize = 8;

/// The rows beside a log that wait to be written to it.
#[derive(Debug)]
pub(super) struct Overflow {
    path: PathBuf,
    file: Option<File>,
    /// The columns of the file's rows: the place of each in [`COLUMNS`], if it is one of them.
    columns: Vec<Option<usize>>,
    /// Where the next row is read, and where the next one is added.
    next: u64,
    end: u64,
    /// Rows between the two.
    rows: u64,
    /// How many of them were here when the file was opened, and may be in the database.
    left_over: u64,
    /// What the rows taken last end at, and how many they are.
    taken: (u64, u64),
    buffer: Vec<u8>,
}

impl Overflow {
    /// That of a log. Touches no file.
    pub fn beside(log: &Path) -> Overflow {
        let mut path = log.as_os_str().to_owned();
        path.push("-overflow");
        Overflow {
            path: path.into(),
            file: None,
            columns: Vec::new(),
            next: 0,
            end: 0,
            rows: 0,
            left_over: 0,
            taken: (0, 0),
            buffer: Vec::new(),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Rows that wait.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.end
    }

    /// Whether the next rows may be in the database already.
    pub fn is_left_over(&self) -> bool {
        self.left_over > 0
    }

    /// Opens what an earlier process left, if it left anything and no other process uses it; returns how many bytes at the end were no
    /// whole rows and are gone.
    ///
    /// # Errors
    /// When there is a file that cannot be read or is none of tokrate's; it is left as it is.
    pub fn recover(&mut self) -> io::Result<u64> {
        let mut file = match OpenOptions::new().read(true).write(true).open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            opened => opened?,
        };
        if file.try_lock().is_err() {
            return Ok(0);
        }
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(foreign());
        }
        let size = found.len();
        let Some(header) = self.read_header(&mut file)? else {
            // Killed before the first row was whole.
            std::fs::remove_file(&self.path)?;
            return Ok(size);
        };
        (self.next, self.end, self.rows) = (header, header, 0);
        let mut bodies = Bodies::from(&file, header, size)?;
        while bodies.next()?.is_some() {
            (self.end, self.rows) = (bodies.at, self.rows + 1);
        }
        self.left_over = self.rows;
        file.set_len(self.end)?;
        self.file = Some(file);
        let cut = size - self.end;
        self.remove_if_empty()?;
        Ok(cut)
    }

    /// Adds rows, all or none of them.
    ///
    /// # Errors
    /// When there is no room, the file cannot be written, or another process uses it.
    pub fn push(&mut self, rows: &[Attempt]) -> io::Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let pushed = rows.iter().try_for_each(|row| encode(row, &mut buffer)).and_then(|()| self.add(&buffer));
        self.buffer = buffer;
        pushed?;
        self.rows += rows.len() as u64;
        Ok(())
    }

    /// The next rows, at most so many. They stay until [`Overflow::written`].
    ///
    /// # Errors
    /// When the file cannot be read, or holds what is no row of this or an earlier version.
    pub fn take(&mut self, most: u64) -> Result<Vec<Attempt>, StoreError> {
        let failed = |error: io::Error| StoreError::Open { path: self.path.clone(), message: error.to_string() };
        // Rows that may be in the database are not mixed with others.
        let most = if self.left_over > 0 { most.min(self.left_over) } else { most.min(self.rows) };
        let mut rows = Vec::new();
        let mut shared = SharedConditions::default();
        let Some(file) = self.file.as_ref() else { return Ok(rows) };
        let mut bodies = Bodies::from(file, self.next, self.end).map_err(failed)?;
        for _ in 0..most {
            let body = bodies.next().map_err(failed)?.ok_or_else(|| failed(not_a_row()))?;
            let values = decode(&body, &self.columns).ok_or_else(|| failed(not_a_row()))?;
            rows.push(Reader::of_values(&values, &COLUMNS, &self.path).attempt(&mut shared)?);
        }
        self.taken = (bodies.at, rows.len() as u64);
        Ok(rows)
    }

    /// The rows taken last are written elsewhere.
    ///
    /// # Errors
    /// When the file cannot be removed after its last row.
    pub fn written(&mut self) -> io::Result<()> {
        let (next, rows) = self.taken;
        self.taken = (next, 0);
        self.next = next.max(self.next);
        self.rows -= rows;
        self.left_over = self.left_over.saturating_sub(rows);
        self.remove_if_empty()
    }

    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.end + bytes.len() as u64 > MAX_BYTES {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "it has its largest size"));
        }
        if self.file.is_none() {
            self.create()?;
        }
        let Some(mut file) = self.file.as_ref() else { return Ok(()) };
        let added = file.seek(SeekFrom::Start(self.end)).and_then(|_| file.write_all(bytes));
        if let Err(error) = added {
            // A part of a row would hide those behind it.
            file.set_len(self.end)?;
            return Err(error);
        }
        self.end += bytes.len() as u64;
        Ok(())
    }

    fn create(&mut self) -> io::Result<()> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&self.path)?;
        file.try_lock().map_err(|_| io::Error::new(io::ErrorKind::ResourceBusy, "another process uses it"))?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(foreign());
        }
        if found.len() > 0 {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it holds rows of an earlier process"));
        }
        let header = [MAGIC, COLUMNS.join(",").as_bytes(), b"\n"].concat();
        if let Err(error) = file.write_all(&header) {
            file.set_len(0)?;
            return Err(error);
        }
        self.columns = (0..COLUMNS.len()).map(Some).collect();
        (self.next, self.end) = (header.len() as u64, header.len() as u64);
        self.file = Some(file);
        Ok(())
    }

    /// Reads the names of the columns; says where the first row begins, or `None` if the file ends before.
    fn read_header(&mut self, file: &mut File) -> io::Result<Option<u64>> {
        let mut start = Vec::new();
        Read::by_ref(file).take(64 << 10).read_to_end(&mut start)?;
        if !start.starts_with(&MAGIC[..MAGIC.len().min(start.len())]) {
            return Err(foreign());
        }
        let Some(names) = start.get(MAGIC.len()..) else { return Ok(None) };
        let Some(length) = names.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
        let place = |name: &[u8]| COLUMNS.iter().position(|column| column.as_bytes() == name);
        self.columns = names[..length].split(|byte| *byte == b',').map(place).collect();
        Ok(Some((MAGIC.len() + length + 1) as u64))
    }

    fn remove_if_empty(&mut self) -> io::Result<()> {
        if self.rows == 0 && self.file.is_some() {
            std::fs::remove_file(&self.path)?;
            self.file = None;
            (self.next, self.end) = (0, 0);
        }
        Ok(())
    }
}

/// The rows of a file as bytes, one behind the other.
struct Bodies<'f> {
    file: BufReader<&'f File>,
    /// Where the last one ended, and where the file does.
    at: u64,
    end: u64,
}

impl<'f> Bodies<'f> {
    /// Those between two places.
    fn from(mut file: &'f File, at: u64, end: u64) -> io::Result<Bodies<'f>> {
        file.seek(SeekFrom::Start(at))?;
        Ok(Bodies { file: BufReader::with_capacity(READ_BYTES, file), at, end })
    }

    /// The next one; `None` if there is no whole one. Nothing behind that is read.
    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.at + FRAME as u64 > self.end {
            return Ok(None);
        }
        let mut frame = [0; FRAME];
        self.file.read_exact(&mut frame)?;
        let [a, b, c, d, sum @ ..] = frame;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        let end = self.at + (FRAME + length) as u64;
        if length > MAX_ROW || end > self.end {
            return Ok(None);
        }
        let mut body = vec![0; length];
        self.file.read_exact(&mut body)?;
        if crc32fast::hash(&body) != u32::from_le_bytes(sum) {
            return Ok(None);
        }
        self.at = end;
        Ok(Some(body))
    }
}

fn foreign() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it is no file of tokrate's")
}

fn not_a_row() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it holds what is no row")
}

/// Adds a row to the bytes: length, checksum, and a tag and the bytes of each value.
fn encode(row: &Attempt, bytes: &mut Vec<u8>) -> io::Result<()> {
    let start = bytes.len();
    bytes.extend([0; FRAME]);
    Writer::new(Encoder(bytes)).attempt(row).map_err(|error| io::Error::other(error.to_string()))?;
    let body = &bytes[start + FRAME..];
    let (length, sum) = (body.len(), crc32fast::hash(body));
    let length = u32::try_from(length).ok().filter(|length| *length as usize <= MAX_ROW).ok_or_else(not_a_row)?;
    bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
    bytes[start + 4..start + FRAME].copy_from_slice(&sum.to_le_bytes());
    Ok(())
}

/// Writes values as bytes.
struct Encoder<'b>(&'b mut Vec<u8>);

impl Values for Encoder<'_> {
    fn put(&mut self, value: ToSqlOutput<'_>) -> rusqlite::Result<()> {
        let value = match &value {
            ToSqlOutput::Owned(value) => ValueRef::from(value),
            ToSqlOutput::Borrowed(value) => *value,
            _ => ValueRef::Null,
        };
        match value {
            ValueRef::Null => self.0.push(b'-'),
            ValueRef::Integer(value) => {
                self.0.push(b'i');
                self.0.extend(value.to_le_bytes());
            }
            ValueRef::Real(value) => {
                self.0.push(b'r');
                self.0.extend(value.to_le_bytes());
            }
            ValueRef::Text(text) | ValueRef::Blob(text) => {
                self.0.push(b't');
                self.0.extend((text.len() as u32).to_le_bytes());
                self.0.extend(text);
            }
        }
        Ok(())
    }
}

/// The values of a row in the order of [`COLUMNS`] behind an empty `id`; what the file does not have is NULL. `None` if it is no row.
fn decode(mut body: &[u8], columns: &[Option<usize>]) -> Option<Vec<Value>> {
    let mut values = vec![Value::Null; COLUMNS.len() + 1];
    for column in columns {
        let tag = *body.split_off_first()?;
        let value = match tag {
            b'-' => Value::Null,
            b'i' => Value::Integer(i64::from_le_bytes(body.split_off(..8)?.try_into().ok()?)),
            b'r' => Value::Real(f64::from_le_bytes(body.split_off(..8)?.try_into().ok()?)),
            b't' => {
                let length = u32::from_le_bytes(body.split_off(..4)?.try_into().ok()?) as usize;
                Value::Text(std::str::from_utf8(body.split_off(..length)?).ok()?.to_owned())
            }
            _ => return None,
        };
        if let Some(column) = column {
            values[column + 1] = value;
        }
    }
    body.is_empty().then_some(values)
}

#[cfg(test)]
mod tests;
