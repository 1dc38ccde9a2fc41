//! Aligns a snippet with a file by dynamic programming: which lines match, are new or deleted, and what each marker stands for.
//!
//! Invariant: of all ways that keep the order of both, the one that is returned has the highest score, and the two
//! returned for a tie differ as far as ties allow.

use std::ops::Range;

/// The score of an unreachable cell; half the range, so that subtracting costs does not overflow.
const UNREACHABLE: i32 = i32::MIN / 2;

// Bits of a cell: the steps by which an alignment of the highest score goes through it.
const MATCH: u8 = 1;
const INSERT: u8 = 2;
const DELETE: u8 = 4;
const STAY: u8 = 8;
const SKIP_ON: u8 = 16;
const SKIP_FIRST: u8 = 32;
const SKIP: u8 = 64;
// The same bits in the row of a line: a long deletion goes on, begins, or ends here.
const LONG_ON: u8 = SKIP_ON;
const LONG_FIRST: u8 = SKIP_FIRST;
const LONG: u8 = SKIP;

/// Cost of beginning a long deletion, and the divisor of the cost of each of its lines (an affine gap penalty).
const LONG_DELETION: i32 = 600;
const LONG_DELETION_DIVISOR: i32 = 10;

/// Lines that are compared at once.
const CHUNK: usize = 32;

/// A part of a snippet, as numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    /// A line.
    Line(LineToken),
    /// A marker. It costs `empty` if it stands for no line, `some` otherwise.
    Marker { empty: i32, some: i32 },
}

/// A line of a snippet.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct LineToken {
    /// Its number in the file, if the file has it.
    pub id: Option<u32>,
    /// The worth of matching it.
    pub worth: i32,
    /// Its cost as a new line.
    pub new: i32,
    /// Lines of the file that it may replace because they declare the same or are similar, with the worth of that.
    pub replaces: Vec<(usize, i32)>,
    /// Places in the file where it may not be matched.
    pub forbidden: Vec<usize>,
}

/// The step of a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// The line is that line of the file.
    Matched(usize),
    /// The line replaces that line of the file.
    Replaces(usize),
    /// The line is new, before that line of the file.
    New(usize),
    /// The marker stands for lines of the file from the first to before the second.
    Kept(usize, usize),
}

/// An alignment of a snippet with a file: a step for each token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Alignment {
    /// One for each token.
    pub steps: Vec<Step>,
    /// Its score.
    pub score: i32,
}

/// An alignment problem.
pub(crate) struct Problem<'p> {
    /// The snippet; it begins and ends with a marker.
    pub tokens: &'p [Token],
    /// Numbers of the file's lines.
    pub ids: &'p [u32],
    /// The cost of deleting each line.
    pub delete: &'p [i32],
    /// For each number of tokens read, the numbers of lines that may be read by then; one at the beginning and at the end.
    pub rows: &'p [Range<usize>],
}

/// Ways of the highest score, one that matches and keeps as early as it can and one as late; `None` if there is no way.
pub(crate) fn align(problem: &Problem<'_>) -> Option<[Alignment; 2]> {
    let table = Table::fill(problem);
    let score = table.score?;
    Some([false, true].map(|late| Alignment { steps: table.way(problem, late), score }))
}

/// The score of steps by a problem's weights.
pub(crate) fn score_of(problem: &Problem<'_>, steps: &[Step]) -> i32 {
    let (mut score, mut at) = (0, problem.rows[0].start);
    let gone = |lines: Range<usize>| {
        let sum = problem.delete[lines.clone()].iter().sum::<i32>();
        let long = LONG_DELETION + problem.delete[lines].iter().map(|cost| cost / LONG_DELETION_DIVISOR).sum::<i32>();
        sum.min(long)
    };
    for (token, step) in problem.tokens.iter().zip(steps) {
        match (token, *step) {
            (Token::Line(line), Step::Matched(to)) => {
                score += line.worth - gone(at..to.max(at));
                at = to + 1;
            }
            (Token::Line(line), Step::Replaces(to)) => {
                let worth = line.replaces.iter().find(|(place, _)| *place == to).map_or(0, |(_, worth)| *worth);
                score += worth - gone(at..to.max(at));
                at = to + 1;
            }
            (Token::Line(line), Step::New(_)) => score -= line.new,
            (Token::Marker { empty, some }, Step::Kept(from, to)) => {
                score -= gone(at..from.max(at)) + if from == to { *empty } else { *some };
                at = to;
            }
            (Token::Marker { .. }, _) | (Token::Line(_), Step::Kept(..)) => {}
        }
    }
    score
}

struct Table {
    /// How cells are reached, row after row; each covers its window.
    ways: Vec<u8>,
    /// For each token, where its row begins.
    begins: Vec<usize>,
    score: Option<i32>,
}

/// The lines that a token's row is about: what may be read before it or after it.
fn window(problem: &Problem<'_>, place: usize) -> Range<usize> {
    let (from, to) = (&problem.rows[place], &problem.rows[place + 1]);
    from.start.min(to.start)..from.end.max(to.end)
}

