//! Contents of segments that a process keeps: those of their objects, and their indexes for searches. A segment of the same
//! pointer never changes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use annals_core::chat_key::ChatKey;

use super::shelf::SegmentInfo;

/// The contents of segments that were used last.
#[derive(Debug)]
pub(super) struct Cache<T> {
    /// Maximum size in bytes, unless one alone is larger.
    max_bytes: u64,
    kept: Mutex<VecDeque<Kept<T>>>,
}

/// The contents of a segment, and their size in bytes.
#[derive(Debug)]
struct Kept<T> {
    info: SegmentInfo,
    content: Arc<T>,
    bytes: u64,
}

impl<T> Cache<T> {
    pub(super) fn new(max_bytes: u64) -> Self {
        Self { max_bytes, kept: Mutex::default() }
    }

    pub(super) fn get(&self, info: &SegmentInfo) -> Option<Arc<T>> {
        let mut all = self.lock();
        let at = all.iter().position(|kept| kept.info == *info)?;
        let kept = all.remove(at)?;
        let content = Arc::clone(&kept.content);
        all.push_back(kept);
        Some(content)
    }

    pub(super) fn keep(&self, info: &SegmentInfo, content: &Arc<T>, bytes: u64) {
        let mut all = self.lock();
        all.push_back(Kept { info: info.clone(), content: Arc::clone(content), bytes });
        let mut total: u64 = all.iter().map(|kept| kept.bytes).sum();
        while total > self.max_bytes
            && all.len() > 1
            && let Some(oldest) = all.pop_front()
        {
            total -= oldest.bytes;
        }
    }

    /// Drops the contents of the segments of `chat`.
    pub(super) fn evict(&self, chat: &ChatKey) {
        self.lock().retain(|kept| kept.info.chat != *chat);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Kept<T>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
