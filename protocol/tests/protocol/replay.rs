//! Random ways through the model beside the real history on the embedded engine: each step does the same to both, finds
//! the same, and leaves the same.

use std::time::Duration;

use Said::{Asks, Compact, Stop, Tells};
use annals_agent::next::{extended, next};
use annals_core::chat_key::ChatKey;
use annals_core::context::context;
use annals_core::draft::Draft;
use annals_core::message::{Role, UiMessage};
use annals_core::record::{Channel, Kind as RecordKind, Record};
use annals_core::sort_key::MessageId;
use annals_io::clock::Clock;
use annals_local::stores::{Stores, TABLE};
use annals_protocol::model::{Action, Protocol};
use annals_protocol::records::{POLICY, base, bases, decide, decision, draft, now, places};
use annals_protocol::state::{Budget, Kind, Lease, Post, Reply, Run, Said, State, Step, Turn};
use annals_store::history;
use annals_store::history::stop::has_something_to_end;
use annals_store::history::turn::{Claim, Ending, Lease as RealLease, OpenTurn};
use annals_store::history::{History, HistoryError, ReplyAppended, Retention};
use stateright::Model;

const WALKS: u64 = 30;
const STEPS: usize = 150;
const LEASE: Duration = Duration::from_mins(5);

/// The first steps of some walks, which random ones hardly ever take: a message comes while a run asks, and the
/// run adds it to the turn that it commits to.
const ADDITION: [Action; 9] = [
    Action::Post(0),
    Action::Post(0),
    Action::Deliver(0),
    Action::Run(0),
    Action::Run(0),
    Action::Post(2),
    Action::Round(0),
    Action::Run(0),
    Action::Run(0),
];

/// One chat of the real stores, and what the model's processes hold there.
struct Real {
    history: History,
    clock: Clock,
    chat: ChatKey,
    runs: Vec<Option<Box<RealLease>>>,
    visit: Option<Box<RealLease>>,
}

#[tokio::test]
async fn the_history_does_what_the_model_does() {
    let dir = tempfile::tempdir().unwrap();
    let stores = Stores::open(dir.path()).await.unwrap();
    let budget = Budget { crashes: 4, repeats: 2, lapses: 3, expiries: 3, failures: 3, visits: 2, rounds: 4 };
    let (mut steps, mut taken_over, mut stopped, mut met, mut added) = (0, 0, 0, 0, 0);
    for walk in 0..WALKS {
        let said = match walk % 3 {
            0 => vec![Asks, Stop, Asks],
            1 => vec![Asks, Asks, Compact, Stop],
            _ => vec![Asks, Tells, Asks, Asks],
        };
        let protocol = Protocol { said, runs: 3, pieces: 2, budget, flaw: None };
        let mut real = Real::new(&stores, walk);
        let mut random = fastrand::Rng::with_seed(walk);
        let mut state = protocol.init_states().remove(0);
        for step in 0..STEPS {
            let mut actions = Vec::new();
            protocol.actions(&state, &mut actions);
            let first = ADDITION.get(step).filter(|action| walk % 6 == 5 && actions.contains(action));
            let Some(action) = first.or_else(|| random.choice(&actions)).copied() else { break };
            let after = protocol.apply(&state, action);
            let what = format!("walk {walk}, {action:?} of {state:#?}");
            real.act(&protocol, action, &state, &after, &what).await;
            real.compare(&protocol, &after, &what).await;
            let is_at = |step: fn(Step) -> bool| after.runs.iter().flatten().any(|run| step(run.step));
            steps += 1;
            taken_over += usize::from(is_at(|step| step == Step::LookWhoTookIt));
            met += usize::from(is_at(|step| step == Step::Recommit));
            added += usize::from(after.runs.iter().flatten().any(|run| run.added != 0));
            stopped += usize::from(is_at(|step| step == Step::Put(Kind::Stopped)));
            state = after;
        }
    }
    println!(
        "{WALKS} walks, {steps} steps, {taken_over} after a lost chat, {met} at another's reply, {stopped} stopping, {added} with additions"
    );
    assert!([taken_over, stopped, met, added].iter().all(|count| *count > 0), "too tame");
}