impl Table {
    fn fill(problem: &Problem<'_>) -> Table {
        let Problem { tokens, rows, .. } = problem;
        let mut begins = Vec::with_capacity(tokens.len());
        let mut cells = 0;
        for place in 0..tokens.len() {
            begins.push(cells);
            cells += window(problem, place).len();
        }
        let mut ways = vec![0; cells];
        let mut front = Front::at(&rows[0]);
        // The cost of taking all lines as new; scores in the table are relative to it.
        let mut new = 0;
        for (place, token) in tokens.iter().enumerate() {
            front.enter(&rows[place], window(problem, place));
            let (done, rest) = ways.split_at_mut(begins[place]);
            let row = &mut rest[..front.window.len()];
            match token {
                Token::Marker { empty, some } => front.marker(*empty, *some, rows[place + 1].end, row),
                Token::Line(line) => {
                    let above = place.checked_sub(1).filter(|&above| matches!(tokens[above], Token::Line(_)));
                    match above {
                        Some(above) => front.delete(&done[begins[above]..], problem, row),
                        None => front.stay(row),
                    }
                    front.line(line, problem, row);
                    new += line.new;
                }
            }
        }
        let last = rows[tokens.len()].end - 1 - front.window.start;
        let score = Some(front.after[last]).filter(|score| *score > UNREACHABLE / 2).map(|score| score - new);
        Table { ways, begins, score }
    }

    fn way(&self, problem: &Problem<'_>, late: bool) -> Vec<Step> {
        let mut steps = vec![Step::New(0); problem.tokens.len()];
        let mut at = problem.rows[problem.tokens.len()].end - 1;
        for place in (0..problem.tokens.len()).rev() {
            let ways = &self.ways[self.begins[place]..];
            let base = window(problem, place).start;
            let cell = |at: usize| ways[at - base];
            match &problem.tokens[place] {
                Token::Marker { .. } => {
                    let end = at;
                    // Of ways that are as good, the late one keeps little.
                    let empty = cell(at) & STAY != 0;
                    let some = cell(at) & SKIP != 0;
                    if some && !(empty && late) {
                        loop {
                            let (on, first) = (cell(at) & SKIP_ON != 0, cell(at) & SKIP_FIRST != 0);
                            at -= 1;
                            if !on || first && late {
                                break;
                            }
                        }
                    }
                    steps[place] = Step::Kept(at, end);
                }
                Token::Line(line) => {
                    let (matched, new) = (cell(at) & MATCH != 0, cell(at) & INSERT != 0);
                    if matched && !(new && late) {
                        at -= 1;
                        let same = line.id == Some(problem.ids[at]);
                        steps[place] = if same { Step::Matched(at) } else { Step::Replaces(at) };
                    } else {
                        steps[place] = Step::New(at);
                    }
                    while cell(at) & STAY == 0 || late {
                        if cell(at) & DELETE != 0 {
                            at -= 1;
                        } else if cell(at) & LONG != 0 {
                            while cell(at) & LONG_ON != 0 {
                                at -= 1;
                            }
                            at -= 1;
                        } else {
                            break;
                        }
                    }
                }
            }
        }
        steps
    }
}

/// The scores along the row of a token, which cover its window: how good it is at best to have read so many lines by then.
/// Scores leave out the cost of new lines, so that a row differs from the one above only where the token matches.
struct Front {
    window: Range<usize>,
    /// Before the token.
    before: Vec<i32>,
    /// Before the token, after lines are deleted.
    reached: Vec<i32>,
    /// The same, by a long deletion.
    long: Vec<i32>,
    /// After the token.
    after: Vec<i32>,
    /// The cost of each line of the window in a long deletion.
    shares: Vec<i32>,
    /// From which cell on the last two rows were no longer as the one above.
    touched: [usize; 2],
}

impl Front {
    fn at(row: &Range<usize>) -> Front {
        let mut after = vec![UNREACHABLE; row.len()];
        after[0] = 0;
        let [before, reached, long, shares] = [const { Vec::new() }; 4];
        Front { window: row.clone(), before, reached, long, after, shares, touched: [0; 2] }
    }

    /// Goes on to a row, of which lines in `from` may be read before its token.
    fn enter(&mut self, from: &Range<usize>, window: Range<usize>) {
        if window == self.window && *from == window {
            std::mem::swap(&mut self.before, &mut self.after);
        } else {
            self.before.clear();
            self.before.resize(from.start - window.start, UNREACHABLE);
            self.before.extend_from_slice(&self.after[from.start - self.window.start..from.end - self.window.start]);
            self.before.resize(window.len(), UNREACHABLE);
            self.touched = [0; 2];
        }
        self.window = window;
    }

