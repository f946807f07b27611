//! Telegram: receives updates by webhook, sends replies with `sendMessage`.
//!
//! # Layout
//!
//! [`bot`]: identity of the bot. Incoming, in the order in which an update passes them:
//!
//! - [`parse`]: turns an update into messages, commands, button presses and migrations
//!   - `event`: lenient access to the JSON of an update
//!   - `content`, `service`, `readable`: text and files of a message, as parts that a model can read
//!   - `metadata`: sender, reply, forward and edit data that is stored beside the parts
//!   - `gate`: decides if a message asks the bot
//!
//! Outgoing:
//!
//! - [`address`]: destination of a reply
//! - [`render`], [`split`]: formatting of a reply, and its division into messages
//! - [`buttons`]: buttons of approval requests
//! - [`client`]: HTTP client of the Bot API
//! - [`platform`]: the client as a `Platform`
//!
//! [`channel`]: the channel's definition, with its [`settings`] and [facts](about). [`webhook`]: the route.
//!
//! For operators: `setup`, `doctor`.
//!
//! *Architecture invariant*: nothing here reads a clock. The result of [`parse`] depends only on the update, the bot's
//! name and the settings, so that an update that is delivered twice gives the same keys.

pub mod about;
pub mod address;
pub mod bot;
pub mod buttons;
pub mod channel;
pub mod client;
pub mod parse;
pub mod platform;
pub mod render;
pub mod settings;
pub mod split;
pub mod webhook;

pub use event::allowed_updates;

mod content;
mod doctor;
mod event;
mod gate;
mod metadata;
mod readable;
mod service;
mod setup;

#[cfg(test)]
mod tests;
