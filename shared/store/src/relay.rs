//! The state of the relay of Discord's gateway in DynamoDB: its lease, and the place in the gateway's events up to which
//! everything is stored ([`RelayStore`]).
//!
//! ```json
//! {"pk": "relay:discord:1100000000000000001", "sk": "!relay", "holder": "5b1f0c9a2d3e4f50", "fence": 3,
//!  "leaseUntil": 1763765980000, "sessionId": "0f3a…", "resumeUrl": "wss://gateway-us-east1-b.discord.gg", "seq": 42,
//!  "newest": "1441435000000000000", "since": "1441431000000000000", "awaited": ["41771983423143937"],
//!  "savedAt": 1763765920000}
//! ```
//!
//! One item for each application; no ChatKey starts with `relay:`. Every claim raises `fence`, and every other write has
//! the fence as its condition. `since` and `awaited` exist only while missed messages are fetched.

use std::collections::BTreeSet;
use std::time::Duration;

use annals_core::sort_key::Timestamp;
use annals_io::clock::Clock;
use aws_sdk_dynamodb::types::AttributeValue;

use crate::history::item::{integer, text, time};
use crate::history::table::{Item, Table, Update, Written, number, string};
use crate::history::{History, TableError};

const SORT_KEY: &str = "!relay";

/// The state of one application's relay.
#[derive(Clone, Debug)]
pub struct RelayStore {
    table: Table,
    clock: Clock,
    partition: String,
}

/// The right to run as the relay, until it runs out or another claim takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayLease {
    fence: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelayClaim {
    /// The claimant is the relay now, and continues from this place.
    Claimed(RelayLease, RelayPlace),
    /// Another process is the relay, at most until then.
    Busy(Timestamp),
}

/// The place in the gateway's events up to which everything is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RelayPlace {
    pub session: Option<RelaySession>,
    /// The greatest id of a stored message, or an id of the time of the first start; `None` before the first start.
    pub newest: Option<u64>,
    /// The messages that were missed and are not fetched yet.
    pub missed: Option<Missed>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelaySession {
    pub id: String,
    pub resume_url: String,
    /// Sequence number of the last event that is stored.
    pub seq: u64,
}

/// Messages that were missed between two sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missed {
    /// Id after which messages are missing.
    pub since: u64,
    /// Ids of the guilds that are still to be read.
    pub guilds: BTreeSet<u64>,
}

/// The relay as `doctor` reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayStatus {
    /// End of the lease, if a relay runs.
    pub runs_until: Option<Timestamp>,
    /// Time at which a place was last saved.
    pub saved_at: Option<Timestamp>,
}

/// A failure to read or write the state of the relay.
#[derive(Debug, thiserror::Error)]
pub enum RelayStoreError {
    #[error(transparent)]
    Table(#[from] TableError),
    #[error("another process has become the relay")]
    LeaseLost,
}

impl RelayStore {
    /// Opens the state of the relay of `application_id`, in the table of `history`.
    pub fn beside(history: &History, application_id: &str) -> Self {
        let partition = format!("relay:discord:{application_id}");
        Self { table: history.table().clone(), clock: history.clock().clone(), partition }
    }

    /// Becomes the relay for `duration`, unless another `holder` is. One write.
    pub async fn claim(&self, holder: &str, duration: Duration) -> Result<RelayClaim, RelayStoreError> {
        let now = self.clock.now();
        let update = Update::default()
            .increment("fence")
            .set("holder", string(holder))
            .set("leaseUntil", number(now.plus(duration)))
            // The same holder may claim again: the SDK repeats a claim whose answer was lost.
            .when("attribute_not_exists(leaseUntil) OR leaseUntil < :now OR holder = :holder")
            .bind(":now", number(now));
        Ok(match self.table.update(&self.partition, SORT_KEY, update).await? {
            Written::Done(item) => {
                let fence = integer(&item, "fence").unwrap_or_default();
                RelayClaim::Claimed(RelayLease { fence }, place(&item))
            }
            Written::Refused(item) => RelayClaim::Busy(time(&item, "leaseUntil").unwrap_or(now)),
        })
    }

    /// Saves `place`, and renews the lease for `duration` from now on. One write.
    pub async fn save(
        &self,
        lease: RelayLease,
        place: &RelayPlace,
        duration: Duration,
    ) -> Result<(), RelayStoreError> {
        let now = self.clock.now();
        let update =
            Update::default().set("leaseUntil", number(now.plus(duration))).set("savedAt", number(now));
        self.write(lease, with_place(update, place)).await
    }

    /// Renews the lease for `duration` from now on. One write.
    pub async fn renew(&self, lease: RelayLease, duration: Duration) -> Result<(), RelayStoreError> {
        let until = self.clock.now().plus(duration);
        self.write(lease, Update::default().set("leaseUntil", number(until))).await
    }

    /// Ends the lease, so that another process can claim it at once. One write.
    pub async fn release(&self, lease: RelayLease) -> Result<(), RelayStoreError> {
        self.write(lease, Update::default().remove(["leaseUntil", "holder"])).await
    }

    /// Reads when a relay last ran and saved. One read.
    pub async fn status(&self) -> Result<RelayStatus, RelayStoreError> {
        let item = self.table.get(&self.partition, SORT_KEY).await?.unwrap_or_default();
        let now = self.clock.now();
        let runs_until = time(&item, "leaseUntil").filter(|until| *until >= now);
        Ok(RelayStatus { runs_until, saved_at: time(&item, "savedAt") })
    }

    /// Reads the saved place. One read.
    pub async fn place(&self) -> Result<RelayPlace, RelayStoreError> {
        Ok(self.table.get(&self.partition, SORT_KEY).await?.as_ref().map(place).unwrap_or_default())
    }

    async fn write(&self, lease: RelayLease, update: Update) -> Result<(), RelayStoreError> {
        let update = update.when("fence = :fence").bind(":fence", number(lease.fence));
        match self.table.update(&self.partition, SORT_KEY, update).await? {
            Written::Done(_) => Ok(()),
            Written::Refused(_) => Err(RelayStoreError::LeaseLost),
        }
    }
}

fn with_place(update: Update, place: &RelayPlace) -> Update {
    let update = update.set("newest", place.newest.map(|id| string(id.to_string())));
    let update = match &place.session {
        Some(RelaySession { id, resume_url, seq }) => {
            update.set("sessionId", string(id)).set("resumeUrl", string(resume_url)).set("seq", number(*seq))
        }
        None => update.remove(["sessionId", "resumeUrl", "seq"]),
    };
    let Some(Missed { since, guilds }) = &place.missed else { return update.remove(["since", "awaited"]) };
    let update = update.set("since", string(since.to_string()));
    if guilds.is_empty() {
        return update.remove(["awaited"]);
    }
    update.set("awaited", AttributeValue::Ss(guilds.iter().map(u64::to_string).collect()))
}

fn place(item: &Item) -> RelayPlace {
    let session = || {
        Some(RelaySession {
            id: text(item, "sessionId")?.to_owned(),
            resume_url: text(item, "resumeUrl")?.to_owned(),
            seq: integer(item, "seq").and_then(|seq| u64::try_from(seq).ok())?,
        })
    };
    let missed = || {
        let since = id(item, "since")?;
        let guilds = item.get("awaited").and_then(|set| set.as_ss().ok()).into_iter().flatten();
        Some(Missed { since, guilds: guilds.filter_map(|id| id.parse().ok()).collect() })
    };
    RelayPlace { session: session(), newest: id(item, "newest"), missed: missed() }
}

fn id(item: &Item, name: &str) -> Option<u64> {
    text(item, name)?.parse().ok()
}
