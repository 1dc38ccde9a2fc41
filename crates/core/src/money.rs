//! Exact amounts of money, and what models charge.
//!
//! The unit is the pico-dollar (10^-12 USD): a price of 0.000001 USD per million tokens is one pico-dollar per token, so
//! that what a price list says of any number of tokens is exact. A micro-dollar would be too coarse for one token of a small model (0.05 micro-dollars).
//! 128 bits hold more than 10^26 USD. Invariant: sums and products saturate; they never wrap or become negative.

use std::fmt;

/// An amount of US dollars, in whole pico-dollars.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Money(u128);

/// Pico-dollars in a dollar.
const PER_USD: f64 = 1e12;
/// Prices are given per million tokens.
const MILLION: u128 = 1_000_000;
/// The largest accepted amount (USD): beyond any budget, and far enough from overflow that sums of a few stay exact.
const MAX_USD: f64 = 1e15;

impl Money {
    /// Zero.
    pub const ZERO: Money = Money(0);
    /// The largest amount, the result of a saturated sum.
    pub const MAX: Money = Money(u128::MAX);

    /// An amount in pico-dollars.
    pub const fn from_pico_usd(pico_usd: u128) -> Money {
        Money(pico_usd)
    }

    /// The nearest amount, at least one unit for a positive one; `None` unless it is a number from 0 to 10^15.
    pub fn from_usd(usd: f64) -> Option<Money> {
        if !(0.0..=MAX_USD).contains(&usd) {
            return None;
        }
        let nearest = (usd * PER_USD).round() as u128;
        Some(Money(if usd > 0.0 { nearest.max(1) } else { nearest }))
    }

    /// The amount in dollars.
    pub fn as_usd(self) -> f64 {
        self.0 as f64 / PER_USD
    }

    /// The amount in pico-dollars.
    pub fn as_pico_usd(self) -> u128 {
        self.0
    }

    /// The sum.
    #[must_use]
    pub fn saturating_add(self, other: Money) -> Money {
        Money(self.0.saturating_add(other.0))
    }

    /// The difference, at least zero.
    #[must_use]
    pub fn saturating_sub(self, other: Money) -> Money {
        Money(self.0.saturating_sub(other.0))
    }

    /// The product.
    #[must_use]
    pub fn saturating_mul(self, factor: u64) -> Money {
        Money(self.0.saturating_mul(u128::from(factor)))
    }
}

impl fmt::Display for Money {
    /// Dollars and cents; below one dollar, four significant digits.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usd = self.as_usd();
        if self.0 == 0 || usd >= 1.0 {
            return write!(formatter, "{usd:.2}");
        }
        let decimals = (3 - usd.log10().floor() as i32).clamp(2, 12) as usize;
        let text = format!("{usd:.decimals$}");
        formatter.write_str(text.trim_end_matches('0'))
    }
}

/// What a model charges, each field for a million tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Price {
    /// Prompt tokens.
    pub input: Money,
    /// Output tokens, reasoning included.
    pub output: Money,
    /// Prompt tokens read from a cache; as `input` if nothing else is known.
    pub cached_input: Option<Money>,
    /// Prompt tokens written to a cache; as `input` if nothing else is known.
    pub cache_write: Option<Money>,
    /// Tokens of sound in the prompt, read from no cache; without it what has some cannot be priced by its tokens.
    pub audio_input: Option<Money>,
    /// Tokens of sound in the prompt that were read from a cache; as `audio_input` if nothing else is known.
    pub audio_cached: Option<Money>,
    /// Tokens of sound in the answer; without it what has some cannot be priced by its tokens.
    pub audio_output: Option<Money>,
}

/// Tokens of sound among billed ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AudioTokens {
    /// In the prompt, `cached_input` included.
    pub input: u64,
    /// In the prompt and read from a cache.
    pub cached_input: u64,
    /// In the answer.
    pub output: u64,
}

impl AudioTokens {
    /// These and others.
    #[must_use]
    pub fn saturating_add(self, other: AudioTokens) -> AudioTokens {
        AudioTokens {
            input: self.input.saturating_add(other.input),
            cached_input: self.cached_input.saturating_add(other.cached_input),
            output: self.output.saturating_add(other.output),
        }
    }
}

/// Billed token counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BilledTokens {
    /// Prompt tokens, the next two fields included.
    pub input: u64,
    /// Cached tokens, part of `input`.
    pub cached_input: u64,
    /// Tokens written to a cache, part of `input`.
    pub cache_write: u64,
    /// Output tokens.
    pub output: u64,
}

