//! Tasks that have one right answer: an endpoint that is fast because it answers badly shows here.
//!
//! Each is a workload of its own, so that its failures are followed apart from those of the network. Invariant: an answer is right or
//! wrong, byte for byte or value for value; nothing is judged by likeness.

use serde_json::{Value, json};
use tokrate_core::{Channel, EventBatch, EventKind, Message, Rng, Role, Tool, ToolChoice};

/// What the answer must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Canary {
    /// Words in no order, repeated exactly.
    Echo,
    /// A call of one tool with the arguments that the prompt names, by its JSON schema.
    Tool,
}

/// The kind of a change of how many answers to tasks are wrong.
pub(crate) const FIDELITY: &str = "fidelity";
/// Names of the workloads, with the most tokens of an answer: room for models that think first.
pub(crate) const CANARIES: [(&str, Canary, u32); 2] =
    [("canary-echo", Canary::Echo, 2_000), ("canary-tool", Canary::Tool, 2_000)];
/// Tokens of the longest prompt, its tool included, rounded up.
pub(crate) const INPUT_TOKENS: u32 = 250;
/// Words of an echo.
const WORDS: usize = 40;
/// Of an answer so much is looked at (bytes).
const MAX_ANSWER_BYTES: usize = 64 << 10;
const TOOL: &str = "book_shipment";
const CITIES: [&str; 6] = ["Oslo", "Lagos", "Quito", "Hanoi", "Perth", "Turin"];

/// Whether a workload of this name is a canary.
pub(crate) fn is_canary(workload: &str) -> bool {
    CANARIES.iter().any(|(name, ..)| *name == workload)
}

impl Canary {
    /// The prompt of a draw.
    pub(crate) fn prompt(self, draw: u64) -> Vec<Message> {
        let text = match self {
            Canary::Echo => format!(
                "Repeat the following line exactly, and write nothing else: no quotation marks, no comment.\n{}",
                words(draw)
            ),
            Canary::Tool => {
                let wanted = arguments(draw);
                format!(
                    "Book a shipment with the tool, in one call: from {} to {}, {} parcels, {}fragile, reference {}. Do not answer in words.",
                    text_of(&wanted["from"]),
                    text_of(&wanted["to"]),
                    wanted["parcels"],
                    if wanted["fragile"] == true { "" } else { "not " },
                    text_of(&wanted["reference"])
                )
            }
        };
        vec![Message::text(Role::User, text)]
    }

    /// The tools of the request, and which must be called.
    pub(crate) fn tools(self) -> (Vec<Tool>, Option<ToolChoice>) {
        if self == Canary::Echo {
            return (Vec::new(), None);
        }
        let schema = json!({
            "type": "object",
            "properties": {
                "from": { "type": "string", "enum": CITIES },
                "to": { "type": "string", "enum": CITIES },
                "parcels": { "type": "integer" },
                "fragile": { "type": "boolean" },
                "reference": { "type": "string" }
            },
            "required": ["from", "to", "parcels", "fragile", "reference"],
            "additionalProperties": false
        });
        let tool = Tool {
            name: TOOL.to_owned(),
            description: Some("Books a shipment between two cities".to_owned()),
            parameters: Some(schema.to_string()),
        };
        (vec![tool], Some(ToolChoice::Named(TOOL.to_owned())))
    }

    /// What is wrong with an answer, without a word of it; `None` for the right one.
    pub(crate) fn wrong(self, draw: u64, answer: &CanaryAnswer) -> Option<String> {
        match self {
            Canary::Echo => {
                let (wanted, given) = (words(draw), answer.text.trim());
                if given == wanted {
                    return None;
                }
                let right = wanted.split(' ').zip(given.split(' ')).take_while(|(one, other)| one == other).count();
                Some(format!("the line to be repeated is another from its word {} on", right + 1))
            }
            Canary::Tool => match answer.calls.as_slice() {
                [] => Some("the answer calls no tool".to_owned()),
                [(name, given)] if name == TOOL => wrong_arguments(&arguments(draw), given),
                [_] => Some("the answer calls a tool that there is not".to_owned()),
                several => Some(format!("the answer has {} tool calls in place of one", several.len())),
            },
        }
    }
}

