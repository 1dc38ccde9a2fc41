//! Pages of Ogg with silence in Opus.

use super::SOUND_RATE;

/// Opus counts positions at this rate.
const RATE: u64 = 48_000;
/// 20 ms of silence.
const PACKET: [u8; 3] = [0xF8, 0xFF, 0xFE];
/// Packets of a token.
const PACKETS: usize = 4;
const FIRST: u8 = 2;
const LAST: u8 = 4;

/// The two heads.
pub(super) fn push_heads(out: &mut Vec<u8>) {
    // Version 1, one channel, nothing skipped, the rate of the input, no gain, one stream.
    let mut head = b"OpusHead\x01\x01\0\0".to_vec();
    head.extend_from_slice(&SOUND_RATE.to_le_bytes());
    head.extend_from_slice(&[0, 0, 0]);
    push(0, FIRST, 0, &[&head], out);
    push(1, 0, 0, &[b"OpusTags\x03\0\0\0sim\0\0\0\0"], out);
}

/// The page of that number, up to that sample at the rate of the sound.
pub(super) fn push_page(number: u64, samples: u64, out: &mut Vec<u8>) {
    push(number, 0, samples * RATE / u64::from(SOUND_RATE), &[PACKET.as_slice(); PACKETS], out);
}

/// An empty page that ends the stream.
pub(super) fn push_end(number: u64, samples: u64, out: &mut Vec<u8>) {
    push(number, LAST, samples * RATE / u64::from(SOUND_RATE), &[], out);
}

fn push(number: u64, flags: u8, position: u64, packets: &[&[u8]], out: &mut Vec<u8>) {
    let begin = out.len();
    out.extend_from_slice(b"OggS\0");
    out.push(flags);
    out.extend_from_slice(&position.to_le_bytes());
    out.extend_from_slice(b"SIM\0");
    out.extend_from_slice(&(number as u32).to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.push(packets.len() as u8);
    out.extend(packets.iter().map(|packet| packet.len() as u8));
    packets.iter().for_each(|packet| out.extend_from_slice(packet));
    let sum = out[begin..].iter().fold(0_u32, |sum, byte| {
        (0..8).fold(sum ^ (u32::from(*byte) << 24), |sum, _| (sum << 1) ^ ((sum >> 31) * 0x04C1_1DB7))
    });
    out[begin + 22..begin + 26].copy_from_slice(&sum.to_le_bytes());
}
