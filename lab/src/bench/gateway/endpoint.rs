//! The endpoints that are compared: the upstream itself, a relay, tokrate, and each peer that can be installed.
//!
//! Invariant: every gateway is configured for speed (its own logging and accounting off where it can be), except
//! tokrate, whose throughput log is on.

use super::process::{GuardedProcess, Usage};
use super::relay::RELAY;
use super::script::ScriptName;
use super::streams::one_call;
use super::upstream::Upstream;
use crate::bench::clock::now;
use crate::bench::stream::{Stream, Tls, connect};
use anyhow::{Context, Result, bail};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use xtask::tools;

/// The tools under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tool {
    /// No gateway: the floor.
    Direct,
    /// A relay that copies bytes: the lower bound for any gateway.
    Relay,
    Tokrate,
    Busbar,
    TensorZero,
    LiteLlm,
}

impl Tool {
    pub const ALL: [Tool; 6] =
        [Tool::Direct, Tool::Relay, Tool::Tokrate, Tool::Busbar, Tool::TensorZero, Tool::LiteLlm];
    /// Published gateways.
    pub const PEERS: [Tool; 3] = [Tool::Busbar, Tool::TensorZero, Tool::LiteLlm];

    pub fn name(self) -> &'static str {
        match self {
            Tool::Direct => "direct",
            Tool::Relay => "relay",
            Tool::Tokrate => "tokrate",
            Tool::Busbar => "busbar",
            Tool::TensorZero => "tensorzero",
            Tool::LiteLlm => "litellm",
        }
    }

    /// Its column of the table.
    pub fn column(self) -> &'static str {
        if self == Tool::Direct { "direct (floor)" } else { self.name() }
    }

    /// Whether it forwards answers unchanged, so that every byte can be compared with what was sent.
    pub fn passes_bytes_on(self) -> bool {
        matches!(self, Tool::Direct | Tool::Relay | Tool::Tokrate)
    }

    /// Whether it can be put between two sides that speak TLS with the run's certificates.
    pub fn speaks_tls(self) -> bool {
        !matches!(self, Tool::TensorZero | Tool::LiteLlm)
    }

    /// How long its start may take; litellm's workers take by far the longest.
    fn start_timeout(self) -> Duration {
        Duration::from_secs(if self == Tool::LiteLlm { 150 } else { 20 })
    }
}

/// Paths of the run.
pub struct Places {
    pub root: PathBuf,
    pub tokrate: PathBuf,
    /// A folder for configurations and logs.
    pub folder: PathBuf,
    /// The program of Busbar, if it is to be measured: it is built by hand.
    pub busbar: Option<PathBuf>,
    /// Certificates, if both sides speak TLS.
    pub tls: Option<Tls>,
}

impl Places {
    /// Scheme and address of the upstream.
    fn upstream_url(&self, upstream: &Upstream) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", upstream.address)
    }
}

/// A running endpoint.
pub struct Endpoint {
    pub tool: Tool,
    pub address: SocketAddr,
    tls: Option<Tls>,
    path: &'static str,
    model: &'static str,
    /// Where tokrate's metrics are.
    metrics: Option<SocketAddr>,
    /// The gateway's processes; the floor has none.
    process: Option<GuardedProcess>,
    /// From before the start of the process to the end of the first answer (ns).
    pub first_answer_ns: u64,
    /// Resident memory after the first answer (KiB).
    pub idle_kib: u64,
}

/// A call to an endpoint.
#[derive(Clone, Copy)]
pub struct Call {
    pub ask: ScriptName,
    pub id: u64,
    /// Whether tokrate is asked to race its two lanes.
    pub race: bool,
}

