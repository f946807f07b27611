//! Archiving: whole records of a chat go to S3 as segments, each record into exactly one.
//!
//! A run that holds the chat's lease takes these steps for each segment, and a crash between any two is harmless:
//!
//! 1. It commits, under its fence, to the stretch that the segment goes over (`archiving` in the head). From here on each
//!    run finishes exactly this stretch first, so all of them meet at one object.
//! 2. It puts the object unless there is one. If there is, what that holds is the segment, whatever this run meant to put.
//! 3. It reads the object back and checks it.
//! 4. It puts the pointer, unless there is one: now the records are archived.
//! 5. It commits to the next stretch, or takes the last one out of the head.
//!
//! *Each record is in one segment.* A run chooses records behind step 5 of every stretch before: a commit holds only under
//! the newest fence, and a run that finds a stretch in the head finishes it. So the pointers that it reads show all that is
//! archived, it leaves that out, and while its stretch stands in the head no other is begun. A run that was overtaken can
//! at most put the object and the pointer of a stretch that another finishes too, and both are created once.
//!
//! Nothing is ever deleted here: the table's TTL removes records, at their `expiresAt`.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::item::{self, Stored};
use super::segment::{self, FormatError, SegmentId};
use super::shelf::{Segment, SegmentError, SegmentInfo, last_pointer, object_key, pointer_key};
use super::table::{Item, Span};
use super::turn::{Lease, Stretch, Superseded};
use super::{FIRST_KEY, History, HistoryError, LAST_KEY, partition};
use crate::chat_key::ChatKey;
use crate::record::Record;
use crate::sort_key::{SortKey, Timestamp};

/// The most records of a segment.
pub const MAX_SEGMENT_RECORDS: usize = 1000;

/// The most JSON of a segment, in bytes, but for one record that is longer.
pub const MAX_SEGMENT_BYTES: usize = 4 * 1024 * 1024;

/// How many records one request reads, unless 1 MB is fewer.
const READ_AT_ONCE: usize = 500;

/// Which records to archive, and how much at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToArchive {
    /// Only those that were appended before this time; any where `None`.
    pub sent_before: Option<Timestamp>,
    /// Only those up to this key; any where `None`.
    pub up_to: Option<SortKey>,
    /// Begin no further segment behind this many.
    pub max_segments: usize,
}

/// What an archiving run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archived {
    /// The segments that it stored, or found stored and pointed at.
    pub segments: usize,
    /// The records in them.
    pub records: u64,
    /// The compressed bytes of them.
    pub bytes: u64,
    /// Whether everything that was asked for is archived now; where not, come again.
    pub finished: bool,
    /// What it saw of the chat that is not archived.
    pub remaining: Option<Remaining>,
}

/// Records that are in no segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remaining {
    /// When the earliest was appended.
    pub sent_at: Timestamp,
    /// The earliest time at which one may leave the table, in epoch seconds; `None` where none ever does.
    pub expires_at: Option<i64>,
}

impl History {
    /// Archives those of `records`, all of the lease's chat, that are not archived. Safe to repeat after any failure.
    ///
    /// They are read again, since a record does not say where its large body lies. Where `ARCHIVE_ON_COMPACT=false`,
    /// only those that leave the table all the same: they were appended while it was `true`.
    pub async fn archive(
        &self,
        lease: &Lease,
        records: &[Record],
    ) -> Result<Result<Archived, Superseded>, HistoryError> {
        let keys: HashSet<&SortKey> = records.iter().map(|record| &record.key).collect();
        let nothing = Archived { finished: true, ..Archived::default() };
        let (Some(from), Some(to)) = (keys.iter().min(), keys.iter().max()) else { return Ok(Ok(nothing)) };
        if !records.iter().any(|record| self.leaves(record)) {
            return Ok(Ok(nothing));
        }
        let (from, to) = (from.to_string(), to.to_string());
        let run = Run { from, to, max_segments: usize::MAX, is_whole: false };
        self.run(lease, run, |record| keys.contains(&record.key)).await
    }

    /// Archives what `which` names of the lease's chat and is not archived, in key order, reading page by page, never
    /// the whole chat at once. Safe to repeat after any failure. Where `ARCHIVE_ON_COMPACT=false`, only what leaves the
    /// table all the same; the chat's head says up to where there is none of that any more.
    pub async fn archive_all(
        &self,
        lease: &Lease,
        which: &ToArchive,
    ) -> Result<Result<Archived, Superseded>, HistoryError> {
        let to = which.up_to.as_ref().map_or(LAST_KEY, SortKey::as_str);
        let is_whole =
            which.up_to.is_none() && which.sent_before.is_none_or(|before| before <= self.clock.now());
        let run = Run { from: FIRST_KEY.into(), to: to.into(), max_segments: which.max_segments, is_whole };
        self.run(lease, run, |record| which.sent_before.is_none_or(|before| record.sent_at < before)).await
    }

