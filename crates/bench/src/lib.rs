//! `tokrate bench`: plans load, carries it out, calibrates the client and reports.
//!
//! It refuses to know the command line, the terminal and the file system's layout: those belong to the binary.
//!
//! Architecture Invariant: no other part is known here; numbers are made by `meter`, bytes by `wire` and `net`.

pub mod plan;
