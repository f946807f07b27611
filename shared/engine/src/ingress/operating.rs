//! Chats that an operator takes over, and messages that an operator sends as the bot.
//!
//! An operator's message is a record like a `/compact`: the chat's next turn sends it as its reply, so its delivery is that of
//! every reply. If the chat was taken over, that reply answers what was unanswered when the message was stored.

use annals_core::chat_key::ChatKey;
use annals_core::draft::{Draft, Origin};
use annals_core::language::Language;
use annals_core::message::Part;
use annals_core::record::{Channel, Kind, Record};
use annals_core::sort_key::{MessageId, SortKey, Timestamp};
use annals_core::takeover::{Dispatch, Takeover};
use annals_core::texts::Texts;
use annals_store::history::turn::{Blocked, Head};
use annals_store::history::{Appended, HistoryError, MAX_PAGE, Outcome, Position};
use annals_store::queue::Turn;

use super::{Ingress, IngressError};

/// A chat to which an operator writes.
#[derive(Debug)]
pub struct Desk {
    /// The name that the chat has now.
    pub chat: ChatKey,
    /// The operator who has taken it over.
    pub takeover: Option<Takeover>,
    /// The last refusal of its platform to take messages.
    pub blocked: Option<Blocked>,
    /// The newest message of a person, to whose window and by whose channel the operator writes.
    to: Record,
    newest: Timestamp,
}

impl Desk {
    /// Returns the channel by which the person gets what the operator writes.
    pub fn channel(&self) -> Channel {
        self.to.channel
    }

    /// Returns the newest message of a person.
    pub fn person(&self) -> &Record {
        &self.to
    }

    /// Returns the time of the next record: `now`, or directly after the newest record.
    fn next_ts(&self, now: Timestamp) -> Timestamp {
        now.max(self.newest.next())
    }

    /// Returns a notice of the operator `by`.
    fn notice(&self, by: &str, id: MessageId, ts: Timestamp, parts: Vec<Part>) -> Draft {
        let (chat, channel, chat_id) = (self.chat.clone(), self.to.channel, self.to.chat_id.clone());
        let origin = Origin { chat, channel, chat_id, user_id: by.to_owned() };
        let mut draft = Draft::new(origin, id, ts).with_parts(parts).of_kind(Kind::Notice);
        draft.metadata.copy_address_of(&self.to.message.metadata, channel);
        draft.of_person(format!("operator/{by}"))
    }
}

impl Ingress {
    /// Returns the desk of `chat`, or `None` if no person has written there lately: among the newest 200 records. In a
    /// chat of a platform, only what came by the platform counts.
    pub async fn desk(&self, chat: &ChatKey) -> Result<Option<Desk>, IngressError> {
        let (chat, head): (_, Head) = self.history.current(chat).await?;
        let records = self.history.page(&chat, &Position::Newest, MAX_PAGE).await?.records;
        let Some(newest) = records.last().map(|record| record.key.ts()) else { return Ok(None) };
        let is_open = chat.person().is_some() || chat.key_name().is_some();
        let is_said = |record: &Record| {
            record.is_said()
                && record.kind() != Kind::Event
                && record.due().is_none()
                && !record.message.metadata.is_of_operator()
                && (is_open || record.channel.is_platform())
        };
        let to = records.into_iter().rev().find(is_said);
        Ok(to.map(|to| Desk { chat, takeover: head.takeover, blocked: head.blocked, to, newest }))
    }

