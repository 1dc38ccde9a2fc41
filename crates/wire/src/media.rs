//! Pictures as bytes, made from numbers, and their sizes read from their beginnings; sound as a part of a message.
//!
//! What is made is a mosaic: a decoder and an encoder of a model work on its pixels as on any other, and it is small enough to be made for every request. Nothing is decoded here. Invariant: the same generator gives the same bytes on every machine; no
//! bytes break the reading.

mod jpeg;
mod part;
mod png;
mod size;

pub use crate::base64::encode as to_base64;
pub use part::{sound_of, sound_part};
pub use size::{PictureSize, picture_size, picture_size_of_base64};

use tokrate_core::Rng;

/// Side of a field of a mosaic, in pixels: that of the blocks of which JPEG is made.
const FIELD: u32 = 8;

/// The longest side that is made: more than any model takes.
pub const MAX_SIDE: u32 = 16_384;

/// How a picture is written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum PictureFormat {
    /// Lossless: 8 bits for each of red, green and blue.
    #[default]
    Png,
    /// Baseline, without subsampling.
    Jpeg,
}

impl PictureFormat {
    /// Both.
    pub const ALL: [PictureFormat; 2] = [PictureFormat::Png, PictureFormat::Jpeg];

    /// Its name on the command line and in records.
    pub const fn name(self) -> &'static str {
        match self {
            PictureFormat::Png => "png",
            PictureFormat::Jpeg => "jpeg",
        }
    }

    /// Its media type.
    pub const fn media_type(self) -> &'static str {
        match self {
            PictureFormat::Png => "image/png",
            PictureFormat::Jpeg => "image/jpeg",
        }
    }
}

/// A mosaic of that size (from 1 to [`MAX_SIDE`] each way): fields of 8 by 8 pixels, each in a colour of its own.
pub fn mosaic(format: PictureFormat, width: u32, height: u32, rng: &mut Rng) -> Vec<u8> {
    let (width, height) = (width.clamp(1, MAX_SIDE), height.clamp(1, MAX_SIDE));
    match format {
        PictureFormat::Png => png::mosaic(width, height, rng),
        PictureFormat::Jpeg => jpeg::mosaic(width, height, rng),
    }
}

/// A colour: three numbers of a byte.
fn colour(rng: &mut Rng) -> [u8; 3] {
    let [a, b, c, ..] = rng.next_u64().to_le_bytes();
    [a, b, c]
}

#[cfg(test)]
mod tests;
