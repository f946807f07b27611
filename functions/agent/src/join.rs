//! Other chats of the same person, before a turn: what the head notes of them is told, once, and the window of a platform
//! that was left for a person's chat gets its part back when `DM_SCOPE` is `chat` again.

use annals_core::chat_key::ChatKey;
use annals_core::person::{Join, Part};
use annals_core::sort_key::{MessageId, SortKey};
use annals_core::trace::Step;
use annals_store::history::turn::{Lease, Left};
use annals_store::people::People;

use crate::agent::Agent;
use crate::ask::TIMED_OUT;
use crate::error::TurnError;
use crate::retry_policy::{Attempt, JOINS, SUMMARIES_TIME};

/// Carries out the joins that the head of `lease` notes, the oldest first; `named` are the messages that the turns of the
/// queue name.
pub(crate) async fn carry_out_joins(
    agent: &Agent,
    lease: &Lease,
    named: &[SortKey],
    attempt: Attempt,
) -> Result<(), TurnError> {
    for join in lease.head.joins.iter().take(JOINS as usize) {
        carry_out(agent, lease, join, attempt).await?;
        agent.history.end_join(lease, join).await?;
    }
    if let Some(left) = lease.head.left_for.as_ref().filter(|_| !agent.memory.links) {
        come_back(agent, lease, left, named, attempt).await?;
    }
    Ok(())
}

async fn carry_out(agent: &Agent, lease: &Lease, join: &Join, attempt: Attempt) -> Result<(), TurnError> {
    let compaction = agent.compaction();
    let _timing = agent.recorder.begin(Step::Compact);
    let is_last = attempt.ends_asking();
    if is_last {
        tracing::error!(
            "earlier attempts at the turn failed; the messages of another chat are quoted, not summarised"
        );
    }
    tokio::select! {
        joined = Box::pin(compaction.join(lease, join, !is_last)) => Ok(joined?),
        () = agent.clock.sleep(SUMMARIES_TIME) => Err(TIMED_OUT.into()),
    }
}

/// Gives the window of `lease`, which was left for a person's chat, copies of what was said there in it since.
async fn come_back(
    agent: &Agent,
    lease: &Lease,
    left: &Left,
    named: &[SortKey],
    attempt: Attempt,
) -> Result<(), TurnError> {
    let people = People::beside(&agent.history);
    let person = people.person_of(&left.identity).await?;
    let now = agent.clock.now();
    // The same in each attempt.
    let ts = named.iter().min().map_or(now, SortKey::ts).previous();
    let own = ChatKey::direct(&agent.agent_id, &person);
    let mut chats: Vec<ChatKey> = own.into_iter().chain([left.chat.clone()]).collect();
    chats.dedup();
    // After a separation the identity's own chat has all of it.
    chats.retain(|chat| *chat != lease.chat);
    for (number, from) in chats.into_iter().enumerate() {
        let id = format!("link-back-{}-{number}", left.at.as_millis());
        let join = Join {
            id: MessageId::new(id).unwrap_or_else(|_| MessageId::number(0)),
            ts,
            from,
            part: Part::Only(left.identity.clone()),
            from_person: person.clone(),
            to_person: left.identity.clone(),
        };
        carry_out(agent, lease, &join, attempt).await?;
    }
    people.set_window(&left.identity, None).await?;
    agent.history.end_leave(lease).await?;
    Ok(())
}
