//! How long sound plays, read from the bytes of a body as they come: samples of WAV and PCM, heads of frames of MP3, AAC and FLAC, positions of
//! Ogg's pages.
//!
//! Nothing is decoded. Invariant: the time is exact by the format's own counts, or not known and never guessed; the same bytes in any pieces
//! give the same time, and memory is bounded whatever they hold.

mod adts;
mod flac;
mod made_up;
mod mpeg;
mod ogg;
mod wav;

pub use made_up::{HEARD_RATE, made_up};
pub use wav::{Wav, wav_head, wav_length};

use tokrate_core::{SoundFormat, Span};

/// Bytes from which every format is told.
const TELLING_BYTES: usize = 4;
/// Largest unit that has to be whole to be read: a page of Ogg has at most 65,307 bytes.
const MAX_HELD_BYTES: usize = 128 * 1024;

/// What there is of sound after some bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sounded {
    /// Bytes of sound so far, heads of files left out.
    pub bytes: u64,
    /// How long it plays so far; `None` if the bytes do not say.
    pub plays: Option<Span>,
}

/// Reads a body of sound.
#[derive(Clone, Debug)]
pub struct SoundReader {
    state: State,
    /// Of samples without a head.
    pcm_rate: u32,
    asked: SoundFormat,
    held: Vec<u8>,
    length: PlayTime,
    bytes: u64,
}

#[derive(Clone, Debug)]
enum State {
    /// The format is not told yet.
    Begin,
    Pcm,
    Wav(wav::Reader),
    Frames(Frames),
    /// A format whose length is not read, or bytes that break theirs.
    Unknown(SoundFormat),
}

/// Formats of units that each say how long they are.
#[derive(Clone, Debug)]
enum Frames {
    Mpeg(mpeg::Reader),
    Ogg(ogg::Reader),
    Flac(flac::Reader),
    Adts,
}

/// What the bytes at hand begin with.
enum Unit {
    /// So many bytes that hold so many samples at that rate; none of them if they are a head.
    Whole { bytes: usize, samples: u64, rate: u32 },
    /// More bytes are needed.
    Part,
    /// So many bytes that are no unit of the format.
    Skip(usize),
    /// Its length cannot be read.
    Unknown,
}

impl Unit {
    fn head(bytes: usize) -> Unit {
        Unit::Whole { bytes, samples: 0, rate: 0 }
    }
}

/// Samples as time, exact while the rate stays.
#[derive(Clone, Copy, Debug, Default)]
struct PlayTime {
    before: u64,
    samples: u64,
    rate: u32,
}

impl PlayTime {
    fn add(&mut self, samples: u64, rate: u32) {
        if rate != self.rate {
            *self = PlayTime { before: self.span().as_nanos(), samples: 0, rate };
        }
        self.samples = self.samples.saturating_add(samples);
    }

    fn span(&self) -> Span {
        let own = if self.rate == 0 { 0 } else { u128::from(self.samples) * 1_000_000_000 / u128::from(self.rate) };
        Span::from_nanos(self.before.saturating_add(u64::try_from(own).unwrap_or(u64::MAX)))
    }
}

impl SoundReader {
    /// A reader of what was asked for; `pcm_rate` is how many samples without a head are played a second.
    pub fn new(asked: SoundFormat, pcm_rate: u32) -> SoundReader {
        let (length, held) = (PlayTime::default(), Vec::new());
        SoundReader { state: State::Begin, pcm_rate: pcm_rate.max(1), asked, held, length, bytes: 0 }
    }

    /// The format that the bytes show; that which was asked for before there are some.
    pub fn format(&self) -> SoundFormat {
        match &self.state {
            State::Begin => self.asked,
            State::Pcm => SoundFormat::Pcm,
            State::Wav(_) => SoundFormat::Wav,
            State::Frames(Frames::Mpeg(_)) => SoundFormat::Mp3,
            State::Frames(Frames::Ogg(_)) => SoundFormat::Opus,
            State::Frames(Frames::Flac(_)) => SoundFormat::Flac,
            State::Frames(Frames::Adts) => SoundFormat::Aac,
            State::Unknown(format) => *format,
        }
    }

    /// Takes bytes of the body and says what there is of sound up to them.
    pub fn push(&mut self, bytes: &[u8]) -> Sounded {
        if matches!(self.state, State::Begin) {
            self.held.extend_from_slice(bytes);
            if self.held.len() >= TELLING_BYTES {
                self.begin();
            }
        } else {
            self.take(bytes);
        }
        self.sounded()
    }

