//! Appends the agent's records: replies, their later forms, answers to approvals, summaries.

use annals_core::approval::{Assent, Verdict};
use annals_core::chat_key::ChatKey;
use annals_core::draft::Draft;
use annals_core::message::{Role, UiMessage};
use annals_core::metadata::Metadata;
use annals_core::record::{Answer, Channel, DeliveryFailure, Details, Record, Said, Source};
use annals_core::sort_key::{MessageId, SortKey, Timestamp};
use annals_core::tokens;
use annals_core::trace::Trace;
use ring::digest::{SHA256, digest};

use super::append::Outcome;
use super::counters::Addition;
use super::table::{Anchor, Anchored, Update, json};
use super::{History, HistoryError, later_expiry, partition};

/// A reply of the agent that is to be appended.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// True for a notice, such as a failure; false for an answer.
    pub is_notice: bool,
    /// The channel that it is delivered through.
    pub channel: Channel,
    /// The platform's id of the window that it is delivered to.
    pub chat_id: String,
    pub agent_id: String,
    /// The message; its id is set by the append.
    pub message: UiMessage,
    /// The message that it directly follows: the newest that it covers.
    pub follows: SortKey,
    pub follows_id: MessageId,
    /// Time at which that message was appended, if known. If that was a short while ago, the chat is registered for the
    /// compactor.
    pub asked_at: Option<Timestamp>,
    /// The bases of the messages it answers; at least one.
    pub covers: Vec<SortKey>,
    /// The number of the form of the message that it answers: above 0 if that was appended again.
    pub revision: u32,
    /// Dates at which the messages that it answers may leave the table. It stays at least as long, so that none of them
    /// is ever there without it, whatever TTL deletes first.
    pub covered_until: Vec<Option<i64>>,
    pub trace: Option<Trace>,
    /// The usage that it adds to counters, if it is stored.
    pub counts: Vec<Addition>,
}

/// The attributes of an agent's record that each caller of `agents_record` gives.
struct Author<'a> {
    chat: &'a ChatKey,
    channel: Channel,
    chat_id: &'a str,
    agent_id: &'a str,
}

/// The reply that a place holds after an append.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplyAppended {
    Stored(Record),
    /// The reply of an earlier run, which was first.
    Present(Record),
}

impl From<(Record, bool)> for ReplyAppended {
    fn from((record, is_new): (Record, bool)) -> Self {
        if is_new { Self::Stored(record) } else { Self::Present(record) }
    }
}

impl History {
    /// Appends a reply directly after the newest message that it covers. One place takes one reply.
    pub async fn append_reply(&self, chat: &ChatKey, reply: Reply) -> Result<ReplyAppended, HistoryError> {
        // Also that of a failure notice, so that two runs with different results use the same key.
        let key = reply.follows.reply();
        let what = if reply.is_notice { "notice" } else { "reply" };
        let message_id = reply.follows_id.derived(what);
        let Reply { channel, chat_id, agent_id, revision, covers, trace, counts, .. } = reply;
        let answer = Answer { revision, covers, delivery_failure: None, trace };
        let details = if reply.is_notice { Details::Notice(answer) } else { Details::Reply(answer) };
        let author = Author { chat, channel, chat_id: &chat_id, agent_id: &agent_id };
        let mut record = self.agents_record(author, key, message_id, details, reply.message);
        record.expires_at = reply.covered_until.into_iter().fold(record.expires_at, later_expiry);
        // The message's own entry comes due D/2 after it or later; see `due`.
        let is_registered =
            reply.asked_at.is_some_and(|at| record.sent_at.since(at) < self.retention.due_after() / 4);
        let written = self.put_beside(&record, is_registered, &counts).await?;
        Ok(self.stored(record, written).await?.into())
    }

    /// Appends the confirmation `message` of the command of `draft`, whose record is at `base`, unless there is one. Stores nothing
    /// if the command was forgotten meanwhile.
    pub async fn append_confirmation(
        &self,
        draft: &Draft,
        base: &SortKey,
        agent_id: &str,
        message: UiMessage,
    ) -> Result<(), HistoryError> {
        let Draft { chat, channel, chat_id, .. } = draft;
        let author = Author { chat, channel: *channel, chat_id, agent_id };
        let (message_id, details) = (draft.message_id.derived("notice"), Details::Notice(Answer::default()));
        let record = self.agents_record(author, base.notice(), message_id, details, message);
        Box::pin(self.put_anchored(&record, Anchor::at(base.as_str()))).await?;
        Ok(())
    }

    /// Appends the `number`th later form of `reply`, from 1: its continuation after an approval, with the steps of the turn
    /// that continued it, and the usage that it adds to counters. One place takes one form.
    pub async fn append_reply_form(
        &self,
        reply: &Record,
        number: u32,
        message: UiMessage,
        trace: Option<Trace>,
        counts: &[Addition],
    ) -> Result<ReplyAppended, HistoryError> {
        let answer = Answer { revision: number, trace, ..Answer::default() };
        let Record { chat, channel, chat_id, user_id, .. } = reply;
        let author = Author { chat, channel: *channel, chat_id, agent_id: user_id };
        let (key, id) = (reply.key.reply_form(number), reply.message_id.clone());
        let mut record = self.agents_record(author, key, id, Details::Reply(answer), message);
        // The settings may have changed since: without it, the reply would continue once more.
        record.expires_at = later_expiry(record.expires_at, reply.expires_at);
        let written = self.put_beside(&record, false, counts).await?;
        Ok(self.stored(record, written).await?.into())
    }

