//! The outside tools that a server has ever called destructive, so that a server cannot take that back by itself.
//!
//! ```json
//! {"pk": "tools:shop", "sk": "destructive", "toolNames": {"SS": ["refund", "cancel"]}}
//! ```
//!
//! One item for each server of `TOOLS`, by its name there, in the table of the histories; it holds nothing of a chat.
//! Names are only ever added.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::types::AttributeValue;

use super::table::Update;
use super::{History, HistoryError};

const SORT_KEY: &str = "destructive";
const NAMES: &str = "toolNames";

impl History {
    /// Returns the names of the tools that `server` has ever called destructive. One read.
    pub async fn destructive_tools(&self, server: &str) -> Result<BTreeSet<String>, HistoryError> {
        let item = self.table.get(&partition(server), SORT_KEY).await?.unwrap_or_default();
        let names = item.get(NAMES).and_then(|names| names.as_ss().ok());
        Ok(names.into_iter().flatten().cloned().collect())
    }

    /// Adds `names`, of which there is at least one. One write; safe to repeat, and beside others.
    pub async fn add_destructive_tools(&self, server: &str, names: Vec<String>) -> Result<(), HistoryError> {
        self.table
            .update(&partition(server), SORT_KEY, Update::default().add(NAMES, AttributeValue::Ss(names)))
            .await?;
        Ok(())
    }
}

fn partition(server: &str) -> String {
    format!("tools:{server}")
}
