//! Random bytes for keys, from the generator of the TLS library. Simulations use the seeded `tokrate_core::Rng` instead.

use crate::error::NetError;

/// Unpredictable random bytes.
///
/// # Errors
/// When the operating system gives none.
pub fn random_bytes<const COUNT: usize>() -> Result<[u8; COUNT], NetError> {
    let mut bytes = [0; COUNT];
    let drawn = rustls::crypto::aws_lc_rs::default_provider().secure_random.fill(&mut bytes);
    drawn.map(|()| bytes).map_err(|_| NetError::Randomness)
}
