//! Telegram: messages to the bot and to each business that it answers for are separate lines, though they share a chat.

use std::time::Duration;

use annals_test_support::model_api::{lines_said, texts_of};
use serde_json::{Value, json};

use crate::app::{TestApp, chat_path, ids};
use crate::turns::assert_answered_once;
use crate::updates::{Update, private};

const CHAT: &str = "telegram:chat:42";

pub(crate) fn business(connection: &str, id: i64, text: &str) -> Update {
    private(42, id, text).kind("business_message").with("business_connection_id", json!(connection))
}

/// A message of that business's owner to customer 42.
fn owner(connection: &str, id: i64, text: &str) -> Update {
    business(connection, id, text).with("from", json!({"id": 77, "is_bot": false, "first_name": "Olle"}))
}

fn shown(request: &Value) -> String {
    ["system", "user", "assistant"].map(|role| texts_of(request, role).join("\n")).join("\n")
}

/// The connection and the quoted message of each reply that was sent, in order.
fn sent(app: &TestApp) -> Vec<(Option<String>, Option<i64>)> {
    app.telegram_api().sent().into_iter().map(|sent| (sent.business_connection_id, sent.reply_to)).collect()
}

fn on(connection: &str, id: i64) -> (Option<String>, Option<i64>) {
    (Some(connection.to_owned()), Some(id))
}

#[tokio::test]
async fn lines_of_one_chat_never_see_each_other() {
    let app = TestApp::start().await;
    let said = [
        business("bc_a", 1, "honey one"),
        private(42, 2, "secret one"),
        business("bc_b", 3, "candle one"),
        private(42, 4, "secret two"),
        owner("bc_a", 5, "honey offer"),
        business("bc_b", 6, "candle two"),
        business("bc_a", 7, "honey two"),
    ];
    for update in said {
        app.handle(update).await;
    }
    let requests = app.model().requests();
    let asked: Vec<Vec<String>> = requests.iter().map(lines_said).collect();
    assert_eq!(
        asked,
        [
            vec!["honey one"],
            vec!["secret one"],
            vec!["candle one"],
            vec!["secret one", "secret two"],
            vec!["candle one", "candle two"],
            vec!["Ada: honey one", "Olle: honey offer", "Ada: honey two"],
        ]
    );
    for request in &requests {
        let lines = ["honey", "secret", "candle"].map(|word| shown(request).contains(word));
        assert_eq!(lines.iter().filter(|is_shown| **is_shown).count(), 1, "{request}");
    }
    let own = |id| (None, Some(id));
    assert_eq!(
        sent(&app),
        [on("bc_a", 1), own(2), on("bc_b", 3), own(4), on("bc_b", 6), on("bc_a", 7)],
        "each over its own connection"
    );
    assert_eq!(app.history(CHAT).await.len(), 7 + 6, "the history has them all");

    // The context is that of the line last spoken on.
    let shown = async || ids(&app.context(CHAT).await);
    assert_eq!(shown().await, ["1", "1/reply", "5", "7", "7/reply"]);
    app.handle(private(42, 8, "secret three")).await;
    assert_eq!(shown().await, ["2", "2/reply", "4", "4/reply", "8", "8/reply"]);
    app.receive(owner("bc_b", 9, "candle offer")).await;
    assert_eq!(shown().await, ["3", "3/reply", "6", "6/reply", "9"]);
    app.finish().await;
}

#[tokio::test]
async fn lines_that_wait_at_once_get_a_reply_each() {
    let app = TestApp::start().await;
    app.hold(private(42, 1, "secret one")).await;
    let waiting = [
        business("bc_a", 2, "honey one"),
        business("bc_b", 3, "candle one"),
        private(42, 4, "secret two"),
        business("bc_a", 5, "honey two"),
        business("bc_b", 6, "candle two"),
    ];
    for update in waiting {
        app.receive(update).await;
    }
    app.model().resume();
    app.idle().await;

    assert_eq!(app.model().count(), 4);
    for request in app.model().requests() {
        let lines = ["honey", "secret", "candle"].map(|word| shown(&request).contains(word));
        assert_eq!(lines.iter().filter(|is_shown| **is_shown).count(), 1, "{request}");
    }
    assert_eq!(sent(&app), [(None, Some(1)), on("bc_a", 5), on("bc_b", 6), (None, Some(4))]);
    assert_answered_once(&app.records(CHAT).await);
    assert_eq!(
        app.lines(CHAT).await,
        [
            "1 user: secret one",
            "1/reply assistant: You said: secret one",
            "2 user: honey one",
            "3 user: candle one",
            "4 user: secret two",
            "4/reply assistant: You said: secret two",
            "5 user: honey two",
            "5/reply assistant: You said: honey one\nhoney two",
            "6 user: candle two",
            "6/reply assistant: You said: candle one\ncandle two",
        ]
    );
    app.finish().await;
}

