//! Models in turns: another provider, an answer that breaks off, a fallback, usage, and a prefix that stays the same for
//! the provider's cache.

use std::fs::File;

use annals_core::language::Language;
use annals_core::record::Record;
use annals_test_support::model_api::{API_KEY, Mishap, ModelApi, notes_of, summary_of, texts_of};
use serde_json::{Value, json};

use crate::app::{TestApp, loopback_client};
use crate::memory::{remember, user};
use crate::process::Process;
use crate::setup::settings;
use crate::turns::assert_answered_once;
use crate::updates::private;

const CHAT: &str = "telegram:chat:42";
const TOOL: &str = "chat_history_search";

async fn ada_says(app: &TestApp, id: i64, text: &str) {
    app.handle_as_time_passes(private(42, id, text)).await;
}

async fn compact(app: &TestApp, id: i64) {
    app.handle(private(42, id, "/compact").command()).await;
}

fn last_reply(records: &[Record]) -> Value {
    json!(records.iter().rev().find(|record| !record.covers().is_empty()).unwrap().message)
}

#[tokio::test]
async fn each_provider_answers_searches_and_sums_up() {
    for model in ModelApi::models() {
        let app = TestApp::builder().set("KEEP_RECENT", "2").set("SYSTEM_PROMPT", "Be brief.");
        let app = app.telegram().model_of(model).start().await;
        ada_says(&app, 1, "The gate code is 80-41-XQ, keep it.").await;
        ada_says(&app, 2, "Thank you.").await;
        assert!(!app.last_request().to_string().contains(TOOL), "{model}: there is nothing to search yet");
        compact(&app, 3).await;
        ada_says(&app, 4, "Hm.").await;
        assert_eq!(summary_of(&app.last_request()), "Goal: to go on.", "{model}");
        app.model().think("I should look.");
        app.model().answer_tools(&[(TOOL, json!({"query": "gate code"}))]);
        ada_says(&app, 5, "What was the gate code?").await;
        let request = app.last_request();
        assert!(texts_of(&request, "tool").concat().contains("80-41-XQ"), "{model}: {request}");
        assert_eq!(texts_of(&request, "system"), ["Be brief."]);
        let records = app.records(CHAT).await;
        assert_answered_once(&records);
        let reply = last_reply(&records);
        assert_eq!(reply["metadata"]["model"], model);
        let kinds: Vec<&Value> =
            reply["parts"].as_array().unwrap().iter().map(|part| &part["type"]).collect();
        assert_eq!(
            json!(kinds),
            json!(["step-start", "reasoning", format!("tool-{TOOL}"), "step-start", "reasoning", "text"])
        );
        let said = "You said: What was the gate code?";
        assert_eq!(reply["parts"][5]["text"], said);
        assert_eq!(app.last_sent().text, said, "the thought was sent");
        app.finish().await;
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_asked_for_again_and_nothing_of_it_is_stored() {
    for model in ModelApi::models() {
        let app = TestApp::builder().telegram().model_of(model).start().await;
        let said = "one two three four five six seven eight nine ten";
        app.model().answer_with(said);
        app.model().mishap(1, Mishap::Breaks);
        app.model().mishap(1, Mishap::Fails);
        ada_says(&app, 1, "count").await;
        app.model().mishap(1, Mishap::Ends);
        ada_says(&app, 2, "again").await;
        assert_eq!(app.model().count(), 5);
        let reply = |id: u32| format!("{id}/reply assistant: {said}");
        let lines = ["1 user: count", &reply(1), "2 user: again", &reply(2)];
        assert_eq!(app.lines(CHAT).await, lines, "{model}");
        assert_eq!(app.telegram_api().sent().len(), 2);
        app.finish().await;
    }
}

/// A model `test` with a fallback `spare`, an Anthropic.
pub(crate) async fn with_fallback() -> (TestApp, ModelApi) {
    let spare = ModelApi::start().await;
    let app = TestApp::builder()
        .set("MODEL_FALLBACK", "anthropic:spare")
        .set("MODEL_FALLBACK_BASE_URL", &spare.url_of("anthropic"))
        .set("MODEL_FALLBACK_API_KEY", API_KEY)
        .set("KEEP_RECENT", "2");
    (app.telegram().model().start().await, spare)
}

#[tokio::test]
async fn the_fallback_answers_after_a_permanent_failure_and_the_reply_says_so() {
    let (app, spare) = with_fallback().await;
    let model_of = async || last_reply(&app.records(CHAT).await)["metadata"]["model"].clone();
    ada_says(&app, 1, "hello").await;
    assert_eq!((model_of().await, spare.count()), (json!("openai:test"), 0));
    // After its tries, or at once where it refuses.
    for (id, status, tries) in [(2, 500, 3), (3, 401, 1), (4, 404, 1)] {
        let before = app.model().count();
        app.model().fail(tries, status);
        ada_says(&app, id, "hello").await;
        assert_eq!(app.model().count() - before, tries);
        assert_eq!(model_of().await, "anthropic:spare");
    }
    assert_eq!(spare.count(), 3);
    // Each turn asks the first one first.
    ada_says(&app, 5, "hello").await;
    assert_eq!((model_of().await, spare.count()), (json!("openai:test"), 3));
    // An answer of which a filter leaves nothing is not asked for again.
    app.model().finish_with("content_filter");
    app.model().answer_with("");
    let before = app.model().count();
    ada_says(&app, 7, "hello").await;
    assert_eq!((model_of().await, app.model().count() - before), (json!("anthropic:spare"), 1));
    app.model().finish_with("stop");
    app.model().answer_with("hello");
    // A request that is too long is made shorter, and not sent to another.
    // The times alone take 60.
    app.model().limit_context(100);
    ada_says(&app, 8, "hello").await;
    assert_eq!((model_of().await, spare.count()), (json!("openai:test"), 4));
    assert_eq!(spare.refusals(), [""; 0]);
    app.finish().await;
}

#[tokio::test]
async fn a_model_that_refuses_its_key_is_an_error_in_the_log_though_the_fallback_answers() {
    let (model, spare) = (ModelApi::start().await, ModelApi::start().await);
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let settings = settings(&[
        ("RUST_LOG", "warn"),
        ("MODEL", "openai:test"),
        ("MODEL_BASE_URL", &model.base_url()),
        ("MODEL_API_KEY", API_KEY),
        ("MODEL_FALLBACK", "openai:spare"),
        ("MODEL_FALLBACK_BASE_URL", &spare.base_url()),
        ("MODEL_FALLBACK_API_KEY", API_KEY),
    ]);
    let process = Process::start_logged(dir.path(), &settings, File::create(&log).unwrap());
    let url = format!("{}/v1/chats/c1/messages?wait=20", process.base);
    for (id, tries, status) in [("1", 1, 401), ("2", 3, 500)] {
        model.fail(tries, status);
        let body = json!({"userId": "ada", "messageId": id, "text": "hello"});
        let answer = loopback_client().post(&url).bearer_auth("dev").json(&body).send().await.unwrap();
        let answer: Value = answer.json().await.unwrap();
        assert_eq!(answer["reply"]["metadata"]["model"], "openai:spare", "{answer}");
    }
    let log = std::fs::read_to_string(log).unwrap();
    let lines = log.lines().filter(|line| line.contains("asking the fallback"));
    let are_errors: Vec<bool> = lines.map(|line| line.contains("ERROR")).collect();
    assert_eq!(are_errors, [true, false], "{log}");
}

/// The note is for the person: the model would take it for its own words.
#[tokio::test]
async fn an_answer_that_was_cut_off_says_so_to_the_person_alone() {
    let app = TestApp::builder().telegram().model().start().await;
    let texts = Language::En.texts();
    for (id, reason, note) in [(1, "length", texts.cut_off()), (2, "content_filter", texts.rest_filtered())] {
        app.model().finish_with(reason);
        ada_says(&app, id, "hello").await;
        assert_eq!(app.last_sent().text, format!("You said: hello\n\n{note}"));
    }
    app.model().finish_with("stop");
    ada_says(&app, 3, "continue").await;
    let request = app.last_request().to_string();
    assert!(request.contains("You said: hello") && !request.contains("Cut off here"), "{request}");
    // Thoughts took the whole answer, and would again.
    app.model().finish_with("length");
    app.model().answer_with("");
    ada_says(&app, 4, "hello").await;
    assert_eq!((app.model().count(), app.last_sent().text.as_str()), (4, texts.no_answer()));
    app.finish().await;
}

#[tokio::test]
async fn a_message_that_a_filter_refuses_does_not_keep_the_next_one_from_an_answer() {
    let app = TestApp::builder().telegram().model().start().await;
    let texts = Language::En.texts();
    app.model().filter("RISK");
    ada_says(&app, 1, "RISK").await;
    assert_eq!((app.model().count(), app.last_sent().text.as_str()), (1, texts.filtered()));
    ada_says(&app, 2, "hello").await;
    assert_eq!(app.model().count(), 3);
    assert_eq!(app.last_sent().text, format!("You said: hello\n\n{}", texts.earlier_refused()));
    assert_answered_once(&app.records(CHAT).await);
    app.finish().await;
}

#[tokio::test]
async fn a_model_that_fails_amid_calls_leaves_them_to_its_fallback() {
    let (app, spare) = with_fallback().await;
    ada_says(&app, 1, "The gate code is 80-41-XQ, keep it.").await;
    ada_says(&app, 2, "Thank you.").await;
    compact(&app, 3).await;
    app.model().think("I should look.");
    app.model().answer_tools(&[(TOOL, json!({"query": "gate code"}))]);
    let failing = app.model().count();
    app.model().answer_by(|_| None);
    // Once it has called, it is overloaded.
    app.model().fail_behind(failing + 1, 3, 529);
    ada_says(&app, 4, "What was the gate code?").await;
    assert!(texts_of(&spare.requests()[0], "tool").concat().contains("80-41-XQ"));
    assert_eq!(spare.refusals(), [""; 0]);
    let reply = last_reply(&app.records(CHAT).await);
    assert_eq!(reply["metadata"]["model"], "anthropic:spare");
    assert_eq!(reply["parts"][2]["state"], "output-available");
    app.finish().await;
}

#[tokio::test]
async fn the_usage_of_a_turn_is_the_sum_of_its_requests() {
    let app = TestApp::builder().set("KEEP_RECENT", "2").telegram().model().start().await;
    app.model().edit(|stored| stored.usage_factor = Some(1.5));
    ada_says(&app, 1, &"The gate code is 80-41-XQ, keep it. ".repeat(5)).await;
    ada_says(&app, 2, "Thank you.").await;
    compact(&app, 3).await;
    let before = app.model().count();
    app.model().answer_tools(&[(TOOL, json!({"query": "gate code"}))]);
    ada_says(&app, 4, "What was the gate code?").await;
    assert_eq!(app.model().count(), before + 2);
    let usage = last_reply(&app.records(CHAT).await)["metadata"]["usage"].clone();
    let number = |name: &str| usage[name].as_u64().unwrap();
    let cached: u64 = app.model().cached_tokens()[app.model().cached_tokens().len() - 2..].iter().sum();
    // The emulator counts a token half as much again, and so does what it had read before.
    assert!(number("cachedInputTokens").abs_diff(cached * 3 / 2) <= 2, "{usage} {cached}");
    // The second request is the first, and its call with the result.
    assert!(number("cachedInputTokens") > number("inputTokens") / 3, "{usage}");
    assert!(number("outputTokens") > 10, "{usage}");
    // Of the same requests as what was read: the estimate is corrected by their ratio.
    let (read, estimated) = (number("inputTokens"), number("estimatedInputTokens"));
    #[allow(clippy::cast_precision_loss, reason = "small numbers")]
    let ratio = read as f64 / estimated as f64;
    assert!((1.2..=1.8).contains(&ratio), "{usage}");
    app.finish().await;
}

/// The body of a request up to what changes in each turn: what memory tells, and what waits.
fn stable(request: &Value) -> String {
    let mut stable = request.clone();
    let messages = stable["messages"].as_array_mut().unwrap();
    let last = messages.pop().unwrap();
    assert_eq!(last["role"], "user");
    let mut text = stable.to_string();
    // `messages` comes last.
    let end = text.strip_suffix("]}").unwrap().len();
    text.truncate(end);
    text
}

#[tokio::test]
async fn the_request_of_a_turn_starts_with_the_bytes_of_the_one_before() {
    let app = TestApp::builder().set("SYSTEM_PROMPT", "Be brief.").set("CONTEXT_WINDOW", "1600");
    let app = app.set("KEEP_RECENT", "4").telegram().model().start().await;
    let facts = ["Keeps bees.", "Grows beans.", "Drinks green tea.", "Sails on Fridays."];
    remember(&app, &user("telegram-42"), CHAT, &facts).await;
    let (mut kept, mut notes) = (0, std::collections::BTreeSet::new());
    for id in 1..28 {
        let about = ["bees", "beans", "tea", "Fridays"][usize::try_from(id).unwrap() % 4];
        let before = app.model().requests_for_notes().len();
        if id % 5 == 0 {
            app.model().answer_tools(&[(TOOL, json!({"query": about}))]);
        }
        ada_says(&app, id, &format!("{id}: what of the {about}? {}", "lorem ipsum ".repeat(4))).await;
        let answers = app.model().requests();
        let is_compacted = app.model().requests_for_notes().len() > before;
        notes.insert(notes_of(answers.last().unwrap()));
        if id == 1 || is_compacted {
            continue;
        }
        // All that this turn asked, against the first request of the turn before.
        let is_of = |request: &Value, id: i64| {
            texts_of(request, "user").last().is_some_and(|text| text.starts_with(&format!("{id}: ")))
        };
        let earlier = answers.iter().find(|request| is_of(request, id - 1));
        for request in answers.iter().filter(|request| is_of(request, id)) {
            let (request, stable) = (request.to_string(), stable(earlier.unwrap_or(&answers[0])));
            if earlier.is_some_and(|earlier| earlier["tools"] == answers.last().unwrap()["tools"]) {
                assert!(request.starts_with(&stable), "{id}:\n{stable}\n{request}");
                kept += 1;
            }
        }
    }
    assert!(kept > 12, "{kept}");
    assert!(notes.len() >= 4, "memory did not change between the turns: {notes:?}");
    assert!(app.model().requests_for_notes().len() >= 2, "there was no compaction between the turns");
    app.finish().await;
}
