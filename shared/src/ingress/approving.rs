//! What `/approve`, `/deny` and the buttons do and say: who may answer for a call, and that one answer counts.
//!
//! | the reply covers messages of | its calls are approved by |
//! | --- | --- |
//! | one person | that person, one of `ADMINS`, or in a group one of the platform's administrators |
//! | several people | one of `ADMINS`, an administrator of the group, or all of those people |
//!
//! A tool with `"approval": "admins"` is approved by one of `ADMINS` alone. Each of several people may deny. Anybody else is
//! told so, and nothing is recorded.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::try_join_all;

use super::{Ingress, IngressError};
use crate::approval::{self, Assent, Button, Request, Verdict};
use crate::command::Which;
use crate::delivery::Deliverer;
use crate::history::{MAX_PAGE, Outcome, Position};
use crate::message::{Part, Role};
use crate::queue::Turn;
use crate::record::{Channel, Draft, Kind, Record, STOPPED_BY};
use crate::sort_key::SortKey;

/// How many of the messages that a reply covers are read for their senders. Of the others nobody knows who asked, so then
/// only administrators approve.
const MAX_ASKED: usize = 100;

/// How many pages of a chat's newest records are read for replies that wait: so many that nobody hides one by writing.
const MAX_PAGES: usize = 5;

const NOTHING: &str = "Nothing waits for an approval here.";
const GONE: &str = "This request is no longer open.";
const NOT_YOURS: &str = "Only the person who asked, or an administrator, can answer this.";
const ADMINS_ONLY: &str = "Only an administrator of this bot can answer this.";

/// Who may answer for calls beside those who asked.
#[derive(Clone, Default)]
pub struct Approvers {
    /// `ADMINS`: persons, as they are known across channels.
    pub admins: Arc<[String]>,
    /// What asks a platform for the administrators of a group.
    pub platforms: Option<Deliverer>,
}

/// Result of an answer, and the text that tells its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// What to tell the person who answered.
    pub text: String,
    /// What the answer did.
    pub effect: Effect,
}

/// Result of an answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The request needs no further answer, so its buttons can go.
    Settled,
    /// It is recorded; others must approve, too.
    Recorded,
    /// The sender may not answer. Nothing is recorded.
    Refused,
}

impl Told {
    /// Returns what somebody is told who may not use the bot.
    pub fn refused() -> Self {
        Self { text: NOT_YOURS.to_owned(), effect: Effect::Refused }
    }

    fn settled(text: impl Into<String>) -> Self {
        Self { text: text.into(), effect: Effect::Settled }
    }
}

/// What somebody's answer to a request counts for.
enum Standing {
    /// It settles the request.
    Decides,
    /// The sender is one of these askers: a denial settles the request, an approval does when all have approved. `None` is
    /// an asker whose message is not known.
    IsOneOf(BTreeSet<Option<String>>),
    /// Nothing, for this reason.
    None(&'static str),
}

/// The people whose messages a reply covers.
struct Askers {
    persons: BTreeSet<Option<String>>,
    is_group: bool,
}

/// A reply with what it asks.
pub(super) struct Asking {
    reply: Record,
    requests: Vec<Request>,
    /// What people are asked, in Markdown, as long as something waits.
    question: Option<String>,
    /// Whether the agent has said something else on its line since.
    is_behind: bool,
    /// The answers so far.
    answers: Vec<(Verdict, Record)>,
}

impl Asking {
    /// The reply at `key` among `records`, if it asks for anything.
    fn of(records: &[Record], key: &SortKey) -> Option<Self> {
        let reply = records.iter().find(|record| record.key == *key && record.kind == Kind::Normal)?;
        let form = &approval::newest_form(records, key)?.message;
        let requests = approval::requests(form);
        let is_later = |record: &Record| {
            record.role() == Role::Assistant
                && matches!(record.kind, Kind::Normal | Kind::Revision)
                && record.key.base() != key.base()
                && (record.sent_at, &record.key) > (reply.sent_at, &reply.key)
                && record.line() == reply.line()
        };
        let (question, is_behind) = (approval::question(form), records.iter().any(is_later));
        let answers = records.iter().filter(|record| record.key.base() == key.base());
        let answers = answers.filter_map(|record| Some((Verdict::of(record)?, record.clone())));
        (!requests.is_empty()).then(|| Self {
            reply: reply.clone(),
            answers: answers.collect(),
            requests,
            question,
            is_behind,
        })
    }

