//! Pictures and sound: what is written is read by other code than that of the writer.

use super::*;
use crate::dialect::Dialect;
use crate::sound::{HEARD_RATE, made_up, wav_length};
use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, proptest};
use tokrate_core::{Content, Span};

/// The bytes of a zlib stream of one block with the fixed code, read bit by bit as RFC 1951 says: nothing of the writer is used.
fn inflate(stream: &[u8]) -> Vec<u8> {
    let (body, adler) = stream[2..].split_at(stream.len() - 6);
    let mut at = 3;
    let mut bit = || {
        let bit = u32::from(body[at / 8] >> (at % 8) & 1);
        at += 1;
        bit
    };
    let mut out: Vec<u8> = Vec::new();
    loop {
        let mut code = (0..7).fold(0, |code, _| code << 1 | bit());
        let symbol = if code < 24 {
            256 + code
        } else {
            code = code << 1 | bit();
            match code {
                0x30..=0xBF => code - 0x30,
                0xC0..=0xC7 => 280 + code - 0xC0,
                _ => 144 + (code << 1 | bit()) - 0x190,
            }
        };
        let length = match symbol {
            256 => break,
            literal @ 0..256 => {
                out.push(literal as u8);
                continue;
            }
            285 => 258,
            low @ 257..265 => low - 254,
            high => {
                let extra = (high - 261) / 4;
                let more = (0..extra).fold(0, |more, place| more | bit() << place);
                3 + ((4 + (high - 261) % 4) << extra) + more
            }
        };
        assert_eq!((0..5).fold(0, |code, _| code << 1 | bit()), 0, "the distance is 1");
        let last = *out.last().expect("something was written before it is repeated");
        out.extend(std::iter::repeat_n(last, length as usize));
    }
    let (a, b) = out.iter().fold((1_u32, 0_u32), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65_521;
        (a, (b + a) % 65_521)
    });
    assert_eq!(adler, (b << 16 | a).to_be_bytes());
    out
}

/// The pixels of a picture that `png` wrote, by line.
fn pixels(png: &[u8], width: u32) -> Vec<Vec<[u8; 3]>> {
    let idat = png.windows(4).position(|window| window == b"IDAT").expect("a chunk of data");
    let length = u32::from_be_bytes(png[idat - 4..idat].try_into().expect("four bytes")) as usize;
    let lines = inflate(&png[idat + 4..idat + 4 + length]);
    let mut above = vec![[0_u8; 3]; width as usize];
    lines
        .chunks(1 + 3 * width as usize)
        .map(|line| {
            let mut left = [0_u8; 3];
            for (pixel, difference) in above.iter_mut().zip(line[1..].chunks(3)) {
                let from = if line[0] == 1 { left } else { *pixel };
                *pixel = std::array::from_fn(|place| from[place].wrapping_add(difference[place]));
                left = *pixel;
            }
            above.clone()
        })
        .collect()
}

#[test]
fn a_mosaic_has_fields_of_one_colour_and_no_two_are_alike() {
    let one = mosaic(PictureFormat::Png, 20, 11, &mut Rng::root(1));
    let lines = pixels(&one, 20);
    assert_eq!((lines.len(), lines[0].len()), (11, 20));
    assert_eq!((lines[0][0], lines[0][8]), (lines[7][7], lines[3][15]));
    assert_ne!(lines[0][7], lines[0][8]);
    assert_ne!(lines[7][0], lines[8][0]);
    assert_eq!(one, mosaic(PictureFormat::Png, 20, 11, &mut Rng::root(1)));
    assert_ne!(one, mosaic(PictureFormat::Png, 20, 11, &mut Rng::root(2)));
}

#[test]
fn a_picture_of_a_million_pixels_is_as_large_as_photographs_are() {
    let size = |format| mosaic(format, 1024, 1024, &mut Rng::root(7)).len();
    assert!((80_000..200_000).contains(&size(PictureFormat::Png)), "{}", size(PictureFormat::Png));
    assert!((40_000..100_000).contains(&size(PictureFormat::Jpeg)), "{}", size(PictureFormat::Jpeg));
}

