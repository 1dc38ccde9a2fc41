//! An answer without text: is it one of the dialect that was asked for, or does it look like another's?
//!
//! Invariant: nothing is kept once text came, and never more than [`MAX_KEPT_BYTES`].

use tokrate_core::{EventBatch, EventKind, Tick, one_line};
use tokrate_wire::{Decoder, Dialect, Shape};

/// Bytes kept of an answer without text: first events of a stream are short, and a thought before the text takes a few KiB.
const MAX_KEPT_BYTES: usize = 16 * 1024;

/// Longest name of a coding that is repeated.
const MAX_CODING_BYTES: usize = 40;

/// The beginning of an answer, as long as no text came.
#[derive(Debug)]
pub(crate) struct Beginning {
    dialect: Dialect,
    shape: Shape,
    kept: Vec<u8>,
    has_text: bool,
    /// Whether there was an event that the dialect knows, with or without text.
    is_known: bool,
}

impl Beginning {
    /// Of an answer that was asked for so.
    pub(crate) fn new(dialect: Dialect, shape: Shape) -> Beginning {
        Beginning { dialect, shape, kept: Vec::new(), has_text: false, is_known: false }
    }

    /// Takes bytes of the body.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if !self.has_text {
            let room = MAX_KEPT_BYTES - self.kept.len();
            self.kept.extend_from_slice(&bytes[..room.min(bytes.len())]);
        }
    }

    /// Takes what was decoded of them.
    pub(crate) fn on(&mut self, batch: &EventBatch) {
        if self.has_text {
            return;
        }
        for event in batch.events() {
            self.has_text |= is_text(event.kind);
            self.is_known |= matches!(
                event.kind,
                EventKind::Empty
                    | EventKind::Model(_)
                    | EventKind::Usage(_)
                    | EventKind::Finish(_)
                    | EventKind::ToolCall { .. }
                    | EventKind::Failed { .. }
            );
        }
        if self.has_text {
            self.kept = Vec::new();
        }
    }

    /// Why the answer is none of the dialect; `None` if it may be one, such as one without text, or if nothing came. Of the beginning of one
    /// that was cut, only that it looks like another's counts.
    /// `encoding` is the `content-encoding` of the answer, which is read as it comes.
    pub(crate) fn complaint(&self, is_cut: bool, encoding: Option<&str>) -> Option<String> {
        let begin = self.kept.trim_ascii_start();
        if self.has_text || begin.is_empty() {
            return None;
        }
        if let Some(coding) = self.coding(encoding) {
            return Some(format!(
                "the answer is compressed ({coding}), which was not asked for; let the server, or what stands before it at --url, send it plain"
            ));
        }
        if begin.starts_with(b"<") && !self.is_known {
            return Some("the answer is a web page or other markup, not one of an API; check --url".to_owned());
        }
        let asked = self.dialect.name();
        match (self.looks_like(), self.is_known) {
            (Some(other), _) => Some(format!(
                "the answer is not one of the dialect {asked}; it looks like {0}: try --dialect {0}",
                other.name()
            )),
            (None, false) if !is_cut => {
                Some(format!("the answer holds no event of the dialect {asked}; check --dialect and the path of --url"))
            }
            (None, _) => None,
        }
    }

    /// How it is compressed, if it is: as its head says, or as its first bytes do.
    fn coding(&self, encoding: Option<&str>) -> Option<String> {
        let stated =
            encoding.map(str::trim).filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity"));
        match (stated, self.kept.as_slice()) {
            _ if self.is_known => None,
            (Some(coding), _) => Some(format!("content-encoding: {}", one_line(coding, MAX_CODING_BYTES))),
            (None, [0x1f, 0x8b, ..]) => Some("gzip, without a word of it in its head".to_owned()),
            (None, [0x28, 0xb5, 0x2f, 0xfd, ..]) => Some("zstd, without a word of it in its head".to_owned()),
            (None, _) => None,
        }
    }

    /// The first other dialect in which it has text.
    fn looks_like(&self) -> Option<Dialect> {
        let has_text = |dialect: &Dialect| {
            let (mut decoder, mut batch) = (Decoder::new(*dialect, self.shape), EventBatch::new());
            decoder.push(Tick::ZERO, &self.kept, &mut batch);
            decoder.end(Tick::ZERO, &mut batch);
            batch.events().iter().any(|event| is_text(event.kind))
        };
        Dialect::ALL.into_iter().filter(|dialect| *dialect != self.dialect).find(has_text)
    }
}

fn is_text(kind: EventKind) -> bool {
    matches!(kind, EventKind::Text { text, .. } if !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAT: &str = concat!(
        "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
        "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"one two\"}}]}\n\n",
        "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
        "data: [DONE]\n\n"
    );

    fn seen(dialect: Dialect, body: &str) -> Option<String> {
        let (mut beginning, mut decoder) =
            (Beginning::new(dialect, Shape::Stream), Decoder::new(dialect, Shape::Stream));
        let mut batch = EventBatch::new();
        for piece in body.as_bytes().chunks(7) {
            beginning.push(piece);
            decoder.push(Tick::ZERO, piece, &mut batch);
            beginning.on(&batch);
            batch.clear();
        }
        decoder.end(Tick::ZERO, &mut batch);
        beginning.on(&batch);
        beginning.complaint(false, None)
    }

    #[test]
    fn a_compressed_answer_and_a_web_page_are_called_what_they_are() {
        let seen = |bytes: &[u8], encoding: Option<&str>| {
            let mut beginning = Beginning::new(Dialect::Anthropic, Shape::Stream);
            beginning.push(bytes);
            beginning.complaint(false, encoding).unwrap_or_default()
        };
        let gzip = b"\x1f\x8b\x08\0\0\0\0\0";
        assert!(seen(gzip, Some("gzip")).starts_with("the answer is compressed (content-encoding: gzip)"));
        assert!(seen(b"\x0b\x02\x80br", Some("br")).contains("content-encoding: br"));
        assert!(seen(gzip, None).starts_with("the answer is compressed (gzip, without a word"));
        assert!(!seen(b"{\"odd\": 1}", Some("identity")).contains("compressed"));
        let page = seen(b"\n<!doctype html><title>Sign in</title>", None);
        assert_eq!(page, "the answer is a web page or other markup, not one of an API; check --url");
        assert!(!page.contains("OpenAI"), "it may be any dialect");
    }

    #[test]
    fn a_stream_of_another_dialect_is_named_with_the_flag_that_reads_it() {
        for dialect in Dialect::ALL.into_iter().filter(|dialect| *dialect != Dialect::OpenAiChat) {
            let complaint = seen(dialect, CHAT).unwrap_or_else(|| panic!("{} took it", dialect.name()));
            assert!(complaint.ends_with("it looks like openai-chat: try --dialect openai-chat"), "{complaint}");
            assert!(complaint.contains(dialect.name()), "{complaint}");
        }
        assert_eq!(seen(Dialect::OpenAiChat, CHAT), None);
    }

    #[test]
    fn a_stream_without_any_event_of_the_dialect_says_so() {
        let complaint = seen(Dialect::OpenAiChat, "data: {\"hello\":\"world\"}\n\n").expect("nothing of it is known");
        assert!(
            complaint.contains("no event of the dialect openai-chat") && complaint.contains("--dialect"),
            "{complaint}"
        );
    }

    #[test]
    fn an_answer_of_the_dialect_without_text_is_none_of_another() {
        let silent = "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\n";
        assert_eq!(seen(Dialect::OpenAiChat, silent), None);
        assert_eq!(seen(Dialect::OpenAiChat, " \n"), None, "nothing came");
    }
}
