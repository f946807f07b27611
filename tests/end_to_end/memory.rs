//! Memory: people see, correct and forget their own entries, over HTTP, by commands in each channel, and in
//! the terminal.

use annals_core::memory::validity::valid;
use annals_core::memory::{EntryKind, Finding, Owner, Source};
use annals_core::record::Record;
use annals_core::sort_key::{MessageId, SortKey, Timestamp};
use annals_core::testing::summary;
use annals_store::memory::{Captured, Memory};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::app::{APP_KEY, Answer, NOW, OPS_KEY, TestApp};
use crate::turns::assert_has;
use crate::updates::{Update, group, private};

const OTHER_KEY: &str = "other-secret";

pub(crate) fn findings(texts: &[impl AsRef<str>]) -> Vec<Finding> {
    texts.iter().map(|text| Finding::new(EntryKind::Fact, text.as_ref().into())).collect()
}

/// The stretch of `chat` that ends with message `to`.
pub(crate) fn source(chat: &str, to: u64) -> Source {
    let (from, to) = (MessageId::number(1), MessageId::number(to));
    let ts = Timestamp::from_secs(NOW);
    Source {
        session: Source::session_id(&chat.parse().unwrap(), ts),
        chat: chat.parse().unwrap(),
        from: SortKey::message(ts, &from),
        to: SortKey::message(ts, &to),
        from_id: from,
        to_id: to,
    }
}

pub(crate) fn user(person: &str) -> Owner {
    Owner::User(person.into())
}

pub(crate) fn memory_of(app: &TestApp) -> Memory {
    Memory::beside(&app.open_history())
}

/// Stores `texts` as what was found in a session of `chat`.
pub(crate) async fn remember(app: &TestApp, owner: &Owner, chat: &str, texts: &[&str]) {
    let captured = memory_of(app).capture(owner, &source(chat, 9), &findings(texts)).await.unwrap();
    assert_eq!(captured, Captured::Stored(texts.len()));
}

pub(crate) async fn texts(app: &TestApp, owner: &Owner) -> Vec<(u32, String)> {
    let memory = memory_of(app);
    let list = valid(memory.list(owner).await.unwrap(), memory.now());
    list.into_iter().map(|kept| (kept.number, kept.entry.text)).collect()
}

pub(crate) async fn call(
    app: &TestApp,
    method: Method,
    path: &str,
    key: &str,
    body: Option<Value>,
) -> Answer {
    let request = app.request(method, path).bearer_auth(key);
    Answer::of(if let Some(body) = body { request.json(&body) } else { request }).await
}

pub(crate) async fn list(app: &TestApp, query: &str, key: &str) -> Vec<Value> {
    let answer = call(app, Method::GET, &format!("/v1/memory?{query}"), key, None).await;
    assert_eq!(answer.status, StatusCode::OK, "{query}");
    answer.body["memories"].as_array().unwrap().clone()
}

