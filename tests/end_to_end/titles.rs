//! Titles of chats: by their platforms, by their first words, or by an admin.

use std::time::Duration;

use annals_core::agents::Agents;
use annals_core::sort_key::Timestamp;
use annals_engine::forgetting::forget;
use annals_test_support::lark_api::Trouble;
use annals_test_support::telegram_api::BOT_USERNAME;
use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{APP_KEY, Answer, OPS_KEY, TestApp, chat_path, passing};
use crate::discord::{DiscordApp, ask, direct};
use crate::lark::{GROUP, LarkApp, P2P, mentioning, text};
use crate::memory::call;
use crate::updates::{Update, channel_post, group, private, supergroup};
use crate::world::World;

const CLUB: i64 = -1_002_000_300_800;

fn path_of(chat: &str) -> String {
    chat_path(chat, "").trim_end_matches('/').to_owned()
}

/// Returns the title of `chat`, which its entry and the list agree on.
async fn title(app: &TestApp, chat: &str) -> Value {
    let list = app.get("/v1/chats").await;
    let listed = list["chats"].as_array().unwrap().iter().find(|listed| listed["chatKey"] == chat);
    let title = listed.unwrap_or_else(|| panic!("{chat} is not in {list}"))["title"].clone();
    assert_eq!(app.get(&path_of(chat)).await["title"], title);
    title
}

async fn retitle(app: &TestApp, chat: &str, body: Value) -> Answer {
    call(app, Method::PATCH, &path_of(chat), OPS_KEY, Some(body)).await
}

fn named(update: Update, title: &str) -> Update {
    update.with("chat", json!({"id": CLUB, "type": "supergroup", "title": title}))
}

#[tokio::test]
async fn telegram_names_groups_channels_people_and_topics() {
    let app = TestApp::start().await;
    let club = format!("telegram:chat:{CLUB}");
    // Nobody asks the bot: no run has noted it.
    app.receive(named(supergroup(CLUB, 1, "hi"), "Book\n\u{202e}club \u{0}")).await;
    assert_eq!(title(&app, &club).await, "Book club");
    app.handle(named(supergroup(CLUB, 2, "@annals_test_bot hi").mention(), "Readers")).await;
    assert_eq!(title(&app, &club).await, "Readers");
    let renamed = named(supergroup(CLUB, 3, "").without("text"), "Writers");
    app.receive(renamed.with("new_chat_title", json!("Writers"))).await;
    assert_eq!(title(&app, &club).await, "Writers");

    app.receive(channel_post(-7, 4, "sold out")).await;
    assert_eq!(title(&app, "telegram:chat:-7").await, "Harvest News");
    app.handle(private(42, 5, "hello")).await;
    assert_eq!(title(&app, "telegram:chat:42").await, "Ada");

    let in_topic = |update: Update| {
        let created = json!({"message_id": 17, "date": 1, "chat": {"id": CLUB, "type": "supergroup"},
            "forum_topic_created": {"name": "Plans", "icon_color": 1}});
        let update = update.with("message_thread_id", json!(17)).with("is_topic_message", json!(true));
        named(update, "Writers").with("reply_to_message", created)
    };
    let topic = format!("{club}:topic:17");
    app.handle(in_topic(supergroup(CLUB, 18, "@annals_test_bot when?")).mention()).await;
    assert_eq!(title(&app, &topic).await, "Writers / Plans");
    // A topic is a chat of its own, and is answered there.
    let reply = "18/reply assistant: You said: Ada: @annals_test_bot when?";
    assert_eq!(app.lines(&topic).await, ["18 user: @annals_test_bot when?", reply]);
    assert_eq!((app.last_sent().reply_to, app.last_sent().thread_id), (Some(18), Some(17)));
    let edited = in_topic(supergroup(CLUB, 19, "").without("text"));
    app.receive(edited.with("forum_topic_edited", json!({"name": "Done"}))).await;
    for id in 20..30 {
        // Each still replies to the topic's creation, by its first name, and soon the rename is no more in view.
        app.handle(in_topic(supergroup(CLUB, id, "@annals_test_bot and now?")).mention()).await;
    }
    assert_eq!(title(&app, &topic).await, "Writers / Done");
    assert_eq!(title(&app, &club).await, "Writers");
    app.finish().await;
}

