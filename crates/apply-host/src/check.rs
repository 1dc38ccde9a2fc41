//! Holds the answer of any model to a request against the law of snippets, without merging.
//!
//! Invariant: what passes is a file that the engine would have accepted of its own fallback model.

use crate::config::OnRefuse;
use crate::request::{ApplyRequest, Rejected};
use http::Request;
use tokrate_apply::accept;

/// Whether a text is an answer to a request of an edit (OpenAI's chat) that may be written to the file.
///
/// # Errors
/// Why not, as a sentence.
pub fn check_answer(request: &[u8], text: &str) -> Result<(), String> {
    let request = edit_of(request)?;
    let edit = &request.edit;
    let text = if request.form.is_tagged() { untagged(text) } else { text };
    match accept(edit.original.as_bytes(), edit.update.as_bytes(), text, &edit.options) {
        Ok(_) => Ok(()),
        Err(refused) => {
            Err(format!("the model's answer was not accepted: {}: {}", refused.code.name(), refused.message))
        }
    }
}

/// The edit that a request (OpenAI's chat) asks for, or why it asks for none.
pub(crate) fn edit_of(request: &[u8]) -> Result<ApplyRequest, String> {
    let (head, ()) = Request::new(()).into_parts();
    ApplyRequest::chat(&head, request, OnRefuse::Error).map_err(|rejected| match rejected {
        Rejected::Error(_) => "the request is no edit that an answer can be held against".to_owned(),
        Rejected::Stale(_) => "the file is not the one that the edit was made for".to_owned(),
    })
}

/// What stands in the tags that the request asked for.
fn untagged(text: &str) -> &str {
    let inside = text.trim().strip_prefix("<updated-code>").and_then(|text| text.strip_suffix("</updated-code>"));
    inside.map_or(text, |inside| inside.strip_prefix('\n').unwrap_or(inside))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<(), String> {
        let content = "<code>def a():\\n    return 1\\n\\n\\ndef b():\\n    return 2\\n</code>\\n<update># ... existing code ...\\n\\n\\ndef b():\\n    return 3\\n</update>";
        let body = format!(r#"{{"model":"apply","messages":[{{"role":"user","content":"{content}"}}]}}"#);
        check_answer(body.as_bytes(), text)
    }

    #[test]
    fn a_file_that_keeps_the_law_passes_and_any_other_does_not() {
        let merged = "def a():\n    return 1\n\n\ndef b():\n    return 3\n";
        assert_eq!(check(merged), Ok(()));
        for wrong in
            ["", "Sure! Here is the file.", "def b():\n    return 3\n", &merged.replace("return 1", "return 9")]
        {
            assert!(check(wrong).is_err(), "{wrong}");
        }
        assert!(check_answer(b"{}", merged).is_err());
    }
}
