//! The head of a chat: which run may answer, what it is about to answer, and where the context starts.
//!
//! ```json
//! {"pk": "telegram:chat:42", "sk": "!head", "fence": 17, "leaseUntil": 1763766220000,
//!  "turn": "{\"covers\":[\"1763765920000#00000000000000000007\"],\"sent\":0}",
//!  "contextFrom": "1763765920000#00000000000000000007", "capturedTo": "1763500000000#00000000000000000003",
//!  "compacting": "1763765920000#00000000000000000005#4reply", "housekeeping": true,
//!  "blocked": "{\"reason\":\"Forbidden: bot was blocked by the user\",\"at\":1763766220000}",
//!  "continues": "{\"chat\":\"telegram:chat:-42\",\"at\":1763765920000}", "movedTo": "telegram:chat:-100123",
//!  "stoppedTo": "1763765921000#00000000000000000008",
//!  "claim": "9f86d081884c7d65", "failures": 1, "answeredTo": "1763765920000#00000000000000000007",
//!  "takenAt": 1763766220000, "forgottenAt": 1763766220000,
//!  "archiving": "{\"from\":\"1763765920000#00000000000000000007\",\"to\":\"1763765960000#00000000000000000009\"}",
//!  "longestSegment": 40000, "paced": 1763766221000}
//! ```
//!
//! A run goes [`claim`](History::claim), read, [`commit`](History::commit), append the reply, deliver,
//! [`finish`](History::finish): three writes to the head and one put, whatever the length of the history.
//!
//! Each claim takes the next fence, and `commit` holds only under the newest, so of two runs that overlap one commits.
//! What it commits to (`turn`) is the set of messages that its reply will cover, and so the reply's key. A run that
//! finds a committed turn finishes exactly that one first: both runs' puts then meet at one key, where one of them is
//! refused. So no message has two replies, also where an old run's put arrives late.
//!
//! `/stop` takes the next fence too, and claims nothing (see [`super::stop`]): the run that has the chat can neither commit
//! nor note a piece from then on. `stoppedTo` tells whoever claims the chat next, in the same write, that what waits from
//! before the command is not to be answered any more; that run covers it with a notice, by way of a committed turn like
//! any other. So a stop needs no proof of its own.
//!
//! Upkeep (archive, summaries, memory between turns) claims a chat as a run does, but marks its claim `housekeeping`: a
//! run takes such a chat over at once. What upkeep has committed to (`compacting`) stays committed, so that whoever next
//! has to do the like goes on with it, and both meet at one key.
//!
//! `contextFrom` is a hint, made of the records by the last run, so that a long history is not read to see a short
//! context; how a record is found that arrives late from before it, see `view.rs`.

use std::str::FromStr;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use serde::{Deserialize, Serialize};

use super::due::{seconds_up, shard_of};
use super::item::{integer, text};
use super::table::{Item, Update, Written, number, string};
use super::{HEAD, History, HistoryError, partition};
use crate::chat_key::ChatKey;
use crate::random;
use crate::record::{DeliveryFailure, Record};
use crate::sort_key::{SortKey, Timestamp};

/// The head of a chat.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Head {
    /// From where on the records of the last run's Session are read.
    pub context_from: Option<SortKey>,
    /// The last message that a run has committed to summarise, and not finished with.
    pub compacting: Option<SortKey>,
    /// Up to which message ended Sessions have been looked at for what is worth remembering.
    pub captured_to: Option<SortKey>,
    /// From where on to read for the Sessions that a capture has failed for.
    pub uncaptured_from: Option<SortKey>,
    /// The turn that a run has committed to and not finished.
    pub turn: Option<OpenTurn>,
    /// The last `/stop` that no run has carried out yet.
    pub stopped_to: Option<SortKey>,
    /// Since when the platform takes no message for this chat, and why.
    pub blocked: Option<DeliveryFailure>,
    /// When all that a run has sent here is paid for: see [`crate::pace`].
    pub paced: Option<Timestamp>,
    /// The name that this chat had before.
    pub continues: Option<Link>,
    /// The name that this chat has now.
    pub moved_to: Option<ChatKey>,
    /// The segment that a run has set out to store.
    pub archiving: Option<Stretch>,
    /// Where `ARCHIVE_ON_COMPACT=false`: up to where no record leaves the table that no segment holds.
    pub kept_to: Option<SortKey>,
    /// Set where the chat may have segments: the longest time between the ends of one, by which readers know how far
    /// behind a record its segment's pointer can stand.
    pub longest_segment: Option<Duration>,
    /// Number of attempts at the current turn that failed because of the model or the platform.
    pub failures: u32,
    /// The newest message that any finished turn has covered: a hint for turns that may have nothing left to do.
    pub answered_to: Option<SortKey>,
    /// Time at which a holder last lost the chat before its lease was over. It may go on for a moment: see
    /// [`HOLDER_ENDS_WITHIN`].
    pub taken_at: Option<Timestamp>,
    /// Time at which the chat was last forgotten. Set until the compactor has visited it after that.
    pub forgotten_at: Option<Timestamp>,
}

