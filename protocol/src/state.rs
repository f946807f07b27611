//! What a state of the protocol is made of.

/// Places in the chat, as bits: place 0 is the oldest message, whenever it arrives.
pub type Places = u8;

/// What is said at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Said {
    /// A message that asks for an answer.
    Asks,
    /// One that asks for none.
    Tells,
    /// `/compact`
    Compact,
    /// `/stop`
    Stop,
}

/// How far the ingress has got with what is said at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Post {
    /// The platform is to deliver it, or to deliver it again.
    Waiting,
    /// Its record is stored.
    Appended,
    /// A `/stop` that has found something to end.
    Decided,
    /// A `/stop` that has taken the chat.
    Taken,
    /// Acknowledged.
    Done,
}

/// What stands behind a message and covers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The model's answer, or the word on a `/compact`.
    Answer,
    /// The notice that there is none.
    Failure,
    /// The notice that it was stopped.
    Stopped,
}

/// A stored reply or notice; its place is the last that it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reply {
    /// What it covers.
    pub covers: Places,
    /// What it is.
    pub kind: Kind,
}

/// A turn between commit and finish.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Turn {
    /// What its reply covers.
    pub covers: Places,
    /// How many pieces are noted.
    pub sent: u8,
}

impl Turn {
    /// Where its reply stands.
    pub fn place(self) -> usize {
        (Places::BITS - 1 - self.covers.leading_zeros()) as usize
    }
}

/// Who has the chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lease {
    /// Nobody.
    Free,
    /// A run.
    Run,
    /// A visit of the compactor.
    Upkeep,
    /// Somebody whose time is over.
    Over,
}

/// The head, without its fence: of fences all that counts is who has the newest, which runs remember themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Head {
    /// `leaseUntil` and `housekeeping`
    pub lease: Lease,
    /// `turn`
    pub turn: Option<Turn>,
    /// `stoppedTo`, by its place.
    pub stopped_to: Option<u8>,
}

/// A turn in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The place that it names.
    pub from: u8,
    /// How often it was delivered; counted as far as that makes a difference.
    pub deliveries: u8,
    /// The run that it was delivered to, until that ends, dies or loses it.
    pub held_by: Option<u8>,
}

/// What a run is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Claim the chat.
    Claim,
    /// Read the records.
    Look,
    /// Ask the model.
    Ask,
    /// Commit to its turn, to put this behind it.
    Commit(Kind),
    /// Put the reply or notice.
    Put(Kind),
    /// Commit again, since another run's reply stands there.
    Recommit,
    /// Send this piece.
    Send(u8),
    /// Note that so many are sent.
    Note(u8),
    /// Finish.
    Finish {
        /// Whether `stoppedTo` is removed.
        has_stopped: bool,
        /// Whether it claims the chat once more.
        goes_on: bool,
    },
    /// Release the chat.
    Release {
        /// Whether the queue's turn is done.
        is_done: bool,
    },
    /// Look whether it was a `/stop` that took the chat.
    LookWhoTookIt,
}

/// A run of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// What it is about to do.
    pub step: Step,
    /// Whether its fence is the newest.
    pub is_newest: bool,
    /// Which delivery of its turn it is.
    pub delivery: u8,
    /// The place that the queue's turn names.
    pub from: u8,
    /// The head as it was claimed.
    pub turn_claimed: Option<Turn>,
    /// The same.
    pub stop_claimed: Option<u8>,
    /// Its turn.
    pub turn: Turn,
    /// Whether it ends a turn that was stopped.
    pub ends: bool,
    /// Whether there may be more behind its turn.
    pub leaves_more: bool,
    /// How many pieces it has sent since somebody took the chat.
    pub late_sends: u8,
}

/// How often what goes wrong may still go wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Processes that die.
    pub crashes: u8,
    /// Messages that are delivered again behind their acknowledgement.
    pub repeats: u8,
    /// Turns that are delivered again while their run lives.
    pub lapses: u8,
    /// Leases that run out while their run lives.
    pub expiries: u8,
    /// Failures of the model and the platform.
    pub failures: u8,
    /// Visits of the compactor.
    pub visits: u8,
}

/// A state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The ingress, by place.
    pub posts: Vec<Post>,
    /// Whose record is stored.
    pub stored: Places,
    /// Whose turn was queued before: a repeat may be dropped as such.
    pub queued: Places,
    /// Whose last delivery was a duplicate.
    pub repeated: Places,
    /// What stands behind each place.
    pub replies: Vec<Option<Reply>>,
    /// The head.
    pub head: Head,
    /// The chat's group of the queue.
    pub queue: Vec<Entry>,
    /// The agent's processes.
    pub runs: Vec<Option<Run>>,
    /// A visit of the compactor, and whether its fence is the newest.
    pub visit: Option<bool>,
    /// How often each piece was sent, by place.
    pub sent: Vec<Vec<u8>>,
    /// What a `/stop` took from a run that had not committed to it: nothing but its notice may cover it.
    pub to_stop: Places,
    /// What may still go wrong.
    pub left: Budget,
}
