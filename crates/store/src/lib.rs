//! The throughput log's database: one trait, SQLite behind it, one writer thread in front of it.
//!
//! It refuses to know gateways, sockets and how a row is shown.
//!
//! Architecture Invariant: writing a row never blocks and never fails its caller; what could not be kept is counted.

#![forbid(unsafe_code)]
