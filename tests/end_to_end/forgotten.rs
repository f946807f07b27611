//! Deletion of a chat during a run, a visit of the compactor and a webhook, and the chat's life after it.

use std::path::Path;
use std::time::Duration;

use annals_compactor::Compactor;
use annals_core::agents::Agents;
use annals_core::chat_key::ChatKey;
use annals_core::command::Command;
use annals_core::draft::Draft;
use annals_core::sort_key::Timestamp;
use annals_engine::forgetting::{ForgetError, Forgotten, forget};
use annals_store::history::due::Entry;
use annals_store::history::turn::{Claim, HOLDER_ENDS_WITHIN, Lease};
use annals_store::history::{Appended, HistoryError, Outcome};
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::app::{OPS_KEY, TestApp, chat_path, passing, wait_until};
use crate::faults::Faults;
use crate::memory::{memory_of, remember, user};
use crate::updates::private;
use crate::world::{LEASE, World, scan};

/// Deletes the chat as time passes.
async fn forget_now(world: &World) -> Result<Forgotten, ForgetError> {
    let agents = agents();
    let deleting = Box::pin(forget(&world.history, &agents, &world.chat, Timestamp::MAX));
    passing(&world.clock, Duration::from_millis(100), deleting).await
}

/// All items of the table and keys of the bucket that mention the chat, but for its emptied head.
async fn left(world: &World) -> Vec<String> {
    let items = scan(&world.stores).await;
    let items = items.iter().filter(|item| {
        let is_head = item["sk"].as_s().is_ok_and(|sk| sk == "!head");
        assert!(!is_head || item.keys().all(|key| KEPT_OF_A_HEAD.contains(&key.as_str())), "{item:?}");
        !is_head
    });
    let all = items.map(|item| format!("{item:?}")).chain(world.objects("").await);
    let names = [world.chat.to_string(), world.chat.session_id().to_string(), "telegram-42".to_owned()];
    // The number of a memory entry is not given again: an item without a text.
    let is_number = |item: &String| item.contains("deletedAt") && !item.contains("markdown");
    all.filter(|item| names.iter().any(|name| item.contains(name.as_str())) && !is_number(item)).collect()
}

const KEPT_OF_A_HEAD: [&str; 7] = ["pk", "sk", "fence", "forgottenAt", "dueShard", "dueAt", "dueSince"];

/// Lets a session end, so that a visit archives it and captures memory of it.
async fn with_ended_session(world: World) -> World {
    for seconds in 0..3 {
        let asked = world.hear(seconds, "I like tea, please remember that", true).await;
        world.run(&asked).await;
    }
    world.advance(60 * 3600);
    world
}

/// Lets so many days pass, with visits of another process and sweeps.
async fn days_pass(world: &World, days: u32) {
    let other = world.another_process();
    let compactor = Compactor::new(other.clone(), world.upkeep_of(&other));
    for _ in 0..8 * days {
        world.clock.advance(Duration::from_hours(3));
        compactor.run(world.in_an_hour()).await;
        world.sweep().await;
    }
}

