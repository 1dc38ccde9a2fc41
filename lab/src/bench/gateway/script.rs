//! What the upstream can be asked to do, and how a prompt asks for it.
//!
//! Invariant: whoever passes a prompt on passes on what it asks for, so one upstream serves every gateway and nothing
//! has to be said beside the call.

use super::answer::AnswerReader;
use crate::bench::events::{self, Script};

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// As fast as it is taken.
    AtOnce,
    /// The first write at once, the next so long after the request, each further one at its tick (ns).
    Paced { ttft_ns: u64, gap_ns: u64 },
    /// What there is at once, and then nothing until the other end closes.
    Hold,
}

/// One thing that can be asked for.
pub struct Play {
    /// Bytes, by the writes that carry them.
    pub writes: Vec<Vec<u8>>,
    pub manner: Manner,
}

/// The plays by their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// An answer in one piece.
    Instant,
    /// A stream as fast as it is taken, 64 events a write.
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

/// Text events of a stream as fast as it is taken.
const FAST_EVENTS: u32 = 2_000;
/// Text events of a short stream with gaps, and of a long one.
pub const PACED_EVENTS: u32 = 10;
pub const CROWD_EVENTS: u32 = 200;
/// 50 tokens a second.
pub const GAP_NS: u64 = 20_000_000;
const TTFT_NS: u64 = 5_000_000;
/// What stands on both sides of what a prompt asks for.
const MARK: &[u8] = b"bench~";

impl Ask {
    const ALL: [Ask; 8] =
        [Ask::Instant, Ask::Kind, Ask::Unkind, Ask::Paced, Ask::Crowd, Ask::Held, Ask::Role, Ask::Mute];

    /// Whether the answer is a stream.
    pub fn streams(self) -> bool {
        !matches!(self, Ask::Instant | Ask::Mute)
    }

    /// A body of a call that asks for it, about 300 bytes.
    pub fn body(self, id: u64, model: &str) -> String {
        let asked = format!("bench~{}~{id}~", self as usize);
        let stream = self.streams();
        format!(
            r#"{{"model":"{model}","stream":{stream},"messages":[{{"role":"system","content":"You are terse."}},{{"role":"user","content":"{asked} Say in a few plain words how fast water runs down a hill in spring, when the snow melts and the streams are full, and stop as soon as you have said it."}}]}}"#
        )
    }

    /// What a body asks for, and its number.
    pub fn read(body: &[u8]) -> Option<(usize, u64)> {
        let start = memchr::memmem::find(body, MARK)? + MARK.len();
        let mut words = body[start..].split(|byte| *byte == b'~');
        let mut number = || str::from_utf8(words.next()?).ok()?.parse::<u64>().ok();
        let play = number()? as usize;
        Some((play, number()?)).filter(|_| play < Ask::ALL.len())
    }

    fn play(self) -> Play {
        let stream = |events, per_write| written(&Script::new(events, per_write, true));
        let paced = Manner::Paced { ttft_ns: TTFT_NS, gap_ns: GAP_NS };
        match self {
            Ask::Instant => Play { writes: vec![instant()], manner: Manner::AtOnce },
            Ask::Kind => Play { writes: stream(FAST_EVENTS, 64), manner: Manner::AtOnce },
            Ask::Unkind => Play { writes: stream(FAST_EVENTS, 1), manner: Manner::AtOnce },
            Ask::Paced => Play { writes: stream(PACED_EVENTS, 1), manner: paced },
            Ask::Crowd => Play { writes: stream(CROWD_EVENTS, 1), manner: paced },
            Ask::Held => Play { writes: stream(1, 1)[..2].to_vec(), manner: Manner::Hold },
            Ask::Role => Play { writes: stream(1, 1)[..1].to_vec(), manner: Manner::Hold },
            Ask::Mute => Play { writes: Vec::new(), manner: Manner::Hold },
        }
    }

    /// The body as it must arrive when nothing is changed on the way.
    pub fn true_body(self) -> Vec<u8> {
        let mut body = Vec::new();
        let mut reader = AnswerReader::default();
        for write in self.play().writes {
            reader.push(&write, &mut |bytes| body.extend_from_slice(bytes)).expect("the bench writes HTTP/1.1");
        }
        body
    }
}

/// All of them, in the order of their numbers.
pub fn plays() -> Vec<Play> {
    Ask::ALL.into_iter().map(Ask::play).collect()
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
    fn a_body_asks_for_what_it_was_made_for() {
        for (number, ask) in Ask::ALL.into_iter().enumerate() {
            let body = ask.body(1234, "bench");
            assert_eq!(Ask::read(body.as_bytes()), Some((number, 1234)));
            let json: serde_json::Value = serde_json::from_str(&body).expect("JSON");
            assert_eq!(json["stream"], ask.streams());
            assert!((250..=350).contains(&body.len()), "{}", body.len());
        }
        assert_eq!(Ask::read(b"bench~99~1~"), None);
        assert_eq!(Ask::read(b"bench~1~x~"), None);
        assert_eq!(Ask::read(b"nothing"), None);
    }

    #[test]
    fn a_true_body_has_every_event_and_an_end() {
        let body = String::from_utf8(Ask::Unkind.true_body()).expect("text");
        assert_eq!(body.matches(r#""content":" "#).count(), FAST_EVENTS as usize);
        assert!(body.ends_with("data: [DONE]\n\n"));
        assert_eq!(body, String::from_utf8(Ask::Kind.true_body()).expect("text"), "writes change nothing");
        let instant: serde_json::Value = serde_json::from_slice(&Ask::Instant.true_body()).expect("JSON");
        assert_eq!(instant["usage"]["completion_tokens"], 40);
    }
}
