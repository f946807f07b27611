//! What the functions of Annals share.
//!
//! # Layout
//!
//! The domain, with no I/O:
//!
//! - [`chat_key`]: names of chats and of who speaks in them
//! - [`sort_key`]: time, message ids, and keys whose byte order is chat order
//! - [`message`]: the AI SDK's `UIMessage`, kept without loss
//! - [`record`]: what a history is made of
//! - [`mod@context`]: what the model sees, a pure function of records and time
//! - [`sender`]: who a record is from, for a model; [`markup`]: the elements that a request consists of
//! - [`media`]: which files are images that a model can be shown, and what a file is called
//! - [`access`]: who may use the bot
//! - [`approval`]: calls that somebody must allow first; [`visible`]: how people are shown them
//! - [`command`]: `/new`, `/compact`, `/help` and the others
//! - [`tokens`]: how many tokens a text takes
//! - [`refusal`]: whether a model declined
//! - [`ranking`]: which texts fit a question best
//!
//! The outside systems, one module each:
//!
//! - [`history`]: records in DynamoDB, large bodies and archived segments in S3
//! - [`memory`]: what is kept of Sessions: small Markdown entries, in DynamoDB
//! - [`live`]: what a run says while it makes a reply
//! - [`queue`]: turns in SQS, or in the local program's own queue
//! - [`model`]: language models
//! - [`channel`]: one module per platform: wire types, verify, parse, send
//! - [`delivery`]: which channel a reply goes out by; [`pace`]: how fast
//!
//! What ties them:
//!
//! - [`ingress`]: append, then enqueue; commands
//! - [`compaction`]: which messages a summary stands for (pure), and the steps by which it comes about
//! - [`upkeep`]: what is done for a chat that is due
//! - [`forgetting`]: deleting everything of a chat
//! - [`request_body`]: reading what is posted, within bounds
//! - [`config`], [`clock`], [`problem`] (errors for callers), [`telemetry`] (logs), [`metrics`], [`aws`] (a deployed
//!   function's clients), [`tls`]

pub mod access;
pub mod approval;
pub mod aws;
pub mod channel;
pub mod chat_key;
pub mod clock;
pub mod command;
pub mod compaction;
pub mod config;
pub mod context;
pub mod delivery;
pub mod forgetting;
pub mod history;
pub mod ingress;
pub mod live;
pub mod markup;
pub mod media;
pub mod memory;
pub mod message;
pub mod metrics;
pub mod model;
pub mod pace;
pub mod problem;
pub mod queue;
pub mod random;
pub mod ranking;
pub mod record;
pub mod refusal;
pub mod request_body;
pub mod sender;
pub mod sort_key;
pub mod telemetry;
pub mod tls;
pub mod tokens;
#[cfg(test)]
pub(crate) mod told;
pub mod upkeep;
pub mod visible;
