//! The agent: answers the unanswered messages of a chat.
//!
//! # Layout
//!
//! - [`function`]: the deployed function
//! - [`batch`]: a batch of the queue: chats side by side, failed turns handed back
//! - `turn.rs`: one turn of one chat, from claim to finish; `run.rs`: its run
//! - `find.rs`: finds the work and prepares it; [`next`]: the decision, pure; `coverage.rs`: the messages of one turn, pure;
//!   `task.rs`: the work; `reread.rs`: the records of a turn that have left the table
//! - `quiet.rs`: waits for the rest of a burst; `surroundings.rs`: reads the messages around one of a group;
//!   `remember.rs`: captures and recalls memory; `join.rs`: tells of other chats of the person; `budget.rs`: compacts
//! - `answer.rs`, `resume.rs`, `stop.rs`: a new reply, one that continues after an approval, one that a `/stop` ends;
//!   `making.rs`: the reply of a run that may be stopped
//! - `ask.rs`: asks the model for a reply; `rounds.rs`: the reply while it is made, and its calls; `images.rs`: its images
//! - `tools.rs`: the tools of a turn; [`mcp`]: external tools
//! - `deliver.rs`: sends the stored reply; `typing.rs`: typing indicators before it
//! - `agent.rs`: the services of a run; `error.rs`; `retry_policy.rs`: all bounds on attempts, requests and time, pure

#![allow(missing_docs, reason = "an item is documented where its name does not say it")]

mod agent;
mod answer;
mod ask;
pub mod batch;
mod budget;
mod coverage;
mod deliver;
mod error;
mod find;
pub mod function;
mod images;
mod join;
mod making;
pub mod mcp;
pub mod next;
mod quiet;
mod remember;
mod reread;
mod resume;
mod retry_policy;
mod rounds;
mod run;
mod stop;
mod surroundings;
mod task;
mod tools;
mod turn;
mod typing;

pub use agent::{Agent, LEASE};
pub use answer::is_failure_text;
pub use error::{TurnError, Undone};
pub use making::is_stopped_unanswered;
pub use retry_policy::Attempt;
