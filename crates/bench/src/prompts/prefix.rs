//! Prefixes that made-up prompts share: how many there are, how long, and how often each is used.
//!
//! Invariant: which prefix the n-th prompt has is a function of pool, seed and n.

use std::fmt;
use tokrate_core::Rng;

/// More groups than any cache holds.
pub const MAX_GROUPS: u32 = 1_000_000;

/// Prefixes that prompts share.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PrefixPool {
    /// How long they are.
    pub length: PrefixLength,
    /// How many different ones there are.
    pub groups: u32,
    /// Exponent of Zipf's law: the k-th prefix is used as often as 1 / k^skew says; 0 uses all equally.
    pub skew: f64,
}

/// How long a shared prefix is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PrefixLength {
    /// So many tokens, or the whole prompt if that is shorter.
    Tokens(u32),
    /// That share of each prompt.
    Share(f64),
}

impl PrefixPool {
    /// One prefix of so many tokens.
    pub const fn one(tokens: u32) -> PrefixPool {
        PrefixPool { length: PrefixLength::Tokens(tokens), groups: 1, skew: 0.0 }
    }

    /// Leading tokens of a prompt of that length that its group shares.
    pub fn tokens(&self, input_tokens: u32) -> u32 {
        match self.length {
            PrefixLength::Tokens(tokens) => tokens.min(input_tokens),
            PrefixLength::Share(share) => ((f64::from(input_tokens) * share).round() as u32).min(input_tokens),
        }
    }

    /// Whether there is more to say than a number of tokens.
    pub fn is_pool(&self) -> bool {
        self.groups > 1 || matches!(self.length, PrefixLength::Share(_))
    }
}

impl fmt::Display for PrefixPool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = match self.length {
            PrefixLength::Tokens(tokens) => format!("{tokens} tokens"),
            PrefixLength::Share(share) => format!("{} % of the prompt", (share * 1e6).round() / 1e4),
        };
        match (self.groups, self.skew) {
            (1, _) => write!(formatter, "1 shared prefix of {length}"),
            (groups, 0.0) => write!(formatter, "{groups} shared prefixes of {length}, equally often"),
            (groups, skew) => write!(formatter, "{groups} shared prefixes of {length}, Zipf {skew}"),
        }
    }
}

/// Draws groups.
#[derive(Debug)]
pub(super) struct Groups {
    /// Share of prompts up to and with each group; the last is 1.
    cumulative: Vec<f64>,
    rng: Rng,
}

impl Groups {
    pub(super) fn new(pool: &PrefixPool, rng: Rng) -> Groups {
        let weight = |rank: u32| f64::from(rank).powf(-pool.skew);
        let whole: f64 = (1..=pool.groups).map(weight).sum();
        let mut sum = 0.0;
        let cumulative = (1..=pool.groups).map(|rank| {
            sum += weight(rank) / whole;
            sum
        });
        Groups { cumulative: cumulative.collect(), rng }
    }

    /// The group of the `number`-th prompt, from 0, the most used first.
    pub(super) fn of(&self, number: u64) -> u32 {
        if self.cumulative.len() <= 1 {
            return 0;
        }
        let share = self.rng.nth(number).unit();
        // Sums of shares end a little below 1.
        let last = self.cumulative.len() - 1;
        self.cumulative.partition_point(|cumulative| *cumulative <= share).min(last) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(groups: u32, skew: f64) -> Vec<usize> {
        let pool = PrefixPool { length: PrefixLength::Share(0.5), groups, skew };
        let drawn = Groups::new(&pool, Rng::root(3));
        let all: Vec<u32> = (0..10_000).map(|number| drawn.of(number)).collect();
        (0..groups).map(|group| all.iter().filter(|one| **one == group).count()).collect()
    }

    #[test]
    fn groups_are_used_as_zipfs_law_says() {
        // 1, 1/2, 1/3, 1/4 of 25/12: 48, 24, 16 and 12 %.
        let seen = counts(4, 1.0);
        for (count, expected) in seen.iter().zip([4_800, 2_400, 1_600, 1_200]) {
            assert!(count.abs_diff(expected) < 150, "{seen:?}");
        }
        let seen = counts(5, 0.0);
        assert!(seen.iter().all(|count| count.abs_diff(2_000) < 150), "{seen:?}");
        assert_eq!(counts(1, 2.0), [10_000]);
    }

    #[test]
    fn a_prefix_is_no_longer_than_its_prompt() {
        let pool = |length| PrefixPool { length, groups: 2, skew: 0.0 };
        assert_eq!(pool(PrefixLength::Tokens(500)).tokens(300), 300);
        assert_eq!(pool(PrefixLength::Share(0.25)).tokens(301), 75);
        assert_eq!(pool(PrefixLength::Share(1.0)).tokens(301), 301);
        assert_eq!(
            pool(PrefixLength::Share(0.5)).to_string(),
            "2 shared prefixes of 50 % of the prompt, equally often"
        );
    }
}
