//! `/approve`, `/deny` and the buttons: decides who may answer an approval request, and records the answer.
//!
//! | the reply covers messages of | its calls are approved by |
//! | --- | --- |
//! | one person | that person, one of `ADMINS`, or in a group one of the platform's administrators |
//! | several people | one of `ADMINS`, an administrator of the group, or all of those people |
//!
//! A tool with `"approval": "admins"` is approved only by one of `ADMINS`. Each of several people may deny. Anybody
//! else gets a refusal, and nothing is recorded.

use std::collections::BTreeSet;

use annals_channel::settings::DmScope;
use annals_channel::webhook::{ApprovalResult, Effect};
use annals_core::approval;
use annals_core::approval::{Assent, Button, Request, Verdict};
use annals_core::command::Which;
use annals_core::draft::Draft;
use annals_core::language::Language;
use annals_core::message::{Part, Role, UiMessage};
use annals_core::person::canonical;
use annals_core::record::{Channel, Kind, Record};
use annals_core::sort_key::{SortKey, Timestamp};
use annals_core::texts::Texts;
use annals_store::history::{Appended, MAX_PAGE, Outcome, Position};
use annals_store::queue::Turn;
use futures::future::try_join_all;

use super::{Ingress, IngressError};

/// Number of covered messages that are read for their senders at the same time.
const READ_AT_ONCE: usize = 16;

/// Maximum number of pages of newest records that are searched for open requests: enough that nobody can hide a request
/// by writing.
const MAX_PAGES: usize = 5;

/// Weight of a person's answer to a request.
enum Standing {
    /// It settles the request.
    Decides,
    /// The sender is one of these askers: a denial settles the request, an approval only when all have approved. `None`
    /// is an asker whose message is not known.
    IsOneOf(BTreeSet<Option<String>>),
    None {
        /// True if only one of `ADMINS` may answer.
        admins_only: bool,
    },
}

/// The people whose messages a reply covers.
struct Askers {
    persons: BTreeSet<Option<String>>,
    is_group: bool,
}

/// A reply with approval requests.
pub(super) struct Asking {
    reply: Record,
    requests: Vec<Request>,
    /// The newest form of the reply.
    form: UiMessage,
    /// True if the agent sent another message on the same line later, or asked this after the command was said.
    is_followed: bool,
    answers: Vec<(Verdict, Record)>,
}

impl Asking {
    /// Returns the reply at `key` in `records`, if it has approval requests. `said_at` is the time of the command that answers.
    fn of(records: &[Record], key: &SortKey, said_at: Option<Timestamp>) -> Option<Self> {
        let reply = records.iter().find(|record| record.key == *key && record.kind() == Kind::Normal)?;
        let newest = approval::newest_form(records, key)?;
        let form = &newest.message;
        let requests = approval::requests(form);
        let is_later = |record: &Record| {
            record.role() == Role::Assistant
                && matches!(record.kind(), Kind::Normal | Kind::Revision)
                && record.key.base() != key.base()
                && (record.sent_at, &record.key) > (reply.sent_at, &reply.key)
                && record.line() == reply.line()
        };
        // A command may be delivered again, hours later.
        let is_new = said_at.is_some_and(|said_at| newest.sent_at > said_at);
        let is_followed = is_new || records.iter().any(is_later);
        let answers = records.iter().filter(|record| record.key.base() == key.base());
        let answers = answers.filter_map(|record| Some((Verdict::of(record)?, record.clone())));
        (!requests.is_empty()).then(|| Self {
            reply: reply.clone(),
            answers: answers.collect(),
            requests,
            form: form.clone(),
            is_followed,
        })
    }

    fn answer(&self, id: &str) -> Option<&(Verdict, Record)> {
        self.answers.iter().find(|(verdict, _)| verdict.id == id)
    }

    /// Returns the requests without an answer.
    fn open(&self) -> impl Iterator<Item = &Request> {
        self.requests.iter().filter(|request| request.is_open && self.answer(&request.id).is_none())
    }
}

