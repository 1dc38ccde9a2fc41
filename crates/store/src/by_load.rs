//! A lane's measured speed by how many calls it had open.
//!
//! Invariant: what is shown of a load was measured at that load; nothing is put between loads.

use crate::report::Times;
use crate::{Query, Store, StoreError};
use std::collections::BTreeMap;
use tokrate_record::tpot_ms;

/// Loads that are told apart one by one; above, loads between a power of two and the next are one.
const MAX_SINGLE: u32 = 16;

/// What was measured with so many calls open.
#[derive(Clone, PartialEq, Debug)]
pub struct LoadPoint {
    /// Calls that the lane had open, the attempt included: the fewest and the most.
    pub in_flight: (u32, u32),
    /// Sent to first output text of streams (ms).
    pub ttft: Times,
    /// Time per token after the first chunk (ms): 1 / output speed.
    pub tpot: Times,
}

impl LoadPoint {
    /// As JSON.
    pub fn json(&self) -> serde_json::Value {
        let (fewest, most) = self.in_flight;
        serde_json::json!({
            "in_flight": [fewest, most],
            "ttft_ms": self.ttft.json(),
            "tpot_ms": self.tpot.json(),
        })
    }
}

/// As [`Store::by_load`].
pub(crate) fn by_load<S: Store + ?Sized>(
    store: &S,
    query: &Query,
    now_unix_ms: u64,
    most: u64,
) -> Result<Vec<LoadPoint>, StoreError> {
    let range = crate::report::bounded(store, query, now_unix_ms, most)?;
    let mut loads: BTreeMap<(u32, u32), (Vec<u64>, Vec<f64>)> = BTreeMap::new();
    store.visit(&["in_flight", "ttft_ns", "output_speed"], &range.of(query), false, &mut |mut row| {
        let (ttft, tpot) = loads.entry(band(row.count()?)).or_default();
        ttft.extend(row.opt_count::<u64>()?);
        tpot.extend(tpot_ms(row.opt_real()?));
        Ok(())
    })?;
    let point = |(in_flight, (ttft, tpot)): ((u32, u32), (Vec<u64>, Vec<f64>))| LoadPoint {
        in_flight,
        ttft: Times::of_nanos(ttft),
        tpot: Times::of_values(tpot),
    };
    Ok(loads.into_iter().map(point).filter(|point| point.ttft.n + point.tpot.n > 0).collect())
}

fn band(in_flight: u32) -> (u32, u32) {
    match in_flight.max(1) {
        single @ ..=MAX_SINGLE => (single, single),
        many => {
            let low = 1 << many.ilog2();
            (low, low.saturating_mul(2) - 1)
        }
    }
}
