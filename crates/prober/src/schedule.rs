//! Times of cycles and of the probes in them: stratified random, from the seed alone.
//!
//! Each slot has one cycle at a random time, so that nobody can warm up for it; each series has a random time within the cycle.
//! A series that is part of one cycle in `every` is in a random one of each group of so many.
//!
//! Invariant: a time depends on seed, slot and series, and on nothing that happened; a restart finds the same times.

use crate::config::Config;
use tokrate_core::Rng;

/// Room in a cycle for each probe (ms): most answers end within it.
const ROOM_MS: u64 = 20_000;
/// The shortest cycle (ms), where the slot has room.
const MIN_CYCLE_MS: u64 = 120_000;
/// A probe may be late by this share of a slot, and by no more than [`MAX_LATE_MS`].
const LATE_SHARE: u64 = 8;
const MAX_LATE_MS: u64 = 600_000;

/// The place of a series in [`Schedule::series`].
pub type SeriesId = usize;

/// An endpoint and a workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Series {
    /// Place of the endpoint in the configuration.
    pub endpoint: usize,
    /// Place of the workload.
    pub workload: usize,
}

/// Times of everything.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    pub series: Vec<Series>,
    pub slot_ms: u64,
    /// Length of a cycle (ms).
    cycle_ms: u64,
    rng: Rng,
}

impl Schedule {
    pub fn new(config: &Config) -> Schedule {
        let pairs = config.endpoints.iter().enumerate().flat_map(|(endpoint, row)| {
            row.workloads.iter().map(move |workload| Series { endpoint, workload: *workload })
        });
        let series: Vec<Series> = pairs.collect();
        let slot_ms = config.slot_ms();
        let wanted = (series.len() as u64).saturating_mul(ROOM_MS).max(MIN_CYCLE_MS);
        Schedule { cycle_ms: wanted.min(slot_ms / 2).max(1), series, slot_ms, rng: Rng::root(config.seed) }
    }

    /// The slot of a wall time.
    pub fn slot_of(&self, wall_ms: u64) -> u64 {
        wall_ms / self.slot_ms
    }

    /// When the cycle of a slot begins (ms since 1970).
    pub fn cycle_start(&self, slot: u64) -> u64 {
        let room = self.slot_ms.saturating_sub(self.cycle_ms);
        slot * self.slot_ms + self.rng.child("cycle").nth(slot).below(room + 1)
    }

    /// When a series is due in a slot, if it is part of its cycle.
    pub fn due(&self, series: SeriesId, every: u32, slot: u64) -> Option<u64> {
        if !self.is_in(series, every, slot) {
            return None;
        }
        let offset = self.of("time", series).nth(slot).below(self.cycle_ms);
        Some(self.cycle_start(slot) + offset)
    }

    /// How many cycles from slot `from` on and before slot `until` a series is part of.
    pub fn count(&self, series: SeriesId, every: u32, from: u64, until: u64) -> u64 {
        if from >= until {
            return 0;
        }
        let every_wide = u64::from(every.max(1));
        let (first, last) = (from / every_wide, (until - 1) / every_wide);
        let chosen = |group: u64| group * every_wide + self.chosen(series, every, group);
        let ends = [first, last].map(|group| u64::from((from..until).contains(&chosen(group))));
        if first == last { ends[0] } else { ends[0] + ends[1] + (last - first - 1) }
    }

    /// Times of `count` further probes within `span_ms` from a time on, rising.
    pub fn further(&self, series: SeriesId, from_ms: u64, span_ms: u64, count: u64) -> Vec<u64> {
        let mut rng = self.of("further", series).nth(from_ms);
        (0..count).map(|nth| from_ms + ((nth as f64 + rng.unit()) / count as f64 * span_ms as f64) as u64).collect()
    }

    /// How late a probe may be sent (ms); beyond that it is dropped.
    pub fn tolerance_ms(&self) -> u64 {
        (self.slot_ms / LATE_SHARE).min(MAX_LATE_MS)
    }

    fn is_in(&self, series: SeriesId, every: u32, slot: u64) -> bool {
        let every_wide = u64::from(every.max(1));
        self.chosen(series, every, slot / every_wide) == slot % every_wide
    }

    /// Which cycle of a group a series is part of.
    fn chosen(&self, series: SeriesId, every: u32, group: u64) -> u64 {
        if every <= 1 { 0 } else { self.of("group", series).nth(group).below(u64::from(every)) }
    }

    fn of(&self, purpose: &str, series: SeriesId) -> Rng {
        self.rng.child(purpose).nth(series as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Budget, Endpoint, Workload};
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    fn schedule(slots_a_day: u32, seed: u64) -> Schedule {
        let workload = |name: &str, every| Workload {
            name: name.to_owned(),
            input_tokens: 100,
            output_tokens: 100,
            requests: 1,
            every,
        };
        let endpoint = |name: &str| Endpoint {
            name: name.to_owned(),
            provider: name.to_owned(),
            host: name.to_owned(),
            price: None,
            workloads: vec![0, 1],
        };
        Schedule::new(&Config {
            endpoints: vec![endpoint("a"), endpoint("b")],
            workloads: vec![workload("often", 1), workload("seldom", 7)],
            slots_a_day,
            budget: Budget::default(),
            max_in_flight: 4,
            seed,
        })
    }

    proptest! {
        #[test]
        fn a_probe_is_due_in_its_slot_and_counted_where_it_is_due(
            slots in 1_u32..=17_280, seed in 0_u64..1_000, slot in 0_u64..1_000_000, every in 1_u32..60, length in 0_u64..200
        ) {
            let schedule = schedule(slots, seed);
            let due = |slot| schedule.due(1, every, slot);
            for slot in slot..slot + length {
                let Some(due) = due(slot) else { continue };
                prop_assert_eq!(schedule.slot_of(due), slot);
                prop_assert!(due >= schedule.cycle_start(slot));
            }
            let counted = (slot..slot + length).filter(|slot| due(*slot).is_some()).count() as u64;
            prop_assert_eq!(schedule.count(1, every, slot, slot + length), counted);
            prop_assert_eq!(schedule.count(1, every, slot / 60 * 60, slot / 60 * 60), 0);
        }

        #[test]
        fn further_probes_are_spread_over_their_span(from in 0_u64..u64::from(u32::MAX), count in 1_u64..20) {
            let times = schedule(8, 1).further(0, from, 3_600_000, count);
            prop_assert_eq!(times.len() as u64, count);
            for (nth, at) in times.iter().enumerate() {
                let stratum = 3_600_000.0 / count as f64;
                prop_assert!(*at as f64 >= from as f64 + nth as f64 * stratum - 1.0);
                prop_assert!((*at as f64) < from as f64 + (nth + 1) as f64 * stratum);
            }
        }
    }

    #[test]
    fn cycles_begin_at_times_that_cannot_be_guessed() {
        let schedule = schedule(8, 3);
        let offsets: Vec<u64> = (0..1_000).map(|slot| schedule.cycle_start(slot) % schedule.slot_ms).collect();
        let (least, most) = (offsets.iter().min().expect("some"), offsets.iter().max().expect("some"));
        assert!(*least < schedule.slot_ms / 50 && *most > schedule.slot_ms * 9 / 10, "{least} {most}");
    }
}
