//! Keys of probers: Ed25519, as text. Invariant: a private key prints as `***`.

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt;
use tokrate_net::{NetError, random_bytes};

/// Before what is signed, so that a signature of something else is none of a batch.
const CONTEXT: &[u8] = b"tokrate push 1\n";
const KEY_BYTES: usize = 32;

/// A prober's private key.
#[derive(Clone)]
pub struct PushKey(std::sync::Arc<Ed25519KeyPair>);

/// A prober's public key.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey([u8; KEY_BYTES]);

impl PushKey {
    /// A new key, as it is written to a file: 32 random bytes in base64.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub fn generate() -> Result<String, NetError> {
        Ok(STANDARD.encode(random_bytes::<KEY_BYTES>()?))
    }

    /// Reads a key.
    ///
    /// # Errors
    /// When the text is none; it is not in the message.
    pub fn parse(text: &str) -> Result<PushKey, &'static str> {
        let wrong = "a prober's key is 32 bytes in base64; `tokrate monitor push-key` makes one";
        let seed: [u8; KEY_BYTES] =
            STANDARD.decode(text.trim()).ok().and_then(|bytes| bytes.try_into().ok()).ok_or(wrong)?;
        Ed25519KeyPair::from_seed_unchecked(&seed).map(|pair| PushKey(pair.into())).map_err(|_| wrong)
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        let mut key = [0; KEY_BYTES];
        let bytes = self.0.public_key().as_ref();
        key.copy_from_slice(&bytes[..KEY_BYTES]);
        PublicKey(key)
    }

    /// Signs a body, in base64.
    pub fn sign(&self, body: &[u8]) -> String {
        STANDARD.encode(self.0.sign(&[CONTEXT, body].concat()))
    }
}

impl PublicKey {
    /// Reads a key.
    ///
    /// # Errors
    /// When the text is none.
    pub fn parse(text: &str) -> Result<PublicKey, &'static str> {
        let bytes = STANDARD.decode(text.trim()).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(PublicKey).ok_or("a public key is 32 bytes in base64; `tokrate monitor push-key` prints it")
    }

    /// Whether a signature (base64) is one of this body by this key.
    pub(crate) fn has_signed(&self, body: &[u8], signature: &str) -> bool {
        let Ok(signature) = STANDARD.decode(signature) else { return false };
        UnparsedPublicKey::new(&ED25519, &self.0).verify(&[CONTEXT, body].concat(), &signature).is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self}")
    }
}

impl fmt::Debug for PushKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_of_one_body_by_one_key() {
        let key = PushKey::parse(&PushKey::generate().expect("random bytes")).expect("a key");
        let other = PushKey::parse(&PushKey::generate().expect("random bytes")).expect("a key");
        let public = PublicKey::parse(&key.public().to_string()).expect("as it was written");
        let signature = key.sign(b"body");
        assert!(public.has_signed(b"body", &signature));
        assert!(!public.has_signed(b"body ", &signature) && !other.public().has_signed(b"body", &signature));
        for garbage in ["", "====", "AAAA", &"A".repeat(88)] {
            assert!(!public.has_signed(b"body", garbage));
        }
        assert_eq!(format!("{key:?}"), "***");
        for bad in ["", "sk-secret", "AAAA"] {
            assert!(!PushKey::parse(bad).expect_err("no key").contains("secret"));
        }
    }

    #[test]
    fn the_key_of_the_standard_has_the_public_half_of_the_standard() {
        // RFC 8032, 7.1, test 1.
        let seed = "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=";
        let key = PushKey::parse(seed).expect("a key");
        assert_eq!(key.public().to_string(), "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=");
    }
}
