//! Records: whatever is read back was written by the same rules.
//!
//! It does not know what the numbers mean. Invariant: a text that parses as a record is written as one that parses to
//! the same record; everything else is refused without a panic.

use crate::text;
use tokrate_record::Record;

/// Panics if a property does not hold.
pub fn run(bytes: &[u8]) {
    let text = text(bytes);
    if let Ok(record) = Record::parse(text) {
        assert_eq!(Record::parse(&record.to_json()).expect("what was written is read"), record);
    }
}
