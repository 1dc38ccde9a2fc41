//! The doors through which the upstream is reached: directly, through tokrate, and through each peer that can be had.
//!
//! Invariant: every gateway is configured for speed (its own logging and accounting off where it can be), except
//! tokrate, whose throughput log is on.

use super::guard::{Guarded, Usage};
use super::play::Ask;
use super::relay::RELAY;
use super::upstream::Upstream;
use super::watch::{one_call, reach};
use crate::bench::clock::now;
use anyhow::{Context, Result, bail};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;
use xtask::tools;

/// Which door.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tool {
    /// No gateway: the floor.
    Direct,
    /// A relay that copies bytes: the least that a gateway can be.
    Relay,
    Tokrate,
    TensorZero,
    LiteLlm,
}

impl Tool {
    pub const ALL: [Tool; 5] = [Tool::Direct, Tool::Relay, Tool::Tokrate, Tool::TensorZero, Tool::LiteLlm];

    pub fn name(self) -> &'static str {
        match self {
            Tool::Direct => "direct",
            Tool::Relay => "relay",
            Tool::Tokrate => "tokrate",
            Tool::TensorZero => "tensorzero",
            Tool::LiteLlm => "litellm",
        }
    }

    /// Whether it passes an answer on as it is, so that every byte can be held against what was sent.
    pub fn passes_bytes_on(self) -> bool {
        matches!(self, Tool::Direct | Tool::Relay | Tool::Tokrate)
    }

    /// How long its start may take.
    fn patience(self) -> Duration {
        Duration::from_secs(if self == Tool::LiteLlm { 150 } else { 20 })
    }
}

/// Where things are.
pub struct Places {
    pub root: PathBuf,
    pub tokrate: PathBuf,
    /// A folder for configurations and logs.
    pub folder: PathBuf,
}

/// An open door.
pub struct Door {
    pub tool: Tool,
    pub address: SocketAddr,
    path: &'static str,
    model: &'static str,
    /// The gateway's processes; the floor has none.
    process: Option<Guarded>,
    /// From before the start of the process to the end of the first answer (ns).
    pub first_answer_ns: u64,
    /// Resident memory right behind the first answer (KiB).
    pub idle_kib: u64,
}

/// What is sent through a door.
#[derive(Clone, Copy)]
pub struct Call {
    pub ask: Ask,
    pub id: u64,
    /// Whether tokrate is asked to race its two lanes.
    pub race: bool,
}

impl Door {
    /// Opens a door and waits for the first answer through it.
    pub fn open(tool: Tool, places: &Places, upstream: &Upstream) -> Result<Door> {
        let mut door = Door {
            tool,
            address: upstream.address,
            path: "/v1/chat/completions",
            model: "bench",
            process: None,
            first_answer_ns: 0,
            idle_kib: 0,
        };
        match tool {
            Tool::Direct => {}
            Tool::Relay => door.start_relay(places, upstream)?,
            Tool::Tokrate => door.start_tokrate(places, upstream)?,
            Tool::TensorZero => door.start_tensorzero(places, upstream)?,
            Tool::LiteLlm => door.start_litellm(places, upstream)?,
        }
        let started_at = door.process.as_ref().map_or_else(now, |process| process.started_at);
        door.wait_for_answer(started_at).with_context(|| format!("start {}", tool.name()))?;
        door.first_answer_ns = now() - started_at;
        // What the start left behind in other threads is done by then.
        std::thread::sleep(Duration::from_millis(300));
        door.idle_kib = door.usage().resident_kib;
        Ok(door)
    }

    /// The bytes of a call.
    pub fn request(&self, call: Call) -> Vec<u8> {
        let model = if call.race { "bench-race" } else { self.model };
        let mode = if call.race { "x-tokrate-mode: race\r\n" } else { "" };
        let body = call.ask.body(call.id, model);
        format!(
            "POST {} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\naccept: */*\r\n{mode}content-length: {}\r\n\r\n{body}",
            self.path,
            self.address,
            body.len()
        )
        .into_bytes()
    }

    /// What the gateway uses now; nothing for the floor.
    pub fn usage(&self) -> Usage {
        self.process.as_ref().map(Guarded::usage).unwrap_or_default()
    }

    /// CPU time of the gateway so far (ns).
    pub fn cpu_ns(&self) -> u64 {
        self.process.as_ref().map_or(0, Guarded::cpu_ns)
    }

    /// Whether it can still be gone through.
    pub fn is_alive(&self) -> bool {
        self.process.as_ref().is_none_or(Guarded::is_alive)
    }

    /// The end of what the gateway wrote.
    pub fn last_words(&self) -> String {
        self.process.as_ref().map(Guarded::last_words).unwrap_or_default()
    }

    fn wait_for_answer(&self, started_at: u64) -> Result<()> {
        let call = self.request(Call { ask: Ask::Instant, id: 0, race: false });
        let patience = self.tool.patience().as_nanos() as u64;
        let pause = if self.tool == Tool::LiteLlm { 20_000 } else { 200 };
        loop {
            // A gateway may listen before it can answer.
            match reach(self.address).and_then(|mut stream| one_call(&mut stream, &call)) {
                Ok(200) => return Ok(()),
                result if now() - started_at > patience => match result {
                    Ok(status) => bail!("hear an answer: status {status}: {}", self.last_words()),
                    Err(error) => bail!("hear an answer: {error:#}: {}", self.last_words()),
                },
                _ if !self.is_alive() => bail!("hear an answer: it has ended: {}", self.last_words()),
                _ => std::thread::sleep(Duration::from_micros(pause)),
            }
        }
    }

