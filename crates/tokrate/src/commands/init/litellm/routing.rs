//! `router_settings`, `litellm_settings` and `general_settings`: aliases, limits, the breaker and the key of clients.

use super::deployments::Lane;
use super::{Node, Notes, entries, environment_name, number_of, text_of};
use crate::out::toml_text::{key, quoted};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use tokrate_apply_host::sha256;

/// Attempts that a call may have at most.
const MAX_ATTEMPTS: u64 = 16;
/// The usual `max_cool_down`, which may not be shorter than `cool_down`.
const MAX_COOL_DOWN_MS: u64 = 30_000;

/// A name that clients ask for.
#[derive(Debug)]
pub(super) struct Alias {
    pub name: String,
    lanes: Vec<String>,
    objective: &'static str,
    attempts: Option<u64>,
    remark: &'static str,
}

/// The key of clients.
#[derive(Debug)]
pub(super) enum ClientKey {
    /// In an environment variable.
    Variable(String),
    /// It stands in the file: its SHA-256.
    Hash(String),
}

/// What the three sections come to.
#[derive(Default, Debug)]
pub(super) struct Routing {
    pub aliases: Vec<Alias>,
    pub key: Option<ClientKey>,
    objective: Option<&'static str>,
    retries: Option<u64>,
    /// Names that are asked when another one has failed.
    fallbacks: BTreeMap<String, Vec<String>>,
    default_fallbacks: Vec<String>,
    /// Further names of names.
    other_names: Vec<(String, String)>,
    total_seconds: Option<f64>,
    failures: Option<u64>,
    cool_down_seconds: Option<f64>,
}

impl Routing {
    /// Reads a section.
    pub fn read(&mut self, section: &str, node: Node<'_>, notes: &mut Notes) {
        for (name, value) in entries(node) {
            match (section, name) {
                ("general_settings", "master_key") => self.key = client_key(value, notes),
                ("general_settings", _) => notes.add(value, format_args!("{name}: {}", general_reason(name))),
                (_, "routing_strategy") => self.strategy(value, notes),
                (_, "num_retries") => self.retries = number_of(value).filter(|n| *n >= 0.0).map(|n| n as u64),
                (_, "timeout" | "request_timeout") => self.total_seconds = number_of(value).filter(|n| *n > 0.0),
                (_, "allowed_fails") => self.failures = number_of(value).filter(|n| *n >= 1.0).map(|n| n as u64),
                (_, "cooldown_time") => self.cool_down_seconds = number_of(value).filter(|n| *n > 0.0),
                (_, "fallbacks") => self.read_fallbacks(value),
                (_, "default_fallbacks") => self.default_fallbacks = texts(value),
                (_, "model_group_alias") => self.read_names(value, notes),
                _ => notes.add(value, format_args!("{name}: {}", router_reason(name))),
            }
        }
    }

    fn strategy(&mut self, node: Node<'_>, notes: &mut Notes) {
        let text = text_of(node).unwrap_or_default();
        self.objective = Some(match text.as_str() {
            "simple-shuffle" => "round-robin",
            "least-busy" => "least-busy",
            "latency-based-routing" => "lowest-latency",
            "cost-based-routing" => "cheapest",
            "usage-based-routing" | "usage-based-routing-v2" => {
                notes.add(node, format_args!("routing_strategy {text}: the nearest is least-busy"));
                "least-busy"
            }
            _ => {
                notes.add(node, format_args!("routing_strategy {text}: tokrate has none of this name"));
                return;
            }
        });
    }

    /// A list of mappings from a name to those that are asked after it.
    fn read_fallbacks(&mut self, node: Node<'_>) {
        for entry in node.data.as_vec().into_iter().flatten() {
            for (name, others) in entries(entry) {
                self.fallbacks.entry(name.to_owned()).or_default().extend(texts(others));
            }
        }
    }

    fn read_names(&mut self, node: Node<'_>, notes: &mut Notes) {
        for (name, value) in entries(node) {
            let of_mapping = || entries(value).find(|(key, _)| *key == "model").and_then(|(_, model)| text_of(model));
            match text_of(value).or_else(of_mapping) {
                Some(other) => self.other_names.push((name.to_owned(), other)),
                None => notes.add(value, format_args!("model_group_alias {name}: it names no model")),
            }
        }
    }

