//! `MEMORY_APPROVAL=on`: what a model makes waits for an administrator, whatever crashes.

use annals_core::memory::{Correction, Finding, Owner};
use annals_store::memory::{MAX_PENDING, Memory};
use annals_test_support::model_api::notes_of;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::app::{APP_KEY, OPS_KEY, TestApp};
use crate::faults::{Faults, Plan};
use crate::memory::{call, findings, list, source, user};
use crate::outside_tools::results;
use crate::remembering::notes_of_tea;
use crate::updates::private;
use crate::world::{World, scan};

async fn start() -> TestApp {
    let app = TestApp::builder().set("MEMORY_APPROVAL", "on").telegram().model().start().await;
    app.model().answer_by(notes_of_tea);
    app
}

async fn waiting(app: &TestApp) -> Vec<Value> {
    list(app, "state=pending", OPS_KEY).await
}

pub(crate) fn path_of(entry: &Value) -> String {
    format!("/v1/memory/{}", entry["id"].as_str().unwrap())
}

fn pending(texts: &[impl AsRef<str>]) -> Vec<Finding> {
    findings(texts).into_iter().map(|finding| Finding { is_pending: true, ..finding }).collect()
}

#[tokio::test]
async fn a_captured_entry_is_recalled_once_an_administrator_has_approved_it() {
    let app = start().await;
    app.ada_says(1, "I only drink green tea").await;
    app.handle(private(42, 2, "/new").command()).await;
    let [entry] = &waiting(&app).await[..] else { panic!("one entry waits") };
    assert_eq!((&entry["text"], &entry["state"]), (&json!("I only drink green tea"), &json!("pending")));
    assert_eq!(entry["userId"], "telegram-42");
    app.model().answer_tools(&[("memory_search", json!({"query": "tea"}))]);
    app.ada_says(3, "What do I drink?").await;
    assert_eq!(results(&app, "telegram:chat:42").await[0].1, json!({"notes": []}));
    assert_eq!(notes_of(&app.last_request()), "");
    app.handle(private(42, 4, "/memory").command()).await;
    let told = app.last_sent().text;
    assert!(told.contains("I only drink green tea (preference; here, 2025-11-21; not used until"), "{told}");

    let approve = format!("{}/approve", path_of(entry));
    for (key, status) in [(APP_KEY, 404), (OPS_KEY, 200), (OPS_KEY, 200)] {
        assert_eq!(call(&app, Method::POST, &approve, key, None).await.status.as_u16(), status);
    }
    assert_eq!(waiting(&app).await, [Value::Null; 0]);
    app.ada_says(5, "What do I drink?").await;
    assert!(notes_of(&app.last_request()).contains("I only drink green tea"));
    let refused = call(&app, Method::GET, "/v1/memory?state=pending", APP_KEY, None).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    for query in ["state=pending&userId=ada", "state=past", "state=pending&after=x"] {
        let answer = call(&app, Method::GET, &format!("/v1/memory?{query}"), OPS_KEY, None).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{query}");
    }
    app.finish().await;
}

#[tokio::test]
async fn a_saved_entry_replaces_another_once_it_is_approved_and_a_rejected_one_never() {
    let app = start().await;
    let memories = async || app.get("/v1/memory?userId=telegram-42").await["memories"].clone();
    app.model().answer_tools(&[("memory_save", json!({"text": "Ada lives in Lyon."}))]);
    app.ada_says(1, "Remember where I live.").await;
    assert_eq!(results(&app, "telegram:chat:42").await[0].1["saved"]["waitsForApproval"], true);
    let approve = async |entry: &Value| {
        let path = format!("{}/approve", path_of(entry));
        assert_eq!(call(&app, Method::POST, &path, OPS_KEY, None).await.status, StatusCode::OK);
    };
    approve(&waiting(&app).await[0]).await;
    for text in ["Ada lives in Oslo.", "Ada lives in Rome."] {
        app.model().answer_tools(&[("memory_save", json!({"text": text, "replaces": 1}))]);
        app.ada_says(if text.contains("Oslo") { 2 } else { 3 }, "I have moved.").await;
    }
    assert_eq!(memories().await[0]["state"], "valid");
    let waiting_now = waiting(&app).await;
    let of = |text: &str| waiting_now.iter().find(|entry| entry["text"] == text).unwrap();
    let deleted = app.call(Method::DELETE, &path_of(of("Ada lives in Oslo.")), OPS_KEY).await;
    assert_eq!(deleted.status, 204);
    approve(of("Ada lives in Rome.")).await;
    let listed = memories().await;
    assert_eq!((&listed[0]["state"], &listed[0]["supersededBy"]), (&json!("past"), &json!(3)), "{listed}");
    assert_eq!(listed[1]["text"], "Ada lives in Rome.");
    assert_eq!(waiting(&app).await, [Value::Null; 0]);
    app.finish().await;
}

