//! The parts of a state of the protocol.

/// Places in the chat, as bits: place 0 is the oldest message, whenever it arrives.
pub type Places = u8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Said {
    Asks,
    Tells,
    Compact,
    Stop,
}

/// The progress of the ingress with the message at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Post {
    /// The platform is to deliver it, or to deliver it again.
    Waiting,
    Appended,
    /// A `/stop` that has found something to end.
    Decided,
    /// A `/stop` that has taken the chat.
    Taken,
    Done,
}

/// The reply that follows a message and covers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The model's answer, or the confirmation of a `/compact`.
    Answer,
    /// The notice that there is no answer.
    Failure,
    /// The stopped reply.
    Stopped,
}

/// A stored reply or notice; its place is the last that it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reply {
    /// The places that it covers.
    pub covers: Places,
    pub kind: Kind,
}

/// A turn between commit and finish.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Turn {
    /// The places that its reply covers.
    pub covers: Places,
    pub sent: u8,
}

impl Turn {
    pub fn place(self) -> usize {
        (Places::BITS - 1 - self.covers.leading_zeros()) as usize
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Lease {
    #[default]
    Free,
    Run,
    Upkeep,
    /// A holder whose lease has run out.
    Over,
}

/// The head, without its fence. Only the holder of the newest fence matters, and runs remember that themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Head {
    /// `leaseUntil` and `housekeeping`
    pub lease: Lease,
    pub turn: Option<Turn>,
    /// `stoppedTo`, by its place.
    pub stopped_to: Option<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The place that it names.
    pub from: u8,
    /// The run that it was delivered to, until that ends, dies or loses it.
    pub held_by: Option<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Step {
    #[default]
    Claim,
    Look,
    Ask,
    /// Commit to its turn, to put this kind afterwards.
    Commit(Kind),
    Put(Kind),
    /// Commit again, since another run's reply is there.
    Recommit,
    Send(u8),
    /// Note that this number of pieces is sent.
    Note(u8),
    Finish {
        /// True if `stoppedTo` is removed.
        has_stopped: bool,
        /// True if it claims the chat once more.
        goes_on: bool,
    },
    Release {
        /// True if the queue's turn is done.
        is_done: bool,
    },
    /// Check if a `/stop` took the chat.
    LookWhoTookIt,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Run {
    pub step: Step,
    /// True if its fence is the newest.
    pub is_newest: bool,
    /// True if its claim is the last: only a `/stop` may have taken the chat from it.
    pub is_last_claim: bool,
    /// The place that the queue's turn names.
    pub from: u8,
    /// The head's turn at the time of the claim.
    pub turn_claimed: Option<Turn>,
    /// The head's `stoppedTo` at the time of the claim.
    pub stop_claimed: Option<u8>,
    pub turn: Turn,
    /// The places that were added to its turn between two requests to the model.
    pub added: Places,
    /// True if it ends a turn that was stopped.
    pub ends: bool,
    /// True if more may follow its turn.
    pub leaves_more: bool,
    /// Number of pieces that it has sent since another run took the chat.
    pub late_sends: u8,
}

/// Number of faults of each kind that may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    pub crashes: u8,
    /// Messages that are delivered again after their acknowledgement.
    pub repeats: u8,
    /// Turns that are delivered again while their run lives.
    pub lapses: u8,
    /// Leases that run out while their run lives.
    pub expiries: u8,
    /// Failures of the model and the platform.
    pub failures: u8,
    pub visits: u8,
    /// Answers with calls, after which a run reads what has come since.
    pub rounds: u8,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    pub posts: Vec<Post>,
    /// The places whose record is stored.
    pub stored: Places,
    /// The places whose turn was queued before: a repeat may be dropped as such.
    pub queued: Places,
    /// The places whose last delivery was a duplicate.
    pub repeated: Places,
    pub replies: Vec<Option<Reply>>,
    pub head: Head,
    /// The chat's group of the queue.
    pub queue: Vec<Entry>,
    pub runs: Vec<Option<Run>>,
    /// A visit of the compactor; true if its fence is the newest.
    pub visit: Option<bool>,
    /// Number of times each piece was sent, by place.
    pub sent: Vec<Vec<u8>>,
    /// The places that a `/stop` took from a run that had not committed to them: only its notice may cover them.
    pub to_stop: Places,
    pub left: Budget,
}
