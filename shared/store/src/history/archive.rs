//! Archives whole records of a chat to S3 as segments, each record in exactly one. The sample line of a segment is in
//! `segment.rs`, the sample pointer in `shelf.rs`, the head's `archiving` in `turn.rs`.
//!
//! A run that holds the chat's lease takes these steps for each segment, and a crash between any two is harmless:
//!
//! 1. It commits, under its fence, to the stretch of the segment (`archiving` in the head). From here on each run
//!    finishes exactly this stretch first, so all of them use one object.
//! 2. It puts the object unless it exists. If it does, its content is the segment, whatever this run meant to put.
//! 3. It reads the object back and checks it, and puts its index for searches (`search/stored.rs`), unless that exists.
//! 4. It puts the pointer, unless it exists: now the records are archived.
//! 5. It commits to the next stretch, or removes the last one from the head.
//!
//! *Each record is in one segment.* A run chooses records after step 5 of every earlier stretch: a commit holds only
//! under the newest fence, and a run that finds a stretch in the head finishes it. So the pointers that it reads show
//! all archived records, it leaves these out, and while its stretch is in the head no other is begun. A run that has
//! lost its lease can at most put the object and the pointer of a stretch that another finishes too, and both are
//! created once.
//!
//! Nothing is ever deleted here: the table's TTL removes records, at their `expiresAt`.

mod batch;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::record::Record;
use annals_core::sort_key::{SortKey, Timestamp};

use super::item::{self, Stored};
use super::segment::{self, FormatError, SegmentId};
use super::shelf::{GZIP, Segment, SegmentError, SegmentInfo, last_pointer, object_key, pointer_key};
use super::table::{Item, Span};
use super::turn::{Claim, Lease, Stretch};
use super::{FIRST_KEY, History, HistoryError, LAST_KEY, partition};

pub use batch::Remaining;

use batch::Batch;

/// The most records of a segment.
pub const MAX_SEGMENT_RECORDS: usize = 1000;

/// The most JSON of a segment, in bytes, but for one record that is longer. A message in S3 counts as
/// [`MAX_INLINE_BYTES`](super::MAX_INLINE_BYTES).
pub const MAX_SEGMENT_BYTES: usize = 4 * 1024 * 1024;

/// Maximum time for which an import holds a chat to archive it. A run takes the chat over at once.
const IMPORT_LEASE: Duration = Duration::from_mins(5);

/// Number of records that one request reads, unless 1 MB is fewer.
const READ_AT_ONCE: usize = 500;

/// The records to archive, and the bound of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToArchive {
    /// Only those that were appended before this time; all if `None`.
    pub sent_before: Option<Timestamp>,
    /// Only those up to this key; all if `None`.
    pub up_to: Option<SortKey>,
    pub max_segments: usize,
}

/// The result of an archiving run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archived {
    /// Number of segments that it stored, or found stored and pointed at.
    pub segments: usize,
    pub records: u64,
    /// True if all requested records are archived now; otherwise another run is needed.
    pub finished: bool,
    /// The records that it read and did not archive.
    pub remaining: Option<Remaining>,
}

impl History {
    /// Archives those of `records`, all of the lease's chat, that are not archived. Safe to repeat after any failure.
    ///
    /// They are read again, since a record does not contain the key of its large body. With `ARCHIVE_ON_COMPACT=false`,
    /// only those that leave the table all the same: they were appended while it was `true`.
    pub async fn archive(&self, lease: &Lease, records: &[Record]) -> Result<Archived, HistoryError> {
        let keys: HashSet<&SortKey> = records.iter().map(|record| &record.key).collect();
        let nothing = Archived { finished: true, ..Archived::default() };
        let (Some(from), Some(to)) = (keys.iter().min(), keys.iter().max()) else { return Ok(nothing) };
        if !records.iter().any(|record| self.leaves(record)) {
            return Ok(nothing);
        }
        let (from, to) = (from.to_string(), to.to_string());
        let run = Run { from, to, max_segments: usize::MAX, is_whole: false };
        self.run(lease, run, |record| keys.contains(&record.key)).await
    }