impl Price {
    /// The price, given those of a million tokens (USD); `None` unless both are numbers from 0 to 10^15.
    pub fn from_usd_per_million(input: f64, output: f64) -> Option<Price> {
        Some(Price { input: Money::from_usd(input)?, output: Money::from_usd(output)?, ..Price::default() })
    }

    /// Cost of these tokens, rounded up to a whole unit once, so that no token of a positive price is free. Inconsistent
    /// counts are resolved against the input: what is written to a cache counts first, then what is read from it.
    pub fn cost(&self, tokens: BilledTokens) -> Money {
        let written = tokens.cache_write.min(tokens.input);
        let cached = tokens.cached_input.min(tokens.input - written);
        let uncached = tokens.input - written - cached;
        let (cached_input, cache_write) = (self.cached_input(), self.cache_write());
        sum(&[(self.input, uncached), (cached_input, cached), (cache_write, written), (self.output, tokens.output)])
    }

    /// Cost of tokens with sound among them, rounded as [`Price::cost`] is; `None` where a price of sound is wanted and not known.
    pub fn cost_with_audio(&self, tokens: BilledTokens, audio: AudioTokens) -> Option<Money> {
        let written = tokens.cache_write.min(tokens.input);
        let cached = tokens.cached_input.min(tokens.input - written);
        let uncached = tokens.input - written - cached;
        let audio_cached = audio.cached_input.min(audio.input).min(cached);
        let audio_input = (audio.input - audio.cached_input.min(audio.input)).min(uncached);
        let audio_output = audio.output.min(tokens.output);
        let price_of = |count: u64, price: Option<Money>| if count == 0 { Some(Money::ZERO) } else { price };
        Some(sum(&[
            (self.input, uncached - audio_input),
            (self.cached_input(), cached - audio_cached),
            (self.cache_write(), written),
            (self.output, tokens.output - audio_output),
            (price_of(audio_input, self.audio_input)?, audio_input),
            (price_of(audio_cached, self.audio_cached.or(self.audio_input))?, audio_cached),
            (price_of(audio_output, self.audio_output)?, audio_output),
        ]))
    }

    /// Highest cost of these tokens, if sound may be among them.
    pub fn cost_at_most_with_audio(&self, input: u64, output: u64) -> Money {
        let or_zero = |price: Option<Money>| price.unwrap_or_default();
        let input_price = self.input.max(or_zero(self.audio_input)).max(or_zero(self.audio_cached));
        let dearest = Price { input: input_price, output: self.output.max(or_zero(self.audio_output)), ..*self };
        dearest.cost_at_most(input, output)
    }

    /// Highest cost of these tokens, whatever the provider caches.
    pub fn cost_at_most(&self, input: u64, output: u64) -> Money {
        let highest_input = self.input.max(self.cached_input()).max(self.cache_write());
        sum(&[(highest_input, input), (self.output, output)])
    }

    fn cached_input(&self) -> Money {
        self.cached_input.unwrap_or(self.input)
    }

    fn cache_write(&self) -> Money {
        self.cache_write.unwrap_or(self.input)
    }
}

