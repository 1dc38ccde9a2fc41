//! WebSocket frames (RFC 6455), sans-IO: read beside a path on which the bytes pass as they are.
//!
//! Invariant: any chunking of the same bytes gives the same messages; what is broken or too large is said once and never an error, as the
//! bytes have been passed on already; at most one message of the limit is held.

mod sha1;

use crate::base64::encode;
use sha1::sha1;

/// Longest head: two bytes, a length of eight, a mask of four.
const MAX_HEAD_BYTES: usize = 14;
/// Longest payload of a control frame (RFC 6455, section 5.5).
const MAX_CONTROL_BYTES: u64 = 125;
/// RFC 6455, section 1.3.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// What was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message<'m> {
    /// A whole text message, which is not checked to be UTF-8.
    Text(&'m [u8]),
    /// A whole binary message.
    Binary(&'m [u8]),
    /// A message beyond the limit, which was not read.
    TooLarge,
    /// The end, with its code if there is one.
    Close(Option<u16>),
    /// A ping, whose answer has the same bytes.
    Ping(&'m [u8]),
    /// A pong.
    Pong,
    /// These are no frames; nothing behind them is read.
    Broken,
}

/// Kinds of frames that are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameKind {
    /// A text message.
    Text,
    /// A binary message.
    Binary,
    /// The end.
    Close,
    /// The answer to a ping.
    Pong,
}

/// Reads the frames of one direction.
#[derive(Debug)]
pub struct FrameReader {
    max_message_bytes: usize,
    head: [u8; MAX_HEAD_BYTES],
    head_bytes: usize,
    /// The frame whose payload is being read.
    frame: Option<Frame>,
    /// The message so far, over all its frames.
    message: Vec<u8>,
    /// Whether it is text; `None` outside of a message.
    is_text: Option<bool>,
    is_too_large: bool,
    /// Payload of the control frame that is being read: what a ping says, or the code of a close.
    control: [u8; MAX_CONTROL_BYTES as usize],
    is_broken: bool,
}

/// A frame's head.
#[derive(Clone, Copy, Debug)]
struct Frame {
    opcode: u8,
    is_final: bool,
    mask: Option<[u8; 4]>,
    length: u64,
    read: u64,
}

impl FrameReader {
    /// A reader that decodes messages up to that size and skips larger ones.
    pub fn new(max_message_bytes: usize) -> FrameReader {
        FrameReader {
            max_message_bytes,
            head: [0; MAX_HEAD_BYTES],
            head_bytes: 0,
            frame: None,
            message: Vec::new(),
            is_text: None,
            is_too_large: false,
            control: [0; MAX_CONTROL_BYTES as usize],
            is_broken: false,
        }
    }

    /// Whether a frame could begin with the next byte.
    pub fn is_at_boundary(&self) -> bool {
        !self.is_broken && self.head_bytes == 0 && self.frame.is_none()
    }

    /// Bytes of a message that is not whole.
    pub fn held_bytes(&self) -> usize {
        self.message.len()
    }

    /// Reads on; `on` gets each message with its last byte.
    pub fn push(&mut self, mut bytes: &[u8], mut on: impl FnMut(Message<'_>)) {
        while !self.is_broken && !bytes.is_empty() {
            let Some(frame) = self.frame else {
                let wanted = self.head_length() - self.head_bytes;
                let count = wanted.min(bytes.len());
                self.head[self.head_bytes..self.head_bytes + count].copy_from_slice(&bytes[..count]);
                self.head_bytes += count;
                bytes = &bytes[count..];
                if self.head_bytes == self.head_length() {
                    self.begin_frame(&mut on);
                }
                continue;
            };
            let left = usize::try_from(frame.length - frame.read).unwrap_or(usize::MAX);
            let (payload, rest) = bytes.split_at(left.min(bytes.len()));
            bytes = rest;
            self.take_payload(frame, payload);
            if let Some(frame) = self.frame.filter(|frame| frame.is_whole()) {
                self.frame = None;
                self.end_frame(frame, &mut on);
            }
        }
    }

    /// Length of the head, as far as its bytes say.
    fn head_length(&self) -> usize {
        if self.head_bytes < 2 {
            return 2;
        }
        let length = match self.head[1] & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        2 + length + if self.head[1] & 0x80 == 0 { 0 } else { 4 }
    }

    fn begin_frame(&mut self, on: &mut impl FnMut(Message<'_>)) {
        let head_length = self.head_length();
        let [first, second, ..] = self.head;
        let is_masked = second & 0x80 != 0;
        let long = &self.head[2..head_length - if is_masked { 4 } else { 0 }];
        let length = match long.len() {
            0 => u64::from(second & 0x7f),
            _ => long.iter().fold(0, |length, byte| length << 8 | u64::from(*byte)),
        };
        let mask = is_masked.then(|| {
            let from = head_length - 4;
            [self.head[from], self.head[from + 1], self.head[from + 2], self.head[from + 3]]
        });
        self.head_bytes = 0;
        let frame = Frame { opcode: first & 0x0f, is_final: first & 0x80 != 0, mask, length, read: 0 };
        let is_control = frame.opcode & 0x8 != 0;
        let is_sound = match frame.opcode {
            0 => self.is_text.is_some(),
            1 | 2 => self.is_text.is_none(),
            8..=10 => frame.is_final && length <= MAX_CONTROL_BYTES,
            _ => false,
        };
        // No extension was agreed upon that could use the reserved bits.
        if !is_sound || first & 0x70 != 0 || length >> 63 != 0 {
            self.is_broken = true;
            self.message = Vec::new();
            return on(Message::Broken);
        }
        if !is_control {
            self.is_text = self.is_text.or(Some(frame.opcode == 1));
            let room = self.max_message_bytes - self.message.len();
            if usize::try_from(length).map_or(true, |length| length > room) {
                self.is_too_large = true;
                self.message = Vec::new();
            }
        }
        if length == 0 {
            return self.end_frame(frame, on);
        }
        self.frame = Some(frame);
    }

    fn take_payload(&mut self, frame: Frame, payload: &[u8]) {
        let is_control = frame.opcode & 0x8 != 0;
        let place = |index: usize| (frame.read as usize).wrapping_add(index);
        let unmasked = |index: usize, byte: u8| frame.mask.map_or(byte, |mask| byte ^ mask[place(index) & 3]);
        if is_control {
            for (index, byte) in payload.iter().enumerate() {
                if let Some(kept) = self.control.get_mut(place(index)) {
                    *kept = unmasked(index, *byte);
                }
            }
        } else if !self.is_too_large {
            match frame.mask {
                None => self.message.extend_from_slice(payload),
                Some(_) => {
                    self.message.extend(payload.iter().enumerate().map(|(index, byte)| unmasked(index, *byte)));
                }
            }
        }
        self.frame = Some(Frame { read: frame.read + payload.len() as u64, ..frame });
    }

    fn end_frame(&mut self, frame: Frame, on: &mut impl FnMut(Message<'_>)) {
        match frame.opcode {
            8 => {
                on(Message::Close((frame.length >= 2).then(|| u16::from_be_bytes([self.control[0], self.control[1]]))))
            }
            9 => on(Message::Ping(self.control.get(..frame.length as usize).unwrap_or_default())),
            10 => on(Message::Pong),
            _ if !frame.is_final => {}
            _ => {
                let is_text = self.is_text.take() == Some(true);
                match (std::mem::take(&mut self.is_too_large), is_text) {
                    (true, _) => on(Message::TooLarge),
                    (false, true) => on(Message::Text(&self.message)),
                    (false, false) => on(Message::Binary(&self.message)),
                }
                self.message.clear();
                // A session of hours keeps no large buffer for its short messages.
                self.message.shrink_to(MAX_KEPT_BYTES);
            }
        }
    }
}

/// What a reader keeps of its buffer between two messages (bytes).
const MAX_KEPT_BYTES: usize = 16 * 1024;

impl Frame {
    fn is_whole(self) -> bool {
        self.read == self.length
    }
}

/// Appends a frame that is a whole message. Clients mask theirs.
pub fn write_frame(kind: FrameKind, payload: &[u8], mask: Option<[u8; 4]>, out: &mut Vec<u8>) {
    let opcode = match kind {
        FrameKind::Text => 1,
        FrameKind::Binary => 2,
        FrameKind::Close => 8,
        FrameKind::Pong => 10,
    };
    out.push(0x80 | opcode);
    let is_masked = if mask.is_some() { 0x80 } else { 0 };
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length @ ..=125), _) => out.push(is_masked | length),
        (_, Ok(length)) => {
            out.push(is_masked | 126);
            out.extend_from_slice(&length.to_be_bytes());
        }
        _ => {
            out.push(is_masked | 127);
            out.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        }
    }
    match mask {
        None => out.extend_from_slice(payload),
        Some(mask) => {
            out.extend_from_slice(&mask);
            out.extend(payload.iter().enumerate().map(|(index, byte)| byte ^ mask[index & 3]));
        }
    }
}

/// A frame that ends a connection, with a code and a reason of at most 123 bytes.
pub fn close_frame(code: u16, reason: &str, mask: Option<[u8; 4]>) -> Vec<u8> {
    let mut end = reason.len().min(123);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    let payload = [&code.to_be_bytes()[..], &reason.as_bytes()[..end]].concat();
    let mut out = Vec::new();
    write_frame(FrameKind::Close, &payload, mask, &mut out);
    out
}

/// The `Sec-WebSocket-Accept` that belongs to a `Sec-WebSocket-Key`.
pub fn websocket_accept(key: &str) -> String {
    encode(&sha1(&[key.as_bytes(), GUID.as_bytes()].concat()))
}

/// The value of `sec-websocket-key` for these random bytes (RFC 6455, section 4.1).
pub fn websocket_key(random: [u8; 16]) -> String {
    encode(&random)
}

#[cfg(test)]
mod tests;
