//! docs/recorded.md: every recorded exchange by its source, and what becomes of it. `cargo xtask docs` writes the page; the test here
//! fails when it is not what the code says.
//!
//! Invariant: every file of the fixtures is in the list, with what is read of it or the reason why nothing is.

use crate::dialects::decoded;
use crate::recorded::{own, shared};
use crate::translate_answers::translated;
use crate::translate_recorded::{answers, asked, asked_here, fixture, recording};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use tokrate_wire::{Dialect, InvokeAnswer, Progress, Shape, decode_error_response, decode_request, translate_request};

const PAGE: &str = "../../docs/recorded.md";
/// Between what every checkout can check and what needs recordings that may not be in one.
const OUTSIDE: &str = "## Recordings outside of the repository";

/// Where exchanges are from: the folder below the fixtures, and who made them.
const SOURCES: [(&str, &str); 11] = [
    (
        "recorded/requests",
        "asked by the published SDKs of OpenAI, Anthropic, Google and Ollama, recorded by this project (`tests/sdk/record.py`)",
    ),
    (
        "recorded/sim",
        "said by the simulated engine, recorded by this project (`TOKRATE_RECORD=1 cargo nextest run -p tokrate-host recordings`)",
    ),
    (
        "recorded/scripted",
        "said by the scripted provider of `tests/sdk/upstream`, which shares no code with `wire`; recorded by this project",
    ),
    ("llama-server", "said by llama.cpp's server, recorded by this project (its README says which)"),
    ("anthropic", "written by hand after Anthropic's reference"),
    ("gemini", "written by hand after Google's reference"),
    ("llama-completion", "written by hand after llama.cpp's reference"),
    ("ollama", "written by hand after Ollama's reference"),
    ("openai-completions", "written by hand after OpenAI's reference"),
    ("openai-responses", "written by hand after OpenAI's reference"),
    ("", "written by hand in the manner of vLLM, SGLang, llama.cpp, Groq, OpenRouter and OpenAI"),
];
/// The same of those outside of the repository.
const OUTSIDE_SOURCES: [(&str, &str); 2] = [
    (
        "gomodel",
        "said by OpenAI, Anthropic, Gemini, Groq and xAI; ENTERPILOT/GoModel 26fbd1, `tests/contract/testdata` (April 2026, MIT)",
    ),
    (
        "agentgateway",
        "said by providers and asked by clients; agentgateway/agentgateway 75b4e6c, `crates/llm/src/tests` (August 2026, Apache-2.0)",
    ),
];