impl Ingress {
    /// Handles a pressed button. `by` has the person and the chat. Can be repeated safely; the first answer counts.
    pub async fn pressed(&self, button: &Button, by: &Draft) -> Result<ApprovalResult, IngressError> {
        let asking = match &button.base {
            Some(base) => Asking::of(&self.history.message(&by.chat, base).await?, &base.reply(), None)
                .into_iter()
                .collect(),
            None => self.asking(by, None).await?,
        };
        let verdict = Verdict { id: button.id.clone(), approved: button.approved, reason: None };
        self.settle_named(&asking, verdict, by, self.texts(by).await?).await
    }

    /// Answers a request of the reply at `reply`, by the request's id, for a caller of the API, whose errors are English.
    /// `by` has the person and the chat. Can be repeated safely; the first answer counts. Returns `None` if TTL may have deleted
    /// the reply or what it answers: it waits for no answer any more, though its request looks open.
    pub async fn answer_request(
        &self,
        reply: &SortKey,
        verdict: Verdict,
        by: &Draft,
    ) -> Result<Option<ApprovalResult>, IngressError> {
        let records = self.history.message(&by.chat, reply).await?;
        if !is_in_table(&records, reply, self.history.clock().now()) {
            return Ok(None);
        }
        let asking = Asking::of(&records, reply, None);
        self.settle_named(asking.as_slice(), verdict, by, Language::En.texts()).await.map(Some)
    }

    /// Answers the request that `verdict` names, if it is among those of `asking`.
    async fn settle_named(
        &self,
        asking: &[Asking],
        verdict: Verdict,
        by: &Draft,
        texts: &dyn Texts,
    ) -> Result<ApprovalResult, IngressError> {
        let is_named = |asking: &&Asking| asking.requests.iter().any(|request| request.id == verdict.id);
        let Some(asking) = asking.iter().find(is_named) else { return Ok(settled(texts.request_is_over())) };
        let word = if verdict.approved { "/approve" } else { "/deny" };
        let by = by.clone().with_parts(vec![Part::text(word)]).by(Role::User);
        self.settle(asking, verdict, &by, texts).await
    }

    /// Carries out `/approve` and `/deny`. A repeated command finds its own answers and gives the same result.
    pub(super) async fn approve(
        &self,
        by: &Draft,
        appended: &Appended,
        which: &Which,
        approved: bool,
        reason: Option<&str>,
        texts: &dyn Texts,
    ) -> Result<String, IngressError> {
        // A command that comes again was said when it first came.
        let said_at = if appended.outcome == Outcome::Stored {
            None
        } else {
            let forms = self.history.message_anywhere(&by.chat, &appended.base).await?;
            forms.iter().find(|form| form.key == appended.base).map(|first| first.sent_at)
        };
        let asking = self.asking(by, said_at).await?;
        let is_own = |record: &Record| record.message.metadata.command() == Some(by.message_id.as_str());
        let own: Vec<(&Asking, String)> = asking
            .iter()
            .flat_map(|asking| asking.answers.iter().map(move |(verdict, record)| (asking, verdict, record)))
            .filter(|(_, _, record)| is_own(record))
            .map(|(asking, verdict, _)| (asking, verdict.id.clone()))
            .collect();
        let chosen: Vec<(&Asking, String)> = if own.is_empty() {
            match chosen(&asking, &self.meant(&asking, by).await?, which, texts) {
                Ok(chosen) => chosen,
                Err(problem) => return Ok(problem),
            }
        } else {
            own
        };
        let mut by = by.clone();
        by.metadata.set_command(by.message_id.as_str());
        let mut told: Vec<String> = Vec::new();
        for (asking, id) in chosen {
            let verdict = Verdict { id, approved, reason: reason.map(str::to_owned) };
            let text = self.settle(asking, verdict, &by, texts).await?.text;
            if !told.contains(&text) {
                told.push(text);
            }
        }
        Ok(told.join("\n"))
    }

