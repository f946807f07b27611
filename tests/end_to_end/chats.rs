//! The list of chats: complete, each chat once, the last spoken in first, and without more writes.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use annals_core::agents::Agents;
use annals_core::chat_key::ChatKey;
use annals_core::sort_key::{MessageId, SortKey, Timestamp};
use annals_engine::forgetting;
use annals_local::stores::TABLE;
use annals_store::history::directory::{ListCursor, MOST_EXACT};
use annals_store::history::turn::Ending;
use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{APP_KEY, NOW, OPS_KEY, TestApp, chat_path};
use crate::due::{D, START, key};
use crate::meter::Consumed;
use crate::people::{by_person, http, telegram_says};
use crate::updates::{group, private};
use crate::world::{World, claim, message};

/// Lets so much time pass that all that is due is visited.
async fn some_days_pass(world: &World) {
    for _ in 0..4 {
        world.clock.advance(Duration::from_hours(24));
        visit_all_due(world).await;
    }
}

async fn visit_all_due(world: &World) {
    let report = world.run_compactor().await;
    assert_eq!((report.failed, report.busy, report.left), (0, 0, 0));
}

/// Returns all pages of `limit`, each chat by its number.
async fn listed(world: &World, limit: usize) -> Vec<i64> {
    let mut chats = Vec::new();
    let mut before: Option<ListCursor> = None;
    loop {
        let page = world.history.chats(before.as_ref(), limit).await.unwrap();
        assert!(page.chats.len() <= limit);
        chats.extend(page.chats.into_iter().map(|listed| number(&listed.chat)));
        let Some(cursor) = page.before else { return chats };
        before = Some(ListCursor::decode(&cursor.encode()).unwrap());
    }
}

fn number(chat: &ChatKey) -> i64 {
    chat.chat_id().parse().unwrap()
}

async fn forget(world: &World, chat: i64) {
    let agents = Agents::only("annals".into());
    forgetting::forget(&world.history, &agents, &key(chat), Timestamp::MAX).await.unwrap();
}

/// Creates a world with chats of these numbers, in each of which somebody said something, a minute apart.
async fn with_chats(chats: RangeInclusive<i64>) -> World {
    let world = World::new().await;
    for chat in chats {
        world.say_in(chat, 1).await;
        world.clock.advance(Duration::from_mins(1));
    }
    world
}

#[tokio::test]
async fn the_chat_that_was_spoken_in_last_is_first() {
    let world = with_chats(1..=5).await;
    assert_eq!(listed(&world, 100).await, [5, 4, 3, 2, 1]);
    // None of these registers its chat, but the last, which another process does.
    world.say_in(2, 2).await;
    world.clock.advance(Duration::from_mins(1));
    world.say_in(4, 2).await;
    world.clock.advance(Duration::from_mins(1));
    world.say_by_another(1, 2).await;
    assert_eq!(listed(&world, 100).await, [1, 4, 2, 5, 3]);
    for limit in 1..=5 {
        assert_eq!(listed(&world, limit).await, [1, 4, 2, 5, 3], "in pages of {limit}");
    }
    // By a message's own time: what comes late was said then.
    let hour_ago = |chat: i64, number: u64| message(&key(chat), number, -3_600_000, "hello");
    world.append(&hour_ago(6, 1)).await;
    world.another_process().append(&hour_ago(5, 2)).await.unwrap();
    assert_eq!(listed(&world, 2).await, [1, 4, 2, 5, 3, 6]);
}

#[tokio::test]
async fn a_chat_stays_in_its_place_for_months_and_comes_back_in_front() {
    let world = with_chats(1..=4).await;
    // A visit stores the exact time, not that of the entry.
    world.say_in(1, 2).await;
    assert_eq!(listed(&world, 2).await, [1, 4, 3, 2]);
    some_days_pass(&world).await;
    world.clock.advance(Duration::from_hours(60 * 24));
    visit_all_due(&world).await;
    world.sweep().await;
    for chat in 1..=4 {
        assert_eq!(world.history.range(&key(chat), None).await.unwrap(), [], "a record is left in the table");
    }
    assert_eq!(listed(&world, 3).await, [1, 4, 3, 2]);
    world.say_in(3, 2).await;
    assert_eq!(listed(&world, 3).await, [3, 1, 4, 2], "by an entry, and its outdated place does not count");
    world.clock.advance(D);
    visit_all_due(&world).await;
    world.say_in(2, 2).await;
    assert_eq!(listed(&world, 1).await, [2, 3, 1, 4]);
}

