//! Sound as an engine makes it: a token is 80 ms of a tone or of silence, in every format that speech is asked for in.
//!
//! Invariant: players of the formats play what is written here, and it plays as long as its tokens, the last frame filled up.

mod frames;
mod ogg;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokrate_core::{Channel, SoundFormat, Usage};
use tokrate_sim::Emitted;
use tokrate_wire::sound::wav_head;
use tokrate_wire::speech::SoundDelivery;

/// Samples a second.
pub(crate) const SOUND_RATE: u32 = 24_000;
/// Samples of a token: 80 ms, as those of codecs at 12.5 tokens a second.
pub(crate) const TOKEN_SAMPLES: u32 = 1_920;
/// Characters that are said in a second.
const CHARACTERS_A_SECOND: u64 = 15;
/// Samples from one end of the tone to the other.
const TONE_SAMPLES: u64 = 50;

/// Tokens that a text takes to say.
pub(crate) fn tokens_of(text: &str) -> u32 {
    let samples = text.chars().count() as u64 * u64::from(SOUND_RATE) / CHARACTERS_A_SECOND;
    u32::try_from(samples.div_ceil(u64::from(TOKEN_SAMPLES))).unwrap_or(u32::MAX).max(1)
}

/// The sample of a place: a tone that every machine computes alike.
pub(crate) fn sample(place: u64) -> i16 {
    let (phase, step) = (place % (2 * TONE_SAMPLES), 320);
    let height = if phase < TONE_SAMPLES { phase } else { 2 * TONE_SAMPLES - phase };
    height as i16 * step - TONE_SAMPLES as i16 * step / 2
}

/// Writes the sound of an answer.
pub(crate) struct SoundWriter {
    format: SoundFormat,
    delivery: SoundDelivery,
    /// Samples that were said, and those of them that are written.
    said: u64,
    written: u64,
    /// Frames, or pages, that are written.
    frames: u64,
    usage: Option<Usage>,
}

impl SoundWriter {
    pub(crate) fn new(format: SoundFormat, delivery: SoundDelivery) -> SoundWriter {
        SoundWriter { format, delivery, said: 0, written: 0, frames: 0, usage: None }
    }

    pub(crate) fn content_type(&self) -> &'static str {
        match (self.delivery, self.format) {
            (SoundDelivery::Events, _) => "text/event-stream",
            (_, SoundFormat::Pcm | SoundFormat::Other) => "audio/pcm",
            (_, SoundFormat::Wav) => "audio/wav",
            (_, SoundFormat::Mp3) => "audio/mpeg",
            (_, SoundFormat::Opus) => "audio/ogg",
            (_, SoundFormat::Flac) => "audio/flac",
            (_, SoundFormat::Aac) => "audio/aac",
        }
    }

    /// Appends what an emission is as sound, possibly nothing.
    pub(crate) fn write(&mut self, what: Emitted, bytes: &mut Vec<u8>) {
        let mut sound = Vec::new();
        match what {
            Emitted::Role => self.head(&mut sound),
            Emitted::Text { channel: Channel::Answer, words } => {
                self.said += u64::from(words.count() * TOKEN_SAMPLES);
                self.encode(false, &mut sound);
            }
            Emitted::Finish(_) => self.encode(true, &mut sound),
            Emitted::Usage(usage) => self.usage = Some(usage),
            Emitted::Done if self.delivery == SoundDelivery::Events => {
                let usage = self.usage.map(|usage| {
                    let (input, output) = (usage.input.unwrap_or(0), usage.output.unwrap_or(0));
                    json!({"input_tokens": input, "output_tokens": output, "total_tokens": input + output})
                });
                push_event(&json!({"type": "speech.audio.done", "usage": usage}), bytes);
            }
            Emitted::Failed { message } if self.delivery == SoundDelivery::Events => {
                push_event(&json!({"type": "error", "error": {"message": message}}), bytes);
            }
            _ => {}
        }
        match self.delivery {
            SoundDelivery::Body => bytes.extend_from_slice(&sound),
            SoundDelivery::Events if sound.is_empty() => {}
            SoundDelivery::Events => {
                push_event(&json!({"type": "speech.audio.delta", "audio": STANDARD.encode(&sound)}), bytes);
            }
        }
    }

    fn head(&mut self, out: &mut Vec<u8>) {
        match self.format {
            SoundFormat::Wav => out.extend_from_slice(&wav_head(SOUND_RATE, None)),
            SoundFormat::Flac => frames::push_flac_head(out),
            SoundFormat::Opus => {
                ogg::push_heads(out);
                self.frames = 2;
            }
            SoundFormat::Pcm | SoundFormat::Mp3 | SoundFormat::Aac | SoundFormat::Other => {}
        }
    }

    /// Writes the frames that are full, and the last one.
    fn encode(&mut self, is_last: bool, out: &mut Vec<u8>) {
        let size = match self.format {
            SoundFormat::Mp3 => frames::MP3_SAMPLES,
            SoundFormat::Aac => frames::AAC_SAMPLES,
            _ => u64::from(TOKEN_SAMPLES),
        };
        while self.said >= self.written + size || (is_last && self.said > self.written) {
            let places = self.written..self.written + size;
            match self.format {
                SoundFormat::Mp3 => frames::push_mp3(out),
                SoundFormat::Aac => frames::push_aac(out),
                SoundFormat::Flac => frames::push_flac(self.frames, places, out),
                SoundFormat::Opus => ogg::push_page(self.frames, self.written + size, out),
                _ => places.for_each(|place| out.extend_from_slice(&sample(place).to_le_bytes())),
            }
            self.written += size;
            self.frames += 1;
        }
        if is_last && self.format == SoundFormat::Opus {
            ogg::push_end(self.frames, self.written, out);
        }
    }
}

fn push_event(event: &Value, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(format!("data: {event}\n\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_wire::sound::SoundReader;

    #[test]
    fn what_is_written_plays_as_long_as_its_tokens_in_every_format() {
        for format in SoundFormat::ALL {
            let mut writer = SoundWriter::new(format, SoundDelivery::Body);
            let mut bytes = Vec::new();
            writer.head(&mut bytes);
            for _ in 0..13 {
                writer.said += u64::from(TOKEN_SAMPLES);
                writer.encode(false, &mut bytes);
            }
            writer.encode(true, &mut bytes);
            let mut reader = SoundReader::new(format, SOUND_RATE);
            for piece in bytes.chunks(700) {
                reader.push(piece);
            }
            let plays = reader.end().plays.expect("it is known").as_millis_f64();
            assert_eq!(reader.format(), format);
            let filled = match format {
                SoundFormat::Mp3 => 44.0 * 24.0,
                SoundFormat::Aac => 25.0 * 1_024.0 / 24.0,
                _ => 13.0 * 80.0,
            };
            assert!((plays - filled).abs() < 1e-3, "{format:?}: {plays} {filled}");
        }
    }

    #[test]
    fn a_text_takes_a_fifteenth_of_a_second_for_each_character() {
        assert_eq!([tokens_of(""), tokens_of("a"), tokens_of(&"a".repeat(150))], [1, 1, 125]);
        assert!((0..100).all(|place| sample(place) == sample(place + 100)) && sample(0) == -sample(50));
    }
}
