//! Requests of Ollama.
//!
//! It refuses to know targets. Invariant: see [`super`].

use super::single;
use crate::translate::clean::Rule::{Drop, Keep, KeepUnless, Many, Needs, One, Only, Pictures, Wish};
use crate::translate::clean::{Kind, Need, Table};

pub(super) static CHAT: Table = single(&[Kind::of(
    &[],
    &[
        ("model", Keep),
        ("messages", Many(&MESSAGE)),
        ("stream", Keep),
        ("options", One(&OPTIONS)),
        ("tools", Needs(Need::Tools, &Many(&TOOL))),
        ("format", Wish),
        ("think", Wish),
        ("keep_alive", Drop),
        ("logprobs", Only(&["false"])),
    ],
)]);

pub(super) static GENERATE: Table = single(&[Kind::of(
    &[],
    &[
        ("model", Keep),
        ("prompt", Keep),
        ("system", Keep),
        ("images", Pictures),
        ("stream", Keep),
        ("options", One(&OPTIONS)),
        ("format", Wish),
        ("think", Wish),
        ("keep_alive", Drop),
        ("raw", Only(&["false"])),
        ("suffix", Only(&["\"\""])),
        ("template", Only(&["\"\""])),
        ("logprobs", Only(&["false"])),
    ],
)]);

static OPTIONS: Table = single(&[Kind::of(
    &[],
    &[
        ("num_predict", KeepUnless(&["-1", "-2"])),
        ("temperature", Keep),
        ("top_p", Keep),
        ("seed", KeepUnless(&["-1"])),
        ("stop", Keep),
        ("top_k", Wish),
        ("min_p", Wish),
        ("frequency_penalty", Wish),
        ("presence_penalty", Wish),
        ("repeat_penalty", Wish),
        ("num_ctx", Drop),
        ("num_batch", Drop),
        ("num_gpu", Drop),
        ("main_gpu", Drop),
        ("num_thread", Drop),
        ("use_mmap", Drop),
        ("low_vram", Drop),
        ("numa", Drop),
    ],
)]);

static MESSAGE: Table = Table {
    tag: "role",
    default: "",
    kinds: &[
        Kind::of(
            &["system", "developer", "user", "assistant"],
            &[
                ("role", Keep),
                ("content", Keep),
                ("thinking", Keep),
                ("images", Pictures),
                ("tool_calls", Needs(Need::Tools, &Many(&CALL))),
            ],
        ),
        Kind::needing(
            Need::Tools,
            &["tool"],
            &[("role", Keep), ("content", Keep), ("tool_name", Keep), ("tool_call_id", Keep)],
        ),
    ],
};

static CALL: Table = single(&[Kind::of(&[], &[("id", Keep), ("type", Drop), ("function", One(&FUNCTION))])]);

static FUNCTION: Table = single(&[Kind::of(&[], &[("name", Keep), ("arguments", Keep), ("index", Drop)])]);

static TOOL: Table = Table {
    tag: "type",
    default: "function",
    kinds: &[Kind::of(&["function"], &[("type", Keep), ("function", One(&DECLARATION))])],
};

static DECLARATION: Table = single(&[Kind::of(&[], &[("name", Keep), ("description", Keep), ("parameters", Keep)])]);
