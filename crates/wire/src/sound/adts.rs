//! AAC with ADTS heads: each frame says how long it is and how many blocks of 1,024 samples it holds.
//!
//! A rate that is doubled by replicated bands (HE-AAC) doubles the samples too, so that the time stays.

use super::Unit;

/// Samples a second by their index.
const RATES: [u32; 13] =
    [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350];
const BLOCK_SAMPLES: u64 = 1_024;
const HEAD: usize = 7;

pub(super) fn unit(bytes: &[u8]) -> Unit {
    let Some(head) = bytes.get(..HEAD) else { return Unit::Part };
    let length = (usize::from(head[3] & 3) << 11) | (usize::from(head[4]) << 3) | usize::from(head[5] >> 5);
    let rate = RATES.get(usize::from(head[2] >> 2 & 15));
    let (0xFF, 0xF0, Some(rate), HEAD..) = (head[0], head[1] & 0xF6, rate, length) else { return Unit::Skip(1) };
    if bytes.len() < length {
        return Unit::Part;
    }
    let blocks = u64::from(head[6] & 3) + 1;
    Unit::Whole { bytes: length, samples: blocks * BLOCK_SAMPLES, rate: *rate }
}
