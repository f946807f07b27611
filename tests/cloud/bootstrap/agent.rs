//! The agent alone: a batch of the queue.

use serde_json::{Value, json};

use crate::bootstrap::emulated::{Emulated, event, queue};
use crate::bootstrap::endpoints::telegram_event;
use crate::stack::beside;

#[test]
#[ignore = "needs a deployed stack: just cloud"]
fn a_batch_is_answered_but_for_what_is_no_turn() {
    beside(async |stack| {
        let queue = queue(stack, "agent-alone").await;
        let telegram = Emulated::start(stack, "Telegram", &queue, &[]).await;
        let secret = &stack.secrets()["TELEGRAM_WEBHOOK_SECRET"];
        let chats = [9101, 9102, 9103];
        for chat in chats {
            assert_eq!(telegram.invoke(&telegram_event(chat, secret)).await["statusCode"], 200);
        }
        let mut batch = event("agent-turn");
        let record = batch["Records"][0].clone();
        let with = |id: &str, body: &str, receipt: &str| {
            let mut record = record.clone();
            (record["messageId"], record["body"]) = (json!(id), json!(body));
            record["receiptHandle"] = json!(receipt);
            record
        };
        let mut records = vec![with("poison", "no turn", "none")];
        while records.len() < 1 + chats.len() {
            let received = stack.sqs.receive_message().queue_url(&queue).max_number_of_messages(10);
            for message in received.send().await.unwrap().messages() {
                records.push(with(
                    message.message_id().unwrap(),
                    message.body().unwrap(),
                    message.receipt_handle().unwrap(),
                ));
            }
        }
        batch["Records"] = json!(records);

        let agent = Emulated::start(stack, "Agent", &queue, &[]).await;
        let failed = json!({"batchItemFailures": [{"itemIdentifier": "poison"}]});
        for _ in 0..2 {
            // The second time as the queue may give what it gave before.
            let answer: Value = agent.invoke(&batch).await;
            assert_eq!(answer, failed, "{}", agent.log());
            for chat in chats {
                let sent: Vec<_> = stack.telegram.sent_to(chat).into_iter().map(|sent| sent.text).collect();
                assert_eq!(sent, ["You said: Hello, do you remember me?"]);
            }
        }
    });
}
