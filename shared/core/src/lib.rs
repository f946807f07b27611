//! Chats, messages, records and contexts, and the rules about them.
//!
//! Nothing here does I/O, and nothing that this crate depends on does.
//!
//! # Layout
//!
//! - [`chat_key`]: names of chats and of who speaks in them
//! - [`sort_key`]: time, message ids, and keys whose byte order is chat order
//! - [`message`]: the AI SDK's `UIMessage`, kept without loss; [`metadata`]: the fields beside its content
//! - [`draft`]: what a channel passes on; [`record`]: entries of a history
//! - [`recording`]: from what a channel passes on to what is stored
//! - [`mod@context`]: what the model sees, a pure function of records and time
//! - [`mod@compaction`]: which messages a summary stands for, and which answers are a summary
//! - [`memory`]: small Markdown notes kept beyond a Session
//! - [`sender`]: the sender of a record, as a model is told; [`markup`]: the elements of a request to a model
//! - [`prompt`]: a request beside the conversation
//! - [`media`]: images and other files
//! - [`access`]: the people who may use the bot
//! - [`approval`]: calls that a person must approve first; [`visible`]: how people are shown them
//! - [`person`]: identities of people, and links between them
//! - [`chat_settings`]: settings of one chat; [`agents`]: who answers in which chat
//! - [`takeover`]: chats that an operator has taken over
//! - [`time_marks`]: the date and time in a request to a model; [`time_zone`]: names of time zones
//! - [`title`]: titles of chats
//! - [`command`]: `/new`, `/compact`, `/help` and the others
//! - [`limits`]: tokens and cost that people, chats and keys may use in a day
//! - [`language`]: the language that a person is answered in; [`texts`]: what the bot itself says, in each
//! - [`tokens`]: estimates of tokens
//! - [`trace`]: the steps of a turn, and their times
//! - [`reply_token`]: secrets with which a message is answered
//! - [`secret`]: comparison of secrets
//! - [`refusal`]: whether a model declined
//! - [`ranking`]: texts by how well they fit a question; [`terms`]: the words by which they are found
//! - [`schedule`]: texts for a chat, and tasks for the model, at a time
//! - [`settings`]: lookup of settings
//! - [`testing`]: records for tests

#![allow(missing_docs, reason = "an item is documented where its name does not say it")]

pub mod access;
pub mod agents;
pub mod approval;
pub mod chat_key;
pub mod chat_settings;
mod chinese_numbers;
pub mod command;
pub mod compaction;
pub mod context;
pub mod draft;
pub mod language;
pub mod limits;
pub mod markup;
pub mod media;
pub mod memory;
pub mod message;
pub mod metadata;
mod names;
pub mod person;
pub mod prompt;
pub mod ranking;
pub mod record;
pub mod recording;
pub mod refusal;
pub mod reply_token;
pub mod schedule;
pub mod secret;
pub mod sender;
pub mod settings;
pub mod sort_key;
pub mod takeover;
pub mod terms;
pub mod testing;
pub mod texts;
pub mod time_marks;
pub mod time_zone;
pub mod title;
pub mod tokens;
pub mod trace;
pub mod visible;
