//! What images, sound and texts that are said cost where no token of them is counted before an answer says so.
//!
//! Invariant: what has no price is named and never counted as nothing.

use serde::{Deserialize, Serialize};
use std::fmt;
use tokrate_core::{Money, Span};
use tokrate_meter::request::{RequestNumbers, RequestTrace};

/// Pixels of a token: Anthropic's rule (docs.anthropic.com, Vision, 2026-11), the most tokens for an image among the published rules that go by
/// its size.
const PIXELS_OF_TOKEN: u64 = 750;
/// Pixels of a token of an image that is made: OpenAI's gpt-image-1 has 4,160 tokens for 1024x1024 at its best quality.
const PIXELS_OF_MADE_TOKEN: u64 = 250;
/// Tokens of a second of sound: Gemini's 32, the most of the published rules (OpenAI: 10 heard, 20 said).
const TOKENS_OF_SECOND: u64 = 32;

/// What is billed by its size, and not by tokens that are counted before it is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MediaKind {
    /// Images that are sent.
    ImageIn,
    /// Images that are made.
    ImageOut,
    /// Sound that is sent.
    MinuteIn,
    /// Sound that is made.
    MinuteOut,
    /// Text that is said.
    Characters,
}

/// What one of them costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MediaPrice {
    /// Its tokens, at the price of other tokens.
    InTokens,
    /// An image, a minute, or a million characters.
    Each(Money),
}

/// The price of each kind, if it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MediaPrices([Option<MediaPrice>; MediaKind::ALL.len()]);

/// How much of each a request has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MediaAmounts {
    /// Images that are sent.
    pub images_in: u64,
    /// Their pixels.
    pub pixels_in: u64,
    /// Images that are made.
    pub images_out: u64,
    /// Their pixels.
    pub pixels_out: u64,
    /// Length of the sound that is sent.
    pub sound_in: Span,
    /// Length of the sound that is made.
    pub sound_out: Span,
    /// Characters that are said.
    pub characters: u64,
}

impl MediaKind {
    /// All of them.
    pub const ALL: [MediaKind; 5] =
        [MediaKind::ImageIn, MediaKind::ImageOut, MediaKind::MinuteIn, MediaKind::MinuteOut, MediaKind::Characters];

    /// Its name in flags and settings.
    pub const fn name(self) -> &'static str {
        match self {
            MediaKind::ImageIn => "image-in",
            MediaKind::ImageOut => "image-out",
            MediaKind::MinuteIn => "minute-in",
            MediaKind::MinuteOut => "minute-out",
            MediaKind::Characters => "characters",
        }
    }

    /// What costs something, in words.
    pub const fn words(self) -> &'static str {
        match self {
            MediaKind::ImageIn => "an image that is sent",
            MediaKind::ImageOut => "an image that is made",
            MediaKind::MinuteIn => "a minute of sound that is sent",
            MediaKind::MinuteOut => "a minute of sound that is made",
            MediaKind::Characters => "a text that is said",
        }
    }
}

impl MediaPrices {
    /// Sets the price of a kind.
    pub fn set(&mut self, kind: MediaKind, price: MediaPrice) {
        self.0[kind as usize] = Some(price);
    }

    /// The price of a kind. Images that are sent are billed in tokens by every API that takes them, unless somebody says otherwise.
    pub fn of(&self, kind: MediaKind) -> Option<MediaPrice> {
        self.0[kind as usize].or((kind == MediaKind::ImageIn).then_some(MediaPrice::InTokens))
    }

    /// What the kinds cost that have a price of their own.
    pub fn cost(&self, amounts: &MediaAmounts) -> Money {
        let of = |kind: MediaKind| match self.of(kind) {
            Some(MediaPrice::Each(price)) => amounts.cost(kind, price),
            Some(MediaPrice::InTokens) | None => Money::ZERO,
        };
        MediaKind::ALL.into_iter().map(of).fold(Money::ZERO, Money::saturating_add)
    }

    /// The most tokens of those that are billed in tokens by the published rules: of the prompt and of the answer.
    pub fn tokens(&self, amounts: &MediaAmounts) -> (u64, u64) {
        let of = |kind: MediaKind| if self.of(kind) == Some(MediaPrice::InTokens) { amounts.tokens(kind) } else { 0 };
        (of(MediaKind::ImageIn) + of(MediaKind::MinuteIn), of(MediaKind::ImageOut) + of(MediaKind::MinuteOut))
    }

