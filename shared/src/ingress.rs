//! What every door does with a parsed message: append it, then queue its turn. Only then may it be acknowledged.
//!
//! What `/memory` and `/forget` say is in `recollection.rs`, what `/stop` does in `stop.rs`, who may allow a call in
//! `approving.rs`, who may use the bot in `admission.rs`.

mod admission;
mod approving;
mod recollection;
mod stop;

use std::mem::discriminant;
use std::sync::Arc;
use std::time::Duration;

use crate::access::Access;
use crate::command::Command;
use crate::delivery::{Deliverer, DeliveryError, NO_PROGRESS, Parcel};
use crate::history::{Appended, History, HistoryError, Outcome, Reply};
use crate::memory::{Memory, MemoryError};
use crate::message::{Part, Role, UiMessage};
use crate::metrics::{Metric, Metrics};
use crate::queue::{QueueError, Turn, TurnQueue};
use crate::record::{Draft, Kind, Record};
use crate::sort_key::{SortKey, Timestamp};

pub use approving::{Approvers, Effect, Told};
pub use stop::STOPPED;

/// How long a message may take from its platform's clock to ours without being late. A late one is announced by a turn.
pub const PROMPT: Duration = Duration::from_secs(10);

/// Appends and enqueues.
#[derive(Clone)]
pub struct Ingress {
    history: History,
    memory: Memory,
    memory_is_on: bool,
    queue: Arc<dyn TurnQueue>,
    agent_id: String,
    approvers: Approvers,
    access: Access,
    metrics: Metrics,
}

/// A message is not, or not known to be, stored with its turn queued: the platform must deliver it again.
#[derive(Debug, thiserror::Error)]
pub enum IngressError {
    /// It could not be stored.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// What a command asks of memory could not be done; the redelivery does it.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// It is stored, but its turn is not queued; the redelivery queues it.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// A command has acted, but the user is not told; the redelivery tells.
    #[error("a confirmation was not sent: {0}")]
    Confirmation(DeliveryError),
}

/// What became of a command.
#[derive(Debug)]
pub struct Commanded {
    /// What became of its record.
    pub appended: Appended,
    /// What to tell the user, if it has not been told; store it with [`Ingress::confirmed`] once it is.
    pub confirmation: Option<Confirmation>,
}

/// A confirmation on its way to the user.
#[derive(Clone, Debug)]
pub struct Confirmation {
    /// The text.
    pub text: String,
    /// The command, whose door it goes out by.
    pub to: Record,
    /// Where it will be recorded.
    pub key: SortKey,
    reply: Reply,
}

impl Ingress {
    /// An ingress to `history`, the memory beside it and `queue`, for the agent `agent_id`; nothing is counted.
    pub fn new(history: History, queue: Arc<dyn TurnQueue>, agent_id: String) -> Self {
        let approvers = Approvers::default();
        let metrics = Metrics::default();
        let access = Access::default();
        let memory = Memory::beside(&history);
        Self { memory, memory_is_on: true, history, queue, agent_id, approvers, access, metrics }
    }

    /// The same ingress, which by `MEMORY` says whether memory is on.
    #[must_use]
    pub fn with_memory(mut self, is_on: bool) -> Self {
        self.memory_is_on = is_on;
        self
    }

    /// The same ingress, which counts in `metrics`.
    #[must_use]
    pub fn with_metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// The histories.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// What is remembered of people and groups.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The agent's id, under which replies are recorded.
    pub fn agent_id(&self) -> &str {
        &self.agent_id
    }

    /// Appends a message and, if it asks for an answer or is late, queues its turn: also for a duplicate, since its
    /// first delivery may have crashed between the two.
    ///
    /// A context is read from where the chat's head says on, and what arrives below that would not be seen; a run that
    /// moves it cannot look for what is still to come. So what arrives with an older time announces itself: its turn
    /// names it, and the run reads from there. A later form needs no announcement: it stands beside a message that had
    /// its own.
    pub async fn receive(&self, draft: &Draft) -> Result<Appended, IngressError> {
        let appended = self.append(draft).await?;
        let is_late = self.history.clock().now().since(draft.ts) > PROMPT;
        let is_later_form = matches!(appended.outcome, Outcome::Revision(_));
        if draft.asks || (is_late && !is_later_form) {
            let is_said = draft.asks && draft.kind == Kind::Normal;
            let at = (is_said && draft.channel.has_bursts()).then(|| self.history.clock().now());
            self.enqueue(draft, &appended, at).await?;
        }
        Ok(appended)
    }

