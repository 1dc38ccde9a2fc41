//! Fits the card by which the engine decides whether a merge is sure: boosted trees of three levels, monotone where doubt can only grow.
//!
//! It knows nothing of merging. Invariant: the same rows give the same card, and no repository is judged by what was learned from it.

use std::fmt::Write;

/// Parts that the repositories are dealt out to: each is judged by a card of the others.
pub const FOLDS: usize = 8;
/// Trees of a card, and how much of each correction is taken over.
const TREES: usize = 300;
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
#[derive(Clone, Copy, Default)]
struct Split {
    number: usize,
    above: i32,
}

/// Splits of a tree of three levels, and its leaves.
const SPLITS: usize = 7;
const LEAVES: usize = 8;

/// A tree: its splits, the two below that of place `n` at `2n + 1` and `2n + 2`, and the points of its leaves.
#[derive(Default)]
pub struct Tree {
    splits: [Split; SPLITS],
    points: [i32; LEAVES],
}

impl Tree {
    fn of(&self, values: &[i32]) -> i32 {
        let mut at = 0;
        while at < SPLITS {
            let Split { number, above } = self.splits[at];
            at = 2 * at + 1 + usize::from(values[number] > above);
        }
        self.points[at - SPLITS]
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

/// A place of a tree with what it would say as a leaf, and between what it may.
#[derive(Clone, Copy)]
struct Node {
    at: usize,
    value: f64,
    least: f64,
    most: f64,
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
        let mut tree = Tree::default();
        self.best(&all, slopes)?;
        self.grow(&mut tree, slopes, &all, Node { at: 0, value: 0.0, least: f64::MIN, most: f64::MAX });
        Some(tree)
    }

    /// The splits and leaves of a tree from a node on. What speaks for a merge in a split does so in each leaf on the two sides of it.
    fn grow(&self, tree: &mut Tree, slopes: &[[f64; 2]], rows: &[u32], node: Node) {
        let value = node.value.clamp(node.least, node.most);
        if node.at >= SPLITS {
            tree.points[node.at - SPLITS] = (value * RATE * POINTS).round() as i32;
            return;
        }
        let below = |side: usize, value: f64| Node { at: 2 * node.at + 1 + side, value, ..node };
        let Some(Found { split, values, .. }) = self.best(rows, slopes) else {
            // Both sides are the same.
            (0..2).for_each(|side| self.grow(tree, slopes, &[], below(side, value)));
            return;
        };
        tree.splits[node.at] = split;
        let bin = self.cuts[split.number].partition_point(|&cut| cut <= split.above) as u8;
        let is_right = |row: &u32| self.bins[split.number][*row as usize] >= bin;
        let (right, left): (Vec<u32>, Vec<u32>) = rows.iter().copied().partition(is_right);
        let values = values.map(|value| value.clamp(node.least, node.most));
        let middle = (values[0] + values[1]) / 2.0;
        for (side, rows) in [left, right].iter().enumerate() {
            let node = below(side, values[side]);
            // The side that speaks for a merge is the right one where the number grows with it.
            let node = match self.signs[split.number] {
                0.0 => node,
                sign if (sign > 0.0) == (side == 1) => Node { least: middle, ..node },
                _ => Node { most: middle, ..node },
            };
            self.grow(tree, slopes, rows, node);
        }
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
         use super::Row;\nuse crate::evidence::Number::*;\n\n#[rustfmt::skip]\npub(super) const CARD: &[Row] = &[\n",
    );
    for Tree { splits, points } in card {
        let splits: Vec<String> =
            splits.iter().map(|it| format!("({}, {})", names[it.number], number(it.above))).collect();
        let points = points.map(number).join(", ");
        writeln!(text, "    Row {{ splits: [{}], points: [{points}] }},", splits.join(", ")).expect("a text grows");
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
