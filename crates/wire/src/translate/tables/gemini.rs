//! Requests of Gemini.
//!
//! It refuses to know targets, and tools that the provider runs itself. Invariant: see [`super`].

use super::single;
use crate::translate::clean::Rule::{Drop, Keep, Many, Needs, One, Only, Wish};
use crate::translate::clean::{Kind, Need, Table};

pub(super) static REQUEST: Table = single(&[Kind::of(
    &[],
    &[
        ("model", Keep),
        ("contents", Many(&CONTENT)),
        ("systemInstruction", One(&CONTENT)),
        ("generationConfig", One(&GENERATION)),
        ("tools", Needs(Need::Tools, &Many(&TOOL))),
        ("toolConfig", Needs(Need::Tools, &Keep)),
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
        ("topK", Wish),
        ("presencePenalty", Wish),
        ("frequencyPenalty", Wish),
        ("responseMimeType", Wish),
        ("responseSchema", Wish),
        ("responseJsonSchema", Wish),
        ("thinkingConfig", One(&THINKING)),
        ("candidateCount", Only(&["1"])),
        ("responseLogprobs", Only(&["false"])),
        ("responseModalities", Only(&["[]", "[\"TEXT\"]"])),
    ],
)]);

static THINKING: Table =
    single(&[Kind::of(&[], &[("thinkingBudget", Wish), ("thinkingLevel", Wish), ("includeThoughts", Wish)])]);

static CONTENT: Table = single(&[Kind::of(&[], &[("role", Keep), ("parts", Many(&PART))])]);

static PART: Table = single(&[Kind::of(
    &[],
    &[
        ("text", Keep),
        ("thought", Keep),
        ("thoughtSignature", Drop),
        ("inlineData", Needs(Need::Picture, &One(&INLINE))),
        ("fileData", Needs(Need::PictureByAddress, &One(&FILE))),
        ("functionCall", Needs(Need::Tools, &One(&CALL))),
        ("functionResponse", Needs(Need::Tools, &One(&RESULT))),
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
        ("behavior", Only(&["\"UNSPECIFIED\"", "\"BLOCKING\""])),
    ],
)]);
