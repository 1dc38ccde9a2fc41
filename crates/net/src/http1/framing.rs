//! How the body of an HTTP/1.1 message is marked off (RFC 9112, sections 6 and 7).
//!
//! It refuses to know sockets and heads. Invariant: any division of the same bytes into reads gives the same body and the same
//! end; bytes after the end are not touched.

/// Longest line of a chunk's size with its extensions, and of all trailers together (bytes).
const ASIDE_BYTES_MOST: u32 = 16 * 1024;

/// A body on its way.
#[derive(Debug)]
pub(crate) enum Framing {
    /// So many bytes are to come.
    Length(u64),
    /// In chunks.
    Chunked(Chunks),
    /// Until the connection is closed.
    UntilClose,
}

/// What a read brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Taken {
    /// Bytes of the body: they stand at the beginning of what was read.
    pub body: usize,
    /// Bytes of what was read that belong to this body, its framing included.
    pub used: usize,
    /// Where the body stands now.
    pub state: State,
}

/// Where a body stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// More is to come.
    Open,
    /// It is whole.
    Ended,
    /// What follows the body's bytes is no framing.
    Garbled,
}

impl Framing {
    /// Whether nothing is to come.
    pub fn is_empty(&self) -> bool {
        matches!(self, Framing::Length(0))
    }

    /// How long the body is, if that was said.
    pub fn length(&self) -> Option<u64> {
        match self {
            Framing::Length(length) => Some(*length),
            Framing::Chunked(_) | Framing::UntilClose => None,
        }
    }

    /// Takes what a read brought; the body's bytes are moved to its beginning.
    pub fn take(&mut self, bytes: &mut [u8]) -> Taken {
        match self {
            Framing::Length(left) => {
                let body = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                *left -= body as u64;
                let state = if *left == 0 { State::Ended } else { State::Open };
                Taken { body, used: body, state }
            }
            Framing::Chunked(chunks) => chunks.take(bytes),
            Framing::UntilClose => Taken { body: bytes.len(), used: bytes.len(), state: State::Open },
        }
    }

    /// Whether a body may end where its connection does.
    pub fn may_end_by_close(&self) -> bool {
        matches!(self, Framing::UntilClose)
    }
}

/// A reader of chunks.
#[derive(Debug)]
pub(crate) struct Chunks {
    at: At,
    /// Of a size: its value so far. Of data: bytes that are left.
    left: u64,
    /// Bytes of the extension or of the trailers so far.
    aside: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    /// The first digit of a size.
    Size,
    /// Further digits.
    Digits,
    /// Blanks after the size.
    Blanks,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// The beginning of a line after the last chunk: a trailer, or the end.
    Line,
    Trailer,
    TrailerLf,
    EndLf,
}

impl Chunks {
    pub fn new() -> Chunks {
        Chunks { at: At::Size, left: 0, aside: 0 }
    }

    fn take(&mut self, bytes: &mut [u8]) -> Taken {
        let (mut body, mut used) = (0, 0);
        let mut state = State::Open;
        while used < bytes.len() && state == State::Open {
            if self.at == At::Data {
                let count = usize::try_from(self.left).map_or(bytes.len() - used, |left| left.min(bytes.len() - used));
                bytes.copy_within(used..used + count, body);
                (body, used) = (body + count, used + count);
                self.left -= count as u64;
                if self.left == 0 {
                    self.at = At::DataCr;
                }
                continue;
            }
            state = self.step(bytes[used]);
            used += 1;
        }
        Taken { body, used, state }
    }

    /// Takes a byte that is not the body's.
    fn step(&mut self, byte: u8) -> State {
        let next = match (self.at, byte) {
            (At::Size | At::Digits, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => self.digit(byte),
            (At::Digits | At::Blanks, b' ' | b'\t') => self.counted(At::Blanks),
            (At::Digits | At::Blanks, b';') => Some(At::Extension),
            (At::Digits | At::Blanks | At::Extension, b'\r') => Some(At::SizeLf),
            // A line feed of its own within an extension is how one reader is made to see another line than the next.
            (At::Extension, b'\n') => None,
            (At::Extension, _) => self.counted(At::Extension),
            (At::SizeLf, b'\n') => {
                self.aside = 0;
                Some(if self.left == 0 { At::Line } else { At::Data })
            }
            (At::DataCr, b'\r') => Some(At::DataLf),
            (At::DataLf, b'\n') => Some(At::Size),
            (At::Line, b'\r') => Some(At::EndLf),
            (At::Trailer, b'\r') => Some(At::TrailerLf),
            (At::Line | At::Trailer, b'\n') => None,
            (At::Line | At::Trailer, _) => self.counted(At::Trailer),
            (At::TrailerLf, b'\n') => Some(At::Line),
            (At::EndLf, b'\n') => return State::Ended,
            _ => None,
        };
        match next {
            Some(next) => {
                self.at = next;
                State::Open
            }
            None => State::Garbled,
        }
    }

    fn digit(&mut self, byte: u8) -> Option<At> {
        let digit = char::from(byte).to_digit(16).map(u64::from)?;
        let before = if self.at == At::Size { 0 } else { self.left };
        self.left = before.checked_mul(16)?.checked_add(digit)?;
        Some(At::Digits)
    }

    fn counted(&mut self, next: At) -> Option<At> {
        self.aside += 1;
        (self.aside <= ASIDE_BYTES_MOST).then_some(next)
    }
}
