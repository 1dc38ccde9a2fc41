//! Reads the size of a picture from its beginning: PNG, JPEG, WebP, GIF.

use super::MAX_SIDE;
use crate::base64::decode_beginning;

/// How far into a picture its size is looked for (bytes): behind the thumbnail and the profile that cameras write.
const MAX_LOOKED_AT: usize = 256 * 1024;

/// What a picture is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PictureSize {
    /// Its media type.
    pub media_type: &'static str,
    /// Pixels of a line.
    pub width: u32,
    /// Lines.
    pub height: u32,
}

impl PictureSize {
    /// All its pixels.
    pub fn pixels(&self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }
}

/// The size of a picture; `None` of what is none of the four formats, or says no size.
pub fn picture_size(bytes: &[u8]) -> Option<PictureSize> {
    let (media_type, (width, height)) = match bytes {
        [0x89, b'P', b'N', b'G', ..] => ("image/png", png(bytes)?),
        [0xFF, 0xD8, ..] => ("image/jpeg", jpeg(bytes)?),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => ("image/webp", webp(bytes)?),
        [b'G', b'I', b'F', b'8', ..] => ("image/gif", (little(bytes, 6)?, little(bytes, 8)?)),
        _ => return None,
    };
    // A larger one is none that a model was ever given, or no size.
    let is_one = |side: u32| (1..=4 * MAX_SIDE).contains(&side);
    (is_one(width) && is_one(height)).then_some(PictureSize { media_type, width, height })
}

/// The same of a picture in base64, of which only the beginning is read.
pub fn picture_size_of_base64(text: &str) -> Option<PictureSize> {
    // Most say it in their first bytes.
    picture_size(&decode_beginning(text, 64)).or_else(|| picture_size(&decode_beginning(text, MAX_LOOKED_AT)))
}

fn png(bytes: &[u8]) -> Option<(u32, u32)> {
    let side = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    (bytes.get(12..16)? == b"IHDR").then_some(())?;
    Some((side(16)?, side(20)?))
}

/// Goes over the segments to that of the frame (T.81, B.2.2).
fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let big = |at: usize| Some(u32::from(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?)));
    let mut at = 2;
    loop {
        let marker = match *bytes.get(at..at + 2)? {
            // Fill bytes may stand before a marker.
            [0xFF, 0xFF] => {
                at += 1;
                continue;
            }
            [0xFF, marker] => marker,
            _ => return None,
        };
        match marker {
            0xC0..=0xC3 | 0xC5..=0xC7 | 0xC9..=0xCB | 0xCD..=0xCF => return Some((big(at + 7)?, big(at + 5)?)),
            0x01 | 0xD0..=0xD8 => at += 2,
            0xD9 | 0xDA => return None,
            _ => at += 2 + (big(at + 2)?.max(2)) as usize,
        }
    }
}

fn webp(bytes: &[u8]) -> Option<(u32, u32)> {
    let three = |at: usize| {
        let part = bytes.get(at..at + 3)?;
        Some(u32::from_le_bytes([part[0], part[1], part[2], 0]))
    };
    match bytes.get(12..16)? {
        b"VP8X" => Some((three(24)? + 1, three(27)? + 1)),
        b"VP8 " => Some((little(bytes, 26)? & 0x3FFF, little(bytes, 28)? & 0x3FFF)),
        b"VP8L" => {
            let bits = u32::from_le_bytes(bytes.get(21..25)?.try_into().ok()?);
            Some(((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1))
        }
        _ => None,
    }
}

fn little(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?)))
}
