//! Recorded work of agents: sessions of model calls that wait for one another, with the time that tools took between them.
//!
//! Invariant: a step waits for earlier steps of its own session only, so that every session comes to an end; what is no model call that
//! can be sent again is counted as left out, never skipped in silence.
//!
//! Layouts, recognised by their fields:
//! - steps: JSON Lines, an object a step, described in docs/load-shapes.md;
//! - spans: OpenTelemetry's OTLP JSON with the `gen_ai.*` attributes of the semantic conventions for generative AI;
//! - Weka: the agentic coding traces of callanjfox/kv-cache-tester, which SemiAnalysis's AgentX and AIPerf replay.

mod followers;
mod spans;
mod steps;
mod weka;

pub use followers::Followers;

use crate::bad_input::{BadInput, hash, shown};
use crate::trace::MAX_TOKENS;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::Range;
use tokrate_core::Span;

/// The layout of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AgentFormat {
    /// An object a step.
    Steps,
    /// OTLP JSON.
    Spans,
    /// A coding session an object.
    Weka,
}

/// Sessions of agents.
#[derive(Clone, PartialEq, Debug)]
pub struct AgentTrace {
    /// How it was written.
    pub format: AgentFormat,
    /// Sessions, in order of their times.
    pub sessions: Vec<Session>,
    /// The steps of all sessions, session by session.
    pub steps: Vec<Step>,
    /// Which of them wait for which.
    pub followers: Followers,
    /// Names of the roles that steps have.
    pub roles: Vec<String>,
    /// Model calls that cannot be sent again, because their lengths are not known.
    pub left_out: u64,
    /// A hash of the whole text.
    pub hash: u64,
}

/// One session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Session {
    /// Its name.
    pub name: String,
    /// When it begins, relative to the first one.
    pub at: Span,
    /// Its steps in [`AgentTrace::steps`]; never none.
    pub steps: Range<u32>,
}

/// One call of a model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Its role in [`AgentTrace::roles`].
    pub role: u32,
    /// The steps of its session that it waits for, by their place there; all of them are before it.
    pub after: Box<[u32]>,
    /// Time from the end of the last of those (or the beginning of the session) until it is sent: tools, and the agent's own.
    pub wait: Span,
    /// Prompt tokens.
    pub input_tokens: u32,
    /// Tokens of the answer.
    pub output_tokens: u32,
    /// Ids of its blocks; equal ids of one session, equal text.
    pub blocks: Box<[u64]>,
    /// Tokens of a block.
    pub block_tokens: u32,
}

/// Most steps of a session: more are a mistake, and would not fit where rows are numbered.
const MAX_STEPS: usize = 1_000_000;

impl AgentFormat {
    /// A name for records.
    pub const fn name(self) -> &'static str {
        match self {
            AgentFormat::Steps => "steps",
            AgentFormat::Spans => "OpenTelemetry spans",
            AgentFormat::Weka => "Weka",
        }
    }
}

impl AgentTrace {
    /// Reads a file.
    ///
    /// # Errors
    /// The position of the first object that cannot be read.
    pub fn parse(text: &str) -> Result<AgentTrace, BadInput> {
        AgentTrace::parse_files(&[text]).map_err(|(_, bad)| bad)
    }

    /// Reads several files as one.
    ///
    /// # Errors
    /// As of [`AgentTrace::parse`], with the number of the file that the position is in.
    pub fn parse_files(files: &[&str]) -> Result<AgentTrace, (usize, BadInput)> {
        let mut builder = Builder::default();
        let mut all_spans = spans::Spans::default();
        let mut format = None;
        for (number, text) in files.iter().enumerate() {
            read_file(text, &mut format, &mut builder, &mut all_spans).map_err(|bad| (number, bad))?;
        }
        all_spans.build(&mut builder);
        let format = format.ok_or_else(|| (0, BadInput::at(1, 1, EXPECTED)))?;
        let whole = match files {
            [one] => hash(one),
            several => hash(&several.iter().map(|text| format!("{:016x}", hash(text))).collect::<String>()),
        };
        builder.finish(format, whole).map_err(|bad| (0, bad))
    }

