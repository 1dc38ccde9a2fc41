//! The best way to lay a snippet along a file: which lines match, which are new, which go, and what each marker stands for.
//!
//! It refuses to know texts; lines come as numbers with what a match is worth. Invariant: of all ways that keep the order of
//! both, the one that is returned has the highest score, and the two returned for a tie differ as far as ties allow.

use std::ops::Range;

/// What cannot be reached.
const NEVER: i32 = i32::MIN / 2;

// Whether a way of the highest score goes through a cell by …
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

/// What it costs to begin a long deletion, whose lines then cost a tenth each.
const LONG_DELETION: i32 = 600;
const LONG_SHARE: i32 = 10;

/// A part of a snippet, as numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    /// A line.
    Line(LineToken),
    /// A marker. Standing for no line at all costs `empty`, for any number of them `some`.
    Marker { empty: i32, some: i32 },
}

/// A line of a snippet.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct LineToken {
    /// Its number in the file, if the file has it.
    pub id: Option<u32>,
    /// What matching it is worth.
    pub worth: i32,
    /// What it costs as a new line.
    pub new: i32,
    /// Lines of the file that it may take the place of because they are about the same thing, and what that is worth.
    pub replaces: Vec<(usize, i32)>,
    /// Places in the file where it may not be matched.
    pub forbidden: Vec<usize>,
}

/// What becomes of each token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// The line is that line of the file.
    Matched(usize),
    /// The line takes the place of that line of the file.
    Replaces(usize),
    /// The line is new, before that line of the file.
    New(usize),
    /// The marker stands for lines of the file from the first to before the second.
    Kept(usize, usize),
}

/// A way to lay a snippet along a file: a step for each token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Alignment {
    /// One for each token.
    pub steps: Vec<Step>,
    /// How good it is.
    pub score: i32,
}

/// What is aligned.
pub(crate) struct Problem<'p> {
    /// The snippet; it begins and ends with a marker.
    pub tokens: &'p [Token],
    /// Numbers of the file's lines.
    pub ids: &'p [u32],
    /// What it costs to delete each line.
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

/// How good steps are by a problem's weights.
pub(crate) fn score_of(problem: &Problem<'_>, steps: &[Step]) -> i32 {
    let (mut score, mut at) = (0, problem.rows[0].start);
    let gone = |lines: Range<usize>| {
        let sum = problem.delete[lines.clone()].iter().sum::<i32>();
        let long = LONG_DELETION + problem.delete[lines].iter().map(|cost| cost / LONG_SHARE).sum::<i32>();
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
        // The scores in the window of the row at hand, before and after its token.
        let mut before: Vec<i32> = Vec::new();
        let mut after = vec![NEVER; rows[0].len()];
        after[0] = 0;
        let mut read = rows[0].clone();
        for (place, token) in tokens.iter().enumerate() {
            let (from, to, window) = (&rows[place], &rows[place + 1], window(problem, place));
            before.clear();
            before.resize(from.start - window.start, NEVER);
            before.extend_from_slice(&after[from.start - read.start..from.end - read.start]);
            before.resize(window.len(), NEVER);
            after.clear();
            after.resize(window.len(), NEVER);
            let ways = &mut ways[begins[place]..][..window.len()];
            let mut row = Row { base: window.start, end: to.end, before: &before, after: &mut after, ways };
            match token {
                Token::Marker { empty, some } => row.marker(*empty, *some),
                Token::Line(line) => {
                    let follows_line = place > 0 && matches!(tokens[place - 1], Token::Line(_));
                    if follows_line { row.line::<true>(line, problem) } else { row.line::<false>(line, problem) }
                }
            }
            read = window;
        }
        let last = rows[tokens.len()].end - 1 - read.start;
        let score = Some(after[last]).filter(|score| *score > NEVER / 2);
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

/// A token's row. All slices cover its window.
struct Row<'r> {
    /// The first line of the window.
    base: usize,
    /// After the last line that may be read by the token.
    end: usize,
    before: &'r [i32],
    after: &'r mut [i32],
    ways: &'r mut [u8],
}

impl Row<'_> {
    fn marker(&mut self, empty: i32, some: i32) {
        let (mut skipping, mut first) = (NEVER, NEVER);
        let cells = self.before.iter().zip(self.after.iter_mut()).zip(self.ways.iter_mut());
        for ((&before, after), way) in cells.take(self.end - self.base) {
            let bits = (u8::from(skipping >= first) * SKIP_ON) | (u8::from(skipping <= first) * SKIP_FIRST);
            skipping = skipping.max(first);
            first = before.saturating_sub(some);
            let none = before.saturating_sub(empty);
            let best = skipping.max(none);
            if best > NEVER / 2 {
                // How lines are skipped to here is kept even if this cell itself is best reached without.
                *way = bits | (u8::from(none == best) * STAY) | (u8::from(skipping == best) * SKIP);
                *after = best;
            }
        }
    }

    fn line<const MAY_DELETE: bool>(&mut self, line: &LineToken, problem: &Problem<'_>) {
        let mut replaced = line.replaces.iter().peekable();
        let special = !line.replaces.is_empty() || !line.forbidden.is_empty();
        // No line of a file has this number.
        let id = line.id.unwrap_or(u32::MAX);
        let mut stayed_before = self.before[0];
        let mut reached = stayed_before;
        let mut long = NEVER;
        (self.ways[0], self.after[0]) = landed(STAY, reached - line.new, NEVER);
        let lines = self.base..self.base + self.before.len() - 1;
        let files = problem.ids[lines.clone()].iter().zip(&problem.delete[lines.clone()]);
        let cells = self.before[1..].iter().zip(&mut self.after[1..]).zip(&mut self.ways[1..]);
        for ((place, (&number, &cost)), ((&stayed, after), cell)) in lines.zip(files).zip(cells) {
            let mut worth = (number == id).then_some(line.worth);
            if special {
                worth = worth.filter(|_| !line.forbidden.contains(&place));
                while replaced.next_if(|found| found.0 < place).is_some() {}
                let stands_for = replaced.peek().filter(|found| found.0 == place);
                worth = worth.or(stands_for.map(|found| found.1));
            }
            let matched = worth.map_or(NEVER, |worth| reached + worth);
            let mut way = 0;
            reached = if MAY_DELETE {
                let deleted = reached - cost;
                let (on, first) = (long - cost / LONG_SHARE, stayed_before - LONG_DELETION - cost / LONG_SHARE);
                long = on.max(first);
                let best = stayed.max(deleted).max(long);
                way |= if on > first { LONG_ON } else { LONG_FIRST };
                way |= (u8::from(deleted == best) * DELETE) | (u8::from(long == best) * LONG);
                best
            } else {
                stayed
            };
            way |= u8::from(stayed == reached) * STAY;
            stayed_before = stayed;
            (*cell, *after) = landed(way, reached - line.new, matched);
        }
    }
}

/// How a cell is reached by a line that is new or matched, and its score.
fn landed(way: u8, new: i32, matched: i32) -> (u8, i32) {
    let best = new.max(matched);
    if best <= NEVER / 2 {
        return (way, NEVER);
    }
    (way | (u8::from(matched == best) * MATCH) | (u8::from(new == best) * INSERT), best)
}
