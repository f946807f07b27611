//! What a request of `useChat` asks, done: appended and queued.

use annals_shared::approval::{RESPONDED, Verdict};
use annals_shared::chat_key::ChatKey;
use annals_shared::command::Command;
use annals_shared::history::turn::Head;
use annals_shared::history::{Appended, HistoryError, Outcome, Seen};
use annals_shared::ingress::Effect;
use annals_shared::message::{Part, PartView, Role, UiMessage};
use annals_shared::problem::Problem;
use annals_shared::record::{Channel, Draft, Kind, Record};
use annals_shared::sort_key::{MessageId, SortKey, Timestamp};
use serde_json::{Map, Value};

use super::body::Body;
use super::chunks::Teller;
use super::follow::Awaited;
use super::past::{Past, names};
use crate::auth::Caller;
use crate::post::bad_message_id;
use crate::{Failure, Http};

/// What becomes of a request.
pub(crate) struct Asked {
    /// What its client waits for.
    pub(crate) awaited: Awaited,
    /// Of what.
    pub(crate) teller: Teller,
    /// Whether the history may hold it already.
    pub(crate) may_be_there: bool,
    /// How the client's past is beside the history.
    pub(crate) past: Past,
}

/// A message that was said before.
struct Known {
    /// Where its first form stands.
    base: SortKey,
    /// What is stored from there on.
    records: Vec<Record>,
}

impl Known {
    /// Its newest form.
    fn newest(&self, id: &MessageId) -> Option<&Record> {
        let is_form = |record: &&Record| {
            record.message_id == *id
                && record.role() == Role::User
                && matches!(record.kind, Kind::Normal | Kind::Revision)
        };
        self.records.iter().filter(is_form).max_by_key(|record| record.revision)
    }

    /// Whether it is a command that was answered, or will be by the chat's next turn.
    fn is_answered_command(&self) -> bool {
        let notice = self.base.notice();
        let is_told = |record: &Record| record.key == notice || record.covers.contains(&self.base);
        self.records.first().is_some_and(|first| {
            let is_command = matches!(first.kind, Kind::Boundary | Kind::Notice);
            first.key == self.base && is_command && (first.asks || self.records.iter().any(is_told))
        })
    }

    /// The number of its next form, which is that of the reply to it, too.
    fn next_revision(&self, id: &MessageId) -> u32 {
        let own = [id.clone(), id.derived("reply"), id.derived("notice")];
        let forms = self.records.iter().filter(|record| own.contains(&record.message_id));
        forms.map(|record| record.revision).max().unwrap_or(0) + 1
    }
}

impl Http {
    /// Does what `body` asks.
    pub(super) async fn ask(
        &self,
        caller: &Caller,
        chat: &ChatKey,
        user: &str,
        body: Body,
    ) -> Result<Asked, Failure> {
        let (head, seen) = self.seen(chat).await?;
        let past = Past::of(&body.past, &seen.records, head.context_from.is_none());
        if past == Past::Differs {
            tracing::info!("a client's past is not the history's");
        }
        let at = self.behind(&seen);
        let Asking { appended, id, may_be_there } = if body.regenerates {
            self.try_again(caller, chat, &body, &seen, at).await?
        } else if body.last.role == Role::User {
            self.submit(caller, chat, user, &body.last, &seen, at).await?
        } else {
            let by = Draft { ts: at, ..self.draft(caller, chat, user, self.new_message_id()?, Vec::new()) };
            let awaited = Awaited::Reply(self.answer_requests(&by, &body.last, &seen.records).await?);
            let teller = Teller::new(body.last.id, &body.last.parts);
            return Ok(Asked { awaited, teller, may_be_there: true, past });
        };
        tracing::info!(outcome = ?appended.outcome, "message");
        let awaited = Awaited::Answer(appended.base, id);
        Ok(Asked { awaited, teller: Teller::new("", &[]), may_be_there, past })
    }

    /// What is being answered in `chat`, or waits for it.
    pub(super) async fn awaited(&self, chat: &ChatKey) -> Result<Option<Awaited>, Failure> {
        let (head, seen) = self.seen(chat).await?;
        let waiting = seen.context.unanswered.into_iter().chain(seen.context.to_compact).max();
        let turn = head.turn;
        let goes_on = turn.as_ref().and_then(|turn| Some(turn.resumes.as_ref()?.reply.clone()));
        if let (None, Some(reply)) = (&waiting, goes_on.or(seen.context.to_resume.into_iter().next_back())) {
            return Ok(Some(Awaited::Reply(reply)));
        }
        let open = turn.and_then(|turn| turn.covers.last().cloned());
        let Some(base) = waiting.or(open) else { return Ok(None) };
        let said =
            seen.records.iter().find(|record| record.key.base() == base && record.role() == Role::User);
        Ok(said.map(|said| Awaited::Answer(base, said.message_id.clone())))
    }

