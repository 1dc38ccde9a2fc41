//! The configuration as calls use it: lanes, aliases and keys, indexed by what clients send.
//!
//! Invariant: a plan never changes; a new configuration is a new plan, and open calls keep theirs.

use crate::admission::budgets::check_budgets;
use crate::admission::calendar::{DAY_SECONDS, month_of, month_start};
use crate::api::Api;
use crate::config::curve::curve_from_log;
use crate::config::{AliasConfig, AnswerCheck, Config, EndpointConfig, KeyConfig, LaneConfig, LimitsConfig};
use crate::error::GatewayError;
use crate::state::lane_health::{LaneHealth, NoticeTimer};
use crate::state::lock::locked;
use crate::state::look_ups::side_by_side;
use http::HeaderValue;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use tokrate_core::{Money, Span, Tick, is_one_line, one_line};
use tokrate_meter::{LiveMeter, MAX_TEXT_BYTES};
use tokrate_net::{ClientConfig, Clock, Route, Secrets, SharedTls};
use tokrate_record::{SampleConditions, SharedConditions};
use tokrate_route::BudgetConfig;
use tokrate_route::{Budget, KeyMeter, LaneId, Mode, Month, OutputLength, Policy, Router, RouterConfig, WinRule};
use tokrate_store::{Log, Order, Query, Store, StoreError};
use tokrate_wire::Dialect;

/// A lane's rows of this time are learned from at the start: the same hour of yesterday is among them.
const LEARNED_SECONDS: u64 = 86_400;
/// At most so many of a lane, the newest: a point of its curve counts as at most 20.
const LEARNED_ROWS: u64 = 300;

/// The configuration in force.
pub(crate) struct Plan {
    pub lanes: Vec<Arc<Lane>>,
    pub aliases: BTreeMap<String, Arc<Alias>>,
    pub keys: BTreeMap<[u8; 32], Arc<Key>>,
    pub limits: LimitsConfig,
    /// SHA-256 of the admin key.
    pub admin_key: Option<[u8; 32]>,
    /// Under which all rows are measured.
    pub conditions: SharedConditions,
    pub router: Mutex<Router>,
    /// Whether lanes that failed are probed.
    pub probes: bool,
    /// For how long after its last call a lane keeps an idle connection.
    pub keep_warm: Span,
    /// Whether a model that is unknown here is one of the roles, by its instructions.
    pub role_by_system_prompt: bool,
    /// What answers of some aliases are held against.
    pub answer_check: Option<AnswerCheck>,
}

/// A lane with its connection routes.
pub(crate) struct Lane {
    pub id: LaneId,
    pub config: LaneConfig,
    pub endpoints: Vec<Endpoint>,
    /// Provider and lane as values of response headers, if they can be.
    pub name_headers: [Option<HeaderValue>; 2],
    pub health: LaneHealth,
}

/// One dialect of a lane.
pub(crate) struct Endpoint {
    pub config: EndpointConfig,
    pub route: Route,
    /// The resolver's message, if a name had no address when the plan was made.
    unresolved: Option<String>,
    /// What must be removed from everything that comes from it.
    pub secrets: Secrets,
}

/// A name that clients ask for.
#[derive(Clone)]
pub(crate) struct Alias {
    pub name: String,
    pub lanes: Vec<LaneId>,
    pub policy: Policy,
    pub mode: Mode,
    pub max_attempts: usize,
    pub win: WinRule,
    pub budget: Arc<Mutex<Budget>>,
    pub output_length: Arc<Mutex<OutputLength>>,
    pub budget_config: BudgetConfig,
    /// When the log last said that a race had fewer lanes than it was to have.
    pub race_notice: Arc<NoticeTimer>,
    /// Whether it is configured, rather than implied by a lane's name.
    pub is_configured: bool,
}

/// A key and its usage.
pub(crate) struct Key {
    pub config: KeyConfig,
    pub meter: Arc<Mutex<KeyMeter>>,
}

/// What keys have spent in a month, by their hash.
pub(crate) struct MonthSpending {
    month: Month,
    by_key: Vec<([u8; 32], Money)>,
}

