//! Emulators of what lies outside the program: they keep state and refuse what the real ones refuse.
#![allow(dead_code, reason = "each has more to offer than every suite uses")]

pub(crate) mod model_api;
pub(crate) mod telegram_api;
