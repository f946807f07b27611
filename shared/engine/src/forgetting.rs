//! Forgets a chat: deletes everything that is stored of it.
//!
//! Records, archived segments, bodies of large messages, images, the head, and the memory entries that were found in
//! the chat, a person's as well as a group's. Backups stay until they expire.
//!
//! 1. **Claim** the chat under each of its names. A run or a visit of the compactor that has it loses it, and no other
//!    process gets it until this is over.
//! 2. **Wait** until the run or visit that just lost the chat has ended: see
//!    [`HOLDER_ENDS_WITHIN`]. From here on no earlier process writes.
//! 3. **Delete**, a page at a time: the memory of its authors, then the page. Each page renews the claim.
//! 4. **Delete** the objects, and empty the heads.
//!
//! After a crash, or at the end of the request's time, the same request continues the deletion: what is deleted is
//! gone, and the memory of a person is deleted before the last record that names that person. A message that arrives
//! meanwhile stays or is deleted with the rest.

use std::collections::BTreeSet;
use std::time::Duration;

use annals_core::agents::Agents;
use annals_core::chat_key::ChatKey;
use annals_core::memory::Owner;
use annals_core::memory::owner::person_of;
use annals_core::message::Role;
use annals_core::record::Record;
use annals_core::sort_key::Timestamp;
use annals_store::history::turn::{Claim, HOLDER_ENDS_WITHIN, Lease};
use annals_store::history::{Erased, History, HistoryError};
use annals_store::memory::{Memory, MemoryError};
use annals_store::people::People;
use serde::Serialize;

/// Lifetime of a claim. The deletion renews it with each page. A run that meets the claim waits until it ends.
pub(crate) const LEASE: Duration = Duration::from_secs(15);

/// Numbers of deleted items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Forgotten {
    /// Records that were still in the table, of every kind: messages, their revisions, replies, summaries, notices.
    pub records: usize,
    /// Segments of the archive.
    pub segments: usize,
    /// Bodies of messages too large for the table.
    pub bodies: usize,
    /// Images that people sent, and notes that one cannot be had.
    pub media: usize,
    /// Memory entries that were found in the chat.
    pub memories: usize,
}

