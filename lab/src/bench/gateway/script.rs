//! The response scripts of the upstream. A call names its script within the prompt.
//!
//! Invariant: every gateway forwards the prompt, so one upstream serves all of them without other settings.

use super::answer::AnswerReader;
use crate::bench::events::{self, Script};

/// The pacing of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// As fast as the client reads.
    AtOnce,
    /// The first write at once, the second after `ttft_ns`, each further one `gap_ns` later.
    Paced { ttft_ns: u64, gap_ns: u64 },
    /// All writes at once, then the response stays open until the client closes.
    Hold,
}

/// A response and its pacing.
pub struct ResponseScript {
    /// The bytes of each write.
    pub writes: Vec<Vec<u8>>,
    pub pacing: Pacing,
}

/// The scripts, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptName {
    /// An answer in one piece.
    Instant,
    /// A stream as fast as the client reads, 64 events a write.
    Kind,
    /// The same, an event a write.
    Unkind,
    /// A stream of 20 ms gaps, short.
    Paced,
    /// A stream of 20 ms gaps, long.
    Crowd,
    /// The first text, then nothing.
    Held,
    /// The role, then nothing.
    Role,
    /// Nothing at all.
    Mute,
}

/// Text events of a fast stream.
const FAST_EVENTS: u32 = 2_000;
/// Text events of a short stream with gaps, and of a long one.
pub const PACED_EVENTS: u32 = 10;
pub const CROWD_EVENTS: u32 = 200;
/// 50 tokens a second.
pub const GAP_NS: u64 = 20_000_000;
const TTFT_NS: u64 = 5_000_000;
/// Prefix of the script's number in a prompt.
const MARK: &[u8] = b"bench~";

impl ScriptName {
    const ALL: [ScriptName; 8] = [
        ScriptName::Instant,
        ScriptName::Kind,
        ScriptName::Unkind,
        ScriptName::Paced,
        ScriptName::Crowd,
        ScriptName::Held,
        ScriptName::Role,
        ScriptName::Mute,
    ];

    /// Whether the answer is a stream.
    pub fn streams(self) -> bool {
        !matches!(self, ScriptName::Instant | ScriptName::Mute)
    }

    /// The body of a call that names the script, about 300 bytes.
    pub fn body(self, id: u64, model: &str) -> String {
        let request = format!("bench~{}~{id}~", self as usize);
        let stream = self.streams();
        format!(
            r#"{{"model":"{model}","stream":{stream},"messages":[{{"role":"system","content":"You are terse."}},{{"role":"user","content":"{request} Say in a few plain words how fast water runs down a hill in spring, when the snow melts and the streams are full, and stop as soon as you have said it."}}]}}"#
        )
    }

    /// The script that a body names, and the call's number.
    pub fn read(body: &[u8]) -> Option<(usize, u64)> {
        let start = memchr::memmem::find(body, MARK)? + MARK.len();
        let mut words = body[start..].split(|byte| *byte == b'~');
        let mut number = || str::from_utf8(words.next()?).ok()?.parse::<u64>().ok();
        let script = number()? as usize;
        Some((script, number()?)).filter(|_| script < ScriptName::ALL.len())
    }

    fn script(self) -> ResponseScript {
        let stream = |events, per_write| written(&Script::new(events, per_write, true));
        let paced = Pacing::Paced { ttft_ns: TTFT_NS, gap_ns: GAP_NS };
        match self {
            ScriptName::Instant => ResponseScript { writes: vec![instant()], pacing: Pacing::AtOnce },
            ScriptName::Kind => ResponseScript { writes: stream(FAST_EVENTS, 64), pacing: Pacing::AtOnce },
            ScriptName::Unkind => ResponseScript { writes: stream(FAST_EVENTS, 1), pacing: Pacing::AtOnce },
            ScriptName::Paced => ResponseScript { writes: stream(PACED_EVENTS, 1), pacing: paced },
            ScriptName::Crowd => ResponseScript { writes: stream(CROWD_EVENTS, 1), pacing: paced },
            ScriptName::Held => ResponseScript { writes: stream(1, 1)[..2].to_vec(), pacing: Pacing::Hold },
            ScriptName::Role => ResponseScript { writes: stream(1, 1)[..1].to_vec(), pacing: Pacing::Hold },
            ScriptName::Mute => ResponseScript { writes: Vec::new(), pacing: Pacing::Hold },
        }
    }

    /// The body as it must arrive if nothing is changed on the way.
    pub fn true_body(self) -> Vec<u8> {
        let mut body = Vec::new();
        let mut reader = AnswerReader::default();
        for write in self.script().writes {
            reader.push(&write, &mut |bytes| body.extend_from_slice(bytes)).expect("the bench writes HTTP/1.1");
        }
        body
    }
}

/// All scripts, in the order of their numbers.
pub fn scripts() -> Vec<ResponseScript> {
    ScriptName::ALL.into_iter().map(ScriptName::script).collect()
}

fn written(script: &Script) -> Vec<Vec<u8>> {
    (0..).map_while(|index| script.write(index).map(<[u8]>::to_vec)).collect()
}

fn instant() -> Vec<u8> {
    let text = events::text(0, 40);
    let body = format!(
        r#"{{"id":"chatcmpl-8f2b61d0c3e94a7fa5d1b02c7e6f9a34","object":"chat.completion","created":1769092764,"model":"bench-model","choices":[{{"index":0,"message":{{"role":"assistant","content":"{text}","refusal":null}},"logprobs":null,"finish_reason":"stop"}}],"usage":{{"prompt_tokens":52,"completion_tokens":40,"total_tokens":92}},"service_tier":"default","system_fingerprint":"fp_44709d6fcb"}}"#
    );
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_names_the_script_that_it_was_made_for() {
        for (number, ask) in ScriptName::ALL.into_iter().enumerate() {
            let body = ask.body(1234, "bench");
            assert_eq!(ScriptName::read(body.as_bytes()), Some((number, 1234)));
            let json: serde_json::Value = serde_json::from_str(&body).expect("JSON");
            assert_eq!(json["stream"], ask.streams());
            assert!((250..=350).contains(&body.len()), "{}", body.len());
        }
        assert_eq!(ScriptName::read(b"bench~99~1~"), None);
        assert_eq!(ScriptName::read(b"bench~1~x~"), None);
        assert_eq!(ScriptName::read(b"nothing"), None);
    }

    #[test]
    fn a_true_body_has_every_event_and_an_end() {
        let body = String::from_utf8(ScriptName::Unkind.true_body()).expect("text");
        assert_eq!(body.matches(r#""content":" "#).count(), FAST_EVENTS as usize);
        assert!(body.ends_with("data: [DONE]\n\n"));
        assert_eq!(body, String::from_utf8(ScriptName::Kind.true_body()).expect("text"), "writes change nothing");
        let instant: serde_json::Value = serde_json::from_slice(&ScriptName::Instant.true_body()).expect("JSON");
        assert_eq!(instant["usage"]["completion_tokens"], 40);
    }
}
