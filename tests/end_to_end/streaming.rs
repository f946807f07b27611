//! Turns in the function with the streaming URL: it runs them itself, one run at a time in a chat as everywhere.

use std::time::Duration;

use annals_agent::Agent;
use annals_core::message::Role;
use annals_engine::live::{Live, LiveEvent, ReplyEvent};

use crate::app::{a_while, passing};
use crate::world::World;

async fn replies(world: &World) -> Vec<String> {
    let records = world.records().await;
    let replies = records.iter().filter(|record| record.role() == Role::Assistant);
    replies.map(|reply| reply.message.plain_text()).collect()
}

/// As the Lambda function's: all on one thread.
#[tokio::test]
async fn the_streaming_function_runs_its_turn_as_soon_as_the_chat_is_free() {
    let world = World::new().await;
    let (live, chat) = (Live::on(), world.chat.clone());
    let agent = Agent { live: live.clone(), ..world.agent() };
    let from = world.ask(1, 1, "one two").await;
    let mut listener = live.listen(&chat).unwrap();
    let other = world.claim().await;
    let run = tokio::spawn(async move { annals_streaming::run(&agent, &chat, &from).await });
    a_while().await;
    assert_eq!(replies(&world).await, [""; 0], "another run has the chat");
    world.history.release(&other).await.unwrap();
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
    let (agent, chat) = (world.agent(), world.chat.clone());
    let from = world.ask(1, 1, "hello").await;
    let other = world.claim().await;
    let started = world.clock.now();
    let run = tokio::spawn(async move { annals_streaming::run(&agent, &chat, &from).await });
    passing(&world.clock, Duration::from_secs(1), run).await.unwrap();
    assert!(world.clock.now().since(started) < Duration::from_secs(90), "it goes on without the chat");
    assert_eq!(replies(&world).await, [""; 0]);
    world.history.release(&other).await.unwrap();
}
