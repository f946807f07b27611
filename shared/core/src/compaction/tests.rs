//! Property tests: after any history, each message is either shown, or counted by a summary in its place, or before the
//! Session. Random histories are run step by step and checked after each step.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::json;

use super::cut::{Cut, Rules, Why, cut, cut_at, expires, to_keep};
use crate::context::view::{Message, SessionView};
use crate::context::{Context, Policy, context};
use crate::message::{Part, Role, UiMessage};
use crate::record::{Details, Kind, Record};
use crate::sort_key::{MessageId, SortKey, Timestamp};
use crate::testing::{as_kind, hours, record, set, with};

const STALE: Duration = Duration::from_hours(48);
/// Time that a record stays in the table.
const LIFETIME: Duration = Duration::from_hours(48 + 168);
const BUDGET: u32 = 400;

const RULES: Rules =
    Rules { keep_recent: 4, summary_tokens: 50, source_tokens: 250, approval_patience: STALE };

const TEXTS: [&str; 3] = ["Have you seen the new engine?", "番茄该换盆了，顺便买两袋土", "ok 👍🏽"];

/// A step, some minutes after the one before.
#[derive(Clone, Debug)]
enum Step {
    /// A message arrives with a time `late` minutes ago.
    Say {
        late: i64,
        what: What,
        asks: bool,
        album: Option<u8>,
        business: bool,
        tokens: u32,
    },
    /// A message is edited or recalled.
    Edit {
        which: Index,
        asks: bool,
        recalls: bool,
    },
    /// The unanswered messages get a reply, or a failure notice; `call` is the state of a tool call in it.
    Answer {
        fails: bool,
        call: Option<&'static str>,
        counted: Option<u32>,
        tokens: u32,
    },
    /// `/new` arrives with a time `late` minutes ago.
    Boundary {
        late: i64,
    },
    Wait {
        hours: u64,
    },
    Compact(Why),
    /// The compactor visits the chat, and expired records leave the table.
    Sweep,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Text,
    Event,
    /// A client appends an assistant message with an open call.
    Call,
}

fn lateness() -> impl Strategy<Value = i64> {
    prop_oneof![8 => Just(0_i64), 2 => 0..60_i64, 1 => 0..6000_i64]
}

fn step() -> impl Strategy<Value = Step> {
    let what = prop_oneof![8 => Just(What::Text), 1 => Just(What::Event), 1 => Just(What::Call)];
    let album = prop::option::weighted(0.1, 0..2_u8);
    let say = (lateness(), what, any::<bool>(), album, prop::bool::weighted(0.1), 1..60_u32).prop_map(
        |(late, what, asks, album, business, tokens)| Step::Say { late, what, asks, album, business, tokens },
    );
    let edit = (any::<Index>(), any::<bool>(), prop::bool::weighted(0.2))
        .prop_map(|(which, asks, recalls)| Step::Edit { which, asks, recalls });
    let call = prop::option::weighted(
        0.2,
        prop::sample::select(
            &["output-available", "output-error", "approval-requested", "input-available"][..],
        ),
    );
    let answer = (prop::bool::weighted(0.1), call, prop::option::weighted(0.2, 80..200_u32), 1..60_u32)
        .prop_map(|(fails, call, counted, tokens)| Step::Answer { fails, call, counted, tokens });
    let why = prop_oneof![
        Just(Why::Asked),
        (50..BUDGET).prop_map(|budget| Why::TooLong { budget }),
        (0..300_u64).prop_map(|hours| Why::Expiring { before: i64::try_from(hours).unwrap() }),
    ];
    prop_oneof![
        20 => say,
        3 => edit,
        10 => answer,
        1 => lateness().prop_map(|late| Step::Boundary { late }),
        3 => (1..60_u64).prop_map(|hours| Step::Wait { hours }),
        5 => why.prop_map(Step::Compact),
        2 => Just(Step::Sweep),
    ]
}

/// A chat with its complete past.
struct Life {
    now: Timestamp,
    next_id: u64,
    /// Records in the table.
    records: BTreeMap<SortKey, Record>,
    /// All records that ever existed.
    all: BTreeMap<SortKey, Record>,
    /// For each summary, the keys that it counts, and the summary that it folds.
    made: HashMap<SortKey, (HashSet<SortKey>, Option<SortKey>)>,
}