/// Anybody may connect the bot to an account of theirs, whose customers are then told only what is theirs.
#[tokio::test]
async fn reminders_of_one_line_are_neither_listed_nor_cancelled_on_another() {
    let app = TestApp::start().await;
    app.handle(private(42, 1, "/remind 2026-12-01 9:00 secret").command()).await;
    app.handle(business("bc_a", 2, "/remind 2026-12-01 9:00 honey").command()).await;
    let schedules = async || app.get(&chat_path(CHAT, "schedules")).await["schedules"].take();
    let (of_both, before) = (schedules().await, app.model().count());
    let id = |text: &str| {
        let mut stored = of_both.as_array().unwrap().iter();
        stored.find(|stored| stored["text"].as_str().unwrap().ends_with(text)).unwrap()["id"].clone()
    };
    app.handle(business("bc_a", 3, "/remind").command()).await;
    let list = app.last_sent().text;
    assert!(list.contains("honey") && !list.contains("secret"), "{list}");
    let cancel = format!("/remind cancel {}", id("secret").as_str().unwrap());
    app.handle(business("bc_a", 4, &cancel).command()).await;
    app.model()
        .answer_tools(&[("schedule_list", json!({})), ("schedule_cancel", json!({"id": id("secret")}))]);
    app.handle(business("bc_a", 5, "what is to come?")).await;
    assert_eq!(app.model().count(), before + 2);
    let listed = &texts_of(&app.last_request(), "tool")[0];
    assert!(listed.contains("honey") && !listed.contains("secret"), "{listed}");
    assert_eq!(schedules().await, of_both);
    app.handle(private(42, 6, &cancel).command()).await;
    assert_eq!(schedules().await.as_array().unwrap().len(), 1);
    app.finish().await;
}

/// The start of one line's Session says nothing about another's, which may have begun long before.
#[tokio::test]
async fn a_session_of_one_line_may_start_before_that_of_another() {
    let app = TestApp::start().await;
    let said = [
        (0, business("bc_a", 1, "honey one")),
        (40, business("bc_a", 2, "honey two")),
        (80, business("bc_a", 3, "honey three")),
        (81, private(42, 4, "secret")),
        (120, business("bc_a", 5, "honey four")),
        (121, private(42, 6, "secret two")),
    ];
    let mut now = 0;
    for (hour, update) in said {
        app.clock().advance(Duration::from_hours(hour - now));
        now = hour;
        app.handle(update.at(i64::try_from(hour).unwrap() * 3600)).await;
    }
    let requests = app.model().requests();
    let asked: Vec<Vec<String>> = requests[3..].iter().map(lines_said).collect();
    assert_eq!(
        asked,
        [
            vec!["secret"],
            vec!["honey one", "honey two", "honey three", "honey four"],
            vec!["secret", "secret two"],
        ]
    );
    app.finish().await;
}

/// Under `DM_SCOPE=user`, the person's own chat is told what they said to the bot, and nothing of what they said to a business.
#[tokio::test]
async fn a_change_of_the_scope_tells_of_no_business() {
    let mut app = TestApp::start().await;
    app.handle(private(42, 1, "secret one")).await;
    app.handle(business("bc_a", 2, "honey one")).await;
    app.set("DM_SCOPE", "user").await;
    app.handle(private(42, 3, "secret two")).await;
    let summed_up: String = app.model().requests_for_notes().iter().map(shown).collect();
    assert!(summed_up.contains("secret one") && !summed_up.contains("honey"), "{summed_up}");
    assert!(!shown(&app.last_request()).contains("honey"), "{}", app.last_request());
    app.finish().await;
}