    /// The body has ended: what waited for more is looked at once more.
    pub fn end(&mut self) -> Sounded {
        if matches!(self.state, State::Begin) && !self.held.is_empty() {
            self.begin();
        }
        if let State::Frames(Frames::Flac(flac)) = &mut self.state {
            let (samples, rate) = flac.end();
            self.count(self.held.len(), samples, rate);
        }
        self.sounded()
    }

    /// How long the file says that it plays, if its head does.
    pub fn declared(&self) -> Option<Span> {
        let State::Wav(wav) = &self.state else { return None };
        wav.declared()
    }

    fn sounded(&self) -> Sounded {
        let is_known = !matches!(self.state, State::Begin | State::Unknown(_));
        Sounded { bytes: self.bytes, plays: is_known.then(|| self.length.span()) }
    }

    fn begin(&mut self) {
        let held = std::mem::take(&mut self.held);
        self.state = match told(&held) {
            Some(SoundFormat::Wav) => State::Wav(wav::Reader::new()),
            Some(SoundFormat::Opus) => State::Frames(Frames::Ogg(ogg::Reader::new())),
            Some(SoundFormat::Flac) => State::Frames(Frames::Flac(flac::Reader::new())),
            // Samples may look like the beginning of a frame.
            _ if self.asked == SoundFormat::Pcm => State::Pcm,
            Some(SoundFormat::Aac) => State::Frames(Frames::Adts),
            Some(SoundFormat::Mp3) => State::Frames(Frames::Mpeg(mpeg::Reader::new())),
            _ => State::Unknown(SoundFormat::Other),
        };
        self.take(&held);
    }

    fn take(&mut self, bytes: &[u8]) {
        match &mut self.state {
            State::Begin => {}
            State::Pcm => {
                self.bytes += bytes.len() as u64;
                self.length = PlayTime { samples: self.bytes / 2, rate: self.pcm_rate, ..self.length };
            }
            State::Wav(wav) => match wav.push(bytes) {
                Some((sound, samples, rate)) => {
                    self.bytes = sound;
                    self.length = PlayTime { before: 0, samples, rate };
                }
                None => self.give_up(bytes.len()),
            },
            State::Frames(_) => {
                self.held.extend_from_slice(bytes);
                self.read_units();
            }
            State::Unknown(_) => self.bytes += bytes.len() as u64,
        }
    }

    fn read_units(&mut self) {
        let held = std::mem::take(&mut self.held);
        let mut at = 0;
        loop {
            let State::Frames(frames) = &mut self.state else { return };
            let rest = &held[at..];
            let unit = match frames {
                Frames::Mpeg(mpeg) => mpeg.unit(rest),
                Frames::Ogg(ogg) => ogg.unit(rest),
                Frames::Flac(flac) => flac.unit(rest),
                Frames::Adts => adts::unit(rest),
            };
            match unit {
                Unit::Whole { bytes, samples, rate } => {
                    self.count(bytes, samples, rate);
                    at += bytes;
                }
                Unit::Skip(bytes) => {
                    // What stands between two heads of FLAC is the sound of the first.
                    let is_sound = matches!(frames, Frames::Flac(flac) if flac.is_open());
                    self.bytes += if is_sound { bytes as u64 } else { 0 };
                    at += bytes;
                }
                Unit::Part if rest.len() <= MAX_HELD_BYTES => break,
                Unit::Part | Unit::Unknown => return self.give_up(rest.len()),
            }
        }
        self.held = held;
        self.held.drain(..at);
    }

    fn count(&mut self, bytes: usize, samples: u64, rate: u32) {
        if samples > 0 {
            self.bytes += bytes as u64;
            self.length.add(samples, rate);
        }
    }

    fn give_up(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.state = State::Unknown(self.format());
    }
}

/// The format that bytes begin with.
fn told(bytes: &[u8]) -> Option<SoundFormat> {
    match bytes {
        [b'R', b'I', b'F', b'F', ..] => Some(SoundFormat::Wav),
        [b'O', b'g', b'g', b'S', ..] => Some(SoundFormat::Opus),
        [b'f', b'L', b'a', b'C', ..] => Some(SoundFormat::Flac),
        [b'I', b'D', b'3', ..] => Some(SoundFormat::Mp3),
        // Twelve bits of synchronisation, then the version; layer 0 is AAC's.
        [0xFF, second, ..] if second & 0xF6 == 0xF0 => Some(SoundFormat::Aac),
        [0xFF, second, ..] if second & 0xE0 == 0xE0 => Some(SoundFormat::Mp3),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
