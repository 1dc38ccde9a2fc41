//! Page headers and the footer: which columns there are, and where the pages of each group lie.
//!
//! Numbers of fields and enumerations: `parquet.thrift` of <https://github.com/apache/parquet-format>.

use crate::column::{Column, Kind};
use crate::thrift::{BINARY, I32, STRUCT, Struct, put_i32, put_struct, put_text};

/// At the beginning and at the end of a file.
pub(crate) const MAGIC: &[u8; 4] = b"PAR1";
/// Version of the format: with pages of the first form and the encodings that came later.
const VERSION: i32 = 2;
/// Every value may be missing.
const OPTIONAL: i32 = 1;
const UNCOMPRESSED: i32 = 0;
const UTF8: i32 = 0;
const TIMESTAMP_MILLIS: i32 = 9;
const PLAIN: i32 = 0;
const RLE: i32 = 3;
const DELTA_BINARY_PACKED: i32 = 5;
const RLE_DICTIONARY: i32 = 8;

/// Where a column's pages of a group lie.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    pub dictionary_at: Option<usize>,
    pub data_at: usize,
    /// Bytes of its pages with their headers.
    pub bytes: usize,
}

/// A group of rows.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub rows: usize,
    pub chunks: Vec<Chunk>,
}

fn physical(kind: Kind) -> i32 {
    match kind {
        Kind::Truth => 0,
        Kind::Count | Kind::Time => 2,
        Kind::Number => 5,
        Kind::Text => 6,
    }
}

fn encoding(kind: Kind) -> i32 {
    match kind {
        Kind::Truth | Kind::Number => PLAIN,
        Kind::Count | Kind::Time => DELTA_BINARY_PACKED,
        Kind::Text => RLE_DICTIONARY,
    }
}

/// The header of a page with the values of `rows` rows.
pub(crate) fn put_data_header(out: &mut Vec<u8>, kind: Kind, rows: usize, bytes: usize) {
    put_struct(out, |page| {
        page.i32(1, 0);
        page.i32(2, bytes as i32);
        page.i32(3, bytes as i32);
        page.structure(5, |header| {
            header.i32(1, rows as i32);
            header.i32(2, encoding(kind));
            header.i32(3, RLE);
            header.i32(4, RLE);
        });
    });
}

/// The header of a dictionary.
pub(crate) fn put_dictionary_header(out: &mut Vec<u8>, entries: usize, bytes: usize) {
    put_struct(out, |page| {
        page.i32(1, 2);
        page.i32(2, bytes as i32);
        page.i32(3, bytes as i32);
        page.structure(7, |header| {
            header.i32(1, entries as i32);
            header.i32(2, PLAIN);
        });
    });
}

/// The footer, its length and the end of the file.
pub(crate) fn put_footer(out: &mut Vec<u8>, columns: &[Column], groups: &[Group], created_by: &str) {
    let start = out.len();
    put_struct(out, |file| {
        file.i32(1, VERSION);
        let elements = std::iter::once(None).chain(columns.iter().map(Some)).collect::<Vec<_>>();
        file.list(2, STRUCT, elements.into_iter(), |out, element| {
            put_struct(out, |schema| match element {
                None => {
                    schema.text(4, "rows");
                    schema.i32(5, columns.len() as i32);
                }
                Some((name, kind)) => put_element(schema, name, *kind),
            });
        });
        file.i64(3, groups.iter().map(|group| group.rows as i64).sum());
        file.list(4, STRUCT, groups.iter(), |out, group| put_struct(out, |row| put_group(row, columns, group)));
        file.text(6, created_by);
    });
    let length = (out.len() - start) as u32;
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(MAGIC);
}

fn put_element(schema: &mut Struct<'_>, name: &str, kind: Kind) {
    schema.i32(1, physical(kind));
    schema.i32(3, OPTIONAL);
    schema.text(4, name);
    // Readers that know no logical types, and DuckDB, go by the converted ones that came before.
    match kind {
        Kind::Text => {
            schema.i32(6, UTF8);
            schema.structure(10, |logical| logical.structure(1, |_| ()));
        }
        Kind::Time => {
            schema.i32(6, TIMESTAMP_MILLIS);
            schema.structure(10, |logical| {
                logical.structure(8, |timestamp| {
                    timestamp.truth(1, true);
                    timestamp.structure(2, |unit| unit.structure(1, |_| ()));
                });
            });
        }
        Kind::Number | Kind::Count | Kind::Truth => {}
    }
}

fn put_group(row: &mut Struct<'_>, columns: &[Column], group: &Group) {
    row.list(1, STRUCT, columns.iter().zip(&group.chunks), |out, ((name, kind), chunk)| {
        put_struct(out, |column| {
            // The format asks writers of today for 0 here.
            column.i64(2, 0);
            column.structure(3, |meta| {
                meta.i32(1, physical(*kind));
                let mut encodings = vec![encoding(*kind), RLE];
                encodings.extend(chunk.dictionary_at.map(|_| PLAIN));
                meta.list(2, I32, encodings.into_iter(), put_i32);
                meta.list(3, BINARY, std::iter::once(*name), put_text);
                meta.i32(4, UNCOMPRESSED);
                meta.i64(5, group.rows as i64);
                meta.i64(6, chunk.bytes as i64);
                meta.i64(7, chunk.bytes as i64);
                meta.i64(9, chunk.data_at as i64);
                if let Some(at) = chunk.dictionary_at {
                    meta.i64(11, at as i64);
                }
            });
        });
    });
    row.i64(2, group.chunks.iter().map(|chunk| chunk.bytes as i64).sum());
    row.i64(3, group.rows as i64);
}
