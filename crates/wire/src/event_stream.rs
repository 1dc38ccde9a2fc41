//! AWS's event streams (`application/vnd.amazon.eventstream`): binary messages with two checksums.
//!
//! Layout, by docs.aws.amazon.com/AmazonS3/latest/API/RESTSelectObjectAppendix.html (Bedrock's is the same): length of the message, length of
//! its headers, CRC-32 of these eight bytes, headers, payload, CRC-32 of everything before. Invariant: the frames depend on the bytes
//! alone, not on how they were cut; a length is believed only after its checksum, and no more is held than has arrived, up to the limit.

use crate::frame::Frame;

/// Two lengths and their checksum.
const PRELUDE_BYTES: usize = 12;
/// The checksum at the end.
const CRC_BYTES: usize = 4;
/// Buffers that grew beyond this are given back after the message that needed them.
const KEPT_CAPACITY: usize = 64 << 10;
/// A header's value is a text.
const STRING: u8 = 7;

/// Cuts a body into messages. One that lies whole inside one push is handed on without a copy.
#[derive(Clone, Debug)]
pub struct EventStreamFramer {
    limit: usize,
    /// The beginning of a message.
    held: Vec<u8>,
    /// Length of a message over the limit, and how much of it is still to come.
    skipped: Option<(u64, u64)>,
    /// Lengths could not be trusted, so nobody knows where the next message begins.
    lost: bool,
}

/// What the first bytes of a message say.
enum Prelude {
    Incomplete,
    Corrupt,
    /// Length of the whole message.
    Message(usize),
}

impl EventStreamFramer {
    /// A framer at the start of a body that skips messages of more than `max_message_bytes`.
    pub fn new(max_message_bytes: usize) -> EventStreamFramer {
        EventStreamFramer { limit: max_message_bytes, held: Vec::new(), skipped: None, lost: false }
    }