fn policy(token_budget: u32) -> Policy {
    Policy { stale_after: Some(STALE), fresh: false, token_budget, images: 0 }
}

/// Data of a view, to be compared.
#[derive(Clone, Debug, PartialEq)]
struct Said {
    summary: Option<SortKey>,
    earlier: Vec<SortKey>,
    unanswered: Vec<SortKey>,
    session_start: Option<SortKey>,
    last_interaction: Option<Timestamp>,
}

fn said(view: &SessionView<'_>) -> Said {
    Said {
        summary: view.summary.map(|summary| summary.key.clone()),
        earlier: view.earlier.iter().map(|message| message.key().clone()).collect(),
        unanswered: view.unanswered.iter().map(|message| message.key().clone()).collect(),
        session_start: view.session_start.clone(),
        last_interaction: view.last_interaction,
    }
}

/// Returns the record that [`super::run`] makes for a cut.
fn summary_of(cut: &Cut<'_, '_>, now: Timestamp) -> Record {
    let source = cut.source(now).unwrap();
    let last = cut.counted.last().unwrap();
    let mut summary =
        record(source.to.summary(), source.to_id.derived("summary"), Role::Assistant, Kind::Summary, "notes");
    summary.message.metadata.copy_line_of(&last.first.message.metadata);
    summary.tokens = RULES.summary_tokens.min(cut.counted.iter().map(Message::tokens).sum::<u32>());
    Record { sent_at: now, expires_at: Some(expiry(now)), details: Details::Summary(source), ..summary }
}

/// Returns the expiry of a record that is stored now.
fn expiry(now: Timestamp) -> i64 {
    now.plus(LIFETIME).as_millis() / 1000
}

impl Life {
    fn new() -> Self {
        Self {
            now: hours(0),
            next_id: 1,
            records: BTreeMap::new(),
            all: BTreeMap::new(),
            made: HashMap::new(),
        }
    }

    fn store(&mut self, record: Record) {
        let record = Record { sent_at: self.now, expires_at: Some(expiry(self.now)), ..record };
        // Create-only.
        self.all.entry(record.key.clone()).or_insert_with(|| record.clone());
        self.records.entry(record.key.clone()).or_insert(record);
    }

    fn table(&self) -> Vec<Record> {
        self.records.values().cloned().collect()
    }

    fn live(&mut self, step: &Step) -> Result<(), TestCaseError> {
        self.now = self.now.plus(Duration::from_mins(1));
        match step {
            Step::Say { late, what, asks, album, business, tokens } => {
                self.say(*late, *what, *asks, *album, *business, *tokens);
            }
            Step::Edit { which, asks, recalls } => self.edit(*which, *asks, *recalls),
            Step::Answer { fails, call, counted, tokens } => self.answer(*fails, *call, *counted, *tokens),
            Step::Boundary { late } => {
                let id = self.id();
                let key = SortKey::message(self.dated(*late), &id);
                self.store(record(key, id.derived("boundary"), Role::User, Kind::Boundary, "/new"));
            }
            Step::Wait { hours } => self.now = self.now.plus(Duration::from_hours(*hours)),
            Step::Compact(why) => {
                let why = match why {
                    // Hours from now.
                    Why::Expiring { before } => {
                        Why::Expiring { before: self.now.as_millis() / 1000 + before * 3600 }
                    }
                    why => *why,
                };
                let table = self.table();
                self.compact(&table, why)?;
            }
            Step::Sweep => self.sweep()?,
        }
        Ok(())
    }

    fn id(&mut self) -> MessageId {
        self.next_id += 1;
        MessageId::number(self.next_id)
    }

    fn dated(&self, late: i64) -> Timestamp {
        self.now.minus(Duration::from_mins(late.unsigned_abs()))
    }

