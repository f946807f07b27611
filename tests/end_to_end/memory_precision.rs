//! Precision of captures: twenty scripted conversations, with the answers of a capable model as they were recorded, go
//! through the real path. No entry may say what its source does not, and none twice.
//!
//! The labels in `tests/fixtures/memory/` were written before there was any answer, and `tests/fixtures/memory/README.md`
//! says by which rules. An answer belongs to one prompt: if that changes, the test says so, and the answers must be
//! recorded again.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use annals_core::memory::{EntryKind, Finding, Owner};
use annals_test_support::model_api::is_for_notes;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::TestApp;
use crate::memory::{memory_of, source, user};
use crate::updates::{Update, group, private};

/// Seconds from the first date of updates to the first message: a Saturday morning, 2025-11-22.
const MORNING: i64 = 10 * 3600;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Conversation {
    #[allow(dead_code, reason = "for people who read the fixture")]
    about: String,
    #[serde(default)]
    group: bool,
    known: Vec<Known>,
    said: Vec<Said>,
    supported: Vec<Label>,
    never: Vec<String>,
}

#[derive(Deserialize)]
struct Known {
    #[serde(rename = "type")]
    kind: EntryKind,
    text: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Said {
    from: String,
    text: String,
    reply: String,
    forwarded_from: Option<String>,
}

/// A fact that a careful reader accepts.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Label {
    fact: String,
    /// Words that an entry about it has, each with alternatives after `|`.
    has: Vec<String>,
    /// Words that it must not have.
    #[serde(default)]
    not: Vec<String>,
    /// The number of the known entry that it may replace.
    replaces: Option<u32>,
}

impl Label {
    fn is_of(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        self.has.iter().all(|words| words.split('|').any(|word| text.contains(word)))
            && !self.not.iter().any(|word| text.contains(word))
    }
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/memory")
}

