//! What the engine makes of the cases.
//!
//! It does not judge by anything but bytes. Invariant: each case is counted once, as exact, wrong or refused.

use super::cases::{CUT, Case, Wanted};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokrate_apply::{Options, Outcome, Refused, merge};

/// What came of a case.
#[derive(Clone, Debug)]
pub enum Result {
    /// The wanted text.
    Exact,
    /// Another text, or any text where there should be none.
    Wrong(String),
    /// The file as it was, and said to be.
    NoChange,
    /// None, for the reason given.
    Refused(Refused),
    /// The engine panicked.
    Panicked,
}

/// What came of each case, in their order.
pub fn results(cases: &[Case]) -> Vec<Result> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let mut results: Vec<(usize, Result)> = std::thread::scope(|scope| {
        let work = || {
            let mut results = Vec::new();
            while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                results.push((case.id, result(case)));
            }
            results
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("panics of the engine are caught")).collect()
    });
    results.sort_by_key(|(id, _)| *id);
    results.into_iter().map(|(_, result)| result).collect()
}

fn options(case: &Case, without_tree: bool) -> Options {
    Options { path: Some(case.origin.path.clone()), without_tree, ..Options::default() }
}

fn result(case: &Case) -> Result {
    let options = options(case, false);
    let merged = catch_unwind(AssertUnwindSafe(|| merge(case.original.as_bytes(), case.update.as_bytes(), &options)));
    match (merged, &case.wanted) {
        (Err(_), _) => Result::Panicked,
        (Ok(Outcome::Refused(refused)), _) => Result::Refused(refused),
        (Ok(Outcome::Merged(merged)), Wanted::Text(truth) | Wanted::TextOrRefusal(truth))
            if *merged.text == **truth =>
        {
            Result::Exact
        }
        (Ok(Outcome::Merged(merged)), _) if merged.is_unchanged() => Result::NoChange,
        (Ok(Outcome::Merged(merged)), _) => Result::Wrong(merged.text),
    }
}

/// Classes of files by their lines.
pub const CLASSES: [(&str, std::ops::Range<usize>); 5] = [
    ("under 100", 0..100),
    ("100 to 399", 100..400),
    ("400 to 799", 400..800),
    ("800 to 1,199", 800..1200),
    ("1,200 and more", 1200..usize::MAX),
];

/// Times of the engine in a class of files, in order, one after the other on one thread.
pub struct Times {
    /// The class's name.
    pub class: &'static str,
    /// With the syntax tree.
    pub with_tree: Vec<Duration>,
    /// By lines alone.
    pub lines_only: Vec<Duration>,
}

/// Times of at most so many lazy cases in each class, evenly drawn.
pub fn times(cases: &[Case], most: usize) -> Vec<Times> {
    let timed = |case: &Case, without_tree: bool| {
        let options = options(case, without_tree);
        let begun = Instant::now();
        let outcome =
            catch_unwind(AssertUnwindSafe(|| merge(case.original.as_bytes(), case.update.as_bytes(), &options)));
        let taken = begun.elapsed();
        drop(outcome);
        taken
    };
    let class = |(name, lines): &(&'static str, std::ops::Range<usize>)| {
        let of_class: Vec<&Case> = cases
            .iter()
            .filter(|case| case.format == CUT && matches!(case.wanted, Wanted::Text(_)))
            .filter(|case| lines.contains(&case.original.lines().count()))
            .collect();
        let step = of_class.len().div_ceil(most).max(1);
        let chosen: Vec<&Case> = of_class.into_iter().step_by(step).collect();
        let sorted = |without_tree: bool| {
            let mut times: Vec<Duration> = chosen.iter().map(|case| timed(case, without_tree)).collect();
            times.sort();
            times
        };
        Times { class: name, with_tree: sorted(false), lines_only: sorted(true) }
    };
    CLASSES.iter().map(class).collect()
}

/// The time that so many of a hundred are not above.
pub fn percentile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    sorted.get((sorted.len() * percent / 100).min(sorted.len().checked_sub(1)?)).copied()
}