    /// Makes the aliases, when all is read.
    pub fn finish(&mut self, lanes: &[Lane], notes: &mut Notes) {
        let mut groups: Vec<(&str, Vec<&Lane>)> = Vec::new();
        for lane in lanes.iter().filter(|lane| lane.refused.is_none()) {
            match groups.iter_mut().find(|(alias, _)| *alias == lane.alias) {
                Some((_, group)) => group.push(lane),
                None => groups.push((&lane.alias, vec![lane])),
            }
        }
        groups.iter_mut().for_each(|(_, group)| group.sort_by_key(|lane| lane.order.unwrap_or(i64::MAX)));
        let names = |group: &[&Lane]| group.iter().map(|lane| lane.name.clone()).collect::<Vec<String>>();
        for (alias, group) in &groups {
            let mut order = names(group);
            let own = order.len();
            let others = self.fallbacks.get(*alias).unwrap_or(&self.default_fallbacks);
            for other in others.iter().filter(|other| other.as_str() != *alias) {
                match groups.iter().find(|(name, _)| name == other) {
                    Some((_, group)) => order.extend(names(group)),
                    None => notes.0.push(format!("fallback of {alias}: no lane serves {other}")),
                }
            }
            let mut seen = Vec::new();
            order.retain(|lane| {
                !seen.contains(lane) && {
                    seen.push(lane.clone());
                    true
                }
            });
            self.aliases.push(self.alias(alias, order, own, group.iter().any(|lane| lane.order.is_some())));
        }
        for (name, other) in std::mem::take(&mut self.other_names) {
            let known = self.aliases.iter().find(|alias| alias.name == other);
            match known.map(|alias| Alias { name: name.clone(), lanes: alias.lanes.clone(), ..*alias }) {
                Some(_) if self.aliases.iter().any(|alias| alias.name == name) => {
                    notes.0.push(format!("model_group_alias {name}: an entry of model_list has this name too"));
                }
                Some(alias) => self.aliases.push(alias),
                None => notes.0.push(format!("model_group_alias {name}: no lane serves {other}")),
            }
        }
        for name in self.fallbacks.keys().filter(|name| !groups.iter().any(|(alias, _)| alias == name)) {
            notes.0.push(format!("fallbacks of {name}: no lane serves it"));
        }
    }

    fn alias(&self, name: &str, lanes: Vec<String>, own: usize, is_ordered: bool) -> Alias {
        let has_fallbacks = lanes.len() > own;
        let (objective, remark) = match (has_fallbacks, is_ordered) {
            (true, _) if own > 1 => {
                ("fixed", "in this order: the last are fallbacks, so calls are not spread among the first ones")
            }
            (true, _) => ("fixed", "in this order: the first, and the others if it fails"),
            (false, true) => ("fixed", "in this order, by `order`"),
            (false, false) => (
                self.objective.unwrap_or("completion"),
                "completion: least expected time to the end; also cheapest, least-busy, fixed, ...",
            ),
        };
        let needed = self.retries.map(|retries| retries + 1 + (lanes.len() - own) as u64);
        let attempts = needed.or_else(|| has_fallbacks.then_some(lanes.len() as u64));
        Alias {
            name: name.to_owned(),
            objective,
            remark,
            attempts: attempts.map(|count| count.clamp(1, MAX_ATTEMPTS)),
            lanes,
        }
    }

    /// Time limit and breaker, where the file has them.
    pub fn limits(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        if let Some(seconds) = self.total_seconds {
            let _ = write!(text, "\n[gateway.limits]\ntotal = \"{}\"\n", time(milliseconds(seconds)));
        }
        if self.failures.is_some() || self.cool_down_seconds.is_some() {
            text.push_str("\n[gateway.breaker]\n");
        }
        if let Some(failures) = self.failures {
            let _ = writeln!(text, "failures = {failures}");
        }
        if let Some(seconds) = self.cool_down_seconds {
            let first = milliseconds(seconds);
            let longest = first.max(MAX_COOL_DOWN_MS);
            let _ = write!(text, "cool_down = \"{}\"\nmax_cool_down = \"{}\"\n", time(first), time(longest));
        }
        text
    }

