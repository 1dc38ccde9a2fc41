//! Anthropic's messages as Google hosts them: the same bodies and answers at other paths.
//!
//! Facts: cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude/use-claude. The model stands in the path, and the version of the API in
//! the body. Invariant: every other field of the body stays the bytes it was, in its order.

use crate::model_path::escaped;
use crate::peek::{RequestPeek, scan_members};

/// The version of the API that Google's hosting wants in each body.
const VERSION: &[u8] = br#"{"anthropic_version":"vertex-2023-10-16""#;
const MESSAGES: &str = "/messages";
const COUNT: &str = "/messages/count_tokens";

/// Path and body for Vertex AI of a request as Anthropic has it; `None` for what is none of its paths, or has no model.
pub fn anthropic_on_vertex(path: &str, body: &[u8]) -> Option<(String, Vec<u8>)> {
    if let Some(base) = path.strip_suffix(COUNT) {
        // The model stays in the body of these.
        return Some((format!("{base}/models/count-tokens:rawPredict"), body.to_vec()));
    }
    let base = path.strip_suffix(MESSAGES)?;
    let peek = RequestPeek::read(body).ok()?;
    let model = peek.model(body)?;
    let method = if peek.stream == Some(true) { "streamRawPredict" } else { "rawPredict" };
    // `@` parts the name of a model from its date.
    let path = format!("{base}/models/{}:{method}", escaped(&model, b"@"));
    let mut hosted = VERSION.to_vec();
    let put = |name: &[u8], value: &[u8]| {
        if name != b"model" && name != b"anthropic_version" {
            for part in [b",\"", name, b"\":", value] {
                hosted.extend_from_slice(part);
            }
        }
    };
    scan_members(body, put).ok()?;
    hosted.push(b'}');
    Some((path, hosted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosted(path: &str, body: &str) -> Option<(String, String)> {
        let (path, body) = anthropic_on_vertex(path, body.as_bytes())?;
        Some((path, String::from_utf8(body).expect("text")))
    }

    #[test]
    fn the_model_goes_into_the_path_and_the_version_into_the_body() {
        let body =
            r#"{"model":"claude-sonnet-4-5@20250929","max_tokens":9 ,"stream":true,"x":{"model":1},"messages":[]}"#;
        let expected =
            r#"{"anthropic_version":"vertex-2023-10-16","max_tokens":9,"stream":true,"x":{"model":1},"messages":[]}"#;
        let path = "/v1/p/publishers/anthropic/models/claude-sonnet-4-5@20250929:streamRawPredict";
        assert_eq!(hosted("/v1/p/publishers/anthropic/messages", body), Some((path.to_owned(), expected.to_owned())));
        let whole =
            hosted("/messages", r#"{"model":"a/b","anthropic_version":"vertex-2023-10-16"}"#).expect("a request");
        assert_eq!(
            whole,
            ("/models/a%2Fb:rawPredict".to_owned(), r#"{"anthropic_version":"vertex-2023-10-16"}"#.to_owned())
        );
        let counted = hosted("/messages/count_tokens", r#"{"model":"m"}"#).expect("a request");
        assert_eq!(counted, ("/models/count-tokens:rawPredict".to_owned(), r#"{"model":"m"}"#.to_owned()));
    }

    #[test]
    fn what_is_none_of_its_requests_stays_as_it_is() {
        for (path, body) in
            [("/models", "{}"), ("/messages", "{}"), ("/messages", "no JSON"), ("/messages", r#"{"model":1}"#)]
        {
            assert_eq!(hosted(path, body), None, "{path} {body}");
        }
    }
}
