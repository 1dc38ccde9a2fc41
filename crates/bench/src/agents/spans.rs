//! Spans of OpenTelemetry: a model call is a step, everything else is structure and time.
//!
//! A span with `gen_ai.usage.input_tokens` and `gen_ai.usage.output_tokens` is a model call. Below one parent, a span waits for the spans that
//! had ended before it began and that no other such span came after; the first ones wait for what their parent waits for. So branches that
//! ran side by side do so again. What lies between the end of those and its beginning is the time of tools and of the agent.
//!
//! Invariant: the order of spans in a file means nothing.

use super::{Builder, NewStep};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use tokrate_core::Span as Time;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Export {
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans {
    #[serde(default)]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Deserialize)]
struct ScopeSpans {
    #[serde(default)]
    spans: Vec<Written>,
}

/// A span as OTLP writes it; times are whole numbers, most often as text.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    trace_id: String,
    span_id: String,
    #[serde(default)]
    parent_span_id: String,
    start_time_unix_nano: Value,
    end_time_unix_nano: Value,
    #[serde(default)]
    attributes: Vec<Attribute>,
}

#[derive(Deserialize)]
struct Attribute {
    key: String,
    #[serde(default)]
    value: Value,
}

/// What is kept of a span.
struct Span {
    id: String,
    parent: String,
    start: i128,
    end: i128,
    /// Input and output tokens of a model call.
    tokens: Option<(u64, u64)>,
    /// Whether it says that it is a model call.
    is_call: bool,
    agent: Option<String>,
    conversation: Option<String>,
}

/// All spans of the files, by trace.
#[derive(Default)]
pub(super) struct Spans(BTreeMap<String, Vec<Span>>);

/// Operations of `gen_ai.operation.name` that are a model's answer to a prompt.
const CALLS: [&str; 3] = ["chat", "text_completion", "generate_content"];
/// Spans within spans, at most: what lies deeper belongs to the last of them.
const MAX_DEPTH: u32 = 256;

impl Spans {
    pub(super) fn read(&mut self, value: Value) -> Result<(), String> {
        let export: Export = serde_json::from_value(value).map_err(|error| format!("spans in OTLP JSON: {error}"))?;
        let scopes = export.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
        for written in scopes.flat_map(|scope| scope.spans) {
            let trace = written.trace_id.clone();
            self.0.entry(trace).or_default().push(Span::of(written)?);
        }
        Ok(())
    }

    /// Makes a session of each conversation, or of each trace that names none.
    pub(super) fn build(self, builder: &mut Builder) {
        for (trace, mut spans) in self.0 {
            spans.sort_by(|a, b| (a.start, a.end, &a.id).cmp(&(b.start, b.end, &b.id)));
            builder.left_out += spans.iter().filter(|span| span.is_call && span.tokens.is_none()).count() as u64;
            let conversation = spans.iter().find_map(|span| span.conversation.clone());
            let Some(begin) = spans.first().map(|span| span.start) else { continue };
            let session = builder.session(conversation.as_deref().unwrap_or(&trace), begin);
            let known: BTreeMap<&str, usize> =
                spans.iter().enumerate().map(|(place, span)| (span.id.as_str(), place)).collect();
            let mut children: Vec<Vec<usize>> = vec![Vec::new(); spans.len()];
            let mut roots = Vec::new();
            for (place, span) in spans.iter().enumerate() {
                match known.get(span.parent.as_str()).filter(|parent| **parent != place) {
                    Some(&parent) => children[parent].push(place),
                    // Its parent is in no file: it stands by itself.
                    None => roots.push(place),
                }
            }
            let mut tree = Tree { spans: &spans, children: &children, ends: BTreeMap::new(), session, builder };
            // A conversation of several traces goes on where the one before ended.
            let earlier = tree.open_ends();
            tree.siblings(&roots, &earlier, begin, "agent", MAX_DEPTH);
        }
    }
}

/// Walks the spans of a trace.
struct Tree<'a> {
    spans: &'a [Span],
    children: &'a [Vec<usize>],
    /// When each step ended as recorded.
    ends: BTreeMap<u32, i128>,
    session: usize,
    builder: &'a mut Builder,
}