    fn say(&mut self, late: i64, what: What, asks: bool, album: Option<u8>, business: bool, tokens: u32) {
        let id = self.id();
        let key = SortKey::message(self.dated(late), &id);
        let (role, kind) = match what {
            What::Text => (Role::User, Kind::Normal),
            What::Event => (Role::User, Kind::Event),
            What::Call => (Role::Assistant, Kind::Normal),
        };
        let mut said = record(key, id, role, kind, TEXTS[usize::try_from(tokens).unwrap() % 3]);
        if what == What::Call {
            said.message.parts.push(call("approval-requested"));
        }
        if business {
            set(&mut said.message.metadata, "telegram", json!({"businessConnectionId": "b"}));
        }
        let album = album.filter(|_| what == What::Text).map(|album| format!("{album} {business}"));
        let said = with(Record { tokens, ..said }, |attributes| {
            attributes.asks = asks && what == What::Text;
            attributes.album = album;
        });
        self.store(said);
    }

    fn edit(&mut self, which: Index, asks: bool, recalls: bool) {
        let is_message =
            |record: &&Record| matches!(record.kind(), Kind::Normal | Kind::Event) && !record.key.is_reply();
        // If the message has expired, its form would be the first one: a different case.
        let messages: Vec<&Record> = self.records.values().filter(is_message).collect();
        if messages.is_empty() {
            return;
        }
        let of = which.get(&messages);
        let number = (1..1000).find(|number| !self.records.contains_key(&of.key.revision(*number))).unwrap();
        let form = Record { key: of.key.revision(number), ..(*of).clone() };
        let mut form = with(as_kind(form, Kind::Revision), |attributes| {
            attributes.revision = number;
            attributes.asks = asks && of.role() == Role::User && of.kind() == Kind::Normal;
        });
        form.message.parts = if recalls { vec![] } else { vec![Part::text("edited")] };
        self.store(form);
    }

    fn answer(&mut self, fails: bool, state: Option<&'static str>, counted: Option<u32>, tokens: u32) {
        let table = self.table();
        let unanswered = context(&table, self.now, &policy(BUDGET)).unanswered;
        let Some(newest) = unanswered.last() else { return };
        let of = table.iter().find(|record| record.key.base() == *newest).unwrap();
        let id = of.message_id.derived("reply");
        let kind = if fails { Kind::Notice } else { Kind::Normal };
        let mut reply = record(newest.reply(), id, Role::Assistant, kind, "Noted.");
        reply.message.metadata.copy_line_of(&of.message.metadata);
        reply.message.parts.extend(state.map(call));
        if let Some(counted) = counted {
            let usage = json!({"inputTokens": counted, "estimatedInputTokens": 100});
            set(&mut reply.message.metadata, "usage", usage);
        }
        self.store(with(Record { tokens, ..reply }, |attributes| attributes.covers = unanswered));
    }

    /// Runs one compaction of `records`, of the table or of one line, and checks it.
    fn compact(&mut self, records: &[Record], why: Why) -> Result<bool, TestCaseError> {
        let view = SessionView::of(records, self.now, &policy(BUDGET));
        let before = said(&view);
        let Some(cut) = cut(&view, why, &RULES, self.now) else { return Ok(false) };
        let at = cut.counted.len();
        let keys: Vec<SortKey> = cut.counted.iter().map(|message| message.key().clone()).collect();
        prop_assert!(at > 0 && keys == before.earlier[..at], "what is oldest goes first");
        let waits = |record: &Record| self.now.since(record.sent_at) <= RULES.approval_patience;
        for message in cut.counted {
            prop_assert!(
                !(message.is_open() && waits(message.first)),
                "cut behind a pending approval: {:?}",
                message.key()
            );
        }
        if why == Why::Asked {
            let is_said = |record: &&Record| record.kind() != Kind::Event;
            let kept =
                view.earlier[at..].iter().chain(&view.unanswered).map(|m| m.first).filter(is_said).count();
            prop_assert!(kept >= RULES.keep_recent, "only {kept} are kept");
        }
        let tokens: u32 = cut.counted.iter().map(|message| view.corrected(message.tokens())).sum();
        // A late message, or one that is not an interaction, is not summarised alone.
        let goes_alone = |message: &Message<'_>| {
            Some(message.key()) > view.summed_up_to.as_ref()
                && (message.first.is_interaction() || cut.folded.is_some())
        };
        let has_to = !cut.counted[..at - 1].iter().any(goes_alone);
        prop_assert!(has_to || tokens <= RULES.source_tokens, "{} tokens in one request", tokens);
        let summary = summary_of(&cut, self.now);
        prop_assert_eq!(cut.folded.map(|folded| folded.key.clone()), before.summary.clone());
        let planned = cut_at(&view, &summary.source().unwrap().to).unwrap();
        prop_assert_eq!(
            planned.source(self.now),
            cut.source(self.now),
            "a run that finds the plan makes the same"
        );
        prop_assert!(
            !self.records.contains_key(&summary.key),
            "two summaries at one place: {:?}",
            summary.key
        );
        self.made.insert(summary.key.clone(), (keys.into_iter().collect(), before.summary));
        self.store(summary.clone());

