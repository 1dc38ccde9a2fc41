//! Sound as WAV: 16 kHz, one channel, 16 bits, which is what models of speech are given; and how long such a file lasts.

use crate::base64::decode_beginning;
use tokrate_core::{Rng, Span};

/// Samples of a second.
const RATE: u32 = 16_000;
/// Bytes before the samples.
const HEADER_BYTES: usize = 44;
/// How far into a file its format is looked for (bytes).
const MAX_LOOKED_AT: usize = 64 * 1024;
/// Samples of a note: as long as a syllable, 0.1 to 0.3 s.
const NOTE: (u64, u64) = (1_600, 3_200);
/// Pitches of speech: 85 to 385 Hz.
const PITCH: (u64, u64) = (85, 300);
/// A note in so many is silent.
const SILENT: u64 = 5;

/// A melody of that length: notes as long as syllables at the pitches of speech, with pauses between them.
pub fn wave(length: Span, rng: &mut Rng) -> Vec<u8> {
    let samples = (length.as_nanos() as u128 * u128::from(RATE) / 1_000_000_000).min(u128::from(u32::MAX / 4)) as u32;
    let mut out = Vec::with_capacity(HEADER_BYTES + 2 * samples as usize);
    out.extend_from_slice(b"RIFF");
    out.extend_from_slice(&(HEADER_BYTES as u32 - 8 + 2 * samples).to_le_bytes());
    out.extend_from_slice(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    out.extend_from_slice(&RATE.to_le_bytes());
    out.extend_from_slice(&(2 * RATE).to_le_bytes());
    out.extend_from_slice(b"\x02\0\x10\0data");
    out.extend_from_slice(&(2 * samples).to_le_bytes());
    let (mut left, mut step, mut loudness, mut phase) = (0_u64, 0_u32, 0_i32, 0_u32);
    for _ in 0..samples {
        if left == 0 {
            left = NOTE.0 + rng.below(NOTE.1);
            let pitch = PITCH.0 + rng.below(PITCH.1);
            step = ((pitch << 32) / u64::from(RATE)) as u32;
            loudness = if rng.below(SILENT) == 0 { 0 } else { 2_000 + rng.below(6_000) as i32 };
        }
        left -= 1;
        phase = phase.wrapping_add(step);
        // A triangle from -1 to 1 in 15 bits.
        let triangle = ((phase >> 16) as i32 - 0x8000).abs() - 0x4000;
        out.extend_from_slice(&((triangle * loudness / 0x4000) as i16).to_le_bytes());
    }
    out
}

/// How long a WAV file lasts, as it says; `None` of what is none.
pub fn wave_length(bytes: &[u8]) -> Option<Span> {
    length(bytes, bytes.len())
}

/// The same of a file in base64, of which only the beginning is read.
pub fn wave_length_of_base64(text: &str) -> Option<Span> {
    length(&decode_beginning(text, MAX_LOOKED_AT), text.len() / 4 * 3)
}

/// Of a file of `whole` bytes of which the beginning is known.
fn length(bytes: &[u8], whole: usize) -> Option<Span> {
    (bytes.get(..4)? == b"RIFF" && bytes.get(8..12)? == b"WAVE").then_some(())?;
    let four = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (mut at, mut rate) = (12_usize, None);
    loop {
        let size = four(at + 4)?;
        match bytes.get(at..at + 4)? {
            b"fmt " => rate = Some(four(at + 16)?).filter(|rate| *rate > 0),
            b"data" => {
                // A writer that streamed does not know it: then it is the rest.
                let held = (size as usize).min(whole.saturating_sub(at + 8));
                return Some(Span::from_secs_f64(held as f64 / f64::from(rate?)));
            }
            _ => {}
        }
        // Chunks begin at even places.
        at = at.checked_add(8)?.checked_add(size as usize)?.checked_add(size as usize & 1)?;
    }
}
