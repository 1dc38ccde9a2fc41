//! Rows as a Parquet file, for DuckDB, pandas and whatever else reads columns.
//!
//! Only as much of the format as flat tables need: one page for each column of a group of rows, no compression but what the encodings
//! do (whole numbers by their differences, texts by a dictionary, levels by runs), no statistics, nothing is read. Format:
//! <https://github.com/apache/parquet-format>, version 2.12.
//!
//! Architecture Invariant: bytes are appended to a buffer of the caller, in the order of the file; nothing is opened or written here.
//! Memory is bounded by one group of rows and some 100 bytes for each column of each group before it. A value that is missing, or is not
//! of its column's kind, is null and never 0.

mod column;
mod encoding;
mod footer;
mod thrift;
mod writer;

pub use column::{Cell, Column, Kind};
pub use writer::{GROUP_ROWS, ParquetWriter};
