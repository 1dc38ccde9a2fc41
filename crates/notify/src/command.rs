//! A command of the user's own as a receiver. Invariant: it is killed when its time is over.

use crate::MAX_TIME;
use std::process::Stdio;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokrate_alert::{Message, form};

/// Runs it, and takes exit code 0 for acceptance. Its standard error is the monitor's; its standard output goes nowhere.
pub(crate) async fn run(words: &[String], message: &Message, board: Option<&str>) -> Result<(), String> {
    let Some((program, arguments)) = words.split_first() else { return Err("there is no command".to_owned()) };
    let mut child = Command::new(program)
        .args(arguments)
        .envs(form::environment(message))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("start {program}: {error}"))?;
    let text = format!("{}\n", form::webhook(message, board));
    let stdin = child.stdin.take();
    let work = async {
        if let Some(mut stdin) = stdin {
            // One that does not read it has its reasons; its exit code counts.
            let _ = stdin.write_all(text.as_bytes()).await;
        }
        child.wait().await
    };
    match tokio::time::timeout(MAX_TIME.as_duration(), work).await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(format!("{program} ended with {status}")),
        Ok(Err(error)) => Err(format!("wait for {program}: {error}")),
        Err(_) => Err(format!("{program} was killed after {MAX_TIME}")),
    }
}
