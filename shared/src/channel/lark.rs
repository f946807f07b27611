//! Lark (Feishu): an app's event subscription in, `im/v1/messages` out.
//!
//! # Layout
//!
//! [`bot`]: who the bot is. In, in the order a webhook passes them:
//!
//! - [`verify`]: the signature, the decryption, the token; a challenge or an event
//! - [`parse`]: an event to messages, commands, recalls, memberships
//!   - `event`: the wire, looked at leniently: both envelopes, and messages in their three forms
//!   - `content`, `rich_text`, `readable`: what a message says, as parts that a model can read
//!   - `mention`: `@_user_1` and the names behind it
//!   - `metadata`: in reply to what, in which thread
//!   - `gate`: whether it asks the bot, and which command it is
//! - [`listed`]: messages fetched from the API, as the same records that their events would have made
//! - [`recall`]: a recalled message, as a later form of its record
//!
//! Out:
//!
//! - [`address`]: where a reply goes
//! - [`render`], [`split`]: what a reply looks like there
//! - [`client`]: the Open API
//!
//! *Architecture invariant*: nothing here reads a clock, and what [`parse`] makes of an event depends on the event,
//! the bot's ids and the settings alone, so that a redelivery gives the same keys. An event's own id decides
//! nothing: Lark may deliver a message under several.

pub mod address;
pub mod bot;
pub mod card;
pub mod client;
pub mod listed;
pub mod parse;
pub mod recall;
pub mod render;
pub mod split;
pub mod verify;

pub use event::EVENTS;

mod content;
mod event;
mod gate;
mod mention;
mod metadata;
mod readable;
mod rich_text;

#[cfg(test)]
mod tests;
