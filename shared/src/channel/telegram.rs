//! Telegram: a bot's webhook in, `sendMessage` out.
//!
//! # Layout
//!
//! [`bot`]: who the bot is. In, in the order a webhook passes them:
//!
//! - [`verify`]: the secret header
//! - [`parse`]: an update to messages, commands, migrations
//!   - `update`: the wire, looked at leniently
//!   - `content`, `event`, `readable`: what a message says, as parts that a model can read
//!   - `metadata`: who said it, in reply to what, forwarded from where
//!   - `gate`: whether it asks the bot
//!
//! Out:
//!
//! - [`address`]: where a reply goes
//! - [`markdown`], [`split`]: what a reply looks like there
//! - [`client`]: the Bot API
//!
//! *Architecture invariant*: nothing here reads a clock, and what [`parse`] makes of an update depends on the
//! update, the bot's name and the settings alone, so that a redelivery gives the same keys.

pub mod address;
pub mod bot;
pub mod client;
pub mod markdown;
pub mod parse;
pub mod split;
pub mod verify;

pub use update::allowed_updates;

mod content;
mod event;
mod gate;
mod metadata;
mod readable;
mod update;

#[cfg(test)]
mod tests;
