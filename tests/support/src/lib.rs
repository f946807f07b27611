//! Support for the tests of every crate: emulators of what Annals talks to, on the loopback address, and readers of
//! `tests/fixtures/` and `infra/template.yaml`.
//!
//! # Layout
//!
//! - [`telegram_api`], [`lark_api`], [`discord_api`], [`discord_gateway`]: the platforms. They keep what they took and refuse
//!   what the platforms refuse.
//! - [`emulator`]: the base of these.
//! - [`model_api`]: OpenAI, Anthropic and Amazon Bedrock.
//! - [`mcp_server`]: a server of tools over the Model Context Protocol.
//! - [`aws_api`]: AWS, as far as `annals doctor` and `annals setup` look at it.
//! - [`lambda_api`]: Lambda's runtime API.
//! - [`exports`]: histories of other programs, to import.
//! - [`fixtures`]: recorded payloads and vectors.
//! - [`fault_proxy`]: a proxy that fails, delays, cuts and repeats, by seed.
//! - [`audit`]: a reader of a data directory that shares no code with the program, and checks what must be true of it.
//! - [`http`]: HTTP clients, and servers of any router.
//! - [`json`]: JSON for the tests of parsers.
//! - [`template`], [`permissions`](mod@permissions): the SAM template, and each function's role in it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "support for tests: a panic is a failure that names its line"
)]

pub mod audit;
pub mod aws_api;
pub mod discord_api;
pub mod discord_gateway;
pub mod emulator;
pub mod exports;
pub mod fault_proxy;
pub mod fixtures;
pub mod http;
pub mod json;
pub mod lambda_api;
pub mod lark_api;
pub mod mcp_server;
pub mod model_api;
pub mod permissions;
mod server;
pub mod telegram_api;
pub mod template;