impl Endpoint {
    /// Starts an endpoint and waits for its first answer.
    pub fn open(tool: Tool, places: &Places, upstream: &Upstream) -> Result<Endpoint> {
        let mut endpoint = Endpoint {
            tool,
            address: upstream.address,
            tls: places.tls.clone(),
            path: "/v1/chat/completions",
            model: "bench",
            metrics: None,
            process: None,
            first_answer_ns: 0,
            idle_kib: 0,
        };
        match tool {
            Tool::Direct => {}
            Tool::Relay => endpoint.start_relay(places, upstream)?,
            Tool::Tokrate => endpoint.start_tokrate(places, upstream)?,
            Tool::Busbar => endpoint.start_busbar(places, upstream)?,
            Tool::TensorZero => endpoint.start_tensorzero(places, upstream)?,
            Tool::LiteLlm => endpoint.start_litellm(places, upstream)?,
        }
        let started_at = endpoint.process.as_ref().map_or_else(now, |process| process.started_at);
        endpoint.wait_for_answer(started_at).with_context(|| format!("start {}", tool.name()))?;
        endpoint.first_answer_ns = now() - started_at;
        // Background work of the start is done by then.
        std::thread::sleep(Duration::from_millis(300));
        endpoint.idle_kib = endpoint.usage().resident_kib;
        Ok(endpoint)
    }

