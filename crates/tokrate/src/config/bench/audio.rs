//! Speech and transcripts: which flags go with them, and which sound is sent.
//!
//! Invariant: a flag that says something of text, of vectors or of another task only is refused beside it.

use super::inputs::{Inputs, text_of};

use crate::flags::bench::{Audio, AudioFormat, Flags, OutputModality, StreamFormat, Task, TranscriptFormat};
use anyhow::{Context, Result, anyhow, bail, ensure};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokrate_bench::{AudioTask, Clip, Clips, Realtime, Speech, Target, Transcription};
use tokrate_core::{Rng, SoundFormat};
use tokrate_targets::reading;
use tokrate_wire::realtime::turn::REALTIME_RATE;
use tokrate_wire::sound::HEARD_RATE;
use tokrate_wire::speech::{PCM_RATE, SoundDelivery};
use tokrate_wire::transcription::TranscriptForm;

/// The voice where nobody names one: OpenAI's first, which other servers map to one of theirs.
const DEFAULT_VOICE: &str = "alloy";
/// Rates that sound has.
const RATES: std::ops::RangeInclusive<u32> = 4_000..=384_000;

/// Lengths of made-up sound: from a word to what servers take at once (s).
const SECONDS: std::ops::RangeInclusive<f64> = 0.1..=3_600.0;
/// That of a sentence or two.
const DEFAULT_SECONDS: f64 = 10.0;
/// Largest files together (bytes), as they are held in memory.
const MAX_AUDIO_BYTES: u64 = 1 << 30;