#[test]
fn sizes_of_other_formats_are_read_too() {
    let of = |bytes: &[u8]| picture_size(bytes).map(|size| (size.media_type, size.width, size.height));
    assert_eq!(of(b"GIF89a\x40\x01\xF0\x00"), Some(("image/gif", 320, 240)));
    let lossy = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9D\x01\x2A\x40\x01\xF0\x00";
    assert_eq!(of(lossy), Some(("image/webp", 320, 240)));
    let extended = b"RIFF\0\0\0\0WEBPVP8X\x0A\0\0\0\0\0\0\0\x3F\x01\0\xEF\0\0";
    assert_eq!(of(extended), Some(("image/webp", 320, 240)));
    let lossless = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2F\x3F\xC1\x3B\0";
    assert_eq!(of(lossless), Some(("image/webp", 320, 240)));
    // Behind a segment that a camera wrote, and fill bytes.
    let photo = b"\xFF\xD8\xFF\xE1\0\x04xx\xFF\xFF\xC2\0\x11\x08\0\xF0\x01\x40";
    assert_eq!(of(photo), Some(("image/jpeg", 320, 240)));
    assert_eq!((of(b"BM"), of(b""), of(b"\xFF\xD8\xFF\xDA")), (None, None, None));
}

#[test]
fn sound_is_as_long_as_asked_and_a_part_where_there_is_a_place_for_it() {
    let bytes = made_up(Span::from_millis(1_500), HEARD_RATE, &mut Rng::root(3));
    assert_eq!(bytes.len(), 44 + 2 * 24_000);
    assert_eq!(wav_length(&bytes, bytes.len() as u64), Some(Span::from_millis(1_500)));
    assert_ne!(bytes, made_up(Span::from_millis(1_500), HEARD_RATE, &mut Rng::root(4)));
    let loudest = bytes[44..].chunks(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]]).unsigned_abs()).max();
    assert!(loudest.is_some_and(|loudest| (1_000..=4_000).contains(&loudest)), "{loudest:?}");
    let text = to_base64(&bytes);
    for dialect in [Dialect::OpenAiChat, Dialect::Gemini] {
        let Some(Content::Other(part)) = sound_part(dialect, &text) else { panic!("{dialect:?} has a place for it") };
        assert_eq!(sound_of(&part), Some((Span::from_millis(1_500), text.len())));
    }
    assert_eq!(sound_part(Dialect::Anthropic, &text), None);
    assert_eq!(sound_of(r#"{"type":"input_audio","input_audio":{"data":"AAAA"}}"#), None);
    // A writer that streamed names no length: the rest of the file is it.
    let mut streamed = bytes;
    streamed[40..44].copy_from_slice(&[0xFF; 4]);
    assert_eq!(wav_length(&streamed, streamed.len() as u64), Some(Span::from_millis(1_500)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_size_is_written_whole_and_read_again(width in 1_u32..300, height in 1_u32..60, seed in any::<u64>()) {
        for format in PictureFormat::ALL {
            let bytes = mosaic(format, width, height, &mut Rng::root(seed));
            let size = picture_size_of_base64(&to_base64(&bytes)).expect("it says its size");
            prop_assert_eq!((size.media_type, size.width, size.height), (format.media_type(), width, height));
        }
        let lines = pixels(&mosaic(PictureFormat::Png, width, height, &mut Rng::root(seed)), width);
        prop_assert_eq!(lines.len(), height as usize);
        prop_assert!(lines.iter().all(|line| line.len() == width as usize));
    }

    #[test]
    fn no_bytes_break_the_reading(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0_usize..5) {
        let beginnings: [&[u8]; 5] = [b"\x89PNG\r\n\x1a\n", b"\xFF\xD8", b"RIFF\0\0\0\0WEBPVP8L", b"RIFF\0\0\0\0WAVEfmt ", b""];
        let bytes = [beginnings[kind], &bytes].concat();
        picture_size(&bytes);
        wav_length(&bytes, bytes.len() as u64);
        picture_size_of_base64(&String::from_utf8_lossy(&bytes));
    }
}
