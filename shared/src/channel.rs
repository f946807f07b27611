//! One module per platform. Each has the same parts: wire types, verify, parse, send. What they share: [`settings`], and
//! a lenient look at JSON (`view`).

pub mod lark;
pub mod settings;
pub mod telegram;
mod view;
