//! `annals import`: other programs' histories, into histories that may know some of it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use annals_channel::settings::{DmScope, GroupActivation, Settings};
use annals_core::record::{Kind, Record};
use annals_core::settings::from_table;
use annals_core::sort_key::{SortKey, Timestamp};
use annals_engine::settings::ViewConfig;
use annals_local::import::{Options, import};
use annals_store::history::{History, Imported, MAX_PAGE, Search, ToImport};
use annals_test_support::exports;
use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{APP_KEY, OPS_KEY, TestApp, a_while, chat_path};
use crate::faults::Plan;
use crate::turns::assert_has;
use crate::updates::{START, private};
use crate::world::{self, A_LIFE, World, archive_everything, at_each_request};

const CHAT: &str = "telegram:chat:42";
/// The bot's user id; [`telegram_api`](annals_test_support::telegram_api)'s.
const BOT: i64 = annals_test_support::telegram_api::BOT_ID;

/// Returns options of an import into `chat`, or into the chats that the file names.
pub(crate) fn options(chat: Option<&str>) -> Options {
    let settings = Settings {
        agent_id: "annals".into(),
        group_activation: GroupActivation::Always,
        dm_scope: DmScope::Chat,
        language: None,
    };
    let view = from_table(&[], ViewConfig::from_env).unwrap();
    let admin_keys = Some(vec!["ops".to_owned()]);
    let (chat, now) = (chat.map(|chat| chat.parse().unwrap()), Timestamp::from_millis(world::START).unwrap());
    Options { chat, now, bot: Some(BOT), admin_keys, settings, view }
}

/// Imports a file of this content; returns the command's output.
async fn imported(history: &History, content: &str, options: &Options) -> String {
    let (dir, mut out) = (tempfile::tempdir().unwrap(), Vec::new());
    import(history, &[file(dir.path(), "talk", content)], options, &mut out).await.unwrap();
    String::from_utf8(out).unwrap()
}

fn file(dir: &Path, name: &str, content: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, content).unwrap();
    path
}

/// Returns the error of a file of this name and content, with its causes.
async fn refused(history: &History, name: &str, content: &str, options: &Options) -> String {
    let (dir, mut out) = (tempfile::tempdir().unwrap(), Vec::new());
    let error = import(history, &[file(dir.path(), name, content)], options, &mut out).await.unwrap_err();
    assert_eq!(out, b"", "nothing is half-said");
    format!("{error:#}")
}

async fn listed(history: &History, chat: &str) -> Vec<Value> {
    let records = world::listed(history, &chat.parse().unwrap(), MAX_PAGE).await;
    records.iter().map(|record| json!(record.listed())).collect()
}

async fn lines(history: &History, chat: &str) -> Vec<String> {
    crate::app::lines(&listed(history, chat).await)
}

fn jsonl<'a>(messages: impl IntoIterator<Item = &'a Value>) -> String {
    messages.into_iter().map(Value::to_string).collect::<Vec<_>>().join("\n")
}

/// Everything that is stored of a chat beside what a claim counts.
async fn stored(history: &History, chat: &str) -> String {
    let chat = chat.parse().unwrap();
    format!("{:?} {:?}", history.range(&chat, None).await.unwrap(), history.head(&chat).await.unwrap())
}

fn said(id: i64, date: i64, from: i64, text: &str) -> Value {
    json!({"id": id, "type": "message", "date": "2025-11-21T23:58:41", "date_unixtime": date.to_string(),
        "from": if from == BOT { "Annals" } else { "Ada" }, "from_id": format!("user{from}"), "text": text, "text_entities": []})
}

fn with(mut message: Value, fields: Value) -> Value {
    let Value::Object(fields) = fields else { panic!("fields are an object") };
    message.as_object_mut().unwrap().extend(fields);
    message
}

fn bot_chat(messages: &[Value]) -> String {
    format!("{:#}", json!({"name": "Annals", "type": "bot_chat", "id": BOT, "messages": messages}))
}

/// Years ago.
const THEN: i64 = 1_600_000_000;

fn old_talk() -> Vec<Value> {
    let edited = (THEN + 90).to_string();
    let cat = json!({"photo": "photos/cat.jpg", "edited_unixtime": edited, "reply_to_message_id": 2});
    vec![
        said(1, THEN, 42, "/start"),
        with(
            said(2, THEN + 1, BOT, ""),
            json!({"text": ["Hello ", {"type": "bold", "text": "Ada 🎉"}, "!"]}),
        ),
        with(said(3, THEN + 60, 42, "my cat"), cat),
        with(said(4, THEN + 61, 42, ""), json!({"file": "voice.ogg", "media_type": "voice_message"})),
        json!({"id": 5, "type": "service", "date_unixtime": (THEN + 62).to_string(), "actor": "Ada", "actor_id": "user42",
            "action": "pin_message", "message_id": 2, "text": ""}),
        with(said(6, THEN + 63, 42, "news"), json!({"forwarded_from": "Bob"})),
        json!({"id": 7, "type": "unsupported"}),
    ]
}

const OLD_TALK: [&str; 6] = [
    "1 user: /start",
    "2 assistant: Hello Ada 🎉!",
    "3 user: my cat\n[photo: photos/cat.jpg]",
    "4 user: [voice message: voice.ogg]",
    "5 user event: [Ada: pin message]",
    "6 user: news",
];

