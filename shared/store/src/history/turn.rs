//! The head of a chat: the run that may answer, the turn that it has committed to, and the start of the context.
//!
//! ```json
//! {"pk": "telegram:chat:42", "sk": "!head", "fence": 17, "leaseUntil": 1763766220000,
//!  "turn": "{\"covers\":[\"1763765920000#00000000000000000007\"],\"sent\":0}",
//!  "contextFrom": "1763765920000#00000000000000000007", "capturedTo": "1763500000000#00000000000000000003",
//!  "uncapturedFrom": "1763400000000#00000000000000000002",
//!  "compacting": "1763765920000#00000000000000000005#4reply", "housekeeping": true,
//!  "blocked": "{\"reason\":\"Forbidden: bot was blocked by the user\",\"at\":1763766220000,\"channel\":\"telegram\",\"chatId\":\"42\"}",
//!  "continues": "{\"chat\":\"telegram:chat:-42\",\"at\":1763765920000}", "movedTo": "telegram:chat:-100123",
//!  "stoppedTo": "1763765921000#00000000000000000008",
//!  "claim": "9f86d081884c7d65", "failures": 1, "answeredTo": "1763765920000#00000000000000000007",
//!  "takenAt": 1763766220000, "forgottenAt": 1763766220000,
//!  "archiving": "{\"from\":\"1763765920000#00000000000000000007\",\"to\":\"1763765960000#00000000000000000009\"}",
//!  "longestSegment": 40000, "keptTo": "1763765900000#00000000000000000004", "paced": 1763766221000,
//!  "joins": {"SS": ["{\"id\":\"joined-9f86\",\"ts\":1763766220000,\"from\":\"agent:annals:user:lark-ou_ada\",…}"]},
//!  "leftFor": "{\"chat\":\"agent:annals:user:telegram-42\",\"identity\":\"telegram-42\",\"at\":1763766220000}",
//!  "chatSettings": "{\"activation\":\"always\"}",
//!  "takenOver": "{\"by\":\"Grace\",\"at\":1763766220000}",
//!  "discordChannel": "1459213904352645111", "title": "{\"name\":\"Book club\"}", "givenTitle": "The readers",
//!  "runningSince": 1763766220000, "delivered": "{\"reply\":\"1763765920000#00000000000000000007#4reply\",\"trace\":{…}}"}
//! ```
//!
//! A turn whose attempts have failed so far has `trace`: its steps and its requests to models, as deflated JSON.
//! A deletion sets `forgetting` (true) in place of `housekeeping`. The dates of visits (`dueShard`, `dueAt`,
//! `dueSince`) are in the same item: see [`due`](super::due).
//!
//! A run goes [`claim`](History::claim), read, [`commit`](History::commit), append the reply, deliver,
//! [`finish`](History::finish): three writes to the head (one more per further piece) and one put.
//!
//! Each claim takes the next fence, and a write under a lease holds only under the newest
//! ([`HistoryError::LeaseLost`]), so of two runs that overlap one commits. The committed turn is the set of messages
//! that its reply will cover, and so the reply's key. A run that finds a committed turn finishes exactly that one
//! first: both runs' puts then use one key, and one of them is refused. So no message has two replies, also if an old
//! run's put arrives late.
//!
//! `/stop` takes the next fence too, and claims nothing (see [`super::stop`]): the run that has the chat can neither
//! commit nor note a piece from then on. `stoppedTo` tells the next run, in the same write, that unanswered messages
//! from before the command are not to be answered any more. That run covers them with a stopped reply, by a committed
//! turn like any other. So a stop needs no proof of its own. For [`STOPPED_RUN_ENDS_WITHIN`] the next run is the stopped
//! one, since its process alone has the text so far.
//!
//! Upkeep (archive, summaries, memory between turns) claims a chat as a run does, but marks its claim `housekeeping`: a
//! run takes such a chat over at once. A summary that upkeep has committed to (`compacting`) stays committed, so that
//! the next process that compacts the chat continues it, and both use one key.
//!
//! `contextFrom` is a hint, made of the records by the last run, so that a long history is not read for a short
//! context; `view.rs` says how a record is found that arrives late from before it.
//!
//! # Layout
//!
//! - `turn/head.rs`: the head as a type, and the kinds of process that hold a chat
//! - `turn/lease.rs`: claims, leases, and the two functions through which every update of a head goes

