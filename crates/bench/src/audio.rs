//! Speech of texts, and transcripts of sound: what requests ask for, and what each row knows of it.
//!
//! Invariant: everything that changes what the engine does is among the options that the conditions name.

mod clips;
mod words;

pub use clips::{Clip, Clips};

use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderValue};
use std::sync::Arc;
use tokrate_core::{SoundFormat, Span};
use tokrate_meter::{RequestNumbers, RequestTrace};
use tokrate_probe::AudioDecoder;
use tokrate_record::MediaAmounts;
use tokrate_wire::realtime::turn::{Said, realtime_path};
use tokrate_wire::speech::{PCM_RATE, SPEECH_PATH, SoundDelivery, SpeechDecoder, SpeechRequest};
use tokrate_wire::transcription::{
    FORM_CONTENT_TYPE, TRANSCRIPTION_PATH, TranscriptForm, TranscriptionDecoder, TranscriptionRequest,
};

/// Characters of slow speech in a second; people and most voices say 12 to 16.
const SLOW_CHARACTERS_PER_SECOND: f64 = 8.0;
/// The longest turn of OpenAI's realtime sessions.
const LONGEST_TURN_TOKENS: u64 = 4_096;
/// The same as sound, of which 20 tokens are a second.
const LONGEST_TURN: Span = Span::from_secs(205);
/// Tokens of a transcript for a second of sound: quick speech has 3 words, of 1.3 tokens.
const HEARD_TOKENS_PER_SECOND: f64 = 5.0;

/// What is asked for that is sound, or is made of sound.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AudioTask {
    /// Texts are said.
    Speech(Speech),
    /// Sound is transcribed.
    Transcription(Transcription),
    /// Turns of realtime sessions.
    Realtime(Realtime),
}

/// How texts are to be said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Speech {
    /// Whose voice.
    pub voice: String,
    /// How the sound is to be written.
    pub format: SoundFormat,
    /// How it is to come.
    pub delivery: SoundDelivery,
    /// Samples a second of sound without a head.
    pub pcm_rate: u32,
}

/// What is to be transcribed, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transcription {
    /// The sound.
    pub clips: Arc<Clips>,
    /// In what the transcript is to come.
    pub form: TranscriptForm,
    /// Whether it is to come as it is made.
    pub stream: bool,
}

/// What is said in a session, and how it is to answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Realtime {
    /// Sound that is said; text of the prompts without any.
    pub clips: Option<Arc<Clips>>,
    /// Whether answers are said, and not only written.
    pub wants_sound: bool,
    /// Whose voice.
    pub voice: String,
}

/// What a request is made of besides the task.
pub(crate) struct AudioInput<'a> {
    pub model: &'a str,
    /// Number of the prompt.
    pub number: u64,
    /// The prompt as one text.
    pub text: &'a dyn Fn() -> String,
    /// Further body fields: name and JSON text.
    pub extra: &'a [(String, String)],
}

