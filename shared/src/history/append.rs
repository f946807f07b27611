//! Appending: conditional puts that answer stored, duplicate or revision.
//!
//! A message's key comes from its event, so a redelivery meets its own record. What the put's condition then returns
//! decides: the same content is a duplicate, other content a revision beside it. A message's first record counts its
//! revisions (`revisions`), so that a duplicate of a message that was never changed costs one write and no read.

use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::Value;

use super::archived::ArchivedMessage;
use super::item::{self, MessageAttribute};
use super::table::{Anchor, Anchored, Item, Span, Update, Written, number, string};
use super::{HEAD, History, HistoryError, MAX_INLINE_BYTES, due, later_expiry, partition};
use crate::approval::{Assent, Verdict};
use crate::chat_key::ChatKey;
use crate::message::{Role, UiMessage};
use crate::record::{Channel, Draft, Kind, REPLACES_FROM, Record, Source};
use crate::sort_key::{MessageId, SortKey, Timestamp};
use crate::tokens;

/// How often one append looks again when others change the same message.
const MAX_ATTEMPTS: u32 = 32;

/// Difference between the clocks of two processes that is allowed for.
const CLOCKS_AGREE_WITHIN: Duration = Duration::from_secs(10);

/// What an append did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The base of the message, which turns and replies refer to.
    pub base: SortKey,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of an appended message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is new and stored.
    Stored,
    /// This form of it was there; nothing changed.
    Duplicate,
    /// It was there in other forms; this one is stored as the `n`th revision, from 1.
    Revision(u32),
}

/// What the agent says, on its way into a history.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// [`Kind::Normal`] for an answer, [`Kind::Notice`] for a confirmation or a failure.
    pub kind: Kind,
    /// The door it goes out by.
    pub channel: Channel,
    /// The platform's id of the window it goes to.
    pub chat_id: String,
    /// The agent's id.
    pub agent_id: String,
    /// What is said; its id is set by the append.
    pub message: UiMessage,
    /// The message it stands directly behind: the newest it covers.
    pub behind: SortKey,
    /// That message's id.
    pub behind_id: MessageId,
    /// When that message was appended, as far as is known: not long ago, its chat is registered for the compactor.
    pub asked_at: Option<Timestamp>,
    /// The bases of the messages it answers.
    pub covers: Vec<SortKey>,
    /// Which form of the reply to that message it is: above 0 where that was said again.
    pub revision: u32,
    /// When the messages that it answers may leave the table: it stays at least as long, whatever TTL deletes first, so
    /// that none of them is ever there without it.
    pub covered_until: Vec<Option<i64>>,
}

/// What the place of a reply holds now.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplyAppended {
    /// This reply.
    Stored(Record),
    /// The reply of an earlier run, which got there first.
    Present(Record),
}

/// The first form of a message after an append.
enum FirstForm {
    /// This append stored it.
    Stored,
    /// It was there.
    Existing(Existing),
}

/// The first form of a message as it is stored.
struct Existing {
    form: Form,
    kind: Option<Kind>,
    user_id: Option<String>,
    /// How many later forms it counts.
    revisions: u32,
    /// The item that later forms depend on: the record, which counts them, or if it has left the table, the pointer to its
    /// segment.
    anchor: Anchor,
}

/// A stored form of a message: all that tells forms apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// When it was made, by its platform's clock.
    pub made_at: Option<Timestamp>,
    /// Its number: 0 for the first.
    pub revision: u32,
    /// The digest of its content.
    pub digest: Option<String>,
}

/// Returns the number of a form with this content that is appended to `forms`, all that are stored of a message, the first
/// form first; `None` if it is one of them.
pub fn next_form(forms: &[Form], form_ts: Option<Timestamp>, digest: &str) -> Option<u32> {
    let next = forms.iter().map(|form| form.revision).max().unwrap_or(0) + 1;
    (!is_known(forms, form_ts, digest)).then_some(next)
}

