//! The fields of a request for the Responses API, for translations.

use crate::translate::setting::read_text_format;
use crate::translate::table::Rule::{Drop, Image, Keep, Many, Needs, One, Only, Setting, SettingBy, Strict};
use crate::translate::table::{Feature, Kind, Table, single};

pub(super) static REQUEST: Table = single(&[Kind::of(
    &[],
    &[
        ("model", Keep),
        ("instructions", Keep),
        ("input", Many(&ITEM)),
        ("stream", Keep),
        ("stream_options", One(&crate::dialects::openai_chat::fields::STREAM_OPTIONS)),
        ("max_output_tokens", Keep),
        ("ignore_eos", Keep),
        ("temperature", Keep),
        ("top_p", Keep),
        ("tools", Needs(Feature::Tools, &Many(&TOOL))),
        ("tool_choice", Needs(Feature::Tools, &Keep)),
        ("parallel_tool_calls", Setting),
        ("text", One(&TEXT_CONFIG)),
        ("reasoning", One(&REASONING_CONFIG)),
        ("user", Setting),
        ("safety_identifier", Setting),
        ("metadata", Setting),
        ("service_tier", Setting),
        ("store", Only(&["false"])),
        ("background", Only(&["false"])),
        ("truncation", Only(&["\"disabled\""])),
        ("top_logprobs", Only(&["0"])),
        ("include", Only(&["[]", "[\"reasoning.encrypted_content\"]"])),
        ("prompt_cache_key", Drop),
        ("prompt_cache_retention", Drop),
        ("client_metadata", Drop),
    ],
)]);

static TEXT_CONFIG: Table =
    single(&[Kind::of(&[], &[("format", SettingBy(read_text_format)), ("verbosity", Setting)])]);

static REASONING_CONFIG: Table =
    single(&[Kind::of(&[], &[("effort", Setting), ("summary", Setting), ("generate_summary", Setting)])]);

static ITEM: Table = Table {
    tag: "type",
    default: "message",
    kinds: &[
        Kind::of(
            &["message"],
            &[
                ("type", Keep),
                ("role", Keep),
                ("content", Many(&PART)),
                ("id", Drop),
                ("status", Drop),
                ("phase", Drop),
            ],
        ),
        Kind::needing(
            Feature::Tools,
            &["function_call"],
            &[("type", Keep), ("call_id", Keep), ("name", Keep), ("arguments", Keep), ("id", Drop), ("status", Drop)],
        ),
        Kind::needing(
            Feature::Tools,
            &["function_call_output"],
            &[("type", Keep), ("call_id", Keep), ("output", Many(&RESULT_PART)), ("id", Drop), ("status", Drop)],
        ),
        Kind::of(
            &["reasoning"],
            &[
                ("type", Keep),
                ("summary", Keep),
                ("content", Keep),
                ("encrypted_content", Keep),
                ("id", Drop),
                ("status", Drop),
            ],
        ),
    ],
};

const TEXT: Kind = Kind::of(
    &["input_text", "output_text", "text"],
    &[("type", Keep), ("text", Keep), ("annotations", Drop), ("logprobs", Drop), ("prompt_cache_breakpoint", Drop)],
);

static PART: Table = Table {
    tag: "type",
    default: "",
    kinds: &[
        TEXT,
        Kind::of(&["refusal"], &[("type", Keep), ("refusal", Keep), ("text", Keep)]),
        Kind::of(
            &["input_image"],
            &[("type", Keep), ("image_url", Image), ("detail", Only(&["\"auto\""])), ("prompt_cache_breakpoint", Drop)],
        ),
    ],
};

static RESULT_PART: Table = Table {
    tag: "type",
    default: "",
    kinds: &[
        TEXT,
        Kind::needing(
            Feature::ToolResultImage,
            &["input_image"],
            &[("type", Keep), ("image_url", Image), ("detail", Only(&["\"auto\""])), ("prompt_cache_breakpoint", Drop)],
        ),
    ],
};

static TOOL: Table = Table {
    tag: "type",
    default: "",
    kinds: &[Kind::of(
        &["function"],
        &[("type", Keep), ("name", Keep), ("description", Keep), ("parameters", Keep), ("strict", Strict)],
    )],
};