    async fn run(
        &self,
        lease: &Lease,
        Run { mut from, to, max_segments, is_whole }: Run,
        is_wanted: impl Fn(&Record) -> bool,
    ) -> Result<Result<Archived, Superseded>, HistoryError> {
        let mut archived = Archived { finished: true, ..Archived::default() };
        let chat = &lease.chat;
        // As it is now: this lease may have archived before.
        let head = self.head(chat).await?;
        let mut kept_to = head.kept_to.filter(|_| is_whole && !self.retention.archive);
        if let Some(kept_to) = &kept_to {
            from = directly_behind(kept_to);
        }
        let mut longest = head.longest_segment;
        let mut is_committed = head.archiving.is_some();
        if let Some(stretch) = head.archiving
            && let Some(segment) = self.finish_stretch(chat, &stretch, longest).await?
        {
            archived.count(&segment.info);
        }
        let mut batch = Batch::default();
        let mut met = HashSet::new();
        'pages: loop {
            let (items, more) = self.page_of_items(chat, &from, &to).await?;
            let page = stored(&items)?;
            let known = self.archived_among(chat, longest, &page).await?;
            for stored in &page {
                let record = stored.record();
                if known.contains(&record.key) || met.contains(&record.key) || !self.leaves(record) {
                    continue;
                }
                if !is_wanted(record) {
                    archived.remains(Remaining::of(record));
                    continue;
                }
                if archived.segments >= max_segments {
                    archived.finished = false;
                    archived.remains(Remaining::of(record));
                    break 'pages;
                }
                let line = segment::to_line(stored)?;
                if !batch.has_room_for(&line) || batch.is_far_from(record, self.retention.lifetime()) {
                    match self.store(lease, &mut longest, &mut batch).await? {
                        Ok(segment) => archived.meet(&segment, &mut batch, &mut met)?,
                        Err(superseded) => return Ok(Err(superseded)),
                    }
                    is_committed = true;
                    if met.contains(&record.key) {
                        continue;
                    }
                }
                batch.push(record, line);
            }
            kept_to = page.last().map(|stored| stored.record().key.clone()).or(kept_to);
            let Some(last) = page.last().filter(|_| more) else { break };
            from = directly_behind(&last.record().key);
        }
        while !batch.lines.is_empty() && archived.segments < max_segments {
            match self.store(lease, &mut longest, &mut batch).await? {
                Ok(segment) => archived.meet(&segment, &mut batch, &mut met)?,
                Err(superseded) => return Ok(Err(superseded)),
            }
            is_committed = true;
        }
        if let Some(remaining) = batch.remaining() {
            archived.finished = false;
            archived.remains(remaining);
        }
        let leaves_none =
            is_whole && !self.retention.archive && archived.finished && archived.remaining.is_none();
        // A process with other settings may be about, for as long as it takes to deploy.
        let long_ago = SortKey::start_of(self.clock.now().minus(self.retention.due_after()));
        let kept_to = kept_to.filter(|_| leaves_none).map(|to| to.min(long_ago));
        if (is_committed || kept_to.is_some())
            && let Err(superseded) = self.finish_archiving(lease, kept_to.as_ref()).await?
        {
            return Ok(Err(superseded));
        }
        Ok(Ok(archived))
    }

    /// Whether TTL will take `record` from the table. Under `ARCHIVE_ON_COMPACT=true` all that there is is archived.
    fn leaves(&self, record: &Record) -> bool {
        self.retention.archive || record.expires_at.is_some()
    }

    /// Stores a segment of `batch`, with its stretch committed to.
    async fn store(
        &self,
        lease: &Lease,
        longest: &mut Option<Duration>,
        batch: &mut Batch,
    ) -> Result<Result<Arc<Segment>, Superseded>, HistoryError> {
        let stretch = batch.stretch();
        let length = stretch.to.ts().since(stretch.from.ts());
        let longest = longest.insert(longest.unwrap_or_default().max(length));
        if let Err(superseded) = self.commit_archiving(lease, &stretch, *longest).await? {
            return Ok(Err(superseded));
        }
        Ok(Ok(self.put_segment(&lease.chat, &stretch, batch.compressed()).await?))
    }

    /// Steps 2 to 4: the object, unless there is one, and the pointer to what is there.
    async fn put_segment(
        &self,
        chat: &ChatKey,
        stretch: &Stretch,
        bytes: Vec<u8>,
    ) -> Result<Arc<Segment>, HistoryError> {
        let key = object_key(chat, &SegmentId::of(&stretch.from, &stretch.to));
        let digest = segment::sha256(&bytes);
        let is_mine = self.shelf.put_new(&key, bytes).await?;
        let Some(read) = self.shelf.get(&key).await? else {
            let reason = "the object is not there behind its put".into();
            return Err(SegmentError::Put { key, reason }.into());
        };
        if is_mine && segment::sha256(&read) != digest {
            return Err(SegmentError::ReadBack { key, problem: FormatError::Digest }.into());
        }
        self.point_at_object(chat, stretch, &read).await
    }

    /// Checks the object of `stretch`, which holds `bytes`, and points at it.
    async fn point_at_object(
        &self,
        chat: &ChatKey,
        stretch: &Stretch,
        bytes: &[u8],
    ) -> Result<Arc<Segment>, HistoryError> {
        let id = SegmentId::of(&stretch.from, &stretch.to);
        let read_back = |problem| SegmentError::ReadBack { key: object_key(chat, &id), problem };
        let (records, json_bytes) =
            segment::decode(bytes, chat, &stretch.from, &stretch.to).map_err(read_back)?;
        let (Some(first), Some(last)) = (records.first(), records.last()) else {
            return Err(read_back(FormatError::Empty).into());
        };
        let expiries = || records.iter().filter_map(|stored| stored.record().expires_at);
        let info = SegmentInfo {
            chat: chat.clone(),
            from: stretch.from.clone(),
            to: stretch.to.clone(),
            from_id: first.record().message_id.clone(),
            to_id: last.record().message_id.clone(),
            count: u32::try_from(records.len()).unwrap_or(u32::MAX),
            bytes: bytes.len() as u64,
            json_bytes,
            sha256: segment::sha256(bytes),
            created_at: self.clock.now(),
            expires_from: expiries().min(),
            expires_to: expiries().max(),
            id,
        };
        let info = self.point_at(info).await?;
        let segment = Arc::new(Segment { info, records });
        self.shelf.keep(&segment);
        Ok(segment)
    }

    /// Stores and points at the segment that a run has committed to; `None` where that is done.
    async fn finish_stretch(
        &self,
        chat: &ChatKey,
        stretch: &Stretch,
        longest: Option<Duration>,
    ) -> Result<Option<Arc<Segment>>, HistoryError> {
        if self.pointer(chat, &stretch.to).await?.is_some() {
            return Ok(None);
        }
        let key = object_key(chat, &SegmentId::of(&stretch.from, &stretch.to));
        if let Some(bytes) = self.shelf.get(&key).await? {
            return Ok(Some(self.point_at_object(chat, stretch, &bytes).await?));
        }
        // Made again of what is there now. What has come in between is in it, as far as there is room beside the last
        // record; the rest finds its own segment.
        let mut batch = Batch::default();
        let mut from = stretch.from.to_string();
        loop {
            let (items, more) = self.page_of_items(chat, &from, stretch.to.as_str()).await?;
            let page = stored(&items)?;
            let known = self.archived_among(chat, longest, &page).await?;
            for stored in page.iter().filter(|stored| !known.contains(&stored.record().key)) {
                let line = segment::to_line(stored)?;
                if batch.has_room_for(&line) || stored.record().key == stretch.to {
                    batch.push(stored.record(), line);
                }
            }
            let Some(last) = page.last().filter(|_| more) else { break };
            from = directly_behind(&last.record().key);
        }
        if batch.lines.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.put_segment(chat, stretch, batch.compressed()).await?))
    }

    async fn page_of_items(
        &self,
        chat: &ChatKey,
        from: &str,
        to: &str,
    ) -> Result<(Vec<Item>, bool), HistoryError> {
        if from > to {
            return Ok((Vec::new(), false));
        }
        let span = Span { from: from.into(), to: to.into(), newest_first: false, limit: Some(READ_AT_ONCE) };
        Ok(self.table.query_page(&partition(chat), &span).await?)
    }

    /// Which of the records of `page`, in order, a segment holds.
    async fn archived_among(
        &self,
        chat: &ChatKey,
        longest: Option<Duration>,
        page: &[Stored],
    ) -> Result<HashSet<SortKey>, HistoryError> {
        let mut archived = HashSet::new();
        let (Some(longest), Some(first), Some(last)) = (longest, page.first(), page.last()) else {
            return Ok(archived);
        };
        let span = Span {
            from: pointer_key(first.record().key.as_str()),
            to: last_pointer(last.record().key.ts(), longest),
            newest_first: false,
            limit: None,
        };
        for info in self.pointers(chat, &span).await? {
            // Whether a record of the page is in its stretch at all: a late one may lie far before the others.
            let next = page.partition_point(|stored| stored.record().key < info.from);
            if page.get(next).is_none_or(|stored| stored.record().key > info.to) {
                continue;
            }
            let segment = self.shelf.segment(&info).await?;
            let in_page = |key: &&SortKey| page.binary_search_by(|s| s.record().key.cmp(key)).is_ok();
            archived.extend(segment.keys().filter(in_page).cloned());
        }
        Ok(archived)
    }
}

