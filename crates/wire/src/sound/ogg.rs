//! Opus in Ogg: each page says up to which sample its packets reach; those before the first that is played are named in the head.
//!
//! Invariant: streams that follow each other are added up; another codec in Ogg has no length here.

use super::Unit;

/// Opus counts positions at this rate, whatever was encoded.
const RATE: u32 = 48_000;
const HEAD: usize = 27;
/// A page in which no packet ends has no position.
const NO_POSITION: u64 = u64::MAX;

#[derive(Clone, Debug, Default)]
pub(super) struct Reader {
    /// Samples before the first that is played.
    skipped: u64,
    /// Samples of the stream so far, those before the first that is played left out.
    reached: u64,
}

impl Reader {
    pub(super) fn new() -> Reader {
        Reader::default()
    }

    pub(super) fn unit(&mut self, bytes: &[u8]) -> Unit {
        let Some(head) = bytes.get(..HEAD) else { return Unit::Part };
        if !head.starts_with(b"OggS") {
            return Unit::Skip(1);
        }
        let segments = usize::from(head[26]);
        let Some(table) = bytes.get(HEAD..HEAD + segments) else { return Unit::Part };
        let length = HEAD + segments + table.iter().map(|lacing| usize::from(*lacing)).sum::<usize>();
        let Some(packets) = bytes.get(HEAD + segments..length) else { return Unit::Part };
        let begins_stream = head[5] & 2 != 0;
        if begins_stream {
            if !packets.starts_with(b"OpusHead") || packets.len() < 12 {
                return Unit::Unknown;
            }
            *self = Reader { skipped: u64::from(u16::from_le_bytes([packets[10], packets[11]])), reached: 0 };
            return Unit::head(length);
        }
        let mut position = [0; 8];
        position.copy_from_slice(&head[6..14]);
        let position = u64::from_le_bytes(position);
        if position == NO_POSITION {
            return Unit::head(length);
        }
        let reached = position.saturating_sub(self.skipped);
        let samples = reached.saturating_sub(self.reached);
        self.reached = self.reached.max(reached);
        Unit::Whole { bytes: length, samples, rate: RATE }
    }
}
