//! Fits the card by which the engine decides whether a merge is sure: boosted trees of two levels, monotone where doubt can only grow.
//!
//! It knows nothing of merging. Invariant: the same rows give the same card, and no repository is judged by what was learned from it.

use std::fmt::Write;

/// Parts that the repositories are dealt out to: each is judged by a card of the others.
pub const FOLDS: usize = 8;
/// Trees of a card, and how much of each correction is taken over.
const TREES: usize = 400;
const RATE: f64 = 0.12;
/// Rows that each leaf has at least, and what keeps the points of small ones small.
const LEAST_ROWS: usize = 40;
const RIDGE: f64 = 1.0;
/// Places at which a number may be split, at most.
const CUTS: usize = 24;
/// Points of one unit of log-odds.
const POINTS: f64 = 1000.0;

/// What is known of a merge.
pub struct Row {
    /// Its numbers.
    pub values: Vec<i32>,
    /// Whether it is exact.
    pub is_exact: bool,
    /// How much it counts.
    pub weight: f64,
    /// The part that its repository is in.
    pub fold: usize,
}

/// A number and where it is split.
#[derive(Clone, Copy)]
struct Split {
    number: usize,
    above: i32,
}

/// A tree: its split, the splits of both sides, and the points of the four leaves.
pub struct Tree {
    root: Split,
    sides: [Split; 2],
    points: [i32; 4],
}

impl Tree {
    fn of(&self, values: &[i32]) -> i32 {
        let side = |split: Split| usize::from(values[split.number] > split.above);
        let first = side(self.root);
        self.points[2 * first + side(self.sides[first])]
    }
}

/// The points of a merge.
pub fn points(card: &[Tree], values: &[i32]) -> i32 {
    card.iter().map(|tree| tree.of(values)).sum()
}

/// The card of the rows that are chosen. A number of sign 1 speaks for a merge where it grows, one of -1 against it.
pub fn card(rows: &[Row], signs: &[i32], is_chosen: impl Fn(&Row) -> bool) -> Vec<Tree> {
    let chosen: Vec<&Row> = rows.iter().filter(|row| is_chosen(row)).collect();
    let cuts: Vec<Vec<i32>> = (0..signs.len()).map(|number| cuts(&chosen, number)).collect();
    let bin = |number: usize, value: i32| cuts[number].partition_point(|&cut| cut < value) as u8;
    let bins: Vec<Vec<u8>> =
        (0..signs.len()).map(|number| chosen.iter().map(|row| bin(number, row.values[number])).collect()).collect();
    let signs: Vec<f64> = signs.iter().copied().map(f64::from).collect();
    let fit = Fit { cuts, bins, signs };
    let mut scores = vec![0.0_f64; chosen.len()];
    let mut card = Vec::with_capacity(TREES);
    for _ in 0..TREES {
        let slopes: Vec<[f64; 2]> = chosen
            .iter()
            .zip(&scores)
            .map(|(row, score)| {
                let chance = 1.0 / (1.0 + (-score).exp());
                let gap = f64::from(u8::from(row.is_exact)) - chance;
                [row.weight * gap, row.weight * (chance * (1.0 - chance)).max(1e-6)]
            })
            .collect();
        let Some(tree) = fit.tree(&slopes) else { break };
        for (row, score) in chosen.iter().zip(&mut scores) {
            *score += f64::from(tree.of(&row.values)) / POINTS;
        }
        card.push(tree);
    }
    card
}

/// Values at which a number may be split: at most so many, evenly drawn from those that are there.
fn cuts(rows: &[&Row], number: usize) -> Vec<i32> {
    let mut values: Vec<i32> = rows.iter().map(|row| row.values[number]).collect();
    values.sort_unstable();
    let mut drawn: Vec<i32> =
        (0..4 * CUTS).filter_map(|at| values.get(at * values.len() / (4 * CUTS)).copied()).collect();
    values.dedup();
    if values.len() <= CUTS {
        drawn = values;
    }
    // Rare values decide much: the ends of the range are always there.
    drawn.extend([0, 1, 2]);
    drawn.sort_unstable();
    drawn.dedup();
    drawn
}

struct Fit {
    cuts: Vec<Vec<i32>>,
    bins: Vec<Vec<u8>>,
    signs: Vec<f64>,
}

