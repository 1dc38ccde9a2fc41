//! How many of a draft's tokens a step keeps.

use crate::args::Speculation;
use tokrate_core::Rng;

/// Tokens that one request gets of a step: one of the model's own, and the proposed ones up to the first that is rejected.
/// The mean is (1 - α^(γ+1))/(1 - α) with γ proposed and a chance α each (Leviathan et al. 2023, arXiv 2211.17192).
pub(crate) fn accepted(speculation: Option<Speculation>, rng: &mut Rng) -> u32 {
    let Some(speculation) = speculation else { return 1 };
    let mut tokens = 1;
    while tokens <= speculation.draft_tokens && rng.chance(speculation.acceptance) {
        tokens += 1;
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_that_of_the_formula() {
        let mut rng = Rng::root(7);
        for (draft_tokens, acceptance) in [(1, 0.5), (4, 0.8), (8, 0.95), (3, 0.0), (3, 1.0)] {
            let speculation = Some(Speculation { draft_tokens, acceptance });
            let steps = 200_000;
            let tokens: u64 = (0..steps).map(|_| u64::from(accepted(speculation, &mut rng))).sum();
            let expected: f64 = (0..=draft_tokens).map(|power| acceptance.powi(power as i32)).sum();
            let mean = tokens as f64 / f64::from(steps);
            assert!((mean / expected - 1.0).abs() < 0.01, "{draft_tokens}, {acceptance}: {mean} for {expected}");
        }
        assert_eq!(accepted(None, &mut rng), 1);
    }
}