/// A chat whose visit fails has left the index of records all the same.
#[tokio::test]
async fn a_chat_that_no_visit_succeeds_for_is_listed() {
    let world = with_chats(1..=2).await;
    world.clock.advance(D);
    let due = world.due(1).await.unwrap();
    let later = world.clock.now().plus(Duration::from_hours(1));
    world.history.put_off(&key(1), &due.entries, later).await.unwrap();
    assert_eq!(listed(&world, 1).await, [2, 1]);
    // An older word of it does not overtake what a visit has found out.
    visit_all_due(&world).await;
    world.history.put_off(&key(1), &due.entries, later).await.unwrap();
    assert_eq!(listed(&world, 1).await, [2, 1]);
}

#[tokio::test]
async fn a_forgotten_chat_leaves_and_comes_back_when_it_is_used_again() {
    let world = with_chats(1..=3).await;
    world.clock.advance(D);
    visit_all_due(&world).await;
    world.say_in(2, 2).await;
    assert_eq!(listed(&world, 1).await, [2, 3, 1]);
    for chat in [2, 3] {
        forget(&world, chat).await;
    }
    assert_eq!(listed(&world, 1).await, [1]);
    world.say_in(2, 3).await;
    assert_eq!(listed(&world, 1).await, [2, 1]);
    some_days_pass(&world).await;
    assert_eq!(listed(&world, 1).await, [2, 1]);
}

#[tokio::test]
async fn a_chat_that_has_moved_is_listed_once_by_its_new_name() {
    let world = with_chats(1..=3).await;
    let moved = async |old: i64, new: i64| {
        world.history.rename(&key(old), &key(new), world.clock.now()).await.unwrap();
    };
    moved(2, 20).await;
    assert_eq!(listed(&world, 1).await, [3, 20, 1], "the new name is not in the place of the old one");
    moved(20, 200).await;
    assert_eq!(listed(&world, 1).await, [3, 1], "a chat is listed by a name that never had a place");
    world.say_in(200, 1).await;
    assert_eq!(listed(&world, 1).await, [200, 3, 1]);
    some_days_pass(&world).await;
    assert_eq!(listed(&world, 2).await, [200, 3, 1]);
}

#[tokio::test]
async fn pages_give_each_chat_once_while_people_speak() {
    let world = with_chats(1..=40).await;
    world.clock.advance(D);
    visit_all_due(&world).await;
    for chat in 41..=60 {
        world.say_in(chat, 1).await;
        world.clock.advance(Duration::from_secs(1));
    }
    let (mut seen, mut before) = (Vec::new(), None);
    let mut spoke = BTreeSet::new();
    for turn in 0.. {
        let page = world.history.chats(before.as_ref(), 7).await.unwrap();
        seen.extend(page.chats.iter().map(|listed| number(&listed.chat)));
        let Some(cursor) = page.before else { break };
        before = Some(cursor);
        // In one that has been given, in one that has not, and in a new one.
        for chat in [60 - turn, 1 + turn, 100 + turn] {
            world.say_in(chat, 2).await;
            spoke.insert(chat);
            world.clock.advance(Duration::from_secs(1));
        }
    }
    let given: BTreeSet<i64> = seen.iter().copied().collect();
    assert_eq!(given.len(), seen.len(), "a chat is listed twice: {seen:?}");
    let missing: BTreeSet<i64> = (1..=60).filter(|chat| !given.contains(chat)).collect();
    assert!(missing.is_subset(&spoke), "chats are missing from the list: {missing:?}");
    assert!(seen.is_sorted_by(|a, b| a > b), "{seen:?}");
    // Those are in front now.
    let front: BTreeSet<i64> = listed(&world, 100).await.into_iter().take(spoke.len()).collect();
    assert_eq!(front, spoke);
}

