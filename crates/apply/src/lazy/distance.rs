//! The distance of lines of a file and lines of a snippet in their place: what must go and come, in runs.
//!
//! Invariant: equal lines have distance nothing, and each further line that goes or comes makes it greater.

use super::lines::UNIT;

/// More pairs of lines are not compared.
const MAX_PAIRS: usize = 400_000;
/// A distance that no change has.
const FAR: i32 = i32::MAX / 4;
/// The divisor of the cost of a line in whose place another like it comes.
const REPLACED: i32 = 6;
/// Cost of each run of lines that go or come.
const RUN: i32 = UNIT;

/// What lines cost when they go or come.
pub(super) struct Costs<'c> {
    /// For each line of the file.
    pub gone: &'c [i32],
    /// For each line of the snippet.
    pub new: &'c [i32],
    /// Whether a line of the snippet, by its number, may take the place of one of the file.
    pub replaces: &'c dyn Fn(usize, usize) -> bool,
}

/// The least cost of making lines of the file those of a snippet, by their numbers; `None` if they are too many.
pub(super) fn distance(old: &[u32], new: &[Option<u32>], costs: &Costs<'_>) -> Option<i32> {
    let same = |(old, new): (&u32, &Option<u32>)| *new == Some(*old);
    let head = old.iter().zip(new).take_while(|pair| same(*pair)).count();
    let (old, new) = (&old[head..], &new[head..]);
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(|pair| same(*pair)).count();
    let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);
    let (gone, comes) = (&costs.gone[head..head + old.len()], &costs.new[head..head + new.len()]);
    if old.is_empty() || new.is_empty() {
        let sum = gone.iter().chain(comes).sum::<i32>();
        return Some(if old.is_empty() && new.is_empty() { 0 } else { RUN + sum });
    }
    if old.len().saturating_mul(new.len()) > MAX_PAIRS {
        return None;
    }
    // Per line of the file: the least cost up to it, with the last lines equal, and within a run.
    let mut equal = vec![FAR; old.len() + 1];
    let mut within = vec![FAR; old.len() + 1];
    (equal[0], within[0]) = (0, RUN);
    for at in 0..old.len() {
        within[at + 1] = within[at] + gone[at];
    }
    for (token, (line, comes)) in new.iter().zip(comes).enumerate() {
        let (mut equal_before, mut within_before) = (equal[0], within[0]);
        (equal[0], within[0]) = (FAR, within[0].min(equal[0] + RUN) + comes);
        for at in 0..old.len() {
            let (equal_above, within_above) = (equal[at + 1], within[at + 1]);
            let is_equal = *line == Some(old[at]);
            equal[at + 1] = if is_equal { equal_before.min(within_before) } else { FAR };
            let replaced = if (costs.replaces)(head + token, head + at) { (gone[at] + comes) / REPLACED } else { FAR };
            within[at + 1] = (within_before.min(equal_before + RUN) + replaced)
                .min(within_above + comes)
                .min(equal_above + RUN + comes)
                .min(within[at] + gone[at])
                .min(equal[at] + RUN + gone[at])
                .min(FAR);
            (equal_before, within_before) = (equal_above, within_above);
        }
    }
    Some(equal[old.len()].min(within[old.len()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(old: &[u32], new: &[u32]) -> i32 {
        let new: Vec<Option<u32>> = new.iter().map(|&line| Some(line)).collect();
        let (gone, comes) = (vec![UNIT; old.len()], vec![UNIT; new.len()]);
        distance(old, &new, &Costs { gone: &gone, new: &comes, replaces: &|_, _| false }).expect("few lines")
    }

    #[test]
    fn a_run_costs_more_than_its_lines() {
        assert_eq!(of(&[1, 2, 3], &[1, 2, 3]), 0);
        assert_eq!(of(&[1, 2, 3], &[1, 9, 2, 3]), 2 * UNIT);
        assert_eq!(of(&[1, 2, 3], &[1, 3]), 2 * UNIT);
        assert_eq!(of(&[1, 2, 3], &[1, 9, 3]), 3 * UNIT);
        assert_eq!(of(&[1, 2, 3, 4, 5], &[1, 9, 3, 8, 5]), 6 * UNIT, "two runs");
        assert_eq!(of(&[1, 7, 8, 1, 2], &[1, 2]), 4 * UNIT);
    }
}