    /// The steps of a session.
    pub fn steps_of(&self, session: usize) -> &[Step] {
        let Range { start, end } = self.sessions[session].steps;
        &self.steps[start as usize..end as usize]
    }

    /// The first sessions only.
    pub fn limited(mut self, sessions: usize) -> AgentTrace {
        self.sessions.truncate(sessions.max(1));
        let steps = self.sessions.last().map_or(0, |last| last.steps.end);
        self.steps.truncate(steps as usize);
        self
    }

    /// The most steps of one session that may run at once, at least: those that as many others come before.
    pub fn width(&self) -> u32 {
        let width = |session: usize| {
            let mut depths: Vec<usize> = Vec::new();
            let mut wide: BTreeMap<usize, u32> = BTreeMap::new();
            for step in self.steps_of(session) {
                let depth = step.after.iter().map(|&before| depths[before as usize] + 1).max().unwrap_or(0);
                depths.push(depth);
                *wide.entry(depth).or_default() += 1;
            }
            wide.into_values().max().unwrap_or(1)
        };
        (0..self.sessions.len()).map(width).max().unwrap_or(1)
    }

    /// Whether sessions have times of their own.
    pub fn has_times(&self) -> bool {
        self.sessions.iter().any(|session| session.at > Span::ZERO)
    }
}

const EXPECTED: &str = "an agent's steps (`session`, `input_tokens`, `output_tokens`), spans (`resourceSpans`) or a Weka trace (`requests`, `block_size`)";

/// Reads the objects of one file; all files have one layout.
fn read_file(
    text: &str,
    format: &mut Option<AgentFormat>,
    builder: &mut Builder,
    all_spans: &mut spans::Spans,
) -> Result<(), BadInput> {
    let content = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut values = serde_json::Deserializer::from_str(content).into_iter::<Value>();
    loop {
        let byte = values.byte_offset();
        let Some(value) = values.next() else { return Ok(()) };
        let value = value.map_err(|error| BadInput::json(1, &error, EXPECTED))?;
        // Counted for an error only: for every object it would read the file again up to there.
        let at = |expected: String| {
            let (line, column) = position(content, byte);
            BadInput::at(line, column, expected)
        };
        let own = format_of(&value).ok_or_else(|| at(format!("{EXPECTED}; there is {}", shown(&value.to_string()))))?;
        let all = *format.get_or_insert(own);
        if own != all {
            return Err(at(format!("{}, as before it, and there is {}", all.name(), own.name())));
        }
        match own {
            AgentFormat::Steps => steps::read(value, builder).map_err(at)?,
            AgentFormat::Spans => all_spans.read(value).map_err(at)?,
            AgentFormat::Weka => weka::read(value, builder).map_err(at)?,
        }
    }
}

fn format_of(value: &Value) -> Option<AgentFormat> {
    let has = |field: &str| value.get(field).is_some();
    match () {
        () if has("resourceSpans") => Some(AgentFormat::Spans),
        () if has("requests") && has("block_size") => Some(AgentFormat::Weka),
        () if has("session") && has("input_tokens") => Some(AgentFormat::Steps),
        () => None,
    }
}

/// Line and column of what stands at or after a byte.
fn position(content: &str, byte: usize) -> (usize, usize) {
    let rest = &content[byte..];
    let byte = byte + (rest.len() - rest.trim_start().len());
    let before = &content[..byte];
    let start = before.rfind('\n').map_or(0, |place| place + 1);
    (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
}

/// Puts steps together into sessions.
#[derive(Default)]
struct Builder {
    sessions: Vec<Draft>,
    /// Places of sessions by their names.
    places: BTreeMap<String, usize>,
    roles: Vec<String>,
    left_out: u64,
}

/// A session that steps are still added to.
struct Draft {
    name: String,
    /// When it begins, from any origin.
    at_ns: i128,
    steps: Vec<Step>,
    /// Places of steps by their names.
    names: BTreeMap<String, u32>,
}

/// A step as a file has it.
struct NewStep<'a> {
    role: &'a str,
    after: Vec<u32>,
    wait: Span,
    input_tokens: u64,
    output_tokens: u64,
    blocks: Box<[u64]>,
    block_tokens: u32,
}

