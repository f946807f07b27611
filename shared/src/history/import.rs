//! Importing: what another program, or another deployment, has of a chat.
//!
//! An imported message stands where it would if it had come by its door, at its own time under its own id. So what came by
//! the door as well is met, and nothing is stored twice. It is appended now, as far as the table's TTL and the archive go:
//! it stays as long as a message that comes today, and leaves by way of a segment. It asks nothing.

use std::time::Duration;

use super::append::{Form, form_of, form_of_record};
use super::archived::ArchivedMessage;
use super::item;
use super::table::{Anchor, Anchored, Written};
use super::turn::Claim;
use super::{History, HistoryError};
use crate::chat_key::ChatKey;
use crate::record::{Draft, Kind, Record};
use crate::sort_key::{SortKey, Timestamp};

/// How long an import may hold a chat to move where its context starts.
const LEASE: Duration = Duration::from_mins(1);

/// What became of an imported message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Imported {
    /// It is new and stored.
    Stored,
    /// The message was there in an older form; this one is stored beside it.
    Revised,
    /// It was there.
    Present,
}

impl History {
    /// Appends `draft` at `key` as its `revision`th form, unless something is there, in the table or in the archive. A first
    /// form with a [`Draft::form_ts`] later than those of all known forms is an edit that no webhook told of, and becomes
    /// the next form. One put, and for an edited message that may have left the table a read of the head; safe to repeat.
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
        let mut forms: Vec<Form> = archived.records.iter().map(form_of_record).collect();
        let mut anchor = archived.pointer.clone().map(|sk| Anchor { sk, ..Anchor::default() });
        let mut may_have_later = is_archived;
        if !is_archived {
            let record =
                Record { kind: draft.kind, asks: false, ..self.record_of(draft, key.clone(), revision) };
            let existing = match self.put(&record).await? {
                Written::Done(_) => {
                    if revision > 0 && *key == base.revision(revision) {
                        self.count_revisions(&draft.chat, &draft.key(), revision).await?;
                    }
                    return Ok(Imported::Stored);
                }
                Written::Refused(existing) => existing,
            };
            forms.push(form_of(&existing));
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
        let edit = Record { asks: false, ..self.record_of(draft, base.revision(next), next) };
        let own = || Anchor { sk: key.to_string(), revisions: Some(next), sent_at: None };
        let anchor = anchor.unwrap_or_else(own);
        let anchored = self.put_anchored(&edit, &anchor).await?;
        Ok(if matches!(anchored, Anchored::Done) { Imported::Revised } else { Imported::Present })
    }

    /// Has the context of `chat` read from `from` on, where it is read from nowhere in particular, or where from later on
    /// than `first`, the first message that has come below that. So the next turn neither reads years, nor overlooks what is
    /// of its Session. `None` where a run has the chat, which finds out for itself. Two writes at most.
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
        let ended = self.finish_upkeep(&lease, None, Some(from).filter(|_| is_as_seen)).await?;
        Ok(ended.is_ok().then_some(()))
    }
}
