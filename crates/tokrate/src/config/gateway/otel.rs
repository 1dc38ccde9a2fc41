//! `[gateway.otel]` and the variables that OpenTelemetry's SDKs read: where metrics and traces are exported to.
//!
//! Invariant: no value of a header is shown, in no error either.

use super::EffectiveConfig;
use super::rows::OtelRow;
use crate::config::quantity;
use anyhow::{Context, Result, anyhow, ensure};
use http::HeaderMap;
use std::collections::BTreeMap;
use tokrate_catalog::Auth;
use tokrate_core::Span;
use tokrate_gateway::{OtelConfig, TracesConfig};
use tokrate_net::Target;
use tokrate_targets::{KeyReference, Variables, header, key_header};

/// Where a collector of this machine listens for OTLP over HTTP.
const ENDPOINT: &str = "http://localhost:4318";
/// More often, and a collector would be busy with one gateway.
const MIN_INTERVAL: Span = Span::from_secs(1);

const ENDPOINT_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const HEADERS_VARIABLE: &str = "OTEL_EXPORTER_OTLP_HEADERS";
const RESOURCE_VARIABLE: &str = "OTEL_RESOURCE_ATTRIBUTES";
const NAME_VARIABLE: &str = "OTEL_SERVICE_NAME";
const METRICS_VARIABLE: &str = "OTEL_METRICS_EXPORTER";
const TRACES_VARIABLE: &str = "OTEL_TRACES_EXPORTER";
const SAMPLER_VARIABLE: &str = "OTEL_TRACES_SAMPLER";
const RATIO_VARIABLE: &str = "OTEL_TRACES_SAMPLER_ARG";

/// The export, if the table or the variable of the endpoint is set.
pub fn otel(
    row: Option<&OtelRow>,
    variables: Variables<'_>,
    effective: &mut EffectiveConfig,
) -> Result<Option<OtelConfig>> {
    if row.is_none() && variables(ENDPOINT_VARIABLE).is_none() {
        return Ok(None);
    }
    export(&row.cloned().unwrap_or_default(), variables, effective).map(Some)
}

fn export(row: &OtelRow, variables: Variables<'_>, effective: &mut EffectiveConfig) -> Result<OtelConfig> {
    let named = (ENDPOINT_VARIABLE, variables(ENDPOINT_VARIABLE));
    let endpoint = effective.pick("otel.endpoint", named, row.endpoint.clone(), ENDPOINT)?;
    let endpoint = Target::parse(&endpoint).map_err(|error| anyhow!("understand gateway.otel.endpoint: {error}"))?;
    let headers = headers(row, variables, effective)?;
    let interval = effective.span("otel.interval", row.interval.as_deref(), OtelConfig::INTERVAL)?;
    quantity::at_least(MIN_INTERVAL, interval).context("read gateway.otel.interval")?;
    let resource = resource(row, variables, effective)?;
    let metrics = is_exported("otel.metrics", METRICS_VARIABLE, row.metrics, variables, effective)?;
    let traces = is_exported("otel.traces", TRACES_VARIABLE, row.traces, variables, effective)?;
    let traces = if traces { Some(traces_config(row, variables, effective)?) } else { None };
    Ok(OtelConfig { endpoint, headers, interval, metrics, traces, resource })
}

/// Whether a signal is exported; of the exporters that its variable can name, this is `otlp`.
fn is_exported(
    key: &str,
    variable: &'static str,
    row: Option<bool>,
    variables: Variables<'_>,
    effective: &mut EffectiveConfig,
) -> Result<bool> {
    let named = variables(variable).map(|exporter| match exporter.trim() {
        "none" => Ok(false),
        "otlp" => Ok(true),
        _ => Err(anyhow!("read {variable}: `none` or `otlp`")),
    });
    effective.pick(key, (variable, named.transpose()?), row, true)
}

/// Which traces are kept, and whether lanes hear of them.
fn traces_config(row: &OtelRow, variables: Variables<'_>, effective: &mut EffectiveConfig) -> Result<TracesConfig> {
    let named = sampled_share(variables)?;
    let ratio = effective.pick("otel.trace_ratio", (SAMPLER_VARIABLE, named), row.trace_ratio, 1.0)?;
    ensure!((0.0..=1.0).contains(&ratio), "read gateway.otel.trace_ratio: it is a share, 0 to 1");
    let slow = row.trace_slow.as_deref().map(|text| effective.span("otel.trace_slow", Some(text), Span::ZERO));
    let propagate = effective.pick("otel.propagate", ("", None), row.propagate, false)?;
    Ok(TracesConfig { ratio, slow: slow.transpose()?, propagate })
}

