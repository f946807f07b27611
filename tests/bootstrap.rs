//! Each function's `bootstrap` alone, under AWS's Lambda runtime interface emulator: every shape of event that it takes,
//! and those of infra/events/ as they are. They talk to the stores of the stack that `infra/cloud/run` has deployed, with the variables that
//! their functions were deployed with, and to a queue of each test's own, which no function reads.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests and their support: a panic is a failure that names its line"
)]

#[path = "bootstrap/agent.rs"]
mod agent;
#[path = "bootstrap/compactor.rs"]
mod compactor;
#[path = "bootstrap/doors.rs"]
mod doors;
#[path = "bootstrap/emulated.rs"]
mod emulated;
#[path = "bootstrap/events.rs"]
mod events;
#[path = "cloud/stack.rs"]
#[allow(dead_code, reason = "shared with the tests of the whole stack, which use the rest")]
mod stack;
#[path = "bootstrap/tokens.rs"]
mod tokens;

// The platforms and the model that the functions talk to.
#[path = "support/lark_api.rs"]
mod lark_api;
#[path = "support/model_api.rs"]
mod model_api;
#[path = "support/telegram_api.rs"]
mod telegram_api;