        let mut with_summary = records.to_vec();
        with_summary.push(summary.clone());
        with_summary.sort_by(|a, b| a.key.cmp(&b.key));
        let after = said(&SessionView::of(&with_summary, self.now, &policy(BUDGET)));
        let expected = Said { summary: Some(summary.key), earlier: before.earlier[at..].to_vec(), ..before };
        let start = (after.session_start.clone(), expected.session_start.clone());
        prop_assert_eq!(&after, &expected, "only what is counted goes; {:?}", start);
        Ok(true)
    }

    /// Does the work of upkeep for a live Session, and of TTL, which spares some of what has expired.
    fn sweep(&mut self) -> Result<(), TestCaseError> {
        let seconds = |from_now: Duration| self.now.plus(from_now).as_millis() / 1000;
        let (soon, before) = (seconds(Duration::from_hours(90)), seconds(Duration::from_hours(150)));
        for line in [None, Some("b")] {
            loop {
                let is_of = |record: &&Record| record.kind() == Kind::Boundary || record.line() == line;
                let of_line: Vec<Record> = self.records.values().filter(is_of).cloned().collect();
                if !expires(&SessionView::of(&of_line, self.now, &policy(BUDGET)), soon) {
                    break;
                }
                if !self.compact(&of_line, Why::Expiring { before })? {
                    let view = SessionView::of(&of_line, self.now, &policy(BUDGET));
                    let kept = to_keep(&view, &of_line, before);
                    let keys: Vec<SortKey> = kept.iter().map(|record| record.key.clone()).collect();
                    for key in keys {
                        self.records.get_mut(&key).unwrap().expires_at = Some(expiry(self.now));
                    }
                    break;
                }
            }
        }
        let table = self.table();
        let before = context(&table, self.now, &policy(u32::MAX));
        let now = self.now.as_millis() / 1000;
        let waiting: HashSet<SortKey> = before.unanswered.iter().cloned().collect();
        // Unanswered messages are answered, or fail, long before they expire. A late message from before a boundary may
        // expire after it: a different case.
        // TTL deletes in any order.
        let millis = self.now.as_millis();
        self.records.retain(|key, record| {
            waiting.contains(&key.base())
                || record.kind() == Kind::Boundary
                || record.expires_at.unwrap() >= now
                || is_spared(key, millis)
        });
        let after = context(&self.table(), self.now, &policy(u32::MAX));
        // An event during a silence is shown once the messages before it are gone.
        let events = self.all.values().filter(|record| record.kind() == Kind::Event);
        let events: HashSet<String> = events.map(|record| record.message_id.to_string()).collect();
        let said = |context: Context| -> Vec<UiMessage> {
            let is_said = |message: &UiMessage| match message.role {
                Role::User => !events.contains(&message.id),
                _ => message.metadata.kind() == Some(Kind::Summary) || message.id.ends_with("/reply"),
            };
            context.messages.into_iter().filter(is_said).collect()
        };
        prop_assert_eq!(said(after), said(before), "what is shown does not depend on what was swept");
        Ok(())
    }

    /// Checks that each message is in exactly one place.
    fn check(&self) -> Result<(), TestCaseError> {
        let table = self.table();
        let view = SessionView::of(&table, self.now, &policy(BUDGET));
        let now = said(&view);
        prop_assert_eq!(&said(&SessionView::of(&table, self.now, &policy(BUDGET))), &now, "the same twice");
        prop_assert!(now.earlier.is_sorted() && now.unanswered.is_sorted());
        let mut counted: HashSet<&SortKey> = HashSet::new();
        let mut chain = now.summary.as_ref();
        while let Some(summary) = chain {
            let (counts, folded) = &self.made[summary];
            prop_assert!(
                counts.iter().all(|key| counted.insert(key)),
                "counted twice by the chain of {}",
                summary
            );
            chain = folded.as_ref();
        }
        let line = view.unanswered.first().map(|message| message.first).or_else(|| {
            table.iter().rev().find(|record| record.is_interaction() && record.kind() == Kind::Normal)
        });
        let line = line.and_then(Record::line);
        let is_message =
            |record: &&Record| matches!(record.kind(), Kind::Normal | Kind::Event) && record.line() == line;
        let is_recalled = |key: &SortKey| {
            let forms = self.all.range(key.clone()..).take_while(|(other, _)| other.base() == key.base());
            let forms = forms.filter(|(form, record)| *form == key || record.kind() == Kind::Revision);
            !key.is_reply()
                && forms
                    .max_by_key(|(_, form)| form.revision())
                    .is_some_and(|(_, form)| form.message.parts.is_empty())
        };
        for record in self.all.values().filter(is_message) {
            let key = &record.key;
            let waits = now.unanswered.contains(key);
            let is_shown = now.earlier.contains(key);
            let is_counted = counted.contains(key);
            let is_before = now.session_start.as_ref().is_none_or(|start| key.base() < *start);
            // What left with an ended Session is not there when a late message brings the Session back.
            let has_left = !self.records.contains_key(key) && !is_counted;
            if is_recalled(key) || has_left {
                prop_assert!(!waits && !is_shown, "recalled or gone, and shown: {}", key);
            } else if waits {
                prop_assert!(!is_shown, "shown twice: {}", key);
            } else {
                let places = [is_shown, is_counted, is_before];
                prop_assert!(
                    places.iter().filter(|is| **is).count() == 1,
                    "{} is shown, counted, before the session: {:?}; {:?}",
                    key,
                    places,
                    now
                );
            }
        }
        let shown = context(&table, self.now, &policy(BUDGET));
        let everything = context(&table, self.now, &policy(u32::MAX));
        prop_assert!(shown.tokens <= BUDGET || shown.messages.len() == shown.unanswered.len());
        prop_assert!(
            everything.messages.ends_with(&shown.messages[shown.messages.len() - shown.unanswered.len()..])
        );
        prop_assert_eq!(everything.left_out, 0);
        Ok(())
    }

    /// Checks that after enough compactions the context is within its budget, except for messages that may not be cut.
    fn check_that_room_is_made(&mut self) -> Result<(), TestCaseError> {
        loop {
            let table = self.table();
            let view = SessionView::of(&table, self.now, &policy(BUDGET));
            let summary = view.summary.map_or(0, |summary| view.corrected(summary.tokens));
            let shown = summary + view.tokens_of(&view.earlier) + view.tokens_of(&view.unanswered);
            if shown <= BUDGET {
                prop_assert_eq!(context(&table, self.now, &policy(BUDGET)).left_out, 0);
                return Ok(());
            }
            if !self.compact(&table, Why::TooLong { budget: BUDGET })? {
                let goes_alone = |message: &Message<'_>| {
                    let is_said = message.first.is_interaction() || view.summary.is_some();
                    is_said && Some(message.key()) > view.summed_up_to.as_ref()
                };
                let may_be_cut =
                    view.earlier.iter().any(goes_alone) && !view.earlier.iter().any(Message::is_open);
                prop_assert!(!may_be_cut, "no room is made of {} tokens", shown);
                return Ok(());
            }
        }
    }
}

fn call(state: &str) -> Part {
    Part::new(json!({"type": "tool-search", "toolCallId": "c", "state": state, "input": {}})).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn each_message_is_shown_or_counted_or_before_the_session(steps in prop::collection::vec(step(), 1..80)) {
        let mut life = Life::new();
        for (number, step) in steps.iter().enumerate() {
            life.live(step)?;
            life.check().map_err(|error| TestCaseError::fail(format!("behind step {number}: {error}")))?;
        }
        life.check_that_room_is_made()?;
        life.check()?;
    }
}

/// Returns true for a third of the keys, others at each time.
fn is_spared(key: &SortKey, millis: i64) -> bool {
    let mut hasher = DefaultHasher::new();
    (key, millis).hash(&mut hasher);
    hasher.finish().is_multiple_of(3)
}
