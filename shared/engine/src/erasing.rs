//! Everything of one person, in all chats: finds it, and erases it.
//!
//! There is no index by person, since it would double the cost of an append. So the list of chats is walked, and each
//! chat read.
//!
//! | chat | what is the person's |
//! | --- | --- |
//! | their direct chats and private chats with the bot; a conversation over HTTP or a room in which nobody else spoke | all of it |
//! | any other | their own messages with all forms, commands and answers to approvals, summaries of their chats that links made, and confirmations of `/link` that name them, in the table and in segments |
//!
//! In a chat of others, replies, summaries and group memory stay.
//!
//! 1. **finish** the chat in which an earlier request had begun, of which the list may not show any more that it is theirs
//! 2. **walk** the list; a chat is noted before anything in it is deleted, and the cursor is stored after each chat, so that
//!    the same request continues after a crash or at the end of its time
//! 3. **walk** again the chats in which somebody spoke since the erasure started, which have moved to the top
//! 4. **empty** the heads of their direct chats in which nothing was said
//! 5. **delete** the memory of all identities, then their links and the cursor
//!
//! A message that arrives meanwhile stays or is deleted with the rest.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use annals_core::agents::Agents;
use annals_core::chat_key::{ChatKey, Speakers};
use annals_core::message::Role;
use annals_core::person::canonical;
use annals_core::record::Record;
use annals_core::sort_key::Timestamp;
use annals_store::history::directory::{ListCursor, MAX_CHATS};
use annals_store::history::turn::{Claim, Lease};
use annals_store::history::{History, HistoryError, MAX_PAGE, Position, StoredSchedule};
use annals_store::memory::Memory;
use annals_store::people::{Begun, Erasure, People};
use serde::Serialize;

use crate::forgetting::{ForgetError, Forgotten, LEASE, forget, last_holder_ends};

/// Number of chats that are read from the list at a time.
const CHATS_AT_ONCE: usize = 10;

/// A chat's place in the list becomes the time of its last answered message, which may be so much before the answer.
const MOVES_BY: Duration = Duration::from_hours(1);

/// Returns all chats of the list, in its order, and then those that came or moved to its top meanwhile.
pub async fn all_chats(history: &History) -> Result<Vec<ChatKey>, HistoryError> {
    let started_at = history.clock().now();
    let (mut chats, mut known) = (Vec::new(), HashSet::new());
    for is_again in [false, true] {
        let mut before = None;
        loop {
            let page = history.chats(before.as_ref(), MAX_CHATS).await?;
            let is_over = is_again && page.chats.iter().any(|listed| listed.at < started_at.minus(MOVES_BY));
            let listed = page.chats.into_iter().map(|listed| listed.chat);
            chats.extend(listed.filter(|chat| known.insert(chat.clone())));
            before = page.before;
            if is_over || before.is_none() {
                break;
            }
        }
    }
    Ok(chats)
}

/// The identities of one person, by which their records are recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// The Person: one of the identities.
    pub id: String,
    pub identities: BTreeSet<String>,
}

/// The part of a chat that is one person's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    Whole,
    Own,
    Nothing,
}

/// Numbers of deleted items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct ErasedNumbers {
    /// Chats that were deleted whole.
    pub chats: usize,
    /// Records that were deleted in other chats.
    pub records: usize,
    /// Memory entries.
    pub memories: usize,
    /// Records that were removed from segments of other chats.
    pub archived: usize,
}

impl Person {
    /// Reads the identities of the Person of `identity`.
    pub async fn of(people: &People, identity: &str) -> Result<Self, HistoryError> {
        let all = people.everybody(identity).await?;
        let id = all.first().map_or(identity, String::as_str).to_owned();
        Ok(Self { id, identities: all.into_iter().collect() })
    }

    /// Returns the identity as which the person said or did what `record` is about.
    pub fn wrote(&self, record: &Record) -> Option<&str> {
        let known = |identity: &str| self.identities.get(identity).map(String::as_str);
        let of_channel = || known(&record.channel.identity(&record.user_id));
        let of_platform = || record.channel.is_platform().then(of_channel).flatten();
        let by_user = record.role() == Role::User;
        by_user.then(|| of_platform().or_else(|| known(canonical(&record.sender())))).flatten()
    }

