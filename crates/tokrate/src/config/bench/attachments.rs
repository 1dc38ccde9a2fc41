//! Pictures and sound that go with prompts: which flags go with them, and where they have no place.
//!
//! Invariant: a flag that would have no effect is refused.

use super::inputs::Inputs;
use crate::config::quantity;
use crate::flags::bench::{Flags, ImageFormat, Request, Task};
use anyhow::{Context, Result, anyhow, ensure};
use std::path::Path;
use std::sync::Arc;
use tokrate_bench::{Attachments, ImagesAsked, PictureFiles, Pictures, SizeShare, Target};
use tokrate_core::Span;
use tokrate_targets::reading::{self, MAX_DATA_BYTES};
use tokrate_wire::Dialect;
use tokrate_wire::media::{MAX_SIDE, PictureFormat};

/// Size of an image where nobody names one: a million pixels, to which most models scale larger ones down.
const DEFAULT_SIZE: SizeShare = SizeShare { width: 1024, height: 1024, weight: 1.0 };
/// More images than APIs take in a request (Anthropic 100, Gemini 3,000 of which each is a file).
const MAX_IMAGES: u32 = 1_000;
/// More images than a pool can be held to.
const MAX_POOL: u32 = 1_000_000;
/// The longest sound of a request: Gemini takes 9.5 hours, and an hour of it is 154 MB of base64.
const MAX_SOUND: Span = Span::from_secs(3_600);

/// Most images before each is done: OpenAI's limit.
const MAX_PARTIAL: u32 = 3;

/// Which images are asked for, if they are.
pub(super) fn made(flags: &Request) -> Result<Option<ImagesAsked>> {
    if flags.task != Some(Task::Images) {
        return Ok(None);
    }
    let partial = flags.attached.partial_images;
    ensure!(
        partial.is_none_or(|partial| partial <= MAX_PARTIAL),
        "read --partial-images: servers send at most {MAX_PARTIAL} before an image is done"
    );
    Ok(Some(ImagesAsked { sizes: sizes(flags.attached.image_size.as_deref())?, partial }))
}

/// What goes with the prompts, if anything does.
pub(super) fn asked(flags: &Flags, target: &Target, inputs: &Inputs) -> Result<Option<Arc<Attachments>>> {
    let attached = &flags.request.attached;
    let (images, sound) = (attached.images.as_deref(), attached.audio_input.as_deref());
    let makes = flags.request.task == Some(Task::Images);
    ensure!(
        makes || attached.partial_images.is_none(),
        "read --partial-images: it belongs to --task images; give that too"
    );
    for (flag, is_given) in [
        ("--image-size", attached.image_size.is_some() && !makes),
        ("--image-format", attached.image_format.is_some()),
        ("--images-from", attached.images_from.is_some()),
        ("--images-shared", attached.images_shared.is_some()),
    ] {
        ensure!(images.is_some() || !is_given, "read {flag}: say how many images a request has with --images");
    }
    ensure!(
        attached.images_shared.is_some() || attached.image_pool.is_none(),
        "read --image-pool: say which share of the images comes from it with --images-shared, such as 50%"
    );
    if images.is_none() && sound.is_none() {
        return Ok(None);
    }
    let flag = if images.is_some() { "--images" } else { "--audio-input" };
    if let Some(task) = flags.request.task.filter(|task| !task.is_of_chat()) {
        anyhow::bail!("read {flag}: --task {} takes no images and no sound; leave it out", task.name());
    }
    for (other, is_given) in [("--sessions", flags.load.sessions.is_some()), ("--agents", inputs.agents.is_some())] {
        ensure!(!is_given, "read {other}: {flag} belongs to requests that stand alone, and not to turns; leave it out");
    }
    let dialect = target.remote().map_or(Dialect::OpenAiChat, |remote| remote.dialect);
    let counts = counts(images, dialect)?;
    let pool = attached.image_pool.unwrap_or(1);
    ensure!((1..=MAX_POOL).contains(&pool), "read --image-pool: {pool} is not between 1 and {MAX_POOL}");
    let pictures = match &attached.images_from {
        Some(folder) => Pictures::Files(files(folder)?),
        None => Pictures::Made(sizes(attached.image_size.as_deref())?, format(attached.image_format)),
    };
    let sounds = sound.map_or_else(|| Ok(Vec::new()), |lengths| sounds(lengths, dialect))?;
    Ok(Some(Arc::new(Attachments { counts, pictures, shared: attached.images_shared.unwrap_or(0.0), pool, sounds })))
}

fn counts(images: Option<&[u32]>, dialect: Dialect) -> Result<Vec<u32>> {
    let Some(counts) = images else { return Ok(vec![0]) };
    ensure!(
        !counts.is_empty() && counts.iter().all(|count| *count <= MAX_IMAGES) && counts.iter().any(|count| *count > 0),
        "read --images: a request has from 1 to {MAX_IMAGES} of them; 0 stands beside other numbers only"
    );
    ensure!(
        dialect.has_images(),
        "read --images: {} has no place for images; use another --dialect, such as openai-chat",
        dialect.name()
    );
    Ok(counts.to_vec())
}

fn format(asked: Option<ImageFormat>) -> PictureFormat {
    match asked {
        None | Some(ImageFormat::Png) => PictureFormat::Png,
        Some(ImageFormat::Jpeg) => PictureFormat::Jpeg,
    }
}

