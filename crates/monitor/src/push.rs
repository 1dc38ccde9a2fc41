//! From a prober to a hub: what a prober keeps goes there in signed batches, and waits in its own database while the hub is away.
//!
//! A prober writes an entry of its spool in the transaction that keeps the row, and removes it once the hub has it; the hub keeps with the
//! rows how far it has that spool. Invariant: whatever is killed when, every entry is at the hub once.

mod batch;
mod entry;
mod gate;
mod key;
mod pusher;

pub use batch::{Batch, MAX_BATCH_BYTES, Refusal};
pub use gate::{Gate, KnownProber};
pub use key::{PublicKey, PushKey};
pub use pusher::PushSettings;

pub(crate) use batch::write_batch;
pub(crate) use entry::entry_of;
pub(crate) use pusher::{BATCH_ENTRIES, PushAnswer, Pusher};

/// Where batches are posted, below the hub's address.
pub const PATH: &str = "/api/v1/push";
/// The prober's name.
pub(crate) const PROBER_HEADER: &str = "tokrate-prober";
/// Its signature of the body, base64.
pub(crate) const SIGNATURE_HEADER: &str = "tokrate-signature";

#[cfg(test)]
mod killed;
#[cfg(test)]
mod tests;