    /// Records an answer, unless there is one, and queues the turn that continues the reply.
    async fn settle(
        &self,
        asking: &Asking,
        verdict: Verdict,
        by: &Draft,
        texts: &dyn Texts,
    ) -> Result<ApprovalResult, IngressError> {
        let Some(request) = asking.requests.iter().find(|request| request.id == verdict.id) else {
            return Ok(settled(texts.request_is_over()));
        };
        let tool = &request.tool;
        if !self.is_in_table(asking).await? {
            return Ok(settled(texts.request_is_over()));
        }
        let standing = self.standing(asking, request, by).await?;
        if let Standing::None { admins_only } = standing {
            let reason = if admins_only { texts.admins_only() } else { texts.not_yours() };
            return Ok(ApprovalResult { text: reason.to_owned(), effect: Effect::Refused });
        }
        let is_open = request.is_open;
        if !is_open && asking.answer(&verdict.id).is_none() {
            return Ok(settled(texts.request_is_over()));
        }
        if let Standing::IsOneOf(askers) = standing
            && verdict.approved
            && asking.answer(&verdict.id).is_none()
        {
            let missing = self.assent(asking, &verdict.id, by, &askers).await?;
            if missing > 0 {
                let text = texts.approval_recorded(tool, missing);
                return Ok(ApprovalResult { text, effect: Effect::Recorded });
            }
        }
        let (outcome, stands) = match asking.answer(&verdict.id) {
            Some((_, record)) => (Outcome::Duplicate, record.clone()),
            None => self.history.append_approval(&asking.reply, by, &verdict).await?,
        };
        if is_open {
            // A duplicate queues it too: its first delivery may have crashed before this line.
            self.enqueue_resumption(asking).await?;
        }
        let stood = Verdict::of(&stands).unwrap_or_else(|| verdict.clone());
        let is_own = outcome == Outcome::Stored
            || (stands.user_id == by.user_id && stood.approved == verdict.approved);
        let text = texts.verdict(tool, stood.approved, !is_own);
        tracing::info!(?outcome, approved = stood.approved, "approval");
        Ok(settled(text))
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
        // Read after appending: of two concurrent approvals, at least one sees both.
        let records = self.history.message(&asking.reply.chat, &asking.reply.key).await?;
        let assents = records.iter().filter_map(Assent::of).filter(|assent| assent.id == id);
        let persons: BTreeSet<Option<String>> = assents.map(|assent| Some(assent.person)).collect();
        Ok(askers.difference(&persons).count())
    }

    /// Denies all open requests on the line of the `/stop` at `command` that are older than it: a person who may stop the
    /// agent may also prevent its calls. Returns the replies with a request that was denied, now or in an earlier
    /// delivery of the command.
    pub(super) async fn deny_all(&self, by: &Draft, command: &SortKey) -> Result<Vec<Asking>, IngressError> {
        let line = self.history.record_of(by, command.clone(), 0);
        let mut own = by.clone();
        own.metadata.set_stopped_by(by.message_id.as_str());
        let mut denied = Vec::new();
        for asking in self.asking(by, None).await? {
            if asking.reply.key.base() >= *command || asking.reply.line() != line.line() {
                continue;
            }
            let is_own =
                |(_, record): &&(Verdict, Record)| record.stopped_by() == Some(by.message_id.as_str());
            let mut is_denied = asking.answers.iter().any(|answer| is_own(&answer));
            if asking.open().next().is_some() && !self.is_in_table(&asking).await? {
                continue;
            }
            for request in asking.open() {
                let reason = Some(approval::STOPPED.to_owned());
                let verdict = Verdict { id: request.id.clone(), approved: false, reason };
                // If somebody approved it in the meantime, the reply continues, and `/stop` ends it like any other run.
                self.history.append_approval(&asking.reply, &own, &verdict).await?;
                is_denied = true;
            }
            if is_denied {
                denied.push(asking);
            }
        }
        Ok(denied)
    }

    /// Queues the turn that continues a reply.
    pub(super) async fn enqueue_resumption(&self, asking: &Asking) -> Result<(), IngressError> {
        let from = asking.reply.covers().first().cloned().unwrap_or_else(|| asking.reply.key.base());
        let turn = Turn { chat: asking.reply.chat.clone(), from, at: None };
        Ok(self.queue.enqueue(&turn).await?)
    }