    /// Bytes held in memory.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// Takes the next bytes of the body and hands on each message that they complete.
    pub fn push(&mut self, bytes: &[u8], on_frame: &mut impl FnMut(Frame<'_>)) {
        let mut rest = bytes;
        while !rest.is_empty() && !self.lost {
            if let Some((length, left)) = self.skipped {
                let taken = left.min(rest.len() as u64);
                rest = &rest[usize::try_from(taken).unwrap_or(rest.len())..];
                self.skipped = (left > taken).then_some((length, left - taken));
                if self.skipped.is_none() {
                    on_frame(Frame::TooLarge { bytes: length });
                }
                continue;
            }
            rest = if self.held.is_empty() { self.take_whole(rest, on_frame) } else { self.take_held(rest, on_frame) };
        }
    }

    /// Takes a message that lies whole in `bytes`, or holds what there is of it; what is left.
    fn take_whole<'b>(&mut self, bytes: &'b [u8], on_frame: &mut impl FnMut(Frame<'_>)) -> &'b [u8] {
        match prelude(bytes) {
            Prelude::Corrupt => self.lose(on_frame),
            Prelude::Message(length) if length > self.limit => {
                self.skipped = Some((length as u64, length as u64));
                return bytes;
            }
            Prelude::Message(length) if length <= bytes.len() => {
                take_message(&bytes[..length], on_frame);
                return &bytes[length..];
            }
            Prelude::Incomplete | Prelude::Message(_) => self.held.extend_from_slice(bytes),
        }
        &[]
    }

    /// Adds to the message that is held; what is left.
    fn take_held<'b>(&mut self, bytes: &'b [u8], on_frame: &mut impl FnMut(Frame<'_>)) -> &'b [u8] {
        let wanted = match prelude(&self.held) {
            Prelude::Message(length) => length,
            Prelude::Incomplete | Prelude::Corrupt => PRELUDE_BYTES,
        };
        let (more, rest) = bytes.split_at(bytes.len().min(wanted - self.held.len()));
        self.held.extend_from_slice(more);
        match prelude(&self.held) {
            Prelude::Corrupt => {
                self.lose(on_frame);
                return &[];
            }
            Prelude::Message(length) if length > self.limit => {
                self.skipped = Some((length as u64, (length - self.held.len()) as u64));
                self.held = Vec::new();
            }
            Prelude::Message(length) if length == self.held.len() => {
                take_message(&self.held, on_frame);
                if self.held.capacity() > KEPT_CAPACITY {
                    self.held = Vec::new();
                } else {
                    self.held.clear();
                }
            }
            Prelude::Incomplete | Prelude::Message(_) => {}
        }
        rest
    }

    fn lose(&mut self, on_frame: &mut impl FnMut(Frame<'_>)) {
        self.lost = true;
        self.held = Vec::new();
        on_frame(Frame::Corrupt);
    }

    /// Ends the body. A message that broke off carries nothing: its checksum never came.
    pub fn end(&mut self, on_frame: &mut impl FnMut(Frame<'_>)) {
        if let Some((length, _)) = self.skipped.take() {
            on_frame(Frame::TooLarge { bytes: length });
        } else if !self.held.is_empty() {
            self.held = Vec::new();
            on_frame(Frame::Unfinished { name: b"", data: b"" });
        }
    }
}

fn prelude(bytes: &[u8]) -> Prelude {
    let Some(prelude) = bytes.first_chunk::<PRELUDE_BYTES>() else { return Prelude::Incomplete };
    let (length, headers) = (number(prelude, 0), number(prelude, 4));
    let fits = headers.checked_add(PRELUDE_BYTES + CRC_BYTES).is_some_and(|least| least <= length);
    match fits && number(prelude, 8) == crc32fast::hash(&prelude[..8]) as usize {
        true => Prelude::Message(length),
        false => Prelude::Corrupt,
    }
}

/// Four bytes as a number; the highest first.
fn number(bytes: &[u8], at: usize) -> usize {
    let four = bytes.get(at..at + 4).and_then(|four| four.first_chunk::<4>());
    four.map_or(0, |four| u32::from_be_bytes(*four) as usize)
}

/// Hands on a message whose prelude is sound.
fn take_message(message: &[u8], on_frame: &mut impl FnMut(Frame<'_>)) {
    let (signed, crc) = message.split_at(message.len() - CRC_BYTES);
    let headers_end = PRELUDE_BYTES + number(message, 4);
    let names = headers(&signed[PRELUDE_BYTES..headers_end]);
    match names.filter(|_| number(crc, 0) == crc32fast::hash(signed) as usize) {
        None => on_frame(Frame::Corrupt),
        Some(Names { error: Some(text), .. }) => on_frame(Frame::Event { name: b"error", data: text }),
        Some(Names { exception, event, .. }) => {
            on_frame(Frame::Event { name: exception.or(event).unwrap_or_default(), data: &signed[headers_end..] });
        }
    }
}

/// What the headers of a message say of it.
#[derive(Default)]
struct Names<'b> {
    event: Option<&'b [u8]>,
    exception: Option<&'b [u8]>,
    /// The text of an error that the service itself does not know.
    error: Option<&'b [u8]>,
}

/// Reads headers: a name with its length, a kind, a value of that kind; `None` if they do not fit their length.
fn headers(mut rest: &[u8]) -> Option<Names<'_>> {
    let mut names = Names::default();
    while let [length, behind @ ..] = rest {
        let (name, behind) = behind.split_at_checked(usize::from(*length))?;
        let (kind, behind) = behind.split_first()?;
        let (value, behind) = match kind {
            0 | 1 => (&[][..], behind),
            2 => behind.split_at_checked(1)?,
            3 => behind.split_at_checked(2)?,
            4 => behind.split_at_checked(4)?,
            5 | 8 => behind.split_at_checked(8)?,
            6 | &STRING => {
                let (length, behind) = behind.split_first_chunk::<2>()?;
                behind.split_at_checked(usize::from(u16::from_be_bytes(*length)))?
            }
            9 => behind.split_at_checked(16)?,
            _ => return None,
        };
        rest = behind;
        let slot = match name {
            b":event-type" => &mut names.event,
            b":exception-type" => &mut names.exception,
            b":error-message" => &mut names.error,
            _ => continue,
        };
        *slot = Some(value);
    }
    Some(names)
}

/// Appends a message with a JSON document: an event, or an exception, of that name.
pub(crate) fn push_message(kind: &str, name: &str, payload: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; PRELUDE_BYTES]);
    let name_header = if kind == "exception" { ":exception-type" } else { ":event-type" };
    for (header, value) in [(name_header, name), (":content-type", "application/json"), (":message-type", kind)] {
        // Names and values of ours are short.
        out.push(u8::try_from(header.len()).unwrap_or(u8::MAX));
        out.extend_from_slice(header.as_bytes());
        out.push(STRING);
        out.extend_from_slice(&u16::try_from(value.len()).unwrap_or(u16::MAX).to_be_bytes());
        out.extend_from_slice(value.as_bytes());
    }
    let headers = out.len() - start - PRELUDE_BYTES;
    out.extend_from_slice(payload);
    let length = out.len() - start + CRC_BYTES;
    for (at, number) in [(0, length), (4, headers)] {
        let number = u32::try_from(number).unwrap_or(u32::MAX).to_be_bytes();
        out[start + at..start + at + 4].copy_from_slice(&number);
    }
    let crc = crc32fast::hash(&out[start..start + 8]).to_be_bytes();
    out[start + 8..start + PRELUDE_BYTES].copy_from_slice(&crc);
    let crc = crc32fast::hash(&out[start..]).to_be_bytes();
    out.extend_from_slice(&crc);
}

#[cfg(test)]
mod tests;