fn names() -> BTreeSet<String> {
    let files = std::fs::read_dir(folder()).unwrap().map(|file| file.unwrap().path());
    let conversations = files.filter(|path| path.extension().is_some_and(|end| end == "json"));
    conversations.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

fn conversation(name: &str) -> Conversation {
    let text = std::fs::read_to_string(folder().join(format!("{name}.json"))).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the people of a conversation, in the order of their first words, with their ids.
fn id_of(conversation: &Conversation, name: &str) -> i64 {
    let mut people: Vec<&str> = Vec::new();
    for said in &conversation.said {
        if !people.contains(&said.from.as_str()) {
            people.push(&said.from);
        }
    }
    42 + i64::try_from(people.iter().position(|person| *person == name).unwrap()).unwrap()
}

fn update(conversation: &Conversation, place: i64, said: &Said) -> Update {
    let user = id_of(conversation, &said.from);
    let update =
        if conversation.group { group(-7, place, &said.text) } else { private(42, place, &said.text) };
    let from = json!({"id": user, "is_bot": false, "first_name": said.from});
    let update = update.with("from", from).at(MORNING + place * 90);
    match &said.forwarded_from {
        Some(name) => {
            let origin = json!({"type": "hidden_user", "sender_user_name": name, "date": 1_763_700_000});
            update.with("forward_origin", origin)
        }
        None => update,
    }
}

/// Returns the texts of a request, as the model reads them.
fn prompt_of(request: &Value) -> String {
    let messages = request["messages"].as_array().unwrap().iter();
    let text = |content: &Value| match content.as_str() {
        Some(text) => text.to_owned(),
        None => content.as_array().unwrap().iter().filter_map(|part| part["text"].as_str()).collect(),
    };
    messages.map(|message| text(&message["content"])).collect::<Vec<_>>().join("\n\n")
}

/// Holds a conversation and ends it. Returns the prompt of the capture, and the entries as the API lists them.
async fn capture(name: &str, answer: String) -> (String, Vec<Value>) {
    let conversation = conversation(name);
    let app = TestApp::builder().set("GROUP_ACTIVATION", "always").set("CAPTURE_GROUP_MEMORY", "true");
    let app = app.telegram().model().start().await;
    let (owner, of_owner) = if conversation.group {
        (Owner::Chat("telegram:chat:-7".parse().unwrap()), "chatKey=telegram:chat:-7")
    } else {
        (user("telegram-42"), "userId=telegram-42")
    };
    let known: Vec<Finding> =
        conversation.known.iter().map(|known| Finding::new(known.kind, known.text.clone())).collect();
    let chat = if conversation.group { "telegram:chat:-7" } else { "telegram:chat:42" };
    memory_of(&app).capture(&owner, &source(chat, 0), &known).await.unwrap();

    app.model().answer_by(move |body| is_for_notes(body).then(|| answer.clone()));
    let mut place = 0;
    for said in &conversation.said {
        place += 1;
        app.model().answer_with(&said.reply);
        app.clock().advance(match place {
            1 => Duration::from_secs(u64::try_from(MORNING).unwrap() + 90),
            _ => Duration::from_secs(90),
        });
        app.handle(update(&conversation, place, said)).await;
    }
    place += 1;
    app.clock().advance(Duration::from_secs(90));
    let end = Said {
        from: conversation.said[0].from.clone(),
        text: "/new".into(),
        reply: String::new(),
        forwarded_from: None,
    };
    app.handle(update(&conversation, place, &end).command()).await;
    let [request] = &app.model().requests_for_notes()[..] else { panic!("{name}: one capture") };
    let prompt = prompt_of(request);
    let entries = app.get(&format!("/v1/memory?{of_owner}")).await["memories"].as_array().unwrap().clone();
    app.finish().await;
    (prompt, entries)
}

/// Writes each prompt to the folder that `ANNALS_PROMPTS` names, for a model to answer.
#[tokio::test]
#[ignore = "writes files: run by people who record answers"]
#[allow(clippy::disallowed_methods, reason = "a command for people")]
async fn write_the_prompts() {
    let folder = PathBuf::from(std::env::var("ANNALS_PROMPTS").unwrap());
    for name in names() {
        let (prompt, _) = capture(&name, "NONE".into()).await;
        std::fs::write(folder.join(format!("{name}.txt")), prompt).unwrap();
    }
}

#[tokio::test]
async fn no_entry_says_what_its_source_does_not_and_none_twice() {
    let names = names();
    assert_eq!(names.len(), 20);
    let (mut kept, mut found, mut labels, mut problems) = (0, 0, 0, Vec::new());
    for name in names {
        let recorded = std::fs::read_to_string(folder().join(format!("answers/{name}.txt"))).unwrap();
        let (prompt, entries) = capture(&name, recorded).await;
        let asked = std::fs::read_to_string(folder().join(format!("prompts/{name}.txt"))).unwrap();
        assert_eq!(prompt, asked, "{name}: the prompt has changed, so the answer must be recorded again");
        let conversation = conversation(&name);
        let new: Vec<&Value> = entries.iter().skip(conversation.known.len()).collect();
        let mut of_entries: Vec<BTreeSet<usize>> = Vec::new();
        for entry in &new {
            let text = entry["text"].as_str().unwrap();
            let lower = text.to_lowercase();
            let of_it: BTreeSet<usize> = (0..)
                .zip(&conversation.supported)
                .filter(|(_, label)| label.is_of(text))
                .map(|(at, _)| at)
                .collect();
            if of_it.is_empty() {
                problems.push(format!("{name}: nothing supports {text:?}"));
            }
            problems.extend(
                conversation
                    .never
                    .iter()
                    .filter(|word| lower.contains(*word))
                    .map(|word| format!("{name}: {word:?} in {text:?}")),
            );
            if of_entries.iter().any(|other| of_it.is_subset(other) && !of_it.is_empty()) {
                problems.push(format!("{name}: said before: {text:?}"));
            }
            let replaced: Vec<Option<u32>> =
                of_it.iter().map(|at| conversation.supported[*at].replaces).collect();
            for number in entry["supersedes"].as_array().into_iter().flatten() {
                let number = number.as_u64().and_then(|number| u32::try_from(number).ok());
                if !replaced.contains(&number) {
                    problems.push(format!("{name}: {text:?} replaces {number:?}"));
                }
            }
            of_entries.push(of_it);
        }
        let covered: BTreeSet<usize> = of_entries.iter().flatten().copied().collect();
        for label in
            (0..).zip(&conversation.supported).filter(|(at, _)| !covered.contains(at)).map(|(_, label)| label)
        {
            println!("{name}: not kept: {}", label.fact);
        }
        kept += new.len();
        found += covered.len();
        labels += conversation.supported.len();
    }
    println!("{kept} entries, {} problems; {found} of {labels} facts kept", problems.len());
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    // The figures of `bench/README.md`.
    assert!(kept >= 48 && found >= 53, "{kept} entries; {found} of {labels} facts kept");
}
