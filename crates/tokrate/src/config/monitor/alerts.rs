//! From `[monitor.alerts]` to rules and receivers.
//!
//! Invariant: what is contradictory is refused with its line; keys, passwords and URLs that are secrets are in no message.

use super::Reading;
use super::rows::{AlertsRow, MonitorRow, RECEIVER_KINDS, ReceiverRow, RuleRow};
use crate::config::environment::{self, Environment};
use anyhow::{Context, Result, bail, ensure};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use std::ops::Range;
use tokrate_core::Span;
use tokrate_judge::Slo;
use tokrate_monitor::alert::{QuietHours, Rule};
use tokrate_monitor::notify::{HttpReceiver, MailReceiver, MailServer, Receiver, To};
use tokrate_monitor::{AlertRule, AlertSettings, CHANGE_KINDS, PROBE_METRICS, Watch};
use tokrate_net::ClientConfig;
use tokrate_targets::reading::{MAX_SETTINGS_BYTES, bytes_of, text_of};
use tokrate_targets::{KeyReference, header};
use toml::Spanned;

/// The rule of a file that has receivers and no rule.
const DEFAULT_RULE: &str = "changes";
/// Kinds of changes of a rule that names none.
const DEFAULT_CHANGES: [&str; 3] = ["regression", "errors", "fidelity"];
/// A week: as long as the detector needs to learn what is usual.
const DEFAULT_RESOLVE_AFTER: Span = Span::from_secs(7 * 86_400);
/// Probers are looked at every ten minutes, and say as often that they live.
const MIN_SILENCE: Span = Span::from_secs(1_200);

/// What a row comes to, keys fetched.
pub fn alerts(reading: &Reading<'_>, row: &MonitorRow) -> Result<AlertSettings> {
    let AlertsRow { board_url, receivers, rules } = &row.alerts;
    if let Some((name, _)) = rules.first_key_value().filter(|_| receivers.is_empty()) {
        bail!(reading.at(name.span(), "there is a rule and no receiver; write [monitor.alerts.receivers.NAME]"));
    }
    let mut found = Vec::new();
    for (name, receiver_row) in receivers {
        let to = receiver(row, receiver_row)
            .map_err(|error| reading.at(name.span(), &format!("the receiver `{}`: {error:#}", name.get_ref())))?;
        found.push(Receiver { name: name.get_ref().clone(), to });
    }
    let mut made = Vec::new();
    for (name, rule_row) in rules {
        made.push(rule(reading, name, rule_row, &found)?);
    }
    if made.is_empty() && !found.is_empty() {
        let name = Spanned::new(0..0, DEFAULT_RULE.to_owned());
        made.push(rule(reading, &name, &RuleRow::default(), &found)?);
    }
    Ok(AlertSettings { rules: made, receivers: found, board: board_url.clone() })
}