    fn answer(&self, id: &str) -> Option<&(Verdict, Record)> {
        self.answers.iter().find(|(verdict, _)| verdict.id == id)
    }

    /// What nobody has answered.
    fn open(&self) -> impl Iterator<Item = &Request> {
        self.requests.iter().filter(|request| request.is_open && self.answer(&request.id).is_none())
    }
}

impl Ingress {
    /// The same ingress, where these may answer for calls too.
    #[must_use]
    pub fn with_approvers(mut self, approvers: Approvers) -> Self {
        self.approvers = approvers;
        self
    }

    /// A button was pressed: `by` says by whom and where. Safe to repeat; the first answer counts.
    pub async fn pressed(&self, button: &Button, by: &Draft) -> Result<Told, IngressError> {
        let asking = match &button.base {
            Some(base) => {
                Asking::of(&self.history.message(&by.chat, base).await?, &base.reply()).into_iter().collect()
            }
            None => self.asking(by).await?,
        };
        let found =
            asking.iter().find(|asking| asking.requests.iter().any(|request| request.id == button.id));
        let Some(asking) = found else { return Ok(Told::settled(GONE)) };
        let word = if button.approved { "/approve" } else { "/deny" };
        let by = Draft { parts: vec![Part::text(word)], role: Role::User, ..by.clone() };
        let verdict = Verdict { id: button.id.clone(), approved: button.approved, reason: None };
        self.settle(asking, verdict, &by).await
    }

    /// Somebody answers what the reply at `reply` asks, by the id of the request; `by` says who and where. Safe to repeat; the
    /// first answer counts.
    pub async fn answer_request(
        &self,
        reply: &SortKey,
        verdict: Verdict,
        by: &Draft,
    ) -> Result<Told, IngressError> {
        let records = self.history.message(&by.chat, reply).await?;
        let asking = Asking::of(&records, reply)
            .filter(|asking| asking.requests.iter().any(|request| request.id == verdict.id));
        let Some(asking) = asking else { return Ok(Told::settled(GONE)) };
        let word = if verdict.approved { "/approve" } else { "/deny" };
        let by = Draft { parts: vec![Part::text(word)], role: Role::User, ..by.clone() };
        self.settle(&asking, verdict, &by).await
    }

    /// What `/approve` and `/deny` do. A repeat of the command meets its own answers.
    pub(super) async fn approve(
        &self,
        by: &Draft,
        which: &Which,
        approved: bool,
        reason: Option<&str>,
    ) -> Result<String, IngressError> {
        let asking = self.asking(by).await?;
        let is_own =
            |record: &Record| record.message.metadata.get("command") == Some(&by.message_id.as_str().into());
        let own: Vec<(&Asking, &Verdict)> = asking
            .iter()
            .flat_map(|asking| asking.answers.iter().map(move |(verdict, record)| (asking, verdict, record)))
            .filter(|(_, _, record)| is_own(record))
            .map(|(asking, verdict, _)| (asking, verdict))
            .collect();
        let chosen: Vec<(&Asking, String)> = if own.is_empty() {
            match chosen(&asking, &self.meant(&asking, by).await?, which) {
                Ok(chosen) => chosen,
                Err(problem) => return Ok(problem),
            }
        } else {
            own.into_iter().map(|(asking, verdict)| (asking, verdict.id.clone())).collect()
        };
        let mut by = by.clone();
        by.metadata.insert("command".into(), by.message_id.as_str().into());
        let mut told: Vec<String> = Vec::new();
        for (asking, id) in chosen {
            let verdict = Verdict { id, approved, reason: reason.map(str::to_owned) };
            let text = self.settle(asking, verdict, &by).await?.text;
            if !told.contains(&text) {
                told.push(text);
            }
        }
        Ok(told.join("\n"))
    }

