//! Links between the identities of one person: [`People`]. They are in the table of the histories, in partitions of
//! their own, each item a state in JSON:
//!
//! ```json
//! {"pk": "person:telegram-42", "sk": "!link", "personState": "{\"spans\":[{\"person\":\"ada\",\"from\":1763765920000}],\"window\":\"telegram:chat:42\"}"}
//! {"pk": "person:ada", "sk": "!has#9f86d081…", "personState": "\"telegram-42\""}
//! {"pk": "person:ada", "sk": "!exchange", "personState": "\"2c26b46b…\"", "expiresAt": 1763853520}
//! {"pk": "person:lark-ou_eve", "sk": "!wrong", "personState": "[[1763765920000,\"1763765920000#00…07\"]]", "expiresAt": 1763853520}
//! {"pk": "person:ada", "sk": "!erasing", "personState": "{\"startedAt\":1763765920000,\"before\":\"eyJ…\"}"}
//! {"pk": "link:2c26b46b…", "sk": "!exchange", "personState": "{\"first\":{\"identity\":\"ada\",…},…}", "expiresAt": 1763853520}
//! ```
//!
//! `!link` of an identity says whose chat its messages belong to, by their own time, so that a message that is delivered
//! again after a link meets the record of its first delivery. `!has#<digest>` of a Person names an identity that is, or
//! is about to be, linked to it: it is written before the link and emptied after it, and counts only if the link agrees.
//! An exchange of `/link` is at the digest of its code; `!exchange` of an identity names the one that it takes part in.
//!
//! A state is changed by a write on the condition that it is as it was read.

use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::person::canonical;
use annals_core::record::Channel;
use annals_core::sort_key::Timestamp;
use annals_io::clock::Clock;
use ring::digest::{SHA256, digest};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::history::item::text;
use crate::history::table::{Span, Table, Update, Written, number, string};
use crate::history::{History, HistoryError};

const LINK: &str = "!link";
const MEMBER: &str = "!has#";
const EXCHANGE: &str = "!exchange";
const WRONG: &str = "!wrong";
const ERASING: &str = "!erasing";

/// Maximum number of attempts at one change while other processes change the same state.
const MAX_ATTEMPTS: u32 = 16;

/// Maximum number of spans of one identity that are kept: the oldest are dropped.
const MAX_SPANS: usize = 32;

/// Time after its last change for which the state of an exchange and of wrong codes stays in the table.
const KEPT_FOR: Duration = Duration::from_hours(24);

/// The links of everybody.
#[derive(Clone, Debug)]
pub struct People {
    table: Table,
    clock: Clock,
}

/// The chats that the messages of an identity belong to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The times in which it is linked, in order.
    #[serde(default)]
    pub spans: Vec<Linked>,
    /// The chat that was left for the person's: the platform's window, or the identity's own direct chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<ChatKey>,
    /// Key of the command that last separated everybody who was linked to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlinked_by: Option<String>,
}

/// A time in which an identity is linked to a Person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Linked {
    pub person: String,
    pub from: Timestamp,
    /// Its end; `None` if it lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
    /// Key of the command that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl Identity {
    /// Returns the Person that it is linked to now.
    pub fn person(&self) -> Option<&str> {
        self.spans.last().filter(|span| span.to.is_none()).map(|span| span.person.as_str())
    }

    /// Returns the Person that it was linked to at `ts`.
    pub fn person_at(&self, ts: Timestamp) -> Option<&str> {
        let is_at = |span: &&Linked| span.from <= ts && span.to.is_none_or(|to| ts < to);
        self.spans.iter().rev().find(is_at).map(|span| span.person.as_str())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    pub identity: String,
    pub channel: Channel,
    /// The platform's name for the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// An exchange of `/link`. Each step names the key of the command that took it, so that the command's repeat gets the
/// same answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// The side that was given the code.
    pub first: Side,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<Side>,
    /// End of the time for the next step.
    pub until: Timestamp,
    /// The second side entered the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entered: Option<String>,
    /// The second side confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreed: Option<String>,
    /// The first side was told who the second is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<String>,
    /// The first side confirmed, and the link is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linked: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Erasure {
    pub started_at: Timestamp,
    /// The chats that are still to be visited in the list of chats: those after this cursor, or from the top.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// True if the whole list was walked, and only chats that were used since are still to be visited.
    #[serde(default)]
    pub walked: bool,
    /// The chat that is being erased in. What is left of the person there may not show any more that it is theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<Begun>,
}

