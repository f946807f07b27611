//! Discord: receives interactions and webhook events by POST and messages from the gateway, sends replies with the REST API.
//!
//! # Layout
//!
//! [`bot`]: identity of the bot; [`snowflake`]: ids and the times in them. Incoming, in the order in which a call passes them:
//!
//! - [`verify`]: checks the signature
//! - [`parse`]: turns a call into messages, commands, button presses, withdrawals and memberships
//!   - `interaction`: commands and buttons; `message`: messages of the gateway and of the REST API
//!   - `place`: the chat that a call belongs to
//!   - `content`: text and files, as parts that a model can read
//!   - `metadata`: sender, replied-to message and ids, which are stored beside the parts
//!   - `gate`: decides if a message asks the bot, and finds its command
//! - [`respond`]: responses to interactions; [`deferral`]: those that follow later
//!
//! Outgoing:
//!
//! - [`address`]: destination of a reply
//! - [`render`]: formatting of a reply, and its division into messages
//! - [`buttons`]: buttons of approval requests
//! - [`client`]: HTTP client of the REST API
//! - [`platform`]: the client as a `Platform`
//!
//! [`channel`]: the channel's definition, with its [`settings`] and [facts](about). [`webhook`]: the route.
//!
//! For operators: [`commands`], `setup`, `doctor`.
//!
//! *Architecture invariant*: nothing here reads a clock, but for the end of a token's life. The result of [`parse`] depends
//! only on the call, the bot's id and the settings, so that a call that is delivered twice gives the same keys.

pub mod about;
pub mod address;
pub mod bot;
pub mod buttons;
pub mod channel;
pub mod client;
pub mod commands;
pub mod deferral;
pub mod parse;
pub mod platform;
pub mod render;
pub mod respond;
pub mod settings;
pub mod snowflake;
pub mod verify;
pub mod webhook;

mod content;
mod doctor;
mod gate;
mod interaction;
mod message;
mod metadata;
mod place;
mod setup;

#[cfg(test)]
mod tests;
