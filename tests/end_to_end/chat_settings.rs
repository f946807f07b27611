//! Settings that an admin gives one chat: they hold from the next message and turn on, and for that chat alone.

use std::time::Duration;

use annals_store::history::HistoryError;
use annals_test_support::model_api::lines_said;
use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{APP_KEY, Answer, OPS_KEY, TestApp, chat_path};
use crate::memory::call;
use crate::updates::{group, private};
use crate::world::World;

pub(crate) async fn change(app: &TestApp, chat: &str, body: Value) -> Answer {
    call(app, Method::PATCH, &chat_path(chat, "settings"), OPS_KEY, Some(body)).await
}

async fn settings(app: &TestApp, chat: &str) -> Value {
    app.get(&chat_path(chat, "settings")).await
}

fn unset(chat: &str) -> Value {
    json!({"chatKey": chat, "model": null, "prompt": null, "activation": null, "replyQuiet": null, "sendsTo": []})
}

#[tokio::test]
async fn a_chat_has_a_model_and_a_prompt_of_its_own_from_the_next_turn_on() {
    let app =
        TestApp::builder().telegram().model().set("MODELS", "openai:small").set("SYSTEM_PROMPT", "You help.");
    let app = app.start().await;
    app.handle(private(42, 1, "hello")).await;
    assert_eq!(app.last_request()["model"], "test");
    let chat = "telegram:chat:42";
    assert_eq!(settings(&app, chat).await, unset(chat));

    let changed = change(&app, chat, json!({"model": "openai:small", "prompt": "Answer in one word."})).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    assert_eq!(changed.body, settings(&app, chat).await);
    app.handle(private(42, 2, "and now?")).await;
    let request = app.last_request();
    assert_eq!(request["model"], "small");
    assert_eq!(request["messages"][0]["content"], "You help.\n\nAnswer in one word.");
    let reply = app.history(chat).await.pop().unwrap();
    assert_eq!(reply["metadata"]["model"], "openai:small", "{reply}");
    let context = app.get(&chat_path(chat, "context")).await;
    assert_eq!(context["system"], "You help.\n\nAnswer in one word.");
    let turn = format!("turns/{}", reply["id"].as_str().unwrap().replace('/', "%2F"));
    let turn = app.get(&chat_path(chat, &turn)).await;
    assert_eq!(turn["prompt"]["system"], json!({"text": "You help.\n\nAnswer in one word.", "exact": true}));

    // Another chat is as before, and so is this one without its settings.
    app.handle(private(43, 3, "hello")).await;
    assert_eq!(app.last_request()["model"], "test");
    change(&app, chat, json!({"prompt": null})).await;
    assert_eq!(settings(&app, chat).await["model"], "openai:small", "what is left out stays");
    change(&app, chat, json!({"model": null})).await;
    assert_eq!(settings(&app, chat).await, unset(chat));
    app.handle(private(42, 4, "bye")).await;
    let request = app.last_request();
    assert_eq!([&request["model"], &request["messages"][0]["content"]], ["test", "You help."]);
    app.finish().await;
}

#[tokio::test]
async fn a_group_has_an_activation_of_its_own() {
    let app = TestApp::start().await;
    app.receive(group(-1, 1, "I sow beans")).await;
    app.idle().await;
    assert_eq!(app.model().count(), 0);
    change(&app, "telegram:chat:-1", json!({"activation": "always"})).await;
    app.handle(group(-1, 2, "when is frost?")).await;
    assert_eq!(app.model().count(), 1);
    assert_eq!(lines_said(&app.last_request()), ["Ada: I sow beans", "Ada: when is frost?"]);
    app.receive(group(-2, 3, "nobody asks here")).await;
    app.receive(group(-1, 4, "/new@weather_bot is not ours")).await;
    change(&app, "telegram:chat:-1", json!({"activation": "mention"})).await;
    app.receive(group(-1, 5, "and hail?")).await;
    // A platform that delivers an earlier message again gets no second answer, whatever the setting is now.
    app.receive(group(-1, 2, "when is frost?")).await;
    app.idle().await;
    assert_eq!(app.model().count(), 1);
    app.finish().await;

    let app = TestApp::builder().telegram().model().set("GROUP_ACTIVATION", "always").start().await;
    app.handle(group(-1, 1, "hello")).await;
    change(&app, "telegram:chat:-1", json!({"activation": "mention"})).await;
    app.receive(group(-1, 2, "anybody?")).await;
    app.idle().await;
    assert_eq!(app.model().count(), 1);
    app.handle(group(-1, 3, "@annals_test_bot you?").mention()).await;
    assert_eq!(app.model().count(), 2);
    app.finish().await;
}

