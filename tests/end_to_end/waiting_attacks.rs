//! Attacks on calls that wait for an approval.

use serde_json::{Value, json};

use crate::outside_tools::with_shop;
use crate::support::mcp_server::McpServer;
use crate::updates::{Update, group};

fn by(update: Update, user: i64) -> Update {
    update.with("from", json!({"id": user, "is_bot": false, "first_name": "Somebody"}))
}

/// `/approve`, `/deny` and `/stop` look at the last 200 records: whoever talks much hides what waits, also from `/stop`.
#[tokio::test]
async fn a_flood_does_not_keep_a_waiting_call_from_a_stop() {
    let shop = McpServer::start().await;
    let fields: Value = json!({"tools": {"refund": {"approval": true}}});
    let app = with_shop(&shop, &fields).set("ALLOW_FROM", "telegram-42").start().await;
    app.model().answer_tools(&[("shop_refund", json!({"order": "A1"}))]);
    app.receive(group(-7, 1, "@annals_test_bot pay A1 back").mention()).await;
    app.idle_as_time_passes().await;
    let asked = app.telegram_api().sent().pop().unwrap();
    for id in 2..220 {
        app.receive(by(group(-7, id, "bla"), 99)).await;
    }
    app.receive(group(-7, 300, "/stop").command()).await;
    app.idle_as_time_passes().await;
    app.receive(json!({"update_id": 9000, "callback_query": {
        "id": "c1", "chat_instance": "1", "data": asked.keyboard[0][0]["callback_data"],
        "from": {"id": 42, "is_bot": false, "first_name": "Ada"},
        "message": {"message_id": asked.message_id, "date": 1_763_765_920, "text": asked.text,
            "chat": {"id": -7, "type": "group"}},
    }}))
    .await;
    app.idle_as_time_passes().await;
    assert_eq!(shop.carried_out(), [], "it was stopped");
    app.finish().await;
}

/// An allowed chat's group is named by its number; its topics too, and nothing that only looks like it.
#[tokio::test]
async fn one_who_did_not_ask_cannot_approve_by_writing_as_another_chat() {
    let shop = McpServer::start().await;
    let fields: Value = json!({"tools": {"refund": {"approval": true}}});
    let app = with_shop(&shop, &fields).start().await;
    app.telegram_api().set_administrators(-7, &[50]);
    app.model().answer_tools(&[("shop_refund", json!({"order": "A1"}))]);
    app.receive(group(-7, 1, "@annals_test_bot pay A1 back").mention()).await;
    app.idle_as_time_passes().await;
    // As a channel of her own, as the channel that is linked, as a bot, by an edit, behind a via_bot.
    let channel = json!({"id": -1001, "type": "channel", "title": "Mallory's"});
    let stand_in = json!({"id": 136_817_688, "is_bot": true, "first_name": "Channel"});
    let posts = [
        group(-7, 2, "/approve").command().with("from", stand_in).with("sender_chat", channel.clone()),
        group(-7, 3, "/approve")
            .command()
            .with("from", json!({"id": 777_000, "first_name": "Telegram"}))
            .with("sender_chat", channel)
            .with("is_automatic_forward", json!(true)),
        by(group(-7, 4, "/approve").command(), 99)
            .with("sender_chat", json!({"id": -7, "type": "group", "title": "x"})),
        by(group(-7, 5, "x"), 99).edited(30, "/approve"),
        by(group(-7, 6, "/approve all"), 99).command(),
    ];
    for post in posts {
        app.receive(post).await;
        app.idle_as_time_passes().await;
    }
    assert_eq!(shop.carried_out(), []);
    app.finish().await;
}

/// Two askers, and both words at once: exactly one call.
#[tokio::test]
async fn two_words_at_once_make_one_call_and_none_is_lost() {
    for _ in 0..5 {
        let shop = McpServer::start().await;
        let fields: Value = json!({"tools": {"refund": {"approval": true}}});
        let app = with_shop(&shop, &fields)
            .set("GROUP_ACTIVATION", "always")
            .set("REPLY_QUIET", "2s")
            .start()
            .await;
        app.model().answer_tools(&[("shop_refund", json!({"order": "A1"}))]);
        app.receive(by(group(-7, 1, "Pay A1 back."), 42)).await;
        app.receive(by(group(-7, 2, "Yes, do."), 43)).await;
        app.idle_as_time_passes().await;
        let ada = app.receive(by(group(-7, 3, "/approve").command(), 42));
        let bob = app.receive(by(group(-7, 4, "/approve").command(), 43));
        tokio::join!(ada, bob);
        app.idle_as_time_passes().await;
        assert_eq!(shop.carried_out().len(), 1);
        app.finish().await;
    }
}
