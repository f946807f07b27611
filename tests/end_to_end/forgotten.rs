//! Deletion of a chat during a run, a visit of the compactor and a webhook, and the chat's life after it.

use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use annals_compactor::Compactor;
use annals_core::chat_key::ChatKey;
use annals_core::command::Command;
use annals_core::record::Draft;
use annals_core::sort_key::Timestamp;
use annals_engine::forgetting::{ForgetError, Forgotten, forget};
use annals_engine::ingress::Ingress;
use annals_local::stores::{BUCKET, TABLE};
use annals_local::upkeep::sweep;
use annals_store::history::turn::{Claim, HOLDER_ENDS_WITHIN};
use annals_store::history::{History, HistoryError, MAX_PAGE, Outcome, Position};
use reqwest::{Method, StatusCode};

use crate::app::{Answer, OPS_KEY, TestApp, passing, wait_until};
use crate::faults::{Faults, Plan};
use crate::lifecycle::assert_each_is_archived_once;
use crate::solo::{NoQueue, Solo};
use crate::updates::private;
use crate::world::{LEASE, START, World, archive_everything, chat, claim, echo_upkeep, message};

/// Deletes the chat as time passes.
async fn forget_now(world: &World, history: &History, chat: &ChatKey) -> Result<Forgotten, ForgetError> {
    let deleting = Box::pin(forget(history, chat, Timestamp::MAX));
    passing(&world.clock, Duration::from_millis(100), deleting).await
}

/// All items of the table and keys of the bucket that mention the chat, but for its emptied head.
async fn left(world: &World, chat: &ChatKey) -> Vec<String> {
    let items =
        world.stores.dynamodb.scan().table_name(TABLE).send().await.unwrap().items.unwrap_or_default();
    let items = items.iter().filter(|item| {
        let is_head = item["sk"].as_s().is_ok_and(|sk| sk == "!head");
        assert!(!is_head || item.keys().all(|key| KEPT_OF_A_HEAD.contains(&key.as_str())), "{item:?}");
        !is_head
    });
    let objects = world.stores.s3.list_objects_v2().bucket(BUCKET).send().await.unwrap().contents;
    let all = items
        .map(|item| format!("{item:?}"))
        .chain(objects.unwrap_or_default().into_iter().filter_map(|object| object.key));
    let names = [chat.to_string(), chat.session_id().to_string(), "telegram-42".to_owned()];
    // The number of a memory entry is not given again: an item without a text.
    let is_number = |item: &String| item.contains("deletedAt") && !item.contains("markdown");
    all.filter(|item| names.iter().any(|name| item.contains(name.as_str())) && !is_number(item)).collect()
}

const KEPT_OF_A_HEAD: [&str; 7] = ["pk", "sk", "fence", "forgottenAt", "dueShard", "dueAt", "dueSince"];