async fn claim_to_forget(world: &World) -> Lease {
    match world.history.claim_to_forget(&world.chat, LEASE).await.unwrap() {
        Claim::Claimed(lease) => *lease,
        Claim::Busy(until) => panic!("busy until {until}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_at_any_moment_of_a_visit_leaves_nothing() {
    let requests = {
        let world = with_ended_session(World::new().await).await;
        let (history, requests) = world.counted();
        world.upkeep_of(&history).visit(&world.chat).await.unwrap();
        requests.requests()
    };
    assert!(requests > 8, "{requests}");
    for at in 1..=requests {
        let world = with_ended_session(World::new().await).await;
        let (faults, stall) = Faults::stalling(at);
        let (upkeep, chat) = (world.upkeep_of(&world.history_with(faults)), world.chat.clone());
        let visit = tokio::spawn(async move { upkeep.visit(&chat).await.map(drop) });
        stall.reached();
        let (history, chat) = (world.another_process(), world.chat.clone());
        let deletion = tokio::spawn(async move { forget(&history, &agents(), &chat, Timestamp::MAX).await });
        let is_claimed = async || {
            deletion.is_finished()
                || scan(&world.stores).await.iter().any(|item| item.contains_key("forgetting"))
        };
        wait_until("the deletion has the chat", is_claimed).await;
        stall.go_on();
        let visited = passing(&world.clock, Duration::from_millis(100), visit).await.unwrap();
        passing(&world.clock, Duration::from_millis(100), deletion).await.unwrap().unwrap();
        assert_eq!(left(&world).await, [""; 0], "at request {at}: {visited:?}");
        assert_eq!(world.segments().await, []);
    }
}

fn agents() -> Agents {
    Agents::only("annals".into())
}

/// The model takes its time over what is worth remembering, or over an answer; the deletion does not wait for that.
#[tokio::test]
async fn a_deletion_does_not_wait_for_a_model_and_nothing_of_its_answer_is_stored() {
    let world = with_ended_session(World::hosted(&[]).await).await;
    world.model().hang_notes();
    let (upkeep, chat) = (world.upkeep_of(&world.another_process()), world.chat.clone());
    let visit = tokio::spawn(async move { upkeep.visit(&chat).await.map(drop) });
    world.model().wait_for_notes(1).await;
    let before = world.clock.now();
    assert_eq!(forget_now(&world).await.unwrap().records, 6);
    let took = world.clock.now().since(before);
    assert!(took >= HOLDER_ENDS_WITHIN && took < 3 * HOLDER_ENDS_WITHIN, "{took:?}");
    world.model().resume();
    assert!(visit.await.unwrap().is_err(), "the visit ended well though its chat was forgotten");
    assert_eq!(left(&world).await, [""; 0]);

    let world = World::hosted(&[]).await;
    let asked = world.hear(0, "hello", true).await;
    world.model().hang_answers();
    let run = world.start_run(&asked);
    world.model().wait_for(1).await;
    forget_now(&world).await.unwrap();
    world.model().resume();
    assert!(run.await.unwrap().is_err(), "the run ended well though its chat was forgotten");
    assert_eq!(left(&world).await, [""; 0]);
}

/// A chat that is never answered: a channel, or a group that does not mention the bot.
#[tokio::test]
async fn a_chat_that_is_never_answered_keeps_its_archive_after_a_deletion() {
    let world = World::new().await;
    world.say(1, 0, "message 1").await;
    forget_now(&world).await.unwrap();
    for id in 2..60_u64 {
        world.say(id, world.elapsed_millis(), &format!("message {id}")).await;
        world.clock.advance(Duration::from_hours(12));
        world.run_compactor().await;
        world.sweep().await;
    }
    let head = world.head().await;
    assert!(head.archive.is_some() && head.forgotten_at.is_none(), "{head:?}");
    let listed = world.listed().await;
    let said = listed.iter().filter(|record| record.is_interaction());
    let ids: Vec<u64> = said.map(|record| record.message_id.as_str().parse().unwrap()).collect();
    assert_eq!(ids, (2..60).collect::<Vec<_>>());
    assert!(world.records().await.len() < 30, "most of the records are still in the table");
    world.archived().await;
}

/// A warm process believes that the chat is registered. A visit that a deletion has overtaken tells the index what it
/// wanted to; or the deletion breaks off, when what it deleted was the chat's only entry in the index of due chats, and
/// nobody asks for it again.
#[tokio::test]
async fn messages_after_a_deletion_or_a_part_of_one_are_visited_in_every_process() {
    for is_interrupted in [false, true] {
        let world = World::new().await;
        let (warm, other) = (world.another_process(), &world.history);
        warm.append(&world.message(1, 0, "hello")).await.unwrap();
        if is_interrupted {
            claim_to_forget(&world).await;
            let page = other.to_erase(&world.chat).await.unwrap().unwrap();
            other.erase_items(page).await.unwrap();
        } else {
            world.clock.advance(Duration::from_hours(12));
            let entries = vec![Entry { key: "!head".into(), due_at: 0 }];
            forget_now(&world).await.unwrap();
            // Whatever the visit says that lost the chat.
            let later = world.clock.now().plus(Duration::from_mins(1));
            other.put_off(&world.chat, &entries, later).await.unwrap();
            other.settle(&world.chat, &entries, None, None).await.unwrap();
        }
        warm.append(&world.message(2, world.elapsed_millis() + 1, "after it")).await.unwrap();
        days_pass(&world, 10).await;
        assert_eq!(world.records().await, [], "a record is still in the table");
        assert_eq!(world.lines().await, ["2 user: after it"]);
    }
}

#[tokio::test]
async fn a_forgotten_chat_that_is_not_used_again_leaves_no_head() {
    let world = World::new().await;
    world.say(1, 0, "hello").await;
    forget_now(&world).await.unwrap();
    for _ in 0..20 {
        world.clock.advance(Duration::from_hours(3));
        world.run_compactor().await;
    }
    assert_eq!(scan(&world.stores).await, []);
}

#[tokio::test]
async fn a_deletion_goes_on_where_the_one_before_ended() {
    let world = World::new().await;
    let (history, chat) = (&world.history, &world.chat);
    for id in 1..=1200_u64 {
        world.say(id, id.cast_signed(), "hello").await;
    }
    world.archive_everything().await;
    for id in 1201..=1700_u64 {
        world.say(id, id.cast_signed(), "hello").await;
    }
    let (mut records, mut segments, mut tries) = (0, 0, 1);
    // Its time is over after the first page.
    let deadline = world.clock.now().minus(Duration::from_secs(1));
    while let Err(error) = forget(history, &agents(), chat, deadline).await {
        let ForgetError::Unfinished { forgotten } = error else { panic!("{error}") };
        records += forgotten.records;
        segments += forgotten.segments;
        tries += 1;
        assert!(tries < 20, "the deletion does not end");
    }
    assert_eq!((records, segments), (1700, 2));
    assert!(tries >= 4, "{tries}");
    assert_eq!(left(&world).await, [""; 0]);

    // It holds the chat for as long as it takes, and nobody else gets it meanwhile.
    world.say(1, 0, "hello").await;
    let lease = claim_to_forget(&world).await;
    for _ in 0..5 {
        world.clock.advance(LEASE / 2);
        history.renew(&lease, LEASE).await.unwrap();
        assert!(matches!(history.claim(chat, LEASE).await.unwrap(), Claim::Busy(_)));
        assert!(matches!(history.claim_to_forget(chat, LEASE).await.unwrap(), Claim::Busy(_)));
    }
    world.clock.advance(LEASE + Duration::from_secs(1));
    world.claim().await;
    let renewed = history.renew(&lease, LEASE).await;
    assert!(matches!(renewed, Err(HistoryError::LeaseLost)), "{renewed:?}");
}

#[tokio::test]
async fn a_stop_does_not_take_a_chat_from_its_deletion() {
    let world = World::new().await;
    let asked = world.ask(1, 0, "hello").await;
    let held = world.claim().await;
    let lease = claim_to_forget(&world).await;
    assert!(lease.head.taken_at.is_some(), "the lease does not say that another lost the chat");
    world.history.stop(&world.chat, &asked, true).await.unwrap();
    assert!(world.history.renew(&lease, LEASE).await.is_ok());
    assert!(matches!(world.history.release(&held).await, Err(HistoryError::LeaseLost)));
}

/// Forgets the chat while a process appends `draft`, before the second request of that; returns the process's result.
async fn forget_during_append(world: &World, draft: &Draft) -> Result<Appended, HistoryError> {
    let (faults, stall) = Faults::stalling(2);
    let (history, draft) = (world.history_with(faults), draft.clone());
    let under_way = tokio::spawn(async move { history.append(&draft).await });
    stall.reached();
    forget_now(world).await.unwrap();
    stall.go_on();
    under_way.await.unwrap()
}

/// A webhook is under way while its chat is forgotten. An edit is then a message of its own, after the deletion. The body
/// of a large message is stored before its record, and may be deleted between the two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_meets_a_deletion_is_stored_whole_or_delivered_again() {
    let world = World::new().await;
    world.say(1, 0, "hello").await;
    // The put of a first form is refused; the second request is the transaction that stores the edit.
    let edited = forget_during_append(&world, &world.message(1, 0, "edited")).await;
    assert_eq!(edited.unwrap().outcome, Outcome::Stored);
    assert_eq!(world.lines().await, ["1 user: edited"]);

    let text = "x".repeat(400 * 1024);
    let large = world.message(2, 1000, &text);
    // The body is put; the second request puts the record.
    forget_during_append(&world, &large).await.expect_err("it is acknowledged without its body");
    world.append(&large).await;
    assert_eq!(world.lines().await, [format!("2 user: {text}")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_said_again_while_it_is_forgotten_does_not_come_back() {
    let world = World::new().await;
    world.say(1, 0, "hello").await;
    let (first, again) = (world.records().await.remove(0), world.message(1, 60_000, "hello"));
    let (faults, stall) = Faults::stalling(1);
    let history = world.history_with(faults);
    let under_way = tokio::spawn(async move { history.append_again(&again, &first, 1).await });
    stall.reached();
    forget_now(&world).await.unwrap();
    stall.go_on();
    let refused = under_way.await.unwrap();
    assert!(matches!(refused, Err(HistoryError::ForgottenMeanwhile { .. })), "{refused:?}");
    assert_eq!(left(&world).await, [""; 0]);
}

#[tokio::test]
async fn a_confirmation_of_a_forgotten_command_is_not_stored() {
    let world = World::new().await;
    let (ingress, draft) = (world.ingress(), world.message(1, 0, "/reset"));
    let commanded = ingress.command(&Command::Reset, &draft).await.unwrap();
    // The confirmation is sent, which takes its time.
    forget_now(&world).await.unwrap();
    ingress.confirmed(&draft, commanded.confirmation.unwrap()).await.unwrap();
    assert_eq!(left(&world).await, [""; 0]);
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
async fn what_was_typed_at_the_terminal_is_forgotten_with_a_direct_chat() {
    let app = TestApp::builder().start().await;
    let typed = app.data_dir().join("terminal-history");
    std::fs::write(&typed, "#V2\nthe secret of the lighthouse\n").unwrap();
    let forget = async |chat: &str| {
        let path = chat_path(chat, "");
        let forgetting = app.call(Method::DELETE, path.trim_end_matches('/'), OPS_KEY);
        assert_eq!(app.as_time_passes(Box::pin(forgetting)).await.status, 200);
        std::fs::read_to_string(&typed).unwrap()
    };
    app.handle(private(42, 1, "hello")).await;
    assert!(forget("telegram:chat:42").await.contains("lighthouse"));
    app.post("/v1/messages", OPS_KEY, &json!({"userId": "local", "text": "hello"})).await;
    app.idle().await;
    assert_eq!(forget("agent:annals:user:local").await, "");
    app.finish().await;
}

#[tokio::test]
async fn a_local_deletion_leaves_the_text_in_no_file() {
    const SECRET: &str = "the-secret-of-the-lighthouse";
    const MEMORY: &str = "keeps-the-lamp-lit";
    let app = TestApp::builder().start().await;
    for id in 1..40 {
        app.receive(private(42, id, &format!("{SECRET} {id}"))).await;
    }
    app.receive(private(42, 40, &format!("{SECRET} {}", "x".repeat(400 * 1024)))).await;
    app.handle(private(43, 1, "somebody else's words")).await;
    app.archive_everything("telegram:chat:42").await;
    let session = "telegram:chat:42".parse::<ChatKey>().unwrap().session_id().to_string();
    let folder = app.data_dir().to_owned();
    let found = || {
        let mut all = Vec::new();
        files(&folder, &mut all);
        all
    };
    let about = |text: &str| {
        let is_about = |(name, bytes): &(String, Vec<u8>)| holds(bytes, text) || name.contains(&session);
        found().into_iter().filter(is_about).map(|(name, _)| name).collect::<Vec<_>>()
    };
    remember(&app, &user("telegram-42"), "telegram:chat:42", &[MEMORY]).await;
    let id = memory_of(&app).list(&user("telegram-42")).await.unwrap()[0].id().to_string();
    assert!(found().iter().any(|(_, bytes)| holds(bytes, MEMORY)));
    assert_eq!(app.call(Method::DELETE, &format!("/v1/memory/{id}"), OPS_KEY).await.status, 204);
    app.clock().advance(Duration::from_mins(1));
    wait_until("the memory is in no file", async || !found().iter().any(|(_, bytes)| holds(bytes, MEMORY)))
        .await;

    let with_text = found().iter().filter(|(_, bytes)| holds(bytes, SECRET)).count();
    assert!(with_text >= 2, "the text is not in the database and in the outbox");
    let before = found().len();

    let deleted = app.forget("telegram:chat:42", OPS_KEY).await;
    assert_eq!(deleted.status, StatusCode::OK, "{deleted:?}");
    assert_eq!(about(SECRET), [""; 0]);
    assert!(found().len() < before, "the S3 service's own files about the objects are still there");
    assert!(!about("somebody else's words").is_empty());
    app.finish().await;
}
