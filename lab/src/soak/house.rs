//! The gateway of the soak: its settings, which change while it runs, and what it says of itself.
//!
//! Invariant: every change of settings that is good keeps lanes, aliases and keys that calls use.

use super::fleet::{Engine, INPUT_PRICE, OUTPUT_PRICE};
use super::plan::{Alias, Key};
use super::process::{Server, Vitals, address_after};
use crate::bench::{AnswerReader, Guarded};
use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the gateway lets a call go on; a client that waits longer than that and a little more sees a hang.
pub const TOTAL: Duration = Duration::from_secs(20);
/// Largest request that it takes.
pub const REQUEST_BYTES_MOST: usize = 64 << 10;
/// How long the end may take: open calls, drains, the log.
const END: Duration = Duration::from_secs(60);

/// A running gateway.
pub struct House {
    pub address: SocketAddr,
    admin: SocketAddr,
    pub log: PathBuf,
    settings: PathBuf,
    engines: String,
    server: Server,
    /// Changes of its settings that were told: those that are good, and those that are not.
    pub told: (usize, usize),
}

/// What it says of itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told {
    pub rows_written: u64,
    pub rows_lost: u64,
    pub calls_open: u64,
}

impl House {
    /// Starts it in front of the engines.
    pub fn start(tokrate: &Path, folder: &Path, engines: &[Engine]) -> Result<House> {
        let own = folder.join("gateway");
        std::fs::create_dir_all(&own).with_context(|| format!("make {}", own.display()))?;
        let (settings, engines) = (own.join("tokrate.toml"), lanes(engines));
        std::fs::write(&settings, settings_of(&engines, 0)).context("write the gateway's settings")?;
        let variables: Vec<(&str, &str)> = Key::ALL.iter().map(|key| (key.variable(), key.value())).collect();
        let arguments = ["gateway", "--config", "tokrate.toml"].map(str::to_owned);
        let server = Server(Guarded::start(tokrate, &arguments, &variables, own.join("output"))?);
        let address = address_after(&server, " lanes at http://").context("start the gateway")?;
        let admin = address_after(&server, "page: http://").context("start the gateway")?;
        Ok(House { address, admin, log: own.join("log.db"), settings, engines, server, told: (0, 0) })
    }

    /// Writes other settings and tells the gateway. Every third time they make no sense.
    pub fn change(&mut self) -> Result<()> {
        let number = self.told.0 + self.told.1 + 1;
        let mut text = settings_of(&self.engines, number);
        if number.is_multiple_of(3) {
            text.push_str("\n[gateway.aliases.broken]\nlanes = [\"nobody\"]\n");
            self.told.1 += 1;
        } else {
            self.told.0 += 1;
        }
        let new = self.settings.with_extension("new");
        std::fs::write(&new, text).context("write the gateway's settings")?;
        std::fs::rename(&new, &self.settings).context("write the gateway's settings")?;
        self.server.signal(Signal::HUP)
    }

    /// Changes of its settings that it has spoken of: taken over, and refused.
    pub fn heard(&self) -> (usize, usize) {
        let said = std::fs::read_to_string(&self.server.0.log).unwrap_or_default();
        (said.matches("read the settings again: ").count(), said.matches("kept the old settings").count())
    }

    /// What went wrong, in its own words.
    pub fn complaints(&self) -> Vec<String> {
        let said = std::fs::read_to_string(&self.server.0.log).unwrap_or_default();
        let is_complaint = |line: &&str| line.contains("panicked") || line.contains("but the throughput log does not");
        said.lines().filter(is_complaint).map(str::to_owned).collect()
    }

    /// How its process is.
    pub fn vitals(&self) -> Result<Vitals> {
        ensure!(self.server.0.is_alive(), "find the gateway alive: {}", self.server.0.last_words());
        self.server.vitals()
    }

    /// What it says of itself.
    pub fn told(&self) -> Result<Told> {
        let text = page(self.admin, "/metrics").context("read the gateway's metrics")?;
        let number = |name: &str| -> Result<u64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix("{} "));
            let value = line.and_then(|value| value.parse::<f64>().ok());
            Ok(value.with_context(|| format!("read the gateway's metrics: {name}"))? as u64)
        };
        Ok(Told {
            rows_written: number("tokrate_log_rows_written_total")?,
            rows_lost: number("tokrate_log_rows_lost_total")?,
            calls_open: number("tokrate_calls_open")?,
        })
    }

    /// Bytes of the log's file, with what is not yet in it.
    pub fn log_bytes(&self) -> u64 {
        let size = |end: &str| {
            let mut path = self.log.clone().into_os_string();
            path.push(end);
            std::fs::metadata(path).map_or(0, |data| data.len())
        };
        size("") + size("-wal")
    }

    /// Lets it end.
    pub fn stop(&self) -> Result<()> {
        self.server.stop(END).context("end the gateway")
    }
}

/// The text of a page.
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

fn lanes(engines: &[Engine]) -> String {
    let mut text = String::new();
    for engine in engines {
        let character = engine.character;
        // A string takes everything.
        let _ = write!(
            text,
            "\n[gateway.lanes.{}]\nurl = \"{}\"\nmodel = \"sim\"\ndialect = \"{}\"\nloser = \"{}\"\n\
             price = {{ input = {INPUT_PRICE}, output = {OUTPUT_PRICE} }}\nforward_headers = [\"x-tokrate-fault\"]\n",
            character.name, engine.url, character.dialect, character.loser
        );
    }
    text
}

/// The settings of a time: what changes is how much may be hedged, how many calls a lane may have, and a name that comes and
/// goes.
fn settings_of(lanes: &str, number: usize) -> String {
    let mut text = format!(
        "[gateway]\nlisten = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nlog = \"log.db\"\ndrain = \"25s\"\n\n\
         [gateway.limits]\nconnect = \"2s\"\nbody = \"2s\"\nfirst_token = \"3s\"\ngap = \"2s\"\ntotal = \"{}s\"\n\
         request_bytes = {REQUEST_BYTES_MOST}\ncalls = 2000\n{lanes}",
        TOTAL.as_secs()
    );
    for alias in Alias::ALL {
        // A string takes everything.
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
