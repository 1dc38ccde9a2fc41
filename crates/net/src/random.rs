//! Randomness for keys, from the generator that TLS draws its own from.
//!
//! It is not for simulations: those draw from a seed (`tokrate_core::Rng`).

use crate::error::NetError;

/// Random bytes that nobody can guess.
///
/// # Errors
/// When the operating system gives none.
pub fn random_bytes<const COUNT: usize>() -> Result<[u8; COUNT], NetError> {
    let mut bytes = [0; COUNT];
    let drawn = rustls::crypto::aws_lc_rs::default_provider().secure_random.fill(&mut bytes);
    drawn.map(|()| bytes).map_err(|_| NetError::Randomness)
}
