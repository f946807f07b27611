//! A command that becomes another text: by an edit on Telegram, or by the same id over HTTP.

use annals_test_support::model_api::texts_of;
use serde_json::{Value, json};

use crate::app::{APP_KEY, Answer, NOW, TestApp};
use crate::updates::{Update, group, private};

const CHAT: &str = "telegram:chat:42";
const HTTP: &str = "http:chat:app:c1";
const RESET: &str = "Done: we start over. Earlier messages are no longer in view.";

/// The message without the command's entity.
fn edited(command: &Update, text: &str) -> Update {
    command.clone().edited(9, text).without("entities")
}

/// Posts `updates`, each of them again, and all of them once more after a restart.
async fn receive_all(app: &mut TestApp, updates: &[Update]) {
    for update in updates {
        app.handle(update).await;
        app.handle(update).await;
    }
    app.restart().await;
    for update in updates.iter().rev() {
        app.receive(update).await;
    }
    app.idle().await;
}

#[tokio::test]
async fn help_edited_to_a_question_is_shown_and_answered_once() {
    let mut app = TestApp::start().await;
    let command = private(42, 7, "/help").command();
    receive_all(&mut app, &[command.clone(), edited(&command, "how do I sow?")]).await;
    let history = app.lines(CHAT).await;
    assert_eq!(history.len(), 4, "{history:#?}");
    assert_eq!(history[..2], ["7 user notice: /help", "7@1 user revision: how do I sow?"]);
    assert!(history[2].starts_with("7/notice assistant notice: Commands:"), "{history:#?}");
    assert_eq!(history[3], "7/reply assistant: You said: how do I sow?");
    let session = ["7 user revision: how do I sow?", "7/reply assistant: You said: how do I sow?"];
    assert_eq!(app.context_lines(CHAT).await, session);
    let sent = app.telegram_api().sent();
    assert_eq!(sent.iter().map(|sent| sent.reply_to).collect::<Vec<_>>(), [Some(7), Some(7)]);

    // A later edit is the form in view, and is not answered again.
    app.receive(edited(&command, "how do I sow beans?").with("edit_date", json!(NOW))).await;
    app.handle(private(42, 70, "and peas?")).await;
    assert_eq!(texts_of(&app.model().requests()[1], "user"), ["how do I sow beans?", "and peas?"]);
    assert_eq!((app.model().count(), app.telegram_api().sent().len()), (2, 3));
    app.finish().await;
}

#[tokio::test]
async fn reset_edited_to_a_question_opens_the_session_and_is_answered_once() {
    let mut app = TestApp::start().await;
    let command = private(42, 7, "/reset").command();
    let updates = [private(42, 6, "I am Ada"), command.clone(), edited(&command, "who am I?")];
    receive_all(&mut app, &updates).await;
    assert_eq!(
        app.lines(CHAT).await,
        [
            "6 user: I am Ada",
            "6/reply assistant: You said: I am Ada",
            "7/boundary user boundary: /reset",
            "7@1 user revision: who am I?",
            &format!("7/notice assistant notice: {RESET}"),
            "7/reply assistant: You said: who am I?",
        ]
    );
    let session = ["7 user revision: who am I?", "7/reply assistant: You said: who am I?"];
    assert_eq!(app.context_lines(CHAT).await, session);
    assert_eq!(texts_of(&app.model().requests()[1], "user"), ["who am I?"]);
    assert_eq!((app.model().count(), app.telegram_api().sent().len()), (2, 3));
    app.finish().await;
}

#[tokio::test]
async fn the_message_of_new_is_edited_like_any_other() {
    let mut app = TestApp::start().await;
    let command = private(42, 7, "/new hello").command();
    receive_all(&mut app, &[command.clone(), command.clone().edited(9, "/new world")]).await;
    let ids = app.ids(CHAT).await;
    assert_eq!(ids, ["7/boundary", "7", "7@1", "7/reply"]);
    assert_eq!(app.lines(CHAT).await[3], "7/reply assistant: You said: hello");
    assert_eq!((app.model().count(), app.telegram_api().sent().len()), (1, 1));
    let context = app.context_lines(CHAT).await;
    assert!(context.len() == 2 && context[0].ends_with("world"), "its newest form: {context:?}");
    app.finish().await;
}

#[tokio::test]
async fn the_message_of_new_edited_before_its_turn_is_answered_in_its_new_form() {
    let app = TestApp::start().await;
    app.hold(private(42, 6, "wait")).await;
    let command = private(42, 7, "/new hello").command();
    app.receive(&command).await;
    app.receive(command.clone().edited(9, "/new world")).await;
    app.model().resume();
    app.idle().await;
    let asked = texts_of(&app.model().requests()[1], "user");
    assert!(asked.len() == 1 && asked[0].ends_with("world"), "{asked:?}");
    let ids = app.ids(CHAT).await;
    assert_eq!(ids, ["6", "6/reply", "7/boundary", "7", "7@1", "7/reply"]);
    assert_eq!((app.model().count(), app.telegram_api().sent().len()), (2, 2));
    app.finish().await;
}

