//! Telegram: an edited message is one message in several forms.

use annals_test_support::model_api::texts_of;

use crate::app::TestApp;
use crate::updates::{group, private};
use crate::world::A_LIFE;

const CHAT: &str = "telegram:chat:42";
const GROUP: &str = "telegram:chat:-100";

#[tokio::test]
async fn an_edit_before_its_turn_is_answered_in_its_new_form() {
    let app = TestApp::start().await;
    app.hold(private(42, 6, "wait")).await;
    let message = private(42, 7, "helo");
    app.receive(&message).await;
    app.receive(message.edited(8, "hello")).await;
    app.model().resume();
    app.idle().await;

    assert_eq!(
        app.lines(CHAT).await,
        [
            "6 user: wait",
            "6/reply assistant: You said: wait",
            "7 user: helo",
            "7@1 user revision: hello",
            "7/reply assistant: You said: hello",
        ]
    );
    let requests = app.model().requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(texts_of(&requests[1], "user"), ["wait", "hello"]);
    app.finish().await;
}

#[tokio::test]
async fn an_edit_after_its_turn_is_listed_and_seen_but_not_answered_again() {
    let app = TestApp::start().await;
    let message = private(42, 7, "helo");
    app.handle(&message).await;
    let edit = message.clone().edited(30, "hello");
    app.handle(&edit).await;
    let history = ["7 user: helo", "7@1 user revision: hello", "7/reply assistant: You said: helo"];
    assert_eq!(app.lines(CHAT).await, history);
    assert_eq!(app.history(CHAT).await[1]["metadata"]["messageId"], "7");
    let context = app.context(CHAT).await;
    assert_eq!((&context[0]["id"], &context[0]["parts"][0]["text"]), (&"7".into(), &"hello".into()));

    // Whatever Telegram delivers again changes nothing, the old form neither.
    for update in [&message, &edit, &message] {
        app.receive(update).await;
    }
    app.idle().await;
    assert_eq!(app.lines(CHAT).await, history);
    assert_eq!(app.context(CHAT).await, context);
    assert_eq!((app.model().count(), app.telegram_api().sent().len()), (1, 1));

    // The next answer is made with the newest form in view.
    app.handle(private(42, 40, "and now")).await;
    assert_eq!(texts_of(&app.model().requests()[1], "user"), ["hello", "and now"]);
    app.finish().await;
}

/// Older forms may arrive after newer ones: the platform's edit date decides which is the newest.
#[tokio::test]
async fn forms_out_of_order_end_in_the_newest() {
    let app = TestApp::start().await;
    let message = private(42, 7, "one");
    app.receive(message.clone().edited(30, "three")).await;
    app.receive(message.clone().edited(20, "two")).await;
    app.handle(&message).await;
    assert_eq!(app.context_lines(CHAT).await[0], "7 user: three");
    assert_eq!(app.history(CHAT).await.len(), 4);
    assert_eq!(app.telegram_api().sent().len(), 1);
    app.finish().await;
}

#[tokio::test]
async fn an_edit_that_addresses_the_bot_at_last_is_answered_once() {
    let app = TestApp::start().await;
    let message = group(-100, 7, "when is frost?");
    app.handle(&message).await;
    assert_eq!(app.model().count(), 0);

    let edit = message.edited(30, "@annals_test_bot when is frost?").mention();
    app.handle(&edit).await;
    app.receive(&edit).await;
    app.handle(edit.clone().edited(40, "@annals_test_bot when is the frost?")).await;
    assert_eq!(
        app.lines(GROUP).await,
        [
            "7 user: when is frost?",
            "7@1 user revision: @annals_test_bot when is frost?",
            "7@2 user revision: @annals_test_bot when is the frost?",
            "7/reply assistant: You said: Ada: @annals_test_bot when is frost?",
        ]
    );
    assert_eq!(app.telegram_api().sent().len(), 1);
    app.finish().await;
}

/// TTL may delete an expired message, or leave it for days.
#[tokio::test]
async fn an_edit_of_an_archived_message_is_answered_once_if_it_addresses_the_bot_at_last() {
    tokio::join!(edits_of_archived_messages(true), edits_of_archived_messages(false));
}

async fn edits_of_archived_messages(has_left: bool) {
    const DAYS: i64 = 9 * 24 * 3600;
    let app = TestApp::start().await;
    let (asked, message) =
        (group(-100, 6, "@annals_test_bot hi").mention(), group(-100, 7, "when is frost?"));
    app.handle(&asked).await;
    app.handle(&message).await;
    if has_left {
        app.leave_the_table(GROUP).await;
    } else {
        app.archive_everything(GROUP).await;
        app.clock().advance(A_LIFE);
    }
    let edit = message.edited(DAYS, "@annals_test_bot when is frost?").mention();
    app.handle_as_time_passes(&edit).await;
    app.handle_as_time_passes(&edit).await;
    app.handle_as_time_passes(edit.clone().edited(DAYS + 10, "@annals_test_bot when is the frost?")).await;
    // What asked before has been answered.
    app.handle_as_time_passes(asked.edited(DAYS, "@annals_test_bot hello").mention()).await;
    let said = ["You said: Ada: @annals_test_bot hi", "You said: Ada: @annals_test_bot when is frost?"];
    assert_eq!(app.sent_texts(), said);
    // A message that waits keeps its Session, so what is still in the table is summed up.
    let mut lines = app.lines(GROUP).await;
    lines.retain(|line| !line.starts_with("6/reply/summary "));
    assert_eq!(
        lines,
        [
            "6 user: @annals_test_bot hi",
            "6@1 user revision: @annals_test_bot hello",
            "6/reply assistant: You said: Ada: @annals_test_bot hi",
            "7 user: when is frost?",
            "7@1 user revision: @annals_test_bot when is frost?",
            "7@2 user revision: @annals_test_bot when is the frost?",
            "7/reply assistant: You said: Ada: @annals_test_bot when is frost?",
        ]
    );
    app.finish().await;
}