/// The head of a chat has an attribute that cannot be read. Nothing is done in that chat until it is repaired.
#[derive(Debug, thiserror::Error)]
#[error(
    "the head of the chat {chat} has an unreadable '{attribute}': correct or remove that attribute of the item '!head', \
     or restore the table"
)]
pub struct HeadError {
    chat: String,
    attribute: &'static str,
}

/// A stretch of a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretch {
    /// Its first record.
    pub from: SortKey,
    /// Its last record.
    pub to: SortKey,
}

/// A turn between commit and finish.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenTurn {
    /// The bases of the messages that its reply covers, in order; the reply stands behind the last.
    pub covers: Vec<SortKey>,
    /// How many pieces of the reply have been delivered.
    pub sent: usize,
    /// Where it is a reply that goes on, behind an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumes: Option<Resumed>,
}

/// A reply that goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumed {
    /// The reply.
    pub reply: SortKey,
    /// Which form of it people have seen: what is behind that is delivered.
    pub shown: u32,
}

impl OpenTurn {
    /// A turn whose reply will cover these, in order.
    pub fn new(covers: Vec<SortKey>) -> Self {
        Self { covers, sent: 0, resumes: None }
    }
}

/// An earlier name of a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The earlier name.
    pub chat: ChatKey,
    /// When it was given up.
    pub at: Timestamp,
}

/// The right to answer in a chat, until it runs out or another claim takes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Lease {
    /// The chat.
    pub chat: ChatKey,
    /// The head as claimed.
    pub head: Head,
    pub(super) fence: i64,
}

/// What a run leaves for the next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ending {
    /// From where on the Session's records are read, if the run found out.
    pub context_from: Option<SortKey>,
    /// See [`Head::captured_to`], if the run got further.
    pub captured_to: Option<SortKey>,
    /// See [`Head::uncaptured_from`], if a capture failed.
    pub uncaptured_from: Option<SortKey>,
    /// Whether what waited from before [`Head::stopped_to`] is covered, all of it.
    pub has_stopped: bool,
    /// Whether the platform takes messages for this chat.
    pub reached: Reached,
    /// See [`Head::paced`], if something was sent.
    pub paced: Option<Timestamp>,
    /// See [`Head::answered_to`], if the run covered anything.
    pub answered_to: Option<SortKey>,
}

/// What a run learned about whether its platform takes messages for the chat.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Reached {
    /// Nothing.
    #[default]
    Unknown,
    /// It does.
    Yes,
    /// It does not: the bot was blocked or removed.
    No(DeliveryFailure),
}

/// Maximum time for which a process still writes after it lost a chat: it notices within
/// [`LOOK_AGAIN`](super::stop::LOOK_AGAIN) and drops its work, and a request that is under way then ends within seconds.
pub const HOLDER_ENDS_WITHIN: Duration = Duration::from_secs(5);

/// Who claims a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claimant {
    /// A run of the agent. It takes a chat from upkeep at once: people do not wait for that.
    Run,
    /// Upkeep. It takes a chat from nobody.
    Upkeep,
    /// A deletion of the chat. It takes a chat from everybody but another deletion.
    Forgetting,
}

impl Claimant {
    /// Returns whether it may take the chat from the holder of `head`, whose lease is not over.
    fn may_take_over(self, head: &Item) -> bool {
        match self {
            Self::Run => head.contains_key("housekeeping"),
            Self::Upkeep => false,
            Self::Forgetting => !head.contains_key("forgetting"),
        }
    }
}

