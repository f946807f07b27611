//! Stand-ins for what the program talks to.

pub(crate) mod aws_api;
pub(crate) mod faults;
pub(crate) mod lark_api;
pub(crate) mod mcp_server;
pub(crate) mod model_api;
pub(crate) mod openapi;
pub(crate) mod solo;
pub(crate) mod telegram_api;
pub(crate) mod template;
pub(crate) mod world;
