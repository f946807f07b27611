//! A host that fails, or is slower than Discord.

use annals_test_support::discord_gateway::Post;

use crate::world::{CHANNEL, World, until};

#[tokio::test]
async fn a_failing_host_is_tried_again_while_the_connection_lives() {
    let world = World::new().await;
    let relay = world.started().await;
    world.sink.fail(4);
    world.say(CHANNEL, "first");
    world.say(CHANNEL, "second");
    world.until_stored(CHANNEL, &["first", "second"]).await;
    assert_eq!(world.sink.received().len(), 6);
    assert_eq!((world.gateway.resumes(), world.gateway.identifies()), (0, 1));
    relay.shut_down().await;
}

#[tokio::test]
async fn heartbeats_go_on_while_the_host_is_busy() {
    let world = World::new().await;
    let relay = world.started().await;
    world.sink.block();
    world.say(CHANNEL, "slow");
    until("it is received", async || !world.sink.received().is_empty()).await;
    let before = (world.gateway.heartbeats(), world.place().await);
    until("heartbeats go on", async || world.gateway.heartbeats() >= before.0 + 3).await;
    assert_eq!(world.place().await, before.1, "nothing is saved before it is stored");
    world.sink.unblock();
    world.until_stored(CHANNEL, &["slow"]).await;
    until("it is saved", async || world.place().await != before.1).await;
    assert_eq!(world.gateway.resumes(), 0);
    assert!(relay.shut_down().await);
    world.assert_well_behaved();
}

/// Lets the host fail at a first message until the connection is dropped.
async fn stall(world: &World) {
    world.sink.fail(usize::MAX);
    world.say(CHANNEL, "first");
    until("it is received", async || !world.sink.received().is_empty()).await;
    until("the connection is dropped", async || world.gateway.connections() == 0).await;
}

#[tokio::test]
async fn a_relay_whose_host_has_failed_for_minutes_says_so_at_its_end() {
    let world = World::new().await;
    let relay = world.started().await;
    stall(&world).await;
    assert!(!relay.shut_down().await);
}

#[tokio::test]
async fn a_host_that_fails_for_minutes_ends_the_connection_but_not_the_session() {
    let world = World::new().await;
    let relay = world.started().await;
    stall(&world).await;
    world.say(CHANNEL, "second");
    world.sink.fail(0);
    world.until_stored(CHANNEL, &["first", "second"]).await;
    assert_eq!((world.gateway.resumes(), world.gateway.identifies()), (1, 1));
    assert!(world.gateway.client_closes().is_empty());
    relay.shut_down().await;
    world.assert_well_behaved();
}

#[tokio::test]
async fn an_outage_of_the_store_ends_the_connection_with_the_lease_and_loses_nothing() {
    let world = World::new().await;
    let relay = world.started().await;
    world.outage.set(true);
    world.say(CHANNEL, "at its begin");
    until("the lease has run out", async || world.gateway.connections() == 0).await;
    world.say(CHANNEL, "during it");
    world.outage.set(false);
    world.until_stored(CHANNEL, &["at its begin", "during it"]).await;
    assert_eq!((world.gateway.resumes(), world.gateway.identifies()), (1, 1));
    assert!(world.gateway.client_closes().is_empty());
    relay.shut_down().await;
    world.assert_well_behaved();
}

#[tokio::test]
async fn more_events_than_the_queue_takes_end_the_connection_and_come_again() {
    const EVENTS: usize = 1_100;
    let world = World::new().await;
    let relay = world.started().await;
    world.sink.block();
    let post = Post { channel: CHANNEL, author: 7, text: "many", mentions_bot: true, ..Post::default() };
    let sent: Vec<String> = (0..EVENTS).map(|_| world.gateway.post(post).to_string()).collect();
    until("the connection is dropped", async || world.gateway.connections() == 0).await;
    world.sink.unblock();
    until("all are received", async || world.sink.received().len() >= EVENTS).await;
    let received: Vec<String> = world.sink.received().into_iter().map(|(_, id)| id).collect();
    assert_eq!(received, sent);
    assert_eq!((world.gateway.resumes(), world.gateway.identifies()), (1, 1));
    relay.shut_down().await;
    world.assert_well_behaved();
}
