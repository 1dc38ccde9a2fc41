//! Decodes whole bodies into a transcript, and the checks that hold for every body whatsoever.
//!
//! Invariant: a transcript holds everything of the events but their ticks.

use tokrate_core::{Channel, EventBatch, EventKind, Tick};
use tokrate_wire::{Decoder, Dialect, Shape};

pub const UNFINISHED: &str = "odd unfinished_event";

pub fn decoder(shape: Shape) -> Decoder {
    Decoder::new(Dialect::OpenAiChat, shape)
}

/// One line per event.
pub fn transcript(batch: &EventBatch) -> Vec<String> {
    let line = |kind: EventKind| match kind {
        EventKind::Empty => "empty".to_owned(),
        EventKind::Opaque => "opaque".to_owned(),
        EventKind::Image { pixels, .. } => format!("image {pixels}"),
        EventKind::Silence => "silence".to_owned(),
        EventKind::Sound(sound) => format!("sound {}", sound.bytes),
        EventKind::Items(items) => format!("items {items}"),
        EventKind::Text { channel, text } => {
            let channel = match channel {
                Channel::Reasoning => "reasoning",
                Channel::Answer => "answer",
                Channel::Tool => "tool",
            };
            format!("{channel} {:?}", batch.text(text))
        }
        EventKind::Model(name) => format!("model {:?}", batch.text(name)),
        EventKind::Usage(usage) => {
            let count = |count: Option<u64>| count.map_or("-".to_owned(), |count| count.to_string());
            let (input, output) = (count(usage.input), count(usage.output));
            let written = usage.cache_write_input.map_or(String::new(), |count| format!(" written {count}"));
            format!(
                "usage input {input} output {output} reasoning {} cached {}{written}",
                count(usage.reasoning),
                count(usage.cached_input)
            )
        }
        EventKind::ToolCall { index, id, name } => {
            format!("tool call {index} {:?} {:?}", batch.text(id), batch.text(name))
        }
        EventKind::Timings(index) => format!("timings {:?}", batch.timings(index)),
        EventKind::Unknown { name, json } => format!("unknown {:?} {}", batch.text(name), batch.text(json)),
        EventKind::Finish(reason) => format!("finish {}", reason.name()),
        EventKind::Done => "done".to_owned(),
        EventKind::Failed { kind, message, retry_after } => {
            let wait = retry_after.map_or(String::new(), |wait| format!(", wait {wait}"));
            format!("failed {} {:?}{wait}", kind.name(), batch.text(message))
        }
        EventKind::Anomaly(anomaly) => format!("odd {}", anomaly.name()),
    };
    batch.events().iter().map(|event| line(event.kind)).collect()
}

/// Pushes the parts, ends the body, and tells all.
pub fn transcript_of(mut decoder: Decoder, parts: &[&[u8]]) -> Vec<String> {
    let mut lines = push(&mut decoder, parts);
    lines.extend(end(&mut decoder));
    lines
}

pub fn push(decoder: &mut Decoder, parts: &[&[u8]]) -> Vec<String> {
    let mut batch = EventBatch::new();
    for (n, part) in parts.iter().enumerate() {
        decoder.push(Tick::from_nanos(n as u64), part, &mut batch);
    }
    transcript(&batch)
}

pub fn end(decoder: &mut Decoder) -> Vec<String> {
    let mut batch = EventBatch::new();
    decoder.end(Tick::MAX, &mut batch);
    transcript(&batch)
}

/// A place between two events, with decoders that have taken everything before it.
struct Checkpoint {
    offset: usize,
    with_template: Decoder,
    without: Decoder,
    /// The transcript until here.
    lines: usize,
}

/// Checks what must hold for every body, and gives its transcript:
/// the template changes nothing; two parts say what one says, wherever it is split; a body cut off anywhere says a
/// beginning of it, with an honest end; no garbled byte panics or divides the two paths.
///
/// Splits, cuts and garbled bytes are tried from the last event's end before them on, which is the same as from the start
/// because the decoder's state there is.
pub fn check_everywhere(body: &[u8], shape: Shape) -> Vec<String> {
    check_everywhere_in(Dialect::OpenAiChat, body, shape)
}

