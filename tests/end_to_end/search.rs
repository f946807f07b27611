//! The search in a chat's history: `GET /v1/chats/{chatId}/search`.

use std::time::Duration;

use annals_core::sort_key::Timestamp;
use annals_core::testing::set;
use annals_store::history::{History, Search};
use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{APP_KEY, OPS_KEY, TestApp, chat_path};
use crate::faults::Faults;
use crate::updates::{group, private};
use crate::world::{EVERYTHING, World};

async fn search(app: &TestApp, chat: &str, query: &str) -> Value {
    app.get(&chat_path(chat, &format!("search?{query}"))).await
}

fn texts(found: &Value) -> Vec<&str> {
    let hits = found["hits"].as_array().unwrap().iter();
    hits.map(|hit| hit["message"]["parts"][0]["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_best_messages_are_found_with_their_neighbours() {
    let app = TestApp::start().await;
    let chat = "telegram:chat:-42";
    let said = "hello/where is the boat?/by the bridge/it rains/the boats need oars/ok/bye/later".split('/');
    for (id, text) in (1..).zip(said) {
        app.receive(group(-42, id, text)).await;
    }
    let found = search(&app, chat, "q=boat+oar").await;
    assert_eq!(texts(&found), ["the boats need oars", "where is the boat?"]);
    assert_eq!(found["partial"], false);
    let [best, other] = [&found["hits"][0], &found["hits"][1]];
    let scores = [best, other].map(|hit| hit["score"].as_f64().unwrap());
    assert!(scores[0] > scores[1] && scores[1] > 0.0, "{found}");
    let ids = |hit: &Value| -> Vec<String> {
        let context = hit["context"].as_array().unwrap().iter();
        context.map(|message| message["id"].as_str().unwrap().to_owned()).collect()
    };
    // Short messages are shown with more of their neighbours.
    assert_eq!(ids(best), ["1", "2", "3", "4", "6", "7", "8"]);
    assert_eq!(ids(other), ["1", "3", "4", "5", "6", "7", "8"]);
    assert_eq!(best["message"]["metadata"]["chatKey"], chat);
    assert_eq!(texts(&search(&app, chat, "q=boat+oar&limit=1").await), ["the boats need oars"]);
    assert_eq!(texts(&search(&app, chat, "q=submarine").await), [""; 0]);
    app.finish().await;
}

#[tokio::test]
async fn a_sender_raises_a_message_on_every_channel() {
    let app = TestApp::builder().telegram().model().start().await;
    app.model().answer_with("Noted.");
    for (id, sender) in (1..).zip(["bo", "eve", "ada", "bo", "eve"]) {
        let text = format!("boat number {id}");
        app.say("c1", &json!({"userId": sender, "text": text, "messageId": format!("m{id}")})).await;
    }
    let found = app.call(Method::GET, &chat_path("c1", "search?q=which+boat+did+Ada+name"), APP_KEY).await;
    assert_eq!(texts(&found.body)[0], "boat number 3");
    let found = app.call(Method::GET, &chat_path("c1", "search?q=ada"), APP_KEY).await;
    assert_eq!(texts(&found.body), ["boat number 3"], "by the sender alone");
    app.finish().await;
}

#[tokio::test]
async fn only_the_newest_form_is_found_and_nothing_that_was_erased() {
    let app = TestApp::start().await;
    let chat = "telegram:chat:-42";
    app.receive(group(-42, 1, "the ferry leaves at nine")).await;
    app.receive(group(-42, 1, "the ferry leaves at nine").edited(5, "the train leaves at ten")).await;
    app.receive(group(-42, 2, "我对花生过敏").by(43)).await;
    assert_eq!(texts(&search(&app, chat, "q=ferry").await), [""; 0]);
    let found = search(&app, chat, "q=trains").await;
    assert_eq!(found["hits"][0]["message"]["id"], "1@1");
    assert_eq!(texts(&search(&app, chat, "q=%E8%8A%B1%E7%94%9F").await), ["我对花生过敏"]);
    let erased = Box::pin(app.call(Method::DELETE, "/v1/people/telegram-43", OPS_KEY));
    assert_eq!(app.as_time_passes(erased).await.status, 200);
    assert_eq!(texts(&search(&app, chat, "q=%E8%8A%B1%E7%94%9F").await), [""; 0]);
    let context = search(&app, chat, "q=train").await["hits"][0]["context"].clone();
    assert_eq!(context, json!([]), "what was erased is no neighbour either");
    assert_eq!(app.forget(chat, OPS_KEY).await.status, 200);
    assert_eq!(search(&app, chat, "q=train").await, json!({"hits": [], "partial": false}));
    app.finish().await;
}

#[tokio::test]
async fn a_search_is_for_those_who_may_read_the_chat_and_refuses_what_it_cannot_use() {
    let app = TestApp::builder().telegram().model().start().await;
    app.handle(private(42, 1, "hunter2")).await;
    app.say("c1", &json!({"userId": "ada", "text": "Where is the boat?"})).await;
    let get = async |path: &str, key: &str| app.call(Method::GET, &chat_path("c1", path), key).await;
    let found = get("search?q=boat", APP_KEY).await;
    assert_eq!((found.status.as_u16(), texts(&found.body).len()), (200, 2), "the question and its answer");
    assert_eq!(get("search?q=boat", "other-secret").await.body["hits"], json!([]), "its own chat of that id");
    assert_eq!(get("search?q=boat", "no-key").await.status, 401);
    let foreign = chat_path("telegram:chat:42", "search?q=hunter2");
    let foreign = app.call(Method::GET, &foreign, APP_KEY).await;
    assert_eq!(foreign.body["hits"], json!([]));
    for bad in ["search", "search?q=", "search?q=+", &format!("search?q={}", "x".repeat(513))] {
        let answer = get(bad, APP_KEY).await;
        answer.assert_problem(400, "bad-search");
        assert_eq!(answer.body["detail"], "\"q\", the text to look for, must have 1 to 512 characters");
    }
    assert_eq!(get(&format!("search?q={}", "%E8%8A%B1".repeat(512)), APP_KEY).await.status, 200);
    for bad in ["search?q=boat&limit=0", "search?q=boat&limit=x", "search?q=boat&limit=-1"] {
        let answer = get(bad, APP_KEY).await;
        answer.assert_problem(400, "bad-limit");
        assert_eq!(answer.body["title"], "The limit is invalid");
    }
    assert_eq!(get("search?q=boat&limit=99999999999999999999", APP_KEY).await.status, 200);
    app.finish().await;
}

/// A search reads segments for all that has left the table; late messages, edits and recalls count as soon as they arrive.
#[tokio::test]
async fn the_whole_history_is_searched_at_any_age() {
    let world = World::new().await;
    let (history, chat) = (&world.history, &world.chat);
    for id in 1..=40_u64 {
        let text = if id == 20 { "the oars are in the shed".to_owned() } else { format!("message {id}") };
        world.append(&world.message(id, id.cast_signed() * 1000, &text)).await;
    }
    world.append(&world.message(41, 41_000, "my door code is 4711")).await;
    let mut of_a_line = world.message(42, 42_000, "我对花生过敏");
    set(&mut of_a_line.metadata, "telegram", json!({"businessConnectionId": "b1"}));
    world.append(&of_a_line).await;
    let found = async |query: &str, line: Option<Option<&str>>| {
        let found = history.search(chat, &Search { line, ..Search::new(query, 50) }).await.unwrap();
        assert!(!found.is_partial);
        found.hits.iter().map(|hit| hit.record.message_id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(found("oar shed", None).await, ["20"]);
    world.archive_everything().await;
    assert_eq!(found("OAR shed", None).await, ["20"]);
    // A late message between archived ones, an edit of one, and a recall of another.
    world.append(&world.message(50, 10_500, "the late oars")).await;
    let later_form = |id: u64, text: &str| {
        let mut form = world.message(id, id.cast_signed() * 1000, text);
        form.form_ts = Timestamp::from_millis(form.ts.as_millis() + 10);
        form
    };
    world.append(&later_form(5, "oars again")).await;
    let mut recall = later_form(41, "[message recalled]");
    set(&mut recall.metadata, "recalled", true);
    world.append(&recall).await;
    let check = async || {
        let mut ids = found("oars", None).await;
        ids.sort_unstable();
        assert_eq!(ids, ["20", "5", "50"]);
        assert_eq!(found("花生过敏", Some(Some("b1"))).await, ["42"]);
        for (query, line) in [("花生过敏", Some(None)), ("4711", None), ("recalled", None)] {
            assert_eq!(found(query, line).await, [""; 0], "{query}");
        }
    };
    check().await;
    world.clock.advance(Duration::from_hours(60 * 24));
    let report = world.run_compactor().await;
    assert_eq!((report.failed, report.left), (0, 0));
    world.sweep().await;
    assert_eq!(history.range(chat, None).await.unwrap(), []);
    check().await;
    assert_eq!(found("message 33", None).await[0], "33");
    let without = ["20".to_owned(), "50".to_owned()];
    let search = Search { without: &without, ..Search::new("oars", 50) };
    let hits = history.search(chat, &search).await.unwrap().hits;
    assert_eq!(hits.iter().map(|hit| hit.record.listed().id).collect::<Vec<_>>(), ["5@1"]);
}

/// The reads of a search are bounded: one index a segment, if the process has not kept it, and none of the segments
/// themselves, as long as their records are in the table; one page of the table; and for each hit what is around it.
#[tokio::test]
async fn a_search_reads_one_index_a_segment_and_no_segment() {
    let world = World::new().await;
    let lease = world.claim().await;
    for id in 1..=60_u64 {
        let text = if id % 10 == 5 { format!("the oars of {id}") } else { format!("message {id}") };
        world.append(&world.message(id, id.cast_signed() * 1000, &text)).await;
        if id % 2 == 0 {
            world.history.archive_all(&lease, &EVERYTHING).await.unwrap();
        }
    }
    world.history.release(&lease).await.unwrap();
    assert_eq!(world.segments().await.len(), 30);
    let (history, requests) = world.counted();
    let find = async |history: &History, hits: usize| {
        let found = history.search(&world.chat, &Search::new("oars", hits)).await.unwrap();
        assert!(!found.is_partial);
        found.hits.iter().map(|hit| hit.record.message_id.to_string()).collect::<Vec<_>>()
    };
    world.meter.take();
    let found = find(&history, 6).await;
    // The head twice, the pointers and a page; two queries of records and two of pointers for each of 6 hits;
    // and one object a segment, its index.
    let (first, table) = (requests.take(), world.meter.take());
    assert!((4 + 6 * 2..=4 + 6 * 4).contains(&table.calls) && table.write_units <= 0.0, "{table:?}");
    assert_eq!(first, 30 + table.calls as usize);
    assert_eq!(find(&history, 6).await, found);
    let (second, again) = (requests.take(), world.meter.take());
    assert_eq!((second, again.calls), (again.calls as usize, table.calls), "none again");
    assert!(again.read_units <= table.read_units && table.read_units < 100.0, "{table:?}, {again:?}");

    // No segment is read: none is there any more. Without its index, one is.
    let all = find(&world.another_process(), 50).await;
    assert_eq!(all.len(), 6);
    for key in world.segment_objects("segments/").await {
        world.stores.bucket.delete(&key).await.unwrap();
    }
    assert_eq!(find(&world.another_process(), 50).await, all);
    let index = world.objects("segments/").await.remove(0);
    world.stores.bucket.delete(&index).await.unwrap();
    let history = world.another_process();
    let unread = history.search(&world.chat, &Search::new("oars", 50)).await.unwrap_err();
    assert!(unread.to_string().contains("not in S3 any more"), "{unread}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn large_messages_are_left_out_after_the_time_of_a_search() {
    let world = World::new().await;
    for id in 1..=2_u64 {
        world.say(id, id.cast_signed(), &"oars ".repeat(72 * 1024)).await;
    }
    // The head twice, a page, and the first message.
    let (faults, stall) = Faults::stalling(4);
    let (slow, chat) = (world.history_with(faults), world.chat.clone());
    let search = tokio::spawn(async move { slow.search(&chat, &Search::new("oars", 9)).await.unwrap() });
    stall.reached();
    world.clock.advance(Duration::from_secs(9));
    stall.go_on();
    let found = search.await.unwrap();
    assert_eq!((found.hits.len(), found.is_partial), (1, true));
}

/// A segment that an earlier version archived has no index, and one of another version is not used.
#[tokio::test]
async fn a_segment_without_its_index_is_searched_all_the_same() {
    let world = World::new().await;
    for id in 1..=10_u64 {
        world.append(&world.message(id, id.cast_signed() * 1000, &format!("oars of {id}"))).await;
    }
    world.archive_everything().await;
    let find = async || {
        let found = world.another_process().search(&world.chat, &Search::new("oars", 50)).await.unwrap();
        (found.hits.len(), found.is_partial)
    };
    assert_eq!(find().await, (10, false));
    let [_, index] = &world.objects("segments/").await[..] else { panic!("one segment and its index") };
    world.stores.bucket.put(index, "application/gzip", b"something else".to_vec()).await.unwrap();
    assert_eq!(find().await, (10, false));
    world.stores.bucket.delete(index).await.unwrap();
    assert_eq!(find().await, (10, false));
}

/// A message whose body is in S3 is found like any other, by its beginning.
#[tokio::test]
async fn a_large_message_is_found_by_its_beginning() {
    let world = World::new().await;
    let large = format!("the oars {} the rudder", "of the boat ".repeat(40_000));
    world.append(&world.message(1, 1000, &large)).await;
    assert_eq!(world.objects("bodies/").await.len(), 1);
    for _ in 0..2 {
        let find =
            async |query| world.history.search(&world.chat, &Search::new(query, 8)).await.unwrap().hits.len();
        assert_eq!((find("oars").await, find("rudder").await), (1, 0));
        world.archive_everything().await;
    }
}