struct Run {
    from: String,
    to: String,
    max_segments: usize,
    /// Whether it goes over all of the chat.
    is_whole: bool,
}

impl Archived {
    fn count(&mut self, info: &SegmentInfo) {
        self.segments += 1;
        self.records += u64::from(info.count);
        self.bytes += info.bytes;
    }

    /// Takes what `segment` holds out of `batch`. What it holds beyond that is noted in `met`: an earlier run may have
    /// stored it, with records that this one has yet to come to.
    fn meet(
        &mut self,
        segment: &Segment,
        batch: &mut Batch,
        met: &mut HashSet<SortKey>,
    ) -> Result<(), SegmentError> {
        self.count(&segment.info);
        let before = batch.lines.len();
        let held: HashSet<&SortKey> = segment.keys().collect();
        batch.remove(&held);
        let removed = before - batch.lines.len();
        if removed == 0 {
            // Not ours and not another run's of this stretch: going on would never end.
            let key = object_key(&segment.info.chat, &segment.info.id);
            return Err(SegmentError::Damaged { key, problem: FormatError::Place(1) });
        }
        if removed < segment.records.len() {
            met.extend(held.into_iter().cloned());
        }
        Ok(())
    }

    fn remains(&mut self, other: Remaining) {
        self.remaining = Some(self.remaining.map_or(other, |remaining| remaining.and(other)));
    }
}

