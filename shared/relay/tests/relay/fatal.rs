//! Faults that the operator must repair, and the limit of IDENTIFYs.

use std::time::Duration;

use annals_relay::RelayError;
use annals_test_support::discord_gateway::TOKEN;

use crate::world::{CHANNEL, Running, World, pause, until};

/// Waits for the end of a relay, which must leave the lease free.
async fn error_of(world: &World, running: Running) -> RelayError {
    let error = running.task.await.unwrap().unwrap_err();
    assert_eq!(world.status().await.runs_until, None);
    assert!(!format!("{error} {error:?}").contains(TOKEN));
    error
}

#[tokio::test]
async fn a_wrong_token_ends_the_relay_before_it_connects() {
    let world = World::new().await;
    let running = Running::of(world.relay(|config| config.token = "wrong".into()));
    let error = error_of(&world, running).await;
    assert!(matches!(error, RelayError::Token) && error.to_string().contains("DISCORD_BOT_TOKEN"), "{error}");
    assert_eq!(world.gateway.identifies(), 0);
}

#[tokio::test]
async fn a_missing_privilege_names_both_ways_out() {
    let world = World::new().await;
    let running = Running::of(world.relay(|config| config.needs_message_content = true));
    let error = error_of(&world, running).await;
    assert!(matches!(error, RelayError::MessageContent), "{error}");
    assert!(error.to_string().contains("developer portal, or set GROUP_ACTIVATION=mention"), "{error}");
    assert_eq!(world.gateway.identifies(), 1);
}

#[tokio::test]
async fn fatal_close_codes_of_a_live_session_end_the_relay() {
    for (code, expected) in
        [(4004, "DISCORD_BOT_TOKEN"), (4011, "too many guilds"), (4013, "close code 4013")]
    {
        let world = World::new().await;
        let running = world.started().await;
        world.say(CHANNEL, "just before");
        world.until_stored(CHANNEL, &["just before"]).await;
        world.gateway.close(code);
        let error = error_of(&world, running).await;
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(world.gateway.identifies(), 1);
    }
}

#[tokio::test]
async fn invalid_sessions_in_a_row_are_replaced_ever_more_slowly() {
    let world = World::new().await;
    world.gateway.change(|gateway| gateway.invalid_identifies = 3);
    let start = world.clock.now();
    let relay = world.started().await;
    assert_eq!(world.gateway.identifies(), 4);
    // 1 to 5 s, then 10 s and 20 s with as much again.
    assert!(world.clock.now().since(start) >= Duration::from_secs(1 + 11 + 21));
    relay.shut_down().await;
    world.assert_well_behaved();
}

#[tokio::test]
async fn nothing_is_identified_when_none_is_left_today() {
    let world = World::new().await;
    world.gateway.change(|gateway| gateway.identifies_left = 0);
    let relay = world.start();
    until("it is connected", async || world.gateway.connections() == 1).await;
    pause(500).await;
    assert_eq!(world.gateway.identifies(), 0);
    relay.shut_down().await;
}
