//! The relay against an emulator of Discord's gateway and the embedded stores.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is a failure that names its line")]

mod events;
mod fatal;
mod handover;
mod missed;
mod stalled;
mod world;
