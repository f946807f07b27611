//! Whole-process tests: the local program over its real engines, with emulators of the platforms and models.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail as tests do")]

#[path = "end_to_end/budgets.rs"]
mod budgets;
#[path = "end_to_end/crash.rs"]
mod crash;
mod support;
