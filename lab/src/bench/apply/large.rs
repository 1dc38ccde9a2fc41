//! One large file: how long a snippet takes to merge into a hundred thousand lines, and what memory it takes.
//!
//! It does not count what other threads allocate: nothing else runs meanwhile. Invariant: the file and the snippets are
//! the same in every run.

use std::fmt::Write;
use std::time::{Duration, Instant};
use tokrate_apply::{Options, Outcome, merge};

/// Lines of the file.
const LINES: usize = 100_000;
/// Lines of a function in it.
const FUNCTION: usize = 10;
/// Merges that are timed.
const RUNS: usize = 15;

/// What a merge into the large file takes.
pub struct Large {
    /// The middle of the times.
    pub time: Duration,
    /// The most memory held at once beyond the two texts that come in, in times of the file's bytes.
    pub memory: f64,
}

/// Merges a snippet for one function into a file of ten thousand, by lines alone.
pub fn measured() -> Option<Large> {
    let mut file = String::new();
    for number in 0..LINES / FUNCTION {
        function(&mut file, number, ">");
    }
    let mut snippet = String::from("// ... existing code ...\n");
    function(&mut snippet, LINES / FUNCTION / 2, ">=");
    snippet.push_str("// ... existing code ...\n");
    let options = Options { path: Some("large.rs".to_owned()), without_tree: true, ..Options::default() };
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let begun = Instant::now();
        let outcome = merge(file.as_bytes(), snippet.as_bytes(), &options);
        times.push(begun.elapsed());
        let Outcome::Merged(_) = outcome else { return None };
    }
    times.sort();
    let (_, peak) = crate::memory::peak_of(|| merge(file.as_bytes(), snippet.as_bytes(), &options));
    Some(Large { time: times[RUNS / 2], memory: peak as f64 / file.len() as f64 })
}

fn function(text: &mut String, number: usize, sign: &str) {
    writeln!(text, "/// Adds up the parts of kind {number}.\nfn sum_{number}(parts: &[u64]) -> u64 {{")
        .expect("a text grows");
    writeln!(text, "    let mut count = 0;\n    for part in parts {{").expect("a text grows");
    writeln!(text, "        if *part {sign} {number} {{\n            count += part;\n        }}")
        .expect("a text grows");
    writeln!(text, "    }}\n    count\n}}").expect("a text grows");
}
