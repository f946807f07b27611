//! Submits a request of `useChat`: appends and queues.

use std::collections::HashSet;
use std::time::Duration;

use annals_channel::webhook::Effect;
use annals_core::approval::{self, RESPONDED, Verdict};
use annals_core::chat_key::ChatKey;
use annals_core::draft::Draft;
use annals_core::message::{Part, PartView, Role, UiMessage};
use annals_core::record::{Kind, Record, message_at};
use annals_core::sort_key::{MessageId, SortKey, Timestamp};
use annals_engine::ingress::Ingress;
use annals_runtime::problem::Problem;
use annals_store::history::turn::Head;
use annals_store::history::{Appended, ContextRead, HistoryError, Outcome};
use serde_json::Value;

use super::Room;
use super::body::{Submission, bad_chat};
use super::chunks::ChunkEncoder;
use super::past::{holds, names};
use crate::auth::Caller;
use crate::failure::Failure;
use crate::follow::Awaited;
use crate::messages::append;
use crate::request::{bad_message_id, command, draft};
use crate::state::Http;

/// Maximum time between two requests that count as one edit, by the clocks of two processes.
const AT_ONCE: Duration = Duration::from_mins(1);

/// Maximum number of records after an earlier message among which its forms are looked for.
const MOST_BEHIND: usize = 10_000;

/// An accepted request.
pub(crate) struct Accepted {
    /// The reply that its client waits for.
    pub(crate) awaited: Awaited,
    /// Encodes that reply.
    pub(crate) encoder: ChunkEncoder,
    /// True if the history may hold the reply already.
    pub(crate) may_be_stored: bool,
    /// True if the history holds the client's copy of the conversation.
    pub(crate) is_past_known: bool,
}

/// A message that was appended, or a repeated one.
struct Submitted {
    appended: Appended,
    id: MessageId,
    may_be_stored: bool,
}

impl Submitted {
    fn of(appended: Appended, draft: Draft) -> Self {
        Self { may_be_stored: appended.outcome == Outcome::Duplicate, appended, id: draft.message_id }
    }
}

/// A message that was stored before.
struct StoredMessage {
    /// Key of its first form.
    base: SortKey,
    /// Its forms, their replies, and what else has its base or covers it, in order.
    records: Vec<Record>,
}

impl StoredMessage {
    /// Returns its newest form.
    fn newest(&self, id: &MessageId) -> Option<&Record> {
        let is_form = |record: &&Record| {
            record.message_id == *id
                && record.role() == Role::User
                && matches!(record.kind(), Kind::Normal | Kind::Revision)
        };
        self.records.iter().filter(is_form).max_by_key(|record| record.revision())
    }

    /// Returns true if it was stored as a command.
    fn is_command(&self) -> bool {
        self.records.first().is_some_and(|first| {
            first.key == self.base && matches!(first.kind(), Kind::Boundary | Kind::Notice)
        })
    }

    /// Returns true if it is a command that was answered, or that the chat's next turn will answer.
    fn is_answered_command(&self) -> bool {
        let notice = self.base.notice();
        let is_answer = |record: &Record| record.key == notice || record.covers().contains(&self.base);
        self.is_command() && (self.records[0].asks() || self.records.iter().any(is_answer))
    }

    /// Returns the number of its next form, which the reply to that form has too.
    fn next_revision(&self, id: &MessageId) -> u32 {
        let own = own_ids(id);
        let forms = self.records.iter().filter(|record| own.contains(&record.message_id));
        forms.map(Record::revision).max().unwrap_or(0) + 1
    }
}

/// Returns the ids of the forms of a message, and of the replies to them.
fn own_ids(id: &MessageId) -> [MessageId; 3] {
    [id.clone(), id.derived("reply"), id.derived("notice")]
}

/// A request on its way into a history.
struct Request<'a> {
    http: &'a Http,
    caller: &'a Caller,
    room: &'a Room,
    chat: &'a ChatKey,
    read: &'a ContextRead,
    /// Time of the appended record.
    now: Timestamp,
}

