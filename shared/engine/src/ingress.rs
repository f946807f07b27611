//! Handles a parsed message for every channel: appends it, then queues its turn. Only then may the channel acknowledge
//! it.
//!
//! # Layout
//!
//! - `admission.rs`: check of `ALLOW_FROM` and `ALLOW_CHATS`
//! - [`settings`]: its settings
//! - `approving.rs`: `/approve`, `/deny` and the buttons
//! - [`people`]: the chat of a direct message; `linking.rs`: `/link` and `/unlink`
//! - [`operating`]: chats that an operator takes over, and messages that an operator sends
//! - `recollection.rs`: `/memory`, `/forget` and `/timezone`
//! - `reminding.rs`: `/remind`
//! - `stop.rs`: `/stop`

mod admission;
mod approving;
mod linking;
pub mod operating;
pub mod people;
mod recollection;
mod reminding;
pub mod settings;
mod stop;

use std::mem::discriminant;
use std::sync::Arc;
use std::time::Duration;

use annals_channel::delivery::{DeliveryError, NO_PROGRESS, OutgoingReply};
use annals_channel::settings::DmScope;
use annals_core::agents::Agents;
use annals_core::chat_key::KeyError;
use annals_core::command::Command;
use annals_core::draft::{Asks, Draft};
use annals_core::language::Language;
use annals_core::message::{Part, Role, UiMessage};
use annals_core::metadata::Notice;
use annals_core::record::{Kind, Record};
use annals_core::sort_key::{SortKey, Timestamp};
use annals_core::texts::Texts;
use annals_io::metrics::{Metric, Metrics};
use annals_store::history::{Appended, Cursor, History, HistoryError, Outcome, Position};
use annals_store::memory::{Memory, MemoryError};
use annals_store::people::People;
use annals_store::queue::{QueueError, Turn, TurnQueue};

use crate::delivery::Deliverer;
use crate::scheduling::Scheduling;
use crate::usage::{self, Allowance, Prices, UsageConfig};

pub use self::approving::refused;
pub use self::settings::IngressConfig;

/// Number of records before a command that are read for its sender's language, if it shows none.
const LANGUAGE_RECORDS: usize = 20;

/// Age up to which an arriving message is not late. A late message is announced by a turn.
pub const PROMPT: Duration = Duration::from_secs(10);

/// Appends messages and queues turns.
#[derive(Clone)]
pub struct Ingress {
    history: History,
    memory: Memory,
    people: People,
    queue: Arc<dyn TurnQueue>,
    config: Arc<IngressConfig>,
    deliverer: Deliverer,
    metrics: Metrics,
}

/// A message was not, or may not have been, stored with its turn queued: the platform must deliver it again.
#[derive(Debug, thiserror::Error)]
pub enum IngressError {
    /// The message could not be stored, or a link not be read or changed. The next delivery does it.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// Memory could not do what a command asked for. The next delivery does it.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The message is stored, but its turn is not queued. The next delivery queues it.
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error("a person has no direct chat: {0}")]
    Key(KeyError),
    #[error("failed to make a code for a link: {0}")]
    Random(#[from] std::io::Error),
    /// A command was carried out, but its confirmation was not sent. The next delivery sends it.
    #[error("failed to send the confirmation of a command: {0}")]
    Confirmation(DeliveryError),
}

#[derive(Debug)]
pub struct Commanded {
    pub appended: Appended,
    /// Text for the user, if it has not been sent yet. After sending it, call [`Ingress::confirmed`].
    pub confirmation: Option<Confirmation>,
}

/// A confirmation that has to be sent to the user.
#[derive(Clone, Debug)]
pub struct Confirmation {
    pub text: String,
    /// The command, whose channel and chat it is sent to.
    pub to: Record,
    /// The base of the command, after which it is recorded.
    base: SortKey,
    /// The record's message.
    message: UiMessage,
}

/// The confirmation of a command.
struct Answered {
    text: String,
    /// The message of its record, whose text differs for a secret.
    message: UiMessage,
}

impl From<String> for Answered {
    fn from(text: String) -> Self {
        let message = UiMessage::text("", Role::Assistant, &text);
        Self { text, message }
    }
}

