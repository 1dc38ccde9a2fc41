//! Standard output: written to its end, or an error that says so.

use anyhow::{Context, Result};
use std::io::{ErrorKind, Write};

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
