//! Properties of every parser, for any input: one function a parser, in [`TARGETS`].
//!
//! `tests/replay.rs` calls each with its seeds, and with seeds that were changed at random, in every test run. The target of
//! `fuzz/` calls the same functions with what a fuzzer finds.
//!
//! # Layout
//!
//! - [`keys`]: ChatKeys, sort keys, ids, cursors
//! - [`messages`]: `UIMessage`s, bodies of HTTP requests, files to import, segments
//! - [`platforms`]: webhooks of Telegram, Lark and Discord
//! - [`markdown`]: rendering for each platform
//! - [`settings`]: settings, dates, commands, entries of memory
//! - [`schemas`]: schemas of MCP tools
//! - [`answers`]: answers of models
//! - [`seeds`]: inputs to start from
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "properties for tests: a panic is a failure"
)]

pub mod answers;
pub mod keys;
pub mod markdown;
pub mod messages;
pub mod platforms;
pub mod schemas;
pub mod seeds;
pub mod settings;

/// A parser and what must hold for it.
#[derive(Debug)]
pub struct Target {
    /// Name of the parser, for `PARSER` of `fuzz/`.
    pub name: &'static str,
    /// Panics if a property does not hold for the input.
    pub check: fn(&[u8]),
    /// Returns inputs to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All parsers.
pub static TARGETS: [Target; 13] = [
    Target { name: "keys", check: keys::check, seeds: seeds::keys },
    Target { name: "cursors", check: keys::check_cursors, seeds: seeds::cursors },
    Target { name: "ui_message", check: messages::check_ui_message, seeds: seeds::ui_messages },
    Target { name: "http_body", check: messages::check_http_body, seeds: seeds::http_bodies },
    Target { name: "import", check: messages::check_import, seeds: seeds::imports },
    Target { name: "segment", check: messages::check_segment, seeds: seeds::segments },
    Target { name: "telegram", check: platforms::check_telegram, seeds: || seeds::of_platform("telegram") },
    Target { name: "lark", check: platforms::check_lark, seeds: seeds::lark },
    Target { name: "discord", check: platforms::check_discord, seeds: || seeds::of_platform("discord") },
    Target { name: "markdown", check: markdown::check, seeds: seeds::markdown },
    Target { name: "mcp_schema", check: schemas::check, seeds: seeds::schemas },
    Target { name: "answers", check: answers::check, seeds: seeds::answers },
    Target { name: "settings", check: settings::check, seeds: seeds::settings },
];