#[tokio::test]
async fn the_routes_list_correct_and_delete() {
    let app = TestApp::builder().start().await;
    remember(&app, &user("app/ada"), "http:chat:app:c1", &["Likes tea.", "喜欢喝茶"]).await;
    let memories = list(&app, "userId=ada", APP_KEY).await;
    let first = &memories[0];
    let id = first["id"].as_str().unwrap().to_owned();
    let session = source("http:chat:app:c1", 9).session;
    assert_eq!(
        *first,
        json!({
            "id": id, "number": 1, "type": "fact", "state": "valid", "validFrom": NOW * 1000, "scope": "user", "userId": "ada", "text": "Likes tea.",
            "markdown": first["markdown"],
            "source": {"chatKey": "http:chat:app:c1", "fromId": "1", "toId": "9"},
            "sessionId": session, "createdAt": NOW * 1000,
        })
    );
    let markdown = first["markdown"].as_str().unwrap();
    assert!(markdown.starts_with("---\ntype: fact\nscope: user\nperson: \"app/ada\"\n"), "{markdown}");
    assert_eq!(list(&app, "userId=app/ada", OPS_KEY).await[0]["userId"], "app/ada");

    let path = format!("/v1/memory/{id}");
    let put = async |body: Value| call(&app, Method::PUT, &path, APP_KEY, Some(body)).await;
    let corrected = put(json!({"text": " Likes coffee. "})).await;
    assert_eq!((corrected.status, &corrected.body["text"]), (StatusCode::OK, &json!("Likes coffee.")));
    assert_eq!(corrected.body["updatedAt"], NOW * 1000);
    let markdown = corrected.body["markdown"].as_str().unwrap().replace("type: fact", "type: preference");
    let corrected =
        put(json!({"markdown": markdown.replace("coffee", "cocoa").replace("app/ada", "app/bo")})).await;
    assert_eq!(corrected.status, StatusCode::OK);
    assert_eq!(list(&app, "userId=ada", APP_KEY).await[0], corrected.body);
    assert_eq!(corrected.body["type"], "preference");
    assert_eq!(texts(&app, &user("app/ada")).await[0], (1, "Likes cocoa.".to_owned()));
    assert_eq!(texts(&app, &user("app/bo")).await, []);

    // An entry as it is listed, unchanged or with one of its two texts changed.
    let listed = list(&app, "userId=ada", APP_KEY).await[0].clone();
    let with = |field: &str, old: &str, new: &str| {
        let mut entry = listed.clone();
        entry[field] = entry[field].as_str().unwrap().replace(old, new).into();
        entry
    };
    for (entry, text) in [
        (listed.clone(), "Likes cocoa."),
        (with("text", "cocoa", "milk"), "Likes milk."),
        (with("markdown", "cocoa", "water"), "Likes water."),
    ] {
        put(json!({"text": "Likes cocoa."})).await;
        let corrected = put(entry).await;
        assert_eq!((corrected.status, &corrected.body["text"]), (StatusCode::OK, &json!(text)));
        assert_eq!(corrected.body["type"], "preference");
    }
    let mut both = with("text", "cocoa", "milk");
    both["markdown"] = "Likes water.".into();
    let refused = put(both).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(refused.body["detail"].as_str().unwrap().contains("both"), "{}", refused.body);

    for bad in [
        json!({}),
        json!({"text": ""}),
        json!({"text": 5}),
        json!({"text": "x", "markdown": "y"}),
        json!({"text": "x".repeat(4001)}),
        json!({"markdown": "---\ntype: fact"}),
        json!([]),
    ] {
        let answer = put(bad.clone()).await;
        let told = (answer.status, answer.content_type.as_str());
        assert_eq!(told, (StatusCode::BAD_REQUEST, "application/problem+json"), "{bad}");
    }
    for query in ["", "?userId=ada&chatKey=c1", "?userId=", "?chatKey=", "?userId=a&userId=b"] {
        let answer = call(&app, Method::GET, &format!("/v1/memory{query}"), APP_KEY, None).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{query}");
    }

    let delete = async || call(&app, Method::DELETE, &path, APP_KEY, None).await;
    assert_eq!(delete().await.status, StatusCode::NO_CONTENT);
    delete().await.assert_problem(404, "no-entry");
    assert_eq!(put(json!({"text": "back"})).await.status, StatusCode::NOT_FOUND);
    assert_eq!(texts(&app, &user("app/ada")).await, [(2, "喜欢喝茶".to_owned())]);
    app.finish().await;
}

#[tokio::test]
async fn nobody_can_read_or_change_the_entries_of_others() {
    let app = TestApp::builder().start().await;
    remember(&app, &user("app/ada"), "http:chat:app:c1", &["Ada's"]).await;
    remember(&app, &user("telegram-42"), "telegram:chat:42", &["of 42"]).await;
    let chat = Owner::Chat("http:chat:app:c1".parse().unwrap());
    remember(&app, &chat, "http:chat:app:c1", &["of c1"]).await;
    let id = list(&app, "userId=ada", APP_KEY).await[0]["id"].as_str().unwrap().to_owned();
    let of_chat = list(&app, "chatKey=c1", APP_KEY).await;
    assert_eq!((of_chat.len(), &of_chat[0]["chatKey"]), (1, &json!("http:chat:app:c1")));
    assert_eq!(list(&app, "chatKey=http:chat:app:c1", OPS_KEY).await, of_chat);
    let chat_id = of_chat[0]["id"].as_str().unwrap().to_owned();

    // Whatever another key says, it speaks of its own people and conversations.
    for query in
        ["userId=ada", "userId=app/ada", "userId=telegram-42", "chatKey=c1", "chatKey=http:chat:app:c1"]
    {
        assert_eq!(list(&app, query, OTHER_KEY).await, [Value::Null; 0], "{query}");
    }
    assert_eq!(list(&app, "userId=telegram-42", APP_KEY).await, [Value::Null; 0]);
    assert_eq!(list(&app, "userId=bo", APP_KEY).await, [Value::Null; 0]);
    let unknown = call(&app, Method::DELETE, "/v1/memory/bm9uZQ", OTHER_KEY, None).await;
    for path in [format!("/v1/memory/{id}"), format!("/v1/memory/{chat_id}")] {
        for (method, body) in [(Method::PUT, Some(json!({"text": "x"}))), (Method::DELETE, None)] {
            let answer = call(&app, method, &path, OTHER_KEY, body).await;
            // Not even whether there is such an entry.
            assert_eq!((answer.status, answer.unnamed()), (StatusCode::NOT_FOUND, unknown.unnamed()));
        }
        assert_eq!(app.request(Method::DELETE, &path).send().await.unwrap().status(), 401);
    }
    assert_eq!(texts(&app, &user("app/ada")).await, [(1, "Ada's".to_owned())]);
    assert_eq!(call(&app, Method::DELETE, &format!("/v1/memory/{id}"), OPS_KEY, None).await.status, 204);
    app.finish().await;
}

