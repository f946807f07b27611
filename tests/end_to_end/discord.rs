//! Discord from end to end: from a signed interaction to the answer that its API accepted.

use std::time::Duration;

use annals_core::sort_key::Timestamp;
use annals_io::clock::Clock;
use annals_test_support::discord_api::{APPLICATION_ID, BOT_TOKEN, DiscordApi, Sent, public_key, signed};
use annals_test_support::discord_gateway::{DiscordGateway, Post};
use annals_test_support::fixtures::all_payloads;
use annals_test_support::mcp_server::{self, McpServer};
use annals_test_support::model_api::{Mishap, images_of, lines_said};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};

use crate::app::{Answer, Builder, NOW, OPS_KEY, TestApp, a_while, chat_path, loopback_client, wait_until};
use crate::memory::{remember, user};
use crate::process::Process;
use crate::updates::private;

pub(crate) const GUILD: &str = "290926798626357999";
pub(crate) const CHANNEL: &str = "645027906669510667";
pub(crate) const DM: &str = "1459213904352645111";
pub(crate) const ADA: &str = "1033044521375764530";
const IN_CHANNEL: &str = "agent:annals:channel:290926798626357999:645027906669510667";
const DIRECT: &str = "agent:annals:user:1033044521375764530";

/// A program with emulators of a model and of Discord.
pub(crate) struct DiscordApp {
    pub(crate) app: TestApp,
    pub(crate) discord: DiscordApi,
}

impl DiscordApp {
    pub(crate) async fn start() -> Self {
        Self::with(&[("DISCORD_BOT_TOKEN", BOT_TOKEN)]).await
    }

    pub(crate) async fn with(settings: &[(&str, &str)]) -> Self {
        Self::beside(TestApp::builder().model(), settings).await
    }

    /// Adds Discord to what `builder` has.
    pub(crate) async fn beside(builder: Builder, settings: &[(&str, &str)]) -> Self {
        let discord = DiscordApi::start().await;
        let builder = builder.set_all(&settings_of(&discord)).set("DISCORD_BOT_TOKEN", "");
        Self { app: builder.set_all(settings).start().await, discord }
    }

    /// Posts `call` as Discord does, which from then on takes answers to it.
    pub(crate) async fn send(&self, call: &Value) -> Answer {
        let request = self.app.request(Method::POST, "/discord");
        let answer = Answer::of(with_signature(request, call)).await;
        if answer.status.is_success() && call["token"].is_string() {
            self.discord.responded(call, &answer.body);
        }
        answer
    }

    /// Posts `call`, waits until its turn is done, and returns the response.
    pub(crate) async fn handle(&self, call: &Value) -> Value {
        let answer = self.send(call).await;
        assert!(answer.status.is_success(), "{call}");
        self.app.idle().await;
        answer.body
    }
}

/// Gives `request` the body `call`, signed as Discord does.
fn with_signature(request: RequestBuilder, call: &Value) -> RequestBuilder {
    let body = call.to_string();
    let headers = signed(body.as_bytes()).into_iter();
    headers.fold(request, |request, (name, value)| request.header(name, value)).body(body)
}

/// Returns the settings of a program whose bot is at `discord`.
pub(crate) fn settings_of(discord: &DiscordApi) -> Vec<(&'static str, String)> {
    vec![
        ("DISCORD_APPLICATION_ID", APPLICATION_ID.to_owned()),
        ("DISCORD_PUBLIC_KEY", public_key()),
        ("DISCORD_BOT_TOKEN", BOT_TOKEN.to_owned()),
        ("DISCORD_API_BASE", discord.base_url().to_owned()),
    ]
}

/// Returns the id of an object made so many seconds after [`NOW`].
pub(crate) fn snowflake(seconds: i64) -> String {
    ((((NOW + seconds) * 1000) - 1_420_070_400_000) << 22).to_string()
}