    /// Returns the replies with open requests that an answer of `by` may be for: those to messages of this person, or
    /// all if there are none.
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

    /// Returns the replies with approval requests among the chat's newest records, the newest first: of a platform's chat, those
    /// on the line of `by`; the API's callers see all.
    async fn asking(&self, by: &Draft, said_at: Option<Timestamp>) -> Result<Vec<Asking>, IngressError> {
        let mut page = self.history.page(&by.chat, &Position::Newest, MAX_PAGE).await?;
        let mut records = page.records;
        for _ in 1..MAX_PAGES {
            let Some(before) = page.before else { break };
            page = self.history.page(&by.chat, &Position::Before(before), MAX_PAGE).await?;
            records.splice(0..0, std::mem::take(&mut page.records));
        }
        let is_seen = |reply: &&Record| reply.line() == by.metadata.line() || reply.channel != by.channel;
        let replies = records.iter().rev().filter(|record| record.key.is_reply()).filter(is_seen);
        Ok(replies.filter_map(|reply| Asking::of(&records, &reply.key, said_at)).collect())
    }

    /// Returns true if `asking` can continue; a page may have more than the table.
    async fn is_in_table(&self, asking: &Asking) -> Result<bool, IngressError> {
        let records = self.history.message(&asking.reply.chat, &asking.reply.key).await?;
        Ok(is_in_table(&records, &asking.reply.key, self.history.clock().now()))
    }

    /// Returns the weight of the answer of `by` to `request`.
    async fn standing(
        &self,
        asking: &Asking,
        request: &Request,
        by: &Draft,
    ) -> Result<Standing, IngressError> {
        let sender = by.sender();
        if self.is_admin(by).await? {
            return Ok(Standing::Decides);
        }
        if request.admins_only {
            return Ok(Standing::None { admins_only: true });
        }
        let Askers { persons, is_group } = self.askers(asking, by.channel).await?;
        let is_asker = persons.contains(&Some(sender));
        if is_asker && persons.len() == 1 {
            return Ok(Standing::Decides);
        }
        if is_group && self.is_administrator(by).await {
            return Ok(Standing::Decides);
        }
        Ok(if is_asker { Standing::IsOneOf(persons) } else { Standing::None { admins_only: false } })
    }

    /// Returns true if the sender is one of `ADMINS`, by any of their identities. Under `DM_SCOPE=user` two reads or more,
    /// if they are not by that of this channel.
    async fn is_admin(&self, by: &Draft) -> Result<bool, IngressError> {
        let is_listed = |person: &str| {
            self.config.usage.admins.iter().any(|admin| admin == person || canonical(admin) == person)
        };
        let of_channel = by.channel.identity(&by.user_id);
        if is_listed(&by.sender()) || (by.channel.is_platform() && is_listed(&of_channel)) {
            return Ok(true);
        }
        if self.config.usage.admins.is_empty() || self.config.dm_scope == DmScope::Chat {
            return Ok(false);
        }
        // A person of the API is named by the key, which the bare id does not tell.
        let identity = if by.channel.is_platform() { of_channel } else { by.sender() };
        // A link of `LINKS` is stored with the first direct message.
        let links = &self.config.links;
        let person = links.person_of(&identity).unwrap_or(&identity);
        let is_of_person = |other: &&str| *other == person || links.person_of(other) == Some(person);
        if links.identities().filter(is_of_person).any(is_listed) {
            return Ok(true);
        }
        Ok(self.people.everybody(person).await?.iter().any(|identity| is_listed(identity)))
    }

