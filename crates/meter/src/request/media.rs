//! Pictures and sound of a request: sent with its prompt, or made by it.

use serde::{Deserialize, Serialize};

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
