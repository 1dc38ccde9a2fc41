//! Recorded and hand-written answers of every dialect, translated into every other.
//!
//! Invariant: what the client's decoder reads is what the upstream's would have read, as far as the client's dialect
//! has a place for it.

use crate::dialects::{Decoded, decoded, is_nameless, is_plain};
use crate::recorded::{own, shared};
use crate::translate_answers::{check_blocks, translated};
use std::path::{Path, PathBuf};
use tokrate_core::{FinishReason, Usage};
use tokrate_wire::{Dialect, Progress, Shape, decode_request, translate_request};

/// Every answer below a folder, with the dialect that its place tells.
pub fn answers(folder: &Path, dialect: impl Fn(&str) -> Option<Dialect>) -> Vec<(PathBuf, Dialect, Vec<u8>)> {
    let (mut folders, mut found) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if let Some(dialect) = dialect(path.to_str().unwrap()) {
                found.push((path.clone(), dialect, std::fs::read(&path).unwrap()));
            }
        }
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    found
}

/// How the names of recordings of the repository begin.
fn begins(dialect: Dialect) -> String {
    format!("{}-", dialect.name())
}

/// The dialect of a fixture in the repository.
pub fn fixture(path: &str) -> Option<Dialect> {
    let name = path.rsplit('/').next().unwrap_or_default();
    let part = |part: &str| path.contains(&format!("fixtures/{part}"));
    Some(match name {
        _ if name.ends_with(".md") || name.ends_with(".http") || name == "models.json" => return None,
        _ if name.starts_with('.') || part("recorded/requests/") => return None,
        _ if part("recorded/") => return Dialect::ALL.into_iter().find(|dialect| name.starts_with(&begins(*dialect))),
        _ if part("llama-server/anthropic") || part("anthropic/") => Dialect::Anthropic,
        _ if part("llama-server/responses") || part("openai-responses/") => Dialect::OpenAiResponses,
        _ if part("llama-server/native") || part("llama-completion/") => Dialect::LlamaCompletion,
        _ if part("llama-server/stream-text") || part("openai-completions/") => Dialect::OpenAiCompletions,
        _ if part("gemini/") => Dialect::Gemini,
        _ if part("ollama/generate") => Dialect::OllamaGenerate,
        _ if part("ollama/") => Dialect::OllamaChat,
        _ => Dialect::OpenAiChat,
    })
}

/// The dialect of a recording outside the repository.
pub fn recording(path: &str) -> Option<Dialect> {
    let answer = path.ends_with(".txt") || path.ends_with(".json") && !path.ends_with("models.json");
    let part = |part: &str| path.contains(part);
    Some(match () {
        () if !answer || part("/requests/") || part("embeddings") || part("count_tokens") || part("rerank") => {
            return None;
        }
        () if part("responses") && !part("/completions/") => Dialect::OpenAiResponses,
        () if part("/anthropic/") => Dialect::Anthropic,
        () if part("/vertex-gemini/") => Dialect::Gemini,
        () if part("/gomodel/") || part("/completions/") => Dialect::OpenAiChat,
        () => return None,
    })
}

