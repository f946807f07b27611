//! Lark: signs of a run, and stopping it.

use std::time::Duration;

use crate::app::{a_while, wait_until};
use crate::lark::{LarkApp, P2P, text};
use crate::turns::assert_answered_once;

const CHAT: &str = "lark:chat:oc_ada";

/// Sends a message to a model that hangs, and lets the two seconds pass after which a run reacts to it.
async fn take_time(it: &LarkApp, id: &str, words: &str, seconds: i64) {
    let (requests, reactions) = (it.app.model().count(), it.lark.codes("react").len());
    it.app.model().hang();
    it.receive(&text(id, P2P, words, seconds)).await;
    it.app.model().wait_for(requests + 1).await;
    a_while().await;
    assert_eq!(it.lark.codes("react").len(), reactions, "not at once");
    it.app.clock().advance(Duration::from_secs(2));
    wait_until("it was asked", async || !it.lark.codes("react").is_empty()).await;
}

#[tokio::test]
async fn a_run_that_takes_its_time_reacts_to_the_message_until_it_is_over() {
    let it = LarkApp::start().await;
    it.handle(&text("om_1", P2P, "quick", 0)).await;
    take_time(&it, "om_2", "slow", 1).await;
    let [reaction] = &it.lark.reactions()[..] else { panic!("one") };
    assert_eq!((reaction.message_id.as_str(), reaction.emoji.as_str()), ("om_2", "Typing"));
    it.app.clock().advance(Duration::from_secs(10));
    a_while().await;
    it.app.model().resume();
    it.app.idle().await;
    assert_eq!(it.lark.reactions(), []);
    assert_eq!((it.lark.codes("react"), it.lark.codes("unreact")), (vec![0], vec![0]));
    assert_eq!(it.sent(), ["You said: quick", "You said: slow"]);
    it.app.finish().await;
}

#[tokio::test]
async fn an_app_that_may_not_react_is_not_asked_to_again() {
    let it = LarkApp::start().await;
    it.lark.edit(|store| store.forbids_reactions = true);
    for id in ["om_1", "om_2"] {
        take_time(&it, id, "hello", 0).await;
        a_while().await;
        it.app.model().resume();
        it.app.idle().await;
    }
    assert_eq!(it.lark.codes("react"), [99_991_672]);
    assert_eq!(it.sent().len(), 2);
    it.app.finish().await;
}

#[tokio::test]
async fn a_run_is_stopped_and_takes_its_reaction_away() {
    let it = LarkApp::start().await;
    take_time(&it, "om_1", "Write a novel", 0).await;
    it.handle(&text("om_2", P2P, "/stop", 1)).await;
    assert_eq!(it.lark.reactions(), []);
    it.app.model().resume();
    it.handle(&text("om_3", P2P, "Just a haiku", 2)).await;
    assert_eq!(it.sent(), ["Stopped.", "You said: Just a haiku"]);
    let stopped = ["om_1 user: Write a novel", "om_1/reply assistant: Stopped before there was an answer."];
    let command = ["om_2 user notice: /stop", "om_2/notice assistant notice: Stopped."];
    assert_eq!(it.app.lines(CHAT).await[..4], [stopped, command].concat());
    assert_answered_once(&it.app.records(CHAT).await);
    // The same event once more stops nothing.
    it.handle(&text("om_2", P2P, "/stop", 1)).await;
    assert_eq!(it.sent().len(), 2);
    it.app.finish().await;
}
