//! Deterministic simulation tests of the whole path.
