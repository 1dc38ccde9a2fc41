//! The fields of a request for Cohere's chat, for translations.

use super::settings::{read_format, read_k, read_thinking};
use crate::translate::table::Rule::{Drop, Image, Keep, Many, Needs, One, Only, Rename, Setting, SettingBy};
use crate::translate::table::{Feature, Kind, Table, single};

pub(super) static REQUEST: Table = single(&[Kind::of(
    &[],
    &[
        ("model", Keep),
        ("messages", Many(&MESSAGE)),
        ("stream", Keep),
        ("max_tokens", Keep),
        ("temperature", Keep),
        ("p", Keep),
        ("stop_sequences", Keep),
        ("seed", Keep),
        ("tools", Needs(Feature::Tools, &Many(&TOOL))),
        ("tool_choice", Needs(Feature::Tools, &Keep)),
        ("strict_tools", Only(&["false"])),
        ("documents", Only(&["[]"])),
        ("citation_options", Drop),
        ("response_format", SettingBy(read_format)),
        ("safety_mode", Only(&["\"CONTEXTUAL\""])),
        ("frequency_penalty", Setting),
        ("presence_penalty", Setting),
        ("k", SettingBy(read_k)),
        ("logprobs", Only(&["false"])),
        ("thinking", SettingBy(read_thinking)),
        ("priority", Only(&["0"])),
    ],
)]);

static MESSAGE: Table = Table {
    tag: "role",
    default: "",
    kinds: &[
        Kind::of(&["system"], &[("role", Keep), ("content", Many(&TEXT_PART))]),
        Kind::of(&["user"], &[("role", Keep), ("content", Many(&PART))]),
        Kind::of(
            &["assistant"],
            &[
                ("role", Keep),
                ("content", Many(&ANSWER_PART)),
                // What the model said before it called a tool.
                ("tool_plan", Rename("content")),
                ("tool_calls", Needs(Feature::Tools, &Many(&CALL))),
                ("citations", Drop),
            ],
        ),
        Kind::needing(
            Feature::Tools,
            &["tool"],
            &[("role", Keep), ("content", Many(&TEXT_PART)), ("tool_call_id", Keep)],
        ),
    ],
};

const TEXT: Kind = Kind::of(&["text"], &[("type", Keep), ("text", Keep)]);

static TEXT_PART: Table = Table { tag: "type", default: "text", kinds: &[TEXT] };

static ANSWER_PART: Table = Table {
    tag: "type",
    default: "text",
    // Thoughts of earlier turns are left out by their provider too.
    kinds: &[TEXT, Kind { names: &["thinking"], fields: &[], rest: None, need: None, dropped: true }],
};

static PART: Table = Table {
    tag: "type",
    default: "text",
    kinds: &[TEXT, Kind::of(&["image_url"], &[("type", Keep), ("image_url", One(&IMAGE))])],
};

static IMAGE: Table = single(&[Kind::of(&[], &[("url", Image), ("detail", Only(&["\"auto\""]))])]);

static CALL: Table = Table {
    tag: "type",
    default: "function",
    kinds: &[Kind::of(&["function"], &[("id", Keep), ("type", Keep), ("function", One(&FUNCTION))])],
};

static FUNCTION: Table = single(&[Kind::of(&[], &[("name", Keep), ("arguments", Keep)])]);

static TOOL: Table = Table {
    tag: "type",
    default: "function",
    kinds: &[Kind::of(&["function"], &[("type", Keep), ("function", One(&DECLARATION))])],
};

static DECLARATION: Table = single(&[Kind::of(&[], &[("name", Keep), ("description", Keep), ("parameters", Keep)])]);