    /// The kinds among the amounts whose price is not known.
    pub fn unknown(&self, amounts: &MediaAmounts) -> Vec<MediaKind> {
        let is_said = self.of(MediaKind::Characters).is_some() || self.of(MediaKind::MinuteOut).is_some();
        let is_known = |kind: MediaKind| match kind {
            // Speech is billed by what is said or by how long that takes.
            MediaKind::Characters | MediaKind::MinuteOut if amounts.characters > 0 => is_said,
            kind => self.of(kind).is_some(),
        };
        MediaKind::ALL.into_iter().filter(|kind| amounts.has(*kind) && !is_known(*kind)).collect()
    }
}

impl MediaAmounts {
    /// What a request has come to that asked for so much: of what is made, what came.
    #[must_use]
    pub fn with_answer(self, trace: &RequestTrace) -> MediaAmounts {
        let images = trace.images.map(|images| images.media()).unwrap_or_default();
        let plays = trace.sound.as_ref().and_then(|sound| sound.plays()).unwrap_or_default();
        MediaAmounts { images_out: images.pictures, pixels_out: images.pixels, sound_out: plays, ..self }
    }

    /// That of a request whose numbers are known; its images are those that were made, or those that were sent.
    pub fn of_row(row: &RequestNumbers, makes_images: bool) -> MediaAmounts {
        let media = row.media.unwrap_or_default();
        let nanos = |nanos: Option<u64>| Span::from_nanos(nanos.unwrap_or(0));
        let audio = row.audio.as_deref();
        let amounts = MediaAmounts {
            sound_in: Span::from_nanos(media.sound_ns) + nanos(audio.and_then(|audio| audio.heard_ns)),
            sound_out: nanos(audio.and_then(|audio| audio.plays_ns)),
            characters: audio.and_then(|audio| audio.characters).unwrap_or(0),
            ..MediaAmounts::default()
        };
        match makes_images {
            true => MediaAmounts { images_out: media.pictures, pixels_out: media.pixels, ..amounts },
            false => MediaAmounts { images_in: media.pictures, pixels_in: media.pixels, ..amounts },
        }
    }

    /// Whether there is any of a kind.
    pub fn has(&self, kind: MediaKind) -> bool {
        match kind {
            MediaKind::ImageIn => self.images_in > 0,
            MediaKind::ImageOut => self.images_out > 0,
            MediaKind::MinuteIn => self.sound_in > Span::ZERO,
            MediaKind::MinuteOut => self.sound_out > Span::ZERO,
            MediaKind::Characters => self.characters > 0,
        }
    }

    /// Rounded up to a whole unit of money, so that nothing of a positive price is free.
    fn cost(&self, kind: MediaKind, price: Money) -> Money {
        let of_time = |time: Span| share(price, time.as_nanos(), Span::from_secs(60).as_nanos());
        match kind {
            MediaKind::ImageIn => price.saturating_mul(self.images_in),
            MediaKind::ImageOut => price.saturating_mul(self.images_out),
            MediaKind::MinuteIn => of_time(self.sound_in),
            MediaKind::MinuteOut => of_time(self.sound_out),
            MediaKind::Characters => share(price, self.characters, 1_000_000),
        }
    }

    fn tokens(&self, kind: MediaKind) -> u64 {
        let of_time = |time: Span| (time.as_secs_f64() * TOKENS_OF_SECOND as f64).ceil() as u64;
        match kind {
            MediaKind::ImageIn => self.pixels_in.div_ceil(PIXELS_OF_TOKEN),
            MediaKind::ImageOut => self.pixels_out.div_ceil(PIXELS_OF_MADE_TOKEN),
            MediaKind::MinuteIn => of_time(self.sound_in),
            MediaKind::MinuteOut => of_time(self.sound_out),
            MediaKind::Characters => 0,
        }
    }
}

/// The part of a price that falls to `amount` of `of_each`.
fn share(price: Money, amount: u64, of_each: u64) -> Money {
    let pico = price.as_pico_usd().saturating_mul(u128::from(amount));
    Money::from_pico_usd(pico.div_ceil(u128::from(of_each)))
}

/// The fields in JSON: prices of their own (USD), and the kinds that are billed in tokens.
#[derive(Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct WrittenMedia {
    /// Of an image that is sent (USD).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    image_in_usd: Option<f64>,
    /// Of an image that is made (USD).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    image_out_usd: Option<f64>,
    /// Of a minute of sound that is sent (USD).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    minute_in_usd: Option<f64>,
    /// Of a minute of sound that is made (USD).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    minute_out_usd: Option<f64>,
    /// Of a million characters that are said (USD).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    characters_usd_per_million: Option<f64>,
    /// Names of the kinds that are billed in tokens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    in_tokens: Vec<String>,
}

