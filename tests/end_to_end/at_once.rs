//! Two compactions of one chat at once end as one: both use the plan that one of them has stored.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};

use annals_core::chat_key::ChatKey;
use annals_core::compaction::cut::Why;
use annals_core::record::{Kind, Record};
use annals_engine::compaction::{Compacted, Compaction};
use annals_io::metrics::Metrics;
use annals_model::Model;
use annals_store::history::History;
use annals_store::history::turn::Lease;
use annals_test_support::model_api::{ModelApi, is_for_notes};

use crate::app::wait_until;
use crate::faults::{Faults, Plan};
use crate::world::{World, chat, claim, echo_upkeep, hosted, message, records_of};

/// A chat whose lease has a plan that is not carried out, and a model that summarises it as A, then as B.
struct Two {
    world: World,
    model: ModelApi,
    asked: Model,
    chat: ChatKey,
    lease: Lease,
    records: Vec<Record>,
}

impl Two {
    async fn new() -> Self {
        let model = ModelApi::start().await;
        let summaries = AtomicUsize::new(0);
        model.answer_by(move |body| {
            let letter = || if summaries.fetch_add(1, Ordering::SeqCst) == 0 { "A" } else { "B" };
            is_for_notes(body).then(|| format!("Goal: {}", letter()))
        });
        let (world, chat) = (World::new().await, chat(0));
        let asked = hosted(&model, &world.clock);
        let history = world.history();
        for id in 1..=8 {
            let ts = i64::try_from(id).unwrap() * 1000;
            let text = format!("message {id}: {}", "lorem ipsum ".repeat(5));
            history.append(&message(&chat, id, ts, &text)).await.unwrap();
        }
        let records = history.range(&chat, None).await.unwrap();
        let lease = claim(&history, &chat).await;
        history.plan_summary(&lease, &records[5].key).await.unwrap();
        let mut planned = lease.clone();
        planned.head = history.head(&chat).await.unwrap();
        assert_eq!(planned.head.compacting.as_ref(), Some(&records[5].key));
        Self { world, model, asked, chat, lease: planned, records }
    }

    /// A run of a process whose stores meet `faults`.
    fn start(&self, faults: Faults) -> tokio::task::JoinHandle<Compacted> {
        let history = self.world.history_with(faults, true);
        let view = echo_upkeep(&history).view;
        let compaction = Compaction {
            history,
            model: self.asked.clone(),
            view,
            agent_id: "annals".to_owned(),
            metrics: Metrics::default(),
        };
        let (lease, records) = (self.lease.clone(), self.records.clone());
        tokio::spawn(async move {
            compaction.run(&lease, &records, Why::Asked, None).await.unwrap().expect("there is a plan")
        })
    }

    async fn asked(&self, times: usize) {
        wait_until("a summary is asked for", async || self.model.requests_for_notes().len() == times).await;
    }

    /// There is one summary, which both have, and no record is in two segments.
    async fn check(&self, both: [&Compacted; 2]) -> String {
        let history: History = self.world.history();
        let stored = history.range(&self.chat, None).await.unwrap();
        let summaries: Vec<&Record> = stored.iter().filter(|record| record.kind() == Kind::Summary).collect();
        let [summary] = summaries[..] else { panic!("{summaries:#?}") };
        for compacted in both {
            assert_eq!(compacted.summary, *summary);
        }
        let source = summary.source().unwrap();
        assert_eq!((&source.to, source.count), (&self.records[5].key, 6));
        let mut archived = Vec::new();
        for info in history.segments(&self.chat).await.unwrap() {
            archived.extend(records_of(&history, &info).await.into_iter().map(|record| record.key));
        }
        assert_eq!(archived, self.records[..6].iter().map(|r| r.key.clone()).collect::<Vec<_>>());
        let head = history.head(&self.chat).await.unwrap();
        assert_eq!((head.compacting, head.archive.and_then(|archive| archive.storing)), (None, None));
        assert_eq!(self.model.requests_for_notes().len(), 2, "each has asked");
        summary.message.plain_text()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn two_compactions_at_once_end_as_one_summary() {
    // Either of the two stalls after its answer.
    for (first_stands_still, expected) in [(false, "Goal: A"), (true, "Goal: B")] {
        let two = Two::new().await;
        let ((stalled, has_stalled), (go, goes)) = (mpsc::channel(), mpsc::channel());
        let mut slow = Some(Faults::new(Plan::Stall(1, Mutex::new((stalled, goes)))));
        two.model.hang();
        let first = two.start(slow.take_if(|_| first_stands_still).unwrap_or_default());
        two.asked(1).await;
        let second = two.start(slow.take().unwrap_or_default());
        two.asked(2).await;
        two.model.resume();
        tokio::task::block_in_place(|| has_stalled.recv().unwrap());
        let (ahead, behind) = if first_stands_still { (second, first) } else { (first, second) };
        let ahead = ahead.await.unwrap();
        go.send(()).unwrap();
        let behind = behind.await.unwrap();
        assert_eq!(two.check([&ahead, &behind]).await, expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn two_compactions_that_do_not_wait_end_as_one_summary() {
    for _ in 0..10 {
        let two = Two::new().await;
        let (first, second) = tokio::join!(two.start(Faults::default()), two.start(Faults::default()));
        two.check([&first.unwrap(), &second.unwrap()]).await;
    }
}
