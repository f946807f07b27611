//! Random messages in random order: each is stored once and answered once, and every reader sees the same.

use std::collections::BTreeMap;

use annals_core::record::Record;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::app::{APP_KEY, NOW, TestApp, chat_path, text_of};
use crate::turns::assert_answered_once;

#[derive(Clone, Debug)]
struct Post {
    id: u8,
    form: u8,
    ts: Option<i64>,
}

fn posts() -> impl Strategy<Value = Vec<Post>> {
    let ts = prop::option::weighted(0.7, -3..3_i64);
    let post = (0..5_u8, 0..3_u8, ts).prop_map(|(id, form, ts)| Post { id, form, ts });
    prop::collection::vec(post, 1..14)
}

fn text(post: &Post) -> String {
    format!("message {} in form {}", post.id, post.form)
}

async fn check(app: &TestApp, case: usize, posts: &[Post]) -> Result<(), TestCaseError> {
    let path = chat_path(&format!("case {case}"), "messages");
    let chat = format!("http:chat:app:case {case}");
    let mut forms: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for post in posts {
        // Numbers and others, so that both orders of ids meet.
        let id = if post.id < 3 { post.id.to_string() } else { format!("m{}", post.id) };
        let mut body = json!({"userId": "ada", "text": text(post), "messageId": id});
        if let Some(ts) = post.ts {
            body["ts"] = json!(NOW * 1000 + ts);
        }
        let answer = app.post(&path, APP_KEY, &body).await;
        let known = forms.entry(id).or_default();
        let is_duplicate = known.last() == Some(&text(post));
        prop_assert_eq!(&answer.body["duplicate"], is_duplicate);
        if !is_duplicate {
            let revision = (!known.is_empty()).then(|| json!(known.len()));
            prop_assert_eq!(answer.body.get("revision").cloned(), revision);
            known.push(text(post));
        }
    }
    app.idle().await;

    let records = app.records(&chat).await;
    assert_answered_once(&records);
    prop_assert!(records.is_sorted_by(|a, b| a.key < b.key));
    let listed: Vec<Value> = records.iter().map(|record| json!(record.listed())).collect();
    let said = |id: &str| -> Vec<String> {
        let is_form = |m: &&Value| m["role"] == "user" && m["metadata"]["messageId"] == id;
        listed.iter().filter(is_form).map(text_of).collect()
    };
    for (id, forms) in &forms {
        prop_assert_eq!(&said(id), forms);
    }
    let answered = records.iter().flat_map(Record::covers).count();
    prop_assert_eq!(answered, forms.len());

    prop_assert_eq!(&app.history(&chat).await, &listed);
    prop_assert_eq!(&app.export_of(&path, APP_KEY).await, &listed);
    let limit = 1 + case % 4;
    prop_assert_eq!(&app.pages_back(&chat, limit).await, &listed);
    prop_assert_eq!(&app.pages_forward(&chat, limit).await, &listed);

    let context = app.context(&chat).await;
    let newest = |id: &String| forms[id].last().cloned();
    for id in forms.keys() {
        let shown: Vec<String> = context.iter().filter(|m| m["id"] == **id).map(text_of).collect();
        prop_assert_eq!(shown.first().cloned(), newest(id));
        prop_assert_eq!(shown.len(), 1);
    }
    Ok(())
}

#[test]
fn each_message_is_there_once_and_answered_once() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let app = runtime.block_on(TestApp::builder().start());
    let mut runner = TestRunner::new(Config { cases: 32, failure_persistence: None, ..Config::default() });
    let case = std::cell::Cell::new(0);
    let result = runner.run(&posts(), |posts| {
        case.set(case.get() + 1);
        runtime.block_on(check(&app, case.get(), &posts))
    });
    assert!(result.is_ok(), "{}", result.unwrap_err());
    runtime.block_on(app.finish());
}
