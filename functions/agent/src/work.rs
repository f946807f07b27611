//! A turn that a run has found or made: which messages it covers, and what it takes to carry it out.

use std::collections::HashSet;

use annals_shared::context::{Context, Policy, context};
use annals_shared::history::HistoryError;
use annals_shared::history::turn::{Ending, Lease, OpenTurn};
use annals_shared::live::{Begun, Feed};
use annals_shared::memory::sessions::Recalled;
use annals_shared::message::Role;
use annals_shared::record::{Kind, Record};
use annals_shared::sort_key::{SortKey, Timestamp};

use crate::mcp::Offer;
use crate::tools::Kit;

/// The most messages that one turn covers, and the most bytes of their keys: a head and a reply must hold them.
const MAX_COVERED: usize = 100;
const MAX_COVERED_BYTES: usize = 32 * 1024;

/// A turn that this run has found or made, with what it takes to carry it out.
pub(crate) struct Work {
    pub(crate) lease: Lease,
    pub(crate) records: Vec<Record>,
    pub(crate) turn: OpenTurn,
    /// Whether it was committed before, by this run or another.
    pub(crate) is_committed: bool,
    /// Whether there may be more to answer behind it.
    pub(crate) leaves_more: bool,
    /// See [`Context::reaches_back_to`].
    pub(crate) reaches_back_to: Option<SortKey>,
    /// The earliest message that the run was told of: from where its records are read, where that is earlier.
    pub(crate) from: Option<SortKey>,
    /// What there is to note of Sessions that have ended.
    pub(crate) remembered: Ending,
    /// Whose memory the turn has, and what it says.
    pub(crate) memory: Option<Recalled>,
    /// What outside servers have to offer.
    pub(crate) outside: Offer,
    /// What the turn offers the model to call.
    pub(crate) tools: Vec<Kit>,
    /// Where a reply goes on: what is stored of it.
    pub(crate) resumption: Option<Resumption>,
    /// The `/stop` that has ended it.
    pub(crate) stopped_by: Option<SortKey>,
    /// Where it is heard.
    pub(crate) feed: Feed,
}

/// A reply that goes on, as it was found.
#[derive(Clone, Debug)]
pub(crate) struct Resumption {
    /// Its first form.
    pub(crate) reply: Record,
    /// Its message, with all that hangs on that: later forms of the reply and answers to what it asks.
    pub(crate) forms: Vec<Record>,
    /// How many parts of it people have seen.
    pub(crate) shown_parts: usize,
}

impl Work {
    /// A turn that the `/stop` at `command` has ended: nobody is asked for its answer.
    pub(crate) fn stopped(lease: Lease, records: Vec<Record>, turn: OpenTurn, command: SortKey) -> Self {
        Self {
            is_committed: lease.head.turn.is_some(),
            lease,
            records,
            turn,
            leaves_more: true,
            reaches_back_to: None,
            from: None,
            remembered: Ending::default(),
            memory: None,
            outside: Offer::default(),
            tools: Vec::new(),
            resumption: None,
            stopped_by: Some(command),
            feed: Feed::default(),
        }
    }

    /// The turn as whoever listens is told of it.
    pub(crate) fn begun(&self) -> Result<Begun, HistoryError> {
        let newest = self.newest_covered()?;
        Ok(Begun {
            covers: self.turn.covers.clone(),
            reply: newest.key.base().reply(),
            message_id: newest.message_id.derived("reply").to_string(),
        })
    }

    /// The time by which its Session is told: now, or for a reply that goes on, when that was made.
    pub(crate) fn as_of(&self, now: Timestamp) -> Timestamp {
        self.resumption.as_ref().map_or(now, |resumption| resumption.reply.sent_at)
    }

    /// See [`notes`].
    pub(crate) fn notes(&self) -> Option<String> {
        notes(self.memory.as_ref(), Some(&self.outside))
    }

    /// The newest message that the turn covers: what the reply answers and stands behind.
    pub(crate) fn newest_covered(&self) -> Result<&Record, HistoryError> {
        let newest = self.turn.covers.last();
        newest_covered(&self.records, &self.turn)
            .ok_or_else(|| HistoryError::Missing { key: newest.map(ToString::to_string).unwrap_or_default() })
    }

