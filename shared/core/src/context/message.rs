//! Messages of a history and their forms: [`Message`].

use std::collections::{HashMap, HashSet};

use crate::markup::Sender;
use crate::media::IMAGE_TOKENS;
use crate::message::{Role, UiMessage};
use crate::record::{Kind, Record};
use crate::sender;
use crate::sort_key::{SortKey, Timestamp};

#[derive(Debug)]
pub struct Message<'a> {
    /// Base of its key, and of its reply's key.
    pub base: SortKey,
    pub first: &'a Record,
    pub(super) newest: Form<'a>,
    pub(super) unanswered: bool,
    pub(super) is_replaced: bool,
    /// Number of images that are shown of it.
    pub(super) images: u32,
    /// Tokens for naming its sender; 0 if senders are not named.
    pub(super) sender_tokens: u32,
    /// Tokens of the mark of its time; 0 if it has none.
    pub(super) time_tokens: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Form<'a> {
    pub(super) record: &'a Record,
    /// The first form that asks for an answer.
    asked: Option<&'a Record>,
}

impl Form<'_> {
    pub(super) fn is_recalled(&self) -> bool {
        let message = &self.record.message;
        message.parts.is_empty() || message.metadata.is_recalled()
    }
}

impl Message<'_> {
    /// Returns the key by which summaries count it: its base, or the whole key of a reply.
    pub fn key(&self) -> &SortKey {
        if self.first.key.is_reply() { &self.first.key } else { &self.base }
    }

    pub(super) fn is_unanswered(&self) -> bool {
        self.unanswered
    }

    /// Marks it as replaced by another message.
    pub(super) fn replace(&mut self) {
        (self.is_replaced, self.unanswered) = (true, false);
    }

    pub fn newest(&self) -> &Record {
        self.newest.record
    }

    /// Returns the token estimate of its newest form, without images and sender.
    pub fn tokens(&self) -> u32 {
        self.newest.record.tokens
    }

    /// Returns the token estimate with its images, its sender and the mark of its time.
    pub fn shown_tokens(&self) -> u32 {
        let images = self.images.saturating_mul(IMAGE_TOKENS);
        self.tokens()
            .saturating_add(images)
            .saturating_add(self.sender_tokens)
            .saturating_add(self.time_tokens)
    }

    /// Returns the time at which it was sent, or `None` for a message that never has a [mark](crate::time_marks) of it: one of
    /// the agent, and an event that tells of another chat.
    pub fn time(&self) -> Option<Timestamp> {
        let is_said = self.first.role() == Role::User && !self.first.message.metadata.is_joined();
        is_said.then(|| self.first.said_at())
    }

    /// Returns the sender of the first form, since nobody else can edit it, or `None` for the agent. The id is empty
    /// unless several people are speaking.
    pub fn sender(&self) -> Option<Sender> {
        let sender = sender::of(self.first)?;
        Some(if self.sender_tokens > 0 { sender } else { Sender { id: String::new(), ..sender } })
    }

    /// Returns true if it is a reply with a tool call without a result, such as one that waits for an approval. A call in a
    /// person's message never gets one.
    pub fn is_open(&self) -> bool {
        self.first.key.is_reply() && self.newest.record.message.has_open_call()
    }

    /// Returns true if it is a reply that continued after `summary` was made, so that the summary lacks its result.
    pub(super) fn has_gone_on_since(&self, summary: &Record) -> bool {
        self.first.key.is_reply() && self.newest().revision() > 0 && self.newest().sent_at > summary.sent_at
    }

    /// Returns the newest form under the message's own id, with the author of the first form.
    pub fn shown(&self) -> UiMessage {
        let mut message = self.newest.record.listed();
        message.id = self.first.message_id.to_string();
        if self.newest.record.user_id != self.first.user_id {
            message.metadata.copy_author_of(&self.first.listed().metadata);
        }
        message
    }
}

/// Returns the messages in `records`, in order.
pub(super) fn messages<'a>(
    records: &'a [Record],
    newest: &HashMap<SortKey, Form<'a>>,
    covered: &HashSet<&SortKey>,
    now: Timestamp,
) -> Vec<Message<'a>> {
    let bases = |is_it: fn(&Record) -> bool| -> HashSet<SortKey> {
        records.iter().filter(|record| is_it(record)).map(|record| record.key.base()).collect()
    };
    let said = bases(|r| matches!(r.kind(), Kind::Normal | Kind::Event) && !r.key.is_reply());
    // If the first form has expired, its reply may have expired too: a later form alone is not a message.
    let commands = bases(|r| matches!(r.kind(), Kind::Notice | Kind::Boundary) && r.key == r.key.base());
    let mut edited_commands: HashSet<SortKey> = HashSet::new();
    records
        .iter()
        .filter(|record| match record.kind() {
            Kind::Normal | Kind::Event => true,
            // The first edit of a command, if the command itself is not a message.
            Kind::Revision => {
                let base = record.key.base();
                !record.key.belongs_to_reply()
                    && !said.contains(&base)
                    && commands.contains(&base)
                    && edited_commands.insert(base)
            }
            Kind::Summary | Kind::Boundary | Kind::Notice => false,
        })
        .filter(|record| matches!(record.role(), Role::User | Role::Assistant))
        .map(|first| {
            let base = first.key.base();
            let own = Form { record: first, asked: None };
            let place = if first.key.is_reply() { &first.key } else { &base };
            let newest = newest.get(place).copied().unwrap_or(own);
            // Without its first form it is no message.
            let waits = newest.asked.is_some_and(|asked| !asked.has_lapsed(now)) && !first.has_lapsed(now);
            let unanswered = waits && !newest.is_recalled() && !covered.contains(&base);
            Message {
                base,
                first,
                newest,
                unanswered,
                is_replaced: false,
                images: 0,
                sender_tokens: 0,
                time_tokens: 0,
            }
        })
        .collect()
}

/// Returns the newest form of each message: by the platform's time of the form, otherwise by order of arrival.
pub(super) fn newest_forms(records: &[Record]) -> HashMap<SortKey, Form<'_>> {
    let mut forms: HashMap<SortKey, Form<'_>> = HashMap::new();
    for record in records {
        let is_form = matches!(record.kind(), Kind::Normal | Kind::Event | Kind::Revision);
        if !is_form || record.key.is_reply() {
            continue;
        }
        let base = record.key.base();
        forms
            .entry(if record.key.belongs_to_reply() { base.reply() } else { base })
            .and_modify(|form| {
                if (record.form_ts(), record.revision()) >= (form.record.form_ts(), form.record.revision()) {
                    form.record = record;
                }
                form.asked = form.asked.or(Some(record).filter(|record| record.asks()));
            })
            .or_insert(Form { record, asked: Some(record).filter(|record| record.asks()) });
    }
    forms
}

/// Marks all items of an album as unanswered if one of them is, except for those that have lapsed.
pub(super) fn with_whole_albums<'a>(
    mut messages: Vec<Message<'a>>,
    covered: &HashSet<&SortKey>,
    now: Timestamp,
) -> Vec<Message<'a>> {
    let albums: HashSet<&str> =
        messages.iter().filter(|m| m.unanswered).filter_map(|m| m.first.album()).collect();
    for message in &mut messages {
        message.unanswered |= message.first.album().is_some_and(|album| albums.contains(album))
            && !covered.contains(&message.base)
            && !message.newest.is_recalled()
            && !message.first.has_lapsed(now);
    }
    messages
}
