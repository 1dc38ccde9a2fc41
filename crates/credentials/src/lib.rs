//! Credentials that expire: AWS's usual chain and its signature (SigV4), tokens of Microsoft Entra and of Google.
//!
//! A key that never changes is a header, which `targets` makes once. Everything else is a [`tokrate_net::Authorize`]: an object that a
//! client of `net` asks for headers just before it sends a request. The edges:
//!
//! - `net` defines the trait, asks it, and hands what must not be shown to the sink, so that answers are masked; it knows no provider.
//! - This crate knows where credentials are found and how a request is signed. It opens no socket: token endpoints are asked by
//!   `net`'s client, with the authorities and the proxy of the client that wants the credential (never without checking certificates).
//! - `targets` decides that an endpoint has one (its row says so and no key was named), and keeps what of the environment matters, as
//!   only the binary reads the environment.
//!
//! A [`cached::Cached`] holds what was fetched. It is refreshed before it expires, by one thread at a time, while requests go on with
//! what they have; who comes when there is nothing waits, within the time limits of their own exchange. A failure is remembered for a
//! moment, so that a broken endpoint is not asked by every request, and says which sources were tried and why each gave nothing.
//!
//! Invariant: no error, log line or `Debug` holds a secret; no file takes more memory than its limit, and nothing that is not a
//! regular file is waited for.

#![forbid(unsafe_code)]

mod aws;
mod azure;
mod bearer;
mod cached;
mod error;
mod files;
mod google;
mod process;
mod reach;
#[cfg(test)]
mod revoked;
mod text;
#[cfg(test)]
mod token_endpoint;

pub use aws::{AwsSettings, aws, sigv4};
pub use azure::{AzureSettings, azure};
pub use error::CredentialError;
pub use google::{GoogleSettings, google};

/// The environment: the value of a variable that is set and not empty, by its name.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;
