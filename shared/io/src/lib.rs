//! Common parts of all code with I/O.
//!
//! # Layout
//!
//! - [`aws_host`]: AWS's host names
//! - [`clock`]: time, of the system or of a test
//! - [`connection`], [`tls`]: HTTP clients that share one TLS configuration
//! - [`environment`]: environment variables
//! - [`mod@errors`]: errors with their causes, in one text
//! - [`metrics`]: counters for CloudWatch
//! - [`random`]: random ids and secrets
//! - [`recorder`]: counts and records what a run does for one turn
//! - [`spans`]: spans that name the chat of log lines

pub mod aws_host;
pub mod clock;
pub mod connection;
pub mod environment;
pub mod errors;
pub mod metrics;
pub mod random;
pub mod recorder;
pub mod spans;
pub mod tls;