/// What a client of `to` is to read of an answer; `None` if it cannot be translated.
fn expected(to: Dialect, shape: Shape, mut reply: Decoded) -> Option<Decoded> {
    if reply.opaque || is_plain(to) && !reply.calls.is_empty() {
        return None;
    }
    if is_plain(to) {
        reply.reasoning.clear();
    }
    for (id, _, arguments) in &mut reply.calls {
        id.clear();
        if arguments.trim().is_empty() {
            "{}".clone_into(arguments);
        }
        let cut_off = serde_json::from_str::<serde_json::Value>(arguments).is_err();
        if cut_off && matches!(to, Dialect::Anthropic | Dialect::BedrockConverse) && shape == Shape::Whole {
            // An object must stand there.
            *arguments = serde_json::json!({ "arguments": arguments }).to_string();
        }
        without_blanks(arguments);
    }
    let called = !reply.calls.is_empty();
    reply.finish = Some(match reply.finish {
        None | Some(FinishReason::Stop) if called => FinishReason::ToolCalls,
        None => FinishReason::Stop,
        Some(FinishReason::Other)
            if !matches!(to, Dialect::Gemini | Dialect::BedrockConverse | Dialect::CohereChat) =>
        {
            FinishReason::Stop
        }
        // Cohere has one word for both.
        Some(FinishReason::ContentFilter) if to == Dialect::CohereChat => FinishReason::Other,
        Some(reason) => reason,
    });
    if called && to == Dialect::OpenAiResponses && reply.finish == Some(FinishReason::Stop) {
        // Here the calls themselves say it.
        reply.finish = Some(FinishReason::ToolCalls);
    }
    reply.usage = reply.usage.map(|usage| carried(usage, to));
    let model = (!is_nameless(to)).then(|| "alias".to_owned());
    Some(Decoded { model, done: 1, trouble: Vec::new(), ..reply })
}

/// The counts that every dialect has a place for.
fn carried(usage: Usage, to: Dialect) -> Usage {
    let unknown = if to == Dialect::Anthropic { Some(0) } else { None };
    Usage { input: usage.input.or(unknown), output: usage.output.or(unknown), ..Usage::default() }
}

/// Where arguments are an object and no text, the blanks between their values mean nothing.
fn without_blanks(arguments: &mut String) {
    if let Ok(tree) = serde_json::from_str::<serde_json::Value>(arguments) {
        *arguments = tree.to_string();
    }
}

fn check(path: &Path, from: Dialect, body: &[u8]) -> usize {
    // An answer in one piece is one that was asked for so: Ollama's streams differ from it in that alone.
    let whole = path.extension().is_some_and(|end| end == "json");
    let reply = decoded(from, if whole { Shape::Whole } else { Shape::Stream }, body);
    let mut translated_count = 0;
    if reply.trouble.iter().any(|trouble| trouble == "text_after_finish") {
        // What comes after the end is not translated, so that there is nothing to compare.
        return 0;
    }
    for to in Dialect::ALL.into_iter().filter(|to| *to != from) {
        let ollama = matches!(from, Dialect::OllamaChat | Dialect::OllamaGenerate);
        for shape in
            [Shape::Stream, Shape::Whole].into_iter().filter(|shape| !ollama || whole == (*shape == Shape::Whole))
        {
            let (out, progress) = translated(from, to, shape, true, &[body]);
            let context = format!("{} to {to:?} {shape:?}: {}", path.display(), String::from_utf8_lossy(&out));
            let bytes: Vec<&[u8]> = body.chunks(7).collect();
            assert_eq!(translated(from, to, shape, true, &bytes), (out.clone(), progress), "{context}");
            if progress != Progress::Complete {
                let read = decoded(to, shape, &out);
                assert_eq!((read.done, read.trouble.len()), (0, 1), "{context}");
                let own_tool = reply.calls.iter().any(|call| call.1.is_empty());
                assert!(
                    own_tool || reply.opaque || !reply.trouble.is_empty() || reply.finish.is_none() || is_plain(to),
                    "{context}"
                );
                continue;
            }
            if to == Dialect::Anthropic && shape == Shape::Stream {
                check_blocks(&out);
            }
            let mut read = decoded(to, shape, &out);
            for call in &mut read.calls {
                call.0.clear();
                without_blanks(&mut call.2);
            }
            // Counts that do not fit together are passed on as they are.
            read.trouble.retain(|trouble| trouble != "implausible_usage");
            read.usage = read.usage.map(|usage| carried(usage, to));
            let mut expected = expected(to, shape, reply.clone()).expect("an answer that was translated has a reading");
            if expected.usage.is_none() || reply.trouble.iter().any(|trouble| trouble == "implausible_usage") {
                // Anthropic's clients need counts, if only of nothing; what does not fit together does so nowhere.
                (read.usage, expected.usage) = (None, None);
            }
            if matches!(to, Dialect::OllamaChat | Dialect::OllamaGenerate | Dialect::LlamaCompletion) {
                // Their words for it do not tell all reasons apart.
                (read.finish, expected.finish) = (None, None);
            }
            assert_eq!(read, expected, "{context}");
            translated_count += 1;
        }
    }
    translated_count
}