impl Http {
    /// Submits `request`, of `user_id` of `caller`, in `room`.
    pub(super) async fn submit(
        &self,
        caller: &Caller,
        room: &Room,
        user_id: &str,
        request: Submission,
    ) -> Result<Accepted, Failure> {
        let chat = &room.chat;
        let (head, read) = self.read_context(chat).await?;
        let is_past_known = holds(&read.records, &request.past, head.context_from.is_none());
        if !is_past_known {
            tracing::info!("the client's copy of the conversation differs from the history");
        }
        let Submission { last, regenerates, message_id, .. } = request;
        let request = Request { http: self, caller, room, chat, read: &read, now: self.now_after(&read) };
        let Submitted { appended, id, may_be_stored } = if regenerates {
            request.regenerate(message_id.as_deref().unwrap_or(&last.id)).await?
        } else if last.role == Role::User {
            request.append(user_id, &last, message_id.is_some()).await?
        } else {
            let awaited = Awaited::Reply(request.answer_approvals(user_id, &last).await?);
            let encoder = ChunkEncoder::new(last.id, &last.parts);
            return Ok(Accepted { awaited, encoder, may_be_stored: true, is_past_known });
        };
        tracing::info!(outcome = ?appended.outcome, "message");
        let awaited = Awaited::Answer(appended.base, Some(id));
        Ok(Accepted { awaited, encoder: ChunkEncoder::new("", &[]), may_be_stored, is_past_known })
    }

    /// Returns the reply in `chat` that is being made, or that an unanswered message waits for.
    pub(super) async fn awaited(&self, chat: &ChatKey) -> Result<Option<Awaited>, Failure> {
        let (head, read) = self.read_context(chat).await?;
        let unanswered = read.context.unanswered.into_iter().chain(read.context.to_compact).max();
        let turn = head.turn;
        let resumed = turn.as_ref().and_then(|turn| Some(turn.resumes.as_ref()?.reply.clone()));
        if let (None, Some(reply)) = (&unanswered, resumed.or(read.context.to_resume.into_iter().next_back()))
        {
            return Ok(Some(Awaited::Reply(reply)));
        }
        let answering = turn.and_then(|turn| turn.covers.last().cloned());
        let Some(base) = unanswered.or(answering) else { return Ok(None) };
        let message = message_at(&read.records, &base);
        Ok(message.map(|message| Awaited::Answer(base, Some(message.message_id.clone()))))
    }

    /// Returns the current time, or one after all records of `read`: a message that replaces or stops others follows
    /// them, whatever the clock says.
    pub(super) fn now_after(&self, read: &ContextRead) -> Timestamp {
        let newest = read.records.last().map(|record| record.key.ts().next());
        newest.into_iter().fold(self.clock.now(), Timestamp::max)
    }

    pub(super) async fn read_context(&self, chat: &ChatKey) -> Result<(Head, ContextRead), HistoryError> {
        let history = self.web.ingress.history();
        let head = history.head(chat).await?;
        let read = history.context(chat, &head, None, &self.view.policy(0)).await?;
        Ok((head, read))
    }
}