    /// Appends a person's answer to an approval that `reply` requests; `by` is the draft of the command or press. The
    /// first answer stands. Returns the result, and the answer that stands.
    pub async fn append_approval(
        &self,
        reply: &Record,
        by: &Draft,
        verdict: &Verdict,
    ) -> Result<(Outcome, Record), HistoryError> {
        self.append_to_request(reply, by, &verdict.id, |metadata| metadata.set_approval(verdict)).await
    }

    /// Appends the approval by one of several askers, `by`, of a request of `reply`. Safe to repeat.
    pub async fn append_assent(
        &self,
        reply: &Record,
        by: &Draft,
        assent: &Assent,
    ) -> Result<(Outcome, Record), HistoryError> {
        let person = digest(&SHA256, assent.person.as_bytes());
        let place = format!("{}-{}", assent.id, hex::encode(&person.as_ref()[..6]));
        self.append_to_request(reply, by, &place, |metadata| metadata.set_assent(assent)).await
    }

    /// Appends a notice about a request of `reply` at `place`, unless there is one. Returns the stored one.
    async fn append_to_request(
        &self,
        reply: &Record,
        by: &Draft,
        place: &str,
        set: impl FnOnce(&mut Metadata),
    ) -> Result<(Outcome, Record), HistoryError> {
        let key = reply.key.approval(place);
        let message_id = reply.message_id.derived(&format!("approval-{place}"));
        // Names every field, so that a new one does not compile until it is kept or left.
        let said = Said {
            revision: 0,
            form_ts: None,
            album: None,
            asks: false,
            reply_token: by.reply_token.clone(),
        };
        let mut record = Record {
            chat: reply.chat.clone(),
            ts: reply.ts,
            details: Details::Command(said),
            ..self.record_of(by, key, 0)
        };
        set(&mut record.message.metadata);
        record.message_id = message_id;
        record.message.id = record.message_id.to_string();
        match self.put_anchored(&record, Anchor::at(reply.key.as_str())).await? {
            // A reply that has left the table meanwhile waits for no answer: nothing is stored, and nothing is missing.
            Anchored::Done | Anchored::Gone => Ok((Outcome::Stored, record)),
            Anchored::Taken(existing) => Ok((Outcome::Duplicate, self.record(&existing).await?)),
        }
    }

    /// Notes on the reply at `key` of `chat` why its delivery ended without success. Does nothing if it has left the table.
    pub async fn note_delivery_failure(
        &self,
        chat: &ChatKey,
        key: &SortKey,
        failure: &DeliveryFailure,
    ) -> Result<(), HistoryError> {
        let update = Update::default().set("deliveryFailure", json(failure)?).when("attribute_exists(pk)");
        self.table.update(&partition(chat), key.as_str(), update).await?;
        Ok(())
    }

    /// Appends a summary after the last message or reply that it counts; one place takes one summary. `beside` is that
    /// message's record, whose channel and line the summary shares, and whose `person` is the one person that the
    /// summary speaks of, if it is one. Of all summaries the one with the last `sent_at` is in view, so this one's is not
    /// before `after`, should the clock be set back. Returns the summary that the place holds now.
    pub async fn append_summary(
        &self,
        beside: &Record,
        agent_id: &str,
        text: &str,
        source: Source,
        after: Timestamp,
    ) -> Result<Record, HistoryError> {
        let message_id = source.to_id.derived("summary");
        let mut message = UiMessage::text("", Role::Assistant, text);
        message.metadata.copy_line_of(&beside.message.metadata);
        let (key, details) = (source.to.summary(), Details::Summary(source));
        let Record { chat, channel, chat_id, .. } = beside;
        let author = Author { chat, channel: *channel, chat_id, agent_id };
        let mut record = self.agents_record(author, key, message_id, details, message);
        record.person.clone_from(&beside.person);
        record.sent_at = record.sent_at.max(after);
        record.expires_at = self.retention.expires_at(record.sent_at);
        let written = self.put(&record).await?;
        Ok(self.stored(record, written).await?.0)
    }

    /// Builds an agent record that is appended now.
    fn agents_record(
        &self,
        Author { chat, channel, chat_id, agent_id }: Author<'_>,
        key: SortKey,
        message_id: MessageId,
        details: Details,
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
            chat_id: chat_id.to_owned(),
            user_id: agent_id.to_owned(),
            message_id,
            sent_at: now,
            details,
            tokens: tokens::of_message(&message),
            message,
            expires_at: self.retention.expires_at(now),
            person: None,
        }
    }
}
