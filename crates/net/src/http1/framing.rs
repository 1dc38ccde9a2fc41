//! Decodes the body framing of HTTP/1.1 messages (RFC 9112, sections 6 and 7).
//!
//! Invariant: however the bytes are split into reads, body and end are the same; bytes after the end are not touched.

/// Most bytes of one chunk-size line's extensions, and of all trailers together: they are read and dropped. RFC 9112 (7.1.1) asks for a
/// limit and names none; hyper has this one.
const MAX_OVERHEAD_BYTES: u32 = 16 * 1024;

/// The framing of a body, with its decoding state.
#[derive(Debug)]
pub(crate) enum Framing {
    /// Remaining bytes of a Content-Length body.
    Length(u64),
    /// Chunked transfer coding.
    Chunked(Chunks),
    /// The body ends with the connection.
    UntilClose,
}

/// Result of decoding one read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Decoded {
    /// Bytes consumed, framing included.
    pub consumed: usize,
    /// State after this read.
    pub state: BodyState,
}

/// State of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BodyState {
    /// Incomplete.
    Open,
    /// Complete.
    Ended,
    /// The framing is invalid.
    Invalid,
}

impl Framing {
    /// Whether there is no body.
    pub fn is_empty(&self) -> bool {
        matches!(self, Framing::Length(0))
    }

    /// The length of the body, if known.
    pub fn length(&self) -> Option<u64> {
        match self {
            Framing::Length(length) => Some(*length),
            Framing::Chunked(_) | Framing::UntilClose => None,
        }
    }

    /// Decodes a read, and hands out the pieces of it that are the body's; none is empty.
    pub fn decode<'b>(&mut self, bytes: &'b [u8], mut on_piece: impl FnMut(&'b [u8])) -> Decoded {
        let (piece, decoded) = match self {
            Framing::Length(left) => {
                let consumed = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                *left -= consumed as u64;
                let state = if *left == 0 { BodyState::Ended } else { BodyState::Open };
                (&bytes[..consumed], Decoded { consumed, state })
            }
            Framing::Chunked(chunks) => return chunks.decode(bytes, on_piece),
            Framing::UntilClose => (bytes, Decoded { consumed: bytes.len(), state: BodyState::Open }),
        };
        if !piece.is_empty() {
            on_piece(piece);
        }
        decoded
    }

    /// Whether the end of the connection ends the body.
    pub fn may_end_by_close(&self) -> bool {
        matches!(self, Framing::UntilClose)
    }
}

/// Decoder of chunked bodies.
#[derive(Debug)]
pub(crate) struct Chunks {
    position: Position,
    /// While reading a size: its value so far. In data: remaining bytes.
    left: u64,
    /// Bytes of the extensions or trailers so far.
    overhead_bytes: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Position {
    /// The first digit of a size.
    Size,
    /// Further digits.
    Digits,
    /// White space after the size.
    Whitespace,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// Start of a line after the last chunk: a trailer, or the end.
    TrailerStart,
    Trailer,
    TrailerLf,
    EndLf,
}

impl Chunks {
    pub fn new() -> Chunks {
        Chunks { position: Position::Size, left: 0, overhead_bytes: 0 }
    }

    fn decode<'b>(&mut self, bytes: &'b [u8], mut on_piece: impl FnMut(&'b [u8])) -> Decoded {
        let mut consumed = 0;
        let mut state = BodyState::Open;
        while consumed < bytes.len() && state == BodyState::Open {
            if self.position == Position::Data {
                let count =
                    usize::try_from(self.left).map_or(bytes.len() - consumed, |left| left.min(bytes.len() - consumed));
                on_piece(&bytes[consumed..consumed + count]);
                consumed += count;
                self.left -= count as u64;
                if self.left == 0 {
                    self.position = Position::DataCr;
                }
                continue;
            }
            state = self.step(bytes[consumed]);
            consumed += 1;
        }
        Decoded { consumed, state }
    }

    /// Handles one framing byte.
    fn step(&mut self, byte: u8) -> BodyState {
        let next = match (self.position, byte) {
            (Position::Size | Position::Digits, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => self.digit(byte),
            (Position::Digits | Position::Whitespace, b' ' | b'\t') => self.counted(Position::Whitespace),
            (Position::Digits | Position::Whitespace, b';') => Some(Position::Extension),
            (Position::Digits | Position::Whitespace | Position::Extension, b'\r') => Some(Position::SizeLf),
            // A bare line feed in an extension is a request-smuggling vector: parsers disagree on where the line ends.
            (Position::Extension, b'\n') => None,
            (Position::Extension, _) => self.counted(Position::Extension),
            (Position::SizeLf, b'\n') => {
                self.overhead_bytes = 0;
                Some(if self.left == 0 { Position::TrailerStart } else { Position::Data })
            }
            (Position::DataCr, b'\r') => Some(Position::DataLf),
            (Position::DataLf, b'\n') => Some(Position::Size),
            (Position::TrailerStart, b'\r') => Some(Position::EndLf),
            (Position::Trailer, b'\r') => Some(Position::TrailerLf),
            (Position::TrailerStart | Position::Trailer, b'\n') => None,
            (Position::TrailerStart | Position::Trailer, _) => self.counted(Position::Trailer),
            (Position::TrailerLf, b'\n') => Some(Position::TrailerStart),
            (Position::EndLf, b'\n') => return BodyState::Ended,
            _ => None,
        };
        match next {
            Some(next) => {
                self.position = next;
                BodyState::Open
            }
            None => BodyState::Invalid,
        }
    }

    fn digit(&mut self, byte: u8) -> Option<Position> {
        let digit = char::from(byte).to_digit(16).map(u64::from)?;
        let before = if self.position == Position::Size { 0 } else { self.left };
        self.left = before.checked_mul(16)?.checked_add(digit)?;
        Some(Position::Digits)
    }

    fn counted(&mut self, next: Position) -> Option<Position> {
        self.overhead_bytes += 1;
        (self.overhead_bytes <= MAX_OVERHEAD_BYTES).then_some(next)
    }
}
