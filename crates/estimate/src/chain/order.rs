//! The order of steps by what they wait for.

use super::Step;

/// Places of the steps so that each comes after those it waits for.
///
/// # Errors
/// The steps of a cycle.
pub fn order(steps: &[Step]) -> Result<Vec<usize>, String> {
    let mut missing: Vec<usize> = steps.iter().map(|step| step.after.len()).collect();
    let mut order: Vec<usize> = (0..steps.len()).filter(|at| missing[*at] == 0).collect();
    let mut next = 0;
    while next < order.len() {
        let ended = order[next];
        next += 1;
        for (at, step) in steps.iter().enumerate() {
            let waits = step.after.iter().filter(|before| **before == ended).count();
            if waits > 0 {
                missing[at] -= waits;
                if missing[at] == 0 {
                    order.push(at);
                }
            }
        }
    }
    if order.len() == steps.len() {
        return Ok(order);
    }
    let waiting: Vec<&str> =
        (0..steps.len()).filter(|at| !order.contains(at)).map(|at| steps[at].name.as_str()).collect();
    Err(format!("a cycle: {} wait for each other", waiting.join(", ")))
}
