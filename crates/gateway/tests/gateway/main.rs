//! The gateway over loopback, between clients that speak raw HTTP and lanes that say what a script tells them.
//!
//! It refuses to sleep: what is waited for is waited for. Invariant: nothing leaves loopback.

mod access;
mod admin;
mod billing;
mod budget;
mod causes;
mod client;
mod cut;
mod dry_run;
mod embeddings;
mod harness;
mod keys;
mod otel;
mod refusals;
mod restored;
mod scripted;
mod serving;
mod simulated;
mod time;
mod translated;