#[tokio::test]
async fn a_group_that_becomes_a_supergroup_keeps_its_settings() {
    let app = TestApp::start().await;
    app.receive(group(-1, 1, "hello")).await;
    change(&app, "telegram:chat:-1", json!({"activation": "always", "prompt": "Be brief."})).await;
    app.receive(group(-1, 2, "").without("text").with("migrate_to_chat_id", json!(-1001))).await;
    assert_eq!(settings(&app, "telegram:chat:-1").await["chatKey"], "telegram:chat:-1001");
    let kept = settings(&app, "telegram:chat:-1001").await;
    assert_eq!((&kept["activation"], &kept["prompt"]), (&json!("always"), &json!("Be brief.")));
    app.finish().await;
}

#[tokio::test]
async fn a_chat_that_is_to_be_quiet_for_longer_is_answered_later() {
    let app = TestApp::start().await;
    app.handle(private(42, 1, "hello")).await;
    change(&app, "telegram:chat:42", json!({"replyQuiet": "8s"})).await;
    app.receive(private(42, 2, "first")).await;
    app.clock().advance(Duration::from_secs(5));
    app.receive(private(42, 3, "second")).await;
    app.idle_as_time_passes().await;
    assert_eq!(app.model().count(), 2, "one answer for both");
    assert_eq!(lines_said(&app.last_request())[1..], ["first", "second"]);
    app.finish().await;
}

#[tokio::test]
async fn settings_are_an_admins_and_go_with_their_chat() {
    let app = TestApp::builder().model().set("MODELS", "openai:small").start().await;
    app.say("c1", &json!({"userId": "ada", "text": "hello"})).await;
    let (chat, path) = ("http:chat:app:c1", chat_path("c1", "settings"));
    for method in [Method::GET, Method::PATCH] {
        call(&app, method, &path, APP_KEY, Some(json!({}))).await.assert_problem(403, "forbidden");
    }
    change(&app, "http:chat:app:nothing", json!({"prompt": "x"})).await.assert_problem(404, "no-such-chat");
    for (body, told) in [
        (json!({"model": "openai:large"}), "openai:test, openai:small"),
        (json!({"model": 1}), "model"),
        (json!({"prompt": "  "}), "prompt"),
        (json!({"prompt": "x".repeat(2049)}), "2048 bytes"),
        (json!({"activation": "never"}), "mention"),
        (json!({"replyQuiet": "11s"}), "at most 10s"),
        (json!({"sendsTo": [{"name": "team", "chat": "nowhere"}]}), "a ChatKey"),
        (json!({"sendsTo": [{"name": "direct", "chat": "telegram:chat:1"}]}), "not \"direct\""),
        (json!({"sendsTo": vec![json!({"name": "team", "chat": "telegram:chat:1"}); 2]}), "different names"),
    ] {
        let refused = change(&app, chat, body.clone()).await;
        refused.assert_problem(400, "bad-settings");
        assert!(refused.body["detail"].as_str().unwrap().contains(told), "{body}: {refused:?}");
    }
    change(&app, chat, json!({"promt": "x"})).await.assert_problem(400, "bad-body");
    assert_eq!(settings(&app, chat).await, unset(chat));

    let to = json!([{"name": "team", "chat": "telegram:chat:-100", "approval": "askers"}]);
    let sends = json!([{"name": "team", "chat": "telegram:chat:-100"}]);
    change(&app, chat, json!({"sendsTo": sends, "replyQuiet": "2000ms"})).await;
    let known = settings(&app, chat).await;
    assert_eq!((&known["sendsTo"], &known["replyQuiet"]), (&to, &json!("2s")));
    app.forget(chat, OPS_KEY).await;
    assert_eq!(settings(&app, chat).await, unset(chat));
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_of_a_chat_that_changes_at_each_try_are_refused_with_that_reason() {
    let world = World::new().await;
    world.hear(0, "hello", true).await;
    let (runtime, tries) = (tokio::runtime::Handle::current(), std::cell::Cell::new(0));
    let changed = world.history.change_settings(&world.chat, |settings| {
        settings.model = Some("openai:mine".into());
        // Another admin is faster each time.
        tries.set(tries.get() + 1);
        let (other, prompt) = (world.another_process(), tries.get().to_string());
        let faster = other.change_settings(&world.chat, |settings| settings.prompt = Some(prompt.clone()));
        let known = tokio::task::block_in_place(|| runtime.block_on(faster));
        assert!(known.unwrap().is_some());
    });
    let error = changed.await.unwrap_err();
    assert!(matches!(error, HistoryError::ChatContended), "{error}");
    assert_eq!(world.history.head(&world.chat).await.unwrap().settings.model, None);
}