/// A session that has ended, so that a visit archives it and captures memory of it.
async fn ended_session(settings: &[(&str, &str)]) -> Solo {
    let solo = Solo::new(settings).await;
    for minute in 0..3 {
        let asked = solo.hear(minute, "I like tea, please remember that", true).await;
        solo.run(&asked).await;
    }
    solo.advance(60 * 3600);
    solo
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_at_any_moment_of_a_visit_leaves_nothing() {
    let requests = {
        let (solo, faults) = (ended_session(&[]).await, Faults::default());
        let upkeep = echo_upkeep(&solo.world.history_with(faults.clone(), true));
        upkeep.visit(&solo.chat).await.unwrap();
        faults.requests()
    };
    assert!(requests > 8, "{requests}");
    for at in 1..=requests {
        let solo = ended_session(&[]).await;
        let ((is_reached, reached), (go_on, goes_on)) = (mpsc::channel(), mpsc::channel());
        let faults = Faults::new(Plan::Stall(at, Mutex::new((is_reached, goes_on))));
        let upkeep = echo_upkeep(&solo.world.history_with(faults, true));
        let chat = solo.chat.clone();
        let visit = tokio::spawn(async move { upkeep.visit(&chat).await.map(drop) });
        tokio::task::block_in_place(|| reached.recv()).unwrap();
        let (history, chat) = (solo.history(), solo.chat.clone());
        let deletion = tokio::spawn(async move { forget(&history, &chat, Timestamp::MAX).await });
        let is_claimed = async || {
            let item = solo.world.stores.dynamodb.get_item().table_name(TABLE);
            let item = item.key("pk", attribute(&solo.chat.to_string())).key("sk", attribute("!head"));
            deletion.is_finished()
                || item.send().await.unwrap().item.is_some_and(|head| head.contains_key("forgetting"))
        };
        wait_until("the deletion has the chat", is_claimed).await;
        go_on.send(()).unwrap();
        let visited = passing(&solo.world.clock, Duration::from_millis(100), visit).await.unwrap();
        passing(&solo.world.clock, Duration::from_millis(100), deletion).await.unwrap().unwrap();
        assert_eq!(left(&solo.world, &solo.chat).await, [""; 0], "at request {at}: {visited:?}");
        assert_eq!(solo.history().segments(&solo.chat).await.unwrap(), []);
    }
}

/// The model takes its time over what is worth remembering, or over an answer; the deletion does not wait for that.
#[tokio::test]
async fn a_deletion_does_not_wait_for_a_model_and_nothing_of_its_answer_is_stored() {
    let solo = ended_session(&[]).await;
    solo.model.hang_notes();
    let (upkeep, chat) = (solo.upkeep(), solo.chat.clone());
    let visit = tokio::spawn(async move { upkeep.visit(&chat).await.map(drop) });
    solo.model.wait_for_notes(1).await;
    let before = solo.world.clock.now();
    let history = solo.history();
    let forgotten = forget_now(&solo.world, &history, &solo.chat).await.unwrap();
    assert_eq!(forgotten.records, 6);
    let took = solo.world.clock.now().since(before);
    assert!(took >= HOLDER_ENDS_WITHIN && took < 3 * HOLDER_ENDS_WITHIN, "{took:?}");
    solo.model.resume();
    assert!(visit.await.unwrap().is_err(), "somebody else has the chat");
    assert_eq!(left(&solo.world, &solo.chat).await, [""; 0]);

    let solo = Solo::new(&[]).await;
    let asked = solo.hear(0, "hello", true).await;
    solo.model.hang_answers();
    let run = solo.start(solo.agent(Faults::default()), &asked);
    solo.model.wait_for(1).await;
    forget_now(&solo.world, &solo.history(), &solo.chat).await.unwrap();
    solo.model.resume();
    assert!(run.await.unwrap().is_err(), "it has lost the chat");
    assert_eq!(left(&solo.world, &solo.chat).await, [""; 0]);
}

/// A chat that is never answered: a channel, or a group that does not mention the bot.
#[tokio::test]
async fn a_chat_that_is_never_answered_keeps_its_archive_after_a_deletion() {
    let world = World::new().await;
    let (history, chat) = (world.history(), chat(0));
    let compactor = Compactor::new(history.clone(), echo_upkeep(&history));
    let say = async |id: u64| {
        let ms = world.clock.now().as_millis() - START;
        history.append(&message(&chat, id, ms, &format!("message {id}"))).await.unwrap();
    };
    say(1).await;
    forget_now(&world, &history, &chat).await.unwrap();
    for id in 2..60_u64 {
        say(id).await;
        world.clock.advance(Duration::from_hours(12));
        compactor.run(world.clock.now().plus(Duration::from_hours(1))).await;
        sweep(&world.stores.dynamodb, TABLE, world.clock.now()).await.unwrap();
    }
    let head = history.head(&chat).await.unwrap();
    assert!(head.archive.is_some() && head.forgotten_at.is_none(), "{head:?}");
    let listed = history.page(&chat, &Position::Oldest, MAX_PAGE).await.unwrap().records;
    let said = listed.iter().filter(|record| record.is_interaction());
    let ids: Vec<u64> = said.map(|record| record.message_id.as_str().parse().unwrap()).collect();
    assert_eq!(ids, (2..60).collect::<Vec<_>>());
    assert!(history.range(&chat, None).await.unwrap().len() < 30, "most of it has left the table");
    assert_each_is_archived_once(&history, &chat).await;
}

/// A warm process believes that the chat is registered, and a visit that a deletion has overtaken tells the index what it
/// wanted to.
#[tokio::test]
async fn messages_after_a_deletion_are_visited_in_every_process() {
    let world = World::new().await;
    let (warm, other) = (world.history(), world.history());
    let chat = chat(0);
    warm.append(&message(&chat, 1, 0, "hello")).await.unwrap();
    world.clock.advance(Duration::from_hours(12));
    let entries = vec![annals_store::history::due::Entry { key: "!head".into(), due_at: 0 }];
    forget_now(&world, &other, &chat).await.unwrap();
    let now = world.clock.now();
    // Whatever the visit says that lost the chat.
    other.put_off(&chat, &entries, now.plus(Duration::from_mins(1))).await.unwrap();
    other.settle(&chat, &entries, None, None).await.unwrap();
    let late = message(&chat, 2, now.as_millis() - START, "after it");
    warm.append(&late).await.unwrap();
    let compactor = Compactor::new(other.clone(), echo_upkeep(&other));
    for _ in 0..80 {
        world.clock.advance(Duration::from_hours(3));
        compactor.run(world.clock.now().plus(Duration::from_hours(1))).await;
        sweep(&world.stores.dynamodb, TABLE, world.clock.now()).await.unwrap();
    }
    assert_eq!(other.range(&chat, None).await.unwrap(), [], "it has left the table");
    let listed = other.page(&chat, &Position::Oldest, MAX_PAGE).await.unwrap().records;
    assert_eq!(listed.iter().map(|record| record.key.clone()).collect::<Vec<_>>(), [late.key()]);
}

#[tokio::test]
async fn a_forgotten_chat_that_is_not_used_again_leaves_no_head() {
    let world = World::new().await;
    let (history, chat) = (world.history(), chat(0));
    history.append(&message(&chat, 1, 0, "hello")).await.unwrap();
    forget_now(&world, &history, &chat).await.unwrap();
    let compactor = Compactor::new(history.clone(), echo_upkeep(&history));
    for _ in 0..20 {
        world.clock.advance(Duration::from_hours(3));
        compactor.run(world.clock.now().plus(Duration::from_hours(1))).await;
    }
    let items =
        world.stores.dynamodb.scan().table_name(TABLE).send().await.unwrap().items.unwrap_or_default();
    assert!(items.is_empty(), "{items:?}");
}

#[tokio::test]
async fn a_deletion_goes_on_where_the_one_before_ended() {
    let world = World::new().await;
    let (history, chat) = (world.history(), chat(0));
    for id in 1..=1200_u64 {
        history.append(&message(&chat, id, id.cast_signed(), "hello")).await.unwrap();
    }
    archive_everything(&history, &chat).await;
    for id in 1201..=1700_u64 {
        history.append(&message(&chat, id, id.cast_signed(), "hello")).await.unwrap();
    }
    let (mut records, mut segments, mut tries) = (0, 0, 0);
    loop {
        tries += 1;
        // Its time is over after the first page.
        let deadline = world.clock.now().minus(Duration::from_secs(1));
        match forget(&history, &chat, deadline).await {
            Ok(_) => break,
            Err(ForgetError::Unfinished { forgotten }) => {
                records += forgotten.records;
                segments += forgotten.segments;
            }
            Err(error) => panic!("{error}"),
        }
        assert!(tries < 20, "it does not come to an end");
    }
    assert_eq!((records, segments), (1700, 2));
    assert!(tries >= 4, "{tries}");
    assert_eq!(left(&world, &chat).await, [""; 0]);

    // It holds the chat for as long as it takes, and nobody else gets it meanwhile.
    history.append(&message(&chat, 1, 0, "hello")).await.unwrap();
    let Claim::Claimed(lease) = history.claim_to_forget(&chat, LEASE).await.unwrap() else {
        panic!("it is free")
    };
    for _ in 0..5 {
        world.clock.advance(LEASE / 2);
        history.renew(&lease, LEASE).await.unwrap();
        assert!(matches!(history.claim(&chat, LEASE).await.unwrap(), Claim::Busy(_)));
        assert!(matches!(history.claim_to_forget(&chat, LEASE).await.unwrap(), Claim::Busy(_)));
    }
    world.clock.advance(LEASE + Duration::from_secs(1));
    assert!(matches!(history.claim(&chat, LEASE).await.unwrap(), Claim::Claimed(_)));
    let renewed = history.renew(&lease, LEASE).await;
    assert!(matches!(renewed, Err(HistoryError::LeaseLost)), "its claim is another's now: {renewed:?}");
}

/// Nobody asks again for a deletion that broke off, and what it deleted was the chat's only entry in the index of due chats.
#[tokio::test]
async fn messages_after_an_interrupted_deletion_are_visited() {
    let world = World::new().await;
    let (warm, other) = (world.history(), world.history());
    let chat = chat(0);
    warm.append(&message(&chat, 1, 0, "hello")).await.unwrap();
    let Claim::Claimed(_) = other.claim_to_forget(&chat, LEASE).await.unwrap() else { panic!("it is free") };
    let page = other.to_erase(&chat).await.unwrap().unwrap();
    other.erase_items(page).await.unwrap();
    // It dies here.
    warm.append(&message(&chat, 2, 1000, "after it")).await.unwrap();
    let compactor = Compactor::new(other.clone(), echo_upkeep(&other));
    for _ in 0..80 {
        world.clock.advance(Duration::from_hours(3));
        compactor.run(world.clock.now().plus(Duration::from_hours(1))).await;
        sweep(&world.stores.dynamodb, TABLE, world.clock.now()).await.unwrap();
    }
    assert_eq!(other.range(&chat, None).await.unwrap(), [], "it has left the table");
    assert_eq!(other.page(&chat, &Position::Oldest, MAX_PAGE).await.unwrap().records.len(), 1);
}

#[tokio::test]
async fn a_stop_does_not_take_a_chat_from_its_deletion() {
    let world = World::new().await;
    let (history, chat) = (world.history(), chat(0));
    let asked = Draft { asks: true, ..message(&chat, 1, 0, "hello") };
    history.append(&asked).await.unwrap();
    let held = claim(&history, &chat).await;
    let Claim::Claimed(lease) = history.claim_to_forget(&chat, LEASE).await.unwrap() else {
        panic!("it is taken")
    };
    assert!(lease.head.taken_at.is_some(), "somebody lost it");
    history.stop(&chat, &asked.key()).await.unwrap();
    assert!(history.renew(&lease, LEASE).await.is_ok());
    assert!(matches!(history.release(&held).await, Err(HistoryError::LeaseLost)));
}

/// A webhook is under way while its chat is forgotten: an edit is then a message of its own, after the deletion.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_of_a_message_that_is_forgotten_meanwhile_is_no_revision_of_nothing() {
    let world = World::new().await;
    let chat = chat(0);
    world.history().append(&message(&chat, 1, 0, "hello")).await.unwrap();
    let ((is_reached, reached), (go_on, goes_on)) = (mpsc::channel(), mpsc::channel());
    // The put of a first form was refused; this is the transaction that stores the edit.
    let history = world.history_with(Faults::new(Plan::Stall(2, Mutex::new((is_reached, goes_on)))), true);
    let edit = message(&chat, 1, 0, "edited");
    let edited = tokio::spawn(async move { history.append(&edit).await });
    tokio::task::block_in_place(|| reached.recv()).unwrap();
    forget_now(&world, &world.history(), &chat).await.unwrap();
    go_on.send(()).unwrap();
    assert_eq!(edited.await.unwrap().unwrap().outcome, Outcome::Stored);
    let records = world.history().range(&chat, None).await.unwrap();
    assert_eq!(records.iter().map(|record| record.listed().id).collect::<Vec<_>>(), ["1"]);
    assert_eq!(records[0].message.plain_text(), "edited");
}

