//! The chat of a direct message: that of its sender's Person. Links and separates identities, and brings the
//! conversations and the memory of their chats along.
//!
//! | | step of a link | state after a crash here |
//! | --- | --- | --- |
//! | 1 | **note** the members of the Person | notes that count for nothing |
//! | 2 | **note** in the head of the person's chat what its model is to know ([`Join`]), and **enqueue** a turn | the other chat is summarised already; the same command continues |
//! | 3 | **link** the other identities, and last the one that asked | the same command continues with those that are missing |
//!
//! | | step of a separation | state after a crash here |
//! | --- | --- | --- |
//! | 1 | **end** the exchanges of `/link` that they take part in; **note** in the heads of both chats what their models are to know, and **append** a boundary to the person's | the same command continues |
//! | 2 | **enqueue** their turns | as above |
//! | 3 | **end** the link, by the command's key | nothing is left to do |
//!
//! The next run of each chat carries out the notes: see [`joining`](crate::joining).

use annals_channel::settings::DmScope;
use annals_core::agents::Circumstances;
use annals_core::chat_key::{ChatKey, KeyError};
use annals_core::draft::{Draft, Origin};
use annals_core::message::Part as MessagePart;
use annals_core::person::{Join, Part};
use annals_core::record::{Channel, Kind};
use annals_core::sort_key::{MessageId, SortKey, Timestamp};
use annals_store::history::turn::Left;
use annals_store::people::{Identity, People};
use annals_store::queue::Turn;

use super::{Ingress, IngressError};

/// Maximum number of identities of one Person.
pub const MAX_IDENTITIES: usize = 16;

/// The chat of a message that is to be sent to a person's direct chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectChat {
    pub chat: ChatKey,
    pub person: String,
    /// Time of the message: that of its first delivery, if it has an id of which one is known.
    pub ts: Timestamp,
}

/// Too many identities to link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a person may have at most {MAX_IDENTITIES} identities")]
pub struct TooMany;

impl Ingress {
    pub fn people(&self) -> &People {
        &self.people
    }

    pub fn dm_scope(&self) -> DmScope {
        self.config.dm_scope
    }

    /// Returns a draft in the chat that it belongs to: a direct message under `DM_SCOPE=user` in the chat of its
    /// sender's Person, any other where it is. Channel, window and user stay, so that a reply goes to where the message
    /// came from. One read for a direct message.
    pub async fn placed(&self, draft: Draft) -> Result<Draft, IngressError> {
        let window = ChatKey::private_window(draft.channel, &draft.chat_id);
        let said = Circumstances {
            channel: Some(draft.channel),
            window: window.as_ref(),
            ..Circumstances::default()
        };
        let Some(identity) = self.identity_of(&draft.chat) else {
            let chat = self
                .config
                .agents
                .placed(&draft.chat, &Circumstances { person: [draft.chat.person(), None], ..said })?;
            return Ok(Draft { chat, ..draft });
        };
        let identity = identity.to_owned();
        let known = self.settled(&identity, window.clone(), draft.ts, &said).await?;
        let person = known.person_at(draft.ts);
        let chat = self.direct(person.unwrap_or(&identity), &identity, &said)?;
        Ok(match person {
            Some(person) => Draft { chat, person: Some(person.to_owned()), ..draft },
            // Elsewhere the Person of such a user has the channel's name before the id.
            None if draft.identity() == identity && draft.sender() != identity => {
                Draft { chat, ..draft }.of_person(identity)
            }
            None => Draft { chat, ..draft },
        })
    }

    /// Returns the chat that a message of `ts` of `channel` in the direct chat `chat` belongs to: see [`Ingress::placed`].
    pub async fn placed_at(
        &self,
        chat: &ChatKey,
        channel: Channel,
        ts: Timestamp,
    ) -> Result<ChatKey, IngressError> {
        let said = Circumstances { channel: Some(channel), ..Circumstances::default() };
        let Some(identity) = self.identity_of(chat) else {
            return Ok(self
                .config
                .agents
                .placed(chat, &Circumstances { person: [chat.person(), None], ..said })?);
        };
        let known = self.people.identity(identity).await?;
        self.direct(known.person_at(ts).unwrap_or(identity), identity, &said)
    }

    /// Returns the chat of `person` with the agent that answers what their `identity` says.
    fn direct(
        &self,
        person: &str,
        identity: &str,
        said: &Circumstances<'_>,
    ) -> Result<ChatKey, IngressError> {
        let named = ChatKey::direct(self.config.agents.default_id(), person)?;
        Ok(self
            .config
            .agents
            .placed(&named, &Circumstances { person: [Some(identity), Some(person)], ..*said })?)
    }

