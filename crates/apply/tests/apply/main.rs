//! The merge as its callers see it: kept cases, properties, and bounds of work.

#![allow(missing_docs, clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "deadlines of tests are in real time")]

mod bounds;
mod cases;
mod languages;
mod mutated;
mod properties;
mod shared;
mod written;
