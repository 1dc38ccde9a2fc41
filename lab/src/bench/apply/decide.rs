//! Fits the card that decides in the engine to cases, and says what it comes to on repositories that it was not fitted to.
//!
//! Invariant: the same cases give the same card.

use super::cases::{CUT, Case, FREE, SCOPED, Wanted};
use super::fit::{self, FOLDS, Row};
use super::report::{has_grammar, lost};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokrate_apply::{Evidence, Options, likeliest};

/// Styles that change bytes of another and nothing that is decided by.
const TWINS: [&str; 7] =
    ["BOM", "CRLF", "fenced", "words after the dots", "wrong comment sign", "mixed line ends", "no final newline"];
/// How often as much a merge counts where it may not be, and where lines are lost by it; and how much one that several places would do.
const WHERE_REFUSED: f64 = 4.0;
const WHERE_LOST: f64 = 3.0;
const WHERE_OPEN: f64 = 0.3;
/// Of the changes that are cut as a diff one in so many is fitted to: each makes up to eleven cases, and one of the other kind a few.
const CUT_ONE_IN: usize = 4;

/// The likeliest merge of a case.
struct Likeliest {
    values: Vec<i32>,
    /// The points that are enough, if any are.
    enough: Option<i32>,
    is_exact: bool,
    is_wrong: bool,
    lost: usize,
}

fn likeliest_of(case: &Case) -> Option<Likeliest> {
    let options = Options { path: Some(case.origin.path.clone()), ..Options::default() };
    let (merged, evidence) = likeliest(case.original.as_bytes(), case.update.as_bytes(), &options).ok()?;
    let evidence = evidence?;
    let (values, enough) = (evidence.values(), evidence.enough());
    let is_exact =
        matches!(&case.wanted, Wanted::Text(truth) | Wanted::TextOrRefusal(truth) if *merged.text == **truth);
    let is_wrong = !is_exact && !merged.is_unchanged();
    Some(Likeliest { values, enough, is_exact, is_wrong, lost: if is_wrong { lost(case, &merged.text) } else { 0 } })
}

fn all_of(cases: &[&Case]) -> Vec<Option<Likeliest>> {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut found: Vec<(usize, Option<Likeliest>)> = std::thread::scope(|scope| {
        let work = || {
            let mut found = Vec::new();
            while let Some((at, case)) =
                Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, cases.get(at)?)))
            {
                found.push((at, likeliest_of(case)));
            }
            found
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("the engine does not panic")).collect()
    });
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, found)| found).collect()
}

/// The points of each row by a card of the other repositories, with the number of its case.
fn judged(rows: &[Row], signs: &[i32], at: &[usize]) -> Vec<(i32, usize)> {
    let of_fold = |fold: usize| {
        let card = fit::card(rows, signs, |row| row.fold != fold);
        let of_fold = rows.iter().zip(at).filter(move |(row, _)| row.fold == fold);
        of_fold.map(|(row, at)| (fit::points(&card, &row.values), *at)).collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..FOLDS).map(|fold| scope.spawn(move || of_fold(fold))).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("fitting does not panic")).collect()
    })
}

/// What a card comes to.
pub struct Fitted {
    /// The card as source text.
    pub card: String,
    /// What the engine would answer by cards that were fitted to other repositories, as Markdown.
    pub comes: String,
    /// What is known of each case, with its points by a card that was fitted to other repositories, as lines of JSON.
    pub rows: String,
}

fn rows(cases: &[&Case], found: &[Option<Likeliest>], judged: &[(i32, usize)]) -> String {
    let points: BTreeMap<usize, i32> = judged.iter().map(|&(points, at)| (at, points)).collect();
    let mut text = String::new();
    for (at, (case, found)) in cases.iter().zip(found).enumerate() {
        let line = serde_json::json!({
            "id": case.id,
            "repository": case.origin.repository,
            "change": format!("{} {}", case.origin.commit, case.origin.path),
            "language": case.origin.language,
            "format": case.format,
            "style": case.style,
            "grammar": has_grammar(case),
            "unique": case.place.unique,
            "answer": matches!(case.wanted, Wanted::Text(_)),
            "refuse": matches!(case.wanted, Wanted::Refusal),
            "exact": found.as_ref().is_some_and(|it| it.is_exact),
            "wrong": found.as_ref().is_some_and(|it| it.is_wrong),
            "lost": found.as_ref().map_or(0, |it| it.lost),
            "enough": found.as_ref().and_then(|it| it.enough),
            "points": points.get(&at),
            "values": found.as_ref().map(|it| &it.values),
        });
        writeln!(text, "{line}").expect("a text grows");
    }
    text
}

/// The snippets that a card is fitted to: all that are shaped as models write them, and those cut as a diff of one change in so many.
fn fitted_to(cases: &[Case]) -> Vec<&Case> {
    let is_of_one =
        |one: &Case, other: &Case| one.origin.commit == other.origin.commit && one.origin.path == other.origin.path;
    let changes = cases.chunk_by(is_of_one).enumerate();
    let is_drawn = |number: usize, case: &Case| case.format != CUT || number.is_multiple_of(CUT_ONE_IN);
    let is_twin = |case: &Case| TWINS.contains(&case.style);
    let drawn = changes.flat_map(|(number, cases)| cases.iter().filter(move |case| is_drawn(number, case)));
    drawn.filter(|case| case.format.starts_with("snippet") && !is_twin(case)).collect()
}