/// The same in any dialect whose events are server-sent.
pub fn check_everywhere_in(dialect: Dialect, body: &[u8], shape: Shape) -> Vec<String> {
    let decoder = |shape| Decoder::new(dialect, shape);
    let whole = transcript_of(decoder(shape), &[body]);
    assert_eq!(transcript_of(decoder(shape).without_template(), &[body]), whole, "the template changes something");
    let bytes: Vec<&[u8]> = body.chunks(1).collect();
    assert_eq!(transcript_of(decoder(shape), &bytes), whole, "single bytes change something");
    let points = checkpoints(dialect, body, shape);
    for (n, point) in points.iter().enumerate() {
        let next = points.get(n + 1).map_or(body.len(), |next| next.offset);
        let beyond = points.get(n + 2).map_or(body.len(), |next| next.offset);
        let ends_here = beyond == body.len();
        for at in point.offset..next.max(point.offset + 1).min(body.len()) {
            check_cut(point, &body[point.offset..at], &whole[point.lines..]);
            // Long events are costly to read and alike all over: every eighth place in them will do.
            if beyond - point.offset > 4096 && at % 8 > 0 {
                continue;
            }
            let mut split = point.with_template.clone();
            let mut lines = push(&mut split, &[&body[point.offset..at], &body[at..beyond]]);
            if ends_here {
                lines.extend(end(&mut split));
            }
            assert!(whole[point.lines..].starts_with(&lines), "split at {at}: {lines:?}");
            if ends_here {
                assert_eq!(lines.len(), whole.len() - point.lines, "split at {at}");
            }
            check_garbled(point, &body[point.offset..beyond], at - point.offset);
        }
    }
    whole
}

fn check_cut(point: &Checkpoint, part: &[u8], rest: &[String]) {
    let lines = transcript_of(point.with_template.clone(), &[part]);
    assert_eq!(lines, transcript_of(point.without.clone(), &[part]), "cut within {:?}", String::from_utf8_lossy(part));
    let honest = lines.iter().any(|line| line == UNFINISHED);
    let finished = |lines: &[String]| lines.iter().filter(|line| *line != UNFINISHED).cloned().collect::<Vec<_>>();
    let (kept, rest) = (finished(&lines), finished(rest));
    assert!(rest.starts_with(&kept), "cut after {:?}: {lines:?}", String::from_utf8_lossy(part));
    let inside_event = part.iter().any(|byte| !byte.is_ascii_whitespace()) && !part.starts_with(b":");
    let complete = part.ends_with(b"\n\n") || kept.len() == rest.len();
    assert!(honest || complete || !inside_event, "not honest after {:?}", String::from_utf8_lossy(part));
}

fn check_garbled(point: &Checkpoint, part: &[u8], at: usize) {
    const GARBLE: [u8; 10] = [0, 0xFF, b'"', b'\\', b'\n', b'{', b'}', b',', 0xC3, b'\r'];
    for round in 0..3 {
        let mut garbled = part.to_vec();
        garbled[at] = GARBLE[(at + round * 3) % GARBLE.len()];
        let parts = [&garbled[..], part];
        let lines = transcript_of(point.with_template.clone(), &parts);
        assert_eq!(lines, transcript_of(point.without.clone(), &parts), "{:?}", String::from_utf8_lossy(&garbled));
    }
}

fn checkpoints(dialect: Dialect, body: &[u8], shape: Shape) -> Vec<Checkpoint> {
    let decoder = |shape| Decoder::new(dialect, shape);
    let whole = body.trim_ascii_start().starts_with(b"{") || body.trim_ascii_start().starts_with(b"[");
    let mut offsets = vec![0];
    if !whole {
        offsets.extend((2..body.len()).filter(|&at| &body[at - 2..at] == b"\n\n"));
    }
    let (mut with_template, mut without) = (decoder(shape), decoder(shape).without_template());
    let (mut taken, mut lines) = (0, 0);
    offsets
        .into_iter()
        .map(|offset| {
            lines += push(&mut with_template, &[&body[taken..offset]]).len();
            push(&mut without, &[&body[taken..offset]]);
            taken = offset;
            Checkpoint { offset, with_template: with_template.clone(), without: without.clone(), lines }
        })
        .collect()
}
