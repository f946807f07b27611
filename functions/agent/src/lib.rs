//! The agent: answers what is unanswered in a chat.
//!
//! - [`turn`]: one turn of one chat, from claim to delivery
//! - [`surroundings`]: what was said around a message of a Lark group
//! - [`batch`]: a batch of the queue: chats side by side, what failed handed back

pub mod batch;
pub mod surroundings;
pub mod turn;

pub use turn::{Agent, Delivery, TurnError};
