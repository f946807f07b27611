//! Reading the context of a chat: only the records that it is made of, whatever lies before them.

use super::read::MAX_NAMES;
use super::turn::{Head, Link};
use super::{History, HistoryError};
use crate::chat_key::ChatKey;
use crate::context::{Context, Policy, context};
use crate::record::Record;
use crate::sort_key::{SortKey, Timestamp};

/// A context and the records that it was made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// The records, in order, from where the context can reach back to.
    pub records: Vec<Record>,
    /// What the model sees of them.
    pub context: Context,
}

impl History {
    /// The context of `chat` now. `head` says from where on to read; `also` (the message that the queue named) may be
    /// earlier.
    ///
    /// One query, as long as the context reaches into no earlier name of the chat. Where a record has arrived late,
    /// between where the Session can reach back to and its first message, the Session reaches further back than
    /// `head` knew: then what lies there is read too.
    #[tracing::instrument(skip_all)]
    pub async fn context(
        &self,
        chat: &ChatKey,
        head: &Head,
        also: Option<&SortKey>,
        policy: &Policy,
    ) -> Result<Seen, HistoryError> {
        let mut from =
            head.context_from.clone().map(|from| also.map_or(from.clone(), |also| from.min(also.clone())));
        loop {
            let records = self.records_from(chat, head, from.as_ref()).await?;
            let context = context(&records, self.clock.now(), policy);
            match (&from, &context.reaches_back_to) {
                (Some(read), Some(reaches)) if reaches < read => from = Some(reaches.clone()),
                _ => return Ok(Seen { records, context }),
            }
        }
    }

    /// The records that the context of `before` was made of: what stands before that reply, as the Session was `at` the
    /// time that it was made. `from` is the first message that it covers.
    pub async fn records_before(
        &self,
        chat: &ChatKey,
        head: &Head,
        from: &SortKey,
        before: &SortKey,
        at: Timestamp,
        policy: &Policy,
    ) -> Result<Vec<Record>, HistoryError> {
        let mut from = head.context_from.clone().map(|known| known.min(from.clone()));
        loop {
            let mut records = self.records_from(chat, head, from.as_ref()).await?;
            records.retain(|record| record.key < *before);
            let reaches = context(&records, at, policy).reaches_back_to;
            match (&from, reaches) {
                (Some(read), Some(reaches)) if reaches < *read => from = Some(reaches),
                _ => return Ok(records),
            }
        }
    }

    /// The records from `from` on (all where `None`), over the names that the chat has had.
    async fn records_from(
        &self,
        chat: &ChatKey,
        head: &Head,
        from: Option<&SortKey>,
    ) -> Result<Vec<Record>, HistoryError> {
        let mut parts = vec![self.range(chat, from).await?];
        let mut from = from.cloned();
        let mut link = head.continues.clone();
        while let Some(Link { chat: earlier, at }) = link
            && parts.len() < MAX_NAMES
            && from.as_ref().is_none_or(|from| from.ts() <= at)
        {
            let head = self.head(&earlier).await?;
            from = from.or_else(|| head.context_from.clone());
            let mut records = self.range(&earlier, from.as_ref()).await?;
            for record in &mut records {
                // What waits under the earlier name has its own turn there.
                record.asks = false;
            }
            parts.push(records);
            link = head.continues;
        }
        let mut records: Vec<Record> = parts.into_iter().rev().flatten().collect();
        records.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(records)
    }
}
