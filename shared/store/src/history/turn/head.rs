//! The head of a chat as a type, and its item. The sample item is in [`turn`](super).

use std::str::FromStr;
use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::chat_settings::ChatSettings;
use annals_core::person::Join;
use annals_core::record::{Channel, DeliveryFailure, Record};
use annals_core::sort_key::{SortKey, Timestamp};
use annals_core::takeover::Takeover;
use annals_core::title::Title;
use annals_core::trace::{Delivery, Trace};
use aws_sdk_dynamodb::types::AttributeValue;
use serde::{Deserialize, Serialize};

use crate::history::item::{text, time, unpacked};
use crate::history::table::Item;

/// The attribute of [`Head::answered_to`].
pub(in crate::history) const ANSWERED_TO: &str = "answeredTo";

/// The attribute of [`Head::takeover`].
pub(in crate::history) const TAKEN_OVER: &str = "takenOver";

/// The attribute of [`Head::settings`].
pub(in crate::history) const CHAT_SETTINGS: &str = "chatSettings";

/// The head of a chat.
#[derive(Clone, Debug, Default, PartialEq)]
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
    pub turn: Option<OpenTurn>,
    /// The last `/stop` that no run has carried out yet.
    pub stopped_to: Option<SortKey>,
    /// The last refusal of a platform to take messages for this chat.
    pub blocked: Option<Blocked>,
    /// The channel of the person's direct messages on Discord, which does not list them: the relay looks there for messages that
    /// it missed.
    pub discord_channel: Option<String>,
    /// Time at which the chat's share of the platform's rate limit is free again: see `annals_channel::rate_limit`.
    pub paced: Option<Timestamp>,
    /// The name that this chat had before.
    pub continues: Option<Link>,
    /// The name that this chat has now.
    pub moved_to: Option<ChatKey>,
    /// The chat's archive; `None` if it has no segments.
    pub archive: Option<Archive>,
    /// With `ARCHIVE_ON_COMPACT=false`: the key up to which no record leaves the table that no segment holds.
    pub kept_to: Option<SortKey>,
    /// Number of attempts at the current turn that failed because of the model or the platform.
    pub failures: u32,
    /// The steps of the current turn so far, and its requests to models, as far as its attempts have ended.
    pub trace: Option<Trace>,
    /// Time at which the first run began that has neither finished nor released the chat; `None` in the head of a claim if
    /// that is the claim itself.
    pub running_since: Option<Timestamp>,
    /// The delivery of the last reply that was sent.
    pub delivered: Option<Delivery>,
    /// The newest message that any finished turn has covered: a hint for turns that may have nothing left to do.
    pub answered_to: Option<SortKey>,
    /// Time at which a holder last lost the chat before its lease was over. It may still write for a moment: see
    /// [`HOLDER_ENDS_WITHIN`](super::HOLDER_ENDS_WITHIN).
    pub taken_at: Option<Timestamp>,
    /// Joins with other chats that the next run carries out, in order.
    pub joins: Vec<Join>,
    /// The person's chat that this window of a platform has been left for.
    pub left_for: Option<Left>,
    /// The operator who has taken the chat over: runs send that operator's messages, and ask no model.
    pub takeover: Option<Takeover>,
    /// The title that an admin has given the chat.
    pub given_title: Option<String>,
    /// The title of the chat as far as the last run or visit has seen; `None` if it has noted none.
    pub title: Option<Title>,
    /// The settings that an admin has given the chat.
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
    attribute: &'static str,
}

/// The archive of a chat: the attributes `longestSegment` and `archiving`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archive {
    /// Longest time between the two ends of a segment. The pointer of a segment that contains a record is at most this
    /// long after the record.
    pub longest_segment: Duration,
    /// The stretch of the segment that a run has committed to and not finished.
    pub storing: Option<Stretch>,
}

/// A stretch of a chat.
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
        let head = HeadItem(item);
        Ok(Self {
            context_from: head.parsed("contextFrom")?,
            compacting: head.parsed("compacting")?,
            captured_to: head.parsed("capturedTo")?,
            uncaptured_from: head.parsed("uncapturedFrom")?,
            kept_to: head.parsed("keptTo")?,
            turn: head.json("turn")?,
            stopped_to: head.parsed("stoppedTo")?,
            blocked: head.json("blocked")?,
            discord_channel: head.parsed("discordChannel")?,
            paced: head.time("paced")?,
            continues: head.json("continues")?,
            moved_to: head.parsed("movedTo")?,
            archive: head.archive()?,
            failures: head.number("failures")?.unwrap_or_default(),
            trace: head.read("trace", unpacked)?,
            running_since: head.time("runningSince")?,
            delivered: head.json("delivered")?,
            answered_to: head.parsed(ANSWERED_TO)?,
            taken_at: head.time("takenAt")?,
            joins: head.joins()?,
            left_for: head.json("leftFor")?,
            takeover: head.json(TAKEN_OVER)?,
            given_title: head.parsed("givenTitle")?,
            title: head.json("title")?,
            settings: head.json(CHAT_SETTINGS)?.unwrap_or_default(),
            forgotten_at: head.time("forgottenAt")?,
        })
    }
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
        self.channel.is_none_or(|channel| channel == to.channel)
            && self.chat_id.as_ref().is_none_or(|chat_id| *chat_id == to.chat_id)
    }
}

/// The item of a head.
struct HeadItem<'a>(&'a Item);

impl HeadItem<'_> {
    /// Reads the attribute `name` with `read`; `None` if it does not exist.
    fn read<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&AttributeValue) -> Option<T>,
    ) -> Result<Option<T>, HeadError> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| HeadError {
            chat: text(self.0, "pk").unwrap_or_default().to_owned(),
            attribute: name,
        })
    }

    fn archive(&self) -> Result<Option<Archive>, HeadError> {
        let longest = self.number("longestSegment")?.map(Duration::from_millis);
        let storing = self.json("archiving")?;
        let exists = longest.is_some() || storing.is_some();
        Ok(exists.then(|| Archive { longest_segment: longest.unwrap_or_default(), storing }))
    }

    fn joins(&self) -> Result<Vec<Join>, HeadError> {
        let joins: Option<Vec<Join>> = self.read("joins", |value| {
            value.as_ss().ok()?.iter().map(|join| serde_json::from_str(join).ok()).collect()
        })?;
        let mut joins = joins.unwrap_or_default();
        joins.sort_by(|a, b| (a.ts, &a.id).cmp(&(b.ts, &b.id)));
        Ok(joins)
    }

    fn parsed<T: FromStr>(&self, name: &'static str) -> Result<Option<T>, HeadError> {
        self.read(name, |value| value.as_s().ok()?.parse().ok())
    }

    fn json<T: for<'de> Deserialize<'de>>(&self, name: &'static str) -> Result<Option<T>, HeadError> {
        self.read(name, |value| serde_json::from_str(value.as_s().ok()?).ok())
    }

    fn number<T: FromStr>(&self, name: &'static str) -> Result<Option<T>, HeadError> {
        self.read(name, |value| value.as_n().ok()?.parse().ok())
    }

    fn time(&self, name: &'static str) -> Result<Option<Timestamp>, HeadError> {
        self.read(name, |value| value.as_n().ok()?.parse().ok().and_then(Timestamp::from_millis))
    }
}
