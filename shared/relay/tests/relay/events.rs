//! Events of one session: stored once and in order, over every kind of reconnect.

use annals_test_support::discord_gateway::{Command, Post};
use serde_json::json;

use crate::world::{CHANNEL, DIRECT, World, until};

#[tokio::test]
async fn messages_edits_and_deletions_reach_the_host_in_order() {
    let world = World::new().await;
    let relay = world.started().await;
    let id = world.say(CHANNEL, "hello");
    world.gateway.edit(CHANNEL, id, "hello there");
    world.gateway.dispatch("TYPING_START", &json!({"channel_id": "50", "user_id": "7"}));
    world.gateway.delete(CHANNEL, id);
    let spam = [world.say(CHANNEL, "buy this"), world.say(CHANNEL, "buy that")];
    world.gateway.delete_in_bulk(CHANNEL, &spam);
    let direct = world.say(DIRECT, "in private");
    world.until_stored(DIRECT, &["in private"]).await;

    let expected = [
        ("MESSAGE_CREATE", id),
        ("MESSAGE_UPDATE", id),
        ("MESSAGE_DELETE", id),
        ("MESSAGE_CREATE", spam[0]),
        ("MESSAGE_CREATE", spam[1]),
        ("MESSAGE_DELETE", spam[0]),
        ("MESSAGE_DELETE", spam[1]),
        ("MESSAGE_CREATE", direct),
    ];
    let expected = expected.map(|(kind, id)| (kind.to_owned(), id.to_string()));
    assert_eq!(world.sink.received(), expected);
    assert_eq!(world.stored(CHANNEL).await, ["hello", "hello there", "buy this", "buy that"]);
    let newest = async || world.place().await.newest == Some(direct);
    until("the newest message is saved", newest).await;
    relay.shut_down().await;
    world.assert_well_behaved();
}

#[tokio::test]
async fn without_the_privileged_intent_only_what_is_meant_for_the_bot_has_text() {
    let world = World::new().await;
    let relay = world.started().await;
    let chatter = Post { channel: CHANNEL, author: 7, text: "nothing for the bot", ..Post::default() };
    world.gateway.post(chatter);
    world.gateway.post(Post { text: "a mention", mentions_bot: true, ..chatter });
    world.gateway.post(Post { text: "a reply", replies_to_bot: true, ..chatter });
    world.until_stored(CHANNEL, &["", "a mention", "a reply"]).await;
    relay.shut_down().await;
}

#[tokio::test]
async fn with_the_privileged_intent_everything_has_text() {
    let world = World::new().await;
    world.gateway.change(|gateway| gateway.messages.may_read_content = true);
    let relay = crate::world::Running::of(world.relay(|config| config.needs_message_content = true));
    until("a session is saved", async || world.place().await.session.is_some()).await;
    let chatter = Post { channel: CHANNEL, author: 7, text: "nothing for the bot", ..Post::default() };
    world.gateway.post(chatter);
    world.until_stored(CHANNEL, &["nothing for the bot"]).await;
    relay.shut_down().await;
}

#[tokio::test]
async fn every_interruption_is_resumed_and_each_event_stored_once() {
    let world = World::new().await;
    let relay = world.started().await;
    world.say(CHANNEL, "before");
    world.until_stored(CHANNEL, &["before"]).await;
    let mut texts = vec!["before".to_owned()];
    let interruptions =
        ["drop", "close without a reason", "close by a proxy", "reconnect", "resumable", "drop again"];
    for (number, name) in interruptions.into_iter().enumerate() {
        world.gateway.hold_back(true);
        world.say(CHANNEL, &format!("{name}, while nothing is sent"));
        match name {
            "close without a reason" => world.gateway.close(4000),
            "close by a proxy" => world.gateway.close(1001),
            "reconnect" => world.gateway.command(Command::Reconnect),
            "resumable" => world.gateway.send_invalid_session(true),
            _ => world.gateway.command(Command::Drop),
        }
        world.say(CHANNEL, &format!("{name}, while nobody is connected"));
        world.gateway.hold_back(false);
        until(name, async || world.gateway.resumes() == number + 1).await;
        world.say(CHANNEL, &format!("{name}, after it"));
        texts.extend(
            ["while nothing is sent", "while nobody is connected", "after it"]
                .map(|at| format!("{name}, {at}")),
        );
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        world.until_stored(CHANNEL, &texts).await;
    }
    assert_eq!(world.sink.received().len(), texts.len(), "no event came twice");
    assert_eq!(world.gateway.identifies(), 1);
    relay.shut_down().await;
    world.assert_well_behaved();
}

#[tokio::test]
async fn a_dead_connection_is_noticed_and_resumed() {
    let world = World::new().await;
    let relay = world.started().await;
    world.gateway.change(|gateway| gateway.is_ignoring_heartbeats = true);
    world.gateway.hold_back(true);
    world.say(CHANNEL, "into the void");
    until("a RESUME", async || world.gateway.resumes() > 0).await;
    world.gateway.change(|gateway| gateway.is_ignoring_heartbeats = false);
    world.gateway.hold_back(false);
    world.until_stored(CHANNEL, &["into the void"]).await;
    assert_eq!(world.gateway.identifies(), 1);
    relay.shut_down().await;
    world.assert_well_behaved();
}

#[tokio::test]
async fn a_gateway_that_refuses_connections_is_tried_again() {
    let world = World::new().await;
    let relay = world.started().await;
    world.gateway.change(|gateway| gateway.is_refusing_connections = true);
    world.gateway.command(Command::Drop);
    until("no connection is left", async || world.gateway.connections() == 0).await;
    world.say(CHANNEL, "meanwhile");
    crate::world::pause(1_500).await;
    world.gateway.change(|gateway| gateway.is_refusing_connections = false);
    world.until_stored(CHANNEL, &["meanwhile"]).await;
    assert_eq!((world.gateway.identifies(), world.gateway.resumes()), (1, 1));
    relay.shut_down().await;
    world.assert_well_behaved();
}
