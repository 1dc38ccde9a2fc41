//! What must hold in every world.
//!
//! It refuses to know how anything was measured: it works out from the engine's emissions and the bytes that were read what
//! the numbers have to be. Invariant: a checker never changes what it checks, and says every violation in words.

mod phase;
mod plan;
mod truth;

pub use phase::{input_of, sum_up};
pub use truth::{Expected, expected};

use crate::scenarios::Scenario;
use crate::world::History;
use std::fmt::Debug;

/// All that is wrong with a history; nothing, as a rule.
pub fn check(scenario: &Scenario, history: &History) -> Vec<String> {
    let mut wrong = Violations::default();
    truth::check(scenario, history, &mut wrong);
    plan::check(scenario, history, &mut wrong);
    phase::check(scenario, history, &mut wrong);
    wrong.0
}

/// Violations in words.
#[derive(Default)]
struct Violations(Vec<String>);

impl Violations {
    fn demand(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.0.push(what());
        }
    }

    fn equal<T: PartialEq + Debug>(&mut self, place: &str, what: &str, seen: T, expected: T) {
        self.demand(seen == expected, || format!("{place}: {what} is {seen:?}, and should be {expected:?}"));
    }
}