/// Creates the command `name` of Ada in a channel of a guild, `seconds` after [`NOW`].
pub(crate) fn command(name: &str, options: &Value, seconds: i64) -> Value {
    json!({
        "id": snowflake(seconds), "application_id": APPLICATION_ID, "type": 2, "version": 1,
        "token": format!("s3cret-interaction-{seconds}"), "context": 0, "guild_id": GUILD, "channel_id": CHANNEL,
        "channel": {"id": CHANNEL, "type": 0, "guild_id": GUILD},
        "authorizing_integration_owners": {"0": GUILD},
        "member": {"user": {"id": ADA, "username": "ada", "global_name": "Ada"}, "permissions": "0"},
        "data": {"id": "1", "name": name, "type": 1, "options": options},
    })
}

pub(crate) fn ask(prompt: &str, seconds: i64) -> Value {
    command("ask", &json!([{"name": "prompt", "type": 3, "value": prompt}]), seconds)
}

/// Moves `call` to the direct messages with the bot.
pub(crate) fn direct(mut call: Value) -> Value {
    let user = call["member"]["user"].take();
    let fields = call.as_object_mut().unwrap();
    for name in ["guild_id", "member"] {
        fields.remove(name);
    }
    fields.extend([
        ("user".to_owned(), user),
        ("context".to_owned(), json!(1)),
        ("channel_id".to_owned(), json!(DM)),
        ("channel".to_owned(), json!({"id": DM, "type": 1})),
        ("authorizing_integration_owners".to_owned(), json!({"0": "0"})),
    ]);
    call
}

/// Makes `call` one of an app that is installed for Ada alone.
fn of_user_app(mut call: Value) -> Value {
    call["authorizing_integration_owners"] = json!({ "1": ADA });
    call
}

/// Creates the gateway's event of a message of Ada in a channel of the guild.
fn posted(seconds: i64, channel: &str, content: &str) -> Value {
    let bot = json!({"id": APPLICATION_ID, "username": "Annals"});
    let mentions: Vec<&Value> = content.starts_with("<@").then_some(&bot).into_iter().collect();
    json!({"op": 0, "t": "MESSAGE_CREATE", "d": {"id": snowflake(seconds), "channel_id": channel, "guild_id": GUILD,
        "author": {"id": ADA, "username": "ada", "global_name": "Ada"}, "content": content, "mentions": mentions,
        "type": 0, "edited_timestamp": null}})
}

/// Creates the press of a button under `sent`.
fn press(sent: &Sent, column: usize, user: &str, seconds: i64) -> Value {
    let mut call = command("", &json!([]), seconds);
    call["type"] = json!(3);
    call["member"]["user"]["id"] = json!(user);
    let button = &sent.components[0]["components"][column];
    call["data"] = json!({"component_type": 2, "custom_id": button["custom_id"]});
    call["message"] = json!({"id": sent.id, "content": sent.content, "components": sent.components});
    call
}

/// Starts a program whose model has asked for a refund, which somebody must approve.
async fn asked_for_a_refund() -> (McpServer, DiscordApp) {
    let shop = McpServer::start().await;
    let tools = shop.tools(&json!({"tools": {"refund": {"approval": true}}}));
    let settings =
        [("DISCORD_BOT_TOKEN", BOT_TOKEN), ("TOOLS", tools.as_str()), ("SHOP_TOKEN", mcp_server::TOKEN)];
    let it = DiscordApp::with(&settings).await;
    it.app.model().answer_tools(&[("shop_refund", json!({"order": "A1"}))]);
    it.handle(&ask("Pay A1 back.", 0)).await;
    (shop, it)
}

