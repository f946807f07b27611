//! Messages from between two sessions.

use annals_test_support::discord_gateway::Post;

use crate::world::{CHANNEL, DIRECT, GUILD, World, pause, until};

const THREAD: u64 = 51;
const HIDDEN: u64 = 49;

#[tokio::test]
async fn after_an_invalid_session_what_was_missed_is_stored_in_order_and_once() {
    let world = World::new().await;
    world.gateway.add_channel(THREAD, Some(GUILD), 11);
    let relay = world.started().await;
    world.say(CHANNEL, "stored before");
    world.until_stored(CHANNEL, &["stored before"]).await;

    world.gateway.forget_sessions();
    for text in ["missed 1", "missed 2", "missed 3"] {
        world.say(CHANNEL, text);
    }
    world.say(DIRECT, "missed in private");
    world.say(THREAD, "missed in a thread");
    world.until_stored(CHANNEL, &["stored before", "missed 1", "missed 2", "missed 3"]).await;
    world.until_stored(THREAD, &["missed in a thread"]).await;
    world.until_stored(DIRECT, &["missed in private"]).await;

    world.say(CHANNEL, "live");
    let texts = ["stored before", "missed 1", "missed 2", "missed 3", "live"];
    world.until_stored(CHANNEL, &texts).await;
    assert_eq!((world.gateway.resumes(), world.gateway.identifies()), (1, 2));
    until("nothing is missed", async || world.place().await.missed.is_none()).await;
    relay.shut_down().await;
    world.assert_well_behaved();
}

#[tokio::test]
async fn an_invalid_session_of_a_live_connection_is_replaced() {
    let world = World::new().await;
    let relay = world.started().await;
    world.say(CHANNEL, "before");
    world.until_stored(CHANNEL, &["before"]).await;
    world.gateway.send_invalid_session(false);
    world.say(CHANNEL, "meanwhile");
    world.until_stored(CHANNEL, &["before", "meanwhile"]).await;
    assert_eq!((world.gateway.resumes(), world.gateway.identifies()), (0, 2));
    relay.shut_down().await;
    world.assert_well_behaved();
}

#[tokio::test]
async fn the_first_start_fetches_nothing() {
    let world = World::new().await;
    world.say(CHANNEL, "before the bot was set up");
    let relay = world.started().await;
    world.say(CHANNEL, "after it");
    world.until_stored(CHANNEL, &["after it"]).await;
    assert_eq!(world.sink.reads(), [""; 0]);
    relay.shut_down().await;
}

#[tokio::test]
async fn messages_are_fetched_page_by_page() {
    let world = World::new().await;
    world.started().await.shut_down().await;
    world.gateway.forget_sessions();
    let missed: Vec<u64> = (0..250).map(|number| world.say(CHANNEL, &format!("missed {number}"))).collect();
    let relay = world.start();
    until("all are stored", async || world.sink.received().len() >= 250).await;
    let received: Vec<u64> = world.sink.received().iter().map(|(_, id)| id.parse().unwrap()).collect();
    assert_eq!(received, missed);
    let pages = world.sink.reads().iter().filter(|channel| **channel == CHANNEL.to_string()).count();
    assert_eq!(pages, 3);
    until("the newest is saved", async || world.place().await.newest == missed.last().copied()).await;
    relay.shut_down().await;
}

#[tokio::test]
async fn a_channel_that_the_bot_may_not_read_is_skipped_and_a_quiet_one_is_not_read() {
    let world = World::new().await;
    world.gateway.add_channel(HIDDEN, Some(GUILD), 0);
    world.gateway.add_channel(THREAD, Some(GUILD), 11);
    world.say(THREAD, "long ago");
    world.clock.advance(std::time::Duration::from_hours(1));
    world.started().await.shut_down().await;
    world.gateway.forget_sessions();
    world.gateway.hide_channel(HIDDEN);
    world.say(CHANNEL, "missed");
    world.gateway.post(Post { channel: HIDDEN, author: 7, text: "secret", ..Post::default() });
    let relay = world.start();
    world.until_stored(CHANNEL, &["missed"]).await;
    assert_eq!(world.sink.reads(), [DIRECT, CHANNEL].map(|channel| channel.to_string()));
    relay.shut_down().await;
}

