//! What more may come at once is waited for: people send what they have to say in several messages, and an album comes as
//! one webhook an item. All of it gets one answer.

use std::collections::HashSet;
use std::time::Duration;

use annals_shared::message::Role;
use annals_shared::record::Record;
use annals_shared::sort_key::{SortKey, Timestamp};

use crate::turn::Agent;

/// How long an album must have been quiet before it is answered.
const ALBUM_QUIET: Duration = Duration::from_millis(1500);
/// How many quiet times a burst is waited for at most, from its first message on.
const MAX_QUIETS: u32 = 5;

impl Agent {
    /// Waits until a chat may have grown quiet in which a message has come at `arrived`: before its run begins, so that
    /// the run need not read the chat twice to see that nothing more has come.
    pub async fn settle(&self, arrived: Option<Timestamp>) {
        let Some(arrived) = arrived else { return };
        // Another process's clock may be ahead.
        let pause = arrived.plus(self.quiet).since(self.clock.now()).min(self.quiet);
        if !pause.is_zero() {
            self.clock.sleep(pause).await;
        }
    }

    /// How long to wait for more, if some of the unanswered has only just arrived.
    pub(crate) fn pause_for_more(&self, records: &[Record], unanswered: &[SortKey]) -> Option<Duration> {
        let unanswered: HashSet<&SortKey> = unanswered.iter().collect();
        let waiting = || records.iter().filter(|record| unanswered.contains(&record.key.base()));
        let album = waiting().filter(|record| record.album.is_some()).map(|record| record.sent_at).max();
        let album_until = album.map(|newest| newest.plus(ALBUM_QUIET));
        let until =
            album_until.max(self.burst_until(records, waiting().filter(|r| r.role() == Role::User)))?;
        let now = self.clock.now();
        (until > now).then(|| until.since(now))
    }

    /// Until when a burst of what is `waiting` is waited for: what its people say counts, whether it asks or not.
    fn burst_until<'a>(
        &self,
        records: &[Record],
        waiting: impl Iterator<Item = &'a Record>,
    ) -> Option<Timestamp> {
        let waiting: Vec<&Record> = waiting.filter(|record| record.channel.has_bursts()).collect();
        let first = waiting.iter().map(|record| record.sent_at).min()?;
        let people: HashSet<&str> = waiting.iter().map(|record| record.user_id.as_str()).collect();
        let theirs = records.iter().filter(|r| r.role() == Role::User && people.contains(r.user_id.as_str()));
        let newest = theirs.map(|record| record.sent_at).max()?;
        Some(newest.plus(self.quiet).min(first.plus(self.quiet * MAX_QUIETS)))
    }
}