    /// Returns the texts in the language of the person of `desk`.
    fn texts_to(&self, desk: &Desk) -> &'static dyn Texts {
        let own = || Language::of_message(&desk.to.message);
        self.config.language.or_else(own).unwrap_or(Language::En).texts()
    }

    /// Lets the operator `by` take the chat of `desk` over, and records that. Returns the operator who has it now, who is
    /// another if that one came first; `None` if the chat has been forgotten. Safe to repeat.
    pub async fn take_over(&self, desk: &Desk, by: &str) -> Result<Option<Takeover>, IngressError> {
        let taken = self.history.take_over(&desk.chat, by).await?;
        if let Some(taken) = taken.as_ref().filter(|taken| taken.by == by) {
            let id = MessageId::number(taken.at.as_millis().unsigned_abs()).derived("takeover");
            let text = Part::text(self.texts_to(desk).taken_over());
            let mut notice = desk.notice(by, id, taken.at, vec![text]);
            notice.metadata.set_takeover(true);
            self.history.append_once(&notice).await?;
        }
        Ok(taken)
    }

    /// Hands `chat` back, records that, and queues a turn for what is unanswered. Safe to repeat.
    pub async fn hand_back(&self, chat: &ChatKey) -> Result<(), IngressError> {
        let now = self.history.clock().now();
        for (index, name) in self.history.all_names(chat).await?.into_iter().enumerate() {
            let taken = self.history.head(&name).await?.takeover;
            let desk = if taken.is_some() && index == 0 { self.desk(&name).await } else { Ok(None) };
            let desk = match desk {
                // The notice needs the newest messages. A chat whose messages are damaged is handed back without it.
                Err(IngressError::History(error)) if !error.may_pass() => {
                    tracing::warn!(%error, "failed to read the chat; it is handed back without a notice");
                    None
                }
                desk => desk?,
            };
            if let (Some(taken), Some(desk)) = (&taken, desk) {
                let id = MessageId::number(taken.at.as_millis().unsigned_abs()).derived("handback");
                let ts = self.history.first_time(&name, &id, desk.next_ts(now)).await?;
                let text = Part::text(self.texts_to(&desk).handed_back());
                let mut notice = desk.notice(&taken.by, id, ts, vec![text]);
                notice.metadata.set_takeover(false);
                self.history.append_once(&notice).await?;
            }
            self.history.hand_back(&name).await?;
            if index == 0 || taken.is_some() {
                self.queue.enqueue(&Turn { chat: name, from: SortKey::start_of(now), at: None }).await?;
            }
        }
        Ok(())
    }

    /// Appends a message of the operator `by` to the chat of `desk`, and queues the turn that sends it. Safe to repeat.
    /// Fails with [`HistoryError::Taken`] if something else has this id.
    pub async fn send(
        &self,
        desk: &Desk,
        by: &str,
        id: MessageId,
        parts: Vec<Part>,
    ) -> Result<Appended, IngressError> {
        let (answers, to) = (desk.takeover.is_some(), desk.to.message_id.clone());
        let dispatch = Dispatch { by: by.to_owned(), answers, to, from: None };
        let said = parts.clone();
        let (record, appended) = self.dispatch(desk, id, parts, &dispatch).await?;
        if record.message.parts == said {
            Ok(appended)
        } else {
            Err(HistoryError::Taken { key: appended.base }.into())
        }
    }

    /// Appends a text that the agent sends from the chat `from` to the chat of `desk`, and queues the turn that sends it. If
    /// something has been sent under this id, that stands. Safe to repeat.
    pub async fn send_from(
        &self,
        desk: &Desk,
        from: &ChatKey,
        id: MessageId,
        text: &str,
    ) -> Result<(), IngressError> {
        let (by, to) = (self.config.agents.of(from, None).to_owned(), desk.to.message_id.clone());
        let dispatch = Dispatch { by, answers: false, to, from: Some(from.clone()) };
        self.dispatch(desk, id, vec![Part::text(text)], &dispatch).await?;
        Ok(())
    }

    /// Appends a message that is to be sent to the chat of `desk`, unless one has this id, and queues its turn. Returns the one
    /// that has the id.
    async fn dispatch(
        &self,
        desk: &Desk,
        id: MessageId,
        parts: Vec<Part>,
        dispatch: &Dispatch,
    ) -> Result<(Record, Appended), IngressError> {
        let ts = desk.next_ts(self.history.clock().now());
        let ts = self.history.first_time(&desk.chat, &id, ts).await?;
        let mut draft = desk.notice(&dispatch.by, id, ts, parts).asking(true);
        if dispatch.from.is_some() {
            draft = draft.of_person(format!("agent/{}", dispatch.by));
        }
        draft.metadata.set_dispatch(dispatch);
        let (record, is_new) = self.history.append_once(&draft).await?;
        let base = draft.key().base();
        if record.dispatch().is_none() {
            return Err(HistoryError::Taken { key: base }.into());
        }
        let outcome = if is_new { Outcome::Stored } else { Outcome::Duplicate };
        let appended = Appended { base, outcome };
        self.enqueue(&draft, &appended, None).await?;
        Ok((record, appended))
    }
}
