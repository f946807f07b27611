//! The relay of Discord's gateway: ordinary messages arrive only through it, over a connection that must stay open.
//!
//! [`Relay`] receives the events, gives those of messages to its [`Host`], which stores them, and saves its place after
//! each: session, sequence number and the newest message. So an event is lost by no crash: it is saved as done only after
//! it is stored, and what comes twice is a duplicate.
//!
//! ```text
//! gateway ── connection ──> bounded queue ──> worker ──> Host::receive, then RelayStore::save
//!            heartbeats, RESUME                 └─ after a new session: Host::messages_after
//! ```
//!
//! Only one process relays at a time: it holds a lease, and every save has its fence.
//!
//! # Layout
//!
//! - [`relay`]: claims the lease, connects, reconnects, ends
//! - [`host`]: stores messages, and reads missed ones
//! - [`config`], [`error`]: settings of a relay; reasons for its end
//! - `gateway`: the gateway's address and the limit of IDENTIFYs
//! - `connection`: reads events of one connection; `event`: their parts that matter
//! - `worker`: stores events in order; `worker/missed`: messages from between two sessions
//! - `hold`: the lease while it is held
//! - `snowflake`: Discord's ids as times

pub mod config;
mod connection;
pub mod error;
mod event;
mod gateway;
mod hold;
pub mod host;
mod permission;
pub mod relay;
mod snowflake;
mod worker;

pub use config::RelayConfig;
pub use error::RelayError;
pub use host::{Host, HostError};
pub use relay::Relay;
