//! Anthropic's messages as Google and AWS host them: the same bodies at other paths.
//!
//! Facts: cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude/use-claude, and
//! docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages.html. The model stands in the path, and the
//! version of the API in the body; AWS's streams are put back into Anthropic's by [`crate::InvokeAnswer`]. Invariant: every other field
//! of the body stays the bytes it was, in its order.

use crate::model_path::escaped;
use crate::peek::{RequestPeek, scan_members};

const MESSAGES: &str = "/messages";
const COUNT: &str = "/messages/count_tokens";

/// Path and body for Vertex AI of a request as Anthropic has it; `None` for what is none of its paths, or has no model.
pub fn anthropic_on_vertex(path: &str, body: &[u8]) -> Option<(String, Vec<u8>)> {
    if let Some(base) = path.strip_suffix(COUNT) {
        // The model stays in the body of these.
        return Some((format!("{base}/models/count-tokens:rawPredict"), body.to_vec()));
    }
    let (base, model, streams) = named(path, body)?;
    let method = if streams { "streamRawPredict" } else { "rawPredict" };
    // `@` parts the name of a model from its date.
    let path = format!("{base}/models/{}:{method}", escaped(&model, b"@"));
    let start = br#"{"anthropic_version":"vertex-2023-10-16""#.to_vec();
    Some((path, with_version(start, body, &[])?))
}

/// The same for AWS Bedrock's Invoke. `betas`: what the client says in the header `anthropic-beta`, which is read in the body there.
pub fn anthropic_on_bedrock(path: &str, body: &[u8], betas: &str) -> Option<(String, Vec<u8>)> {
    let (base, model, streams) = named(path, body)?;
    let method = if streams { "invoke-with-response-stream" } else { "invoke" };
    let path = format!("{base}/model/{}/{method}", escaped(&model, b""));
    let mut start = br#"{"anthropic_version":"bedrock-2023-05-31""#.to_vec();
    let is_plain = |beta: &&str| {
        !beta.is_empty() && beta.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    let betas: Vec<&str> = betas.split(',').map(str::trim).filter(is_plain).collect();
    if !betas.is_empty() {
        start.extend_from_slice(format!(",\"anthropic_beta\":[\"{}\"]", betas.join("\",\"")).as_bytes());
    }
    // The path says whether it streams; of a field that comes twice nobody knows which counts.
    let left_out: &[&[u8]] = if betas.is_empty() { &[b"stream"] } else { &[b"stream", b"anthropic_beta"] };
    Some((path, with_version(start, body, left_out)?))
}

/// The base of a path of messages, the model, and whether it is to stream.
fn named<'p>(path: &'p str, body: &[u8]) -> Option<(&'p str, String, bool)> {
    let base = path.strip_suffix(MESSAGES)?;
    let peek = RequestPeek::read(body).ok()?;
    let model = peek.model(body)?.into_owned();
    Some((base, model, peek.stream == Some(true)))
}

/// A body behind its beginning, without the fields that stand elsewhere.
fn with_version(start: Vec<u8>, body: &[u8], left_out: &[&[u8]]) -> Option<Vec<u8>> {
    let mut hosted = start;
    let put = |name: &[u8], value: &[u8]| {
        if name != b"model" && name != b"anthropic_version" && !left_out.contains(&name) {
            for part in [b",\"", name, b"\":", value] {
                hosted.extend_from_slice(part);
            }
        }
    };
    scan_members(body, put).ok()?;
    hosted.push(b'}');
    Some(hosted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text((path, body): (String, Vec<u8>)) -> (String, String) {
        (path, String::from_utf8(body).expect("text"))
    }

    fn hosted(path: &str, body: &str) -> Option<(String, String)> {
        anthropic_on_vertex(path, body.as_bytes()).map(text)
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
    fn on_bedrock_the_path_says_what_streams_and_the_body_what_is_in_beta() {
        let on_bedrock = |body: &str, betas: &str| {
            anthropic_on_bedrock("/messages", body.as_bytes(), betas).map(text).expect("a request")
        };
        let body = r#"{"stream":true,"model":"us.anthropic.claude-x-v1:0","messages":[{"cache_control":{"type":"ephemeral"}}]}"#;
        assert_eq!(
            on_bedrock(body, "context-1m-2025-08-07, \"evil\",tools-1"),
            (
                "/model/us.anthropic.claude-x-v1%3A0/invoke-with-response-stream".to_owned(),
                r#"{"anthropic_version":"bedrock-2023-05-31","anthropic_beta":["context-1m-2025-08-07","tools-1"],"messages":[{"cache_control":{"type":"ephemeral"}}]}"#.to_owned()
            )
        );
        assert_eq!(
            on_bedrock(r#"{"model":"m","stream":false,"anthropic_beta":["a"]}"#, ""),
            (
                "/model/m/invoke".to_owned(),
                r#"{"anthropic_version":"bedrock-2023-05-31","anthropic_beta":["a"]}"#.to_owned()
            )
        );
        let own = on_bedrock(r#"{"model":"m","anthropic_beta":["a"]}"#, "b").1;
        assert_eq!(own, r#"{"anthropic_version":"bedrock-2023-05-31","anthropic_beta":["b"]}"#, "once");
    }

    #[test]
    fn what_is_none_of_its_requests_stays_as_it_is() {
        for (path, body) in
            [("/models", "{}"), ("/messages", "{}"), ("/messages", "no JSON"), ("/messages", r#"{"model":1}"#)]
        {
            assert_eq!(hosted(path, body), None, "{path} {body}");
            assert_eq!(anthropic_on_bedrock(path, body.as_bytes(), ""), None, "{path} {body}");
        }
        assert_eq!(anthropic_on_bedrock("/messages/count_tokens", br#"{"model":"m"}"#, ""), None);
    }
}