#[tokio::test]
async fn a_question_is_deferred_and_answered_once_also_after_a_replay_and_a_restart() {
    let mut it = DiscordApp::start().await;
    let call = ask("hello, 你好", 0);
    assert_eq!(it.handle(&call).await, json!({"type": 5}));
    let id = snowflake(0);
    let lines =
        [format!("{id} user: hello, 你好"), format!("{id}/reply assistant: You said: Ada: hello, 你好")];
    assert_eq!(it.app.lines(IN_CHANNEL).await, lines);
    let sent = it.discord.sent();
    assert_eq!((sent.len(), sent[0].content.as_str()), (1, "You said: Ada: hello, 你好"));
    assert!(sent[0].is_original && !sent[0].notifies && sent[0].has_no_previews && !sent[0].is_ephemeral);
    let metadata = &it.app.history(IN_CHANNEL).await[0]["metadata"];
    assert_eq!(metadata["ts"], (NOW * 1000));
    assert_eq!((&metadata["channel"], &metadata["chatId"]), (&json!("discord"), &json!(CHANNEL)));
    assert_eq!(metadata["actorKey"], format!("{IN_CHANNEL}:user:{ADA}"));

    it.app.restart().await;
    for _ in 0..2 {
        it.handle(&call).await;
    }
    assert_eq!(it.app.lines(IN_CHANNEL).await, lines);
    assert_eq!((it.discord.sent().len(), it.app.model().count()), (1, 1));
    it.app.finish().await;
}

#[tokio::test]
async fn forged_calls_get_one_answer_and_leave_nothing() {
    let it = DiscordApp::start().await;
    let body = ask("hello", 0).to_string();
    let [signature, timestamp] = signed(body.as_bytes());
    let post = |headers: &[(&str, &str)], body: &str| {
        let request = it.app.request(Method::POST, "/discord").body(body.to_owned());
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))
    };
    let good = [(signature.0, signature.1.as_str()), (timestamp.0, timestamp.1.as_str())];
    let mut answers = Vec::new();
    for (headers, body) in [
        (&good[..], &format!("{body} ")[..]),
        (&good[..1], &body),
        (&good[1..], &body),
        (&[good[0], (timestamp.0, "1764057601")], &body),
        (&[(signature.0, "00"), good[1]], &body),
        (&[], r#"{"type":1}"#),
    ] {
        let answer = Answer::of(post(headers, body)).await;
        assert_eq!(answer.status, 401, "{headers:?}");
        answers.push(answer.unnamed());
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "the refusals differ: {answers:#?}");
    assert!(it.app.history(IN_CHANNEL).await.is_empty());
    let ping = it.send(&json!({"id": "1", "type": 1, "token": "t", "application_id": APPLICATION_ID})).await;
    assert_eq!((ping.status, ping.body), (StatusCode::OK, json!({"type": 1})));
    it.app.finish().await;
}

#[tokio::test]
async fn every_payload_is_accepted_and_webhook_events_get_204() {
    let it = DiscordApp::start().await;
    for (name, payload) in all_payloads("discord") {
        let answer = it.send(&payload).await;
        let is_event = payload.get("event").is_some() || payload["type"] == 0;
        let wanted = if is_event { StatusCode::NO_CONTENT } else { StatusCode::OK };
        assert_eq!(answer.status, wanted, "{name}");
    }
    it.app.idle_as_hours_pass().await;
    it.app.finish().await;
}

#[tokio::test]
async fn the_token_is_in_no_message_export_or_segment() {
    let it = DiscordApp::start().await;
    it.handle(&direct(ask("hello", 0))).await;
    let record = it.app.records(DIRECT).await.remove(0);
    assert!(record.reply_token().is_some(), "it is stored beside the message");
    it.app.archive_everything(DIRECT).await;
    let listed = it.app.get(&chat_path(DIRECT, "segments")).await;
    let segment = format!("segments/{}", listed["segments"][0]["id"].as_str().unwrap());
    let shown = [
        json!(it.app.history(DIRECT).await),
        json!(it.app.context(DIRECT).await),
        json!(it.app.export_of(&chat_path(DIRECT, "messages"), OPS_KEY).await),
        json!(it.app.export_of(&chat_path(DIRECT, &segment), OPS_KEY).await),
        it.app.last_request(),
        json!(format!("{record:?}")),
    ];
    for shown in shown {
        assert!(!shown.to_string().contains("s3cret-interaction"), "{shown}");
    }
    it.app.finish().await;
}

