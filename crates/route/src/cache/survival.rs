//! How long a lane keeps what was sent to it: the share of blocks still cached, by how long ago they were last used.
//!
//! Learned from what providers report as cached. A cache that forgets by age has an end; one that forgets what was used longest ago, when it
//! is full, has one as well where the load is even (Che's approximation, 2002). Invariant: what is older is never more likely to be there.

use tokrate_core::{Span, Tick};

/// Buckets of age: half octaves from 1 s on, the last for all above a day.
const BUCKETS: usize = 34;
/// What a new observation leaves of the weight of those before it in its bucket: 12 calls make up most of what is known.
const KEPT: f64 = 0.92;
/// How much an observation says of the next bucket.
const NEIGHBOUR: f64 = 0.5;
/// Age up to which a block is expected to be there before anything is known: providers keep prompts for five minutes and more.
const PRIOR_AGE: Span = Span::from_secs(300);
const PRIOR_WEIGHT: f64 = 1.0;
/// So many prompts in a row of which nothing was left, though it was to be expected, and the cache was dropped.
const MISSES_OF_A_DROP: u32 = 3;
/// From this chance on a prompt that is not there is a surprise.
const SURPRISE: f64 = 0.9;

/// What is known of one lane.
#[derive(Clone, Debug)]
pub(crate) struct Survival {
    hits: [f64; BUCKETS],
    misses: [f64; BUCKETS],
    /// Chance that a block of this age is there.
    chances: [f64; BUCKETS],
    /// What was sent before is gone.
    dropped_at: Tick,
    /// Surprises in a row: how many, by the bucket of the youngest block that was missing, and when the first of them was sent.
    surprises: u32,
    surprised_buckets: [u8; MISSES_OF_A_DROP as usize],
    surprised_at: Tick,
    /// Whether the provider has ever reported a cached token: one that never has says nothing by reporting none.
    reports: bool,
}

impl Default for Survival {
    fn default() -> Survival {
        let mut survival = Survival {
            hits: [0.0; BUCKETS],
            misses: [0.0; BUCKETS],
            chances: [0.0; BUCKETS],
            dropped_at: Tick::ZERO,
            surprises: 0,
            surprised_buckets: [0; MISSES_OF_A_DROP as usize],
            surprised_at: Tick::ZERO,
            reports: false,
        };
        survival.refresh();
        survival
    }
}

impl Survival {
    /// Chance that a block that was last sent at `sent` is there at `now`.
    pub fn chance(&self, now: Tick, sent: Tick) -> f64 {
        if sent < self.dropped_at { 0.0 } else { self.chances[bucket(now.since(sent))] }
    }

    /// A prompt was sent at `at`. Of its blocks that were sent before, with when that was, the first `found` were there.
    pub fn observe(&mut self, at: Tick, sent_before: &[Tick], found: usize) {
        self.reports |= found > 0;
        if sent_before[..found.min(sent_before.len())].iter().any(|sent| *sent < self.dropped_at) {
            // It was not dropped after all.
            self.dropped_at = Tick::ZERO;
        }
        let known = sent_before.iter().take_while(|sent| **sent >= self.dropped_at).count();
        if known == 0 || !self.reports {
            return;
        }
        let youngest = bucket(at.since(sent_before[0]));
        if found == 0 && self.chances[youngest] >= SURPRISE {
            return self.surprised(at, youngest);
        }
        // One who finds something: those before were misses like any other.
        for place in 0..std::mem::take(&mut self.surprises) as usize {
            self.add(usize::from(self.surprised_buckets[place]), 0.0, 1.0);
        }
        let mut from = 0;
        while from < known {
            let age = bucket(at.since(sent_before[from]));
            let to = from + sent_before[from..known].iter().take_while(|sent| bucket(at.since(**sent)) == age).count();
            let hits = found.clamp(from, to) - from;
            let share = hits as f64 / (to - from) as f64;
            self.add(age, share, 1.0 - share);
            from = to;
        }
        self.refresh();
    }

    fn surprised(&mut self, at: Tick, youngest: usize) {
        if self.surprises == 0 {
            self.surprised_at = at;
        }
        self.surprised_buckets[self.surprises as usize] = youngest as u8;
        self.surprises += 1;
        if self.surprises == MISSES_OF_A_DROP {
            // A restart says nothing of how long a cache keeps what it is given.
            self.dropped_at = self.surprised_at;
            self.surprises = 0;
        }
    }

