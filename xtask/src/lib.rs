//! What the chores share: the programs that they need, and how one is run.

pub mod tools;
