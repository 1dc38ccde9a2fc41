//! The merge as its callers see it: kept cases, properties, and bounds of work.

#![allow(missing_docs, clippy::unwrap_used)]

mod bounds;
mod cases;
mod properties;