/// A chat or a person that is not forgotten, or only in part: the same request continues.
#[derive(Debug, thiserror::Error)]
pub enum ForgetError {
    #[error("the chat is being deleted by another request, at most until {until} (epoch milliseconds)")]
    Busy { until: Timestamp },
    /// The time of the request is over. What is deleted is gone; the next request continues.
    #[error("out of time after {} records were deleted: send the same request again", forgotten.records)]
    Unfinished { forgotten: Forgotten },
    /// The history, or the links of an author, could not be read or deleted. [`HistoryError::LeaseLost`] if a page took
    /// longer than the claim holds and another process has claimed the chat.
    #[error(transparent)]
    History(#[from] HistoryError),
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// Deletes everything of `chat`, under all the names that it has had, until `deadline` at most. Safe to repeat: deleted
/// items are not counted again. The memory of each of `agents` is looked at, since the rules may have changed.
pub async fn forget(
    history: &History,
    agents: &Agents,
    chat: &ChatKey,
    deadline: Timestamp,
) -> Result<Forgotten, ForgetError> {
    let names = history.all_names(chat).await?;
    let mut leases = Vec::new();
    for name in &names {
        match history.claim_to_forget(name, LEASE).await {
            Ok(Claim::Claimed(lease)) => leases.push(*lease),
            Ok(Claim::Busy(until)) => {
                release(history, &leases).await;
                return Err(ForgetError::Busy { until });
            }
            Err(error) => {
                release(history, &leases).await;
                return Err(error.into());
            }
        }
    }
    let forgotten = erase(history, agents, &leases, deadline).await;
    if forgotten.is_err() {
        // Otherwise the next request would wait for the claims to end.
        release(history, &leases).await;
    }
    forgotten
}

async fn release(history: &History, leases: &[Lease]) {
    for lease in leases {
        lease.log_failed_release(history.release_deletion(lease).await);
    }
}

/// Deletes everything of the chats of `leases`, which are the names of one chat, the newest first.
async fn erase(
    history: &History,
    agents: &Agents,
    leases: &[Lease],
    deadline: Timestamp,
) -> Result<Forgotten, ForgetError> {
    let clock = history.clock();
    last_holder_ends(history, leases).await;
    let memory = Memory::beside(history);
    let mut forgotten = Forgotten::default();
    let names: Vec<&ChatKey> = leases.iter().map(|lease| &lease.chat).collect();
    let mut known: BTreeSet<Owner> = BTreeSet::new();
    // The memory of a group is kept under the first name that its chat had.
    for name in &names {
        let owner = Owner::Chat((*name).clone());
        forgotten.memories += forget_memory(&memory, &owner, &names).await?;
        known.insert(owner);
    }
    for lease in leases.iter().rev() {
        while let Some(page) = history.to_erase(&lease.chat).await? {
            for owner in owners_of(history, agents, &page.records).await? {
                if known.insert(owner.clone()) {
                    forgotten.memories += forget_memory(&memory, &owner, &names).await?;
                }
            }
            hold(history, leases).await?;
            forgotten.records += history.erase_items(page).await?;
            if clock.now() > deadline {
                return Err(ForgetError::Unfinished { forgotten });
            }
        }
        loop {
            hold(history, leases).await?;
            let objects = history.erase_objects(&lease.chat).await?;
            if objects == Erased::default() {
                break;
            }
            forgotten.segments += objects.segments;
            forgotten.bodies += objects.bodies;
            forgotten.media += objects.media;
            if clock.now() > deadline {
                return Err(ForgetError::Unfinished { forgotten });
            }
        }
    }
    for lease in leases {
        history.forget_stranger(&lease.chat).await?;
    }
    // The newest last, since every other name refers to it.
    for lease in leases.iter().rev() {
        history.empty_head(lease).await?;
    }
    Ok(forgotten)
}

/// Returns the people to whose memory entries from `records` may have gone: their authors, and those that the authors are
/// or were linked to or separated from. One read for each author.
async fn owners_of(
    history: &History,
    agents: &Agents,
    records: &[Record],
) -> Result<BTreeSet<Owner>, HistoryError> {
    let people = People::beside(history);
    let mut authors: BTreeSet<String> = BTreeSet::new();
    // Those that replied there, also if no rule names them any more.
    let mut agent_ids: BTreeSet<&str> = BTreeSet::new();
    for record in records {
        agent_ids.extend(record.chat.agent_id());
        agent_ids.extend((record.role() == Role::Assistant).then_some(record.user_id.as_str()));
        if let Some(person) = person_of(record) {
            authors.extend([person, record.identity()]);
        }
    }
    let mut owners = BTreeSet::new();
    for author in authors {
        let known = people.identity(&author).await?;
        for person in known.spans.iter().map(|span| span.person.as_str()).chain([author.as_str()]) {
            owners.extend(agents.owners(person));
            owners
                .extend(agent_ids.iter().map(|id| Owner::of_person(agents.profiled(id), person.to_owned())));
        }
    }
    Ok(owners)
}

/// Waits until the run or visit that lost a chat of `leases` last has ended.
pub(crate) async fn last_holder_ends(history: &History, leases: &[Lease]) {
    if let Some(lost_at) = leases.iter().filter_map(|lease| lease.head.taken_at).max() {
        let clock = history.clock();
        clock.sleep(lost_at.plus(HOLDER_ENDS_WITHIN).since(clock.now())).await;
    }
}

/// Renews the claims.
async fn hold(history: &History, leases: &[Lease]) -> Result<(), ForgetError> {
    for lease in leases {
        history.renew(lease, LEASE).await?;
    }
    Ok(())
}

/// Deletes the entries of `owner` from the chat of these names; returns their number.
async fn forget_memory(memory: &Memory, owner: &Owner, names: &[&ChatKey]) -> Result<usize, MemoryError> {
    let mut deleted = 0;
    for name in names {
        deleted += memory.forget_chat(owner, name).await?;
    }
    Ok(deleted)
}
