//! Which settings of a `tokrate.toml` need a person's trust: all but those that can neither send anything anywhere, nor read, run or
//! write anything.
//!
//! Invariant: a key that is not listed as harmless needs trust, so that a new one is safe before anybody has thought of
//! it.

use crate::error::TargetError;
use std::fmt::Write;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Keys that count in any folder; `*` stands for a name. They say how much, how long and in which shape, and choose among what is
/// named elsewhere.
pub const HARMLESS: &[&str] = &[
    "bench.arrivals",
    "bench.assert",
    "bench.burstiness",
    "bench.calibration",
    "bench.clients_from",
    "bench.clients_rate",
    "bench.concurrency",
    "bench.connect_timeout",
    "bench.connections",
    "bench.dialect",
    "bench.duration",
    "bench.http",
    "bench.idle_timeout",
    "bench.ignore",
    "bench.ignore_eos",
    "bench.input_tokens",
    "bench.keep_going",
    "bench.keep_unknown",
    "bench.lora_skew",
    "bench.max_cost_usd",
    "bench.max_failures",
    "bench.max_in_flight",
    "bench.max_load",
    "bench.max_requests",
    "bench.max_tokens_field",
    "bench.max_wait",
    "bench.model",
    "bench.new_connections",
    "bench.no_backoff",
    "bench.no_html",
    "bench.no_probe",
    "bench.no_stream",
    "bench.no_usage",
    "bench.output_tokens",
    "bench.price_input",
    "bench.price_output",
    "bench.quiet",
    "bench.ramp",
    "bench.ramp_growth",
    "bench.ramp_rate",
    "bench.rate",
    "bench.refine",
    "bench.region",
    "bench.requests",
    "bench.rounds",
    "bench.scorecard",
    "bench.search",
    "bench.seed",
    "bench.sessions",
    "bench.shared_prefix",
    "bench.slo",
    "bench.slo_share",
    "bench.streams",
    "bench.strict",
    "bench.temperature",
    "bench.think",
    "bench.threshold",
    "bench.timeout",
    "bench.tls_resume",
    "bench.tool_time",
    "bench.tool_tokens",
    "bench.tool_turns",
    "bench.trace_limit",
    "bench.trace_speed",
    "bench.turns",
    "bench.until",
    "bench.warmup",
    "bench.wide",
    "bench.workers",
    "bench.workload",
    "gateway.aliases.*.attempts",
    "gateway.aliases.*.extra_share",
    "gateway.aliases.*.hold_share",
    "gateway.aliases.*.lanes",
    "gateway.aliases.*.max_extra_cost_pct",
    "gateway.aliases.*.max_extra_usd_per_hour",
    "gateway.aliases.*.mode",
    "gateway.aliases.*.objective",
    "gateway.aliases.*.speed_least",
    "gateway.aliases.*.ttft_most",
    "gateway.aliases.*.usd_per_second",
    "gateway.aliases.*.winner",
    "gateway.breaker.cool_down",
    "gateway.breaker.failures",
    "gateway.breaker.key_cool_down",
    "gateway.breaker.max_cool_down",
    "gateway.breaker.max_retry_after",
    "gateway.breaker.probe",
    "gateway.drain",
    "gateway.http",
    "gateway.keep_warm",
    "gateway.lanes.*.dialect",
    "gateway.lanes.*.local",
    "gateway.lanes.*.loser",
    "gateway.lanes.*.max_in_flight",
    "gateway.lanes.*.model",
    "gateway.lanes.*.price.cached",
    "gateway.lanes.*.price.input",
    "gateway.lanes.*.price.output",
    "gateway.lanes.*.provider",
    "gateway.lanes.*.stream_whole",
    "gateway.limits.answer_bytes",
    "gateway.limits.attempt",
    "gateway.limits.body",
    "gateway.limits.calls",
    "gateway.limits.connect",
    "gateway.limits.file_bytes",
    "gateway.limits.first_token",
    "gateway.limits.gap",
    "gateway.limits.request_bytes",
    "gateway.limits.send",
    "gateway.limits.silence",
    "gateway.limits.total",
    "gateway.region",
    "gateway.seed",
    "gateway.workers",
];

/// A setting that needs trust.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SensitiveSetting {
    /// Its line, counted from 1.
    pub line: usize,
    /// Its key.
    pub key: String,
    /// Its value as it is written, on one line and without what could be a secret.
    pub value: String,
}

