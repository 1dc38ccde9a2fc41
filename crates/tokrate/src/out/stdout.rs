//! Standard output: its width, and text written to its end, or an error that says so.

use anyhow::{Context, Result};
use std::io::{ErrorKind, Write};

/// Width of lines where no terminal tells its own.
const DEFAULT_WIDTH: usize = 80;
/// Width that is used of a narrower terminal.
const MIN_WIDTH: usize = 40;

/// Columns of the terminal that may be used, up to `max`.
pub fn width(max: usize) -> usize {
    #[cfg(unix)]
    let columns = rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_col));
    #[cfg(not(unix))]
    let columns: Option<usize> = None;
    columns.filter(|columns| *columns > 0).unwrap_or(DEFAULT_WIDTH).clamp(MIN_WIDTH, max)
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
