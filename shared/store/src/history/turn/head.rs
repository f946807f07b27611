//! The head of a chat as a type, and its item. The sample item is in [`turn`](super).

use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::chat_settings::ChatSettings;
use annals_core::person::Join;
use annals_core::record::{Channel, DeliveryFailure, Record};
use annals_core::sort_key::{SortKey, Timestamp};
use annals_core::takeover::Takeover;
use annals_core::title::Title;
use annals_core::trace::{Delivery, Trace};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize};

use crate::history::item::{plain, text, time, unpacked};
use crate::history::table::Item;

/// The attribute of [`Head::answered_to`].
pub(in crate::history) const ANSWERED_TO: &str = "answeredTo";

/// The attribute of [`Head::takeover`].
pub(in crate::history) const TAKEN_OVER: &str = "takenOver";

/// The attribute of [`Head::settings`].
pub(in crate::history) const CHAT_SETTINGS: &str = "chatSettings";

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Head {
    /// The first record of the last run's Session: contexts are read from here on.
    pub context_from: Option<SortKey>,
    /// The last message of a summary that a run has committed to and not finished.
    pub compacting: Option<SortKey>,
    /// The last message up to which ended Sessions have been captured to memory.
    pub captured_to: Option<SortKey>,
    /// The first message of the Sessions for which a capture has failed.
    pub uncaptured_from: Option<SortKey>,
    /// The turn that a run has committed to and not finished.
    #[serde(deserialize_with = "json")]
    pub turn: Option<OpenTurn>,
    /// The last `/stop` that no run has carried out yet.
    pub stopped_to: Option<SortKey>,
    /// The last refusal of a platform to take messages for this chat.
    #[serde(deserialize_with = "json")]
    pub blocked: Option<Blocked>,
    /// The channel of the person's direct messages on Discord, which does not list them: the relay looks there for messages that
    /// it missed.
    pub discord_channel: Option<String>,
    /// Time at which the chat's share of the platform's rate limit is free again: see `annals_channel::rate_limit`.
    pub paced: Option<Timestamp>,
    /// The name that this chat had before.
    #[serde(deserialize_with = "json")]
    pub continues: Option<Link>,
    /// The name that this chat has now.
    pub moved_to: Option<ChatKey>,
    /// The chat's archive; `None` if it has no segments.
    #[serde(skip)]
    pub archive: Option<Archive>,
    /// With `ARCHIVE_ON_COMPACT=false`: the key up to which no record leaves the table that no segment holds.
    pub kept_to: Option<SortKey>,
    /// Number of attempts at the current turn that failed because of the model or the platform.
    pub failures: u32,
    /// The steps of the current turn so far, and its requests to models, as far as its attempts have ended.
    #[serde(skip)]
    pub trace: Option<Trace>,
    /// Time at which the first run began that has neither finished nor released the chat; `None` in the head of a claim if
    /// that is the claim itself.
    pub running_since: Option<Timestamp>,
    /// The delivery of the last reply that was sent.
    #[serde(deserialize_with = "json")]
    pub delivered: Option<Delivery>,
    /// The newest message that any finished turn has covered: a hint for turns that may have nothing left to do.
    pub answered_to: Option<SortKey>,
    /// Time at which a holder last lost the chat before its lease was over. It may still write for a moment: see
    /// [`HOLDER_ENDS_WITHIN`](super::HOLDER_ENDS_WITHIN).
    pub taken_at: Option<Timestamp>,
    /// Joins with other chats that the next run carries out, in order.
    #[serde(skip)]
    pub joins: Vec<Join>,
    /// The person's chat that this window of a platform has been left for.
    #[serde(deserialize_with = "json")]
    pub left_for: Option<Left>,
    /// The operator who has taken the chat over: runs send that operator's messages, and ask no model.
    #[serde(rename = "takenOver", deserialize_with = "json")]
    pub takeover: Option<Takeover>,
    /// The title that an admin has given the chat.
    pub given_title: Option<String>,
    /// The title of the chat as far as the last run or visit has seen; `None` if it has noted none.
    #[serde(deserialize_with = "json")]
    pub title: Option<Title>,
    /// The settings that an admin has given the chat.
    #[serde(rename = "chatSettings", deserialize_with = "json")]
    pub settings: ChatSettings,
    /// Time at which the chat was last forgotten. Removed by the compactor's visit after that.
    pub forgotten_at: Option<Timestamp>,
}

/// An unreadable attribute of a head. Nothing is done in that chat until it is repaired.
#[derive(Debug, thiserror::Error)]
#[error(
    "the head of the chat {chat} has an unreadable '{attribute}': correct or remove that attribute of the item '!head', \
     or restore the table"
)]
pub struct HeadError {
    chat: String,
    attribute: String,
}

/// The archive of a chat: the attributes `longestSegment` and `archiving`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Archive {
    /// Longest time between the two ends of a segment. The pointer of a segment that contains a record is at most this
    /// long after the record.
    #[serde(deserialize_with = "millis")]
    pub longest_segment: Duration,
    /// The stretch of the segment that a run has committed to and not finished.
    #[serde(rename = "archiving", deserialize_with = "json")]
    pub storing: Option<Stretch>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretch {
    pub from: SortKey,
    pub to: SortKey,
}

/// A turn between commit and finish.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenTurn {
    /// The bases of the messages that its reply covers, in order. The reply follows the last.
    pub covers: Vec<SortKey>,
    /// Number of pieces of the reply that have been delivered.
    pub sent: usize,
    /// The reply that the turn continues after an approval; `None` for a turn that makes a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumes: Option<Resumed>,
}

