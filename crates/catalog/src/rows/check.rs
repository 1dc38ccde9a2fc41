//! Checks rows.
//!
//! Invariant: every finding names the position and what was expected there.

use super::{EndpointRow, Findings, PriceFile, PriceRow, ProviderFile, ProviderRow};
use toml::Spanned;

/// Known deviations of an endpoint from its dialect.
const QUIRKS: &[&str] =
    &["max_tokens_field", "no_stream_options", "ignore_eos", "half_price_batches", "on_vertex", "on_bedrock"];
/// Known sources of credentials that expire.
const CREDENTIALS: &[&str] = &["aws", "entra", "google"];
/// Known families of metric names.
const METRICS: &[&str] = &["vllm", "sglang", "tgi", "llama-cpp", "trtllm"];
/// What a provider's model is taken for.
const ROLES: &[&str] = &["reason", "fast", "apply"];
/// Upper limit of a plausible price.
const MAX_USD_PER_MILLION: f64 = 10_000.0;

type Text = Spanned<String>;

pub(super) fn providers(file: &ProviderFile, findings: &mut Findings<'_>) {
    let mut names: Vec<&str> = Vec::new();
    for row in &file.provider {
        let row = row.get_ref();
        let name = row.name.get_ref().as_str();
        let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        expect(findings, &row.name, !name.is_empty() && name.bytes().all(word), "a name of a-z, 0-9 and `-`");
        expect(findings, &row.name, !names.contains(&name), "a name that no other row has");
        names.push(name);
        expect(findings, &row.title, !row.title.get_ref().trim().is_empty(), "a title");
        provenance(&row.source, &row.date, findings);
        let names = row.variables.iter().flat_map(|variable| variable.also.iter().chain([&variable.name]));
        for variable in row.key_env.iter().chain(names) {
            expect(findings, variable, is_variable(variable.get_ref()), "an environment variable of A-Z, 0-9 and `_`");
        }
        for variable in &row.variables {
            let meaning = variable.meaning.get_ref().trim();
            expect(findings, &variable.meaning, !meaning.is_empty(), "what the variable holds");
        }
        kind(row, findings);
        endpoints(row, findings);
        probes(row, findings);
    }
}

fn kind(row: &ProviderRow, findings: &mut Findings<'_>) {
    match row.kind.get_ref().as_str() {
        "hosted" => {
            let keyed = !row.key_env.is_empty();
            expect(findings, &row.kind, keyed, "key_env, because a hosted provider wants a key");
            let elsewhere = row.usual_ports.is_empty() && row.probes.is_empty() && row.metrics.is_none();
            expect(findings, &row.kind, elsewhere, "no usual_ports, probes and metrics; those are of local engines");
        }
        "local" => {
            expect(findings, &row.kind, !row.usual_ports.is_empty(), "usual_ports, because the engine is looked for");
            expect(findings, &row.kind, !row.probes.is_empty(), "probes, because the engine must be recognised");
        }
        _ => expect(findings, &row.kind, false, "\"hosted\" or \"local\""),
    }
}

fn endpoints(row: &ProviderRow, findings: &mut Findings<'_>) {
    expect(findings, &row.name, !row.endpoint.is_empty(), "at least one [[provider.endpoint]]");
    let mut dialects: Vec<&str> = Vec::new();
    for endpoint in &row.endpoint {
        let endpoint = endpoint.get_ref();
        let dialect = endpoint.dialect.get_ref().as_str();
        let word = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
        let named = !dialect.is_empty() && dialect.bytes().all(word);
        expect(findings, &endpoint.dialect, named, "the name of a dialect, such as \"openai-chat\"");
        expect(findings, &endpoint.dialect, !dialects.contains(&dialect), "one endpoint for each dialect");
        dialects.push(dialect);
        base(row, endpoint, findings);
        let auth = endpoint.auth.get_ref().as_str();
        let header = auth.strip_prefix("header ").is_some_and(is_header_name);
        expect(
            findings,
            &endpoint.auth,
            header || ["bearer", "none"].contains(&auth),
            "\"bearer\", \"none\" or \"header NAME\"",
        );
        if let Some(named) = &endpoint.credentials {
            let known = CREDENTIALS.contains(&named.get_ref().as_str());
            expect(findings, named, known, &format!("one of {CREDENTIALS:?}"));
        }
        for line in &endpoint.headers {
            let good =
                line.get_ref().split_once(": ").is_some_and(|(name, value)| is_header_name(name) && !value.is_empty());
            expect(findings, line, good, "a header as \"name: value\", the name in lower case");
        }
        for quirk in &endpoint.quirks {
            expect(findings, quirk, QUIRKS.contains(&quirk.get_ref().as_str()), &format!("one of {QUIRKS:?}"));
        }
    }
}

