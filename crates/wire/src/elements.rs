//! Cuts a body that is one JSON array into its objects, each as soon as it is closed.
//!
//! Invariant: the elements depend on the bytes alone, not on how they were cut, and never more than the limit plus one
//! push is held in memory.

use crate::frame::Frame;
use memchr::memchr2;

/// Cuts an array into its elements. An element that lies whole inside one push is handed on without a copy.
#[derive(Clone, Debug)]
pub(crate) struct ElementFramer {
    limit: usize,
    state: State,
    /// Brackets that are open, the array's own left out.
    depth: u32,
    in_text: bool,
    after_backslash: bool,
    /// The beginning of an element.
    held: Vec<u8>,
    /// Bytes of the element so far, kept or not.
    element_bytes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Before the array.
    Before,
    /// Within it.
    Within,
    /// After it.
    After,
}

impl ElementFramer {
    /// Bytes held in memory.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// A framer at the start of a body that skips elements of more than `max_element_bytes`.
    pub(crate) fn new(max_element_bytes: usize) -> ElementFramer {
        ElementFramer {
            limit: max_element_bytes,
            state: State::Before,
            depth: 0,
            in_text: false,
            after_backslash: false,
            held: Vec::new(),
            element_bytes: 0,
        }
    }

    /// Takes the next bytes of the body and hands on each element that they complete.
    pub(crate) fn push(&mut self, bytes: &[u8], on_frame: &mut impl FnMut(Frame<'_>)) {
        // Where the element that is open begins in these bytes; 0 if it began before them.
        let (mut start, mut at) = (0, 0);
        while let Some(&byte) = bytes.get(at) {
            if self.depth > 0 || self.in_text {
                let (taken, ended) = self.take_inside(&bytes[at..]);
                at += taken;
                if ended {
                    self.hand_on(&bytes[start..at], on_frame);
                    start = at;
                }
                continue;
            }
            at += 1;
            match (self.state, byte) {
                (State::Before, _) => {
                    self.state = if byte == b'[' { State::Within } else { State::Before };
                    start = at;
                }
                (State::After, _) => {
                    start = bytes.len();
                    break;
                }
                (State::Within, b'"') => self.in_text = true,
                (State::Within, b'{' | b'[') => self.depth = 1,
                (State::Within, b',' | b']' | b' ' | b'\t' | b'\n' | b'\r' | b'\x0C') => {
                    // A bare value such as a number ends here.
                    self.hand_on(&bytes[start..at - 1], on_frame);
                    start = at;
                    if byte == b']' {
                        self.state = State::After;
                    }
                }
                (State::Within, _) => {}
            }
        }
        self.hold(&bytes[start.min(bytes.len())..]);
    }

    /// Ends the body and emits its unfinished rest.
    pub(crate) fn end(&mut self, on_frame: &mut impl FnMut(Frame<'_>)) {
        if self.state == State::After {
            return;
        }
        if self.element_bytes > self.limit {
            on_frame(Frame::TooLarge { bytes: self.element_bytes as u64 });
        } else {
            // An array that is not closed was cut off, even between two elements.
            on_frame(Frame::Unfinished { name: b"", data: &self.held });
        }
        self.held = Vec::new();
        self.element_bytes = 0;
    }

    /// Takes bytes of an element up to its end: how many, and whether that is its end.
    fn take_inside(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            at += 1;
            if !self.in_text {
                match byte {
                    b'"' => self.in_text = true,
                    b'{' | b'[' => self.depth = self.depth.saturating_add(1),
                    b'}' | b']' => {
                        self.depth -= 1;
                        if self.depth == 0 {
                            return (at, true);
                        }
                    }
                    _ => {}
                }
                continue;
            }
            if self.after_backslash {
                self.after_backslash = false;
                continue;
            }
            let Some(run) = memchr2(b'"', b'\\', &bytes[at - 1..]) else { return (bytes.len(), false) };
            at += run;
            match bytes[at - 1] {
                b'"' => {
                    self.in_text = false;
                    if self.depth == 0 {
                        return (at, true);
                    }
                }
                _ => self.after_backslash = true,
            }
        }
        (at, false)
    }

    fn hold(&mut self, part: &[u8]) {
        self.element_bytes = self.element_bytes.saturating_add(part.len());
        if self.element_bytes <= self.limit {
            self.held.extend_from_slice(part);
        } else {
            self.held = Vec::new();
        }
    }

    fn hand_on(&mut self, part: &[u8], on_frame: &mut impl FnMut(Frame<'_>)) {
        if self.element_bytes == 0 && part.len() <= self.limit {
            if !part.is_empty() {
                on_frame(Frame::Event { name: b"", data: part });
            }
            return;
        }
        self.hold(part);
        if self.element_bytes > self.limit {
            on_frame(Frame::TooLarge { bytes: self.element_bytes as u64 });
        } else {
            on_frame(Frame::Event { name: b"", data: &self.held });
        }
        self.held.clear();
        self.element_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(parts: &[&[u8]], limit: usize) -> Vec<String> {
        let mut framer = ElementFramer::new(limit);
        let mut frames = Vec::new();
        let mut take = |frame: Frame<'_>| {
            frames.push(match frame {
                Frame::Event { data, .. } => String::from_utf8_lossy(data).into_owned(),
                Frame::Unfinished { data, .. } => format!("unfinished {}", String::from_utf8_lossy(data)),
                Frame::TooLarge { bytes } => format!("too large {bytes}"),
                Frame::Corrupt => unreachable!("text has no checksum"),
            });
        };
        for part in parts {
            framer.push(part, &mut take);
        }
        framer.end(&mut take);
        frames
    }

    #[test]
    fn any_cut_gives_the_same_elements() {
        let body = br#"[{"a":"]}\"[","b":[1,{"c":2}]}
,
{"d":"\\"} , 17,"x,y",{"long":"0123456789012345678901234567890"}]
 "#;
        let whole = framed(&[body], 32);
        assert_eq!(whole, [r#"{"a":"]}\"[","b":[1,{"c":2}]}"#, r#"{"d":"\\"}"#, "17", r#""x,y""#, "too large 42"]);
        for at in 0..=body.len() {
            assert_eq!(framed(&[&body[..at], &body[at..]], 32), whole, "cut at {at}");
        }
        let bytes: Vec<&[u8]> = body.chunks(1).collect();
        assert_eq!(framed(&bytes, 32), whole);
    }

    #[test]
    fn an_array_that_is_not_closed_is_unfinished() {
        assert_eq!(framed(&[b"[{\"a\":1},"], 100), ["{\"a\":1}", "unfinished "]);
        assert_eq!(framed(&[b"[{\"a\":1"], 100), ["unfinished {\"a\":1"]);
        assert_eq!(framed(&[b"[]"], 100), [""; 0]);
    }
}