#[tokio::test]
async fn with_very_many_active_chats_each_is_listed_once_by_its_last_answer_or_registration() {
    let world = World::new().await;
    let many = i64::try_from(MOST_EXACT).unwrap() + 70;
    for chat in 1..=many {
        world.say_in(chat, 1).await;
        world.clock.advance(Duration::from_secs(1));
    }
    let mut expected: Vec<i64> = (1..=many).rev().collect();
    // Said and not answered, which no head tells, and answered.
    world.say_in(2, 2).await;
    assert_eq!(listed(&world, 100).await, expected);
    for chat in [7, 1] {
        world.say_in(chat, 2).await;
        let lease = claim(&world.history, &key(chat)).await;
        let answered_to = Some(SortKey::message(world.clock.now(), &MessageId::number(2)));
        world.history.finish(&lease, &Ending { answered_to, ..Ending::default() }).await.unwrap();
        world.clock.advance(Duration::from_secs(1));
        expected.retain(|listed| *listed != chat);
        expected.insert(0, chat);
    }
    assert_eq!(listed(&world, 100).await, expected);
    // Pages that began in one order go on in it.
    let first = world.history.chats(None, 100).await.unwrap();
    // So few that a page that began now would be in the other.
    for chat in 10..=80 {
        forget(&world, chat).await;
    }
    let second = world.history.chats(first.before.as_ref(), 100).await.unwrap();
    let numbers: Vec<i64> = second.chats.iter().map(|listed| number(&listed.chat)).collect();
    let left = |chat: &&i64| !(10..=80).contains(*chat);
    assert_eq!(numbers, expected[100..].iter().filter(left).copied().collect::<Vec<_>>());
}

/// The list costs an append and a turn nothing: `budgets.rs` has what they cost. A visit pays for the place.
#[tokio::test]
async fn the_list_of_chats_costs_a_turn_nothing() {
    let world = World::new().await;
    let units = |read_units, write_units, calls| Consumed { read_units, write_units, calls };
    let cost = || world.meter.take();
    world.say_in(1, 1).await;
    cost();
    // 16 shards of entries, 16 of places (an empty one is half a unit), a look at the one chat, and the heads of the page.
    world.history.chats(None, 25).await.unwrap();
    assert_eq!(cost(), units(17.5, 0.0, 34));
    let mut said = 1;
    for (chats, looks) in [(50_u32, 50), (51, 1), (2_000, 20)] {
        for chat in said + 1..=chats {
            world.say_in(chat.into(), 1).await;
        }
        said = chats;
        cost();
        world.history.chats(None, 25).await.unwrap();
        let Consumed { read_units, write_units, calls } = cost();
        assert_eq!((write_units, calls), (0.0, 32 + looks + 1), "{chats} chats");
        assert!(read_units <= 16.0 + 0.5 * f64::from(chats) + 50.0, "{chats} chats: {read_units}");
    }

    world.clock.advance(D);
    let due = world.due(1).await.unwrap().entries;
    cost();
    let spoken_at = Timestamp::from_secs(START);
    for (what, place, units_and_calls) in [
        ("a new place is two", spoken_at, (2.0, 1)),
        ("one that stays", spoken_at, (1.0, 1)),
        ("one that moves", world.clock.now(), (3.0, 1)),
    ] {
        world.history.set_place(&key(1), place).await.unwrap();
        assert_eq!(cost(), units(0.0, units_and_calls.0, units_and_calls.1), "{what}");
    }
    world.history.settle(&key(1), &due, None, Some(spoken_at)).await.unwrap();
    assert_eq!(cost(), units(0.0, 2.0, 1), "the entry leaves");
}

