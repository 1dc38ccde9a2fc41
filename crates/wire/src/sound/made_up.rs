//! Sound that says nothing, to load an engine with.

use super::wav_head;
use tokrate_core::{Rng, Span};

/// Samples a second that models of speech are given.
pub const HEARD_RATE: u32 = 16_000;
/// Changes of loudness, as often as a voice has syllables.
const SYLLABLES_A_SECOND: u32 = 5;

/// A WAV file of noise that swells and fades as speech does, so that what listens for speech does not leave all of it out: 16 bits, one
/// channel, at `rate` samples a second.
pub fn made_up(plays: Span, rate: u32, rng: &mut Rng) -> Vec<u8> {
    let samples = (plays.as_secs_f64() * f64::from(rate)).round().max(1.0) as u32;
    let head = wav_head(rate, Some(samples));
    let mut file = Vec::with_capacity(head.len() + 2 * samples as usize);
    file.extend_from_slice(&head);
    let (mut loudness, mut before) = (0_i64, 0_i64);
    for place in 0..samples {
        if place % (rate / SYLLABLES_A_SECOND).max(1) == 0 {
            loudness = rng.below(4_000) as i64;
        }
        // Neighbours are alike, as those of a voice are.
        let drawn = rng.below(8_193) as i64 - 4_096;
        before = (3 * before + drawn) / 4;
        file.extend_from_slice(&((before * loudness / 4_096) as i16).to_le_bytes());
    }
    file
}