    /// Appends a message that was said before once more (see [`History::append_again`]), and queues its turn.
    pub async fn receive_again(
        &self,
        draft: &Draft,
        replaces: &SortKey,
        revision: u32,
    ) -> Result<Appended, IngressError> {
        let appended = self.history.append_again(draft, replaces, revision).await?;
        self.metrics.count(Metric::Revisions, draft.channel);
        self.enqueue(draft, &appended, None).await?;
        Ok(appended)
    }

    async fn append(&self, draft: &Draft) -> Result<Appended, HistoryError> {
        let appended = self.history.append(draft).await?;
        let metric = match appended.outcome {
            Outcome::Stored => Metric::Messages,
            Outcome::Duplicate => Metric::Duplicates,
            Outcome::Revision(_) => Metric::Revisions,
        };
        self.metrics.count(metric, draft.channel);
        Ok(appended)
    }

    /// Carries out a command, at once and beside any run.
    ///
    /// `/stop` takes the chat from its run. `/forget` deletes an entry of memory. `/new` and `/reset` append a boundary; the text behind `/new` is the new
    /// Session's first message. `/compact` is queued as the chat's next turn, which carries it out and answers. Under
    /// the id of a message a command is no command but a later form of that message, as an edit to it is.
    pub async fn command(&self, command: &Command, draft: &Draft) -> Result<Commanded, IngressError> {
        let records = self.history.message_of(draft).await?;
        let first = records.iter().find(|record| record.key == draft.key());
        if first.is_some_and(|first| !matches!(first.kind, Kind::Boundary | Kind::Notice)) {
            return Ok(Commanded { appended: self.receive(draft).await?, confirmation: None });
        }
        self.carry_out(command, draft).await
    }

    /// The same for a door that commands and does nothing else: `None`, and nothing stored, where the id is that of a
    /// message, or of another command, or of one that became a message.
    pub async fn command_alone(
        &self,
        command: &Command,
        draft: &Draft,
    ) -> Result<Option<Commanded>, IngressError> {
        let is_other = |form: &Record| {
            let known = Command::parse(&form.message.plain_text(), None);
            matches!(form.kind, Kind::Normal | Kind::Event)
                || known.is_none_or(|known| discriminant(&known) != discriminant(command))
        };
        let records = self.history.message_of(draft).await?;
        let is_form = |record: &&Record| record.role() == Role::User && !record.key.hangs_on_reply();
        if records.iter().filter(is_form).any(is_other) {
            return Ok(None);
        }
        self.carry_out(command, draft).await.map(Some)
    }

    /// What confirmed the command at `base`, if its user was told.
    pub async fn confirmation_of(
        &self,
        draft: &Draft,
        base: &SortKey,
    ) -> Result<Option<Record>, IngressError> {
        let records = self.history.message_of(draft).await?;
        Ok(records.into_iter().find(|record| record.key == base.notice()))
    }

