//! The gateway of the soak: its settings, which change while it runs, its log and its metrics.
//!
//! Invariant: every valid change of settings keeps lanes, aliases and keys that calls use.

use super::archive::{ALIAS, FEE, LANE, MODEL};
use super::engines::{Engine, INPUT_PRICE, OUTPUT_PRICE};
use super::plan::{Alias, Key};
use super::process::{ResourceUsage, Server, address_after};
use crate::bench::stream::Tls;
use crate::bench::{AnswerReader, GuardedProcess};
use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The gateway's limit for a call (`total`); a client that waits noticeably longer sees a hang.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(20);
/// The gateway's `request_bytes`: small, so that a request beyond it is cheap to send.
pub const MAX_REQUEST_BYTES: usize = 64 << 10;
/// How long a shutdown may take: open calls (`drain` is 25 s), then the log.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(60);

/// A running gateway.
pub struct Gateway {
    pub address: SocketAddr,
    admin: SocketAddr,
    pub log: PathBuf,
    settings: PathBuf,
    engines: String,
    server: Server,
    /// How many valid and invalid settings it was sent.
    pub settings_sent: (usize, usize),
}

/// Counters from its metrics.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    pub rows_written: u64,
    pub rows_lost: u64,
    pub calls_open: u64,
}

impl Gateway {
    /// Starts it in front of the engines.
    pub fn start(
        tokrate: &Path,
        folder: &Path,
        engines: &[Engine],
        archive: SocketAddr,
        tls: Option<&Tls>,
    ) -> Result<Gateway> {
        let own = folder.join("gateway");
        std::fs::create_dir_all(&own).with_context(|| format!("make {}", own.display()))?;
        let (settings, engines) = (own.join("tokrate.toml"), top(tls) + &lanes(engines) + &files(archive));
        std::fs::write(&settings, settings_of(&engines, 0)).context("write the gateway's settings")?;
        let variables: Vec<(&str, &str)> = Key::ALL.iter().map(|key| (key.variable(), key.value())).collect();
        let arguments = ["gateway", "--config", "tokrate.toml"].map(str::to_owned);
        let server = Server(GuardedProcess::start(tokrate, &arguments, &variables, own.join("output"))?);
        let address = address_after(&server, if tls.is_some() { " lanes at https://" } else { " lanes at http://" })
            .context("start the gateway")?;
        let admin = address_after(&server, "page: http://").context("start the gateway")?;
        Ok(Gateway { address, admin, log: own.join("log.db"), settings, engines, server, settings_sent: (0, 0) })
    }

    /// Writes other settings and signals the gateway. Every third time they are invalid.
    pub fn change_settings(&mut self) -> Result<()> {
        let number = self.settings_sent.0 + self.settings_sent.1 + 1;
        let mut text = settings_of(&self.engines, number);
        if number.is_multiple_of(3) {
            text.push_str("\n[gateway.aliases.broken]\nlanes = [\"nobody\"]\n");
            self.settings_sent.1 += 1;
        } else {
            self.settings_sent.0 += 1;
        }
        let new = self.settings.with_extension("new");
        std::fs::write(&new, text).context("write the gateway's settings")?;
        std::fs::rename(&new, &self.settings).context("write the gateway's settings")?;
        self.server.signal(Signal::HUP)
    }

    /// How many settings its output says were accepted, and how many refused.
    pub fn settings_acknowledged(&self) -> (usize, usize) {
        let output = std::fs::read_to_string(&self.server.0.log).unwrap_or_default();
        (output.matches("read the settings again: ").count(), output.matches("kept the old settings").count())
    }

    /// Errors in its output.
    pub fn logged_errors(&self) -> Vec<String> {
        let output = std::fs::read_to_string(&self.server.0.log).unwrap_or_default();
        let is_error = |line: &&str| line.contains("panicked") || line.contains("but the throughput log does not");
        output.lines().filter(is_error).map(str::to_owned).collect()
    }

    /// The resources of its process.
    pub fn resources(&self) -> Result<ResourceUsage> {
        ensure!(self.server.0.is_alive(), "find the gateway alive: {}", self.server.0.last_output());
        self.server.resources()
    }

