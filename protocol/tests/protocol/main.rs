//! The two models, explored and compared with the code. One binary, since the code under test takes long to link.
#![allow(clippy::unwrap_used, reason = "tests: a panic is a failure that names its line")]

mod check;
mod explore;
mod life;
mod replay;
mod trace;
