//! Pages of metrics: no bytes break the reader, and whatever two pages say can be written and read back.
//!
//! It refuses to know what engines publish. Invariant: a difference of any two pages has no number that JSON cannot hold.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tokrate_meter::server_metrics::{ClientSide, Exposition, Reading, ServerTruth};

fuzz_target!(|pages: (&[u8], &[u8])| {
    let (before, after) = (Exposition::parse(pages.0), Exposition::parse(pages.1));
    let readings = (Reading::of(&before, None, "m"), Reading::of(&after, None, "m"));
    let (Some(before), Some(after)) = readings else { return };
    let truth = ServerTruth::between("u", &before, &after, ClientSide::default());
    let text = serde_json::to_string(&truth).expect("it can be written");
    let back: ServerTruth = serde_json::from_str(&text).expect("what was written is read");
    assert_eq!(back.requests, truth.requests);
});