/// A card fitted to the snippets among cases.
pub fn card(cases: &[Case], origin: &str) -> Fitted {
    let cases = fitted_to(cases);
    let found = all_of(&cases);
    let mut folds: BTreeMap<&str, usize> = BTreeMap::new();
    cases.iter().for_each(|case| _ = folds.insert(&case.origin.repository, 0));
    folds.values_mut().enumerate().for_each(|(number, fold)| *fold = number % FOLDS);
    let row = |(case, found): (&&Case, &Option<Likeliest>)| {
        let found = found.as_ref().filter(|found| found.enough.is_some())?;
        let weight = match case.wanted {
            Wanted::Refusal => WHERE_REFUSED,
            _ if case.place.unique => 1.0,
            _ => WHERE_OPEN,
        };
        let weight = weight * if found.lost > 0 { WHERE_LOST } else { 1.0 };
        Some(Row {
            values: found.values.clone(),
            is_exact: found.is_exact,
            weight,
            fold: folds[&*case.origin.repository],
        })
    };
    let (at, rows): (Vec<usize>, Vec<Row>) =
        cases.iter().zip(&found).enumerate().filter_map(|(at, it)| Some((at, row(it)?))).unzip();
    let names = Evidence::NAMES;
    let signs: Vec<i32> = names.iter().map(|name| Evidence::sign_of(name)).collect();
    let mut judged: Vec<(i32, usize)> = judged(&rows, &signs, &at);
    let known = self::rows(&cases, &found, &judged);
    judged
        .retain(|&(points, at)| found[at].as_ref().is_some_and(|it| it.enough.is_some_and(|enough| points >= enough)));
    let comes = table(&cases, &found, &judged);
    Fitted { card: fit::source(&fit::card(&rows, &signs, |_| true), names, origin), comes, rows: known }
}

/// What is answered, each case with its points, as Markdown. Wrong answers come in changes, each in several styles, so that changes are counted.
fn table(cases: &[&Case], found: &[Option<Likeliest>], answered: &[(i32, usize)]) -> String {
    let mut text = String::from(
        "| on repositories that the card was not fitted to | cases | one place named | exact | wrong | of changes | 95 % sure: at most | lines lost |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for (name, format, grammar) in [
        ("cut as a diff, with a grammar", CUT, true),
        ("cut as a diff, without", CUT, false),
        ("as models write, with a grammar", SCOPED, true),
        ("as models write, without", SCOPED, false),
        ("written freely, with a grammar", FREE, true),
        ("written freely, without", FREE, false),
    ] {
        let is_in = |case: &Case| case.format == format && has_grammar(case) == grammar;
        let is_unique = |case: &Case| matches!(case.wanted, Wanted::Text(_)) && case.place.unique;
        let of_these = answered.iter().map(|it| it.1).filter(|&at| is_in(cases[at]));
        let of_these: Vec<(&Case, &Likeliest)> =
            of_these.filter_map(|at| Some((cases[at], found[at].as_ref()?))).collect();
        let exact = of_these.iter().filter(|(case, it)| is_unique(case) && it.is_exact).count();
        let wrong: Vec<_> = of_these.iter().filter(|(_, it)| it.is_wrong).collect();
        let changes: BTreeSet<(&str, &str)> =
            wrong.iter().map(|(case, _)| (&*case.origin.commit, &*case.origin.path)).collect();
        let lost: usize = wrong.iter().map(|(_, it)| it.lost).sum();
        let all = cases.iter().filter(|case| is_in(case)).count().max(1);
        let unique = cases.iter().filter(|case| is_in(case) && is_unique(case)).count();
        let share = |count: f64, of: usize| 100.0 * count / of.max(1) as f64;
        let most = most_expected(changes.len()) * (wrong.len().max(1) as f64 / changes.len().max(1) as f64);
        writeln!(
            text,
            "| {name} | {all} | {unique} | {:.2} % | {} ({:.2} %) | {} | {:.2} % | {lost} |",
            share(exact as f64, unique),
            wrong.len(),
            share(wrong.len() as f64, all),
            changes.len(),
            share(most, all),
        )
        .expect("a text grows");
    }
    let refused = answered.iter().filter(|it| matches!(cases[it.1].wanted, Wanted::Refusal)).count();
    writeln!(text, "answered where it must refuse: {refused}").expect("a text grows");
    text
}

/// The least number of which as few as were seen, or fewer, come up once in twenty times, if that many are to be expected (Poisson).
fn most_expected(seen: usize) -> f64 {
    let chance = |expected: f64| {
        let mut term = (-expected).exp();
        let mut sum = term;
        for number in 1..=seen {
            term *= expected / number as f64;
            sum += term;
        }
        sum
    };
    let (mut low, mut high) = (0.0, 10.0 + 3.0 * seen as f64);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        *(if chance(middle) > 0.05 { &mut low } else { &mut high }) = middle;
    }
    high
}

#[cfg(test)]
mod tests {
    use super::most_expected;

    #[test]
    fn the_bound_is_that_of_a_table() {
        for (seen, most) in [(0, 2.996), (1, 4.744), (5, 10.513), (20, 29.062)] {
            assert!((most_expected(seen) - most).abs() < 0.001, "{seen}: {}", most_expected(seen));
        }
    }
}