/// A split with its gain and the values of its two sides.
struct Found {
    split: Split,
    gain: f64,
    values: [f64; 2],
}

impl Fit {
    fn tree(&self, slopes: &[[f64; 2]]) -> Option<Tree> {
        let all: Vec<u32> = (0..slopes.len() as u32).collect();
        let root = self.best(&all, slopes)?;
        let bin = self.cuts[root.split.number].partition_point(|&cut| cut <= root.split.above) as u8;
        let is_right = |row: &u32| self.bins[root.split.number][*row as usize] >= bin;
        let (right, left): (Vec<u32>, Vec<u32>) = all.iter().copied().partition(|row| is_right(row));
        let middle = (root.values[0] + root.values[1]) / 2.0;
        let sign = self.signs[root.split.number];
        let mut sides = [root.split; 2];
        let mut points = [0; 4];
        for (side, rows) in [left, right].iter().enumerate() {
            let found = self.best(rows, slopes);
            let values = found.as_ref().map_or([root.values[side]; 2], |found| found.values);
            sides[side] = found.map_or(root.split, |found| found.split);
            // What speaks for a merge at the root does so in each leaf.
            let is_least = sign != 0.0 && (sign > 0.0) == (side == 1);
            for (leaf, value) in values.iter().enumerate() {
                let value = match () {
                    () if sign == 0.0 => *value,
                    () if is_least => value.max(middle),
                    () => value.min(middle),
                };
                points[2 * side + leaf] = (value * RATE * POINTS).round() as i32;
            }
        }
        Some(Tree { root: root.split, sides, points })
    }

    /// The best split of rows.
    fn best(&self, rows: &[u32], slopes: &[[f64; 2]]) -> Option<Found> {
        let mut best: Option<Found> = None;
        for (number, bins) in self.bins.iter().enumerate() {
            let mut sums = vec![[0.0_f64; 2]; self.cuts[number].len() + 1];
            let mut counts = vec![0_usize; sums.len()];
            for &row in rows {
                let bin = usize::from(bins[row as usize]);
                let [gap, steep] = slopes[row as usize];
                sums[bin] = [sums[bin][0] + gap, sums[bin][1] + steep];
                counts[bin] += 1;
            }
            let total = sums.iter().fold([0.0, 0.0], |sum, it| [sum[0] + it[0], sum[1] + it[1]]);
            let gain = |sum: [f64; 2]| sum[0] * sum[0] / (sum[1] + RIDGE);
            let (mut low, mut below) = ([0.0, 0.0], 0);
            for at in 0..sums.len() - 1 {
                low = [low[0] + sums[at][0], low[1] + sums[at][1]];
                below += counts[at];
                if below < LEAST_ROWS || rows.len() - below < LEAST_ROWS {
                    continue;
                }
                let high = [total[0] - low[0], total[1] - low[1]];
                let values = [low, high].map(|sum| sum[0] / (sum[1] + RIDGE));
                let better = gain(low) + gain(high) - gain(total);
                let fits = (values[1] - values[0]) * self.signs[number] >= 0.0;
                if fits && better > best.as_ref().map_or(1e-9, |best| best.gain) {
                    let split = Split { number, above: self.cuts[number][at] };
                    best = Some(Found { split, gain: better, values });
                }
            }
        }
        best
    }
}

/// The card as source text.
pub fn source(card: &[Tree], names: &[&str], origin: &str) -> String {
    let mut text = format!(
        "//! The card by which a merge is decided. {origin}\n//!\n//! Invariant: written by that command, and by no hand.\n\n\
         use super::Row;\n\npub(super) const CARD: &[Row] = &[\n",
    );
    for Tree { root, sides: [low, high], points } in card {
        let split = |it: &Split| format!("|it| it.{}, {}", names[it.number], number(it.above));
        let points = points.map(number).join(", ");
        writeln!(text, "    Row::of({}, {}, {}, [{points}]),", split(root), split(low), split(high))
            .expect("a text grows");
    }
    text + "];\n"
}

fn number(value: i32) -> String {
    let digits = value.unsigned_abs().to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().filter_map(|it| std::str::from_utf8(it).ok()).collect();
    // Four digits need no grouping.
    let text = if digits.len() > 4 { groups.join("_") } else { digits.clone() };
    if value < 0 { format!("-{text}") } else { text }
}
