//! The cells of the programme that lays a part of a snippet over a file: ways to read the part up to a line of it, each up to a
//! line of the file.
//!
//! Only where a line of the part comes or is one of the file does a way need a cell. Lines that go between are added up when they are
//! passed, so that the work does not grow with them. Invariant: of all ways that begin alike and end in a cell the cheapest is kept, and
//! of all others the cheapest few.

use super::lines::UNIT;
use super::weakness::Doubts;
use super::weights::Gone;

/// Cost of each run of lines that go or come.
pub(super) const RUN: i32 = UNIT;
/// The divisor of the cost of a line in whose place another like it comes.
pub(super) const REPLACED: i32 = 6;
/// Cost of beginning to leave out many lines, and the divisor of the cost of each.
pub(super) const LONG: i32 = 6 * UNIT;
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
}

impl Trail {
    /// The beginning of a way.
    pub fn at(start: usize, from: usize, cost: i32, doubts: Doubts) -> Trail {
        Trail { cost, start: start as u32, from: from as u32, worth: 0, flags: 0, doubts }
    }

    /// The way with lines more that go or come.
    pub fn changed(&self, cost: i32) -> Trail {
        Trail { cost: self.cost.saturating_add(cost), flags: self.flags | CHANGED, ..*self }
    }

    fn begins_like(&self, other: &Trail) -> bool {
        (self.start, self.from) == (other.start, other.from)
    }