impl Plan {
    /// Validates a configuration and resolves its host names. Blocks; not to be called within a runtime.
    pub fn resolve_blocking(config: &Config, clock: Clock) -> Result<Plan, GatewayError> {
        validate(config)?;
        let lanes: Vec<Arc<Lane>> =
            Lane::resolve_all(&config.lanes, &config.client, clock)?.into_iter().map(Arc::new).collect();
        let mut aliases = BTreeMap::new();
        // The name of a lane, and `provider/model`, are aliases of that lane, unless one is configured under that name.
        for lane in &lanes {
            let own = [lane.config.name.clone(), format!("{}/{}", lane.config.provider, lane.config.model)];
            for name in own {
                aliases.entry(name.clone()).or_insert_with(|| Arc::new(Alias::of_lane(lane, name)));
            }
        }
        for alias in &config.aliases {
            aliases.insert(alias.name.clone(), Arc::new(Alias::new(alias, true)));
        }
        let key = |key: &KeyConfig| {
            let meter = Arc::new(Mutex::new(KeyMeter::new(key.limits, clock.now())));
            (key.sha256, Arc::new(Key { config: key.clone(), meter }))
        };
        let keys = config.keys.iter().map(key).collect();
        let router_config =
            RouterConfig { breaker: config.breaker, active_probes: config.probes, ..RouterConfig::default() };
        let lanes_of_router = config.lanes.iter().map(LaneConfig::for_router).collect();
        let mut router = Router::with_config(router_config, lanes_of_router, config.seed);
        for lane in &lanes {
            router.learn(lane.id, clock.now(), &lane.config.curve);
        }
        let Config { limits, admin_key, probes, keep_warm, role_by_system_prompt, .. } = *config;
        let conditions = SampleConditions {
            region: config.region.clone(),
            host: config.host.clone(),
            tokenizer: Some(LiveMeter::ENCODING.name().to_owned()),
            // Requests are the clients': no two need be alike.
            fingerprint: None,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let (conditions, router) = (conditions.into(), Mutex::new(router));
        let answer_check = config.answer_check.clone();
        Ok(Plan {
            lanes,
            aliases,
            keys,
            limits,
            admin_key,
            conditions,
            router,
            probes,
            keep_warm,
            role_by_system_prompt,
            answer_check,
        })
    }

    /// Takes over what an earlier plan has learned: usage of keys, budgets of aliases, lengths of answers, speed and
    /// health of lanes.
    pub fn inherit(&mut self, previous: &Plan, now: Tick) {
        let mut router = locked(&self.router);
        for lane in &self.lanes {
            // A lane is the same if it leads to the same model at the same addresses.
            let same = |other: &&Arc<Lane>| other.is_same(lane);
            if let Some(known) = previous.lanes.iter().find(same) {
                router.inherit(lane.id, &locked(&previous.router), known.id);
                lane.health.inherit(&known.health);
                if !known.has_same_headers(lane) {
                    // With another key the lane may accept calls again.
                    router.reset_breaker(lane.id);
                }
            }
        }
        drop(router);
        let names: BTreeSet<String> = self.keys.values().map(|key| key.config.name.clone()).collect();
        for (hash, key) in &mut self.keys {
            // The log knows a key by its name, so a key whose secret was changed keeps its spending.
            let renamed = || previous.keys.get(hash).filter(|known| !names.contains(&known.config.name));
            let Some(known) = previous.key(&key.config.name).or_else(renamed) else { continue };
            locked(&known.meter).set_limits(now, key.config.limits);
            *key = Arc::new(Key { config: key.config.clone(), meter: Arc::clone(&known.meter) });
        }
        for (name, alias) in &mut self.aliases {
            let Some(known) = previous.aliases.get(name) else { continue };
            let mut merged = Alias::clone(alias);
            merged.output_length = Arc::clone(&known.output_length);
            if merged.budget_config == known.budget_config {
                merged.budget = Arc::clone(&known.budget);
            }
            *alias = Arc::new(merged);
        }
    }

    fn key(&self, name: &str) -> Option<&Arc<Key>> {
        self.keys.values().find(|key| key.config.name == name)
    }

    /// What keys with a budget have spent this month according to the log, unless an earlier plan knows it.
    pub fn spent(&self, log: &Log, wall_seconds: u64, previous: Option<&Plan>) -> Result<MonthSpending, StoreError> {
        let has_budget = |key: &Key| key.config.limits.usd_per_month.is_some();
        let is_known = |key: &Key| {
            let known = previous.and_then(|previous| previous.key(&key.config.name));
            known.is_some_and(|known| has_budget(known))
        };
        let unknown: Vec<_> = self.keys.iter().filter(|(_, key)| has_budget(key) && !is_known(key)).collect();
        let month = month_of(wall_seconds);
        if unknown.is_empty() {
            return Ok(MonthSpending { month, by_key: Vec::new() });
        }
        let usd = log.reader()?.spent_since(month_start(wall_seconds) / DAY_SECONDS)?;
        // An amount that is no valid sum of money exhausts every budget.
        let spent = |name: &str| usd.get(name).map_or(Money::ZERO, |usd| Money::from_usd(*usd).unwrap_or(Money::MAX));
        let by_key = unknown.into_iter().map(|(hash, key)| (*hash, spent(&key.config.name))).collect();
        Ok(MonthSpending { month, by_key })
    }

    /// Lets the router know what the log has measured of late with each lane's model, so that it need not begin anew.
    pub fn learn_from_log(&self, log: &Log, clock: Clock) -> Result<(), StoreError> {
        let reader = log.reader()?;
        for lane in &self.lanes {
            let query = Query {
                lane: Some(lane.config.name.clone()),
                from_unix_ms: Some(clock.wall_seconds().saturating_sub(LEARNED_SECONDS) * 1_000),
                order: Order::Newest,
                limit: Some(LEARNED_ROWS),
                ..Query::default()
            };
            let rows = reader.attempts(&query)?;
            let LaneConfig { provider, model, .. } = &lane.config;
            let same = rows.iter().filter(|row| row.sample.provider == *provider && row.sample.model == *model);
            let curve = curve_from_log(same);
            locked(&self.router).learn(lane.id, clock.now(), &curve);
        }
        Ok(())
    }

    /// Charges each key's budget with what it has spent.
    pub fn restore(&self, spent: &MonthSpending) {
        for (hash, money) in &spent.by_key {
            if let Some(key) = self.keys.get(hash) {
                locked(&key.meter).restore(spent.month, *money);
            }
        }
    }

    /// The lane of an id of this plan.
    pub fn lane(&self, id: LaneId) -> &Arc<Lane> {
        &self.lanes[id.0 as usize]
    }
}

impl Lane {
    /// Lanes with their host names resolved. Blocks for as long as the slowest look-ups take, however many lanes there are.
    ///
    /// # Errors
    ///
    /// If a lane can never be connected to.
    pub fn resolve_all(lanes: &[LaneConfig], client: &ClientConfig, clock: Clock) -> Result<Vec<Lane>, GatewayError> {
        let tls = SharedTls::default();
        let resolve = |index, lane: &LaneConfig| Lane::resolve(index, lane, client, &tls, clock);
        side_by_side(lanes, resolve).into_iter().collect()
    }