/// A chat in which an erasure has begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Begun {
    pub chat: String,
    /// True if all of it is deleted, false if the person's records are.
    pub is_whole: bool,
}

impl People {
    /// Opens the links in the table of `history`.
    pub fn beside(history: &History) -> Self {
        Self { table: history.table().clone(), clock: history.clock().clone() }
    }

    pub async fn identity(&self, identity: &str) -> Result<Identity, HistoryError> {
        Ok(self.read(&person(identity), LINK).await?.0.unwrap_or_default())
    }

    /// Returns the Person of `identity`, which may be written `discord-<id>`: itself, unless it is linked.
    pub async fn person_of(&self, identity: &str) -> Result<String, HistoryError> {
        let identity = canonical(identity);
        let known = self.identity(identity).await?;
        Ok(known.person().unwrap_or(identity).to_owned())
    }

    /// Links `identity` to `to` for messages from `from` on; does nothing if it is.
    pub async fn link(&self, identity: &str, to: &str, from: Timestamp) -> Result<(), HistoryError> {
        self.change(&person(identity), LINK, None, |known: Option<Identity>| {
            let mut known = known.unwrap_or_default();
            if known.person() == Some(to) {
                return None;
            }
            let mut from = from;
            if let Some(last) = known.spans.last_mut() {
                from = from.max(last.from).max(*last.to.get_or_insert(from.max(last.from)));
            }
            known.spans.push(Linked { person: to.to_owned(), from, to: None, by: None });
            let dropped = known.spans.len().saturating_sub(MAX_SPANS);
            known.spans.drain(..dropped);
            Some(known)
        })
        .await
    }

    /// Ends the link of `identity` to `from` at `at`, by the command at the key `by`; does nothing if it has ended.
    pub async fn unlink(
        &self,
        identity: &str,
        from: &str,
        at: Timestamp,
        by: &str,
    ) -> Result<(), HistoryError> {
        self.change(&person(identity), LINK, None, |known: Option<Identity>| {
            let mut known = known?;
            let last = known.spans.last_mut().filter(|last| last.to.is_none() && last.person == from)?;
            (last.to, last.by) = (Some(at.max(last.from)), Some(by.to_owned()));
            Some(known)
        })
        .await
    }

    /// Notes the window that `identity` left for its person's chat; `None` if it uses its own again.
    pub async fn set_window(&self, identity: &str, window: Option<&ChatKey>) -> Result<(), HistoryError> {
        self.change(&person(identity), LINK, None, |known: Option<Identity>| {
            let known = known.unwrap_or_default();
            let changed = known.window.as_ref() != window;
            changed.then(|| Identity { window: window.cloned(), ..known })
        })
        .await
    }

    /// Notes that the command at the key `by` separates everybody who is linked to `to`.
    pub async fn begin_unlinking(&self, to: &str, by: &str) -> Result<(), HistoryError> {
        self.change(&person(to), LINK, None, |known: Option<Identity>| {
            Some(Identity { unlinked_by: Some(by.to_owned()), ..known.unwrap_or_default() })
        })
        .await
    }

    /// Returns the identities that are linked to `to` now, in no order. One query, and one read for each.
    pub async fn linked_to(&self, to: &str) -> Result<Vec<String>, HistoryError> {
        let span = Span::all(MEMBER, format!("{MEMBER}~"));
        let items = self.table.query(&person(to), &span).await?;
        let mut linked = Vec::new();
        for item in &items {
            let Some(identity) = text(item, "personState") else { continue };
            let identity: String = serde_json::from_str(identity)?;
            if self.identity(&identity).await?.person() == Some(to) {
                linked.push(identity);
            }
        }
        Ok(linked)
    }

    /// Returns the Person of `identity`, and all identities of that Person: itself first.
    pub async fn everybody(&self, identity: &str) -> Result<Vec<String>, HistoryError> {
        let to = self.person_of(identity).await?;
        let linked = self.linked_to(&to).await?;
        Ok([vec![to], linked].concat())
    }

