//! A client's request for a server of another dialect.
//!
//! Invariant: see [`super`].

use super::clean::Cleaner;
use super::conversation::adapt;
use super::settings::write_settings;
use crate::codec::StrictTools;
use crate::dialect::{Dialect, Routed};
use crate::error::WireError;
use crate::remainder::array_of;
use crate::request::{decode_request, encode_request};
use std::fmt;
use tokrate_core::{ChatRequest, Tool};

/// Why a request cannot be translated for a server of another dialect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TranslateError {
    /// The client's dialect.
    pub from: Dialect,
    /// The server's.
    pub to: Dialect,
    /// The field, such as `messages[2].content[0].image_url`; empty if the request as a whole cannot be read.
    pub field: String,
    /// Why, and what to do.
    pub why: String,
}

impl TranslateError {
    pub(super) fn unreadable(from: Dialect, to: Dialect, error: &WireError) -> TranslateError {
        let field = match error {
            WireError::Missing(field) | WireError::Invalid { field, .. } => (*field).to_owned(),
            _ => String::new(),
        };
        TranslateError { from, to, field, why: error.to_string() }
    }
}

impl fmt::Display for TranslateError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TranslateError { from, to, field, why } = self;
        if why.starts_with("read the request") {
            return formatter.write_str(why);
        }
        write!(formatter, "translate the request from {} to {}: `{field}`: {why}", from.name(), to.name())
    }
}

impl std::error::Error for TranslateError {}

/// A request in the server's dialect.
#[derive(Clone, PartialEq, Debug)]
pub struct TranslatedRequest {
    /// Its body. The path is [`Dialect::path`] of the model and the shape that `request` asks for.
    pub body: Vec<u8>,
    /// What it holds; [`encode_request`] gives `body` again. For a server of OpenAI's dialect that supports only
    /// the older name of the limit, set `legacy_max_tokens` first.
    pub request: ChatRequest,
    /// Whether the client asked for token counts, or its dialect has them always. The server is asked for them whenever it
    /// streams.
    pub include_usage: bool,
}

/// Translates a client's request for `model` of a server of `to`.
///
/// # Errors
/// When the request cannot be read, or holds something that `to` cannot carry and that could change the answer.
pub fn translate_request(
    routed: &Routed,
    to: Dialect,
    model: &str,
    body: &[u8],
) -> Result<TranslatedRequest, TranslateError> {
    let from = routed.dialect;
    let mut cleaner = Cleaner::new(from, to);
    let cleaned = cleaner.clean(body, from.codec().request_fields)?;
    let decoded = decode_request(routed, cleaned.as_bytes());
    let mut request = decoded.map_err(|error| TranslateError::unreadable(from, to, &error))?;
    let Cleaner { settings, strict, .. } = cleaner;
    let include_usage = request.include_usage;
    request.model = model.to_owned();
    request.legacy_max_tokens = false;
    check_remainder(&mut request, from, to)?;
    (from.codec().prepare_export)(&mut request);
    adapt(&mut request, from, to)?;
    let refused = |(field, why)| TranslateError { from, to, field, why };
    request.extra = write_settings(to, &settings, &mut request).map_err(refused)?;
    if let Some(tools) = strict_tools(to, &request.tools, &strict).map_err(refused)? {
        request.extra.push(("tools".to_owned(), tools));
    }
    request.include_usage = request.stream;
    Ok(TranslatedRequest { body: encode_request(to, &request), request, include_usage })
}

/// What was understood field by field and yet has no place in the request as a whole.
fn check_remainder(request: &mut ChatRequest, from: Dialect, to: Dialect) -> Result<(), TranslateError> {
    for (field, _) in std::mem::take(&mut request.extra) {
        // The newer name of the limit is set as well, and counts.
        if field == "max_tokens" && request.max_output_tokens.is_some() {
            continue;
        }
        if field == "stream_options" {
            continue;
        }
        let why = format!("its value is one that {} has no place for", to.name());
        return Err(TranslateError { from, to, field, why });
    }
    Ok(())
}

/// The tools with their `strict` flags, if those must be written. `flags` are those of the request: the tool's position, the
/// flag and its path.
fn strict_tools(
    to: Dialect,
    tools: &[Tool],
    flags: &[(usize, bool, String)],
) -> Result<Option<String>, (String, String)> {
    let demanded = flags.iter().find(|(_, strict, _)| *strict);
    let encode = match (to.descriptor().request.strict_tools, demanded) {
        (StrictTools::Unsupported, Some((_, _, path))) => {
            return Err((path.clone(), format!("{} cannot hold a model to it; set it to false", to.name())));
        }
        (StrictTools::Unsupported | StrictTools::OnRequest(_), None) => return Ok(None),
        (StrictTools::OnRequest(encode), Some(_)) | (StrictTools::ByDefault(encode), _) => encode,
    };
    let is_strict = |position: usize| flags.iter().any(|(tool, strict, _)| *tool == position && *strict);
    let written: Vec<String> =
        tools.iter().enumerate().map(|(position, tool)| encode(tool, is_strict(position))).collect();
    Ok(array_of(&written.iter().map(String::as_str).collect::<Vec<_>>()))
}
