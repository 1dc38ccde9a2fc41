//! Expressions of the command line: what is read is written so that it reads the same, and an error names a column of the text.
//!
//! It does not hold them against measurements. Invariant: the first byte of the input says which kind of expression it is.

use crate::text;
use tokrate_judge::{Assertion, Claim, ExpressionError, Meaning, Slo};

/// Panics if a property does not hold.
pub fn run(input: &[u8]) {
    let Some((&kind, bytes)) = input.split_first() else { return };
    let text = text(bytes);
    match kind % 3 {
        0 => match Slo::parse(text) {
            Ok(slo) => {
                assert!(slo.bound.is_finite() && slo.bound >= 0.0, "{slo:?}");
                assert_eq!(Slo::parse(&slo.to_string()), Ok(slo), "{text:?}");
            }
            Err(error) => is_in(text, &error),
        },
        1 => match Assertion::parse(text) {
            Ok(assertion) => assert_eq!(Assertion::parse(&assertion.to_string()), Ok(assertion), "{text:?}"),
            Err(error) => is_in(text, &error),
        },
        _ => {
            let Ok(claim) = Claim::parse(text) else { return };
            for stated in claim.speeds.iter().chain(&claim.first_tokens) {
                assert!(
                    stated.low > 0.0 && stated.low <= stated.high && stated.high.is_finite(),
                    "{text:?}: {stated:?}"
                );
                assert!(!stated.meanings().is_empty());
                for meaning in Meaning::ALL {
                    assert!(!meaning.implications(stated.high).is_empty());
                }
            }
            assert_eq!(claim.missing().count() + claim.conditions.len(), tokrate_judge::Condition::ALL.len());
        }
    }
}

fn is_in(text: &str, error: &ExpressionError) {
    assert!((1..=text.chars().count() + 1).contains(&error.column), "{error}");
    assert!(!error.message.is_empty());
}