#[tokio::test]
async fn two_questions_at_once_are_each_answered_in_their_own_place() {
    let it = DiscordApp::start().await;
    it.app.model().hang();
    it.send(&ask("one", 0)).await;
    it.app.model().wait_for(1).await;
    it.send(&ask("two", 1)).await;
    it.send(&ask("three", 2)).await;
    it.app.model().resume();
    it.app.idle().await;
    let tokens: Vec<String> = it.discord.sent().into_iter().map(|sent| sent.token.unwrap()).collect();
    assert_eq!(tokens, [0, 1, 2].map(|n| format!("s3cret-interaction-{n}")));
    assert_eq!(it.discord.texts(), ["one", "two", "three"].map(|text| format!("You said: Ada: {text}")));
    it.app.finish().await;
}

#[tokio::test]
async fn a_command_is_confirmed_in_its_response_and_only_to_its_sender_if_it_concerns_nobody_else() {
    let it = DiscordApp::start().await;
    let reset = it.handle(&command("reset", &json!([]), 0)).await;
    assert_eq!((&reset["type"], &reset["data"]["flags"]), (&json!(4), &json!(4)));
    assert!(reset["data"]["content"].as_str().unwrap().starts_with("Done: we start over."));
    let memory = it.handle(&direct(command("memory", &json!([]), 1))).await;
    assert_eq!(memory["data"]["content"], "I remember nothing about you yet.");
    assert_eq!(memory["data"]["flags"], 68, "only for the sender");
    let new = command("new", &json!([{"name": "message", "type": 3, "value": "plan"}]), 2);
    assert_eq!(it.handle(&new).await, json!({"type": 5}), "an answer follows");
    let compact = command("compact", &json!([]), 3);
    assert_eq!(it.handle(&compact).await, json!({"type": 5}));
    let texts = it.discord.texts();
    assert_eq!((texts.len(), texts[0].as_str()), (2, "You said: Ada: plan"));
    let lines = it.app.lines(IN_CHANNEL).await;
    assert!(lines[0].ends_with("/boundary user boundary: /reset"), "{lines:#?}");
    assert!(lines[1].contains("notice: Done: we start over."), "{lines:#?}");
    // A replay changes nothing.
    it.handle(&command("reset", &json!([]), 0)).await;
    assert_eq!(it.app.lines(IN_CHANNEL).await, lines);
    it.app.finish().await;
}

#[tokio::test]
async fn a_stopped_question_is_told_so_where_it_waits() {
    let it = DiscordApp::start().await;
    it.app.model().hang();
    it.send(&ask("Write a novel", 0)).await;
    it.app.model().wait_for(1).await;
    let stopped = it.send(&command("stop", &json!([]), 1)).await;
    assert_eq!(stopped.body["data"]["content"], "Stopped.");
    it.app.idle().await;
    let sent = it.discord.sent();
    assert_eq!((sent.len(), sent[0].content.as_str()), (1, "Stopped before there was an answer."));
    assert!(sent[0].is_original);
    it.app.model().resume();
    // What was said takes the place of the sign.
    it.app.model().answer_with("one two three four five six seven eight");
    it.app.model().mishap(1, Mishap::Stalls);
    it.send(&ask("Count", 2)).await;
    it.app.model().wait_for(2).await;
    a_while().await;
    it.send(&command("stop", &json!([]), 3)).await;
    it.app.idle_as_time_passes().await;
    let sent = it.discord.sent();
    assert_eq!(sent[1].content, "one two three four five\n\n(Stopped here.)");
    assert!(sent[1].is_original);
    it.app.finish().await;
}

#[tokio::test]
async fn a_reminder_that_could_never_be_sent_is_refused() {
    let it = DiscordApp::start().await;
    let remind = |seconds| {
        command("remind", &json!([{"name": "reminder", "type": 3, "value": "tomorrow 9:00 tea"}]), seconds)
    };
    let refused = it.handle(&of_user_app(remind(0))).await;
    assert_eq!(refused["data"]["content"], "I cannot write here later. Ask me in our direct messages.");
    for call in [remind(1), of_user_app(direct(remind(2)))] {
        let set = it.handle(&call).await;
        assert!(set["data"]["content"].as_str().unwrap().contains("tea"), "{set}");
    }
    it.app.finish().await;
}

