//! The choice of a model: [`ModelChoice`], the value of `MODEL`, [`ModelSettings`], and the list of all providers.

use std::fmt;
use std::str::FromStr;

use secrecy::SecretString;
use serde_json::Value;

use super::anthropic::Anthropic;
use super::bedrock::Bedrock;
use super::failure;
use super::openai::OpenAi;
use super::provider::Provider;

/// All providers, in the order in which messages name them.
pub(super) static PROVIDERS: [&dyn Provider; 3] = [&OpenAi, &Anthropic, &Bedrock];

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelChoice {
    Echo,
    Hosted(HostedModel),
}

#[derive(Clone, Debug)]
pub struct HostedModel {
    pub(super) provider: &'static dyn Provider,
    pub(super) name: String,
}

impl HostedModel {
    /// Returns the provider's name of the model.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the provider's public address; `None` if it depends on the AWS region.
    pub fn base_url(&self) -> Option<String> {
        self.provider.base_url(None)
    }

    /// Returns true if requests without `MODEL_API_KEY` are signed with the process's role in AWS.
    pub fn may_use_aws(&self) -> bool {
        self.provider.may_use_aws()
    }

    pub fn provider(&self) -> &'static str {
        self.provider.name()
    }

    /// Returns the URL of the provider's list of models.
    pub fn models_url(&self, base_url: &str) -> String {
        self.provider.models_url(base_url)
    }

    /// Reads the answer to a request for the list of models: its status by its meaning, as for a question, and the ids in the
    /// list.
    pub fn listed_models(&self, status: u16, body: &str) -> (u16, Vec<String>) {
        let list: Value = serde_json::from_str(body).unwrap_or_default();
        let ids = self.provider.listed_models(&list).into_iter().map(str::to_owned).collect();
        (failure::status_of_response(status, body), ids)
    }

    /// Returns the headers that authorize a request with `key`.
    pub fn headers(&self, key: &str) -> Vec<(&'static str, String)> {
        self.provider.headers(Some(key))
    }
}

impl PartialEq for HostedModel {
    fn eq(&self, other: &Self) -> bool {
        (self.provider.name(), &self.name) == (other.provider.name(), &other.name)
    }
}

impl Eq for HostedModel {}

/// The settings of a model: its address, key and fallback.
#[derive(Clone, Debug)]
pub struct ModelSettings {
    pub choice: ModelChoice,
    pub base_url: Option<String>,
    pub api_key: Option<SecretString>,
    /// `MODEL_PROMPT_CACHE`: true if requests say what the provider caches, for providers that need to be told.
    pub marks_cache: bool,
    /// `MODEL_VISION`: true if the model accepts images; `None` if the first request with images finds out.
    pub sees: Option<bool>,
    /// `MODEL_FALLBACK` with its settings: the model that is asked if this one fails for good.
    pub fallback: Option<Box<ModelSettings>>,
    /// `MODELS`: the models that chats may have instead, each with the same fallback.
    pub others: Vec<ModelSettings>,
}

impl ModelSettings {
    /// Returns the settings of a model at its provider's address, without a key.
    pub fn new(choice: ModelChoice) -> Self {
        let marks_cache = matches!(&choice, ModelChoice::Hosted(model) if model.provider.marks_cache());
        Self {
            choice,
            base_url: None,
            api_key: None,
            marks_cache,
            sees: None,
            fallback: None,
            others: Vec::new(),
        }
    }

    /// Returns true if the model, its fallback or another model may accept images.
    pub fn may_see(&self) -> bool {
        let sees = self.choice != ModelChoice::Echo && self.sees != Some(false);
        sees || self.beside().any(Self::may_see)
    }

    /// Returns true if requests of the model, its fallback or another model are signed with the process's role in AWS.
    pub fn needs_aws(&self) -> bool {
        let may_use_aws = matches!(&self.choice, ModelChoice::Hosted(model) if model.may_use_aws());
        let is_signed = may_use_aws && self.api_key.is_none();
        is_signed || self.beside().any(Self::needs_aws)
    }

    /// Returns the names of all models, as in `MODEL`, without `echo`.
    pub fn names(&self) -> Vec<String> {
        let all = std::iter::once(self).chain(self.beside());
        all.filter(|model| model.choice != ModelChoice::Echo).map(|model| model.choice.to_string()).collect()
    }

    /// Returns the settings of the fallback and of the other models.
    fn beside(&self) -> impl Iterator<Item = &Self> {
        self.fallback.iter().map(AsRef::as_ref).chain(&self.others)
    }
}

/// An invalid value of `MODEL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    #[error("must be {}", ModelChoice::forms())]
    Unknown,
    #[error("names a provider, but no model of it")]
    NoModel,
    #[error("contains a space or another character that no model's name has")]
    InvalidName,
}

impl ModelChoice {
    /// Returns the forms of valid values, for messages: `echo, openai:<model>, … or bedrock:<model>`.
    pub fn forms() -> String {
        let forms: Vec<String> =
            PROVIDERS.iter().map(|provider| format!("{}:<model>", provider.name())).collect();
        let (last, others) =
            forms.split_last().map_or(("", &[][..]), |(last, others)| (last.as_str(), others));
        format!("echo, {} or {last}", others.join(", "))
    }
}

impl FromStr for ModelChoice {
    type Err = ChoiceError;

    fn from_str(value: &str) -> Result<Self, ChoiceError> {
        let (provider, name) = match value.split_once(':') {
            None if value == "echo" => return Ok(Self::Echo),
            None => return Err(ChoiceError::Unknown),
            Some((_, "")) => return Err(ChoiceError::NoModel),
            Some((provider, name)) => (provider, name.to_owned()),
        };
        if !name.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(ChoiceError::InvalidName);
        }
        let provider = PROVIDERS.into_iter().find(|known| known.name() == provider);
        Ok(Self::Hosted(HostedModel { provider: provider.ok_or(ChoiceError::Unknown)?, name }))
    }
}

impl fmt::Display for ModelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Echo => write!(f, "echo"),
            Self::Hosted(model) => model.fmt(f),
        }
    }
}

impl fmt::Display for HostedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.provider.name(), self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_written() {
        let forms = ModelChoice::forms();
        assert!(forms.starts_with("echo, ") && forms.contains(" or "), "{forms}");
        assert_eq!("echo".parse(), Ok(ModelChoice::Echo));
        for provider in PROVIDERS {
            let value = format!("{}:arn:aws:x/m:7b", provider.name());
            assert_eq!(value.parse::<ModelChoice>().unwrap().to_string(), value);
            assert!(forms.contains(&format!("{}:<model>", provider.name())), "{forms}");
        }
    }
}