/// Returns the bot's answer to each of `commands`, posted twice with a restart in between.
async fn told(app: &mut TestApp, commands: &[Update]) -> Vec<String> {
    let before = app.telegram_api().sent().len();
    for command in commands {
        app.receive(command).await;
        app.receive(command).await;
        app.restart().await;
        app.receive(command).await;
    }
    app.telegram_api().sent()[before..].iter().map(|sent| sent.text.clone()).collect()
}

#[tokio::test]
async fn telegram_people_see_and_forget_their_own() {
    let mut app = TestApp::start().await;
    remember(&app, &user("telegram-42"), "telegram:chat:42", &["Lives in Bergen.", "喜欢喝茶", "Gardens."])
        .await;
    remember(&app, &user("telegram-43"), "telegram:chat:43", &["Another's."]).await;
    let in_group = Owner::Chat("telegram:chat:-42".parse().unwrap());
    remember(&app, &in_group, "telegram:chat:-42", &["The group's."]).await;

    let all = "What I remember about you:\n\n#1 Lives in Bergen. (fact; here, 2025-11-21)\n#2 喜欢喝茶 (fact; here, 2025-11-21)\n#3 Gardens. (fact; here, 2025-11-21)\n\n\
               To forget one: /forget and its number";
    assert_eq!(told(&mut app, &[private(42, 1, "/memory").command()]).await, [all]);
    assert_eq!(told(&mut app, &[private(42, 2, "/forget 2").command()]).await, ["Forgotten: number 2."]);
    let which = "Which one? Say /forget and its number in the list of /memory, such as /forget 2.";
    let unknown = format!("There is no number 4 in the list of /memory. {which}");
    let commands = [(3, "/forget"), (4, "/forget tea"), (5, "/forget 4"), (6, "/Memory@annals_test_bot 1")];
    let first = "What I remember about you:\n\n#1 Lives in Bergen. (fact; here, 2025-11-21)\n\nTo forget one: /forget and its number";
    assert_eq!(
        told(&mut app, &commands.map(|(id, text)| private(42, id, text).command())).await,
        [which, which, &unknown, first]
    );
    // Numbers stay: what was 3 is 3.
    let kept = [(1, "Lives in Bergen.".to_owned()), (3, "Gardens.".to_owned())];
    assert_eq!(texts(&app, &user("telegram-42")).await, kept);
    let list = "What I remember about this group:\n\n#1 The group's. (fact; here, 2025-11-21)\n\nTo forget one: /forget and its number";
    let commands = [group(-42, 7, "/memory").command(), group(-42, 8, "/forget 1").command()];
    assert_eq!(told(&mut app, &commands).await, [list, "Forgotten: number 1."]);
    assert_eq!(texts(&app, &in_group).await, []);
    assert_eq!(texts(&app, &user("telegram-42")).await, kept);
    assert_eq!(texts(&app, &user("telegram-43")).await.len(), 1);

    let of_business = private(42, 9, "/memory").command().kind("business_message");
    app.receive(of_business.with("business_connection_id", json!("bc"))).await;
    assert_eq!(app.last_sent().text, "What is said here is not kept in memory.");
    // Recorded like any command, and in no context.
    let recorded = ["1 user notice: /memory", &format!("1/notice assistant notice: {all}")];
    assert_eq!(app.lines("telegram:chat:42").await[..2], recorded);
    assert_eq!(app.context("telegram:chat:42").await, [Value::Null; 0]);
    assert_eq!(app.model().count(), 0);
    app.finish().await;
}

