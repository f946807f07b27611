//! The agent: answers what is unanswered in a chat.
//!
//! - [`turn`]: one turn of one chat, from claim to finish
//! - `answer.rs`: asking the model, within its window
//! - `tools.rs`: what the model may call
//! - `remember.rs`: memory: what ended is captured, what is known recalled
//! - `room.rs`: compaction before a turn, and what is left out where that fails
//! - `deliver.rs`: the stored reply on its way out
//! - `work.rs`, `pacing.rs`: what a turn covers, and how often it is tried
//! - [`surroundings`]: what was said around a message of a Lark group
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