    /// A marker stands for no line at all, or for all lines from any on.
    fn marker(&mut self, empty: i32, some: i32, end: usize, ways: &mut [u8]) {
        let cells = end - self.window.start;
        let before = &self.before[..cells];
        self.reached.resize(self.window.len(), UNREACHABLE);
        let mut best = UNREACHABLE;
        for (skipping, &before) in self.reached.iter_mut().zip(before) {
            *skipping = best;
            best = best.max(before - some);
        }
        self.after.clear();
        self.after.resize(self.window.len(), UNREACHABLE);
        // Above the first cell there is nothing to be skipped.
        (ways[0], self.after[0]) = (STAY, (before[0] - empty).max(UNREACHABLE));
        let above = self.reached.iter().zip(before);
        let row = self.reached[1..].iter().zip(&before[1..]).zip(self.after[1..].iter_mut().zip(&mut ways[1..]));
        for ((&on, &first), ((&skipping, &before), (after, way))) in above.zip(row) {
            let (first, none) = (first - some, before - empty);
            // How lines are skipped to here is kept even if this cell itself is best reached without.
            *way = (u8::from(on >= first) * SKIP_ON)
                | (u8::from(on <= first) * SKIP_FIRST)
                | (u8::from(none >= skipping) * STAY)
                | (u8::from(skipping >= none) * SKIP);
            *after = skipping.max(none).max(UNREACHABLE);
        }
    }

    /// No lines are deleted before a token.
    fn stay(&mut self, ways: &mut [u8]) {
        self.reached.clone_from(&self.before);
        ways.fill(STAY | INSERT);
        self.touched = [0; 2];
    }

    /// Lines are deleted before a token. Where the two rows above are the same, so is this one.
    fn delete(&mut self, above: &[u8], problem: &Problem<'_>, ways: &mut [u8]) {
        let cells = self.window.len();
        let from = self.touched[0].min(self.touched[1]).max(1);
        let costs = &problem.delete[self.window.start..self.window.start + cells - 1];
        self.reached.clone_from(&self.before);
        self.long.resize(cells, UNREACHABLE);
        if from == 1 {
            (ways[0], self.long[0]) = (STAY | INSERT, UNREACHABLE);
            self.shares.clear();
            self.shares.extend(costs.iter().map(|cost| cost / LONG_DELETION_DIVISOR));
        } else {
            ways[..from].copy_from_slice(&above[..from]);
        }
        let (above, stayed) = (&self.before[from - 1..], &self.before[from..]);
        let (costs, shares) = (&costs[from - 1..], &self.shares[from - 1..]);
        let (mut best, mut best_long) = (self.reached[from - 1], self.long[from - 1]);
        let row = self.reached[from..].iter_mut().zip(&mut self.long[from..]);
        let lines = above.iter().zip(stayed).zip(costs.iter().zip(shares));
        for ((reached, long), ((&above, &stayed), (&cost, &share))) in row.zip(lines) {
            best_long = best_long.max(above - LONG_DELETION) - share;
            best = stayed.max(best_long).max(best - cost);
            (*reached, *long) = (best, best_long);
        }
        let best = self.reached[from - 1..].iter().zip(&self.reached[from..]);
        let long = self.long[from - 1..].iter().zip(&self.long[from..]);
        let row = above.iter().zip(stayed).zip(costs).zip(best.zip(long)).zip(&mut ways[from..]);
        for ((((&above, &stayed), &cost), ((&best_above, &best), (&long_above, &long))), way) in row {
            *way = INSERT
                | (u8::from(stayed == best) * STAY)
                | (u8::from(best_above - cost == best) * DELETE)
                | (u8::from(long == best) * LONG)
                | if long_above > above - LONG_DELETION { LONG_ON } else { LONG_FIRST };
        }
    }

    /// A line is new or matches one of the file.
    fn line(&mut self, line: &LineToken, problem: &Problem<'_>, ways: &mut [u8]) {
        self.after.clone_from(&self.reached);
        let lines = self.window.start..self.window.end - 1;
        let mut touched = self.window.len();
        let mut matched = |place: usize, worth: i32| {
            let at = place - lines.start + 1;
            let (new, matched) = (self.reached[at], self.reached[at - 1] + worth + line.new);
            if matched >= new && matched > UNREACHABLE / 2 {
                self.after[at] = matched;
                ways[at] = ways[at] & !INSERT | MATCH | if matched == new { INSERT } else { 0 };
                touched = touched.min(at);
            }
        };
        let is_same = |place: usize| line.id == Some(problem.ids[place]) && !line.forbidden.contains(&place);
        if let Some(id) = line.id {
            for (ids, first) in problem.ids[lines.clone()].chunks(CHUNK).zip(lines.clone().step_by(CHUNK)) {
                // Most have none like it, and all of a chunk are compared at once.
                if ids.iter().fold(false, |any, &other| any | (other == id)) {
                    let places = first..first + ids.len();
                    places.filter(|&place| is_same(place)).for_each(|place| matched(place, line.worth));
                }
            }
        }
        let replaces = line.replaces.iter().filter(|(place, _)| lines.contains(place) && !is_same(*place));
        replaces.for_each(|&(place, worth)| matched(place, worth));
        self.touched = [self.touched[1], touched];
    }
}
