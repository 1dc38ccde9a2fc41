//! Fits the card that decides in the engine to cases, and says what it comes to on repositories that it was not fitted to.
//!
//! Invariant: the same cases give the same card.

use super::cases::{CUT, Case, Wanted};
use super::fit::{self, FOLDS, Row};
use super::report::{has_grammar, lost};
use std::collections::BTreeMap;
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

/// The likeliest merge of a case.
struct Likeliest {
    values: Vec<i32>,
    /// The points that are enough.
    enough: i32,
    is_exact: bool,
    is_wrong: bool,
    lost: usize,
}

fn likeliest_of(case: &Case) -> Option<Likeliest> {
    let options = Options { path: Some(case.origin.path.clone()), ..Options::default() };
    let (merged, evidence) = likeliest(case.original.as_bytes(), case.update.as_bytes(), &options).ok()?;
    let evidence = evidence?;
    let (values, enough) = (evidence.values(), evidence.enough()?);
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

/// A card fitted to the snippets among cases, as source text; and what the engine would answer by cards that were fitted to the others.
pub fn card(cases: &[Case], origin: &str) -> (String, String) {
    let is_one = |case: &&Case| case.format.starts_with("snippet") && !TWINS.contains(&case.style);
    let cases: Vec<&Case> = cases.iter().filter(is_one).collect();
    let found = all_of(&cases);
    let mut folds: BTreeMap<&str, usize> = BTreeMap::new();
    cases.iter().for_each(|case| _ = folds.insert(&case.origin.repository, 0));
    folds.values_mut().enumerate().for_each(|(number, fold)| *fold = number % FOLDS);
    let row = |(case, found): (&&Case, &Option<Likeliest>)| {
        let found = found.as_ref()?;
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
    let is_wrong = |at: usize| found[at].as_ref().is_some_and(|it| it.is_wrong);
    judged.retain(|&(points, at)| found[at].as_ref().is_some_and(|it| points >= it.enough));
    let mut text = String::from(
        "| on repositories that the card was not fitted to | cases | one place named | exact | wrong | lost |\n",
    );
    for (name, is_cut, grammar) in [
        ("cut as a diff, with a grammar", true, true),
        ("cut as a diff, without", true, false),
        ("as models write, with a grammar", false, true),
        ("as models write, without", false, false),
    ] {
        let is_in = |case: &Case| (case.format == CUT) == is_cut && has_grammar(case) == grammar;
        let is_unique = |case: &Case| matches!(case.wanted, Wanted::Text(_)) && case.place.unique;
        let answered = || judged.iter().filter(|it| is_in(cases[it.1])).map(|it| it.1);
        let exact =
            answered().filter(|&at| is_unique(cases[at]) && found[at].as_ref().is_some_and(|it| it.is_exact)).count();
        let wrong = answered().filter(|&at| is_wrong(at)).count();
        let lost: usize = answered().filter_map(|at| found[at].as_ref()).map(|it| it.lost).sum();
        let all = cases.iter().filter(|case| is_in(case)).count();
        let unique = cases.iter().filter(|case| is_in(case) && is_unique(case)).count();
        writeln!(
            text,
            "| {name} | {all} | {unique} | {exact} ({:.2} %) | {wrong} ({:.2} %) | {lost} |",
            100.0 * exact as f64 / unique.max(1) as f64,
            100.0 * wrong as f64 / all.max(1) as f64
        )
        .expect("a text grows");
    }
    let refused = judged.iter().filter(|it| matches!(cases[it.1].wanted, Wanted::Refusal)).count();
    writeln!(text, "answered where it must refuse: {refused}").expect("a text grows");
    (fit::source(&fit::card(&rows, &signs, |_| true), names, origin), text)
}