impl Ingress {
    /// Creates an ingress for `history`, its memory and `queue`. Counts nothing, and reaches no platform.
    pub fn new(history: History, queue: Arc<dyn TurnQueue>, config: impl Into<Arc<IngressConfig>>) -> Self {
        let (memory, people) = (Memory::beside(&history), People::beside(&history));
        let (config, metrics) = (config.into(), Metrics::default());
        Self { history, memory, people, queue, config, deliverer: Deliverer::default(), metrics }
    }

    /// Sets the deliverer that sends confirmations of commands, and asks a platform for the administrators of a group: they may
    /// approve calls there.
    #[must_use]
    pub fn with_deliverer(mut self, deliverer: Deliverer) -> Self {
        self.deliverer = deliverer;
        self
    }

    pub(crate) fn deliverer(&self) -> &Deliverer {
        &self.deliverer
    }

    /// Returns the language of all texts, if one is fixed.
    pub fn language(&self) -> Option<Language> {
        self.config.language
    }

    /// Returns the texts in the language of the sender of `draft`, by what the draft alone shows of it.
    pub fn texts_of(&self, draft: &Draft) -> Option<&'static dyn Texts> {
        let message = UiMessage::new("", Role::User, draft.parts.clone());
        let message = UiMessage { metadata: draft.metadata.clone(), ..message };
        self.config.language.or_else(|| Language::of_message(&message)).map(Language::texts)
    }

    /// Returns the texts in the language of the sender of `draft`. If the draft shows none, one query: earlier messages may.
    pub async fn texts(&self, draft: &Draft) -> Result<&'static dyn Texts, HistoryError> {
        if let Some(texts) = self.texts_of(draft) {
            return Ok(texts);
        }
        // Only records before the command, so that a repeated command gets the same result. A press may have no time.
        let position = match draft.key() {
            key if key.ts() > Timestamp::MIN => Position::Before(Cursor::at(&draft.chat, &key)),
            _ => Position::Newest,
        };
        let page = self.history.page(&draft.chat, &position, LANGUAGE_RECORDS).await?;
        Ok(Language::of_records(page.records.iter(), &draft.user_id).texts())
    }

    pub fn prices(&self) -> &Prices {
        &self.config.usage.prices
    }

    #[must_use]
    pub fn with_metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    pub fn history(&self) -> &History {
        &self.history
    }

    /// Returns what creates the schedules of chats.
    pub fn scheduling(&self) -> Scheduling {
        let (history, queue) = (self.history.clone(), Arc::clone(&self.queue));
        Scheduling { history, queue, language: self.config.language, access: self.config.access.clone() }
    }

    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Returns the agents, under whose ids replies are recorded.
    pub fn agents(&self) -> &Agents {
        &self.config.agents
    }

    /// Returns the draft of a message as its chat's own settings let it ask. One read for a message that is said in a group and
    /// not to the bot, none for others.
    pub async fn activated(&self, draft: Draft) -> Result<Draft, HistoryError> {
        if !draft.is_unaddressed {
            return Ok(draft);
        }
        let settings = self.history.head(&draft.chat).await?.settings;
        Ok(match settings.activation {
            Some(activation) => draft.asking_as(Asks::Unaddressed, activation),
            None => draft,
        })
    }

    /// Appends a message and, if it asks for an answer or is late, queues its turn. A duplicate queues it too, since
    /// the first delivery may have crashed between the two.
    ///
    /// A context is read from a position in the chat's head. A message that arrives with an older time would not be
    /// seen, and the run that moves the position cannot know of messages that are still to come. So a late message is
    /// announced by a turn that names it, and the run reads from there. A new form of a message needs no turn, since
    /// the message itself had one.
    pub async fn receive(&self, draft: &Draft) -> Result<Appended, IngressError> {
        let appended = self.append(draft).await?;
        let is_late = self.history.clock().now().since(draft.ts) > PROMPT;
        let is_later_form = matches!(appended.outcome, Outcome::Revision(_));
        if draft.asks || (is_late && !is_later_form) {
            let is_said = draft.asks && draft.kind == Kind::Normal;
            let at = (is_said && draft.channel.is_platform()).then(|| self.history.clock().now());
            self.enqueue(draft, &appended, at).await?;
        }
        Ok(appended)
    }

    /// Appends a message once more (see [`History::append_again`]) and queues its turn.
    pub async fn receive_again(
        &self,
        draft: &Draft,
        first: &Record,
        revision: u32,
    ) -> Result<Appended, IngressError> {
        let appended = self.history.append_again(draft, first, revision).await?;
        self.metrics.count(Metric::Revisions, draft.channel);
        self.enqueue(draft, &appended, None).await?;
        Ok(appended)
    }

    /// Queues the turn of a message that is stored at `base`, since its first request may have ended before that.
    pub async fn receive_stored(&self, draft: &Draft, base: SortKey) -> Result<Appended, IngressError> {
        let appended = Appended { base, outcome: Outcome::Duplicate };
        self.metrics.count(Metric::Duplicates, draft.channel);
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

    /// Carries out a command at once, independently of any run.
    ///
    /// `/stop` takes the chat from its run. `/forget` deletes an entry of memory. `/new` and `/reset` append a
    /// boundary; the text after `/new` is the first message of the new Session. `/compact` is queued as the chat's next
    /// turn, which carries it out and answers. If the id is already that of a message, the command is stored as a new
    /// form of that message, like an edit.
    pub async fn command(&self, command: &Command, draft: &Draft) -> Result<Commanded, IngressError> {
        let records = self.history.message_anywhere(&draft.chat, &draft.key()).await?;
        let first = records.iter().find(|record| record.key == draft.key());
        if first.is_some_and(|first| !matches!(first.kind(), Kind::Boundary | Kind::Notice)) {
            return Ok(Commanded { appended: self.receive(draft).await?, confirmation: None });
        }
        self.carry_out(command, draft).await
    }

    /// Like [`Ingress::command`], for endpoints that accept only commands. Returns `None` and stores nothing if the id
    /// is already that of a message, of another command, or of a command that became a message. The same command with other
    /// words after it is a duplicate: the first words count.
    pub async fn command_alone(
        &self,
        command: &Command,
        draft: &Draft,
    ) -> Result<Option<Commanded>, IngressError> {
        let is_other = |form: &Record| {
            let known = Command::parse(&form.message.plain_text(), None);
            matches!(form.kind(), Kind::Normal | Kind::Event)
                || known.is_none_or(|known| discriminant(&known) != discriminant(command))
        };
        let records = self.history.message_anywhere(&draft.chat, &draft.key()).await?;
        let is_form = |record: &&Record| record.role() == Role::User && !record.key.belongs_to_reply();
        let forms: Vec<&Record> = records.iter().filter(is_form).collect();
        if forms.iter().any(|form| is_other(form)) {
            return Ok(None);
        }
        let newest = forms.last().map(|form| draft.clone().with_parts(form.message.parts.clone()));
        self.carry_out(command, newest.as_ref().unwrap_or(draft)).await.map(Some)
    }

    /// Returns the confirmation of the command at `base`, if it was sent.
    pub async fn confirmation_of(
        &self,
        draft: &Draft,
        base: &SortKey,
    ) -> Result<Option<Record>, IngressError> {
        let records = self.history.message_anywhere(&draft.chat, &draft.key()).await?;
        Ok(records.into_iter().find(|record| record.key == base.notice()))
    }

    async fn carry_out(&self, command: &Command, draft: &Draft) -> Result<Commanded, IngressError> {
        if *command == Command::Compact {
            let own = draft.clone().of_kind(Kind::Notice).asking(true);
            return Ok(Commanded { appended: self.receive(&own).await?, confirmation: None });
        }
        let kind = if command.is_boundary() { Kind::Boundary } else { Kind::Notice };
        let own = draft.clone().of_kind(kind).asking(false);
        let appended = match command {
            // The text is appended as a message of its own.
            Command::New { first_message: Some(_) } => self.history.append(&own).await?,
            _ => self.append(&own).await?,
        };
        if let Command::New { first_message: Some(first_message) } = command {
            let parts = vec![Part::text(first_message)];
            let opening = draft.clone().with_parts(parts).asking(true).opening_session(true);
            let appended = self.receive(&opening).await?;
            return Ok(Commanded { appended, confirmation: None });
        }
        if command.is_boundary() {
            // This turn captures the ended Session's memory, while nobody waits for an answer.
            self.enqueue(draft, &appended, None).await?;
        }
        let told = appended.outcome != Outcome::Stored
            && self.confirmation_of(draft, &appended.base).await?.is_some();
        // A confirmed command has been carried out: do not repeat it. Boxed, since some of these futures are large.
        let text = if told { None } else { Box::pin(self.answer(command, draft, &appended)).await? };
        let confirmation = text.map(|answered| Confirmation {
            // Addressed like a message: no platform knows the id of a boundary.
            to: self.history.record_of(draft, draft.key(), 0),
            base: appended.base.clone(),
            message: answered.message,
            text: answered.text,
        });
        Ok(Commanded { appended, confirmation })
    }

    /// Sends a confirmation. If the platform will never accept it, that is only logged; also if it does not at the moment,
    /// unless `must_confirm`.
    pub async fn tell(
        &self,
        draft: &Draft,
        confirmation: &Confirmation,
        must_confirm: bool,
    ) -> Result<(), IngressError> {
        let reply = OutgoingReply {
            to: &confirmation.to,
            key: &confirmation.base.notice(),
            text: &confirmation.text,
            question: "",
            ts: self.history.clock().now(),
            moved_to: None,
            survives_recall: false,
            requests: &[],
        };
        match self.deliverer.deliver(reply, 0, NO_PROGRESS).await {
            Err(error @ DeliveryError::Unavailable { .. }) if must_confirm => {
                return Err(IngressError::Confirmation(error));
            }
            Err(error) => {
                tracing::warn!(%error, "failed to deliver the confirmation of a command; it is recorded without delivery");
                self.metrics.count(Metric::DeliveryFailures, draft.channel);
            }
            Ok(()) if self.deliverer.reaches(draft.channel) => {
                self.metrics.count(Metric::Deliveries, draft.channel);
            }
            Ok(()) => {}
        }
        Ok(())
    }

    /// Records that the confirmation was sent. Called after sending, so that a crash in between sends it twice rather
    /// than never.
    pub async fn confirmed(&self, draft: &Draft, confirmation: Confirmation) -> Result<(), IngressError> {
        let Confirmation { base, message, .. } = confirmation;
        let agent_id = self.config.agents.of_draft(draft);
        Ok(self.history.append_confirmation(draft, &base, agent_id, message).await?)
    }

    /// Carries out a command whose record is appended, and returns the confirmation. Can be repeated safely.
    async fn answer(
        &self,
        command: &Command,
        draft: &Draft,
        appended: &Appended,
    ) -> Result<Option<Answered>, IngressError> {
        if matches!(command, Command::New { first_message: Some(_) } | Command::Compact) {
            return Ok(None);
        }
        let texts = self.texts(draft).await?;
        let text = match command {
            Command::Link { step } => return Ok(Some(self.link_step(step, draft, appended, texts).await?)),
            Command::Unlink => Some(self.unlink(draft, appended, texts).await?),
            Command::Usage => {
                let now = self.history.clock().now();
                let person = draft.sender();
                let UsageConfig { prices, .. } = &*self.config.usage;
                let links = self.config.dm_scope == DmScope::User;
                let (history, chat) = (&self.history, &draft.chat);
                let allowance = Allowance::read(&self.config.usage, history, chat, &person, links).await?;
                Some(usage::told(history, chat, &person, now, prices, &allowance, texts).await?)
            }
            Command::Remind { step } => Some(self.remind(draft, step, appended, texts).await?),
            Command::Stop => return Ok(Some(self.stop(draft, appended, texts).await?)),
            Command::Memory { up_to } => Some(self.recollect(draft, *up_to, texts).await?),
            Command::UndoMemory { number } => Some(self.undo(draft, *number, texts).await?),
            Command::TimeZone { zone } => Some(self.tell_time_zone(draft, zone.as_deref(), texts).await?),
            Command::Forget { number } => Some(self.forget(draft, *number, texts).await?),
            Command::Approve { which } => {
                Some(self.approve(draft, appended, which, true, None, texts).await?)
            }
            Command::Deny { which, reason } => {
                Some(self.approve(draft, appended, which, false, reason.as_deref(), texts).await?)
            }
            Command::New { .. } | Command::Reset | Command::Compact | Command::Start | Command::Help => {
                command.confirmation(texts)
            }
        };
        Ok(text.map(Answered::from))
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

/// Returns true if `record` confirms a `/stop` that ended something.
pub fn confirms_stop(record: &Record) -> bool {
    // Records of earlier versions have the English text alone.
    record.message.metadata.notice() == Some(Notice::Stopped)
        || record.message.plain_text() == Language::En.texts().stopped()
}
