//! The webhook of a platform: [`Webhook`], and the events that it brings ([`Incoming`]).
//!
//! A call passes, in this order: [`Webhook::body_limit`] before its body is read, [`Webhook::verify`], [`Webhook::read`],
//! and then each [`Incoming`] is stored. Only then is it acknowledged.

use std::future::ready;
use std::time::Duration;

use annals_core::approval::Button;
use annals_core::chat_key::{ChatKey, KeyError};
use annals_core::command::Command;
use annals_core::draft::Draft;
use annals_core::message::{Part, Role};
use annals_core::record::{Kind, Record};
use annals_core::sort_key::{MessageId, SortKey, Timestamp};
use async_trait::async_trait;
use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::about::About;

/// Longest body of a call of a platform, in bytes.
pub const MAX_BODY_BYTES: usize = 6 * 1024 * 1024;

/// The webhook of one platform. One that needs less keeps the defaults.
pub trait Webhook: Send + Sync + 'static {
    /// The facts about its channel.
    const ABOUT: &'static About;

    /// Returns the longest body to read for a call with these headers, in bytes: less than [`MAX_BODY_BYTES`] if no larger one
    /// is the platform's.
    ///
    /// # Errors
    ///
    /// The call is refused without reading a byte of its body.
    fn body_limit(&self, _headers: &HeaderMap) -> Result<usize, Unverified> {
        Ok(MAX_BODY_BYTES)
    }

    /// Checks that the call comes from the platform, by [`is_same`](annals_core::secret::is_same) for secrets. A signature has no
    /// time window: a replay is a duplicate, and a late delivery must count.
    ///
    /// - **A proof in the body**, as Lark's token, is read first, alone, by a struct that borrows it: a [`Value`] of a forged
    ///   body takes many times its bytes. [`Webhook::body_limit`] is then the longest message of the platform.
    /// - **Keys that are fetched, and change**, need this as a future, with a second error for keys that cannot be had (503: no
    ///   platform repeats what got 401). Keep them by id, and ask for an unknown id at most once a minute: a forger can name any.
    /// - **A check of the address by `GET`** needs a method here with the query (a wrong token is 401 like any other; without
    ///   that query a `GET` stays 405, as `http_access.rs` asserts), a [`Response`] of plain text, `.get(…)` in
    ///   `shared/runtime/src/webhook.rs`, and in the template a second event of the function, under another name than `Webhook`,
    ///   since tests read that one. The guard of the local program and the gateway pass each method.
    ///   [`probe`](crate::setup::probe) only posts.
    ///
    /// # Errors
    ///
    /// The call is refused. The reason is only logged.
    fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Result<Verified, Unverified>;

    /// Parses an event. The keys depend on the event, the bot and the settings alone, so that a redelivery gives the same
    /// ones.
    ///
    /// The platform is asked for what the event leaves out. If it does not answer in time, an event that it delivers again is
    /// [`ReadError::Late`] or [`ReadError::Platform`]. Any other is read without the answer; if that would tell a person from a
    /// bot, the message does not ask. The bot's own id is asked for once in a process, as in Lark's `Client::bot`.
    fn read(&self, event: Value) -> impl Future<Output = Result<Events, ReadError>> + Send;

    /// Completes a [partial](Incoming::Partial) message.
    fn complete(&self, draft: Draft) -> impl Future<Output = Result<Draft, ReadError>> + Send {
        ready(Ok(draft))
    }

    /// Returns how long the platform waits for the response to a call, and what it accepts after that. `event` is the whole
    /// call, also if it has a list of events.
    fn patience(&self, _event: &Value) -> Patience {
        Patience::Unlimited
    }

    /// Returns true if the message was withdrawn before it arrived at `now`. If the platform does not tell, it was not.
    fn is_withdrawn(&self, _draft: &Draft, _now: Timestamp) -> impl Future<Output = bool> + Send {
        ready(false)
    }

    /// Shows `result` to the person who pressed a button: by the response, if it is not [that of the call](Events::response).
    /// A platform that shows no response, or waits too short a time for it, is sent the result by the webhook's client, as
    /// Telegram is, or at a URL that the event names. Failures are ignored: the press counts in any case.
    fn respond_to_press(
        &self,
        _press: &Press,
        _result: &ApprovalResult,
    ) -> impl Future<Output = Option<Response>> + Send {
        ready(None)
    }

    /// Returns the response that shows `confirmation` to the sender of `command`, which came as `draft`; `None` if it has to be
    /// sent to the chat.
    fn respond_to_command(
        &self,
        _command: &Command,
        _draft: &Draft,
        _confirmation: &str,
    ) -> Option<Response> {
        None
    }
}