    /// Records an answer, unless there is one, and queues the turn in which the reply goes on.
    async fn settle(&self, asking: &Asking, verdict: Verdict, by: &Draft) -> Result<Told, IngressError> {
        let Some(request) = asking.requests.iter().find(|request| request.id == verdict.id) else {
            return Ok(Told::settled(GONE));
        };
        let tool = &request.tool;
        if !self.is_at_hand(asking).await? {
            return Ok(Told::settled(GONE));
        }
        let standing = self.standing(asking, request, by).await?;
        if let Standing::None(reason) = standing {
            return Ok(Told { text: reason.to_owned(), effect: Effect::Refused });
        }
        let is_open = request.is_open;
        if !is_open && asking.answer(&verdict.id).is_none() {
            return Ok(Told::settled(GONE));
        }
        if let Standing::IsOneOf(askers) = standing
            && verdict.approved
            && asking.answer(&verdict.id).is_none()
        {
            let missing = self.assent(asking, &verdict.id, by, &askers).await?;
            if missing > 0 {
                let others =
                    if missing == 1 { "1 more person".to_owned() } else { format!("{missing} more people") };
                let text = format!(
                    "Recorded. {tool} also needs the approval of {others} who asked, or of an administrator."
                );
                return Ok(Told { text, effect: Effect::Recorded });
            }
        }
        let (outcome, stands) = match asking.answer(&verdict.id) {
            Some((_, record)) => (Outcome::Duplicate, record.clone()),
            None => self.history.append_approval(&asking.reply, by, &verdict).await?,
        };
        if is_open {
            // Also for one that was there: its first delivery may have crashed before this.
            self.enqueue_resumption(asking).await?;
        }
        let stood = Verdict::of(&stands).unwrap_or_else(|| verdict.clone());
        let is_own = outcome == Outcome::Stored
            || (stands.user_id == by.user_id && stood.approved == verdict.approved);
        let word = if stood.approved { "Approved" } else { "Denied" };
        let text = if is_own { format!("{word}: {tool}.") } else { format!("{word} already: {tool}.") };
        tracing::info!(?outcome, approved = stood.approved, "approval");
        Ok(Told::settled(text))
    }

    /// Records that `by` approves as one of `askers`. Returns how many of them have not approved yet.
    async fn assent(
        &self,
        asking: &Asking,
        id: &str,
        by: &Draft,
        askers: &BTreeSet<Option<String>>,
    ) -> Result<usize, IngressError> {
        let assent = Assent { id: id.to_owned(), person: by.sender() };
        self.history.append_assent(&asking.reply, by, &assent).await?;
        // Read after the append: of two that come at once, one sees both.
        let records = self.history.message(&asking.reply.chat, &asking.reply.key).await?;
        let assents = records.iter().filter_map(Assent::of).filter(|assent| assent.id == id);
        let persons: BTreeSet<Option<String>> = assents.map(|assent| Some(assent.person)).collect();
        Ok(askers.difference(&persons).count())
    }

    /// Denies all that waits for somebody's word from before the `/stop` at `command`, on its line: whoever may stop the
    /// agent may keep it from a call. Returns the replies of which it denied something, now or when it was delivered before.
    pub(super) async fn deny_all(&self, by: &Draft, command: &SortKey) -> Result<Vec<Asking>, IngressError> {
        let line = self.history.record_of(by, command.clone(), 0);
        let mut own = by.clone();
        own.metadata.insert(STOPPED_BY.into(), by.message_id.as_str().into());
        let mut denied = Vec::new();
        for asking in self.asking(by).await? {
            if asking.reply.key.base() >= *command || asking.reply.line() != line.line() {
                continue;
            }
            let is_own =
                |(_, record): &&(Verdict, Record)| record.stopped_by() == Some(by.message_id.as_str());
            let mut is_denied = asking.answers.iter().any(|answer| is_own(&answer));
            if asking.open().next().is_some() && !self.is_at_hand(&asking).await? {
                continue;
            }
            for request in asking.open() {
                let reason = Some(approval::STOPPED.to_owned());
                let verdict = Verdict { id: request.id.clone(), approved: false, reason };
                // Where somebody was faster, the reply goes on, and the command ends it as it does any.
                self.history.append_approval(&asking.reply, &own, &verdict).await?;
                is_denied = true;
            }
            if is_denied {
                denied.push(asking);
            }
        }
        Ok(denied)
    }