impl Real {
    fn new(stores: &Stores, walk: u64) -> Self {
        let retention =
            Retention { stale_after: None, archive_grace: Duration::from_hours(168), archive: true };
        let (dynamodb, bucket) = (stores.dynamodb.clone(), stores.bucket.clone());
        let clock = Clock::manual(now());
        let history = History::new(dynamodb, TABLE.into(), bucket, clock.clone(), retention);
        let chat = ChatKey::telegram(i64::try_from(walk).unwrap() + 1, None);
        Self { history, clock, chat, runs: vec![None, None, None], visit: None }
    }

    /// Does `action` between `state` and `after`, and checks that it finds what the model does.
    async fn act(&mut self, protocol: &Protocol, action: Action, state: &State, after: &State, what: &str) {
        match action {
            Action::Post(place) | Action::PostDropped(place) => {
                self.post(protocol, place.into(), state, after, what).await;
            }
            Action::Run(slot) => {
                let slot = usize::from(slot);
                let run = state.runs[slot].unwrap();
                self.run(protocol, slot, run, state, after.runs[slot], what).await;
            }
            Action::Round(slot) => {
                let slot = usize::from(slot);
                let (before, after) = (state.runs[slot].unwrap(), after.runs[slot].unwrap());
                let head = &self.runs[slot].as_ref().unwrap().head;
                let (records, now) = (self.records().await, self.clock.now());
                let seen = context(&records, now, &POLICY);
                let turn = OpenTurn::new(bases(before.turn.covers));
                let found = extended(head, &records, &seen, now, &turn).unwrap_or(turn);
                assert_eq!(places(&found.covers), after.turn.covers, "{what}");
            }
            Action::Crash(slot) => self.runs[usize::from(slot)] = None,
            Action::Expire => self.clock.advance(LEASE + Duration::from_secs(1)),
            Action::Visit => {
                let claim = self.history.claim_for_upkeep(&self.chat, LEASE).await.unwrap();
                let Claim::Claimed(lease) = claim else { panic!("{what}: {claim:?}") };
                self.visit = Some(lease);
            }
            Action::VisitEnds => {
                let lease = self.visit.take().unwrap();
                let ended = self.history.finish_upkeep(&lease, None, None, None).await;
                assert_eq!(is_lost(ended), state.visit != Some(true), "{what}");
            }
            Action::VisitCrash => self.visit = None,
            // Nothing that a store sees.
            Action::PostCrash(_)
            | Action::Repeat(_)
            | Action::Deliver(_)
            | Action::Lapse
            | Action::Fail(_)
            | Action::GiveUp(_)
            | Action::Notice(_) => {}
        }
    }

    async fn post(&self, protocol: &Protocol, place: usize, state: &State, after: &State, what: &str) {
        let said = protocol.said[place];
        match (state.posts[place], said) {
            (Post::Waiting, _) => {
                let draft = Draft { chat: self.chat.clone(), ..draft(place, said) };
                self.history.append(&draft).await.unwrap();
            }
            (Post::Appended, Stop) => {
                let (head, is_running) = self.history.head_and_run(&self.chat).await.unwrap();
                let records = self.records().await;
                let finds = has_something_to_end(&records, &base(place), &head, is_running, self.clock.now());
                assert_eq!(finds, after.posts[place] == Post::Decided, "{what}");
            }
            (Post::Decided, _) => {
                let is_running = state.head.lease == Lease::Run;
                self.history.stop(&self.chat, &base(place), is_running).await.unwrap();
            }
            _ => {}
        }
    }