mod head;
mod lease;

use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::person::Join;
use annals_core::sort_key::{SortKey, Timestamp};
use annals_core::title::Title;
use annals_core::trace::Delivery;
use aws_sdk_dynamodb::types::AttributeValue;

use super::table::{Item, Update, Written, json, number, string};
use super::{HEAD, History, HistoryError, partition};

pub(super) use head::{ANSWERED_TO, CHAT_SETTINGS, Held, Holder, TAKEN_OVER};
pub use head::{Archive, Blocked, Head, HeadError, Left, Link, OpenTurn, Resumed, Stretch};
pub use lease::{Claim, Lease};

/// Notes of a run for the next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ending {
    /// The first record to read of the Session, if the run found out.
    pub context_from: Option<SortKey>,
    /// See [`Head::captured_to`], if the run got further.
    pub captured_to: Option<SortKey>,
    /// See [`Head::uncaptured_from`], if a capture failed.
    pub uncaptured_from: Option<SortKey>,
    /// True if all unanswered messages from before [`Head::stopped_to`] are covered.
    pub has_stopped: bool,
    /// The platform's readiness to take messages for this chat.
    pub reached: Reached,
    /// See [`Head::discord_channel`], if the turn came from there.
    pub discord_channel: Option<String>,
    /// See [`Head::paced`], if something was sent.
    pub paced: Option<Timestamp>,
    /// See [`Head::answered_to`], if the run covered anything.
    pub answered_to: Option<SortKey>,
    /// See [`Head::title`], if it has changed.
    pub title: Option<Title>,
    /// See [`Head::delivered`], if the run sent something.
    pub delivered: Option<Delivery>,
}

/// A platform's readiness to take messages for a chat, as far as a run has found out.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Reached {
    /// Not known.
    #[default]
    Unknown,
    /// It takes them.
    Yes,
    /// It refuses them: the bot was blocked or removed.
    No(Blocked),
}

/// Maximum time for which a process still writes after it lost a chat: it notices within
/// [`LOOK_AGAIN`](super::stop::LOOK_AGAIN) and drops its work, and a request that is under way then ends within
/// seconds.
pub const HOLDER_ENDS_WITHIN: Duration = Duration::from_secs(5);

/// Time for which only the run that a `/stop` took a chat from may claim it. It notices within
/// [`LOOK_AGAIN`](super::stop::LOOK_AGAIN).
pub const STOPPED_RUN_ENDS_WITHIN: Duration = Duration::from_secs(5);

/// Maximum number of attempts to change a head for an admin, or to take a chat over, while runs claim the chat.
const MAX_HEAD_ATTEMPTS: u32 = 8;

impl History {
    /// Lets later runs read from `from` on, which is before [`Head::context_from`]: if this run fails for good, the
    /// chat's next turn still finds the messages of this one. One write.
    pub async fn reach_back(&self, lease: &Lease, from: &SortKey) -> Result<(), HistoryError> {
        self.write_head(lease, Update::default().set("contextFrom", string(from.as_str()))).await
    }

    /// Commits to `turn`. One write.
    pub async fn commit(&self, lease: &Lease, turn: &OpenTurn) -> Result<(), HistoryError> {
        self.write_head(lease, Update::default().set("turn", json(turn)?)).await
    }

    /// Notes how much of the reply of `turn` has been delivered, and [`Head::paced`]. One write.
    pub async fn note_sent(
        &self,
        lease: &Lease,
        turn: &OpenTurn,
        paced: Option<Timestamp>,
    ) -> Result<(), HistoryError> {
        let update = Update::default().set("turn", json(turn)?).set("paced", paced.map(number));
        self.write_head(lease, update).await
    }

