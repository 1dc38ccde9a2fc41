//! Standard output and standard error: their widths, and text written to its end, or an error that says so.

use anyhow::{Context, Result};
use std::io::{ErrorKind, Write};

/// Width of lines where no terminal tells its own.
const DEFAULT_WIDTH: usize = 80;
/// Width that is used of a narrower terminal.
const MIN_WIDTH: usize = 40;

/// Longest line of sentences: longer ones are hard to read.
pub const MAX_TEXT_WIDTH: usize = 80;

/// Columns of the terminal that may be used, up to `max`.
pub fn width(max: usize) -> usize {
    #[cfg(unix)]
    let columns = columns_of(std::io::stdout());
    #[cfg(not(unix))]
    let columns: Option<usize> = None;
    columns.unwrap_or(DEFAULT_WIDTH).clamp(MIN_WIDTH, max)
}

/// Columns for sentences on standard error.
pub fn error_width() -> usize {
    #[cfg(unix)]
    let columns = columns_of(std::io::stderr());
    #[cfg(not(unix))]
    let columns: Option<usize> = None;
    columns.unwrap_or(DEFAULT_WIDTH).clamp(MIN_WIDTH, MAX_TEXT_WIDTH)
}

/// Columns of a terminal that says how many it has.
#[cfg(unix)]
fn columns_of(stream: impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Writes a text, with its colours where the terminal shows them. A reader that has gone (`| head`) wants no more and is no error.
///
/// # Errors
/// When it cannot be written, such as to a full disk.
pub fn write(text: &str) -> Result<()> {
    let mut stdout = anstream::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("write to standard output"),
    }
}