    /// Queues the turn in which a reply goes on.
    pub(super) async fn enqueue_resumption(&self, asking: &Asking) -> Result<(), IngressError> {
        let from = asking.reply.covers.first().cloned().unwrap_or_else(|| asking.reply.key.base());
        let turn = Turn { chat: asking.reply.chat.clone(), from, at: None };
        Ok(self.queue.enqueue(&turn).await?)
    }

    /// Returns those of `asking` that wait and that a word of `by` may be for: those that answer messages of this person, if
    /// there are any, else all.
    async fn meant<'a>(&self, asking: &'a [Asking], by: &Draft) -> Result<Vec<&'a Asking>, IngressError> {
        let waiting: Vec<&Asking> = asking.iter().filter(|asking| asking.open().next().is_some()).collect();
        if waiting.len() < 2 {
            return Ok(waiting);
        }
        let sender = Some(by.sender());
        let mut own = Vec::new();
        for asking in &waiting {
            if self.askers(asking, by.channel).await?.persons.contains(&sender) {
                own.push(*asking);
            }
        }
        Ok(if own.is_empty() { waiting } else { own })
    }

    /// The replies of this chat that ask or asked for something, the newest first, among its last records.
    async fn asking(&self, by: &Draft) -> Result<Vec<Asking>, IngressError> {
        let mut page = self.history.page(&by.chat, &Position::Newest, MAX_PAGE).await?;
        let mut records = page.records;
        for _ in 1..MAX_PAGES {
            let Some(before) = page.before else { break };
            page = self.history.page(&by.chat, &Position::Before(before), MAX_PAGE).await?;
            records.splice(0..0, std::mem::take(&mut page.records));
        }
        let replies = records.iter().rev().filter(|record| record.key.is_reply());
        Ok(replies.filter_map(|reply| Asking::of(&records, &reply.key)).collect())
    }

    /// Whether the table still has the reply and what it answers. Where either has left it, nothing goes on, whatever pages
    /// still show of it.
    async fn is_at_hand(&self, asking: &Asking) -> Result<bool, IngressError> {
        let records = self.history.message(&asking.reply.chat, &asking.reply.key).await?;
        let is_said = |record: &Record| {
            record.role() == Role::User && record.kind != Kind::Boundary && !record.key.hangs_on_reply()
        };
        Ok(records.iter().any(|record| record.key == asking.reply.key) && records.iter().any(is_said))
    }

    /// Returns what the answer of `by` to `request` counts for.
    async fn standing(
        &self,
        asking: &Asking,
        request: &Request,
        by: &Draft,
    ) -> Result<Standing, IngressError> {
        let sender = by.sender();
        if self.approvers.admins.contains(&sender) {
            return Ok(Standing::Decides);
        }
        if request.admins_only {
            return Ok(Standing::None(ADMINS_ONLY));
        }
        let Askers { persons, is_group } = self.askers(asking, by.channel).await?;
        let is_asker = persons.contains(&Some(sender));
        if is_asker && persons.len() == 1 {
            return Ok(Standing::Decides);
        }
        if is_group && self.is_administrator(by).await {
            return Ok(Standing::Decides);
        }
        Ok(if is_asker { Standing::IsOneOf(persons) } else { Standing::None(NOT_YOURS) })
    }

    /// Returns the people whose messages the reply covers. A message is its first form's sender's, whoever edited it.
    async fn askers(&self, asking: &Asking, channel: Channel) -> Result<Askers, IngressError> {
        let covers = &asking.reply.covers;
        let read = covers.iter().rev().take(MAX_ASKED);
        let asked = read.map(|base| self.history.message(&asking.reply.chat, base));
        let asked = try_join_all(asked).await?;
        let is_said = |record: &&Record| record.role() == Role::User && !record.key.hangs_on_reply();
        let first_forms: Vec<&Record> =
            asked.iter().filter_map(|records| records.iter().find(is_said)).collect();
        let mut persons: BTreeSet<Option<String>> =
            first_forms.iter().map(|record| Some(record.sender())).collect();
        if first_forms.len() < covers.len() {
            persons.insert(None);
        }
        let is_group = asking.reply.channel == channel && first_forms.iter().any(|record| record.is_group());
        Ok(Askers { persons, is_group })
    }

    async fn is_administrator(&self, by: &Draft) -> bool {
        // A message in the name of a Telegram group is one of its administrators', who does not say which.
        if by.channel == Channel::Telegram && by.chat_id == by.user_id {
            return true;
        }
        match &self.approvers.platforms {
            // Of the chat that was asked: a card may be pressed in another one.
            Some(platforms) => platforms.is_administrator(by.channel, by.chat.chat_id(), &by.user_id).await,
            None => false,
        }
    }
}