impl SensitiveSetting {
    /// What it can do.
    pub fn what(&self) -> &'static str {
        let last = self.key.rsplit('.').next().unwrap_or_default();
        match last {
            "url" | "hub" | "targets" | "target" | "endpoint" | "server_metrics" | "gpu_metrics" | "unix_socket"
            | "proxy" => "says where requests go",
            "listen" | "admin" | "hosts" => "says who can reach the gateway",
            "log" | "json" | "jsonl" | "html" | "csv" | "markdown" | "vllm_json" | "junit" | "badge"
            | "save_baseline" => "names a file that is written",
            "insecure" => "lets anybody answer in the endpoint's place",
            "log_retention" => "deletes rows of the log",
            "sha256" => "lets a client in",
            "command" => "runs a command",
            "public_key" => "lets a prober in",
            _ if last.ends_with("key_cmd") => "runs a command",
            _ if last.ends_with("_env") => "uses a variable of your environment",
            _ if last.ends_with("_file")
                || matches!(last, "prompts" | "prompts_whole" | "curve" | "trace" | "baseline") =>
            {
                "names a file that is read"
            }
            _ if self.key.contains("headers") || matches!(last, "header" | "key_header" | "body") => {
                "says what is sent with requests"
            }
            _ => "is not known to be harmless",
        }
    }
}

/// The settings that need trust, in the order of the file.
///
/// # Errors
/// When the text is no TOML.
pub fn sensitive(text: &str) -> Result<Vec<SensitiveSetting>, TargetError> {
    let table = DeTable::parse(text).map_err(|error| TargetError::SettingsNoToml(Box::new(error)))?;
    let mut found = Vec::new();
    walk("", table.get_ref(), text, &mut found);
    found.sort_by_key(|setting| setting.line);
    Ok(found)
}

fn walk(above: &str, table: &DeTable<'_>, text: &str, found: &mut Vec<SensitiveSetting>) {
    for (name, value) in table {
        let key = if above.is_empty() { name.get_ref().to_string() } else { format!("{above}.{}", name.get_ref()) };
        match value.get_ref() {
            DeValue::Table(inner) if !inner.is_empty() => walk(&key, inner, text, found),
            // A table can say something by being there.
            DeValue::Table(_) if holds_harmless(&key) => {}
            _ if is_harmless(&key) => {}
            _ => found.push(SensitiveSetting {
                line: line_of(name, text),
                value: shown(&key, value, text),
                key: escaped(&key),
            }),
        }
    }
}

/// Whether a key counts in any folder.
pub fn is_harmless(key: &str) -> bool {
    HARMLESS.iter().any(|pattern| matches(pattern, key, true))
}

/// Whether it is a table of settings some of which are harmless.
fn holds_harmless(key: &str) -> bool {
    HARMLESS.iter().any(|pattern| matches(pattern, key, false))
}

/// A name with a dot in it looks like two here, and fits no pattern that way.
fn matches(pattern: &str, key: &str, whole: bool) -> bool {
    let mut pattern = pattern.split('.');
    let fits = key.split('.').all(|part| pattern.next().is_some_and(|wanted| wanted == "*" || wanted == part));
    fits && (!whole || pattern.next().is_none())
}

fn line_of<T>(place: &Spanned<T>, text: &str) -> usize {
    text.get(..place.span().start).map_or(0, |before| before.matches('\n').count()) + 1
}

/// The value as it is written. A header may carry a key, and so may an address.
fn shown(key: &str, value: &Spanned<DeValue<'_>>, text: &str) -> String {
    let is_header = (key.contains("headers") && !key.contains("forward_headers")) || key.ends_with(".header");
    match value.get_ref() {
        DeValue::Array(names) if is_header => {
            let named = names.iter().map(|line| line.get_ref().as_str().unwrap_or_default().split(':').next());
            let named: Vec<String> =
                named.map(|name| format!("\"{}: ***\"", escaped(name.unwrap_or_default()))).collect();
            format!("[{}]", named.join(", "))
        }
        _ if is_header => "***".to_owned(),
        // Whoever has the path of a chat's webhook can write to it.
        DeValue::String(url) if key.starts_with("monitor.alerts.receivers.") && key.ends_with(".url") => {
            let end = url.match_indices('/').nth(2).map_or(url.len(), |(at, _)| at);
            format!("\"{}{}\"", escaped(&without_password(&url[..end])), if end < url.len() { "/***" } else { "" })
        }
        _ => escaped(&without_password(text.get(value.span()).unwrap_or_default())),
    }
}