/// A platform's patience with a call: how long it waits for the response, and what it accepts after that.
pub enum Patience {
    /// It waits for as long as an event may take, or never delivers an event again. A 503 then loses the event.
    Unlimited,
    /// It waits for this time, and delivers the event again later. An event that takes longer is cut off, and stored by its
    /// redelivery: not for a platform whose redelivery can be off.
    Redelivered(Duration),
    /// It does not wait for long and does not deliver the event again, but another call can tell it that the response comes
    /// later. If there is no such call, it is `Unlimited`: a late event is stored, though the platform shows an error.
    Deferred(Box<dyn Deferral>),
}

/// A call whose response may follow later.
#[async_trait]
pub trait Deferral: Send + Sync {
    /// Tells the platform that the response follows later. Returns false if that failed.
    async fn defer(&self) -> bool;

    /// Sends the response that follows later; `None` if the event could not be stored. Failures are only logged.
    async fn respond(&self, response: Option<Response>);
}

/// A response to a call, with a status of success.
#[derive(Clone, Debug, PartialEq)]
pub enum Response {
    /// 200 without a body.
    Empty,
    /// 202, after the response was sent in another way.
    Accepted,
    /// 204.
    NoContent,
    /// 200 with this body.
    Json(Value),
}

/// Result of [`Webhook::verify`].
#[derive(Clone, Debug, PartialEq)]
pub enum Verified {
    /// An event of the platform.
    Event(Value),
    /// A call that is answered at once, such as the platform's check of the address.
    Answer(Response),
    /// The call is the platform's, but its body is not an event, such as a form without its field: 400.
    NotAnEvent,
}

/// A call does not come from the platform: 401, with [`About::unverified`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unverified;

/// The events of one call.
#[derive(Debug)]
pub struct Events {
    /// The events, in order. After one that cannot be stored, the rest comes with the redelivery of the call.
    pub incoming: Vec<Incoming>,
    /// False if the times of the drafts are those of the event and not of the message: then the first time is kept. All calls
    /// about a message have the same value, since only one with `false` takes the time stored first. It is no time of arrival:
    /// if the event has none, it is that of a signed header, which [`Webhook::verify`] adds to the event.
    pub has_own_time: bool,
    /// The response once all of them are stored.
    pub response: Response,
    /// The response if their sender may not use the bot.
    pub not_allowed: Response,
}

impl Events {
    /// Returns `incoming`, with `response` in any case.
    pub fn new(incoming: Vec<Incoming>, response: Response) -> Self {
        Self { incoming, has_own_time: true, not_allowed: response.clone(), response }
    }
}

/// An event of a platform.
#[derive(Clone, Debug, PartialEq)]
pub enum Incoming {
    /// A message to store, and to answer if it [asks](Draft::asks). An edit is also a message, with the id and the time
    /// of the message that it changes.
    Message(Box<Draft>),
    /// A message of which the event has only a part: [complete](Webhook::complete) it if its sender may use the bot, then
    /// treat it like [`Incoming::Message`].
    Partial(Box<Draft>),
    /// A command to carry out.
    Command {
        /// The command.
        command: Command,
        /// The message as it was typed, from which the boundary or notice is made.
        draft: Box<Draft>,
    },
    /// A group has a new id. The event may arrive once from each of the two, in any order.
    Migration {
        /// The group under its old id.
        old: ChatKey,
        /// The group under its new id, which continues the history.
        new: ChatKey,
        /// Time of the change.
        at: Timestamp,
        /// The service message, to be stored in the chat that it was sent in.
        event: Box<Draft>,
    },
    /// A message was withdrawn: store a [new form](withdrawn) of its record.
    Withdrawal {
        /// The message.
        message_id: MessageId,
        /// The places where its record may be.
        places: Places,
        /// Time of the withdrawal, if the platform tells it.
        at: Option<Timestamp>,
        /// The text of the new form.
        words: &'static str,
    },
    /// The bot was added to or removed from a chat. In a private chat, the person unblocked it, opened its window, or blocked
    /// it.
    Membership {
        /// The chat, without its threads.
        chat: ChatKey,
        /// Reason to store if the bot cannot write there any more; `None` if it may from now on.
        left: Option<&'static str>,
        /// Time of the change.
        at: Timestamp,
    },
    /// A person pressed a button of an approval request.
    Press(Box<Press>),
    /// Nothing to store.
    Ignored {
        /// Type of the event.
        kind: String,
        /// Reason for the log, without any text of the event.
        reason: String,
    },
}

