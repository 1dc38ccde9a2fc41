//! The last hour by minute, of whatever is counted.
//!
//! The caller says when things happen. Invariant: minutes rise, there are at most 60 of them, and a clock that ran
//! ahead for a while hides nothing that comes later.

use std::collections::VecDeque;
use std::sync::Arc;
use tokrate_record::Attempt as Row;

/// Minutes that are kept.
pub const MINUTES: u64 = 60;
/// Minutes that [`LastHour::fold_older`] merges into one.
const FOLDED_MINUTES: u64 = 10;

/// The first minute of the hour that ends with this one.
pub(crate) fn first_minute_of_hour(minute: u64) -> u64 {
    (minute + 1).saturating_sub(MINUTES)
}

/// Values by minute; clones share them.
#[derive(Clone, Debug)]
pub struct LastHour<T> {
    /// Minutes since 1970, rising.
    minutes: VecDeque<(u64, Arc<T>)>,
}

impl<T> Default for LastHour<T> {
    fn default() -> LastHour<T> {
        LastHour { minutes: VecDeque::new() }
    }
}

/// When an attempt started, and when it is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptMinutes {
    /// The minute in which it started.
    pub started: u64,
    /// The minute in which it is counted.
    pub counted: u64,
}

impl AttemptMinutes {
    /// An attempt is counted when it ends.
    pub fn of(row: &Row) -> AttemptMinutes {
        let ended_unix_ms = row.sample.started_unix_ms.saturating_add(row.sample.total_ns / 1_000_000);
        AttemptMinutes { started: row.sample.started_unix_ms / 60_000, counted: ended_unix_ms / 60_000 }
    }
}

impl<T: Clone + Default> LastHour<T> {
    /// The value of the minute in which an attempt started, and whether the minute is new; `None` if it is over an hour
    /// ago.
    pub(crate) fn at(&mut self, AttemptMinutes { started: number, counted }: AttemptMinutes) -> Option<(&mut T, bool)> {
        // Threads count concurrently, so one minute ahead is normal; anything further ahead came from a clock that was
        // corrected since.
        let ahead = self.minutes.partition_point(|(known, _)| *known <= counted.saturating_add(1));
        self.minutes.truncate(ahead);
        let newest = self.minutes.back().map_or(number, |(newest, _)| (*newest).max(number));
        if newest - number >= MINUTES {
            return None;
        }
        let place = self.minutes.partition_point(|(known, _)| *known < number);
        let is_new = self.minutes.get(place).is_none_or(|(known, _)| *known != number);
        if is_new {
            self.minutes.insert(place, (number, Arc::default()));
        }
        let over = self.minutes.partition_point(|(known, _)| newest - known >= MINUTES);
        self.minutes.drain(..over);
        let (_, minute) = self.minutes.get_mut(place - over)?;
        Some((Arc::make_mut(minute), is_new))
    }

    /// Merges minutes of at least this age in tens, each at the first minute of its ten.
    pub(crate) fn fold_older(&mut self, age: u64, add: impl Fn(&mut T, &T)) {
        let newest = self.minutes.back().map_or(0, |(newest, _)| *newest);
        let mut kept: VecDeque<(u64, Arc<T>)> = VecDeque::with_capacity(self.minutes.len());
        for (number, minute) in self.minutes.drain(..) {
            let number = if newest - number >= age { number - number % FOLDED_MINUTES } else { number };
            match kept.back_mut().filter(|(known, _)| *known == number) {
                Some((_, sum)) => add(Arc::make_mut(sum), &minute),
                None => kept.push_back((number, minute)),
            }
        }
        self.minutes = kept;
    }

    /// Changes the minutes of at least this age for which `is_due` holds.
    pub(crate) fn change_older(&mut self, age: u64, is_due: impl Fn(&T) -> bool, change: impl Fn(&mut T)) {
        let newest = self.minutes.back().map_or(0, |(newest, _)| *newest);
        let old = self.minutes.iter_mut().take_while(|(number, _)| newest - number >= age);
        old.filter(|(_, minute)| is_due(minute)).for_each(|(_, minute)| change(Arc::make_mut(minute)));
    }
}

