//! The cells of the programme that lays a part of a snippet over a file: ways to read the part up to a line of it, each up to a
//! line of the file.
//!
//! Invariant: of all ways that begin alike and end in a cell the cheapest is kept, and of all others the cheapest few.

use super::lines::UNIT;
use super::weakness::Doubts;

/// Cost of each run of lines that go or come.
pub(super) const RUN: i32 = UNIT;
/// The divisor of the cost of a line in whose place another like it comes.
pub(super) const REPLACED: i32 = 6;
/// Cost of beginning to leave out many lines, and the divisor of the cost of each.
const LONG: i32 = 6 * UNIT;
const LONG_DIVISOR: i32 = 10;
/// Ways of other beginnings that are kept in a cell.
const MAX_WAYS: usize = 4;

/// A line of the file that is more than a bracket is among those that are shown.
pub(super) const TOLD: u16 = 1;
/// An end closes a block whose head is shown.
pub(super) const WHOLE: u16 = 2;
const CHANGED: u16 = 4;

/// A way to read a part up to a line of it and a line of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Trail {
    pub cost: i32,
    /// The first line of the file that the part takes the place of, and the first line of the part that comes.
    pub start: u32,
    pub from: u32,
    /// The worth of the lines of the file that are shown.
    pub worth: i32,
    pub flags: u16,
    /// What is doubtful in it: the reasons.
    pub doubts: Doubts,
    /// How many brackets more open than did, by kind.
    pub brackets: [i8; 3],
}

impl Trail {
    /// The beginning of a way.
    pub fn at(start: usize, from: usize, cost: i32, doubts: Doubts) -> Trail {
        Trail { cost, start: start as u32, from: from as u32, worth: 0, flags: 0, doubts, brackets: [0; 3] }
    }

    /// The way with a line more that goes or comes.
    pub fn changed(&self, cost: i32, brackets: [i8; 3]) -> Trail {
        let [a, b, c] = self.brackets;
        let brackets = [a.saturating_add(brackets[0]), b.saturating_add(brackets[1]), c.saturating_add(brackets[2])];
        Trail { cost: self.cost.saturating_add(cost), flags: self.flags | CHANGED, brackets, ..*self }
    }

    /// Whether any line goes or comes.
    pub fn is_changed(&self) -> bool {
        self.flags & CHANGED != 0
    }

    /// By how many brackets, at most two, more or fewer open.
    pub fn unbalanced(&self) -> i32 {
        self.brackets.iter().map(|&sum| i32::from(sum).abs()).sum::<i32>().min(2)
    }
}

/// What the last line of a way was.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kind {
    /// A line of the file.
    Matched,
    /// One that goes or comes.
    Gap,
    /// The same, where many go.
    Long,
}

/// The cheapest ways of different beginnings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ways {
    /// Those beyond the count say nothing.
    ways: [Trail; MAX_WAYS],
    count: u8,
}

impl Default for Ways {
    fn default() -> Ways {
        Ways { ways: [Trail::at(0, 0, 0, Doubts::NONE); MAX_WAYS], count: 0 }
    }
}

impl Ways {
    pub fn iter(&self) -> impl Iterator<Item = &Trail> {
        self.ways[..usize::from(self.count)].iter()
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn add(&mut self, trail: Trail) {
        let known = self.iter().position(|known| known.start == trail.start && known.from == trail.from);
        let count = usize::from(self.count);
        let mut at = match known {
            Some(at) if self.ways[at].cost <= trail.cost => return,
            Some(at) => at,
            None if count < MAX_WAYS => {
                self.count += 1;
                count
            }
            None if self.ways[MAX_WAYS - 1].cost <= trail.cost => return,
            None => MAX_WAYS - 1,
        };
        self.ways[at] = trail;
        while at > 0 && self.ways[at - 1].cost > trail.cost {
            self.ways.swap(at - 1, at);
            at -= 1;
        }
    }
}

/// The ways up to a line of the file.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Cell {
    /// The number of lines of the file that are read.
    pub line: usize,
    pub matched: Ways,
    pub gap: Ways,
    pub long: Ways,
}

