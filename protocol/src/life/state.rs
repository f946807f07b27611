//! The parts of a state of a record's life.

/// A time. One tick is the time after which an append is due for a visit; a record lives for two.
pub type Tick = u8;

/// Messages of the chat, as bits.
pub type Places = u8;

/// The content of a person's message. Another content of the same message is an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Content {
    A,
    B,
}

/// The record of a message that an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Form {
    First,
    /// A later form, with its number.
    Later(u8),
    /// The reply that covers the message.
    Reply,
    /// A summary that counts the messages up to this one.
    Summary,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub place: u8,
    /// The record of it.
    pub form: Form,
}

/// The relation of some data to the deletions of the chat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Age {
    /// Data that no deletion has met.
    #[default]
    Fresh,
    /// Data from before the beginning of a deletion that has not ended.
    Doomed,
    /// Data from before the beginning of a deletion that was answered: nothing of it may be in a store.
    Forgotten,
}

/// The part of a record that a segment keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kept {
    pub key: Key,
    pub content: Content,
    /// The messages that it covers or counts.
    pub covers: Places,
    /// Its relation to deletions.
    pub age: Age,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Item {
    /// The part of it that a segment keeps.
    pub kept: Kept,
    pub sent: Tick,
    /// The date from which TTL may delete it.
    pub expires: Tick,
    /// The date of its entry in the index of due chats, if it is one.
    pub due: Option<Tick>,
}

/// The ends of a segment.
pub type Stretch = (Key, Key);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    /// Its ends, which name it.
    pub stretch: Stretch,
    /// Its records, in order.
    pub records: Vec<Kept>,
}

/// A pointer to a segment; its sort key is the end of the stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pointer {
    pub stretch: Stretch,
    /// Its relation to deletions.
    pub age: Age,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Lease {
    #[default]
    Free,
    Run,
    Upkeep,
    Forgetting,
}

/// The head, without its fence: each process remembers if it has the newest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Head {
    /// `leaseUntil`, `housekeeping` and `forgetting`
    pub lease: Lease,
    /// `takenAt`: true if somebody has lost the chat and may still write.
    pub is_taken: bool,
    pub turn: Option<Places>,
    /// `longestSegment`: true if readers look for segments.
    pub has_archive: bool,
    /// `archiving`
    pub archiving: Option<Stretch>,
    /// `forgottenAt`
    pub forgotten_at: Option<Tick>,
    /// `dueAt`
    pub due: Option<Tick>,
    /// `expiresAt`, which an emptied head had once.
    pub expires: Option<Tick>,
}

/// The forms of a message that somebody has read, by number.
pub type Forms = [Option<Content>; 3];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PostStep {
    /// The platform is to deliver the message, or to deliver it again.
    Waiting,
    Put {
        archived: Forms,
        /// The end of a segment that holds one of them.
        pointer: Option<Key>,
    },
    Append {
        number: u8,
        /// The end of the segment whose pointer must be there; `None` if the first form must be.
        pointer: Option<Key>,
        /// The first form as it was read.
        first: Option<Content>,
    },
    /// Queue the turn and acknowledge.
    Enqueue,
    Done,
}

/// A delivery of a message by its platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Post {
    pub step: PostStep,
    pub born: Tick,
    /// True if a segment was pointed at meanwhile: then it ends before a record of that may leave.
    pub meets_archiving: bool,
    /// True if a deletion overlaps with it: then it counts as before or after that.
    pub overlaps: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RunStep {
    #[default]
    Claim,
    Look,
    Commit,
    Put,
    Finish {
        /// True if the run claims the chat once more.
        goes_on: bool,
    },
    Release {
        /// True if the queue's turn is done.
        is_done: bool,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Run {
    pub step: RunStep,
    /// True if its fence is the newest.
    pub is_newest: bool,
    pub born: Tick,
    /// True if a segment was pointed at meanwhile: then it ends before a record of that may leave.
    pub meets_archiving: bool,
    /// The relation of what it has read to deletions.
    pub age: Age,
    /// The turn that it found in the head.
    pub claimed: Option<Places>,
    pub covers: Places,
    /// The latest date of the messages that its reply covers.
    pub covered_until: Tick,
    /// True if there may be more after its turn.
    pub leaves_more: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum VisitStep {
    /// Finish the stretch in the head, or commit to the next one.
    #[default]
    /// Finish the stretch in the head, or commit to the next one.
    Choose,
    Object(Stretch),
    Pointer(Stretch),
    /// Remove the stretch from the head.
    EndArchiving,
    /// Look if the chat was forgotten and is empty.
    Empty,
    RemoveHead,
    See,
    /// Store what is worth remembering.
    Capture,
    Summary {
        /// The message that it stands after.
        place: u8,
        /// The messages that it counts.
        counts: Places,
    },
    Prolong,
    Finish,
    /// Tell the index.
    Settle,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Visit {
    pub step: VisitStep,
    /// True if its fence is the newest.
    pub is_newest: bool,
    /// The time of its claim. It answers the entries that were due then.
    pub born: Tick,
    /// The relation of what it has read to deletions.
    pub age: Age,
    /// `forgottenAt` as it was claimed.
    pub forgotten_at: Option<Tick>,
    /// The records of the segment that it has chosen.
    pub batch: Vec<Kept>,
    /// The records that it has yet to prolong.
    pub keep: Vec<Key>,
    pub next: Option<Tick>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeleteStep {
    Claim,
    /// Wait until who lost the chat has ended.
    Wait,
    /// Delete the memory of who spoke in the next page.
    Memory,
    Page,
    Objects,
    /// Empty the head and answer.
    Empty,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Delete {
    pub step: DeleteStep,
    /// True if its fence is the newest.
    pub is_newest: bool,
    pub born: Tick,
}

/// Number of faults and requests of each kind that may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    pub crashes: u8,
    /// Messages that are delivered again after their acknowledgement.
    pub repeats: u8,
    /// Turns that are delivered again while their run lives.
    pub lapses: u8,
    /// Requests that are carried out and whose answer is lost, so that they are made again.
    pub losses: u8,
    pub deletes: u8,
}

/// The memory of processes that they have registered the chat in this tick: they do not register it again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Registry {
    pub webhook: bool,
    pub agent: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    pub now: Tick,
    /// The records in the table, in order.
    pub table: Vec<Item>,
    /// The pointers to segments, in order.
    pub pointers: Vec<Pointer>,
    /// The objects, in order.
    pub objects: Vec<Object>,
    /// A memory entry that was found in the chat.
    pub memory: Option<Age>,
    /// The chat's place in the list of chats.
    pub listing: Option<Age>,
    pub head: Option<Head>,
    /// Number of turns in the chat's group of the queue.
    pub turns: u8,
    /// The run that the first of them was delivered to.
    pub held_by: Option<u8>,
    /// The webhooks, one for each delivery.
    pub posts: Vec<Post>,
    /// The memory of processes that they have registered the chat.
    pub registry: Registry,
    pub runs: Vec<Option<Run>>,
    pub visits: Vec<Option<Visit>>,
    pub deletes: Vec<Option<Delete>>,
    /// True if a deletion has begun and not been answered.
    pub is_forgetting: bool,
    /// The deliveries that were acknowledged, as bits, and that no deletion has met.
    pub acknowledged: u8,
    /// Number of times each message was covered since the last deletion began.
    pub covered: [u8; 2],
    /// True if a record has left the table that no segment holds.
    pub has_lost: bool,
    pub left: Budget,
}