impl Builder {
    /// The session of a name; a new one begins at that time.
    fn session(&mut self, name: &str, at_ns: i128) -> usize {
        if let Some(&place) = self.places.get(name) {
            return place;
        }
        self.places.insert(name.to_owned(), self.sessions.len());
        self.sessions.push(Draft { name: name.to_owned(), at_ns, steps: Vec::new(), names: BTreeMap::new() });
        self.sessions.len() - 1
    }

    /// Adds a step, and returns its place in its session; `None` if it has no tokens, so that it cannot be sent again.
    fn add(&mut self, session: usize, step: NewStep<'_>) -> Result<Option<u32>, String> {
        let tokens = |count: u64| u32::try_from(count).ok().filter(|count| *count <= MAX_TOKENS);
        let (input, output) = tokens(step.input_tokens)
            .zip(tokens(step.output_tokens))
            .ok_or("at most 10,000,000 tokens of a prompt or an answer")?;
        if input == 0 || output == 0 {
            self.left_out += 1;
            return Ok(None);
        }
        if step.block_tokens == 0 || step.blocks.len() as u64 > u64::from(input.div_ceil(step.block_tokens.max(1))) {
            return Err(format!(
                "at most one block id for each {} tokens of a prompt of {input}, and there are {}",
                step.block_tokens,
                step.blocks.len()
            ));
        }
        let role = self.roles.iter().position(|role| role == step.role).unwrap_or_else(|| {
            self.roles.push(step.role.to_owned());
            self.roles.len() - 1
        });
        let steps = &mut self.sessions[session].steps;
        if steps.len() >= MAX_STEPS {
            return Err("at most a million steps of a session".to_owned());
        }
        let place = steps.len() as u32;
        let mut after: Vec<u32> = step.after.into_iter().filter(|before| *before < place).collect();
        after.sort_unstable();
        after.dedup();
        steps.push(Step {
            role: role as u32,
            after: after.into(),
            wait: step.wait,
            input_tokens: input,
            output_tokens: output,
            blocks: step.blocks,
            block_tokens: step.block_tokens,
        });
        Ok(Some(place))
    }

    fn finish(self, format: AgentFormat, hash: u64) -> Result<AgentTrace, BadInput> {
        let mut drafts: Vec<Draft> = self.sessions.into_iter().filter(|draft| !draft.steps.is_empty()).collect();
        drafts.sort_by_key(|draft| draft.at_ns);
        let Some(first) = drafts.first().map(|draft| draft.at_ns) else {
            return Err(BadInput::at(1, 1, "at least one step with input and output tokens, and there is none"));
        };
        let (mut sessions, mut steps) = (Vec::new(), Vec::new());
        for draft in drafts {
            let start = steps.len() as u32;
            steps.extend(draft.steps);
            let at = Span::from_nanos(u64::try_from(draft.at_ns - first).unwrap_or(u64::MAX));
            sessions.push(Session { name: draft.name, at, steps: start..steps.len() as u32 });
        }
        let followers = Followers::of(&sessions, &steps);
        Ok(AgentTrace { followers, format, sessions, steps, roles: self.roles, left_out: self.left_out, hash })
    }
}

/// A time in seconds as a span; none for what is no time.
fn seconds(value: f64) -> Span {
    if value.is_finite() && value > 0.0 { Span::from_secs_f64(value.min(1e9)) } else { Span::ZERO }
}

#[cfg(test)]
mod tests;
