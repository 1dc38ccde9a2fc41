//! Calls of tools in an answer: which were made, with which arguments, and when the first argument came.
//!
//! Invariant: a call's name and arguments are parts of the answer's text ([`Channel::Tool`]); marks say which.

use super::RequestTrace;
use std::collections::BTreeMap;
use tokrate_core::{Channel, Tick};

/// Where a call begins in [`RequestTrace::text`], or is gone on with after another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CallMark {
    /// Which call of the answer, from 0.
    pub index: u32,
    /// Where its name begins, if it stands here (bytes).
    pub start: u32,
    /// Where its arguments begin or go on (bytes).
    pub arguments: u32,
}

/// A call of a tool.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Called {
    /// Name of the tool, as the answer has it.
    pub name: String,
    /// Its arguments, as the answer has them.
    pub arguments: String,
}

impl RequestTrace {
    /// The calls of the answer, in the order of their numbers.
    pub fn called(&self) -> Vec<Called> {
        let mut calls: BTreeMap<u32, Called> = BTreeMap::new();
        for (place, mark) in self.calls.iter().enumerate() {
            let (start, arguments) = (mark.start as usize, mark.arguments as usize);
            let end = self.calls.get(place + 1).map_or(self.text.len(), |next| next.start as usize);
            let call = calls.entry(mark.index).or_default();
            call.name.push_str(self.text.get(start..arguments).unwrap_or_default());
            for (from, to, channel) in self.spans() {
                if channel == Channel::Tool {
                    let part = self.text.get(from.max(arguments)..to.min(end));
                    call.arguments.push_str(part.unwrap_or_default());
                }
            }
        }
        calls.into_values().collect()
    }

    /// The text of the answer, without reasoning and calls of tools.
    pub fn answer(&self) -> String {
        let spans = self.spans().filter(|(_, _, channel)| *channel == Channel::Answer);
        spans.filter_map(|(from, to, _)| self.text.get(from..to)).collect()
    }

    /// When the first byte of a call's arguments arrived.
    pub(super) fn first_argument_at(&self) -> Option<Tick> {
        let ends = self.calls.iter().skip(1).map(|next| next.start as usize).chain([usize::MAX]);
        let holds = |(from, to, channel): (usize, usize, Channel)| {
            let mut marks = self.calls.iter().zip(ends.clone());
            channel == Channel::Tool && marks.any(|(mark, end)| from.max(mark.arguments as usize) < to.min(end))
        };
        self.arrivals.iter().zip(self.spans()).find(|(_, span)| holds(*span)).map(|(arrival, _)| arrival.at)
    }

    /// Where the text of each arrival lies, with its channel.
    fn spans(&self) -> impl Iterator<Item = (usize, usize, Channel)> + '_ {
        let mut from = 0;
        self.arrivals.iter().map(move |arrival| {
            let to = arrival.text_end as usize;
            (std::mem::replace(&mut from, to), to, arrival.channel)
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{Called, Ending, RequestMeter, RequestNumbers, Timing};
    use tokrate_core::{Channel, EventBatch, EventKind, FinishReason, Tick};
    use tokrate_tokens::Encoding;

    const MS: u64 = 1_000_000;

    /// One read of an answer.
    fn read(meter: &mut RequestMeter, at_ms: u64, fill: impl Fn(&mut EventBatch, Tick)) {
        let mut batch = EventBatch::new();
        fill(&mut batch, Tick::from_nanos(at_ms * MS));
        meter.on(&batch);
    }

    fn call(batch: &mut EventBatch, at: Tick, index: u32, name: &str) {
        let (id, name) = (batch.store("call_1"), batch.store(name));
        batch.push(at, EventKind::ToolCall { index, id, name });
    }

    fn called(name: &str, arguments: &str) -> Called {
        Called { name: name.to_owned(), arguments: arguments.to_owned() }
    }

    #[test]
    fn calls_are_told_apart_though_their_arguments_come_in_turns_and_text_between_them() {
        let mut meter = RequestMeter::new();
        read(&mut meter, 10, |batch, at| batch.push_text(at, Channel::Reasoning, "hm"));
        read(&mut meter, 20, |batch, at| call(batch, at, 0, "look"));
        read(&mut meter, 30, |batch, at| batch.push_text(at, Channel::Tool, "{\"a\":"));
        read(&mut meter, 40, |batch, at| {
            batch.push_text(at, Channel::Tool, "1");
            call(batch, at, 1, "find");
            batch.push_text(at, Channel::Tool, "{}");
            batch.push_text(at, Channel::Answer, "I look.");
        });
        read(&mut meter, 50, |batch, at| {
            call(batch, at, 0, "");
            batch.push_text(at, Channel::Tool, "}");
            batch.push(at, EventKind::Finish(FinishReason::ToolCalls));
            batch.push(at, EventKind::Done);
        });
        let ended_at = Tick::from_nanos(60 * MS);
        let timing = Timing { sent_at: Some(Tick::from_nanos(0)), ended_at, ..Timing::default() };
        let trace = meter.finish(timing, Ending::Complete);
        assert_eq!(trace.called(), [called("look", "{\"a\":1}"), called("find", "{}")]);
        assert_eq!(trace.answer(), "I look.");
        let row = RequestNumbers::measure(&trace, Encoding::O200kBase);
        assert_eq!((row.ttft_ns, row.ttfat_ns, row.first_argument_ns), (Some(10 * MS), Some(20 * MS), Some(30 * MS)));
        assert_eq!(row.tool_calls, Some(2));
    }

    #[test]
    fn a_call_without_arguments_has_no_first_one() {
        let mut meter = RequestMeter::new();
        read(&mut meter, 10, |batch, at| {
            call(batch, at, 0, "now");
            batch.push(at, EventKind::Done);
        });
        let trace = meter.finish(Timing { sent_at: Some(Tick::from_nanos(0)), ..Timing::default() }, Ending::Complete);
        assert_eq!(trace.called(), [called("now", "")]);
        assert_eq!(RequestNumbers::measure(&trace, Encoding::O200kBase).first_argument_ns, None);
    }
}
