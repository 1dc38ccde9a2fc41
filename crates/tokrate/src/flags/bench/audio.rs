//! Flags of `tokrate bench` that say what sound is asked for. Nothing is resolved or checked here beyond its form.

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use tokrate_core::SoundFormat;

/// Sound that is asked for, or sent.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Sound")]
pub struct Audio {
    /// Who says it with --task speech or realtime [default: alloy]
    #[arg(long, value_name = "NAME")]
    pub voice: Option<String>,
    /// How the sound of --task speech is written [default: pcm]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub audio_format: Option<AudioFormat>,
    /// How it comes: as the body, or in server-sent events [default: audio]
    #[arg(long, value_enum, value_name = "FORM")]
    pub stream_format: Option<StreamFormat>,
    /// Samples a second of --audio-format pcm, which has no head that says so [default: 24000]
    #[arg(long, allow_negative_numbers = true, value_name = "N")]
    pub sample_rate: Option<u32>,
    /// Sound that is sent with --task transcription or realtime: a WAV file, or a folder of them; a .txt of the same name says what is said in it
    #[arg(long, value_name = "FILE", conflicts_with = "audio_seconds")]
    pub audio: Option<PathBuf>,
    /// Lengths of made-up sound that is sent, in turns; it says nothing, and its transcript means nothing [default: 10; realtime: text is sent]
    #[arg(long, value_name = "SECONDS,…", value_delimiter = ',')]
    pub audio_seconds: Option<Vec<f64>>,
    /// In what the transcript comes [default: json]
    #[arg(long, value_enum, value_name = "FORM")]
    pub transcript_format: Option<TranscriptFormat>,
    /// How --task realtime answers [default: audio]
    #[arg(long, value_enum, value_name = "KIND")]
    pub output_modality: Option<OutputModality>,
}

/// How sound is written: one of the formats that can be asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AudioFormat(pub SoundFormat);

const AUDIO_FORMATS: [AudioFormat; SoundFormat::ALL.len()] = {
    let mut formats = [AudioFormat(SoundFormat::Pcm); SoundFormat::ALL.len()];
    let mut place = 0;
    while place < formats.len() {
        formats[place] = AudioFormat(SoundFormat::ALL[place]);
        place += 1;
    }
    formats
};

impl ValueEnum for AudioFormat {
    fn value_variants<'a>() -> &'a [AudioFormat] {
        &AUDIO_FORMATS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()).help(self.0.words()))
    }
}

/// How sound comes.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamFormat {
    /// The body is the sound
    Audio,
    /// Server-sent events hold it
    Sse,
}

/// In what a transcript comes.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
#[value(rename_all = "snake_case")]
pub enum TranscriptFormat {
    /// JSON with the text
    Json,
    /// JSON with the text and when each part of it was said
    VerboseJson,
}

/// How a realtime session answers.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputModality {
    /// With sound and a transcript of it
    Audio,
    /// With text
    Text,
}
