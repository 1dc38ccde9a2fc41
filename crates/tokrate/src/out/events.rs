//! What a server says while it runs: structured events on standard error, as text for people or as JSON for collectors.
//!
//! Invariant: no event holds a key, a prompt or an answer; that is up to whoever makes it.

use crate::flags::gateway::{LogFormat, LogLevel};
use tracing::level_filters::LevelFilter;

/// Writes events of the level and above from now on. Called once, before any thread is started.
pub fn start(level: LogLevel, format: LogFormat) {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let events = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_ansi(false);
    match format {
        LogFormat::Text => events.with_target(false).init(),
        LogFormat::Json => events.json().flatten_event(true).init(),
    }
}
