//! Files of another encoder, in any pieces, cut and garbled.

use super::*;
use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};

/// 0.7 s of a tone (WAV: 0.1 s), by ffmpeg 9.0.2: `ffmpeg -i tone.wav -b:a 32k tone.mp3` and the like, 24,000 samples a second.
const RECORDED: [(SoundFormat, &[u8]); 5] = [
    (SoundFormat::Mp3, include_bytes!("recorded/tone.mp3")),
    (SoundFormat::Opus, include_bytes!("recorded/tone.opus")),
    (SoundFormat::Flac, include_bytes!("recorded/tone.flac")),
    (SoundFormat::Aac, include_bytes!("recorded/tone.aac")),
    (SoundFormat::Wav, include_bytes!("recorded/tone.wav")),
];

fn read(asked: SoundFormat, bytes: &[u8], piece: usize) -> (SoundFormat, Sounded) {
    let mut reader = SoundReader::new(asked, 24_000);
    let mut before = Sounded::default();
    for piece in bytes.chunks(piece.max(1)) {
        let sounded = reader.push(piece);
        assert!(sounded.bytes >= before.bytes && sounded.plays >= before.plays.filter(|_| sounded.plays.is_some()));
        before = sounded;
    }
    let end = reader.end();
    (reader.format(), end)
}

fn plays_ms(asked: SoundFormat, bytes: &[u8]) -> Option<f64> {
    read(asked, bytes, 1_000).1.plays.map(Span::as_millis_f64)
}

#[test]
fn files_of_another_encoder_play_as_long_as_its_own_decoder_says() {
    for (format, bytes) in RECORDED {
        let (told, sounded) = read(format, bytes, 4_096);
        let plays = sounded.plays.expect("it is known").as_millis_f64();
        let expected = match format {
            // 32 frames of 576 samples, of which its description says that 576 before the sound and 1,056 behind it are none.
            SoundFormat::Mp3 => 700.0,
            // The decoder gives all 18 blocks out.
            SoundFormat::Aac => 18.0 * 1_024.0 / 24.0,
            SoundFormat::Wav => 100.0,
            _ => 700.0,
        };
        assert!((plays - expected).abs() < 0.01, "{format:?}: {plays} ms, not {expected}");
        assert_eq!(told, format);
        assert!(sounded.bytes > 0 && sounded.bytes <= bytes.len() as u64, "{format:?}: {sounded:?}");
        // Whatever was asked for, the bytes say what they are.
        assert_eq!(plays_ms(SoundFormat::Mp3, bytes), Some(plays), "{format:?}");
    }
}

#[test]
fn any_pieces_give_the_same_and_one_file_behind_the_other_both() {
    for (format, bytes) in RECORDED {
        let whole = read(format, bytes, usize::MAX);
        for piece in [1, 2, 3, 7, 64, 1_021] {
            assert_eq!(read(format, bytes, piece), whole, "{format:?} in pieces of {piece}");
        }
        let twice = [bytes, bytes].concat();
        let expected = match format {
            // The head of a file says where its sound ends; what stands behind it is none.
            SoundFormat::Wav => 100.0,
            // The description of the second file is a frame to who plays on.
            SoundFormat::Mp3 => 700.0 + 32.0 * 24.0 + 24.0,
            _ => 2.0 * plays_ms(format, bytes).expect("it is known"),
        };
        let plays = plays_ms(format, &twice).expect("it is known");
        assert!((plays - expected).abs() < 0.01, "{format:?}: {plays} ms, not {expected}");
    }
}

#[test]
fn a_part_of_a_file_plays_a_part_of_its_time() {
    for (format, bytes) in RECORDED {
        let mut before = 0.0;
        for end in (0..bytes.len()).step_by(97) {
            let plays = plays_ms(format, &bytes[..end]).unwrap_or(0.0);
            assert!(plays >= before, "{format:?}: {plays} ms of {end} bytes, {before} ms of less");
            before = plays;
        }
    }
}

