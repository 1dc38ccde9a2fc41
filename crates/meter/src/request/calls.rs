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
        for (mark, end) in self.marks() {
            let call = calls.entry(mark.index).or_default();
            call.name.push_str(self.text.get(mark.start as usize..mark.arguments as usize).unwrap_or_default());
            self.pieces(mark, end).for_each(|(_, piece)| call.arguments.push_str(piece));
        }
        calls.into_values().collect()
    }

    /// The text of the answer, without reasoning and calls of tools.
    pub fn answer(&self) -> String {
        let mut from = 0;
        let parts = self.arrivals.iter().map(|arrival| {
            let to = arrival.text_end as usize;
            (arrival.channel, std::mem::replace(&mut from, to)..to)
        });
        let parts = parts.filter(|(channel, _)| *channel == Channel::Answer);
        parts.filter_map(|(_, part)| self.text.get(part)).collect()
    }

    /// When the first byte of a call's arguments arrived.
    pub(super) fn first_argument_at(&self) -> Option<Tick> {
        let first = self.marks().find_map(|(mark, end)| self.pieces(mark, end).next());
        first.map(|(at, _)| at)
    }

    /// The marks, each with where the next one begins.
    fn marks(&self) -> impl Iterator<Item = (&CallMark, usize)> {
        let ends = self.calls.iter().skip(1).map(|next| next.start as usize);
        self.calls.iter().zip(ends.chain([self.text.len()]))
    }

    /// What came of a call's arguments from a mark to `end`, by arrival. Arrivals before it are passed over at once, so that an answer of
    /// many calls is not read anew for each.
    fn pieces(&self, mark: &CallMark, end: usize) -> impl Iterator<Item = (Tick, &str)> {
        let begin = mark.arguments as usize;
        let first = self.arrivals.partition_point(|arrival| arrival.text_end as usize <= begin);
        let mut from = begin;
        let arrivals = self.arrivals[first..].iter().map(move |arrival| {
            let to = arrival.text_end as usize;
            (arrival, std::mem::replace(&mut from, to), to.min(end))
        });
        let inside = arrivals.take_while(move |(_, from, _)| *from < end);
        let tool = inside.filter(|(arrival, ..)| arrival.channel == Channel::Tool);
        tool.filter_map(|(arrival, from, to)| Some((arrival.at, self.text.get(from..to)?)))
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