#[tokio::test]
async fn a_redelivered_forget_forgets_once_whenever_it_was_cut_off() {
    let app = TestApp::builder().telegram().refusals_are_fine().start().await;
    let owner = user("telegram-42");
    remember(&app, &owner, "telegram:chat:42", &["one", "two", "three"]).await;
    let update: Value = private(42, 1, "/forget 2").command().into();
    // It has acted, and the person is not told.
    app.telegram_api().fail(3, 502);
    assert_eq!(app.as_time_passes(app.telegram(&update)).await, 503);
    let left = [(1, "one".to_owned()), (3, "three".to_owned())];
    assert_eq!(texts(&app, &owner).await, left);
    app.receive(update.clone()).await;
    app.receive(update).await;
    assert_eq!(app.sent_texts(), ["Forgotten: number 2."]);
    assert_eq!(texts(&app, &owner).await, left);
    // What is remembered later takes a number of its own.
    memory_of(&app).capture(&owner, &source("telegram:chat:42", 10), &findings(&["four"])).await.unwrap();
    assert_eq!(texts(&app, &owner).await.last().unwrap(), &(4, "four".to_owned()));
    app.finish().await;
}

#[tokio::test]
async fn a_group_keeps_its_memory_when_it_moves() {
    let mut app = TestApp::start().await;
    let before = Owner::Chat("telegram:chat:-42".parse().unwrap());
    remember(&app, &before, "telegram:chat:-42", &["The group's."]).await;
    app.receive(group(-42, 1, "").without("text").with("migrate_to_chat_id", json!(-100_123))).await;
    let said = told(&mut app, &[group(-100_123, 2, "/memory").command()]).await;
    assert!(said[0].contains("#1 The group's."), "{said:?}");
    assert_eq!(list(&app, "chatKey=telegram:chat:-100123", OPS_KEY).await.len(), 1);
    app.finish().await;
}

/// Returns the answer to `text` in a conversation of the key `app`.
async fn said(app: &TestApp, chat: &str, user: &str, id: &str, text: &str) -> String {
    let answer = app.ask(chat, APP_KEY, &json!({"userId": user, "messageId": id, "text": text})).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    answer.reply_text()
}

#[tokio::test]
async fn over_http_a_conversation_of_several_people_shows_nobodys_entries() {
    let app = TestApp::builder().start().await;
    remember(&app, &user("app/ada"), "http:chat:app:c1", &["Ada's first", "Ada's second"]).await;
    remember(&app, &user("app/bo"), "http:chat:app:c2", &["Bo's first"]).await;
    let list = said(&app, "c1", "ada", "m1", "/memory").await;
    assert_has(&list, &["#1 Ada's first (fact; here, 2025-11-21)\n#2 Ada's second"]);
    assert!(said(&app, "c2", "bo", "m1", "/memory").await.contains("#1 Bo's first"));
    assert_eq!(said(&app, "c1", "ada", "m2", "/forget 1").await, "Forgotten: number 1.");
    app.clock().advance(std::time::Duration::from_secs(1));
    said(&app, "c1", "bo", "m3", "hello").await;
    app.clock().advance(std::time::Duration::from_secs(1));
    for (user, id) in [("bo", "m4"), ("ada", "m5")] {
        assert_eq!(said(&app, "c1", user, id, "/memory").await, "I remember nothing about this group yet.");
    }
    assert!(said(&app, "c1", "ada", "m6", "/forget 2").await.starts_with("There is no number 2"));
    // A repeat of what was said before the other came means what it meant then.
    assert_eq!(said(&app, "c1", "ada", "m2", "/forget 1").await, "Forgotten: number 1.");
    assert_eq!(texts(&app, &user("app/ada")).await, [(2, "Ada's second".to_owned())]);
    assert_eq!(texts(&app, &user("app/bo")).await.len(), 1);

    // An admin who speaks as somebody else in a person's own chat is not that person.
    let direct = json!({"userId": "ada", "text": "/memory", "messageId": "d1"});
    let own = app.post("/v1/messages?wait=20", APP_KEY, &direct).await;
    assert!(own.reply_text().contains("Ada's second"));
    // A summary without a person hides nobody in her own chat.
    let command = app.records("agent:annals:user:app/ada").await.swap_remove(0);
    let source = summary(0, &[&command], None).source().unwrap().clone();
    let beside = Record { person: None, ..command };
    app.open_history().append_summary(&beside, "annals", "s", source, Timestamp::MIN).await.unwrap();
    app.clock().advance(std::time::Duration::from_secs(1));
    let later = json!({"userId": "ada", "text": "/memory", "messageId": "d3"});
    let own = app.post("/v1/messages?wait=20", APP_KEY, &later).await;
    assert!(own.reply_text().contains("Ada's second"), "{}", own.body);
    let other = json!({"userId": "ops", "text": "/memory", "messageId": "d2"});
    let other = app.ask("agent:annals:user:app/ada", OPS_KEY, &other).await;
    assert_eq!(other.reply_text(), "I remember nothing about this group yet.");
    app.finish().await;
}
