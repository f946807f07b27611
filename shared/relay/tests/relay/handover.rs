//! Several relays of one application: one runs.

use std::time::Duration;

use annals_store::relay::RelayClaim;

use crate::world::{CHANNEL, Running, World, pause, until};

#[tokio::test]
async fn a_second_relay_waits_and_takes_over_when_the_first_dies() {
    let world = World::new().await;
    let first = world.started().await;
    let second = world.start();
    world.say(CHANNEL, "to the first");
    world.until_stored(CHANNEL, &["to the first"]).await;
    pause(500).await;
    assert_eq!((world.gateway.connections(), world.gateway.identifies()), (1, 1));

    first.kill().await;
    world.say(CHANNEL, "to nobody");
    pause(100).await;
    assert_eq!(world.stored(CHANNEL).await, ["to the first"], "the lease of the dead relay still runs");
    world.clock.advance(Duration::from_mins(1));
    world.until_stored(CHANNEL, &["to the first", "to nobody"]).await;
    assert_eq!((world.gateway.resumes(), world.gateway.identifies()), (1, 1));
    second.shut_down().await;
    world.assert_well_behaved();
}

#[tokio::test]
async fn a_relay_that_dies_between_an_event_and_its_record_loses_and_repeats_nothing() {
    for has_stored in [false, true] {
        let world = World::new().await;
        let killed = world.started().await;
        if has_stored {
            world.sink.block_after_storing();
        } else {
            world.sink.block();
        }
        world.say(CHANNEL, "hello");
        until("it is received", async || !world.sink.received().is_empty()).await;
        if has_stored {
            world.until_stored(CHANNEL, &["hello"]).await;
        }
        killed.kill().await;
        world.say(CHANNEL, "anyone?");
        world.sink.unblock();
        world.clock.advance(Duration::from_mins(1));
        let restarted = world.start();
        world.until_stored(CHANNEL, &["hello", "anyone?"]).await;
        assert_eq!((world.gateway.identifies(), world.gateway.resumes()), (1, 1));
        restarted.shut_down().await;
        world.assert_well_behaved();
    }
}

#[tokio::test]
async fn a_handover_releases_the_lease_and_keeps_the_session() {
    let world = World::new().await;
    let mut relay = world.started().await;
    let mut texts = Vec::new();
    for number in 0..3 {
        texts.push(format!("to relay {number}"));
        world.say(CHANNEL, texts.last().unwrap());
        let expected: Vec<&str> = texts.iter().map(String::as_str).collect();
        world.until_stored(CHANNEL, &expected).await;
        relay.shut_down().await;
        until("the connection is gone", async || world.gateway.connections() == 0).await;
        assert_eq!(world.status().await.runs_until, None);
        texts.push(format!("between relays {number}"));
        world.say(CHANNEL, texts.last().unwrap());
        relay = world.start();
        let expected: Vec<&str> = texts.iter().map(String::as_str).collect();
        world.until_stored(CHANNEL, &expected).await;
    }
    assert_eq!((world.gateway.resumes(), world.gateway.identifies()), (3, 1));
    assert_eq!(world.sink.received().len(), texts.len(), "nothing came twice");
    assert!(world.gateway.client_closes().is_empty(), "the connection is dropped, not closed");
    relay.shut_down().await;
    world.assert_well_behaved();
}

#[tokio::test]
async fn a_relay_that_is_to_stop_stores_what_it_has_received() {
    let world = World::new().await;
    let relay = world.started().await;
    world.sink.block();
    world.say(CHANNEL, "received");
    until("it is received", async || !world.sink.received().is_empty()).await;
    let stopping = tokio::spawn(relay.shut_down());
    until("the connection is dropped", async || world.gateway.connections() == 0).await;
    world.sink.unblock();
    stopping.await.unwrap();
    world.until_stored(CHANNEL, &["received"]).await;
    let next = world.start();
    until("it is resumed", async || world.gateway.resumes() == 1).await;
    pause(200).await;
    assert_eq!(world.sink.received().len(), 1, "it was saved as stored");
    next.shut_down().await;
}

#[tokio::test]
async fn a_relay_that_waits_can_be_stopped() {
    let world = World::new().await;
    let first = world.started().await;
    let second = world.start();
    pause(100).await;
    second.shut_down().await;
    assert!(world.status().await.runs_until.is_some());
    first.shut_down().await;
}

#[tokio::test]
async fn a_relay_that_loses_its_lease_stops_storing_and_saving() {
    let world = World::new().await;
    let relay = Running::of(world.relay(|_| {}).with_holder("first"));
    until("a session is saved", async || world.place().await.session.is_some()).await;
    world.sink.block();
    world.say(CHANNEL, "for the one with the lease");
    until("it is received", async || !world.sink.received().is_empty()).await;

    // The lease goes to another process, though this one did not stop.
    let minute = Duration::from_hours(1);
    let RelayClaim::Claimed(taken, before) = world.store.claim("first", minute).await.unwrap() else {
        panic!()
    };
    world.store.release(taken).await.unwrap();
    let RelayClaim::Claimed(taken, _) = world.store.claim("second", minute).await.unwrap() else { panic!() };
    until("its connection is dropped", async || world.gateway.connections() == 0).await;
    world.sink.unblock();
    pause(300).await;
    assert_eq!(world.stored(CHANNEL).await, [""; 0]);
    assert_eq!(world.place().await, before);

    world.store.release(taken).await.unwrap();
    world.until_stored(CHANNEL, &["for the one with the lease"]).await;
    assert_eq!(world.gateway.identifies(), 1);
    relay.shut_down().await;
    world.assert_well_behaved();
}
