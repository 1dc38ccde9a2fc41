//! Runs the command of a `credential_process`.
//!
//! Invariant: it ends within its time, what it started included, and its output is bounded; nothing of that output is in an error.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Such commands log in somewhere, but ask nobody.
const TIME: Duration = Duration::from_secs(30);
const MAX_OUTPUT_BYTES: u64 = 256 << 10;

/// What a command printed.
pub(crate) fn output(command: &str) -> Result<String, String> {
    output_within(command, TIME)
}

fn output_within(command: &str, time: Duration) -> Result<String, String> {
    let child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // So that what the shell started ends with it.
        .process_group(0)
        .spawn();
    let mut child = child.map_err(|error| format!("cannot be run: {error}"))?;
    let pipe = child.stdout.take().ok_or("has no output")?;
    let (done, ended) = channel();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = pipe.take(MAX_OUTPUT_BYTES + 1).read_to_end(&mut bytes);
        // Nobody listens any more once the time is over.
        let _ = done.send(read.map(|_| bytes));
    });
    let result = match ended.recv_timeout(time) {
        Ok(Ok(bytes)) if bytes.len() as u64 > MAX_OUTPUT_BYTES => Err("printed too much".to_owned()),
        Ok(Ok(bytes)) => String::from_utf8(bytes).map_err(|_| "did not print text".to_owned()),
        Ok(Err(error)) => Err(format!("could not be read: {error}")),
        Err(RecvTimeoutError::Timeout) => Err(format!("did not end within {} s", time.as_secs_f64())),
        Err(RecvTimeoutError::Disconnected) => Err("could not be read".to_owned()),
    };
    if result.is_err() {
        end(&mut child);
    }
    // It has closed its output, or was ended.
    let status = child.wait().map_err(|error| format!("cannot be waited for: {error}"))?;
    let _ = reader.join();
    match result {
        Ok(_) if !status.success() => Err(format!("ended with {status}; run it by hand to see why")),
        result => result,
    }
}

fn end(child: &mut Child) {
    let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(group) = group {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_hangs_prints_without_end_or_fails_is_an_error_without_its_output() {
        assert_eq!(output("printf '{}'"), Ok("{}".to_owned()));
        let hung = output_within("echo sk-1; sleep 600", Duration::from_millis(50)).expect_err("it hangs");
        assert_eq!(hung, "did not end within 0.05 s");
        assert_eq!(output("cat /dev/zero"), Err("printed too much".to_owned()));
        let failed = output("echo sk-1; exit 3").expect_err("it failed");
        assert!(failed.starts_with("ended with exit status: 3") && !failed.contains("sk-1"), "{failed}");
    }
}
