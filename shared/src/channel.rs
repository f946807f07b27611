//! One module per platform. Each has the same parts: wire types, verify, parse, send.

pub mod lark;
pub mod telegram;
