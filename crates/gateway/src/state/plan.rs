//! The configuration as calls see it: lanes, aliases and keys, found by what a client sends.
//!
//! It refuses to know how it was written and what has been measured since. Invariant: a plan never changes; a new
//! configuration is a new plan, and calls that have begun keep theirs.

use crate::admission::budgets::check_budgets;
use crate::admission::calendar::{month_of, month_start};
use crate::config::{AliasConfig, Config, EndpointConfig, KeyConfig, LaneConfig, LimitsConfig};
use crate::error::GatewayError;
use crate::state::lane_health::LaneHealth;
use crate::state::lock::locked;
use http::HeaderValue;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use tokrate_core::{Money, Tick, is_one_line, one_line};
use tokrate_meter::TEXT_BYTES_MOST;
use tokrate_net::{ClientConfig, Clock, Route, Secrets};
use tokrate_route::BudgetConfig;
use tokrate_route::{Budget, KeyMeter, LaneId, Mode, Month, OutputLength, Policy, Router};
use tokrate_store::{Grouping, Log, Query, Store, StoreError};
use tokrate_wire::Dialect;

/// What the gateway works by, until it is told anew.
pub(crate) struct Plan {
    pub lanes: Vec<Arc<Lane>>,
    pub aliases: BTreeMap<String, Arc<Alias>>,
    pub keys: BTreeMap<[u8; 32], Arc<Key>>,
    pub limits: LimitsConfig,
    /// SHA-256 of the admin side's key.
    pub admin_key: Option<[u8; 32]>,
    pub router: Mutex<Router>,
}

/// A lane, ready to be connected to.
pub(crate) struct Lane {
    pub id: LaneId,
    pub config: LaneConfig,
    pub endpoints: Vec<Endpoint>,
    /// Provider and name as they stand in the head of an answer, if they can.
    pub name_headers: [Option<HeaderValue>; 2],
    pub health: LaneHealth,
}

/// A dialect of a lane.
pub(crate) struct Endpoint {
    pub config: EndpointConfig,
    pub route: Route,
    /// What the resolver said of a name that had no address when the plan was made.
    unresolved: Option<String>,
    /// What may never be shown of what comes from it.
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
    pub second_look: Option<tokrate_core::Span>,
    pub budget: Arc<Mutex<Budget>>,
    pub output_length: Arc<Mutex<OutputLength>>,
    pub budget_config: BudgetConfig,
    /// Whether it stands in the settings, and is no lane's own name.
    pub is_configured: bool,
}

/// A key, and what it has used.
pub(crate) struct Key {
    pub config: KeyConfig,
    pub meter: Arc<Mutex<KeyMeter>>,
}

/// What keys have spent in a month, each by its hash.
pub(crate) struct MonthSpending {
    month: Month,
    by_key: Vec<([u8; 32], Money)>,
}