    async fn carry_out(&self, command: &Command, draft: &Draft) -> Result<Commanded, IngressError> {
        if *command == Command::Compact {
            let own = Draft { kind: Kind::Notice, asks: true, ..draft.clone() };
            return Ok(Commanded { appended: self.receive(&own).await?, confirmation: None });
        }
        let kind = if command.is_boundary() { Kind::Boundary } else { Kind::Notice };
        let own = Draft { kind, asks: false, ..draft.clone() };
        let appended = match command {
            // Its text is the message.
            Command::New { first_message: Some(_) } => self.history.append(&own).await?,
            _ => self.append(&own).await?,
        };
        if let Command::New { first_message: Some(first_message) } = command {
            let parts = vec![Part::text(first_message)];
            let opening = Draft { parts, asks: true, opens_session: true, ..draft.clone() };
            let appended = self.receive(&opening).await?;
            return Ok(Commanded { appended, confirmation: None });
        }
        if command.is_boundary() {
            // The Session that it ends is looked at for what is worth remembering, while nobody waits for an answer.
            self.enqueue(draft, &appended, None).await?;
        }
        let told = appended.outcome != Outcome::Stored
            && self.confirmation_of(draft, &appended.base).await?.is_some();
        // What has been told has been done: a repeat does nothing more.
        // On the heap: some go a long way.
        let text = if told { None } else { Box::pin(self.answer(command, draft, &appended)).await? };
        let confirmation = text.map(|text| Confirmation {
            // As a message, since a boundary's own id is none that a platform could quote.
            to: self.history.record_of(draft, draft.key(), 0),
            key: appended.base.notice(),
            reply: Reply {
                kind: Kind::Notice,
                channel: draft.channel,
                chat_id: draft.chat_id.clone(),
                agent_id: self.agent_id.clone(),
                message: UiMessage::text("", Role::Assistant, &text),
                behind: appended.base.clone(),
                behind_id: draft.message_id.clone(),
                asked_at: None,
                covers: Vec::new(),
                revision: 0,
                covered_until: Vec::new(),
            },
            text,
        });
        Ok(Commanded { appended, confirmation })
    }

    /// Carries out a command and tells the user, through `deliverer`, at `now`. Where the platform will never take the
    /// confirmation, it is recorded all the same.
    pub async fn command_and_tell(
        &self,
        command: &Command,
        draft: &Draft,
        deliverer: &Deliverer,
        now: Timestamp,
    ) -> Result<Appended, IngressError> {
        let Commanded { appended, confirmation } = Box::pin(self.command(command, draft)).await?;
        let Some(confirmation) = confirmation else { return Ok(appended) };
        let parcel = Parcel {
            to: &confirmation.to,
            key: &confirmation.key,
            text: &confirmation.text,
            question: "",
            ts: now,
            moved_to: None,
            buttons: &[],
        };
        match deliverer.deliver(parcel, 0, NO_PROGRESS).await {
            Err(error @ DeliveryError::Unavailable { .. }) => return Err(IngressError::Confirmation(error)),
            Err(error) => {
                tracing::warn!(%error, "a confirmation cannot be delivered");
                self.metrics.count(Metric::DeliveryFailures, draft.channel);
            }
            Ok(()) if deliverer.reaches(draft.channel) => {
                self.metrics.count(Metric::Deliveries, draft.channel);
            }
            Ok(()) => {}
        }
        Box::pin(self.confirmed(draft, confirmation)).await?;
        Ok(appended)
    }

    /// Records that the user was told. Called after the telling: a crash between the two tells it once more rather
    /// than never.
    pub async fn confirmed(&self, draft: &Draft, confirmation: Confirmation) -> Result<(), IngressError> {
        self.history.append_reply(&draft.chat, confirmation.reply).await?;
        Ok(())
    }

    /// Does what a command does beside its record, and answers with what there is to say of it. Safe to repeat.
    async fn answer(
        &self,
        command: &Command,
        draft: &Draft,
        appended: &Appended,
    ) -> Result<Option<String>, IngressError> {
        match command {
            Command::Stop => Ok(Some(self.stop(draft, appended).await?)),
            Command::Memory { up_to } => Ok(Some(self.recollect(draft, *up_to).await?)),
            Command::UndoMemory { number } => Ok(Some(self.undo(draft, *number).await?)),
            Command::Forget { number } => Ok(Some(self.forget(draft, *number).await?)),
            Command::Approve { which } => Ok(Some(self.approve(draft, which, true, None).await?)),
            Command::Deny { which, reason } => {
                Ok(Some(self.approve(draft, which, false, reason.as_deref()).await?))
            }
            Command::New { .. } | Command::Reset | Command::Compact | Command::Start | Command::Help => {
                Ok(command.confirmation())
            }
        }
    }

    async fn enqueue(
        &self,
        draft: &Draft,
        appended: &Appended,
        at: Option<Timestamp>,
    ) -> Result<(), QueueError> {
        let turn = Turn { chat: draft.chat.clone(), from: appended.base.clone(), at };
        self.queue.enqueue(&turn).await
    }
}
