//! The queue between the endpoints and the agent: its turns, and invalid messages in a batch.

use annals_core::record::Channel;
use serde_json::json;

use crate::endpoints::telegram_text;
use crate::stack::{Stack, alone, soon};

/// The value in the template; see there.
const AS_DEPLOYED: [&str; 4] = ["batches", "1", "360", "25"];

/// Sets the queue as deployed again, however the test ends.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        Stack::tool(&AS_DEPLOYED);
        Stack::tool(&["resume"]);
    }
}

#[test]
#[ignore = "needs a deployed stack: just cloud"]
fn a_poisoned_message_ends_in_the_dead_letters_and_the_rest_of_its_batch_is_done() {
    alone(async |stack| {
        let (queue, dead) = (stack.output("QueueUrl"), stack.output("DeadLettersUrl"));
        stack.idle().await;
        let _restored = Restored;
        Stack::tool(&["pause"]);
        // Few seconds and two deliveries, so that the test need not wait for hours.
        Stack::tool(&["batches", "10", "3", "2"]);
        for chat in [8001, 8002] {
            assert_eq!(stack.post(Channel::Telegram, &telegram_text(chat, 1, "hello")).await, 200);
        }
        let poison = stack.sqs.send_message().queue_url(queue).message_body("no turn");
        poison.message_group_id("poison").message_deduplication_id("poison").send().await.unwrap();
        assert_eq!(stack.post(Channel::Telegram, &telegram_text(8003, 1, "hello")).await, 200);
        assert_eq!(stack.queued(queue).await, 4, "each is acknowledged, and waits for the agent");
        assert_eq!(stack.telegram.sent_to(8001), []);

        Stack::tool(&["resume"]);
        soon("the poison is in the dead letters", async || stack.queued(dead).await == 1).await;
        stack.idle().await;
        let letters = stack.sqs.receive_message().queue_url(dead).visibility_timeout(0).send().await.unwrap();
        let bodies: Vec<_> = letters.messages().iter().map(|message| message.body().unwrap()).collect();
        assert_eq!(bodies, ["no turn"]);
        for chat in [8001, 8002, 8003] {
            let sent: Vec<_> = stack.telegram.sent_to(chat).into_iter().map(|sent| sent.text).collect();
            assert_eq!(sent, ["You said: hello"]);
            let key = format!("telegram:chat:{chat}");
            assert_eq!(stack.stored(&key).await, ["user: hello", "assistant: You said: hello"]);
        }
        stack.sqs.purge_queue().queue_url(dead).send().await.unwrap();
    });
}

#[test]
#[ignore = "needs a deployed stack: just cloud"]
fn a_turn_waits_in_the_queue_under_its_chats_group() {
    alone(async |stack| {
        let queue = stack.output("QueueUrl");
        stack.idle().await;
        let _restored = Restored;
        Stack::tool(&["pause"]);
        for _ in 0..2 {
            assert_eq!(stack.post(Channel::Telegram, &telegram_text(8010, 1, "hello")).await, 200);
        }
        let system = aws_sdk_sqs::types::MessageSystemAttributeName::MessageGroupId;
        let request =
            stack.sqs.receive_message().queue_url(queue).max_number_of_messages(10).visibility_timeout(0);
        let received = request.message_system_attribute_names(system.clone()).send().await.unwrap();
        // The duplicate's too: its first delivery may have crashed before it was queued.
        let [turn, _] = received.messages() else { panic!("{received:?}") };
        let mut body: serde_json::Value = serde_json::from_str(turn.body().unwrap()).unwrap();
        assert!(body.as_object_mut().unwrap().remove("at").unwrap().is_i64(), "when it came");
        let from = format!("1764057601000#{:020}", 1);
        assert_eq!(body, json!({"chat": "telegram:chat:8010", "from": from}), "and no text");
        let chat: annals_core::chat_key::ChatKey = "telegram:chat:8010".parse().unwrap();
        assert_eq!(turn.attributes().unwrap()[&system], chat.session_id().as_str());

        Stack::tool(&["resume"]);
        soon("the reply is delivered", async || stack.telegram.sent_to(8010).len() == 1).await;
        stack.idle().await;
    });
}
