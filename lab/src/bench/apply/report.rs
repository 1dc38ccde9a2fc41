//! The score as Markdown: by style, format and language, the bars, the times, and single cases in full.
//!
//! It does not leave anything out: exact, wrong and refused stand together. Invariant: the numbers of a row add up to
//! its cases.

use super::cases::{Case, Wanted};
use super::change::Change;
use super::large::Large;
use super::score::{Result, Times, percentile};
use super::served::{Figures, Served};
use std::collections::BTreeMap;
use std::fmt::Write;

/// What came of several cases.
#[derive(Clone, Default)]
struct Tally {
    cases: usize,
    exact: usize,
    wrong: usize,
    panicked: usize,
    refused: BTreeMap<&'static str, usize>,
}

impl Tally {
    fn add(&mut self, result: &Result) {
        self.cases += 1;
        match result {
            Result::Exact => self.exact += 1,
            Result::Wrong(_) => self.wrong += 1,
            Result::Panicked => self.panicked += 1,
            Result::Refused(refused) => *self.refused.entry(refused.code.name()).or_default() += 1,
        }
    }

    fn refusals(&self) -> usize {
        self.refused.values().sum()
    }

    fn row(&self, name: &str) -> String {
        let codes: Vec<String> = self.refused.iter().map(|(code, count)| format!("{code} {count}")).collect();
        format!(
            "| {name} | {} | {} | {} | {} | {} | {} | {} |\n",
            self.cases,
            self.exact + self.wrong,
            self.exact,
            share(self.exact, self.cases),
            self.wrong + self.panicked,
            share(self.wrong + self.panicked, self.cases),
            codes.join(", ")
        )
    }
}

fn share(part: usize, whole: usize) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.2} %", part as f64 * 100.0 / whole as f64) }
}

type Choice = fn(&Case) -> bool;

/// Groups that the bars are held against.
const TOTALS: [(&str, Choice); 6] = [
    ("all cases", |_| true),
    ("to be answered", is_to_be_answered),
    ("place is unique", |case| is_to_be_answered(case) && case.place.unique),
    ("one side is unique", |case| is_to_be_answered(case) && case.place.anchored && !case.place.unique),
    ("bare lines", |case| matches!(case.wanted, Wanted::TextOrRefusal(_))),
    ("must be refused", |case| matches!(case.wanted, Wanted::Refusal)),
];

fn is_to_be_answered(case: &Case) -> bool {
    matches!(case.wanted, Wanted::Text(_))
}

/// Formats whose unique places must all be answered.
fn is_exact_format(case: &Case) -> bool {
    is_to_be_answered(case) && case.place.unique && case.format != "lazy"
}

/// All tables.
pub fn tables(cases: &[Case], results: &[Result], times: &[Times], large: Option<&Large>) -> String {
    let mut text = String::new();
    let tally_of = |chosen: &dyn Fn(&Case) -> bool| {
        let mut tally = Tally::default();
        cases.iter().zip(results).filter(|(case, _)| chosen(case)).for_each(|(_, result)| tally.add(result));
        tally
    };
    table(&mut text, "cases", TOTALS.iter().map(|(name, chosen)| (name.to_string(), tally_of(chosen))));
    let by = |name: &dyn Fn(&Case) -> Option<String>| {
        let mut rows: BTreeMap<String, Tally> = BTreeMap::new();
        for (case, result) in cases.iter().zip(results) {
            if let Some(name) = name(case) {
                rows.entry(name).or_default().add(result);
            }
        }
        rows
    };
    let answerable = |case: &Case, name: String| is_to_be_answered(case).then_some(name);
    table(&mut text, "format", by(&|case| answerable(case, case.format.to_owned())));
    table(&mut text, "format and style", by(&|case| answerable(case, format!("{}, {}", case.format, case.style))));
    let unique = |case: &Case, name: String| (is_to_be_answered(case) && case.place.unique).then_some(name);
    table(&mut text, "style, unique places", by(&|case| unique(case, format!("{}, {}", case.format, case.style))));
    table(&mut text, "language, unique places", by(&|case| unique(case, case.origin.language.to_owned())));
    table(
        &mut text,
        "must be refused",
        by(&|case| matches!(case.wanted, Wanted::Refusal).then(|| format!("{}, {}", case.format, case.style))),
    );
    time_table(&mut text, times);
    let unique = tally_of(&TOTALS[2].1);
    let all = tally_of(&|_| true);
    let others = tally_of(&is_exact_format);
    let refused = tally_of(&TOTALS[5].1);
    bars(&mut text, &[&unique, &all, &refused, &others], times, large);
    text
}

fn table(text: &mut String, name: &str, rows: impl IntoIterator<Item = (String, Tally)>) {
    *text +=
        &format!("| {name} | cases | answered | exact | | wrong | | refused |\n|---|---|---|---|---|---|---|---|\n");
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

fn bars(text: &mut String, tallies: &[&Tally; 4], times: &[Times], large: Option<&Large>) {
    let [unique, all, refused, others] = *tallies;
    let part = |part: usize, of: &Tally| if of.cases == 0 { f64::NAN } else { part as f64 * 100.0 / of.cases as f64 };
    text.push_str("| bar | asked | measured | |\n|---|---|---|---|\n");
    let mut add = |name: &str, asked: &str, measured: String, met: bool| {
        let met = if met { "met" } else { "**missed**" };
        writeln!(text, "| {name} | {asked} | {measured} | {met} |").expect("a text grows");
    };
    let exact = part(unique.exact, unique);
    add("exact where the place is unique", ">= 94 %", format!("{exact:.2} %"), exact >= 94.0);
    let wrong = part(all.wrong + all.panicked, all);
    add("silently wrong, all cases", "<= 0.5 %", format!("{wrong:.2} %"), wrong <= 0.5);
    let right = part(refused.refusals(), refused);
    add("refused where it must be", "100 %", format!("{right:.2} %"), refused.refusals() == refused.cases);
    let exact = part(others.exact, others);
    let name = "exact in the formats other than snippets, unique";
    add(name, "100 %", format!("{exact:.2} %"), others.exact == others.cases);
    add("panics", "0", all.panicked.to_string(), all.panicked == 0);
    let class = times.iter().find(|class| class.class.starts_with("800"));
    for (name, asked, most, percent) in [("p50", "0.3 ms", 300, 50), ("p99", "1 ms", 1000, 99)] {
        let Some(time) = class.and_then(|class| percentile(&class.lines_only, percent)) else { continue };
        let name = format!("time on files of about 1,000 lines, lines only, {name}");
        add(&name, asked, format!("{time:.1?}"), time.as_micros() <= most);
    }
    if let Some(time) = class.and_then(|class| percentile(&class.with_tree, 50)) {
        add("the same with the parse check, p50", "8 ms", format!("{time:.1?}"), time.as_micros() <= 8000);
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
