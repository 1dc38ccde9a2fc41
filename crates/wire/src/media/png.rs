//! Writes a mosaic as PNG (ISO/IEC 15948) with its own deflate (RFC 1951): the fixed code and runs of zeros, which is all that a mosaic needs.
//!
//! Invariant: work and bytes grow with the fields of the mosaic, not with its pixels.

use super::{FIELD, colour};
use tokrate_core::Rng;

const SIGNATURE: [u8; 8] = *b"\x89PNG\r\n\x1a\n";
/// Bits of a channel, and the kind of pixel: red, green, blue.
const DEPTH_AND_KIND: [u8; 2] = [8, 2];
/// Filters of a line (section 9.2): what differs from the pixel at the left, or from the line above.
const SUB: u8 = 1;
const UP: u8 = 2;
/// Largest prime below 65,536 (Adler-32).
const ADLER_BASE: u64 = 65_521;
/// Longest run that one code stands for.
const MAX_RUN: u32 = 258;

pub(super) fn mosaic(width: u32, height: u32, rng: &mut Rng) -> Vec<u8> {
    let mut deflate = Deflate::new();
    for top in (0..height).step_by(FIELD as usize) {
        deflate.byte(SUB);
        let mut left = [0_u8; 3];
        for begin in (0..width).step_by(FIELD as usize) {
            let colour = colour(rng);
            for (now, before) in colour.into_iter().zip(left) {
                deflate.byte(now.wrapping_sub(before));
            }
            left = colour;
            deflate.zeros(3 * (FIELD.min(width - begin) - 1));
        }
        for _ in 1..FIELD.min(height - top) {
            deflate.byte(UP);
            deflate.zeros(3 * width);
        }
    }
    let mut out = SIGNATURE.to_vec();
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &DEPTH_AND_KIND, &[0; 3]].concat();
    push_chunk(*b"IHDR", &header, &mut out);
    push_chunk(*b"IDAT", &deflate.end(), &mut out);
    push_chunk(*b"IEND", &[], &mut out);
    out
}

fn push_chunk(name: [u8; 4], data: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&u32::try_from(data.len()).unwrap_or(u32::MAX).to_be_bytes());
    let begin = out.len();
    out.extend_from_slice(&name);
    out.extend_from_slice(data);
    let checksum = crc32fast::hash(&out[begin..]);
    out.extend_from_slice(&checksum.to_be_bytes());
}

/// One block of deflate with the fixed code, in a zlib stream (RFC 1950).
struct Deflate {
    out: Vec<u8>,
    bits: u64,
    held: u32,
    last: Option<u8>,
    adler: (u64, u64),
}

impl Deflate {
    fn new() -> Deflate {
        let mut deflate = Deflate { out: vec![0x78, 0x01], bits: 0, held: 0, last: None, adler: (1, 0) };
        // The last block, with the fixed code.
        deflate.push(0b011, 3);
        deflate
    }

    fn push(&mut self, bits: u32, count: u32) {
        self.bits |= u64::from(bits) << self.held;
        self.held += count;
        while self.held >= 8 {
            self.out.push(self.bits as u8);
            self.bits >>= 8;
            self.held -= 8;
        }
    }

    /// A code goes out with its first bit first.
    fn code(&mut self, code: u32, count: u32) {
        self.push(code.reverse_bits() >> (32 - count), count);
    }

    fn byte(&mut self, byte: u8) {
        let (a, b) = self.adler;
        let a = (a + u64::from(byte)) % ADLER_BASE;
        self.adler = (a, (b + a) % ADLER_BASE);
        self.literal(byte);
    }

    fn literal(&mut self, byte: u8) {
        self.last = Some(byte);
        match u32::from(byte) {
            low @ 0..144 => self.code(0x30 + low, 8),
            high => self.code(0x190 + high - 144, 9),
        }
    }

    /// That many bytes of zero.
    fn zeros(&mut self, count: u32) {
        let (a, b) = self.adler;
        self.adler.1 = (b + u64::from(count) * a) % ADLER_BASE;
        let mut left = count;
        if left > 0 && self.last != Some(0) {
            self.literal(0);
            left -= 1;
        }
        while left >= 3 {
            let run = left.min(MAX_RUN);
            self.run(run);
            left -= run;
        }
        (0..left).for_each(|_| self.literal(0));
    }

    /// The last byte again, 3 to 258 times: a length, and a distance of 1.
    fn run(&mut self, length: u32) {
        let (symbol, extra, count) = length_code(length);
        match symbol {
            low @ 256..280 => self.code(low - 256, 7),
            high => self.code(0xC0 + high - 280, 8),
        }
        self.push(extra, count);
        self.code(0, 5);
    }

    fn end(mut self) -> Vec<u8> {
        // The code of the end of a block, then up to a whole byte.
        self.code(0, 7);
        self.push(0, 7);
        let (a, b) = self.adler;
        self.out.extend_from_slice(&(b as u32).wrapping_shl(16).wrapping_add(a as u32).to_be_bytes());
        self.out
    }
}

/// Symbol of a length, and its further bits with their count (RFC 1951, section 3.2.5).
fn length_code(length: u32) -> (u32, u32, u32) {
    if length >= MAX_RUN {
        return (285, 0, 0);
    }
    let above = length - 3;
    if above < 8 {
        return (257 + above, 0, 0);
    }
    // Four symbols for each power of two, each with one bit more than those before.
    let extra = above.ilog2() - 2;
    (257 + 4 * extra + (above >> extra), above & ((1 << extra) - 1), extra)
}
