//! Reads a merge request from a prompt with the tags of Morph, Relace and kortix.
//!
//! Text between tags is kept byte for byte, without unescaping. Invariant: code and update are parts of the message, or
//! expansions of its own placeholders.

mod anchors;

use crate::outcome::{Code, Refused};

/// A merge that is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EditRequest {
    /// The model's description of the edit.
    pub instruction: Option<String>,
    /// The whole file as it is.
    pub code: String,
    /// The edit.
    pub update: String,
    /// Whether the answer is wanted between `<updated-code>` tags, as kortix' prompt has it.
    pub tagged_answer: bool,
}

/// Reads the message of a chat: `<instruction>…</instruction>`, which may be missing, `<code>…</code>`, `<update>…</update>`.
///
/// Nothing in them is escaped, so code and update may hold the tags themselves. The first opening and the last closing tag
/// count, and between code and update the last place where one ends and the other begins.
///
/// # Errors
/// When a tag is missing, or the code holds placeholders that nothing defines.
pub fn read_chat(content: &str) -> Result<EditRequest, Refused> {
    let (instruction, code_start) = before_code(content)?;
    let rest = &content[code_start..];
    let end = rest.rfind("</update>").ok_or_else(|| missing("</update>"))?;
    let (code_end, update_start) = boundary(&rest[..end]).ok_or_else(|| missing("</code>, then <update>,"))?;
    let outside = [&content[..code_start], &rest[end..]];
    let request = EditRequest {
        instruction: instruction.map(str::to_owned),
        code: rest[..code_end].to_owned(),
        update: rest[update_start..end].to_owned(),
        tagged_answer: instruction.is_none() && outside.iter().any(|text| text.contains("<updated-code>")),
    };
    anchors::expanded(request)
}

/// The instruction, and where the code begins.
fn before_code(content: &str) -> Result<(Option<&str>, usize), Refused> {
    const OPEN: &str = "<code>";
    if let Some(rest) = content.trim_start().strip_prefix("<instruction>") {
        let start = content.len() - rest.len();
        for (at, end) in rest.match_indices("</instruction>") {
            let after = &rest[at + end.len()..];
            if let Some(code) = after.trim_start().strip_prefix(OPEN) {
                return Ok((Some(&rest[..at]), content.len() - code.len()));
            }
        }
        return match rest.find(OPEN) {
            Some(at) => Ok((None, start + at + OPEN.len())),
            None => Err(missing(OPEN)),
        };
    }
    // Prose before it may speak of the tag; the tag itself begins a line.
    let begins_line =
        |at: &usize| content[..*at].trim_end_matches([' ', '\t']).ends_with('\n') || content[..*at].trim().is_empty();
    let mut places = content.match_indices(OPEN).map(|(at, _)| at);
    let at = places.find(begins_line).or_else(|| content.find(OPEN)).ok_or_else(|| missing(OPEN))?;
    Ok((None, at + OPEN.len()))
}

/// The last place where the code ends and the update begins: where the one ends, and where the other begins.
fn boundary(text: &str) -> Option<(usize, usize)> {
    text.rmatch_indices("<update>").find_map(|(at, open)| {
        let code = text[..at].trim_end().strip_suffix("</code>")?;
        Some((code.len(), at + open.len()))
    })
}

fn missing(tag: &str) -> Refused {
    Refused::new(
        Code::InvalidFormat,
        format!("the message has no {tag} where one belongs"),
        "write <code>the whole file</code>, then <update>the edit</update>",
    )
}

#[cfg(test)]
mod tests;
