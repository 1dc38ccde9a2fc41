//! The score as Markdown: a row per format and style and per language, the worst first, the bars, the times, and single
//! cases in full. No figure blends formats.
//!
//! It does not leave anything out: exact, wrong and refused stand together. Invariant: the numbers of a row add up to
//! its cases.

use super::cases::{CUT, Case, FREE, SCOPED, Wanted};
use super::change::Change;
use super::large::Large;
use super::score::{Result, Times, percentile};
use super::served::{Figures, Served};
use super::spread::ByCommit;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use tokrate_apply::Language;

/// What came of several cases.
#[derive(Clone, Default)]
struct Tally {
    cases: usize,
    exact: usize,
    wrong: usize,
    panicked: usize,
    /// Lines of files that wrong answers lost.
    lost: usize,
    refused: BTreeMap<&'static str, usize>,
    by_commit: ByCommit,
}

impl Tally {
    fn add(&mut self, case: &Case, result: &Result) {
        self.cases += 1;
        self.by_commit.add(&case.origin.commit, matches!(result, Result::Exact));
        match result {
            Result::Exact => self.exact += 1,
            Result::Wrong(merged) => {
                self.wrong += 1;
                self.lost += lost(case, merged);
            }
            Result::Panicked => self.panicked += 1,
            Result::NoChange => *self.refused.entry("no_change").or_default() += 1,
            Result::Refused(refused) => *self.refused.entry(refused.code.name()).or_default() += 1,
        }
    }

    fn refusals(&self) -> usize {
        self.refused.values().sum()
    }

    fn exact_share(&self) -> f64 {
        percent(self.exact, self.cases)
    }

    /// The share of exact ones, with what other commits would make of it.
    fn exact_between_commits(&self) -> String {
        let of = &self.by_commit;
        let interval = of.interval().map(|it| format!("; 95 %: {:.1} to {:.1} %", it.low * 100.0, it.high * 100.0));
        format!(
            "{:.2} % of {} ({} commits{}; mean of commits {:.1} %)",
            self.exact_share(),
            self.cases,
            of.commits(),
            interval.unwrap_or_default(),
            of.mean() * 100.0
        )
    }

    fn row(&self, name: &str) -> String {
        let codes: Vec<String> = self.refused.iter().map(|(code, count)| format!("{code} {count}")).collect();
        format!(
            "| {name} | {} | {:.2} % | {} ({:.2} %) | {} | {:.2} % | {} |\n",
            self.cases,
            self.exact_share(),
            self.wrong + self.panicked,
            percent(self.wrong + self.panicked, self.cases),
            self.lost,
            percent(self.refusals(), self.cases),
            codes.join(", ")
        )
    }
}

/// Lines with text that the file had, the wanted text still has, and the merged one has not.
pub fn lost(case: &Case, merged: &str) -> usize {
    let truth = match &case.wanted {
        Wanted::Text(truth) | Wanted::TextOrRefusal(truth) => truth,
        Wanted::Refusal => &case.original,
    };
    let counts = |text: &str| {
        let mut counts: HashMap<String, usize> = HashMap::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            *counts.entry(line.to_owned()).or_default() += 1;
        }
        counts
    };
    let [old, wanted, merged] = [&case.original, truth, merged].map(counts);
    let of = |counts: &HashMap<String, usize>, line: &str| counts.get(line).copied().unwrap_or(0);
    old.iter().map(|(line, &count)| count.min(of(&wanted, line)).saturating_sub(of(&merged, line))).sum()
}

fn percent(part: usize, whole: usize) -> f64 {
    if whole == 0 { f64::NAN } else { part as f64 * 100.0 / whole as f64 }
}

fn is_to_be_answered(case: &Case) -> bool {
    matches!(case.wanted, Wanted::Text(_))
}

/// Whether the engine has the grammar of a case's language.
pub fn has_grammar(case: &Case) -> bool {
    Language::of_path(&case.origin.path).is_some_and(Language::is_built_in)
}

fn is_snippet(case: &Case) -> bool {
    matches!(case.format, CUT | SCOPED | FREE)
}

/// Whether a case is counted.
type Choice<'c> = &'c dyn Fn(&Case) -> bool;

