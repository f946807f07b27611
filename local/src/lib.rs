//! Annals on one machine: the handlers of all functions in one process, with an embedded DynamoDB engine and S3 service behind
//! the same AWS SDK code.
//!
//! # Layout
//!
//! - [`commands`]: the command line
//! - [`config`]: settings, with development secrets as defaults
//! - `dotenv`: settings in a file; [`settings`]: all of them, and names that look misspelt
//! - [`stores`]: DynamoDB and S3 inside the process
//! - [`histories`]: opens the histories of a data directory
//! - [`queue`]: the FIFO queue inside the process
//! - `outbox`: replies of channels that are not set up
//! - [`upkeep`]: runs the compactor, and deletes expired records
//! - [`program`]: wires them to the handlers and serves
//! - `greeting`: the text at the start
//! - `guard`: refuses web pages; [`server`]: disconnects slow clients
//! - [`aws`]: stores, queue and secrets as AWS services, for functions in containers
//! - `doctor`: reports faults and their remedies, also to the console (`status.rs`)
//! - `setup`: sets webhooks of platforms
//! - `terminal`: `annals chat`
//! - [`import`]: imports histories of other programs
//! - `target`: the program, stack or data directory that a command is for; [`api`]: its HTTP API
//! - `show`, `memory`, `export`, `tail`: commands that ask that API; `replay`: posts recorded webhooks
//! - `errors`: errors for people, `progress`: progress of long work, `tty`: capabilities of a terminal

pub mod api;
pub mod aws;
pub mod commands;
pub mod config;
mod doctor;
mod dotenv;
mod errors;
mod export;
mod greeting;
mod guard;
pub mod histories;
pub mod import;
mod memory;
mod outbox;
mod profiles;
pub mod program;
mod progress;
pub mod queue;
mod replay;
pub mod server;
pub mod settings;
mod setup;
mod show;
mod status;
pub mod stores;
mod tail;
mod target;
mod terminal;
mod tty;
pub mod upkeep;
