//! Look-ups of many names at the same time. Invariant: results are in the order of the items.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Most names that are looked up at the same time: a resolver gives up after 5 to 30 s, and few gateways have more than sixteen hosts.
const AT_ONCE: usize = 16;

/// What `look_up` makes of each item and its place, in their order; a resolver that takes seconds for one name does not hold up the
/// others.
pub(crate) fn side_by_side<T: Sync, R: Send>(items: &[T], look_up: impl Fn(usize, &T) -> R + Sync) -> Vec<R> {
    if let [only] = items {
        return vec![look_up(0, only)];
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(place) else { return done };
            done.push((place, look_up(place, item)));
        }
    };
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..items.len().min(AT_ONCE)).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a look-up does not panic")).collect()
    });
    done.sort_unstable_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_up_side_by_side_and_keep_their_order() {
        // Each waits until all have begun.
        let all = std::sync::Barrier::new(8);
        let items: Vec<usize> = (10..18).collect();
        let found = side_by_side(&items, |place, item| {
            all.wait();
            (place, *item)
        });
        assert_eq!(found, items.iter().copied().enumerate().collect::<Vec<_>>());
        assert!(side_by_side(&[] as &[u8], |_, _| 0).is_empty());
        let many: Vec<usize> = (0..1000).collect();
        assert_eq!(side_by_side(&many, |_, item| *item), many);
    }
}