impl WrittenMedia {
    fn places(&mut self) -> [&mut Option<f64>; MediaKind::ALL.len()] {
        [
            &mut self.image_in_usd,
            &mut self.image_out_usd,
            &mut self.minute_in_usd,
            &mut self.minute_out_usd,
            &mut self.characters_usd_per_million,
        ]
    }
}

impl From<MediaPrices> for WrittenMedia {
    fn from(prices: MediaPrices) -> WrittenMedia {
        let mut written = WrittenMedia::default();
        for kind in MediaKind::ALL {
            match prices.0[kind as usize] {
                Some(MediaPrice::Each(price)) => *written.places()[kind as usize] = Some(price.as_usd()),
                Some(MediaPrice::InTokens) => written.in_tokens.push(kind.name().to_owned()),
                None => {}
            }
        }
        written
    }
}

impl WrittenMedia {
    /// The prices; `None` if one is none.
    pub(super) fn read(mut self) -> Option<MediaPrices> {
        let mut prices = MediaPrices::default();
        let in_tokens = std::mem::take(&mut self.in_tokens);
        for kind in MediaKind::ALL {
            if in_tokens.iter().any(|name| name == kind.name()) {
                prices.set(kind, MediaPrice::InTokens);
            }
            if let Some(usd) = *self.places()[kind as usize] {
                prices.set(kind, MediaPrice::Each(Money::from_usd(usd)?));
            }
        }
        Some(prices)
    }
}

impl fmt::Display for MediaKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usd(usd: f64) -> MediaPrice {
        MediaPrice::Each(Money::from_usd(usd).expect("an amount"))
    }

    fn amounts() -> MediaAmounts {
        MediaAmounts {
            images_in: 2,
            pixels_in: 1_500,
            images_out: 3,
            pixels_out: 500,
            sound_in: Span::from_secs(30),
            sound_out: Span::from_secs(90),
            characters: 500_000,
        }
    }

    #[test]
    fn each_kind_costs_by_its_own_measure_and_what_has_no_price_is_named() {
        let mut prices = MediaPrices::default();
        let but_sent_images = MediaKind::ALL[1..].to_vec();
        assert_eq!((prices.cost(&amounts()), prices.unknown(&amounts())), (Money::ZERO, but_sent_images));
        let each = [0.01, 0.04, 0.006, 0.02, 15.0].map(usd);
        MediaKind::ALL.into_iter().zip(each).for_each(|(kind, price)| prices.set(kind, price));
        let expected = 2.0 * 0.01 + 3.0 * 0.04 + 0.5 * 0.006 + 1.5 * 0.02 + 0.5 * 15.0;
        assert_eq!(Some(prices.cost(&amounts())), Money::from_usd(expected));
        assert!(prices.unknown(&amounts()).is_empty() && prices.tokens(&amounts()) == (0, 0));
        let little = MediaAmounts { sound_in: Span::from_nanos(1), ..MediaAmounts::default() };
        assert_eq!(prices.cost(&little), Money::from_pico_usd(1), "little is not nothing");
    }

    #[test]
    fn what_is_billed_in_tokens_is_bounded_by_the_published_rules() {
        let mut prices = MediaPrices::default();
        MediaKind::ALL.into_iter().for_each(|kind| prices.set(kind, MediaPrice::InTokens));
        assert_eq!((prices.tokens(&amounts()), prices.cost(&amounts())), ((2 + 30 * 32, 2 + 90 * 32), Money::ZERO));
    }

    #[test]
    fn speech_is_billed_by_its_characters_or_by_its_length() {
        let said = MediaAmounts { characters: 10, sound_out: Span::from_secs(1), ..MediaAmounts::default() };
        for kind in [MediaKind::Characters, MediaKind::MinuteOut] {
            let mut prices = MediaPrices::default();
            assert_eq!(prices.unknown(&said), [MediaKind::MinuteOut, MediaKind::Characters]);
            prices.set(kind, usd(1.0));
            assert!(prices.unknown(&said).is_empty(), "{kind}");
        }
    }

    #[test]
    fn prices_read_back_equal() {
        let mut prices = MediaPrices::default();
        prices.set(MediaKind::ImageIn, MediaPrice::InTokens);
        prices.set(MediaKind::MinuteIn, usd(0.006));
        let text = serde_json::to_string(&WrittenMedia::from(prices)).expect("plain data");
        assert_eq!(text, r#"{"minute_in_usd":0.006,"in_tokens":["image-in"]}"#);
        assert_eq!(serde_json::from_str::<WrittenMedia>(&text).expect("it reads back").read(), Some(prices));
        let negative: WrittenMedia = serde_json::from_str(r#"{"minute_in_usd":-1}"#).expect("a number");
        assert_eq!(negative.read(), None);
    }
}
