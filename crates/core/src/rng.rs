//! Reproducible random numbers: a root seed and named child generators.
//!
//! Invariant: the same seed and names give the same numbers on every platform and in every version; the tests below pin
//! them.

use crate::Span;

/// A pseudo-random generator: xoshiro256++ by Blackman and Vigna (2019), seeded through splitmix64.
#[derive(Clone, Debug)]
pub struct Rng {
    seed: u64,
    state: [u64; 4],
}

impl Rng {
    /// The root generator of a seed.
    pub fn root(seed: u64) -> Rng {
        let mut mixer = seed;
        Rng { seed, state: std::array::from_fn(|_| splitmix64(&mut mixer)) }
    }

    /// A child generator for one purpose. It depends only on the seed of this generator and the name, not on how many
    /// numbers were drawn.
    pub fn child(&self, name: &str) -> Rng {
        let mut hash = self.seed ^ 0xcbf2_9ce4_8422_2325;
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Rng::root(splitmix64(&mut hash))
    }

    /// A child generator for the `index`-th item of a kind.
    pub fn nth(&self, index: u64) -> Rng {
        let mut mixer = self.seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17);
        Rng::root(splitmix64(&mut mixer))
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let [s0, s1, s2, s3] = self.state;
        let result = s0.wrapping_add(s3).rotate_left(23).wrapping_add(s0);
        let mut next = [s0, s1, s2 ^ s0, s3 ^ s1];
        next[1] ^= next[2];
        next[0] ^= next[3];
        next[2] ^= s1 << 17;
        next[3] = next[3].rotate_left(45);
        self.state = next;
        result
    }

    /// A whole number in `0..bound`, without bias (Lemire 2019); 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            if product as u64 >= threshold {
                return (product >> 64) as u64;
            }
        }
    }

    /// A number in `[0, 1)` with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with the given probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// An exponentially distributed span: the gap of a Poisson process of that mean gap.
    pub fn exponential(&mut self, mean: Span) -> Span {
        Span::from_nanos((-(1.0 - self.unit()).ln() * mean.as_nanos() as f64).round() as u64)
    }

    /// A log-normally distributed factor of mean 1 and the given coefficient of variation.
    pub fn log_normal(&mut self, variation: f64) -> f64 {
        let variance = (variation * variation).ln_1p();
        (variance.sqrt() * self.normal() - variance / 2.0).exp()
    }

    /// A gamma-distributed number of that shape and scale 1, so of mean `shape` (Marsaglia and Tsang, "A simple method for
    /// generating gamma variables", ACM TOMS 26(3), 2000; below shape 1 by their boost of a draw of shape + 1). 0 for a
    /// shape that is not positive.
    pub fn gamma(&mut self, shape: f64) -> f64 {
        if shape.is_nan() || shape <= 0.0 {
            return 0.0;
        }
        if shape < 1.0 {
            let boosted = self.gamma(shape + 1.0);
            return boosted * (1.0 - self.unit()).powf(1.0 / shape);
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let normal = self.normal();
            let cube = (1.0 + c * normal).powi(3);
            if cube <= 0.0 {
                continue;
            }
            let uniform = 1.0 - self.unit();
            if uniform.ln() < 0.5 * normal * normal + d - d * cube + d * cube.ln() {
                return d * cube;
            }
        }
    }

    /// A normally distributed number, mean 0 and standard deviation 1 (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix_gives_the_published_sequence() {
        // The first outputs for seed 1234567 that the algorithm's reference publishes.
        let mut state = 1_234_567;
        let drawn: Vec<u64> = (0..3).map(|_| splitmix64(&mut state)).collect();
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn child_generators_depend_on_the_name_and_not_on_draws() {
        let mut root = Rng::root(7);
        let before = root.child("arrivals").next_u64();
        root.next_u64();
        assert_eq!(root.child("arrivals").next_u64(), before);
        assert_ne!(root.child("prompts").next_u64(), before);
        assert_ne!(root.nth(0).next_u64(), root.nth(1).next_u64());
    }

    #[test]
    fn draws_have_the_expected_moments() {
        let mut rng = Rng::root(42);
        let n = 200_000;
        let mean = Span::from_millis(10);
        let exponential: f64 = (0..n).map(|_| rng.exponential(mean).as_millis_f64()).sum::<f64>() / f64::from(n);
        assert!((exponential - 10.0).abs() < 0.1, "{exponential}");
        let normals: Vec<f64> = (0..n).map(|_| rng.normal()).collect();
        let average = normals.iter().sum::<f64>() / f64::from(n);
        let variance = normals.iter().map(|x| (x - average).powi(2)).sum::<f64>() / f64::from(n);
        assert!(average.abs() < 0.01 && (variance - 1.0).abs() < 0.02, "{average} {variance}");
        assert!((0..1000).all(|_| rng.below(7) < 7));
        assert_eq!(rng.below(0), 0);
    }

    #[test]
    fn gamma_has_mean_and_variance_of_its_shape() {
        for (number, shape) in [0.1, 0.25, 0.5, 1.0, 2.0, 7.5, 100.0].into_iter().enumerate() {
            let mut rng = Rng::root(9).nth(number as u64);
            let n = 100_000;
            let draws: Vec<f64> = (0..n).map(|_| rng.gamma(shape)).collect();
            let mean = draws.iter().sum::<f64>() / f64::from(n);
            let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / f64::from(n);
            // Five standard errors: of the mean sqrt(shape / n), of the variance about shape * sqrt((2 + 6 / shape) / n).
            let mean_error = 5.0 * (shape / f64::from(n)).sqrt();
            let variance_error = 5.0 * shape * ((2.0 + 6.0 / shape) / f64::from(n)).sqrt();
            assert!((mean - shape).abs() < mean_error, "shape {shape}: mean {mean}");
            assert!((variance - shape).abs() < variance_error, "shape {shape}: variance {variance}");
        }
        assert_eq!(Rng::root(1).gamma(0.0), 0.0);
        assert_eq!(Rng::root(1).gamma(f64::NAN), 0.0);
    }
}