/// What tokens cost together, each kind at its price of a million.
fn sum(parts: &[(Money, u64)]) -> Money {
    let cost = |(price, tokens): &(Money, u64)| price.0.checked_mul(u128::from(*tokens));
    let total = parts.iter().try_fold(0_u128, |total, part| total.checked_add(cost(part)?));
    total.map_or(Money::MAX, |total| Money(total.div_ceil(MILLION)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(input: f64, output: f64, cached: f64, written: f64) -> Price {
        let [cached_input, cache_write] = [cached, written].map(Money::from_usd);
        Price { cached_input, cache_write, ..Price::from_usd_per_million(input, output).expect("a price") }
    }

    fn input(tokens: u64) -> BilledTokens {
        BilledTokens { input: tokens, ..BilledTokens::default() }
    }

    #[test]
    fn list_prices_are_exact() {
        for (usd_per_million, pico) in [(0.0, 0), (0.005, 5_000), (0.05, 50_000), (0.0375, 37_500), (75.0, 75_000_000)]
        {
            let price = Price::from_usd_per_million(usd_per_million, 1.0).expect("a price");
            assert_eq!(price.cost(input(1)), Money(pico), "{usd_per_million}");
        }
        let little = Price::from_usd_per_million(1e-9, 0.0).expect("a price");
        assert_eq!(little.cost(input(1)), Money(1), "little is not nothing");
        assert_eq!(little.cost(input(10_000)), Money(10), "and is rounded once");
        assert_eq!(Money::from_usd(0.001), Some(Money(1_000_000_000)));
        assert_eq!(Money::from_usd(100.0).map(Money::as_usd), Some(100.0));
        for bad in [-1.0, -1e-30, f64::NAN, f64::INFINITY, 1e16] {
            assert_eq!((Money::from_usd(bad), Price::from_usd_per_million(1.0, bad)), (None, None), "{bad}");
        }
    }

    #[test]
    fn cached_tokens_and_cache_writes_have_their_own_prices() {
        let price = price(3.0, 15.0, 0.3, 3.75);
        let tokens = BilledTokens { input: 1_000, cached_input: 600, cache_write: 300, output: 10 };
        assert_eq!(price.cost(tokens), Money(100 * 3_000_000 + 600 * 300_000 + 300 * 3_750_000 + 10 * 15_000_000));
        let odd = BilledTokens { input: 10, cached_input: 20, cache_write: 4, output: 0 };
        assert_eq!(price.cost(odd), Money(4 * 3_750_000 + 6 * 300_000));
        assert_eq!(price.cost_at_most(10, 1), Money(10 * 3_750_000 + 15_000_000));
        for tokens in [tokens, odd] {
            assert!(price.cost(tokens) <= price.cost_at_most(tokens.input, tokens.output));
        }
        let unknown = Price { cached_input: None, cache_write: None, ..price };
        assert_eq!(unknown.cost(tokens), Money(1_000 * 3_000_000 + 10 * 15_000_000), "as any other input");
    }

    #[test]
    fn tokens_of_sound_have_their_own_prices_or_none() {
        let [audio_input, audio_cached, audio_output] = [32.0, 0.4, 64.0].map(Money::from_usd);
        let text = price(4.0, 16.0, 0.4, 4.0);
        let spoken = Price { audio_input, audio_cached, audio_output, ..text };
        let tokens = BilledTokens { input: 100, cached_input: 40, output: 50, cache_write: 0 };
        let audio = AudioTokens { input: 70, cached_input: 20, output: 45 };
        let usd = 10.0 * 4.0 + 20.0 * 0.4 + 50.0 * 32.0 + 20.0 * 0.4 + 5.0 * 16.0 + 45.0 * 64.0;
        assert_eq!(spoken.cost_with_audio(tokens, audio), Money::from_usd(usd / 1e6));
        assert_eq!(spoken.cost_with_audio(tokens, AudioTokens::default()), Some(text.cost(tokens)));
        assert_eq!(text.cost_with_audio(tokens, AudioTokens::default()), Some(text.cost(tokens)));
        for audio in
            [AudioTokens { input: 1, ..AudioTokens::default() }, AudioTokens { output: 1, ..AudioTokens::default() }]
        {
            assert_eq!(text.cost_with_audio(tokens, audio), None, "{audio:?}");
        }
        // Counts that do not fit together cost no more than the dearest of each.
        let most = spoken.cost_at_most_with_audio(100, 50);
        let odd = AudioTokens { input: u64::MAX, cached_input: u64::MAX, output: u64::MAX };
        for audio in [audio, odd, AudioTokens { cached_input: 0, ..odd }] {
            assert!(spoken.cost_with_audio(tokens, audio).is_some_and(|cost| cost <= most), "{audio:?}");
        }
        assert_eq!(text.cost_at_most_with_audio(100, 50), text.cost_at_most(100, 50));
        assert_eq!(odd.saturating_add(audio), odd);
    }

    #[test]
    fn sums_and_products_saturate() {
        let price = price(1e15, 1e15, 1e15, 1e15);
        assert_eq!(Money::MAX.saturating_add(Money(1)), Money::MAX);
        assert_eq!(Money(1).saturating_sub(Money(2)), Money::ZERO);
        assert_eq!(Money::MAX.saturating_mul(2), Money::MAX);
        assert_eq!(price.cost_at_most(u64::MAX, u64::MAX), Money::MAX);
    }

    #[test]
    fn amounts_are_shown_with_significant_digits() {
        let shown = |usd| Money::from_usd(usd).expect("an amount").to_string();
        let texts = [100.0, 1.005, 0.5, 0.001, 0.038_512_34, 1e-9, 0.0].map(shown);
        assert_eq!(texts, ["100.00", "1.00", "0.5", "0.001", "0.03851", "0.000000001", "0.00"]);
    }
}
