//! MPEG audio of layers II and III: each frame's head says how long it is and how many samples it holds.
//!
//! Invariant: tags and the frame that only describes the others are no sound. What an encoder puts before and behind the sound is none either
//! where that frame says how much it is (LAME's tag, which ffmpeg writes too); in a file without one it is counted, as players without knowledge
//! of it play it.

use super::Unit;

/// Kilobits a second by version and layer.
const RATES_1_II: [u32; 15] = [0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384];
const RATES_1_III: [u32; 15] = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320];
const RATES_2: [u32; 15] = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160];
const SAMPLE_RATES: [u32; 3] = [44_100, 48_000, 32_000];
/// Bytes of a tag at the end of a file.
const TAG_BYTES: usize = 128;

#[derive(Clone, Debug)]
pub(super) struct Reader {
    /// Bytes of a tag at the beginning that are still to come.
    tag: usize,
    begun: bool,
    /// What the file says of its frames; none of those that it does not speak of.
    trim: Trim,
    /// Samples of the frames so far.
    read: u64,
}

/// What of a file's samples is no sound.
#[derive(Clone, Copy, Debug, Default)]
struct Trim {
    /// Samples before it.
    front: u64,
    /// Samples up to its end, and up to the end of what the file speaks of.
    end: u64,
    all: u64,
}

/// Samples by which every decoder is late (the delay of the filter bank, 528, and one).
const DECODER_DELAY: u64 = 529;
/// From the name of the description to where LAME's part of it begins, where all optional fields are there: flags, frames, bytes, table, quality.
const FIELDS: [usize; 4] = [4, 4, 100, 4];
/// From there to the delay and padding: name and version of the encoder, settings.
const TO_DELAY: usize = 21;

impl Trim {
    /// By the frame that describes the others; `at` is where its description begins, `samples` what a frame holds.
    fn of(frame: &[u8], at: usize, samples: u64) -> Option<Trim> {
        let number = |at: usize| Some(u32::from_be_bytes(frame.get(at..at + 4)?.try_into().ok()?));
        let flags = number(at + 4)?;
        let fields = FIELDS.iter().enumerate().filter(|(bit, _)| flags >> bit & 1 == 1);
        let lame = at + 8 + fields.map(|(_, bytes)| bytes).sum::<usize>();
        let [first, second, third] = *frame.get(lame + TO_DELAY..lame + TO_DELAY + 3)? else { return None };
        let (first, second, third) = (u64::from(first), u64::from(second), u64::from(third));
        let (delay, padding) = (first << 4 | second >> 4, (second & 15) << 8 | third);
        // Without the number of frames nobody knows which are the last.
        let all = if flags & 1 == 1 { u64::from(number(at + 8)?) * samples } else { 0 };
        let is_named =
            frame.get(lame..lame + 4).is_some_and(|name| name.iter().all(|letter| letter.is_ascii_graphic()));
        if !is_named || all == 0 || delay + padding >= all {
            return None;
        }
        let front = delay + DECODER_DELAY.min(padding);
        Some(Trim { front, end: all + front - delay - padding, all })
    }

    /// How much sound there is among the first samples.
    fn sound(&self, samples: u64) -> u64 {
        let within = samples.min(self.end).saturating_sub(self.front);
        within + samples.saturating_sub(self.all)
    }
}

struct Head {
    bytes: usize,
    samples: u64,
    rate: u32,
    /// Where a description of the file would stand in the frame.
    side: usize,
}

impl Reader {
    pub(super) fn new() -> Reader {
        Reader { tag: 0, begun: false, trim: Trim::default(), read: 0 }
    }

    pub(super) fn unit(&mut self, bytes: &[u8]) -> Unit {
        if self.tag > 0 && !bytes.is_empty() {
            let skipped = self.tag.min(bytes.len());
            self.tag -= skipped;
            return Unit::Skip(skipped);
        }
        let Some(first) = bytes.get(..4) else { return Unit::Part };
        if first.starts_with(b"ID3") {
            let Some(head) = bytes.get(..10) else { return Unit::Part };
            // Seven bits of each byte.
            let length = head[6..10].iter().fold(0_usize, |length, byte| length << 7 | usize::from(byte & 127));
            let footer = if head[5] & 16 == 0 { 0 } else { 10 };
            self.tag = length + footer;
            return Unit::head(10);
        }
        if first.starts_with(b"TAG") {
            return if bytes.len() < TAG_BYTES { Unit::Part } else { Unit::head(TAG_BYTES) };
        }
        let Some(head) = head_of(first) else { return Unit::Skip(1) };
        let Some(frame) = bytes.get(..head.bytes) else { return Unit::Part };
        let describes = |at: usize, name: &[u8]| frame.get(at..).is_some_and(|rest| rest.starts_with(name));
        let is_first = !std::mem::replace(&mut self.begun, true);
        if is_first && (describes(head.side, b"Xing") || describes(head.side, b"Info") || describes(36, b"VBRI")) {
            self.trim = Trim::of(frame, head.side, head.samples).unwrap_or_default();
            return Unit::head(head.bytes);
        }
        let before = self.trim.sound(self.read);
        self.read += head.samples;
        Unit::Whole { bytes: head.bytes, samples: self.trim.sound(self.read) - before, rate: head.rate }
    }
}

fn head_of(head: &[u8]) -> Option<Head> {
    let [0xFF, second, third, fourth] = *head else { return None };
    // 3 is version 1, 2 version 2, 0 its extension to lower rates.
    let (version, layer) = (second >> 3 & 3, second >> 1 & 3);
    let (is_sound, is_three) = (second & 0xE0 == 0xE0 && version != 1, layer == 1);
    if !is_sound || !(is_three || layer == 2) {
        return None;
    }
    let kilobits = match (version, is_three) {
        (3, true) => RATES_1_III,
        (3, false) => RATES_1_II,
        _ => RATES_2,
    };
    let kilobits = *kilobits.get(usize::from(third >> 4)).filter(|rate| **rate > 0)?;
    let rate = *SAMPLE_RATES.get(usize::from(third >> 2 & 3))? >> [2, 0, 1, 0][usize::from(version)];
    let samples = if is_three && version != 3 { 576 } else { 1_152 };
    let padding = u32::from(third >> 1 & 1);
    let bytes = (samples / 8) * kilobits * 1_000 / rate + padding;
    let is_mono = fourth >> 6 == 3;
    let side = match (version, is_mono) {
        (3, false) => 32,
        (3, true) | (_, false) => 17,
        (_, true) => 9,
    };
    Some(Head { bytes: bytes as usize, samples: u64::from(samples), rate, side: 4 + side })
}