fn sizes(asked: Option<&[String]>) -> Result<Vec<SizeShare>> {
    let Some(asked) = asked else { return Ok(vec![DEFAULT_SIZE]) };
    let size = |text: &String| -> Option<SizeShare> {
        let (sides, weight) = text.split_once(':').unwrap_or((text, "1"));
        let (width, height) = sides.trim().split_once(['x', 'X', '*'])?;
        let side = |text: &str| text.trim().parse().ok().filter(|side| (1..=MAX_SIDE).contains(side));
        let weight = weight.trim().parse().ok().filter(|weight: &f64| weight.is_finite() && *weight > 0.0)?;
        Some(SizeShare { width: side(width)?, height: side(height)?, weight })
    };
    let read = |text| {
        size(text).ok_or_else(|| {
            anyhow!("read --image-size: `{text}` is not WIDTHxHEIGHT[:WEIGHT] with sides from 1 to {MAX_SIDE} pixels, such as 512x512:3")
        })
    };
    ensure!(!asked.is_empty(), "read --image-size: name one, such as 1024x1024");
    asked.iter().map(read).collect()
}

fn sounds(lengths: &[String], dialect: Dialect) -> Result<Vec<Span>> {
    ensure!(
        tokrate_wire::media::sound_part(dialect, "").is_some(),
        "read --audio-input: {} has no place for sound; use --dialect openai-chat or gemini",
        dialect.name()
    );
    let length = |text: &String| {
        let length = quantity::span(text).context("read --audio-input")?;
        ensure!(
            length > Span::ZERO && length <= MAX_SOUND,
            "read --audio-input: `{text}` is not more than 0 s and at most 1 h; write for example 5s"
        );
        Ok(length)
    };
    ensure!(!lengths.is_empty(), "read --audio-input: name a length, such as 5s");
    lengths.iter().map(length).collect()
}

/// The images of a folder, in the order of their names. Hidden files and folders in it are left out.
fn files(folder: &Path) -> Result<PictureFiles> {
    let place = || format!("read --images-from {}", folder.display());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(place)? {
        let path = entry.with_context(place)?.path();
        let is_hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        if path.is_file() && !is_hidden {
            paths.push(path);
        }
    }
    paths.sort();
    let mut left = MAX_DATA_BYTES;
    let mut files = Vec::new();
    for path in paths {
        let bytes = reading::bytes_of(&path, left).with_context(place)?;
        left = left.saturating_sub(bytes.len() as u64);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        files.push((name, bytes));
    }
    let name = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy();
    PictureFiles::new(&name, &files).map_err(|why| anyhow!("{}: {why}", place()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::bench::resolve;
    use crate::config::environment::Environment;
    use crate::config::file::File;
    use clap::{Args, FromArgMatches};

    fn resolved(line: &str) -> Result<String, String> {
        let command = Flags::augment_args(clap::Command::new("bench"));
        let matches = command.try_get_matches_from(["bench"].into_iter().chain(line.split_whitespace()));
        let flags = Flags::from_arg_matches(&matches.map_err(|error| error.to_string())?).expect("flags");
        let resolved = resolve(&flags, &Environment::default(), &File::default());
        let (configs, _) = resolved.map_err(|error| format!("{error:#}"))?;
        Ok(configs[0].request.attachments.as_ref().map(|it| it.text()).unwrap_or_default())
    }

    #[test]
    fn flags_say_what_requests_bring() {
        let read = |line| resolved(line).expect("flags that go together");
        assert_eq!(read(""), "");
        assert_eq!(read("--images 1"), "1 image of 1024x1024 (png)");
        let drawn =
            read("--images 0,2 --image-size 64x48:3,8x8 --image-format jpeg --images-shared 25% --image-pool 7");
        assert_eq!(drawn, "0 or 2 images of 64x48 (75 %), 8x8 (25 %) (jpeg), 25 % of them out of a pool of 7");
        assert_eq!(read("--audio-input 1.5,500ms"), "1.5 or 0.5 s of sound (wav)");
    }

    #[test]
    fn what_has_no_place_or_no_effect_is_refused_with_what_to_do() {
        let url = "--url http://127.0.0.1:9/v1 --model m";
        for (line, words) in [
            ("--image-size 8x8", "say how many images a request has with --images"),
            ("--images 1 --image-pool 2", "with --images-shared, such as 50%"),
            ("--images 0", "a request has from 1 to 1000 of them"),
            ("--images 1 --image-size 8", "`8` is not WIDTHxHEIGHT[:WEIGHT]"),
            ("--images 1 --image-size 8x99999", "from 1 to 16384 pixels"),
            ("--images 1 --sessions 2 --turns 2", "requests that stand alone"),
            ("--audio-input 0s", "at most 1 h"),
            ("--images 1 --images-from /nowhere/at/all", "read --images-from /nowhere/at/all"),
        ] {
            let refused = resolved(line).expect_err(line);
            assert!(refused.contains(words), "{line}: {refused}");
        }
        for (more, words) in [
            ("--images 1 --task embeddings", "--task embeddings takes no images and no sound"),
            ("--images 1 --task images", "--task images takes no images and no sound"),
            ("--partial-images 1", "it belongs to --task images"),
            ("--task images --partial-images 4", "at most 3 before an image is done"),
            ("--task images --image-format jpeg", "say how many images a request has"),
            ("--images 1 --dialect openai-completions", "openai-completions has no place for images"),
            ("--audio-input 5s --dialect anthropic", "anthropic has no place for sound"),
        ] {
            let refused = resolved(&format!("{url} {more}")).expect_err(more);
            assert!(refused.contains(words), "{more}: {refused}");
        }
    }
}
