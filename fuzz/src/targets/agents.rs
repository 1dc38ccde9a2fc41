//! Sessions of agents: whatever is read can be carried out, and what is refused is refused at a place of the file.
//!
//! Invariant: every step waits for earlier steps of its own session only.

use crate::text;
use tokrate_bench::agents::AgentTrace;
use tokrate_core::Span;

/// Panics if a property does not hold.
pub fn run(input: &[u8]) {
    let text = text(input);
    match AgentTrace::parse(text) {
        Ok(trace) => {
            assert_eq!(trace.sessions.first().map(|session| session.at), Some(Span::ZERO));
            assert!(trace.sessions.windows(2).all(|pair| pair[0].at <= pair[1].at));
            assert_eq!(trace.sessions.last().map(|session| session.steps.end as usize), Some(trace.steps.len()));
            for session in 0..trace.sessions.len() {
                let steps = trace.steps_of(session);
                assert!(!steps.is_empty());
                for (place, step) in (0_u32..).zip(steps) {
                    assert!(step.after.iter().all(|before| *before < place), "{step:?} at {place}");
                    assert!(
                        (step.role as usize) < trace.roles.len() && step.input_tokens > 0 && step.output_tokens > 0
                    );
                }
            }
            assert!(trace.width() >= 1 && trace.width() as usize <= trace.steps.len());
        }
        Err(bad) => assert!(bad.line >= 1 && bad.column >= 1, "{bad}"),
    }
}