    /// Returns the direct chat for a message of `identity` at `ts`, whose channel gives it no time of its own. A message
    /// whose `id` is known in an earlier chat of the identity belongs there. One write for an `id`, and under
    /// `DM_SCOPE=user` one read, and one more for each earlier chat.
    pub async fn direct_chat(
        &self,
        identity: &str,
        id: Option<&MessageId>,
        ts: Timestamp,
        said: &Circumstances<'_>,
    ) -> Result<DirectChat, IngressError> {
        let known = match self.config.dm_scope {
            DmScope::User => self.settled(identity, None, ts, said).await?,
            DmScope::Chat => Identity::default(),
        };
        let person = known.person_at(ts).unwrap_or(identity);
        let chat = self.direct(person, identity, said)?;
        let here = DirectChat { chat, person: person.to_owned(), ts };
        let Some(id) = id else { return Ok(here) };
        let persons = known.spans.iter().rev().map(|span| span.person.as_str());
        for earlier in persons.chain((!known.spans.is_empty()).then_some(identity)) {
            let chat = self.direct(earlier, identity, said)?;
            if chat != here.chat
                && let Some(ts) = self.history.time_of(&chat, id).await?
            {
                return Ok(DirectChat { chat, person: earlier.to_owned(), ts });
            }
        }
        let ts = self.history.first_time(&here.chat, id, ts).await?;
        Ok(DirectChat { ts, ..here })
    }