impl Remaining {
    fn of(record: &Record) -> Self {
        Self { sent_at: record.sent_at, expires_at: record.expires_at }
    }

    fn and(self, other: Self) -> Self {
        let expires_at = match (self.expires_at, other.expires_at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Self { sent_at: self.sent_at.min(other.sent_at), expires_at }
    }
}

/// The lines of a segment to be.
#[derive(Default)]
struct Batch {
    lines: Vec<(SortKey, Remaining, Vec<u8>)>,
    bytes: usize,
}

impl Batch {
    fn has_room_for(&self, line: &[u8]) -> bool {
        self.lines.is_empty()
            || self.lines.len() < MAX_SEGMENT_RECORDS && self.bytes + line.len() <= MAX_SEGMENT_BYTES
    }

    /// Returns whether `record` is further from the last one than records live. A late message and an edit of an old one have
    /// a segment of their own: one that goes from there to now would make every reader look that far for pointers.
    fn is_far_from(&self, record: &Record, lifetime: Duration) -> bool {
        self.lines.last().is_some_and(|(last, ..)| record.key.ts().since(last.ts()) > lifetime)
    }

    fn push(&mut self, record: &Record, line: Vec<u8>) {
        self.bytes += line.len();
        self.lines.push((record.key.clone(), Remaining::of(record), line));
    }

    fn remove(&mut self, keys: &HashSet<&SortKey>) {
        self.lines.retain(|(key, ..)| !keys.contains(key));
        self.bytes = self.lines.iter().map(|(.., line)| line.len()).sum();
    }

    /// From its first record to its last; it has one.
    fn stretch(&self) -> Stretch {
        let (first, last) = (&self.lines[0], &self.lines[self.lines.len() - 1]);
        Stretch { from: first.0.clone(), to: last.0.clone() }
    }

    fn compressed(&self) -> Vec<u8> {
        segment::compress(self.lines.iter().map(|(.., line)| line.as_slice()))
    }

    fn remaining(&self) -> Option<Remaining> {
        self.lines.iter().map(|(_, remaining, _)| *remaining).reduce(Remaining::and)
    }
}

fn stored(items: &[Item]) -> Result<Vec<Stored>, HistoryError> {
    Ok(items.iter().map(item::from_item).collect::<Result<_, _>>()?)
}

/// No key holds a control character, so this is above `key` and below every other key behind it.
fn directly_behind(key: &SortKey) -> String {
    format!("{key}\u{1}")
}