/// An address without user name and password.
fn without_password(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("//") {
        let (before, behind) = rest.split_at(at + 2);
        shown.push_str(before);
        let end = behind.find(['/', '"', '\'', '?', '#', ',', ' ', '\n']).unwrap_or(behind.len());
        rest = match behind[..end].rfind('@') {
            Some(sign) => {
                shown.push_str("***");
                &behind[sign..]
            }
            None => behind,
        };
    }
    shown + rest
}

/// Text of a stranger on one line of a terminal: nothing in it moves the cursor or turns what is read around.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for sign in text.chars() {
        let is_hidden = sign.is_control()
            || matches!(sign, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}');
        if is_hidden {
            // Writing to a String cannot fail.
            let _ = write!(out, "{}", sign.escape_unicode());
        } else {
            out.push(sign);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Vec<String> {
        sensitive(text).expect("TOML").into_iter().map(|setting| setting.key).collect()
    }

    #[test]
    fn settings_are_found_with_their_lines_however_they_are_written() {
        let text = "bench = { model = \"m\", url = \"http://a\" }\n[gateway]\nworkers = 2\n\"log\" = \"x.db\"\n\
                    lanes.a.local = \"sim\"\nlanes.b.key_cmd = '''\nrun\nthis'''\n[gateway.lanes.'c']\nheaders.x = \"k\"\n";
        let found: Vec<String> = sensitive(text)
            .expect("TOML")
            .iter()
            .map(|setting| format!("{} {} = {}: {}", setting.line, setting.key, setting.value, setting.what()))
            .collect();
        insta::assert_snapshot!("sensitive", found.join("\n"));
    }

    #[test]
    fn tables_that_say_something_by_being_there_need_trust() {
        for harmless in
            ["", "[bench]\n", "[gateway]\n", "[gateway.lanes.a]\n", "[gateway.limits]\n", "gateway.lanes = {}\n"]
        {
            assert_eq!(keys(harmless), [""; 0], "{harmless}");
        }
        for (text, key) in [
            ("[gateway.otel]\n", "gateway.otel"),
            ("gateway.otel = {}\n", "gateway.otel"),
            ("[gateway.lanes.\"a.b\"]\nlocal = \"sim\"\n", "gateway.lanes.a.b.local"),
            ("[gateway.keys.a]\n", "gateway.keys.a"),
            ("[new]\n", "new"),
            ("[[bench]]\nmodel = \"m\"\n", "bench"),
        ] {
            assert_eq!(keys(text), [key], "{text}");
        }
    }

    #[test]
    fn what_is_shown_is_all_of_it_but_secrets_and_what_plays_with_the_terminal() {
        let value = |text: &str| sensitive(text).expect("TOML")[0].value.clone();
        assert_eq!(value("bench.url = \"http://me:sk-1@host/v1?a@b\"\n"), "\"http://***@host/v1?a@b\"");
        assert_eq!(value("bench.url = \"http://host/@v1\"\n"), "\"http://host/@v1\"");
        assert_eq!(value("bench.headers = [\"x-key: sk-1\", \"y:z\"]\n"), "[\"x-key: ***\", \"y: ***\"]");
        assert_eq!(value("bench.header = [\"x-key: sk-1\"]\n"), "[\"x-key: ***\"]", "the name of the flag");
        assert_eq!(value("gateway.lanes.a.headers.x = \"sk-1\"\n"), "***");
        assert_eq!(value("bench.key_cmd = \"\"\"a\nb\"\"\"\n"), "\"\"\"a\\u{a}b\"\"\"");
        assert_eq!(value("bench.key_cmd = 'a\u{202e}b'\n"), "'a\\u{202e}b'");
        let chat = "monitor.alerts.receivers.chat.url = \"https://hooks.slack.com/services/T0/B0/XYZ\"\n";
        assert_eq!(value(chat), "\"https://hooks.slack.com/***\"");
        let long = "x".repeat(5000);
        assert!(value(&format!("bench.key_cmd = '{long}'\n")).contains(&long));
    }
}