impl Request<'_> {
    /// Appends a message: new, repeated or edited. `is_edit` is true if the client asks for a reply to the message as it is now,
    /// which may be what it was: the AI SDK then names it in `messageId`.
    async fn append(&self, user_id: &str, message: &UiMessage, is_edit: bool) -> Result<Submitted, Failure> {
        let id = match message.id.as_str() {
            "" => self.http.new_message_id()?,
            id if is_edit => self.edited(id).await?,
            id => message_id(id)?,
        };
        let ingress = self.ingress();
        let ts = ingress.history().first_time(self.chat, &id, self.now).await?;
        let mut draft = Draft { ts, ..self.draft(user_id, id.clone(), message.parts.clone()) };
        add_metadata(&mut draft, message);
        let is_command = command(&draft.parts).is_some();
        if ts != self.now {
            let stored = self.stored_from(draft.key().base(), &id).await?;
            let is_repeated_command = is_command
                && stored.is_command()
                && (!is_edit || stored.records[0].message.parts == message.parts);
            let newest = stored.newest(&id).filter(|_| !is_repeated_command);
            if let Some(newest) = newest {
                if newest.user_id != user_id {
                    return Err(Problem::not_the_author().into());
                }
                let is_same = newest.message.parts == message.parts;
                // Another request of this edit, since the context was read.
                let came_since = match self.read.records.last() {
                    Some(last) => last.key < newest.key,
                    None => newest.sent_at.plus(AT_ONCE) > self.now,
                };
                if is_same && (!is_edit || came_since || is_last(&self.read.context.messages, &id)) {
                    let appended = ingress.receive_stored(&draft, newest.key.base()).await?;
                    return Ok(Submitted::of(appended, draft));
                }
                return self.append_again(Draft { ts: self.now, ..draft }, &stored).await;
            }
        }
        let submitted = Submitted::of(append(ingress, &draft, false).await?, draft);
        Ok(Submitted { may_be_stored: is_command || submitted.may_be_stored, ..submitted })
    }

    /// Returns the id of the message that the edit of `id` changes: a client that has loaded the history has a form's own id.
    async fn edited(&self, id: &str) -> Result<MessageId, Failure> {
        let named: Vec<MessageId> = named_by(id).filter_map(|id| MessageId::new(id).ok()).collect();
        for named in named {
            if self.ingress().history().time_of(self.chat, &named).await?.is_some() {
                return Ok(named);
            }
        }
        Ok(message_id(id)?)
    }

    /// Appends a stored message again, to get another reply. `named` is its id, or the id of its reply.
    async fn regenerate(&self, named: &str) -> Result<Submitted, Failure> {
        // An id that is too long for a message may be that of its reply.
        let ids: Vec<MessageId> = named_by(named).filter_map(|id| MessageId::new(id).ok()).collect();
        if ids.is_empty() {
            message_id(named)?;
        }
        for id in ids {
            let Some(stored) = self.stored(&id).await? else { continue };
            if let Some(newest) = stored.newest(&id) {
                // It remains its author's message, even if another user asks for another reply.
                let mut draft = self.draft(&newest.user_id, id, newest.message.parts.clone());
                add_metadata(&mut draft, &newest.message);
                return self.append_again(Draft { person: newest.person.clone(), ..draft }, &stored).await;
            }
            if stored.is_answered_command() {
                // A command is not repeated; its confirmation is sent again.
                let appended = Appended { base: stored.base, outcome: Outcome::Duplicate };
                return Ok(Submitted { appended, id, may_be_stored: true });
            }
        }
        Err(unknown_message().into())
    }

    /// Records the client's answers to the requests of the reply `last`. Returns the key of that reply.
    async fn answer_approvals(&self, user_id: &str, last: &UiMessage) -> Result<SortKey, Failure> {
        let by = self.draft(user_id, self.http.new_message_id()?, Vec::new());
        let is_form = |key: &SortKey| key.is_reply() || (key.is_later_form() && key.belongs_to_reply());
        let is_it = |record: &&Record| is_form(&record.key) && names(record, &last.id);
        let form = self.read.records.iter().rfind(is_it).ok_or_else(unknown_message)?;
        let reply = form.key.base().reply();
        let verdicts: Vec<Verdict> = last.parts.iter().filter_map(verdict).collect();
        let calls = |parts: &[Part]| parts.iter().filter_map(call_id).collect::<HashSet<String>>();
        let last_step = last.parts.rsplit(|part| matches!(part.view(), PartView::StepStart)).next();
        let ending = calls(last_step.unwrap_or_default());
        let adds_nothing = approval::settled(&self.read.records, &reply, self.http.clock.now())
            .map(|whole| &whole.message.parts)
            .is_some_and(|parts| parts.len() <= last.parts.len() && ending.is_subset(&calls(parts)));
        if verdicts.is_empty() && !ending.is_empty() && adds_nothing {
            // The SDK may submit a reply that ends in calls. It would do so again after a stream that adds nothing.
            return Err(bad_chat("the last message is a reply that waits for no answer").into());
        }
        // A refused answer does not keep the others from being recorded.
        let mut problem = None;
        for verdict in verdicts {
            let result =
                self.ingress().answer_request(&reply, verdict, &by).await?.ok_or_else(unknown_message)?;
            problem = match result.effect {
                Effect::Settled => problem,
                Effect::Recorded => problem.or_else(|| Some(Problem::more_approvals_needed(result.text))),
                Effect::Refused => Some(Problem::forbidden(result.text)),
            };
        }
        problem.map_or(Ok(reply), |problem| Err(problem.into()))
    }

    /// Returns the message of this id, or the command, if it was stored before.
    async fn stored(&self, id: &MessageId) -> Result<Option<StoredMessage>, Failure> {
        let history = self.ingress().history();
        // A message of another route has no marker of its time if its caller gave no id.
        let marked = history.time_of(self.chat, id).await?.map(|ts| SortKey::message(ts, id));
        let is_it = |record: &&Record| record.message_id == *id && record.role() == Role::User;
        let first = |record: &Record| record.replaces_from().unwrap_or_else(|| record.key.base());
        let Some(base) = marked.or_else(|| self.read.records.iter().find(is_it).map(first)) else {
            return Ok(None);
        };
        Ok(Some(self.stored_from(base, id).await?))
    }

    /// Returns the message of this id at `base`, of the table or the archive.
    async fn stored_from(&self, base: SortKey, id: &MessageId) -> Result<StoredMessage, Failure> {
        let own = own_ids(id);
        let is_of_it = |record: &Record| {
            record.key.base() == base || own.contains(&record.message_id) || record.covers().contains(&base)
        };
        let history = self.ingress().history();
        let Some(records) = history.records_from(self.chat, &base, MOST_BEHIND, is_of_it).await? else {
            let detail = format!("{MOST_BEHIND} messages follow it: say it in a new message");
            return Err(Problem::no_such("unknown-message", "The message is too old", detail).into());
        };
        Ok(StoredMessage { base, records })
    }

    /// Appends the next form of a message.
    async fn append_again(&self, draft: Draft, stored: &StoredMessage) -> Result<Submitted, Failure> {
        let revision = stored.next_revision(&draft.message_id);
        let first = stored.records.iter().find(|record| record.key == stored.base);
        let first = first.ok_or_else(unknown_message)?;
        let appended = self.ingress().receive_again(&draft, first, revision).await?;
        Ok(Submitted::of(appended, draft))
    }

    fn ingress(&self) -> &Ingress {
        self.http.ingress_of(self.room)
    }

    fn draft(&self, user_id: &str, message_id: MessageId, parts: Vec<Part>) -> Draft {
        let channel = self.http.web.channel;
        self.room.placed(draft(self.caller, self.chat, channel, user_id, message_id, self.now, parts))
    }
}