    /// A time behind all that was `seen`, whatever the clock says: what is replaced, or stopped, stands before what does it.
    pub(super) fn behind(&self, seen: &Seen) -> Timestamp {
        let newest = seen.records.last().map(|record| record.key.ts().plus(MILLISECOND));
        newest.into_iter().fold(self.clock.now(), Timestamp::max)
    }

    pub(super) async fn seen(&self, chat: &ChatKey) -> Result<(Head, Seen), HistoryError> {
        let history = self.web.ingress.history();
        let head = history.head(chat).await?;
        let seen = history.context(chat, &head, None, &self.view.policy(0)).await?;
        Ok((head, seen))
    }

    /// A message: new, a repeat, or an edit.
    async fn submit(
        &self,
        caller: &Caller,
        chat: &ChatKey,
        user: &str,
        said: &UiMessage,
        seen: &Seen,
        at: Timestamp,
    ) -> Result<Asking, Failure> {
        let id = if said.id.is_empty() { self.new_message_id()? } else { message_id(&said.id)? };
        let history = self.web.ingress.history();
        let ts = history.first_time(chat, &id, at).await?;
        let draft = Draft { ts, ..self.draft(caller, chat, user, id.clone(), said.parts.clone()) };
        if ts != at {
            let base = draft.key().base();
            let known = self.known_from(chat, base).await?;
            if let Some(newest) = known.newest(&id) {
                check_author(newest, user)?;
                let is_same = newest.message.parts == said.parts;
                if is_same && is_last(&seen.context.messages, &id) {
                    return self.repeat(draft, newest).await;
                }
                return self.say_again(Draft { ts: at, ..draft }, &known).await;
            }
        }
        let ingress = &self.web.ingress;
        let Some(command) = command(&said.parts) else {
            return Ok(Asking::of(ingress.receive(&draft).await?, draft));
        };
        let commanded = ingress.command(&command, &draft).await?;
        if let Some(confirmation) = commanded.confirmation {
            ingress.confirmed(&draft, confirmation).await?;
        }
        Ok(Asking { may_be_there: true, ..Asking::of(commanded.appended, draft) })
    }

    /// Another try at the reply that `body` names, or at the last: to the message as the history has it.
    async fn try_again(
        &self,
        caller: &Caller,
        chat: &ChatKey,
        body: &Body,
        seen: &Seen,
        at: Timestamp,
    ) -> Result<Asking, Failure> {
        let named = body.message_id.as_deref().unwrap_or(&body.last.id);
        // One too long for a message's may be that of its reply.
        let ids: Vec<MessageId> = named_by(named).filter_map(|id| MessageId::new(id).ok()).collect();
        if ids.is_empty() {
            message_id(named)?;
        }
        for id in ids {
            let Some(known) = self.known(chat, &id, seen).await? else { continue };
            if let Some(newest) = known.newest(&id) {
                let parts = newest.message.parts.clone();
                // Whoever tries again, it stays its author's message.
                let draft = Draft {
                    ts: at,
                    person: newest.person.clone(),
                    ..self.draft(caller, chat, &newest.user_id, id, parts)
                };
                return self.say_again(draft, &known).await;
            }
            if known.is_answered_command() {
                // Carried out once, it is told once more.
                let appended = Appended { base: known.base, outcome: Outcome::Duplicate };
                return Ok(Asking { appended, id, may_be_there: true });
            }
        }
        Err(unknown().into())
    }

    /// What was said under `id`, or by a command of it, as far as is known of it.
    async fn known(&self, chat: &ChatKey, id: &MessageId, seen: &Seen) -> Result<Option<Known>, Failure> {
        let history = self.web.ingress.history();
        // What came by another route under an id that was made for it has no marker of its time.
        let marked = history.time_of(chat, id).await?.map(|ts| SortKey::message(ts, id));
        let is_it = |record: &&Record| record.message_id == *id && record.role() == Role::User;
        let first = |record: &Record| record.replaces_from().unwrap_or_else(|| record.key.base());
        let Some(base) = marked.or_else(|| seen.records.iter().find(is_it).map(first)) else {
            return Ok(None);
        };
        Ok(Some(self.known_from(chat, base).await?))
    }

    /// The message at `base`, in the table or in the archive, and what follows it in the table.
    async fn known_from(&self, chat: &ChatKey, base: SortKey) -> Result<Known, Failure> {
        let history = self.web.ingress.history();
        let mut records = history.message_anywhere(chat, &base).await?;
        records.extend(history.range(chat, Some(&base)).await?);
        records.sort_by(|a, b| a.key.cmp(&b.key));
        records.dedup_by(|later, first| later.key == first.key);
        Ok(Known { base, records })
    }

