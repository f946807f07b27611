//! Annals on a laptop: the functions' own handlers in one process, over a DynamoDB engine and an S3 service that the
//! same AWS SDK code talks to.
//!
//! # Layout
//!
//! - [`config`]: settings, and the development secrets where none are set
//! - [`stores`]: DynamoDB and S3 inside the process
//! - [`queue`]: the in-process form of the FIFO queue
//! - [`outbox`]: replies of channels that are not set up
//! - [`upkeep`]: the compactor's schedule, and the expiry of records
//! - [`program`]: wires them to the handlers and serves
//! - [`greeting`]: what is printed at the start
//! - [`guard`]: keeps web pages out; [`server`]: keeps slow clients out
//! - [`aws`]: stores, queue and secrets as AWS's services, for functions in containers
//! - [`doctor`]: says what is wrong, and what to do
//! - [`setup`]: has platforms send to Annals
//! - [`terminal`]: `annals chat`
//! - [`import`]: other programs' histories
//! - [`replay`], [`show`], [`memory`]: the other commands; [`said`]: errors for people, [`progress`]: how far long work is,
//!   [`tty`]: what a terminal takes

pub mod aws;
pub mod config;
pub mod doctor;
pub mod greeting;
pub mod guard;
pub mod import;
pub mod memory;
pub mod outbox;
pub mod program;
pub mod progress;
pub mod queue;
pub mod replay;
pub mod said;
pub mod server;
pub mod setup;
pub mod show;
pub mod stores;
pub mod terminal;
pub mod tty;
pub mod upkeep;