/// What a claim answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Claim {
    /// The chat is this run's.
    Claimed(Box<Lease>),
    /// Another run has it, at most until then.
    Busy(Timestamp),
}

/// Another run has claimed the chat since; this one must end without answering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another run has taken over this chat")]
pub struct Superseded;

impl History {
    /// Claims `chat` for one run of at most `duration`. One write; two if upkeep has the chat, which loses it.
    pub async fn claim(&self, chat: &ChatKey, duration: Duration) -> Result<Claim, HistoryError> {
        self.claim_as(Claimant::Run, chat, duration).await
    }

    /// Claims `chat` for upkeep of at most `duration` if nobody has it. A run may take it over at any time. One write.
    pub async fn claim_for_upkeep(&self, chat: &ChatKey, duration: Duration) -> Result<Claim, HistoryError> {
        self.claim_as(Claimant::Upkeep, chat, duration).await
    }

    /// Claims `chat` for deleting it, for at most `duration` at a time. A run or upkeep that has it loses it, and learns so
    /// within moments; only another deletion is `Busy`. At most two writes.
    pub async fn claim_to_forget(&self, chat: &ChatKey, duration: Duration) -> Result<Claim, HistoryError> {
        let claim = self.claim_as(Claimant::Forgetting, chat, duration).await;
        self.stops.notify_waiters();
        claim
    }

