//! The schedule: the compactor comes by itself, and archives.

use annals_core::record::Channel;
use reqwest::Method;
use serde_json::Value;

use crate::endpoints::telegram_text;
use crate::stack::{UNTIL_THE_SCHEDULE, beside, soon, wait_until};

#[test]
#[ignore = "needs a deployed stack: just cloud"]
fn the_schedule_fires_the_compactor_and_a_segment_is_in_the_bucket() {
    beside(async |stack| {
        assert_eq!(stack.post(Channel::Telegram, &telegram_text(7001, 1, "keep this")).await, 200);
        soon("the reply is delivered", async || stack.telegram.sent_to(7001).len() == 1).await;
        let list = async || {
            let path = "/v1/chats/telegram%3Achat%3A7001/segments";
            // The emulated gateway closes idle connections as it likes: the next look is another one.
            let Ok(answer) = stack.api(Method::GET, path).bearer_auth("ops-secret").send().await else {
                return Value::Null;
            };
            let mut listed: Value = answer.json().await.unwrap();
            listed["segments"].take()
        };
        wait_until("a segment is listed", UNTIL_THE_SCHEDULE, async || !list().await[0].is_null()).await;
        let segment = &list().await[0];
        let chat: annals_core::chat_key::ChatKey = "telegram:chat:7001".parse().unwrap();
        let key = format!("segments/{}/{}.jsonl.gz", chat.session_id(), segment["id"].as_str().unwrap());
        let object = stack.s3.get_object().bucket(stack.output("BucketName")).key(&key).send().await.unwrap();
        assert_eq!(object.content_length(), segment["bytes"].as_i64(), "{segment}");
        // Only TTL takes what is archived.
        assert_eq!(
            stack.stored("telegram:chat:7001").await,
            ["user: keep this", "assistant: You said: keep this"]
        );
    });
}
