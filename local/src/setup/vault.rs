//! Reads settings from a secret in Secrets Manager, and writes one to it: [`Vault`].

use annals_aws::config;
use annals_aws::service::Service;
use annals_channel::setup;
use annals_channel::setup::Failure;
use annals_core::settings::Env;
use annals_io::random;
use anyhow::{Context, anyhow, bail};
use aws_sdk_dynamodb::error::ProvideErrorMetadata as _;
use futures::future::LocalBoxFuture;
use serde_json::{Map, Value, json};

use crate::errors::aws_message;

/// A secret and its content.
pub(super) struct Vault {
    client: Service,
    /// Name or ARN.
    name: String,
    held: Map<String, Value>,
}

impl Vault {
    /// Reads the secret of this name or ARN. The error for a missing one shows how to create it with the settings `wanted`.
    pub(super) async fn open(name: &str, wanted: &[&str]) -> anyhow::Result<Self> {
        let client = Service::secrets_manager(&config::anywhere().await);
        let held = read(&client, name).await?.with_context(|| {
            let settings: Vec<String> = wanted.iter().map(|name| format!("\"{name}\": \"…\"")).collect();
            format!(
                "there is no secret {name} in this account and region; this makes it:\n\n  \
                 aws secretsmanager create-secret --name {name} --secret-string '{{{}}}'\n",
                settings.join(", ")
            )
        })?;
        Ok(Self { client, name: name.to_owned(), held })
    }

    fn get(&self, variable: &str) -> Option<String> {
        self.held.get(variable).and_then(Value::as_str).filter(|value| !value.is_empty()).map(str::to_owned)
    }

    /// Returns a setting of the environment or the secret. If both have one, they must be equal: otherwise a bot would be set up
    /// with settings that its functions do not have.
    pub(super) fn setting(&self, env: Env<'_>, variable: &str) -> anyhow::Result<Option<String>> {
        match (env.optional(variable), self.get(variable)) {
            (Some(own), Some(held)) if own != held => {
                bail!(
                    "{variable} is set here, and has another value in the secret {}: unset it here, or \
                     delete it from .env",
                    self.name
                )
            }
            (own, held) => Ok(own.or(held)),
        }
    }

    async fn store(&mut self, variable: &str, value: &str) -> anyhow::Result<()> {
        let Self { client, name, .. } = &*self;
        let gone = || format!("the secret {name} is gone");
        let mut held = read(client, name).await?.with_context(gone)?;
        held.insert(variable.to_owned(), value.into());
        let text = Value::Object(held.clone()).to_string();
        let token = random::hex::<16>();
        let input = json!({"SecretId": name, "SecretString": text, "ClientRequestToken": token});
        let put = client.call("secretsmanager.PutSecretValue", &input).await;
        put.map_err(|error| anyhow!("{}", aws_message(&error)))
            .with_context(|| format!("{variable} cannot be stored in the secret {name}"))?;
        anyhow::ensure!(
            read(client, name).await?.with_context(gone)? == held,
            "the secret {name} holds something else than was just written to it: run this again"
        );
        self.held = held;
        Ok(())
    }
}

impl setup::Vault for Vault {
    fn name(&self) -> &str {
        &self.name
    }

    fn has(&self, variable: &str) -> bool {
        self.get(variable).is_some()
    }

    fn put<'a>(&'a mut self, variable: &'a str, value: &'a str) -> LocalBoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move { Ok(self.store(variable, value).await?) })
    }
}

/// Reads the settings in the secret `name`; `None` if there is no such secret.
async fn read(client: &Service, name: &str) -> anyhow::Result<Option<Map<String, Value>>> {
    let given = match client.call("secretsmanager.GetSecretValue", &json!({"SecretId": name})).await {
        Err(error) if error.code() == Some("ResourceNotFoundException") => return Ok(None),
        given => {
            given.map_err(|error| anyhow!("the secret {name} cannot be read: {}", aws_message(&error)))?
        }
    };
    // Without the parser's message, which may quote the secret.
    let parsed = given["SecretString"].as_str().and_then(|text| serde_json::from_str(text).ok());
    parsed.map(Some).with_context(|| format!("the secret {name} is not a JSON object of settings"))
}