/// How a receiver gets messages.
fn receiver(monitor: &MonitorRow, row: &ReceiverRow) -> Result<To> {
    let kind = row.kind.as_str();
    if !RECEIVER_KINDS.contains(&kind) {
        let known = RECEIVER_KINDS.join(", ");
        bail!("`{kind}` is no kind of receiver; there are {known}");
    }
    let unused = [
        ("command", !row.command.is_empty() && kind != "command"),
        ("to", !row.to.is_empty() && kind != "email"),
        ("from", row.from.is_some() && kind != "email"),
        ("user", row.user.is_some() && kind != "email"),
        ("headers", !row.headers.is_empty() && matches!(kind, "email" | "command")),
        ("url", (row.url.is_some() || row.url_env.is_some() || row.url_file.is_some()) && kind == "command"),
    ];
    if let Some((key, _)) = unused.iter().find(|(_, is_unused)| *is_unused) {
        bail!("`{key}` means nothing to a receiver of the kind `{kind}`; leave it out");
    }
    if kind == "command" {
        ensure!(!row.command.is_empty(), "it has no `command`; write one as [\"program\", \"argument\"]");
        return Ok(To::Command(row.command.clone()));
    }
    let variable: tokrate_targets::Variables<'_> = &environment::variable;
    let key = KeyReference::first(&row.key_env, &row.key_file, &row.key_cmd);
    let key = key.map(|key| key.fetch(variable)).transpose()?;
    let key = key.as_ref().map(tokrate_targets::Secret::reveal);
    let url = url(row)?;
    let ca_file = row.ca_file.clone().or_else(|| monitor.ca_file.clone());
    if kind == "email" {
        return mail(row, url, key, ca_file.as_deref()).map(|mail| To::Mail(Box::new(mail)));
    }
    let mut headers = HeaderMap::new();
    for (name, value) in &row.headers {
        let (name, value) = header(name, value)?;
        headers.insert(name, value);
    }
    if let Some(key) = key.filter(|_| kind != "webhook") {
        let mut value = HeaderValue::from_str(&format!("Bearer {key}")).context("use the key in a header")?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    let client =
        ClientConfig { reuse: false, ca_file, proxy: Environment::read().proxies(), ..ClientConfig::default() };
    let http = HttpReceiver::new(&url, headers, key.filter(|_| kind == "webhook"), client);
    let http = Box::new(http.context("understand its URL")?);
    Ok(match kind {
        "slack" => To::Slack(http),
        "alertmanager" => To::Alertmanager(http),
        _ => To::Webhook(http),
    })
}

/// The URL, from where it stands.
fn url(row: &ReceiverRow) -> Result<String> {
    match (&row.url, &row.url_env, &row.url_file) {
        (Some(url), None, None) => Ok(url.clone()),
        (None, Some(name), None) => environment::variable(name).with_context(|| {
            format!("read its URL: the environment variable {name} is not set; set it, or name another with `url_env`")
        }),
        (None, None, Some(path)) => {
            text_of(path, MAX_SETTINGS_BYTES).with_context(|| format!("read its URL from {}", path.display()))
        }
        (None, None, None) => bail!("it has no address; write `url`, `url_env` or `url_file`"),
        _ => bail!("it has two addresses; write one of `url`, `url_env`, `url_file`"),
    }
}

fn mail(
    row: &ReceiverRow,
    url: String,
    password: Option<&str>,
    ca_file: Option<&std::path::Path>,
) -> Result<MailReceiver> {
    let from = row.from.as_deref().context("find `from`, the sender of its e-mails")?;
    let login = match (&row.user, password) {
        (Some(user), Some(password)) => Some((user.clone(), password.to_owned())),
        (None, None) => None,
        _ => bail!("a login needs both `user` and a key (`key_env`, `key_file` or `key_cmd`)"),
    };
    let authority = ca_file.map(|path| bytes_of(path, MAX_SETTINGS_BYTES));
    let authority = authority.transpose().context("read its `ca_file`")?;
    Ok(MailReceiver::new(&MailServer { url, login, authority }, from, &row.to)?)
}

/// A rule, which can fire as it is written.
fn rule(reading: &Reading<'_>, name: &Spanned<String>, row: &RuleRow, receivers: &[Receiver]) -> Result<AlertRule> {
    let wrong = |message: String| reading.at(name.span(), &format!("the rule `{}`: {message}", name.get_ref()));
    let watch = watch(reading, name, row)?;
    let failing = row.failing.map_or(1, std::num::NonZeroU32::get);
    let of = row.of.map_or(failing, std::num::NonZeroU32::get);
    if !matches!(watch, Watch::Objectives(_)) && (row.failing.is_some() || row.of.is_some()) {
        bail!(wrong("`failing` and `of` count probes of a rule with `slo`; leave them out".to_owned()));
    }
    let chosen = match &row.receivers {
        None => receivers.iter().map(|receiver| receiver.name.clone()).collect(),
        Some(names) => {
            for name in names {
                let is_known = receivers.iter().any(|receiver| receiver.name == *name.get_ref());
                ensure!(is_known, reading.at(name.span(), &format!("there is no receiver `{}`", name.get_ref())));
            }
            names.iter().map(|name| name.get_ref().clone()).collect()
        }
    };
    let quiet = row
        .quiet
        .as_ref()
        .map(|quiet| QuietHours::parse(quiet.get_ref()).map_err(|error| reading.at(quiet.span(), &error)));
    let ms = |span: Span| span.as_nanos() / 1_000_000;
    let group_wait = match row.group_wait.as_ref().filter(|wait| matches!(wait.get_ref().as_str(), "0" | "0s")) {
        Some(_) => Span::ZERO,
        None => reading.span(row.group_wait.as_ref(), Span::from_millis(Rule::default().group_wait_ms))?,
    };
    let remind = row.remind_after.as_ref().map(|_| reading.span(row.remind_after.as_ref(), Span::ZERO));
    let rule = Rule {
        name: name.get_ref().clone(),
        endpoints: row.endpoints.clone(),
        workloads: row.workloads.clone(),
        failing,
        of,
        places: row.places.map_or(1, std::num::NonZeroU32::get),
        group_wait_ms: ms(group_wait),
        remind_after_ms: remind.transpose()?.map(ms),
        quiet: quiet.transpose()?,
        receivers: chosen,
    };
    rule.check().map_err(|error| reading.at(name.span(), &error.to_string()))?;
    let resolve_after = reading.span(row.resolve_after.as_ref(), DEFAULT_RESOLVE_AFTER)?;
    Ok(AlertRule { rule, watch, resolve_after_ms: ms(resolve_after) })
}

/// What makes it find something bad.
fn watch(reading: &Reading<'_>, name: &Spanned<String>, row: &RuleRow) -> Result<Watch> {
    let at = |place: Range<usize>, message: &str| reading.at(place, message);
    let wrong = |message: &str| at(name.span(), &format!("the rule `{}`: {message}", name.get_ref()));
    match (&row.changes, &row.slo, &row.silent) {
        (None, None, None) => Ok(Watch::Changes(DEFAULT_CHANGES.map(str::to_owned).to_vec())),
        (Some(changes), None, None) => {
            ensure!(!changes.is_empty(), wrong("`changes` is empty"));
            for kind in changes {
                let known = CHANGE_KINDS.join(", ");
                let message = format!("`{}` is no kind of change; there are {known}", kind.get_ref());
                ensure!(CHANGE_KINDS.contains(&kind.get_ref().as_str()), at(kind.span(), &message));
            }
            Ok(Watch::Changes(changes.iter().map(|kind| kind.get_ref().clone()).collect()))
        }
        (None, Some(written), None) => {
            ensure!(!written.is_empty(), wrong("`slo` is empty"));
            let mut slos = Vec::new();
            for text in written {
                let slo = Slo::parse(text.get_ref())
                    .map_err(|error| at(text.span(), &format!("{} (column {})", error.message, error.column)))?;
                let known = PROBE_METRICS.map(tokrate_record::Metric::name).join(", ");
                let message = format!("a probe has no `{}` of its own; there are {known}", slo.metric.name());
                ensure!(PROBE_METRICS.contains(&slo.metric), at(text.span(), &message));
                slos.push(slo);
            }
            Ok(Watch::Objectives(slos))
        }
        (None, None, Some(written)) => {
            let silence = reading.span(Some(written), MIN_SILENCE)?;
            ensure!(
                silence >= MIN_SILENCE,
                at(written.span(), "probers are looked at every ten minutes; write 20m or more")
            );
            Ok(Watch::Silence(silence.as_nanos() / 1_000_000))
        }
        _ => bail!(wrong("it is about one of `changes`, `slo` and `silent`; leave out the others")),
    }
}
