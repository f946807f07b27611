//! Histories, memory and turns in AWS's stores, or in embedded ones that speak their protocols.
//!
//! # Layout
//!
//! - [`history`]: records in DynamoDB, large bodies and archived segments in S3
//! - [`memory`]: entries of memory in DynamoDB
//! - [`people`]: links between the identities of one person
//! - [`queue`]: turns in SQS, or in the local program's own queue
//! - [`relay`]: lease and place of the relay of Discord's gateway
//! - [`settings`]: names of table and bucket, retention

#![allow(missing_docs, reason = "an item is documented where its name does not say it")]

pub mod history;
pub mod memory;
pub mod people;
pub mod queue;
pub mod relay;
pub mod settings;