fn wrong_arguments(wanted: &Value, given: &str) -> Option<String> {
    let Ok(given) = serde_json::from_str::<Value>(given) else {
        return Some("the tool's arguments are no JSON".to_owned());
    };
    if given == *wanted {
        return None;
    }
    let differs = |name: &&String| given.get(name.as_str()) != wanted.get(name.as_str());
    let names: Vec<&str> =
        wanted.as_object().into_iter().flat_map(|of| of.keys()).filter(differs).map(String::as_str).collect();
    Some(match names.is_empty() {
        true => "the tool is called with arguments that it does not have".to_owned(),
        false => format!("the tool is called with a wrong {}", names.join(", ")),
    })
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Words in no order.
fn words(draw: u64) -> String {
    let mut rng = Rng::root(draw);
    let word = |_| tokrate_sim::WORDS[rng.below(tokrate_sim::WORDS.len() as u64) as usize].trim();
    (0..WORDS).map(word).collect::<Vec<&str>>().join(" ")
}

/// What the tool is to be called with.
fn arguments(draw: u64) -> Value {
    let mut rng = Rng::root(draw);
    let from = rng.below(CITIES.len() as u64) as usize;
    let to = (from + 1 + rng.below(CITIES.len() as u64 - 1) as usize) % CITIES.len();
    json!({
        "from": CITIES[from],
        "to": CITIES[to],
        "parcels": 2 + rng.below(97),
        "fragile": rng.chance(0.5),
        "reference": format!("{:08X}", rng.next_u64() >> 32),
    })
}

/// What was answered, as far as it is looked at.
#[derive(Default, Debug)]
pub(crate) struct CanaryAnswer {
    text: String,
    /// Name and arguments of each tool call.
    calls: Vec<(String, String)>,
    /// Which call of the answer the last one is.
    index: Option<u32>,
}

impl CanaryAnswer {
    /// Takes the events of a read.
    pub fn on(&mut self, batch: &EventBatch) {
        for event in batch.events() {
            match event.kind {
                EventKind::Text { channel: Channel::Answer, text } => push(&mut self.text, batch.text(text)),
                EventKind::Text { channel: Channel::Tool, text } => {
                    if let Some((_, arguments)) = self.calls.last_mut() {
                        push(arguments, batch.text(text));
                    }
                }
                EventKind::ToolCall { index, name, .. } => {
                    if self.index != Some(index) && self.calls.len() < 8 {
                        self.calls.push((String::new(), String::new()));
                    }
                    self.index = Some(index);
                    if let Some((known, _)) = self.calls.last_mut() {
                        push(known, batch.text(name));
                    }
                }
                _ => {}
            }
        }
    }
}

fn push(to: &mut String, text: &str) {
    if to.len() + text.len() <= MAX_ANSWER_BYTES {
        to.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_tokens::{Encoding, count};

    fn called(name: &str, arguments: &str) -> CanaryAnswer {
        CanaryAnswer { calls: vec![(name.to_owned(), arguments.to_owned())], ..CanaryAnswer::default() }
    }

    fn said(text: &str) -> CanaryAnswer {
        CanaryAnswer { text: text.to_owned(), ..CanaryAnswer::default() }
    }

    #[test]
    fn only_the_right_answer_is_right() {
        let line = words(7);
        assert_eq!(Canary::Echo.wrong(7, &said(&format!("{line}\n"))), None);
        for answer in
            [line.replacen(' ', "  ", 1), format!("\"{line}\""), line[1..].to_owned(), words(8), String::new()]
        {
            assert!(Canary::Echo.wrong(7, &said(&answer)).is_some(), "{answer}");
        }
        let given = arguments(7).to_string();
        assert_eq!(Canary::Tool.wrong(7, &called(TOOL, &given)), None);
        let mut other = arguments(7);
        other["parcels"] = json!(other["parcels"].to_string());
        let wrong = [
            called(TOOL, &other.to_string()),
            called(TOOL, &given[1..]),
            called(TOOL, &arguments(8).to_string()),
            called("rm", &given),
            CanaryAnswer { calls: vec![(TOOL.to_owned(), given.clone()); 2], ..CanaryAnswer::default() },
            said(&given),
        ];
        let told: Vec<String> = wrong.iter().filter_map(|answer| Canary::Tool.wrong(7, answer)).collect();
        assert_eq!(told.len(), wrong.len(), "{told:?}");
        assert_eq!(told[0], "the tool is called with a wrong parcels");
        let quoted = |text: &String| wrong.iter().any(|answer| !answer.text.is_empty() && text.contains(&answer.text));
        assert!(!told.iter().any(quoted), "answers are kept nowhere: {told:?}");
    }

    #[test]
    fn prompts_differ_name_what_is_wanted_and_keep_their_length() {
        for (name, canary, _) in CANARIES {
            assert!(is_canary(name) && !is_canary("1k-1k"));
            let text = |draw| canary.prompt(draw)[0].texts().collect::<String>();
            assert_ne!(text(1), text(2));
            let tools: String = canary.tools().0.into_iter().filter_map(|tool| tool.parameters).collect();
            for draw in 0..200 {
                let tokens = count(Encoding::O200kBase, &(text(draw) + &tools));
                assert!(tokens as u32 <= INPUT_TOKENS, "{name}: {tokens}");
            }
        }
        assert!(Canary::Echo.prompt(3)[0].texts().collect::<String>().ends_with(&words(3)));
    }
}
