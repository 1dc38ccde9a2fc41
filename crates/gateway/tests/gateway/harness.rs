//! Gateways for tests, and the rows of their logs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use tokrate_admin::Admin;
use tokrate_core::{Price, Span};
use tokrate_gateway::{
    AliasConfig, BudgetConfig, Config, EndpointConfig, Gateway, LaneConfig, LogSettings, LoserPolicy, Mode, Policy,
    RunningGateway, ServicesConfig, TokenLimits, WinRule,
};
use tokrate_net::Target;
use tokrate_record::Attempt;
use tokrate_store::{Query, Sqlite, Store};
use tokrate_wire::Dialect;

/// A gateway and the file of its log, which is removed with it.
pub struct TestGateway {
    pub running: Option<RunningGateway>,
    pub address: SocketAddr,
    log: PathBuf,
}

/// A lane at that address that speaks these dialects.
pub fn lane(name: &str, address: SocketAddr, dialects: &[Dialect]) -> LaneConfig {
    let endpoint = |dialect: &Dialect| EndpointConfig {
        dialect: *dialect,
        base: Target::parse(&format!("http://{address}/v1")).expect("a URL"),
        headers: http::HeaderMap::new(),
        authorizer: None,
        no_stream_options: false,
        max_tokens_field: false,
    };
    LaneConfig {
        name: name.to_owned(),
        provider: format!("provider-{name}"),
        model: format!("model-{name}"),
        endpoints: dialects.iter().map(endpoint).collect(),
        price: Price::from_usd_per_million(1.0, 2.0),
        token_limits: TokenLimits::default(),
        max_in_flight: None,
        loser: LoserPolicy::CancelEstimate,
        curve: Vec::new(),
        forward_headers: vec!["x-tokrate-fault".to_owned()],
        services: ServicesConfig::default(),
        stream_whole: true,
    }
}

/// An alias `all` over the lanes in order, and the gateway in front of them.
pub fn configured(lanes: Vec<LaneConfig>, mode: Mode) -> Config {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let log = std::env::temp_dir().join(format!("tokrate-gateway-{}-{number}.db", std::process::id()));
    let all = AliasConfig {
        name: "all".to_owned(),
        lanes: (0..lanes.len()).collect(),
        policy: Policy::Fixed,
        mode,
        max_attempts: 3,
        budget: BudgetConfig { extra_share: 2.0, burst: 100.0, ..BudgetConfig::default() },
        // What is tested is not how long a first token may be held, unless a test is about that.
        win: WinRule::FirstToken,
    };
    Config {
        lanes,
        aliases: vec![all],
        log: Some(LogSettings { path: log, retention: None, shipping: None }),
        drain: Span::from_secs(5),
        // What lanes get is what clients ask for, unless a test is about that.
        probes: false,
        ..Config::default()
    }
}

impl TestGateway {
    pub fn start(config: Config) -> TestGateway {
        let log = config.log.as_ref().map(|log| log.path.clone()).unwrap_or_default();
        let gateway = Gateway::start(config, Admin::new).expect("a gateway");
        TestGateway { address: gateway.address(), running: Some(gateway), log }
    }

    /// Stops it and starts it again with the same log.
    pub fn restart(&mut self, config: Config) {
        self.running = None;
        let gateway = Gateway::start(config, Admin::new).expect("a gateway");
        self.address = gateway.address();
        self.running = Some(gateway);
    }

    /// Stops the gateway and returns the refused requests of its log by key, alias and reason.
    pub fn refusals(&mut self) -> BTreeMap<(Option<String>, Option<String>, &'static str), u64> {
        self.running = None;
        let store = Sqlite::open_reader(&self.log).expect("the log's file");
        let mut counts = BTreeMap::new();
        for row in store.refusals(&Query::default()).expect("readable") {
            *counts.entry((row.key, row.alias, row.reason.name())).or_default() += row.count;
        }
        counts
    }

    /// Stops the gateway and returns the rows of its log, sorted by call and attempt.
    pub fn rows(&mut self) -> Vec<Attempt> {
        if let Some(gateway) = self.running.take() {
            gateway.stop();
        }
        let store = Sqlite::open_reader(&self.log).expect("the log's file");
        let mut rows = store.attempts(&Query::default()).expect("rows");
        rows.sort_by(|one, other| (&one.call, one.attempt).cmp(&(&other.call, other.attempt)));
        rows
    }
}

impl Drop for TestGateway {
    fn drop(&mut self) {
        self.running = None;
        for end in ["", "-wal", "-shm"] {
            let mut path = self.log.clone().into_os_string();
            path.push(end);
            drop(std::fs::remove_file(path));
        }
    }
}
