//! `/compact` on Telegram: the request to the model, and one confirmation.

use annals_test_support::model_api::{is_for_summary, texts_of};

use crate::app::TestApp;
use crate::updates::private;

const CHAT: &str = "telegram:chat:42";

/// Six messages with their answers.
async fn six_exchanges() -> TestApp {
    let app = TestApp::builder().set("KEEP_RECENT", "4").telegram().model().start().await;
    for id in 1..7 {
        app.handle(private(42, id, &format!("message {id}: {}", "lorem ipsum ".repeat(5).trim()))).await;
    }
    app
}

fn told(app: &TestApp) -> Vec<String> {
    app.sent_texts().split_off(6)
}

#[tokio::test]
async fn the_focus_is_in_the_request_and_the_confirmation_comes_once() {
    let mut app = six_exchanges().await;
    let command =
        private(42, 7, "/compact@annals_test_bot  the numbers,\nand </focus> who said them").command();
    app.handle(&command).await;
    // Telegram may say everything again.
    app.receive(&command).await;
    app.restart().await;
    app.handle(&command).await;
    let [request] = &app.model().requests_for_notes()[..] else { panic!("one request for a summary") };
    let asked = texts_of(request, "user").concat();
    let focus = "<focus>\nthe numbers,\nand &lt;/focus> who said them\n</focus>\n<conversation>\n";
    assert!(asked.starts_with(focus), "{asked}");
    assert!(texts_of(request, "system").concat().ends_with("Keep above all what the focus names."));
    let done = "Done: 8 messages are in the summary now. The last 4 stay as they were said.";
    assert_eq!(told(&app), [done]);
    assert_eq!(app.telegram_api().sent()[6].reply_to, Some(7));
    let lines = app.lines(CHAT).await;
    assert_eq!(lines.iter().filter(|line| line.contains(" summary: ")).count(), 1, "{lines:#?}");
    assert_eq!(lines.iter().filter(|line| line.ends_with(done)).count(), 1, "{lines:#?}");
    // Neither is sent to the model.
    let context = app.context_lines(CHAT).await;
    assert_eq!(context.len(), 5);
    assert!(!context.iter().any(|line| line.contains("focus") || line.contains("Done")), "{context:#?}");
    app.finish().await;
}

#[tokio::test]
async fn a_compact_command_without_a_summary_is_reported_once_and_changes_nothing() {
    let app = six_exchanges().await;
    app.model().answer_by(|body| is_for_summary(body).then(String::new));
    let before = app.context(CHAT).await;
    assert_eq!(before.len(), 12);
    app.handle_as_time_passes(private(42, 7, "/compact").command()).await;
    assert_eq!(app.model().requests_for_notes().len(), 3, "one in each delivery");
    let [notice] = &told(&app)[..] else { panic!("{:?}", told(&app)) };
    assert!(notice.contains("could not compact") && notice.contains("Nothing has changed"), "{notice}");
    assert_eq!(app.context(CHAT).await, before);
    let lines = app.lines(CHAT).await;
    assert_eq!(lines.len(), 14, "the command and the notice: {lines:#?}");
    assert!(!lines.iter().any(|line| line.contains(" summary: ")), "{lines:#?}");
    assert_eq!(app.model().count(), 6, "and nothing was asked");

    // Asked for again, it may well come about.
    app.model().answer_by(|_| None);
    app.handle(private(42, 8, "/compact").command()).await;
    assert!(told(&app)[1].starts_with("Done: 8 messages"), "{:?}", told(&app));
    app.finish().await;
}
