//! The engine behind HTTP, as a client on loopback meets it: one connection, one request after another.
//!
//! It does not judge the answers, which the other scores do. Invariant: a request's time runs from its first byte
//! written to its last byte read, token counts included; and what a server may keep of a file is told apart, as one
//! figure is of requests in which no file comes twice.

use super::cases::{CUT, Case};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Requests that are sent.
const REQUESTS: usize = 400;
/// A server that sends nothing for this long has failed.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// What was measured.
pub struct Served {
    /// Of all cases, in which a file comes again with other edits.
    pub again: Figures,
    /// Of one case of each file.
    pub once: Figures,
}

/// What was measured of one server.
pub struct Figures {
    /// Times of all requests, in order.
    pub times: Vec<Duration>,
    /// o200k tokens of the merged files a second of the time of their requests.
    pub tokens_per_second: f64,
}

/// The server, ended when it is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends snippets for files of about 1,000 lines to the release binary.
pub fn measured(root: &Path, cases: &[Case]) -> Result<Served> {
    let is_asked = |case: &&Case| case.format == CUT && (800..1200).contains(&case.original.lines().count());
    let again: Vec<&Case> = cases.iter().filter(is_asked).take(REQUESTS).collect();
    ensure!(!again.is_empty(), "find snippets for files of about 1,000 lines; name larger repositories");
    let mut seen = HashSet::new();
    let once: Vec<&Case> =
        cases.iter().filter(is_asked).filter(|case| seen.insert(&*case.original)).take(REQUESTS).collect();
    let build = ["build", "--release", "--quiet", "--package", "tokrate"];
    xtask::tools::run(Command::new(env!("CARGO")).args(build).current_dir(root))?;
    Ok(Served { again: figures(root, &again)?, once: figures(root, &once)? })
}

/// Sends the cases to a server of their own.
fn figures(root: &Path, cases: &[&Case]) -> Result<Figures> {
    let mut command = Command::new(root.join("target/release/tokrate"));
    command.args(["apply", "--serve", "127.0.0.1:0"]).stdout(Stdio::piped());
    let mut server = Server(command.spawn().context("start tokrate apply --serve")?);
    let mut first = String::new();
    BufReader::new(server.0.stdout.take().context("read its output")?).read_line(&mut first)?;
    let address = first.split("http://").nth(1).and_then(|rest| rest.split('/').next());
    let address = address.with_context(|| format!("find an address in {first:?}"))?;
    let stream = TcpStream::connect(address).context("connect")?;
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    let (mut times, mut tokens, mut busy) = (Vec::new(), 0.0, 0.0);
    for case in cases {
        let body =
            json!({"initial_code": &*case.original, "edit_snippet": case.update, "path": case.origin.path}).to_string();
        let head = format!("POST /v1/code/apply HTTP/1.1\r\nhost: {address}\r\ncontent-length: {}\r\n\r\n", body.len());
        let begun = Instant::now();
        writer.write_all((head + &body).as_bytes())?;
        let (status, answer) = answer(&mut reader)?;
        let time = begun.elapsed();
        times.push(time);
        if status == 200 {
            let answer: Value = serde_json::from_slice(&answer)?;
            tokens += answer["usage"]["completion_tokens"].as_f64().context("read the usage")?;
            busy += time.as_secs_f64();
        } else {
            ensure!(status == 422, "answered with status {status}");
        }
    }
    times.sort_unstable();
    Ok(Figures { times, tokens_per_second: tokens / busy.max(f64::MIN_POSITIVE) })
}

fn answer(reader: &mut impl BufRead) -> Result<(u16, Vec<u8>)> {
    let mut status = String::new();
    reader.read_line(&mut status)?;
    let status: u16 = status.split(' ').nth(1).and_then(|code| code.parse().ok()).context("read a status")?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().context("read a length")?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok((status, body))
}
