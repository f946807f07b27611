//! Ordinary messages of Discord from end to end: from its gateway to the reply that its REST API took.

use annals_core::sort_key::Timestamp;
use annals_io::clock::Clock;
use annals_test_support::discord_api::DiscordApi;
use annals_test_support::discord_gateway::{BOT_ID, DiscordGateway, Post};
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};

use crate::app::{NOW, TestApp, loopback_client, text_of, wait_until};
use crate::discord::settings_of;
use crate::people::http;
use crate::process::Process;
use crate::world::change_item;

const GUILD: u64 = 5;
const CHANNEL: u64 = 50;
const THREAD: u64 = 51;
const DIRECT: u64 = 60;
const ADA: u64 = 42;

const IN_CHANNEL: &str = "agent:annals:channel:5:50";
const IN_THREAD: &str = "agent:annals:thread:5:51";
const IN_PRIVATE: &str = "agent:annals:user:42";

/// The two halves of Discord.
struct Discord {
    api: DiscordApi,
    gateway: DiscordGateway,
}

impl Discord {
    async fn start(now: Timestamp) -> Self {
        let (api, gateway) = (DiscordApi::start().await, DiscordGateway::start(now.as_millis()).await);
        api.set_gateway(gateway.url());
        gateway.add_guild(GUILD);
        gateway.add_channel(CHANNEL, Some(GUILD), 0);
        gateway.add_channel(THREAD, Some(GUILD), 11);
        gateway.add_channel(DIRECT, None, 1);
        Self { api, gateway }
    }

    /// Ada mentions the bot; in private she need not.
    fn ask(&self, channel: u64, text: &str) -> u64 {
        let post = Post { channel, author: ADA, text, mentions_bot: channel != DIRECT, ..Post::default() };
        self.gateway.post(post)
    }

    /// Lets the REST API list what the gateway has of a channel.
    fn list(&self, channel: u64) {
        for message in self.gateway.messages_after(channel, 0, 100).unwrap() {
            self.api.seed(&channel.to_string(), message);
        }
    }

    async fn until_answered(&self, count: usize) {
        wait_until("everything is answered", async || self.api.sent().len() >= count).await;
    }
}

async fn start() -> (Discord, TestApp) {
    start_with(&[]).await
}

async fn start_with(settings: &[(&str, &str)]) -> (Discord, TestApp) {
    let discord = Discord::start(Timestamp::from_secs(NOW)).await;
    let builder = TestApp::builder().model().set_all(&settings_of(&discord.api)).set_all(settings);
    let app = builder.start().await;
    let has_session = async || discord.gateway.identifies() == 1;
    wait_until("the program has a session", has_session).await;
    (discord, app)
}