    /// Returns true if the person wrote `record`, or if it tells another person of them: a summary of their chat that a
    /// link made, or a confirmation of `/link` that names them.
    pub fn concerns(&self, record: &Record) -> bool {
        let is_known = |about: &str| self.identities.contains(about);
        let tells = || !record.is_interaction() && record.message.metadata.about().is_some_and(is_known);
        self.wrote(record).is_some() || tells()
    }

    /// Returns true if a schedule is for the person.
    pub fn is_told(&self, stored: &StoredSchedule) -> bool {
        let to = &stored.schedule.to;
        let of_platform =
            to.channel.is_platform() && self.identities.contains(&to.channel.identity(&to.user_id));
        of_platform || self.identities.contains(canonical(&to.sender(&stored.chat)))
    }

    /// Returns the direct chats of each identity with each agent, and the windows that they have on platforms, as far as they are known. A
    /// chat may be empty.
    pub async fn direct_chats(
        &self,
        people: &People,
        agents: &Agents,
    ) -> Result<Vec<(String, ChatKey)>, HistoryError> {
        let mut chats = Vec::new();
        for identity in &self.identities {
            let known = people.identity(identity).await?;
            let windows = known.window.into_iter().chain(ChatKey::window_of_identity(identity));
            let own: BTreeSet<ChatKey> = agents.direct_chats(identity).chain(windows).collect();
            chats.extend(own.into_iter().map(|chat| (identity.clone(), chat)));
        }
        Ok(chats)
    }

    /// Returns true if the key of `chat` says that it is the person's alone.
    pub fn owns(&self, chat: &ChatKey) -> bool {
        match chat.speakers() {
            Speakers::One(identity) => self.identities.contains(&identity),
            Speakers::Callers | Speakers::Untold(_) | Speakers::Several => false,
        }
    }

    /// Returns true if `chat` may be the person's alone: it is neither a group nor another person's.
    pub fn may_own(&self, chat: &ChatKey) -> bool {
        self.owns(chat) || !matches!(chat.speakers(), Speakers::One(_) | Speakers::Several)
    }

    /// Returns the part of `chat` that is the person's. Reads all of it, or as much as it takes to find the person and, if they
    /// [may own](Self::may_own) it, somebody else.
    pub async fn share_of(&self, history: &History, chat: &ChatKey) -> Result<Share, HistoryError> {
        if self.owns(chat) {
            return Ok(Share::Whole);
        }
        let speakers = chat.speakers();
        let may_own = self.may_own(chat);
        let (mut own, mut others, mut private) = (false, false, false);
        let mut position = Position::Newest;
        loop {
            let page = history.page(chat, &position, MAX_PAGE).await?;
            for record in &page.records {
                if self.concerns(record) {
                    own = true;
                    private |= record.message.metadata.is_private();
                } else {
                    others |= record.is_interaction();
                }
            }
            let is_known = own && (others || !may_own);
            match page.before.filter(|_| !is_known) {
                Some(before) => position = Position::Before(before),
                None => break,
            }
        }
        let is_private = speakers == Speakers::Callers || private;
        Ok(match (own, others) {
            (true, false) if may_own && is_private => Share::Whole,
            (true, _) => Share::Own,
            (false, _) => Share::Nothing,
        })
    }