    /// The key that clients show.
    pub fn key_text(&self, key_file: &Path) -> String {
        const KEPT: &str = "Clients show this key, as they did.";
        let (remark, setting) = match &self.key {
            Some(ClientKey::Variable(name)) => (KEPT, format!("key_env = {}", quoted(name))),
            Some(ClientKey::Hash(hash)) => (KEPT, format!("sha256 = \"{hash}\"")),
            None => (
                "Every client shows a key: without one, any program of this machine could spend your money.",
                format!("key_file = {}", quoted(&key_file.display().to_string())),
            ),
        };
        format!("\n# {remark}\n[gateway.keys.master]\n{setting}\n")
    }
}

impl Alias {
    /// The alias in TOML.
    pub fn text(&self) -> String {
        let lanes: Vec<String> = self.lanes.iter().map(|lane| quoted(lane)).collect();
        let attempts = self.attempts.map_or_else(String::new, |count| format!("attempts = {count}\n"));
        format!(
            "[gateway.aliases.{}]\nlanes = [{}]\nobjective = \"{}\"   # {}\n{attempts}",
            key(&self.name),
            lanes.join(", "),
            self.objective,
            self.remark
        )
    }
}

/// Whole milliseconds, at least one and at most a day.
fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1e3).clamp(1.0, 86_400_000.0) as u64
}

/// A time as the settings write it.
fn time(milliseconds: u64) -> String {
    if milliseconds.is_multiple_of(1_000) { format!("{}s", milliseconds / 1_000) } else { format!("{milliseconds}ms") }
}

fn client_key(node: Node<'_>, notes: &mut Notes) -> Option<ClientKey> {
    let text = text_of(node).filter(|text| !text.is_empty());
    if text.is_none() {
        notes.add(node, "master_key: it is empty");
    }
    let text = text?;
    Some(match environment_name(&text) {
        Some(name) => ClientKey::Variable(name.to_owned()),
        None => ClientKey::Hash(sha256(text.as_bytes())),
    })
}

/// A list of texts, or one.
fn texts(node: Node<'_>) -> Vec<String> {
    match node.data.as_vec() {
        Some(list) => list.iter().filter_map(text_of).collect(),
        None => text_of(node).into_iter().collect(),
    }
}

/// Why a setting of `general_settings` is not taken over.
fn general_reason(name: &str) -> &'static str {
    match name {
        "database_url" | "store_model_in_db" | "database_connection_pool_limit" => {
            "keys and what they spent in that database stay there; write [gateway.keys], each with its limits"
        }
        "alerting" | "alerting_threshold" | "alert_types" => "alerts are those of [monitor.alerts]",
        "max_parallel_requests" | "global_max_parallel_requests" => "write `calls` into [gateway.limits]",
        _ => "tokrate has nothing like it",
    }
}

/// Why a setting of the router or the library is not taken over.
fn router_reason(name: &str) -> &'static str {
    match name {
        "success_callback" | "failure_callback" | "callbacks" | "service_callbacks" => {
            "calls stand in the throughput log, in /metrics and, with [gateway.otel], in traces"
        }
        "cache" | "cache_params" | "enable_caching" => {
            "answers are not kept; providers' prompt caches are passed through"
        }
        "redis_host" | "redis_port" | "redis_password" | "redis_url" => "nothing is shared between gateways",
        "drop_params" | "modify_params" => "what clients ask for is passed on as it is",
        "context_window_fallbacks" | "content_policy_fallbacks" => {
            "a provider's refusal of a request is handed to the client; put further lanes into the alias"
        }
        "set_verbose" | "json_logs" | "debug_level" => "write --log-level and --log-format",
        "stream_timeout" => "write `first_token` and `gap` into [gateway.limits]",
        "enable_pre_call_checks"
        | "routing_strategy_args"
        | "retry_after"
        | "retry_policy"
        | "allowed_fails_policy" => "lanes that fail or ask to wait are left out by [gateway.breaker]",
        _ => "tokrate has nothing like it",
    }
}
