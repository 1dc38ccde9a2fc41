//! One file per subcommand, and what all of them end with.

pub mod apply;
mod baseline;
mod batch_notes;
pub mod bench;
pub mod claim;
pub mod compare;
pub mod estimate;
pub mod export;
pub mod feel;
pub mod gateway;
pub mod init;
pub mod interrupt;
pub mod log;
pub mod mcp;
pub mod monitor;
pub mod race;
pub mod replay;
pub mod sim;
pub mod targets;
pub mod trust;

use std::process::ExitCode;

/// How a command ended, best first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// All is well.
    Good,
    /// Measured, and below a bar: too many failures.
    BelowBar,
    /// Ended before its end, by the user, by a limit or by the server; what was measured until then stands.
    Partial,
    /// Nothing that could be called a measurement.
    NotMeasured,
}

impl Verdict {
    /// 0, 1, 3 or 2.
    pub fn exit_code(self) -> ExitCode {
        ExitCode::from(match self {
            Verdict::Good => 0,
            Verdict::BelowBar => 1,
            Verdict::Partial => 3,
            Verdict::NotMeasured => 2,
        })
    }
}
