//! Common parts of the `main` of every function.
//!
//! # Layout
//!
//! - [`process`]: the process of a function; [`mod@function`]: the function of a webhook
//! - [`channels`]: the channels of platforms, one line each
//! - [`aws`]: the histories in AWS
//! - [`gateway`]: requests of API Gateway and function URLs
//! - [`secrets`]: settings from the environment and from secrets
//! - [`telemetry`]: logs and traces; [`metrics`]: reports of counters
//! - [`request_body`]: reads bodies of requests within bounds
//! - [`problem`]: errors for callers
//! - [`webhook`]: the route of a webhook

pub mod aws;
pub mod channels;
pub mod function;
pub mod gateway;
pub mod metrics;
pub mod problem;
pub mod process;
pub mod request_body;
pub mod secrets;
pub mod telemetry;
pub mod webhook;
