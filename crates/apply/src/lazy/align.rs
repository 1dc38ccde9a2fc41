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
    /// For each number of tokens read, the numbers of lines that may be read by then.
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
    let (mut score, mut at) = (0, 0);
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
    /// For each token, how its row's cells are reached.
    ways: Vec<Vec<u8>>,
    score: Option<i32>,
}

impl Table {
    fn fill(problem: &Problem<'_>) -> Table {
        let Problem { tokens, rows, .. } = problem;
        let mut before = vec![NEVER; rows[0].len()];
        before[0] = 0;
        let mut ways = Vec::with_capacity(tokens.len());
        for (place, token) in tokens.iter().enumerate() {
            let mut row = Row {
                from: &rows[place],
                to: &rows[place + 1],
                before: &before,
                after: vec![NEVER; rows[place + 1].len()],
                ways: vec![0; rows[place].end.max(rows[place + 1].end) - rows[place].start.min(rows[place + 1].start)],
            };
            match token {
                Token::Marker { empty, some } => row.marker(*empty, *some),
                Token::Line(line) => {
                    let follows_line = place > 0 && matches!(tokens[place - 1], Token::Line(_));
                    row.line(line, problem, follows_line);
                }
            }
            let Row { after, ways: cells, .. } = row;
            ways.push(cells);
            before = after;
        }
        let score = before.last().copied().filter(|score| *score > NEVER / 2);
        Table { ways, score }
    }

    fn way(&self, problem: &Problem<'_>, late: bool) -> Vec<Step> {
        let mut steps = vec![Step::New(0); problem.tokens.len()];
        let mut at = problem.rows[problem.tokens.len()].end - 1;
        for place in (0..problem.tokens.len()).rev() {
            let base = problem.rows[place].start.min(problem.rows[place + 1].start);
            let cell = |at: usize| self.ways[place][at - base];
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

struct Row<'r> {
    from: &'r Range<usize>,
    to: &'r Range<usize>,
    before: &'r [i32],
    after: Vec<i32>,
    /// Bits of the cells from the lower of both beginnings on.
    ways: Vec<u8>,
}

impl Row<'_> {
    fn base(&self) -> usize {
        self.from.start.min(self.to.start)
    }

    fn score_before(&self, at: usize) -> i32 {
        if self.from.contains(&at) { self.before[at - self.from.start] } else { NEVER }
    }

    fn marker(&mut self, empty: i32, some: i32) {
        let (base, mut skipping) = (self.base(), NEVER);
        for at in base..self.to.end {
            let first = if at > base { self.score_before(at - 1).saturating_sub(some) } else { NEVER };
            let bits = match skipping.cmp(&first) {
                std::cmp::Ordering::Greater => SKIP_ON,
                std::cmp::Ordering::Less => SKIP_FIRST,
                std::cmp::Ordering::Equal => SKIP_ON | SKIP_FIRST,
            };
            skipping = skipping.max(first);
            let none = self.score_before(at).saturating_sub(empty);
            let best = skipping.max(none);
            if best <= NEVER / 2 {
                continue;
            }
            // How lines are skipped to here is kept even if this cell itself is best reached without.
            let mut way = bits;
            if none == best {
                way |= STAY;
            }
            if skipping == best {
                way |= SKIP;
            }
            self.ways[at - base] = way;
            if self.to.contains(&at) {
                self.after[at - self.to.start] = best;
            }
        }
    }

    fn line(&mut self, line: &LineToken, problem: &Problem<'_>, may_delete: bool) {
        let base = self.base();
        let (mut reached, mut long, mut stayed_before) = (NEVER, NEVER, NEVER);
        let mut replaced = line.replaces.iter().peekable();
        let (plain, free) = (line.replaces.is_empty(), line.forbidden.is_empty());
        for at in base..self.to.end.max(self.from.end) {
            let stayed = self.score_before(at);
            let deleted = if may_delete && at > base { reached - problem.delete[at - 1] } else { NEVER };
            let mut way = 0;
            if may_delete && at > base {
                let cost = problem.delete[at - 1] / LONG_SHARE;
                let (on, first) = (long - cost, stayed_before - LONG_DELETION - cost);
                way |= if on > first { LONG_ON } else { LONG_FIRST };
                long = on.max(first);
            }
            let best = stayed.max(deleted).max(long);
            for (score, bit) in [(stayed, STAY), (deleted, DELETE), (long, LONG)] {
                if score == best {
                    way |= bit;
                }
            }
            stayed_before = stayed;
            let reached_before = std::mem::replace(&mut reached, best);
            let new = reached - line.new;
            let matched = if at == base {
                NEVER
            } else if line.id == Some(problem.ids[at - 1]) && (free || !line.forbidden.contains(&(at - 1))) {
                reached_before + line.worth
            } else if plain {
                NEVER
            } else {
                while replaced.next_if(|found| found.0 + 1 < at).is_some() {}
                replaced.peek().filter(|found| found.0 + 1 == at).map_or(NEVER, |found| reached_before + found.1)
            };
            let best = new.max(matched);
            if matched == best && best > NEVER / 2 {
                way |= MATCH;
            }
            if new == best && best > NEVER / 2 {
                way |= INSERT;
            }
            self.ways[at - base] = way;
            if self.to.contains(&at) && best > NEVER / 2 {
                self.after[at - self.to.start] = best;
            }
        }
    }
}
