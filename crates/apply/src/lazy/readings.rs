//! Chooses among readings (the interpretations of a snippet that alignments give), or refuses an ambiguous snippet.
//!
//! Invariant: a chosen reading has an anchor in every segment that changes something, and every
//! other reading that explains the snippet nearly as well gives the same text.

use super::align::{Alignment, Problem, Step, Token, align, score_of};
use super::changes::{Change, changes, set_apart, splices};
use super::closers::{close_what_is_shown, is_gap};
use super::indent::indent;
use super::keys::key;
use super::likeness::{LineFeatures, Many, are_similar};
use super::lines::{MIN_INFORMATION, UNIT, information, is_blank, is_distinctive, named};
use super::prepared::PreparedSnippet;
use crate::format::short;
use crate::outcome::{Code, Refused};
use crate::source::Source;
use crate::splice::Splice;
use std::ops::Range;

/// Readings worse by up to this are alternatives: a little more than the worth of half a long line.
const MARGIN: i32 = 7 * UNIT / 2;
/// What settles nearly every doubt about a place.
pub(super) const AS_A_BLOCK: &str = "show more of the lines above and below the change, or send it as a SEARCH/REPLACE block with three of them on each side";
/// Places that a refusal lists.
const MAX_PLACES: usize = 20;
/// A run of at most this many similar lines still connects its neighbours.
const MAX_SIMILAR_RUN: usize = 8;
/// Bytes per step of the bracket count: their sum fits a byte.
const CHUNK: usize = 64;
/// More deletions need similar new lines in their place.
const FREE_DELETIONS: usize = 12;

/// The unambiguous reading, with its changes. `exact` is the best alignment under all weights, if known.
///
/// # Errors
/// Names the other places that the snippet could mean.
pub(crate) fn choose(
    source: &Source,
    prepared: &PreparedSnippet<'_>,
    problems: [&Problem<'_>; 2],
    lenient: &Problem<'_>,
    exact: Option<Vec<Step>>,
) -> Result<(Alignment, Vec<Change>, Vec<Splice>), Refused> {
    let cases = problems.map(|problem| Case { source, prepared, problem, lenient });
    let mut readings: Vec<Reading<'_>> = Vec::new();
    let mut ways: Vec<Vec<Step>> = Vec::new();
    let wide = Case { source, prepared, problem: lenient, lenient };
    for case in cases.iter().chain([&wide]) {
        // The lenient weights are only tried if no other reading leaves the brackets balanced.
        let is_last_resort = std::ptr::eq(case, &wide);
        if is_last_resort && readings.iter().any(|reading| reading.grown == [0; 3]) {
            break;
        }
        let best = match &exact {
            Some(steps) => vec![Alignment { steps: steps.clone(), score: score_of(case.problem, steps) }],
            None => align(case.problem).map(Vec::from).unwrap_or_default(),
        };
        for mut alignment in best {
            // Most problems have the same single alignment.
            if ways.contains(&alignment.steps) {
                continue;
            }
            ways.push(alignment.steps.clone());
            set_apart(source, prepared, &mut alignment.steps);
            if readings.iter().any(|known| known.alignment.steps == alignment.steps) {
                continue;
            }
            let found = changes(prepared, &alignment.steps);
            let splices = splices(source, prepared, &found);
            let score = score_of(lenient, &alignment.steps);
            match readings.iter_mut().find(|known| source.is_same_with(&known.splices, &splices)) {
                Some(known) => known.score = known.score.max(score),
                None => {
                    let grown = brackets_grown(source, &splices);
                    readings.push(Reading { case, alignment, found, splices, score, grown });
                }
            }
        }
    }
    if readings.is_empty() {
        return Err(Refused::new(
            Code::NoAnchor,
            "the lines of the update do not stand in the file in this order",
            "show unchanged lines of the file in their order around each change",
        ));
    }
    let mut refused = None;
    readings.retain(|reading| match reading.case.check_anchors(reading) {
        Ok(()) => true,
        Err(why) => {
            refused.get_or_insert(why);
            false
        }
    });
    if let Some(refused) = refused.filter(|_| readings.is_empty()) {
        return Err(refused);
    }
    keep_some(&mut readings, |reading| !reading.case.doubles(&reading.found));
    keep_some(&mut readings, |reading| reading.grown == [0; 3]);
    if let [one, other, ..] = &readings[..] {
        return Err(one.case.ambiguous(&one.alignment, &other.alignment));
    }
    let chosen = readings.swap_remove(0);
    chosen.case.check(&chosen)?;
    Ok((chosen.alignment, chosen.found, chosen.splices))
}

/// Keeps the better readings, if there are any.
fn keep_some(readings: &mut Vec<Reading<'_>>, is_better: impl Fn(&Reading<'_>) -> bool) {
    if readings.len() > 1 && readings.iter().any(&is_better) {
        readings.retain(is_better);
    }
}

