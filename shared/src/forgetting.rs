//! Forgetting a chat: everything that is kept of it, in every place.
//!
//! Records, archived segments, bodies of large messages, images that people sent, the head, and the memory entries that were found in it, a
//! person's as well as a group's. What backups hold stays there until they expire.
//!
//! The steps: claim the chat, so that no run answers or captures meanwhile; read who has spoken in it; delete their
//! memory of it; delete the history. A crash between any two leaves a chat that the same request forgets.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;

use crate::chat_key::ChatKey;
use crate::history::turn::{Claim, Superseded};
use crate::history::{Erased, History, HistoryError, MAX_PAGE, Position, SegmentError};
use crate::memory::owner::person_of;
use crate::memory::{Memory, MemoryError, Owner};
use crate::sort_key::Timestamp;

/// How long one request may take, after which another may go on with what it left.
const LEASE: Duration = Duration::from_mins(1);

/// What was deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Forgotten {
    /// Records that were still in the table, of every kind: messages, their revisions, replies, summaries, notices.
    pub records: usize,
    /// Segments of the archive.
    pub segments: usize,
    /// Bodies of messages too large for the table.
    pub bodies: usize,
    /// Images that people sent, and notes that one is not to be had.
    pub media: usize,
    /// Memory entries that were found in the chat.
    pub memories: usize,
}

/// A chat is not forgotten, or not whole: ask again.
#[derive(Debug, thiserror::Error)]
pub enum ForgetError {
    /// A run answers in it.
    #[error("a run has this chat until {until} (epoch milliseconds)")]
    Busy {
        /// When its lease runs out.
        until: Timestamp,
    },
    /// Somebody has claimed the chat since: this took too long.
    #[error(transparent)]
    Superseded(#[from] Superseded),
    /// The history could not be read or deleted.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// Memory could not be read or deleted.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// Deletes everything of `chat`, under all the names that it has had. Safe to repeat: what is gone is not counted again.
pub async fn forget(history: &History, chat: &ChatKey) -> Result<Forgotten, ForgetError> {
    let (chat, _) = history.current(chat).await?;
    let lease = match history.claim(&chat, LEASE).await? {
        Claim::Claimed(lease) => lease,
        Claim::Busy(until) => return Err(ForgetError::Busy { until }),
    };
    let forgotten = async {
        let (names, persons) = known_in(history, &chat).await?;
        let memory = Memory::beside(history);
        let mut memories = 0;
        for name in &names {
            let owners = persons.iter().cloned().map(Owner::User).chain([Owner::Chat(name.clone())]);
            for owner in owners {
                memories += memory.forget_chat(&owner, name).await?;
            }
        }
        let erased = history.erase(&lease).await??;
        let Erased { records, segments, bodies, media } = erased;
        Ok(Forgotten { records, segments, bodies, media, memories })
    };
    let forgotten = forgotten.await;
    if forgotten.is_err() {
        // Without this the next request would wait for the lease to run out.
        drop(history.release(&lease).await);
    }
    forgotten
}

/// The names of the chat, and the persons who have spoken under them, of all that is stored and archived.
async fn known_in(
    history: &History,
    chat: &ChatKey,
) -> Result<(BTreeSet<ChatKey>, BTreeSet<String>), HistoryError> {
    let (mut names, mut persons) = (BTreeSet::from([chat.clone()]), BTreeSet::new());
    names.insert(history.first_name(chat).await?);
    let mut position = Some(Position::Oldest);
    while let Some(at) = position {
        let page = match history.page(chat, &at, MAX_PAGE).await {
            Ok(page) => page,
            // What is lost already must not keep the rest from being forgotten.
            Err(HistoryError::Segment(
                error @ (SegmentError::Missing { .. } | SegmentError::Damaged { .. }),
            )) => {
                tracing::warn!(chat = %chat.session_id(), %error, "who spoke in a lost segment is not known");
                break;
            }
            Err(error) => return Err(error),
        };
        persons.extend(page.records.iter().filter_map(person_of));
        names.extend(page.records.into_iter().map(|record| record.chat));
        position = page.after.map(Position::After);
    }
    Ok((names, persons))
}