    /// Resolves the host names of a lane; those without an address are retried later. Blocks.
    pub fn resolve(
        index: usize,
        config: &LaneConfig,
        client: &ClientConfig,
        tls: &SharedTls,
        clock: Clock,
    ) -> Result<Lane, GatewayError> {
        let mut endpoints = Vec::new();
        for endpoint in &config.endpoints {
            let (route, unresolved) = Route::resolve_or_wait_blocking(&endpoint.base, client, tls, clock)?;
            let secrets = Secrets::of(&endpoint.headers);
            let unresolved = unresolved.map(|error| error.to_string());
            endpoints.push(Endpoint { config: endpoint.clone(), route, unresolved, secrets });
        }
        let index = u32::try_from(index).expect("a configuration has fewer than 2^32 lanes");
        let name_headers = [&config.provider, &config.name].map(|name| HeaderValue::from_str(name).ok());
        let health = LaneHealth::default();
        Ok(Lane { id: LaneId(index), config: config.clone(), endpoints, name_headers, health })
    }

    /// From now on answers in one piece are asked for in one piece, for this reason.
    pub fn remember_unfit_streams(&self, now: Tick, reason: &str) {
        if self.health.record_unfit_streams(now) {
            let name = &self.config.name;
            tracing::info!(lane = %name, "answers in one piece are asked for in one piece for an hour: {reason}");
        }
    }

    /// The resolver's message, if a host name has no address yet.
    pub fn unresolved(&self) -> Option<&str> {
        self.endpoints.iter().find_map(Endpoint::unresolved)
    }

    /// Whether it is that lane of an earlier plan.
    pub fn is_same(&self, other: &Lane) -> bool {
        self.config.name == other.config.name && self.target() == other.target()
    }

    /// Where it leads: its model and addresses, as the log's file has it.
    pub fn target(&self) -> String {
        let bases: Vec<String> = self.endpoints.iter().map(|endpoint| endpoint.config.base.to_string()).collect();
        format!("{} at {}", self.config.model, bases.join(", "))
    }

    /// Whether two lanes send the same headers, keys among them.
    fn has_same_headers(&self, other: &Lane) -> bool {
        let headers = self.endpoints.iter().zip(&other.endpoints);
        headers.into_iter().all(|(one, other)| one.config.headers == other.config.headers)
    }

    /// The endpoint for a dialect: one that speaks it, else the first.
    pub fn endpoint(&self, dialect: Option<Dialect>) -> usize {
        self.endpoints.iter().position(|endpoint| Some(endpoint.config.dialect) == dialect).unwrap_or(0)
    }

