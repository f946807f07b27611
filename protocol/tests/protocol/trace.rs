//! Each request of a real run is a step of the model: from its claim to its end, if it dies before
//! any of them, and in the run after that.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use Said::{Asks, Compact, Stop, Tells};
use annals_agent::{Agent, LEASE};
use annals_channel::delivery::{DeliveryError, Outbox, OutboxEntry};
use annals_core::chat_key::ChatKey;
use annals_core::draft::Draft;
use annals_core::settings::Env;
use annals_engine::delivery::Deliverer;
use annals_engine::settings::AgentConfig;
use annals_io::clock::Clock;
use annals_local::stores::{Stores, TABLE};
use annals_model::Model as Answers;
use annals_protocol::model::{Action, Protocol};
use annals_protocol::records::{base, draft, now, places};
use annals_protocol::state::{Budget, Entry, Kind, Post, Said, State, Step};
use annals_store::history::{History, Retention};
use aws_sdk_dynamodb::config::interceptors::BeforeSerializationInterceptorContextMut;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::operation::put_item::PutItemInput;
use aws_sdk_dynamodb::operation::update_item::UpdateItemInput;
use futures::future::BoxFuture;
use stateright::Model;

/// A step of a run that leaves a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
    Claim,
    Commit,
    Put,
    Send,
    Finish,
    Release,
}

impl Seen {
    fn is(self, step: Step) -> bool {
        match self {
            Self::Claim => step == Step::Claim,
            Self::Commit => matches!(step, Step::Commit(_) | Step::Recommit),
            Self::Put => matches!(step, Step::Put(_)),
            Self::Send => matches!(step, Step::Send(_)),
            Self::Finish => matches!(step, Step::Finish { .. }),
            Self::Release => matches!(step, Step::Release { .. }),
        }
    }
}

/// Takes down what a process does, until it dies before one of these.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<(Vec<Seen>, Option<usize>)>>);

impl Log {
    fn dying_before(seen: Option<usize>) -> Self {
        Self(Arc::new(Mutex::new((Vec::new(), seen))))
    }

    fn note(&self, seen: Option<Seen>) -> Result<(), &'static str> {
        let mut log = self.0.lock().unwrap();
        let (all, dies) = &mut *log;
        let is_over = dies.is_some_and(|dies| all.len() >= dies);
        match seen {
            Some(_) if is_over => {
                // And nothing after it is done either.
                *dies = Some(0);
                Err("the process is dead")
            }
            _ if *dies == Some(0) => Err("the process is dead"),
            seen => {
                all.extend(seen);
                Ok(())
            }
        }
    }

    fn seen(&self) -> Vec<Seen> {
        self.0.lock().unwrap().0.clone()
    }
}

impl Intercept for Log {
    fn name(&self) -> &'static str {
        "Log"
    }

    fn modify_before_serialization(
        &self,
        context: &mut BeforeSerializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let seen = if let Some(update) = context.input().downcast_ref::<UpdateItemInput>() {
            match update.update_expression().unwrap_or_default() {
                expression if expression.starts_with("SET fence") => Some(Seen::Claim),
                expression if expression.contains("turn = :turn") => Some(Seen::Commit),
                expression if expression.contains("REMOVE leaseUntil, turn") => Some(Seen::Finish),
                expression if expression.contains("REMOVE leaseUntil") => Some(Seen::Release),
                _ => None,
            }
        } else {
            let put = context.input().downcast_ref::<PutItemInput>().and_then(PutItemInput::item);
            let key = put.and_then(|item| item.get("sk")?.as_s().ok());
            key.filter(|key| key.ends_with("#4reply")).map(|_| Seen::Put)
        };
        Ok(self.note(seen)?)
    }
}

impl Outbox for Log {
    fn post<'a>(&'a self, _: &'a str, _: OutboxEntry) -> BoxFuture<'a, Result<(), DeliveryError>> {
        let noted = self.note(Some(Seen::Send));
        Box::pin(async move { noted.map_err(|reason| DeliveryError::Unavailable { reason: reason.into() }) })
    }
}

/// A chat of the real stores, and the model of it.
struct Bench<'a> {
    stores: &'a Stores,
    clock: Clock,
    chat: ChatKey,
    protocol: Protocol,
    state: State,
}

impl<'a> Bench<'a> {
    fn new(stores: &'a Stores, number: i64, said: &[Said]) -> Self {
        let budget = Budget { crashes: 2, ..Budget::default() };
        let protocol = Protocol { said: said.to_vec(), runs: 1, pieces: 1, budget, flaw: None };
        let state = protocol.init_states().remove(0);
        Self { stores, clock: Clock::manual(now()), chat: ChatKey::telegram(number, None), protocol, state }
    }

    fn history(&self, log: &Log) -> History {
        let config = self.stores.dynamodb.config().to_builder();
        let config = config.retry_config(RetryConfig::disabled()).interceptor(log.clone()).build();
        let (dynamodb, bucket) = (aws_sdk_dynamodb::Client::from_conf(config), self.stores.bucket.clone());
        let retention =
            Retention { stale_after: None, archive_grace: Duration::from_hours(168), archive: true };
        History::new(dynamodb, TABLE.into(), bucket, self.clock.clone(), retention)
    }

