//! Locks of what all threads share.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A lock whose holder cannot have left it half-changed: what they hold is changed by single calls.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