    /// Notes that `identity` is about to be linked to `to`. One write.
    pub async fn add_member(&self, to: &str, identity: &str) -> Result<(), HistoryError> {
        let state = serde_json::to_string(identity)?;
        let update = Update::default().set("personState", string(state));
        self.table.update(&person(to), &member(identity), update).await?;
        Ok(())
    }

    /// Empties the note of [`People::add_member`]. One write.
    pub async fn remove_member(&self, to: &str, identity: &str) -> Result<(), HistoryError> {
        self.table.update(&person(to), &member(identity), Update::default().remove(["personState"])).await?;
        Ok(())
    }

    /// Starts an exchange with `code`, which replaces an earlier one of its first side.
    pub async fn offer(&self, code: &str, exchange: &Exchange) -> Result<(), HistoryError> {
        let digest = digest_of(code);
        self.change(&exchange_at(&digest), EXCHANGE, Some(KEPT_FOR), |_: Option<Exchange>| {
            Some(exchange.clone())
        })
        .await?;
        self.join_exchange(&exchange.first.identity, &digest).await
    }

    /// Makes the exchange with this digest the one that `identity` takes part in.
    pub async fn join_exchange(&self, identity: &str, digest: &str) -> Result<(), HistoryError> {
        self.change(&person(identity), EXCHANGE, Some(KEPT_FOR), |_: Option<String>| Some(digest.to_owned()))
            .await
    }

    /// Returns the digest of the exchange that `identity` takes part in, and the exchange.
    pub async fn exchange_of(&self, identity: &str) -> Result<Option<(String, Exchange)>, HistoryError> {
        let digest: Option<String> = self.read(&person(identity), EXCHANGE).await?.0;
        let Some(digest) = digest else { return Ok(None) };
        Ok(self.exchange(&digest).await?.map(|exchange| (digest, exchange)))
    }

    pub async fn exchange(&self, digest: &str) -> Result<Option<Exchange>, HistoryError> {
        Ok(self.read(&exchange_at(digest), EXCHANGE).await?.0)
    }

    /// Takes a step of the exchange with this digest, if `step` allows it; returns the exchange as it is then.
    pub async fn step(
        &self,
        digest: &str,
        step: impl Fn(&Exchange) -> Option<Exchange>,
    ) -> Result<Option<Exchange>, HistoryError> {
        let at = exchange_at(digest);
        self.change(&at, EXCHANGE, Some(KEPT_FOR), |known: Option<Exchange>| step(&known?)).await?;
        self.exchange(digest).await
    }

    /// Counts a code that the Person `of` enters by the command at `key` as wrong, unless `most` were in the time
    /// `within`. Returns false if they were. A repeated command counts once.
    pub async fn count_wrong(
        &self,
        of: &str,
        key: &str,
        most: usize,
        within: Duration,
    ) -> Result<bool, HistoryError> {
        let now = self.clock.now();
        let is_known = |wrong: &[(Timestamp, String)]| wrong.iter().any(|(_, known)| known == key);
        let recent = |wrong: Option<Vec<(Timestamp, String)>>| {
            let mut wrong = wrong.unwrap_or_default();
            wrong.retain(|(at, _)| now.since(*at) < within);
            wrong
        };
        self.change(&person(of), WRONG, Some(KEPT_FOR), |wrong| {
            let mut wrong = recent(wrong);
            let may_count = wrong.len() < most && !is_known(&wrong);
            may_count.then(|| {
                wrong.push((now, key.to_owned()));
                wrong
            })
        })
        .await?;
        Ok(is_known(&recent(self.read(&person(of), WRONG).await?.0)))
    }

    /// Takes back [`People::count_wrong`].
    pub async fn was_right(&self, of: &str, key: &str) -> Result<(), HistoryError> {
        self.change(&person(of), WRONG, Some(KEPT_FOR), |wrong: Option<Vec<(Timestamp, String)>>| {
            let mut wrong = wrong?;
            let count = wrong.len();
            wrong.retain(|(_, known)| known != key);
            (wrong.len() < count).then_some(wrong)
        })
        .await
    }

    /// Returns the progress of the erasure of `of`, if one has begun.
    pub async fn erasure(&self, of: &str) -> Result<Option<Erasure>, HistoryError> {
        Ok(self.read(&person(of), ERASING).await?.0)
    }