#[tokio::test]
async fn a_chat_without_a_name_is_called_by_its_first_words() {
    let app = TestApp::builder().start().await;
    app.say("c1", &json!({"userId": "ada", "text": "\n  Where is \u{7}the boat?\nAnd the oars?"})).await;
    for number in 0..5 {
        app.say("c1", &json!({"userId": "ada", "text": format!("again {number}")})).await;
    }
    assert_eq!(title(&app, "http:chat:app:c1").await, "Where is the boat?");
    let long = "grapes ".repeat(40);
    app.say("c2", &json!({"userId": "ada", "text": long})).await;
    let short = title(&app, "http:chat:app:c2").await.as_str().unwrap().to_owned();
    assert!(short.starts_with("grapes grapes") && short.ends_with('…'), "{short}");
    assert!(short.chars().count() <= 60, "{short}");
    let room = json!({"id": "room", "message": {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "北京在哪里?"}]}});
    let answer =
        app.request(Method::POST, "/api/chat").bearer_auth(APP_KEY).json(&room).send().await.unwrap();
    assert!(answer.text().await.unwrap().contains("北京"));
    app.idle().await;
    assert_eq!(title(&app, "web:room:app:room").await, "北京在哪里?");
    // A command is not the first word.
    app.say("c3", &json!({"userId": "ada", "text": "/new Tomatoes"})).await;
    assert_eq!(title(&app, "http:chat:app:c3").await, "Tomatoes");
    app.finish().await;
}

#[tokio::test]
async fn lark_is_asked_for_a_groups_name_once_a_day_and_may_fail() {
    let it = LarkApp::start().await;
    let garden = format!("lark:chat:{GROUP}");
    let said = |id: &str, seconds| mentioning(text(id, GROUP, "@_user_1 frost?", seconds));
    let asked = || it.lark.codes("chat").len();
    it.lark.trouble(GROUP, Trouble::Unknown);
    it.handle(&said("om_1", 0)).await;
    assert_eq!(asked(), 1);
    assert_eq!(title(&it.app, &garden).await, "@Annals frost?", "the first words until Lark tells the name");
    assert_eq!(it.sent().len(), 1, "the answer does not depend on it");

    it.lark.restore(GROUP);
    it.lark.edit(|store| store.names.insert(GROUP.into(), "Garden\u{202e} friends".into()));
    it.handle(&said("om_2", 1)).await;
    assert_eq!(asked(), 1, "a day has not passed");
    it.app.clock().advance(Duration::from_hours(25));
    it.handle(&said("om_3", 25 * 3600)).await;
    assert_eq!(title(&it.app, &garden).await, "Garden friends");
    it.handle(&text("om_4", P2P, "hello\nyou", 25 * 3600)).await;
    assert_eq!(asked(), 2, "a private chat has no name");
    assert_eq!(title(&it.app, &format!("lark:chat:{P2P}")).await, "hello");
    it.app.finish().await;
}

#[tokio::test]
async fn discord_names_channels_in_interactions() {
    let it = DiscordApp::start().await;
    let mut call = ask("hello", 0);
    call["channel"]["name"] = json!("general");
    it.handle(&call).await;
    let channel = it.app.get("/v1/chats").await["chats"][0]["chatKey"].as_str().unwrap().to_owned();
    assert_eq!(title(&it.app, &channel).await, "general");
    it.handle(&direct(ask("hello you", 1))).await;
    assert_eq!(title(&it.app, &format!("agent:annals:user:{}", crate::discord::ADA)).await, "Ada");
    it.app.finish().await;
}