    /// The endpoint that has a path of the table, as far as is known.
    ///
    /// # Errors
    /// Why there is none.
    pub fn serves(&self, api: &Api, now: Tick) -> Result<usize, String> {
        let service = api.service;
        let endpoint = self.endpoints.iter().position(|endpoint| api.is_of(endpoint.config.dialect));
        let why = match (self.config.services.says(service), endpoint) {
            (Some(false), _) if service == "embeddings" && self.config.services.embeddings.is_some() => {
                "has `embeddings = false`".to_owned()
            }
            (Some(false), _) => format!("does not list `{service}` in its `serves`"),
            (_, None) => format!("has no {} endpoint", api.family.name()),
            (None, Some(_)) if self.health.lacks(service, now) => format!("has no path for {service}"),
            (_, Some(endpoint)) => return Ok(endpoint),
        };
        Err(format!("lane {} {why}", self.config.name))
    }
}

impl Endpoint {
    /// The resolver's message, if the name has no address yet.
    pub fn unresolved(&self) -> Option<&str> {
        self.unresolved.as_deref().filter(|_| !self.route.has_address())
    }

    /// Pretends that the name had no address when the plan was made.
    #[cfg(test)]
    pub fn forget_addresses(&mut self, target: &tokrate_net::Target, reason: &str) {
        self.route = Route::unresolved(target, &ClientConfig::default()).expect("plain HTTP needs nothing");
        self.unresolved = Some(reason.to_owned());
    }
}

impl Alias {
    /// An alias that stands for one lane.
    pub fn of_lane(lane: &Lane, name: String) -> Alias {
        let single = AliasConfig {
            name,
            lanes: vec![lane.id.0 as usize],
            policy: Policy::Fixed,
            mode: Mode::Off,
            max_attempts: 1,
            budget: BudgetConfig::default(),
            win: WinRule::default(),
        };
        Alias::new(&single, false)
    }

    fn new(config: &AliasConfig, is_configured: bool) -> Alias {
        let id = |&index: &usize| LaneId(u32::try_from(index).expect("a configuration has fewer than 2^32 lanes"));
        Alias {
            name: config.name.clone(),
            lanes: config.lanes.iter().map(id).collect(),
            policy: config.policy,
            mode: config.mode,
            max_attempts: config.max_attempts,
            win: config.win,
            budget: Arc::new(Mutex::new(Budget::new(config.budget))),
            output_length: Arc::default(),
            budget_config: config.budget,
            race_notice: Arc::default(),
            is_configured,
        }
    }
}

/// Checks that need no I/O.
fn validate(config: &Config) -> Result<(), GatewayError> {
    if config.lanes.is_empty() {
        return Err(GatewayError::NoLanes);
    }
    if !config.listen.ip().is_loopback() && config.keys.is_empty() {
        return Err(GatewayError::Public(config.listen));
    }
    if let Some(admin) = config.admin.filter(|admin| !admin.ip().is_loopback() && config.admin_key.is_none()) {
        return Err(GatewayError::PublicAdmin(admin));
    }
    check_unique("lanes", config.lanes.iter().map(|lane| &lane.name))?;
    check_unique("aliases", config.aliases.iter().map(|alias| &alias.name))?;
    check_budgets(config)?;
    check_unique("keys", config.keys.iter().map(|key| &key.name))?;
    if let Some(lane) = config.lanes.iter().find(|lane| lane.endpoints.is_empty()) {
        return Err(GatewayError::NoEndpoint(lane.name.clone()));
    }
    let lanes = config.lanes.iter();
    let names = lanes.flat_map(|lane| [("lane", &lane.name), ("provider", &lane.provider), ("model", &lane.model)]);
    let names = names.chain(config.aliases.iter().map(|alias| ("alias", &alias.name)));
    let mut names = names.chain(config.keys.iter().map(|key| ("key", &key.name)));
    if let Some((what, name)) = names.find(|(_, name)| !is_one_line(name, MAX_TEXT_BYTES)) {
        return Err(GatewayError::InvalidName { what, name: one_line(name, 40), max_bytes: MAX_TEXT_BYTES });
    }
    match config.aliases.iter().find(|alias| alias.lanes.is_empty()) {
        Some(alias) => Err(GatewayError::EmptyAlias(alias.name.clone())),
        None => Ok(()),
    }
}

fn check_unique<'a>(what: &'static str, names: impl Iterator<Item = &'a String>) -> Result<(), GatewayError> {
    let mut names: Vec<&String> = names.collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(GatewayError::DuplicateName { what, name: pair[0].clone() }),
        None => Ok(()),
    }
}
