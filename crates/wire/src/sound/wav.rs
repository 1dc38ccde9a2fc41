//! RIFF WAVE: where its samples are and how many are played a second; and the head of a file of 16-bit samples.
//!
//! Invariant: of streams, whose head cannot know how much follows, everything behind the head of `data` is sound.

use std::ops::Range;
use tokrate_core::Span;

/// Tags of formats whose blocks all hold the same number of samples: PCM, floats, A-law, µ-law, and the extended head.
const LINEAR: [u16; 5] = [1, 3, 6, 7, 0xFFFE];
/// Bytes of a chunk's head.
const CHUNK_HEAD: usize = 8;
/// Lengths that writers of streams put where they know none.
const UNKNOWN_LENGTHS: [u32; 3] = [0, u32::MAX, 0x7FFF_FFFF];
/// Largest head that is read.
const MAX_HEAD: usize = 64 * 1024;

/// Reads a file as it comes.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    head: Vec<u8>,
    format: Option<Format>,
    /// Bytes of sound so far.
    sound: u64,
}

#[derive(Clone, Copy, Debug)]
struct Format {
    rate: u32,
    /// Bytes of one sample of all channels.
    block: u16,
    /// Bytes of sound, if the head knows them.
    length: Option<u64>,
    /// Whether samples are of 16 bits on one channel.
    is_mono: bool,
}

/// A whole file of sound, as far as its length goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wav {
    /// How long it plays.
    pub plays: Span,
    /// Samples a second.
    pub rate: u32,
    /// Where its samples are, if they are of 16 bits on one channel.
    pub mono: Option<Range<usize>>,
}

impl Wav {
    /// Reads a file.
    ///
    /// # Errors
    /// Why it is none whose length can be read.
    pub fn read(file: &[u8]) -> Result<Wav, &'static str> {
        let mut reader = Reader::new();
        let (sound, samples, rate) = reader.push(file).ok_or("it is no WAV file of samples of one size")?;
        if rate == 0 || samples == 0 {
            return Err("it holds no sound");
        }
        let nanos = u128::from(samples) * 1_000_000_000 / u128::from(rate);
        let Head::Whole(format, at) = read_head(file) else { return Err("it holds no sound") };
        let mono = format.is_mono.then(|| at..at + sound as usize);
        Ok(Wav { plays: Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)), rate, mono })
    }
}

impl Reader {
    pub(super) fn new() -> Reader {
        Reader { head: Vec::new(), format: None, sound: 0 }
    }

    /// Bytes of sound, samples and their rate so far; `None` if it cannot be read.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Option<(u64, u64, u32)> {
        let mut sound = bytes.len() as u64;
        if self.format.is_none() {
            self.head.extend_from_slice(bytes);
            match read_head(&self.head) {
                Head::Whole(format, at) => {
                    sound = (self.head.len() - at) as u64;
                    (self.format, self.head) = (Some(format), Vec::new());
                }
                Head::Part if self.head.len() <= MAX_HEAD => return Some((0, 0, 0)),
                Head::Part | Head::Broken => return None,
            }
        }
        let format = self.format?;
        self.sound = (self.sound + sound).min(format.length.unwrap_or(u64::MAX));
        Some((self.sound, self.sound / u64::from(format.block), format.rate))
    }

    pub(super) fn declared(&self) -> Option<Span> {
        let format = self.format?;
        let samples = format.length? / u64::from(format.block);
        Some(Span::from_nanos(samples.saturating_mul(1_000_000_000) / u64::from(format.rate)))
    }
}

enum Head {
    /// The format, and where the sound begins.
    Whole(Format, usize),
    Part,
    Broken,
}

fn read_head(head: &[u8]) -> Head {
    let Some(kind) = head.get(8..12) else { return Head::Part };
    if kind != b"WAVE" {
        return Head::Broken;
    }
    let (mut at, mut linear) = (12, None);
    while let Some(chunk) = head.get(at..at + CHUNK_HEAD) {
        let (name, length) = (&chunk[..4], u32_at(chunk, 4));
        let inner = at + CHUNK_HEAD;
        match name {
            b"data" => {
                let Some((rate, block, is_mono)) = linear else { return Head::Broken };
                let length = (!UNKNOWN_LENGTHS.contains(&length)).then(|| u64::from(length));
                return Head::Whole(Format { rate, block, length, is_mono }, inner);
            }
            b"fmt " => {
                let Some(fields) = head.get(inner..inner + 16) else { return Head::Part };
                let u16_at = |place: usize| u16::from_le_bytes([fields[place], fields[place + 1]]);
                let (rate, block) = (u32_at(fields, 4), u16_at(12));
                if !LINEAR.contains(&u16_at(0)) || rate == 0 || block == 0 {
                    return Head::Broken;
                }
                linear = Some((rate, block, u16_at(0) == 1 && u16_at(2) == 1 && u16_at(14) == 16));
            }
            _ => {}
        }
        // Chunks begin at even places.
        at = inner.saturating_add(length as usize).saturating_add(length as usize % 2);
        if at > MAX_HEAD {
            return Head::Broken;
        }
    }
    Head::Part
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// How long a file of `whole` bytes plays, of which the beginning is known; `None` of what is no WAV file.
pub fn wav_length(beginning: &[u8], whole: u64) -> Option<Span> {
    let Head::Whole(format, at) = read_head(beginning) else { return None };
    // A writer that streamed does not know it: then it is the rest.
    let held = whole.saturating_sub(at as u64).min(format.length.unwrap_or(u64::MAX));
    let nanos = u128::from(held / u64::from(format.block)) * 1_000_000_000 / u128::from(format.rate);
    Some(Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
}

/// The head of a file of 16-bit samples on one channel; `None` for a stream of unknown length.
pub fn wav_head(rate: u32, samples: Option<u32>) -> [u8; 44] {
    let bytes = samples.map_or(u32::MAX, |samples| samples.saturating_mul(2));
    let mut head = *b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\0\0\0\0\0\0\0\0\x02\0\x10\0data\0\0\0\0";
    head[4..8].copy_from_slice(&bytes.saturating_add(36).to_le_bytes());
    head[24..28].copy_from_slice(&rate.to_le_bytes());
    head[28..32].copy_from_slice(&(rate.saturating_mul(2)).to_le_bytes());
    head[40..44].copy_from_slice(&bytes.to_le_bytes());
    head
}
