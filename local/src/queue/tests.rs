use annals_core::message::{Part, Role};
use annals_core::record::{Channel, Draft, Kind};
use annals_core::settings::Env;
use annals_core::sort_key::MessageId;
use annals_engine::delivery::Deliverer;
use annals_engine::live::Live;
use annals_engine::settings::ViewConfig;
use annals_io::metrics::Metrics;
use annals_model::Model;
use annals_store::history::History;
use annals_store::settings::retention;

use super::*;
use crate::stores::{BUCKET, Stores, TABLE};

fn chat(id: i64) -> ChatKey {
    ChatKey::telegram(id, None)
}

fn key(number: u64) -> SortKey {
    SortKey::message(Timestamp::from_secs(1_763_765_920), &MessageId::number(number))
}

async fn enqueue(queue: &LocalQueue, chat_id: i64, number: u64) {
    queue.enqueue(&Turn { chat: chat(chat_id), from: key(number), at: None }).await.unwrap();
}

/// Returns the numbers and messages of the pending turns of a chat, in order.
fn waiting(queue: &LocalQueue, chat_id: i64) -> Vec<(u64, SortKey)> {
    let state = queue.state();
    let entries = state.waiting.get(&chat(chat_id)).into_iter().flatten();
    entries.map(|entry| (entry.number, entry.turn.from.clone())).collect()
}

#[tokio::test]
async fn pending_turns_survive_a_restart_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let client = Stores::open(dir.path()).await.unwrap().dynamodb;
    let (queue, _) = LocalQueue::open(client.clone(), Clock::system()).await.unwrap();
    // More than nine, and not in the order of the messages: a later turn may be of an older message.
    for number in (1..=12).rev() {
        enqueue(&queue, 1, number).await;
    }
    enqueue(&queue, 2, 50).await;
    enqueue(&queue, 1, 13).await;
    let (first, second) = (waiting(&queue, 1), waiting(&queue, 2));
    assert_eq!((first.len(), second.len()), (13, 1));

    let (again, Ready(mut ready)) = LocalQueue::open(client.clone(), Clock::system()).await.unwrap();
    assert_eq!((waiting(&again, 1), waiting(&again, 2)), (first.clone(), second));
    let announced = [ready.try_recv().unwrap(), ready.try_recv().unwrap()];
    assert_eq!(announced, [chat(1), chat(2)], "each once, the one that has waited longest first");
    assert!(ready.try_recv().is_err());

    // New turns follow, and replace none.
    enqueue(&again, 1, 99).await;
    assert_eq!(waiting(&again, 1).last(), Some(&(14, key(99))));
    let (again, _) = LocalQueue::open(client, Clock::system()).await.unwrap();
    assert_eq!(waiting(&again, 1)[..13], first);
    assert_eq!(waiting(&again, 1).len(), 14);
}

#[tokio::test]
async fn finished_turns_are_deleted_and_newer_ones_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let client = Stores::open(dir.path()).await.unwrap().dynamodb;
    let (queue, _) = LocalQueue::open(client.clone(), Clock::system()).await.unwrap();
    for number in 1..=3 {
        enqueue(&queue, 1, number).await;
    }
    let batch: Vec<Entry> = queue.state().waiting[&chat(1)].iter().cloned().collect();
    enqueue(&queue, 1, 4).await;
    enqueue(&queue, 2, 5).await;
    queue.done(&chat(1), &batch).await;
    let (again, _) = LocalQueue::open(client, Clock::system()).await.unwrap();
    for queue in [&queue, &again] {
        assert_eq!(waiting(queue, 1), [(3, key(4))]);
        assert_eq!(waiting(queue, 2), [(4, key(5))]);
    }
}

/// The next process answers the turns of an earlier one, and deletes them.
#[tokio::test]
async fn turns_of_an_earlier_process_are_answered() {
    let dir = tempfile::tempdir().unwrap();
    let stores = Stores::open(dir.path()).await.unwrap();
    let clock = Clock::manual(Timestamp::from_secs(1_763_766_000));
    let env = Env::new(&|_| None);
    let history = History::new(
        stores.dynamodb.clone(),
        TABLE.into(),
        stores.s3,
        BUCKET.into(),
        clock.clone(),
        retention(env).unwrap(),
    );
    let (queue, _) = LocalQueue::open(stores.dynamodb.clone(), clock.clone()).await.unwrap();
    for (chat_id, number) in [(1, 1), (2, 2), (1, 3)] {
        let draft = Draft {
            chat: chat(chat_id),
            channel: Channel::Telegram,
            chat_id: chat_id.to_string(),
            user_id: chat_id.to_string(),
            message_id: MessageId::number(number),
            ts: key(number).ts(),
            form_ts: None,
            role: Role::User,
            kind: Kind::Normal,
            parts: vec![Part::text(format!("message {number}"))],
            metadata: serde_json::Map::new(),
            album: None,
            asks: true,
            opens_session: false,
            person: None,
        };
        let base = history.append(&draft).await.unwrap().base;
        queue.enqueue(&Turn { chat: chat(chat_id), from: base, at: None }).await.unwrap();
    }
    drop(queue);

    let (queue, ready) = LocalQueue::open(stores.dynamodb.clone(), clock.clone()).await.unwrap();
    let agent = Agent {
        history: history.clone(),
        model: Model::Echo,
        deliverer: Deliverer::default(),
        surroundings: Vec::new(),
        servers: None,
        memory: annals_engine::settings::MemoryConfig::default(),
        view: ViewConfig::from_env(env).unwrap(),
        system_prompt: None,
        agent_id: "annals".into(),
        metrics: Metrics::default(),
        live: Live::default(),
        stream_replies: false,
        lease: Duration::from_mins(5),
        quiet: Duration::ZERO,
        clock: clock.clone(),
    };
    let running = tokio::spawn(queue.clone().run(agent, ready));
    let emptied = async {
        while !queue.pending().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), emptied).await.unwrap();
    running.abort();
    for (chat_id, texts) in
        [(1, vec!["message 1", "message 3", "message 1\nmessage 3"]), (2, vec!["message 2", "message 2"])]
    {
        let records = history.range(&chat(chat_id), None).await.unwrap();
        let said: Vec<String> = records.iter().map(|record| record.message.plain_text()).collect();
        assert_eq!(said, texts);
    }
    let (queue, _) = LocalQueue::open(stores.dynamodb, Clock::system()).await.unwrap();
    assert_eq!(queue.pending(), []);
}
