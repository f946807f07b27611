//! Whole-process tests: the local program over its real engines, with emulators of the platforms and models.

#[path = "end_to_end/budgets.rs"]
mod budgets;
#[path = "end_to_end/crash.rs"]
mod crash;