/// The share that the variables of the sampler name. With each of them the word of a caller that has decided counts.
fn sampled_share(variables: Variables<'_>) -> Result<Option<f64>> {
    let Some(sampler) = variables(SAMPLER_VARIABLE) else { return Ok(None) };
    let share = || match variables(RATIO_VARIABLE) {
        None => Ok(1.0),
        Some(text) => text.trim().parse().map_err(|_| anyhow!("read {RATIO_VARIABLE}: it is a share, 0 to 1")),
    };
    match sampler.trim() {
        "always_on" | "parentbased_always_on" => Ok(Some(1.0)),
        "always_off" | "parentbased_always_off" => Ok(Some(0.0)),
        "traceidratio" | "parentbased_traceidratio" => share().map(Some),
        _ => {
            Err(anyhow!("read {SAMPLER_VARIABLE}: always_on, always_off or traceidratio, each also with parentbased_"))
        }
    }
}

/// The headers of every request, marked so that they are never shown.
fn headers(row: &OtelRow, variables: Variables<'_>, effective: &mut EffectiveConfig) -> Result<HeaderMap> {
    let (pairs, origin) = match variables(HEADERS_VARIABLE) {
        Some(text) => (pairs(HEADERS_VARIABLE, &text)?, HEADERS_VARIABLE.to_owned()),
        None => (row.headers.clone(), effective.file_origin()),
    };
    let understanding = "understand gateway.otel";
    let mut headers = HeaderMap::new();
    if let Some(key) = KeyReference::first(&row.key_env, &row.key_file, &row.key_cmd) {
        let key = key.fetch(variables).context(understanding)?;
        let (name, value) = match &row.key_header {
            None => key_header(Auth::Bearer, &key)?,
            Some(name) => header(name, key.reveal()).context(understanding)?,
        };
        headers.insert(name, value);
    }
    for (name, value) in &pairs {
        let (name, value) = header(name, value).context(understanding)?;
        headers.insert(name, value);
    }
    for name in headers.keys() {
        effective.note("otel.headers", format!("{name}: ***"), origin.clone());
    }
    Ok(headers)
}

/// Attributes of the resource: those of the file, over them those of the environment.
fn resource(row: &OtelRow, variables: Variables<'_>, effective: &mut EffectiveConfig) -> Result<Vec<(String, String)>> {
    let mut resource = BTreeMap::new();
    let file = effective.file_origin();
    resource.extend(row.resource.iter().map(|(key, value)| (key.clone(), (value.clone(), file.clone()))));
    if let Some(text) = variables(RESOURCE_VARIABLE) {
        let named = pairs(RESOURCE_VARIABLE, &text)?;
        resource.extend(named.into_iter().map(|(key, value)| (key, (value, RESOURCE_VARIABLE.to_owned()))));
    }
    if let Some(name) = variables(NAME_VARIABLE) {
        resource.insert("service.name".to_owned(), (name, NAME_VARIABLE.to_owned()));
    }
    for (key, (value, origin)) in &resource {
        effective.note("otel.resource", format!("{key}={value}"), origin.clone());
    }
    Ok(resource.into_iter().map(|(key, (value, _))| (key, value)).collect())
}

