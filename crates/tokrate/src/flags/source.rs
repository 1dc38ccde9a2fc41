//! Which part of tokrate made the measurements that a command reads.

use clap::ValueEnum;
use tokrate_record::SampleSource;

/// A source. Sources are never put into one number.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Source {
    /// Calls of a gateway's clients
    #[default]
    Gateway,
    /// Probes of a monitor
    Monitor,
    /// Requests of bench runs that were added to a board
    Bench,
}

impl Source {
    /// As rows name it.
    pub const fn of_rows(self) -> SampleSource {
        match self {
            Source::Gateway => SampleSource::Gateway,
            Source::Monitor => SampleSource::Monitor,
            Source::Bench => SampleSource::Bench,
        }
    }
}
