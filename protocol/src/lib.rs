//! The protocol of a turn as a model: who may write what to a chat's head and records, step by step, with everything that
//! can go wrong between two steps. `explore.rs` in `tests/protocol/` goes through every state that it can get into; `replay.rs`
//! walks random ways through it beside the real history on the real stores, and compares the two after each step;
//! `trace.rs` finds what the real agent's runs do, request by request, in it.
//!
//! One chat is modelled, since chats share nothing. A step is one request to a store or a platform, since nothing is
//! atomic beyond that. What is unanswered and what a run does next is decided by the code's own functions, on records as
//! the code has them ([`records`]); the conditions of the writes to the head are written a second time, in [`model`], and
//! the replay holds them to the first.
//!
//! Faults: any process dies between any two of its steps; a platform delivers a message again; messages come in
//! any order, so older ones after newer ones; the queue delivers a turn again while its run lives; a lease runs out while
//! its run lives, which goes on as if nothing had happened; the model or the platform fails; upkeep comes between.
//!
//! - [`state`]: what a state is made of
//! - [`model`]: the steps, and what must hold
//! - [`records`]: a state as the records and the head that the code's functions take
//! - [`life`]: a model of its own: the life of a record, from its append to its deletion

#![allow(missing_docs, reason = "a field is documented where its name does not say it")]

pub mod life;
pub mod model;
pub mod records;
pub mod state;