    fn start_relay(&mut self, places: &Places, upstream: &Upstream) -> Result<()> {
        let own = places.folder.join("relay");
        std::fs::create_dir_all(&own).with_context(|| format!("make {}", own.display()))?;
        self.address = free_port()?;
        let myself = std::env::current_exe().context("find this program")?;
        let arguments = [RELAY.to_owned(), self.address.port().to_string(), upstream.address.to_string()];
        self.process = Some(Guarded::start(&myself, &arguments, &[], own.join("output"))?);
        Ok(())
    }

    fn start_tokrate(&mut self, places: &Places, upstream: &Upstream) -> Result<()> {
        // Each start has a folder and a log of its own, so that none finds the rows of another.
        let own = places.folder.join(format!("tokrate-{}", now()));
        std::fs::create_dir_all(&own).with_context(|| format!("make {}", own.display()))?;
        self.address = free_port()?;
        let (listen, admin, url) = (self.address, free_port()?, upstream.address);
        let settings = format!(
            "[gateway]\nlisten = \"{listen}\"\nadmin = \"{admin}\"\nlog = \"log.db\"\n\n\
             [gateway.lanes.up]\nurl = \"http://{url}/v1\"\nmodel = \"bench-model\"\n\n\
             [gateway.lanes.up2]\nurl = \"http://{url}/v1\"\nmodel = \"bench-model\"\n\n\
             [gateway.aliases.bench]\nlanes = [\"up\"]\nmode = \"off\"\n\n\
             [gateway.aliases.bench-race]\nlanes = [\"up\", \"up2\"]\nmode = \"off\"\nextra_share = 10.0\n"
        );
        write(&own.join("tokrate.toml"), &settings)?;
        let arguments = ["gateway", "--config", "tokrate.toml"].map(str::to_owned);
        self.process = Some(Guarded::start(&places.tokrate, &arguments, &[], own.join("output"))?);
        Ok(())
    }

    fn start_tensorzero(&mut self, places: &Places, upstream: &Upstream) -> Result<()> {
        let python = tools::gateway_peer("tensorzero", &["tensorzero==2026.6.0"])?;
        let own = places.folder.join("tensorzero");
        std::fs::create_dir_all(&own).with_context(|| format!("make {}", own.display()))?;
        let settings = format!(
            "[gateway]\nobservability.enabled = false\ndisable_pseudonymous_usage_analytics = true\n\n\
             [models.bench]\nrouting = [\"up\"]\n\n\
             [models.bench.providers.up]\ntype = \"openai\"\nmodel_name = \"bench-model\"\n\
             api_base = \"http://{}/v1/\"\napi_key_location = \"none\"\n",
            upstream.address
        );
        write(&own.join("tensorzero.toml"), &settings)?;
        let start = "import signal, tensorzero\n\
             gateway = tensorzero.tensorzero._start_http_gateway(config_file='tensorzero.toml', clickhouse_url=None, \
             postgres_url=None, valkey_url=None, async_setup=False)\n\
             print('bench:', gateway.base_url, flush=True)\n\
             signal.pause()\n";
        let variables = [("RUST_LOG", "warn"), ("PYTHONDONTWRITEBYTECODE", "")];
        let arguments = ["-c".to_owned(), start.to_owned()];
        let process = Guarded::start(&python, &arguments, &variables, own.join("output"))?;
        // It chooses its port itself and says which.
        let said = |text: String| -> Option<SocketAddr> {
            let base = text.lines().find_map(|line| line.strip_prefix("bench: http://"))?;
            base.split('/').next()?.parse().ok()
        };
        while now() - process.started_at < self.tool.patience().as_nanos() as u64 && process.is_alive() {
            if let Some(address) = said(std::fs::read_to_string(&process.log).unwrap_or_default()) {
                self.address = address;
                self.path = "/openai/v1/chat/completions";
                self.model = "tensorzero::model_name::bench";
                self.process = Some(process);
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        bail!("start tensorzero: it does not say where it listens: {}", process.last_words())
    }

    fn start_litellm(&mut self, places: &Places, upstream: &Upstream) -> Result<()> {
        let python = tools::gateway_peer("litellm", &["litellm[proxy]==1.106.2"])?;
        let own = places.folder.join("litellm");
        std::fs::create_dir_all(&own).with_context(|| format!("make {}", own.display()))?;
        self.address = free_port()?;
        let settings = format!(
            "model_list:\n  - model_name: bench\n    litellm_params:\n      model: openai/bench-model\n      \
             api_base: http://{}/v1\n      api_key: sk-none\n\
             litellm_settings:\n  num_retries: 0\n  telemetry: false\n  turn_off_message_logging: true\n\
             general_settings:\n  disable_spend_logs: true\n",
            upstream.address
        );
        write(&own.join("config.yaml"), &settings)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let program = python.with_file_name("litellm");
        let port = self.address.port();
        // Its workers take long to start, and are ended when they do not answer within 5 s, unless more is allowed.
        let arguments = format!(
            "--config config.yaml --host 127.0.0.1 --port {port} --num_workers {cores} \
             --timeout_worker_healthcheck 120"
        );
        let arguments: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
        let variables = [
            ("LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY", "true"),
            ("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
            ("LITELLM_LOG", "ERROR"),
            ("PYTHONDONTWRITEBYTECODE", ""),
        ];
        self.process = Some(Guarded::start(&program, &arguments, &variables, own.join("output"))?);
        Ok(())
    }
}

/// A port of the loopback interface that nobody listens on.
fn free_port() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("find a free port")?;
    listener.local_addr().context("find a free port")
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
}
