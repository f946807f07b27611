//! The functions as deployed: webhooks through the HTTP API of a stack on an emulated AWS, which `infra/cloud/run` starts
//! and deploys to. They assert the content of the table, the queues and the bucket, and the calls to the platforms.
//!
//! Each call of a function to AWS is checked against the function's own role there.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests and their support: a panic is a failure that names its line"
)]

mod access;
mod batches;
mod bootstrap;
mod console;
mod endpoints;
mod relay;
mod schedule;
mod stack;