    /// A connection to it, which still blocks.
    pub fn connect(&self) -> Result<Stream> {
        connect(self.address, self.tls.as_ref())
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

    /// The gateway's resource use now; zero for the floor.
    pub fn usage(&self) -> Usage {
        self.process.as_ref().map(GuardedProcess::usage).unwrap_or_default()
    }

    /// CPU time of the gateway so far (ns).
    pub fn cpu_ns(&self) -> u64 {
        self.process.as_ref().map_or(0, GuardedProcess::cpu_ns)
    }

    /// Whether it still runs.
    pub fn is_alive(&self) -> bool {
        self.process.as_ref().is_none_or(GuardedProcess::is_alive)
    }

    /// The end of the gateway's output.
    pub fn last_output(&self) -> String {
        self.process.as_ref().map(GuardedProcess::last_output).unwrap_or_default()
    }

    /// Rows that tokrate's log has lost; `None` for the others.
    pub fn lost_rows(&self) -> Result<Option<u64>> {
        let Some(address) = self.metrics else { return Ok(None) };
        let mut stream = TcpStream::connect(address).context("connect to the metrics")?;
        write!(stream, "GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")
            .context("ask for the metrics")?;
        let mut text = String::new();
        stream.read_to_string(&mut text).context("read the metrics")?;
        let lost = text.lines().find_map(|line| line.strip_prefix("tokrate_log_rows_lost_total{} "));
        let lost = lost.and_then(|lost| lost.trim().parse::<f64>().ok()).context("find the rows lost")?;
        Ok(Some(lost as u64))
    }

    fn wait_for_answer(&self, started_at: u64) -> Result<()> {
        let call = self.request(Call { ask: ScriptName::Instant, id: 0, race: false });
        let timeout = self.tool.start_timeout().as_nanos() as u64;
        let pause = if self.tool == Tool::LiteLlm { 20_000 } else { 200 };
        loop {
            // A gateway may listen before it can answer.
            match self.connect().and_then(|mut stream| one_call(&mut stream, &call)) {
                Ok(200) => return Ok(()),
                result if now() - started_at > timeout => match result {
                    Ok(status) => bail!("get an answer: status {status}: {}", self.last_output()),
                    Err(error) => bail!("get an answer: {error:#}: {}", self.last_output()),
                },
                _ if !self.is_alive() => bail!("get an answer: it has ended: {}", self.last_output()),
                _ => std::thread::sleep(Duration::from_micros(pause)),
            }
        }
    }

    fn start_relay(&mut self, places: &Places, upstream: &Upstream) -> Result<()> {
        let own = places.folder.join("relay");
        std::fs::create_dir_all(&own).with_context(|| format!("make {}", own.display()))?;
        self.address = free_port()?;
        let myself = std::env::current_exe().context("find this program")?;
        let mut arguments = vec![RELAY.to_owned(), self.address.port().to_string(), upstream.address.to_string()];
        // The certificates lie in the folder of the run.
        arguments.extend(places.tls.iter().map(|_| places.folder.display().to_string()));
        self.process = Some(GuardedProcess::start(&myself, &arguments, &[], own.join("output"))?);
        Ok(())
    }

    fn start_tokrate(&mut self, places: &Places, upstream: &Upstream) -> Result<()> {
        // Each start has a folder and a log of its own, so that none finds the rows of another.
        let own = places.folder.join(format!("tokrate-{}", now()));
        std::fs::create_dir_all(&own).with_context(|| format!("make {}", own.display()))?;
        self.address = free_port()?;
        let (listen, admin, url) = (self.address, free_port()?, places.upstream_url(upstream));
        self.metrics = Some(admin);
        let tls = places.tls.as_ref().map_or_else(String::new, |tls| {
            let Tls { authority, certificate, key, .. } = tls;
            format!("ca_file = {authority:?}\n\n[gateway.tls]\ncertificate = {certificate:?}\nkey = {key:?}\n")
        });
        let settings = format!(
            "[gateway]\nlisten = \"{listen}\"\nadmin = \"{admin}\"\nlog = \"log.db\"\n{tls}\n\
             [gateway.lanes.up]\nurl = \"{url}/v1\"\nmodel = \"bench-model\"\n\n\
             [gateway.lanes.up2]\nurl = \"{url}/v1\"\nmodel = \"bench-model\"\n\n\
             [gateway.aliases.bench]\nlanes = [\"up\"]\nmode = \"off\"\n\n\
             [gateway.aliases.bench-race]\nlanes = [\"up\", \"up2\"]\nmode = \"off\"\nextra_share = 10.0\n"
        );
        write(&own.join("tokrate.toml"), &settings)?;
        let arguments = ["gateway", "--config", "tokrate.toml"].map(str::to_owned);
        self.process = Some(GuardedProcess::start(&places.tokrate, &arguments, &[], own.join("output"))?);
        Ok(())
    }

    fn start_busbar(&mut self, places: &Places, upstream: &Upstream) -> Result<()> {
        let program =
            places.busbar.as_ref().context("find it: build it by hand and name it with --peer busbar=BINARY")?;
        let own = places.folder.join("busbar");
        std::fs::create_dir_all(&own).with_context(|| format!("make {}", own.display()))?;
        self.address = free_port()?;
        let (listen, admin, url) = (self.address, free_port()?, places.upstream_url(upstream));
        let tls = places.tls.as_ref().map_or_else(String::new, |tls| {
            let Tls { certificate, key, .. } = tls;
            format!("tls:\n  cert: {{ file: {certificate:?} }}\n  key: {{ file: {key:?} }}\n")
        });
        let settings = format!(
            "listen: \"{listen}\"\nadmin_listen: \"{admin}\"\n{tls}auth:\n  chain: []\n\
             providers:\n  up:\n    api_key: {{ env: BENCH_KEY }}\n\
             models:\n  bench:\n    provider: up\n    max_concurrent: 8192\n    max_requests: -1\n"
        );
        write(&own.join("config.yaml"), &settings)?;
        write(&own.join("providers.yaml"), &format!("up:\n  protocol: openai\n  base_url: {url}\n"))?;
        let mut variables = [
            ("BENCH_KEY", "sk-none"),
            ("RUST_LOG", "error"),
            ("BUSBAR_CONFIG", "config.yaml"),
            ("BUSBAR_PROVIDERS", "providers.yaml"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
        // It trusts the authorities of the system, which this names.
        variables
            .extend(places.tls.iter().map(|tls| ("SSL_CERT_FILE".to_owned(), tls.authority.display().to_string())));
        let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (&**name, &**value)).collect();
        self.process = Some(GuardedProcess::start(program, &[], &variables, own.join("output"))?);
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
        let process = GuardedProcess::start(&python, &arguments, &variables, own.join("output"))?;
        // It chooses its port itself and prints it.
        let printed_address = |text: String| -> Option<SocketAddr> {
            let base = text.lines().find_map(|line| line.strip_prefix("bench: http://"))?;
            base.split('/').next()?.parse().ok()
        };
        while now() - process.started_at < self.tool.start_timeout().as_nanos() as u64 && process.is_alive() {
            if let Some(address) = printed_address(std::fs::read_to_string(&process.log).unwrap_or_default()) {
                self.address = address;
                self.path = "/openai/v1/chat/completions";
                self.model = "tensorzero::model_name::bench";
                self.process = Some(process);
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        bail!("start tensorzero: it did not print its address: {}", process.last_output())
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
        self.process = Some(GuardedProcess::start(&program, &arguments, &variables, own.join("output"))?);
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