impl Cell {
    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Trail> {
        self.matched.iter().chain(self.gap.iter()).chain(self.long.iter())
    }

    fn of(&mut self, kind: Kind) -> &mut Ways {
        match kind {
            Kind::Matched => &mut self.matched,
            Kind::Gap => &mut self.gap,
            Kind::Long => &mut self.long,
        }
    }
}

/// The cells after a line of the part, those that are reached within the bound, in order.
#[derive(Default)]
pub(super) struct Row {
    pub cells: Vec<Cell>,
}

impl Row {
    /// The cells that ways lead to, and those further on by lines that go; `gone` is the cost of a line and its brackets.
    pub fn swept(
        mut next: Vec<(usize, Kind, Trail)>,
        bound: i32,
        count: usize,
        gone: impl Fn(usize) -> (i32, [i8; 3]),
    ) -> Row {
        next.retain(|(_, _, trail)| trail.cost <= bound);
        next.sort_by_key(|(line, kind, _)| (*line, *kind));
        let mut cells: Vec<Cell> = Vec::with_capacity(next.len() * 2);
        let mut next = next.into_iter().peekable();
        let mut carried = Cell::default();
        loop {
            let mut cell = match next.peek() {
                Some((line, ..)) if carried.gap.is_empty() && carried.long.is_empty() => {
                    Cell { line: *line, ..Cell::default() }
                }
                None if carried.gap.is_empty() && carried.long.is_empty() => break,
                _ => carried,
            };
            while let Some((_, kind, trail)) = next.next_if(|(line, ..)| *line == cell.line) {
                cell.of(kind).add(trail);
            }
            carried = Cell { line: cell.line + 1, ..Cell::default() };
            if cell.line < count {
                let (cost, [a, b, c]) = gone(cell.line);
                let brackets = [-a, -b, -c];
                let long = cost / LONG_DIVISOR;
                let mut carry = |kind: Kind, trail: &Trail, cost: i32| {
                    if trail.cost + cost <= bound {
                        carried.of(kind).add(trail.changed(cost, brackets));
                    }
                };
                cell.matched.iter().for_each(|trail| carry(Kind::Gap, trail, RUN + cost));
                cell.gap.iter().for_each(|trail| carry(Kind::Gap, trail, cost));
                cell.matched.iter().for_each(|trail| carry(Kind::Long, trail, LONG + long));
                cell.long.iter().for_each(|trail| carry(Kind::Long, trail, long));
            }
            cells.push(cell);
        }
        Row { cells }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn swept(next: Vec<(usize, Kind, Trail)>) -> Row {
        Row::swept(next, 20 * UNIT, 9, |_| (UNIT, [0; 3]))
    }

    #[test]
    fn lines_that_go_cost_a_run_and_many_of_them_less_each() {
        let row = swept(vec![(0, Kind::Matched, Trail::at(0, 0, 0, Doubts::NONE))]);
        let cost = |line: usize| row.cells[line].all().map(|trail| trail.cost).min();
        assert_eq!([cost(0), cost(1), cost(2)], [Some(0), Some(2 * UNIT), Some(3 * UNIT)]);
        assert_eq!(cost(9), Some(LONG + 9 * UNIT / LONG_DIVISOR));
    }

    #[test]
    fn of_ways_that_begin_alike_the_cheapest_is_kept() {
        let begun = |start: usize, cost: i32| (5, Kind::Gap, Trail::at(start, 0, cost, Doubts::NONE));
        let row = swept(vec![begun(1, 300), begun(2, 200), begun(1, 100), begun(3, 50)]);
        let kept: Vec<(u32, i32)> = row.cells[0].gap.iter().map(|trail| (trail.start, trail.cost)).collect();
        assert_eq!(kept, [(3, 50), (1, 100), (2, 200)]);
    }

    #[test]
    fn what_costs_more_than_the_bound_is_left_out() {
        assert!(swept(vec![(0, Kind::Matched, Trail::at(0, 0, 21 * UNIT, Doubts::NONE))]).cells.is_empty());
    }
}
