//! Tests of race.
