//! The memory tools in a turn: whose memory they reach, and that each call takes effect once.

use annals_core::memory::{EntryId, Owner};
use annals_store::memory::Saved;
use annals_test_support::model_api::{is_for_notes, notes_of};
use serde_json::{Value, json};

use crate::app::{APP_KEY, TestApp};
use crate::memory::{findings, memory_of, remember, source, texts, user};
use crate::outside_tools::{offered, results, start_with_shop};
use crate::updates::{group, private};

const SAVE: &str = "memory_save";

#[tokio::test]
async fn the_tools_save_find_correct_and_forget_entries() {
    let app = TestApp::start().await;
    let chat = "telegram:chat:42";
    app.model().answer_tools(&[
        (SAVE, json!({"text": "Ada takes oat milk.", "type": "preference"})),
        (SAVE, json!({"text": "The boat leaves at 7."})),
        (SAVE, json!({"text": "", "type": "fact"})),
        (SAVE, json!({"text": "x", "type": "secret"})),
    ]);
    app.handle(private(42, 1, "Remember: oat milk; the boat leaves at 7.")).await;
    let ada = user("telegram-42");
    let kept = [(1, "Ada takes oat milk.".to_owned()), (2, "The boat leaves at 7.".to_owned())];
    assert_eq!(texts(&app, &ada).await, kept);
    let told = results(&app, chat).await;
    assert_eq!((told[0].0.as_str(), &told[0].1["saved"]["number"]), ("output-available", &json!(1)));
    assert_eq!(told[2].1, "\"text\" must have 1 to 500 characters, and has 0");
    assert!(told[3].1.as_str().unwrap().contains("must be one of \"fact\""), "{told:?}");

    app.model().answer_tools(&[("memory_search", json!({"query": "boat"}))]);
    app.model().answer_tools(&[(SAVE, json!({"text": "The boat leaves at 8.", "replaces": 2}))]);
    app.model().answer_tools(&[
        ("memory_forget", json!({"number": 1})),
        ("memory_forget", json!({"number": 7})),
        (SAVE, json!({"text": "the boat leaves at 8"})),
    ]);
    app.handle(private(42, 2, "It leaves at 8. And forget the milk.")).await;
    let told = results(&app, chat).await;
    assert_eq!(told[0].1["notes"][0]["number"], 2, "the best first: {told:?}");
    assert_eq!(told[3], ("output-error".into(), json!("there is no note number 7")));
    assert_eq!(told[4].1["alreadyKept"]["number"], 3);
    assert_eq!(texts(&app, &ada).await, [(3, "The boat leaves at 8.".to_owned())]);
    // What is past is found, with its dates.
    app.model().answer_tools(&[("memory_search", json!({"query": "boat"}))]);
    app.handle(private(42, 3, "When did it leave before?")).await;
    let told = results(&app, chat).await;
    let notes = told[0].1["notes"].as_array().unwrap();
    let past = notes.iter().find(|note| note["number"] == 2).unwrap();
    assert_eq!((&past["supersededBy"], &past["validUntil"]), (&json!(3), &json!("2025-11-21")), "{told:?}");
    assert!(!notes_of(&app.last_request()).contains("leaves at 7"), "past entries are not recalled");
    app.export(chat, "memory-tools").await;
    let listed = app.get("/v1/memory?userId=telegram-42").await;
    let source = &listed["memories"][1]["source"];
    assert_eq!((&source["fromId"], &source["chatKey"]), (&json!("2"), &json!(chat)));
    app.finish().await;
}