#[tokio::test]
async fn a_confirmation_of_a_forgotten_command_is_not_stored() {
    let world = World::new().await;
    let (history, chat) = (world.history(), chat(0));
    let ingress = Ingress::new(history.clone(), Arc::new(NoQueue), "annals".into());
    let draft = message(&chat, 1, 0, "/reset");
    let commanded = ingress.command(&Command::Reset, &draft).await.unwrap();
    // The confirmation is sent, which takes its time.
    forget_now(&world, &history, &chat).await.unwrap();
    ingress.confirmed(&draft, commanded.confirmation.unwrap()).await.unwrap();
    assert_eq!(left(&world, &chat).await, [""; 0]);
}

/// The body of a large message is stored before its record, and may be deleted between the two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_message_that_meets_a_deletion_is_delivered_again_with_its_body() {
    let world = World::new().await;
    let chat = chat(0);
    let text = "x".repeat(400 * 1024);
    let ((is_reached, reached), (go_on, goes_on)) = (mpsc::channel(), mpsc::channel());
    // The body is put; this is the put of the record.
    let history = world.history_with(Faults::new(Plan::Stall(2, Mutex::new((is_reached, goes_on)))), true);
    let large = message(&chat, 1, 0, &text);
    let under_way = tokio::spawn({
        let large = large.clone();
        async move { history.append(&large).await }
    });
    tokio::task::block_in_place(|| reached.recv()).unwrap();
    forget_now(&world, &world.history(), &chat).await.unwrap();
    go_on.send(()).unwrap();
    assert!(under_way.await.unwrap().is_err(), "it is not acknowledged");
    world.history().append(&large).await.unwrap();
    let records = world.history().range(&chat, None).await.unwrap();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].message.plain_text(), text);
}