/// `name=value,name=value`, percent-encoded, as OpenTelemetry writes lists in variables.
fn pairs(variable: &str, text: &str) -> Result<BTreeMap<String, String>> {
    let pair = |(number, part): (usize, &str)| {
        // What stands there may be a key.
        let refused = || format!("read {variable}: its part {} is not name=value, percent-encoded", number + 1);
        let (name, value) = part.split_once('=').with_context(refused)?;
        let name = decoded(name.trim()).filter(|name| !name.is_empty()).with_context(refused)?;
        Ok((name, decoded(value.trim()).with_context(refused)?))
    };
    text.split(',').enumerate().filter(|(_, part)| !part.trim().is_empty()).map(pair).collect()
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digits =
            std::str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use std::path::PathBuf;

    fn effective() -> EffectiveConfig {
        EffectiveConfig { file: PathBuf::from("tokrate.toml"), values: Vec::new() }
    }

    fn row(text: &str) -> OtelRow {
        toml::from_str(text).expect("a table")
    }

    fn of(row: &OtelRow, variables: &[(&str, &str)]) -> (Result<OtelConfig>, Vec<String>) {
        let variable =
            |wanted: &str| variables.iter().find(|(name, _)| *name == wanted).map(|(_, value)| (*value).to_owned());
        let mut effective = effective();
        let config = export(row, &variable, &mut effective);
        (config, effective.values.iter().map(|row| format!("{}  {}   ({})", row.key, row.value, row.origin)).collect())
    }

    #[test]
    fn variables_win_over_the_file_and_that_over_the_defaults() {
        let (config, shown) = of(&OtelRow::default(), &[]);
        let config = config.expect("nothing is needed");
        assert_eq!((config.endpoint.to_string(), config.interval), (ENDPOINT.to_owned(), Span::from_secs(60)));
        assert!(config.headers.is_empty() && config.resource.is_empty());
        assert_eq!(
            shown,
            [
                "gateway.otel.endpoint  http://localhost:4318   (default)".to_owned(),
                format!("gateway.otel.interval  {}   (default)", Span::from_secs(60)),
                "gateway.otel.metrics  true   (default)".to_owned(),
                "gateway.otel.traces  true   (default)".to_owned(),
                "gateway.otel.trace_ratio  1   (default)".to_owned(),
                "gateway.otel.propagate  false   (default)".to_owned(),
            ]
        );
        assert_eq!((config.metrics, config.traces), (true, Some(TracesConfig::default())));
        let text = "endpoint = \"https://a.example/otlp\"\ninterval = \"15s\"\nheaders = { x-key = \"sk-file\" }\n\
                    resource = { \"service.name\" = \"mine\", \"host.name\" = \"h\" }";
        let variables = [
            (ENDPOINT_VARIABLE, "http://collector:4318/"),
            (HEADERS_VARIABLE, "x-other=Basic%20sk-variable, y = 2"),
            (NAME_VARIABLE, "theirs"),
            (RESOURCE_VARIABLE, "deployment.environment.name=a%2Cb"),
        ];
        let (config, shown) = of(&row(text), &variables);
        let config = config.expect("all is understood");
        assert_eq!(config.headers["x-other"], "Basic sk-variable");
        assert!(config.headers.values().all(HeaderValue::is_sensitive) && config.headers.len() == 2);
        let resource: Vec<String> = config.resource.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(resource, ["deployment.environment.name=a,b", "host.name=h", "service.name=theirs"]);
        insta::assert_snapshot!(shown.join("\n"));
    }

    #[test]
    fn each_signal_can_be_left_out_and_traces_thinned_out() {
        let text = "metrics = false\ntrace_ratio = 0.25\ntrace_slow = \"10s\"\npropagate = true";
        let expected = TracesConfig { ratio: 0.25, slow: Some(Span::from_secs(10)), propagate: true };
        let config = of(&row(text), &[]).0.expect("all is understood");
        assert_eq!((config.metrics, config.traces), (false, Some(expected)));
        let sampler = [(SAMPLER_VARIABLE, "parentbased_traceidratio"), (RATIO_VARIABLE, "0.5")];
        let config = of(&row(text), &sampler).0.expect("the variables win");
        assert_eq!(config.traces, Some(TracesConfig { ratio: 0.5, ..expected }));
        let config = of(&row(text), &[(TRACES_VARIABLE, "none"), (METRICS_VARIABLE, "otlp")]).0.expect("likewise");
        assert_eq!((config.metrics, config.traces), (true, None));
        assert_eq!(of(&row("traces = false"), &[]).0.expect("a table").traces, None);
        for (text, variables) in [
            ("trace_ratio = 1.5", &[][..]),
            ("", &[(SAMPLER_VARIABLE, "jaeger_remote")][..]),
            ("", &[(SAMPLER_VARIABLE, "traceidratio"), (RATIO_VARIABLE, "a half")][..]),
            ("", &[(TRACES_VARIABLE, "zipkin")][..]),
        ] {
            assert!(of(&row(text), variables).0.is_err(), "{text} {variables:?}");
        }
    }

    #[test]
    fn a_key_is_a_bearer_token_or_in_the_header_that_is_named() {
        let (config, _) = of(&row("key_cmd = \"echo sk-1\""), &[]);
        assert_eq!(config.expect("a key").headers["authorization"], "Bearer sk-1");
        let (config, shown) = of(&row("key_cmd = \"echo sk-1\"\nkey_header = \"X-Team\""), &[]);
        assert_eq!(config.expect("a key").headers["x-team"], "sk-1");
        assert!(shown.contains(&"gateway.otel.headers  x-team: ***   (tokrate.toml)".to_owned()), "{shown:?}");
    }

    #[test]
    fn what_is_not_understood_is_refused_without_showing_a_secret() {
        let refused = |text: &str, variables: &[(&str, &str)]| {
            let error = of(&row(text), variables).0.expect_err("it makes no sense");
            let message = format!("{error:#}");
            assert!(!message.contains("sk-"), "{message}");
            message
        };
        assert!(refused("endpoint = \"collector:4317\"", &[]).contains("gateway.otel.endpoint"));
        assert!(refused("interval = \"10ms\"", &[]).contains("write 1s or more"));
        assert!(refused("headers = { x = \"sk-\\n1\" }", &[]).contains("header x"));
        assert!(refused("key_cmd = \"echo sk-1\"\nkey_header = \"a b\"", &[]).contains("`a b`"));
        for text in ["sk-1", "a=1,sk-2", "=sk-3", "a=%zzsk-4", "a=sk-5%", "a=%ffsk-6"] {
            assert!(refused("", &[(HEADERS_VARIABLE, text)]).contains(HEADERS_VARIABLE), "{text}");
        }
    }

    #[test]
    fn the_table_or_the_variable_of_the_endpoint_switches_the_export_on() {
        let variable = |name: &str| (name == ENDPOINT_VARIABLE).then(|| "http://collector:4318".to_owned());
        assert!(otel(Some(&OtelRow::default()), &|_| None, &mut effective()).expect("a table").is_some());
        assert!(otel(None, &variable, &mut effective()).expect("a variable").is_some());
        assert!(otel(None, &|_| None, &mut effective()).expect("nothing").is_none());
    }
}