#[tokio::test]
async fn what_was_deleted_is_not_captured_from_the_same_messages() {
    let app = TestApp::start().await;
    app.model().answer_by(|body| {
        is_for_notes(body).then(|| "- [fact] (m1) Likes tea.\n- [fact] (m3) Is pregnant.".into())
    });
    app.handle(private(42, 1, "I like tea")).await;
    app.model().answer_tools(&[(SAVE, json!({"text": "Is pregnant."}))]);
    app.handle(private(42, 2, "Remember that I am pregnant")).await;
    let ada = user("telegram-42");
    assert_eq!(texts(&app, &ada).await, [(1, "Is pregnant.".to_owned())]);
    app.handle(private(42, 3, "/forget 1").command()).await;
    app.handle(private(42, 4, "/new").command()).await;
    assert_eq!(texts(&app, &ada).await, [(2, "Likes tea.".to_owned())]);
    app.finish().await;
}

const TEA: &str = "Ada likes tea.";
const LYON: &str = "Ada lives in Lyon.";

#[tokio::test]
async fn an_entry_saved_after_an_approval_is_separate() {
    let (_shop, app) = start_with_shop(&json!({"tools": {"refund": {"approval": true}}})).await;
    app.model().answer_tools(&[(SAVE, json!({"text": TEA})), ("shop_refund", json!({"order": "A1"}))]);
    app.model().answer_tools(&[(SAVE, json!({"text": LYON}))]);
    app.handle(private(42, 1, "Tea, Lyon, and pay A1 back.")).await;
    app.handle(private(42, 2, "/approve").command()).await;
    let form = app.context("telegram:chat:42").await.pop().unwrap();
    let states: Vec<&str> =
        form["parts"].as_array().unwrap().iter().filter_map(|part| part["state"].as_str()).collect();
    assert_eq!(states, ["output-available"; 3]);
    let ada = user("telegram-42");
    assert_eq!(texts(&app, &ada).await, [(1, TEA.to_owned()), (2, LYON.to_owned())]);
    app.finish().await;
}

#[tokio::test]
async fn an_entry_saved_after_a_refused_image_is_separate() {
    let app = TestApp::start().await;
    app.model().answer_tools(&[(SAVE, json!({"text": TEA}))]);
    app.model().answer_tools(&[(SAVE, json!({"text": LYON}))]);
    app.model().hang_answers();
    let photo = json!([{"file_id": "f", "file_unique_id": "u", "width": 9, "height": 9, "file_size": 7_321}]);
    let photo = private(42, 1, "").without("text").with("photo", photo);
    app.receive(photo.with("caption", json!("Tea, and this is Lyon."))).await;
    app.model().wait_for(1).await;
    // What has come is taken; from now on it sees nothing.
    app.model().edit(|stored| stored.images_refused = Some(0));
    app.model().resume();
    app.idle_as_time_passes().await;
    assert_eq!(app.model().images_refused(), 1);
    assert_eq!(results(&app, "telegram:chat:42").await.len(), 2);
    let ada = user("telegram-42");
    assert_eq!(texts(&app, &ada).await, [(1, TEA.to_owned()), (2, LYON.to_owned())]);
    app.finish().await;
}

#[tokio::test]
async fn a_turn_sees_and_changes_the_memory_of_its_own_people_alone() {
    for groups in ["false", "true"] {
        let app = TestApp::builder().set("GROUP_ACTIVATION", "always").set("CAPTURE_GROUP_MEMORY", groups);
        let app = app.telegram().model().start().await;
        remember(&app, &user("telegram-42"), "telegram:chat:42", &["Ada's secret garden."]).await;
        let all =
            [("memory_search", json!({"query": "secret garden"})), (SAVE, json!({"text": "Said here."}))];
        app.model().answer_tools(&all);
        // Bo's own chat, then a group that Ada is in.
        app.handle(private(43, 1, "What do you know?")).await;
        let told = results(&app, "telegram:chat:43").await;
        assert_eq!(told[0].1, json!({"notes": []}));
        let before = app.model().count();
        app.model().answer_tools(&all);
        app.handle(group(-7, 1, "What do you know?")).await;
        let requests = app.model().requests();
        let names = offered(&requests[before]);
        let others = ["schedule_create", "schedule_list", "schedule_cancel", "chat_send"];
        let of_group: Owner = Owner::Chat("telegram:chat:-7".parse().unwrap());
        if groups == "true" {
            assert_eq!(names, [&["memory_search", SAVE, "memory_forget"][..], &others].concat());
            assert_eq!(texts(&app, &of_group).await, [(1, "Said here.".to_owned())]);
        } else {
            assert_eq!(names, others, "a group without a memory");
            assert_eq!(texts(&app, &of_group).await, []);
        }
        assert_eq!(texts(&app, &user("telegram-43")).await, [(1, "Said here.".to_owned())]);
        assert_eq!(texts(&app, &user("telegram-42")).await, [(1, "Ada's secret garden.".to_owned())]);
        assert!(!json!(requests).to_string().contains("secret garden."), "nobody else is told");
        app.finish().await;
    }
}

