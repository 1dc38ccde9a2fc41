//! The cases that the packages for other languages are tested by as well: `packages/cases.json`.
//!
//! Invariant: what is true of a case here is true of it in every package.

use serde_json::Value;
use std::path::Path;
use tokrate_apply::{Format, Outcome, edit};

#[test]
fn the_library_does_what_the_packages_do() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packages/cases.json");
    let cases: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(!cases.is_empty());
    for case in cases {
        let text = |name: &str| case[name].as_str();
        let format = text("format").map(|name| Format::from_name(name).unwrap());
        let outcome = edit(text("path").unwrap(), text("text").unwrap(), text("update").unwrap(), format);
        match outcome {
            Outcome::Merged(merged) => {
                assert_eq!(Some(merged.text.as_str()), text("merged"), "{}", case["name"]);
                assert_eq!(!merged.is_unchanged(), case["changed"].as_bool().unwrap_or(true), "{}", case["name"]);
            }
            Outcome::Refused(refused) => {
                assert_eq!(Some(refused.code.name()), text("refused"), "{}: {refused}", case["name"]);
                let lines: Vec<[usize; 2]> = refused.candidates.iter().map(|&(first, last)| [first, last]).collect();
                let expected = &case["candidates"];
                assert!(expected.is_null() || *expected == serde_json::json!(lines), "{}: {lines:?}", case["name"]);
            }
        }
    }
}