    /// Returns the people whose messages the reply covers. A message belongs to the sender of its first form, even if
    /// somebody else edited it.
    async fn askers(&self, asking: &Asking, channel: Channel) -> Result<Askers, IngressError> {
        let covers = asking.reply.covers();
        let mut asked = Vec::new();
        for bases in covers.chunks(READ_AT_ONCE) {
            let read = bases.iter().map(|base| self.history.message(&asking.reply.chat, base));
            asked.extend(try_join_all(read).await?);
        }
        let first_forms = asked.iter().filter_map(|records| records.iter().find(|record| record.is_said()));
        let first_forms: Vec<&Record> = first_forms.collect();
        let mut persons: BTreeSet<Option<String>> =
            first_forms.iter().map(|record| Some(record.sender())).collect();
        if first_forms.len() < covers.len() {
            persons.insert(None);
        }
        let is_group = asking.reply.channel == channel && first_forms.iter().any(|record| record.is_group());
        Ok(Askers { persons, is_group })
    }

    async fn is_administrator(&self, by: &Draft) -> bool {
        // The chat of the request: a card may have been forwarded to another one.
        self.deliverer.is_administrator(by.channel, by.chat.chat_id(), &by.user_id).await
    }
}

/// Returns the answer for a person who may not use the bot.
pub fn refused(texts: &dyn Texts) -> ApprovalResult {
    ApprovalResult { text: texts.not_yours().to_owned(), effect: Effect::Refused }
}

/// Returns true if `records`, those of a message in the table, have the reply at `reply`, which has not lapsed, and the messages
/// that it answers. Otherwise it cannot continue.
fn is_in_table(records: &[Record], reply: &SortKey, now: Timestamp) -> bool {
    records.iter().any(|record| record.key == *reply && !record.has_lapsed(now))
        && records.iter().any(Record::is_said)
}

fn settled(text: impl Into<String>) -> ApprovalResult {
    ApprovalResult { text: text.into(), effect: Effect::Settled }
}

/// Returns the start of a request's id as its code: eight digits, or more until one of them is a letter.
fn code_of(request: &Request) -> &str {
    let first_digit = request.id.find(|c: char| c.is_ascii_digit()).unwrap_or(request.id.len() - 1);
    &request.id[..(first_digit + 1).max(8)]
}

/// Returns the requests that `which` names. A part of an id selects among all replies; otherwise there must be a single
/// reply in `meant`. Of several replies none is chosen, since the sender may not have read the newest one.
fn chosen<'a>(
    asking: &'a [Asking],
    meant: &[&'a Asking],
    which: &Which,
    texts: &dyn Texts,
) -> Result<Vec<(&'a Asking, String)>, String> {
    if let Which::Code(code) = which {
        let all =
            asking.iter().flat_map(|asking| asking.requests.iter().map(move |request| (asking, request)));
        let found: Vec<_> = all.filter(|(_, request)| request.id.starts_with(code.as_str())).collect();
        if let [(asking, request)] = found[..] {
            return Ok(vec![(asking, request.id.clone())]);
        }
    }
    let asking = match meant {
        [] => return Err(texts.nothing_to_approve().into()),
        [asking] => *asking,
        several => {
            let open = several.iter().flat_map(|asking| asking.open());
            let list: Vec<String> =
                open.map(|request| format!("{} {}", code_of(request), request.tool)).collect();
            return Err(texts.which_code(&list.join("\n")));
        }
    };
    if asking.is_followed {
        // The model may have said something that looks like a request, so the sender is shown the real one first.
        let question = approval::question(&asking.form, texts).unwrap_or_default();
        let commands = asking.open().map(|request| format!("`/approve {}`", code_of(request)));
        return Err(texts.request_again(&question, &commands.collect::<Vec<_>>()));
    }
    let open: Vec<&Request> = asking.open().collect();
    let chosen: Vec<&Request> = match which {
        Which::All => open,
        Which::Number(number) => {
            asking.requests.iter().filter(|request| request.number == *number as usize).collect()
        }
        Which::Only if open.len() == 1 => open,
        // The first word of a reason may look like a code.
        Which::Only | Which::Code(_) => Vec::new(),
    };
    if chosen.is_empty() {
        let list = asking.open().map(|request| format!("#{} {}", request.number, request.tool));
        let list: Vec<String> = list.collect();
        return Err(texts.which_number(&list.join("\n")));
    }
    Ok(chosen.into_iter().map(|request| (asking, request.id.clone())).collect())
}
