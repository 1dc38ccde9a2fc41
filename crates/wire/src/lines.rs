//! Cuts a body into lines, one JSON document each.
//!
//! Invariant: the lines depend on the bytes alone, not on how they were cut, and never more than the limit plus one
//! push is held in memory.

use crate::frame::{Frame, FrameSink, after_known};
use memchr::memchr;
use serde::de::IgnoredAny;

/// Buffers that grew beyond this are given back after the line that needed them.
const KEPT_CAPACITY: usize = 64 << 10;

/// Cuts a body into lines. A line that lies whole inside one push is handed on without a copy; empty ones are not.
#[derive(Clone, Debug)]
pub(crate) struct LineFramer {
    limit: usize,
    /// The beginning of a line.
    held: Vec<u8>,
    /// Bytes of the line so far, kept or not.
    line_bytes: usize,
}

impl LineFramer {
    /// Bytes held in memory.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// A framer at the start of a body that skips lines of more than `max_line_bytes`.
    pub(crate) fn new(max_line_bytes: usize) -> LineFramer {
        LineFramer { limit: max_line_bytes, held: Vec::new(), line_bytes: 0 }
    }

    /// Takes the next bytes of the body and hands on each line that they complete.
    pub(crate) fn push(&mut self, bytes: &[u8], sink: &mut impl FrameSink) {
        let mut rest = bytes;
        loop {
            if self.line_bytes == 0 {
                rest = after_known(rest, self.limit, sink);
            }
            let Some(end) = memchr(b'\n', rest) else { break };
            let (line, whole) = (&rest[..end], &rest[..=end]);
            rest = &rest[end + 1..];
            if self.line_bytes == 0 && line.len() <= self.limit {
                hand_on(line, whole, sink);
                continue;
            }
            self.hold(line);
            self.line_ended(sink);
        }
        self.hold(rest);
    }

    /// Ends the body. A last line without a line feed counts if it is a document.
    pub(crate) fn end(&mut self, sink: &mut impl FrameSink) {
        let complete = serde_json::from_slice::<IgnoredAny>(&self.held).is_ok();
        if self.line_bytes > self.limit || complete {
            return self.line_ended(sink);
        }
        let held = std::mem::take(&mut self.held);
        if !held.trim_ascii().is_empty() {
            sink.take(Frame::Unfinished { name: b"", data: &held }, b"");
        }
        self.line_bytes = 0;
    }

    fn hold(&mut self, part: &[u8]) {
        self.line_bytes = self.line_bytes.saturating_add(part.len());
        if self.line_bytes <= self.limit {
            self.held.extend_from_slice(part);
        } else {
            self.held = Vec::new();
        }
    }

    fn line_ended(&mut self, sink: &mut impl FrameSink) {
        if self.line_bytes > self.limit {
            sink.take(Frame::TooLarge { bytes: self.line_bytes as u64 }, b"");
        } else {
            hand_on(&self.held, b"", sink);
        }
        self.line_bytes = 0;
        if self.held.capacity() > KEPT_CAPACITY {
            self.held = Vec::new();
        } else {
            self.held.clear();
        }
    }
}

fn hand_on(line: &[u8], whole: &[u8], sink: &mut impl FrameSink) {
    let line = line.trim_ascii();
    if !line.is_empty() {
        sink.take(Frame::Event { name: b"", data: line }, whole);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Every;

    fn framed(parts: &[&[u8]], limit: usize) -> Vec<String> {
        let mut framer = LineFramer::new(limit);
        let mut frames = Vec::new();
        let mut take = Every(|frame: Frame<'_>| {
            frames.push(match frame {
                Frame::Event { data, .. } => String::from_utf8_lossy(data).into_owned(),
                Frame::Unfinished { data, .. } => format!("unfinished {}", String::from_utf8_lossy(data)),
                Frame::TooLarge { bytes } => format!("too large {bytes}"),
                Frame::Corrupt => unreachable!("text has no checksum"),
            });
        });
        for part in parts {
            framer.push(part, &mut take);
        }
        framer.end(&mut take);
        frames
    }

    #[test]
    fn any_cut_gives_the_same_lines() {
        let body = b"{\"a\":1}\r\n\n {\"b\":\"x\"}\n{\"toolong\":\"0123456789\"}\n{\"c\":2}";
        let whole = framed(&[body], 20);
        assert_eq!(whole, ["{\"a\":1}", "{\"b\":\"x\"}", "too large 24", "{\"c\":2}"]);
        for at in 0..=body.len() {
            assert_eq!(framed(&[&body[..at], &body[at..]], 20), whole, "cut at {at}");
        }
        let bytes: Vec<&[u8]> = body.chunks(1).collect();
        assert_eq!(framed(&bytes, 20), whole);
    }

    #[test]
    fn a_line_that_breaks_off_is_unfinished() {
        assert_eq!(framed(&[b"{\"a\":1}\n{\"b\""], 100), ["{\"a\":1}", "unfinished {\"b\""]);
    }
}