#[tokio::test]
async fn an_export_twice_is_one_history_that_nobody_answers_and_nobody_loses() {
    let app = TestApp::start().await;
    let history = &app.open_history();
    let export = bot_chat(&old_talk());
    let first = imported(history, &export, &options(None)).await;
    let left_out = "left out: 1 message that Telegram Desktop could not export";
    assert_eq!(first, format!("telegram:chat:42  Annals: 6 stored, 0 there already\n{left_out}\n"));
    assert_eq!(app.lines(CHAT).await, OLD_TALK);
    let messages = app.history(CHAT).await;
    assert_eq!(messages[2]["metadata"]["replyTo"]["text"], "Hello Ada 🎉!");
    assert_eq!(messages[5]["metadata"]["forward"]["from"], "Bob");
    assert_eq!(messages[0]["metadata"]["ts"], THEN * 1000);
    let of_bot = &messages[1]["metadata"];
    assert_eq!((&of_bot["ts"], &of_bot["sentAt"]), (&json!((THEN + 1) * 1000), &json!((THEN + 1) * 1000)));
    let now = app.clock().now().as_millis() / 1000;
    for record in app.records(CHAT).await {
        assert!(!record.asks());
        assert_eq!(record.expires_at, Some(now + 9 * 24 * 3600), "as long as what comes today");
    }

    let before = stored(history, CHAT).await;
    let again = imported(history, &export, &options(None)).await;
    assert!(again.starts_with("telegram:chat:42  Annals: 0 stored, 6 there already\n"), "{again}");
    assert_eq!(stored(history, CHAT).await, before);

    // Years lie between: the next message starts a session.
    a_while().await;
    assert_eq!((app.model().count(), app.context(CHAT).await.len()), (0, 0));
    app.handle(private(42, 9, "hello again")).await;
    let request = app.last_request();
    assert!(!request.to_string().contains("my cat"), "{request}");
    assert_eq!(app.telegram_api().sent().len(), 1, "nothing else is answered");
    assert_eq!(app.history(CHAT).await.len(), 8);
    app.finish().await;
}

#[tokio::test]
async fn an_import_skips_messages_that_came_by_the_webhook_and_their_replies() {
    let app = TestApp::start().await;
    app.model().answer_with("See [the **plan**](https://example.com/plan).");
    app.handle(private(42, 1, "hello")).await;
    // What follows was said while the bot was down, but for the edit of the first.
    let history = &app.open_history();
    let talk = [
        said(1, START + 1, 42, "hello"),
        said(2, START + 61, BOT, "See the plan."),
        said(3, START + 62, 42, "which plan?"),
        said(4, START + 63, BOT, "One of another program."),
    ];
    let export = bot_chat(&talk);
    let told = imported(history, &export, &options(None)).await;
    assert_eq!(told, "telegram:chat:42  Annals: 2 stored, 1 there already, 1 there as replies\n");
    let lines = [
        "1 user: hello",
        "1/reply assistant: See [the **plan**](https://example.com/plan).",
        "3 user: which plan?",
        "4 assistant: One of another program.",
    ];
    assert_eq!(app.lines(CHAT).await, lines);
    // The session goes on with it.
    assert_eq!(app.context_lines(CHAT).await, lines);

    // Telegram delivers it after all, and somebody edits the first before the next export.
    app.handle(private(42, 3, "which plan?").at(62)).await;
    assert_eq!(app.lines(CHAT).await, lines);
    let mut talk = talk;
    talk[0] =
        with(talk[0].clone(), json!({"text": "hello there", "edited_unixtime": (START + 70).to_string()}));
    let export = bot_chat(&talk);
    let told = imported(history, &export, &options(None)).await;
    assert!(told.contains("0 stored, 2 there already, 1 edited since, 1 there as replies"), "{told}");
    assert_eq!(app.lines(CHAT).await[1], "1@1 user revision: hello there");
    let before = stored(history, CHAT).await;
    let told = imported(history, &export, &options(None)).await;
    assert!(told.contains("0 stored, 3 there already, 1 there as replies"), "{told}");
    assert_eq!(stored(history, CHAT).await, before);
    assert_eq!(app.model().count(), 1, "no turn comes of it");
    app.finish().await;
}

#[tokio::test]
async fn an_import_that_breaks_off_anywhere_goes_on() {
    let (talk, dir) = (bot_chat(&old_talk()), tempfile::tempdir().unwrap());
    let (mut unread, mut broken_off) = (0, 0);
    let export = file(dir.path(), "result.json", &talk);
    let requests = at_each_request(&[Plan::Lost], async |faults, what| {
        let world = World::new().await;
        let broken = world.history_with(faults.clone());
        let failed = import(&broken, std::slice::from_ref(&export), &options(None), &mut Vec::new()).await;
        if let Err(error) = failed {
            let error = format!("{error:#}");
            if error.starts_with("telegram:chat:42 cannot be read, so this command has stored nothing: ") {
                assert!(listed(&world.history, CHAT).await.is_empty(), "{what}");
                unread += 1;
            } else {
                assert!(error.starts_with("telegram:chat:42 is not imported whole"), "{what}: {error}");
                broken_off += 1;
            }
        }
        let history = &world.history;
        // What has died may have the chat for a moment.
        world.clock.advance(Duration::from_mins(2));
        imported(history, &talk, &options(None)).await;
        assert_eq!(lines(history, CHAT).await, OLD_TALK, "{what}");
        let head = history.head(&CHAT.parse().unwrap()).await.unwrap();
        let from = Timestamp::from_secs(THEN - 48 * 3600);
        assert_eq!(head.context_from.unwrap().ts(), from, "{what}: the next turn reads no years");
    })
    .await;
    assert!(unread >= 1 && unread + broken_off >= 4, "{unread} and {broken_off} of {requests}");
}

