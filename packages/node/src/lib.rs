//! The merge engine as a WebAssembly module: three functions, and one buffer that texts come and go through.
//!
//! JavaScript asks for `input`, writes there path, text, update and format one after the other, calls `edit` with their lengths, and
//! reads as many bytes at `output` as that returns. Invariant: a call leaves nothing behind but its answer, which the next one frees.

use serde::Serialize;
use std::cell::Cell;
use tokrate_apply::{Format, Outcome};

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A buffer of so many bytes for a call.
#[unsafe(no_mangle)]
pub extern "C" fn input(bytes: usize) -> *const u8 {
    // What was there is freed first: two large texts may not fit beside each other.
    drop(BUFFER.take());
    std::panic::set_hook(Box::new(|panic| BUFFER.set(panic.to_string().into_bytes())));
    keep(vec![0; bytes])
}

/// Merges; the length of the answer: a line of JSON, then the merged text.
#[unsafe(no_mangle)]
pub extern "C" fn edit(path: usize, text: usize, update: usize, has_format: bool) -> usize {
    let given = String::from_utf8(BUFFER.take()).expect("JavaScript writes UTF-8");
    let (path, rest) = given.split_at(path);
    let (text, rest) = rest.split_at(text);
    let (update, format) = rest.split_at(update);
    let answer = match (has_format, Format::from_name(format)) {
        (true, None) => format!("{{\"invalid\":{}}}", json(&no_format(format))),
        (_, format) => answer(tokrate_apply::edit(path, text, update, format)),
    };
    let bytes = answer.len();
    keep(answer.into_bytes());
    bytes
}

/// Where the answer is.
#[unsafe(no_mangle)]
pub extern "C" fn output() -> *const u8 {
    let buffer = BUFFER.take();
    keep(buffer)
}

/// How long the message of a panic is, which is the answer of a call that has ended by one.
#[unsafe(no_mangle)]
pub extern "C" fn panicked() -> usize {
    let message = BUFFER.take();
    let bytes = message.len();
    keep(message);
    bytes
}

fn keep(buffer: Vec<u8>) -> *const u8 {
    let at = buffer.as_ptr();
    BUFFER.set(buffer);
    at
}

fn answer(outcome: Outcome) -> String {
    match outcome {
        Outcome::Merged(merged) => {
            let (changed, edits) = (!merged.is_unchanged(), json(&merged.edits));
            format!("{{\"changed\":{changed},\"edits\":{edits}}}\n{}", merged.text)
        }
        Outcome::Refused(refused) => format!("{{\"refused\":{}}}", json(&refused)),
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("numbers, texts and lists of them")
}

fn no_format(name: &str) -> String {
    format!("{name:?} is no format; write one of {}", Format::ALL.map(Format::name).join(", "))
}