    async fn claim_as(
        &self,
        claimant: Claimant,
        chat: &ChatKey,
        duration: Duration,
    ) -> Result<Claim, HistoryError> {
        let now = self.clock.now();
        let (pk, id) = (partition(chat), random::hex::<8>());
        let (mark, removed) = match claimant {
            // A head of version 0.1 may have an `expiresAt`, with which it would leave the table.
            Claimant::Run => ("", "housekeeping, forgetting, expiresAt"),
            Claimant::Upkeep => (", housekeeping = :true", "forgetting, expiresAt"),
            // With a date for the compactor: the entry by which a process has registered the chat may be deleted, and the
            // deletion may never come to its end.
            Claimant::Forgetting => (
                ", forgetting = :true, dueShard = :shard, dueAt = if_not_exists(dueAt, :due)",
                "housekeeping, expiresAt",
            ),
        };
        let update = |also: &str, condition: &'static str| {
            let mut values = vec![
                (":zero", number(0)),
                (":one", number(1)),
                (":until", number(now.plus(duration))),
                (":claim", string(&id)),
            ];
            if !mark.is_empty() {
                values.push((":true", AttributeValue::Bool(true)));
            }
            if claimant == Claimant::Forgetting {
                let due = now.plus(self.retention.due_after());
                values.push((":shard", string(shard_of(chat).to_string())));
                values.push((":due", number(seconds_up(due))));
            }
            let expression = format!(
                "SET fence = if_not_exists(fence, :zero) + :one, leaseUntil = :until, claim = :claim{mark}{also} \
                 REMOVE {removed}"
            );
            Update { expression, condition: Some(condition), values }
        };
        let mut free = update("", "attribute_not_exists(leaseUntil) OR leaseUntil < :now");
        free.values.push((":now", number(now)));
        let mut written = self.table.update(&pk, HEAD, free).await?;
        if let Written::Refused(held) = &written
            && text(held, "claim") != Some(id.as_str())
            && claimant.may_take_over(held)
        {
            let mut taken = update(", takenAt = :now", "fence = :seen");
            taken.values.push((":now", number(now)));
            taken.values.push((":seen", number(integer(held, "fence").unwrap_or_default())));
            written = self.table.update(&pk, HEAD, taken).await?;
        }
        let item = match written {
            Written::Done(item) => item,
            // The SDK repeats a request whose answer was lost, and the repeat finds the chat claimed: by itself.
            Written::Refused(item) if text(&item, "claim") == Some(id.as_str()) => item,
            Written::Refused(item) => {
                let until = integer(&item, "leaseUntil").and_then(Timestamp::from_millis);
                return Ok(Claim::Busy(until.unwrap_or(now)));
            }
        };
        let fence = integer(&item, "fence").unwrap_or_default();
        match head_of(&item) {
            Ok(head) => Ok(Claim::Claimed(Box::new(Lease { chat: chat.clone(), head, fence }))),
            Err(error) => {
                // Otherwise whoever comes after the repair waits for the lease to end.
                let lease = Lease { chat: chat.clone(), head: Head::default(), fence };
                drop(self.release(&lease).await);
                Err(error.into())
            }
        }
    }

    /// Holds the chat of `lease` for `duration` from now on. One write.
    pub async fn renew(
        &self,
        lease: &Lease,
        duration: Duration,
    ) -> Result<Result<(), Superseded>, HistoryError> {
        let until = number(self.clock.now().plus(duration));
        self.update_head(lease, "SET leaseUntil = :until", vec![(":until", until)]).await
    }

    /// Lets later runs read from `from` on, which is before [`Head::context_from`]: if this run fails for good, the chat's
    /// next turn still finds what this one was about. One write.
    pub async fn reach_back(
        &self,
        lease: &Lease,
        from: &SortKey,
    ) -> Result<Result<(), Superseded>, HistoryError> {
        self.update_head(lease, "SET contextFrom = :from", vec![(":from", string(from.as_str()))]).await
    }

    /// Commits to `turn`. One write.
    pub async fn commit(
        &self,
        lease: &Lease,
        turn: &OpenTurn,
    ) -> Result<Result<(), Superseded>, HistoryError> {
        let json = serde_json::to_string(turn)?;
        self.update_head(lease, "SET turn = :turn", vec![(":turn", string(json))]).await
    }

    /// Notes how much of the reply of `turn` has been delivered, and [`Head::paced`]. One write.
    pub async fn note_sent(
        &self,
        lease: &Lease,
        turn: &OpenTurn,
        paced: Option<Timestamp>,
    ) -> Result<Result<(), Superseded>, HistoryError> {
        let mut values = vec![(":turn", string(serde_json::to_string(turn)?))];
        let mut expression = "SET turn = :turn".to_owned();
        if let Some(paced) = paced {
            expression.push_str(", paced = :paced");
            values.push((":paced", number(paced)));
        }
        self.update_head(lease, &expression, values).await
    }

    /// Ends the run: frees the chat and its turn, and keeps what the next run starts from. One write.
    pub async fn finish(
        &self,
        lease: &Lease,
        ending: &Ending,
    ) -> Result<Result<(), Superseded>, HistoryError> {
        let (mut sets, mut removes, mut values) =
            (Vec::new(), vec!["leaseUntil", "turn", "failures"], Vec::new());
        if let Some(from) = &ending.context_from {
            sets.push("contextFrom = :from");
            values.push((":from", string(from.as_str())));
        }
        if let Some(captured_to) = &ending.captured_to {
            sets.push("capturedTo = :captured");
            values.push((":captured", string(captured_to.as_str())));
        }
        if let Some(from) = &ending.uncaptured_from {
            sets.push("uncapturedFrom = if_not_exists(uncapturedFrom, :uncaptured)");
            values.push((":uncaptured", string(from.as_str())));
        }
        if let Some(to) = &ending.answered_to {
            sets.push("answeredTo = :answered");
            values.push((":answered", string(to.as_str())));
        }
        if let Some(paced) = ending.paced {
            sets.push("paced = :paced");
            values.push((":paced", number(paced)));
        }
        if ending.has_stopped {
            removes.push("stoppedTo");
        }
        match &ending.reached {
            Reached::Unknown => {}
            Reached::Yes => removes.push("blocked"),
            Reached::No(failure) => {
                sets.push("blocked = :blocked");
                values.push((":blocked", string(serde_json::to_string(failure)?)));
            }
        }
        let set = if sets.is_empty() { String::new() } else { format!("SET {} ", sets.join(", ")) };
        self.update_head(lease, &format!("{set}REMOVE {}", removes.join(", ")), values).await
    }

    /// Commits to a summary of all up to the message or reply at `to`. One write.
    pub async fn plan_summary(
        &self,
        lease: &Lease,
        to: &SortKey,
    ) -> Result<Result<(), Superseded>, HistoryError> {
        self.update_head(lease, "SET compacting = :to", vec![(":to", string(to.as_str()))]).await
    }

    /// Gives up the plan of a summary, which is stored or will not be; `context_from` is where the context starts now.
    /// One write.
    pub async fn end_summary(
        &self,
        lease: &Lease,
        context_from: Option<&SortKey>,
    ) -> Result<Result<(), Superseded>, HistoryError> {
        let (set, values) = match context_from {
            Some(from) => ("SET contextFrom = :from ", vec![(":from", string(from.as_str()))]),
            None => ("", Vec::new()),
        };
        self.update_head(lease, &format!("{set}REMOVE compacting"), values).await
    }

    /// Ends a visit that has captured all that there was to capture, up to `captured_to` where it got further: frees the
    /// chat; a turn that a run has committed to stays. `context_from` is where the context starts now. One write.
    pub async fn finish_upkeep(
        &self,
        lease: &Lease,
        captured_to: Option<&SortKey>,
        context_from: Option<&SortKey>,
    ) -> Result<Result<(), Superseded>, HistoryError> {
        let (mut sets, mut values) = (Vec::new(), Vec::new());
        if let Some(to) = captured_to {
            sets.push("capturedTo = :captured");
            values.push((":captured", string(to.as_str())));
        }
        if let Some(from) = context_from {
            sets.push("contextFrom = :from");
            values.push((":from", string(from.as_str())));
        }
        let set = if sets.is_empty() { String::new() } else { format!("SET {} ", sets.join(", ")) };
        let forgotten_at = lease.head.forgotten_at.map(|at| at.plus(self.retention.due_after()));
        let is_over = forgotten_at.is_some_and(|until| until <= self.clock.now());
        let also = if is_over { ", forgottenAt" } else { "" };
        self.update_head(lease, &format!("{set}REMOVE leaseUntil, uncapturedFrom{also}"), values).await
    }

    /// Ends a run that did nothing, or whose turn the next run shall go on with. One write.
    pub async fn release(&self, lease: &Lease) -> Result<Result<(), Superseded>, HistoryError> {
        self.update_head(lease, "REMOVE leaseUntil", Vec::new()).await
    }

    /// Ends a deletion that is not finished. One write.
    pub async fn release_deletion(&self, lease: &Lease) -> Result<Result<(), Superseded>, HistoryError> {
        self.update_head(lease, "REMOVE leaseUntil, forgetting", Vec::new()).await
    }

    /// Ends a run whose model or platform failed, and counts that in [`Head::failures`]. One write.
    pub async fn release_failed(&self, lease: &Lease) -> Result<Result<(), Superseded>, HistoryError> {
        // The number, so that the SDK's repeat of this request does not count twice.
        let failures = number(lease.head.failures.saturating_add(1));
        self.update_head(lease, "SET failures = :n REMOVE leaseUntil", vec![(":n", failures)]).await
    }

    /// Frees a chat whose run is known to be dead: for a program that knows it is alone on its data.
    pub async fn free(&self, chat: &ChatKey) -> Result<(), HistoryError> {
        let update = Update { expression: "REMOVE leaseUntil".into(), ..Update::default() };
        self.table.update(&partition(chat), HEAD, update).await?;
        Ok(())
    }

    /// Until when a run has `chat`, if one has. One read.
    pub async fn busy_until(&self, chat: &ChatKey) -> Result<Option<Timestamp>, HistoryError> {
        let item = self.table.get(&partition(chat), HEAD).await?;
        let until = item.and_then(|item| integer(&item, "leaseUntil")).and_then(Timestamp::from_millis);
        Ok(until.filter(|until| *until >= self.clock.now()))
    }

    /// The head of `chat`; an empty one where there is none yet. One read.
    pub async fn head(&self, chat: &ChatKey) -> Result<Head, HistoryError> {
        let item = self.table.get(&partition(chat), HEAD).await?;
        Ok(item.as_ref().map(head_of).transpose()?.unwrap_or_default())
    }

    /// Notes that `old` is called `new` from `at` on: its history goes on there. Safe to repeat.
    pub async fn rename(&self, old: &ChatKey, new: &ChatKey, at: Timestamp) -> Result<(), HistoryError> {
        let link = serde_json::to_string(&Link { chat: old.clone(), at })?;
        let forward = Update {
            expression: "SET movedTo = :new".into(),
            values: vec![(":new", string(partition(new)))],
            ..Update::default()
        };
        let back = Update {
            // The first word stands: both sides of a migration are told of it, at slightly different times.
            expression: "SET continues = if_not_exists(continues, :link)".into(),
            values: vec![(":link", string(link))],
            ..Update::default()
        };
        self.table.update(&partition(new), HEAD, back).await?;
        self.table.update(&partition(old), HEAD, forward).await?;
        Ok(())
    }

    /// Notes that the platform takes messages for this chat again, or (`Some`) no longer.
    pub async fn set_blocked(
        &self,
        chat: &ChatKey,
        blocked: Option<&DeliveryFailure>,
    ) -> Result<(), HistoryError> {
        let update = match blocked {
            Some(failure) => Update {
                expression: "SET blocked = :blocked".into(),
                values: vec![(":blocked", string(serde_json::to_string(failure)?))],
                ..Update::default()
            },
            None => Update {
                expression: "REMOVE blocked".into(),
                condition: Some("attribute_exists(pk)"),
                ..Update::default()
            },
        };
        self.table.update(&partition(chat), HEAD, update).await?;
        Ok(())
    }

    /// Notes on a reply why its delivery ended without success.
    pub async fn note_delivery_failure(
        &self,
        reply: &Record,
        failure: &DeliveryFailure,
    ) -> Result<(), HistoryError> {
        let update = Update {
            expression: "SET deliveryFailure = :failure".into(),
            condition: Some("attribute_exists(pk)"),
            values: vec![(":failure", string(serde_json::to_string(failure)?))],
        };
        self.table.update(&partition(&reply.chat), reply.key.as_str(), update).await?;
        Ok(())
    }

    /// Commits to storing the segment that goes over `stretch`; `longest` is the longest time between the ends of a
    /// segment of this chat, that one included. One write.
    pub(super) async fn commit_archiving(
        &self,
        lease: &Lease,
        stretch: &Stretch,
        longest: Duration,
    ) -> Result<Result<(), Superseded>, HistoryError> {
        let values = vec![
            (":stretch", string(serde_json::to_string(stretch)?)),
            (":longest", number(longest.as_millis())),
        ];
        self.update_head(lease, "SET archiving = :stretch, longestSegment = :longest", values).await
    }

    /// Notes that the segment that was committed to is stored, and [`Head::kept_to`] where that is known. One write.
    pub(super) async fn finish_archiving(
        &self,
        lease: &Lease,
        kept_to: Option<&SortKey>,
    ) -> Result<Result<(), Superseded>, HistoryError> {
        let (set, values) = match kept_to {
            Some(to) => ("SET keptTo = :kept ", vec![(":kept", string(to.as_str()))]),
            None => ("", Vec::new()),
        };
        self.update_head(lease, &format!("{set}REMOVE archiving"), values).await
    }

    pub(super) async fn update_head(
        &self,
        lease: &Lease,
        expression: &str,
        mut values: Vec<(&'static str, AttributeValue)>,
    ) -> Result<Result<(), Superseded>, HistoryError> {
        values.push((":fence", number(lease.fence)));
        let update = Update { expression: expression.into(), condition: Some("fence = :fence"), values };
        Ok(match self.table.update(&partition(&lease.chat), HEAD, update).await? {
            Written::Done(_) => Ok(()),
            Written::Refused(_) => Err(Superseded),
        })
    }
}