#[tokio::test]
async fn an_import_recognises_messages_that_have_left_the_table() {
    let world = World::new().await;
    let history = &world.history;
    let export = bot_chat(&old_talk());
    imported(history, &export, &options(None)).await;
    world.archive_everything().await;
    world.clock.advance(A_LIFE);
    world.expire_all().await;
    assert_eq!(world.records().await, []);
    let told = imported(history, &export, &options(None)).await;
    assert!(told.starts_with("telegram:chat:42  Annals: 0 stored, 6 there already\n"), "{told}");
    assert_eq!(lines(history, CHAT).await, OLD_TALK);
    assert_eq!(world.records().await, [], "and stored no second time");
}

#[tokio::test]
async fn an_accounts_export_has_each_chat_under_the_bots_own_id_and_no_strangers() {
    let world = World::new().await;
    let history = &world.history;
    let topic = json!({"id": 10, "type": "service", "date_unixtime": THEN.to_string(), "actor": "Ada", "actor_id": "user42",
        "action": "topic_created", "title": "Beans", "text": ""});
    let chats = json!([
        {"name": "Annals", "type": "bot_chat", "id": BOT, "messages": [said(1, THEN, BOT, "hi")]},
        {"name": "Other bot", "type": "bot_chat", "id": 9, "messages": [said(1, THEN, 9, "hi")]},
        {"name": "Bob", "type": "personal_chat", "id": 43, "messages": [said(1, THEN, 42, "secret")]},
        {"type": "saved_messages", "id": 42, "messages": [said(1, THEN, 42, "secret")]},
        {"name": "Plot", "type": "private_group", "id": 77, "messages": [said(1, THEN, 42, "group")]},
        {"name": "Plots", "type": "private_supergroup", "id": 88, "messages": [
            said(-5, THEN - 9, 42, "before"), said(1, THEN, 42, "general"), topic,
            with(said(11, THEN + 1, 42, "in the topic"), json!({"reply_to_message_id": 10})),
            with(said(12, THEN + 2, 42, "answer"), json!({"reply_to_message_id": 11}))]},
        {"name": "News", "type": "public_channel", "id": 99, "messages": [
            {"id": 1, "type": "message", "date_unixtime": THEN.to_string(), "from": "News", "from_id": "channel99", "text": "post"}]},
    ]);
    let account =
        json!({"about": "", "personal_information": {"user_id": 42}, "chats": {"about": "", "list": chats}});
    let export = account.to_string();
    let told = imported(history, &export, &options(None)).await;
    assert_eq!(
        told,
        "telegram:chat:42  Annals: 1 stored, 0 there already\n\
         telegram:chat:-77  Plot: 1 stored, 0 there already\n\
         telegram:chat:-1000000000088  Plots: 2 stored, 0 there already\n\
         telegram:chat:-1000000000088:topic:10  Plots: 3 stored, 0 there already\n\
         telegram:chat:-1000000000099  News: 1 stored, 0 there already\n\
         left out: 1 chat with another bot\n\
         left out: 2 private chats that the bot is no part of (--chat imports one all the same)\n"
    );
    let general = lines(history, "telegram:chat:-1000000000088").await;
    assert_eq!(general, ["before-5 user: before", "1 user: general"]);
    let topic = lines(history, "telegram:chat:-1000000000088:topic:10").await;
    let created = "10 user event: [Ada: topic created: Beans]";
    assert_eq!(topic, [created, "11 user: in the topic", "12 user: answer"]);
    assert_eq!(listed(history, "telegram:chat:-1000000000099").await[0]["metadata"]["chatType"], "channel");

    // One of them alone.
    let other = World::new().await;
    let told = imported(&other.history, &export, &options(Some("telegram:chat:-77"))).await;
    assert!(told.starts_with("telegram:chat:-77  Plot: 1 stored"), "{told}");
    assert_eq!(lines(&other.history, CHAT).await, [""; 0]);
}

#[tokio::test]
async fn an_export_of_annals_is_imported_unchanged() {
    let app = TestApp::start().await;
    app.handle(private(42, 1, "hello")).await;
    app.handle(private(42, 2, "/new a day at sea").command()).await;
    app.handle(private(42, 2, "/new a day at sea").edited(30, "a night at sea")).await;
    app.handle(private(42, 3, "/help").command()).await;
    let (exported, lines) = (app.history(CHAT).await, app.lines(CHAT).await);
    assert!(lines.len() > 7 && lines.iter().any(|line| line.contains("boundary")), "{lines:?}");
    let jsonl = jsonl(&exported);

    // Where it is from, nothing changes.
    let own = &app.open_history();
    let before = stored(own, CHAT).await;
    imported(own, &jsonl, &options(None)).await;
    assert_eq!(stored(own, CHAT).await, before);

    let world = World::new().await;
    let history = &world.history;
    for _ in 0..2 {
        imported(history, &jsonl, &options(None)).await;
        assert_eq!(listed(history, CHAT).await, exported, "with the times at which replies were sent");
    }
    app.finish().await;
}

