//! Message histories of a worker's multi-turn sessions.
//!
//! Invariant: a history holds answered turns only, without reasoning; a failed turn ends its session.

use crate::bodies::Bodies;
use crate::plan::Start;
use crate::tool_turns::answer_message;
use std::collections::HashMap;
use tokrate_core::{FailureKind, Message};
use tokrate_meter::{RequestNumbers, RequestTrace};
use tokrate_tokens::{Encoding, count};

/// Histories by session.
#[derive(Debug, Default)]
pub(crate) struct History {
    sessions: HashMap<u64, Conversation>,
}

#[derive(Debug, Default)]
struct Conversation {
    messages: Vec<Message>,
    tokens: u64,
}

impl History {
    /// Messages before this request.
    pub(crate) fn messages(&self, start: &Start) -> &[Message] {
        self.conversation(start).map_or(&[], |conversation| &conversation.messages)
    }

    /// Their o200k tokens, if counted.
    pub(crate) fn tokens(&self, start: &Start) -> u64 {
        self.conversation(start).map_or(0, |conversation| conversation.tokens)
    }

    /// Records the end of a turn. Tokens of the answer are counted only on request, because that takes time.
    pub(crate) fn record_turn(
        &mut self,
        start: &Start,
        trace: &RequestTrace,
        bodies: &Bodies,
        number: u64,
        counted: bool,
    ) {
        let Some(turn) = start.turn else { return };
        match trace.failure.as_ref().map(|failure| failure.kind) {
            None => {
                let conversation = self.sessions.entry(turn.session).or_default();
                let own = bodies.own_messages(number, Some(turn.turn), &conversation.messages);
                if counted {
                    let called = trace.called();
                    let texts = called.iter().flat_map(|call| [&call.name, &call.arguments]);
                    let calls: usize = texts.map(|text| count(Encoding::O200kBase, text)).sum();
                    let sent = (calls + count(Encoding::O200kBase, &trace.answer())) as u64;
                    conversation.tokens += bodies.input_tokens(number, Some(turn.turn)) + sent;
                }
                conversation.messages.extend(own);
                conversation.messages.push(answer_message(trace, number));
            }
            // It may be sent again.
            Some(FailureKind::RateLimited) => {}
            Some(_) => drop(self.sessions.remove(&turn.session)),
        }
    }

    fn conversation(&self, start: &Start) -> Option<&Conversation> {
        self.sessions.get(&start.turn?.session)
    }
}

