//! The profiles of a program's agents, read at start: [`Profiles`].

use std::collections::BTreeMap;
use std::sync::Arc;

use annals_core::agents::{Agents, Profile, ProfileError};
use annals_core::chat_settings::ChatSettings;
use annals_core::settings::{ConfigError, Env, Setting};
use annals_model::ModelChoice;

pub const AGENTS_FOLDER: Setting = Setting::described(
    "AGENTS_FOLDER",
    "`agents`; deployed none",
    "the folder of the [agents](guide.md#several-agents) that `AGENTS` names, or deployed `s3://<bucket>/<prefix>`; \
     read at start",
);

/// The place of the profiles, and their agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfilesSetting {
    pub folder: AgentsFolder,
    /// The ids of the agents: the names of their folders. If there are none, nothing is read.
    pub ids: Vec<String>,
    /// Names of the models that they may have.
    models: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentsFolder {
    Here(String),
    /// A prefix of a bucket.
    Stored {
        bucket: String,
        /// The prefix, without a slash at its end.
        prefix: String,
    },
}

impl ProfilesSetting {
    /// Reads the settings: `AGENTS_FOLDER`, and the agents of `agents`, which may have `models`.
    pub fn from_env(env: Env<'_>, agents: &Agents, models: Vec<String>) -> Result<Self, ConfigError> {
        let ids = agents.ids().into_iter().skip(1).map(str::to_owned).collect();
        let value = env.optional(AGENTS_FOLDER.name).unwrap_or_else(|| "agents".to_owned());
        let folder = match value.strip_prefix("s3://") {
            None => AgentsFolder::Here(value),
            Some(place) => match place.trim_end_matches('/').split_once('/') {
                Some((bucket, prefix)) if !bucket.is_empty() && !prefix.is_empty() => {
                    AgentsFolder::Stored { bucket: bucket.to_owned(), prefix: prefix.to_owned() }
                }
                _ => {
                    return Err(ConfigError::new(
                        AGENTS_FOLDER.name,
                        "must be a folder or s3://<bucket>/<prefix>",
                    ));
                }
            },
        };
        Ok(Self { folder, ids, models })
    }

    /// Returns the place as it is written in errors.
    pub fn place(&self) -> String {
        match &self.folder {
            AgentsFolder::Here(folder) => folder.clone(),
            AgentsFolder::Stored { bucket, prefix } => format!("s3://{bucket}/{prefix}"),
        }
    }

    /// Returns the profiles of all agents from the `files` of their folders, by the path in the folder.
    /// Fails with path and line of a file that cannot be used.
    pub fn parse(
        &self,
        mut files: BTreeMap<String, BTreeMap<String, String>>,
    ) -> Result<Profiles, ConfigError> {
        let mut all = Vec::new();
        for id in &self.ids {
            let own = files.remove(id).unwrap_or_default();
            let profile = Profile::parse(&self.place(), id, &own).map_err(|error| refused(&error))?;
            if let Some(model) = &profile.model
                && !self.models.contains(&model.name)
            {
                let problem = if model.name == ModelChoice::Echo.to_string() {
                    "the model echo only repeats messages: give one of MODEL, MODEL_FALLBACK and MODELS, or leave \
                     'model' out, and MODEL answers"
                        .to_owned()
                } else {
                    format!(
                        "the model {} is not one of MODEL, MODEL_FALLBACK and MODELS: add it to MODELS",
                        model.name
                    )
                };
                return Err(refused(&model.refused(problem)));
            }
            all.push(Arc::new(profile));
        }
        Ok(Profiles(all.into()))
    }
}

/// Returns the error of a program that does not start because of a file.
pub fn refused(error: &ProfileError) -> ConfigError {
    ConfigError::new(AGENTS_FOLDER.name, format!("is unusable: {error}"))
}

/// The profiles of all agents but the default one.
#[derive(Clone, Debug, Default)]
pub struct Profiles(Arc<[Arc<Profile>]>);

impl Profiles {
    /// Returns the profile of the agent `id`; `None` for the default agent.
    pub fn of(&self, id: &str) -> Option<&Arc<Profile>> {
        self.0.iter().find(|profile| profile.id == id)
    }

    pub fn all(&self) -> &[Arc<Profile>] {
        &self.0
    }

    /// Returns the system prompt of a chat with the agent `id`: that of its profile, or for the default agent `default`
    /// (`SYSTEM_PROMPT`), and after it the chat's own.
    pub fn system_prompt(&self, id: &str, default: Option<&str>, chat: &ChatSettings) -> Option<String> {
        chat.system_prompt(self.of(id).map(|profile| profile.prompt.as_str()).or(default))
    }
}
