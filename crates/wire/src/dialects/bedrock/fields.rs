//! The fields of a request for Converse, for translations.

use crate::translate::table::Rule::{Drop, Keep, Many, Needs, One, Only, Strict};
use crate::translate::table::{Feature, Kind, Table, single};

pub(super) static REQUEST: Table = single(&[Kind::of(
    &[],
    &[
        ("modelId", Drop),
        ("messages", Many(&MESSAGE)),
        ("system", Many(&SYSTEM)),
        ("inferenceConfig", One(&CONFIG)),
        ("toolConfig", Needs(Feature::Tools, &One(&TOOLS))),
        ("requestMetadata", Drop),
        ("promptVariables", Only(&["{}"])),
        ("additionalModelRequestFields", Only(&["{}"])),
        ("additionalModelResponseFieldPaths", Only(&["[]"])),
        ("performanceConfig", Only(&["{}", r#"{"latency":"standard"}"#])),
        ("serviceTier", Only(&[r#"{"type":"default"}"#])),
    ],
)]);

static CONFIG: Table =
    single(&[Kind::of(&[], &[("maxTokens", Keep), ("temperature", Keep), ("topP", Keep), ("stopSequences", Keep)])]);

static MESSAGE: Table = single(&[Kind::of(&[], &[("role", Keep), ("content", Many(&BLOCK))])]);

static SYSTEM: Table = single(&[Kind::of(&[], &[("text", Keep), ("cachePoint", Drop)])]);

static BLOCK: Table = single(&[Kind::of(
    &[],
    &[
        ("text", Keep),
        ("image", Needs(Feature::Image, &One(&IMAGE))),
        ("toolUse", Needs(Feature::Tools, &One(&CALL))),
        ("toolResult", Needs(Feature::Tools, &One(&RESULT))),
        ("reasoningContent", One(&REASONING)),
        ("cachePoint", Drop),
    ],
)]);

static IMAGE: Table = single(&[Kind::of(&[], &[("format", Keep), ("source", One(&SOURCE))])]);

static SOURCE: Table = single(&[Kind::of(&[], &[("bytes", Keep)])]);

static CALL: Table = single(&[Kind::of(&[], &[("toolUseId", Keep), ("name", Keep), ("input", Keep)])]);

static RESULT: Table = single(&[Kind::of(
    &[],
    &[("toolUseId", Keep), ("status", Keep), ("content", Many(&RESULT_BLOCK)), ("type", Drop)],
)]);

static RESULT_BLOCK: Table = single(&[Kind::of(
    &[],
    &[("text", Keep), ("json", Keep), ("image", Needs(Feature::ToolResultImage, &One(&IMAGE))), ("cachePoint", Drop)],
)]);

static REASONING: Table =
    single(&[Kind::of(&[], &[("reasoningText", One(&REASONING_TEXT)), ("redactedContent", Drop)])]);

static REASONING_TEXT: Table = single(&[Kind::of(&[], &[("text", Keep), ("signature", Keep)])]);

static TOOLS: Table = single(&[Kind::of(&[], &[("tools", Many(&TOOL)), ("toolChoice", Keep)])]);

static TOOL: Table = single(&[Kind::of(&[], &[("toolSpec", One(&SPEC)), ("cachePoint", Drop)])]);

static SPEC: Table = single(&[Kind::of(
    &[],
    &[("name", Keep), ("description", Keep), ("inputSchema", One(&SCHEMA)), ("strict", Strict)],
)]);

static SCHEMA: Table = single(&[Kind::of(&[], &[("json", Keep)])]);