/// A caller that gives no time repeats a message by its id alone. An export does not tell which messages a reply covers.
#[tokio::test]
async fn an_imported_message_of_the_api_is_not_stored_or_answered_again() {
    let first = TestApp::start().await;
    let say = |id: &str, text: &str| json!({"userId": "ada", "messageId": id, "text": text});
    first.say("c1", &say("m1", "helo")).await;
    first.post("/v1/messages", APP_KEY, &say("m2", "hi")).await;
    first.idle().await;
    let chats = ["http:chat:app:c1", "agent:annals:user:app/ada"];
    let exported = [first.history(chats[0]).await, first.history(chats[1]).await].concat();
    first.finish().await;

    let app = TestApp::start().await;
    imported(&app.open_history(), &jsonl(&exported), &options(None)).await;
    app.clock().advance(Duration::from_hours(1));
    let again = app.post("/v1/messages", APP_KEY, &say("m2", "hi")).await;
    assert_eq!(again.body["duplicate"], true, "{}", again.body);
    let again = app.ask("c1", APP_KEY, &say("m1", "helo")).await;
    assert_eq!((&again.body["duplicate"], again.reply_text()), (&json!(true), "You said: helo".into()));
    app.idle().await;
    for chat in chats {
        assert_eq!(app.history(chat).await.len(), 2, "{chat}");
    }
    let edited = app.post("/v1/chats/c1/messages", APP_KEY, &say("m1", "hello")).await;
    assert_eq!((edited.status.as_u16(), &edited.body["revision"]), (202, &json!(1)));
    app.idle().await;
    let lines = ["m1 user: helo", "m1@1 user revision: hello", "m1/reply assistant: You said: helo"];
    assert_eq!(app.lines(chats[0]).await, lines);
    let context = app.get(&chat_path(chats[0], "context")).await;
    assert_eq!((&context["unanswered"], &context["pendingTurn"]), (&json!(0), &Value::Null));
    app.finish().await;
}

/// The export names a user as their caller does; the keys tell who that is.
#[tokio::test]
async fn people_of_the_api_are_imported_as_their_keys_name_them() {
    let say = |id: &str, text: &str| json!({"userId": "ada", "messageId": id, "text": text});
    let chats = ["http:chat:ops:c1", "http:chat:app:c1", "web:room:ops:r1", "agent:annals:user:app/ada"];
    let first = TestApp::start().await;
    first.post("/v1/chats/c1/messages", OPS_KEY, &say("m1", "hello")).await;
    first.idle().await;
    first.post("/v1/chats/c1/messages", OPS_KEY, &say("m1", "hello again")).await;
    first.post("/v1/chats/c1/messages", OPS_KEY, &say("m2", "/new a day at sea")).await;
    first.post("/v1/chats/c1/messages", APP_KEY, &say("m1", "hello")).await;
    first.post(&chat_path("web:room:ops:r1", "messages"), OPS_KEY, &say("m1", "hello")).await;
    first.post("/v1/messages", APP_KEY, &say("m1", "hi")).await;
    first.idle().await;
    let mut exported = Vec::new();
    for chat in chats {
        exported.extend(first.history(chat).await);
    }

    let app = TestApp::start().await;
    imported(&app.open_history(), &jsonl(&exported), &options(None)).await;
    for chat in chats {
        let [native, of_import] = [first.records(chat).await, app.records(chat).await].map(|records| {
            let person = |record: Record| (record.key, record.person);
            records.into_iter().map(person).collect::<Vec<_>>()
        });
        assert!(native.iter().any(|(_, person)| person.is_some()), "{chat}");
        assert_eq!(of_import, native, "{chat}");
    }
    first.finish().await;
    let of_others = json!({"id": "a", "role": "user", "parts": [{"type": "text", "text": "one"}], "metadata": {"userId": "ada"}});
    imported(&app.open_history(), &of_others.to_string(), &options(Some("http:chat:ops:old"))).await;

    app.post("/v1/chats/c1/messages", OPS_KEY, &say("m3", "on foot")).await;
    app.idle().await;
    assert_eq!(app.get(&chat_path("c1", "context")).await["memoryOf"], json!({"userId": "ada"}));
    app.as_time_passes(Box::pin(app.call(Method::DELETE, "/v1/people/ada", OPS_KEY))).await;
    for chat in ["http:chat:ops:c1", "web:room:ops:r1", "http:chat:ops:old"] {
        assert_eq!(app.history(chat).await, [json!(null); 0], "{chat}");
    }
    assert_eq!(app.history("http:chat:app:c1").await.len(), 2, "of another person");

    // Without the keys nobody is named wrongly.
    let unknown = Options { admin_keys: None, ..options(None) };
    let error = refused(&app.open_history(), "talk", &exported[0].to_string(), &unknown).await;
    assert!(error.contains("talk, line 1: it is of the API key \"ops\": set HTTP_API_KEYS"), "{error}");
    app.finish().await;
}

/// As an edit of a message that was answered here.
#[tokio::test]
async fn an_edit_of_an_imported_message_that_was_answered_is_not_answered_again() {
    let app = TestApp::start().await;
    let talk =
        [said(1, START + 1, 42, "helo"), said(2, START + 2, BOT, "Hi!"), said(3, START + 3, 42, "wht now")];
    imported(&app.open_history(), &bot_chat(&talk), &options(None)).await;
    app.handle(private(42, 1, "helo").edited(30, "hello")).await;
    assert_eq!(app.telegram_api().sent().len(), 0);
    app.handle(private(42, 3, "wht now").edited(40, "what now")).await;
    assert_eq!(app.sent_texts(), ["You said: what now"], "which nobody had answered");
    app.finish().await;
}

