//! Order statistics that bound a quantile, by the exact binomial distribution.
//!
//! Invariant: there is no normal approximation; the probability that a bound misses is at most the requested one, whatever
//! the distribution of the (independent) samples.
//!
//! Of n independent samples the number at or below the q-quantile is B ~ Binomial(n, q) for a continuous distribution. The
//! r-th smallest sample is above the quantile unless B >= r, and below it unless B < r. Ties only make the bounds more
//! conservative (David and Nagaraja, Order Statistics, section 7.1).

/// Natural logarithm of the gamma function for `x` > 0: Stirling's series with the first seven terms after shifting
/// `x` above 15; absolute error below 1e-13 for x < 100, relative error below 1e-15 beyond.
pub fn ln_gamma(x: f64) -> f64 {
    let (mut shifted, mut product) = (x, 1.0);
    while shifted < 15.0 {
        product *= shifted;
        shifted += 1.0;
    }
    let inverse = 1.0 / shifted;
    let square = inverse * inverse;
    let terms = [1.0 / 156.0, -691.0 / 360_360.0, 1.0 / 1188.0, -1.0 / 1680.0, 1.0 / 1260.0, -1.0 / 360.0, 1.0 / 12.0];
    let series = terms.iter().fold(0.0, |sum, term| sum * square + term) * inverse;
    (shifted - 0.5) * shifted.ln() - shifted + 0.5 * std::f64::consts::TAU.ln() + series - product.ln()
}

/// The largest rank r (1 = smallest sample) such that the r-th smallest of `n` samples is at or below the
/// `q`-quantile with probability at least 1 - `alpha`; `None` when no sample is.
pub fn lower_rank(n: u64, q: f64, alpha: f64) -> Option<u64> {
    // Missed when B < r, that is B <= r - 1: the largest r with P(B <= r - 1) <= alpha.
    let rank = count_within(n, q, alpha);
    (rank > 0).then_some(rank)
}

/// The smallest rank r (n = largest sample) such that the r-th smallest of `n` samples is at or above the
/// `q`-quantile with probability at least 1 - `alpha`; `None` when no sample is.
pub fn upper_rank(n: u64, q: f64, alpha: f64) -> Option<u64> {
    // Missed when B >= r, that is n - B <= n - r; n - B ~ Binomial(n, 1 - q).
    let spare = count_within(n, 1.0 - q, alpha);
    (spare > 0).then(|| n - spare + 1)
}

/// The smallest n at which the `spare + 1`-th largest sample is an upper bound of the `q`-quantile with probability
/// at least 1 - `alpha`: the smallest n with P(Binomial(n, 1 - q) <= spare) <= alpha. `None` for a `q` or `alpha`
/// outside the open interval from 0 to 1.
pub fn smallest_sample(q: f64, alpha: f64, spare: u64) -> Option<u64> {
    if !(q > 0.0 && q < 1.0 && alpha > 0.0 && alpha < 1.0) {
        return None;
    }
    let enough = |n: u64| n > spare && count_within(n, 1.0 - q, alpha) > spare;
    let mut high = spare + 1;
    while !enough(high) {
        high = high.checked_mul(2)?;
    }
    let mut low = high / 2;
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if enough(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

/// The number of smallest outcomes 0, 1, 2, ... of Binomial(n, p) whose total probability is at most `alpha`.
fn count_within(n: u64, p: f64, alpha: f64) -> u64 {
    if n == 0 || !(p > 0.0 && p < 1.0) {
        return 0;
    }
    let size = n as f64;
    let deviation = (size * p * (1.0 - p)).sqrt();
    // Below this the lower tail weighs less than 1e-30 (Chernoff), so the sum may start here.
    let first = (size * p - 12.0 * deviation - 12.0).floor().max(0.0);
    let mut outcome = first;
    let mut mass = (ln_gamma(size + 1.0) - ln_gamma(outcome + 1.0) - ln_gamma(size - outcome + 1.0)
        + outcome * p.ln()
        + (size - outcome) * (-p).ln_1p())
    .exp();
    let odds = p / (1.0 - p);
    let mut sum = mass;
    while sum <= alpha && outcome < size {
        mass *= (size - outcome) / (outcome + 1.0) * odds;
        outcome += 1.0;
        sum += mass;
    }
    outcome as u64
}
