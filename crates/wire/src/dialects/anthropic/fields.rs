//! The fields of a request for Anthropic's messages, for translations.

use crate::translate::setting::read_output_format;
use crate::translate::table::Rule::{Drop, Keep, Many, Needs, One, Only, Setting, SettingBy, Strict};
use crate::translate::table::{Feature, Kind, Table, single};

pub(super) static REQUEST: Table = single(&[Kind::of(
    &[],
    &[
        ("model", Keep),
        ("messages", Many(&MESSAGE)),
        ("system", Many(&TEXT_BLOCK)),
        ("max_tokens", Keep),
        ("stream", Keep),
        ("stop_sequences", Keep),
        ("temperature", Keep),
        ("top_p", Keep),
        ("top_k", Setting),
        ("tools", Needs(Feature::Tools, &Many(&TOOL))),
        ("tool_choice", Needs(Feature::Tools, &One(&TOOL_CHOICE))),
        ("thinking", Setting),
        ("output_config", One(&OUTPUT_CONFIG)),
        ("metadata", One(&METADATA)),
        ("service_tier", Setting),
        ("mcp_servers", Only(&["[]"])),
        ("context_management", Setting),
        ("cache_control", Drop),
    ],
)]);

static OUTPUT_CONFIG: Table =
    single(&[Kind::of(&[], &[("effort", Setting), ("format", SettingBy(read_output_format))])]);

static METADATA: Table =
    single(&[Kind { names: &[], fields: &[("user_id", Setting)], rest: Some(Drop), need: None, dropped: false }]);

static TOOL_CHOICE: Table =
    single(&[Kind::of(&[], &[("type", Keep), ("name", Keep), ("disable_parallel_tool_use", Setting)])]);

static MESSAGE: Table = Table {
    tag: "role",
    default: "",
    kinds: &[
        Kind::of(&["user", "assistant"], &[("role", Keep), ("content", Many(&BLOCK))]),
        Kind::of(&["system"], &[("role", Keep), ("content", Many(&TEXT_BLOCK))]),
    ],
};

const TEXT: Kind = Kind::of(&["text"], &[("type", Keep), ("text", Keep), ("cache_control", Drop), ("citations", Drop)]);

static TEXT_BLOCK: Table = Table { tag: "type", default: "", kinds: &[TEXT] };

static BLOCK: Table = Table {
    tag: "type",
    default: "",
    kinds: &[
        TEXT,
        Kind::of(&["image"], &[("type", Keep), ("source", One(&SOURCE)), ("cache_control", Drop)]),
        Kind::needing(
            Feature::Tools,
            &["tool_use"],
            &[("type", Keep), ("id", Keep), ("name", Keep), ("input", Keep), ("cache_control", Drop), ("caller", Drop)],
        ),
        Kind::needing(
            Feature::Tools,
            &["tool_result"],
            &[
                ("type", Keep),
                ("tool_use_id", Keep),
                ("content", Many(&RESULT_BLOCK)),
                ("is_error", Keep),
                ("cache_control", Drop),
            ],
        ),
        Kind::of(&["thinking"], &[("type", Keep), ("thinking", Keep), ("signature", Keep), ("cache_control", Drop)]),
        // Thoughts that only their provider can read.
        Kind { names: &["redacted_thinking"], fields: &[], rest: None, need: None, dropped: true },
    ],
};

static RESULT_BLOCK: Table = Table {
    tag: "type",
    default: "",
    kinds: &[
        TEXT,
        Kind::needing(
            Feature::ToolResultImage,
            &["image"],
            &[("type", Keep), ("source", One(&SOURCE)), ("cache_control", Drop)],
        ),
    ],
};

static SOURCE: Table = Table {
    tag: "type",
    default: "",
    kinds: &[
        Kind::needing(Feature::Image, &["base64"], &[("type", Keep), ("media_type", Keep), ("data", Keep)]),
        Kind::needing(Feature::ImageUrl, &["url"], &[("type", Keep), ("url", Keep)]),
    ],
};

static TOOL: Table = Table {
    tag: "type",
    default: "custom",
    kinds: &[Kind::of(
        &["custom"],
        &[
            ("type", Keep),
            ("name", Keep),
            ("description", Keep),
            ("input_schema", Keep),
            ("strict", Strict),
            ("cache_control", Drop),
            ("eager_input_streaming", Drop),
            ("defer_loading", Only(&["false"])),
            ("allowed_callers", Only(&["[\"direct\"]"])),
        ],
    )],
};