/// Reads the head of a chat. An attribute that is there and cannot be read is an error: taken for absent, a committed turn
/// would disappear.
pub(super) fn head_of(item: &Item) -> Result<Head, HeadError> {
    let head = HeadItem(item);
    Ok(Head {
        context_from: head.parsed("contextFrom")?,
        compacting: head.parsed("compacting")?,
        captured_to: head.parsed("capturedTo")?,
        uncaptured_from: head.parsed("uncapturedFrom")?,
        kept_to: head.parsed("keptTo")?,
        turn: head.json("turn")?,
        stopped_to: head.parsed("stoppedTo")?,
        blocked: head.json("blocked")?,
        paced: head.time("paced")?,
        continues: head.json("continues")?,
        moved_to: head.parsed("movedTo")?,
        archiving: head.json("archiving")?,
        longest_segment: head.number("longestSegment")?.map(Duration::from_millis),
        failures: head.number("failures")?.unwrap_or_default(),
        answered_to: head.parsed("answeredTo")?,
        taken_at: head.time("takenAt")?,
        forgotten_at: head.time("forgottenAt")?,
    })
}

/// The item of a head.
struct HeadItem<'a>(&'a Item);

impl HeadItem<'_> {
    /// The attribute `name` read by `read`; `None` if there is none.
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
