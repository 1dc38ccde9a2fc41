//! Tool calls in the order in which the client's dialect can take them.
//!
//! Invariant: no piece of a call is lost or repeated, and a call without arguments has the arguments `{}`; where the
//! dialect writes one call after the other, a call that comes while another is not complete waits for it.

use std::ops::Range;

/// What is to be written, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// A call begins.
    Open(usize),
    /// Back to a call that has begun.
    Return(usize),
    /// The next bytes of the arguments of the call that was named last.
    Text(usize, Range<usize>),
}

/// The calls of one answer.
#[derive(Clone, Debug)]
pub(super) struct CallOrder {
    pub(super) calls: Vec<Call>,
    /// One call after the other.
    sequential: bool,
    /// The call that text belongs to.
    current: usize,
    /// The call that was written to last.
    live: Option<usize>,
}

/// One call, with all that is known of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
    /// Bytes of the arguments that were written.
    written: usize,
    opened: bool,
    /// Another call has begun after it, in a dialect that does not go back.
    closed: bool,
    brackets: Brackets,
}

/// How far JSON is nested, to know whether it is complete.
#[derive(Clone, Copy, Debug, Default)]
struct Brackets {
    begun: bool,
    depth: u32,
    in_text: bool,
    escaped: bool,
}

impl Brackets {
    fn take(&mut self, json: &str) {
        for byte in json.bytes() {
            self.begun |= !byte.is_ascii_whitespace();
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_text => self.escaped = true,
                b'"' => self.in_text = !self.in_text,
                _ if self.in_text => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    fn complete(self) -> bool {
        self.begun && self.depth == 0 && !self.in_text
    }
}

impl CallOrder {
    pub(super) fn new(sequential: bool) -> CallOrder {
        CallOrder { calls: Vec::new(), sequential, current: 0, live: None }
    }

    /// A call begins or is gone back to.
    pub(super) fn open(&mut self, index: u32, id: &str, name: &str, steps: &mut Vec<Step>) {
        self.current = usize::try_from(index).unwrap_or(usize::MAX).min(self.calls.len());
        if self.current == self.calls.len() {
            self.calls.push(Call::default());
        }
        let call = &mut self.calls[self.current];
        call.id.push_str(id);
        call.name.push_str(name);
        self.advance(steps);
    }

    /// More of the arguments of the call that was opened last; nothing if there is none.
    pub(super) fn text(&mut self, text: &str, steps: &mut Vec<Step>) {
        let Some(call) = self.calls.get_mut(self.current) else { return };
        call.arguments.push_str(text);
        call.brackets.take(text);
        self.advance(steps);
    }

    /// Whether nothing but calls can be written now: one of them has more to come, or is not known well enough to begin.
    pub(super) fn blocks(&self) -> bool {
        self.sequential && self.calls.iter().any(|call| !call.closed && (!call.opened || !call.brackets.complete()))
    }

    /// The answer goes on with something else, so that a dialect that does not go back has ended its calls.
    pub(super) fn close(&mut self) {
        if self.sequential {
            self.calls.iter_mut().for_each(|call| call.closed = true);
            self.live = None;
        }
    }

    /// Whether a piece of a call came after the call had to be ended: its JSON was complete, and yet went on.
    pub(super) fn overran(&self) -> bool {
        self.calls.iter().any(|call| call.closed && !call.arguments[call.written..].trim_ascii().is_empty())
    }

    /// Everything that waits is written: the answer is over.
    pub(super) fn flush(&mut self, steps: &mut Vec<Step>) {
        for index in 0..self.calls.len() {
            let call = &mut self.calls[index];
            if !call.brackets.begun {
                // Clients parse the arguments, and no bytes are no JSON.
                call.arguments.push_str("{}");
                call.brackets.take("{}");
            }
            if !call.closed {
                self.write(index, steps);
            }
        }
        self.close();
    }

    /// Writes what can be written now.
    fn advance(&mut self, steps: &mut Vec<Step>) {
        if !self.sequential {
            if self.calls[self.current].is_known() {
                self.write(self.current, steps);
            }
            return;
        }
        loop {
            if let Some(live) = self.live {
                self.write(live, steps);
                let waiting = self.calls.iter().any(|call| !call.opened);
                if !waiting || !self.calls[live].brackets.complete() {
                    return;
                }
                self.calls[live].closed = true;
                self.live = None;
            }
            let next = self.calls.iter().position(|call| !call.opened && !call.closed);
            match next.filter(|&next| self.calls[next].is_known()) {
                Some(next) => self.live = Some(next),
                None => return,
            }
        }
    }

    fn write(&mut self, index: usize, steps: &mut Vec<Step>) {
        let call = &mut self.calls[index];
        if !call.opened {
            call.opened = true;
            steps.push(Step::Open(index));
            self.live = Some(index);
        } else if self.live != Some(index) && call.written < call.arguments.len() {
            steps.push(Step::Return(index));
        }
        if call.written < call.arguments.len() {
            steps.push(Step::Text(index, call.written..call.arguments.len()));
            call.written = call.arguments.len();
            self.live = Some(index);
        }
    }
}

impl Call {
    /// Whether enough is known to begin it: most servers send identifier and name at once, and some no identifier at all.
    fn is_known(&self) -> bool {
        self.opened || !self.name.is_empty() && (!self.id.is_empty() || self.brackets.begun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps_of(order: &mut CallOrder, pieces: &[(u32, &str)]) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut seen = Vec::new();
        for &(index, text) in pieces {
            let first = !seen.contains(&index);
            seen.push(index);
            let (id, name) = if first { (format!("c{index}"), format!("f{index}")) } else { Default::default() };
            order.open(index, &id, &name, &mut steps);
            order.text(text, &mut steps);
        }
        order.flush(&mut steps);
        steps
    }

    #[test]
    fn who_can_go_back_does_and_who_cannot_waits() {
        use Step::{Open, Return, Text};
        let pieces = [(0, "{\"a\""), (1, "{"), (0, ":1}"), (1, "}"), (2, "")];
        let free = steps_of(&mut CallOrder::new(false), &pieces);
        let expected = [
            Open(0),
            Text(0, 0..4),
            Open(1),
            Text(1, 0..1),
            Return(0),
            Text(0, 4..7),
            Return(1),
            Text(1, 1..2),
            Open(2),
            Text(2, 0..2),
        ];
        assert_eq!(free, expected);
        let in_turn = steps_of(&mut CallOrder::new(true), &pieces);
        let expected =
            [Open(0), Text(0, 0..4), Text(0, 4..7), Open(1), Text(1, 0..1), Text(1, 1..2), Open(2), Text(2, 0..2)];
        assert_eq!(in_turn, expected);
    }

    #[test]
    fn what_goes_on_behind_its_end_is_noticed() {
        let mut order = CallOrder::new(true);
        steps_of(&mut order, &[(0, "{}")]);
        order.text("\n", &mut Vec::new());
        assert!(!order.overran(), "white space means nothing");
        order.text("{}", &mut Vec::new());
        assert!(order.overran());
    }
}
