//! Properties that must hold in every world.
//!
//! They compute the expected measurements from the engine's emissions and the bytes that were read, independently of
//! decoder and meter. Invariant: a checker never changes what it checks, and describes every violation.

mod phase;
mod plan;
mod truth;

pub use phase::{input_of, summarize};
pub use truth::{Expected, expected};

use crate::scenarios::Scenario;
use crate::world::History;
use std::fmt::Debug;

/// All violations in a history.
pub fn check(scenario: &Scenario, history: &History) -> Vec<String> {
    let mut violations = Violations::default();
    truth::check(scenario, history, &mut violations);
    plan::check(scenario, history, &mut violations);
    phase::check(scenario, history, &mut violations);
    violations.0
}

/// Descriptions of violations.
#[derive(Default)]
struct Violations(Vec<String>);

impl Violations {
    fn expect_that(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.0.push(what());
        }
    }

    fn expect_equal<T: PartialEq + Debug>(&mut self, place: &str, what: &str, seen: T, expected: T) {
        self.expect_that(seen == expected, || format!("{place}: {what} is {seen:?}, and should be {expected:?}"));
    }
}