    /// Its counters now.
    pub fn counters(&self) -> Result<Counters> {
        let text = page(self.admin, "/metrics").context("read the gateway's metrics")?;
        let number = |name: &str| -> Result<u64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix("{} "));
            let value = line.and_then(|value| value.parse::<f64>().ok());
            Ok(value.with_context(|| format!("read the gateway's metrics: {name}"))? as u64)
        };
        Ok(Counters {
            rows_written: number("tokrate_log_rows_written_total")?,
            rows_lost: number("tokrate_log_rows_lost_total")?,
            calls_open: number("tokrate_calls_open")?,
        })
    }

    /// Bytes of the log's file and its write-ahead log.
    pub fn log_bytes(&self) -> u64 {
        let size = |end: &str| {
            let mut path = self.log.clone().into_os_string();
            path.push(end);
            std::fs::metadata(path).map_or(0, |data| data.len())
        };
        size("") + size("-wal")
    }

    /// Stops it.
    pub fn stop(&self) -> Result<()> {
        self.server.stop(SHUTDOWN_TIMEOUT).context("end the gateway")
    }
}

/// Fetches a page of the admin server.
fn page(address: SocketAddr, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).context("connect")?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n").as_bytes())?;
    let (mut reader, mut body, mut buffer) = (AnswerReader::default(), Vec::new(), vec![0; 64 << 10]);
    loop {
        let length = stream.read(&mut buffer)?;
        ensure!(length > 0, "read {path}: it broke off");
        if reader.push(&buffer[..length], &mut |bytes| body.extend_from_slice(bytes))? {
            break;
        }
    }
    if reader.status != 200 {
        bail!("read {path}: status {}", reader.status);
    }
    Ok(String::from_utf8(body)?)
}

/// What stands before the lanes: the certificate, if clients speak TLS.
fn top(tls: Option<&Tls>) -> String {
    tls.map_or(String::new(), |tls| {
        format!("\n[gateway.tls]\ncertificate = \"{}\"\nkey = \"{}\"\n", tls.certificate.display(), tls.key.display())
    })
}

/// The lane of files and transcripts, and its alias.
fn files(archive: SocketAddr) -> String {
    format!(
        "\n[gateway.lanes.{LANE}]\nurl = \"http://{archive}/v1\"\nmodel = \"{MODEL}\"\n\
         serves = [\"files\", \"transcriptions\"]\nfees = {{ transcriptions = {FEE:?} }}\n\
         \n[gateway.aliases.{ALIAS}]\nlanes = [\"{LANE}\"]\n"
    )
}

fn lanes(engines: &[Engine]) -> String {
    let mut text = String::new();
    for engine in engines {
        let profile = engine.profile;
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "\n[gateway.lanes.{}]\nurl = \"{}\"\nmodel = \"sim\"\ndialect = \"{}\"\nloser = \"{}\"\n\
             price = {{ input = {INPUT_PRICE}, output = {OUTPUT_PRICE} }}\nforward_headers = [\"x-tokrate-fault\"]\n",
            profile.name, engine.url, profile.dialect, profile.loser
        );
    }
    text
}

/// The settings of a change by its number: an alias comes and goes, with another share of extra calls each time.
fn settings_of(lanes: &str, number: usize) -> String {
    let mut text = format!(
        "[gateway]\nlisten = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nlog = \"log.db\"\ndrain = \"25s\"\n\n\
         [gateway.limits]\nconnect = \"2s\"\nbody = \"2s\"\nfirst_token = \"3s\"\ngap = \"2s\"\ntotal = \"{}s\"\n\
         request_bytes = {MAX_REQUEST_BYTES}\ncalls = 2000\n{lanes}",
        CALL_TIMEOUT.as_secs()
    );
    for alias in Alias::ALL {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n[gateway.aliases.{}]\n{}\n", alias.name(), alias.settings());
    }
    for key in Key::ALL {
        let _ = write!(text, "\n[gateway.keys.{}]\nkey_env = \"{}\"\n{}", key.name(), key.variable(), key.settings());
    }
    if number % 2 == 1 {
        let _ = write!(text, "\n[gateway.aliases.spare]\nlanes = [\"swift\"]\nextra_share = 0.{}\n", number % 9 + 1);
    }
    text
}
