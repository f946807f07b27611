//! Telegram: forum topics.

use serde_json::json;

use crate::app::TestApp;
use crate::updates::{Update, supergroup};

const FORUM: i64 = -1_002_000_300_500;

fn topic(thread: i64, update: Update) -> Update {
    update.with("message_thread_id", json!(thread)).with("is_topic_message", json!(true))
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
