//! Refusals that wait to be written, added up: however many requests are refused, few rows wait.
//!
//! Invariant: every refused request is in one of the rows here, was taken, or was turned away by [`PendingRefusals::add`].

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use tokrate_record::{Refusal, RefusalReason};

/// Most rows here: several minutes of a gateway with a hundred keys, all of which are refused, in a few hundred KiB.
const MAX_ROWS: usize = 1_024;

/// What refused requests of one row have in common: the minute, the reason, the status, the key and the alias.
type Group = (u64, RefusalReason, u16, Option<String>, Option<String>);

/// Rows that wait.
#[derive(Debug, Default)]
pub(super) struct PendingRefusals(BTreeMap<Group, Refusal>);

impl PendingRefusals {
    /// Adds a row; false if there is no room for it.
    pub fn add(&mut self, row: Refusal) -> bool {
        let is_full = self.0.len() >= MAX_ROWS;
        let group = (row.minute_unix_ms(), row.reason, row.status, row.key.clone(), row.alias.clone());
        match self.0.entry(group) {
            Entry::Occupied(mut known) => known.get_mut().merge(&row),
            Entry::Vacant(_) if is_full => return false,
            Entry::Vacant(place) => drop(place.insert(row)),
        }
        true
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The rows.
    pub fn rows(&self) -> Vec<Refusal> {
        self.0.values().cloned().collect()
    }

    /// Takes the rows.
    pub fn take(&mut self) -> Vec<Refusal> {
        std::mem::take(&mut self.0).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(minute: u64, key: &str) -> Refusal {
        Refusal { key: Some(key.to_owned()), ..Refusal::new(minute * 60_000, RefusalReason::TooManyRequests, 429) }
    }

    #[test]
    fn a_flood_takes_the_room_of_one_row() {
        let mut pending = PendingRefusals::default();
        assert!((0..100_000).all(|_| pending.add(refusal(7, "ada"))));
        assert_eq!(pending.take(), [Refusal { count: 100_000, ..refusal(7, "ada") }]);
        assert!(pending.is_empty());
    }

    #[test]
    fn minutes_keys_aliases_reasons_and_statuses_are_kept_apart() {
        let mut pending = PendingRefusals::default();
        let one = refusal(7, "ada");
        let others = [
            refusal(8, "ada"),
            refusal(7, "bob"),
            Refusal { key: None, ..one.clone() },
            Refusal { alias: Some("chat".to_owned()), ..one.clone() },
            Refusal { reason: RefusalReason::BudgetSpent, ..one.clone() },
            Refusal { status: 503, ..one.clone() },
        ];
        assert!(others.into_iter().chain([one]).all(|row| pending.add(row)));
        assert_eq!(pending.rows().len(), 7);
    }

    #[test]
    fn what_finds_no_room_is_turned_away_and_what_has_a_row_is_still_added() {
        let mut pending = PendingRefusals::default();
        assert!((0..MAX_ROWS as u64).all(|minute| pending.add(refusal(minute, "ada"))));
        assert!(!pending.add(refusal(0, "bob")));
        assert!(pending.add(refusal(0, "ada")));
        assert_eq!(pending.rows().iter().map(|row| row.count).sum::<u64>(), MAX_ROWS as u64 + 1);
    }
}
