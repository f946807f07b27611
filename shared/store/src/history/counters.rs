//! Counters of usage: tokens and cost of a person, a chat or an API key in one day, for `LIMITS`.
//!
//! ```text
//! {"pk": "person:telegram-42", "sk": "!usage#2026-11-25", "usedTokens": 1234, "usedCost": 0.0123, "isTold": true,
//!  "expiresAt": 1764201600}
//! ```
//!
//! The partition is `person:<identity>`, the chat's, or `key:<name>`. Only limits depend on a counter. It is added to in the
//! transaction that puts a reply, so each reply counts once, whatever is repeated. Adds need no condition, so replies of several
//! chats of one person or key all count.

use annals_core::chat_key::ChatKey;
use annals_core::limits::Used;
use annals_core::sort_key::Timestamp;
use aws_sdk_dynamodb::types::AttributeValue;

use super::table::{Item, Update, item_at, number};
use super::{History, HistoryError, partition};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CounterOf {
    /// A Person, by the identity that others are linked to.
    Person(String),
    Chat(ChatKey),
    /// An API key, by its name.
    Key(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    pub of: CounterOf,
    /// The day, as `2026-11-25`.
    pub day: String,
}

impl Counter {
    fn pk(&self) -> String {
        match &self.of {
            CounterOf::Person(identity) => format!("person:{identity}"),
            CounterOf::Chat(chat) => partition(chat),
            CounterOf::Key(name) => format!("key:{name}"),
        }
    }

    fn sk(&self) -> String {
        format!("!usage#{}", self.day)
    }
}

/// Usage that a reply adds to a counter.
#[derive(Clone, Debug, PartialEq)]
pub struct Addition {
    pub counter: Counter,
    pub used: Used,
    /// True if the reply tells that the limit is near.
    pub tells: bool,
    /// Date at which the counter may leave the table.
    pub expires_at: Timestamp,
}

impl Addition {
    /// Returns the key of the counter, and its update.
    pub(super) fn update(&self) -> (Item, Update) {
        let update = Update::default()
            .add("usedTokens", number(self.used.tokens))
            .add("usedCost", number(self.used.cost))
            .set("expiresAt", number(self.expires_at.as_millis() / 1000))
            .set("isTold", self.tells.then_some(AttributeValue::Bool(true)));
        (item_at(self.counter.pk(), self.counter.sk()), update)
    }
}

impl History {
    /// Reads a counter; returns true with it if its owner was told that the limit is near. One read.
    pub async fn used(&self, counter: &Counter) -> Result<(Used, bool), HistoryError> {
        let item = self.table.get(&counter.pk(), &counter.sk()).await?.unwrap_or_default();
        let amount = |name: &str| item.get(name).and_then(|value| value.as_n().ok());
        let used = Used {
            tokens: amount("usedTokens").and_then(|tokens| tokens.parse().ok()).unwrap_or_default(),
            cost: amount("usedCost").and_then(|cost| cost.parse().ok()).unwrap_or_default(),
        };
        let is_told = item.get("isTold").and_then(|told| told.as_bool().ok()).copied();
        Ok((used, is_told.unwrap_or_default()))
    }
}
