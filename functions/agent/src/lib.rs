//! The agent: answers what is unanswered in a chat.
//!
//! - [`turn`]: one turn of one chat, from claim to finish
//! - `work.rs`, `pacing.rs`: what a turn covers, and how often it is tried
//! - [`surroundings`]: what was said around a message of a Lark group
//! - `remember.rs`: memory: what ended is captured, what is known recalled
//! - `room.rs`: compaction before a turn, and on `/compact`
//! - `answer.rs`: asking the model, within its window, and what is left out where compaction does not do
//! - `tools.rs`: what the model may call
//! - `deliver.rs`: the stored reply on its way out
//! - [`batch`]: a batch of the queue: chats side by side, what failed handed back

mod answer;
pub mod batch;
mod deliver;
mod pacing;
mod remember;
mod room;
pub mod surroundings;
mod tools;
pub mod turn;
mod work;

pub use pacing::Delivery;
pub use turn::{Agent, TurnError};

use std::time::Duration;

/// The function's timeout in the template, after which no run of it is alive.
pub const LEASE: Duration = Duration::from_mins(5);