    fn add(&mut self, age: usize, hits: f64, misses: f64) {
        self.hits[age] = self.hits[age] * KEPT + hits;
        self.misses[age] = self.misses[age] * KEPT + misses;
    }

    /// What is found at an age speaks for the younger, what is missing for the older.
    fn refresh(&mut self) {
        let mut hits = self.hits;
        for age in (0..BUCKETS - 1).rev() {
            hits[age] += NEIGHBOUR * hits[age + 1];
        }
        let mut misses = 0.0;
        let mut most = 1.0_f64;
        for (age, hits) in hits.into_iter().enumerate() {
            misses = misses * NEIGHBOUR + self.misses[age];
            let prior = (PRIOR_AGE.as_secs_f64() / seconds_of(age)).min(1.0);
            let known = (hits + prior * PRIOR_WEIGHT) / (hits + misses + PRIOR_WEIGHT);
            most = most.min(known);
            self.chances[age] = most;
        }
    }
}

fn bucket(age: Span) -> usize {
    let half_octaves = 2.0 * age.as_secs_f64().max(1.0).log2();
    (half_octaves as usize).min(BUCKETS - 1)
}

/// Where a bucket begins.
fn seconds_of(bucket: usize) -> f64 {
    (bucket as f64 / 2.0).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Tick {
        Tick::from_nanos(seconds * 1_000_000_000)
    }

    /// Prompts of two blocks, used so long ago, on a lane that keeps them for a time and was started at another.
    fn used(survival: &mut Survival, now: u64, age: u64, kept: u64, started: u64) {
        let found = if age <= kept && now - age >= started { 2 } else { 0 };
        survival.observe(at(now), &[at(now - age), at(now - age)], found);
    }

    #[test]
    fn the_time_to_live_is_learned_from_what_is_reported() {
        let mut survival = Survival::default();
        assert_eq!(survival.chance(at(1_000), at(900)), 1.0, "nothing is known: as providers say");
        for call in 0..60 {
            used(&mut survival, 100_000 + 10 * call, [10, 40, 90, 200][call as usize % 4], 60, 0);
        }
        let chance = |age: u64| survival.chance(at(200_000), at(200_000 - age));
        assert!(chance(10) > 0.9 && chance(40) > 0.9, "{} {}", chance(10), chance(40));
        assert!(chance(95) < 0.2 && chance(250) < 0.2, "{} {}", chance(95), chance(250));
        assert!((1..5_000).map(chance).is_sorted_by(|young, old| young >= old));
    }

    #[test]
    fn after_a_restart_what_was_sent_before_is_gone_and_the_time_to_live_is_not_unlearned() {
        let mut survival = Survival::default();
        for call in 0..40 {
            used(&mut survival, 10_000 + 10 * call, 100, 600, 0);
        }
        for call in 0..3 {
            used(&mut survival, 20_001 + call, 100, 600, 20_000);
        }
        assert_eq!(survival.chance(at(20_010), at(19_990)), 0.0, "sent before the restart");
        assert!(survival.chance(at(20_110), at(20_010)) > 0.9, "sent after it: kept as long as ever");
    }

    #[test]
    fn what_is_found_although_it_was_taken_for_dropped_is_counted_on_again() {
        let mut survival = Survival::default();
        used(&mut survival, 10_000, 100, 600, 0);
        for call in 0..3 {
            used(&mut survival, 20_001 + call, 100, 600, 20_000);
        }
        assert_eq!(survival.chance(at(20_010), at(19_990)), 0.0);
        used(&mut survival, 20_020, 60, 600, 0);
        assert!(survival.chance(at(20_030), at(19_990)) > 0.9, "three prompts were gone, not all");
    }

    #[test]
    fn two_surprises_between_hits_are_misses_like_any_other() {
        let mut survival = Survival::default();
        for call in 0..90 {
            used(&mut survival, 10_000 + 10 * call, 20, if call % 3 == 0 { 600 } else { 0 }, 0);
        }
        let chance = survival.chance(at(20_020), at(20_000));
        assert!((0.25..0.65).contains(&chance), "{chance}: a third is found");
    }

    #[test]
    fn one_who_never_reports_anything_has_said_nothing() {
        let mut survival = Survival::default();
        for call in 0..90 {
            used(&mut survival, 10_000 + 10 * call, 20, 0, 0);
        }
        assert_eq!(survival.chance(at(20_020), at(20_000)), 1.0);
    }
}
