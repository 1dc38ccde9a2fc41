//! What was written is read back by the format's own project, value for value.

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use tokrate_columns::{Cell, Column, GROUP_ROWS, Kind, ParquetWriter};

const COLUMNS: [Column; 5] =
    [("at", Kind::Time), ("name", Kind::Text), ("speed", Kind::Number), ("tokens", Kind::Count), ("ok", Kind::Truth)];

/// The file of these rows, written as its bytes come.
fn file(rows: &[[Cell<'_>; COLUMNS.len()]]) -> Vec<u8> {
    let (mut whole, mut out) = (Vec::new(), Vec::new());
    let mut writer = ParquetWriter::new(&COLUMNS, "tokrate version 0", &mut out);
    for row in rows {
        whole.append(&mut out);
        writer.push(*row, &mut out);
        assert_eq!(writer.written(), whole.len() + out.len());
    }
    writer.finish(&mut out);
    whole.append(&mut out);
    whole
}

fn read(bytes: Vec<u8>) -> Vec<Row> {
    let path = std::env::temp_dir().join(format!("tokrate-columns-{}-{}.parquet", std::process::id(), bytes.len()));
    std::fs::write(&path, bytes).expect("room");
    let reader = SerializedFileReader::new(std::fs::File::open(&path).expect("there")).expect("a file");
    let rows = reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row")).collect();
    std::fs::remove_file(&path).expect("there");
    rows
}

fn expect(rows: &[[Cell<'_>; COLUMNS.len()]]) {
    let found = read(file(rows));
    assert_eq!(found.len(), rows.len());
    for (number, (found, row)) in found.iter().zip(rows).enumerate() {
        for ((_, field), (cell, (name, kind))) in found.get_column_iter().zip(row.iter().zip(COLUMNS)) {
            let wanted = match (kind, *cell) {
                (Kind::Time, Cell::Count(ms)) => Field::TimestampMillis(ms),
                (Kind::Count, Cell::Count(count)) => Field::Long(count),
                (Kind::Text, Cell::Text(text)) => Field::Str(text.to_owned()),
                (Kind::Number, Cell::Number(number)) => Field::Double(number),
                (Kind::Truth, Cell::Truth(truth)) => Field::Bool(truth),
                _ => Field::Null,
            };
            assert_eq!(*field, wanted, "row {number}, column {name}");
        }
    }
}

#[test]
fn what_is_missing_or_of_another_kind_is_null() {
    let good = [Cell::Count(1_768_003_200_250), Cell::Text("a"), Cell::Number(1.5), Cell::Count(7), Cell::Truth(true)];
    let bad = [Cell::Text("soon"), Cell::Count(1), Cell::Text("fast"), Cell::Number(-0.5), Cell::Count(0)];
    expect(&[good, [Cell::Missing; 5], bad]);
    expect(&[[Cell::Missing; 5]]);
    expect(&[]);
}

#[test]
fn numbers_at_their_ends_and_texts_of_any_kind_come_back() {
    let rows: Vec<[Cell<'_>; 5]> = [i64::MIN, i64::MAX, 0, -1, i64::MIN, i64::MIN, i64::MAX, 1 << 40]
        .iter()
        .zip(["", "\u{0}", "a\nb", "äöü", "🦀", "", "\"", "x"])
        .map(|(&count, text)| {
            [
                Cell::Count(count),
                Cell::Text(text),
                Cell::Number(f64::MIN_POSITIVE),
                Cell::Count(count),
                Cell::Truth(count < 0),
            ]
        })
        .collect();
    expect(&rows);
}

/// A mix that has runs, gaps and noise in every column, of every length up to a few blocks.
#[test]
fn every_length_of_runs_and_noise_comes_back() {
    let mut state = 1_u64;
    let mut draw = move |most: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    let names: Vec<String> = (0..300).map(|number| format!("name {number}")).collect();
    for length in (0..40).chain([127, 128, 129, 130, 255, 256, 257, 700, 2_000]) {
        let (mut rows, mut held) = (Vec::new(), 0);
        let mut row = [Cell::Missing; 5];
        for at in 0..length {
            if held == 0 {
                held = draw(23);
                let name = names[draw(names.len() as u64) as usize].as_str();
                let large = draw(u64::MAX >> 1) as i64 - (1 << 30);
                row = [
                    Cell::Count(at),
                    Cell::Text(name),
                    Cell::Number(draw(9) as f64),
                    Cell::Count(large),
                    Cell::Truth(draw(2) == 0),
                ];
                let gap = draw(9) as usize;
                if gap < 5 {
                    row[gap] = Cell::Missing;
                }
            } else {
                held -= 1;
            }
            rows.push(row);
        }
        expect(&rows);
    }
}

#[test]
fn groups_end_when_they_are_full_and_nothing_is_held_after_that() {
    let columns: &'static [Column] = &[("n", Kind::Count)];
    let mut out = Vec::new();
    let mut writer = ParquetWriter::new(columns, "tokrate version 0", &mut out);
    for n in 0..GROUP_ROWS as i64 * 2 + 1 {
        writer.push([Cell::Count(n * 1_000)], &mut out);
    }
    let before_last = writer.written();
    assert!(before_last < GROUP_ROWS, "steady counts take less than half a byte each: {before_last}");
    // As if nothing more came: the file can be read with two groups.
    let mut early = out.clone();
    writer.put_end(&mut early);
    assert_eq!(read(early).len(), GROUP_ROWS * 2);
    writer.finish(&mut out);
    let rows = read(out);
    assert_eq!(rows.len(), GROUP_ROWS * 2 + 1);
    let last = rows.last().and_then(|row| row.get_column_iter().next().map(|(_, field)| field.clone()));
    assert_eq!(last, Some(Field::Long(GROUP_ROWS as i64 * 2_000)));
}
