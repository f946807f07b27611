//! A state as the records that the product's functions take, and the decisions of those functions.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use annals_agent::next::{Next, next};
use annals_core::compaction::cut::{expires, to_keep};
use annals_core::context::view::SessionView;
use annals_core::context::{Policy, context};
use annals_core::message::Role;
use annals_core::record::{Answer, Details, Kind, Record, Said, Source};
use annals_core::sort_key::{MessageId, SortKey, Timestamp};
use annals_core::testing;
use annals_store::history::turn::{Head, OpenTurn};
use annals_store::history::{Form as StoredForm, Retention, later_expiry, next_form};

use super::state::{Age, Content, Form, Forms, Item, Kept, Key, Places, Tick};
use crate::records::START;

/// The settings: an append is due for a visit after one tick, and a record lives for two.
pub const RETENTION: Retention = Retention {
    stale_after: Some(Duration::from_hours(48)),
    archive_grace: Duration::from_hours(24),
    archive: true,
};

/// The settings of a context.
pub const POLICY: Policy =
    Policy { stale_after: RETENTION.stale_after, fresh: false, token_budget: u32::MAX, images: 0 };

/// One tick in seconds: [`Retention::due_after`].
const TICK: i64 = 36 * 3600;

/// The time between the beginning of a tick and what happens in it, in seconds.
const WITHIN_A_TICK: i64 = 2 * 3600;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Script {
    /// The tick of each.
    pub at: [Tick; 2],
    pub asks: [bool; 2],
}

pub fn time(tick: Tick) -> Timestamp {
    Timestamp::from_secs(START + i64::from(tick) * TICK + WITHIN_A_TICK)
}

/// Returns the first tick at or after `time`, in epoch seconds.
fn tick(time: i64) -> Tick {
    let ticks = (time - START - WITHIN_A_TICK).max(0);
    Tick::try_from(ticks / TICK + i64::from(ticks % TICK > 0)).unwrap_or(Tick::MAX)
}

/// Returns the date of a record that is appended at `now`.
pub fn expiry(now: Tick) -> Tick {
    RETENTION.expires_at(time(now)).map_or(Tick::MAX, tick)
}

pub fn later(a: Tick, b: Tick) -> Tick {
    let later = later_expiry(Some(a.into()), Some(b.into()));
    later.and_then(|at| Tick::try_from(at).ok()).unwrap_or(Tick::MAX)
}

/// Returns the date on which an append at `now` is due for a visit.
pub fn due(now: Tick) -> Tick {
    tick(time(now).plus(RETENTION.due_after()).as_millis() / 1000)
}

/// Returns true if the message at `place` may have left the table by `now`.
pub fn may_have_left(script: Script, place: u8, now: Tick) -> bool {
    RETENTION.may_have_left(said(script, place), time(now))
}

/// Returns the number of the form with this content that is appended to `forms`; `None` if it is one of them.
pub fn number(script: Script, place: u8, forms: Forms, content: Content) -> Option<u8> {
    let made_at =
        |content| said(script, place).plus(Duration::from_secs(if content == Content::A { 0 } else { 10 }));
    let stored = |(number, content): (usize, &Option<Content>)| {
        Some(StoredForm {
            made_at: Some(made_at((*content)?)),
            revision: u32::try_from(number).unwrap_or(u32::MAX),
            digest: Some(digest((*content)?).into()),
        })
    };
    let forms: Vec<StoredForm> = forms.iter().enumerate().filter_map(stored).collect();
    let next = next_form(&forms, Some(made_at(content)), &[digest(content).into()])?;
    Some(u8::try_from(next).unwrap_or(u8::MAX))
}

/// The next step of a run, by the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Nothing,
    /// The turn in the head cannot be carried out: its messages are nowhere.
    Missing,
    Answer {
        covers: Places,
        /// The latest date of them.
        covered_until: Tick,
        /// True if there may be more after it.
        leaves_more: bool,
        /// True if its reply is stored.
        has_reply: bool,
    },
}

/// A read of the records by a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Look {
    pub table: Vec<Item>,
    /// The records that a run with this turn looks for in the archive.
    pub archived: Vec<Kept>,
    /// The turn that the run has found in the head.
    pub turn: Option<Places>,
    /// Number of ticks that are added to the dates of messages.
    pub lapses_late_by: Tick,
    pub now: Tick,
}

/// A read by a visit, which its decisions follow from.
type Sight = (Script, Vec<Item>, Tick);