#[test]
fn samples_without_a_head_go_by_the_rate_that_was_named_and_streams_of_wav_have_no_end() {
    assert_eq!(plays_ms(SoundFormat::Pcm, &[1; 4_801]), Some(100.0), "half a sample plays nothing");
    assert_eq!(plays_ms(SoundFormat::Pcm, &[0xFF; 4_800]), Some(100.0), "samples may look like frames");
    let stream = [wav_head(16_000, None).as_slice(), &[0; 3_200]].concat();
    assert_eq!(plays_ms(SoundFormat::Pcm, &stream), Some(100.0), "a head is told from samples");
    let mut reader = SoundReader::new(SoundFormat::Wav, 1);
    assert_eq!(reader.push(&stream[..44]), Sounded { bytes: 0, plays: Some(Span::ZERO) }, "a head is no sound");
    assert_eq!((reader.push(&stream[44..46]).bytes, reader.declared()), (2, None));
    let file = [wav_head(16_000, Some(1_600)).as_slice(), &[0; 3_000], b"LIST"].concat();
    let mut reader = SoundReader::new(SoundFormat::Wav, 1);
    assert_eq!(reader.push(&file).plays, Some(Span::from_nanos(1_502 * 62_500)));
    assert_eq!(reader.declared(), Some(Span::from_millis(100)));
    assert_eq!(Wav::read(&file).map(|wav| wav.rate), Ok(16_000));
    assert!(Wav::read(b"RIFF0000WAVEfmt ").is_err() && Wav::read(b"").is_err());
}

#[test]
fn what_is_no_sound_has_no_length() {
    for bytes in
        [b"{\"error\": 1}".as_slice(), b"RIFF0000AVI LIST", b"OggS-no-page-but-long-enough-to-be-looked-at-and-more"]
    {
        assert_eq!(plays_ms(SoundFormat::Mp3, bytes).filter(|plays| *plays > 0.0), None, "{bytes:?}");
    }
    let vorbis = [b"OggS\0\x02\0\0\0\0\0\0\0\0SIM\0\0\0\0\0\0\0\0\0\x01\x07".as_slice(), b"\x01vorbis"].concat();
    assert_eq!(read(SoundFormat::Opus, &vorbis, 9).1, Sounded { bytes: 35, plays: None });
    let compressed = [b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x11\0".as_slice(), &[1; 200]].concat();
    assert_eq!(plays_ms(SoundFormat::Wav, &compressed), None, "blocks of ADPCM");
}

proptest! {
    #[test]
    fn no_bytes_break_it_and_any_pieces_give_the_same(
        which in 0_usize..6, from in 0_usize..3_000, noise in prop::collection::vec(any::<u8>(), 0..120), at in 0_usize..2_000, piece in 1_usize..40,
    ) {
        let (format, file) = RECORDED.get(which).copied().unwrap_or((SoundFormat::Pcm, &[]));
        let mut bytes = file[from.min(file.len())..].to_vec();
        let at = at.min(bytes.len());
        bytes.splice(at..at, noise);
        let whole = read(format, &bytes, usize::MAX);
        prop_assert_eq!(read(format, &bytes, piece), whole);
        prop_assert!(whole.1.bytes <= bytes.len() as u64);
    }
}

#[test]
fn what_an_encoder_adds_is_no_sound_where_the_file_says_how_much_it_is_and_is_counted_where_it_does_not() {
    let (_, mp3) = RECORDED[0];
    let at = mp3.windows(4).position(|name| name == b"Info" || name == b"Xing").expect("a description");
    let mut nameless = mp3.to_vec();
    nameless[at..at + 4].fill(0);
    // The description is a frame like the others then.
    assert_eq!(plays_ms(SoundFormat::Mp3, &nameless), Some(33.0 * 24.0));
    // More than the file has is not believed.
    let mut odd = mp3.to_vec();
    let delay = at + 8 + 4 + 4 + 100 + 4 + 21;
    odd[delay..delay + 3].fill(0xFF);
    odd[at + 8..at + 12].copy_from_slice(&2_u32.to_be_bytes());
    assert_eq!(plays_ms(SoundFormat::Mp3, &odd), Some(32.0 * 24.0));
    // Of half a file the samples before the sound are left out.
    let half = plays_ms(SoundFormat::Mp3, &mp3[..mp3.len() / 2]).expect("it is known");
    assert!(half > 250.0 && half < 350.0, "{half}");
}