    /// Answers what the reply `last` asks, as a client has answered it; its key.
    async fn answer_requests(
        &self,
        by: &Draft,
        last: &UiMessage,
        records: &[Record],
    ) -> Result<SortKey, Failure> {
        let is_it = |record: &&Record| record.key.is_reply() && names(record, &last.id);
        let reply = records.iter().rfind(is_it).ok_or_else(unknown)?.key.clone();
        // All of them, whatever came of one.
        let mut problem = None;
        for verdict in last.parts.iter().filter_map(verdict) {
            let told = self.web.ingress.answer_request(&reply, verdict, by).await?;
            problem = match told.effect {
                Effect::Settled => problem,
                Effect::Recorded => problem.or_else(|| Some(Problem::more_approvals_needed(told.text))),
                Effect::Refused => Some(Problem::forbidden(told.text)),
            };
        }
        problem.map_or(Ok(reply), |problem| Err(problem.into()))
    }

    async fn say_again(&self, draft: Draft, known: &Known) -> Result<Asking, Failure> {
        let revision = known.next_revision(&draft.message_id);
        Ok(Asking::of(self.web.ingress.receive_again(&draft, &known.base, revision).await?, draft))
    }

    /// A message that is there as it is: its turn is queued once more, since the first request may have ended before that.
    async fn repeat(&self, draft: Draft, newest: &Record) -> Result<Asking, Failure> {
        let ingress = &self.web.ingress;
        let appended = match newest.replaces_from() {
            Some(from) => {
                let draft = Draft { ts: newest.ts, ..draft.clone() };
                ingress.receive_again(&draft, &from, newest.revision).await?
            }
            None => ingress.receive(&draft).await?,
        };
        Ok(Asking::of(appended, draft))
    }

    /// What `user` says in `chat`, now.
    pub(super) fn draft(
        &self,
        caller: &Caller,
        chat: &ChatKey,
        user: &str,
        message_id: MessageId,
        parts: Vec<Part>,
    ) -> Draft {
        Draft {
            chat_id: chat.chat_id().to_owned(),
            chat: chat.clone(),
            channel: Channel::Web,
            user_id: user.to_owned(),
            message_id,
            ts: self.clock.now(),
            form_ts: None,
            role: Role::User,
            kind: Kind::Normal,
            parts,
            metadata: Map::new(),
            album: None,
            asks: true,
            opens_session: false,
            person: Some(caller.crossing_user_id(user)),
        }
    }

    pub(super) fn new_message_id(&self) -> Result<MessageId, Problem> {
        MessageId::new((self.new_id)()).map_err(|error| bad_message_id(error.to_string()))
    }
}

/// The step by which a message stands behind another that has its time.
const MILLISECOND: std::time::Duration = std::time::Duration::from_millis(1);

/// What was appended, under which id.
struct Asking {
    appended: Appended,
    id: MessageId,
    may_be_there: bool,
}

impl Asking {
    fn of(appended: Appended, draft: Draft) -> Self {
        Self { may_be_there: appended.outcome == Outcome::Duplicate, appended, id: draft.message_id }
    }
}

/// Whether nothing was said behind the message `id` in what the model sees.
fn is_last(messages: &[UiMessage], id: &MessageId) -> bool {
    messages.iter().rfind(|message| message.role == Role::User).is_some_and(|last| last.id == id.as_str())
}

/// Refuses to say another user's message again.
fn check_author(newest: &Record, user: &str) -> Result<(), Problem> {
    if newest.user_id == user { Ok(()) } else { Err(Problem::not_the_author()) }
}

fn unknown() -> Problem {
    let detail = "the history has no message of this id: load the conversation";
    Problem::no_such("unknown-message", "No such message", detail)
}

/// What a client has answered to a request, by the part of its call.
fn verdict(part: &Part) -> Option<Verdict> {
    let PartView::Tool { state: RESPONDED, .. } = part.view() else { return None };
    let said = part.as_map().get("approval")?;
    Some(Verdict {
        id: said.get("id")?.as_str()?.to_owned(),
        approved: said.get("approved")?.as_bool()?,
        reason: said.get("reason").and_then(Value::as_str).map(str::to_owned),
    })
}

fn message_id(id: &str) -> Result<MessageId, Problem> {
    MessageId::new(id).map_err(|error| bad_message_id(error.to_string()))
}

/// The ids of messages that `id` may mean, in this order: its own as it is, since a caller may give any; that of which it
/// is a form; and that which the reply or notice `id` answers, as streamed or as listed.
fn named_by(id: &str) -> impl Iterator<Item = &str> {
    let form = id.rsplit_once('@').filter(|(_, number)| number.bytes().all(|b| b.is_ascii_digit()));
    let own = form.map_or(id, |(own, _)| own);
    let answered = own.strip_suffix("/reply").or_else(|| own.strip_suffix("/notice"));
    [Some(id), form.map(|(own, _)| own), answered].into_iter().flatten()
}

/// The command that a message is, if it is one text that starts with one.
fn command(parts: &[Part]) -> Option<Command> {
    let [part] = parts else { return None };
    Command::parse(UiMessage::new("", Role::User, vec![part.clone()]).plain_text().as_str(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_means_itself_first_and_what_it_may_hang_on_behind_that() {
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