/// Adds the metadata that `message` has of its client, and its time zone.
fn add_metadata(draft: &mut Draft, message: &UiMessage) {
    draft.metadata.extend(message.metadata.of_client());
    if let Some(time_zone) = message.metadata.time_zone() {
        draft.metadata.set_time_zone(time_zone);
    }
}

/// Returns true if `id` is the last message of a person in the context.
fn is_last(messages: &[UiMessage], id: &MessageId) -> bool {
    messages.iter().rfind(|message| message.role == Role::User).is_some_and(|last| last.id == id.as_str())
}

fn unknown_message() -> Problem {
    let detail = "the history has no message of this id: load the conversation";
    Problem::no_such("unknown-message", "No such message", detail)
}

/// Returns the id of a call.
fn call_id(part: &Part) -> Option<String> {
    match part.view() {
        PartView::Tool { call_id, .. } => Some(call_id.to_owned()),
        _ => None,
    }
}

/// Returns the client's answer to a request for approval, if the part of the call contains one.
fn verdict(part: &Part) -> Option<Verdict> {
    let PartView::Tool { state: RESPONDED, .. } = part.view() else { return None };
    let approval = part.as_map().get("approval")?;
    Some(Verdict {
        id: approval.get("id")?.as_str()?.to_owned(),
        approved: approval.get("approved")?.as_bool()?,
        reason: approval.get("reason").and_then(Value::as_str).map(str::to_owned),
    })
}

fn message_id(id: &str) -> Result<MessageId, Problem> {
    MessageId::new(id).map_err(|error| bad_message_id(error.to_string()))
}

/// Returns the ids of messages that `id` may mean, in this order: the id itself, since a caller may choose any; the id
/// of the message that `id` is a form of; and the id that the reply or notice `id` answers, as streamed or as listed.
pub(crate) fn named_by(id: &str) -> impl Iterator<Item = &str> {
    let form = id.rsplit_once('@').filter(|(_, number)| number.bytes().all(|b| b.is_ascii_digit()));
    let own = form.map_or(id, |(own, _)| own);
    let answered = own.strip_suffix("/reply").or_else(|| own.strip_suffix("/notice"));
    [Some(id), form.map(|(own, _)| own), answered].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_itself_first_and_then_the_message_that_it_is_derived_from() {
        let named = |id| named_by(id).collect::<Vec<_>>();
        assert_eq!(named("m1"), ["m1"]);
        assert_eq!(named("m1/reply"), ["m1/reply", "m1"]);
        assert_eq!(named("m1/notice"), ["m1/notice", "m1"]);
        assert_eq!(named("m1/reply@2"), ["m1/reply@2", "m1/reply", "m1"]);
        assert_eq!(named("msg@7"), ["msg@7", "msg"]);
        assert_eq!(named("msg@7/reply"), ["msg@7/reply", "msg@7"]);
        assert_eq!(named("ada@example.com"), ["ada@example.com"]);
    }
}