/// An interpretation of a snippet.
struct Reading<'r> {
    case: &'r Case<'r>,
    alignment: Alignment,
    /// Its changes, in lines.
    found: Vec<Change>,
    /// Its changes, in bytes.
    splices: Vec<Splice>,
    /// Its best score under the lenient weights.
    score: i32,
    /// How many more brackets of each kind open than close in the text, compared to the file.
    grown: [i64; 3],
}

/// How many more brackets of each kind open than close.
fn brackets(text: &str) -> [i64; 3] {
    [*b"()", *b"[]", *b"{}"].map(|[open, close]| {
        // Sums that fit a byte are those of many bytes at once.
        let more =
            |bytes: &[u8]| bytes.iter().map(|&byte| i8::from(byte == open) - i8::from(byte == close)).sum::<i8>();
        text.as_bytes().chunks(CHUNK).map(|bytes| i64::from(more(bytes))).sum()
    })
}

/// By how much splices change how many more brackets of each kind open than close.
fn brackets_grown(source: &Source, splices: &[Splice]) -> [i64; 3] {
    let mut grown = [0; 3];
    for splice in splices {
        let (new, old) = (brackets(&splice.new), brackets(&source.text[splice.old.clone()]));
        (0..3).for_each(|kind| grown[kind] += new[kind] - old[kind]);
    }
    grown
}

/// A reading with its problem.
struct Case<'c> {
    source: &'c Source,
    prepared: &'c PreparedSnippet<'c>,
    problem: &'c Problem<'c>,
    /// The problem with lenient weights, for other readings.
    lenient: &'c Problem<'c>,
}