#[tokio::test]
async fn a_repeated_turn_meets_what_it_has_saved() {
    let app = TestApp::start().await;
    let (memory, ada) = (memory_of(&app), user("ada"));
    let turn = source("telegram:chat:42", 9);
    let save =
        async |number, text: &str| memory.save(&ada, &turn, number, &findings(&[text])[0]).await.unwrap();
    let first = save(0, "Likes tea.").await;
    let Saved::Now(kept) = &first else { panic!("{first:?}") };
    assert_eq!(kept.number, 1);
    save(1, "Lives in Lyon.").await;
    // The model puts it in other words the second time.
    for (number, text, entry) in
        [(0, "Ada drinks tea.", 1), (1, "Ada's home is Lyon.", 2), (2, "LIKES TEA!", 1)]
    {
        let Saved::Before(kept) = save(number, text).await else { panic!("{text}") };
        assert_eq!(kept.number, entry);
    }
    memory.delete(&EntryId { owner: ada.clone(), number: 1 }).await.unwrap();
    assert_eq!(save(0, "Ada drinks tea.").await, Saved::Deleted, "what is forgotten meanwhile stays so");
    assert_eq!(texts(&app, &ada).await, [(2, "Lives in Lyon.".to_owned())]);
    // In a later turn it may be asked for again.
    let later =
        memory.save(&ada, &source("telegram:chat:43", 9), 0, &findings(&["Likes tea."])[0]).await.unwrap();
    assert!(matches!(later, Saved::Now(kept) if kept.number == 3));
    app.finish().await;
}

/// An entry that replaces one of another chat is forgotten with its own chat.
#[tokio::test]
async fn forgetting_a_chat_removes_its_entries_also_those_that_replaced_others() {
    let app = TestApp::start().await;
    let say = async |chat: &str, call: Value| {
        app.model().answer_tools(&[(SAVE, call)]);
        app.ask(chat, APP_KEY, &json!({"userId": "ada", "text": "Remember that."})).await;
    };
    say("c1", json!({"text": "Ada likes tea."})).await;
    say("c2", json!({"text": "Ada's secret is 4711.", "replaces": 1})).await;
    let ada = user("app/ada");
    assert_eq!(texts(&app, &ada).await, [(2, "Ada's secret is 4711.".to_owned())]);
    let deleted = app.forget("c2", APP_KEY).await;
    assert_eq!((deleted.status.as_u16(), &deleted.body["removed"]["memories"]), (200, &json!(1)));
    assert_eq!(texts(&app, &ada).await, [(1, "Ada likes tea.".to_owned())], "what c1 said holds again");
    // What differs in punctuation alone is a correction, too.
    say("c1", json!({"text": "Ada writes C."})).await;
    say("c3", json!({"text": "Ada writes C++.", "replaces": 3})).await;
    let kept = [(1, "Ada likes tea.".to_owned()), (4, "Ada writes C++.".to_owned())];
    assert_eq!(texts(&app, &ada).await, kept);
    app.finish().await;
}