/// Returns the beginning of a request's id by which it is named: eight digits, or more until one of them is no letter.
fn code_of(request: &Request) -> &str {
    let first_digit = request.id.find(|c: char| c.is_ascii_digit()).unwrap_or(request.id.len() - 1);
    &request.id[..(first_digit + 1).max(8)]
}

/// Returns the requests that `which` names: of the one reply among `meant`, unless a part of an id says otherwise. Of several
/// replies none is chosen, since the sender may have read another one than the newest.
fn chosen<'a>(
    asking: &'a [Asking],
    meant: &[&'a Asking],
    which: &Which,
) -> Result<Vec<(&'a Asking, String)>, String> {
    if let Which::Code(code) = which {
        let all =
            asking.iter().flat_map(|asking| asking.requests.iter().map(move |request| (asking, request)));
        let found: Vec<_> = all.filter(|(_, request)| request.id.starts_with(code.as_str())).collect();
        return match found[..] {
            [(asking, request)] => Ok(vec![(asking, request.id.clone())]),
            _ => Err(NOTHING.into()),
        };
    }
    let asking = match meant {
        [] => return Err(NOTHING.into()),
        [asking] => *asking,
        several => {
            let open = several.iter().flat_map(|asking| asking.open());
            let list: Vec<String> =
                open.map(|request| format!("{} {}", code_of(request), request.tool)).collect();
            return Err(format!("Which one? Say /approve or /deny and its code:\n{}", list.join("\n")));
        }
    };
    if asking.is_behind {
        // The model may have said what looks like a question, so the sender reads the real one first.
        let question = asking.question.as_deref().unwrap_or_default();
        let codes = asking.open().map(|request| format!("`/approve {}`", code_of(request)));
        let codes = codes.collect::<Vec<_>>().join(" or ");
        return Err(format!(
            "This waits, and something else was said since:\n\n{question}\n\nSay {codes}, or /deny with the code."
        ));
    }
    let open: Vec<&Request> = asking.open().collect();
    let chosen: Vec<&Request> = match which {
        Which::All => open,
        Which::Number(number) => {
            asking.requests.iter().filter(|request| request.number == *number as usize).collect()
        }
        Which::Only | Which::Code(_) if open.len() == 1 => open,
        Which::Only | Which::Code(_) => Vec::new(),
    };
    if chosen.is_empty() {
        let list = asking.open().map(|request| format!("{}. {}", request.number, request.tool));
        let list: Vec<String> = list.collect();
        return Err(format!("Which one? Say /approve or /deny and its number, or all:\n{}", list.join("\n")));
    }
    Ok(chosen.into_iter().map(|request| (asking, request.id.clone())).collect())
}