impl AudioTask {
    /// The task's name.
    pub fn name(&self) -> &'static str {
        match self {
            AudioTask::Speech(_) => "speech",
            AudioTask::Transcription(_) => "transcription",
            AudioTask::Realtime(_) => "realtime",
        }
    }

    /// Path of the endpoint, to be appended to the base URL.
    pub(crate) fn path(&self, model: &str) -> String {
        match self {
            AudioTask::Speech(_) => SPEECH_PATH.to_owned(),
            AudioTask::Transcription(_) => TRANSCRIPTION_PATH.to_owned(),
            AudioTask::Realtime(_) => realtime_path(model),
        }
    }

    /// Options that change what an engine does.
    pub(crate) fn options(&self) -> String {
        match self {
            AudioTask::Speech(Speech { voice, format, delivery, pcm_rate }) => {
                let events = if *delivery == SoundDelivery::Events { " stream_format=sse" } else { "" };
                let is_usual = *format != SoundFormat::Pcm || *pcm_rate == PCM_RATE;
                let rate = if is_usual { String::new() } else { format!(" sample_rate={pcm_rate}") };
                format!("voice={voice} format={}{rate}{events}", format.name())
            }
            AudioTask::Transcription(Transcription { form, .. }) => match form {
                TranscriptForm::Json => "format=json".to_owned(),
                TranscriptForm::VerboseJson => "format=verbose_json".to_owned(),
            },
            AudioTask::Realtime(Realtime { wants_sound, voice, .. }) => match wants_sound {
                true => format!("output=audio voice={voice}"),
                false => "output=text".to_owned(),
            },
        }
    }

    /// What is sent in place of prompts, as a condition of the result.
    pub(crate) fn input(&self) -> Option<&str> {
        match self {
            AudioTask::Speech(_) => None,
            AudioTask::Transcription(Transcription { clips, .. }) => Some(clips.name()),
            AudioTask::Realtime(Realtime { clips, .. }) => clips.as_ref().map(|clips| clips.name()),
        }
    }

    /// How much sound a request brings, and how much may come.
    pub(crate) fn amounts(&self, number: u64, characters: &dyn Fn() -> u64) -> MediaAmounts {
        match self {
            AudioTask::Speech(_) => {
                let characters = characters();
                let sound_out = Span::from_secs_f64(characters as f64 / SLOW_CHARACTERS_PER_SECOND);
                MediaAmounts { characters, sound_out, ..MediaAmounts::default() }
            }
            AudioTask::Transcription(Transcription { clips, .. }) => {
                MediaAmounts { sound_in: clips.of(number).plays, ..MediaAmounts::default() }
            }
            AudioTask::Realtime(Realtime { clips, wants_sound, .. }) => MediaAmounts {
                sound_in: clips.as_ref().map_or(Span::ZERO, |clips| clips.of(number).plays),
                sound_out: if *wants_sound { LONGEST_TURN } else { Span::ZERO },
                ..MediaAmounts::default()
            },
        }
    }

    /// Tokens of text that may come back, which nobody asks for by their number.
    pub(crate) fn output_tokens_at_most(&self, number: u64) -> u64 {
        match self {
            AudioTask::Speech(_) => 0,
            AudioTask::Transcription(Transcription { clips, .. }) => {
                (clips.of(number).plays.as_secs_f64() * HEARD_TOKENS_PER_SECOND).ceil() as u64
            }
            AudioTask::Realtime(_) => LONGEST_TURN_TOKENS,
        }
    }

    /// Sets headers that belong to the body.
    pub(crate) fn set_headers(&self, headers: &mut HeaderMap) {
        match self {
            AudioTask::Speech(_) | AudioTask::Realtime(_) => {}
            AudioTask::Transcription(_) => {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static(FORM_CONTENT_TYPE));
            }
        }
    }

    /// The body of a request.
    pub(crate) fn encode(&self, input: &AudioInput<'_>) -> Bytes {
        let AudioInput { model, number, text, extra } = *input;
        Bytes::from(match self {
            AudioTask::Speech(speech) => {
                let Speech { voice, format, delivery, .. } = speech;
                let (format, delivery) = (*format, *delivery);
                SpeechRequest { model, input: &text(), voice, format, delivery, extra }.encode()
            }
            AudioTask::Transcription(Transcription { clips, form, stream }) => {
                let clip = clips.of(number);
                let (file, file_name, form, stream) = (&clip.file, &clip.name, *form, *stream);
                TranscriptionRequest { model, file, file_name, form, stream, extra }.encode()
            }
            // A line for each event.
            AudioTask::Realtime(Realtime { clips, .. }) => match clips {
                Some(clips) => Said::Sound(clips.of(number).samples()).events().join("\n").into_bytes(),
                None => Said::Text(&text()).events().join("\n").into_bytes(),
            },
        })
    }

    /// What reads the answer.
    pub(crate) fn decoder(&self) -> Option<AudioDecoder> {
        Some(match self {
            AudioTask::Speech(Speech { format, delivery, pcm_rate, .. }) => {
                AudioDecoder::Speech(SpeechDecoder::new(*format, *delivery, *pcm_rate))
            }
            AudioTask::Transcription(Transcription { stream, .. }) => {
                AudioDecoder::Transcription(TranscriptionDecoder::new(*stream))
            }
            AudioTask::Realtime(_) => return None,
        })
    }

    /// Adds to a row what was asked of it, and how much of the transcript is wrong.
    pub(crate) fn describe(
        &self,
        number: u64,
        text: &dyn Fn() -> String,
        trace: &RequestTrace,
        row: &mut RequestNumbers,
    ) {
        let is_answered = row.is_answered();
        let audio = row.audio.get_or_insert_default();
        audio.opened_ns = trace.opened.map(Span::as_nanos);
        match self {
            AudioTask::Realtime(Realtime { clips, .. }) => {
                audio.heard_ns = clips.as_ref().map(|clips| clips.of(number).plays.as_nanos());
                // What was said before the turn is no sound that its time is held against.
                if audio.bytes == 0 {
                    audio.plays_ns = Some(0);
                }
            }
            AudioTask::Speech(_) => audio.characters = Some(text().chars().count() as u64),
            AudioTask::Transcription(Transcription { clips, .. }) => {
                let clip = clips.of(number);
                audio.heard_ns = Some(clip.plays.as_nanos());
                if let Some(said) = clip.text.as_ref().filter(|_| is_answered) {
                    let (words, errors) = words::errors(said, &trace.answer());
                    (audio.words, audio.word_errors) = (Some(words), Some(errors));
                }
            }
        }
    }
}
