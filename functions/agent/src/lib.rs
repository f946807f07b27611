//! The agent: answers what is unanswered in a chat.
//!
//! - [`turn`]: one turn of one chat, from claim to delivery
//! - `work.rs`, `pacing.rs`: what a turn covers, and how often it is tried
//! - [`surroundings`]: what was said around a message of a Lark group
//! - [`batch`]: a batch of the queue: chats side by side, what failed handed back

pub mod batch;
mod pacing;
pub mod surroundings;
pub mod turn;
mod work;

pub use pacing::Delivery;
pub use turn::{Agent, TurnError};
