//! The services and settings that a run of the agent works with: [`Agent`].

use std::sync::Arc;
use std::time::Duration;

use annals_core::agents::Profile;
use annals_core::chat_key::ChatKey;
use annals_core::context::Policy;
use annals_core::language::Language;
use annals_core::record::Record;
use annals_core::settings::ConfigError;
use annals_core::time_marks;
use annals_core::tokens;
use annals_engine::compaction::Compaction;
use annals_engine::delivery::Deliverer;
use annals_engine::ingress::Ingress;
use annals_engine::live::Live;
use annals_engine::profiles::{Profiles, refused};
use annals_engine::settings::{AgentConfig, MemoryConfig, ViewConfig};
use annals_engine::usage::{Allowance, UsageConfig};
use annals_io::clock::Clock;
use annals_io::metrics::Metrics;
use annals_io::recorder::Recorder;
use annals_model::{Model, Models};
use annals_store::history::turn::Lease;
use annals_store::history::{History, HistoryError, Position};

use crate::mcp::Servers;
use crate::tools::offered::OWN;

/// The function's timeout in the template, after which no run of it is alive.
pub const LEASE: Duration = Duration::from_mins(5);

/// Number of a chat's newest records among which the person who speaks is looked for.
const NEWEST_RECORDS: usize = 20;

/// Answers chats.
#[derive(Clone)]
pub struct Agent {
    pub history: History,
    /// The model that answers: in a run that of its chat.
    pub model: Model,
    /// The models that chats may have. The one of `MODEL` makes summaries and captures memory, in all chats.
    pub models: Models,
    /// Sends replies to their channels.
    pub deliverer: Deliverer,
    pub view: ViewConfig,
    /// `MEMORY`, `CAPTURE_GROUP_MEMORY`, `AGENTS`
    pub memory: MemoryConfig,
    /// The servers of `TOOLS`.
    pub servers: Option<Arc<Servers>>,
    /// `SYSTEM_PROMPT`, in a run that of its profile, with the prompt of its chat.
    pub system_prompt: Option<String>,
    /// `LANGUAGE`, in a run that of its profile: the language of the bot's own texts; `None` for that of each person.
    pub language: Option<Language>,
    /// The author of replies: `AGENT_ID`, in a run the agent of its chat.
    pub agent_id: String,
    /// The profiles of `AGENTS`.
    pub profiles: Profiles,
    /// The profile of the agent of a run's chat; `None` for the default agent.
    pub profile: Option<Arc<Profile>>,
    /// Counters of turns and deliveries.
    pub metrics: Metrics,
    /// Recorder of the run that this clone works for, also in its model; the default outside of runs.
    pub recorder: Recorder,
    /// Publishes runs to listeners in this process.
    pub live: Live,
    /// `STREAM_REPLIES`: true if private chats of Telegram see an answer grow.
    pub stream_replies: bool,
    /// Maximum time for which one run may hold a chat: the maximum lifetime of the process.
    pub lease: Duration,
    /// `REPLY_QUIET`, in a run that of its chat: quiet time before a chat is answered whose people write in bursts.
    pub quiet: Duration,
    /// `MODEL_PRICES`, `LIMITS`: the usage that is left for each reply.
    pub usage: Arc<UsageConfig>,
    /// Appends what is sent to other chats, and queues their turns; `None` if nothing is.
    pub outgoing: Option<Ingress>,
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
            view: config.view,
            memory: config.memory.clone(),
            servers: None,
            system_prompt: config.system_prompt.clone(),
            language: config.language,
            agent_id: config.agent_id.clone(),
            profiles: Profiles::default(),
            profile: None,
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
    pub(crate) async fn allowance(&self, chat: &ChatKey, asked: &Record) -> Result<Allowance, HistoryError> {
        Allowance::read(&self.usage, &self.history, chat, &asked.sender(), self.memory.links).await
    }

    /// Returns the same agent with these profiles.
    /// Fails with file and line of a profile that names a tool neither of this program nor of a server of `TOOLS`.
    pub fn with_profiles(self, profiles: Profiles) -> Result<Self, ConfigError> {
        let servers = self.servers.as_deref().map(Servers::names).unwrap_or_default();
        for tool in profiles.all().iter().flat_map(|profile| profile.tools.iter().flatten()) {
            let server = tool.name.split('/').next().unwrap_or_default();
            if !OWN.contains(&tool.name.as_str()) && !servers.contains(&server) {
                let problem =
                    format!("{} is neither a tool of this program nor one of a server of TOOLS", tool.name);
                return Err(refused(&tool.refused(problem)));
            }
        }
        Ok(Self { profiles, ..self })
    }

    /// Returns this agent for one run of the chat of `lease`, all of which is recorded in `recorder`: as the chat's agent, with
    /// the chat's own settings. Reads nothing, unless the rules need to know who speaks in the chat: then one query.
    pub(crate) async fn for_run(&self, lease: &Lease, recorder: Recorder) -> Result<Self, HistoryError> {
        let (chat, settings, agents) = (&lease.chat, &lease.head.settings, &self.memory.agents);
        let id = if agents.needs_person(chat) {
            let newest = self.history.page(chat, &Position::Newest, NEWEST_RECORDS).await?.records;
            agents.of_records(chat, &newest)
        } else {
            agents.of(chat, None)
        };
        let profile = self.profiles.of(id).cloned();
        let of_profile = profile.as_ref().and_then(|profile| profile.model.as_ref());
        let name = settings.model.as_deref().or(of_profile.map(|model| model.name.as_str()));
        let model = name.and_then(|name| {
            let model = self.models.named(name);
            if model.is_none() {
                tracing::warn!(name, "the model of a chat is not in MODELS any more; MODEL answers");
            }
            model
        });
        let language = profile.as_ref().and_then(|profile| profile.language);
        Ok(Self {
            model: model.unwrap_or(&self.model).clone().with_recorder(&recorder),
            system_prompt: self.profiles.system_prompt(id, self.system_prompt.as_deref(), settings),
            language: language.or(self.language),
            agent_id: id.to_owned(),
            // By the settings of the program it has waited before it read those of the chat.
            quiet: settings.reply_quiet.map_or(self.quiet, |quiet| quiet.duration().max(self.quiet)),
            profile,
            recorder,
            ..self.clone()
        })
    }

    /// Returns the model that makes summaries and captures memory.
    pub(crate) fn summarizer(&self) -> Model {
        self.models.main().clone().with_recorder(&self.recorder)
    }

    /// Returns the maximum number of rounds of calls that the profile gives a turn.
    pub(crate) fn max_rounds(&self) -> Option<u32> {
        self.profile.as_ref()?.rounds
    }

    /// Returns the compaction of this agent's chats.
    pub(crate) fn compaction(&self) -> Compaction {
        Compaction {
            history: self.history.clone(),
            model: self.summarizer(),
            view: self.view,
            agent_id: self.agent_id.clone(),
            profile_id: self.profile.as_ref().map(|profile| profile.id.clone()),
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
