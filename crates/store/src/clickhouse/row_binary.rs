//! Reads ClickHouse's `RowBinaryWithNamesAndTypes`: exact numbers, and no text to be parsed.
//!
//! Invariant: any bytes are read without a panic, and what is none of the form is `None`.

use crate::StoreError;
use rusqlite::types::Value;

/// A type of a column.
#[derive(Clone, Copy)]
struct Kind {
    is_nullable: bool,
    plain: Plain,
}

#[derive(Clone, Copy)]
enum Plain {
    Unsigned(usize),
    Signed(usize),
    Real,
    Text,
}

/// Passes each row to `each`; `None` where the bytes are no such answer.
pub(super) fn visit(
    bytes: &[u8],
    each: &mut dyn FnMut(&[Value]) -> Result<(), StoreError>,
) -> Option<Result<(), StoreError>> {
    let mut left = bytes;
    if left.is_empty() {
        return Some(Ok(()));
    }
    let columns = usize::try_from(length(&mut left)?).ok()?;
    // Each column takes two bytes at least.
    if columns == 0 || columns > left.len() {
        return None;
    }
    for _ in 0..columns {
        text(&mut left)?;
    }
    let kinds = (0..columns).map(|_| kind(text(&mut left)?)).collect::<Option<Vec<Kind>>>()?;
    let mut row = Vec::with_capacity(columns);
    while !left.is_empty() {
        row.clear();
        for kind in &kinds {
            row.push(value(*kind, &mut left)?);
        }
        if let Err(error) = each(&row) {
            return Some(Err(error));
        }
    }
    Some(Ok(()))
}

fn kind(name: &str) -> Option<Kind> {
    let inner = |name: &'_ str, of: &str| name.strip_prefix(of)?.strip_suffix(')').map(str::to_owned);
    let name = inner(name, "LowCardinality(").unwrap_or_else(|| name.to_owned());
    let nullable = inner(&name, "Nullable(");
    let plain = match nullable.as_deref().unwrap_or(&name) {
        "String" => Plain::Text,
        "Float64" => Plain::Real,
        "Int8" => Plain::Signed(1),
        "Int16" => Plain::Signed(2),
        "Int32" => Plain::Signed(4),
        "Int64" => Plain::Signed(8),
        "UInt8" => Plain::Unsigned(1),
        "UInt16" => Plain::Unsigned(2),
        "UInt32" => Plain::Unsigned(4),
        "UInt64" => Plain::Unsigned(8),
        _ => return None,
    };
    Some(Kind { is_nullable: nullable.is_some(), plain })
}

fn value(kind: Kind, left: &mut &[u8]) -> Option<Value> {
    if kind.is_nullable {
        match take(left, 1)? {
            [0] => {}
            [1] => return Some(Value::Null),
            _ => return None,
        }
    }
    Some(match kind.plain {
        Plain::Text => Value::Text(text(left)?.to_owned()),
        Plain::Real => Value::Real(f64::from_le_bytes(take(left, 8)?.try_into().ok()?)),
        Plain::Unsigned(size) => Value::Integer(i64::try_from(integer(left, size)?).ok()?),
        Plain::Signed(size) => {
            let unused = 64 - 8 * u32::try_from(size).ok()?;
            Value::Integer((integer(left, size)? << unused).cast_signed() >> unused)
        }
    })
}

fn integer(left: &mut &[u8], size: usize) -> Option<u64> {
    let mut bytes = [0; 8];
    bytes.get_mut(..size)?.copy_from_slice(take(left, size)?);
    Some(u64::from_le_bytes(bytes))
}

/// A length in LEB128.
fn length(left: &mut &[u8]) -> Option<u64> {
    let mut found = 0;
    for shift in (0..63).step_by(7) {
        let &[byte] = take(left, 1)? else { return None };
        found |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(found);
        }
    }
    None
}

fn text<'b>(left: &mut &'b [u8]) -> Option<&'b str> {
    let length = usize::try_from(length(left)?).ok()?;
    std::str::from_utf8(take(left, length)?).ok()
}

fn take<'b>(left: &mut &'b [u8], count: usize) -> Option<&'b [u8]> {
    let (taken, rest) = left.split_at_checked(count)?;
    *left = rest;
    Some(taken)
}