#[tokio::test]
async fn an_admin_gives_a_title_and_takes_it_back() {
    let app = TestApp::start().await;
    app.handle(group(-42, 1, &format!("@{BOT_USERNAME} hi")).mention()).await;
    let chat = "telegram:chat:-42";
    let given = retitle(&app, chat, json!({"title": " The \u{202e}beds "})).await;
    assert_eq!((given.status.as_u16(), &given.body["title"]), (200, &json!("The beds")));
    app.handle(group(-42, 2, &format!("@{BOT_USERNAME} hi")).mention()).await;
    assert_eq!(title(&app, chat).await, "The beds");

    for bad in [json!(""), json!("\u{200b} "), json!("x".repeat(129)), json!(1)] {
        retitle(&app, chat, json!({ "title": bad })).await.assert_problem(400, "bad-title");
    }
    retitle(&app, chat, json!({})).await.assert_problem(400, "bad-body");
    retitle(&app, "telegram:chat:-43", json!({"title": "x"})).await.assert_problem(404, "no-such-chat");
    app.say("c1", &json!({"userId": "ada", "text": "hi"})).await;
    let own = call(&app, Method::PATCH, &path_of("c1"), APP_KEY, Some(json!({"title": "x"}))).await;
    own.assert_problem(403, "forbidden");

    // The group moves, and keeps both titles.
    let moved = group(-42, 3, "").without("text").with("migrate_to_chat_id", json!(-100_142));
    app.receive(moved.clone()).await;
    app.receive(moved).await;
    let new = "telegram:chat:-100142";
    assert_eq!(app.get(&path_of(chat)).await["title"], "The beds");
    assert_eq!(title(&app, new).await, "The beds");
    assert_eq!(retitle(&app, chat, json!({"title": null})).await.body["title"], "Allotment");
    assert_eq!(title(&app, new).await, "Allotment");

    // And nothing of it is left in a chat that was forgotten.
    retitle(&app, new, json!({"title": "The beds"})).await;
    assert_eq!(app.forget(new, OPS_KEY).await.status, 200);
    retitle(&app, new, json!({"title": "The beds"})).await.assert_problem(404, "no-such-chat");
    let said = supergroup(-100_142, 9, "@annals_test_bot hi").mention();
    app.handle(said.with("chat", json!({"id": -100_142, "type": "supergroup"}))).await;
    assert_eq!(title(&app, new).await, "@annals_test_bot hi");
    app.finish().await;
}

/// The title of a chat of several people may be words of one of them.
#[tokio::test]
async fn erasing_a_person_erases_a_title_in_their_words() {
    let app = TestApp::builder().start().await;
    app.say("c1", &json!({"userId": "ada", "text": "Ada's secret"})).await;
    app.say("c1", &json!({"userId": "bob", "text": "Bob's question"})).await;
    assert_eq!(title(&app, "http:chat:app:c1").await, "Ada's secret");
    let erased = Box::pin(app.call(Method::DELETE, "/v1/people/app%2Fada", OPS_KEY));
    assert_eq!(app.as_time_passes(erased).await.status, 200);
    assert_ne!(title(&app, "http:chat:app:c1").await, "Ada's secret");
    app.clock().advance(Duration::from_secs(1));
    app.say("c1", &json!({"userId": "bob", "text": "and now?"})).await;
    let title = title(&app, "http:chat:app:c1").await;
    assert!(!title.to_string().contains("secret"), "{title}");
    app.finish().await;
}

/// The cost is in `budgets.rs` and `due.rs`: the title goes with the writes of a turn and of a visit.
#[tokio::test]
async fn a_title_that_comes_while_its_chat_is_deleted_is_deleted_with_it() {
    let world = World::new().await;
    let asked = world.hear(0, "hello", true).await;
    world.run(&asked).await;
    let agents = Agents::only("annals".into());
    let deletion = Box::pin(forget(&world.history, &agents, &world.chat, Timestamp::MAX));
    let titles = async {
        let give = async || world.another_process().give_title(&world.chat, Some("late")).await;
        let mut given = 0;
        while give().await.is_ok_and(|is_there| is_there) {
            given += 1;
            tokio::task::yield_now().await;
        }
        given
    };
    let deletion = passing(&world.clock, Duration::from_millis(100), deletion);
    let (given, deleted) = tokio::join!(titles, deletion);
    assert!(given > 0, "no title came before the messages were gone");
    assert_eq!(deleted.unwrap().records, 2);
    assert!(!world.history.give_title(&world.chat, Some("late")).await.unwrap());
    assert_eq!(world.history.head(&world.chat).await.unwrap().given_title, None);
}
