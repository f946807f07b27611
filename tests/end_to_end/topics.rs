//! Telegram: forum topics.

use serde_json::{Value, json};

use crate::app::TestApp;
use crate::updates::{Update, supergroup};

const FORUM: i64 = -1_002_000_300_500;

fn topic(thread: i64, update: Update) -> Update {
    update.with("message_thread_id", json!(thread)).with("is_topic_message", json!(true))
}

fn of_topic(thread: i64) -> Value {
    json!({
        "message_id": thread, "date": 1_763_765_000, "chat": {"id": FORUM, "type": "supergroup", "is_forum": true},
        "from": {"id": annals_test_support::telegram_api::BOT_ID, "is_bot": true, "first_name": "Annals"},
        "message_thread_id": thread, "is_topic_message": true,
        "forum_topic_created": {"name": "Bees", "icon_color": 1},
    })
}

#[tokio::test]
async fn a_topic_is_a_chat_of_its_own_and_is_answered_there() {
    let app = TestApp::start().await;
    app.receive(topic(17, supergroup(FORUM, 21, "@annals_test_bot a swarm!").mention())).await;
    app.handle(topic(18, supergroup(FORUM, 22, "@annals_test_bot a hive!").mention())).await;
    for (thread, id, text) in [(17, 21, "a swarm!"), (18, 22, "a hive!")] {
        assert_eq!(
            app.lines(&format!("telegram:chat:{FORUM}:topic:{thread}")).await,
            [
                format!("{id} user: @annals_test_bot {text}"),
                format!("{id}/reply assistant: You said: Ada: @annals_test_bot {text}"),
            ]
        );
        let sent = app.telegram_api().sent_to(FORUM);
        let sent = sent.iter().find(|sent| sent.reply_to == Some(id)).unwrap();
        assert_eq!(sent.thread_id, Some(thread));
    }
    app.finish().await;
}

/// In a topic, what replies to nothing replies to the topic's own service message, which the bot may have sent.
#[tokio::test]
async fn the_topics_own_service_message_is_no_message_of_the_bot() {
    let app = TestApp::start().await;
    let unaddressed = topic(17, supergroup(FORUM, 21, "a swarm!")).with("reply_to_message", of_topic(17));
    app.handle(unaddressed).await;
    assert_eq!(app.lines(&format!("telegram:chat:{FORUM}:topic:17")).await, ["21 user: a swarm!"]);
    assert_eq!(app.model().count(), 0);
    app.finish().await;
}

#[tokio::test]
async fn the_general_topic_has_no_id_that_could_be_sent() {
    let app = TestApp::start().await;
    let mention = |id| supergroup(FORUM, id, "@annals_test_bot hello").mention();
    app.receive(mention(21)).await;
    // A thread of replies is no topic, and some clients' General has the id 1.
    app.receive(mention(22).with("message_thread_id", json!(20))).await;
    app.handle(topic(1, mention(23))).await;
    let sent = app.telegram_api().sent_to(FORUM);
    assert!(sent.len() >= 2 && sent.iter().all(|sent| sent.thread_id.is_none()), "{sent:?}");
    let history = app.lines(&format!("telegram:chat:{FORUM}")).await.join("\n");
    assert!(history.contains("21 user") && history.contains("22 user"), "{history}");
    app.finish().await;
}
