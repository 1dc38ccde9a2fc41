//! Writes a mosaic as baseline JPEG (ITU-T T.81): every block of 8 by 8 pixels has one colour, so that it needs no transform.
//!
//! Invariant: work and bytes grow with the fields of the mosaic, not with its pixels.

use super::{FIELD, colour};
use tokrate_core::Rng;

/// The divisor of every coefficient: with it the one that is written of a block is its colour itself.
const DIVISOR: u8 = 8;
/// How many codes of each length the standard's table of differences has (table K.3), and how many bits each difference has.
const DIFFERENCE_CODES: [u8; 16] = [0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0];
const DIFFERENCE_BITS: [u8; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
/// The only code of the other coefficients: nothing more in this block.
const END_OF_BLOCK_CODES: [u8; 16] = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

pub(super) fn mosaic(width: u32, height: u32, rng: &mut Rng) -> Vec<u8> {
    let mut out = vec![0xFF, 0xD8];
    segment(0xE0, b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0", &mut out);
    segment(0xDB, &[&[0][..], &[DIVISOR; 64]].concat(), &mut out);
    let (high, wide) = ((height as u16).to_be_bytes(), (width as u16).to_be_bytes());
    // Three components of one sample each, all with the first table.
    let components = [3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0];
    segment(0xC0, &[&[8][..], &high, &wide, &components].concat(), &mut out);
    segment(0xC4, &[&[0x00][..], &DIFFERENCE_CODES, &DIFFERENCE_BITS].concat(), &mut out);
    segment(0xC4, &[&[0x10][..], &END_OF_BLOCK_CODES, &[0]].concat(), &mut out);
    segment(0xDA, &[3, 1, 0, 2, 0, 3, 0, 0, 63, 0], &mut out);
    let mut bits = Bits { out, bits: 0, held: 0 };
    let mut before = [0_i32; 3];
    for _ in 0..height.div_ceil(FIELD) * width.div_ceil(FIELD) {
        for (byte, before) in colour(rng).into_iter().zip(&mut before) {
            let value = i32::from(byte) - 128;
            bits.difference(value - *before);
            *before = value;
            bits.push(0, 1);
        }
    }
    bits.end()
}

fn segment(marker: u8, data: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&[0xFF, marker]);
    out.extend_from_slice(&((data.len() + 2) as u16).to_be_bytes());
    out.extend_from_slice(data);
}

/// The bits of a scan, the highest first.
struct Bits {
    out: Vec<u8>,
    bits: u32,
    held: u32,
}

impl Bits {
    fn push(&mut self, bits: u32, count: u32) {
        self.bits = self.bits << count | bits;
        self.held += count;
        while self.held >= 8 {
            self.held -= 8;
            let byte = (self.bits >> self.held) as u8;
            self.out.push(byte);
            if byte == 0xFF {
                // Or it would begin a marker.
                self.out.push(0);
            }
        }
        self.bits &= (1 << self.held) - 1;
    }

    /// How many bits it has, then those.
    fn difference(&mut self, value: i32) {
        let count = 32 - value.unsigned_abs().leading_zeros();
        // The codes of table K.3: two bits for 0, three for 1 to 5, one more for each further.
        match count {
            0 => self.push(0b00, 2),
            1..6 => self.push(0b010 + count - 1, 3),
            more => self.push((1 << (more - 2)) - 2, more - 2),
        }
        let bits = if value < 0 { value - 1 } else { value } as u32;
        self.push(bits & ((1 << count) - 1), count);
    }

    fn end(mut self) -> Vec<u8> {
        self.push(0x7F, 7);
        self.out.extend_from_slice(&[0xFF, 0xD9]);
        self.out
    }
}