impl<T> LastHour<T> {
    /// The minutes from this one on, rising, with their numbers.
    pub fn since(&self, number: u64) -> impl Iterator<Item = (u64, &T)> {
        self.minutes.iter().filter(move |(known, _)| *known >= number).map(|(known, minute)| (*known, minute.as_ref()))
    }

    /// The oldest minute that is kept.
    pub fn oldest(&self) -> Option<u64> {
        self.minutes.front().map(|(number, _)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn on_time(number: u64) -> AttemptMinutes {
        AttemptMinutes { started: number, counted: number }
    }

    fn numbers(hour: &LastHour<u32>) -> Vec<(u64, u32)> {
        hour.since(0).map(|(number, count)| (number, *count)).collect()
    }

    #[test]
    fn minutes_older_than_an_hour_are_dropped() {
        let mut hour: LastHour<u32> = LastHour::default();
        for (started, is_new) in [(100, true), (102, true), (101, true), (102, false)] {
            let (count, was_new) = hour.at(AttemptMinutes { started, counted: 102 }).expect("within the hour");
            *count += 1;
            assert_eq!(was_new, is_new, "{started}");
        }
        assert_eq!(numbers(&hour), [(100, 1), (101, 1), (102, 2)]);
        assert!(hour.at(on_time(161)).is_some());
        assert_eq!(numbers(&hour), [(102, 2), (161, 0)]);
        assert!(hour.at(AttemptMinutes { started: 101, counted: 161 }).is_none(), "over by an hour");
        assert_eq!(hour.oldest(), Some(102));
    }

    #[test]
    fn minutes_of_a_clock_that_ran_ahead_are_dropped_once_it_is_corrected() {
        let mut hour: LastHour<u32> = LastHour::default();
        for number in [100, 5_000, 5_001] {
            hour.at(on_time(number)).expect("the newest");
        }
        assert_eq!(numbers(&hour), [(5_000, 0), (5_001, 0)]);
        assert!(hour.at(on_time(102)).is_some());
        assert_eq!(numbers(&hour), [(102, 0)]);
        // Another thread may still finish the previous minute.
        assert!(hour.at(on_time(103)).is_some() && hour.at(on_time(102)).is_some());
        assert_eq!(numbers(&hour), [(102, 0), (103, 0)]);
    }

    #[test]
    fn only_old_minutes_that_are_due_are_changed() {
        let mut hour: LastHour<u32> = LastHour::default();
        for number in [10, 11, 12, 20] {
            *hour.at(on_time(number)).expect("within the hour").0 = number as u32;
        }
        hour.change_older(9, |count| *count != 10, |count| *count = 0);
        assert_eq!(numbers(&hour), [(10, 10), (11, 0), (12, 12), (20, 20)]);
    }

    #[test]
    fn old_minutes_are_merged_in_tens_and_late_values_join_them() {
        let mut hour: LastHour<u32> = LastHour::default();
        let fold = |hour: &mut LastHour<u32>| hour.fold_older(5, |sum, count| *sum += count);
        for number in 108..=125 {
            *hour.at(on_time(number)).expect("within the hour").0 += 1;
            fold(&mut hour);
        }
        assert_eq!(numbers(&hour), [(100, 2), (110, 10), (120, 1), (121, 1), (122, 1), (123, 1), (124, 1), (125, 1)]);
        *hour.at(AttemptMinutes { started: 115, counted: 125 }).expect("within the hour").0 += 1;
        fold(&mut hour);
        assert_eq!(hour.since(110).next(), Some((110, &11)));
        hour.at(on_time(165)).expect("the newest");
        assert_eq!(hour.oldest(), Some(110), "the first ten is over by more than an hour");
    }

    proptest! {
        #[test]
        fn it_keeps_the_last_sixty_minutes_of_any_input(given in prop::collection::vec(0u64..200, 0..100)) {
            let mut hour: LastHour<u32> = LastHour::default();
            let mut newest = 0;
            let mut plain = std::collections::BTreeMap::<u64, u32>::new();
            for number in given {
                newest = newest.max(number);
                if let Some((count, _)) = hour.at(AttemptMinutes { started: number, counted: newest }) {
                    *count += 1;
                    *plain.entry(number).or_default() += 1;
                }
                plain.retain(|number, _| newest - number < MINUTES);
                prop_assert_eq!(numbers(&hour), plain.clone().into_iter().collect::<Vec<_>>());
            }
        }
    }
}