impl Case<'_> {
    /// Checks that every segment that changes something has an anchor.
    fn check_anchors(&self, reading: &Reading<'_>) -> Result<(), Refused> {
        for segment in &self.prepared.segments {
            if self.changes_something(segment, reading) {
                self.check_anchor(segment, &reading.alignment)?;
            }
        }
        Ok(())
    }

    /// Checks that no reading of nearly the same score gives another text.
    fn check(&self, reading: &Reading<'_>) -> Result<(), Refused> {
        for segment in &self.prepared.segments {
            if self.changes_something(segment, reading) {
                self.check_place(segment, reading)?;
            } else {
                self.check_unchanged(segment, reading)?;
            }
        }
        self.check_deletions(reading)
    }

    /// Whether any change lies in a segment or between two of its lines.
    fn changes_something(&self, segment: &Range<usize>, reading: &Reading<'_>) -> bool {
        let Reading { alignment, found, .. } = reading;
        let mut lines = matched(alignment, segment).map(|(_, line)| line);
        let first = lines.next();
        let last = lines.last().or(first);
        let new = alignment.steps[segment.clone()].iter().any(|step| matches!(step, Step::New(_) | Step::Replaces(_)));
        // Changes stand in the order of the file, and those of a segment between the lines that the markers beside it stand for.
        let (Some(Step::Kept(_, from)), Some(Step::Kept(to, _))) =
            (alignment.steps.get(segment.start - 1), alignment.steps.get(segment.end))
        else {
            return true;
        };
        let near = &found[found.partition_point(|change| change.end < *from)..];
        let mut near = near.iter().take_while(|change| change.start <= *to);
        let is_gone = |change: &Change| {
            let is_between = first.zip(last).is_some_and(|(first, last)| change.start > first && change.end <= last);
            is_between && change.end > change.start
        };
        near.any(|change| is_gone(change) || new && change.new.iter().any(|token| segment.contains(token)))
    }

    /// Refuses segments without a change whose lines may be shown because something next to the marker should be deleted.
    fn check_unchanged(&self, segment: &Range<usize>, reading: &Reading<'_>) -> Result<(), Refused> {
        let (alignment, is_alone) = (&reading.alignment, self.prepared.segments.len() == 1);
        let is_weak = |token: usize, marker: usize| {
            information(self.prepared.text(token)) < UNIT
                && matches!(alignment.steps[token], Step::Matched(_))
                && (reading.splices.is_empty() || !is_gap(self.source, self.prepared, &alignment.steps, token, marker))
        };
        let [no_first, no_last] = self.prepared.implied;
        let inside = (segment.start > 1 || !no_first) && (segment.end + 1 < alignment.steps.len() || !no_last);
        let doubtful = is_weak(segment.start, segment.start.wrapping_sub(1)) || is_weak(segment.end - 1, segment.end);
        if self.is_cut_off(segment, alignment) {
            return Err(Refused::new(
                Code::AmbiguousDeletion,
                "the update ends without a marker and changes nothing there, and the file goes on",
                "put a marker where the rest stays, or show the file's last line to let the rest go",
            ));
        }
        if segment.len() < 2 || !doubtful || !(inside || is_alone) {
            return Ok(());
        }
        let lines: Vec<usize> = matched(alignment, segment).map(|(_, line)| line).collect();
        let (Some(first), Some(last)) = (lines.first(), lines.last()) else { return Ok(()) };
        if close_what_is_shown(self.source, self.prepared, alignment, segment) {
            return Ok(());
        }
        Err(Refused::new(
            Code::AmbiguousDeletion,
            format!(
                "lines {} to {} are shown as they stand, and it is not clear what should change there",
                first + 1,
                last + 1
            ),
            "to delete lines, show the two lines before and the line after them without a marker between",
        )
        .at([(*first, *last)]))
    }

    /// Whether markers are written elsewhere and none below, where the file goes on. Brackets only close what is shown.
    fn is_cut_off(&self, segment: &Range<usize>, alignment: &Alignment) -> bool {
        let [no_first, no_last] = self.prepared.implied;
        let last = alignment.steps.len() - 1;
        let has_markers_elsewhere = self.prepared.segments.len() > 1 || !no_first || !no_last;
        let has_distinctive = segment.clone().any(|token| is_distinctive(self.prepared.text(token)));
        let Step::Kept(from, to) = alignment.steps[last] else { return false };
        let goes_on = (from..to).any(|line| !is_blank(self.source.line(line)));
        has_markers_elsewhere && no_last && segment.end == last && has_distinctive && goes_on
    }

    fn check_anchor(&self, segment: &Range<usize>, alignment: &Alignment) -> Result<(), Refused> {
        let worth: i32 = anchored(self.prepared, alignment, segment).map(|(_, _, worth)| worth).sum();
        // Lines of the same name, and brackets, are found in many files.
        let is_told = matched(alignment, segment).any(|(token, _)| is_distinctive(self.prepared.text(token)));
        let is_held = is_told || self.ends_are_held(segment, alignment);
        if is_held && (worth >= MIN_INFORMATION || self.stands_at_edge(segment, alignment)) {
            return Ok(());
        }
        // Where the best of its lines stand more than once, these are the places in question.
        let known = segment.clone().filter(|&token| self.prepared.known[token].is_some_and(|known| known.count > 1));
        let best = known
            .filter(|&token| !is_blank(self.prepared.text(token)))
            .max_by_key(|&token| self.prepared.known[token].map_or(0, |known| known.worth));
        let text = best.map(|token| self.prepared.text(token)).filter(|text| information(text) >= UNIT);
        if let Some(text) = text {
            let places = (0..self.source.line_count()).filter(|&line| self.source.line(line) == text).take(MAX_PLACES);
            let places: Vec<(usize, usize)> = places.map(|line| (line, line)).collect();
            let named: Vec<String> = places.iter().map(|place| (place.0 + 1).to_string()).collect();
            let message = format!("`{}` stands at lines {}", short(text), named.join(", "));
            let hint = AS_A_BLOCK;
            return Err(Refused::new(Code::AmbiguousLocation, message, hint).at(places));
        }
        let shown =
            segment.clone().map(|token| self.prepared.text(token)).find(|text| !is_blank(text)).unwrap_or_default();
        Err(Refused::new(
            Code::NoAnchor,
            format!("nothing beside `{}` says where it belongs", short(shown)),
            "show an unchanged line of the file above and below each change",
        ))
    }

    /// Whether the first and the last line of a segment that are not blank are lines of the file, or take the place of one.
    fn ends_are_held(&self, segment: &Range<usize>, alignment: &Alignment) -> bool {
        let mut full = segment.clone().filter(|&token| !is_blank(self.prepared.text(token)));
        let first = full.next();
        let ends = [first, full.next_back().or(first)];
        ends.into_iter().flatten().all(|token| !matches!(alignment.steps[token], Step::New(_)))
    }

    /// A segment at an edge of the file that is shown needs no other anchor.
    fn stands_at_edge(&self, segment: &Range<usize>, alignment: &Alignment) -> bool {
        let [first, last] = self.prepared.edges;
        let anchored = matched(alignment, segment).next().is_some();
        let is_first = self.prepared.segments.first() == Some(segment);
        let is_last = self.prepared.segments.last() == Some(segment);
        anchored && ((first && is_first) || (last && is_last))
    }

    /// Looks for another place for each end of a change that is anchored only by lines that occur more than once.
    fn check_place(&self, segment: &Range<usize>, reading: &Reading<'_>) -> Result<(), Refused> {
        let alignment = &reading.alignment;
        if self.stands_at_edge(segment, alignment) {
            return Ok(());
        }
        for run in self.doubtful_runs(segment, alignment, &reading.found) {
            if let Some(other) = self.other_reading(&run, reading) {
                return Err(self.ambiguous(alignment, &other));
            }
        }
        Ok(())
    }

    /// Runs of matched lines that stand beside each other in file and snippet, none of which stands once. Lines that are only
    /// changed part no run.
    fn doubtful_runs(
        &self,
        segment: &Range<usize>,
        alignment: &Alignment,
        found: &[Change],
    ) -> Vec<Vec<(usize, usize)>> {
        let mut runs: Vec<Vec<(usize, usize)>> = Vec::new();
        for (token, line) in matched(alignment, segment) {
            match runs.last_mut().filter(|run| run.last() == Some(&(token.wrapping_sub(1), line.wrapping_sub(1)))) {
                Some(run) => run.push((token, line)),
                None => runs.push(vec![(token, line)]),
            }
        }
        let has_distinctive =
            |run: &[(usize, usize)]| run.iter().any(|&(token, _)| is_distinctive(self.prepared.text(token)));
        runs.dedup_by(|next, run| {
            let goes_on = has_distinctive(run) && has_distinctive(next) && self.goes_on(run[run.len() - 1], next[0]);
            if goes_on {
                run.append(next);
            }
            goes_on
        });
        let holds = |(token, _): &(usize, usize)| {
            self.prepared.known[*token].is_some_and(|known| known.count == 1 && known.worth >= UNIT)
        };
        let full = |run: &Vec<(usize, usize)>| run.iter().any(|(token, _)| !is_blank(self.prepared.text(*token)));
        let held = |run: &Vec<(usize, usize)>| run.iter().any(holds);
        // A bracket beside new lines that are anchored on their other side needs no anchor.
        let gone = |lines: Range<usize>| {
            found.iter().any(|it| it.end > it.start && (it.end == lines.start || it.start == lines.end))
        };
        let worth = |run: &Vec<(usize, usize)>| -> i32 {
            run.iter().filter_map(|(token, _)| self.prepared.known[*token]).map(|known| known.worth).sum()
        };
        let any_held = runs.iter().any(held);
        runs.retain(|run| {
            let lines = run.first().zip(run.last()).map_or(0..0, |(first, last)| first.1..last.1 + 1);
            full(run) && !held(run) && (worth(run) >= MIN_INFORMATION || !any_held || gone(lines))
        });
        runs
    }

    /// Whether as many lines stand between two matches in the file as in the update, each new and like the other: then they
    /// hold each other as if they stood side by side.
    fn goes_on(&self, one: (usize, usize), other: (usize, usize)) -> bool {
        let (tokens, lines) = (one.0 + 1..other.0, one.1 + 1..other.1);
        let alike = |(token, line): (usize, usize)| {
            let (new, old) = (self.prepared.text(token), self.source.line(line));
            (self.prepared.known[token].is_none() && are_similar(old, new)) || is_blank(old) && is_blank(new)
        };
        tokens.len() == lines.len() && tokens.len() <= MAX_SIMILAR_RUN && tokens.zip(lines).all(alike)
    }

    fn check_deletions(&self, reading: &Reading<'_>) -> Result<(), Refused> {
        let Reading { alignment, found, .. } = reading;
        let full = |lines: Range<usize>| lines.filter(|&line| !is_blank(self.source.line(line))).count();
        let deleted: usize = found.iter().map(|change| full(change.start..change.end)).sum();
        let inserted: usize = found.iter().map(|change| change.new.len()).sum();
        if deleted > FREE_DELETIONS.max(3 * inserted + 6) && deleted * 4 > self.source.line_count() {
            let message = format!("{deleted} lines would go for {inserted} new ones, and the update does not say so");
            let lines =
                found.iter().filter(|change| change.end > change.start).map(|change| (change.start, change.end - 1));
            let hint = "put a marker where lines are left out, or write the whole file";
            return Err(Refused::new(Code::AmbiguousDeletion, message, hint).at(lines));
        }
        for change in found.iter().filter(|change| full(change.start..change.end) > 0) {
            // The line that ends what goes must be the only one that could.
            let after = anchored(self.prepared, alignment, &(0..alignment.steps.len()))
                .find(|(_, line, _)| *line == change.end);
            let Some((token, line, _)) = after else { continue };
            let is_unique = self.prepared.known[token].is_some_and(|known| known.count == 1);
            if is_unique || self.is_replaced_in_place(change) {
                continue;
            }
            if let Some(other) = self.other_reading(&[(token, line)], reading) {
                let refused = self.ambiguous(alignment, &other);
                return Err(Refused { code: Code::AmbiguousDeletion, ..refused });
            }
        }
        Ok(())
    }

    /// Whether lines like those that go take their place.
    fn is_replaced_in_place(&self, change: &Change) -> bool {
        let full = |line: &&str| !is_blank(line);
        let gone = (change.start..change.end).map(|line| self.source.line(line)).filter(full);
        let new = change.new.iter().map(|&token| self.prepared.text(token)).filter(full);
        if gone.clone().count() > new.clone().count() + 1 {
            return false;
        }
        let new = Many::of(new);
        gone.map(LineFeatures::of).all(|line| new.any(|other| line.is_similar_to(other)))
    }

    /// Whether changes put a new line that declares or assigns a name right beside the file's own.
    fn doubles(&self, found: &[Change]) -> bool {
        found.iter().filter(|change| change.start == change.end).any(|change| {
            let full = |line: &usize| !is_blank(self.source.line(*line));
            let before = (0..change.start).rev().take(2).find(full);
            let after = (change.start..self.source.line_count()).take(2).find(full);
            let mut beside = [before, after].into_iter().flatten().map(|line| self.source.line(line));
            beside.any(|line| {
                key(line).is_some_and(|kept| {
                    change.new.iter().any(|&token| {
                        let text = self.prepared.text(token);
                        indent(text) == indent(line) && key(text) == Some(kept)
                    })
                })
            })
        })
    }

    /// A reading without these matches of one segment, if it is nearly as good and gives another text. The other segments
    /// stay where they are.
    fn other_reading(&self, forbidden: &[(usize, usize)], chosen: &Reading<'_>) -> Option<Alignment> {
        let (first, _) = *forbidden.first()?;
        let segment = self.prepared.segments.iter().find(|segment| segment.contains(&first))?;
        // The markers on both sides belong to it.
        let part = segment.start - 1..segment.end + 1;
        let steps = &chosen.alignment.steps;
        let (Step::Kept(from, _), Step::Kept(_, to)) = (steps[part.start], steps[part.end - 1]) else { return None };
        let mut tokens = self.lenient.tokens[part.clone()].to_vec();
        for &(token, line) in forbidden {
            if let Token::Line(it) = &mut tokens[token - part.start] {
                it.forbidden.push(line);
                it.replaces.retain(|(place, _)| *place != line);
            }
        }
        let mut rows = self.lenient.rows[part.start..=part.end].to_vec();
        (rows[0], rows[part.len()]) = (from..from + 1, to..to + 1);
        let problem = Problem { tokens: &tokens, rows: &rows, ..*self.lenient };
        let [other, _] = align(&problem)?;
        let kept = Problem { tokens: &self.lenient.tokens[part.clone()], ..problem };
        let lost = score_of(&kept, &steps[part.clone()]) - other.score;
        let mut all = steps.clone();
        all[part].copy_from_slice(&other.steps);
        set_apart(self.source, self.prepared, &mut all);
        // A line without another place makes no other reading.
        let elsewhere = |(token, _): &(usize, usize)| {
            matches!(all[*token], Step::Matched(_)) || is_blank(self.prepared.text(*token))
        };
        let stands = forbidden.iter().all(elsewhere);
        let score = score_of(self.lenient, steps) - lost;
        let other = Alignment { steps: all, score };
        let is_other = || {
            let splices = splices(self.source, self.prepared, &changes(self.prepared, &other.steps));
            !self.source.is_same_with(&splices, &chosen.splices)
        };
        (stands && score + MARGIN >= chosen.score && is_other()).then_some(other)
    }

    fn ambiguous(&self, one: &Alignment, other: &Alignment) -> Refused {
        let places = |alignment: &Alignment| -> Vec<(usize, usize)> {
            let last = self.source.line_count().saturating_sub(1);
            let found = changes(self.prepared, &alignment.steps);
            found.iter().map(|it| (it.start.min(last), it.end.saturating_sub(1).max(it.start).min(last))).collect()
        };
        let (one, other) = (places(one), places(other));
        let differ: Vec<(usize, usize)> = one
            .iter()
            .filter(|place| !other.contains(place))
            .chain(other.iter().filter(|place| !one.contains(place)))
            .copied()
            .collect();
        let mut lines: Vec<(usize, usize)> = if differ.is_empty() { one } else { differ };
        lines.sort_unstable();
        lines.dedup();
        let message = format!("the update fits more than one place, around {}", named(&lines));
        Refused::new(Code::AmbiguousLocation, message, AS_A_BLOCK).at(lines)
    }
}

/// Lines of a segment that match the file: token and line.
fn matched(alignment: &Alignment, segment: &Range<usize>) -> impl Iterator<Item = (usize, usize)> {
    let steps = &alignment.steps;
    segment.clone().filter_map(move |token| match steps[token] {
        Step::Matched(line) => Some((token, line)),
        _ => None,
    })
}

/// Lines of a segment that are anchored in the file, by a match or by their name: token, line, worth.
fn anchored<'h>(
    prepared: &'h PreparedSnippet<'_>,
    alignment: &'h Alignment,
    segment: &Range<usize>,
) -> impl Iterator<Item = (usize, usize, i32)> + 'h {
    segment.clone().filter_map(move |token| match alignment.steps[token] {
        Step::Matched(at) => Some((token, at, prepared.known[token].map_or(0, |known| known.worth))),
        Step::Replaces(at) => Some((token, at, prepared.worth_of_replacing(token, at))),
        _ => None,
    })
}
