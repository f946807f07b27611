//! Contents of segments that a process keeps: those of their objects, and their indexes for searches. A segment of the same
//! pointer never changes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The contents of segments that were used last, by their pointers `K`.
#[derive(Debug)]
pub(super) struct Cache<K, T> {
    /// Maximum size in bytes, unless one alone is larger.
    max_bytes: u64,
    kept: Mutex<VecDeque<Kept<K, T>>>,
}

/// The contents of a segment, and their size in bytes.
#[derive(Debug)]
struct Kept<K, T> {
    pointer: K,
    content: Arc<T>,
    bytes: u64,
}

impl<K: Clone + PartialEq, T> Cache<K, T> {
    pub(super) fn new(max_bytes: u64) -> Self {
        Self { max_bytes, kept: Mutex::default() }
    }

    pub(super) fn get(&self, pointer: &K) -> Option<Arc<T>> {
        let mut all = self.lock();
        let at = all.iter().position(|kept| kept.pointer == *pointer)?;
        let kept = all.remove(at)?;
        let content = Arc::clone(&kept.content);
        all.push_back(kept);
        Some(content)
    }

    pub(super) fn keep(&self, pointer: &K, content: &Arc<T>, bytes: u64) {
        let mut all = self.lock();
        all.push_back(Kept { pointer: pointer.clone(), content: Arc::clone(content), bytes });
        let mut total: u64 = all.iter().map(|kept| kept.bytes).sum();
        while total > self.max_bytes
            && all.len() > 1
            && let Some(oldest) = all.pop_front()
        {
            total -= oldest.bytes;
        }
    }

    /// Drops the contents of segments whose pointers `go`.
    pub(super) fn evict(&self, go: impl Fn(&K) -> bool) {
        self.lock().retain(|kept| !go(&kept.pointer));
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Kept<K, T>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
