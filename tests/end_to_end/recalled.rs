//! The entries of memory in a turn: their limit in tokens, and never a person's own in a group.

use annals_core::tokens;
use annals_test_support::model_api::notes_of;

use crate::app::TestApp;
use crate::lark::{receive_plain, text};
use crate::memory::{findings, memory_of, remember, source, user};
use crate::updates::private;

/// Returns the memory section of the last request for an answer.
fn told(app: &TestApp) -> String {
    notes_of(&app.last_request())
}

#[tokio::test]
async fn memory_takes_a_thousand_tokens_at_most_and_an_eighth_of_what_messages_may_take() {
    // 0.8 of the window are for messages.
    for (window, most) in [("128000", 1_000), ("4000", 400)] {
        let app = TestApp::builder().set("CONTEXT_WINDOW", window).telegram().model().start().await;
        let memory = memory_of(&app);
        for session in 1..=10 {
            let sheds = "oak, elm ".repeat(50);
            let text = |place| format!("Number {place} of {session} of the sheds: {}", sheds.trim_end());
            let texts: Vec<String> = (0..8).map(text).collect();
            let source = source("telegram:chat:42", session);
            memory.capture(&user("telegram-42"), &source, &findings(&texts)).await.unwrap();
        }
        assert_eq!(memory.list(&user("telegram-42")).await.unwrap().len(), 80);
        app.handle(private(42, 1, "Which shed is of oak?")).await;
        let told = told(&app);
        let (taken, entries) = (tokens::of_text(&told), told.matches("\n- [fact, ").count());
        println!("{window}: {entries} entries of {taken} tokens");
        assert!(taken <= most, "{taken} tokens of {most} in a window of {window}:\n{told}");
        let one = taken / u32::try_from(entries).unwrap();
        assert!(taken + 2 * one > most, "there was room for another: {taken} of {most}");
        app.finish().await;
    }
}

#[tokio::test]
async fn of_an_entry_that_is_longer_than_the_limit_the_start_is_told() {
    let app = TestApp::start().await;
    let long = "茶".repeat(1_200);
    remember(&app, &user("telegram-42"), "telegram:chat:42", &[long.as_str(), "Lives in Bergen."]).await;
    app.handle(private(42, 1, "喝茶吗?")).await;
    let told = told(&app);
    assert!(told.contains("茶茶") && told.contains("茶…") && told.contains("Lives in Bergen."), "{told}");
    assert!(tokens::of_text(&told) <= 1_000);
    app.finish().await;
}

#[tokio::test]
async fn only_a_lark_chat_with_one_person_recalls_that_person_s_entries() {
    let app = TestApp::builder().set("GROUP_ACTIVATION", "always").model().start().await;
    remember(&app, &user("lark-ou_ada"), "lark:chat:oc_ada", &["Lives in Bergen."]).await;
    for (id, chat, kind, sender, is_told) in [
        ("om_1", "oc_ada", "p2p", "ou_ada", true),
        ("om_2", "oc_bo", "p2p", "ou_bo", false),
        ("om_3", "oc_group", "group", "ou_ada", false),
    ] {
        let mut event = text(id, chat, "Where?", 0);
        event["event"]["sender"]["sender_id"]["open_id"] = sender.into();
        event["event"]["message"]["chat_type"] = kind.into();
        receive_plain(&app, event).await;
        app.idle().await;
        let told = told(&app);
        assert_eq!(told.contains("Lives in Bergen."), is_told, "{id}: {told}");
    }
    assert_eq!(app.model().count(), 3);
    app.finish().await;
}
