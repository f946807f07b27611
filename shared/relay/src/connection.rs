//! Reads the events of the gateway and keeps the session alive: [`Connection`].
//!
//! `twilight-gateway` sends heartbeats, resumes after a drop and reconnects. A connection ends by being dropped, without a
//! close frame: a frame with 1000 or 1001 would end the session. For the same reason it is dropped before twilight
//! answers an invalid session with 1000.

use std::time::Duration;

use annals_core::sort_key::Timestamp;
use annals_io::clock::Clock;
use annals_store::relay::RelaySession;
use futures::StreamExt;
use secrecy::ExposeSecret;
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;
use twilight_gateway::error::{ReceiveMessageError, ReceiveMessageErrorType};
use twilight_gateway::{ConfigBuilder, Message as Frame, Session, Shard, ShardId, ShardState};

use crate::config::RelayConfig;
use crate::error::RelayError;
use crate::event::{self, Event, Message, Received};
use crate::gateway::{Gateway, is_websocket};
use crate::hold::{Hold, LeaseLost};

/// Number of attempts to reach the gateway at one address.
const MAX_ATTEMPTS: u32 = 5;
/// Time after which a connection counts as stable.
const STABLE_AFTER: Duration = Duration::from_mins(1);
/// Longest pause between two connections that were not stable.
const MAX_PAUSE: Duration = Duration::from_mins(1);

/// The reason for which a connection ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The relay is to stop.
    Shutdown,
    /// Events are not stored as fast as they arrive. The session can be resumed later.
    Behind,
    /// A new session is needed.
    SessionInvalid,
    /// The gateway could not be reached.
    Unreachable,
    /// A fault that the operator must repair.
    Fatal(RelayError),
}

/// A connection to the gateway, and those that follow it in the same session.
pub(crate) struct Connection<'a> {
    shard: Shard,
    events: Sender<Received>,
    hold: &'a Hold,
    clock: &'a Clock,
    is_down: bool,
    connected_at: Timestamp,
    /// Number of connections in a row that were not stable.
    unstable: u32,
    failed_attempts: u32,
}

impl<'a> Connection<'a> {
    /// Prepares a connection that resumes `session`, or begins a new one, and gives its events to `events`.
    pub(crate) fn new(
        config: &RelayConfig,
        gateway: &Gateway,
        session: Option<&RelaySession>,
        events: Sender<Received>,
        hold: &'a Hold,
        clock: &'a Clock,
    ) -> Self {
        let token = config.token.expose_secret().to_owned();
        let mut builder = ConfigBuilder::new(token, config.intents())
            .proxy_url(gateway.url.trim_end_matches('/').to_owned())
            .queue(gateway.queue());
        if let Some(RelaySession { id, resume_url, seq }) = session {
            builder = builder.session(Session::new(*seq, id.clone()));
            if is_websocket(resume_url) {
                builder = builder.resume_url(resume_url.trim_end_matches('/').to_owned());
            }
        }
        let shard = Shard::with_config(ShardId::ONE, builder.build());
        let connected_at = clock.now();
        Self { shard, events, hold, clock, is_down: true, connected_at, unstable: 0, failed_attempts: 0 }
    }

    /// Reads until the connection must end. To end it earlier, drop it.
    pub(crate) async fn read(mut self) -> Result<Ended, LeaseLost> {
        // Ends only after a fatal close code, which is handled below.
        while let Some(frame) = self.shard.next().await {
            let ended = match frame {
                Ok(Frame::Text(text)) => self.text(&text),
                Ok(Frame::Close(frame)) => self.closed(frame.map(|frame| frame.code)),
                Err(error) => self.failed(&error),
            };
            if let Some(ended) = ended {
                return Ok(ended);
            }
            let is_down = matches!(self.shard.state(), ShardState::Disconnected { .. });
            match (std::mem::replace(&mut self.is_down, is_down), is_down) {
                (false, true) => self.before_reconnect().await?,
                (true, false) => self.connected_at = self.clock.now(),
                _ => {}
            }
        }
        Ok(Ended::SessionInvalid)
    }

    fn text(&mut self, text: &str) -> Option<Ended> {
        self.failed_attempts = 0;
        match event::read(text) {
            Ok(Message::Dispatch(received)) => self.dispatch(received),
            Ok(Message::InvalidSession) => {
                tracing::info!("Discord ended the gateway session");
                Some(Ended::SessionInvalid)
            }
            Ok(Message::Control) => None,
            // The text of the error has no part of the frame, only a place in it.
            Err(error) => {
                tracing::error!(
                    line = error.line(),
                    column = error.column(),
                    "failed to read an event of Discord's gateway; skipped"
                );
                None
            }
        }
    }

    fn dispatch(&mut self, received: Received) -> Option<Ended> {
        if let Event::Ready(ready) = &received.event {
            tracing::info!(guilds = ready.guilds.len(), "new session of Discord's gateway");
            if !is_websocket(&ready.resume_gateway_url) {
                tracing::warn!(
                    "Discord's address for resuming is not a WebSocket address; the usual one is used"
                );
            }
        }
        match self.events.try_send(received) {
            Ok(()) => None,
            Err(TrySendError::Full(_) | TrySendError::Closed(_)) => {
                tracing::warn!(
                    "events of Discord's gateway arrive faster than they are stored; disconnecting until they are"
                );
                Some(Ended::Behind)
            }
        }
    }

    fn closed(&mut self, code: Option<u16>) -> Option<Ended> {
        tracing::info!(code, "Discord's gateway closed the connection");
        if let Some(error) = code.and_then(RelayError::of_close_code) {
            return Some(Ended::Fatal(error));
        }
        // Otherwise the next connection would IDENTIFY at once, and those are counted.
        self.shard.session().is_none().then_some(Ended::SessionInvalid)
    }

    fn failed(&mut self, error: &ReceiveMessageError) -> Option<Ended> {
        // The error itself may quote an event.
        if !matches!(error.kind(), ReceiveMessageErrorType::Reconnect) {
            tracing::error!("failed to read a frame of Discord's gateway; skipped");
            return None;
        }
        self.failed_attempts += 1;
        tracing::warn!(attempt = self.failed_attempts, "failed to connect to Discord's gateway; retrying");
        (self.failed_attempts >= MAX_ATTEMPTS).then_some(Ended::Unreachable)
    }

    /// Checks that this process is still the relay, since another one may have resumed the session, and waits if the last
    /// connections were short.
    async fn before_reconnect(&mut self) -> Result<(), LeaseLost> {
        self.hold.renew().await?;
        let now = self.clock.now();
        self.unstable = if now.since(self.connected_at) < STABLE_AFTER { self.unstable + 1 } else { 0 };
        if let Some(doubled) = self.unstable.checked_sub(2) {
            let pause = Duration::from_secs(1).saturating_mul(1 << doubled.min(16));
            self.clock.sleep(pause.min(MAX_PAUSE)).await;
        }
        Ok(())
    }
}
