//! Frames of MP3 and AAC that are silent, and of FLAC with samples as they are.

use super::{SOUND_RATE, TOKEN_SAMPLES, sample};
use std::ops::Range;

/// Samples of a frame of MPEG 2, layer III.
pub(super) const MP3_SAMPLES: u64 = 576;
/// Bytes of one at 64 kbit/s.
const MP3_BYTES: usize = 192;
/// Samples of a frame of AAC.
pub(super) const AAC_SAMPLES: u64 = 1_024;

/// MPEG 2, layer III, 64 kbit/s, 24,000 samples a second on one channel; nothing of the sound is described, so that there is none.
pub(super) fn push_mp3(out: &mut Vec<u8>) {
    let end = out.len() + MP3_BYTES;
    out.extend_from_slice(&[0xFF, 0xF3, 0x84, 0xC0]);
    out.resize(end, 0);
}

/// Low complexity, one channel, no band with sound; eleven bytes.
pub(super) fn push_aac(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0xFF, 0xF1, 0x58, 0x40, 0x01, 0x7F, 0xFC, 0, 0, 0, 0x07]);
}

/// The head of a file of unknown length.
pub(super) fn push_flac_head(out: &mut Vec<u8>) {
    let block = (TOKEN_SAMPLES as u16).to_be_bytes();
    out.extend_from_slice(b"fLaC\x80\0\0\x22");
    out.extend_from_slice(&[block, block].concat());
    out.extend_from_slice(&[0; 6]);
    // 20 bits of the rate, 3 of channels less one, 5 of bits less one, 36 of samples, and no sum of them.
    let fields = (u64::from(SOUND_RATE) << 44) | (15 << 36);
    out.extend_from_slice(&fields.to_be_bytes());
    out.extend_from_slice(&[0; 16]);
}

/// The frame of that number, with samples as they are.
pub(super) fn push_flac(number: u64, places: Range<u64>, out: &mut Vec<u8>) {
    let begin = out.len();
    // A block of 16 bits' length, 24,000 a second, one channel of 16 bits.
    out.extend_from_slice(&[0xFF, 0xF8, 0x77, 0x08]);
    push_number(number, out);
    out.extend_from_slice(&((TOKEN_SAMPLES - 1) as u16).to_be_bytes());
    let sum =
        out[begin..].iter().fold(0_u8, |sum, byte| (0..8).fold(sum ^ byte, |sum, _| (sum << 1) ^ ((sum >> 7) * 7)));
    out.push(sum);
    out.push(0x02);
    places.for_each(|place| out.extend_from_slice(&sample(place).to_be_bytes()));
    let sum = out[begin..].iter().fold(0_u16, |sum, byte| {
        (0..8).fold(sum ^ (u16::from(*byte) << 8), |sum, _| (sum << 1) ^ ((sum >> 15) * 0x8005))
    });
    out.extend_from_slice(&sum.to_be_bytes());
}

/// A number as UTF-8 writes that of a character; up to 16 bits here, an hour and a half of sound.
fn push_number(number: u64, out: &mut Vec<u8>) {
    let low = |shift: u32| 0x80 | ((number >> shift) & 0x3F) as u8;
    match number {
        0..=0x7F => out.push(number as u8),
        0x80..=0x7FF => out.extend_from_slice(&[0xC0 | (number >> 6) as u8, low(0)]),
        _ => out.extend_from_slice(&[0xE0 | ((number >> 12) & 0x0F) as u8, low(6), low(0)]),
    }
}
