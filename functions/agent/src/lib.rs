//! The agent: answers what is unanswered in a chat.
//!
//! - [`turn`]: one turn of one chat, from claim to finish
//! - [`next`]: what a run does next, pure
//! - `work.rs`, `pacing.rs`: what a turn covers, and how often it is tried
//! - `quiet.rs`: what more may come at once is waited for
//! - `stop.rs`: what a `/stop` has ended
//! - [`surroundings`]: what was said around a message of a Lark group
//! - `remember.rs`: memory: what ended is captured, what is known recalled
//! - `room.rs`: compaction before a turn, and on `/compact`
//! - `answer.rs`: asking the model, within its window, and what is left out where compaction does not do
//! - `sight.rs`: images that the model is shown, and what it is not
//! - `rounds.rs`: the model and its calls, within bounds; `tools.rs`: what it may call
//! - [`mcp`]: outside tools
//! - `resume.rs`: a reply that goes on behind an approval
//! - `signs.rs`: what people see of a run before its reply
//! - `deliver.rs`: the stored reply on its way out
//! - [`batch`]: a batch of the queue: chats side by side, what failed handed back

mod answer;
pub mod batch;
mod deliver;
pub mod mcp;
pub mod next;
mod quiet;
mod remember;
mod resume;
mod retry;
mod room;
mod rounds;
mod sight;
mod signs;
mod stop;
pub mod surroundings;
mod tools;
pub mod turn;
mod work;

pub use answer::{FAILURE_NOTICE, NOT_COMPACTED};
pub use retry::Attempt;
pub use turn::{Agent, TurnError, Undone};

use std::time::Duration;

/// The function's timeout in the template, after which no run of it is alive.
pub const LEASE: Duration = Duration::from_mins(5);