impl History {
    /// Appends a message as it comes from a channel.
    ///
    /// Costs one conditional put for a new message and for a duplicate of one that was never changed, and with a chat's
    /// first message in a while one write unit for the index; a message over [`MAX_INLINE_BYTES`] is put to S3 first. A
    /// message that may have left the table is looked for in the archive before. Safe to repeat after any failure.
    ///
    /// Over HTTP and on the web callers choose the ids, so there another user's repeat of an id is
    /// [`HistoryError::Taken`]. A platform gives an edit the id of the message that it changes; who edits it changes
    /// neither its author nor who asks (see [`Message::shown`](crate::context::view::Message::shown)).
    #[tracing::instrument(skip_all)]
    pub async fn append(&self, draft: &Draft) -> Result<Appended, HistoryError> {
        let (base, began) = (draft.key().base(), self.clock.now());
        let first = self.record_of(draft, draft.key(), 0);
        let digest = item::content_digest(&first.message);
        for _ in 0..MAX_ATTEMPTS {
            let archived = if self.retention.may_have_left(draft.ts, began) {
                Box::pin(self.archived_message(&draft.chat, &base)).await?
            } else {
                ArchivedMessage::default()
            };
            let existing = match self.first_form(&first, &archived).await? {
                FirstForm::Stored => {
                    self.check_body_is_kept(&first, began).await?;
                    return Ok(Appended { base, outcome: Outcome::Stored });
                }
                FirstForm::Existing(existing) => existing,
            };
            if draft.channel.lets_callers_name_messages() && existing.user_id != Some(draft.user_id.clone()) {
                return Err(HistoryError::Taken { key: base });
            }
            if draft.kind == Kind::Boundary && existing.kind == Some(Kind::Boundary) {
                // A boundary has one form. What follows `/new` has its own, beside it.
                return Ok(Appended { base, outcome: Outcome::Duplicate });
            }
            let later = archived.records.iter().filter(|record| is_later_form(record));
            let mut forms = vec![existing.form];
            forms.extend(later.map(form_of_record));
            let has_later = existing.revisions > 0 || !archived.records.is_empty();
            let Some(anchored) =
                Box::pin(self.append_revision(draft, &first, &digest, (forms, has_later), existing.anchor))
                    .await?
            else {
                return Ok(Appended { base, outcome: Outcome::Duplicate });
            };
            match anchored {
                (Anchored::Done, revision) => {
                    self.check_body_is_kept(&first, began).await?;
                    return Ok(Appended { base, outcome: Outcome::Revision(revision) });
                }
                // Somebody else stored a form meanwhile, or the chat was forgotten: look again.
                (Anchored::Taken(_) | Anchored::Gone, _) => {}
            }
        }
        Err(HistoryError::Contended { key: base })
    }

    /// Stores the first form of a message, unless the table or the archive has one.
    async fn first_form(
        &self,
        first: &Record,
        archived: &ArchivedMessage,
    ) -> Result<FirstForm, HistoryError> {
        let in_archive = archived.records.iter().find(|record| record.key == first.key);
        let in_table = match in_archive {
            None => match self.put(first).await? {
                Written::Done(_) => return Ok(FirstForm::Stored),
                Written::Refused(existing) => Some(existing),
            },
            // Both may have it: TTL deletes days late.
            Some(_) => self.table.get(&partition(&first.chat), first.key.as_str()).await?,
        };
        Ok(FirstForm::Existing(match (in_table, in_archive, &archived.pointer) {
            (None, Some(record), Some(pointer)) => Existing {
                form: form_of_record(record),
                kind: Some(record.kind),
                user_id: Some(record.user_id.clone()),
                revisions: 0,
                anchor: Anchor { sk: pointer.clone(), ..Anchor::default() },
            },
            (item, ..) => {
                let item = item.unwrap_or_default();
                let revisions = item::integer(&item, "revisions").and_then(|n| u32::try_from(n).ok());
                Existing {
                    form: form_of(&item),
                    kind: item::text(&item, "kind").and_then(|kind| kind.parse().ok()),
                    user_id: item::text(&item, "userId").map(str::to_owned),
                    revisions: revisions.unwrap_or(0),
                    anchor: Anchor {
                        sk: first.key.to_string(),
                        sent_at: item::integer(&item, "sentAt"),
                        revisions: Some(0),
                    },
                }
            }
        }))
    }