/// As `useChat` sends it, if the message that opened the session is edited.
#[tokio::test]
async fn a_first_message_that_was_sent_again_is_imported_at_its_later_place() {
    let (from, to) = (World::new().await, World::new().await);
    let said = from.message(1, 0, "a day at sea");
    let opening = said.clone().opening_session(true);
    from.append(&said.of_kind(Kind::Boundary)).await;
    from.append(&opening).await;
    let again = from.message(1, 60_000, "a night at sea");
    let first = from.records().await.into_iter().find(|record| record.key == opening.key()).unwrap();
    from.history.append_again(&again, &first, 1).await.unwrap();

    let exported = listed(&from.history, &from.chat.to_string()).await;
    imported(&to.history, &jsonl(&exported), &options(None)).await;
    let keys = async |world: &World| -> Vec<SortKey> {
        world.records().await.into_iter().map(|record| record.key).collect()
    };
    assert_eq!(keys(&to).await, keys(&from).await);
}

#[tokio::test]
async fn anybodys_messages_keep_their_order_and_a_bad_line_is_named() {
    let world = World::new().await;
    let history = &world.history;
    let talk = r#"{"id":"a","role":"user","parts":[{"type":"text","text":"one"}],"metadata":{"createdAt":"2024-01-01T00:00:00.000Z"}}
{"id":"s","role":"system","parts":[{"type":"text","text":"be kind"}]}

{"id":"b","role":"assistant","parts":[{"type":"text","text":"two"},{"type":"data-x","data":1}]}
{"id":"c","role":"user","parts":[{"type":"text","text":"three"}]}
"#;
    let error = refused(history, "talk.jsonl", talk, &options(None)).await;
    let why = "talk.jsonl, line 1: it names no chat: say which with --chat, such as http:chat:dev:hello";
    assert!(error.ends_with(why), "{error}");
    let chat = "http:chat:dev:talk";
    for _ in 0..2 {
        let told = imported(history, talk, &options(Some(chat))).await;
        assert!(told.contains("left out: 1 system message: SYSTEM_PROMPT"), "{told}");
        let messages = listed(history, chat).await;
        assert_eq!(crate::app::lines(&messages), ["a user: one", "b assistant: two", "c user: three"]);
        assert_eq!(messages[1]["parts"][1], json!({"type": "data-x", "data": 1}));
        let times: Vec<i64> =
            messages.iter().map(|message| message["metadata"]["ts"].as_i64().unwrap()).collect();
        assert_eq!(times, [1_704_067_200_000, 1_704_067_200_001, 1_704_067_200_002]);
    }
    let bad = |fields: Value| with(json!({"id": "d", "role": "user", "parts": []}), fields).to_string();
    let of = |metadata: Value| bad(json!({ "metadata": metadata }));
    let annals =
        json!({"ts": "x", "chatKey": "http:chat:dev:c", "kind": "normal", "userId": "ada", "messageId": "d"});
    let (no_parts, invalid) = (r#"{"id":"d","role":"user"}"#, "is invalid: give milliseconds");
    let no_message = "it is not a UIMessage: {id, role, parts}: missing field `parts` at column 24";
    let since = "since 1970, or a time in UTC such as 2026-01-31T12:00:00Z";
    for (bad, why) in [
        (no_parts.to_owned(), no_message),
        (bad(json!({"parts": ["x"]})), "it is not a UIMessage"),
        (bad(json!({"id": ""})), "it has no id"),
        (of(json!({"chatKey": "nowhere"})), "its chatKey names no chat"),
        (of(json!({"ts": -5})), &format!("its ts {invalid} {since}")),
        (
            bad(json!({"metadata": {"createdAt": null}, "createdAt": "yesterday"})),
            &format!("its createdAt {invalid}"),
        ),
        (of(annals), &format!("its ts {invalid}")),
        (of(json!({"ts": 1_704_067_200})), "its ts is in 1970-01-20: give milliseconds"),
        (
            bad(json!({"createdAt": "2127-01-01T00:00:00Z"})),
            "its createdAt is in 2127-01-01: give milliseconds",
        ),
        ("{".into(), "it is not a UIMessage"),
    ] {
        let text = format!("{talk}{bad}\n");
        let error = refused(history, "bad.jsonl", &text, &options(Some("http:chat:dev:other"))).await;
        assert!(error.contains(&format!("bad.jsonl, line 6: {why}")), "{error}");
    }
    // What is bad anywhere is stored nowhere.
    assert_eq!(lines(history, "http:chat:dev:other").await, [""; 0]);
    let error = refused(history, "result.json", r#"{"some": "JSON"}"#, &options(None)).await;
    assert!(error.contains("result.json: it is neither an export of Telegram Desktop"), "{error}");
    let old = json!({"name": "x", "type": "private_group", "id": 1, "messages": [{"id": 3, "type": "message", "text": "x"}]});
    let error = refused(history, "result.json", &old.to_string(), &options(None)).await;
    let why = "result.json: message 3 of \"x\" (1 in its list): it has no date_unixtime: export it again with a \
               Telegram Desktop of 2022 or later";
    assert!(error.ends_with(why), "{error}");
}

/// The format of a file is known by its beginning, and an error names it.
#[tokio::test]
async fn an_array_is_taken_and_what_is_broken_is_called_what_it_was_to_be() {
    let world = World::new().await;
    let history = &world.history;
    let array = json!([
        {"id": "a", "role": "user", "parts": [{"type": "text", "text": "one"}], "createdAt": "2024-01-01T00:00:00.000Z"},
        {"id": "b", "role": "assistant", "parts": [{"type": "text", "text": "two"}]},
    ]);
    let chat = "http:chat:dev:array";
    for text in [format!("{array:#}"), array.to_string()] {
        imported(history, &text, &options(Some(chat))).await;
        assert_eq!(lines(history, chat).await, ["a user: one", "b assistant: two"]);
    }
    let telegram = |fields: &str| format!("{{\n \"name\": \"x\",\n \"type\": \"bot_chat\",\n {fields}\n}}");
    let good = r#"{"id":"a","role":"user","parts":[]}"#;
    let no_message = "it is not a UIMessage: {id, role, parts}";
    let not_telegram = "bad: it is no export of Telegram Desktop, though it looks like one: ";
    let neither = "bad: it is neither an export of Telegram Desktop as JSON nor UIMessages of the AI SDK";
    for (text, why) in [
        (format!(r#"[{good},{{"id":"b"}}]"#), &*format!("bad, message 2: {no_message}")),
        ("[{\"id\":\n".into(), "bad ends early, in line 2: it is only a part of the file"),
        ("[{\"id\"}]".into(), "bad is not JSON: expected `:` at line 1 column 7"),
        (format!("{{\"id\":\"a\",\"role\":\"us\n{good}\n"), &format!("bad, line 1: {no_message}: ")),
        (r#"{"id":"a","role":"user"}"#.into(), &format!("bad, line 1: {no_message}: missing field")),
        (telegram("\"id\": \"seven\", \"messages\": []"), not_telegram),
        (telegram("\"id\": 7, \"messages\": ["), "bad: it is not JSON: "),
        (" \n".into(), "bad is empty"),
        ("hello\n".into(), neither),
    ] {
        let error = refused(history, "bad", &text, &options(Some("http:chat:dev:other"))).await;
        assert!(error.contains(why), "{text}: {error}");
        assert!(!why.contains(", line") || !error.contains(" at line "), "the line is said once: {error}");
    }
    let pipe =
        import(history, &["/dev/null".into()], &options(None), &mut std::io::sink()).await.unwrap_err();
    assert_eq!(
        pipe.to_string(),
        "/dev/null is not a regular file. An import reads it several times, so save the content of a pipe to a file first"
    );
    assert_eq!(lines(history, "http:chat:dev:other").await, [""; 0]);
}

/// The choice of the assistant's author cannot be changed later: imported records stay as they are.
#[tokio::test]
async fn without_knowing_the_bot_nothing_is_stored_that_could_be_of_several() {
    let world = World::new().await;
    let history = &world.history;
    let nobody = |chat: Option<&str>| Options { bot: None, ..options(chat) };
    let group =
        json!({"name": "Plot", "type": "private_group", "id": 77, "messages": [said(1, THEN, BOT, "group")]});
    let with_bot = |name: &str, id: i64| json!({"name": name, "type": "bot_chat", "id": id, "messages": [said(1, THEN, id, "hi")]});
    let friend =
        json!({"name": "Bob", "type": "personal_chat", "id": 43, "messages": [said(1, THEN, 42, "secret")]});
    let account = |chats: &[&Value]| {
        json!({"personal_information": {"user_id": 42}, "chats": {"list": chats}, "left_chats": {"list": []}})
            .to_string()
    };
    let (helper, other) = (with_bot("Helper Bot", BOT), with_bot("Other Bot", 888));
    let both = account(&[&helper, &other]);
    let names = format!("--bot USER_ID. Those it talks to are {BOT} \"Helper Bot\", 888 \"Other Bot\"");
    let of_group =
        "it is a group, in which the bot's messages are the assistant's: say who the bot is, with --bot";
    let refusals = [
        (&both, &*names),
        (&account(&[&friend, &group]), "say who the bot is, with --bot USER_ID"),
        (&group.to_string(), of_group),
    ];
    for (text, why) in refusals {
        let error = refused(history, "result.json", text, &nobody(None)).await;
        assert!(error.contains(why), "{error}");
    }
    for chat in [CHAT, "telegram:chat:-77"] {
        assert_eq!(lines(history, chat).await, [""; 0]);
    }
    // One chat with one bot says it itself, and chats with none have nothing to ask.
    let error = refused(history, "result.json", &account(&[&friend]), &nobody(None)).await;
    let why = "nothing is imported. Left out: 1 private chat that the bot is no part of (--bot says who it is, --chat";
    assert!(error.starts_with(why), "{error}");
    imported(history, &bot_chat(&old_talk()), &nobody(None)).await;
    assert_eq!(lines(history, CHAT).await, OLD_TALK);

    let told = imported(history, &both, &options(None)).await;
    let there = "telegram:chat:42  Helper Bot: 0 stored, 1 there already";
    assert_eq!(told, format!("{there}\nleft out: 1 chat with another bot\n"));
}

#[tokio::test]
async fn media_that_were_not_exported_are_called_what_they_are() {
    let world = World::new().await;
    let history = &world.history;
    let hint = "(File not included. Change data exporting settings to download.)";
    let large = "(File exceeds maximum size. Change data exporting settings to download.)";
    let medium = |id: i64, text: &str, fields: Value| with(said(id, THEN + id, 42, text), fields);
    let talk = [
        medium(1, "", json!({"photo": hint, "width": 9, "height": 9})),
        medium(2, "", json!({"file": hint, "media_type": "voice_message", "duration_seconds": 12})),
        medium(3, "look", json!({"file": large, "media_type": "video_file", "duration_seconds": 75})),
        medium(4, "", json!({"file": hint, "file_name": "plan.pdf"})),
        medium(5, "", json!({"file": hint, "media_type": "sticker", "sticker_emoji": "🐱"})),
        medium(6, "this one", json!({"reply_to_message_id": 1})),
    ];
    imported(history, &bot_chat(&talk), &options(None)).await;
    let wanted = [
        "1 user: [photo]",
        "2 user: [voice message, 0:12]",
        "3 user: look\n[video file, 1:15]",
        "4 user: [file: plan.pdf]",
        "5 user: [sticker 🐱]",
        "6 user: this one",
    ];
    assert_eq!(lines(history, CHAT).await, wanted);
    assert_eq!(listed(history, CHAT).await[5]["metadata"]["replyTo"]["text"], "[photo]");
}

/// The longest id that a message may have, with what hangs on it.
#[tokio::test]
async fn replies_to_the_longest_id_are_imported_too() {
    const ROOM: &str = "http:chat:app:c1";
    let app = TestApp::builder().model().start().await;
    for (letter, text) in [("m", "hello"), ("n", "/help"), ("o", "/reset")] {
        let body = json!({"userId": "ada", "text": text, "messageId": letter.repeat(256)});
        assert_eq!(app.post("/v1/chats/c1/messages", APP_KEY, &body).await.status, 202);
        app.idle_as_time_passes().await;
    }
    let exported = app.history(ROOM).await;
    assert_eq!(exported.len(), 6, "{exported:?}");
    let world = World::new().await;
    let history = &world.history;
    for _ in 0..2 {
        imported(history, &jsonl(&exported), &options(None)).await;
        assert_eq!(lines(history, ROOM).await, crate::app::lines(&exported));
    }
    // Where nothing is said there is nothing to import.
    assert_eq!(imported(history, "[]", &options(None)).await, "There is nothing to import.\n");
    app.finish().await;
}

/// A value nested too deeply is stored as its JSON, in a text, and the chat can be archived.
#[tokio::test]
async fn a_value_nested_too_deeply_becomes_text_and_is_archived() {
    const ROOM: &str = "http:chat:dev:talk";
    let world = World::new().await;
    let history = &world.history;
    let deep = (0..120).fold(json!(1), |inner, _| json!([inner]));
    let message = json!({"id": "a", "role": "user", "parts": [{"type": "data-x", "data": deep}], "metadata": {"x": deep}});
    for told in ["1 stored", "0 stored, 1 there already"] {
        let said = imported(history, &message.to_string(), &options(Some(ROOM))).await;
        assert!(said.contains(told), "{said}");
    }
    archive_everything(history, &ROOM.parse().unwrap()).await;
    world.clock.advance(Duration::from_hours(10 * 24));
    for record in history.range(&ROOM.parse().unwrap(), None).await.unwrap() {
        world.expire(&record).await;
    }
    let [kept] = &listed(history, ROOM).await[..] else { panic!("one message") };
    assert_eq!([&kept["parts"][0]["data"], &kept["metadata"]["x"]], [&deep.to_string(), &deep.to_string()]);
}

/// A file that was cut anywhere is recognized as a part, and nothing of it is stored.
#[tokio::test]
async fn every_beginning_of_a_file_is_said_to_end_early() {
    let world = World::new().await;
    let (history, chat) = (&world.history, "http:chat:dev:part");
    let message = |id: &str, text: &str| json!({"id": id, "role": "user", "parts": [{"type": "text", "text": text}], "metadata": {"createdAt": "2024-01-01T00:00:00Z"}});
    let array = json!([message("a", "one 😀 \\x1F \n[{}]"), message("b", "two")]);
    let lines = format!("{}\n{}", array[0], array[1]);
    let account = json!({"about": "", "personal_information": {"user_id": 42}, "chats": {"about": "", "list": [
        {"name": "Änn \"als\"", "type": "bot_chat", "id": BOT, "messages": [said(1, THEN, 42, "hi 😀")]},
    ]}});
    let talk = bot_chat(&[said(1, THEN, 42, "hi 😀"), said(2, THEN, BOT, "\\x1F")]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("part");
    for (whole, options) in [
        (array.to_string(), options(Some(chat))),
        (format!("{array:#}"), options(Some(chat))),
        (lines.clone(), options(Some(chat))),
        (talk.replace("\\\\x1F", "\\x1F"), options(None)),
        (account.to_string(), options(None)),
    ] {
        let mut cuts = 0;
        for end in 0..whole.len() {
            let part = &whole.as_bytes()[..end];
            // A line that is whole may be the last.
            if whole == lines && [array[0].to_string().len(), array[0].to_string().len() + 1].contains(&end) {
                continue;
            }
            std::fs::write(&path, part).unwrap();
            let mut out = Vec::new();
            let error = import(history, std::slice::from_ref(&path), &options, &mut out).await.unwrap_err();
            let expected = if end == 0 { "part is empty" } else { "part ends early, in line " };
            let error = format!("{error:#}");
            assert!(error.contains(expected), "{error}: {}", String::from_utf8_lossy(part));
            cuts += 1;
        }
        assert!(cuts > 100, "{cuts}");
    }
    for chat in [chat, CHAT] {
        assert_eq!(self::lines(history, chat).await, [""; 0]);
    }
}

fn long_talk(count: u32) -> String {
    let mut export = Vec::new();
    exports::telegram(&mut export, count, START).unwrap();
    String::from_utf8(export).unwrap()
}

/// A long talk, up to now: the first answer waits for no summary of it, and knows the newest messages.
#[tokio::test]
async fn after_a_long_import_the_first_answer_is_immediate() {
    const COUNT: u32 = 600;
    let app = TestApp::builder().telegram().model().set("CONTEXT_WINDOW", "8000").set("KEEP_RECENT", "10");
    let app = app.start().await;
    let view =
        from_table(&[("CONTEXT_WINDOW", "8000"), ("KEEP_RECENT", "10")], ViewConfig::from_env).unwrap();
    let (options, export) = (Options { view, ..options(None) }, long_talk(COUNT));
    let history = &app.open_history();
    let told = imported(history, &export, &options).await;
    assert_eq!(told, format!("telegram:chat:42  Annals: {COUNT} stored, 0 there already\n"));

    app.handle(private(42, 1001, "and today?").at(60)).await;
    assert_eq!(app.model().count(), 1, "no summary and no capture before the answer");
    let request = app.last_request().to_string();
    assert_has(&request, &[&format!("{COUNT}: "), &format!("{}: ", COUNT - 9)]);
    assert!(!request.contains(&format!("{}: ", COUNT - 10)), "{request}");
    let messages = app.history(CHAT).await;
    let kinds = |kind: &str| messages.iter().filter(|message| message["metadata"]["kind"] == kind).count();
    assert_eq!((messages.len(), kinds("boundary"), kinds("summary")), (COUNT as usize + 3, 1, 0));
    let boundary = messages.iter().position(|message| message["metadata"]["kind"] == "boundary").unwrap();
    assert_eq!(boundary, COUNT as usize - 10, "before the newest messages");

    // Neither the file again nor the compactor summarises it.
    let before = stored(history, CHAT).await;
    let told = imported(history, &export, &options).await;
    assert_eq!(told, format!("telegram:chat:42  Annals: 0 stored, {COUNT} there already\n"));
    assert_eq!(stored(history, CHAT).await, before);
    app.archive_everything(CHAT).await;
    assert_eq!(app.model().count(), 1);
    assert_eq!(app.history(CHAT).await, messages, "and nothing is lost in the archive");
    app.finish().await;
}

/// In a request for a summary, a message takes more than its text.
#[tokio::test]
async fn many_short_messages_are_a_long_import() {
    let world = World::new().await;
    let view = from_table(&[("CONTEXT_WINDOW", "2000")], ViewConfig::from_env).unwrap();
    let start = world.clock.now().as_millis() - 100_000;
    let line = |at: i64| {
        json!({"id": format!("m{at}"), "role": "user", "parts": [{"type": "text", "text": "ok"}],
            "metadata": {"ts": start + at * 1000, "userId": "42", "chatKey": CHAT}})
    };
    let talk: Vec<Value> = (0..60).map(line).collect();
    imported(&world.history, &jsonl(&talk), &Options { view, ..options(None) }).await;
    let listed = listed(&world.history, CHAT).await;
    assert_eq!(listed.iter().filter(|message| message["metadata"]["kind"] == "boundary").count(), 1);
}

/// A message may come by its channel after the import has read the history.
#[tokio::test]
async fn of_messages_that_are_stored_together_one_may_be_there() {
    let world = World::new().await;
    let messages: Vec<ToImport> = (1..=5_u64)
        .map(|id| {
            let ms = i64::try_from(id).unwrap() * 1000;
            let draft = world.message(id, ms, &format!("text {id}"));
            ToImport { key: draft.key(), draft, revision: 0, is_new: true }
        })
        .collect();
    world.append(&world.message(3, 3000, "by the channel")).await;
    let imported = world.history.import_all(&messages).await.unwrap();
    let [stored, present] = [Imported::Stored, Imported::Present];
    assert_eq!(imported, [stored, stored, present, stored, stored]);
    assert_eq!(world.history.import_all(&messages).await.unwrap(), [present; 5]);
    let texts: Vec<String> = world.records().await.iter().map(|record| record.message.plain_text()).collect();
    assert_eq!(texts, ["text 1", "text 2", "by the channel", "text 4", "text 5"]);
}

/// A message costs a fraction of a request. A search right after an import of many messages goes over all of them: they are
/// archived at once.
#[tokio::test]
async fn a_long_history_is_stored_together_and_searched_whole_as_soon_as_it_is_imported() {
    let world = World::new().await;
    let (history, requests) = world.counted();
    let start = world.clock.now().as_millis() - 20_000_000;
    let line = |at: i64| {
        let text = if at == 7 { "the oars are in the shed".into() } else { format!("message number {at}") };
        json!({"id": format!("m{at}"), "role": "user", "parts": [{"type": "text", "text": text}],
            "metadata": {"ts": start + at * 1000, "userId": "42", "chatKey": CHAT}})
    };
    let talk: Vec<Value> = (0..2_500).map(line).collect();
    let view = from_table(&[("CONTEXT_WINDOW", "1000000")], ViewConfig::from_env).unwrap();
    imported(&history, &jsonl(&talk), &Options { view, ..options(None) }).await;
    let cost = requests.take();
    assert!(cost <= talk.len() / 50 + 10, "{cost} requests for {} messages and their segments", talk.len());
    let listed = listed(&history, CHAT).await;
    assert_eq!(listed.len(), talk.len());
    assert!(listed.iter().map(|message| message["metadata"]["ts"].as_i64().unwrap()).is_sorted());
    let chat = CHAT.parse().unwrap();
    assert_eq!(history.segments(&chat).await.unwrap().len(), 3);
    requests.take();
    let found = history.search(&chat, &Search::new("oars", 8)).await.unwrap();
    assert_eq!((found.hits.len(), found.is_partial), (1, false));
    assert!(requests.take() <= 3 + 10);
    // A few messages wait for the compactor.
    let few = jsonl(&talk[..20]).replace(CHAT, "telegram:chat:43");
    imported(&world.history, &few, &options(None)).await;
    assert_eq!(history.segments(&"telegram:chat:43".parse().unwrap()).await.unwrap(), []);
}
