//! Settings of a deployed function: its environment, and the secrets that the environment names.
//!
//! ```text
//! ANNALS_SECRETS=annals/telegram,annals/model
//!
//! annals/telegram   {"TELEGRAM_BOT_TOKEN": "123456:ABC…", "TELEGRAM_WEBHOOK_SECRET": "…"}
//! annals/model      {"MODEL_API_KEY": "sk-…"}
//! ```
//!
//! Secrets are read once, concurrently, and kept for the life of the process. A variable in the environment has
//! precedence. If no secret is named, no request is made.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::time::Duration;

use annals_aws::SdkConfig;
use annals_aws::service::Service;
use annals_core::settings::{ConfigError, Env, Setting};
use aws_config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use futures::future::join_all;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

/// The setting that names the secrets.
pub const SETTINGS: [Setting; 1] = [Setting::optional(
    VARIABLE,
    "deployed only, set by the template: names or ARNs of Secrets Manager secrets, comma-separated, each a JSON \
     object of setting names and strings; read once at start. A variable that is set wins",
)];

const VARIABLE: &str = "ANNALS_SECRETS";

/// Time limits of one attempt and of all: Lambda restarts a function that is not ready after ten seconds, without
/// logging what it waited for.
const TRY_TIMEOUT: Duration = Duration::from_secs(3);
const TIMEOUT: Duration = Duration::from_secs(8);

/// Lookup of a setting by name.
type Lookup = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Settings of a deployed function.
pub struct Settings(Lookup);

impl Settings {
    /// Reads the settings in `variables` and in the secrets that they name. `aws` is the SDK configuration.
    pub async fn read(
        variables: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
        aws: &SdkConfig,
    ) -> Result<Self, ConfigError> {
        let list = Env::new(&variables).optional(VARIABLE).unwrap_or_default();
        let mut names: Vec<&str> = Vec::new();
        for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            // The same secret may be named more than once.
            if !names.contains(&name) {
                names.push(name);
            }
        }
        // Created only if there is a secret to read.
        let client = OnceCell::new();
        let fetched = names.iter().map(|name| fetch(client.get_or_init(|| secrets_manager(aws)), name));
        let fetched = join_all(fetched).await;
        let mut held: HashMap<String, (SecretString, &str)> = HashMap::new();
        for (secret, text) in names.into_iter().zip(fetched) {
            let text = text.map_err(|problem| {
                let problem = format!("names the secret {secret}, which cannot be read: {problem}");
                ConfigError::new(VARIABLE, problem)
            })?;
            for (variable, value) in parse(secret, &text)? {
                if let Some((other, holder)) = held.get(&variable)
                    && other.expose_secret() != value.expose_secret()
                {
                    let problem = format!("has one value in the secret {holder} and another in {secret}");
                    return Err(ConfigError::new(&variable, problem));
                }
                held.insert(variable, (value, secret));
            }
        }
        let held: HashMap<String, SecretString> =
            held.into_iter().map(|(variable, (value, _))| (variable, value)).collect();
        Ok(Self(Box::new(move |name| {
            let own = Env::new(&variables).optional(name);
            own.or_else(|| held.get(name).map(|value| value.expose_secret().to_owned()))
        })))
    }

    /// Returns a source for reading the settings.
    pub fn env(&self) -> Env<'_> {
        Env::new(&*self.0)
    }
}

/// Parses the text of `secret`.
fn parse(secret: &str, text: &SecretString) -> Result<Vec<(String, SecretString)>, ConfigError> {
    let Ok(Value::Object(settings)) = serde_json::from_str(text.expose_secret()) else {
        let problem = format!("names the secret {secret}, which is not a JSON object of strings");
        return Err(ConfigError::new(VARIABLE, problem));
    };
    settings
        .into_iter()
        .map(|(variable, value)| match value {
            Value::String(value) => Ok((variable, value.into())),
            // If somebody swapped name and value, the error must not show the value.
            _ if !is_variable(&variable) => Err(ConfigError::new(
                VARIABLE,
                format!("names the secret {secret}, which holds something that is not a string"),
            )),
            _ => Err(ConfigError::new(&variable, format!("in the secret {secret} is not a string"))),
        })
        .collect()
}

fn is_variable(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

fn secrets_manager(aws: &SdkConfig) -> Service {
    let timeouts = TimeoutConfig::builder().operation_timeout(TIMEOUT).operation_attempt_timeout(TRY_TIMEOUT);
    Service::secrets_manager(&aws.to_builder().timeout_config(timeouts.build()).build())
}

/// Reads the text of the secret `name`. An error is the reason, never the body of the answer, which may contain the secret.
async fn fetch(client: &Service, name: &str) -> Result<SecretString, String> {
    const NOT_PARSED: &str = "the answer of Secrets Manager cannot be parsed";
    let read = client.call("secretsmanager.GetSecretValue", &json!({"SecretId": name})).await;
    let read = read.map_err(|error| match &error {
        SdkError::TimeoutError(_) => "Secrets Manager did not answer in time".to_owned(),
        SdkError::DispatchFailure(_) => "no connection to Secrets Manager".to_owned(),
        SdkError::ResponseError(_) => NOT_PARSED.to_owned(),
        SdkError::ServiceError(_) => match error.code() {
            Some("ResourceNotFoundException") => {
                "no secret of this name exists in this account and region".to_owned()
            }
            Some("AccessDeniedException" | "DecryptionFailure") => {
                "the function's role may not read it (secretsmanager:GetSecretValue, and kms:Decrypt with a key of \
                 one's own)"
                    .to_owned()
            }
            Some(code) => format!("Secrets Manager answered {code}"),
            None => NOT_PARSED.to_owned(),
        },
        _ => "the request could not be made".to_owned(),
    })?;
    match &read["SecretString"] {
        Value::String(text) => Ok(SecretString::from(text.as_str())),
        Value::Null => Err("it is binary, and should be a JSON object of strings".to_owned()),
        _ => Err(NOT_PARSED.to_owned()),
    }
}

#[cfg(test)]
mod tests;