#[tokio::test]
async fn a_long_answer_is_sent_whole() {
    let it = DiscordApp::start().await;
    let paragraphs: Vec<String> = (0..60).map(|n| format!("{n} {}", "bean ".repeat(40).trim())).collect();
    it.app.model().answer_with(paragraphs.join("\n\n"));
    it.send(&ask("all about beans", 0)).await;
    it.app.idle_as_time_passes().await;
    let sent = it.discord.sent();
    assert!(sent.len() > 6 && sent[0].is_original && sent[1..].iter().all(|sent| !sent.is_original));
    assert_eq!(it.discord.texts().join("\n\n"), paragraphs.join("\n\n"));

    // As an app of one person there are five follow-ups, also if the answer was deleted; the rest is a file.
    for (seconds, is_deleted) in [(20, false), (300, true)] {
        let before = it.discord.sent().len();
        it.app.model().hang();
        it.send(&of_user_app(ask("all about beans", seconds))).await;
        if is_deleted {
            let token = format!("s3cret-interaction-{seconds}");
            it.discord.edit(|store| store.delete_original(&token));
        }
        it.app.model().answer_with(paragraphs.join("\n\n"));
        it.app.model().resume();
        it.app.idle_as_time_passes().await;
        let sent = it.discord.sent().split_off(before);
        assert!(sent.iter().all(|sent| sent.token.is_some()), "the bot may not write in the channel");
        let file = sent[4].file.clone().unwrap();
        assert_eq!((sent.len(), sent[4].content.as_str()), (5, "…"));
        let texts: Vec<&str> =
            sent[..4].iter().map(|sent| sent.content.as_str()).chain([file.as_str()]).collect();
        assert_eq!(texts.join("\n\n"), paragraphs.join("\n\n"));
    }
    it.app.finish().await;
}

#[tokio::test]
async fn after_a_quarter_of_an_hour_the_bot_answers_in_the_channel_or_the_failure_is_recorded() {
    for token in [BOT_TOKEN, ""] {
        let it = DiscordApp::with(&[("DISCORD_BOT_TOKEN", token)]).await;
        it.app.model().hang();
        it.send(&ask("hello", 0)).await;
        it.app.model().wait_for(1).await;
        it.app.clock().advance(Duration::from_mins(16));
        it.app.model().resume();
        it.app.idle_as_hours_pass().await;
        let sent = it.discord.sent();
        let reply = it.app.history(IN_CHANNEL).await.pop().unwrap();
        if token.is_empty() {
            assert!(sent.is_empty());
            let reason = reply["metadata"]["deliveryFailure"]["reason"].as_str().unwrap();
            assert!(reason.starts_with("DISCORD_BOT_TOKEN is not set"), "{reason}");
        } else {
            assert_eq!((sent.len(), sent[0].token.as_deref()), (1, None));
            assert_eq!(sent[0].channel_id, CHANNEL);
            assert_eq!(reply["metadata"]["deliveryFailure"], Value::Null);
        }
        it.app.finish().await;
    }
}

#[tokio::test]
async fn who_may_not_use_the_bot_is_told_so_and_nothing_is_stored_in_a_direct_chat() {
    let settings = [("DISCORD_BOT_TOKEN", BOT_TOKEN), ("ALLOW_FROM", "discord-7")];
    let it = DiscordApp::with(&settings).await;
    for call in [direct(ask("hello", 0)), direct(command("memory", &json!([]), 1))] {
        let refused = it.handle(&call).await;
        assert_eq!((&refused["type"], &refused["data"]["flags"]), (&json!(4), &json!(68)));
    }
    assert!(it.app.history(DIRECT).await.is_empty());
    // In a server it is part of what is said there, and not answered.
    let refused = it.handle(&ask("hello", 2)).await;
    assert_eq!(refused["type"], 4);
    assert_eq!((it.app.history(IN_CHANNEL).await.len(), it.app.model().count()), (1, 0));
    it.app.finish().await;
}