#[test]
fn every_fixture_keeps_its_meaning_in_every_other_dialect() {
    let mut answers = answers(&own(""), fixture);
    answers.retain(|(path, ..)| !is_recorded(path));
    let decoded: usize = answers.iter().map(|(path, from, body)| check(path, *from, body)).sum();
    assert!(answers.len() > 50 && decoded > 400, "{} answers, translated {decoded} times", answers.len());
}

#[test]
fn every_recording_keeps_its_meaning_in_every_other_dialect() {
    let mut own = answers(&own("recorded"), fixture);
    own.retain(|(path, ..)| is_recorded(path));
    for dialect in Dialect::ALL {
        let stream = format!("sim/{}-stream.", dialect.name());
        assert!(own.iter().any(|(path, ..)| path.to_str().unwrap().contains(&stream)), "{stream} is missing");
    }
    let decoded: usize = own.iter().map(|(path, from, body)| check(path, *from, body)).sum();
    assert!(own.len() >= 160 && decoded > 1_000, "{} answers, translated {decoded} times", own.len());
    if let Some(folder) = shared() {
        let answers = answers(&folder, recording);
        let decoded: usize = answers.iter().map(|(path, from, body)| check(path, *from, body)).sum();
        assert!(answers.len() > 30 && decoded > 300, "{} answers, translated {decoded} times", answers.len());
    }
}

fn is_recorded(path: &Path) -> bool {
    path.to_str().is_some_and(|path| path.contains("/recorded/"))
}

/// The dialect of a recorded request of the repository.
pub fn asked_here(path: &str) -> Option<Dialect> {
    Dialect::ALL.into_iter().find(|dialect| path.contains(&format!("/requests/{}/", dialect.name())))
}

/// The dialect of a recorded request outside the repository.
pub fn asked(path: &str) -> Option<Dialect> {
    let folders = [
        ("/requests/completions/", Dialect::OpenAiChat),
        ("/requests/messages/", Dialect::Anthropic),
        ("/requests/responses/", Dialect::OpenAiResponses),
        ("/requests/gemini/", Dialect::Gemini),
    ];
    let (_, dialect) = folders.into_iter().find(|(folder, _)| path.contains(folder))?;
    path.ends_with(".json").then_some(dialect)
}

#[test]
fn every_recorded_request_is_put_into_the_other_dialects_or_a_field_of_it_is_named() {
    let (put, named) = translated_requests(&answers(&own("recorded/requests"), asked_here));
    assert!(put > 200 && named > 40, "{put} were put, {named} were not");
    if let Some(folder) = shared() {
        let (put, named) = translated_requests(&answers(&folder, asked));
        assert!(put > 80 && named > 40, "{put} were put, {named} were not");
    }
}

/// How many were put into another dialect, and of how many a field was named.
fn translated_requests(requests: &[(PathBuf, Dialect, Vec<u8>)]) -> (usize, usize) {
    let (mut put, mut named) = (0, 0);
    for (path, from, body) in requests {
        let routed = Dialect::of_path(&from.path("m", Shape::Stream)).unwrap();
        for to in Dialect::ALL.into_iter().filter(|to| to != from) {
            match translate_request(&routed, to, "alias", body) {
                Ok(translated) => {
                    let read =
                        decode_request(&Dialect::of_path(&to.path("m", Shape::Stream)).unwrap(), &translated.body);
                    assert!(read.is_ok(), "{}: {read:?}", path.display());
                    put += 1;
                }
                Err(error) => {
                    println!("{}: {error}", path.file_name().unwrap().display());
                    assert!(!error.field.is_empty(), "{}: {error}", path.display());
                    named += 1;
                }
            }
        }
    }
    (put, named)
}
