//! The channels of platforms, one line each.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use annals_channel::about::About;
use annals_channel::channel::{ChannelDefinition, Clients, Example, ProvedCall, platform};
use annals_channel::finding::Finding;
use annals_channel::platform::Platform;
use annals_channel::settings::{DeliveryConfig, Settings};
use annals_channel::setup::{Failure, Setup};
use annals_channel::webhook::Webhook;
use annals_core::settings::{ConfigError, Env};
use annals_engine::ingress::Ingress;
use annals_engine::receiving::Receiver;
use annals_io::clock::Clock;
use annals_io::errors::chain;
use axum::Router;
use futures::FutureExt;
use futures::future::{BoxFuture, LocalBoxFuture};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use crate::function::open;
use crate::process::FunctionError;
use crate::webhook;

/// Defines the functions below for a list of channels.
macro_rules! channels {
    ($($channel:ty,)*) => {
        /// Returns the clients of all platforms that are set up, for sending replies.
        pub fn platforms(
            env: Env<'_>,
            delivery: &DeliveryConfig,
            clock: &Clock,
        ) -> Result<Vec<Arc<dyn Platform>>, FunctionError> {
            let all = [$(platform::<$channel>(env, delivery, clock)?),*];
            Ok(all.into_iter().flatten().collect())
        }

        /// Returns all channels, for the local program.
        pub fn local() -> Vec<Entry> {
            vec![$(Entry::of::<$channel>()),*]
        }
    };
}

channels! {
    annals_channel_telegram::channel::Telegram,
    annals_channel_lark::channel::Lark,
    annals_channel_discord::channel::Discord,
}

/// Longest wait of a check of `doctor`, if the platform limits the rate.
const CHECK_PATIENCE: Duration = Duration::from_secs(10);

/// A channel whose settings have not been read.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Facts about it.
    pub about: &'static About,
    /// Reads its settings.
    pub from_env: fn(Env<'_>) -> Result<Arc<dyn ServedChannel>, ConfigError>,
    /// Reads the settings of its function and creates its webhook, as the function does.
    pub opens: fn(Env<'_>, &Clock) -> Result<(), FunctionError>,
    /// Runs `setup <channel>`.
    pub setup: for<'a> fn(Setup<'a>) -> LocalBoxFuture<'a, Result<(), Failure>>,
}

impl Entry {
    fn of<D: ChannelDefinition>() -> Self {
        Self {
            about: D::Webhook::ABOUT,
            from_env: |env| Ok(Arc::new(Configured::<D>::from_env(env)?)),
            opens: |env, clock| open::<D>(env, clock).map(drop),
            setup: |setup| D::setup(setup).boxed_local(),
        }
    }
}

/// A channel that the local program serves. If it is not set up it works too: with development secrets, which everybody knows,
/// and with replies that go to the outbox.
///
/// `key` is the key of the data directory. If it is in use, it replaces each development secret.
pub trait ServedChannel: Debug + Send + Sync {
    /// Returns facts about it.
    fn about(&self) -> &'static About;

    /// Returns true if the channel is set up.
    fn is_set_up(&self) -> bool;

    /// Returns its secret settings, for functions that run beside the local program.
    fn secrets(&self, key: Option<&SecretString>) -> Vec<(&'static str, SecretString)>;

    /// Returns a call of the webhook with the text `hello` and the time `today`, in epoch seconds, which works if it is
    /// made by `curl`; `None` if only the platform can make one.
    fn example(&self, key: Option<&SecretString>, today: i64) -> Option<Example>;

    /// Returns true if the recorded body `json` is one that the platform posts.
    fn is_own(&self, json: &Value) -> bool;

    /// Returns the call that delivers `body`, with all that proves that it is the platform's, or the reason why there is
    /// none.
    fn prove(&self, key: Option<&SecretString>, body: &[u8]) -> Result<ProvedCall, &'static str>;

    /// Returns the address of the platform's API, if the channel is set up.
    fn api_base(&self) -> Option<&str>;

    /// Checks for `doctor` that the platform accepts the bot, and that its webhook arrives. `settings` are those of all
    /// channels, if they are valid.
    fn check<'a>(&'a self, settings: Option<&'a Settings>, clock: &'a Clock) -> BoxFuture<'a, Vec<Finding>>;

    /// Creates its clients, if it is set up, and the route of its webhook.
    fn serve(
        &self,
        key: Option<&SecretString>,
        settings: &Settings,
        delivery: &DeliveryConfig,
        clock: &Clock,
    ) -> Result<Served, Failure>;
}

/// The clients of a channel, if it is set up, and the route of its webhook.
pub type Served = (Option<Clients<Arc<dyn Platform>>>, Route);