    /// Ends the run: frees the chat and its turn, and keeps what the next run starts from. One write.
    pub async fn finish(&self, lease: &Lease, ending: &Ending) -> Result<(), HistoryError> {
        let key = |key: &Option<SortKey>| key.as_ref().map(|key| string(key.as_str()));
        let mut update = Update::default()
            .set("contextFrom", key(&ending.context_from))
            .set("capturedTo", key(&ending.captured_to))
            .set_if_absent("uncapturedFrom", key(&ending.uncaptured_from))
            .set(ANSWERED_TO, key(&ending.answered_to))
            .set("discordChannel", ending.discord_channel.as_deref().map(string))
            .set("paced", ending.paced.map(number))
            .set("title", ending.title.as_ref().map(json).transpose()?)
            .set("delivered", ending.delivered.as_ref().map(json).transpose()?)
            .remove(["leaseUntil", "turn", "failures", "trace", "runningSince"]);
        if ending.has_stopped {
            update = update.remove(["stoppedTo"]);
        }
        update = match &ending.reached {
            Reached::Unknown => update,
            Reached::Yes => update.remove(["blocked"]),
            Reached::No(blocked) => update.set("blocked", json(blocked)?),
        };
        self.write_head(lease, update).await
    }

    /// Commits to a summary of all up to the message or reply at `to`. One write.
    pub async fn plan_summary(&self, lease: &mut Lease, to: &SortKey) -> Result<(), HistoryError> {
        self.write_head(lease, Update::default().set("compacting", string(to.as_str()))).await?;
        lease.head.compacting = Some(to.clone());
        Ok(())
    }

    /// Gives up the plan of a summary, which is stored or will not be. One write.
    pub async fn end_summary(&self, lease: &mut Lease) -> Result<(), HistoryError> {
        self.write_head(lease, Update::default().remove(["compacting"])).await?;
        lease.head.compacting = None;
        Ok(())
    }

    /// Ends a visit that has captured all that there was to capture, up to `captured_to` if it got further: frees the
    /// chat; a turn that a run has committed to stays. `context_from` is the start of the context now, `title` the new
    /// [`Head::title`] if it has changed. One write.
    pub async fn finish_upkeep(
        &self,
        lease: &Lease,
        captured_to: Option<&SortKey>,
        context_from: Option<&SortKey>,
        title: Option<&Title>,
    ) -> Result<(), HistoryError> {
        let mut update = Update::default()
            .set("capturedTo", captured_to.map(|to| string(to.as_str())))
            .set("contextFrom", context_from.map(|from| string(from.as_str())))
            .set("title", title.map(json).transpose()?)
            .remove(["leaseUntil", "uncapturedFrom"]);
        let forgotten_at = lease.head.forgotten_at.map(|at| at.plus(self.retention.due_after()));
        if forgotten_at.is_some_and(|until| until <= self.clock.now()) {
            update = update.remove(["forgottenAt"]);
        }
        self.write_head(lease, update).await
    }

    /// Commits to storing the segment that goes over `stretch`; `longest` is the new [`Archive::longest_segment`]. One
    /// write.
    pub(super) async fn commit_archiving(
        &self,
        lease: &Lease,
        stretch: &Stretch,
        longest: Duration,
    ) -> Result<(), HistoryError> {
        let update = Update::default().set("archiving", json(stretch)?);
        self.write_head(lease, update.set("longestSegment", number(longest.as_millis()))).await
    }

    /// Notes that the segment that was committed to is stored, and [`Head::kept_to`] if that is known. One write.
    pub(super) async fn finish_archiving(
        &self,
        lease: &Lease,
        kept_to: Option<&SortKey>,
    ) -> Result<(), HistoryError> {
        let update = Update::default().set("keptTo", kept_to.map(|to| string(to.as_str())));
        self.write_head(lease, update.remove(["archiving"])).await
    }

