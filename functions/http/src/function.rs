//! The function of the API, at API Gateway or at a function URL that streams.

use annals_core::settings::Env;
use annals_engine::ingress::IngressConfig;
use annals_engine::profiles::ProfilesSetting;
use annals_engine::settings::{MemoryConfig, ViewConfig};
use annals_io::clock::Clock;
use annals_runtime::gateway;
use annals_runtime::process::{FunctionError, Process};

use crate::chat::Web;
use crate::settings::{HttpConfig, HttpResponses};
use crate::{Http, router};

/// Settings of the function.
pub struct Config {
    http: HttpConfig,
    responses: HttpResponses,
    view: ViewConfig,
    memory: MemoryConfig,
    profiles: ProfilesSetting,
    ingress: IngressConfig,
}

impl Config {
    /// Reads the settings.
    pub fn from_env(env: Env<'_>, _: &Clock) -> Result<Self, FunctionError> {
        let (http, memory) = (HttpConfig::deployed(env)?, MemoryConfig::from_env(env)?);
        Ok(Self {
            profiles: ProfilesSetting::from_env(env, &memory.agents, http.models.clone())?,
            responses: HttpResponses::from_env(env)?,
            view: ViewConfig::from_env(env)?,
            ingress: IngressConfig::from_env(env)?,
            http,
            memory,
        })
    }
}

/// Serves the API.
pub async fn serve(config: Config, process: Process) -> Result<(), FunctionError> {
    let Config { http, responses, view, memory, profiles, ingress } = config;
    let profiles = process.profiles(&profiles).await?;
    let ingress = process.ingress(ingress);
    let web = Web::buffered(ingress.clone());
    let http = Http::new(http, ingress, web, view, (memory, profiles));
    let router = process.reporter.of_router(router(http));
    match responses {
        HttpResponses::Buffered => gateway::serve(router).await,
        HttpResponses::Streaming => gateway::stream(router).await,
    }
}
