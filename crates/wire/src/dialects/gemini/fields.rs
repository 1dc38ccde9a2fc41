//! The fields of a request for Gemini's generateContent, for translations.

use crate::translate::table::Rule::{Drop, Keep, Many, Needs, One, Only, Setting};
use crate::translate::table::{Feature, Kind, Table, single};

pub(super) static REQUEST: Table = single(&[Kind::of(
    &[],
    &[
        ("model", Keep),
        ("contents", Many(&CONTENT)),
        ("systemInstruction", One(&CONTENT)),
        ("generationConfig", One(&GENERATION)),
        ("tools", Needs(Feature::Tools, &Many(&TOOL))),
        ("toolConfig", Needs(Feature::Tools, &Keep)),
        ("safetySettings", Drop),
        ("labels", Drop),
    ],
)]);

static GENERATION: Table = single(&[Kind::of(
    &[],
    &[
        ("maxOutputTokens", Keep),
        ("temperature", Keep),
        ("topP", Keep),
        ("stopSequences", Keep),
        ("seed", Keep),
        ("topK", Setting),
        ("presencePenalty", Setting),
        ("frequencyPenalty", Setting),
        ("responseMimeType", Setting),
        ("responseSchema", Setting),
        ("responseJsonSchema", Setting),
        ("thinkingConfig", One(&THINKING)),
        ("candidateCount", Only(&["1"])),
        ("responseLogprobs", Only(&["false"])),
        ("responseModalities", Only(&["[]", "[\"TEXT\"]"])),
    ],
)]);

static THINKING: Table =
    single(&[Kind::of(&[], &[("thinkingBudget", Setting), ("thinkingLevel", Setting), ("includeThoughts", Setting)])]);

static CONTENT: Table = single(&[Kind::of(&[], &[("role", Keep), ("parts", Many(&PART))])]);

static PART: Table = single(&[Kind::of(
    &[],
    &[
        ("text", Keep),
        ("thought", Keep),
        ("thoughtSignature", Drop),
        ("inlineData", Needs(Feature::Image, &One(&INLINE))),
        ("fileData", Needs(Feature::ImageUrl, &One(&FILE))),
        ("functionCall", Needs(Feature::Tools, &One(&CALL))),
        ("functionResponse", Needs(Feature::Tools, &One(&RESULT))),
    ],
)]);

static INLINE: Table = single(&[Kind::of(&[], &[("mimeType", Keep), ("data", Keep), ("displayName", Drop)])]);

static FILE: Table = single(&[Kind::of(&[], &[("mimeType", Keep), ("fileUri", Keep), ("displayName", Drop)])]);

static CALL: Table = single(&[Kind::of(&[], &[("id", Keep), ("name", Keep), ("args", Keep)])]);

static RESULT: Table = single(&[Kind::of(&[], &[("id", Keep), ("name", Keep), ("response", Keep)])]);

static TOOL: Table = single(&[Kind::of(&[], &[("functionDeclarations", Many(&DECLARATION))])]);

static DECLARATION: Table = single(&[Kind::of(
    &[],
    &[
        ("name", Keep),
        ("description", Keep),
        ("parameters", Keep),
        ("parametersJsonSchema", Keep),
        ("response", Drop),
        ("responseJsonSchema", Drop),
        ("behavior", Only(&["\"UNSPECIFIED\"", "\"BLOCKING\""])),
    ],
)]);
