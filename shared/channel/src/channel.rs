//! A channel with its settings, and its commands for operators: [`ConfiguredChannel`]. Functions open it by [`webhook`] and
//! [`platform`]; the rest is for the local program.

use std::fmt::Debug;

use annals_core::record::Channel;
use annals_core::settings::{ConfigError, Env};
use annals_io::clock::Clock;
use futures::future::{BoxFuture, LocalBoxFuture};
use secrecy::SecretString;
use serde_json::Value;

use crate::finding::Finding;
use crate::platform::{Platform, Registered};
use crate::settings::{DeliveryConfig, Settings, channel_settings};
use crate::setup::{Failure, Setup, SetupCommand};
use crate::webhook::Webhook;

/// Names of a channel, which do not depend on its settings.
#[derive(Debug)]
pub struct About {
    /// The channel.
    pub channel: Channel,
    /// The platform's name, such as `Telegram`.
    pub platform: &'static str,
    /// Path of the webhook.
    pub path: &'static str,
    /// Settings by which the webhook tells the platform's calls from forged ones.
    pub proofs: &'static [&'static str],
    /// The command `setup`.
    pub setup: SetupCommand,
}

/// A channel with its settings, if it is set up. Without them it works too: with development secrets, which everybody
/// knows, and with replies that go to the outbox.
///
/// `key` is the key of the data directory. If it is in use, it replaces each development secret.
pub trait ConfiguredChannel: Debug + Send + Sync {
    /// Its webhook.
    type Webhook: Webhook
    where
        Self: Sized;

    /// Its client.
    type Client: Platform + 'static
    where
        Self: Sized;

    /// Returns its names.
    fn about() -> &'static About
    where
        Self: Sized;

    /// Reads its settings.
    ///
    /// # Errors
    ///
    /// Fails if only a part is set, or a value is malformed.
    fn from_env(env: Env<'_>) -> Result<Self, ConfigError>
    where
        Self: Sized;

    /// Creates its webhook and its clients. `delivery` is `None` in a process that only confirms commands.
    fn open(
        &self,
        key: Option<&SecretString>,
        settings: &Settings,
        delivery: Option<&DeliveryConfig>,
        clock: &Clock,
    ) -> Result<Opened<Self>, Failure>
    where
        Self: Sized;

    /// Runs `setup <channel>`.
    fn setup(setup: Setup<'_>) -> LocalBoxFuture<'_, Result<(), Failure>>
    where
        Self: Sized;

    /// Returns true if the channel is set up.
    fn is_set_up(&self) -> bool;

    /// Returns its secret settings, for functions that run beside the local program.
    fn secrets(&self, key: Option<&SecretString>) -> Vec<(&'static str, SecretString)>;

    /// Returns a call of the webhook with the text `hello` and the time `today`, in epoch seconds, which works if it is
    /// made by `curl`; `None` if only the platform can make one.
    fn example(&self, key: Option<&SecretString>, today: i64) -> Option<Example>;

    /// Returns the call that delivers the recorded body `json`, whose bytes are `body`; `None` if it is not this
    /// platform's.
    fn replay(&self, key: Option<&SecretString>, body: &[u8], json: &Value) -> Option<Replayed>;

    /// Returns the address of the platform's API, if the channel is set up.
    fn api_base(&self) -> Option<&str>;

    /// Checks for `doctor` that the platform accepts the bot, and that its webhook arrives. `settings` are those of all
    /// channels, if they are valid.
    fn check<'a>(&'a self, settings: Option<&'a Settings>, clock: &'a Clock) -> BoxFuture<'a, Vec<Finding>>;
}

/// A channel that is ready to receive and to send.
pub struct Opened<C: ConfiguredChannel> {
    /// The webhook.
    pub webhook: C::Webhook,
    /// The clients; `None` if the channel is not set up.
    pub clients: Option<Clients<C::Client>>,
}

/// The clients of a platform. They share its rate limit.
pub struct Clients<C> {
    /// Sends replies.
    pub agent: Registered,
    /// Sends confirmations of commands, with the patience of the platform, which waits for them.
    pub webhook: C,
}

/// Creates the client of `C` that sends replies; `None` if the channel is not set up.
///
/// # Errors
///
/// A setting is missing or malformed.
pub fn platform<C: ConfiguredChannel>(
    env: Env<'_>,
    delivery: &DeliveryConfig,
    clock: &Clock,
) -> Result<Option<Registered>, Failure> {
    let channel = C::from_env(env)?;
    if !channel.is_set_up() {
        return Ok(None);
    }
    let opened = channel.open(None, &channel_settings(env)?, Some(delivery), clock)?;
    Ok(opened.clients.map(|clients| clients.agent))
}

/// Creates the webhook of `C`, and the client that sends its confirmations of commands.
///
/// # Errors
///
/// A setting is missing or malformed.
pub fn webhook<C: ConfiguredChannel>(
    env: Env<'_>,
    settings: &Settings,
    clock: &Clock,
) -> Result<(C::Webhook, C::Client), Failure> {
    let opened = C::from_env(env)?.open(None, settings, None, clock)?;
    // There are none without settings, so a function does not start with development secrets.
    let clients = opened.clients.ok_or_else(|| ConfigError::new(C::about().setup.needed[0], "is not set"))?;
    Ok((opened.webhook, clients.webhook))
}

/// A call of a webhook for `curl`. Its parts are for a shell, inside double and single quotes.
#[derive(Clone, Debug)]
pub struct Example {
    /// The headers that prove that the call is the platform's: secrets, variables that have them, or signatures.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Value,
}

/// A recorded body of a platform.
#[derive(Clone, Debug)]
pub enum Replayed {
    /// The call that delivers it.
    Call {
        /// Headers that prove that the call is the platform's.
        headers: Vec<(&'static str, String)>,
        /// The body.
        body: Vec<u8>,
    },
    /// The reason why it cannot be delivered.
    Skipped(&'static str),
}
