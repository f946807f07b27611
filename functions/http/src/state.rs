//! State of the API, which every handler has: [`Http`].

use std::sync::Arc;
use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::record::Channel;
use annals_core::sort_key::SortKey;
use annals_engine::ingress::Ingress;
use annals_engine::live::Live;
use annals_engine::profiles::Profiles;
use annals_engine::settings::{MemoryConfig, ViewConfig};
use annals_io::clock::Clock;
use annals_io::random;
use annals_store::history::turn::Head;
use futures::future::BoxFuture;

use crate::limit::Limits;
use crate::settings::HttpConfig;

/// Everything that the API needs.
pub struct Http {
    /// Appends and enqueues messages, and reads histories.
    pub ingress: Ingress,
    /// Keys of the callers, and other settings.
    pub config: HttpConfig,
    /// State of `/api/chat`.
    pub web: Web,
    /// Settings of a context.
    pub view: ViewConfig,
    /// `MEMORY`, `CAPTURE_GROUP_MEMORY`, `AGENTS`
    pub memory: MemoryConfig,
    /// The profiles of `AGENTS`.
    pub profiles: Profiles,
    /// Returns an id for a message that comes without one: unique, 1 to 256 bytes.
    pub new_id: fn() -> String,
    /// Runs after a chat is forgotten, before the request is answered.
    pub after_forgetting: Option<AfterForgetting>,
    /// `HTTP_RATE_LIMIT`: calls of one key to this process.
    pub limits: Limits,
    /// The time.
    pub clock: Clock,
}

impl Http {
    /// Returns the system prompt of a chat with this head and the agent `id`.
    pub(crate) fn system_prompt(&self, id: &str, head: &Head) -> Option<String> {
        self.profiles.system_prompt(id, self.config.system_prompt.as_deref(), &head.settings)
    }

    /// Returns the API of `config`, whose time is that of the history.
    pub fn new(
        config: HttpConfig,
        ingress: Ingress,
        web: Web,
        view: ViewConfig,
        (memory, profiles): (MemoryConfig, Profiles),
    ) -> Self {
        Self {
            clock: ingress.history().clock().clone(),
            limits: Limits::new(config.rate_limit),
            config,
            ingress,
            web,
            view,
            memory,
            profiles,
            new_id: random_id,
            after_forgetting: None,
        }
    }
}

/// Removes the data about a chat, under each of its names, that a program keeps outside the stores of the histories.
pub type AfterForgetting = Arc<dyn Fn(Vec<ChatKey>) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// Runs the queued turn of the message at a key in this process, and returns when that run is over.
pub type Run = Arc<dyn Fn(ChatKey, SortKey) -> BoxFuture<'static, ()> + Send + Sync>;

/// State of `/api/chat`.
#[derive(Clone)]
pub struct Web {
    /// Appends and enqueues messages of rooms.
    pub ingress: Ingress,
    /// Broadcasts the runs of this process.
    pub live: Live,
    /// Runs a turn at once, if nothing else in this process does.
    pub run: Option<Run>,
    /// Longest time that a stream waits for its reply.
    pub patience: Duration,
    /// Channel of the messages: `Web`; or `Terminal`, where each room is the direct chat of its user.
    pub channel: Channel,
}

impl Web {
    /// Returns the state of a program in which no agent runs: replies arrive whole, within the time limit of an HTTP API.
    pub fn buffered(ingress: Ingress) -> Self {
        let patience = Duration::from_secs(25);
        Self { ingress, live: Live::default(), run: None, patience, channel: Channel::Web }
    }
}

/// Returns an id for a message that comes without one: 128 random bits in hex.
pub fn random_id() -> String {
    format!("msg_{}", random::hex::<16>())
}