    /// Returns the identity whose own direct chat `chat` is, if links act.
    fn identity_of<'a>(&self, chat: &'a ChatKey) -> Option<&'a str> {
        match self.config.dm_scope {
            DmScope::User => chat.person(),
            DmScope::Chat => None,
        }
    }

    /// Reads an identity. At its first message after a change of a setting, carries that change out.
    async fn settled(
        &self,
        identity: &str,
        window: Option<ChatKey>,
        ts: Timestamp,
        said: &Circumstances<'_>,
    ) -> Result<Identity, IngressError> {
        let mut known = self.people.identity(identity).await?;
        let wanted = self.config.links.person_of(identity);
        if let Some(person) = wanted.filter(|wanted| known.person() != Some(wanted)) {
            let id = format!("links-{}", ts.as_millis());
            // Otherwise everybody who is linked to the same Person would be linked along.
            if let Some(old) = known.person()
                && self.config.links.person_of(old) != wanted
                && self.people.person_of(person).await? != old
            {
                let own = [identity.to_owned()];
                let from = format!("{id}-from");
                Box::pin(self.separate(&own, old, (&from, ts), &id, Some(ts))).await?;
            }
            if self.link(person, identity, &id, ts).await?.is_err() {
                tracing::error!(identity, "failed to link a person of LINKS: {TooMany}");
            }
            known = self.people.identity(identity).await?;
        }
        let window = match (window, known.person()) {
            // Channels whose direct messages have the same key under both scopes.
            (None, Some(_)) if known.window.is_none() => Some(self.direct(identity, identity, said)?),
            (window, _) => window.filter(|window| known.window.as_ref() != Some(window)),
        };
        if let Some(window) = window {
            let person = known.person().unwrap_or(identity).to_owned();
            let chat = self.direct(&person, identity, said)?;
            self.join_window(identity, (&person, chat), &window, ts).await?;
            known.window = Some(window);
        }
        Ok(known)
    }

    /// Leaves the window of `identity` for the chat of a person, whose model is to know what was said there.
    async fn join_window(
        &self,
        identity: &str,
        (person, chat): (&str, ChatKey),
        window: &ChatKey,
        ts: Timestamp,
    ) -> Result<(), IngressError> {
        if !self.history.is_empty(window).await? {
            let join = Join {
                id: event_id(&format!("scope-{}", ts.as_millis())),
                ts: ts.previous(),
                from: window.clone(),
                part: Part::All,
                from_person: identity.to_owned(),
                to_person: person.to_owned(),
            };
            self.history.note_join(&chat, &join).await?;
        }
        self.leave_window(identity, window, Left { chat, identity: identity.to_owned(), at: ts }).await
    }

    /// Notes that the window of `identity` is left, so that it gets its part back when it is used again.
    async fn leave_window(&self, identity: &str, window: &ChatKey, left: Left) -> Result<(), IngressError> {
        self.history.leave(window, &left).await?;
        Ok(self.people.set_window(identity, Some(window)).await?)
    }

    /// Links `second`, and all identities of its Person, to the Person of `first`, for messages from `ts` on. `id` names
    /// the link, so that it can be repeated safely.
    pub async fn link(
        &self,
        first: &str,
        second: &str,
        id: &str,
        ts: Timestamp,
    ) -> Result<Result<(), TooMany>, IngressError> {
        let (person, other) = (self.people.person_of(first).await?, self.people.person_of(second).await?);
        if person == other {
            return Ok(Ok(()));
        }
        let linked = self.people.linked_to(&person).await?;
        let mut joining = self.people.linked_to(&other).await?;
        joining.push(other.clone());
        // If this ends early, the one that asked is not linked, and its repeat links the rest.
        joining.sort_by_key(|identity| identity == second);
        if linked.len() + joining.len() + 1 > MAX_IDENTITIES {
            return Ok(Err(TooMany));
        }
        for identity in &joining {
            self.people.add_member(&person, identity).await?;
        }
        for agent in self.config.agents.ids() {
            let chat = ChatKey::direct(agent, &person)?;
            let join = Join {
                id: event_id(id),
                ts,
                from: ChatKey::direct(agent, &other)?,
                part: Part::All,
                from_person: other.clone(),
                to_person: person.clone(),
            };
            self.carry_out_later(&chat, &join).await?;
        }
        for identity in &joining {
            if self.people.identity(identity).await?.window.is_none() {
                for agent in self.config.agents.ids() {
                    let chat = ChatKey::direct(agent, &person)?;
                    let left = Left { chat, identity: identity.clone(), at: ts };
                    self.history.leave(&ChatKey::direct(agent, identity)?, &left).await?;
                }
                let window = ChatKey::direct(self.config.agents.default_id(), identity)?;
                self.people.set_window(identity, Some(&window)).await?;
            }
            self.people.remove_member(&other, identity).await?;
            self.people.link(identity, &person, ts).await?;
        }
        tracing::info!("linked two people");
        Ok(Ok(()))
    }

    /// Separates `identities`, which are linked to `person`, from it, for messages from `at` on, or from now on. `id` names
    /// the separation, and `by` the command, so that it can be repeated safely.
    pub async fn separate(
        &self,
        identities: &[String],
        person: &str,
        (id, ts): (&str, Timestamp),
        by: &str,
        at: Option<Timestamp>,
    ) -> Result<(), IngressError> {
        if identities.is_empty() {
            return Ok(());
        }
        // Otherwise a confirmation that is delivered again would link them once more.
        for identity in identities.iter().map(String::as_str).chain([person]) {
            self.people.end_exchange(identity).await?;
        }
        for agent in self.config.agents.ids() {
            self.separate_with(agent, identities, person, (id, ts)).await?;
        }
        let at = at.unwrap_or_else(|| self.history.clock().now().max(ts.next()));
        for identity in identities {
            self.people.unlink(identity, person, at, by).await?;
            self.people.remove_member(person, identity).await?;
        }
        tracing::info!("separated two people");
        Ok(())
    }

    /// Separates `identities` from `person` in their chats with one agent.
    async fn separate_with(
        &self,
        agent: &str,
        identities: &[String],
        person: &str,
        (id, ts): (&str, Timestamp),
    ) -> Result<(), IngressError> {
        let theirs = ChatKey::direct(agent, person)?;
        for identity in identities {
            let own = ChatKey::direct(agent, identity)?;
            let join = Join {
                id: event_id(id),
                ts,
                from: theirs.clone(),
                part: Part::Only(identity.clone()),
                from_person: person.to_owned(),
                to_person: identity.clone(),
            };
            self.carry_out_later(&own, &join).await?;
        }
        // A chat with an agent that they never spoke to stays empty.
        if agent == self.config.agents.default_id() || !self.history.is_empty(&theirs).await? {
            let origin = Origin {
                chat: theirs.clone(),
                channel: Channel::Http,
                chat_id: person.to_owned(),
                user_id: agent.to_owned(),
            };
            let boundary = Draft::new(origin, event_id(id), ts)
                .of_kind(Kind::Boundary)
                .of_person(person.to_owned())
                .with_parts(vec![MessagePart::text("A channel is no longer linked")]);
            self.history.append(&boundary).await?;
        }
        let join = Join {
            id: event_id(&format!("{id}-rest")),
            ts,
            from: theirs.clone(),
            part: Part::Without(identities.to_vec()),
            from_person: person.to_owned(),
            to_person: person.to_owned(),
        };
        self.carry_out_later(&theirs, &join).await
    }

    /// Leaves a note for the next run of `chat`, and queues that run.
    async fn carry_out_later(&self, chat: &ChatKey, join: &Join) -> Result<(), IngressError> {
        self.history.note_join(chat, join).await?;
        let turn = Turn { chat: chat.clone(), from: SortKey::message(join.ts, &join.id), at: None };
        Ok(self.queue.enqueue(&turn).await?)
    }
}

/// Returns the id of an event or a boundary that a change of links makes. It is made of digits and letters alone.
fn event_id(id: &str) -> MessageId {
    MessageId::new(format!("link-{id}")).unwrap_or_else(|_| MessageId::number(0))
}

impl From<KeyError> for IngressError {
    fn from(error: KeyError) -> Self {
        Self::Key(error)
    }
}
