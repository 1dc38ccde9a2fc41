//! Tests of router.
