//! What a target charges, as a record states it.
//!
//! Invariant: in JSON prices are US dollars per million tokens; a missing price is unknown, never 0.

use super::media_price::{MediaAmounts, MediaPrices, WrittenMedia};
use serde::{Deserialize, Serialize};
use tokrate_core::{BilledTokens, Money, Price};

/// Prices of a model at a provider.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "Written", into = "Written")]
#[cfg_attr(feature = "schema", schemars(with = "Written", rename = "Price"))]
pub struct TargetPrice {
    /// The price.
    pub price: Price,
    /// That of what is no token of a text.
    pub media: MediaPrices,
    /// Where the figures come from.
    pub source: String,
    /// When they were true (YYYY-MM-DD).
    pub date: String,
}

impl TargetPrice {
    /// That of tokens alone.
    pub fn of_tokens(price: Price, source: impl Into<String>, date: impl Into<String>) -> TargetPrice {
        TargetPrice { price, media: MediaPrices::default(), source: source.into(), date: date.into() }
    }

    /// What a request costs at most: its input uncached, and all that it may bring back.
    pub fn cost_at_most(&self, input_tokens: u64, output_tokens: u64, media: &MediaAmounts) -> Money {
        let tokens = BilledTokens { input: input_tokens, output: output_tokens, ..BilledTokens::default() };
        self.price.cost(tokens).saturating_add(self.media.cost(media))
    }
}

/// The fields in JSON.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Written {
    /// Of a million input tokens (USD).
    input_usd_per_million: f64,
    /// Of a million output tokens, reasoning included (USD).
    output_usd_per_million: f64,
    /// Of a million input tokens that were in the provider's cache, if they cost less (USD).
    cached_input_usd_per_million: Option<f64>,
    /// Of images, sound and texts that are said, where it is known.
    #[serde(flatten)]
    media: WrittenMedia,
    /// Where the figures come from.
    source: String,
    /// When they were true (YYYY-MM-DD).
    date: String,
}

impl From<TargetPrice> for Written {
    fn from(TargetPrice { price, media, source, date }: TargetPrice) -> Written {
        Written {
            input_usd_per_million: price.input.as_usd(),
            output_usd_per_million: price.output.as_usd(),
            cached_input_usd_per_million: price.cached_input.map(Money::as_usd),
            media: media.into(),
            source,
            date,
        }
    }
}

impl TryFrom<Written> for TargetPrice {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<TargetPrice, &'static str> {
        let refused = "a price is a number from 0 to 10^15, in US dollars per million tokens";
        let price = Price::from_usd_per_million(written.input_usd_per_million, written.output_usd_per_million);
        let cached_input = match written.cached_input_usd_per_million {
            Some(usd) => Some(Money::from_usd(usd).ok_or(refused)?),
            None => None,
        };
        let price = Price { cached_input, ..price.ok_or(refused)? };
        let media = written.media.read().ok_or(refused)?;
        Ok(TargetPrice { price, media, source: written.source, date: written.date })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::media_price::{MediaKind, MediaPrice};

    #[test]
    fn a_price_reads_back_equal_and_one_below_zero_is_refused() {
        let price = Price::from_usd_per_million(0.59, 0.79).expect("a price");
        let price = Price { cached_input: Money::from_usd(0.295), ..price };
        let mut media = MediaPrices::default();
        media.set(MediaKind::ImageIn, MediaPrice::InTokens);
        let price = TargetPrice { price, media, source: "list".to_owned(), date: "2026-11-20".to_owned() };
        let text = serde_json::to_string(&price).expect("plain data");
        let expected =
            r#"{"input_usd_per_million":0.59,"output_usd_per_million":0.79,"cached_input_usd_per_million":0.295,"#;
        assert!(text.starts_with(expected), "{text}");
        assert_eq!(serde_json::from_str::<TargetPrice>(&text).expect("what was written"), price);
        let error = serde_json::from_str::<TargetPrice>(&text.replace("0.295", "-1")).expect_err("below zero");
        assert!(error.to_string().starts_with("a price is a number from 0"), "{error}");
    }
}
