//! Requests of OpenAI's chat completions.
//!
//! It refuses to know targets. Invariant: see [`super`].

use super::single;
use crate::translate::clean::Rule::{Drop, Keep, Many, Needs, One, Only, Picture, Rename, Strict, Wish};
use crate::translate::clean::{Kind, Need, Table};

pub(super) static REQUEST: Table = single(&[Kind::of(
    &[],
    &[
        ("model", Keep),
        ("messages", Many(&MESSAGE)),
        ("stream", Keep),
        ("stream_options", One(&STREAM_OPTIONS)),
        ("max_tokens", Keep),
        ("max_completion_tokens", Keep),
        ("ignore_eos", Keep),
        ("temperature", Keep),
        ("top_p", Keep),
        ("stop", Keep),
        ("seed", Keep),
        ("tools", Needs(Need::Tools, &Many(&TOOL))),
        ("tool_choice", Needs(Need::Tools, &Keep)),
        ("parallel_tool_calls", Wish),
        ("response_format", Wish),
        ("reasoning_effort", Wish),
        ("verbosity", Wish),
        ("user", Wish),
        ("safety_identifier", Wish),
        ("metadata", Wish),
        ("service_tier", Wish),
        ("frequency_penalty", Wish),
        ("presence_penalty", Wish),
        ("top_k", Wish),
        ("min_p", Wish),
        ("repetition_penalty", Wish),
        ("n", Only(&["1"])),
        ("logprobs", Only(&["false"])),
        ("top_logprobs", Only(&["0"])),
        ("logit_bias", Only(&["{}"])),
        ("store", Only(&["false"])),
        ("modalities", Only(&["[\"text\"]"])),
        ("functions", Only(&["[]"])),
        ("prediction", Drop),
        ("prompt_cache_key", Drop),
        ("prompt_cache_retention", Drop),
    ],
)]);

pub(super) static STREAM_OPTIONS: Table =
    single(&[Kind::of(&[], &[("include_usage", Keep), ("include_obfuscation", Drop)])]);

static MESSAGE: Table = Table {
    tag: "role",
    default: "",
    kinds: &[
        Kind::of(&["system", "developer"], &[("role", Keep), ("content", Many(&TEXT_PART)), ("cache_control", Drop)]),
        Kind::of(&["user"], &[("role", Keep), ("content", Many(&PART)), ("cache_control", Drop)]),
        Kind::of(
            &["assistant"],
            &[
                ("role", Keep),
                ("content", Many(&TEXT_PART)),
                ("refusal", Rename("content")),
                ("reasoning_content", Keep),
                ("reasoning", Rename("reasoning_content")),
                ("reasoning_details", Drop),
                ("reasoning_signature", Drop),
                ("tool_calls", Needs(Need::Tools, &Many(&CALL))),
                ("annotations", Drop),
                ("cache_control", Drop),
            ],
        ),
        Kind::needing(
            Need::Tools,
            &["tool"],
            &[
                ("role", Keep),
                ("content", Many(&TEXT_PART)),
                ("tool_call_id", Keep),
                ("name", Keep),
                ("cache_control", Drop),
            ],
        ),
    ],
};

const TEXT: Kind =
    Kind::of(&["text"], &[("type", Keep), ("text", Keep), ("cache_control", Drop), ("annotations", Drop)]);

static TEXT_PART: Table = Table {
    tag: "type",
    default: "text",
    kinds: &[TEXT, Kind::of(&["refusal"], &[("type", Keep), ("refusal", Keep)])],
};

static PART: Table = Table {
    tag: "type",
    default: "text",
    kinds: &[TEXT, Kind::of(&["image_url"], &[("type", Keep), ("image_url", One(&IMAGE)), ("cache_control", Drop)])],
};

static IMAGE: Table = single(&[Kind::of(&[], &[("url", Picture), ("detail", Only(&["\"auto\""]))])]);

static CALL: Table = Table {
    tag: "type",
    default: "function",
    kinds: &[Kind::of(
        &["function"],
        &[("id", Keep), ("type", Keep), ("function", One(&FUNCTION)), ("index", Drop), ("extra_content", Drop)],
    )],
};

static FUNCTION: Table = single(&[Kind::of(&[], &[("name", Keep), ("arguments", Keep)])]);

static TOOL: Table = Table {
    tag: "type",
    default: "function",
    kinds: &[Kind::of(&["function"], &[("type", Keep), ("function", One(&DECLARATION)), ("cache_control", Drop)])],
};

static DECLARATION: Table = single(&[Kind::of(
    &[],
    &[("name", Keep), ("description", Keep), ("parameters", Keep), ("strict", Strict), ("cache_control", Drop)],
)]);