/// As an admin's key is answered.
#[tokio::test]
async fn the_list_says_what_a_person_wants_to_know_of_each_chat() {
    let app = TestApp::builder().telegram().model().refusals_are_fine().start().await;
    assert_eq!(app.get("/v1/chats").await, json!({"chats": [], "before": null}));
    app.handle(private(42, 7, "Is   the boat\nthere?")).await;
    app.clock().advance(Duration::from_secs(5));
    let long = "é".repeat(300);
    app.model().hang();
    app.post("/v1/chats/c1/messages", APP_KEY, &json!({"userId": "ada", "messageId": "m1", "text": long}))
        .await;
    app.model().wait_for(2).await;
    let list = app.get("/v1/chats?context=true").await;
    let [http, telegram] = &list["chats"].as_array().unwrap()[..] else { panic!("{list}") };
    let now = NOW * 1000 + 5000;
    assert_eq!(
        *http,
        json!({
            "chatKey": "http:chat:app:c1", "title": format!("{}…", "é".repeat(59)), "channel": "http",
            "lastMessage": {
                "id": "m1", "role": "user", "kind": "normal", "userId": "ada", "ts": now,
                "text": format!("{}…", "é".repeat(200)),
            },
            "speaker": "ada", "chatType": null, "lastInteractionAt": now, "staleAt": now + 48 * 3_600_000, "stale": false,
            "pendingTurn": "answering", "deliveryFailure": null, "blocked": null, "takeover": null,
            "version": http["version"],
            "tokens": http["tokens"], "window": 128_000,
        })
    );
    let context = app.get(&chat_path("http:chat:app:c1", "context")).await;
    assert_eq!(http["tokens"], context["tokens"]);
    assert_ne!(http["version"], telegram["version"]);
    let newest = &telegram["lastMessage"];
    assert_eq!([&newest["text"], &newest["role"]], ["You said: Is the boat there?", "assistant"]);
    assert_eq!([&telegram["speaker"], &telegram["chatType"]], ["Ada", "private"]);
    assert_eq!(telegram["pendingTurn"], Value::Null);
    app.model().resume();
    app.idle_as_time_passes().await;

    // Without a word about the context, that is not read.
    let list = app.get("/v1/chats?limit=1").await;
    assert_eq!(list["chats"].as_array().unwrap().len(), 1);
    assert!(list["chats"][0].get("tokens").is_none() && list["chats"][0]["pendingTurn"].is_null());
    let next = app.get(&format!("/v1/chats?before={}", list["before"].as_str().unwrap())).await;
    assert_eq!((&next["chats"][0]["chatKey"], &next["before"]), (&json!("telegram:chat:42"), &Value::Null));

    // Who has blocked the bot, and what was not delivered.
    app.telegram_api().block(42);
    app.handle_as_time_passes(private(42, 8, "still there?")).await;
    app.clock().advance(Duration::from_hours(49));
    let list = app.get("/v1/chats").await;
    let chat = list["chats"].as_array().unwrap().iter().find(|chat| chat["channel"] == "telegram").unwrap();
    assert_eq!((&chat["stale"], &chat["deliveryFailure"]["messageId"]), (&json!(true), &json!("8/reply")));
    assert!(chat["blocked"]["reason"].as_str().unwrap().contains("blocked"), "{chat}");
    assert_eq!(chat["blocked"]["reason"], chat["deliveryFailure"]["reason"]);
    app.finish().await;
}

/// Returns the keys of all chats that `query` selects, in pages of `limit`.
async fn selected(app: &TestApp, query: &str, limit: usize) -> Vec<String> {
    let (mut keys, mut before) = (Vec::new(), String::new());
    for _ in 0..50 {
        let page = app.get(&format!("/v1/chats?limit={limit}&{query}{before}")).await;
        let chats = page["chats"].as_array().unwrap();
        assert!(chats.len() <= limit, "{page}");
        keys.extend(chats.iter().map(|chat| chat["chatKey"].as_str().unwrap().to_owned()));
        let Some(cursor) = page["before"].as_str() else { return keys };
        before = format!("&before={cursor}");
    }
    panic!("the pages have no end")
}

