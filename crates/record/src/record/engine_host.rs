//! The machine of the engine, where it is the measuring machine itself.
//!
//! Invariant: unknown facts are absent.

use serde::{Deserialize, Serialize};

/// Facts of the machine that client and engine share.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EngineHost {
    /// Model of the CPU.
    pub cpu: Option<String>,
    /// Logical cores that this process may use.
    pub cores: Option<u32>,
    /// Main memory (bytes).
    pub memory_bytes: Option<u64>,
    /// Graphics processors; null where they were not looked for.
    pub gpus: Option<Vec<Gpu>>,
}

/// A graphics processor.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gpu {
    /// Its model.
    pub name: String,
    /// Its memory (bytes).
    pub memory_bytes: Option<u64>,
    /// Version of its driver.
    pub driver: Option<String>,
}
