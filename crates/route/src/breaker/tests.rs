//! Tests of breaker.