#[tokio::test]
async fn in_a_group_a_command_edited_to_nothing_of_the_bots_is_shown_and_not_answered() {
    let mut app = TestApp::start().await;
    let command = group(-100, 7, "/help@annals_test_bot").command();
    receive_all(&mut app, &[command.clone(), edited(&command, "never mind")]).await;
    assert_eq!(app.context_lines("telegram:chat:-100").await, ["7 user revision: never mind"]);
    assert_eq!((app.model().count(), app.telegram_api().sent().len()), (0, 1));
    app.finish().await;
}

/// Posts `text` over HTTP as message `m`, and waits until its turn is done.
async fn post_m(app: &TestApp, text: &str) -> Answer {
    let body = json!({"userId": "ada", "text": text, "messageId": "m"});
    let answer = app.post("/v1/chats/c1/messages", APP_KEY, &body).await;
    app.idle().await;
    answer
}

/// Over HTTP nobody edits, but the same id with another text is a revision.
#[tokio::test]
async fn new_under_one_id_has_one_boundary_and_repeats_append_nothing() {
    let app = TestApp::builder().model().start().await;
    // A, B, A is three forms.
    for (text, revision) in [("/new a", Value::Null), ("/new b", json!(1)), ("/new a", json!(2))] {
        for is_duplicate in [false, true, true] {
            let answer = post_m(&app, text).await;
            assert_eq!((answer.status.as_u16(), &answer.body["duplicate"]), (202, &json!(is_duplicate)));
            let revision = if is_duplicate { &Value::Null } else { &revision };
            assert_eq!(answer.body["revision"], *revision, "{text}");
        }
    }
    assert_eq!(
        app.lines(HTTP).await,
        [
            "m/boundary user boundary: /new a",
            "m user: a",
            "m@1 user revision: b",
            "m@2 user revision: a",
            "m/reply assistant: You said: a",
        ]
    );
    assert_eq!(app.model().count(), 1);
    app.finish().await;
}

#[tokio::test]
async fn a_command_under_the_id_of_a_message_is_a_form_of_that_message() {
    let app = TestApp::builder().model().start().await;
    let post = async |text: &str| post_m(&app, text).await.body["revision"].clone();
    assert_eq!(post("hello").await, Value::Null);
    for (number, command) in [(1, "/new a"), (2, "/reset"), (3, "/help")] {
        assert_eq!(post(command).await, json!(number));
        assert_eq!(post(command).await, Value::Null, "a repeat is taken for a revision");
    }
    let listed = [
        "m user: hello",
        "m@1 user revision: /new a",
        "m@2 user revision: /reset",
        "m@3 user revision: /help",
        "m/reply assistant: You said: hello",
    ];
    assert_eq!(app.lines(HTTP).await, listed);
    assert_eq!(app.context_lines(HTTP).await, ["m user revision: /help", listed[4]]);
    assert_eq!(app.model().count(), 1);
    app.finish().await;
}

/// Telegram may deliver the edit first. The command is then an older form of what is a message by now.
#[tokio::test]
async fn a_command_that_arrives_after_its_own_edit_is_not_executed() {
    let app = TestApp::start().await;
    app.handle(private(42, 6, "I am Ada")).await;
    let command = private(42, 7, "/reset").command();
    app.handle(edited(&command, "who am I?")).await;
    app.receive(&command).await;
    app.handle(&command).await;
    assert!(!app.sent_texts().contains(&RESET.to_owned()), "{:?}", app.sent_texts());
    assert_eq!(app.context_lines(CHAT).await[2..3], ["7 user: who am I?"]);
    assert_eq!(app.history(CHAT).await.iter().filter(|message| message["id"] == "7").count(), 1);
    app.finish().await;
}

/// A caller that waits does not get the confirmation of the command.
#[tokio::test]
async fn help_that_becomes_a_question_over_http_is_waited_for_as_one() {
    let app = TestApp::builder().model().start().await;
    let post = async |text: &str| {
        let answer = app.ask("c1", APP_KEY, &json!({"userId": "ada", "text": text, "messageId": "h"})).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        json!([answer.body["reply"]["id"], answer.body["revision"], answer.body["duplicate"]])
    };
    assert_eq!(post("/help").await, json!(["h/notice", null, false]));
    assert_eq!(post("/help").await, json!(["h/notice", null, true]));
    assert_eq!(post("what is two").await, json!(["h/reply", 1, false]));
    assert_eq!(post("what is two").await, json!(["h/reply", null, true]));
    assert_eq!(app.model().count(), 1);
    app.finish().await;
}
