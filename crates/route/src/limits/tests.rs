//! Tests of limits.
