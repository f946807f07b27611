//! The interface that every channel implements, and what channels share.
//!
//! # Layout
//!
//! - [`client`]: common parts of the platforms' HTTP clients
//! - [`delivery`]: a reply on its way out
//! - [`file`](mod@file): files that people sent, as a platform gives them back
//! - [`platform`]: the client of a platform, which sends replies
//! - [`webhook`]: the webhook of a platform, and the events that it brings
//! - [`rate_limit`]: rate limits
//! - [`replied`]: what is kept of a replied-to message
//! - [`formula`]: formulas of a reply, as code
//! - [`split`]: division of a Markdown text into messages; [`seam`]: places at which a text may be cut
//! - [`settings`]: settings that all channels share
//! - [`json`]: a lenient look at a platform's JSON
//! - [`channel`]: the definition of a channel; [`about`]: facts about one; [`finding`]: results of `doctor`; [`setup`]: `setup <channel>`
//! - [`testing`]: events as lines of text, for the tests of all channels

pub mod about;
pub mod channel;
pub mod client;
pub mod delivery;
pub mod file;
pub mod finding;
pub mod formula;
pub mod json;
pub mod platform;
pub mod rate_limit;
pub mod replied;
pub mod seam;
pub mod settings;
pub mod setup;
pub mod split;
pub mod testing;
pub mod webhook;
