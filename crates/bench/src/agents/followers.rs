//! Which steps wait for a step: the other way round than steps say it, so that the end of one is passed on without looking at all others.
//!
//! Invariant: a step is among the followers of exactly the steps that it waits for.

use super::{Session, Step};

/// The followers of every step, one after the other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Followers {
    /// Where those of a step begin in `places`; one more than there are steps.
    starts: Vec<u32>,
    /// Places of steps in their session.
    places: Vec<u32>,
}

impl Followers {
    /// Of the steps of these sessions.
    pub(super) fn of(sessions: &[Session], steps: &[Step]) -> Followers {
        let first_of = |session: &Session| session.steps.start as usize;
        let mut starts = vec![0_u32; steps.len() + 1];
        for session in sessions {
            for step in &steps[session.steps.start as usize..session.steps.end as usize] {
                step.after.iter().for_each(|&before| starts[first_of(session) + before as usize + 1] += 1);
            }
        }
        for step in 1..starts.len() {
            starts[step] += starts[step - 1];
        }
        let mut places = vec![0_u32; starts.last().map_or(0, |&all| all as usize)];
        let mut next = starts.clone();
        for session in sessions {
            let own = &steps[session.steps.start as usize..session.steps.end as usize];
            for (place, step) in (0_u32..).zip(own) {
                for &before in &step.after {
                    let slot = &mut next[first_of(session) + before as usize];
                    places[*slot as usize] = place;
                    *slot += 1;
                }
            }
        }
        Followers { starts, places }
    }

    /// Places in its session of the steps that wait for a step of all steps.
    pub fn of_step(&self, step: usize) -> &[u32] {
        &self.places[self.starts[step] as usize..self.starts[step + 1] as usize]
    }
}
