//! FLAC: frames do not say how long they are, so that the next head ends one: its pattern, checksum and number have to fit.
//!
//! Invariant: a frame counts once the head behind it, or the end of the body, has come.

use super::Unit;

/// What a file begins with, up to the length of its first description.
const MARK: [u8; 8] = *b"fLaC\0\0\0\x22";
/// Longest head of a frame.
const MAX_FRAME_HEAD: usize = 16;
const SAMPLE_RATES: [u32; 12] =
    [0, 88_200, 176_400, 192_000, 8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000];

#[derive(Clone, Debug, Default)]
pub(super) struct Reader {
    stage: Stage,
    /// Samples a second, of the head of the file.
    rate: u32,
    /// Bytes of a description that are still to come.
    skip: usize,
    is_last: bool,
    /// Samples and rate of the frame that has begun.
    open: Option<(u64, u32)>,
    /// Number of the next frame, or of its first sample.
    next: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Stage {
    #[default]
    Mark,
    Descriptions,
    Frames,
}

struct FrameHead {
    samples: u64,
    rate: Option<u32>,
    number: u64,
    /// Whether the number is that of a sample.
    counts_samples: bool,
}

impl Reader {
    pub(super) fn new() -> Reader {
        Reader::default()
    }

    /// Whether a frame has begun.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Samples and rate of the last frame.
    pub(super) fn end(&mut self) -> (u64, u32) {
        self.open.take().unwrap_or_default()
    }

    pub(super) fn unit(&mut self, bytes: &[u8]) -> Unit {
        if self.skip > 0 && !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            return Unit::Skip(skipped);
        }
        match self.stage {
            Stage::Mark if bytes.len() < 4 => Unit::Part,
            Stage::Mark => {
                self.stage = Stage::Descriptions;
                Unit::head(4)
            }
            Stage::Descriptions if self.is_last => {
                self.stage = Stage::Frames;
                Unit::head(0)
            }
            Stage::Descriptions => self.description(bytes),
            Stage::Frames => self.frame(bytes),
        }
    }

    fn description(&mut self, bytes: &[u8]) -> Unit {
        let Some(head) = bytes.get(..4) else { return Unit::Part };
        let length = usize::from(head[1]) << 16 | usize::from(head[2]) << 8 | usize::from(head[3]);
        let mut read = 4;
        if head[0] & 127 == 0 {
            let Some(fields) = bytes.get(4..17) else { return Unit::Part };
            self.rate = u32::from(fields[10]) << 12 | u32::from(fields[11]) << 4 | u32::from(fields[12]) >> 4;
            read = 17.min(4 + length);
        }
        self.is_last = head[0] & 128 != 0;
        self.skip = 4 + length - read;
        Unit::head(read)
    }

    /// Goes on to the next head of a frame.
    fn frame(&mut self, bytes: &[u8]) -> Unit {
        let mut from = 0;
        loop {
            let found = memchr::memchr2(0xFF, MARK[0], &bytes[from..]).map(|place| from + place);
            let Some(at) = found else { return self.passed(bytes.len()) };
            let rest = &bytes[at..];
            // Another file may follow, as where a server joins its sentences.
            if rest.starts_with(&MARK) {
                let (samples, rate) = self.end();
                *self = Reader { stage: Stage::Descriptions, skip: 3, ..Reader::default() };
                return Unit::Whole { bytes: at + 1, samples, rate };
            }
            match head_of(rest) {
                _ if MARK.starts_with(&rest[..rest.len().min(MARK.len())]) => return self.passed(at),
                Ok(Some(head)) if self.fits(&head) => {
                    let ended = self.open.replace((head.samples, head.rate.unwrap_or(self.rate)));
                    self.next = head.number + if head.counts_samples { head.samples } else { 1 };
                    let (samples, rate) = ended.unwrap_or_default();
                    // At least one byte of the frame that begins goes along, or it would be found again.
                    return Unit::Whole { bytes: at + 1, samples, rate };
                }
                Err(Short) if rest.len() < MAX_FRAME_HEAD => return self.passed(at),
                _ => from = at + 1,
            }
        }
    }

    /// No head begins within so many bytes.
    fn passed(&self, bytes: usize) -> Unit {
        if bytes == 0 { Unit::Part } else { Unit::Skip(bytes) }
    }

    fn fits(&self, head: &FrameHead) -> bool {
        let rate = head.rate.unwrap_or(self.rate);
        // What joins two streams may begin its numbers anew only where no frame is open.
        rate > 0 && (self.open.is_none() || head.number == self.next)
    }
}

/// More bytes are needed.
struct Short;

fn head_of(bytes: &[u8]) -> Result<Option<FrameHead>, Short> {
    let [_, second, third, fourth, first, ..] = *bytes else { return Err(Short) };
    if second & 0xFE != 0xF8 || fourth & 1 != 0 || third >> 4 == 0 || third & 15 == 15 || fourth >> 4 > 10 {
        return Ok(None);
    }
    let further = match first.leading_ones() {
        0 => 0,
        ones @ 2..=7 => ones as usize - 1,
        _ => return Ok(None),
    };
    let mut number = u64::from(first) & (0x7F_u64 >> first.leading_ones().min(7));
    let mut at = 5;
    for byte in bytes.get(at..at + further).ok_or(Short)? {
        if byte & 0xC0 != 0x80 {
            return Ok(None);
        }
        number = number << 6 | u64::from(byte & 0x3F);
    }
    at += further;
    let mut take = |count: usize| -> Result<u32, Short> {
        let field = bytes.get(at..at + count).ok_or(Short)?;
        at += count;
        Ok(field.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
    };
    let samples = match third >> 4 {
        1 => 192,
        code @ 2..=5 => 576 << (code - 2),
        6 => take(1)? + 1,
        7 => take(2)? + 1,
        code => 256 << (code - 8),
    };
    let rate = match third & 15 {
        0 => None,
        12 => Some(take(1)? * 1_000),
        13 => Some(take(2)?),
        14 => Some(take(2)? * 10),
        code => SAMPLE_RATES.get(usize::from(code)).copied(),
    };
    let sum = *bytes.get(at).ok_or(Short)?;
    if checksum(&bytes[..at]) != sum {
        return Ok(None);
    }
    Ok(Some(FrameHead { samples: u64::from(samples), rate, number, counts_samples: second & 1 != 0 }))
}

/// CRC of 8 bits by x^8 + x^2 + x + 1.
fn checksum(bytes: &[u8]) -> u8 {
    let shifted = |sum: u8| if sum & 128 == 0 { sum << 1 } else { sum << 1 ^ 7 };
    bytes.iter().fold(0, |sum, byte| (0..8).fold(sum ^ byte, |sum, _| shifted(sum)))
}