/// What is asked for that is sound, or is made of sound; `None` if neither is.
pub(super) fn asked(flags: &Flags, seed: u64) -> Result<Option<AudioTask>> {
    let (audio, task) = (&flags.audio, flags.request.task);
    let belongs = |flags: &[(&'static str, bool)], tasks: &[Task], names: &str| {
        let given = flags.iter().find(|(_, is_given)| *is_given);
        match given.filter(|_| !task.is_some_and(|task| tasks.contains(&task))) {
            Some((flag, _)) => bail!("read {flag}: it belongs to --task {names}; give that too"),
            None => Ok(()),
        }
    };
    belongs(&speech_flags(audio), &[Task::Speech], "speech")?;
    belongs(&[("--voice", audio.voice.is_some())], &[Task::Speech, Task::Realtime], "speech or realtime")?;
    belongs(&sound_flags(audio), &[Task::Transcription, Task::Realtime], "transcription or realtime")?;
    belongs(&[("--transcript-format", audio.transcript_format.is_some())], &[Task::Transcription], "transcription")?;
    belongs(&[("--output-modality", audio.output_modality.is_some())], &[Task::Realtime], "realtime")?;
    Ok(match task {
        Some(Task::Speech) => Some(AudioTask::Speech(speech(audio)?)),
        Some(Task::Transcription) => Some(AudioTask::Transcription(transcription(flags, seed)?)),
        Some(Task::Realtime) => Some(AudioTask::Realtime(realtime(audio, seed)?)),
        _ => None,
    })
}

fn speech(audio: &Audio) -> Result<Speech> {
    let format = audio.audio_format.map_or(SoundFormat::Pcm, |AudioFormat(format)| format);
    ensure!(
        audio.sample_rate.is_none() || format == SoundFormat::Pcm,
        "read --sample-rate: {} says its rate itself; leave it out",
        format.name()
    );
    let pcm_rate = audio.sample_rate.unwrap_or(PCM_RATE);
    ensure!(
        RATES.contains(&pcm_rate),
        "read --sample-rate: {pcm_rate} is not between {} and {}",
        RATES.start(),
        RATES.end()
    );
    let delivery = match audio.stream_format {
        None | Some(StreamFormat::Audio) => SoundDelivery::Body,
        Some(StreamFormat::Sse) => SoundDelivery::Events,
    };
    let voice = audio.voice.clone().unwrap_or_else(|| DEFAULT_VOICE.to_owned());
    Ok(Speech { voice, format, delivery, pcm_rate })
}

fn transcription(flags: &Flags, seed: u64) -> Result<Transcription> {
    let audio = &flags.audio;
    let form = match audio.transcript_format {
        None | Some(TranscriptFormat::Json) => TranscriptForm::Json,
        Some(TranscriptFormat::VerboseJson) => TranscriptForm::VerboseJson,
    };
    let clips = match clips(audio, HEARD_RATE, seed)? {
        Some(clips) => clips,
        None => Clips::synthetic(&[DEFAULT_SECONDS], HEARD_RATE, &Rng::root(seed)),
    };
    Ok(Transcription { clips: Arc::new(clips), form, stream: !flags.request.no_stream })
}

fn realtime(audio: &Audio, seed: u64) -> Result<Realtime> {
    let wants_sound = audio.output_modality != Some(OutputModality::Text);
    ensure!(
        wants_sound || audio.voice.is_none(),
        "read --voice: with --output-modality text nothing is said; leave it out"
    );
    let voice = audio.voice.clone().unwrap_or_else(|| DEFAULT_VOICE.to_owned());
    Ok(Realtime { clips: clips(audio, REALTIME_RATE, seed)?.map(Arc::new), wants_sound, voice })
}

/// The sound that is sent; made up at that rate. `None` if none was named.
fn clips(audio: &Audio, rate: u32, seed: u64) -> Result<Option<Clips>> {
    match (&audio.audio, &audio.audio_seconds) {
        (Some(path), _) => {
            let clips = clips_of(path)?;
            // A file is sent as it is where its head goes along.
            let other =
                clips.iter().find(|clip| rate == REALTIME_RATE && (clip.rate() != rate || clip.samples().is_empty()));
            if let Some(clip) = other {
                bail!(
                    "read --audio {}: a realtime session takes {rate} samples of 16 bits a second on one channel; make it that with `ffmpeg -i IN -ac 1 -ar {rate} -c:a pcm_s16le OUT.wav`",
                    clip.name
                );
            }
            Ok(Some(Clips::of_files(clips)))
        }
        (None, None) => Ok(None),
        (None, Some(seconds)) => {
            ensure!(
                !seconds.is_empty() && seconds.iter().all(|seconds| SECONDS.contains(seconds)),
                "read --audio-seconds: lengths are between {} and {} s",
                SECONDS.start(),
                SECONDS.end()
            );
            Ok(Some(Clips::synthetic(seconds, rate, &Rng::root(seed))))
        }
    }
}

/// The sound of a file, or of the WAV files of a folder in the order of their names, with the text beside each.
fn clips_of(path: &Path) -> Result<Vec<Clip>> {
    let place = || format!("read --audio {}", path.display());
    let mut files = vec![path.to_owned()];
    if path.is_dir() {
        files = std::fs::read_dir(path)
            .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>())
            .with_context(place)?;
        files.retain(|file| file.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("wav")));
        files.sort();
        ensure!(!files.is_empty(), "{}: there is no .wav file in it", place());
    }
    let mut rest = MAX_AUDIO_BYTES;
    let clip = |file: &PathBuf| {
        let place = || format!("read --audio {}", file.display());
        let bytes = reading::bytes_of(file, rest).with_context(place)?;
        rest -= bytes.len() as u64;
        let beside = file.with_extension("txt");
        let text = beside.is_file().then(|| text_of("--audio", &beside)).transpose()?;
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Clip::of_file(name, bytes, text).map_err(|why| anyhow!("{}: {why}", place()))
    };
    files.iter().map(clip).collect()
}

