//! A column: what it holds, and its values of the open group of rows.

use crate::encoding::{put_bits, put_differences, put_hybrid, width_of};
use std::collections::BTreeMap;

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
    /// A time in milliseconds since 1970 (UTC).
    Time,
}

/// A column by its name.
pub type Column = (&'static str, Kind);

/// A value of a row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Cell<'a> {
    /// None.
    Missing,
    /// Of a column of texts.
    Text(&'a str),
    /// Of a column of numbers.
    Number(f64),
    /// Of a column of whole numbers, or of times.
    Count(i64),
    /// Of a column of yes and no.
    Truth(bool),
}

/// The values of the open group.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    /// 1 for each row that has a value, 0 for each that has none.
    levels: Vec<u32>,
    stored: Stored,
}

#[derive(Clone, Debug)]
enum Stored {
    Numbers(Vec<u8>),
    Counts(Vec<i64>),
    Truths(Vec<bool>),
    Texts { known: BTreeMap<String, u32>, dictionary: Vec<u8>, indices: Vec<u32> },
}

/// The pages of a column of a group.
pub(crate) struct Pages {
    /// Number of entries and content of the dictionary, which texts have.
    pub dictionary: Option<(usize, Vec<u8>)>,
    pub data: Vec<u8>,
}

impl Values {
    pub fn new(kind: Kind) -> Values {
        let stored = match kind {
            Kind::Text => Stored::Texts { known: BTreeMap::new(), dictionary: Vec::new(), indices: Vec::new() },
            Kind::Number => Stored::Numbers(Vec::new()),
            Kind::Count | Kind::Time => Stored::Counts(Vec::new()),
            Kind::Truth => Stored::Truths(Vec::new()),
        };
        Values { levels: Vec::new(), stored }
    }

    pub fn push(&mut self, cell: Cell<'_>) {
        let is_there = match (&mut self.stored, cell) {
            (Stored::Numbers(values), Cell::Number(value)) => {
                values.extend_from_slice(&value.to_le_bytes());
                true
            }
            (Stored::Counts(values), Cell::Count(value)) => {
                values.push(value);
                true
            }
            (Stored::Truths(values), Cell::Truth(value)) => {
                values.push(value);
                true
            }
            (Stored::Texts { known, dictionary, indices }, Cell::Text(text)) => {
                let index = known.get(text).copied().unwrap_or_else(|| {
                    let index = known.len() as u32;
                    known.insert(text.to_owned(), index);
                    dictionary.extend_from_slice(&(text.len() as u32).to_le_bytes());
                    dictionary.extend_from_slice(text.as_bytes());
                    index
                });
                indices.push(index);
                true
            }
            _ => false,
        };
        self.levels.push(u32::from(is_there));
    }

    /// Bytes of texts that are held.
    pub fn text_bytes(&self) -> usize {
        if let Stored::Texts { dictionary, .. } = &self.stored { dictionary.len() } else { 0 }
    }

    /// The values as pages; none are held after that.
    pub fn take_pages(&mut self) -> Pages {
        let mut data = vec![0; 4];
        put_hybrid(&mut data, &self.levels, 1);
        let length = (data.len() - 4) as u32;
        data[..4].copy_from_slice(&length.to_le_bytes());
        self.levels.clear();
        let mut pages = Pages { dictionary: None, data };
        match &mut self.stored {
            Stored::Numbers(values) => pages.data.append(values),
            Stored::Counts(values) => {
                put_differences(&mut pages.data, values);
                values.clear();
            }
            Stored::Truths(values) => {
                put_bits(&mut pages.data, values.iter().map(|value| u64::from(*value)), 1);
                values.clear();
            }
            Stored::Texts { known, dictionary, indices } => {
                let width = width_of((known.len() as u64).saturating_sub(1));
                pages.data.push(width as u8);
                put_hybrid(&mut pages.data, indices, width);
                pages.dictionary = Some((known.len(), std::mem::take(dictionary)));
                known.clear();
                indices.clear();
            }
        }
        pages
    }
}
