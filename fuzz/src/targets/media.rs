//! Beginnings of pictures and sound: a size is found or not, from bytes and from base64 alike.
//!
//! Invariant: the input is the bytes of a file.

use tokrate_wire::media;

/// Panics if a property does not hold.
pub fn run(input: &[u8]) {
    let text = media::to_base64(input);
    let size = media::picture_size(input);
    assert_eq!(media::picture_size_of_base64(&text), size);
    assert!(size.is_none_or(|size| size.pixels() > 0));
    let _ = media::sound_of(&String::from_utf8_lossy(input));
}
