//! Bodies of sound: any pieces give the same length and never more bytes than came, and time never runs backwards.
//!
//! Invariant: the first byte of the input says what was asked for.

use tokrate_core::{EventBatch, EventKind, SoundFormat, Tick};
use tokrate_wire::sound::{SoundReader, Sounded, Wav};
use tokrate_wire::speech::{PCM_RATE, SoundDelivery, SpeechDecoder};

/// Panics if a property does not hold.
pub fn run(input: &[u8]) {
    let [asked, body @ ..] = input else { return };
    let format = SoundFormat::ALL[usize::from(*asked) % SoundFormat::ALL.len()];
    let whole = read(format, body, body.len().max(1));
    assert_eq!(read(format, body, 3), whole);
    assert!(whole.bytes <= body.len() as u64);
    let _ = Wav::read(body);
    for delivery in [SoundDelivery::Body, SoundDelivery::Events] {
        assert_eq!(decode(format, delivery, body, 5), decode(format, delivery, body, body.len().max(1)));
    }
}

fn read(format: SoundFormat, body: &[u8], piece: usize) -> Sounded {
    let (mut reader, mut before) = (SoundReader::new(format, PCM_RATE), Sounded::default());
    for piece in body.chunks(piece) {
        let sounded = reader.push(piece);
        assert!(sounded.bytes >= before.bytes);
        assert!(sounded.plays.is_none_or(|plays| before.plays.is_none_or(|before| plays >= before)));
        before = sounded;
    }
    reader.end()
}

/// Bytes of sound, and how many other events there are.
fn decode(format: SoundFormat, delivery: SoundDelivery, body: &[u8], piece: usize) -> (u64, usize) {
    let (mut decoder, mut batch) = (SpeechDecoder::new(format, delivery, PCM_RATE), EventBatch::new());
    body.chunks(piece).for_each(|piece| decoder.push(Tick::ZERO, piece, &mut batch));
    decoder.end(Tick::ZERO, Tick::ZERO, true, &mut batch);
    let sound = |kind: EventKind| if let EventKind::Sound(piece) = kind { Some(u64::from(piece.bytes)) } else { None };
    let bytes = batch.events().iter().filter_map(|event| sound(event.kind)).sum();
    (bytes, batch.events().iter().filter(|event| sound(event.kind).is_none()).count())
}
