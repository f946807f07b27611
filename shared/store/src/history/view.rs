//! Reads the context of a chat: only the records that it is made of, however long the history before them is. The
//! sample item of a record is in `item.rs`, that of a head in `turn.rs`.

use annals_core::chat_key::ChatKey;
use annals_core::context::{Context, Policy, context};
use annals_core::record::{MAX_AHEAD, Record};
use annals_core::sort_key::{SortKey, Timestamp};

use super::read::MAX_NAMES;
use super::turn::{Head, Link};
use super::{History, HistoryError, LAST_KEY};

/// A context and the records that it was made of.
#[derive(Clone, Debug, PartialEq)]
pub struct ContextRead {
    /// The records, in order, from the first one that the context can reach back to.
    pub records: Vec<Record>,
    pub context: Context,
}

impl History {
    /// Reads the context of `chat` now, from [`Head::context_from`] on, or from `also` (the message that the queue
    /// named) if that is earlier.
    ///
    /// One query, as long as the context reaches into no earlier name of the chat. If a record has arrived late,
    /// between the first key that the Session can reach back to and its first message, the Session reaches further back
    /// than `head` says: then the records there are read too.
    #[tracing::instrument(skip_all)]
    pub async fn context(
        &self,
        chat: &ChatKey,
        head: &Head,
        also: Option<&SortKey>,
        policy: &Policy,
    ) -> Result<ContextRead, HistoryError> {
        let from =
            head.context_from.clone().map(|from| also.map_or(from.clone(), |also| from.min(also.clone())));
        self.context_at(chat, head, (from, LAST_KEY), self.clock.now(), policy, |_| true).await
    }

    /// Reads the records that the context of the reply `before` was made of: those before that reply, in the Session as
    /// it was `at` the time that it was made. `from` is the first message that it covers.
    pub async fn records_before(
        &self,
        chat: &ChatKey,
        head: &Head,
        from: &SortKey,
        before: &SortKey,
        at: Timestamp,
        policy: &Policy,
    ) -> Result<Vec<Record>, HistoryError> {
        let from = head.context_from.clone().map(|known| known.min(from.clone()));
        let is_before = |record: &Record| record.key < *before;
        Ok(self.context_at(chat, head, (from, LAST_KEY), at, policy, is_before).await?.records)
    }

    /// Reads the records that a run saw `at` a time, as far as they are still in the table, in the Session as it was then.
    /// `from` is the first message that the run covered.
    pub async fn records_as_of(
        &self,
        chat: &ChatKey,
        head: &Head,
        from: &SortKey,
        at: Timestamp,
        policy: &Policy,
    ) -> Result<Vec<Record>, HistoryError> {
        // A message may be dated later than its arrival.
        let to = SortKey::start_of(at.plus(MAX_AHEAD));
        let was_there = |record: &Record| record.sent_at <= at;
        let from = Some(from.clone());
        Ok(self.context_at(chat, head, (from, to.as_str()), at, policy, was_there).await?.records)
    }

    /// Reads the context `at` a time of those records from `from` to `to` that `is_seen` selects, and of those before them as
    /// far as the Session reaches back.
    async fn context_at(
        &self,
        chat: &ChatKey,
        head: &Head,
        (mut from, to): (Option<SortKey>, &str),
        at: Timestamp,
        policy: &Policy,
        is_seen: impl Fn(&Record) -> bool,
    ) -> Result<ContextRead, HistoryError> {
        loop {
            let mut records = self.records_between(chat, head, from.as_ref(), to).await?;
            records.retain(&is_seen);
            let context = context(&records, at, policy);
            match (&from, &context.reaches_back_to) {
                (Some(read), Some(reaches)) if reaches < read => from = Some(reaches.clone()),
                _ => return Ok(ContextRead { records, context }),
            }
        }
    }

    /// Reads the records from `from` to `to`, over the names that the chat has had.
    async fn records_between(
        &self,
        chat: &ChatKey,
        head: &Head,
        from: Option<&SortKey>,
        to: &str,
    ) -> Result<Vec<Record>, HistoryError> {
        let mut parts = vec![self.range_to(chat, from, to).await?];
        let mut from = from.cloned();
        let mut link = head.continues.clone();
        while let Some(Link { chat: earlier, at }) = link
            && parts.len() < MAX_NAMES
            && from.as_ref().is_none_or(|from| from.ts() <= at)
        {
            let head = self.head(&earlier).await?;
            from = from.or_else(|| head.context_from.clone());
            let mut records = self.range_to(&earlier, from.as_ref(), to).await?;
            for record in &mut records {
                // Unanswered messages under the earlier name have their own turn there.
                record.ask_nothing();
            }
            parts.push(records);
            link = head.continues;
        }
        let mut records: Vec<Record> = parts.into_iter().rev().flatten().collect();
        records.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(records)
    }
}
