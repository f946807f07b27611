//! Imports messages of a chat from another program, or another deployment.
//!
//! An imported message has the key that it would have if it had come through its channel: its own time and id. So a
//! message that came through the channel too is found, and nothing is stored twice. For the table's TTL and the archive
//! it is appended now: it stays as long as a message that comes today, and leaves the table after it is in a segment.
//! It asks for no answer. The sample item of a record is in `item.rs`.

use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::record::{Draft, Kind};
use annals_core::sort_key::{SortKey, Timestamp};

use super::archived::ArchivedMessage;
use super::form::Form;
use super::item;
use super::table::{Anchor, Anchored, Written};
use super::turn::Claim;
use super::{History, HistoryError};

/// Maximum time for which an import holds a chat to move the start of its context.
const LEASE: Duration = Duration::from_mins(1);

/// The result of importing a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Imported {
    /// It is new and stored.
    Stored,
    /// An older form of the message is stored already; this one is stored beside it.
    Revised,
    /// It is stored already.
    Present,
}

impl History {
    /// Appends `draft` at `key` as its `revision`th form, unless the key is taken, in the table or in the archive. A
    /// first form with a [`Draft::form_ts`] later than those of all known forms is an edit that no webhook reported,
    /// and becomes the next form. One put, and for an edited message that may have left the table a read of the head;
    /// safe to repeat.
    pub async fn import(
        &self,
        draft: &Draft,
        key: &SortKey,
        revision: u32,
    ) -> Result<Imported, HistoryError> {
        let made_at = draft.form_ts.filter(|_| revision == 0 && draft.kind == Kind::Normal);
        let archived = if made_at.is_some() && self.retention.may_have_left(draft.ts, self.clock.now()) {
            self.archived_message(&draft.chat, &key.base()).await?
        } else {
            ArchivedMessage::default()
        };
        let base = key.base();
        let is_archived = archived.records.iter().any(|record| record.key == *key);
        let mut forms: Vec<Form> = archived.records.iter().map(Form::of_record).collect();
        let mut anchor = archived.pointer.clone().map(Anchor::at);
        let mut may_have_later = is_archived;
        if !is_archived {
            let mut record = self.record_of(draft, key.clone(), revision);
            record.ask_nothing();
            let existing = match self.put(&record).await? {
                Written::Done(_) => {
                    if revision > 0 && *key == base.revision(revision) {
                        self.count_revisions(&draft.chat, &draft.key(), revision).await?;
                    }
                    return Ok(Imported::Stored);
                }
                Written::Refused(existing) => existing,
            };
            forms.push(Form::of(&existing));
            may_have_later = item::integer(&existing, "revisions").is_some();
            anchor = None;
        }
        let Some(made_at) = made_at else { return Ok(Imported::Present) };
        if may_have_later {
            forms.extend(self.later_forms(&draft.chat, &base).await?);
        }
        if forms.iter().any(|form| form.made_at.is_none_or(|known| known >= made_at)) {
            return Ok(Imported::Present);
        }
        let next = forms.iter().map(|form| form.revision).max().unwrap_or(0) + 1;
        let mut edit = self.record_of(draft, base.revision(next), next);
        edit.ask_nothing();
        let own = || Anchor { sk: key.to_string(), revisions: Some(next), sent_at: None };
        let anchor = anchor.unwrap_or_else(own);
        let anchored = self.put_anchored(&edit, &anchor).await?;
        Ok(if matches!(anchored, Anchored::Done) { Imported::Revised } else { Imported::Present })
    }

    /// Sets the start of the context of `chat` to `from`, if it has none, or one that is later than `first`, the first
    /// message that was imported before it. So the next turn neither reads years, nor misses messages of its Session.
    /// `None` if a run has the chat, which finds the start itself. At most two writes.
    pub async fn read_from(
        &self,
        chat: &ChatKey,
        from: &SortKey,
        first: Option<Timestamp>,
    ) -> Result<Option<()>, HistoryError> {
        let known = self.head(chat).await?.context_from;
        let moves = match &known {
            None => true,
            Some(known) => from < known && first.is_some_and(|first| first < known.ts()),
        };
        if !moves {
            return Ok(Some(()));
        }
        let Claim::Claimed(lease) = self.claim_for_upkeep(chat, LEASE).await? else { return Ok(None) };
        let is_as_seen = lease.head.context_from == known;
        match self.finish_upkeep(&lease, None, Some(from).filter(|_| is_as_seen), None).await {
            Err(HistoryError::LeaseLost) => Ok(None),
            ended => ended.map(Some),
        }
    }
}
