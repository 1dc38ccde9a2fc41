//! A body with another model and with token counts asked for.
//!
//! Invariant: every byte that is not part of the two changes stays as it was.

use super::{Place, RequestPeek};
use crate::json_text::push_string;
use std::borrow::Cow;

const INCLUDE_USAGE: &[u8] = b"\"include_usage\":true";

/// New bytes in the place of old ones.
struct Edit {
    place: Place,
    text: Vec<u8>,
}

pub(super) fn splice<'b>(
    peek: &RequestPeek,
    body: &'b [u8],
    model: Option<&str>,
    include_usage: bool,
) -> Cow<'b, [u8]> {
    let model = model.and_then(|model| model_edit(peek, body, model));
    // A field that goes in front of all others needs a comma if there are others, by now at the latest.
    let alone = peek.empty && model.is_none();
    let usage = (include_usage && !peek.include_usage).then(|| usage_edit(peek, alone));
    let mut edits: Vec<Edit> = usage.into_iter().chain(model).collect();
    if edits.is_empty() {
        return Cow::Borrowed(body);
    }
    // Two insertions at one place stay in their order: the one with the comma first.
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
