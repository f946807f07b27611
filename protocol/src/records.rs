//! A state as the records and the head that the code's own functions take, and what those say of it.

use std::cell::RefCell;
use std::collections::HashMap;

use annals_agent::next::{self, Next, next};
use annals_core::chat_key::ChatKey;
use annals_core::context::{Policy, context};
use annals_core::draft::{Draft, Origin};
use annals_core::message::{Part, Role, UiMessage};
use annals_core::record::{Answer, Channel, Details, Kind as RecordKind, Record};
use annals_core::recording::record_of;
use annals_core::sort_key::{MessageId, SortKey, Timestamp};
use annals_store::history::stop::has_something_to_end;
use annals_store::history::turn::{Head, OpenTurn};

use crate::state::{Kind, Lease, Places, Reply, Said, State, Turn};

/// A policy for the context. Unanswered messages do not depend on it.
pub const POLICY: Policy = Policy { stale_after: None, fresh: false, token_budget: u32::MAX, images: 0 };

pub const START: i64 = 1_795_305_512;

pub fn chat() -> ChatKey {
    ChatKey::telegram(42, None)
}

/// The base of what is said at `place`.
pub fn base(place: usize) -> SortKey {
    draft(place, Said::Tells).key()
}

/// Returns the message at `place`, as a channel parses it.
pub fn draft(place: usize, said: Said) -> Draft {
    let number = place as u64 + 1;
    let (kind, text) = match said {
        Said::Asks | Said::Tells => (RecordKind::Normal, "hello"),
        Said::Compact => (RecordKind::Notice, "/compact"),
        Said::Stop => (RecordKind::Notice, "/stop"),
    };
    let origin =
        Origin { chat: chat(), channel: Channel::Telegram, chat_id: "42".into(), user_id: "42".into() };
    let ts = Timestamp::from_secs(START + number.cast_signed());
    Draft::new(origin, MessageId::number(number), ts)
        .of_kind(kind)
        .with_parts(vec![Part::text(text)])
        .asking(matches!(said, Said::Asks | Said::Compact))
}

pub fn bases(places: Places) -> Vec<SortKey> {
    (0..Places::BITS as usize).filter(|place| places & 1 << place != 0).map(base).collect()
}

pub fn places(bases: &[SortKey]) -> Places {
    let place = |key: &SortKey| (key.ts().as_millis() / 1000 - START - 1).unsigned_abs();
    bases.iter().fold(0, |places, key| places | 1 << place(key))
}

/// The next step of a run, as the code decides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Nothing,
    End(Turn),
    Answer {
        turn: Turn,
        /// True if more may follow it.
        leaves_more: bool,
        /// True if its reply is stored.
        has_reply: bool,
    },
}

type Key = (Vec<Said>, Places, Vec<Option<Reply>>, Option<Turn>, Option<u8>);

thread_local! {
    /// Decisions of the code so far: it decides alike in many states.
    static DECISIONS: RefCell<HashMap<Key, Decision>> = RefCell::default();
}

/// Returns the next step of a run that claimed `turn` and `stop` with the head and reads the records of `state` now.
pub fn decide(said: &[Said], state: &State, turn: Option<Turn>, stop: Option<u8>) -> Decision {
    let key = (said.to_vec(), state.stored, state.replies.clone(), turn, stop);
    if let Some(known) = DECISIONS.with_borrow(|known| known.get(&key).copied()) {
        return known;
    }
    let records = records(said, state);
    let context = context(&records, now(), &POLICY);
    let decision = decision(&next(&head(turn, stop), &records, &context, now()));
    DECISIONS.with_borrow_mut(|known| known.insert(key, decision));
    decision
}

/// Returns the turn that a run which claimed `claimed` and `stop` makes of its `turn`, with what has come since.
pub fn extended(
    said: &[Said],
    state: &State,
    claimed: Option<Turn>,
    stop: Option<u8>,
    turn: Turn,
) -> Option<Turn> {
    let records = records(said, state);
    let context = context(&records, now(), &POLICY);
    let turn = OpenTurn::new(bases(turn.covers));
    let extended = next::extended(&head(claimed, stop), &records, &context, now(), &turn)?;
    Some(Turn { covers: places(&extended.covers), sent: 0 })
}

/// [`Next`] in places.
pub fn decision(next: &Next) -> Decision {
    let of = |turn: &OpenTurn| Turn {
        covers: places(&turn.covers),
        sent: u8::try_from(turn.sent).unwrap_or(u8::MAX),
    };
    match next {
        Next::Nothing => Decision::Nothing,
        Next::End { turn, .. } => Decision::End(of(turn)),
        Next::Answer { turn, leaves_more, has_reply } => {
            Decision::Answer { turn: of(turn), leaves_more: *leaves_more, has_reply: *has_reply }
        }
    }
}

/// Returns true if the code finds something to end for the `/stop` at `place`.
pub fn finds_something(said: &[Said], state: &State, place: usize) -> bool {
    let head = head(state.head.turn, state.head.stopped_to);
    has_something_to_end(&records(said, state), &base(place), &head, state.head.lease == Lease::Run, now())
}

pub fn head(turn: Option<Turn>, stop: Option<u8>) -> Head {
    Head {
        turn: turn.map(|turn| OpenTurn { sent: turn.sent.into(), ..OpenTurn::new(bases(turn.covers)) }),
        stopped_to: stop.map(|place| base(place.into())),
        ..Head::default()
    }
}

/// The time: after all messages.
pub fn now() -> Timestamp {
    Timestamp::from_secs(START + 60)
}

pub fn records(said: &[Said], state: &State) -> Vec<Record> {
    let mut records = Vec::new();
    for (place, said) in said.iter().enumerate() {
        if state.stored & 1 << place != 0 {
            records.push(message(place, *said));
        }
        if let Some(reply) = state.replies[place] {
            records.push(reply_record(place, reply));
        }
    }
    records
}

fn message(place: usize, said: Said) -> Record {
    let draft = draft(place, said);
    Record { tokens: 1, ..record_of(&draft, draft.key(), 0, draft.ts) }
}

fn reply_record(place: usize, reply: Reply) -> Record {
    let of = message(place, Said::Tells);
    let answer = Answer { covers: bases(reply.covers), ..Answer::default() };
    Record {
        key: of.key.reply(),
        user_id: "annals".into(),
        message_id: of.message_id.derived("reply"),
        message: UiMessage::text("reply", Role::Assistant, "hello"),
        details: if reply.kind == Kind::Failure { Details::Notice(answer) } else { Details::Reply(answer) },
        ..of
    }
}