    /// Notes the progress of the erasure of `of`.
    pub async fn set_erasure(&self, of: &str, erasure: &Erasure) -> Result<(), HistoryError> {
        self.change(&person(of), ERASING, None, |_: Option<Erasure>| Some(erasure.clone())).await
    }

    /// Ends the exchange that `identity` takes part in. Its item stays, without a state, until its date: the functions of
    /// webhooks may delete nothing.
    pub async fn end_exchange(&self, identity: &str) -> Result<(), HistoryError> {
        if let Some((digest, _)) = self.exchange_of(identity).await? {
            let update = Update::default().remove(["personState"]).when("attribute_exists(pk)");
            self.table.update(&exchange_at(&digest), EXCHANGE, update).await?;
        }
        Ok(())
    }

    /// Deletes everything that is stored of links of `identity`.
    pub async fn forget(&self, identity: &str) -> Result<(), HistoryError> {
        let (digest, _): (Option<String>, _) = self.read(&person(identity), EXCHANGE).await?;
        if let Some(digest) = digest {
            self.table.delete(&exchange_at(&digest), vec![EXCHANGE.to_owned()]).await?;
        }
        let keys = self.table.keys(&person(identity)).await?;
        Ok(self.table.delete(&person(identity), keys).await?)
    }

    /// Reads a state, and its text.
    async fn read<T: DeserializeOwned>(
        &self,
        pk: &str,
        sk: &str,
    ) -> Result<(Option<T>, Option<String>), HistoryError> {
        let item = self.table.get(pk, sk).await?.unwrap_or_default();
        let Some(state) = text(&item, "personState") else { return Ok((None, None)) };
        Ok((Some(serde_json::from_str(state)?), Some(state.to_owned())))
    }

    /// Replaces a state by the result of `change`, unless that is `None`.
    async fn change<T: Serialize + DeserializeOwned>(
        &self,
        pk: &str,
        sk: &str,
        kept_for: Option<Duration>,
        change: impl Fn(Option<T>) -> Option<T>,
    ) -> Result<(), HistoryError> {
        for _ in 0..MAX_ATTEMPTS {
            let (known, old) = self.read(pk, sk).await?;
            let Some(new) = change(known) else { return Ok(()) };
            let new = serde_json::to_string(&new)?;
            if old.as_ref() == Some(&new) {
                return Ok(());
            }
            let expires_at = kept_for.map(|kept_for| self.clock.now().plus(kept_for).as_millis() / 1000);
            let update =
                Update::default().set("personState", string(&new)).set("expiresAt", expires_at.map(number));
            let update = match old {
                Some(old) => update.when("personState = :old").bind(":old", string(old)),
                None => update.when("attribute_not_exists(pk)"),
            };
            match self.table.update(pk, sk, update).await? {
                Written::Done(_) => return Ok(()),
                // The SDK repeats a request whose answer was lost, and the repeat fails on its own success.
                Written::Refused(item) if text(&item, "personState") == Some(new.as_str()) => return Ok(()),
                Written::Refused(_) => {}
            }
        }
        Err(HistoryError::LinkContended)
    }
}

/// Returns the digest at which the exchange of `code` is stored.
pub fn digest_of(code: &str) -> String {
    hex::encode(digest(&SHA256, code.as_bytes()))
}

fn person(identity: &str) -> String {
    format!("person:{identity}")
}

/// Returns the sort key of an identity of a Person; an identity may be longer than a sort key.
fn member(identity: &str) -> String {
    format!("{MEMBER}{}", digest_of(identity))
}

fn exchange_at(digest: &str) -> String {
    format!("link:{digest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis).unwrap()
    }

    #[test]
    fn a_message_belongs_to_the_person_of_its_own_time() {
        let linked = |person: &str, from, to: Option<i64>| Linked {
            person: person.into(),
            from: at(from),
            to: to.map(at),
            by: None,
        };
        let spans = vec![linked("ada", 10, Some(20)), linked("bo", 30, Some(30)), linked("cy", 30, None)];
        let identity = Identity { spans, ..Identity::default() };
        let whose = |ts| identity.person_at(at(ts));
        assert_eq!([whose(9), whose(10), whose(19), whose(20)], [None, Some("ada"), Some("ada"), None]);
        assert_eq!([whose(30), whose(99), identity.person()], [Some("cy"); 3]);
        assert_eq!(Identity::default().person_at(at(5)), None);
    }
}
