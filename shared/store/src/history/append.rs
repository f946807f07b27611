//! Appends people's messages: a conditional put, whose result is stored, duplicate or revision.
//!
//! A message's key comes from its event, so a redelivery finds its own record. The condition's failure returns that
//! record: the same content is a duplicate, other content a revision, stored beside it. A message's first record counts
//! its revisions (`revisions`), so that a duplicate of a message that was never changed costs one write and no read.
//! The sample item of a record is in `item.rs`. A message whose channel gives it no stable time has a marker, too:
//!
//! ```json
//! {"pk": "http:chat:dev:c1", "sk": "!id#order-1", "ts": 1763765920000}
//! ```

use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::draft::Draft;
use annals_core::record::{Kind, Record};
use annals_core::sort_key::{MessageId, SortKey, Timestamp};

use super::archived::ArchivedMessage;
use super::form::{Form, is_later_form, next_form};
use super::item;
use super::table::{Anchor, Anchored, Update, Written, item_at, number};
use super::turn::{Held, Holder};
use super::{HEAD, History, HistoryError, MAX_INLINE_BYTES, later_expiry, partition};

/// Maximum number of attempts at one append while other processes change the same message.
const MAX_ATTEMPTS: u32 = 32;

/// Maximum difference between the clocks of two processes.
const CLOCKS_AGREE_WITHIN: Duration = Duration::from_secs(10);

/// A message that was appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The base of the message, which turns and replies refer to.
    pub base: SortKey,
    pub outcome: Outcome,
}

/// The result of appending a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Stored,
    /// This form of it is stored already; nothing changed.
    Duplicate,
    /// Other forms of it are stored already; this one is stored as the `n`th revision, from 1.
    Revision(u32),
}

/// The first form of a message that was stored before.
pub(super) struct Existing {
    form: Form,
    kind: Option<Kind>,
    user_id: Option<String>,
    /// Number of later forms that its record counts; `None` if that has left the table.
    revisions: Option<u32>,
    /// Time at which that may leave the table. Later forms stay as long: without them it would be read as it first was.
    expires_at: Option<i64>,
    /// The item that later forms depend on: the record, or if it has left the table, the pointer to its segment.
    anchor: Anchor,
}

impl Existing {
    /// Returns it and the later forms among the `archived` records, and true if the table may have further ones.
    pub(super) fn forms(&self, archived: &ArchivedMessage) -> (Vec<Form>, bool) {
        let later = archived.records.iter().filter(|record| is_later_form(record)).map(Form::of_record);
        let forms = std::iter::once(self.form.clone()).chain(later).collect();
        (forms, self.revisions.unwrap_or(0) > 0 || !archived.records.is_empty())
    }

    /// Returns the anchor of the form with this number, which the record counts from then on.
    pub(super) fn anchor_of(&self, revision: u32) -> Anchor {
        let anchor = self.anchor.clone();
        if self.revisions.is_some() { anchor.setting("revisions", number(revision)) } else { anchor }
    }
}

impl History {
    /// Appends a message as it comes from a channel.
    ///
    /// Costs one conditional put for a new message and for a duplicate of one that was never changed, and with a chat's
    /// first message in a while one write unit for the index; a message over [`MAX_INLINE_BYTES`] is put to S3 first. A
    /// message that may have left the table is looked for in the archive before. Safe to repeat after any failure.
    ///
    /// Over HTTP and on the web callers choose the ids, so there another user's repeat of an id is
    /// [`HistoryError::Taken`]. A platform gives an edit the id of the message that it changes. Another person's edit
    /// changes neither the author nor the asker (see [`Message::shown`](annals_core::context::view::Message::shown)).
    #[tracing::instrument(skip_all)]
    pub async fn append(&self, draft: &Draft) -> Result<Appended, HistoryError> {
        let (base, began) = (draft.key().base(), self.clock.now());
        let first = self.record_of(draft, draft.key(), 0);
        let digests = [item::content_digest(&first.message), item::digest_of_0_1(&first.message)];
        for _ in 0..MAX_ATTEMPTS {
            let archived = self.archived_if_left(&draft.chat, &base).await?;
            let Some(existing) = self.first_form(&first, &archived).await? else {
                self.check_body_is_kept(&first, began).await?;
                return Ok(Appended { base, outcome: Outcome::Stored });
            };
            if draft.channel.is_of_callers() && existing.user_id != Some(draft.user_id.clone()) {
                return Err(HistoryError::Taken { key: base });
            }
            if draft.kind == Kind::Boundary && existing.kind == Some(Kind::Boundary) {
                // A boundary has one form. The text after `/new` is a message of its own.
                return Ok(Appended { base, outcome: Outcome::Duplicate });
            }
            let known = existing.forms(&archived);
            let revised = Box::pin(self.append_revision(draft, &first, &digests, known, &existing)).await?;
            let Some(anchored) = revised else {
                return Ok(Appended { base, outcome: Outcome::Duplicate });
            };
            match anchored {
                (Anchored::Done, revision) => {
                    return Ok(Appended { base, outcome: Outcome::Revision(revision) });
                }
                // Another process stored a form meanwhile, or the chat was forgotten: try again.
                (Anchored::Taken(_) | Anchored::Gone, _) => {}
            }
        }
        Err(HistoryError::Contended { key: base })
    }