    /// Whether any line goes or comes.
    pub fn is_changed(&self) -> bool {
        self.flags & CHANGED != 0
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

    fn first(&self) -> Option<&Trail> {
        self.iter().next()
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether one of them begins as a trail does and is no worse.
    fn surpasses(&self, trail: &Trail) -> bool {
        self.iter().any(|known| known.begins_like(trail) && known.cost <= trail.cost)
    }

    /// Leaves those that are within a bound after so much more.
    fn go_on(&mut self, cost: i32, bound: i32) {
        let within = self.iter().take_while(|trail| trail.cost.saturating_add(cost) <= bound).count();
        self.count = within as u8;
        self.ways[..within].iter_mut().for_each(|trail| *trail = trail.changed(cost));
    }

    fn add(&mut self, trail: Trail) {
        let known = self.iter().position(|known| known.begins_like(&trail));
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

/// A way up to a line of the file: the number of its lines that are read, what the last one was, and the way.
pub(super) type Step = (usize, Kind, Trail);

/// Ways that cost no more than a bound, and how many others were met with them.
pub(super) struct Steps {
    bound: i32,
    pub steps: Vec<Step>,
    pub met: usize,
}

impl Steps {
    /// None yet.
    pub fn of(bound: i32) -> Steps {
        Steps { bound, steps: Vec::new(), met: 0 }
    }

    pub fn push(&mut self, step: Step) {
        self.met += 1;
        if step.2.cost <= self.bound {
            self.steps.push(step);
        }
    }

    pub fn extend(&mut self, steps: impl IntoIterator<Item = Step>) {
        steps.into_iter().for_each(|step| self.push(step));
    }
}

/// The ways after a line of the part, without those on by lines that go: in order, and of each line and kind a few.
#[derive(Default)]
pub(super) struct Row {
    steps: Vec<Step>,
}

/// What is asked on the way along the lines of a file.
pub(super) trait Visit {
    /// Whether there may be lines at which one that goes may be replaced.
    fn asks(&self) -> bool;
    /// The next line from one on, before another, at which a line that goes may be one in whose place the next of the part comes.
    fn next(&self, from: usize, before: usize) -> Option<usize>;
    /// A way that no other one surpasses.
    fn way(&mut self, line: usize, kind: Kind, trail: &Trail);
    /// All ways up to a line, those by lines that go included.
    fn cell(&mut self, line: usize, cell: &Cell);
}

impl Row {
    /// The row of ways.
    pub fn of(mut steps: Vec<Step>) -> Row {
        steps.sort_by_key(|(line, kind, _)| line << 2 | *kind as usize);
        let (mut at, mut kept) = (0, 0);
        while at < steps.len() {
            let (line, kind, _) = steps[at];
            let count = steps[at..].iter().take_while(|step| (step.0, step.1) == (line, kind)).count();
            let mut ways = Ways::default();
            match count {
                1 => (steps[kept], kept) = (steps[at], kept + 1),
                _ => steps[at..at + count].iter().for_each(|(_, _, trail)| ways.add(*trail)),
            }
            for trail in ways.iter() {
                (steps[kept], kept) = ((line, kind, *trail), kept + 1);
            }
            at += count;
        }
        steps.truncate(kept);
        Row { steps }
    }

    /// The ways whose last line is one of the file: the number of its lines that are read, and the way.
    pub fn matched(&self) -> impl Iterator<Item = (usize, &Trail)> {
        let matched = self.steps.iter().filter(|(_, kind, _)| *kind == Kind::Matched);
        matched.map(|(line, _, trail)| (*line, trail))
    }

    /// Goes along the lines of the file, with the ways that go on by lines that go, and stops at some, given in order.
    pub fn sweep(&self, gone: &Gone, bound: i32, stops: impl Iterator<Item = usize>, visit: &mut impl Visit) {
        let mut steps = self.steps.iter().peekable();
        let mut stops = stops.peekable();
        // The ways by lines that go, up to a line, and those up to it that end with one of the file.
        let (mut at, mut cell) = (0, Cell::default());
        loop {
            let step = steps.peek().map(|step| step.0);
            if cell.gap.is_empty() && cell.long.is_empty() {
                // Where nothing leads to, nothing is asked.
                let Some(step) = step else { break };
                while stops.next_if(|&stop| stop < step).is_some() {}
            }
            let known = step.into_iter().chain(stops.peek().copied()).min();
            // Between two lines that follow each other nothing is asked.
            let asks = visit.asks() && known.is_none_or(|known| known > at + 1);
            let way = cell.gap.first().filter(|_| asks);
            let reached = way.map_or(0, |way| gone.reach(at, bound - way.cost) + 1);
            let before = known.unwrap_or(usize::MAX).min(reached);
            let replaced = if asks { visit.next(at + 1, before) } else { None };
            let Some(line) = replaced.or(known) else { break };
            let cost = gone.lines(at..line);
            cell.matched.count = 0;
            cell.gap.go_on(cost, bound);
            cell.long.go_on(cost / LONG_DIVISOR, bound);
            let own = std::iter::from_fn(|| steps.next_if(|step| step.0 == line));
            for (_, kind, trail) in own {
                if !cell.of(*kind).surpasses(trail) {
                    visit.way(line, *kind, trail);
                    cell.of(*kind).add(*trail);
                }
            }
            let is_stop = stops.next_if_eq(&line).is_some();
            if is_stop || replaced.is_some() || !cell.matched.is_empty() || !cell.gap.is_empty() {
                visit.cell(line, &cell);
            }
            at = line;
            let Cell { matched, gap, long } = &mut cell;
            for trail in matched.iter() {
                gap.add(trail.changed(RUN));
                long.add(trail.changed(LONG));
            }
        }
    }
}

/// The cells at stops.
#[derive(Default)]
pub(super) struct Ends {
    pub cells: Vec<(usize, Cell)>,
}

impl Visit for Ends {
    fn asks(&self) -> bool {
        false
    }

    fn next(&self, _: usize, _: usize) -> Option<usize> {
        None
    }

    fn way(&mut self, _: usize, _: Kind, _: &Trail) {}

    fn cell(&mut self, line: usize, cell: &Cell) {
        self.cells.push((line, *cell));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lazy::lines::Says;

    fn swept(steps: Vec<Step>, stops: &[usize]) -> Vec<(usize, Cell)> {
        let bound = 20 * UNIT;
        let mut seen = Ends::default();
        let gone = Gone::of(&[Says::Much; 9]);
        let mut within = Steps::of(bound);
        within.extend(steps);
        Row::of(within.steps).sweep(&gone, bound, stops.iter().copied(), &mut seen);
        seen.cells
    }

    #[test]
    fn lines_that_go_cost_a_run_and_many_of_them_less_each() {
        let cells = swept(vec![(0, Kind::Matched, Trail::at(0, 0, 0, Doubts::NONE))], &[1, 2, 9]);
        let costs: Vec<(usize, Option<i32>)> =
            cells.iter().map(|(line, cell)| (*line, cell.all().map(|trail| trail.cost).min())).collect();
        let many = LONG + 9 * UNIT / LONG_DIVISOR;
        assert_eq!(costs, [(0, Some(0)), (1, Some(2 * UNIT)), (2, Some(3 * UNIT)), (9, Some(many))]);
    }

    #[test]
    fn of_ways_that_begin_alike_the_cheapest_is_kept() {
        let begun = |start: usize, cost: i32| (5, Kind::Gap, Trail::at(start, 0, cost, Doubts::NONE));
        let cells = swept(vec![begun(1, 300), begun(2, 200), begun(1, 100), begun(3, 50)], &[]);
        let kept: Vec<(u32, i32)> = cells[0].1.gap.iter().map(|trail| (trail.start, trail.cost)).collect();
        assert_eq!(kept, [(3, 50), (1, 100), (2, 200)]);
    }

    #[test]
    fn a_way_that_one_from_above_surpasses_is_none() {
        let gap = |line: usize, cost: i32| (line, Kind::Gap, Trail::at(0, 0, cost, Doubts::NONE));
        let cells = swept(vec![gap(1, 100), gap(3, 400)], &[]);
        let costs: Vec<i32> = cells.iter().flat_map(|(_, cell)| cell.gap.iter().map(|trail| trail.cost)).collect();
        assert_eq!(costs, [100, 300]);
    }

    #[test]
    fn what_costs_more_than_the_bound_is_left_out() {
        assert!(swept(vec![(0, Kind::Matched, Trail::at(0, 0, 21 * UNIT, Doubts::NONE))], &[1]).is_empty());
    }
}
