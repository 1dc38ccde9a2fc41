//! The newest calls of a log. Invariant: a call is whole, with attempts that do not fit the query too.

use crate::{Order, Query, Store, StoreError};
use std::collections::BTreeSet;
use tokrate_record::Attempt;

/// As [`Store::calls`].
pub(crate) fn calls<S: Store + ?Sized>(store: &S, query: &Query, most: usize) -> Result<Vec<Vec<Attempt>>, StoreError> {
    let (mut names, mut known) = (Vec::new(), BTreeSet::new());
    let mut limit = 2 * most.max(8) as u64;
    loop {
        let mut rows = 0;
        let newest = Query { order: Order::Newest, limit: Some(limit), ..query.clone() };
        names.clear();
        known.clear();
        store.visit(&["call"], &newest, true, &mut |mut row| {
            rows += 1;
            let name = row.text()?;
            if known.insert(name.clone()) {
                names.push(name);
            }
            Ok(())
        })?;
        if names.len() >= most || rows < limit {
            break;
        }
        limit *= 4;
    }
    names.truncate(most);
    let attempts = |call: String| {
        let mut attempts = store.attempts(&Query { call: Some(call), ..Query::default() })?;
        attempts.sort_by_key(|row| row.attempt);
        Ok(attempts)
    };
    names.into_iter().map(attempts).collect()
}