impl Plan {
    /// Checks a configuration and resolves the names of its hosts, as far as they have addresses now. Blocks; to be called outside a runtime.
    pub fn resolve_blocking(config: &Config, clock: Clock) -> Result<Plan, GatewayError> {
        check(config)?;
        let mut lanes = Vec::new();
        for (index, lane) in config.lanes.iter().enumerate() {
            lanes.push(Arc::new(Lane::resolve(index, lane, &config.client, clock)?));
        }
        let mut aliases = BTreeMap::new();
        // A lane's own name, and provider/model, are aliases of one lane, unless an alias has that name.
        for lane in &lanes {
            let own = [lane.config.name.clone(), format!("{}/{}", lane.config.provider, lane.config.model)];
            for name in own {
                let single = AliasConfig {
                    name: name.clone(),
                    lanes: vec![lane.id.0 as usize],
                    policy: Policy::Fixed,
                    mode: Mode::Off,
                    max_attempts: 1,
                    budget: BudgetConfig::default(),
                    second_look: None,
                };
                aliases.entry(name).or_insert_with(|| Arc::new(Alias::new(&single, false)));
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
        let mut router = Router::new(config.lanes.iter().map(LaneConfig::for_router).collect(), config.seed);
        for lane in &lanes {
            router.learn(lane.id, clock.now(), &lane.config.curve);
        }
        let Config { limits, admin_key, .. } = *config;
        Ok(Plan { lanes, aliases, keys, limits, admin_key, router: Mutex::new(router) })
    }

    /// Takes over what an earlier plan has learned and counted: what keys have used, what races may cost, how
    /// long answers are, how quick and sound lanes are.
    pub fn inherit(&mut self, earlier: &Plan, now: Tick) {
        let mut router = locked(&self.router);
        for lane in &self.lanes {
            // A lane is the same if it goes to the same model at the same addresses.
            let same = |other: &&Arc<Lane>| other.config.name == lane.config.name && other.has_same_target(lane);
            if let Some(known) = earlier.lanes.iter().find(same) {
                router.inherit(lane.id, &locked(&earlier.router), known.id);
                lane.health.inherit(&known.health);
                if !known.has_same_headers(lane) {
                    // With another key it may well be let in.
                    router.reset_breaker(lane.id);
                }
            }
        }
        drop(router);
        let names: BTreeSet<String> = self.keys.values().map(|key| key.config.name.clone()).collect();
        for (hash, key) in &mut self.keys {
            // The log knows a key by its name: one whose secret was changed has spent what it had spent before.
            let renamed = || earlier.keys.get(hash).filter(|known| !names.contains(&known.config.name));
            let Some(known) = earlier.key(&key.config.name).or_else(renamed) else { continue };
            locked(&known.meter).set_limits(now, key.config.limits);
            *key = Arc::new(Key { config: key.config.clone(), meter: Arc::clone(&known.meter) });
        }
        for (name, alias) in &mut self.aliases {
            let Some(known) = earlier.aliases.get(name) else { continue };
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

    /// What the log says that keys with a budget have spent this month, unless an earlier plan knows it.
    pub fn spent(&self, log: &Log, wall_seconds: u64, earlier: Option<&Plan>) -> Result<MonthSpending, StoreError> {
        let has_budget = |key: &Key| key.config.limits.usd_per_month.is_some();
        let is_known = |key: &Key| {
            let known = earlier.and_then(|earlier| earlier.key(&key.config.name));
            known.is_some_and(|known| has_budget(known))
        };
        let mut spent = MonthSpending { month: month_of(wall_seconds), by_key: Vec::new() };
        let mut reader = None;
        for (hash, key) in self.keys.iter().filter(|(_, key)| has_budget(key) && !is_known(key)) {
            let reader = match &mut reader {
                Some(reader) => reader,
                None => reader.insert(log.reader()?),
            };
            let query = Query {
                key: Some(key.config.name.clone()),
                from_unix_ms: Some(month_start(wall_seconds) * 1_000),
                ..Query::default()
            };
            let usd: f64 = reader.summarise(&query, Grouping::default())?.iter().map(|summary| summary.cost_usd).sum();
            // What is no amount of money is beyond every budget.
            spent.by_key.push((*hash, Money::from_usd(usd).unwrap_or(Money::MAX)));
        }
        Ok(spent)
    }

    /// Counts against each key's budget what it has spent.
    pub fn restore(&self, spent: &MonthSpending) {
        for (hash, money) in &spent.by_key {
            if let Some(key) = self.keys.get(hash) {
                locked(&key.meter).restore(spent.month, *money);
            }
        }
    }

    /// The lane of a number that this plan gave out.
    pub fn lane(&self, id: LaneId) -> &Arc<Lane> {
        &self.lanes[id.0 as usize]
    }
}

impl Lane {
    /// Resolves the names of its hosts; those without an address are looked for again. Blocks.
    pub fn resolve(
        index: usize,
        config: &LaneConfig,
        client: &ClientConfig,
        clock: Clock,
    ) -> Result<Lane, GatewayError> {
        let mut endpoints = Vec::new();
        for endpoint in &config.endpoints {
            let (route, unresolved) = Route::resolve_or_wait_blocking(&endpoint.base, client, clock)?;
            let secrets = Secrets::of(&endpoint.headers);
            let unresolved = unresolved.map(|error| error.to_string());
            endpoints.push(Endpoint { config: endpoint.clone(), route, unresolved, secrets });
        }
        let index = u32::try_from(index).expect("nobody writes down so many lanes");
        let name_headers = [&config.provider, &config.name].map(|name| HeaderValue::from_str(name).ok());
        let health = LaneHealth::default();
        Ok(Lane { id: LaneId(index), config: config.clone(), endpoints, name_headers, health })
    }

    /// What the resolver says if a name of the lane's has no address yet.
    pub fn unresolved(&self) -> Option<&str> {
        self.endpoints.iter().find_map(Endpoint::unresolved)
    }

    /// Whether two lanes lead to one model at the same addresses.
    fn has_same_target(&self, other: &Lane) -> bool {
        let bases = |lane: &Lane| -> Vec<String> {
            lane.endpoints.iter().map(|endpoint| endpoint.config.base.to_string()).collect()
        };
        self.config.model == other.config.model && bases(self) == bases(other)
    }

    /// Whether two lanes that lead to the same addresses show the same headers there, keys among them.
    fn has_same_headers(&self, other: &Lane) -> bool {
        let headers = self.endpoints.iter().zip(&other.endpoints);
        headers.into_iter().all(|(one, other)| one.config.headers == other.config.headers)
    }

    /// Where a call in this dialect goes: an endpoint of the same one, else the first.
    pub fn endpoint(&self, dialect: Option<Dialect>) -> usize {
        self.endpoints.iter().position(|endpoint| Some(endpoint.config.dialect) == dialect).unwrap_or(0)
    }

    /// Where embeddings are asked for: an endpoint of OpenAI's.
    pub fn openai_endpoint(&self) -> Option<usize> {
        use Dialect::{OpenAiChat, OpenAiCompletions, OpenAiResponses};
        let openai =
            |endpoint: &Endpoint| matches!(endpoint.config.dialect, OpenAiChat | OpenAiCompletions | OpenAiResponses);
        self.endpoints.iter().position(openai)
    }
}

impl Endpoint {
    /// What the resolver says if its name has no address yet.
    pub fn unresolved(&self) -> Option<&str> {
        self.unresolved.as_deref().filter(|_| !self.route.has_address())
    }

    /// As if its name had had no address when the plan was made.
    #[cfg(test)]
    pub fn forget_addresses(&mut self, target: &tokrate_net::Target, reason: &str) {
        self.route = Route::unresolved(target, &ClientConfig::default()).expect("plain HTTP needs nothing");
        self.unresolved = Some(reason.to_owned());
    }
}

impl Alias {
    fn new(config: &AliasConfig, is_configured: bool) -> Alias {
        let id = |&index: &usize| LaneId(u32::try_from(index).expect("nobody writes down so many lanes"));
        Alias {
            name: config.name.clone(),
            lanes: config.lanes.iter().map(id).collect(),
            policy: config.policy,
            mode: config.mode,
            max_attempts: config.max_attempts,
            second_look: config.second_look,
            budget: Arc::new(Mutex::new(Budget::new(config.budget))),
            output_length: Arc::default(),
            budget_config: config.budget,
            is_configured,
        }
    }
}

/// What can be said without asking anybody.
fn check(config: &Config) -> Result<(), GatewayError> {
    if config.lanes.is_empty() {
        return Err(GatewayError::NoLanes);
    }
    if !config.listen.ip().is_loopback() && config.keys.is_empty() {
        return Err(GatewayError::Open(config.listen));
    }
    if let Some(admin) = config.admin.filter(|admin| !admin.ip().is_loopback() && config.admin_key.is_none()) {
        return Err(GatewayError::OpenAdmin(admin));
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
    if let Some((what, name)) = names.find(|(_, name)| !is_one_line(name, TEXT_BYTES_MOST)) {
        return Err(GatewayError::UnfitName { what, name: one_line(name, 40), most: TEXT_BYTES_MOST });
    }
    match config.aliases.iter().find(|alias| alias.lanes.is_empty()) {
        Some(alias) => Err(GatewayError::NoLane(alias.name.clone())),
        None => Ok(()),
    }
}

fn check_unique<'a>(what: &'static str, names: impl Iterator<Item = &'a String>) -> Result<(), GatewayError> {
    let mut names: Vec<&String> = names.collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(GatewayError::SameName { what, name: pair[0].clone() }),
        None => Ok(()),
    }
}
