//! The file under way.

use crate::column::{Cell, Column, Values};
use crate::footer::{Chunk, Group, MAGIC, put_data_header, put_dictionary_header, put_footer};

/// Rows of a group: some MB in memory, and large enough that a group costs little beside its rows.
pub const GROUP_ROWS: usize = 65_536;
/// Bytes of texts at which a group ends before that.
const MAX_TEXT_BYTES: usize = 16 << 20;

/// A file under way: what belongs into it is appended to the buffer that each call is given, and is to be written before the next.
#[derive(Clone, Debug)]
pub struct ParquetWriter {
    columns: &'static [Column],
    created_by: String,
    open: Vec<Values>,
    open_rows: usize,
    groups: Vec<Group>,
    /// Bytes of the file so far.
    written: usize,
}

impl ParquetWriter {
    /// Begins a file of these columns.
    pub fn new(columns: &'static [Column], created_by: &str, out: &mut Vec<u8>) -> ParquetWriter {
        out.extend_from_slice(MAGIC);
        ParquetWriter {
            columns,
            created_by: created_by.to_owned(),
            open: columns.iter().map(|(_, kind)| Values::new(*kind)).collect(),
            open_rows: 0,
            groups: Vec::new(),
            written: MAGIC.len(),
        }
    }

    /// Adds a row: a value for each column; those that are left out are missing. Writes a group when one is full.
    pub fn push<'c>(&mut self, row: impl IntoIterator<Item = Cell<'c>>, out: &mut Vec<u8>) {
        let mut row = row.into_iter();
        self.open.iter_mut().for_each(|column| column.push(row.next().unwrap_or(Cell::Missing)));
        self.open_rows += 1;
        if self.open_rows >= GROUP_ROWS || self.open.iter().map(Values::text_bytes).sum::<usize>() >= MAX_TEXT_BYTES {
            self.flush(out);
        }
    }

    /// Writes the open rows as a group, if there are any.
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        if self.open_rows == 0 {
            return;
        }
        let before = out.len();
        let mut chunks = Vec::with_capacity(self.columns.len());
        for ((_, kind), values) in self.columns.iter().zip(&mut self.open) {
            let pages = values.take_pages();
            let place = |out: &Vec<u8>| self.written + out.len() - before;
            let start = place(out);
            let dictionary_at = pages.dictionary.map(|(entries, content)| {
                put_dictionary_header(out, entries, content.len());
                out.extend_from_slice(&content);
                start
            });
            let data_at = place(out);
            put_data_header(out, *kind, self.open_rows, pages.data.len());
            out.extend_from_slice(&pages.data);
            chunks.push(Chunk { dictionary_at, data_at, bytes: place(out) - start });
        }
        self.written += out.len() - before;
        self.groups.push(Group { rows: self.open_rows, chunks });
        self.open_rows = 0;
    }

    /// Bytes of the file so far, open rows left out.
    pub fn written(&self) -> usize {
        self.written
    }

    /// Writes what is left, and the end of the file.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        self.flush(out);
        put_footer(out, self.columns, &self.groups, &self.created_by);
    }

    /// The end of the file as it would be if nothing more came: with it, what is written so far can be read.
    pub fn put_end(&self, out: &mut Vec<u8>) {
        put_footer(out, self.columns, &self.groups, &self.created_by);
    }
}