#[tokio::test]
async fn a_channel_after_a_hundred_that_the_bot_may_not_read_is_read() {
    const LAST: u64 = 2000;
    let world = World::new().await;
    for hidden in 1000..1100 {
        world.gateway.add_channel(hidden, Some(GUILD), 0);
        world.gateway.hide_channel(hidden);
    }
    world.gateway.add_channel(LAST, Some(GUILD), 0);
    world.started().await.shut_down().await;
    world.gateway.forget_sessions();
    for hidden in 1000..1100 {
        world.gateway.post(Post { channel: hidden, author: 7, text: "secret", ..Post::default() });
    }
    world.say(LAST, "missed");
    let relay = world.start();
    world.until_stored(LAST, &["missed"]).await;
    relay.shut_down().await;
}

#[tokio::test]
async fn nothing_new_is_saved_before_the_missed_messages_are_stored() {
    let world = World::new().await;
    let relay = world.started().await;
    world.say(CHANNEL, "before");
    world.until_stored(CHANNEL, &["before"]).await;
    until("the place is saved", async || world.place().await.session.is_some_and(|session| session.seq >= 3))
        .await;
    relay.shut_down().await;
    let before = world.place().await;

    world.gateway.forget_sessions();
    world.say(CHANNEL, "missed");
    world.sink.block();
    let crashed = world.start();
    until("a session begins", async || world.gateway.identifies() == 2).await;
    world.say(CHANNEL, "live");
    until("the first channel is read", async || !world.sink.reads().is_empty()).await;
    pause(200).await;
    assert_eq!(world.place().await, before);
    crashed.kill().await;

    world.sink.unblock();
    let relay = world.start();
    world.until_stored(CHANNEL, &["before", "missed", "live"]).await;
    relay.shut_down().await;
    world.assert_well_behaved();
}

#[tokio::test]
async fn a_bot_in_no_guild_that_stops_amid_direct_messages_fetches_them_all_later() {
    let world = World::without_guild().await;
    let relay = world.started().await;
    let newest = world.say(DIRECT, "before");
    until("it is saved", async || world.place().await.newest == Some(newest)).await;
    relay.shut_down().await;

    world.gateway.forget_sessions();
    world.say(DIRECT, "missed");
    world.sink.block();
    let stopped = world.start();
    until("the channel is read", async || !world.sink.reads().is_empty()).await;
    stopped.shut_down().await;
    // Messages of another channel may be stored and raise the newest; the start of what is missing stays.
    assert_eq!(world.place().await.missed.map(|missed| missed.since), Some(newest));

    world.sink.unblock();
    let relay = world.start();
    world.until_stored(DIRECT, &["before", "missed"]).await;
    until("nothing is missed", async || world.place().await.missed.is_none()).await;
    relay.shut_down().await;
}

#[tokio::test]
async fn a_guild_with_an_outage_is_fetched_after_it_even_by_the_next_relay() {
    let world = World::new().await;
    world.started().await.shut_down().await;
    world.gateway.forget_sessions();
    world.say(CHANNEL, "missed");
    world.gateway.set_unavailable(GUILD, true);
    let relay = world.start();
    until("a new session is saved", async || {
        let place = world.place().await;
        place.missed.is_some_and(|missed| missed.guilds.contains(&GUILD)) && world.gateway.identifies() == 2
    })
    .await;
    relay.shut_down().await;

    let next = world.start();
    until("the session is resumed", async || world.gateway.resumes() == 1 + 1).await;
    assert_eq!(world.stored(CHANNEL).await, [""; 0]);
    world.gateway.set_unavailable(GUILD, false);
    world.until_stored(CHANNEL, &["missed"]).await;
    until("nothing is missed", async || world.place().await.missed.is_none()).await;
    assert_eq!(world.gateway.identifies(), 2);
    next.shut_down().await;
}
