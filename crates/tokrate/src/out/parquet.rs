//! Rows of JSON values as a Parquet file, for DuckDB, pandas and whatever else reads columns.
//!
//! Invariant: a value that is missing, or is not of its column's type, is null and never 0; memory is bounded by one group of rows.

use anyhow::{Context, Result, bail};
use parquet::basic::{ConvertedType, LogicalType, Repetition, TimeUnit, Type as PhysicalType};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use serde_json::Value;
use std::io::Write;
use std::sync::Arc;
use tokrate_core::parse_rfc3339;

/// Rows of a group: some MB in memory, and large enough that a group costs little beside its rows.
const GROUP_ROWS: usize = 50_000;

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A text.
    Text,
    /// A number.
    Number,
    /// A whole number.
    Count,
    /// Yes or no.
    Truth,
    /// A time in RFC 3339, kept as milliseconds (UTC).
    Time,
}

/// A column by its name.
pub type Column = (&'static str, Kind);

/// A file under way.
pub struct ParquetFile<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    columns: &'static [Column],
    /// Values of the open group, column by column.
    open: Vec<Vec<Value>>,
}

impl<W: Write + Send> ParquetFile<W> {
    /// Begins a file of these columns.
    pub fn new(out: W, columns: &'static [Column]) -> Result<ParquetFile<W>> {
        let fields = columns.iter().map(|column| field(column).map(Arc::new)).collect::<Result<Vec<_>>>()?;
        let schema = Type::group_type_builder("rows").with_fields(fields).build().context("make the schema")?;
        let created_by = format!("tokrate version {}", env!("CARGO_PKG_VERSION"));
        let properties = WriterProperties::builder()
            .set_compression(parquet::basic::Compression::SNAPPY)
            .set_created_by(created_by)
            .build();
        let writer =
            SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties)).context("begin the file")?;
        Ok(ParquetFile { writer, columns, open: vec![Vec::new(); columns.len()] })
    }

    /// Adds a row: a value for each column.
    pub fn push(&mut self, row: impl IntoIterator<Item = Value>) -> Result<()> {
        self.open.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        if self.open.first().is_some_and(|column| column.len() == GROUP_ROWS) {
            self.write_group()?;
        }
        Ok(())
    }

    /// Writes what is left, and the end of the file.
    pub fn finish(mut self) -> Result<()> {
        self.write_group()?;
        self.writer.close().context("end the file")?;
        Ok(())
    }

    fn write_group(&mut self) -> Result<()> {
        if self.open.first().is_none_or(Vec::is_empty) {
            return Ok(());
        }
        let mut group = self.writer.next_row_group().context("begin a group of rows")?;
        for ((name, kind), values) in self.columns.iter().zip(&mut self.open) {
            let Some(mut column) = group.next_column().with_context(|| format!("begin the column {name}"))? else {
                bail!("begin the column {name}: the schema has none");
            };
            write_column(&mut column, *kind, values).with_context(|| format!("write the column {name}"))?;
            column.close().with_context(|| format!("end the column {name}"))?;
            values.clear();
        }
        group.close().context("end a group of rows")?;
        Ok(())
    }
}

fn field((name, kind): &Column) -> Result<Type> {
    let (physical, logical) = match kind {
        Kind::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        Kind::Number => (PhysicalType::DOUBLE, None),
        Kind::Count => (PhysicalType::INT64, None),
        Kind::Truth => (PhysicalType::BOOLEAN, None),
        Kind::Time => (PhysicalType::INT64, Some(LogicalType::timestamp(true, TimeUnit::MILLIS))),
    };
    Type::primitive_type_builder(name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_converted_type(ConvertedType::NONE)
        .with_logical_type(logical)
        .build()
        .with_context(|| format!("make the column {name}"))
}

fn write_column(column: &mut SerializedColumnWriter<'_>, kind: Kind, values: &[Value]) -> Result<()> {
    match kind {
        Kind::Text => write::<ByteArrayType>(column, values, |value| Some(ByteArray::from(value.as_str()?))),
        Kind::Number => write::<DoubleType>(column, values, Value::as_f64),
        Kind::Count => write::<Int64Type>(column, values, Value::as_i64),
        Kind::Truth => write::<BoolType>(column, values, Value::as_bool),
        Kind::Time => write::<Int64Type>(column, values, |value| parse_rfc3339(value.as_str()?)),
    }
}

/// Writes the values that there are, and at which rows they stand.
fn write<T: parquet::data_type::DataType>(
    column: &mut SerializedColumnWriter<'_>,
    values: &[Value],
    of: impl Fn(&Value) -> Option<T::T>,
) -> Result<()> {
    let all: Vec<Option<T::T>> = values.iter().map(of).collect();
    let is_there: Vec<i16> = all.iter().map(|value| i16::from(value.is_some())).collect();
    let there: Vec<T::T> = all.into_iter().flatten().collect();
    column.typed::<T>().write_batch(&there, Some(&is_there), None)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;
    use serde_json::json;

    const COLUMNS: [Column; 5] = [
        ("at", Kind::Time),
        ("name", Kind::Text),
        ("speed", Kind::Number),
        ("tokens", Kind::Count),
        ("ok", Kind::Truth),
    ];

    #[test]
    fn what_is_missing_or_of_another_type_is_null() {
        let path = std::env::temp_dir().join(format!("tokrate-parquet-{}.parquet", std::process::id()));
        let mut file = ParquetFile::new(std::fs::File::create(&path).expect("room"), &COLUMNS).expect("a schema");
        let good = [json!("2026-01-10T00:00:00.250Z"), json!("a"), json!(1.5), json!(7), json!(true)];
        let bad = [json!("soon"), json!(1), json!("fast"), json!(-0.5), json!(0)];
        for row in [good, std::array::from_fn(|_| Value::Null), bad] {
            file.push(row).expect("room");
        }
        file.finish().expect("room");
        let reader = SerializedFileReader::new(std::fs::File::open(&path).expect("there")).expect("a file");
        let rows: Vec<_> = reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row")).collect();
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[0].get_timestamp_millis(0).ok(), Some(1_768_003_200_250));
        assert_eq!(rows[0].get_string(1).map(String::as_str).ok(), Some("a"));
        assert_eq!(rows[0].get_double(2).ok(), Some(1.5));
        assert_eq!((rows[0].get_long(3).ok(), rows[0].get_bool(4).ok()), (Some(7), Some(true)));
        let nulls = |row: &parquet::record::Row| {
            row.get_column_iter().filter(|(_, field)| matches!(field, parquet::record::Field::Null)).count()
        };
        assert_eq!((nulls(&rows[1]), nulls(&rows[2])), (5, 5));
        std::fs::remove_file(&path).expect("there");
    }
}