    /// Archives the records of `which` in the lease's chat that are not archived, in key order, reading page by page,
    /// never the whole chat at once. Safe to repeat after any failure. With `ARCHIVE_ON_COMPACT=false`, only records
    /// that leave the table all the same; [`Head::kept_to`](super::turn::Head::kept_to) is the key up to which there
    /// are none any more.
    pub async fn archive_all(&self, lease: &Lease, which: &ToArchive) -> Result<Archived, HistoryError> {
        let to = which.up_to.as_ref().map_or(LAST_KEY, SortKey::as_str);
        let is_whole =
            which.up_to.is_none() && which.sent_before.is_none_or(|before| before <= self.clock.now());
        let run = Run { from: FIRST_KEY.into(), to: to.into(), max_segments: which.max_segments, is_whole };
        self.run(lease, run, |record| which.sent_before.is_none_or(|before| record.sent_at < before)).await
    }

    /// Archives the records of `chat` after an import of many, so that a search reads them as segments and not the whole
    /// table. Ends without a failure if a run has the chat: the compactor then archives them later.
    pub async fn archive_imported(&self, chat: &ChatKey) -> Result<(), HistoryError> {
        let Claim::Claimed(lease) = self.claim_for_upkeep(chat, IMPORT_LEASE).await? else { return Ok(()) };
        let everything = ToArchive { sent_before: None, up_to: None, max_segments: usize::MAX };
        let archived = tokio::select! {
            // On the heap: the future is large.
            archived = Box::pin(self.archive_all(&lease, &everything)) => archived,
            // A deletion waits only so long for its last request.
            () = self.overtaken(&lease) => Err(HistoryError::LeaseLost),
        };
        let ended = match archived {
            Ok(_) => self.release(&lease).await,
            Err(error) => Err(error),
        };
        match ended {
            Err(HistoryError::LeaseLost) => Ok(()),
            ended => ended,
        }
    }

