//! The fields of a request for chat completions, for translations.

use crate::translate::table::Rule::{Drop, Image, Keep, Many, Needs, One, Only, Rename, Setting, Strict};
use crate::translate::table::{Feature, Kind, Table, single};

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
        ("tools", Needs(Feature::Tools, &Many(&TOOL))),
        ("tool_choice", Needs(Feature::Tools, &Keep)),
        ("parallel_tool_calls", Setting),
        ("response_format", Setting),
        ("reasoning_effort", Setting),
        ("verbosity", Setting),
        ("user", Setting),
        ("safety_identifier", Setting),
        ("metadata", Setting),
        ("service_tier", Setting),
        ("frequency_penalty", Setting),
        ("presence_penalty", Setting),
        ("top_k", Setting),
        ("min_p", Setting),
        ("repetition_penalty", Setting),
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

pub(crate) static STREAM_OPTIONS: Table =
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
                ("tool_calls", Needs(Feature::Tools, &Many(&CALL))),
                ("annotations", Drop),
                ("cache_control", Drop),
            ],
        ),
        Kind::needing(
            Feature::Tools,
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

static IMAGE: Table = single(&[Kind::of(&[], &[("url", Image), ("detail", Only(&["\"auto\""]))])]);

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