/// All tables.
pub fn tables(cases: &[Case], results: &[Result], times: &[Times], large: Option<&Large>) -> String {
    let mut text = String::new();
    let by = |name: &dyn Fn(&Case) -> Option<String>| {
        let mut rows: BTreeMap<String, Tally> = BTreeMap::new();
        for (case, result) in cases.iter().zip(results) {
            if let Some(name) = name(case) {
                rows.entry(name).or_default().add(case, result);
            }
        }
        rows
    };
    let style = |case: &Case| format!("{}: {}", case.format, case.style);
    let is_unique = |case: &Case| is_to_be_answered(case) && case.place.unique;
    table(&mut text, "format and style, where one place is named", by(&|case| is_unique(case).then(|| style(case))));
    let is_open = |case: &Case| is_to_be_answered(case) && !case.place.unique;
    table(&mut text, "the same, where several places would do", by(&|case| is_open(case).then(|| style(case))));
    let language = |case: &Case| {
        let grammar = if has_grammar(case) { "" } else { " (no grammar)" };
        format!("{}{grammar}: {}", case.origin.language, case.format)
    };
    let by_language = by(&|case| (is_unique(case) && is_snippet(case)).then(|| language(case)));
    table(&mut text, "language, where one place is named", by_language);
    let bare = by(&|case| matches!(case.wanted, Wanted::TextOrRefusal(_)).then(|| style(case)));
    table(&mut text, "may be answered or refused", bare);
    let refused = by(&|case| matches!(case.wanted, Wanted::Refusal).then(|| style(case)));
    table(&mut text, "must be refused", refused);
    time_table(&mut text, times);
    let tally_of = |chosen: Choice<'_>| {
        let mut tally = Tally::default();
        cases.iter().zip(results).filter(|(case, _)| chosen(case)).for_each(|(case, result)| tally.add(case, result));
        tally
    };
    bars(&mut text, &tally_of, times, large);
    text
}

/// A table of rows, those with the smallest exact share first.
fn table(text: &mut String, name: &str, rows: BTreeMap<String, Tally>) {
    *text += &format!(
        "| {name} | cases | exact | wrong | lines lost | refused | by code |\n|---|---|---|---|---|---|---|\n"
    );
    let mut rows: Vec<(String, Tally)> = rows.into_iter().collect();
    rows.sort_by(|(_, one), (_, other)| one.exact_share().total_cmp(&other.exact_share()));
    for (name, tally) in rows {
        *text += &tally.row(&name);
    }
    text.push('\n');
}

fn time_table(text: &mut String, times: &[Times]) {
    text.push_str(
        "| lines of the file | cases | lines only p50 | p99 | with the tree p50 | p99 |\n|---|---|---|---|---|---|\n",
    );
    for class in times {
        let shown = |sorted, percent| percentile(sorted, percent).map_or("-".to_owned(), |time| format!("{time:.1?}"));
        let (lines, tree) = (&class.lines_only, &class.with_tree);
        let numbers = [shown(lines, 50), shown(lines, 99), shown(tree, 50), shown(tree, 99)];
        writeln!(text, "| {} | {} | {} |", class.class, lines.len(), numbers.join(" | ")).expect("a text grows");
    }
    text.push('\n');
}

