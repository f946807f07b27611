//! Secrets Manager: `GetSecretValue` of a single secret, which holds the local program's own settings, development secrets
//! included.
//!
//! Source: <https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_GetSecretValue.html>.

use annals_http::settings::ApiKey;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::fault::Fault;
use super::sqs::ACCOUNT;
use crate::config::LocalConfig;
use crate::stores::REGION;

/// Name of the secret.
pub const SECRET: &str = "annals";
/// Suffix that AWS appends to the name in an ARN.
const SUFFIX: &str = "-AbCdEf";
const VERSION: &str = "00000000-0000-4000-a000-000000000001";

/// The text of the secret: a JSON object of strings, by the names of the settings.
pub(super) struct Secrets(SecretString);

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GetSecretValue {
    secret_id: String,
    version_stage: Option<String>,
}

impl Secrets {
    /// Returns the secret of a program with `config`.
    pub(super) fn of(config: &LocalConfig) -> Self {
        let mut values = Map::new();
        let mut set = |name: &str, value: &str| values.insert(name.to_owned(), Value::from(value));
        set("HTTP_API_KEYS", &api_keys(&config.api_keys()));
        for (name, secret) in config.channel_secrets() {
            set(name, secret.expose_secret());
        }
        let model = &config.agent.model;
        if let Some(key) = &model.api_key {
            set("MODEL_API_KEY", key.expose_secret());
        }
        if let Some(key) = model.fallback.as_ref().and_then(|fallback| fallback.api_key.as_ref()) {
            set("MODEL_FALLBACK_API_KEY", key.expose_secret());
        }
        Self(Value::Object(values).to_string().into())
    }

    /// Carries out the operation `name`.
    pub(super) fn call(&self, name: &str, body: &[u8]) -> Result<Value, Fault> {
        if name != "GetSecretValue" {
            return Err(Fault::new("InvalidRequestException", format!("{name} is not supported here")));
        }
        let request: GetSecretValue = serde_json::from_slice(body)
            .map_err(|_| Fault::new("InvalidRequestException", "the request is not a GetSecretValue"))?;
        if request.version_stage.is_some_and(|stage| stage != "AWSCURRENT") {
            return Err(not_found());
        }
        self.get(&request.secret_id)
    }

    fn get(&self, id: &str) -> Result<Value, Fault> {
        let arn = format!("arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:{SECRET}{SUFFIX}");
        // An ARN without its suffix is valid too.
        if id != SECRET && id != arn && Some(id) != arn.strip_suffix(SUFFIX) {
            return Err(not_found());
        }
        Ok(json!({
            "ARN": arn, "Name": SECRET, "VersionId": VERSION, "VersionStages": ["AWSCURRENT"],
            "SecretString": self.0.expose_secret(), "CreatedDate": 1_700_000_000,
        }))
    }
}

fn not_found() -> Fault {
    let message = format!(
        "Secrets Manager can't find the specified secret: the local program has one, named {SECRET}."
    );
    Fault::new("ResourceNotFoundException", message)
}

/// Returns `keys` in the format of `HTTP_API_KEYS`.
fn api_keys(keys: &[ApiKey]) -> String {
    let entry = |key: &ApiKey| {
        format!("{}:{}{}", key.name, key.secret.expose_secret(), if key.admin { ":admin" } else { "" })
    };
    keys.iter().map(entry).collect::<Vec<_>>().join(",")
}
