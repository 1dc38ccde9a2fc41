//! Morph's compaction of large files: a table of definitions, then the file with placeholders for what the table defines.
//!
//! Invariant: expanding restores the file as it was before it was compacted; no placeholder is left.

use super::EditRequest;
use crate::format::quoted;
use crate::outcome::{Code, Refused};
use std::collections::BTreeMap;

/// Larger expansions are refused: the limit of an original (bytes).
const MAX_TEXT_BYTES: usize = 64 << 20;
/// The end of an instruction for a compacted file.
const SUFFIX: &str = "\n\nLARGE-FILE ANCHOR PROTOCOL:";

/// The request in plain text; as it is if nothing was compacted.
pub(super) fn expanded(request: EditRequest) -> Result<EditRequest, Refused> {
    let Some(table) = Table::read(&request.code)? else { return Ok(request) };
    let instruction =
        request.instruction.map(|text| text.rsplit_once(SUFFIX).map_or(text.clone(), |(text, _)| text.to_owned()));
    Ok(EditRequest {
        instruction,
        code: table.expand(table.skeleton, "the code")?,
        update: table.expand(&request.update, "the update")?,
        ..request
    })
}

/// The placeholders of a request.
struct Table<'t> {
    /// The prefix of every placeholder.
    prefix: String,
    values: BTreeMap<&'t str, String>,
    /// The file with placeholders.
    skeleton: &'t str,
}

impl<'t> Table<'t> {
    /// Reads the table that code begins with; none if it does not begin with one.
    fn read(code: &'t str) -> Result<Option<Table<'t>>, Refused> {
        let Some(rest) = code.trim_start().strip_prefix("⟪MORPH_DEFINITIONS_BEGIN_") else { return Ok(None) };
        let Some((namespace, rest)) = rest.split_once("⟫\n") else { return Ok(None) };
        if namespace.is_empty() || !namespace.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(None);
        }
        let end = format!("⟪MORPH_DEFINITIONS_END_{namespace}⟫\n⟪MORPH_CODE_BEGIN_{namespace}⟫\n");
        let prefix = format!("⟪M{namespace}:");
        let mut values = BTreeMap::new();
        let mut rest = rest;
        loop {
            if let Some(skeleton) = rest.strip_prefix(end.as_str()) {
                return Ok(Some(Table { prefix, values, skeleton }));
            }
            let (line, after) = rest.split_once('\n').ok_or_else(|| broken("the table of definitions does not end"))?;
            let (marker, value) =
                definition(line, &prefix).ok_or_else(|| broken(&format!("{} defines nothing", quoted(line))))?;
            if values.insert(marker, value).is_some() {
                return Err(broken(&format!("{} is defined twice", quoted(marker))));
            }
            rest = after;
        }
    }

    /// A text with what its placeholders stand for.
    fn expand(&self, text: &str, what: &str) -> Result<String, Refused> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(&self.prefix) {
            out.push_str(&rest[..at]);
            let marker = rest[at..].find('⟫').map(|end| &rest[at..at + end + '⟫'.len_utf8()]);
            let Some((marker, value)) = marker.and_then(|marker| Some((marker, self.values.get(marker)?))) else {
                let shown: String = rest[at..].chars().take(40).collect();
                return Err(broken(&format!("{what} holds {}, which nothing defines", quoted(&shown))));
            };
            out.push_str(value);
            if out.len() > MAX_TEXT_BYTES {
                let message = format!("{what} has more than {MAX_TEXT_BYTES} bytes without its placeholders");
                return Err(Refused::new(Code::TooLarge, message, "edit a smaller file"));
            }
            rest = &rest[at + marker.len()..];
        }
        out.push_str(rest);
        Ok(out)
    }
}

/// A line of the table: a placeholder and the JSON string it stands for.
fn definition<'t>(line: &'t str, prefix: &str) -> Option<(&'t str, String)> {
    if !line.starts_with(prefix) {
        return None;
    }
    let end = line.find("⟫=")? + '⟫'.len_utf8();
    Some((&line[..end], serde_json::from_str(&line[end + 1..]).ok()?))
}

fn broken(what: &str) -> Refused {
    Refused::new(
        Code::InvalidFormat,
        format!("the anchors of the file are broken: {what}"),
        "send the file in plain text",
    )
}