#[tokio::test]
async fn a_call_of_a_tool_is_approved_by_its_asker_s_button() {
    let (shop, it) = asked_for_a_refund().await;
    let asked = it.discord.sent().pop().unwrap();
    assert!(asked.content.contains("shop_refund") && asked.content.contains("A1"), "{}", asked.content);

    let refused = it.handle(&press(&asked, 0, "7", 1)).await;
    assert_eq!((&refused["type"], &refused["data"]["flags"]), (&json!(4), &json!(68)));
    assert!(shop.carried_out().is_empty());

    it.app.model().answer_with("Paid back.");
    // The interaction of the question has ended; that of the button has not.
    it.app.clock().advance(Duration::from_mins(20));
    it.discord.edit(|store| store.interactions.clear());
    let approved = it.handle(&press(&asked, 0, ADA, 1200)).await;
    assert_eq!((&approved["type"], &approved["data"]["components"]), (&json!(7), &json!([])));
    assert!(approved["data"]["content"].as_str().unwrap().contains("\n-# "), "{approved}");
    assert_eq!(shop.carried_out().len(), 1);
    let last = it.discord.sent().pop().unwrap();
    assert_eq!(last.content, "Paid back.");
    assert_eq!(last.token.as_deref(), Some("s3cret-interaction-1200"));
    assert!(!last.is_original, "it would take the place of the question");
    it.app.finish().await;
}

#[tokio::test]
async fn messages_of_the_gateway_are_answered_by_the_bot_where_they_were_said() {
    let it = DiscordApp::start().await;
    let mention = |words: &str| format!("<@{APPLICATION_ID}> {words}");
    it.discord.set_channel(json!({"id": "9", "type": 11, "guild_id": GUILD}));
    it.handle(&posted(0, CHANNEL, "the roses are dry")).await;
    assert_eq!(it.app.model().count(), 0);
    it.handle(&posted(1, CHANNEL, &mention("what now?"))).await;
    let said = lines_said(&it.app.last_request());
    assert!(said[0].contains("the roses are dry") && said[1].ends_with("what now?"), "{said:?}");
    let sent = it.discord.sent();
    assert_eq!((sent.len(), sent[0].refers_to.clone()), (1, Some(snowflake(1))));
    it.handle(&posted(2, "9", &mention("hi"))).await;
    assert_eq!(it.app.history(&format!("agent:annals:thread:{GUILD}:9")).await.len(), 2);
    assert_eq!(it.discord.count("GET /channels/*"), 2, "the type of each channel is asked for once");

    it.handle(&posted(3, CHANNEL, &mention("/memory"))).await;
    assert_eq!(it.discord.texts().pop().unwrap(), "I remember nothing about this group yet.");

    let mut edited = posted(0, CHANNEL, "the roses are wet");
    edited["t"] = json!("MESSAGE_UPDATE");
    edited["d"]["edited_timestamp"] = json!(Timestamp::from_secs(NOW + 30).rfc3339());
    it.handle(&edited).await;
    let context = it.app.context_lines(IN_CHANNEL).await.join("\n");
    assert!(context.contains("user revision: the roses are wet"), "{context}");
    it.app.clock().advance(Duration::from_mins(5));
    let deleted = json!({"id": snowflake(0), "channel_id": CHANNEL, "guild_id": GUILD});
    for _ in 0..2 {
        it.handle(&json!({"op": 0, "t": "MESSAGE_DELETE", "d": deleted})).await;
    }
    let context = it.app.context_lines(IN_CHANNEL).await.join("\n");
    assert!(!context.contains("user revision: the roses"), "{context}");
    let forms = it.app.ids(IN_CHANNEL).await;
    assert_eq!(forms.iter().filter(|id| id.starts_with(&snowflake(0))).count(), 3, "{forms:?}");
    it.app.finish().await;
}