/// Every file in `folder`.
fn files(folder: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.push((path.to_string_lossy().into_owned(), Vec::new()));
            files(&path, found);
        } else if path.is_file() {
            found.push((path.to_string_lossy().into_owned(), std::fs::read(&path).unwrap()));
        }
    }
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[tokio::test]
async fn a_local_deletion_leaves_the_text_in_no_file() {
    const SECRET: &str = "the-secret-of-the-lighthouse";
    let app = TestApp::builder().start().await;
    for id in 1..40 {
        app.receive(private(42, id, &format!("{SECRET} {id}"))).await;
    }
    app.receive(private(42, 40, &format!("{SECRET} {}", "x".repeat(400 * 1024)))).await;
    app.handle(private(43, 1, "somebody else's words")).await;
    let history = app.open_history().await;
    archive_everything(&history, &"telegram:chat:42".parse().unwrap()).await;
    let found = || {
        let mut all = Vec::new();
        files(app.data_dir(), &mut all);
        all
    };
    let count = |text: &str| found().iter().filter(|(_, bytes)| holds(bytes, text)).count();
    assert!(count(SECRET) >= 2, "in the database and in the outbox");
    let before = found().len();

    let delete = app.request(Method::DELETE, "/v1/chats/telegram:chat:42").bearer_auth(OPS_KEY);
    let deleted = app.as_time_passes(Answer::of(delete)).await;
    assert_eq!(deleted.status, StatusCode::OK, "{deleted:?}");
    let with_text: Vec<String> =
        found().into_iter().filter(|(_, bytes)| holds(bytes, SECRET)).map(|(name, _)| name).collect();
    assert_eq!(with_text, [""; 0]);
    let session = "telegram:chat:42".parse::<ChatKey>().unwrap().session_id().to_string();
    let named: Vec<String> =
        found().into_iter().map(|(name, _)| name).filter(|n| n.contains(&session)).collect();
    assert_eq!(named, [""; 0]);
    assert!(found().len() < before, "the S3 service's own files about its objects are gone too");
    assert!(count("somebody else's words") >= 1);
    app.finish().await;
}

fn attribute(text: &str) -> aws_sdk_dynamodb::types::AttributeValue {
    aws_sdk_dynamodb::types::AttributeValue::S(text.to_owned())
}