/// Reason for which an event is [ignored](Incoming::Ignored).
#[derive(Debug)]
pub struct ParseError(pub &'static str);

impl From<&'static str> for ParseError {
    fn from(reason: &'static str) -> Self {
        Self(reason)
    }
}

/// `AGENT_ID` is checked at start, so the cause is an id of the event, and each delivery would have it again.
impl From<KeyError> for ParseError {
    fn from(_: KeyError) -> Self {
        Self("an id of the event cannot be part of a chat key")
    }
}

impl Incoming {
    /// Returns a message.
    pub fn message(draft: Draft) -> Self {
        Self::Message(Box::new(draft))
    }

    /// Returns a command that was typed as `draft`, which asks only if it is `/new` with a first message.
    pub fn command(command: Command, draft: Draft) -> Self {
        let asks = matches!(command, Command::New { first_message: Some(_) });
        Self::Command { command, draft: Box::new(draft.asking(asks)) }
    }

    /// Returns an ignored event.
    pub fn ignored(kind: &str, reason: &str) -> Self {
        Self::Ignored { kind: kind.into(), reason: reason.into() }
    }

    /// Returns the result of parsing an event of `kind`.
    pub fn parsed(kind: &str, parsed: Result<Self, ParseError>) -> Self {
        parsed.unwrap_or_else(|ParseError(reason)| Self::ignored(kind, reason))
    }
}

/// A pressed button of an approval request.
#[derive(Clone, Debug, PartialEq)]
pub struct Press {
    /// The button.
    pub button: Button,
    /// The person and the chat, in the form of a message.
    pub by: Draft,
    /// Data that only the platform needs to show the result; `null` if it needs none.
    pub details: Value,
}

/// The places where the record of a withdrawn message may be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Places {
    /// Its base and the chats that may contain it, the most likely first, if the platform tells its time.
    pub exact: Option<(SortKey, Vec<ChatKey>)>,
    /// The chat among whose newest messages it is looked for otherwise.
    pub window: Option<ChatKey>,
}

/// Returns the form to append when the message of `record` was withdrawn at the time `at`, with these `words`; `record` is any
/// form of it. The new form contains only that fact, so that the text leaves the Context, while the earlier records stay for
/// the audit. It does not ask. It is not older than the other forms, and newer than all if `at` is not known.
///
/// Returns `None` for records that are not a person's message: notices, summaries, replies, and boundaries, whose text is
/// stored as a message of its own after them.
pub fn withdrawn(record: &Record, at: Option<Timestamp>, words: &str) -> Option<Draft> {
    let is_message = matches!(record.kind(), Kind::Normal | Kind::Event | Kind::Revision);
    if !is_message || record.role() != Role::User {
        return None;
    }
    let form = record.form_ts();
    let form_ts = match at {
        Some(at) => form.map_or(at, |form| form.max(at)),
        None => form.unwrap_or(record.ts).next(),
    };
    let mut draft = Draft::from(record)
        .of_kind(if record.kind() == Kind::Event { Kind::Event } else { Kind::Normal })
        .with_form_ts(Some(form_ts))
        .with_parts(vec![Part::text(words)])
        .asking(false);
    draft.metadata.set_recalled();
    Some(draft)
}

/// Text for a person who answered an approval request, and the effect of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalResult {
    /// Text for the person who answered.
    pub text: String,
    /// Effect of the answer.
    pub effect: Effect,
}

/// Effect of an answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The request needs no further answer, so its buttons can go.
    Settled,
    /// The approval is recorded, but others must approve too.
    Recorded,
    /// The sender may not answer. Nothing is recorded.
    Refused,
}

/// An event could not be read, or not now: the platform must deliver it again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The platform did not answer a question that the event leaves open.
    #[error("the platform did not answer a question about the event: {0}")]
    Platform(String),
    /// The platform did not answer in time.
    #[error("the platform took too long to answer a question about the event")]
    Late,
    /// The body is not an event. Delivering it again would not help: 400.
    #[error("the body is not an event")]
    NotAnEvent,
}
