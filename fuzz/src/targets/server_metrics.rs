//! Pages of metrics: no bytes break the reader, and whatever two pages say can be written and read back.
//!
//! It does not know what engines publish. Invariant: a difference of any two pages has no number that JSON cannot hold; the first
//! two bytes of the input say where the second page begins.

use tokrate_meter::server_metrics::{ClientTotals, Exposition, MetricsSnapshot, ServerReport, gpus_of};

/// Panics if a property does not hold.
pub fn run(input: &[u8]) {
    let Some((&[cut, fine], pages)) = input.split_first_chunk::<2>() else { return };
    let cut = usize::from(u16::from_le_bytes([fine, cut])).min(pages.len());
    let (before, after) = pages.split_at(cut);
    let (before, after) = (Exposition::parse(before), Exposition::parse(after));
    assert!(gpus_of(&after).iter().all(|gpu| !gpu.name.is_empty()), "a processor has a name");
    let readings = (MetricsSnapshot::of(&before, None, "m"), MetricsSnapshot::of(&after, None, "m"));
    let (Some(before), Some(after)) = readings else { return };
    let truth = ServerReport::between("u", &before, &after, ClientTotals::default());
    let text = serde_json::to_string(&truth).expect("it can be written");
    let back: ServerReport = serde_json::from_str(&text).expect("what was written is read");
    assert_eq!(back.requests, truth.requests);
    assert_eq!(serde_json::to_string(&back).expect("it can be written"), text);
}
