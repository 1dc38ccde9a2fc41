//! The `tokrate` binary.

fn main() {}
