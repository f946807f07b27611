//! Turns in the function with the streaming URL: it runs them itself, one run at a time in a chat as everywhere.

use std::time::Duration;

use annals_agent::Agent;
use annals_core::message::Role;
use annals_core::record::Draft;
use annals_core::sort_key::SortKey;
use annals_engine::live::{Live, LiveEvent, ReplyEvent};

use crate::app::{a_while, passing};
use crate::world::{World, chat, claim, echo_agent, message};

async fn said(world: &World, id: u64, text: &str) -> SortKey {
    let draft = Draft { asks: true, ..message(&chat(1), id, i64::try_from(id).unwrap(), text) };
    world.history().append(&draft).await.unwrap().base
}

async fn replies(world: &World) -> Vec<String> {
    let records = world.history().range(&chat(1), None).await.unwrap();
    let replies = records.iter().filter(|record| record.role() == Role::Assistant);
    replies.map(|reply| reply.message.plain_text()).collect()
}

/// As the Lambda function's: all on one thread.
#[tokio::test]
async fn the_streaming_function_runs_its_turn_as_soon_as_the_chat_is_free() {
    let world = World::new().await;
    let history = world.history();
    let live = Live::on();
    let agent = Agent { live: live.clone(), ..echo_agent(&history) };
    let from = said(&world, 1, "one two").await;
    let mut listener = live.listen(&chat(1)).unwrap();
    let other = claim(&history, &chat(1)).await;
    let run = tokio::spawn(async move { annals_streaming::run(&agent, &chat(1), &from).await });
    a_while().await;
    assert_eq!(replies(&world).await, [""; 0], "another run has the chat");
    history.release(&other).await.unwrap();
    passing(&world.clock, Duration::from_millis(100), run).await.unwrap();
    assert_eq!(replies(&world).await, ["one two"]);

    assert!(matches!(listener.next().await, LiveEvent::Started(begun) if begun.message_id == "1/reply"));
    let mut heard = String::new();
    loop {
        match listener.next().await {
            LiveEvent::Reply(ReplyEvent::Text(text)) => heard += &text,
            LiveEvent::Reply(ReplyEvent::Stored(reply)) => {
                break assert_eq!(reply.message.plain_text(), heard);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_turn_that_waits_too_long_is_left_to_the_queue() {
    let world = World::new().await;
    let history = world.history();
    let agent = echo_agent(&history);
    let from = said(&world, 1, "hello").await;
    let other = claim(&history, &chat(1)).await;
    let started = world.clock.now();
    let run = tokio::spawn(async move { annals_streaming::run(&agent, &chat(1), &from).await });
    passing(&world.clock, Duration::from_secs(1), run).await.unwrap();
    assert!(world.clock.now().since(started) < Duration::from_secs(90), "it goes on without the chat");
    assert_eq!(replies(&world).await, [""; 0]);
    history.release(&other).await.unwrap();
}
