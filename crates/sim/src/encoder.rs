//! The encoder of a model that sees and hears: how many tokens a picture or sound is, and how long it takes before the prompt is read.
//!
//! Invariant: both follow from sizes alone, so that the truth is known of whatever is sent.

use tokrate_core::Span;

/// Side of the square of pixels that becomes a token: two patches of 14 pixels each way, as of Qwen2-VL.
const TOKEN_SIDE: u32 = 28;
/// Tokens of a second of sound: as of Qwen2-Audio.
const SOUND_TOKENS_PER_SECOND: f64 = 25.0;

/// How fast pictures and sound become tokens. The pictures of a request are encoded one after another, before its prompt is read, while its
/// slot is held; requests do not delay each other.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Encoder {
    /// Pixels per second; infinite for no time.
    pub pixels_per_second: f64,
    /// Seconds of sound per second; infinite for no time.
    pub sound_per_second: f64,
    /// Whether a picture that was encoded before takes no time again.
    pub caches: bool,
}

impl Default for Encoder {
    fn default() -> Encoder {
        Encoder { pixels_per_second: f64::INFINITY, sound_per_second: f64::INFINITY, caches: false }
    }
}

impl Encoder {
    /// How long pictures of that many pixels and sound of that length take; rounded to the nanosecond.
    pub fn time(&self, pixels: u64, sound: Span) -> Span {
        Span::from_secs_f64(pixels as f64 / self.pixels_per_second + sound.as_secs_f64() / self.sound_per_second)
    }

    /// The first speed that is none, with its name.
    pub(crate) fn invalid(&self) -> Option<(&'static str, f64)> {
        let speeds = [
            ("pixels that are encoded per second", self.pixels_per_second),
            ("sound that is encoded per second", self.sound_per_second),
        ];
        speeds.into_iter().find(|(_, value)| value.is_nan() || *value <= 0.0)
    }
}

/// Tokens of a picture of that size.
pub fn picture_tokens(width: u32, height: u32) -> u32 {
    width.div_ceil(TOKEN_SIDE).saturating_mul(height.div_ceil(TOKEN_SIDE))
}

/// Tokens of sound of that length.
pub fn sound_tokens(length: Span) -> u32 {
    (length.as_secs_f64() * SOUND_TOKENS_PER_SECOND).ceil() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_give_tokens_and_times() {
        assert_eq!((picture_tokens(28, 28), picture_tokens(29, 28), picture_tokens(1024, 1024)), (1, 2, 37 * 37));
        assert_eq!((sound_tokens(Span::from_secs(2)), sound_tokens(Span::from_millis(1))), (50, 1));
        let encoder = Encoder { pixels_per_second: 1e6, sound_per_second: 100.0, caches: false };
        assert_eq!(encoder.time(500_000, Span::from_secs(10)), Span::from_millis(600));
        assert_eq!(Encoder::default().time(u64::MAX, Span::from_secs(10)), Span::ZERO);
        let never = Encoder { pixels_per_second: 0.0, ..encoder };
        assert_eq!((encoder.invalid(), never.invalid()), (None, Some(("pixels that are encoded per second", 0.0))));
    }
}
