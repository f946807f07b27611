//! The work of one run: a [`Task`], each with what it takes to do it, and the [`ClaimedTurn`] that most of them are about.

use annals_core::approval;
use annals_core::context::{Context, Policy, records_of_turn};
use annals_core::language::Language;
use annals_core::limits::Quota;
use annals_core::media;
use annals_core::memory::Source;
use annals_core::message::{Role, UiMessage};
use annals_core::record::{Kind, Record, message_at};
use annals_core::reply_token::ReplyToken;
use annals_core::sort_key::{SortKey, Timestamp};
use annals_core::texts::Texts;
use annals_core::trace::Trace;
use annals_engine::live::ReplyStart;
use annals_engine::usage::Allowance;
use annals_store::history::turn::{Ending, Lease, OpenTurn, Resumed};
use annals_store::history::{History, HistoryError, Reply, ReplyAppended};

use crate::agent::Agent;
use crate::coverage::newest_covered;
use crate::error::TurnError;
use crate::making::Unstored;
use crate::tools::offered::Offered;

/// The work of one run, and its findings about the chat.
pub(crate) struct Found {
    pub(crate) task: Task,
    /// The findings about the chat, to be stored when the run ends.
    pub(crate) ending: Ending,
    /// True if there may be more to do after the task.
    pub(crate) leaves_more: bool,
}

/// The work of one run.
pub(crate) enum Task {
    Nothing,
    /// End a turn that a `/stop` has stopped.
    End(StoppedTurn),
    /// Send the reply of a turn: a fresh one, or one that a run committed to which died.
    Turn(ClaimedTurn, Work),
}

/// The work on a turn before its reply is sent.
pub(crate) enum Work {
    /// Ask the model, store its reply and send it.
    Answer {
        /// The memory and tools for the model.
        offered: Offered,
        /// The earliest message that the queue named, if the records are read from there.
        from: Option<SortKey>,
    },
    /// Store a notice that a limit of usage is reached.
    Refuse {
        quota: Quota,
        /// Time from which there are replies again.
        until: Timestamp,
    },
    /// Carry out a `/compact` and store the notice.
    Compact,
    /// Store an operator's message as the reply.
    Send,
    Deliver(Box<Record>),
    /// Continue a reply whose calls have been approved or denied, of which what is new is sent.
    Resume {
        /// The memory and tools for the model.
        offered: Offered,
        paused: Box<PausedReply>,
    },
}

/// A turn that a `/stop` ends.
pub(crate) struct StoppedTurn {
    pub(crate) turn: ClaimedTurn,
    /// Message id of the `/stop`; empty if its record was not read.
    pub(crate) command_id: String,
    /// Its reply as far as it was made, if this process made it.
    pub(crate) unstored: Option<Unstored>,
}

/// A stored reply whose calls have been approved or denied.
pub(crate) struct PausedReply {
    /// Its first form.
    pub(crate) reply: Record,
    /// All records with its message id: later forms of the reply and answers to its requests.
    pub(crate) forms: Vec<Record>,
    /// Number of its parts that have been delivered.
    pub(crate) shown_parts: usize,
}

impl PausedReply {
    /// Returns `reply` with all of its `forms`. A turn that has `resumed` it delivers what follows the form that people have
    /// seen.
    pub(crate) fn new(reply: Record, forms: Vec<Record>, resumed: Option<&Resumed>) -> Self {
        let is_shown = |form: &&Record| {
            resumed.is_some_and(|resumed| {
                form.revision() == resumed.shown
                    && (form.key == reply.key || form.key == reply.key.reply_form(resumed.shown))
            })
        };
        let shown_parts = forms.iter().find(is_shown).map_or(0, |form| form.message.parts.len());
        Self { reply, forms, shown_parts }
    }

    /// Returns the newest form of the reply.
    pub(crate) fn newest(&self) -> &Record {
        approval::newest_form(&self.forms, &self.reply.key).unwrap_or(&self.reply)
    }

    /// Returns the reply token of the last answer to its requests. It is valid for longer than that of the question.
    pub(crate) fn reply_token(&self) -> Option<&ReplyToken> {
        let answers = self.forms.iter().filter(|form| form.reply_token().is_some());
        answers.max_by_key(|answer| answer.sent_at)?.reply_token()
    }
}

