//! One module per platform. Each has the same parts: wire types, verify, parse, send. What they share: [`settings`], an
//! HTTP client that is made when it is needed (`connection`), files as a platform gives them, and a lenient look at
//! JSON (`view`).

pub(crate) mod connection;
pub mod file;
pub mod lark;
pub mod settings;
pub mod telegram;
mod view;
