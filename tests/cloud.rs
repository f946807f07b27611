//! The functions as deployed: webhooks through the HTTP API of a stack on an emulated AWS, which `infra/cloud/run` starts
//! and deploys to. They assert what is in the table, the queues and the bucket, and what the platforms received.
//!
//! Each call of a function to AWS is checked against the function's own role there.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests and their support: a panic is a failure that names its line"
)]

#[path = "cloud/access.rs"]
mod access;
#[path = "cloud/batches.rs"]
mod batches;
#[path = "cloud/console.rs"]
mod console;
#[path = "cloud/doors.rs"]
mod doors;
#[path = "cloud/schedule.rs"]
mod schedule;
#[path = "cloud/stack.rs"]
mod stack;

// The platforms and the model that the functions talk to.
#[path = "support/lark_api.rs"]
mod lark_api;
#[path = "support/model_api.rs"]
mod model_api;
#[path = "support/telegram_api.rs"]
mod telegram_api;
