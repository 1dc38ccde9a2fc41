//! Tests over the whole crate.