/// A turn of a chat that this run has claimed.
pub(crate) struct ClaimedTurn {
    /// The claim, and the head as this run knows it: [`commit`](Self::commit) notes the turn there.
    pub(crate) lease: Lease,
    /// The covered messages.
    pub(crate) turn: OpenTurn,
    /// The records of the chat that were read for the turn.
    pub(crate) records: Vec<Record>,
    /// The newest covered message: the reply answers it, and follows it in the history.
    pub(crate) newest: Record,
    /// The usage that is left, and that the reply is counted with.
    pub(crate) allowance: Allowance,
}

impl ClaimedTurn {
    /// Returns the turn, or an error if its newest message is not among `records`.
    pub(crate) fn new(lease: Lease, turn: OpenTurn, records: Vec<Record>) -> Result<Self, HistoryError> {
        let newest = newest_covered(&records, &turn).cloned().ok_or_else(|| HistoryError::Missing {
            key: turn.covers.last().map(ToString::to_string).unwrap_or_default(),
        })?;
        Ok(Self { lease, turn, records, newest, allowance: Allowance::default() })
    }

    /// Returns the turn as listeners are told of it.
    pub(crate) fn begun(&self) -> ReplyStart {
        ReplyStart {
            covers: self.turn.covers.clone(),
            reply: self.reply_key(),
            message_id: self.newest.message_id.derived("reply").to_string(),
        }
    }

    /// Returns the time at which the turn began to wait: when the first message that it covers was stored.
    pub(crate) fn asked_since(&self) -> Timestamp {
        let first = self.turn.covers.first().and_then(|base| message_at(&self.records, base));
        first.unwrap_or(&self.newest).sent_at
    }

