//! The channels of platforms, one line each.

use std::sync::Arc;

use annals_channel::channel::{About, Clients, ConfiguredChannel, platform};
use annals_channel::platform::Registered;
use annals_channel::settings::{DeliveryConfig, Settings};
use annals_channel::setup::{Failure, Setup};
use annals_core::settings::{ConfigError, Env};
use annals_engine::delivery::Deliverer;
use annals_engine::ingress::Ingress;
use annals_engine::receiving::Receiver;
use annals_io::clock::Clock;
use axum::Router;
use futures::future::LocalBoxFuture;
use secrecy::SecretString;

use crate::process::FunctionError;
use crate::webhook;

/// Defines the functions below for a list of channels.
macro_rules! channels {
    ($($channel:ty,)*) => {
        /// Returns the clients of all platforms that are set up, for sending replies.
        ///
        /// # Errors
        ///
        /// A setting is missing or malformed.
        pub fn platforms(
            env: Env<'_>,
            delivery: &DeliveryConfig,
            clock: &Clock,
        ) -> Result<Vec<Registered>, FunctionError> {
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

/// A channel whose settings have not been read.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Its names.
    pub about: &'static About,
    /// Reads its settings.
    pub from_env: fn(Env<'_>) -> Result<Arc<dyn ServedChannel>, ConfigError>,
    /// Runs `setup <channel>`.
    pub setup: for<'a> fn(Setup<'a>) -> LocalBoxFuture<'a, Result<(), Failure>>,
}

impl Entry {
    fn of<C: ConfiguredChannel + 'static>() -> Self {
        Self { about: C::about(), from_env: |env| Ok(Arc::new(C::from_env(env)?)), setup: C::setup }
    }
}

/// A channel that the local program serves.
pub trait ServedChannel: ConfiguredChannel {
    /// Returns its names.
    fn names(&self) -> &'static About;

    /// Creates its clients, if it is set up, and the route of its webhook.
    fn serve(
        &self,
        key: Option<&SecretString>,
        settings: &Settings,
        delivery: &DeliveryConfig,
        clock: &Clock,
    ) -> Result<(Option<Clients<Registered>>, Route), Failure>;
}

/// Creates the route of a webhook, which appends and enqueues by the ingress, and confirms commands by the deliverer.
pub type Route = Box<dyn FnOnce(Ingress, Deliverer, Clock) -> Router + Send>;

impl<C: ConfiguredChannel> ServedChannel for C {
    fn names(&self) -> &'static About {
        C::about()
    }

    fn serve(
        &self,
        key: Option<&SecretString>,
        settings: &Settings,
        delivery: &DeliveryConfig,
        clock: &Clock,
    ) -> Result<(Option<Clients<Registered>>, Route), Failure> {
        let opened = self.open(key, settings, Some(delivery), clock)?;
        let clients = opened.clients.map(|Clients { agent, webhook }| {
            let webhook = Registered::new(agent.channel, webhook);
            Clients { agent, webhook }
        });
        let webhook = opened.webhook;
        let route =
            move |ingress, deliverer, clock| webhook::router(Receiver { webhook, ingress, deliverer, clock });
        Ok((clients, Box::new(route)))
    }
}
