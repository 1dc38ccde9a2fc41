//! A body with another model, asked for as a stream or with token counts.
//!
//! Invariant: every byte that is not part of the changes stays as it was.

use super::{Place, RequestPeek};
use crate::json_text::push_string;
use std::borrow::Cow;

const INCLUDE_USAGE: &[u8] = b"\"include_usage\":true";

/// What is to be changed in a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Changes<'m> {
    /// Another model.
    pub model: Option<&'m str>,
    /// Set `stream` to true.
    pub stream: bool,
    /// Set `stream_options.include_usage` to true.
    pub include_usage: bool,
}

/// New bytes in the place of old ones.
struct Edit {
    place: Place,
    text: Vec<u8>,
}

pub(super) fn splice<'b>(peek: &RequestPeek, body: &'b [u8], changes: &Changes<'_>) -> Cow<'b, [u8]> {
    let model = changes.model.and_then(|model| model_edit(peek, body, model));
    // A field that goes in front of all others needs a comma if there are others, by now at the latest.
    let mut alone = peek.empty && model.is_none();
    let stream = (changes.stream && peek.stream != Some(true)).then(|| stream_edit(peek, alone));
    alone &= stream.is_none();
    let usage = (changes.include_usage && !peek.include_usage).then(|| usage_edit(peek, alone));
    // Insertions at one place stay in their order: those with a comma first.
    let mut edits: Vec<Edit> = usage.into_iter().chain(stream).chain(model).collect();
    if edits.is_empty() {
        return Cow::Borrowed(body);
    }
    edits.sort_by_key(|edit| edit.place.start);
    let added: usize = edits.iter().map(|edit| edit.text.len()).sum();
    let mut spliced = Vec::with_capacity(body.len() + added);
    let mut kept = 0;
    for Edit { place, text } in &edits {
        spliced.extend_from_slice(&body[kept..place.start]);
        spliced.extend_from_slice(text);
        kept = place.end;
    }
    spliced.extend_from_slice(&body[kept..]);
    Cow::Owned(spliced)
}

fn model_edit(peek: &RequestPeek, body: &[u8], model: &str) -> Option<Edit> {
    let mut text = Vec::with_capacity(model.len() + 12);
    match peek.model {
        Some(place) => {
            push_string(model, &mut text);
            (body[place.range()] != text).then_some(Edit { place, text })
        }
        None => {
            text.extend_from_slice(b"\"model\":");
            push_string(model, &mut text);
            Some(insertion(peek.inside, text, peek.empty))
        }
    }
}

fn stream_edit(peek: &RequestPeek, alone: bool) -> Edit {
    match peek.stream_place {
        // `false` or `null`.
        Some(place) => Edit { place, text: b"true".to_vec() },
        None => insertion(peek.inside, b"\"stream\":true".to_vec(), alone),
    }
}

fn usage_edit(peek: &RequestPeek, alone: bool) -> Edit {
    let object = || [b"{", INCLUDE_USAGE, b"}"].concat();
    match (peek.include_usage_place, peek.options_inside, peek.stream_options) {
        (Some(place), _, _) => Edit { place, text: b"true".to_vec() },
        (None, Some(inside), _) => insertion(inside, INCLUDE_USAGE.to_vec(), peek.options_empty),
        // `null`.
        (None, None, Some(place)) => Edit { place, text: object() },
        (None, None, None) => insertion(peek.inside, [b"\"stream_options\":".as_slice(), &object()].concat(), alone),
    }
}

/// A field in front of all others of an object.
fn insertion(at: usize, mut text: Vec<u8>, alone: bool) -> Edit {
    if !alone {
        text.push(b',');
    }
    Edit { place: Place { start: at, end: at }, text }
}
