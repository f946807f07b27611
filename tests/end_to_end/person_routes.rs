//! One person in all chats: `GET`, `DELETE /v1/people/{id}`, `…/links`, `…/export`.

use std::time::Duration;

use annals_core::agents::Agents;
use annals_core::chat_key::ChatKey;
use annals_core::draft::Draft;
use annals_core::record::Channel;
use annals_core::sort_key::Timestamp;
use annals_engine::erasing::Person;
use annals_engine::forgetting::ForgetError;
use annals_store::history::{History, ToArchive};
use annals_store::people::People;
use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{APP_KEY, Answer, NOW, OPS_KEY, TestApp, lines, passing};
use crate::faults::{Faults, Plan};
use crate::lark::{P2P, receive_plain, text};
use crate::memory::{call, remember, texts, user};
use crate::people::{by_person, code_in, http, link_telegram, telegram_says};
use crate::updates::group;
use crate::world::{A_LIFE, World, archive_everything, archived, claim, expire, listed, message, scan};

const ADA: &str = "agent:annals:user:ada";
const TELEGRAM: &str = "agent:annals:user:telegram-42";
const GROUP: &str = "telegram:chat:-7";

async fn person(app: &TestApp, id: &str) -> Value {
    app.get(&format!("/v1/people/{id}")).await
}

async fn put_links(app: &TestApp, id: &str, links: &[&str]) -> Answer {
    let path = format!("/v1/people/{id}/links");
    let answer = call(app, Method::PUT, &path, OPS_KEY, Some(json!({ "links": links }))).await;
    app.idle_as_time_passes().await;
    answer
}

async fn erase(app: &TestApp, id: &str) -> Answer {
    let path = format!("/v1/people/{id}");
    let erased = Box::pin(app.call(Method::DELETE, &path, OPS_KEY));
    // Slower than elsewhere: the route gives up after 15 seconds.
    passing(app.clock(), Duration::from_millis(20), erased).await
}

/// Returns the partitions of the items in the table that contain `text` anywhere.
async fn items_with(app: &TestApp, text: &str) -> Vec<String> {
    let items = scan(app.stores()).await;
    let found = items.iter().filter(|item| format!("{item:?}").contains(text));
    found.map(|item| item["pk"].as_s().unwrap().clone()).collect()
}