#[tokio::test]
async fn a_group_dm_is_a_group_without_a_person_s_memory() {
    let it = DiscordApp::start().await;
    remember(&it.app, &user(ADA), DIRECT, &["Ada keeps bees."]).await;
    it.handle(&direct(ask("hello", 1))).await;
    assert!(it.app.last_request().to_string().contains("Ada keeps bees."));
    let mut call = direct(of_user_app(ask("hello", 2)));
    call["context"] = json!(2);
    it.handle(&call).await;
    assert!(!it.app.last_request().to_string().contains("Ada keeps bees."));
    let chat = format!("agent:annals:channel:@me:{DM}");
    assert_eq!(it.app.history(&chat).await.len(), 2);
    assert_eq!(it.app.history(DIRECT).await.len(), 2);
    it.app.finish().await;
}

#[tokio::test]
async fn a_server_where_the_bot_may_not_write_is_not_asked_again_for_an_hour() {
    let it = DiscordApp::start().await;
    it.discord.expel(CHANNEL);
    it.app.clock().advance(Duration::from_secs(20));
    let mention = |second| {
        let mut event = posted(second, CHANNEL, &format!("<@{APPLICATION_ID}> hi"));
        event["d"]["channel_type"] = json!(0);
        event
    };
    for second in 0..3 {
        it.handle(&mention(second)).await;
    }
    assert_eq!(it.discord.count("POST /channels/*/messages"), 1);
    let reply = it.app.history(IN_CHANNEL).await.pop().unwrap();
    assert!(reply["metadata"]["deliveryFailure"]["reason"].as_str().unwrap().contains("Missing Access"));
    // A command brings its own permission, also if it is from before the refusal, and says nothing of the next message.
    it.handle(&ask("hello", 10)).await;
    assert_eq!(it.discord.texts(), ["You said: Ada: hello"]);
    it.handle(&mention(11)).await;
    assert_eq!(it.discord.count("POST /channels/*/messages"), 1);
    it.app.finish().await;
}

#[tokio::test]
async fn a_refusal_of_one_channel_holds_back_no_answer_in_another() {
    let links = format!("{ADA},telegram-42");
    let settings = [("DISCORD_BOT_TOKEN", BOT_TOKEN), ("DM_SCOPE", "user"), ("LINKS", &links)];
    let it = DiscordApp::beside(TestApp::builder().telegram().model(), &settings).await;
    let removed = json!({"version": 1, "application_id": APPLICATION_ID, "type": 1, "event": {
        "type": "APPLICATION_DEAUTHORIZED", "timestamp": Timestamp::from_secs(NOW + 100).rfc3339(),
        "data": {"user": {"id": ADA, "username": "ada"}}}});
    it.discord.expel(DM);
    for (round, second) in [(1, 0), (2, 10)] {
        it.app.model().hang();
        if round == 1 {
            let mut event = posted(second, DM, "hi");
            event["d"]["channel_type"] = json!(1);
            event["d"].as_object_mut().unwrap().remove("guild_id");
            it.send(&event).await;
            it.app.model().wait_for(1).await;
        }
        it.app.receive(private(42, round, "hello").at(60 + second + 1)).await;
        if round == 2 {
            it.send(&removed).await;
        }
        it.app.clock().advance(Duration::from_secs(20));
        it.app.model().resume();
        it.app.idle().await;
        assert_eq!(it.app.telegram_api().sent().len(), usize::try_from(round).unwrap());
    }
    assert_eq!(it.discord.count("POST /channels/*/messages"), 1);
    it.app.finish().await;
}

