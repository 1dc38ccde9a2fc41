//! Whether a request has its provider read more than its own bytes.
//!
//! The tokens of a text are never more than its bytes, but a picture, a file kept elsewhere, an earlier conversation or
//! a web search is billed as input too, and its tokens cannot be counted from the body. The body is searched, not
//! parsed: a word of a text may be mistaken for such a reference.
//!
//! Invariant: no reference that today's dialects have is missed, however its name is written.

use memchr::{memchr_iter, memmem};

/// What the input of a request holds beside the bytes of its body.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExternalInput {
    /// It refers to something whose tokens its bytes do not bound.
    pub references: bool,
    /// It has tools, for which providers put a text of their own before the prompt.
    pub tools: bool,
    /// It predicts its answer: what of that is wrong is billed as output.
    pub predicts: bool,
}

/// Names of fields and kinds that stand for more than they say, in order.
const REFERENCES: [&str; 34] = [
    "audio_url",
    "cachedContent",
    "cached_content",
    "codeExecution",
    "code_execution",
    "code_interpreter",
    "container",
    "conversation",
    "fileData",
    "file_data",
    "file_id",
    "file_search",
    "file_url",
    "googleSearch",
    "googleSearchRetrieval",
    "google_search",
    "google_search_retrieval",
    "image_data",
    "image_generation",
    "image_url",
    "images",
    "inlineData",
    "inline_data",
    "input_audio",
    "input_file",
    "input_image",
    "mcp_servers",
    "multimodal_data",
    "previous_response_id",
    "s3Location",
    "systemTool",
    "urlContext",
    "url_context",
    "video_url",
];
/// Beginnings of names that are followed by a version.
const VERSIONED: [&str; 6] = ["web_search", "web_fetch", "computer_", "code_execution_", "bash_20", "text_editor_20"];
/// Kinds that are everyday words: they count as the value of `type` only.
const KINDS: [&str; 6] = ["audio", "document", "file", "image", "mcp", "video"];
/// Bedrock names a block by its field: these, followed by an object that begins with one of the words below.
const BLOCKS: [&[u8]; 4] = [b"audio", b"document", b"image", b"video"];
const IN_BLOCKS: [&[u8]; 3] = [b"format", b"name", b"source"];
/// Longer strings cannot be one of the names above with a version behind it (bytes).
const MAX_NAME_BYTES: usize = 40;

/// Looks for references in a request's body, which is known to be JSON.
pub fn external_input(body: &[u8]) -> ExternalInput {
    let mut found = ExternalInput { references: has_escaped_letter(body), ..ExternalInput::default() };
    let mut previous: &[u8] = b"";
    let mut opens_block = false;
    let mut quotes = memchr_iter(b'"', body);
    let Some(mut opened) = quotes.next() else { return found };
    for quote in quotes {
        // What lies between two quotes is a string, or what stands between strings; the latter is never a name.
        let between = &body[opened + 1..quote];
        opened = quote;
        if between.len() > MAX_NAME_BYTES {
            previous = b"";
            continue;
        }
        match std::str::from_utf8(between) {
            Ok("tools" | "functions" | "functionDeclarations" | "function_declarations") => found.tools = true,
            Ok("prediction") => found.predicts = true,
            Ok(name) => {
                let is_kind = previous == b"type" && KINDS.contains(&name);
                let is_versioned = || VERSIONED.iter().any(|start| name.starts_with(start));
                found.references |= is_kind || REFERENCES.binary_search(&name).is_ok() || is_versioned();
            }
            Err(_) => {}
        }
        found.references |= opens_block && IN_BLOCKS.contains(&between);
        opens_block = BLOCKS.contains(&previous) && is_object_start(between);
        let is_colon = between.trim_ascii() == b":";
        if !is_colon {
            previous = between;
        }
    }
    found
}

/// Whether an object begins between two strings: the value of the first.
fn is_object_start(between: &[u8]) -> bool {
    let mut letters = between.iter().filter(|byte| !byte.is_ascii_whitespace());
    letters.next() == Some(&b':') && letters.next() == Some(&b'{') && letters.next().is_none()
}

/// Whether a letter, a digit or `_` is written as an escape: no encoder does, and a name could hide behind it.
fn has_escaped_letter(body: &[u8]) -> bool {
    memmem::find_iter(body, b"\\u00").any(|at| {
        let digits = body.get(at + 4..at + 6).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refers(body: &str) -> bool {
        external_input(body.as_bytes()).references
    }

    #[test]
    fn the_names_are_in_order() {
        assert!(REFERENCES.is_sorted());
        assert!(REFERENCES.iter().all(|name| name.len() <= MAX_NAME_BYTES));
    }

    #[test]
    fn what_a_provider_reads_beside_the_body_is_found_in_every_dialect() {
        for body in [
            r#"{"messages":[{"content":[{"image":{"format":"png","source":{"bytes":"AA=="}}}]}]}"#,
            r#"{"messages":[{"content":[{"document" : {"name":"x","source":{"s3Location":{"uri":"s3://x"}}}}]}]}"#,
            r#"{"messages":[{"content":[{"type":"image_url","image_url":{"url":"https://x/y.png"}}]}]}"#,
            r#"{"messages":[{"content":[{"type" : "file","file":{"x":1}}]}]}"#,
            r#"{"input":"hi","previous_response_id":"resp_1"}"#,
            r#"{"input":"hi","tools":[{"type":"web_search_preview"}]}"#,
            r#"{"input":"hi","tools":[{"type":"mcp","server_url":"https://x"}]}"#,
            r#"{"messages":[{"content":[{"type":"document","source":{"type":"url","url":"https://x"}}]}]}"#,
            r#"{"tools":[{"type":"web_fetch_20250910","name":"fetch"}]}"#,
            r#"{"contents":[{"parts":[{"inlineData":{"mimeType":"image/png","data":"AA"}}]}]}"#,
            r#"{"contents":[],"cachedContent":"cachedContents/1"}"#,
            r#"{"contents":[],"tools":[{"googleSearch":{}}]}"#,
            r#"{"messages":[{"content":"what is this","images":["AA=="]}]}"#,
            r#"{"prompt":"hi","image_data":[{"id":1,"data":"AA"}]}"#,
            r#"{"messages":[{"content":[{"type":"im\u0061ge_url"}]}]}"#,
        ] {
            assert!(refers(body), "{body}");
        }
    }

    #[test]
    fn plain_texts_and_tools_of_the_clients_own_are_bounded_by_their_bytes() {
        for body in [
            r#"{"messages":[{"role":"user","content":"put \"image_url\" into the file, as type: \"image\""}]}"#,
            r#"{"messages":[{"content":"caf\u00e9 \u003cb\u003e"}]}"#,
            r#"{"tools":[{"type":"function","function":{"name":"read","parameters":{"type":"object","properties":{"file":{"type":"string"}}}}}]}"#,
            "{}",
        ] {
            assert!(!refers(body), "{body}");
        }
        assert!(external_input(br#"{"tools":[]}"#).tools && !external_input(b"{}").tools);
        assert!(external_input(br#"{"prediction" : {"type":"content"}}"#).predicts && !external_input(b"{}").predicts);
    }
}
