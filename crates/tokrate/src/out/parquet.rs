//! Rows of JSON values as a Parquet file.
//!
//! Invariant: a value that is missing, or is not of its column's type, is null and never 0; memory is bounded by one group of rows.

use anyhow::Result;
use serde_json::Value;
use std::io::Write;
use tokrate_columns::{Cell, ParquetWriter};
pub use tokrate_columns::{Column, Kind};
use tokrate_core::parse_rfc3339;

/// A file under way.
pub struct ParquetFile<W: Write> {
    out: W,
    writer: ParquetWriter,
    columns: &'static [Column],
    /// What is to be written next.
    next: Vec<u8>,
}

/// What wrote a file, as the format asks to be told.
pub fn created_by() -> String {
    format!("tokrate version {}", env!("CARGO_PKG_VERSION"))
}

impl<W: Write> ParquetFile<W> {
    /// Begins a file of these columns.
    pub fn new(out: W, columns: &'static [Column]) -> ParquetFile<W> {
        let mut next = Vec::new();
        let writer = ParquetWriter::new(columns, &created_by(), &mut next);
        ParquetFile { out, writer, columns, next }
    }

    /// Adds a row: a value for each column.
    pub fn push(&mut self, row: impl IntoIterator<Item = Value>) -> Result<()> {
        let values: Vec<Value> = row.into_iter().collect();
        let cells = self.columns.iter().zip(&values).map(|((_, kind), value)| cell(*kind, value));
        self.writer.push(cells, &mut self.next);
        self.write()
    }

    /// Writes what is left, and the end of the file.
    pub fn finish(mut self) -> Result<()> {
        self.writer.finish(&mut self.next);
        self.out.write_all(&self.next)?;
        Ok(self.out.flush()?)
    }

    fn write(&mut self) -> Result<()> {
        self.out.write_all(&self.next)?;
        self.next.clear();
        Ok(())
    }
}

fn cell(kind: Kind, value: &Value) -> Cell<'_> {
    let found = match kind {
        Kind::Text => value.as_str().map(Cell::Text),
        Kind::Number => value.as_f64().map(Cell::Number),
        Kind::Count => value.as_i64().map(Cell::Count),
        Kind::Truth => value.as_bool().map(Cell::Truth),
        // A time in RFC 3339.
        Kind::Time => value.as_str().and_then(parse_rfc3339).map(Cell::Count),
    };
    found.unwrap_or(Cell::Missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_of_another_type_is_missing() {
        let at = json!("2026-01-10T00:00:00.250Z");
        assert_eq!(cell(Kind::Time, &at), Cell::Count(1_768_003_200_250));
        assert_eq!(cell(Kind::Text, &json!("a")), Cell::Text("a"));
        assert_eq!((cell(Kind::Number, &json!(7)), cell(Kind::Count, &json!(7))), (Cell::Number(7.0), Cell::Count(7)));
        for (kind, value) in
            [(Kind::Time, json!("soon")), (Kind::Text, json!(1)), (Kind::Count, json!(-0.5)), (Kind::Truth, json!(0))]
        {
            assert_eq!(cell(kind, &value), Cell::Missing, "{kind:?}");
        }
    }
}
