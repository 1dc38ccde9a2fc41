//! Sound that is sent to be transcribed: files, or noise that is made up.
//!
//! Made-up sound says nothing: it loads an engine as its length does, and its transcript means nothing. Invariant: the same seed makes the same
//! sound, and every clip has a length.

use crate::bad_input::hash_bytes;
use bytes::Bytes;
use std::ops::Range;
use tokrate_core::{Rng, Span};
use tokrate_wire::sound::{Wav, made_up};

/// Different clips of each length: as many as keep caches from finding one again at once.
const CLIPS_OF_LENGTH: u64 = 8;

/// Sound that requests take in turns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Clips {
    clips: Vec<Clip>,
    /// What it is, as a condition of the result.
    name: String,
}

/// One of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Clip {
    /// Name of the file.
    pub name: String,
    /// A WAV file.
    pub file: Bytes,
    /// How long it plays.
    pub plays: Span,
    /// What is said in it, if somebody knows.
    pub text: Option<String>,
    /// Where its samples are, and how many are played a second.
    samples: Range<usize>,
    rate: u32,
}

impl Clip {
    /// A file and what is said in it.
    ///
    /// # Errors
    /// Why it is no WAV file with sound.
    pub fn of_file(name: String, file: Vec<u8>, text: Option<String>) -> Result<Clip, &'static str> {
        let Wav { plays, rate, mono } = Wav::read(&file)?;
        Ok(Clip { name, file: Bytes::from(file), plays, text, samples: mono.unwrap_or_default(), rate })
    }
}

impl Clip {
    /// Its samples, of 16 bits on one channel; none of a file that has others.
    pub fn samples(&self) -> &[u8] {
        &self.file[self.samples.clone()]
    }

    /// Samples a second.
    pub fn rate(&self) -> u32 {
        self.rate
    }
}

impl Clips {
    /// Those of files, in that order.
    ///
    /// # Panics
    /// If there is none.
    pub fn of_files(clips: Vec<Clip>) -> Clips {
        assert!(!clips.is_empty(), "who reads files refuses an empty list");
        let sum = clips.iter().fold(0_u64, |sum, clip| sum.rotate_left(5) ^ hash_bytes(&clip.file));
        let name = format!("{} files of {:.1} s ({:08x})", clips.len(), mean_seconds(&clips), sum >> 32);
        Clips { clips, name }
    }

    /// Made-up sound of these lengths (s), several clips of each.
    pub fn synthetic(seconds: &[f64], rate: u32, rng: &Rng) -> Clips {
        let clip = |number: u64| {
            let seconds = seconds[(number % seconds.len().max(1) as u64) as usize];
            let file = made_up(Span::from_secs_f64(seconds), rate, &mut rng.child("clips").nth(number));
            Clip::of_file(format!("clip-{number}.wav"), file, None).expect("it was just made")
        };
        let clips = (0..CLIPS_OF_LENGTH * seconds.len() as u64).map(clip).collect();
        let lengths: Vec<String> = seconds.iter().map(f64::to_string).collect();
        Clips { clips, name: format!("synthetic sound of {} s", lengths.join(", ")) }
    }

    /// What it is, as a condition of the result.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// That of a request.
    pub fn of(&self, number: u64) -> &Clip {
        &self.clips[(number % self.clips.len() as u64) as usize]
    }
}

fn mean_seconds(clips: &[Clip]) -> f64 {
    clips.iter().map(|clip| clip.plays.as_secs_f64()).sum::<f64>() / clips.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_wire::sound::HEARD_RATE;

    #[test]
    fn made_up_sound_follows_from_its_seed_and_has_its_lengths_in_turns() {
        let clips = Clips::synthetic(&[0.5, 1.0], HEARD_RATE, &Rng::root(3));
        assert_eq!(clips, Clips::synthetic(&[0.5, 1.0], HEARD_RATE, &Rng::root(3)));
        assert_ne!(clips.of(0).file, Clips::synthetic(&[0.5, 1.0], HEARD_RATE, &Rng::root(4)).of(0).file);
        assert_ne!(clips.of(0).file, clips.of(2).file, "each is another");
        let lengths = [0, 1, 2, 16].map(|number| clips.of(number).plays.as_secs_f64());
        assert_eq!(lengths, [0.5, 1.0, 0.5, 0.5]);
        assert_eq!(clips.name(), "synthetic sound of 0.5, 1 s");
        let loud =
            clips.of(0).file[44..].chunks(2).map(|two| i16::from_le_bytes([two[0], two[1]]).unsigned_abs()).max();
        assert!(loud.is_some_and(|loud| loud > 200), "{loud:?}");
    }

    #[test]
    fn files_are_sound_and_their_content_is_a_condition() {
        let file = Clips::synthetic(&[1.0], HEARD_RATE, &Rng::root(1)).of(0).file.to_vec();
        let clip = Clip::of_file("a.wav".to_owned(), file.clone(), Some("One".to_owned())).expect("sound");
        assert_eq!((clip.plays, clip.text.as_deref()), (Span::from_secs(1), Some("One")));
        assert!(Clip::of_file("b.wav".to_owned(), b"RIFF".to_vec(), None).is_err());
        let mut other = file;
        other[5_000] ^= 1;
        let other = Clip::of_file("a.wav".to_owned(), other, None).expect("sound");
        let (one, two) = (Clips::of_files(vec![clip]), Clips::of_files(vec![other]));
        assert!(one.name().starts_with("1 files of 1.0 s (") && one.name() != two.name());
    }
}