#[tokio::test]
async fn an_admin_links_separates_and_sees_people() {
    let app = by_person().start().await;
    http(&app, "ada", "Over HTTP").await;
    telegram_says(&app, 42, 1, "In Telegram").await;
    receive_plain(&app, text("om_2", P2P, "In Lark", 2)).await;
    for (id, user) in [(3, 42), (4, 43)] {
        app.handle(group(-7, id, "In the group").by(user)).await;
    }
    app.handle(group(-8, 5, "In another group").by(43)).await;
    for (chat, user) in [("c1", "ada"), ("c2", "bo")] {
        app.ask(&format!("http:chat:ops:{chat}"), OPS_KEY, &json!({"userId": user, "text": "Hello"})).await;
    }
    app.idle().await;
    remember(&app, &user("lark-ou_ada"), "agent:annals:user:lark-ou_ada", &["Likes tea."]).await;
    app.clock().advance(Duration::from_mins(1));

    let linked = put_links(&app, "ada", &["telegram-42", "lark-ou_ada", "discord-7"]).await;
    assert_eq!(linked.status, 200, "{linked:?}");
    let chat = |key: &str, identity: &str, channels: &[&str]| json!({"chatKey": key, "identity": identity, "channels": channels});
    let memories = app.get("/v1/memory?userId=ada").await["memories"].clone();
    assert_eq!(memories[0]["text"], "Likes tea.");
    let wanted = json!({
        "id": "ada", "links": ["7", "lark-ou_ada", "telegram-42"], "memories": memories,
        "chats": [
            chat(ADA, "ada", &["telegram", "lark", "http"]),
            chat("agent:annals:user:lark-ou_ada", "lark-ou_ada", &["lark"]),
            chat(TELEGRAM, "telegram-42", &["telegram"]),
            chat("http:chat:ops:c1", "ada", &["http"]),
            chat(GROUP, "telegram-42", &["telegram"]),
        ],
    });
    // Under any of the identities, also as `discord-<id>`.
    for id in ["ada", "telegram-42", "discord-7", "7"] {
        assert_eq!(person(&app, id).await, wanted, "{id}");
    }
    // Again: nothing changes, and nothing is told twice.
    let before = app.lines(ADA).await;
    put_links(&app, "telegram-42", &["telegram-42", "lark-ou_ada", "7", "ada"]).await;
    assert_eq!((person(&app, "ada").await, app.lines(ADA).await), (wanted, before));
    assert_eq!(telegram_says(&app, 42, 200, "Who am I?").await.lines().last(), Some("Who am I?"));
    assert!(app.lines(ADA).await.contains(&"1200 user: Who am I?".to_owned()));

    // What is left out is separated, with its memory.
    put_links(&app, "ada", &["telegram-42"]).await;
    assert_eq!(person(&app, "ada").await["links"], json!(["telegram-42"]));
    // The same, asked of the other side.
    put_links(&app, "telegram-42", &["ada"]).await;
    assert_eq!(person(&app, "ada").await["links"], json!(["telegram-42"]));
    assert_eq!(texts(&app, &user("lark-ou_ada")).await.len(), 1);
    let alone = person(&app, "lark-ou_ada").await;
    assert_eq!((&alone["id"], &alone["links"]), (&json!("lark-ou_ada"), &json!([])));
    // To another person, from the one that it is linked to.
    put_links(&app, "bo", &["telegram-42"]).await;
    assert_eq!(person(&app, "ada").await["links"], json!([]));
    assert_eq!(person(&app, "telegram-42").await["id"], "bo");

    let many: Vec<String> = (0..16).map(|number| format!("telegram-{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    put_links(&app, "ada", &many).await.assert_problem(400, "bad-links");
    put_links(&app, "ada", &["a\u{7}"]).await.assert_problem(400, "bad-user");
    put_links(&app, &"a".repeat(2001), &[]).await.assert_problem(400, "bad-user");
    for (method, path) in [
        (Method::GET, "/v1/people/ada"),
        (Method::GET, "/v1/people/ada/export"),
        (Method::DELETE, "/v1/people/ada"),
    ] {
        app.call(method, path, APP_KEY).await.assert_problem(403, "forbidden");
    }
    app.finish().await;
}

#[tokio::test]
async fn the_setting_links_people_at_their_next_message() {
    let mut app = by_person().set("LINKS", "ada,telegram-42;bo,telegram-43").start().await;
    http(&app, "ada", "My name is Ada").await;
    telegram_says(&app, 42, 100, "What is my name?").await;
    assert!(app.last_request().to_string().contains("My name is Ada"));
    telegram_says(&app, 44, 101, "And mine?").await;
    assert!(!app.last_request().to_string().contains("My name is Ada"));
    let told = telegram_says(&app, 42, 102, "/unlink").await;
    assert!(told.starts_with("Whoever runs this bot has linked this channel"), "{told}");
    assert_eq!(person(&app, "telegram-42").await["id"], "ada");

    // A correction moves the channels, not the people.
    http(&app, "bo", "My dog is Rex").await;
    telegram_says(&app, 43, 200, "Hello").await;
    app.set("LINKS", "bo,telegram-42;ada,telegram-43").await;
    telegram_says(&app, 42, 300, "What is my dog called?").await;
    let asked = app.model().requests().into_iter().map(|request| request.to_string());
    let asked = asked.rev().find(|request| request.contains("What is my dog called?")).unwrap();
    assert!(asked.contains("My dog is Rex") && !asked.contains("My name is Ada"), "{asked}");
    assert_eq!(person(&app, "ada").await["links"], json!([]));
    http(&app, "ada", "Who am I?").await;
    assert!(!app.last_request().to_string().contains("Rex"));
    telegram_says(&app, 43, 400, "And who am I?").await;
    assert_eq!(person(&app, "ada").await["links"], json!(["telegram-43"]));
    assert_eq!(person(&app, "bo").await["links"], json!(["telegram-42"]));
    app.finish().await;
}

#[tokio::test]
async fn a_person_is_exported_and_erased_in_all_chats() {
    let app = by_person().start().await;
    for (id, user, words) in [(1, 42, "archived secret"), (2, 43, "bo in the group")] {
        app.handle(group(-7, id, words).by(user)).await;
    }
    app.leave_the_table(GROUP).await;
    let later = (app.clock().now().as_millis() / 1000) - NOW;
    http(&app, "ada", "direct secret").await;
    telegram_says(&app, 42, later + 1, "window secret").await;
    app.say("c1", &json!({"userId": "ada", "text": "app secret"})).await;
    let by_ada = json!({"userId": "app/ada", "text": "shared secret"});
    for body in [by_ada, json!({"userId": "bo", "text": "of bo"})] {
        assert_eq!(app.ask("http:chat:ops:c2", OPS_KEY, &body).await.status, 200);
    }
    app.handle(group(-7, 3, "group secret").by(42).at(60 + later)).await;
    app.handle(group(-7, 4, "bo again").by(43).at(60 + later)).await;
    put_links(&app, "ada", &["telegram-42", "app/ada"]).await;
    remember(&app, &user("ada"), ADA, &["memory secret"]).await;

    let export = async || {
        let lines = app.export_of("/v1/people/telegram-42/export", OPS_KEY).await;
        let text = |line: &Value| match line["type"].as_str().unwrap() {
            "message" => crate::app::text_of(&line["message"]),
            "memory" => "memory".to_owned(),
            kind => kind.to_owned(),
        };
        let mut texts: Vec<String> = lines.iter().map(text).collect();
        assert_eq!(texts.remove(0), "person");
        texts.sort();
        texts
    };
    let exported = export().await;
    for secret in ["direct", "window", "app", "shared", "archived", "group"] {
        assert!(exported.contains(&format!("{secret} secret")), "{secret}: {exported:?}");
    }
    assert!(exported.contains(&"You said: app secret".to_owned()), "a private conversation is the person's");
    assert!(exported.contains(&"memory".to_owned()));
    assert!(!exported.iter().any(|text| text.contains("bo")), "{exported:?}");

    let of_segments = app.get(&crate::app::chat_path(GROUP, "segments")).await;
    assert_eq!(of_segments["segments"].as_array().unwrap().len(), 1, "{of_segments}");
    let erased = erase(&app, "telegram-42").await;
    assert_eq!(erased.status, 200, "{erased:?}");
    let removed = &erased.body["removed"];
    assert_eq!((&erased.body["id"], &removed["archived"]), (&json!("ada"), &json!(1)), "{erased:?}");
    assert_eq!(removed["records"], 2, "one in the group, one in the shared conversation");
    assert_eq!(removed["memories"], 1);
    for key in [ADA, TELEGRAM, "http:chat:app:c1"] {
        assert!(app.history(key).await.is_empty(), "{key}");
    }
    assert_eq!(lines(&app.history(GROUP).await), ["2 user: bo in the group", "4 user: bo again"]);
    let of_segments = app.get(&crate::app::chat_path(GROUP, "segments")).await;
    let segment = &of_segments["segments"][0];
    assert_eq!((&segment["fromId"], &segment["count"]), (&json!("2"), &json!(1)), "{of_segments}");
    // Replies to others, and what others said, stay; the assistant's words about it, too.
    let shared = app.lines("http:chat:ops:c2").await;
    assert!(shared.iter().any(|line| line.ends_with(" user: of bo")), "{shared:?}");
    assert!(!shared.iter().any(|line| line.ends_with(" user: shared secret")), "{shared:?}");
    for secret in ["direct secret", "window secret", "app secret", "memory secret", "group secret"] {
        assert_eq!(items_with(&app, secret).await, [""; 0], "{secret}");
    }
    let left = items_with(&app, "telegram-42").await;
    assert!(!left.iter().any(|pk| pk.starts_with("person:")), "{left:?}");
    assert_eq!(export().await, [""; 0]);
    // Again: there is nothing more.
    let again = erase(&app, "ada").await;
    assert_eq!(again.body["removed"], json!({"chats": 0, "records": 0, "memories": 0, "archived": 0}));
    // The person may come back, as somebody new.
    telegram_says(&app, 42, later + 100, "It is me").await;
    assert_eq!(app.lines(TELEGRAM).await.len(), 2);
    app.finish().await;
}

/// Of a conversation whose newest page is one person's alone, only their own messages are exported.
#[tokio::test]
async fn an_export_has_nothing_of_who_spoke_long_before() {
    let app = by_person().start().await;
    let (history, chat) = (app.open_history(), "http:chat:ops:c1".parse::<ChatKey>().unwrap());
    for id in 1..=202 {
        let person = if id == 1 { "bo" } else { "ada" };
        let draft = message(&chat, id, i64::try_from(id).unwrap(), &format!("of {person}"));
        let (user_id, person) = (person.into(), Some(person.into()));
        let draft = Draft { channel: Channel::Http, chat_id: "c1".into(), user_id, person, ..draft };
        history.append(&draft).await.unwrap();
    }
    let lines = app.export_of("/v1/people/ada/export", OPS_KEY).await;
    let messages: Vec<&Value> = lines.iter().filter(|line| line["type"] == "message").collect();
    assert_eq!(messages.len(), 201);
    assert!(messages.iter().all(|line| crate::app::text_of(&line["message"]) == "of ada"));
    // The export of somebody who spoke nowhere is not silent meanwhile.
    let of_cleo = app.request(Method::GET, "/v1/people/cleo/export").bearer_auth(OPS_KEY);
    let exported = of_cleo.send().await.unwrap().text().await.unwrap();
    assert!(exported.contains("}\n\n"), "an empty line for a page: {exported:?}");
    app.finish().await;
}

/// Messages about somebody who was linked to another person's chat are erased with them.
#[tokio::test]
async fn nothing_in_the_chat_of_an_earlier_link_tells_of_an_erased_person() {
    let app = by_person().start().await;
    http(&app, "ada", "Over HTTP").await;
    telegram_says(&app, 42, 1, "secret").await;
    link_telegram(&app, 100).await;
    assert!(app.lines(ADA).await.iter().any(|line| line.contains("in another chat (telegram)")));
    app.advance_to((NOW + 200) * 1000);
    http(&app, "ada", "/unlink").await;
    app.idle_as_time_passes().await;
    http(&app, "ada", "Alone").await;
    // A question that came to nothing.
    let code = code_in(&http(&app, "ada", "/link").await);
    telegram_says(&app, 42, 300, &format!("/link {code}")).await;
    telegram_says(&app, 42, 301, "/link yes").await;
    assert!(http(&app, "ada", "/link").await.contains("by telegram-42 on Telegram"));

    assert_eq!(erase(&app, "telegram-42").await.status, 200);
    for text in ["secret", "\"telegram-42", "in another chat (telegram)", "called “Ada” there"] {
        assert_eq!(items_with(&app, text).await, [""; 0], "{text}");
    }
    // The heads of their own chats stay for a day, without content.
    let left = items_with(&app, "telegram-42").await;
    assert!(left.iter().all(|pk| pk == TELEGRAM), "{left:?}");
    let left = app.lines(ADA).await;
    for said in [" user: Over HTTP", " user: Alone", "Your code is"] {
        assert!(left.iter().any(|line| line.contains(said)), "{said}: {left:?}");
    }
    app.finish().await;
}

/// Memory from a chat is forgotten with it, also if it moved to the memory of a linked person.
#[tokio::test]
async fn a_forgotten_chat_leaves_nothing_in_the_memory_of_a_linked_person() {
    let app = by_person().start().await;
    http(&app, "ada", "Over HTTP").await;
    telegram_says(&app, 42, 1, "In Telegram").await;
    remember(&app, &user("telegram-42"), TELEGRAM, &["Learned in Telegram."]).await;
    remember(&app, &user("ada"), ADA, &["Learned over HTTP."]).await;
    put_links(&app, "ada", &["telegram-42"]).await;
    assert_eq!(texts(&app, &user("ada")).await.len(), 2);
    assert_eq!(app.forget(TELEGRAM, OPS_KEY).await.body["removed"]["memories"], 1);
    assert_eq!(texts(&app, &user("ada")).await, [(1, "Learned over HTTP.".to_owned())]);
    app.finish().await;
}

/// Each request continues where the one before ended, however many chats there are.
#[tokio::test]
async fn an_erasure_continues_where_it_ended() {
    let world = World::with(&[("DM_SCOPE", "user")]).await;
    for number in 1..=35 {
        let chat = ChatKey::telegram(-number, None);
        let said = |id: u64, user: &str| Draft {
            user_id: user.into(),
            ..message(&chat, id, i64::try_from(id).unwrap() * 1000, "hello")
        };
        world.append(&said(1, "42")).await;
        world.append(&said(2, "43")).await;
    }
    let people = People::beside(&world.history);
    let person = Person::of(&people, "telegram-42").await.unwrap();
    let (mut requests, mut records) = (0, 0);
    loop {
        requests += 1;
        // Another process each time, whose time is over after its first chat.
        let history = world.another_process();
        world.advance(1);
        let deadline = world.clock.now().minus(Duration::from_secs(1));
        let count = async || {
            let mut count = 0;
            for number in 1..=35 {
                count += history.range(&ChatKey::telegram(-number, None), None).await.unwrap().len();
            }
            count
        };
        let before = count().await;
        let erased = person.erase(&history, &Agents::only("annals".into()), deadline, &mut Vec::new()).await;
        records += before - count().await;
        match erased {
            Ok(_) => break,
            Err(ForgetError::Unfinished { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        if requests == 2 {
            // It moves to the top of the list, which was walked already.
            let chat = ChatKey::telegram(-1, None);
            let late = Draft { user_id: "42".into(), ..message(&chat, 9, 9_000_000, "again") };
            world.append(&late).await;
        }
        assert!(requests < 120);
    }
    assert!(requests > 35, "{requests}");
    assert_eq!(records, 36, "after {requests} requests");
    assert_eq!(people.erasure("telegram-42").await.unwrap(), None);
    assert!(world.retention().lifetime() < A_LIFE);
}

/// An erasure that is stopped before any of its requests and repeated: nothing of the person is left, and all of the
/// others. A segment that was being stored is finished first.
#[tokio::test]
async fn an_erasure_that_was_stopped_anywhere_leaves_nothing_of_the_person_and_all_of_the_others() {
    let (mixed, theirs) = (ChatKey::telegram(-1, None), ChatKey::telegram(-2, None));
    let say = async |world: &World, chat: &ChatKey, id: u64, user: &str, text: &str| {
        let seconds = i64::try_from(id).unwrap() * 1000;
        world.append(&Draft { user_id: user.into(), ..message(chat, id, seconds, text) }).await;
    };
    let prepare = async || {
        let world = World::with(&[("DM_SCOPE", "user")]).await;
        say(&world, &mixed, 1, "42", "secret").await;
        say(&world, &mixed, 2, "43", "of bo").await;
        say(&world, &mixed, 3, "42", &"secret ".repeat(60_000)).await;
        say(&world, &theirs, 1, "42", "secret").await;
        for chat in [&mixed, &theirs] {
            archive_everything(&world.history, chat).await;
            for record in world.history.range(chat, None).await.unwrap() {
                expire(&world.stores, &record).await;
            }
        }
        world.advance(10 * 24 * 3600);
        say(&world, &theirs, 2, "43", "of bo").await;
        say(&world, &mixed, 4, "42", "secret").await;
        let broken_off = world.history_with(Faults::new(Plan::Before(8)));
        let lease = claim(&broken_off, &mixed).await;
        let all = ToArchive { sent_before: None, up_to: None, max_segments: usize::MAX };
        broken_off.archive_all(&lease, &all).await.unwrap_err();
        assert_eq!(
            (world.segment_objects("segments/").await.len(), world.objects("bodies/").await.len()),
            (3, 1)
        );
        assert_eq!(world.history.segments(&mixed).await.unwrap().len(), 1, "the second has no pointer yet");
        world.advance(120);
        let now = world.clock.now();
        (world.into_dir(), now)
    };
    let (dir, now) = prepare().await;
    let prepared = async || World::copy_of(dir.path(), now, &[("DM_SCOPE", "user")]).await;
    let erase_all = async |world: &World, history: History, person: &'static str| {
        let erasing = async move {
            let person = Person::of(&People::beside(&history), person).await?;
            person.erase(&history, &Agents::only("annals".into()), Timestamp::MAX, &mut Vec::new()).await
        };
        passing(&world.clock, Duration::from_millis(100), Box::pin(erasing)).await
    };
    let erase = async |world: &World, history: History| erase_all(world, history, "telegram-42").await;
    let requests = {
        let world = prepared().await;
        let (history, requests) = world.counted();
        let removed = erase(&world, history).await.unwrap();
        assert_eq!((removed.chats, removed.records, removed.archived), (0, 1, 4), "{removed:?}");
        requests.requests()
    };
    // The first read the list of chats and no more. Of the others each fourth, since all would take minutes.
    for at in (17..=requests).step_by(4) {
        let what = format!("before {at} of {requests}");
        let world = prepared().await;
        erase(&world, world.history_with(Faults::new(Plan::Before(at)))).await.unwrap_err();
        for chat in [&mixed, &theirs] {
            let left = listed(&world.another_process(), chat, 50).await;
            assert!(left.iter().any(|record| record.message.plain_text() == "of bo"), "{what}");
        }
        world.advance(120);
        erase(&world, world.another_process()).await.unwrap_or_else(|error| panic!("{what}: {error}"));
        for chat in [&mixed, &theirs] {
            let left = listed(&world.another_process(), chat, 50).await;
            let left: Vec<_> = left.iter().map(|record| record.message.plain_text()).collect();
            assert_eq!(left, ["of bo"], "{what}");
        }
        let segments = world.another_process().segments(&mixed).await.unwrap();
        assert_eq!(segments.iter().map(|info| info.count).collect::<Vec<_>>(), [1], "{what}");
        assert_eq!(world.another_process().segments(&theirs).await.unwrap(), [], "{what}");
        let objects = world.objects("").await;
        let [segment, index] = &objects[..] else { panic!("{what}: {objects:?}") };
        assert_eq!(*index, format!("{segment}.index"), "{what}");
        // They come again. Each was the last of its segment, one of them alone.
        for id in [3, 4] {
            say(&world, &mixed, id, "42", "again").await;
        }
        say(&world, &mixed, 5, "43", "of bo").await;
        archive_everything(&world.another_process(), &mixed).await;
        let archived: Vec<_> = archived(&world.another_process(), &mixed).await.into_values().collect();
        let archived: Vec<_> = archived.iter().map(|record| record.message.plain_text()).collect();
        assert_eq!(archived, ["of bo", "again", "again", "of bo"], "{what}");
        // The last record of a segment that is left is one that was erased before.
        erase_all(&world, world.another_process(), "telegram-43").await.unwrap();
        let left = listed(&world.another_process(), &mixed, 50).await;
        assert_eq!(left.iter().map(|record| record.message.plain_text()).collect::<Vec<_>>(), ["again"; 2]);
    }
}