fn bars(text: &mut String, tally_of: &dyn Fn(Choice<'_>) -> Tally, times: &[Times], large: Option<&Large>) {
    text.push_str("| bar | asked | measured | |\n|---|---|---|---|\n");
    let mut add = |name: &str, asked: &str, measured: String, met: bool| {
        let met = if met { "met" } else { "**missed**" };
        writeln!(text, "| {name} | {asked} | {measured} | {met} |").expect("a text grows");
    };
    for (format, least) in [(CUT, 94.0), (SCOPED, 92.0)] {
        let tally = tally_of(&|case| case.format == format && is_to_be_answered(case) && case.place.unique);
        let (exact, name) = (tally.exact_share(), format!("{format}, where one place is named: exact"));
        add(&name, &format!(">= {least} %"), tally.exact_between_commits(), exact >= least);
    }
    let snippets: [(&str, f64, Choice<'_>); 4] = [
        ("cut as a diff, with a grammar", 0.25, &|case| case.format == CUT && has_grammar(case)),
        ("cut as a diff, without a grammar", 0.4, &|case| case.format == CUT && !has_grammar(case)),
        ("as models write, with a grammar", 0.25, &|case| case.format == SCOPED && has_grammar(case)),
        ("as models write, without a grammar", 0.4, &|case| case.format == SCOPED && !has_grammar(case)),
    ];
    for (name, most, chosen) in snippets {
        let tally = tally_of(&|case| chosen(case));
        let wrong = percent(tally.wrong + tally.panicked, tally.cases);
        let name = format!("snippets {name}: silently wrong, wherever they belong");
        add(&name, &format!("<= {most} %"), format!("{wrong:.2} % of {}", tally.cases), wrong <= most);
    }
    let lost = tally_of(&|_| true).lost;
    add("lines of a file lost that the true change keeps", "0", lost.to_string(), lost == 0);
    let refused = tally_of(&|case| matches!(case.wanted, Wanted::Refusal));
    let measured = format!("{:.2} % of {}", percent(refused.refusals(), refused.cases), refused.cases);
    add("refused where it must be", "100 %", measured, refused.refusals() == refused.cases);
    let others = tally_of(&|case| !is_snippet(case) && is_to_be_answered(case) && case.place.unique);
    let measured = format!("{:.2} % of {}", others.exact_share(), others.cases);
    add("the other formats, where one place is named: exact", "100 %", measured, others.exact == others.cases);
    let panicked = tally_of(&|_| true).panicked;
    add("panics", "0", panicked.to_string(), panicked == 0);
    let class = times.iter().find(|class| class.class.starts_with("800"));
    for (name, asked, most, percent) in [("p50", "0.3 ms", 300, 50), ("p99", "1 ms", 1000, 99)] {
        let Some(time) = class.and_then(|class| percentile(&class.lines_only, percent)) else { continue };
        let name = format!("time on files of about 1,000 lines, lines only, {name}");
        add(&name, asked, format!("{time:.1?}"), time.as_micros() <= most);
    }
    if let Some(time) = class.and_then(|class| percentile(&class.with_tree, 50)) {
        add("the same with the tree, p50", "3 ms", format!("{time:.1?}"), time.as_micros() <= 3000);
    }
    if let Some(Large { time, memory }) = large {
        let name = "time on a file of 100,000 lines, lines only, p50";
        add(name, "100 ms", format!("{time:.1?}"), time.as_millis() < 100);
        let name = "memory on it, in times of the file";
        add(name, "8", format!("{memory:.1}"), *memory <= 8.0);
    }
}

/// What the server's bars came to.
pub fn served(served: &Served) -> String {
    figures("files come again", &served.again) + &figures("no file comes twice", &served.once) + "\n"
}

fn figures(which: &str, figures: &Figures) -> String {
    let at = |percent| percentile(&figures.times, percent).unwrap_or_default();
    let (p50, p99, rate) = (at(50), at(99), figures.tokens_per_second);
    let word = |met| if met { "met" } else { "**missed**" };
    format!(
        "| over loopback HTTP with token counts, 1,000 lines, {which}, p50 (p99) of {} | 10 ms | {p50:.1?} ({p99:.1?}) | {} |\n\
         | o200k tokens of the merged files per second of that | > 1 M | {:.2} M | {} |\n",
        figures.times.len(),
        word(p50.as_millis() < 10),
        rate / 1e6,
        word(rate > 1e6),
    )
}

/// Cases in full whose result is one of those asked for: the place, the true change, the update, and what came of it.
pub fn shown<'c>(chosen: impl Iterator<Item = (&'c Case, &'c Result)>, most: usize) -> String {
    let mut text = String::new();
    for (case, result) in chosen.take(most) {
        let Case { id, origin, format, style, place, .. } = case;
        let what = format!("{} {} {}: {format}, {style}", origin.repository, origin.path, &origin.commit[..10]);
        writeln!(text, "==== case {id}, {what}, unique: {}, one side: {}", place.unique, place.anchored)
            .expect("a text grows");
        writeln!(text, "---- the update\n{}", case.update.trim_end()).expect("a text grows");
        let truth = match &case.wanted {
            Wanted::Text(truth) | Wanted::TextOrRefusal(truth) => &**truth,
            Wanted::Refusal => &*case.original,
        };
        if !matches!(case.wanted, Wanted::Refusal) {
            writeln!(text, "---- the true change\n{}", difference(&case.original, truth)).expect("a text grows");
        }
        match result {
            Result::Exact => {}
            Result::Wrong(merged) => {
                writeln!(text, "---- from the truth (-) to the result (+)\n{}", difference(truth, merged))
                    .expect("a text grows");
            }
            Result::Refused(refused) => {
                writeln!(text, "---- {refused}; lines {:?}", refused.candidates).expect("a text grows");
            }
            Result::NoChange => text.push_str("---- no change\n"),
            Result::Panicked => text.push_str("---- panicked\n"),
        }
    }
    text
}

/// A diff for people.
fn difference(old: &str, new: &str) -> String {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let (old_lines, new_lines) = (lines(old), lines(new));
    if old_lines == new_lines {
        return "line ends, byte order mark or final newline differ\n".to_owned();
    }
    let Some(change) = Change::compared(old_lines, new_lines) else { return "too much differs\n".to_owned() };
    let mut text = String::new();
    for group in change.groups(2) {
        writeln!(text, "@@ line {} @@", group.old.start + 1).expect("a text grows");
        for (sign, line) in change.diff(&group) {
            writeln!(text, "{sign}{line}").expect("a text grows");
        }
    }
    text
}
