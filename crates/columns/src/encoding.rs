//! How the values of a page are laid out: bits, runs of levels and dictionary indices, differences of whole numbers.
//!
//! Format: `Encodings.md` of <https://github.com/apache/parquet-format>.

use crate::thrift::{put_varint, zigzag};

/// Values of a block of differences, and of each of its miniblocks; the smallest that the format admits.
const BLOCK: usize = 128;
const MINIBLOCK: usize = 32;

/// Numbers of `width` bits each, the least significant bit first.
pub(crate) fn put_bits(out: &mut Vec<u8>, values: impl Iterator<Item = u64>, width: u32) {
    let (mut held, mut bits) = (0_u128, 0_u32);
    for value in values {
        held |= u128::from(value) << bits;
        bits += width;
        while bits >= 8 {
            out.push(held as u8);
            held >>= 8;
            bits -= 8;
        }
    }
    if bits > 0 {
        out.push(held as u8);
    }
}

/// Bits that a number takes.
pub(crate) fn width_of(largest: u64) -> u32 {
    u64::BITS - largest.leading_zeros()
}

/// Runs of one value where there are any, else groups of eight packed values (RLE / bit-packing hybrid, without its length).
pub(crate) fn put_hybrid(out: &mut Vec<u8>, values: &[u32], width: u32) {
    let mut rest = values;
    let mut packed: &[u32] = &[];
    while let Some(&first) = rest.first() {
        let run = rest.iter().take_while(|value| **value == first).count();
        // Values before a run are packed by eights; a run lends them what is missing to the last eight.
        let missing = (8 - packed.len() % 8) % 8;
        if run >= 8 + missing {
            let (packable, after) = values[values.len() - rest.len() - packed.len()..].split_at(packed.len() + missing);
            put_packed(out, packable, width);
            let run = run - missing;
            put_varint(out, (run as u64) << 1);
            out.extend_from_slice(&first.to_le_bytes()[..width.div_ceil(8) as usize]);
            rest = &after[run..];
            packed = &rest[..0];
            continue;
        }
        let begin = values.len() - rest.len() - packed.len();
        packed = &values[begin..begin + packed.len() + run];
        rest = &rest[run..];
    }
    put_packed(out, packed, width);
}

/// One run of packed values; the last eight are filled up with zeros, which a reader that knows the number of values ignores.
fn put_packed(out: &mut Vec<u8>, values: &[u32], width: u32) {
    if values.is_empty() {
        return;
    }
    let eights = values.len().div_ceil(8);
    put_varint(out, (eights as u64) << 1 | 1);
    let padding = eights * 8 - values.len();
    put_bits(out, values.iter().map(|value| u64::from(*value)).chain(std::iter::repeat_n(0, padding)), width);
}

/// Whole numbers by their differences (`DELTA_BINARY_PACKED`): what rises steadily takes a few bits a value.
pub(crate) fn put_differences(out: &mut Vec<u8>, values: &[i64]) {
    put_varint(out, BLOCK as u64);
    put_varint(out, (BLOCK / MINIBLOCK) as u64);
    put_varint(out, values.len() as u64);
    put_varint(out, zigzag(values.first().copied().unwrap_or(0)));
    let differences: Vec<i64> = values.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
    for block in differences.chunks(BLOCK) {
        let least = block.iter().copied().min().unwrap_or(0);
        put_varint(out, zigzag(least));
        let above = |value: &i64| value.wrapping_sub(least) as u64;
        let widths: Vec<u32> =
            block.chunks(MINIBLOCK).map(|miniblock| width_of(miniblock.iter().map(above).max().unwrap_or(0))).collect();
        // A width is at most 64. Miniblocks that are not there have a width all the same.
        out.extend((0..BLOCK / MINIBLOCK).map(|index| widths.get(index).map_or(0, |width| *width as u8)));
        for (miniblock, width) in block.chunks(MINIBLOCK).zip(widths) {
            let padding = std::iter::repeat_n(0, MINIBLOCK - miniblock.len());
            put_bits(out, miniblock.iter().map(above).chain(padding), width);
        }
    }
}