    async fn run(
        &self,
        lease: &Lease,
        Run { mut from, to, max_segments, is_whole }: Run,
        is_wanted: impl Fn(&Record) -> bool,
    ) -> Result<Archived, HistoryError> {
        let mut archived = Archived { finished: true, ..Archived::default() };
        let chat = &lease.chat;
        // Read again: this lease may have archived before.
        let head = self.head(chat).await?;
        let mut longest = head.longest_segment();
        let mut kept_to = head.kept_to.filter(|_| is_whole && !self.retention.archive);
        if let Some(kept_to) = &kept_to {
            from = directly_after(kept_to);
        }
        let storing = head.archive.and_then(|archive| archive.storing);
        let mut is_committed = storing.is_some();
        if let Some(stretch) = storing
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
                if !batch.fits(stored, &line) || batch.is_far_from(record, self.retention.lifetime()) {
                    let segment = self.store(lease, &mut longest, &mut batch).await?;
                    archived.meet(&segment, &mut batch, &mut met)?;
                    is_committed = true;
                    if met.contains(&record.key) {
                        continue;
                    }
                }
                batch.push(stored, line);
            }
            kept_to = page.last().map(|stored| stored.record().key.clone()).or(kept_to);
            let Some(last) = page.last().filter(|_| more) else { break };
            from = directly_after(&last.record().key);
        }
        while !batch.lines.is_empty() && archived.segments < max_segments {
            let segment = self.store(lease, &mut longest, &mut batch).await?;
            archived.meet(&segment, &mut batch, &mut met)?;
            is_committed = true;
        }
        if let Some(remaining) = batch.remaining() {
            archived.finished = false;
            archived.remains(remaining);
        }
        let leaves_none =
            is_whole && !self.retention.archive && archived.finished && archived.remaining.is_none();
        // During a deployment, a process with the earlier settings may still append.
        let long_ago = SortKey::start_of(self.clock.now().minus(self.retention.due_after()));
        let kept_to = kept_to.filter(|_| leaves_none).map(|to| to.min(long_ago));
        if is_committed || kept_to.is_some() {
            self.finish_archiving(lease, kept_to.as_ref()).await?;
        }
        Ok(archived)
    }

    /// Returns true if TTL will delete `record`. With `ARCHIVE_ON_COMPACT=true` every record is archived.
    fn leaves(&self, record: &Record) -> bool {
        self.retention.archive || record.expires_at.is_some()
    }

    /// Commits to the stretch of `batch` and stores it as a segment.
    async fn store(
        &self,
        lease: &Lease,
        longest: &mut Option<Duration>,
        batch: &mut Batch,
    ) -> Result<Arc<Segment>, HistoryError> {
        let stretch = batch.stretch();
        let length = stretch.to.ts().since(stretch.from.ts());
        let longest = longest.insert(longest.unwrap_or_default().max(length));
        self.commit_archiving(lease, &stretch, *longest).await?;
        self.put_segment(&lease.chat, &stretch, batch.compressed()).await
    }

    /// Carries out steps 2 to 4: puts the object, unless it exists, and the pointer to it.
    async fn put_segment(
        &self,
        chat: &ChatKey,
        stretch: &Stretch,
        bytes: Vec<u8>,
    ) -> Result<Arc<Segment>, HistoryError> {
        let key = object_key(chat, &SegmentId::of(&stretch.from, &stretch.to));
        let digest = segment::sha256(&bytes);
        let is_mine = self.bucket.put_new(&key, GZIP, bytes).await?;
        let Some(read) = self.bucket.get(&key).await? else {
            return Err(SegmentError::ReadBack { key, problem: FormatError::Empty }.into());
        };
        if is_mine && segment::sha256(&read) != digest {
            return Err(SegmentError::ReadBack { key, problem: FormatError::Digest }.into());
        }
        self.point_at_object(chat, stretch, &read).await
    }

    /// Checks the object of `stretch`, which contains `bytes`, and puts its index and its pointer.
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
            expires_from: records.iter().filter_map(|stored| stored.record().expires_at).min(),
            replaces: None,
            id,
        };
        self.put_index(&info, records.clone()).await?;
        let info = self.point_at(info).await?;
        let segment = Arc::new(Segment { info, records });
        self.segments.keep(&segment.info, &segment, json_bytes);
        Ok(segment)
    }

    /// Stores and points at the segment that a run has committed to; `None` if that is done.
    async fn finish_stretch(
        &self,
        chat: &ChatKey,
        stretch: &Stretch,
        longest: Option<Duration>,
    ) -> Result<Option<Arc<Segment>>, HistoryError> {
        if self.pointer(chat, &stretch.to).await?.is_some_and(|info| info.count > 0) {
            return Ok(None);
        }
        let key = object_key(chat, &SegmentId::of(&stretch.from, &stretch.to));
        if let Some(bytes) = self.bucket.get(&key).await? {
            return Ok(Some(self.point_at_object(chat, stretch, &bytes).await?));
        }
        // Built again from the records as they are now. Records that have come in between are included as long as they
        // fit beside the last one; the rest gets its own segment.
        let mut batch = Batch::default();
        let mut from = stretch.from.to_string();
        loop {
            let (items, more) = self.page_of_items(chat, &from, stretch.to.as_str()).await?;
            let page = stored(&items)?;
            let known = self.archived_among(chat, longest, &page).await?;
            for stored in page.iter().filter(|stored| !known.contains(&stored.record().key)) {
                let line = segment::to_line(stored)?;
                if batch.fits(stored, &line) || stored.record().key == stretch.to {
                    batch.push(stored, line);
                }
            }
            let Some(last) = page.last().filter(|_| more) else { break };
            from = directly_after(&last.record().key);
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
        Ok(self.table.query_page(&partition(chat), &Span::first(READ_AT_ONCE, from, to)).await?)
    }

    /// Returns the keys of the records of `page`, in order, that are in a segment.
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
        let from = pointer_key(first.record().key.as_str());
        let span = Span::all(from, last_pointer(last.record().key.ts(), longest));
        for info in self.pointers(chat, &span).await? {
            // Skips segments without a record of the page: a late record may be far before the others.
            let next = page.partition_point(|stored| stored.record().key < info.from);
            if page.get(next).is_none_or(|stored| stored.record().key > info.to) {
                continue;
            }
            let segment = self.segment_of(&info).await?;
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
    /// True if it covers all of the chat.
    is_whole: bool,
}

impl Archived {
    fn count(&mut self, info: &SegmentInfo) {
        self.segments += 1;
        self.records += u64::from(info.count);
    }

    /// Removes the records of `segment` from `batch`. Its other records are added to `met`: an earlier run may have
    /// stored it, with records that this run has not read yet.
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
            // Neither this run's segment nor another run's of this stretch: continuing would never end.
            let key = segment.info.object();
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

fn stored(items: &[Item]) -> Result<Vec<Stored>, HistoryError> {
    Ok(items.iter().map(item::from_item).collect::<Result<_, _>>()?)
}

/// Returns a string above `key` and below every later key: no key contains a control character.
fn directly_after(key: &SortKey) -> String {
    format!("{key}\u{1}")
}