/// A reply that a turn continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumed {
    pub reply: SortKey,
    /// The form of it that people have seen: what follows is delivered.
    pub shown: u32,
}

impl OpenTurn {
    /// A turn whose reply will cover these, in order.
    pub fn new(covers: Vec<SortKey>) -> Self {
        Self { covers, sent: 0, resumes: None }
    }
}

/// The person's chat to which the messages of a window went from a time on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    pub chat: ChatKey,
    /// The identity that speaks in the window.
    pub identity: String,
    pub at: Timestamp,
}

/// An earlier name of a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The earlier name.
    pub chat: ChatKey,
    /// Time at which it was given up.
    pub at: Timestamp,
}

/// The kind of process that holds a chat, or claims it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::history) enum Holder {
    /// A run of the agent. It takes a chat from upkeep at once: people do not wait for that.
    Run,
    /// Upkeep. It takes a chat from nobody.
    Upkeep,
    /// A deletion of the chat. It takes a chat from everybody but another deletion.
    Deletion,
}

impl Holder {
    /// Returns the kind of process that claimed the head `item` last.
    pub(super) fn of(item: &Item) -> Self {
        if item.contains_key("forgetting") {
            Self::Deletion
        } else if item.contains_key("housekeeping") {
            Self::Upkeep
        } else {
            Self::Run
        }
    }

    /// Returns true if it may take a chat from `holder`, whose lease is not over.
    pub(super) fn may_take_over(self, holder: Self) -> bool {
        match self {
            Self::Run => holder == Self::Upkeep,
            Self::Upkeep => false,
            Self::Deletion => holder != Self::Deletion,
        }
    }
}

/// A lease that is not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::history) struct Held {
    pub(in crate::history) by: Holder,
    pub(in crate::history) until: Timestamp,
}

impl Held {
    /// Returns the lease in the head `item`, if it is not over at `now`.
    pub(in crate::history) fn at(item: &Item, now: Timestamp) -> Option<Self> {
        let until = time(item, "leaseUntil")?;
        (until >= now).then(|| Self { by: Holder::of(item), until })
    }

    /// Returns true if a run has the chat, or a deletion: anything but upkeep.
    pub(in crate::history) fn is_run(self) -> bool {
        self.by != Holder::Upkeep
    }
}

impl Head {
    /// Returns [`Archive::longest_segment`]; `None` if the chat has no segments.
    pub fn longest_segment(&self) -> Option<Duration> {
        self.archive.as_ref().map(|archive| archive.longest_segment)
    }

    /// Returns the title after `records`, which are in order, if it differs from [`Head::title`].
    pub fn title_after(&self, records: &[Record]) -> Option<Title> {
        let known = self.title.clone().unwrap_or_default();
        let title = known.clone().after(records, true);
        (title != known).then_some(title)
    }

    /// Reads a head. An attribute that exists and cannot be read is an error: if it counted as absent, a committed turn
    /// would disappear.
    pub(in crate::history) fn of(item: &Item) -> Result<Self, HeadError> {
        let mut head: Self = read(item)?;
        if item.contains_key("longestSegment") || item.contains_key("archiving") {
            head.archive = Some(read(item)?);
        }
        if let Some(trace) = item.get("trace") {
            head.trace = Some(unpacked(trace).ok_or_else(|| HeadError::of(item, "trace"))?);
        }
        if let Some(joins) = item.get("joins") {
            let texts = joins.as_ss().ok();
            let parsed =
                texts.and_then(|texts| texts.iter().map(|join| serde_json::from_str(join).ok()).collect());
            head.joins = parsed.ok_or_else(|| HeadError::of(item, "joins"))?;
            head.joins.sort_by(|a, b| (a.ts, &a.id).cmp(&(b.ts, &b.id)));
        }
        Ok(head)
    }
}

impl HeadError {
    fn of(item: &Item, attribute: &str) -> Self {
        let chat = text(item, "pk").unwrap_or_default().to_owned();
        Self { chat, attribute: attribute.to_owned() }
    }
}

/// Reads the plain attributes of the head `item`.
fn read<T: DeserializeOwned>(item: &Item) -> Result<T, HeadError> {
    plain(item).map_err(|error| HeadError::of(item, &error.path().to_string()))
}

/// Reads an attribute whose text is JSON.
fn json<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<T, D::Error> {
    serde_json::from_str(&String::deserialize(from)?).map_err(D::Error::custom)
}

fn millis<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    u64::deserialize(from).map(Duration::from_millis)
}

/// A platform's refusal to take messages for a chat: the bot was blocked or removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Blocked {
    /// Time since which it refuses them, and the reason.
    #[serde(flatten)]
    pub failure: DeliveryFailure,
    /// The channel that refuses them; `None` for all.
    pub channel: Option<Channel>,
    /// The window that refuses them, since a person's chat has several; `None` for all of the channel.
    pub chat_id: Option<String>,
}

impl Blocked {
    /// Returns true if the window of `to` is one that refuses messages.
    pub fn concerns(&self, to: &Record) -> bool {
        self.is_of(to.channel, &to.chat_id)
    }

    /// Returns true if this window is one that refuses messages.
    pub fn is_of(&self, channel: Channel, chat_id: &str) -> bool {
        self.channel.is_none_or(|own| own == channel)
            && self.chat_id.as_ref().is_none_or(|own| own == chat_id)
    }
}