/// Creates the route of a webhook, which appends, enqueues and confirms commands by the ingress.
pub type Route = Box<dyn FnOnce(Ingress) -> Router + Send>;

/// A channel with its settings, if it is set up.
#[derive(Debug)]
struct Configured<D: ChannelDefinition> {
    config: Option<D::Config>,
    api_base: String,
    /// Its secret settings; none if it is not set up.
    secrets: Vec<(&'static str, SecretString)>,
}

impl<D: ChannelDefinition> Configured<D> {
    fn from_env(env: Env<'_>) -> Result<Self, ConfigError> {
        let config = D::config(env)?;
        let names = D::Webhook::ABOUT.secrets().filter(|_| config.is_some());
        let secrets = names.filter_map(|name| Some((name, env.optional(name)?.into()))).collect();
        Ok(Self { config, api_base: env.value(&D::Webhook::ABOUT.api_base), secrets })
    }

    /// Returns the secret of [`ChannelDefinition::development`].
    fn development(key: Option<&SecretString>) -> SecretString {
        key.cloned().unwrap_or_else(|| D::Webhook::ABOUT.development_secret.into())
    }

    /// Returns the settings, or those for development.
    fn config(&self, key: Option<&SecretString>) -> Result<D::Config, ConfigError> {
        if let Some(config) = &self.config {
            return Ok(config.clone());
        }
        let values = self.secrets(key);
        let value = |name: &str| {
            let (_, value) = values.iter().find(|(own, _)| *own == name)?;
            Some(value.expose_secret().to_owned())
        };
        let config = D::config(Env::new(&value))?;
        config.ok_or_else(|| D::Webhook::ABOUT.not_set_up())
    }
}

impl<D: ChannelDefinition> ServedChannel for Configured<D> {
    fn about(&self) -> &'static About {
        D::Webhook::ABOUT
    }

    fn is_set_up(&self) -> bool {
        self.config.is_some()
    }

    fn secrets(&self, key: Option<&SecretString>) -> Vec<(&'static str, SecretString)> {
        if self.is_set_up() { self.secrets.clone() } else { D::development(&Self::development(key)) }
    }

    fn example(&self, key: Option<&SecretString>, today: i64) -> Option<Example> {
        let plain = D::hello(today).to_string().into_bytes();
        let ProvedCall { headers, body } = self.prove(key, &plain).ok()?;
        if self.is_set_up() && body != plain {
            return None;
        }
        // A user's own secret is not shown.
        let shown = |value: String| {
            let own = self.secrets.iter().find(|(_, secret)| secret.expose_secret() == value);
            own.map_or(value, |(variable, _)| format!("${variable}"))
        };
        let headers = headers.into_iter().map(|(name, value)| (name, shown(value))).collect();
        Some(Example { headers, body: serde_json::from_slice(&body).ok()? })
    }

    fn is_own(&self, json: &Value) -> bool {
        D::is_own(json)
    }

    fn prove(&self, key: Option<&SecretString>, body: &[u8]) -> Result<ProvedCall, &'static str> {
        let config = self.config(key).map_err(|_| "the channel's settings are not valid")?;
        D::prove(&config, &Self::development(key), body)
    }

    fn api_base(&self) -> Option<&str> {
        self.config.as_ref().map(|_| self.api_base.as_str())
    }

    fn check<'a>(&'a self, settings: Option<&'a Settings>, clock: &'a Clock) -> BoxFuture<'a, Vec<Finding>> {
        let name = D::Webhook::ABOUT.channel.as_str();
        async move {
            let Some(config) = &self.config else { return vec![Finding::not_set_up(name)] };
            let mut client = match D::client(config, clock) {
                Ok(client) => client,
                Err(error) => return vec![Finding::fault(name, chain(&error))],
            };
            client.api().set_patience(CHECK_PATIENCE);
            D::check(config, &client, settings).await
        }
        .boxed()
    }

    fn serve(
        &self,
        key: Option<&SecretString>,
        settings: &Settings,
        delivery: &DeliveryConfig,
        clock: &Clock,
    ) -> Result<Served, Failure> {
        let client = self.config.as_ref().map(|config| D::client(config, clock));
        let clients = client.transpose()?.map(|client| Clients::of(client, Some(delivery)));
        let client = clients.as_ref().map(|clients| clients.webhook.clone());
        let webhook = D::webhook(&self.config(key)?, client, settings.clone());
        let clients = clients.map(|Clients { agent, webhook }| {
            let webhook: Arc<dyn Platform> = Arc::new(webhook);
            Clients { agent, webhook }
        });
        let route = move |ingress| webhook::router(Receiver { webhook, ingress, must_confirm: true });
        Ok((clients, Box::new(route)))
    }
}
