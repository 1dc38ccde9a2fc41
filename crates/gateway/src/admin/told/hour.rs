//! The last hour by minutes, of whatever is counted.
//!
//! It refuses to know what is counted and what time it is: the newest minute that was named is the hour's end. Invariant:
//! minutes rise, and there are never more of them than an hour has.

use std::collections::VecDeque;
use std::sync::Arc;

/// Minutes that are remembered.
pub(crate) const MINUTES: u64 = 60;

/// What was begun in each minute; a copy shares it.
#[derive(Clone, Debug)]
pub(crate) struct Hour<T> {
    /// Minutes since 1970, rising.
    minutes: VecDeque<(u64, Arc<T>)>,
}

impl<T> Default for Hour<T> {
    fn default() -> Hour<T> {
        Hour { minutes: VecDeque::new() }
    }
}

impl<T: Clone + Default> Hour<T> {
    /// That of a minute, and whether the minute is new; nothing if it is over by more than an hour.
    pub fn at(&mut self, number: u64) -> Option<(&mut T, bool)> {
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

    /// Changes those that are over by so many minutes and of which `is_due` says that they are to be changed.
    pub fn change_older(&mut self, age: u64, is_due: impl Fn(&T) -> bool, change: impl Fn(&mut T)) {
        let newest = self.minutes.back().map_or(0, |(newest, _)| *newest);
        let old = self.minutes.iter_mut().take_while(|(number, _)| newest - number >= age);
        old.filter(|(_, minute)| is_due(minute)).for_each(|(_, minute)| change(Arc::make_mut(minute)));
    }
}

impl<T> Hour<T> {
    /// Those from this minute on, rising, with their numbers.
    pub fn since(&self, number: u64) -> impl Iterator<Item = (u64, &T)> {
        self.minutes.iter().filter(move |(known, _)| *known >= number).map(|(known, minute)| (*known, minute.as_ref()))
    }

    /// The oldest that is remembered.
    pub fn oldest(&self) -> Option<u64> {
        self.minutes.front().map(|(number, _)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbers(hour: &Hour<u32>) -> Vec<(u64, u32)> {
        hour.since(0).map(|(number, count)| (number, *count)).collect()
    }

    #[test]
    fn what_is_over_by_an_hour_is_forgotten_and_comes_too_late() {
        let mut hour: Hour<u32> = Hour::default();
        for (number, is_new) in [(100, true), (102, true), (101, true), (102, false)] {
            let (count, said) = hour.at(number).expect("within the hour");
            *count += 1;
            assert_eq!(said, is_new, "{number}");
        }
        assert_eq!(numbers(&hour), [(100, 1), (101, 1), (102, 2)]);
        assert!(hour.at(161).is_some());
        assert_eq!(numbers(&hour), [(102, 2), (161, 0)]);
        assert!(hour.at(101).is_none(), "over by an hour");
        assert_eq!(hour.oldest(), Some(102));
    }

    #[test]
    fn only_old_ones_that_are_due_are_changed() {
        let mut hour: Hour<u32> = Hour::default();
        for number in [10, 11, 12, 20] {
            *hour.at(number).expect("within the hour").0 = number as u32;
        }
        hour.change_older(9, |count| *count != 10, |count| *count = 0);
        assert_eq!(numbers(&hour), [(10, 10), (11, 0), (12, 12), (20, 20)]);
    }

    proptest! {
        #[test]
        fn it_holds_the_last_sixty_of_whatever_comes(given in prop::collection::vec(0u64..200, 0..100)) {
            let mut hour: Hour<u32> = Hour::default();
            let mut newest = 0;
            let mut plain = std::collections::BTreeMap::<u64, u32>::new();
            for number in given {
                newest = newest.max(number);
                if let Some((count, _)) = hour.at(number) {
                    *count += 1;
                    *plain.entry(number).or_default() += 1;
                }
                plain.retain(|number, _| newest - number < MINUTES);
                prop_assert_eq!(numbers(&hour), plain.clone().into_iter().collect::<Vec<_>>());
            }
        }
    }
}
