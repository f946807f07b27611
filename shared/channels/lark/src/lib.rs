//! Lark (Feishu): receives events by an app's event subscription, sends replies with `im/v1/messages`.
//!
//! # Layout
//!
//! [`bot`]: identity of the bot. Incoming, in the order in which an event passes them:
//!
//! - [`verify`]: checks the signature, decrypts, checks the token; returns a challenge or an event
//! - [`parse`]: turns an event into messages, commands, button presses, recalls and memberships
//!   - `event`: lenient access to the JSON of an event: both envelopes, and the three forms of a message
//!   - `content`, `piece`, `rich_text`, `readable`: text and files of a message, as parts that a model can read
//!   - `mention`, `user_id`: names for `@_user_1`, and ids of users
//!   - `metadata`: replied-to message and thread, which are stored beside the parts
//!   - `gate`: decides if a message asks the bot, and finds its command
//! - [`listed`]: messages fetched from the API, as the same records that their events would have made
//!
//! Outgoing:
//!
//! - [`address`]: destination of a reply
//! - [`render`], [`split`]: formatting of a reply, and its division into messages
//! - [`buttons`]: cards with the buttons of approval requests
//! - [`client`]: HTTP client of the Open API
//! - [`platform`]: the client as a `Platform`; `surroundings`: messages around one of a group
//!
//! [`channel`]: the channel's definition, with its [`settings`] and [facts](about). [`webhook`]: the route.
//!
//! For operators: `setup`, `doctor`.
//!
//! *Architecture invariant*: nothing here reads a clock. The result of [`parse`] depends only on the event, the bot's
//! ids and the settings, so that an event that is delivered twice gives the same keys. An event's own id is not used,
//! since Lark may deliver a message under several.

pub mod about;
pub mod address;
pub mod bot;
pub mod buttons;
pub mod channel;
pub mod client;
pub mod listed;
pub mod parse;
pub mod platform;
pub mod render;
pub mod settings;
pub mod split;
pub mod verify;
pub mod webhook;

pub use event::EVENTS;

mod content;
mod doctor;
mod event;
mod gate;
mod mention;
mod metadata;
mod piece;
mod readable;
mod rich_text;
mod setup;
mod surroundings;
mod user_id;

#[cfg(test)]
mod tests;