    /// Erases the person until `deadline` at most, and adds the chats that were deleted whole to `forgotten`, under all
    /// their names. Safe to repeat: what is deleted is not counted again.
    pub async fn erase(
        &self,
        history: &History,
        agents: &Agents,
        deadline: Timestamp,
        forgotten: &mut Vec<ChatKey>,
    ) -> Result<ErasedNumbers, ForgetError> {
        let (people, memory, clock) = (People::beside(history), Memory::beside(history), history.clock());
        let mut removed = ErasedNumbers::default();
        let begun = people.erasure(&self.id).await?;
        let mut erasure =
            begun.unwrap_or(Erasure { started_at: clock.now(), before: None, walked: false, begun: None });
        if let Some(Begun { chat, is_whole }) = erasure.begun.take()
            && let Ok(chat) = chat.parse()
        {
            if is_whole {
                // It may be deleted already, but not what its process keeps elsewhere.
                forgotten.extend(history.all_names(&chat).await?);
            }
            let share = if is_whole { Share::Whole } else { Share::Own };
            self.erase_in((history, agents), &chat, share, deadline, &mut removed).await?;
        }
        let new_from = erasure.started_at.minus(MOVES_BY);
        loop {
            let before = erasure.before.as_deref().and_then(|before| ListCursor::decode(before).ok());
            let places = history.places(before.as_ref(), CHATS_AT_ONCE).await?;
            let mut next = places.cursor_after(places.count());
            for number in 0..places.count() {
                // The chats before it are done, and at least one in each request.
                if let Some(done) = places.cursor_after(number) {
                    erasure.before = Some(done.encode());
                    people.set_erasure(&self.id, &erasure).await?;
                    if clock.now() > deadline {
                        next = Some(done);
                        break;
                    }
                }
                let Some(listed) = history.listed(&places, number).await? else { continue };
                if erasure.walked && listed.at < new_from {
                    next = None;
                    break;
                }
                let share = self.share_of(history, &listed.chat).await?;
                if share == Share::Whole {
                    // Read first: the links between the names are deleted with the chat.
                    forgotten.extend(history.all_names(&listed.chat).await?);
                }
                if share != Share::Nothing {
                    let begun = Begun { chat: listed.chat.to_string(), is_whole: share == Share::Whole };
                    people.set_erasure(&self.id, &Erasure { begun: Some(begun), ..erasure.clone() }).await?;
                }
                self.erase_in((history, agents), &listed.chat, share, deadline, &mut removed).await?;
            }
            let is_over = next.is_none();
            if is_over && erasure.walked {
                break;
            }
            erasure.walked |= is_over;
            erasure.before = next.map(|next| next.encode());
            people.set_erasure(&self.id, &erasure).await?;
            if clock.now() > deadline {
                let ErasedNumbers { records, memories, .. } = removed;
                let forgotten = Forgotten { records, memories, ..Forgotten::default() };
                return Err(ForgetError::Unfinished { forgotten });
            }
        }
        // The list does not show a chat in which nothing was said.
        for (_, chat) in self.direct_chats(&people, agents).await? {
            let head = history.head(&chat).await?;
            if head.left_for.is_some() || !head.joins.is_empty() {
                forget(history, agents, &chat, deadline).await?;
            }
        }
        for identity in &self.identities {
            for owner in agents.owners(identity) {
                removed.memories += memory.forget_all(&owner).await?;
            }
        }
        // The Person last, whose item has the progress.
        for identity in self.identities.iter().filter(|identity| **identity != self.id) {
            people.forget(identity).await?;
        }
        people.forget(&self.id).await?;
        Ok(removed)
    }

    async fn erase_in(
        &self,
        (history, agents): (&History, &Agents),
        chat: &ChatKey,
        share: Share,
        deadline: Timestamp,
        removed: &mut ErasedNumbers,
    ) -> Result<(), ForgetError> {
        match share {
            Share::Nothing => {}
            Share::Whole => {
                let forgotten = forget(history, agents, chat, deadline).await?;
                removed.chats += 1;
                removed.memories += forgotten.memories;
            }
            Share::Own => {
                for name in history.all_names(chat).await? {
                    let lease = match history.claim_to_forget(&name, LEASE).await? {
                        Claim::Claimed(lease) => *lease,
                        Claim::Busy(until) => return Err(ForgetError::Busy { until }),
                    };
                    let erased = self.erase_of(history, &lease, removed).await;
                    // Otherwise the chat's next turn would wait for the claim to end.
                    lease.log_failed_release(history.release_deletion(&lease).await);
                    erased?;
                }
            }
        }
        Ok(())
    }

    /// Deletes the person's records of the chat of `lease`, in the table and in its segments.
    async fn erase_of(
        &self,
        history: &History,
        lease: &Lease,
        removed: &mut ErasedNumbers,
    ) -> Result<(), HistoryError> {
        last_holder_ends(history, std::slice::from_ref(lease)).await;
        let is_theirs = |record: &Record| self.concerns(record);
        history.prepare_to_erase(lease).await?;
        for stored in history.schedules(&lease.chat).await? {
            if self.is_told(&stored) {
                history.cancel_schedule(&lease.chat, &stored.schedule.id).await?;
            }
        }
        let mut after = None;
        loop {
            let erased = history.erase_of(lease, after.as_deref(), &is_theirs).await?;
            removed.records += erased.records;
            history.renew(lease, LEASE).await?;
            after = erased.last;
            if after.is_none() {
                break;
            }
        }
        for segment in history.segments_to_erase(&lease.chat).await? {
            removed.archived += history.erase_in_segment(&segment, &is_theirs).await?;
            history.renew(lease, LEASE).await?;
        }
        Ok(())
    }
}