#[tokio::test]
async fn a_command_that_takes_long_is_deferred_for_its_sender_alone_and_answered_later() {
    let (shop, it) = asked_for_a_refund().await;
    let before = it.discord.sent().len();
    // Discord is asked if they are an administrator, and wants that to wait.
    it.discord.rate_limit(1, 3.0);
    let mut deny = command("deny", &json!([]), 1);
    deny["member"]["user"]["id"] = json!("7");
    let denied = async {
        wait_until("Discord is asked", async || it.discord.count("GET /channels/*") == 1).await;
        it.app.clock().advance(Duration::from_millis(1600));
        let is_deferred = async || it.discord.count("POST /interactions/*/*/callback") == 1;
        wait_until("the response is deferred", is_deferred).await;
        assert_eq!(it.discord.sent().len(), before);
        it.app.clock().advance(Duration::from_secs(3));
    };
    let (answer, ()) = tokio::join!(it.send(&deny), denied);
    assert_eq!(answer.status, StatusCode::ACCEPTED);
    let sent = it.discord.sent().split_off(before);
    assert_eq!((sent.len(), sent[0].token.as_deref()), (1, Some("s3cret-interaction-1")));
    assert!(sent[0].is_ephemeral && sent[0].is_original, "{sent:?}");
    assert!(!sent[0].content.is_empty() && shop.carried_out().is_empty());

    it.app.model().answer_with("Then not.");
    let denied = it.handle(&command("deny", &json!([]), 2)).await;
    assert_eq!((&denied["type"], &denied["data"]["flags"]), (&json!(4), &json!(68)));
    assert_eq!(it.discord.texts().pop().unwrap(), "Then not.");
    assert!(shop.carried_out().is_empty());
    it.app.finish().await;
}

#[tokio::test]
async fn two_people_share_a_channel_and_ask_about_messages_and_files() {
    let it = DiscordApp::start().await;
    it.handle(&ask("My roses are red", 0)).await;
    let mut about = command("Answer this", &json!([]), 1);
    about["member"]["user"] = json!({"id": "7", "username": "bo", "global_name": "Bo"});
    let target = json!({"id": "77", "type": 0, "content": "Are beans vegetables?",
        "author": {"id": ADA, "username": "ada", "global_name": "Ada"}});
    about["data"] = json!({"id": "1", "name": "Answer this", "type": 3, "target_id": "77",
        "resolved": {"messages": {"77": target}}});
    it.handle(&about).await;
    let said = lines_said(&it.app.last_request());
    assert!(said[0].contains("Ada") && said[0].ends_with("My roses are red"), "{said:?}");
    assert!(said[1].contains("Bo") && said[1].ends_with("of Ada, not of the sender]"), "{said:?}");
    assert_eq!(said[2], "Answer this message of Ada:");
    assert_eq!(said.last().unwrap(), "Are beans vegetables?");
    assert_eq!(it.discord.sent().pop().unwrap().token.as_deref(), Some("s3cret-interaction-1"));
    assert_eq!(it.app.history(IN_CHANNEL).await.len(), 4);

    let mut call = ask("what is this?", 2);
    let file = json!({"id": "2", "filename": "bean.png", "content_type": "image/png", "size": 50,
        "url": it.discord.file_url("bean.png")});
    call["data"]["options"].as_array_mut().unwrap().push(json!({"name": "file", "type": 11, "value": "2"}));
    call["data"]["resolved"] = json!({"attachments": {"2": file}});
    it.handle(&call).await;
    assert_eq!(images_of(&it.app.last_request()).len(), 1);
    it.app.finish().await;
}

#[tokio::test]
async fn no_log_of_any_level_has_a_token_or_a_text() {
    const PRIVATE: u64 = 60;
    let (discord, now) = (DiscordApi::start().await, Clock::system().now().as_millis());
    let gateway = DiscordGateway::start(now).await;
    gateway.add_channel(PRIVATE, None, 1);
    discord.set_gateway(gateway.url());
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let settings = [settings_of(&discord), vec![("RUST_LOG", "trace".to_owned())]].concat();
    let process = Process::start_logged(dir.path(), &settings, std::fs::File::create(&log).unwrap());
    let call = ask("a text of Ada's", now / 1000 - NOW);
    let request = loopback_client().post(format!("{}/discord", process.base));
    let response = with_signature(request, &call).send().await.unwrap();
    discord.responded(&call, &response.json().await.unwrap());
    wait_until("the relay has a session", async || gateway.identifies() == 1).await;
    gateway.post(Post { channel: PRIVATE, author: 42, text: "another text of Ada's", ..Post::default() });
    wait_until("both are answered", async || discord.sent().len() == 2).await;
    drop(process);
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("message"), "{log}");
    for secret in ["s3cret-interaction", BOT_TOKEN, "text of Ada's"] {
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(secret)).collect();
        assert_eq!(lines, [""; 0]);
    }
}