    async fn run(
        &mut self,
        protocol: &Protocol,
        slot: usize,
        run: Run,
        state: &State,
        after: Option<Run>,
        what: &str,
    ) {
        let is_lost = after.is_some_and(|run| run.step == Step::LookWhoTookIt);
        if run.step == Step::Claim {
            let claim = match &self.runs[slot] {
                Some(lost) if run.is_last_claim => self.history.claim_after_stop(lost, LEASE).await.unwrap(),
                _ => self.history.claim(&self.chat, LEASE).await.unwrap(),
            };
            self.runs[slot] = match claim {
                Claim::Claimed(lease) => Some(lease),
                Claim::Busy(_) => None,
            };
            assert_eq!(self.runs[slot].is_some(), after.is_some(), "{what}");
            return;
        }
        let lease = self.runs[slot].clone().unwrap();
        match run.step {
            Step::Look => {
                let seen = self.history.context(&self.chat, &lease.head, None, &POLICY).await.unwrap();
                let found = next(&lease.head, &seen.records, &seen.context, self.clock.now());
                let wanted = decide(&protocol.said, state, run.turn_claimed, run.stop_claimed);
                assert_eq!(decision(&found), wanted, "{what}");
            }
            Step::Commit(_) | Step::Recommit => self.commit(&lease, run.turn, is_lost, what).await,
            Step::Note(sent) => self.commit(&lease, Turn { sent, ..run.turn }, is_lost, what).await,
            Step::Put(kind) => {
                let put = self.history.append_reply(&self.chat, reply(run.turn, kind)).await.unwrap();
                let is_stored = state.replies[run.turn.place()].is_none();
                assert_eq!(matches!(put, ReplyAppended::Stored(_)), is_stored, "{what}");
            }
            Step::Finish { has_stopped, .. } => {
                let ending = Ending { has_stopped, ..Ending::default() };
                let ended = self.history.finish(&lease, &ending).await;
                assert_eq!(self::is_lost(ended), is_lost, "{what}");
            }
            Step::Release { .. } => {
                let ended = self.history.release(&lease).await;
                assert_eq!(self::is_lost(ended), !run.is_newest, "{what}");
            }
            Step::LookWhoTookIt => {
                let head = self.history.head(&self.chat).await.unwrap();
                assert_eq!(head.stopped_to.is_some(), after.is_some(), "{what}");
            }
            Step::Claim | Step::Ask | Step::Send(_) => {}
        }
    }

    async fn commit(&self, lease: &RealLease, turn: Turn, is_lost: bool, what: &str) {
        let turn = OpenTurn { sent: turn.sent.into(), ..OpenTurn::new(bases(turn.covers)) };
        let committed = self.history.commit(lease, &turn).await;
        assert_eq!(self::is_lost(committed), is_lost, "{what}");
    }

    async fn records(&self) -> Vec<Record> {
        self.history.range(&self.chat, None).await.unwrap()
    }

    /// The stores hold what `state` says.
    async fn compare(&self, protocol: &Protocol, state: &State, what: &str) {
        let (head, is_running) = self.history.head_and_run(&self.chat).await.unwrap();
        let turn =
            |turn: &OpenTurn| Turn { covers: places(&turn.covers), sent: u8::try_from(turn.sent).unwrap() };
        let stopped_to = state.head.stopped_to.map(|place| base(place.into()));
        assert_eq!((head.turn.as_ref().map(turn), head.stopped_to), (state.head.turn, stopped_to), "{what}");
        assert_eq!(is_running, state.head.lease == Lease::Run, "{what}");
        let is_busy = self.history.busy_until(&self.chat).await.unwrap().is_some();
        assert_eq!(is_busy, matches!(state.head.lease, Lease::Run | Lease::Upkeep), "{what}");

        let records = self.records().await;
        let of_people = records.iter().filter(|record| record.role() == Role::User);
        let stored: Vec<_> = of_people.map(|record| record.key.clone()).collect();
        assert_eq!(stored, bases(state.stored), "{what}");
        for place in 0..protocol.said.len() {
            let found = records.iter().find(|record| record.key == base(place).reply());
            let found = found.map(|record| Reply { covers: places(record.covers()), kind: kind(record) });
            assert_eq!(found, state.replies[place], "{what}");
        }
    }
}

/// Returns whether a write was refused because the lease is lost.
fn is_lost(written: Result<(), HistoryError>) -> bool {
    match written {
        Err(HistoryError::LeaseLost) => true,
        written => {
            written.unwrap();
            false
        }
    }
}

fn kind(record: &Record) -> Kind {
    match (record.kind(), record.stopped_by()) {
        (_, Some(_)) => Kind::Stopped,
        (RecordKind::Normal, None) => Kind::Answer,
        (_, None) => Kind::Failure,
    }
}

fn reply(turn: Turn, kind: Kind) -> history::Reply {
    let mut message = UiMessage::text("", Role::Assistant, "hello");
    if kind == Kind::Stopped {
        message.metadata.set_stopped("stop");
    }
    history::Reply {
        is_notice: kind == Kind::Failure,
        channel: Channel::Telegram,
        chat_id: "42".into(),
        agent_id: "annals".into(),
        message,
        follows: base(turn.place()),
        follows_id: MessageId::number(turn.place() as u64 + 1),
        asked_at: None,
        covers: bases(turn.covers),
        revision: 0,
        covered_until: Vec::new(),
        trace: None,
        counts: Vec::new(),
    }
}
