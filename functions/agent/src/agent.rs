//! The services and settings that a run of the agent works with: [`Agent`].

use std::sync::Arc;
use std::time::Duration;

use annals_channel::surroundings::Surroundings;
use annals_core::chat_key::ChatKey;
use annals_core::chat_settings::ChatSettings;
use annals_core::context::Policy;
use annals_core::language::Language;
use annals_core::record::Record;
use annals_core::time_marks;
use annals_core::tokens;
use annals_engine::compaction::Compaction;
use annals_engine::delivery::Deliverer;
use annals_engine::ingress::Ingress;
use annals_engine::live::Live;
use annals_engine::settings::{AgentConfig, MemoryConfig, ViewConfig};
use annals_engine::usage::{Allowance, AllowanceError, UsageConfig};
use annals_io::clock::Clock;
use annals_io::metrics::Metrics;
use annals_io::recorder::Recorder;
use annals_model::{Model, Models};
use annals_store::history::History;

use crate::mcp::Servers;

/// The function's timeout in the template, after which no run of it is alive.
pub const LEASE: Duration = Duration::from_mins(5);

/// Answers chats.
#[derive(Clone)]
pub struct Agent {
    /// The histories.
    pub history: History,
    /// The model that answers: in a run that of its chat.
    pub model: Model,
    /// The models that chats may have. The one of `MODEL` makes summaries and captures memory, in all chats.
    pub models: Models,
    /// Sends replies to their channels.
    pub deliverer: Deliverer,
    /// Fetch the messages around those of groups, for platforms that do not send them.
    pub surroundings: Vec<Arc<dyn Surroundings>>,
    /// The settings of a context.
    pub view: ViewConfig,
    /// `MEMORY`, `CAPTURE_GROUP_MEMORY`
    pub memory: MemoryConfig,
    /// The servers of `TOOLS`.
    pub servers: Option<Arc<Servers>>,
    /// `SYSTEM_PROMPT`, in a run with the prompt of its chat.
    pub system_prompt: Option<String>,
    /// `LANGUAGE`: the language of the bot's own texts; `None` for that of each person.
    pub language: Option<Language>,
    /// `AGENT_ID`: the author of replies.
    pub agent_id: String,
    /// Counters of turns and deliveries.
    pub metrics: Metrics,
    /// Recorder of the run that this clone works for, also in its model; the default outside of runs.
    pub recorder: Recorder,
    /// Publishes runs to listeners in this process.
    pub live: Live,
    /// `STREAM_REPLIES`: true if private chats of Telegram see an answer grow, which is read from `live`.
    pub stream_replies: bool,
    /// Maximum time for which one run may hold a chat: the maximum lifetime of the process.
    pub lease: Duration,
    /// `REPLY_QUIET`, in a run that of its chat: quiet time before a chat is answered whose people write in bursts.
    pub quiet: Duration,
    /// `MODEL_PRICES`, `LIMITS`: the usage that is left for each reply.
    pub usage: Arc<UsageConfig>,
    /// Appends what is sent to other chats, and queues their turns; `None` if nothing is.
    pub outgoing: Option<Ingress>,
    /// The time.
    pub clock: Clock,
}

impl Agent {
    /// Creates an agent without tools that answers at once, delivers nowhere and has no listeners.
    pub fn new(history: History, models: impl Into<Models>, config: &AgentConfig) -> Self {
        let models = models.into();
        Self {
            clock: history.clock().clone(),
            history,
            model: models.main().clone(),
            models,
            deliverer: Deliverer::default(),
            surroundings: Vec::new(),
            view: config.view,
            memory: config.memory,
            servers: None,
            system_prompt: config.system_prompt.clone(),
            language: config.language,
            agent_id: config.agent_id.clone(),
            metrics: Metrics::default(),
            recorder: Recorder::default(),
            live: Live::default(),
            stream_replies: false,
            lease: LEASE,
            quiet: Duration::ZERO,
            usage: Arc::default(),
            outgoing: None,
        }
    }

    /// Reads the usage that is left in `chat` for the sender of `asked`.
    pub(crate) async fn allowance(
        &self,
        chat: &ChatKey,
        asked: &Record,
    ) -> Result<Allowance, AllowanceError> {
        Allowance::read(&self.usage, &self.history, chat, &asked.sender(), self.memory.links).await
    }

    /// Returns this agent for one run of a chat with these settings, all of which is recorded in `recorder`.
    pub(crate) fn for_run(&self, settings: &ChatSettings, recorder: Recorder) -> Self {
        let model = settings.model.as_deref().and_then(|name| {
            let model = self.models.named(name);
            if model.is_none() {
                tracing::warn!(name, "the model of a chat is not in MODELS any more; MODEL answers");
            }
            model
        });
        Self {
            model: model.unwrap_or(&self.model).clone().with_recorder(&recorder),
            system_prompt: settings.system_prompt(self.system_prompt.as_deref()),
            // By the settings of the program it has waited before it read those of the chat.
            quiet: settings.reply_quiet.map_or(self.quiet, |quiet| quiet.duration().max(self.quiet)),
            recorder,
            ..self.clone()
        }
    }

    /// Returns the model that makes summaries and captures memory.
    pub(crate) fn summarizer(&self) -> Model {
        self.models.main().clone().with_recorder(&self.recorder)
    }

    /// Returns the compaction of this agent's chats.
    pub(crate) fn compaction(&self) -> Compaction {
        Compaction {
            history: self.history.clone(),
            model: self.summarizer(),
            view: self.view,
            agent_id: self.agent_id.clone(),
            metrics: self.metrics.clone(),
        }
    }

    /// Returns the token estimate of the system prompt and the current time.
    pub(crate) fn prompt_tokens(&self) -> u32 {
        self.system_prompt.as_deref().map_or(0, tokens::of_text).saturating_add(time_marks::now_tokens())
    }

    /// Returns the policy of a context that is sent with the system prompt and `other_tokens` more.
    pub(crate) fn policy(&self, other_tokens: u32) -> Policy {
        self.view.policy(self.prompt_tokens().saturating_add(other_tokens))
    }
}
