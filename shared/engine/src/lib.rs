//! The path of a message from its webhook to its archive.
//!
//! # Layout
//!
//! - [`ingress`]: append, then enqueue; commands
//! - [`receiving`]: stores the events of a webhook
//! - [`delivery`]: sends replies through their channels
//! - [`joining`]: tells a chat what was said in another one of the same person
//! - [`live`]: live events of a run while it makes a reply
//! - [`compaction`]: the steps that turn older messages into a summary
//! - [`remembering`]: captures Sessions as memory, and recalls it
//! - [`scheduling`]: carries out the schedules of chats
//! - [`upkeep`]: the work for a chat that is due
//! - [`forgetting`]: deletes everything of a chat; [`erasing`]: of a person
//! - [`usage`]: tokens and money, from the replies
//! - [`settings`]: settings of the agent's answers

#![allow(missing_docs, reason = "an item is documented where its name does not say it")]

pub mod compaction;
pub mod delivery;
pub mod erasing;
pub mod forgetting;
pub mod ingress;
pub mod joining;
pub mod live;
pub mod profiles;
pub mod receiving;
pub mod remembering;
pub mod scheduling;
pub mod settings;
pub mod upkeep;
pub mod usage;