/// Sets each row's input tokens from the prompt numbers (earlier messages of its
/// session included), and its requested output tokens, where they differ from request to request.
pub(crate) fn set_requested_tokens(rows: &mut [RequestNumbers], numbers: &[u64], bodies: &Bodies) {
    let mut conversation: HashMap<u64, u64> = HashMap::new();
    // Turns of a session follow each other, and rows are in order of their starts.
    let mut order: Vec<usize> = (0..rows.len().min(numbers.len())).collect();
    order.sort_by_key(|&place| (rows[place].due_at_ns, rows[place].index));
    for place in order {
        let own = bodies.input_tokens(numbers[place], rows[place].turn);
        let row = &mut rows[place];
        let step = bodies.prompts.agent_step(numbers[place]);
        row.wait_ns = row.wait_ns.filter(|_| step.is_some());
        if let Some(step) = step {
            (row.role, row.session_steps) = (Some(step.role.to_owned()), Some(step.of));
        }
        row.media = bodies.media(numbers[place]).or(row.media);
        row.adapter = bodies.adapter(numbers[place], row.turn).map(str::to_owned);
        row.items_asked = bodies.items.map(|(_, batch)| u64::from(batch));
        let session = row.session.filter(|_| !bodies.prompts.are_whole());
        let before = session.map(|session| conversation.entry(session).or_default());
        row.input_asked = Some(own + before.as_deref().copied().unwrap_or(0));
        row.output_asked = bodies.own_output_tokens(numbers[place]);
        if let Some(before) = before.filter(|_| row.failure.is_none()) {
            *before += own + row.tokens_std_answer + row.tokens_std_tool;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RequestOptions;
    use crate::plan::Turn;
    use crate::prompts::{Lengths, PromptSource, Prompts};
    use tokrate_core::{Channel, Rng, Role, Span, Tick};
    use tokrate_meter::request::{Arrival, Failure};
    use tokrate_sim::WORDS;

    fn turn(turn: u32) -> Start {
        let number = u64::from(turn);
        let turn = Some(Turn { session: 3, turn });
        Start {
            index: number,
            due_at: Tick::ZERO,
            warmup: false,
            slot: 0,
            prompt: number,
            turn,
            released_by: None,
            wait: Span::ZERO,
        }
    }

    fn trace(parts: &[(Channel, &str)], failure: Option<FailureKind>) -> RequestTrace {
        let mut trace = RequestTrace::default();
        for &(channel, text) in parts {
            trace.text.push_str(text);
            let text_end = trace.text.len() as u32;
            trace.arrivals.push(Arrival { at: Tick::ZERO, text_end, events: 1, channel });
        }
        trace.failure = failure.map(|kind| Failure { kind, message: String::new(), retry_after: None });
        trace
    }

    fn bodies(source: &PromptSource, output_tokens: Lengths) -> Bodies {
        Bodies {
            dialect: tokrate_wire::Dialect::OpenAiChat,
            model: "m".to_owned(),
            options: RequestOptions { output_tokens, ..RequestOptions::plain() },
            prompts: Prompts::new(source, WORDS, &Rng::root(1), Rng::root(1)),
            lengths: Rng::root(2),
            text: Rng::root(2),
            items: None,
        }
    }

    #[test]
    fn each_row_knows_the_length_that_was_drawn_for_it_and_sent() {
        let drawn = bodies(&PromptSource::synthetic(30, 0), Lengths::Uniform { from: 5, to: 50 });
        let mut rows = vec![RequestNumbers::measure(&RequestTrace::default(), Encoding::O200kBase); 3];
        set_requested_tokens(&mut rows, &[0, 1, 2], &drawn);
        for (number, row) in rows.iter().enumerate() {
            let asked = row.output_asked.expect("it was drawn");
            let body = drawn.encode(number as u64, None, &[]);
            let limit = format!("\"max_completion_tokens\":{asked}");
            assert!(String::from_utf8_lossy(&body).contains(&limit), "{limit}");
        }
        let same = bodies(&PromptSource::synthetic(30, 0), Lengths::Fixed(50));
        set_requested_tokens(&mut rows, &[0, 1, 2], &same);
        assert!(rows.iter().all(|row| row.output_asked.is_none()), "what all are asked for is a condition");
    }

    #[test]
    fn each_row_of_a_trace_knows_what_was_asked_of_it() {
        let lines = "{\"timestamp\": 0, \"input_length\": 40, \"output_length\": 7}\n\
                     {\"timestamp\": 3, \"input_length\": 30, \"output_length\": 900}\n";
        let trace = crate::trace::Trace::parse(lines, None).expect("a trace");
        let bodies = bodies(&PromptSource::Trace(trace.into()), Lengths::Fixed(100));
        let mut rows = vec![RequestNumbers::measure(&RequestTrace::default(), Encoding::O200kBase); 2];
        set_requested_tokens(&mut rows, &[1, 0], &bodies);
        assert_eq!([rows[0].output_asked, rows[1].output_asked], [Some(900), Some(7)]);
        assert_eq!([rows[0].input_asked, rows[1].input_asked], [Some(30), Some(40)]);
    }

    #[test]
    fn prompts_and_answers_pile_up_until_a_turn_fails() {
        let bodies = bodies(&PromptSource::synthetic(30, 0), Lengths::Fixed(50));
        let mut history = History::default();
        assert!(history.messages(&turn(0)).is_empty());
        let conversation =
            trace(&[(Channel::Reasoning, "hm "), (Channel::Answer, "two"), (Channel::Answer, " words")], None);
        history.record_turn(&turn(0), &conversation, &bodies, 0, true);
        let before = history.messages(&turn(1));
        assert_eq!(before.len(), 2);
        assert_eq!(before[0], bodies.prompts.prompt(0).messages[0]);
        assert_eq!(before[1], Message::text(Role::Assistant, "two words"));
        assert_eq!(history.tokens(&turn(1)), 32);
        history.record_turn(&turn(1), &trace(&[], Some(FailureKind::RateLimited)), &bodies, 1, true);
        assert_eq!(history.messages(&turn(1)).len(), 2, "the turn may be sent again");
        history.record_turn(&turn(1), &trace(&[], Some(FailureKind::Stalled)), &bodies, 1, true);
        assert!(history.messages(&turn(2)).is_empty());
    }
}
