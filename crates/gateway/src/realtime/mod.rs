//! Sessions on WebSockets: bytes pass in both directions as they are, and what they say is measured beside the path.

mod meter;
mod reason;
mod relay;
pub(crate) mod session;
mod setup;
