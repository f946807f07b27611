//! The calls of `chat_send`. The chat's next turn sends the text, as it sends an operator's message, so it asks no model.
//!
//! A send needs no approval in the direct chat; elsewhere what the admin has set. One without approval has an id that comes from
//! the turn's first message and its number, so a repeated turn sends once; an approved one is made at most once.

use annals_core::approval;
use annals_core::person::canonical;
use annals_core::schedule::MAX_BYTES;
use annals_core::sort_key::MessageId;
use annals_engine::erasing::Person;
use annals_engine::ingress::operating::Desk;
use annals_engine::ingress::{Ingress, IngressError};
use annals_engine::scheduling::BLOCKED_PAUSE;
use annals_engine::settings::tools::CallApproval;
use annals_store::history::turn::Blocked;
use annals_store::people::People;
use serde_json::{Value, json};

use super::result::Output;
use super::targets::Targets;
use crate::agent::Agent;
use crate::deliver::still_blocked;
use crate::task::ClaimedTurn;

/// Sends for one turn.
pub(crate) struct Sending<'a> {
    pub(super) agent: &'a Agent,
    pub(super) ingress: &'a Ingress,
    pub(super) targets: &'a Targets,
    pub(super) turn: &'a ClaimedTurn,
}

impl Sending<'_> {
    /// Carries out the call with this id, the `nth` of the tool in the reply.
    pub(crate) async fn call(&self, id: &str, nth: usize, input: &Value) -> Output {
        self.send(id, nth, input).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "failed to look for the chat to send to; the model is told");
            Err("nothing was sent: other chats cannot be reached at the moment".into())
        })
    }

    async fn send(&self, id: &str, nth: usize, input: &Value) -> Result<Output, IngressError> {
        let text = input.get("text").and_then(Value::as_str).unwrap_or_default();
        if text.trim().is_empty() || text.len() > MAX_BYTES {
            return Ok(Err(format!("\"text\" must have 1 to {MAX_BYTES} bytes")));
        }
        let named = self.targets.named(input);
        let desk = match named {
            Some(target) => self.ingress.desk(&target.chat).await?,
            None if !self.turn.is_of_one_person() => {
                return Ok(Err(
                    "several people have asked, so it is not clear whose direct chat is meant".into()
                ));
            }
            None => self.direct().await?,
        };
        let ClaimedTurn { lease, turn, newest, .. } = self.turn;
        let Some(desk) = desk.filter(|desk| desk.chat != lease.chat) else {
            return Ok(Err("there is no such chat: nobody has written to you there lately".into()));
        };
        if desk.takeover.is_some() {
            return Ok(Err("an operator answers in that chat at the moment, so nothing was sent".into()));
        }
        // A refusal lapses as for schedules, since not each platform says when it ends.
        let now = self.agent.clock.now();
        let is_recent = |blocked: &&Blocked| now.since(blocked.failure.at) < BLOCKED_PAUSE;
        let blocked = desk.blocked.as_ref().filter(is_recent);
        if blocked.is_some_and(|blocked| still_blocked(self.agent, blocked, desk.person())) {
            return Ok(Err("that chat refuses messages from the bot, so nothing was sent".into()));
        }
        let number = nth.to_string();
        let own = if self.targets.approval(input) == CallApproval::NotNeeded { &number } else { id };
        let first = turn.covers.first().unwrap_or(&newest.key);
        let id = format!("chat-send-{}", approval::id(&lease.chat, first, own));
        let Ok(id) = MessageId::new(id) else { return Ok(Err("this cannot be sent".into())) };
        Ok(match self.ingress.send_from(&desk, &lease.chat, id, text).await {
            Ok(()) => Ok(json!({"sent": true})),
            Err(error) => {
                tracing::warn!(%error, "failed to send to another chat, or to queue its turn; the model is told");
                Err("it is not known if this was sent, or will be: the store failed".into())
            }
        })
    }

    /// Returns the direct chat in which the person who asks has written last, but not this one, and not one in which they wrote
    /// to a business last: the business reads what is sent there.
    async fn direct(&self) -> Result<Option<Desk>, IngressError> {
        let people = People::beside(self.ingress.history());
        let (agents, own_chat, sender) =
            (self.ingress.agents(), &self.turn.lease.chat, self.turn.newest.sender());
        let person = Person::of(&people, canonical(&sender)).await?;
        let mut newest: Option<Desk> = None;
        let own = agents.of(own_chat, Some(&sender));
        for (_, chat) in person.direct_chats(&people, agents).await? {
            // Another agent's chat with the person is not this one's to write in.
            let is_other = chat == *own_chat || agents.of(&chat, Some(&sender)) != own;
            let desk = if is_other { None } else { self.ingress.desk(&chat).await? };
            let is_newer = |desk: &Desk| {
                person.wrote(desk.person()).is_some()
                    && desk.person().line().is_none()
                    && newest.as_ref().is_none_or(|known| known.person().sent_at < desk.person().sent_at)
            };
            if let Some(desk) = desk.filter(is_newer) {
                newest = Some(desk);
            }
        }
        Ok(newest)
    }
}
