//! Conversations in which the model calls a tool before it answers: what a turn sends, and what stands in its place in the history.
//!
//! A prompt is followed by so many calls, one after the other; the result of each is made-up words. Invariant: a call in a history has its
//! result right behind it, so that any server takes the history.

use crate::prompts::Lengths;
use tokrate_core::{Content, Message, Rng, Role};
use tokrate_meter::RequestTrace;
use tokrate_probe::synthetic::append_words;
use tokrate_sim::WORDS;

/// What the tools of a conversation answer.
#[derive(Clone, PartialEq, Debug)]
pub struct ToolTurns {
    /// Calls after each prompt.
    pub each: u32,
    /// Tokens of a result. Where an answer calls several tools, those behind the first get one word each.
    pub result: Lengths,
}

impl ToolTurns {
    /// Whether the answer of a turn is to be a call.
    pub(crate) fn demands_call(&self, turn: u32) -> bool {
        turn % (self.each + 1) < self.each
    }

    /// Whether a turn sends results, not a prompt.
    pub(crate) fn sends_results(&self, turn: u32) -> bool {
        !turn.is_multiple_of(self.each + 1)
    }

    /// Tokens of the result that the `number`-th request sends.
    pub(crate) fn result_tokens(&self, number: u64, rng: &Rng) -> u32 {
        self.result.draw(&mut rng.child("tool results").nth(number))
    }

    /// The results of the calls in the last message of a history. A model that called none is told the words all the same.
    pub(crate) fn results(&self, number: u64, history: &[Message], rng: &Rng) -> Vec<Message> {
        let mut words = String::new();
        append_words(&mut words, WORDS, self.result_tokens(number, rng), &mut rng.child("tool words").nth(number));
        let calls = history.last().map_or(&[] as &[Content], |message| &message.content[..]);
        let calls: Vec<(&String, &String)> = calls
            .iter()
            .filter_map(|content| match content {
                Content::ToolCall { id, name, .. } => Some((id, name)),
                _ => None,
            })
            .collect();
        if calls.is_empty() {
            return vec![Message::text(Role::User, words)];
        }
        let first = std::iter::once(words);
        let texts = first.chain(std::iter::repeat_with(|| WORDS[0].trim().to_owned()));
        let result = |((id, name), text): ((&String, &String), String)| Message {
            role: Role::Tool,
            content: vec![Content::ToolResult { id: id.clone(), name: name.clone(), text, failed: false }],
        };
        calls.into_iter().zip(texts).map(result).collect()
    }
}

/// An answer as the history has it: its text, and its calls under names of our own, as those of the server are not kept.
pub(crate) fn answer_message(trace: &RequestTrace, number: u64) -> Message {
    let text = trace.answer();
    let calls = trace.called();
    let call = |(place, call): (usize, tokrate_meter::Called)| {
        // What is no object is sent by no client, and refused by servers.
        let is_object = serde_json::from_str::<serde_json::Value>(&call.arguments).is_ok_and(|value| value.is_object());
        let arguments = if is_object { call.arguments } else { "{}".to_owned() };
        Content::ToolCall { id: format!("call_{number}_{place}"), name: call.name, arguments }
    };
    let is_text = !text.is_empty() || calls.is_empty();
    let content = is_text.then_some(Content::Text(text)).into_iter().chain(calls.into_iter().enumerate().map(call));
    Message { role: Role::Assistant, content: content.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(each: u32) -> ToolTurns {
        ToolTurns { each, result: Lengths::Fixed(7) }
    }

    #[test]
    fn a_prompt_is_followed_by_calls_and_their_results() {
        let two = turns(2);
        let shape: Vec<(bool, bool)> = (0..4).map(|turn| (two.sends_results(turn), two.demands_call(turn))).collect();
        assert_eq!(shape, [(false, true), (true, true), (true, false), (false, true)]);
    }

    #[test]
    fn every_call_gets_a_result_of_its_own_and_the_first_the_words() {
        let call =
            |id: &str| Content::ToolCall { id: id.to_owned(), name: "read".to_owned(), arguments: "{}".to_owned() };
        let history = [Message { role: Role::Assistant, content: vec![call("a"), call("b")] }];
        let results = turns(1).results(5, &history, &Rng::root(1));
        let seen: Vec<(String, usize)> = results
            .iter()
            .map(|message| match &message.content[..] {
                [Content::ToolResult { id, text, failed: false, .. }] => (id.clone(), text.split_whitespace().count()),
                other => panic!("no result: {other:?}"),
            })
            .collect();
        assert_eq!(seen, [("a".to_owned(), 7), ("b".to_owned(), 1)]);
        let told = turns(1).results(5, &[Message::text(Role::Assistant, "no")], &Rng::root(1));
        assert!(told.len() == 1 && told[0].role == Role::User, "{told:?}");
    }
}