thread_local! {
    static DECISIONS: RefCell<HashMap<(Script, Look), Decision>> = RefCell::default();
    static SEEN: RefCell<HashMap<Sight, Seen>> = RefCell::default();
}

/// Returns the next step of a run that reads this.
pub fn decide(script: Script, mut look: Look) -> Decision {
    // Neither decides anything.
    for item in &mut look.table {
        (item.due, item.kept.age) = (None, Age::Fresh);
    }
    let read = (script, look);
    if let Some(known) = DECISIONS.with_borrow(|known| known.get(&read).copied()) {
        return known;
    }
    let decision = decide_anew(script, &read.1);
    DECISIONS.with_borrow_mut(|known| known.insert(read, decision));
    decision
}

fn decide_anew(script: Script, look: &Look) -> Decision {
    let late = |item: &Item| {
        let by = if matches!(item.kept.key.form, Form::Reply) { 0 } else { look.lapses_late_by };
        Item { expires: item.expires + by, ..*item }
    };
    let mut records: Vec<Record> = look.table.iter().map(|item| record(script, &late(item))).collect();
    let is_there = |records: &[Record], place: u8| {
        records.iter().any(|record| record.key.base() == base(script, place) && record.role() == Role::User)
    };
    // As `Agent::add_covered` does.
    let claimed: Vec<u8> = places(look.turn.unwrap_or_default());
    let from_archive = |kept: &Kept| {
        let (sent, expires) = (0, expiry(look.now));
        record(script, &Item { kept: *kept, sent, expires, due: None })
    };
    for place in &claimed {
        if !is_there(&records, *place) {
            let of_it = look.archived.iter().filter(|kept| kept.key.place == *place);
            records.extend(of_it.filter(|kept| kept.key.form != Form::Reply).map(from_archive));
        }
    }
    let replies = look.archived.iter().filter(|kept| kept.key.form == Form::Reply);
    let reply = replies.filter(|kept| Some(&kept.key.place) == claimed.last()).map(from_archive);
    let stored: Vec<Record> =
        reply.filter(|reply| !records.iter().any(|other| other.key == reply.key)).collect();
    records.extend(stored);
    records.sort_by(|a, b| a.key.cmp(&b.key));
    if claimed.last().is_some_and(|place| !is_there(&records, *place)) {
        return Decision::Missing;
    }
    let head = Head {
        turn: look.turn.map(|_| OpenTurn::new(claimed.iter().map(|place| base(script, *place)).collect())),
        ..Head::default()
    };
    let context = context(&records, time(look.now), &POLICY);
    match next(&head, &records, &context, time(look.now)) {
        Next::Nothing | Next::End { .. } => Decision::Nothing,
        Next::Answer { turn, leaves_more, has_reply } => {
            let is_covered = |record: &&Record| {
                !record.key.is_reply()
                    && !record.key.belongs_to_reply()
                    && turn.covers.contains(&record.key.base())
            };
            let dates = records.iter().filter(is_covered).filter_map(|record| record.expires_at);
            let covers = (0..2).filter(|place| turn.covers.contains(&base(script, *place)));
            Decision::Answer {
                covers: covers.fold(0, |places, place| places | 1 << place),
                covered_until: dates.map(tick).fold(0, later),
                leaves_more,
                has_reply,
            }
        }
    }
}

/// A read of the records by a visit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The records that the visit prolongs, in order.
    pub keep: Vec<Key>,
    /// The last message that a summary may count, if the visit may make one.
    pub summary: Option<u8>,
    /// The messages that a summary up to there counts.
    pub counts: Places,
    /// The date of the next visit, as far as the records decide it.
    pub next: Option<Tick>,
}

/// Returns what a visit sees at `now`, as `Upkeep::keep_alive` and `Compaction::keep` do.
pub fn see(script: Script, table: &[Item], now: Tick) -> Seen {
    let anonymous = |item: &Item| Item { due: None, kept: Kept { age: Age::Fresh, ..item.kept }, ..*item };
    let look = (script, table.iter().map(anonymous).collect(), now);
    if let Some(known) = SEEN.with_borrow(|known| known.get(&look).cloned()) {
        return known;
    }
    let seen = see_anew(script, table, now);
    SEEN.with_borrow_mut(|known| known.insert(look, seen.clone()));
    seen
}