fn sound_flags(audio: &Audio) -> [(&'static str, bool); 2] {
    [("--audio", audio.audio.is_some()), ("--audio-seconds", audio.audio_seconds.is_some())]
}

fn speech_flags(audio: &Audio) -> [(&'static str, bool); 3] {
    [
        ("--audio-format", audio.audio_format.is_some()),
        ("--stream-format", audio.stream_format.is_some()),
        ("--sample-rate", audio.sample_rate.is_some()),
    ]
}

/// Refuses what has no meaning for sound, and endpoints that have none.
pub(super) fn check(flags: &Flags, target: &Target, task: Option<&AudioTask>, inputs: &Inputs) -> Result<()> {
    let Some(task) = task else { return Ok(()) };
    let (request, load, name) = (&flags.request, &flags.load, task.name());
    for (flag, is_given) in [
        ("--output-tokens", request.output_tokens.is_some()),
        ("--answer-column", request.answer_column.is_some()),
        ("--ignore-eos", request.ignore_eos),
        ("--max-tokens-field", request.max_tokens_field),
        ("--temperature", request.temperature.is_some()),
        ("--workload", !request.workload.is_empty()),
        ("--sessions", load.sessions.is_some() && !matches!(task, AudioTask::Realtime(_))),
        ("--refine", load.refine.is_some() && matches!(task, AudioTask::Speech(_))),
        ("--trace", inputs.trace.is_some()),
        ("--agents", inputs.agents.is_some()),
    ] {
        ensure!(
            !is_given,
            "read {flag}: it belongs to text that is written, and --task {name} asks for none; leave it out"
        );
    }
    if matches!(task, AudioTask::Transcription(_) | AudioTask::Realtime(Realtime { clips: Some(_), .. })) {
        for (flag, is_given) in [
            ("--input-tokens", request.input_tokens.is_some()),
            ("--prompts", request.prompts.is_some()),
            ("--shared-prefix", request.shared_prefix.is_some()),
        ] {
            ensure!(!is_given, "read {flag}: --task {name} sends sound and no text; leave it out");
        }
    }
    ensure!(
        !request.no_stream || matches!(task, AudioTask::Transcription(_)),
        "read --no-stream: with --task {name} the body comes as it is made; where a server has a field for it, give it with --body"
    );
    let Some(remote) = target.remote() else {
        anyhow::bail!("read --task {name}: it needs an endpoint; name one with --url, such as that of `tokrate sim`");
    };
    ensure!(
        remote.dialect.has_embeddings(),
        "read --task {name}: servers that speak {} have none beside it; use --dialect openai-chat",
        remote.dialect.name()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_speech_belong_to_it_and_a_rate_to_samples_without_a_head() {
        let read = |task, audio: Audio| {
            let mut flags = Flags { audio, ..Flags::default() };
            flags.request.task = task;
            asked(&flags, 0).map_err(|error| error.to_string())
        };
        assert_eq!(read(None, Audio::default()), Ok(None));
        let voice = Audio { voice: Some("af_heart".to_owned()), ..Audio::default() };
        assert!(
            read(Some(Task::Chat), voice)
                .is_err_and(|error| error.contains("--voice: it belongs to --task speech or realtime"))
        );
        let plain = read(Some(Task::Speech), Audio::default()).expect("all have defaults");
        let speech = Speech {
            voice: "alloy".to_owned(),
            format: SoundFormat::Pcm,
            delivery: SoundDelivery::Body,
            pcm_rate: 24_000,
        };
        assert_eq!(plain, Some(AudioTask::Speech(speech)));
        let rate = |format, rate| Audio {
            audio_format: Some(AudioFormat(format)),
            sample_rate: Some(rate),
            ..Audio::default()
        };
        let wav = read(Some(Task::Speech), rate(SoundFormat::Wav, 22_050));
        assert!(wav.is_err_and(|error| error.contains("wav says its rate itself")));
        assert!(read(Some(Task::Speech), rate(SoundFormat::Pcm, 5)).is_err_and(|error| error.contains("between 4000")));
        assert!(read(Some(Task::Speech), rate(SoundFormat::Pcm, 16_000)).is_ok());
        let long = Audio { audio_seconds: Some(vec![5.0, 4_000.0]), ..Audio::default() };
        assert!(read(Some(Task::Speech), long.clone()).is_err_and(|error| error.contains("--task transcription")));
        assert!(read(Some(Task::Transcription), long).is_err_and(|error| error.contains("between 0.1 and 3600 s")));
        let heard = read(Some(Task::Transcription), Audio::default());
        let Ok(Some(AudioTask::Transcription(heard))) = heard else { panic!("all have defaults: {heard:?}") };
        assert_eq!((heard.clips.name(), heard.stream), ("synthetic sound of 10 s", true));
    }
}
