//! Records: whatever is read back was written by the same rules.
//!
//! It refuses to know what the numbers mean. Invariant: a text that parses as a record is written as one that parses to
//! the same record; everything else is refused without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tokrate_meter::Record;

fuzz_target!(|text: &str| {
    if let Ok(record) = Record::parse(text) {
        assert_eq!(Record::parse(&record.to_json()).expect("what was written is read"), record);
    }
});