/// What a file is.
enum Kind {
    Answer(Dialect, Shape),
    Request(Dialect),
    /// A stream of Anthropic's on Bedrock's Invoke.
    Invoked,
    /// An error in place of an answer, with its status.
    Refusal(u16),
    /// Nothing that `wire` reads, and why.
    Unread(&'static str),
    /// No exchange.
    Note,
}

/// A row of the page: what a file is, what is read of it, and into how many other dialects it is put.
struct Row {
    name: String,
    what: String,
    passes: bool,
    result: String,
    elsewhere: String,
}

fn shape_of(path: &str) -> Shape {
    let is_stream = [".sse", ".txt", ".ndjson", ".bin"].iter().any(|end| path.ends_with(end))
        || path.contains("/stream")
        || path.contains("_stream");
    if is_stream { Shape::Stream } else { Shape::Whole }
}

/// What a file of the repository is.
fn kind_here(path: &str) -> Kind {
    let name = path.rsplit('/').next().unwrap_or_default();
    let statuses = [
        ("400", 400),
        ("401", 401),
        ("404", 404),
        ("429", 429),
        ("500", 500),
        ("context", 400),
        ("no-messages", 400),
        ("not-found", 404),
        ("not-json", 500),
        ("unauthorized", 401),
    ];
    let is_refusal = name.contains("refused-") || name.contains("error-") && !name.contains("error-inside");
    match () {
        () if name.ends_with(".md") || name.starts_with('.') => Kind::Note,
        () if name.ends_with(".http") => Kind::Unread("an exchange with its framing, for the tests of `net`"),
        () if name == "models.json" => Kind::Unread("a list of models, which the gateway answers by itself"),
        () if is_refusal => {
            let status = statuses.iter().find(|(part, _)| name.contains(part)).map_or(400, |(_, status)| *status);
            Kind::Refusal(status)
        }
        () => match (asked_here(path), fixture(path)) {
            (Some(dialect), _) => Kind::Request(dialect),
            (None, Some(dialect)) => Kind::Answer(dialect, shape_of(path)),
            (None, None) => Kind::Unread("no dialect claims it"),
        },
    }
}

/// What a recording outside of the repository is.
fn kind_outside(path: &str) -> Kind {
    let part = |part: &str| path.contains(part);
    let bedrock = part("/bedrock/") && !part("rerank") || part("detect/bedrock-basic") || part("detect/bedrock-broken");
    match () {
        () if part("/embeddings")
            || part("embeddings.json")
            || part("rerank")
            || part("count-tokens")
            || part("count_tokens") =>
        {
            Kind::Unread("passes byte for byte (the whole API)")
        }
        () if part("models.json") => Kind::Unread("a list of models, which the gateway answers by itself"),
        () if part("/policies/") => Kind::Unread("a request with another gateway's own policies"),
        () if part("bedrock-invoke") => Kind::Invoked,
        () if part("stream-image-generation") => {
            Kind::Unread("events of the making of pictures, which pass byte for byte (the whole API)")
        }
        () if bedrock => Kind::Answer(Dialect::BedrockConverse, shape_of(path)),
        () if part("/detect/") => Kind::Answer(Dialect::OpenAiChat, Shape::Stream),
        () => match (asked(path), recording(path)) {
            (Some(dialect), _) => Kind::Request(dialect),
            (None, Some(dialect)) => Kind::Answer(dialect, shape_of(path)),
            (None, None) => Kind::Unread("no exchange in a dialect of `wire`"),
        },
    }
}

fn row_of(name: String, kind: &Kind, body: &[u8]) -> Option<Row> {
    if matches!(kind, Kind::Invoked) {
        let (mut answer, mut out) = (InvokeAnswer::new(200, "application/vnd.amazon.eventstream"), Vec::new());
        answer.push(body, &mut out);
        answer.end(&mut out);
        let row = row_of(name, &Kind::Answer(Dialect::Anthropic, Shape::Stream), &out)?;
        return Some(Row { what: "answer, anthropic by Bedrock's Invoke, streamed".to_owned(), ..row });
    }
    let row = |what: String, passes: bool, result: String, elsewhere: String| {
        Some(Row { name, what, passes, result, elsewhere })
    };
    match kind {
        Kind::Note | Kind::Invoked => None,
        Kind::Unread(why) => row("other".to_owned(), false, (*why).to_owned(), String::new()),
        Kind::Refusal(status) => {
            let refusal = decode_error_response(*status, &[], body, None);
            row(
                format!("refusal, {status}"),
                true,
                format!("{}: {}", refusal.kind.name(), short(&refusal.message)),
                String::new(),
            )
        }
        Kind::Request(dialect) => {
            let what = format!("request, {}", dialect.name());
            let routed = Dialect::of_path(&dialect.path("m", Shape::Stream)).expect("a path");
            match decode_request(&routed, body) {
                Ok(_) => row(what, true, "read".to_owned(), request_elsewhere(*dialect, body)),
                Err(error) => row(what, false, short(&error.to_string()), String::new()),
            }
        }
        Kind::Answer(dialect, shape) => {
            let reply = decoded(*dialect, *shape, body);
            let is_something = !reply.answer.is_empty()
                || !reply.reasoning.is_empty()
                || !reply.calls.is_empty()
                || reply.finish.is_some()
                || reply.opaque
                || reply.done > 0;
            let finish = reply.finish.map_or("no reason".to_owned(), |finish| format!("{finish:?}").to_lowercase());
            let mut odd: BTreeMap<&str, usize> = BTreeMap::new();
            reply.trouble.iter().for_each(|trouble| *odd.entry(trouble).or_default() += 1);
            let odd: Vec<String> = odd
                .iter()
                .map(|(what, count)| if *count > 1 { format!("{what} x{count}") } else { (*what).to_owned() })
                .collect();
            let told = if odd.is_empty() { String::new() } else { format!("; told: {}", short(&odd.join(", "))) };
            let delivery = if *shape == Shape::Whole { "whole" } else { "streamed" };
            let what = format!("answer, {}, {delivery}", dialect.name());
            match is_something || !odd.is_empty() {
                true => row(what, true, format!("{finish}{told}"), answer_elsewhere(*dialect, *shape, body)),
                false => row(what, false, "nothing is read of it".to_owned(), String::new()),
            }
        }
    }
}

/// Into how many other dialects an answer is put, and which not.
fn answer_elsewhere(from: Dialect, shape: Shape, body: &[u8]) -> String {
    let others = Dialect::ALL.into_iter().filter(|to| *to != from);
    let complete = |to: &Dialect| translated(from, *to, shape, true, &[body]).1 == Progress::Complete;
    counted(others.map(|to| (to, if complete(&to) { None } else { Some(String::new()) })))
}

/// The same of a request, with the fields that are named.
fn request_elsewhere(from: Dialect, body: &[u8]) -> String {
    let routed = Dialect::of_path(&from.path("m", Shape::Stream)).expect("a path");
    let others = Dialect::ALL.into_iter().filter(|to| *to != from);
    counted(others.map(|to| {
        let error = translate_request(&routed, to, "alias", body).err();
        (to, error.map(|error| format!(" (`{}`)", error.field)))
    }))
}

fn counted(others: impl Iterator<Item = (Dialect, Option<String>)>) -> String {
    let (mut put, mut not) = (0, Vec::new());
    for (to, why) in others {
        match why {
            None => put += 1,
            Some(why) => not.push(format!("{}{why}", to.name())),
        }
    }
    match not.len() {
        0 => format!("all {put}"),
        _ if put == 0 => "none".to_owned(),
        _ => format!("{put}; not {}", not.join(", ")),
    }
}

/// A text for a cell of a table.
fn short(text: &str) -> String {
    let plain = text.replace(['|', '\n', '\r', '`'], " ");
    plain.chars().take(100).collect()
}

fn section(text: &mut String, root: &Path, sources: &[(&str, &str)], kind: impl Fn(&str) -> Kind) {
    let files: Vec<(PathBuf, Vec<u8>)> =
        answers(root, |_| Some(Dialect::OpenAiChat)).into_iter().map(|(path, _, body)| (path, body)).collect();
    let mut summary = String::new();
    let mut tables = String::new();
    for (folder, made) in sources {
        let is_of = |path: &Path| {
            let below = path.strip_prefix(root).expect("below it").to_str().expect("text").to_owned();
            let longer =
                |other: &&(&str, &str)| other.0.len() > folder.len() && below.starts_with(&format!("{}/", other.0));
            let is_below = folder.is_empty() || below.starts_with(&format!("{folder}/"));
            (is_below && !sources.iter().any(|other| longer(&other))).then_some(below)
        };
        let rows: Vec<Row> = files
            .iter()
            .filter_map(|(path, body)| {
                let below = is_of(path)?;
                let name = below.strip_prefix(folder).unwrap_or(&below).trim_start_matches('/').to_owned();
                row_of(name, &kind(path.to_str().expect("text")), body)
            })
            .collect();
        if rows.is_empty() {
            continue;
        }
        let passed = rows.iter().filter(|row| row.passes).count();
        let title = if folder.is_empty() { "`fixtures`".to_owned() } else { format!("`{folder}`") };
        let _ = writeln!(summary, "| {title} | {made} | {} | {passed} | {} |", rows.len(), rows.len() - passed);
        let _ = writeln!(
            tables,
            "\n### {title}\n\n| exchange | what | read as, or the reason | in other dialects |\n|---|---|---|---|"
        );
        for Row { name, what, passes, result, elsewhere } in rows {
            let result = if passes { result } else { format!("**not read**: {result}") };
            let _ = writeln!(tables, "| `{name}` | {what} | {result} | {elsewhere} |");
        }
    }
    let _ = write!(
        text,
        "| source | who said it | exchanges | read | not read |\n|---|---|---|---|---|\n{summary}{tables}"
    );
}

#[test]
fn the_files_in_docs_are_those_of_the_code() {
    let mut page = "# Recorded exchanges\n\n\
        Every exchange that the tests of `wire` read, by its source: what is read of it, or why nothing is. *Told* are the oddities that are counted\n\
        ([glossary](glossary.md)); *in other dialects* says into how many of the other dialects the answer or the request is put, and which not (of a\n\
        request with the field that the other dialect has no place for). Written by `cargo xtask docs`, held against the code by a test.\n\n\
        ## In the repository\n\n\
        Below `crates/wire/tests/fixtures`.\n\n"
        .to_owned();
    section(&mut page, &own(""), &SOURCES, kind_here);
    let _ = write!(
        page,
        "\n{OUTSIDE}\n\nThey may not be copied; the tests read them where they lie beside the repository, and this part of the page is held\nagainst the code there only.\n\n"
    );
    let known = std::fs::read_to_string(PAGE).unwrap_or_default();
    match shared() {
        Some(folder) => section(&mut page, &folder, &OUTSIDE_SOURCES, kind_outside),
        // As it was written where they are.
        None => page.push_str(
            known.split_once(OUTSIDE).and_then(|(_, rest)| rest.split_once("only.\n\n")).map_or("", |(_, rest)| rest),
        ),
    }
    if std::env::var_os("TOKRATE_WRITE_DOCS").is_some() {
        std::fs::write(PAGE, &page).unwrap();
    }
    let known = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(page == known, "docs/recorded.md is not what the code says: run `cargo xtask docs`");
}