    /// Appends `draft` as the next form after `known` and, with `has_later`, after the later forms in the table; returns its
    /// number, or `None` if it is one of them. The put depends on `anchor`, so that no form is left of a message that was
    /// forgotten meanwhile.
    async fn append_revision(
        &self,
        draft: &Draft,
        first: &Record,
        digest: &str,
        (known, has_later): (Vec<Form>, bool),
        anchor: Anchor,
    ) -> Result<Option<(Anchored, u32)>, HistoryError> {
        let base = first.key.base();
        let mut forms = known.clone();
        if has_later {
            forms.extend(self.later_forms(&draft.chat, &base).await?);
        }
        while let Some(next) = next_form(&forms, draft.form_ts, digest) {
            let revision = self.record_of(draft, base.revision(next), next);
            let anchor = Anchor { revisions: anchor.revisions.map(|_| next), ..anchor.clone() };
            let anchored = self.put_anchored(&revision, &anchor).await?;
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

    /// A body lies in S3 before its record is stored, and a deletion of the chat may fall between the two. Then the
    /// platform delivers the message again, and its body is stored again.
    async fn check_body_is_kept(&self, first: &Record, began: Timestamp) -> Result<(), HistoryError> {
        if serde_json::to_string(&first.message)?.len() <= MAX_INLINE_BYTES {
            return Ok(());
        }
        let head = self.table.get(&partition(&first.chat), HEAD).await?.unwrap_or_default();
        let forgotten_at = item::integer(&head, "forgottenAt").and_then(Timestamp::from_millis);
        let is_late = forgotten_at.is_some_and(|at| at.plus(CLOCKS_AGREE_WITHIN) >= began);
        let held_until = item::integer(&head, "leaseUntil").and_then(Timestamp::from_millis);
        let is_held = held_until.is_some_and(|until| until >= self.clock.now());
        if is_late || (is_held && head.contains_key("forgetting")) {
            return Err(HistoryError::ForgottenMeanwhile { key: first.key.clone() });
        }
        Ok(())
    }

    /// Appends a message that was said before once more, as its `revision`th form at a time of its own: an edit, or another
    /// try. From `replaces` on, what was said up to it leaves the context. One put; one place takes one.
    pub async fn append_again(
        &self,
        draft: &Draft,
        replaces: &SortKey,
        revision: u32,
    ) -> Result<Appended, HistoryError> {
        let base = draft.key().base();
        let mut record = Record { revision, ..self.record_of(draft, base.clone(), 0) };
        record.message.metadata.insert(REPLACES_FROM.into(), replaces.as_str().into());
        let outcome = match self.put(&record).await? {
            Written::Done(_) => Outcome::Revision(revision),
            Written::Refused(_) => Outcome::Duplicate,
        };
        Ok(Appended { base, outcome })
    }

    /// The time that [`History::first_time`] has fixed for the message `id`. One read.
    pub async fn time_of(&self, chat: &ChatKey, id: &MessageId) -> Result<Option<Timestamp>, HistoryError> {
        let marker = self.table.get(&partition(chat), &format!("!id#{id}")).await?;
        Ok(marker.and_then(|marker| item::integer(&marker, "ts")).and_then(Timestamp::from_millis))
    }

    /// Fixes the time of a message whose channel gives none, or not always the same: the first time that comes with this id.
    /// The marker stays in the table until the chat is forgotten, so that a repeat is met also after its record has left.
    /// Costs one write.
    pub async fn first_time(
        &self,
        chat: &ChatKey,
        id: &MessageId,
        ts: Timestamp,
    ) -> Result<Timestamp, HistoryError> {
        let mut marker = Item::new();
        marker.insert("pk".into(), string(partition(chat)));
        marker.insert("sk".into(), string(format!("!id#{id}")));
        marker.insert("ts".into(), number(ts));
        Ok(match self.table.put_new(marker).await? {
            Written::Done(_) => ts,
            Written::Refused(marker) => {
                if marker.contains_key("expiresAt") {
                    // One of version 0.1, which would leave with its record.
                    let update = Update { expression: "REMOVE expiresAt".into(), ..Update::default() };
                    self.table.update(&partition(chat), &format!("!id#{id}"), update).await?;
                }
                item::integer(&marker, "ts").and_then(Timestamp::from_millis).unwrap_or(ts)
            }
        })
    }

    /// Appends what the agent says directly behind the newest message it covers; one place takes one
    /// reply.
    pub async fn append_reply(&self, chat: &ChatKey, reply: Reply) -> Result<ReplyAppended, HistoryError> {
        // What covers messages stands in the one place of their reply, also a failure notice, so that two runs with
        // different ends still meet there.
        let key = if reply.covers.is_empty() { reply.behind.notice() } else { reply.behind.reply() };
        let what = if reply.kind == Kind::Notice { "notice" } else { "reply" };
        let message_id = reply.behind_id.derived(what);
        let own = self.agents_record(chat, key, message_id, (reply.kind, reply.channel), reply.message);
        let record = Record {
            chat_id: reply.chat_id,
            user_id: reply.agent_id,
            covers: reply.covers,
            revision: reply.revision,
            expires_at: reply.covered_until.into_iter().fold(own.expires_at, later_expiry),
            ..own
        };
        if record.covers.is_empty() {
            // It confirms a command: nothing of it is left if the command was forgotten meanwhile.
            let anchor = Anchor { sk: reply.behind.to_string(), ..Anchor::default() };
            return Ok(match Box::pin(self.put_anchored(&record, &anchor)).await? {
                Anchored::Done | Anchored::Gone => ReplyAppended::Stored(record),
                Anchored::Taken(existing) => ReplyAppended::Present(self.record(&existing).await?),
            });
        }
        // The message's own entry comes due D/2 behind it or later; see `due`.
        let is_registered =
            reply.asked_at.is_some_and(|at| record.sent_at.since(at) < self.retention.due_after() / 4);
        match self.put_beside(&record, is_registered).await? {
            Written::Done(_) => Ok(ReplyAppended::Stored(record)),
            Written::Refused(existing) => Ok(ReplyAppended::Present(self.record(&existing).await?)),
        }
    }

    /// Appends the `number`th later form of `reply`, from 1: what it became behind an approval. One place takes one form.
    pub async fn append_reply_form(
        &self,
        reply: &Record,
        number: u32,
        message: UiMessage,
    ) -> Result<ReplyAppended, HistoryError> {
        let what = (Kind::Revision, reply.channel);
        let record = Record {
            chat_id: reply.chat_id.clone(),
            user_id: reply.user_id.clone(),
            revision: number,
            ..self.agents_record(
                &reply.chat,
                reply.key.reply_form(number),
                reply.message_id.clone(),
                what,
                message,
            )
        };
        match self.put(&record).await? {
            Written::Done(_) => Ok(ReplyAppended::Stored(record)),
            Written::Refused(existing) => Ok(ReplyAppended::Present(self.record(&existing).await?)),
        }
    }

    /// Appends somebody's answer to what `reply` asks to be allowed: `by` is who, where and what was typed. The first
    /// answer stands. Answers with what became of it, and the answer that stands.
    pub async fn append_approval(
        &self,
        reply: &Record,
        by: &Draft,
        verdict: &Verdict,
    ) -> Result<(Outcome, Record), HistoryError> {
        self.append_to_request(reply, by, &verdict.id, ("approval", verdict.to_json())).await
    }

    /// Appends the approval of one of several askers, `by`, of what `reply` asks. Safe to repeat.
    pub async fn append_assent(
        &self,
        reply: &Record,
        by: &Draft,
        assent: &Assent,
    ) -> Result<(Outcome, Record), HistoryError> {
        let person = digest(&SHA256, assent.person.as_bytes());
        let place = format!("{}-{}", assent.id, hex::encode(&person.as_ref()[..6]));
        self.append_to_request(reply, by, &place, ("assent", assent.to_json())).await
    }

    /// Appends a notice about a request of `reply` at `place`, unless there is one. Returns the one that is there.
    async fn append_to_request(
        &self,
        reply: &Record,
        by: &Draft,
        place: &str,
        (field, value): (&str, Value),
    ) -> Result<(Outcome, Record), HistoryError> {
        let key = reply.key.approval(place);
        let message_id = reply.message_id.derived(&format!("approval-{place}"));
        let mut record = Record {
            chat: reply.chat.clone(),
            ts: reply.ts,
            form_ts: None,
            kind: Kind::Notice,
            asks: false,
            album: None,
            ..self.record_of(by, key, 0)
        };
        record.message.metadata.insert(field.into(), value);
        record.message_id = message_id;
        record.message.id = record.message_id.to_string();
        let anchor = Anchor { sk: reply.key.to_string(), ..Anchor::default() };
        match self.put_anchored(&record, &anchor).await? {
            Anchored::Done | Anchored::Gone => Ok((Outcome::Stored, record)),
            Anchored::Taken(existing) => Ok((Outcome::Duplicate, self.record(&existing).await?)),
        }
    }

    /// Appends a summary behind the last message or reply that it counts; one place takes one summary. `beside` is that
    /// message's record, whose door and line the summary shares, and whose `person` is the one person that the summary
    /// speaks of, if it is one. Answers with what the place holds now.
    pub async fn append_summary(
        &self,
        beside: &Record,
        agent_id: &str,
        text: &str,
        source: Source,
    ) -> Result<Record, HistoryError> {
        let message_id = source.to_id.derived("summary");
        let mut message = UiMessage::text("", Role::Assistant, text);
        beside.copy_line_to(&mut message.metadata);
        let (key, kind) = (source.to.summary(), (Kind::Summary, beside.channel));
        let record = Record {
            chat_id: beside.chat_id.clone(),
            user_id: agent_id.to_owned(),
            source: Some(source),
            person: beside.person.clone(),
            ..self.agents_record(&beside.chat, key, message_id, kind, message)
        };
        match self.put(&record).await? {
            Written::Done(_) => Ok(record),
            Written::Refused(existing) => self.record(&existing).await,
        }
    }

    /// Moves the date on which `record` may leave the table to what it would be if it were appended now, unless it is later
    /// already or has come: for what the context still needs and no summary could take in. One write. What covers a message must be
    /// prolonged before the message.
    pub async fn prolong(&self, record: &Record) -> Result<(), HistoryError> {
        let update = match self.retention.expires_at(self.clock.now()) {
            Some(expires_at) => Update {
                expression: "SET expiresAt = :at".into(),
                // What has passed its date is not revived: its reply may be gone.
                condition: Some("attribute_exists(pk) AND expiresAt < :at AND expiresAt > :now"),
                values: vec![
                    (":at", number(expires_at)),
                    (":now", number(self.clock.now().as_millis() / 1000)),
                ],
            },
            None => Update {
                expression: "REMOVE expiresAt".into(),
                condition: Some("attribute_exists(pk)"),
                ..Update::default()
            },
        };
        self.table.update(&partition(&record.chat), record.key.as_str(), update).await?;
        Ok(())
    }

    /// Puts any record, unless its key is taken. It registers its chat in the index of due chats (see [`due`]) where
    /// this process has not done so for a while; that is part of the put, and costs one write unit more.
    pub(super) async fn put(&self, record: &Record) -> Result<Written, HistoryError> {
        self.put_beside(record, false).await
    }

    /// [`History::put`]; with `is_registered`, another record has registered the chat already.
    async fn put_beside(&self, record: &Record, is_registered: bool) -> Result<Written, HistoryError> {
        let mut item = self.item_of(record).await?;
        let registers =
            !is_registered && self.registry.wants(&record.chat, record.sent_at, self.retention.due_after());
        if registers {
            due::register(&mut item, &record.chat, record.sent_at, &self.retention);
        }
        let written = self.table.put_new(item).await?;
        if registers && matches!(written, Written::Done(_)) {
            // Not where it was refused: nothing of this item is stored then.
            self.registry.remember(&record.chat, record.sent_at);
        }
        Ok(written)
    }

    /// Puts any record, unless its key is taken, as long as the item of `anchor` is in the table. Registers its chat as
    /// [`History::put`] does.
    pub(super) async fn put_anchored(
        &self,
        record: &Record,
        anchor: &Anchor,
    ) -> Result<Anchored, HistoryError> {
        let mut item = self.item_of(record).await?;
        let registers = self.registry.wants(&record.chat, record.sent_at, self.retention.due_after());
        if registers {
            due::register(&mut item, &record.chat, record.sent_at, &self.retention);
        }
        let anchored = self.table.put_anchored(item, anchor).await?;
        if registers && matches!(anchored, Anchored::Done) {
            self.registry.remember(&record.chat, record.sent_at);
        }
        Ok(anchored)
    }

    /// The item of `record`; a large message is put to S3 first.
    async fn item_of(&self, record: &Record) -> Result<Item, HistoryError> {
        let json = serde_json::to_string(&record.message)?;
        let message = if json.len() > MAX_INLINE_BYTES {
            let digest = item::content_digest(&record.message);
            MessageAttribute::Body {
                key: self.bodies.put(&record.chat, &record.key, &digest, json).await?,
                digest,
            }
        } else {
            MessageAttribute::Inline(json)
        };
        Ok(item::to_item(record, message))
    }

    /// A record of what the agent says, appended now, but for whom it is said to.
    fn agents_record(
        &self,
        chat: &ChatKey,
        key: SortKey,
        message_id: MessageId,
        (kind, channel): (Kind, Channel),
        message: UiMessage,
    ) -> Record {
        let now = self.clock.now();
        let mut message = UiMessage { id: message_id.to_string(), ..message };
        message.flatten();
        Record {
            chat: chat.clone(),
            ts: key.ts(),
            key,
            channel,
            chat_id: String::new(),
            user_id: String::new(),
            message_id,
            sent_at: now,
            form_ts: None,
            revision: 0,
            kind,
            tokens: tokens::of_message(&message),
            message,
            expires_at: self.retention.expires_at(now),
            album: None,
            asks: false,
            covers: Vec::new(),
            delivery_failure: None,
            source: None,
            person: None,
        }
    }

    /// The record that `draft` becomes as its `revision`th form at `key`.
    pub(crate) fn record_of(&self, draft: &Draft, key: SortKey, revision: u32) -> Record {
        let now = self.clock.now();
        let mut message = UiMessage::new(draft.message_id.as_str(), draft.role, draft.parts.clone());
        message.metadata.clone_from(&draft.metadata);
        message.flatten();
        Record {
            chat: draft.chat.clone(),
            key,
            channel: draft.channel,
            chat_id: draft.chat_id.clone(),
            user_id: draft.user_id.clone(),
            message_id: match draft.kind {
                Kind::Boundary => draft.message_id.derived("boundary"),
                _ => draft.message_id.clone(),
            },
            ts: draft.ts,
            sent_at: now,
            form_ts: draft.form_ts,
            revision,
            kind: if revision == 0 { draft.kind } else { Kind::Revision },
            tokens: tokens::of_message(&message),
            message,
            expires_at: match draft.kind {
                Kind::Boundary => self.retention.boundary_expires_at(now),
                _ => self.retention.expires_at(now),
            },
            album: draft.album.clone(),
            asks: draft.asks && draft.role == Role::User,
            covers: Vec::new(),
            delivery_failure: None,
            source: None,
            person: draft.person.clone(),
        }
    }

    /// The revisions of a message, in order.
    pub(super) async fn later_forms(
        &self,
        chat: &ChatKey,
        base: &SortKey,
    ) -> Result<Vec<Form>, HistoryError> {
        let span = Span {
            from: base.revision(0).to_string(),
            to: base.notice().to_string(),
            newest_first: false,
            limit: None,
        };
        let items = self.table.query(&partition(chat), &span).await?;
        let is_revision = |item: &&Item| item::text(item, "kind") == Some(Kind::Revision.as_str());
        Ok(items.iter().filter(is_revision).map(form_of).collect())
    }

    /// Notes on a message's first record how many revisions stand beside it.
    pub(super) async fn count_revisions(
        &self,
        chat: &ChatKey,
        key: &SortKey,
        revisions: u32,
    ) -> Result<(), HistoryError> {
        let update = Update {
            expression: "SET revisions = :n".into(),
            condition: Some("attribute_exists(pk) AND (attribute_not_exists(revisions) OR revisions < :n)"),
            values: vec![(":n", number(revisions))],
        };
        self.table.update(&partition(chat), key.as_str(), update).await?;
        Ok(())
    }
}

pub(super) fn form_of(item: &Item) -> Form {
    let time = |attribute| item::integer(item, attribute).and_then(Timestamp::from_millis);
    Form {
        made_at: time("formTs").or_else(|| time("ts")),
        revision: item::integer(item, "revision").and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
        digest: item::stored_digest(item),
    }
}

pub(super) fn form_of_record(record: &Record) -> Form {
    Form {
        made_at: record.form_ts.or(Some(record.ts)),
        revision: record.revision,
        digest: Some(item::content_digest(&record.message)),
    }
}

/// Returns whether an archived record is a later form of a person's message.
pub(super) fn is_later_form(record: &Record) -> bool {
    record.kind == Kind::Revision && !record.key.hangs_on_reply()
}

/// Whether a form is stored already: the newest says the same, or the platform sent this very form before.
fn is_known(forms: &[Form], form_ts: Option<Timestamp>, digest: &str) -> bool {
    let same = |form: &Form| form.digest.as_deref() == Some(digest);
    let Some(form_ts) = form_ts else {
        return forms.iter().max_by_key(|form| form.revision).is_some_and(same);
    };
    let newest = forms.iter().max_by_key(|form| (form.made_at, form.revision));
    newest.is_some_and(|newest| same(newest) && Some(form_ts) >= newest.made_at)
        || forms.iter().any(|form| form.made_at == Some(form_ts) && same(form))
}