impl Tree<'_> {
    /// The steps of the session so far that no other step waits for.
    fn open_ends(&self) -> Vec<u32> {
        let steps = &self.builder.sessions[self.session].steps;
        let waited: Vec<u32> = steps.iter().flat_map(|step| step.after.iter().copied()).collect();
        (0..steps.len() as u32).filter(|place| !waited.contains(place)).collect()
    }

    /// Adds spans of one parent, and returns the steps that whatever comes after them waits for.
    fn siblings(&mut self, places: &[usize], after: &[u32], begin: i128, role: &str, depth: u32) -> Vec<u32> {
        let mut done: Vec<(i128, i128, Vec<u32>)> = Vec::new();
        for &place in places {
            let span = &self.spans[place];
            let before: Vec<&(i128, i128, Vec<u32>)> = done.iter().filter(|(_, end, _)| *end <= span.start).collect();
            let is_last = |of: &(i128, i128, Vec<u32>)| !before.iter().any(|other| other.0 >= of.1 && other.1 > of.0);
            let mut waits: Vec<u32> =
                before.iter().filter(|one| is_last(one)).flat_map(|one| one.2.iter().copied()).collect();
            if waits.is_empty() {
                waits = after.to_vec();
            }
            let exits = self.span(place, &waits, begin, role, depth);
            done.push((span.start, span.end, exits));
        }
        let is_last = |of: &(i128, i128, Vec<u32>)| !done.iter().any(|other| other.0 >= of.1 && other.1 > of.0);
        let mut exits: Vec<u32> =
            done.iter().filter(|one| is_last(one)).flat_map(|one| one.2.iter().copied()).collect();
        exits.sort_unstable();
        exits.dedup();
        if exits.is_empty() { after.to_vec() } else { exits }
    }

    fn span(&mut self, place: usize, after: &[u32], begin: i128, role: &str, depth: u32) -> Vec<u32> {
        let span = &self.spans[place];
        let role = span.agent.as_deref().unwrap_or(role);
        let Some((input_tokens, output_tokens)) = span.tokens.filter(|_| depth > 0) else {
            let children = &self.children[place];
            return match depth {
                0 => after.to_vec(),
                depth => self.siblings(children, after, begin, role, depth - 1),
            };
        };
        let ready = after.iter().filter_map(|before| self.ends.get(before)).copied().max().unwrap_or(begin);
        let wait = Time::from_nanos(u64::try_from(span.start - ready).unwrap_or(0));
        let after = after.to_vec();
        let step = NewStep {
            role,
            after: after.clone(),
            wait,
            input_tokens,
            output_tokens,
            blocks: Box::default(),
            block_tokens: 1,
        };
        match self.builder.add(self.session, step) {
            Ok(Some(added)) => {
                self.ends.insert(added, span.end);
                vec![added]
            }
            // Lengths that no model has: it cannot be sent again.
            Ok(None) => after,
            Err(_) => {
                self.builder.left_out += 1;
                after
            }
        }
    }
}

impl Span {
    fn of(written: Written) -> Result<Span, String> {
        let attribute = |keys: &[&str]| {
            let found = keys.iter().find_map(|key| written.attributes.iter().find(|attribute| attribute.key == *key));
            found.map(|attribute| &attribute.value)
        };
        let text =
            |keys: &[&str]| attribute(keys).and_then(|value| value.get("stringValue")?.as_str()).map(str::to_owned);
        let count = |keys: &[&str]| attribute(keys).and_then(|value| whole(value.get("intValue")?));
        let operation = text(&["gen_ai.operation.name"]);
        let is_call = operation.as_deref().is_some_and(|operation| CALLS.contains(&operation));
        // Names of 2024's conventions, which many instrumentations still send, after today's.
        let input = count(&["gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"]);
        let output = count(&["gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"]);
        // An agent's span may hold the sum of its calls.
        let is_other = operation.is_some() && !is_call;
        let tokens = input.zip(output).filter(|(input, output)| !is_other && *input > 0 && *output > 0);
        let time = |value: &Value, name: &str| {
            whole(value).map(i128::from).ok_or_else(|| format!("`{name}` as a whole number of nanoseconds"))
        };
        let start = time(&written.start_time_unix_nano, "startTimeUnixNano")?;
        Ok(Span {
            start,
            end: time(&written.end_time_unix_nano, "endTimeUnixNano")?.max(start),
            tokens: tokens.map(|(input, output)| (input as u64, output as u64)),
            is_call,
            agent: text(&["gen_ai.agent.name"]),
            conversation: text(&["gen_ai.conversation.id"]),
            id: written.span_id,
            parent: written.parent_span_id,
        })
    }
}

/// A whole number of at least 0, which JSON may hold as text.
fn whole(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok()).filter(|number| *number >= 0)
}