    fn agent(&self, log: &Log) -> Agent {
        let config = AgentConfig::from_env(Env::new(&|_| None), Some("echo")).unwrap();
        let deliverer = Deliverer::new([], Some(Arc::new(log.clone())));
        Agent { deliverer, ..Agent::new(self.history(log), Answers::Echo, &config) }
    }

    /// Receives the message at `place`, until nothing is left to do for it.
    async fn post(&mut self, place: usize) {
        let history = self.history(&Log::default());
        let said = self.protocol.said[place];
        history.append(&Draft { chat: self.chat.clone(), ..draft(place, said) }).await.unwrap();
        while self.state.posts[place] != Post::Done {
            if self.state.posts[place] == Post::Decided {
                let (_, is_running) = history.head_and_run(&self.chat).await.unwrap();
                history.stop(&self.chat, &base(place), is_running).await.unwrap();
            }
            self.apply(Action::Post(u8::try_from(place).unwrap()));
        }
    }

    fn apply(&mut self, action: Action) {
        let mut allowed = Vec::new();
        self.protocol.actions(&self.state, &mut allowed);
        assert!(allowed.contains(&action), "{action:?} of {:#?}", self.state);
        self.state = self.protocol.apply(&self.state, action);
    }

    /// A run of the queue's first turn, that dies before the step of this number; returns the steps that it was seen to take.
    async fn run(&mut self, dies: Option<usize>) -> Vec<Seen> {
        let log = Log::dying_before(dies);
        let Some(Entry { from, .. }) = self.state.queue.first().copied() else {
            return Vec::new();
        };
        self.apply(Action::Deliver(0));
        let ended = self.agent(&log).run(&self.chat, &[base(from.into())]).await;
        let seen = log.seen();
        for next in &seen {
            self.walk_to_what_is_seen();
            let step = self.state.runs[0].unwrap_or_else(|| panic!("{next:?} after its end: {seen:?}")).step;
            assert!(next.is(step), "{next:?} where the model has {step:?}: {seen:?}");
            self.apply(Action::Run(0));
        }
        if ended.is_ok() {
            self.walk_to_what_is_seen();
            assert_eq!(self.state.runs[0], None, "{seen:?}");
        } else {
            assert!(dies.is_some(), "{ended:?}: {seen:?}");
            self.apply(Action::Crash(0));
            self.clock.advance(LEASE + Duration::from_secs(1));
            let mut allowed = Vec::new();
            self.protocol.actions(&self.state, &mut allowed);
            if allowed.contains(&Action::Expire) {
                self.apply(Action::Expire);
            }
        }
        seen
    }

    /// Does the steps that leave no trace.
    fn walk_to_what_is_seen(&mut self) {
        while let Some(run) = self.state.runs[0]
            && matches!(run.step, Step::Look | Step::Ask | Step::LookWhoTookIt)
        {
            self.apply(Action::Run(0));
        }
    }

    /// The stores hold what the model says, and nothing waits.
    async fn check(&self, what: &str) {
        let history = self.history(&Log::default());
        let head = history.head(&self.chat).await.unwrap();
        assert_eq!((head.turn, head.stopped_to), (None, None), "{what}");
        assert_eq!((self.state.head.turn, self.state.head.stopped_to), (None, None), "{what}");
        let records = history.range(&self.chat, None).await.unwrap();
        for (place, reply) in self.state.replies.iter().enumerate() {
            let found = records.iter().find(|record| record.key == base(place).reply());
            let is_stop = found.is_some_and(|record| record.stopped_by().is_some());
            assert_eq!(
                found.map(|record| places(record.covers())),
                reply.map(|reply| reply.covers),
                "{what}"
            );
            assert_eq!(is_stop, reply.is_some_and(|reply| reply.kind == Kind::Stopped), "{what}");
        }
    }
}

#[tokio::test]
async fn each_request_of_a_real_run_is_a_step_of_the_model() {
    let dir = tempfile::tempdir().unwrap();
    let stores = Stores::open(dir.path()).await.unwrap();
    let mut kinds = BTreeSet::new();
    let mut chats = 0;
    // The last is said when the first run is over, or dead.
    for said in [&[Asks, Asks][..], &[Asks, Tells, Asks], &[Compact, Asks], &[Asks, Compact], &[Asks, Stop]] {
        let mut dies = 0;
        loop {
            chats += 1;
            let mut bench = Bench::new(&stores, chats, said);
            for place in 0..said.len() - 1 {
                bench.post(place).await;
            }
            let first = bench.run(Some(dies)).await;
            bench.post(said.len() - 1).await;
            let is_whole = first.len() < dies;
            let mut seen = vec![first];
            while !bench.state.queue.is_empty() {
                seen.push(bench.run(None).await);
            }
            let what = format!("{said:?}, dead before step {dies}: {seen:?}");
            bench.check(&what).await;
            kinds.extend(seen.concat());
            if is_whole {
                break;
            }
            dies += 1;
        }
    }
    println!("{chats} chats");
    let all = [Seen::Claim, Seen::Commit, Seen::Put, Seen::Send, Seen::Finish, Seen::Release];
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), all);
}
