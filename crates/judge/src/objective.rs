//! Objectives as they are typed: of each request, or of a percentile of many, which is a share of the requests that keep one.
//!
//! Invariant: whatever form an assertion takes for a percentile of a metric, an objective takes too.

use crate::assertion::Assertion;
use crate::expression::ExpressionError;
use crate::slo::Slo;

/// An objective, and of how many of the requests.
#[derive(Clone, PartialEq, Debug)]
pub struct Objective {
    /// What a request keeps.
    pub slo: Slo,
    /// The percentile that was typed: the share of the requests that has to keep it, and the same as an assertion.
    pub percentile: Option<(f64, Assertion)>,
}

impl Objective {
    /// Parses one objective, or several as pairs: the forms of [`Slo::parse_all`], and the percentiles of [`Assertion::parse_all`], such
    /// as `p95(ttft)<400ms`.
    ///
    /// # Errors
    /// As [`Slo::parse`].
    pub fn parse_all(text: &str) -> Result<Vec<Objective>, ExpressionError> {
        let error = match Slo::parse_all(text) {
            Ok(slos) => return Ok(slos.into_iter().map(|slo| Objective { slo, percentile: None }).collect()),
            Err(error) => error,
        };
        let Ok(assertions) = Assertion::parse_all(text) else { return Err(error) };
        assertions.into_iter().map(Objective::of_assertion).collect::<Option<Vec<Objective>>>().ok_or(error)
    }

    /// The same of each request, where that can be said.
    fn of_assertion(assertion: Assertion) -> Option<Objective> {
        let (metric, share, relation, bound) = assertion.of_requests()?;
        Some(Objective { slo: Slo { metric, relation, bound }, percentile: share.map(|share| (share, assertion)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, Option<(f64, String)>)> {
        let read = Objective::parse_all(text).unwrap_or_else(|error| panic!("{error}"));
        let shown = read
            .into_iter()
            .map(|it| (it.slo.to_string(), it.percentile.map(|(share, assertion)| (share, assertion.to_string()))));
        shown.collect()
    }

    #[test]
    fn a_percentile_is_an_objective_of_that_share_in_every_form() {
        let p95 = |relation: &str| {
            let assertion = format!("ttft_ms.p95 {relation} 400");
            vec![(format!("ttft_ms {relation} 400"), Some((0.95, assertion)))]
        };
        for text in ["ttft_p95<400ms", "p95(ttft)<400ms", "ttft_ms.p95<400", "p95_ttft_ms<400"] {
            assert_eq!(read(text), p95("<"), "{text}");
        }
        assert_eq!(read("p95_ttft_ms:400"), p95("<="));
        assert_eq!(read("p99_ttft_ms:400")[0].1.as_ref().map(|it| it.0), Some(0.99));
        assert_eq!(read("ttft.median<10ms"), [("ttft_ms < 10".to_owned(), Some((0.5, "ttft_ms.p50 < 10".to_owned())))]);
        assert_eq!(read("output_speed.p50>30")[0].1.as_ref().map(|it| it.1.as_str()), Some("output_speed.median > 30"));
        assert_eq!(read("ttft<400ms"), [("ttft_ms < 400".to_owned(), None)]);
        let mixed = read("ttft:400 p95_tpot_ms:50");
        assert_eq!(mixed[0], ("ttft_ms <= 400".to_owned(), None));
        assert_eq!(mixed[1].1.as_ref().map(|it| it.0), Some(0.95));
        for bad in [
            "mean_ttft<400ms",
            "ttft_p95>400ms",
            "failures.share<1%",
            "ttft_p95<400ms @ concurrency 4",
            "p95(tftf)<4ms",
        ] {
            assert!(Objective::parse_all(bad).is_err(), "{bad}");
        }
    }
}