#[tokio::test]
async fn nothing_of_a_waiting_entry_is_left_when_its_chat_is_forgotten() {
    let app = start().await;
    app.ada_says(1, "I only drink green tea").await;
    app.handle(private(42, 2, "/new").command()).await;
    assert_eq!(waiting(&app).await.len(), 1);
    let deleted = app.call(Method::DELETE, "/v1/chats/telegram:chat:42", OPS_KEY).await;
    assert_eq!(deleted.status, StatusCode::OK, "{}", deleted.body);
    assert!(!format!("{:?}", scan(app.stores()).await).contains("pending"));
    app.finish().await;
}

impl World {
    async fn waiting(&self) -> Vec<String> {
        let (mut texts, mut after) = (Vec::new(), None);
        loop {
            let page = self.memory.pending(after.as_ref()).await.unwrap();
            texts.extend(page.entries.into_iter().map(|stored| stored.entry.text));
            after = page.after;
            if after.is_none() {
                texts.sort_unstable();
                return texts;
            }
        }
    }
}

#[tokio::test]
async fn a_crash_between_any_two_steps_hides_no_waiting_entry() {
    let mut completed = false;
    for calls in 0..12 {
        let world = World::new().await;
        let (ada, session) = (user("ada"), source("telegram:chat:42", 9));
        let mortal = || Memory::beside(&world.history_with(Faults::new(Plan::Before(calls + 1))));
        let captured = mortal().capture(&ada, &session, &pending(&["one", "two"])).await;
        world.memory.capture(&ada, &session, &pending(&["one", "two"])).await.unwrap();
        assert_eq!(world.waiting().await, ["one", "two"], "{calls}");
        // Linked to another person, with a crash at each step.
        let bo = user("bo");
        let moved = mortal().move_entries(&ada, &bo, &[1, 2]).await;
        world.memory.move_entries(&ada, &bo, &[1, 2]).await.unwrap();
        assert_eq!(world.waiting().await, ["one", "two"], "{calls}");
        // Approved and deleted, cut off and repeated.
        let list = world.memory.list(&bo).await.unwrap();
        let (one, two) = (list[0].id(), list[1].id());
        let approved = mortal().approve(&one).await;
        world.memory.approve(&one).await.unwrap();
        let deleted = mortal().delete(&two).await;
        world.memory.delete(&two).await.unwrap();
        assert_eq!(world.waiting().await, [""; 0], "{calls}");
        let left: Vec<bool> =
            world.memory.list(&bo).await.unwrap().iter().map(|stored| stored.entry.is_pending).collect();
        assert_eq!(left, [false], "{calls}");
        completed = captured.is_ok() && moved.is_ok() && approved.is_ok() && deleted.is_ok();
    }
    assert!(completed, "the last of these processes lives long enough");
}

#[tokio::test]
async fn a_waiting_entry_that_is_forgotten_waits_again_if_that_is_undone() {
    let world = World::new().await;
    let (ada, session) = (user("ada"), source("telegram:chat:42", 9));
    world.memory.capture(&ada, &session, &pending(&["tea"])).await.unwrap();
    let tea = world.memory.list(&ada).await.unwrap()[0].id();
    let restored = Correction::of_text("green tea").unwrap();
    for again in ["tea", "green tea"] {
        world.memory.set_aside(&tea).await.unwrap();
        assert_eq!(world.waiting().await, [""; 0]);
        if again == "tea" {
            world.memory.undo(&tea).await.unwrap().unwrap();
        } else {
            world.memory.correct(&tea, &restored).await.unwrap().unwrap();
        }
        assert_eq!(world.waiting().await, [again]);
    }
}

#[tokio::test]
async fn what_waits_is_listed_in_bounded_pages() {
    let world = World::new().await;
    for number in 0..8 {
        let owner = Owner::User(format!("person-{number}"));
        let texts: Vec<String> = (0..8).map(|place| format!("{number} {place}")).collect();
        world.memory.capture(&owner, &source("telegram:chat:42", number), &pending(&texts)).await.unwrap();
    }
    assert_eq!(world.memory.pending(None).await.unwrap().entries.len(), MAX_PENDING);
    assert_eq!(world.waiting().await.len(), 64);
}
