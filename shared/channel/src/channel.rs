//! A channel, as its crate defines it: [`ChannelDefinition`]. Functions open it by [`webhook`] and [`platform`].

use std::fmt::Debug;
use std::sync::Arc;

use annals_core::settings::{ConfigError, Env};
use annals_io::clock::Clock;
use secrecy::SecretString;
use serde_json::Value;

use crate::finding::Finding;
use crate::platform::Platform;
use crate::settings::{DeliveryConfig, Settings};
use crate::setup::{Failure, Setup};
use crate::webhook::Webhook;

/// A channel, as its crate defines it.
pub trait ChannelDefinition: Debug + Send + Sync + 'static {
    /// Its settings.
    type Config: Clone + Debug + Send + Sync + 'static;

    /// Its webhook.
    type Webhook: Webhook;

    /// Its client.
    type Client: Platform + Clone + 'static;

    /// Reads its settings. Returns `None` if nothing is set.
    fn config(env: Env<'_>) -> Result<Option<Self::Config>, ConfigError>;

    /// Returns all settings that [`config`](Self::config) needs, for a program in which nothing is set. `secret` is the
    /// [development secret](crate::about::About::development_secret), or the key of the data directory. An [address of the
    /// API](crate::about::About::api_base) without a default is one where nothing listens, `http://127.0.0.1:9`.
    fn development(secret: &SecretString) -> Vec<(&'static str, SecretString)>;

    /// Creates its client.
    fn client(config: &Self::Config, clock: &Clock) -> Result<Self::Client, ConfigError>;

    /// Creates its webhook. `client` is `None` if the channel is not set up.
    fn webhook(config: &Self::Config, client: Option<Self::Client>, settings: Settings) -> Self::Webhook;

    /// Returns an event with the text `hello` and the time `today`, in epoch seconds. It names no account of the bot's that the
    /// webhook compares, so that it counts under any settings. A webhook of forms accepts such JSON, too.
    fn hello(today: i64) -> Value;

    /// Returns true if this platform posts bodies like `json`, by fields that no other platform's have. `replay` posts it to
    /// the first channel that says so.
    fn is_own(json: &Value) -> bool;

    /// Returns the call that delivers `body`, with all that proves that it is the platform's. `secret` is that of
    /// [`development`](Self::development), for a platform that signs with a key of its own.
    ///
    /// # Errors
    ///
    /// The reason why there is no such call.
    fn prove(config: &Self::Config, secret: &SecretString, body: &[u8]) -> Result<ProvedCall, &'static str>;

    /// Runs `setup <channel>`.
    fn setup(setup: Setup<'_>) -> impl Future<Output = Result<(), Failure>>;

    /// Checks for `doctor` that the platform accepts the bot, and that its webhook arrives. `settings` are those of all
    /// channels, if they are valid.
    fn check(
        config: &Self::Config,
        client: &Self::Client,
        settings: Option<&Settings>,
    ) -> impl Future<Output = Vec<Finding>> + Send;
}

/// The clients of a platform. They share its rate limit.
pub struct Clients<C> {
    /// Sends replies.
    pub agent: Arc<dyn Platform>,
    /// Sends confirmations of commands, with the patience of the platform, which waits for them.
    pub webhook: C,
}

impl<C: Platform + Clone + 'static> Clients<C> {
    /// Makes both of `client`. Its rate limit is the process's share of that of the bot, or that of one chat in a process that
    /// only confirms commands, for which `delivery` is `None`.
    pub fn of(mut client: C, delivery: Option<&DeliveryConfig>) -> Self {
        let about = client.about();
        let limit =
            delivery.map_or(Some(about.chat_rate_limit), |delivery| delivery.share_of(about.bot_rate_limit));
        client.api().set_rate_limit(limit);
        let mut webhook = client.clone();
        webhook.api().set_patience(about.webhook_patience);
        Self { agent: Arc::new(client), webhook }
    }
}

/// Creates the client of `D` that sends replies; `None` if the channel is not set up.
pub fn platform<D: ChannelDefinition>(
    env: Env<'_>,
    delivery: &DeliveryConfig,
    clock: &Clock,
) -> Result<Option<Arc<dyn Platform>>, Failure> {
    let Some(config) = D::config(env)? else { return Ok(None) };
    Ok(Some(Clients::of(D::client(&config, clock)?, Some(delivery)).agent))
}

/// Creates the webhook of `D`, and the client that sends its confirmations of commands.
///
/// # Errors
///
/// A setting is missing or malformed. A function does not start with development secrets.
pub fn webhook<D: ChannelDefinition>(
    env: Env<'_>,
    settings: &Settings,
    clock: &Clock,
) -> Result<(D::Webhook, D::Client), Failure> {
    let config = D::config(env)?.ok_or_else(|| D::Webhook::ABOUT.not_set_up())?;
    let client = Clients::of(D::client(&config, clock)?, None).webhook;
    Ok((D::webhook(&config, Some(client.clone()), settings.clone()), client))
}

/// A call of a webhook for `curl`. Its parts are for a shell, inside double and single quotes.
#[derive(Clone, Debug)]
pub struct Example {
    /// The headers that prove that the call is the platform's: secrets, variables that have them, or signatures.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Value,
}

/// A call of a webhook, which accepts it as the platform's.
#[derive(Clone, Debug)]
pub struct ProvedCall {
    /// Headers that prove that the call is the platform's.
    pub headers: Vec<(&'static str, String)>,
    /// The body, with the proofs that are in it.
    pub body: Vec<u8>,
}