    /// Notes that `old` is called `new` from `at` on: its history continues there, and its title and settings stay. Safe to
    /// repeat.
    pub async fn rename(&self, old: &ChatKey, new: &ChatKey, at: Timestamp) -> Result<(), HistoryError> {
        let mut known = self.table.get(&partition(old), HEAD).await?.unwrap_or_default();
        // The first note stands: both sides of a migration are told of it, at slightly different times.
        let back = Update::default()
            .set("continues", json(&Link { chat: old.clone(), at })?)
            .set_if_absent("title", known.remove("title"))
            .set_if_absent("givenTitle", known.remove("givenTitle"))
            .set_if_absent(TAKEN_OVER, known.remove(TAKEN_OVER))
            .set_if_absent(CHAT_SETTINGS, known.remove(CHAT_SETTINGS))
            .when("attribute_not_exists(continues)");
        self.update_head(new, back).await?;
        self.update_head(old, Update::default().set("movedTo", string(partition(new)))).await?;
        Ok(())
    }

    /// Gives `chat` the title `given`; `None` returns to the automatic one. Returns false, and changes nothing, if the
    /// chat has no messages. Two reads and one write; safe to repeat.
    pub async fn give_title(&self, chat: &ChatKey, given: Option<&str>) -> Result<bool, HistoryError> {
        let update = match given {
            Some(given) => Update::default().set("givenTitle", string(given)),
            None => Update::default().remove(["givenTitle"]),
        };
        self.update_known(chat, |_| Ok(Some(update.clone()))).await
    }

    /// Writes the update that `make` makes of the head to the head of `chat`, and makes it again if the head has changed
    /// meanwhile. Returns false, and changes nothing, if it makes none or the chat has no messages. Two reads and one write.
    /// Fails with [`HistoryError::ChatContended`] if the head changes at each try.
    pub(super) async fn update_known(
        &self,
        chat: &ChatKey,
        mut make: impl FnMut(&Item) -> Result<Option<Update>, HistoryError>,
    ) -> Result<bool, HistoryError> {
        for _ in 0..MAX_HEAD_ATTEMPTS {
            let head = self.table.get(&partition(chat), HEAD).await?.unwrap_or_default();
            let Some(update) = make(&head)? else { return Ok(false) };
            // A chat that was renamed may have all its messages under its earlier name.
            if !head.contains_key("continues") && self.is_empty(chat).await? {
                return Ok(false);
            }
            // A deletion takes a fence. So nothing of the chat stays if it has been forgotten since.
            let update = match head.get("fence") {
                Some(fence) => update.when("fence = :seen").bind(":seen", fence.clone()),
                None => update.when("attribute_not_exists(fence)"),
            };
            if let Written::Done(_) = self.update_head(chat, update).await? {
                return Ok(true);
            }
        }
        Err(HistoryError::ChatContended)
    }

    /// Notes what the next run of `chat` tells its model of another chat. The same note twice is one. One write.
    pub async fn note_join(&self, chat: &ChatKey, join: &Join) -> Result<(), HistoryError> {
        let join = AttributeValue::Ss(vec![serde_json::to_string(join)?]);
        self.update_head(chat, Update::default().add("joins", join)).await?;
        Ok(())
    }

    /// Removes a note that is carried out. One write.
    pub async fn end_join(&self, lease: &Lease, join: &Join) -> Result<(), HistoryError> {
        let join = serde_json::to_string(join)?;
        self.write_head(lease, Update::default().delete("joins", vec![join])).await
    }

    /// Notes the person's chat that `window` is left for. One write.
    pub async fn leave(&self, window: &ChatKey, left: &Left) -> Result<(), HistoryError> {
        self.update_head(window, Update::default().set("leftFor", json(left)?)).await?;
        Ok(())
    }

    /// Removes the note that the window of `lease` was left. One write.
    pub async fn end_leave(&self, lease: &Lease) -> Result<(), HistoryError> {
        self.write_head(lease, Update::default().remove(["leftFor"])).await
    }

    /// Notes that the platform takes messages for this chat again, or (`Some`) no longer.
    pub async fn set_blocked(&self, chat: &ChatKey, blocked: Option<&Blocked>) -> Result<(), HistoryError> {
        let update = match blocked {
            Some(blocked) => Update::default().set("blocked", json(blocked)?),
            None => Update::default().remove(["blocked"]).when("attribute_exists(pk)"),
        };
        self.update_head(chat, update).await?;
        Ok(())
    }
}