    /// Returns the texts in the language of the person who sent the newest message, unless `LANGUAGE` fixes one.
    pub(crate) fn texts(&self, fixed: Option<Language>) -> &'static dyn Texts {
        self.language(fixed).texts()
    }

    pub(crate) fn language(&self, fixed: Option<Language>) -> Language {
        let last = self.newest.key.base();
        let known = self.records.iter().filter(|record| record.key.base() <= last);
        fixed.unwrap_or_else(|| Language::of_records(known, &self.newest.user_id))
    }

    /// Returns true if one person sent all messages of the turn.
    pub(crate) fn is_of_one_person(&self) -> bool {
        let sender = self.newest.sender();
        let mut covered = self.turn.covers.iter().map(|base| message_at(&self.records, base));
        covered.all(|message| message.is_some_and(|message| message.sender() == sender))
    }

    /// Removes the messages from the turn that another person than the sender of the newest one sent. Returns true if there
    /// are any.
    pub(crate) fn leave_others(&mut self) -> bool {
        let Self { turn, records, newest, .. } = self;
        let (count, sender) = (turn.covers.len(), newest.sender());
        let is_own = |base: &SortKey| message_at(records, base).is_some_and(|own| own.sender() == sender);
        turn.covers.retain(is_own);
        turn.covers.len() < count
    }

    /// Returns the key of the turn's reply.
    pub(crate) fn reply_key(&self) -> SortKey {
        self.newest.key.base().reply()
    }

    /// Returns the reply that an earlier run has stored for this very turn.
    pub(crate) fn stored_reply(&self) -> Option<&Record> {
        let key = self.reply_key();
        self.records.iter().find(|record| record.key == key)
    }

    /// Returns true if the turn is a `/compact`, and not a message that was made of one by an edit.
    pub(crate) fn is_compact_command(&self) -> bool {
        let of_it = |record: &&Record| self.turn.covers.last() == Some(&record.key.base());
        let mut forms = self.records.iter().filter(of_it).filter(|record| record.role() == Role::User);
        forms.all(|record| record.kind() == Kind::Notice && record.asks())
    }

    /// Addresses the reply of a turn that sends an operator's message, or answers an occurrence of a schedule: to the newest
    /// message that it answers, if one shows its sender that it waits at `now` to that, or else to the chat. Only for the
    /// delivery of the stored reply.
    pub(crate) fn address_dispatch(&mut self, now: Timestamp) {
        let Some(to) = self.newest.sent_to() else { return };
        let bases = self.turn.covers.iter().rev().skip(1);
        let answered: Vec<&Record> = bases.filter_map(|base| message_at(&self.records, base)).collect();
        let waits = |record: &&&Record| record.reply_token().is_some_and(|token| token.at(now).is_some());
        if let Some(answered) = answered.iter().find(waits).or(answered.first()) {
            self.newest = (*answered).clone();
        } else if self.newest.channel.reaches_threads_by_messages() {
            self.newest.message_id = to;
        }
    }

    pub(crate) fn context(&self, now: Timestamp, policy: &Policy) -> Context {
        records_of_turn(&self.records, &self.turn.covers, now, policy).1
    }

    /// Returns the source of the memory entries that the turn saves: the messages that it answers.
    pub(crate) fn memory_source(&self) -> Option<Source> {
        let (from, to) = (self.turn.covers.first()?, self.turn.covers.last()?);
        let id = |base: &SortKey| {
            let record = self.records.iter().find(|record| record.key.base() == *base);
            record.map(|record| record.message_id.clone())
        };
        let chat = self.lease.chat.clone();
        let session = Source::session_id(&chat, from.ts());
        Some(Source { session, chat, from_id: id(from)?, to_id: id(to)?, from: from.clone(), to: to.clone() })
    }

    /// Commits to the turn, unless it is committed: from now on every run finishes exactly this one first.
    pub(crate) async fn commit(&mut self, history: &History) -> Result<(), TurnError> {
        if self.lease.head.turn.is_none() {
            self.confirm(history).await?;
            self.lease.head.turn = Some(self.turn.clone());
        }
        Ok(())
    }

    /// Writes the turn to the head, which fails if another run has taken the chat over.
    pub(crate) async fn confirm(&self, history: &History) -> Result<(), TurnError> {
        Ok(history.commit(&self.lease, &self.turn).await?)
    }

    /// Reads the usage that is left for the sender of the newest message, in this chat.
    pub(crate) async fn read_allowance(&mut self, agent: &Agent) -> Result<(), TurnError> {
        self.allowance = agent.allowance(&self.lease.chat, &self.newest).await?;
        Ok(())
    }

    /// Commits to the turn, and stores its reply or notice. The usage of a reply is counted, and a limit that is near is told
    /// at its end.
    pub(crate) async fn put_reply(
        &mut self,
        agent: &Agent,
        kind: Kind,
        mut message: UiMessage,
    ) -> Result<ReplyAppended, TurnError> {
        self.commit(&agent.history).await?;
        let used = agent.usage.used(&message.metadata);
        let near = if message.has_open_call() { Vec::new() } else { self.allowance.near(used) };
        let counts = self.allowance.additions(used, !near.is_empty());
        if !counts.is_empty() {
            let texts = self.texts(agent.language);
            let lines = near.iter().map(|quota| media::note(format!("\n{}", texts.limit_near(quota))));
            message.parts.extend(lines);
        }
        let newest = &self.newest;
        let is_covered = |record: &&Record| {
            !record.key.belongs_to_reply()
                && !record.key.is_reply()
                && self.turn.covers.contains(&record.key.base())
        };
        let reply = Reply {
            is_notice: kind == Kind::Notice,
            channel: newest.channel,
            chat_id: newest.chat_id.clone(),
            agent_id: agent.agent_id.clone(),
            message,
            follows: newest.key.base(),
            follows_id: newest.message_id.clone(),
            asked_at: Some(newest.sent_at),
            covers: self.turn.covers.clone(),
            covered_until: self.records.iter().filter(is_covered).map(|record| record.expires_at).collect(),
            revision: newest.replaces_from().map_or(0, |_| newest.revision()),
            trace: self.take_trace(agent),
            counts,
        };
        Ok(agent.history.append_reply(&self.lease.chat, reply).await?)
    }

    /// Takes the trace of the turn so far, and adds the delivery of the chat's reply before, which only the head has yet.
    fn take_trace(&self, agent: &Agent) -> Option<Trace> {
        let before = self.lease.head.delivered.clone().map(Box::new);
        agent.recorder.take().map(|trace| Trace { before, ..trace })
    }

    /// Stores the form of `reply` after `form`, and counts the usage since that. If it is there already, another run has
    /// stored it, and continues.
    pub(crate) async fn put_form(
        &self,
        agent: &Agent,
        reply: &Record,
        form: &Record,
        message: UiMessage,
    ) -> Result<Record, TurnError> {
        let (history, trace) = (&agent.history, self.take_trace(agent));
        let used = |message: &UiMessage| agent.usage.used(&message.metadata);
        let counts = self.allowance.additions(used(&message).since(used(&form.message)), false);
        match history.append_reply_form(reply, form.revision() + 1, message, trace, &counts).await? {
            ReplyAppended::Stored(form) => Ok(form),
            ReplyAppended::Present(_) => {
                self.confirm(history).await?;
                Err(TurnError::Unfinished)
            }
        }
    }
}