    /// Stores the first form of a message, unless the table or the archive has one; returns that.
    pub(super) async fn first_form(
        &self,
        first: &Record,
        archived: &ArchivedMessage,
    ) -> Result<Option<Existing>, HistoryError> {
        let in_archive = archived.records.iter().find(|record| record.key == first.key);
        let in_table = match in_archive {
            None => match self.put(first).await? {
                Written::Done(_) => return Ok(None),
                Written::Refused(existing) => Some(existing),
            },
            // Both may contain it: TTL deletes days late.
            Some(_) => self.table.get(&partition(&first.chat), first.key.as_str()).await?,
        };
        Ok(Some(match (in_table, in_archive, &archived.pointer) {
            (None, Some(record), Some(pointer)) => Existing {
                form: Form::of_record(record),
                kind: Some(record.kind()),
                user_id: Some(record.user_id.clone()),
                revisions: None,
                expires_at: record.expires_at,
                anchor: Anchor::at(pointer),
            },
            (item, ..) => {
                let item = item.unwrap_or_default();
                let is_same =
                    |sent_at| Update::default().when("sentAt = :sent").bind(":sent", number(sent_at));
                let anchor = match item::integer(&item, "sentAt") {
                    Some(sent_at) => Anchor::changed(first.key.as_str(), is_same(sent_at)),
                    None => Anchor::at(first.key.as_str()),
                };
                Existing {
                    form: Form::of(&item),
                    kind: item::text(&item, "kind").and_then(|kind| kind.parse().ok()),
                    user_id: item::text(&item, "userId").map(str::to_owned),
                    revisions: Some(item::count(&item, "revisions").unwrap_or(0)),
                    expires_at: item::integer(&item, "expiresAt"),
                    anchor,
                }
            }
        }))
    }

    /// Appends `draft` as the next form after `known` and, with `has_later`, after the later forms in the table;
    /// returns its number, or `None` if it is one of them. The put depends on the `existing` one, so that no form remains
    /// of a message that was forgotten meanwhile.
    async fn append_revision(
        &self,
        draft: &Draft,
        first: &Record,
        digests: &[String],
        (known, has_later): (Vec<Form>, bool),
        existing: &Existing,
    ) -> Result<Option<(Anchored, u32)>, HistoryError> {
        let base = first.key.base();
        let mut forms = known.clone();
        if has_later {
            forms.extend(self.later_forms(&draft.chat, &base).await?);
        }
        let is_stored =
            |forms: &[Form]| draft.form_ts_is_exact && forms.iter().any(|form| form.made_at == draft.form_ts);
        while !is_stored(&forms)
            && let Some(next) = next_form(&forms, draft.form_ts, digests)
        {
            let mut revision = self.record_of(draft, base.revision(next), next);
            revision.expires_at = later_expiry(revision.expires_at, existing.expires_at);
            let anchored = self.put_anchored(&revision, existing.anchor_of(next)).await?;
            if let Anchored::Taken(_) = anchored {
                // Another writer took that number, or a version before 0.2 did not count it.
                forms.clone_from(&known);
                forms.extend(self.later_forms(&draft.chat, &base).await?);
                if forms.iter().any(|form| form.revision >= next) {
                    continue;
                }
            }
            return Ok(Some((anchored, next)));
        }
        Ok(None)
    }