#[tokio::test(flavor = "multi_thread")]
async fn mentions_threads_direct_messages_and_edits_are_stored_and_answered_where_they_were_asked() {
    let (discord, app) = start().await;
    let chatter = Post { channel: CHANNEL, author: ADA, text: "not for the bot", ..Post::default() };
    discord.gateway.post(chatter);
    discord.ask(CHANNEL, "hello");
    discord.ask(THREAD, "in a thread");
    let id = discord.ask(DIRECT, "in private");
    discord.until_answered(3).await;
    app.idle().await;

    let sent = discord.api.sent();
    assert_eq!(sent.len(), 3);
    for (channel, said) in [("50", "hello"), ("51", "in a thread"), ("60", "in private")] {
        let is_there = sent.iter().any(|sent| sent.channel_id == channel && sent.content.contains(said));
        assert!(is_there, "{channel}: {sent:?}");
    }
    for chat in [IN_CHANNEL, IN_THREAD, IN_PRIVATE] {
        assert_eq!(app.history(chat).await.len(), 2, "{chat}: a question and its answer");
    }
    discord.gateway.edit(DIRECT, id, "in secret");
    let is_stored = async || app.lines(IN_PRIVATE).await.iter().any(|line| line.contains(": in secret"));
    wait_until("the edit is stored", is_stored).await;
    app.finish().await;
    assert_eq!(discord.gateway.client_closes(), [0_u16; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_resumes_the_session_and_a_lost_session_is_replaced() {
    let (discord, mut app) = start().await;
    discord.ask(DIRECT, "first");
    discord.until_answered(1).await;
    // The gateway gives the bot the name that it has in the server, and the REST API another one.
    discord.ask(CHANNEL, &format!("are you there, <@{BOT_ID}>?"));
    discord.until_answered(2).await;
    app.idle().await;
    app.stop().await;
    discord.ask(DIRECT, "while it is stopped");
    app.restart().await;
    discord.until_answered(3).await;
    assert_eq!((discord.gateway.identifies(), discord.gateway.resumes()), (1, 1));

    discord.gateway.forget_sessions();
    discord.ask(CHANNEL, "missed in the channel");
    discord.ask(DIRECT, "missed in private");
    for channel in [CHANNEL, DIRECT] {
        discord.list(channel);
    }
    app.as_time_passes(Box::pin(discord.until_answered(5))).await;
    app.idle().await;
    assert_eq!(discord.gateway.identifies(), 2);
    let said = app.lines(IN_CHANNEL).await;
    assert_eq!(said.len(), 4, "two questions and their answers, and no edit: {said:#?}");
    assert!(said[0].contains("are you there, @Bo?"), "{said:?}");
    assert_eq!(app.history(IN_PRIVATE).await.len(), 6, "three questions and their answers");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missed_message_of_a_linked_person_who_wrote_elsewhere_is_fetched() {
    let (discord, mut app) = start_with(&[("DM_SCOPE", "user"), ("LINKS", "ada,discord-42")]).await;
    discord.ask(DIRECT, "first");
    discord.until_answered(1).await;
    for number in 0..11 {
        http(&app, "ada", &format!("elsewhere {number}")).await;
    }
    app.idle().await;
    app.stop().await;
    discord.gateway.forget_sessions();
    discord.ask(DIRECT, "missed");
    discord.list(DIRECT);
    app.restart().await;
    app.as_time_passes(Box::pin(discord.until_answered(2))).await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_whose_head_cannot_be_read_does_not_hold_up_the_others() {
    let (discord, app) = start().await;
    discord.ask(CHANNEL, "hello");
    discord.until_answered(1).await;
    app.idle().await;
    let damaged = [(":damaged", AttributeValue::N("7".into()))];
    change_item(app.stores(), (IN_CHANNEL, "!head"), "SET turn = :damaged", &damaged).await;
    discord.ask(CHANNEL, "/stop");
    discord.ask(THREAD, "in a thread");
    discord.until_answered(2).await;
    assert_eq!(discord.api.sent()[1].channel_id, THREAD.to_string());
    app.idle().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_intent_stops_the_relay_and_not_the_program() {
    let (discord, app) = start_with(&[("GROUP_ACTIVATION", "always")]).await;
    wait_until("Discord has refused it", async || {
        discord.gateway.identifies() == 1 && discord.gateway.connections() == 0
    })
    .await;
    app.say("c1", &json!({"userId": "ada", "text": "over HTTP", "messageId": "m1"})).await;
    assert_eq!(discord.gateway.identifies(), 1);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_program_loses_no_message_and_stores_none_twice() {
    const MESSAGES: usize = 12;
    let discord = Discord::start(Clock::system().now()).await;
    let dir = tempfile::tempdir().unwrap();
    let settings = settings_of(&discord.api);
    let mut killed = Some(Process::start(dir.path(), &settings));
    wait_until("the program has a session", async || discord.gateway.identifies() == 1).await;
    for number in 0..MESSAGES {
        discord.gateway.set_time(Clock::system().now().as_millis());
        discord.ask(DIRECT, &format!("message {number}"));
        if number == MESSAGES / 2 {
            discord.until_answered(1).await;
            drop(killed.take());
        }
    }
    let restarted = Process::start(dir.path(), &settings);
    let http = loopback_client();
    let url = format!("{}/v1/chats/{}/messages?limit=200", restarted.base, IN_PRIVATE.replace(':', "%3A"));
    let key = std::fs::read_to_string(dir.path().join("api-key")).unwrap();
    let questions = async || {
        let page = http.get(&url).bearer_auth(key.trim()).send().await.unwrap();
        let page: Value = page.json().await.unwrap();
        let messages = page["messages"].as_array().into_iter().flatten();
        let questions = messages.filter(|message| message["role"] == "user");
        questions.map(text_of).collect::<Vec<_>>()
    };
    wait_until("all are stored", async || questions().await.len() >= MESSAGES).await;
    // Events are stored in order, so no second copy is to come.
    let expected: Vec<String> = (0..MESSAGES).map(|number| format!("message {number}")).collect();
    assert_eq!(questions().await, expected);
    assert_eq!((discord.gateway.identifies(), discord.gateway.resumes()), (1, 1));
    assert_eq!(discord.gateway.client_closes(), [0_u16; 0]);
}