fn see_anew(script: Script, table: &[Item], now: Tick) -> Seen {
    let records: Vec<Record> = table.iter().map(|item| record(script, item)).collect();
    let view = SessionView::of(&records, time(now), &POLICY);
    let horizon = RETENTION.horizon(time(now));
    let is_due = expires(&view, horizon.soon);
    let leaves = |record: &Record, before: i64| record.expires_at.is_some_and(|at| at < before);
    let waits = view.unanswered.iter().any(|message| leaves(message.first, horizon.soon));
    let before = match (is_due, waits) {
        (true, _) => horizon.before_long,
        (false, true) => horizon.soon,
        (false, false) => i64::MIN,
    };
    let key_of = |item: &Item| key(script, item.kept.key);
    let kept = to_keep(&view, &records, before).into_iter();
    let kept = kept.filter_map(|record| table.iter().find(|item| key_of(item) == record.key));
    let keep: Vec<Key> = kept.map(|item| item.kept.key).collect();
    let counted = |place: &u8| view.earlier.iter().any(|message| message.first.key == base(script, *place));
    let counted: Vec<u8> = if is_due { (0..2).filter(counted).collect() } else { Vec::new() };
    let stale_after = RETENTION.stale_after.unwrap_or_default() + Duration::from_secs(1);
    let stale = view.last_interaction.map(|last| last.plus(stale_after).as_millis() / 1000);
    let left = view.earlier_records().filter_map(|record| {
        let at =
            if leaves(record, horizon.soon) { RETENTION.expires_at(time(now)) } else { record.expires_at };
        Some(at? - horizon.soon + time(now).as_millis() / 1000)
    });
    let waits = (!view.unanswered.is_empty()).then(|| now + 1);
    let dates = stale.into_iter().chain(left).map(tick).chain(waits);
    Seen {
        keep,
        summary: counted.last().copied(),
        counts: counted.iter().fold(0, |places, place| places | 1 << place),
        next: dates.min(),
    }
}

/// Returns the messages of `bits`, in order.
fn places(bits: Places) -> Vec<u8> {
    (0..2).filter(|place| bits & 1 << place != 0).collect()
}

fn digest(content: Content) -> &'static str {
    if content == Content::A { "a" } else { "b" }
}

fn said(script: Script, place: u8) -> Timestamp {
    let tick = script.at[usize::from(place)];
    Timestamp::from_secs(START + i64::from(tick) * TICK + WITHIN_A_TICK - 60 + i64::from(place))
}

fn id(place: u8) -> MessageId {
    MessageId::number(u64::from(place) + 1)
}

fn base(script: Script, place: u8) -> SortKey {
    SortKey::message(said(script, place), &id(place))
}

fn key(script: Script, key: Key) -> SortKey {
    let base = base(script, key.place);
    match key.form {
        Form::First => base,
        Form::Later(number) => base.revision(number.into()),
        Form::Reply => base.reply(),
        Form::Summary => base.summary(),
    }
}

/// Returns `item` as the table has it.
fn record(script: Script, item: &Item) -> Record {
    let Kept { key: Key { place, form }, content, covers, .. } = item.kept;
    let is_person = matches!(form, Form::First | Form::Later(_));
    let (role, text) = if is_person { (Role::User, digest(content)) } else { (Role::Assistant, "reply") };
    let bases = |bits| places(bits).into_iter().map(|place| base(script, place)).collect::<Vec<SortKey>>();
    let counts = bases(covers).into_iter().flat_map(|base| [base.clone(), base.reply()]).collect();
    let source = || Source {
        read_at: Some(time(item.sent)),
        from: bases(covers).first().cloned().unwrap_or_else(|| base(script, place)),
        from_id: id(place),
        to: base(script, place),
        to_id: id(place),
        count: covers.count_ones(),
        counts,
        last_interaction: said(script, place),
    };
    let said = |revision| Said { revision, asks: script.asks[usize::from(place)], ..Said::default() };
    let details = match form {
        Form::First => Details::Message(said(0)),
        Form::Later(number) => Details::Message(said(number.into())),
        Form::Reply => Details::Reply(Answer { covers: bases(covers), ..Answer::default() }),
        Form::Summary => Details::Summary(source()),
    };
    Record {
        user_id: if is_person { "42".into() } else { "annals".into() },
        sent_at: time(item.sent),
        tokens: 1,
        expires_at: Some(time(item.expires).as_millis() / 1000),
        details,
        ..testing::record(key(script, item.kept.key), id(place), role, Kind::Normal, text)
    }
}
