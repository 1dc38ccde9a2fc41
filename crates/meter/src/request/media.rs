//! Pictures and sound of a request: sent with its prompt, or made by it.

use serde::{Deserialize, Serialize};
use tokrate_core::Tick;

/// What a request had besides text. Sizes are those of what was sent, or of what came.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Media {
    /// Pictures.
    pub pictures: u64,
    /// Their pixels.
    pub pixels: u64,
    /// Length of the sound (ns).
    #[serde(default)]
    pub sound_ns: u64,
}

/// Images of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImageTrace {
    /// When the first came, done or not.
    pub first_at: Tick,
    /// Images that are done.
    pub images: u64,
    /// Their pixels, as far as their sizes are known.
    pub pixels: u64,
    /// Images that were not yet done.
    pub partial: u64,
}

impl ImageTrace {
    /// Adds one that came at `at`.
    pub(crate) fn add(known: &mut Option<ImageTrace>, at: Tick, pixels: u64, is_partial: bool) {
        let trace = known.get_or_insert(ImageTrace { first_at: at, images: 0, pixels: 0, partial: 0 });
        match is_partial {
            true => trace.partial += 1,
            false => {
                trace.images += 1;
                trace.pixels = trace.pixels.saturating_add(pixels);
            }
        }
    }

    /// Those that are done.
    pub fn media(&self) -> Media {
        Media { pictures: self.images, pixels: self.pixels, sound_ns: 0 }
    }
}