#[tokio::test]
async fn chats_are_selected_by_words_and_state_in_pages() {
    let app = TestApp::builder().telegram().model().refusals_are_fine().start().await;
    for number in 0..6 {
        let chat = format!("c{number}");
        app.say(&chat, &json!({"userId": "bo", "text": format!("Ticket {number}")})).await;
        app.clock().advance(Duration::from_secs(1));
    }
    app.handle(private(42, 7, "hello")).await;
    app.receive(group(-42, 8, "the beans")).await;
    for limit in [1, 2, 25] {
        assert_eq!(selected(&app, "q=ALLOT", limit).await, ["telegram:chat:-42"], "the title");
        assert_eq!(selected(&app, "q=ada", limit).await.len(), 2, "the person");
        assert_eq!(selected(&app, "q=telegram-42", limit).await.len(), 2, "the Person");
        assert_eq!(selected(&app, "q=Telegram", limit).await.len(), 2, "the channel");
        assert_eq!(selected(&app, "q=app%3Ac3", limit).await, ["http:chat:app:c3"], "the key");
        assert_eq!(selected(&app, "q=ticket", limit).await.len(), 6);
        assert_eq!(selected(&app, "q=nothing+such", limit).await, [""; 0]);
        assert_eq!(selected(&app, "q=+", limit).await.len(), 8, "an empty selection is all");
        assert_eq!(selected(&app, "state=unanswered", limit).await, [""; 0]);
        assert_eq!(selected(&app, "state=failed", limit).await, [""; 0]);
    }
    app.telegram_api().block(42);
    app.handle_as_time_passes(private(42, 9, "still there?")).await;
    assert_eq!(selected(&app, "state=failed", 2).await, ["telegram:chat:42"]);
    assert_eq!(selected(&app, "state=failed&q=allot", 2).await, [""; 0]);
    app.model().hang();
    let ask = json!({"userId": "bo", "text": "and now?"});
    app.post("/v1/chats/c1/messages", APP_KEY, &ask).await;
    assert_eq!(selected(&app, "state=unanswered&q=TICKET", 2).await, ["http:chat:app:c1"]);
    app.model().resume();
    app.idle_as_time_passes().await;
    let invalid = async |query: &str| {
        let answer = app.call(Method::GET, &format!("/v1/chats?{query}"), OPS_KEY).await;
        assert_eq!(answer.status, 400, "{query}: {answer:?}");
        assert_eq!(answer.content_type, "application/problem+json");
        answer.body
    };
    for query in ["state=x", "state=", &format!("q={}", "x".repeat(513))] {
        let problem = invalid(query).await;
        assert_eq!(problem["type"], "urn:annals:problem:bad-query");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("\"state\" must be failed, unanswered or waiting"), "{detail}");
    }
    for query in ["before=x", "before=e30", "limit=0", "limit=x", "context=yes", "limit=1&limit=2"] {
        invalid(query).await;
    }
    // A cursor is of this list, and of no history.
    let page = app.get("/v1/chats/http%3Achat%3Aapp%3Ac1/messages?limit=1").await;
    invalid(&format!("before={}", page["before"].as_str().unwrap())).await;
    for path in ["/v1/chats", "/v1/chats?q=ticket"] {
        app.call(Method::GET, path, APP_KEY).await.assert_problem(403, "forbidden");
    }
    app.finish().await;
}

/// A stack of the version before has chats that no visit has given a place: those appear once they are written to.
#[tokio::test]
async fn a_silent_chat_of_an_earlier_version_appears_when_somebody_speaks() {
    let world = World::new().await;
    world.say_in(1, 1).await;
    world.clock.advance(D);
    visit_all_due(&world).await;
    let string = |value: &str| aws_sdk_dynamodb::types::AttributeValue::S(value.to_owned());
    let delete = world.stores.dynamodb.delete_item().table_name(TABLE);
    let delete = delete.key("pk", string(&key(1).to_string())).key("sk", string("!place"));
    delete.send().await.unwrap();
    assert_eq!(listed(&world, 10).await, [0_i64; 0]);
    world.say_in(1, 2).await;
    assert_eq!(listed(&world, 10).await, [1]);
}

#[tokio::test]
async fn a_chat_is_selected_by_an_identity_that_is_linked_to_its_person() {
    let app = by_person().set("LINKS", "ada,telegram-42").start().await;
    telegram_says(&app, 42, 1, "hello").await;
    http(&app, "ada", "hello").await;
    http(&app, "adam", "hello").await;
    app.say("c1", &json!({"userId": "adam", "text": "hello"})).await;
    for limit in [1, 25] {
        assert_eq!(selected(&app, "q=telegram-42", limit).await, ["agent:annals:user:ada"]);
        assert_eq!(selected(&app, "q=+telegram-42+&state=failed", limit).await, [""; 0]);
        assert_eq!(selected(&app, "q=telegram-43", limit).await, [""; 0]);
    }
    app.idle_as_time_passes().await;
    app.finish().await;
}
