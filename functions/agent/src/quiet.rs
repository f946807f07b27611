//! Waiting for the rest of a burst: people send what they have to say in several messages, and an album comes as one
//! webhook an item. All of them get one answer.

use std::collections::HashSet;
use std::time::Duration;

use annals_core::message::Role;
use annals_core::record::Record;
use annals_core::sort_key::{SortKey, Timestamp};

use crate::agent::Agent;

/// Quiet time after the last item of an album before it is answered.
const ALBUM_QUIET: Duration = Duration::from_millis(1500);
/// Maximum wait for a burst from its first message on, and for albums from the first item of the first on, in quiet times.
const MAX_QUIETS: u32 = 5;

impl Agent {
    /// Waits until a chat in which a message has come at `arrived` may be quiet: before its run begins, so that the run need
    /// not read the chat twice to see that nothing more has come.
    pub async fn settle(&self, arrived: Option<Timestamp>) {
        let Some(arrived) = arrived else { return };
        // Another process's clock may be ahead.
        let pause = arrived.plus(self.quiet).since(self.clock.now()).min(self.quiet);
        if !pause.is_zero() {
            self.clock.sleep(pause).await;
        }
    }
}

/// Returns the time to wait for more, if some of the unanswered messages have only just arrived. `quiet` is
/// [`Agent::quiet`].
pub(crate) fn pause_for_more(
    quiet: Duration,
    now: Timestamp,
    records: &[Record],
    unanswered: &[SortKey],
) -> Option<Duration> {
    let unanswered: HashSet<&SortKey> = unanswered.iter().collect();
    let waiting = || records.iter().filter(|record| unanswered.contains(&record.key.base()));
    // Of all albums: with one after another, the newest alone is never old.
    let items = || waiting().filter(|record| record.album().is_some()).map(|record| record.sent_at);
    let album_until = items()
        .min()
        .zip(items().max())
        .map(|(first, newest)| newest.plus(ALBUM_QUIET).min(first.plus(ALBUM_QUIET * MAX_QUIETS)));
    let burst = waiting().filter(|record| record.role() == Role::User);
    let until = album_until.max(burst_until(quiet, records, burst))?;
    (until > now).then(|| until.since(now))
}

/// Returns the end of the wait for a burst that holds the `waiting` messages. Every message of their senders counts,
/// including those that need no answer.
fn burst_until<'a>(
    quiet: Duration,
    records: &[Record],
    waiting: impl Iterator<Item = &'a Record>,
) -> Option<Timestamp> {
    let waiting: Vec<&Record> = waiting.filter(|record| record.channel.is_platform()).collect();
    let first = waiting.iter().map(|record| record.sent_at).min()?;
    let people: HashSet<&str> = waiting.iter().map(|record| record.user_id.as_str()).collect();
    let theirs = records.iter().filter(|r| r.role() == Role::User && people.contains(r.user_id.as_str()));
    let newest = theirs.map(|record| record.sent_at).max()?;
    Some(newest.plus(quiet).min(first.plus(quiet * MAX_QUIETS)))
}

#[cfg(test)]
mod tests {
    use annals_core::testing::{album_item, hours};

    use super::*;

    /// Returns an item of an album that came so many milliseconds after the others began.
    fn item(id: u64, album: &str, millis: u64) -> Record {
        let item = album_item(0, id, album);
        Record { sent_at: item.ts.plus(Duration::from_millis(millis)), ..item }
    }

    /// Returns the wait after the last of these items has come, in milliseconds.
    fn wait(items: &[Record]) -> Option<u128> {
        let unanswered: Vec<SortKey> = items.iter().map(|item| item.key.base()).collect();
        let now = items.iter().map(|item| item.sent_at).max()?;
        pause_for_more(Duration::ZERO, now, items, &unanswered).map(|pause| pause.as_millis())
    }

    #[test]
    fn an_album_is_waited_for_by_itself_and_not_without_end() {
        assert_eq!(item(1, "a", 0).sent_at, hours(0));
        let mut items: Vec<Record> = (0..=7).map(|id| item(id, "a", id * 1000)).collect();
        assert_eq!(wait(&items[..6]), Some(1500));
        assert_eq!(wait(&items), Some(500), "7.5 s after the first");
        items.push(item(8, "a", 8000));
        assert_eq!(wait(&items), None);
        items.push(item(9, "b", 30_000));
        assert_eq!(wait(&items[9..]), Some(1500), "another album");
        let albums: Vec<Record> = (0..=6).map(|id| item(id, &format!("album {id}"), id * 1400)).collect();
        assert_eq!(wait(&albums[..5]), Some(1500));
        assert_eq!(wait(&albums[..6]), Some(500), "7.5 s after the first album");
        assert_eq!(wait(&albums), None);
    }
}
