//! `tokrate race`: the same request to several lanes at once, side by side in the terminal.

use super::Verdict;
use super::gateway::start_locals;
use crate::config::gateway::{Resolved, lanes_for};
use crate::config::quantity;
use crate::flags::race::Flags;
use crate::out::race::{Picture, result};
use anyhow::{Context, Result, ensure};
use std::io::{IsTerminal, Write};
use std::time::Duration;
use tokrate_gateway::LaneComparison;

/// Columns of a terminal whose width is unknown.
const DEFAULT_WIDTH: usize = 80;
/// How often the picture moves.
const REFRESH: Duration = Duration::from_millis(100);

/// Sends the request, shows the progress, and prints the result. Exit code 1 if no lane answered.
pub fn run(flags: &Flags) -> Result<Verdict> {
    ensure!(!flags.prompt.trim().is_empty(), "read the prompt: it is empty");
    ensure!(flags.output_tokens > 0, "read --output-tokens: an answer has at least one");
    let total = quantity::span(&flags.timeout).context("read --timeout")?;
    let mut resolved: Resolved = lanes_for(flags.config.as_deref(), &flags.lanes)?;
    let _locals = start_locals(&mut resolved)?;
    let lanes = resolved.config.lanes;
    let names: Vec<String> = lanes.iter().map(|lane| lane.name.clone()).collect();
    let comparison = LaneComparison {
        lanes,
        prompt: flags.prompt.clone(),
        output_tokens: flags.output_tokens,
        total,
        client: resolved.config.client,
    };
    let moves = std::io::stdout().is_terminal();
    let width = terminal_width();
    let mut picture = Picture::new(names.clone(), width);
    let finishes = comparison.run(REFRESH, |runners| {
        if moves {
            let mut out = std::io::stdout();
            // A terminal that is gone is noticed at the end.
            let _ = out.write_all(picture.frame(runners).as_bytes()).and_then(|()| out.flush());
        }
    })?;
    crate::out::stdout::write(&result(&names, &finishes))?;
    let answered = finishes.iter().any(|finish| finish.numbers.failure.is_none());
    Ok(if answered { Verdict::Good } else { Verdict::BelowBar })
}

/// Columns of the terminal.
fn terminal_width() -> usize {
    #[cfg(unix)]
    if let Ok(size) = rustix::termios::tcgetwinsize(std::io::stdout())
        && size.ws_col > 0
    {
        return usize::from(size.ws_col);
    }
    DEFAULT_WIDTH
}
