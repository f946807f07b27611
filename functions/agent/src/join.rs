//! Other chats of the same person, before a turn: what the head notes of them is told, once, and the window of a platform
//! that was left for a person's chat gets its part back when `DM_SCOPE` is `chat` again.

use annals_core::chat_key::ChatKey;
use annals_core::person::{Join, Part};
use annals_core::sort_key::{MessageId, SortKey};
use annals_core::trace::Step;
use annals_store::history::turn::Left;
use annals_store::people::People;

use crate::agent::Agent;
use crate::ask::TIMED_OUT;
use crate::error::TurnError;
use crate::retry_policy::{JOIN_TIME, JOINS};
use crate::run::Run;

/// Carries out the joins that the head of the run's chat notes, the oldest first.
pub(crate) async fn carry_out_joins(agent: &Agent, run: &Run<'_>) -> Result<(), TurnError> {
    let head = &run.lease.head;
    for join in head.joins.iter().take(JOINS as usize) {
        carry_out(agent, run, join).await?;
        agent.history.end_join(run.lease, join).await?;
    }
    if let Some(left) = head.left_for.as_ref().filter(|_| !agent.memory.links) {
        come_back(agent, run, left).await?;
    }
    Ok(())
}

async fn carry_out(agent: &Agent, run: &Run<'_>, join: &Join) -> Result<(), TurnError> {
    let compaction = agent.compaction();
    let _timing = agent.recorder.begin(Step::Compact);
    let is_last = run.attempt.ends_asking();
    if is_last {
        tracing::error!(
            "earlier attempts at the turn failed; the messages of another chat are quoted, not summarised"
        );
    }
    let joining = Box::pin(compaction.join(run.lease, join, !is_last));
    Ok(agent.clock.within(JOIN_TIME, joining).await.ok_or(TIMED_OUT)??)
}

/// Gives the window of the run's chat, which was left for a person's chat, copies of what was said there in it since.
async fn come_back(agent: &Agent, run: &Run<'_>, left: &Left) -> Result<(), TurnError> {
    let people = People::beside(&agent.history);
    let person = people.person_of(&left.identity).await?;
    let now = agent.clock.now();
    // The same in each attempt.
    let ts = run.named.iter().min().map_or(now, SortKey::ts).previous();
    let own = ChatKey::direct(&agent.agent_id, &person);
    let mut chats: Vec<ChatKey> = own.into_iter().chain([left.chat.clone()]).collect();
    chats.dedup();
    // After a separation the identity's own chat has all of it.
    chats.retain(|chat| *chat != run.lease.chat);
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
        carry_out(agent, run, &join).await?;
    }
    people.set_window(&left.identity, None).await?;
    agent.history.end_leave(run.lease).await?;
    Ok(())
}
