//! Requests to AWS.
//!
//! # Layout
//! - [`config`]: the configuration that all clients share, in a function and elsewhere
//! - [`connector`]: sends the requests of all clients with one `reqwest` client
//! - [`service`]: signed requests to S3, SQS and Secrets Manager
//! - [`bucket`]: a bucket of S3
//!
//! DynamoDB has its SDK crate. Of the other services a program calls a few operations, and their SDK crates were a quarter of the
//! binary of a webhook function: the tables of S3's checksums alone were 700 KB.

pub mod bucket;
pub mod config;
pub mod connector;
pub mod service;

pub use aws_config::SdkConfig;