    /// Fails if the chat was deleted between the put of a body to S3 and the put of its record. Then the platform
    /// delivers the message again, and its body is stored again.
    async fn check_body_is_kept(&self, first: &Record, began: Timestamp) -> Result<(), HistoryError> {
        if serde_json::to_string(&first.message)?.len() <= MAX_INLINE_BYTES {
            return Ok(());
        }
        let head = self.table.get(&partition(&first.chat), HEAD).await?.unwrap_or_default();
        let forgotten_at = item::time(&head, "forgottenAt");
        let is_late = forgotten_at.is_some_and(|at| at.plus(CLOCKS_AGREE_WITHIN) >= began);
        let is_deleting = Held::at(&head, self.clock.now()).is_some_and(|held| held.by == Holder::Deletion);
        if is_late || is_deleting {
            return Err(HistoryError::ForgottenMeanwhile { key: first.key.clone() });
        }
        Ok(())
    }

    /// Appends a message once more, as its `revision`th form at a time of its own: an edit, or another try. The
    /// messages from `first` on, its first form, leave the context up to it. One transaction, so that no form remains of a
    /// message that was forgotten meanwhile.
    pub async fn append_again(
        &self,
        draft: &Draft,
        first: &Record,
        revision: u32,
    ) -> Result<Appended, HistoryError> {
        let base = draft.key().base();
        let mut record = self.record_of(draft, base.clone(), revision);
        record.message.metadata.set_replaces_from(&first.key);
        record.expires_at = later_expiry(record.expires_at, first.expires_at);
        let pointer = self.archived_if_left(&draft.chat, &first.key).await?.pointer;
        let anchor = Anchor::at(pointer.unwrap_or_else(|| first.key.to_string()));
        match self.put_anchored(&record, anchor).await? {
            Anchored::Done => Ok(Appended { base, outcome: Outcome::Revision(revision) }),
            Anchored::Taken(_) => Ok(Appended { base, outcome: Outcome::Duplicate }),
            Anchored::Gone => Err(HistoryError::ForgottenMeanwhile { key: base }),
        }
    }

    /// Appends a record of which there is one form. Returns the record at its key, and true if this append stored it. One
    /// put.
    pub async fn append_once(&self, draft: &Draft) -> Result<(Record, bool), HistoryError> {
        let record = self.record_of(draft, draft.key(), 0);
        let archived = self.archived_if_left(&draft.chat, &record.key).await?.records;
        if let Some(first) = archived.into_iter().find(|form| form.key == record.key) {
            return Ok((first, false));
        }
        let written = self.put(&record).await?;
        self.stored(record, written).await
    }

    /// Reads the time that [`History::first_time`] has fixed for the message `id`. One read.
    pub async fn time_of(&self, chat: &ChatKey, id: &MessageId) -> Result<Option<Timestamp>, HistoryError> {
        let marker = self.table.get(&partition(chat), &format!("!id#{id}")).await?;
        Ok(marker.and_then(|marker| item::time(&marker, "ts")))
    }

    /// Fixes the time of a message whose channel gives none, or not always the same: the first time that comes with
    /// this id. The marker stays in the table until the chat is forgotten, so that a repeat is recognised also after
    /// the record has left. One write.
    pub async fn first_time(
        &self,
        chat: &ChatKey,
        id: &MessageId,
        ts: Timestamp,
    ) -> Result<Timestamp, HistoryError> {
        let mut marker = item_at(partition(chat), format!("!id#{id}"));
        marker.insert("ts".into(), number(ts));
        Ok(match self.table.put_new(marker).await? {
            Written::Done(_) => ts,
            Written::Refused(marker) => {
                if marker.contains_key("expiresAt") {
                    // A marker of version 0.1, which would leave with its record.
                    let update = Update::default().remove(["expiresAt"]);
                    self.table.update(&partition(chat), &format!("!id#{id}"), update).await?;
                }
                item::time(&marker, "ts").unwrap_or(ts)
            }
        })
    }
}