    /// The records of the messages that the turn covers, each with all its forms.
    pub(crate) fn covered(&self) -> impl Iterator<Item = &Record> {
        let is_covered = |record: &&Record| {
            !record.key.hangs_on_reply()
                && !record.key.is_reply()
                && self.turn.covers.contains(&record.key.base())
        };
        self.records.iter().filter(is_covered)
    }

    /// The id of the `/stop` that has ended it, as far as its record is at hand.
    pub(crate) fn command_id(&self) -> String {
        let command = self.stopped_by.as_ref();
        let record = self.records.iter().find(|record| Some(&record.key) == command);
        record.map(|record| record.message_id.to_string()).unwrap_or_default()
    }

    /// Whether the turn is a `/compact`, and not a message that was made of one by an edit.
    pub(crate) fn is_compact_command(&self) -> bool {
        let of_it = |record: &&Record| self.turn.covers.last() == Some(&record.key.base());
        let mut forms = self.records.iter().filter(of_it).filter(|record| record.role() == Role::User);
        forms.all(|record| record.kind == Kind::Notice && record.asks)
    }

    /// The reply that an earlier run has stored for this very turn.
    pub(crate) fn stored_reply(&self) -> Option<&Record> {
        let key = self.turn.covers.last()?.reply();
        self.records.iter().find(|record| record.key == key)
    }

    /// The context of this turn: see [`of_turn`].
    pub(crate) fn seen(&self, now: Timestamp, policy: &Policy) -> Context {
        context(&of_turn(&self.records, &self.turn, now, policy), now, policy)
    }
}

/// The newest message that `turn` covers, if it is among `records`.
pub(crate) fn newest_covered<'a>(records: &'a [Record], turn: &OpenTurn) -> Option<&'a Record> {
    let newest = turn.covers.last()?;
    records.iter().find(|record| {
        record.key.base() == *newest && record.role() == Role::User && record.kind != Kind::Boundary
    })
}

/// What the model is told beside what was said: what memory says, and which servers cannot be reached. Neither is the same
/// in the next turn, so it stands behind all that is.
pub(crate) fn notes(memory: Option<&Recalled>, outside: Option<&Offer>) -> Option<String> {
    let known = memory.and_then(|memory| memory.section.clone());
    let silent = outside.map(|outside| outside.silent.join(", ")).filter(|silent| !silent.is_empty());
    let silent = silent.map(|silent| format!("At the moment the tools of {silent} cannot be reached."));
    let notes: Vec<String> = known.into_iter().chain(silent).collect();
    (!notes.is_empty()).then(|| notes.join("\n\n"))
}

/// `records` as `turn` sees them: without the unanswered messages that it does not cover, since its reply stands before
/// them.
pub(crate) fn of_turn(records: &[Record], turn: &OpenTurn, now: Timestamp, policy: &Policy) -> Vec<Record> {
    let mut records = records.to_vec();
    loop {
        let seen = context(&records, now, policy);
        let later: HashSet<&SortKey> =
            seen.unanswered.iter().filter(|base| !turn.covers.contains(base)).collect();
        if later.is_empty() {
            return records;
        }
        // Without what waits on one line, another may be in view, and wait as well.
        records.retain(|record| !later.contains(&record.key.base()));
    }
}

/// Of the unanswered, those that one reply can answer: from the oldest on, all of its window, and no more than a head
/// and a reply can hold.
pub(crate) fn covered_by_one_turn(records: &[Record], unanswered: Vec<SortKey>) -> Vec<SortKey> {
    let window = |base: &SortKey| {
        let record = records.iter().find(|record| record.key.base() == *base && record.role() == Role::User);
        record.map(|record| (record.channel, &record.chat_id))
    };
    let first = unanswered.first().and_then(window);
    let mut bytes = 0;
    unanswered
        .into_iter()
        .filter(|base| window(base) == first)
        .take(MAX_COVERED)
        .take_while(|base| {
            bytes += base.as_str().len();
            bytes <= MAX_COVERED_BYTES
        })
        .collect()
}
