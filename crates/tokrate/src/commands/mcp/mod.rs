//! `tokrate mcp`: the merge engine as a server of the Model Context Protocol on standard input and output.
//!
//! No file outside of its roots is edited. Invariant: standard output carries messages of the protocol and nothing else;
//! every request that was not cancelled is answered once.

mod editor;
mod tool;
mod workspace;

use super::Verdict;
use crate::commands::apply::Merger;
use crate::commands::apply::confine::Roots;
use crate::config::apply as config;
use crate::flags::mcp::Flags;
use crate::out::os_error::in_words;
use anyhow::{Context, Result};
use editor::TextEditor;
use std::io::{BufRead, BufReader, Read, Write, stdin, stdout};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use tokrate_apply_host::mcp::{Cancelled, Incoming, Server, Tool};
use tool::EditFile;
use workspace::Workspace;

/// Messages beyond this length are not read (bytes).
const MAX_MESSAGE_BYTES: u64 = 32 << 20;
/// Messages that wait for the one at work.
const MAX_WAITING: usize = 64;

/// Serves until standard input ends.
pub fn run(flags: &Flags) -> Result<Verdict> {
    let named = if flags.roots.is_empty() { vec![PathBuf::from(".")] } else { flags.roots.clone() };
    let merger = Merger { fallback: config::fallback(&flags.fallback)?, without_tree: flags.no_tree };
    let cancelled = Arc::new(Cancelled::default());
    let roots = Roots::new(&named, &flags.allow).map_err(in_words)?;
    let workspace = Arc::new(Workspace { roots, merger });
    let tools: Vec<Box<dyn Tool>> = vec![Box::new(EditFile(Arc::clone(&workspace))), Box::new(TextEditor(workspace))];
    let mut server = Server::new(tools, Arc::clone(&cancelled));
    let (sender, messages) = sync_channel(MAX_WAITING);
    // Read apart from the work, so that a request can be cancelled while another one is at work.
    std::thread::Builder::new()
        .name("mcp-input".to_owned())
        .spawn(move || {
            let mut input = BufReader::new(stdin());
            while let Ok(Some(message)) = next_message(&mut input) {
                cancelled.watch(&message);
                if sender.send(message).is_err() {
                    break;
                }
            }
        })
        .context("read standard input: no thread could be started")?;
    let mut output = stdout().lock();
    for message in messages {
        if let Some(answer) = server.answer(&message) {
            let written = output.write_all(answer.as_bytes()).and_then(|()| output.write_all(b"\n"));
            written.and_then(|()| output.flush()).context("write to standard output")?;
        }
    }
    Ok(Verdict::Good)
}

/// The next line; `None` at the end.
fn next_message(input: &mut impl BufRead) -> std::io::Result<Option<Incoming>> {
    loop {
        let mut line = Vec::new();
        let count = input.by_ref().take(MAX_MESSAGE_BYTES).read_until(b'\n', &mut line)?;
        if count == 0 {
            return Ok(None);
        }
        if line.last() != Some(&b'\n') && count as u64 == MAX_MESSAGE_BYTES {
            input.skip_until(b'\n')?;
            return Ok(Some(Incoming::TooLong));
        }
        if !line.trim_ascii().is_empty() {
            return Ok(Some(Incoming::read(&line)));
        }
    }
}
