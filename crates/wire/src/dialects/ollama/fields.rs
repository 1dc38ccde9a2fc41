//! The fields of a request for Ollama, for translations.

use crate::translate::setting::read_ollama_format;
use crate::translate::table::Rule::{Drop, Images, Keep, KeepUnless, Many, Needs, One, Only, Setting, SettingBy};
use crate::translate::table::{Feature, Kind, Table, single};

pub(super) static CHAT: Table = single(&[Kind::of(
    &[],
    &[
        ("model", Keep),
        ("messages", Many(&MESSAGE)),
        ("stream", Keep),
        ("options", One(&OPTIONS)),
        ("tools", Needs(Feature::Tools, &Many(&TOOL))),
        ("format", SettingBy(read_ollama_format)),
        ("think", Setting),
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
        ("images", Images),
        ("stream", Keep),
        ("options", One(&OPTIONS)),
        ("format", SettingBy(read_ollama_format)),
        ("think", Setting),
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
        ("top_k", Setting),
        ("min_p", Setting),
        ("frequency_penalty", Setting),
        ("presence_penalty", Setting),
        ("repeat_penalty", Setting),
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
                ("images", Images),
                ("tool_calls", Needs(Feature::Tools, &Many(&CALL))),
            ],
        ),
        Kind::needing(
            Feature::Tools,
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