fn base(row: &ProviderRow, endpoint: &EndpointRow, findings: &mut Findings<'_>) {
    let base = endpoint.base.get_ref().as_str();
    let clean = !base.ends_with('/') && !base.contains(['?', '#', '@', ' ']);
    expect(findings, &endpoint.base, clean, "a base URL without `/` at its end, query, fragment and credentials");
    for text in [Some(&endpoint.base), endpoint.query.as_ref()].into_iter().flatten() {
        let mut rest = text.get_ref().as_str();
        while let Some((_, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').unwrap_or((after, ""));
            let declared = row.variables.iter().any(|variable| variable.name.get_ref() == name);
            expect(findings, text, declared || name == "model", "every {NAME} of the base among `variables`");
            rest = after;
        }
    }
    if let Some(query) = &endpoint.query {
        let clean = !query.get_ref().contains(['?', '#', '&', ' ']) && query.get_ref().contains('=');
        expect(findings, query, clean, "a query as name=value, without `?`");
    }
    let good = match (row.kind.get_ref().as_str(), row.usual_ports.first()) {
        ("local", Some(port)) => {
            let loopback = format!("http://127.0.0.1:{port}");
            base.strip_prefix(&loopback).is_some_and(|path| path.is_empty() || path.starts_with('/'))
        }
        _ => base.starts_with('{') || base.strip_prefix("https://").is_some_and(|host| !host.is_empty()),
    };
    let expected = "https://… for a hosted provider, http://127.0.0.1:PORT… with the first usual port for a local one";
    expect(findings, &endpoint.base, good, expected);
}

fn probes(row: &ProviderRow, findings: &mut Findings<'_>) {
    for probe in &row.probes {
        expect(findings, &probe.path, probe.path.get_ref().starts_with('/'), "a path that begins with `/`");
        match (&probe.pointer, &probe.header) {
            (Some(pointer), None) => {
                let good = pointer.get_ref().starts_with('/');
                expect(findings, pointer, good, "a JSON pointer, such as \"/data/0/owned_by\"");
            }
            (None, Some(header)) => {
                expect(findings, header, is_header_name(header.get_ref()), "a header's name in lower case");
            }
            _ => expect(findings, &probe.path, false, "either `pointer` or `header` beside it"),
        }
    }
    if let Some(metrics) = &row.metrics {
        let known = METRICS.contains(&metrics.family.get_ref().as_str());
        expect(findings, &metrics.family, known, &format!("one of {METRICS:?}"));
        expect(findings, &metrics.path, metrics.path.get_ref().starts_with('/'), "a path that begins with `/`");
    }
}

pub(super) fn prices(file: &PriceFile, providers: &ProviderFile, findings: &mut Findings<'_>) {
    let mut priced: Vec<(&str, &str)> = Vec::new();
    for row in &file.price {
        let row = row.get_ref();
        let (provider, model) = (row.provider.get_ref().as_str(), row.model.get_ref().as_str());
        let known = providers.provider.iter().any(|other| other.get_ref().name.get_ref() == provider);
        expect(findings, &row.provider, known, "the name of a row of providers.toml");
        expect(findings, &row.model, !model.trim().is_empty(), "the name of a model");
        expect(findings, &row.model, !priced.contains(&(provider, model)), "one price for a model of a provider");
        priced.push((provider, model));
        common_name(file, row, findings);
        role(file, row, findings);
        let of_sound = [&row.audio_input, &row.audio_cached, &row.audio_output].map(Option::as_ref);
        let of_text = [Some(&row.input), Some(&row.output), row.cached.as_ref()];
        for number in of_text.into_iter().chain(of_sound).flatten() {
            let good = (0.0..=MAX_USD_PER_MILLION).contains(number.get_ref());
            let expected = "US dollars per million tokens, between 0 and 10,000";
            note(findings, number.span(), good, expected, &number.get_ref().to_string());
        }
        if let Some(cached) = &row.cached {
            let good = cached.get_ref() <= row.input.get_ref();
            note(findings, cached.span(), good, "at most the price of other input", &cached.get_ref().to_string());
        }
        provenance(&row.source, &row.date, findings);
    }
}

/// A name that only one row has joins nothing, and two rows of one provider are two models.
fn common_name(file: &PriceFile, row: &PriceRow, findings: &mut Findings<'_>) {
    let Some(text) = &row.common_name else { return };
    let name = text.get_ref().as_str();
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    expect(findings, text, !name.is_empty() && name.bytes().all(word), "a name of a-z, 0-9, `-` and `.`");
    let named = |other: &&Spanned<PriceRow>| {
        other.get_ref().common_name.as_ref().is_some_and(|common| common.get_ref() == name)
    };
    let providers = || file.price.iter().filter(named).map(|other| other.get_ref().provider.get_ref());
    let own = providers().filter(|provider| *provider == row.provider.get_ref()).count();
    expect(findings, text, own == 1, "a name that no other model of the provider has");
    expect(findings, text, providers().count() > 1, "a name that a row of another provider has too");
}

fn role(file: &PriceFile, row: &PriceRow, findings: &mut Findings<'_>) {
    let Some(text) = &row.role else { return };
    expect(findings, text, ROLES.contains(&text.get_ref().as_str()), &format!("one of {ROLES:?}"));
    let own = |other: &&Spanned<PriceRow>| {
        other.get_ref().role.is_some() && other.get_ref().provider.get_ref() == row.provider.get_ref()
    };
    expect(findings, text, file.price.iter().filter(own).count() == 1, "one model of a provider with a role");
}

fn provenance(source: &Text, date: &Text, findings: &mut Findings<'_>) {
    let url = source.get_ref().strip_prefix("https://").is_some_and(|rest| rest.contains('.') && !rest.contains(' '));
    expect(findings, source, url, "the https:// address where this is written");
    expect(findings, date, is_date(date.get_ref()), "a day as YYYY-MM-DD");
}

fn is_variable(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_uppercase())
        && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

fn is_header_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// Whether a text is a valid date.
fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else { return false };
    let number = |part: &str, digits: usize| {
        (part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit())).then(|| part.parse::<u32>().ok())?
    };
    let (Some(year), Some(month), Some(day)) = (number(year, 4), number(month, 2), number(day, 2)) else {
        return false;
    };
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => return false,
    };
    (2000..2100).contains(&year) && (1..=days).contains(&day)
}

fn expect(findings: &mut Findings<'_>, text: &Text, good: bool, expected: &str) {
    note(findings, text.span(), good, expected, &format!("{:?}", text.get_ref()));
}

fn note(findings: &mut Findings<'_>, place: std::ops::Range<usize>, good: bool, expected: &str, found: &str) {
    if !good {
        findings.add(place, &format!("found {found}, expected {expected}"));
    }
}
