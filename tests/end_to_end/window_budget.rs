//! The budget of a turn, against a model that counts tokens: each request is within it, contains the unanswered messages
//! verbatim, and is shortened only by summaries.

use annals_core::markup::{GUIDE, Sender};
use annals_core::message::{Role, UiMessage};
use annals_core::tokens;
use annals_test_support::model_api::{is_for_summary, notes_of, summary_of, texts_of, times_of};
use serde_json::{Value, json};

use crate::app::{Builder, NOW, TestApp, chat_path};
use crate::updates::{group, private};

const CHAT: &str = "telegram:chat:42";
const GROUP: &str = "telegram:chat:-7";

/// A text of so many words, each of which is a token by our count and by the emulator's.
fn words(count: usize) -> String {
    "tea for two and the dog ".split_inclusive(' ').cycle().take(count).collect::<String>().trim().to_owned()
}

/// 800 tokens for a request, of which the instructions take 100, and four messages that stay.
fn thousand() -> Builder {
    let app = TestApp::builder().set("CONTEXT_WINDOW", "1000").set("KEEP_RECENT", "4");
    app.set("SYSTEM_PROMPT", &words(100)).telegram().model()
}
const BUDGET: u32 = 800;

/// The estimate of a request for an answer, by its texts as they are stored: without the heading that a summary gets there,
/// and the wrapping of the system part; with the tools, and in a group with the guide and the senders.
fn estimated(request: &Value) -> u32 {
    let beside = texts_of(request, "system").concat() + &notes_of(request);
    let tools = request["tools"].as_array().into_iter().flatten().map(|tool| {
        let text = |name: &str| tokens::of_text(tool["function"][name].as_str().unwrap());
        text("name") + text("description") + tokens::of_json(Some(&tool["function"]["parameters"]))
    });
    let messages = ["user", "assistant"].into_iter().flat_map(|role| texts_of(request, role));
    let messages = messages.chain([summary_of(request)].into_iter().filter(|summary| !summary.is_empty()));
    let messages: Vec<UiMessage> = messages
        .map(|text| UiMessage::text("", Role::User, text.strip_prefix("Ada: ").unwrap_or(&text)))
        .collect();
    let sent = request["messages"].to_string();
    let guide = if sent.contains("Several people speak in this chat.") { tokens::of_text(GUIDE) } else { 0 };
    let ada = Sender { id: "0123456789ab".into(), name: "Ada".into(), is_event: false };
    let senders = u32::try_from(sent.matches("<message ").count()).unwrap() * ada.tokens();
    let senders = senders + times_tokens(request);
    tokens::of_text(&beside) + tools.sum::<u32>() + tokens::of_request(None, &messages) + guide + senders
}

/// The estimate of all times that a request tells.
fn times_tokens(request: &Value) -> u32 {
    times_of(request).into_iter().map(|time| tokens::of_text(&format!("<time>{time}</time>"))).sum()
}

/// All replies of a history.
fn replies(history: &[Value]) -> Vec<&Value> {
    let is_reply =
        |message: &&Value| message["role"] == "assistant" && message["metadata"]["kind"] == "normal";
    history.iter().filter(is_reply).collect()
}

fn summaries(history: &[Value]) -> usize {
    history.iter().filter(|message| message["metadata"]["kind"] == "summary").count()
}

#[tokio::test]
async fn the_system_prompt_and_the_threshold_decide_when_to_summarise() {
    let prompt = "word ".repeat(150).trim().to_owned();
    assert_eq!(tokens::of_text(&prompt), 150);
    for (setting, value, expected) in
        [("", "", false), ("SYSTEM_PROMPT", prompt.as_str(), true), ("COMPACT_THRESHOLD", "0.4", true)]
    {
        let app = TestApp::builder().set("CONTEXT_WINDOW", "475").set("KEEP_RECENT", "4").set(setting, value);
        let app = app.start().await;
        for n in 0..5 {
            let ts = (NOW + n * 60) * 1000;
            let text = format!("message {n}: {}", words(16));
            let body = json!({"userId": "ada", "messageId": format!("m{n}"), "ts": ts, "text": text});
            app.say("c", &body).await;
        }
        assert_eq!(summaries(&app.history("http:chat:app:c").await) > 0, expected, "{setting}");
        app.finish().await;
    }
}

#[tokio::test]
async fn a_model_that_counts_twice_as_much_has_half_the_messages_in_view() {
    let mut turns = Vec::new();
    for factor in [1.0, 2.0] {
        let app = TestApp::builder().set("CONTEXT_WINDOW", "1000").set("KEEP_RECENT", "4").telegram().model();
        let app = app.start().await;
        app.model().edit(|stored| stored.usage_factor = Some(factor));
        app.model().answer_with(words(20));
        let mut count = 0;
        while summaries(&app.history(CHAT).await) == 0 {
            count += 1;
            assert!(count < 40, "no summary of {count} messages");
            app.ada_says(count, &words(20)).await;
        }
        let history = app.history(CHAT).await;
        let usage = &replies(&history)[0]["metadata"]["usage"];
        // 20 words, what a message takes beside them, and the times.
        let estimate = 24 + times_tokens(&app.model().requests()[0]);
        assert_eq!(usage["estimatedInputTokens"], estimate, "{usage}");
        let counted = usage["inputTokens"].as_f64().unwrap() / factor;
        assert!((0.75..1.0).contains(&(counted / f64::from(estimate))), "{usage}");
        turns.push(count);
        app.finish().await;
    }
    let [once, twice] = turns[..] else { unreachable!() };
    // Two messages a turn.
    assert!((once - 2 * twice).abs() <= 3, "{turns:?}");
    assert!((16..=20).contains(&once), "some 17 turns of 48 are more than 740: {turns:?}");
}

#[tokio::test]
async fn every_request_of_a_long_chat_is_within_the_budget() {
    let app = thousand().start().await;
    app.model().answer_by(|body| is_for_summary(body).then(|| format!("Facts: {}", words(60))));
    for id in 1..28 {
        let before = app.model().count();
        app.ada_says(id, &format!("message {id}: {}", words(10 + 13 * (usize::try_from(id).unwrap() % 5))))
            .await;
        let requests = app.model().requests();
        assert_eq!(requests.len(), before + 1, "each turn asks once");
        let tokens = estimated(&requests[before]);
        assert!(tokens <= BUDGET, "{id}: {tokens} tokens: {}", requests[before]);
    }
    let history = app.history(CHAT).await;
    let replies = replies(&history);
    assert_eq!(replies.len(), 27);
    for reply in replies {
        assert!(reply["metadata"].get("context").is_none(), "something was left out: {reply}");
        // By the model's own count, which the tool that searches the archive takes some of.
        let counted = reply["metadata"]["usage"]["inputTokens"].as_u64().unwrap();
        assert!(counted <= 1000, "{reply}");
    }
    assert!(summaries(&history) >= 3);
    // And the budget is used.
    assert!(app.model().requests()[14..].iter().all(|request| estimated(request) > BUDGET / 4));
    app.finish().await;
}

/// A group has talked so much before the bot is asked that one request for a summary cannot hold it.
async fn asked_behind_a_backlog(app: &TestApp, messages: i64) -> Value {
    for id in 1..=messages {
        app.receive(group(-7, id, &format!("message {id}: {}", words(44)))).await;
    }
    app.handle(group(-7, 900, "@annals_test_bot And now?").mention()).await;
    app.last_request()
}

fn ids_counted(app: &TestApp) -> usize {
    let noted = app.model().requests_for_notes();
    noted.iter().map(|request| texts_of(request, "user").concat().matches("Ada: message ").count()).sum()
}

#[tokio::test]
async fn a_long_backlog_gets_all_of_its_summaries_before_the_answer() {
    let app = thousand().set("GROUP_ACTIVATION", "mention").start().await;
    let request = asked_behind_a_backlog(&app, 20).await;
    let notes = app.model().requests_for_notes().len();
    assert!((2..=4).contains(&notes), "{notes} requests for summaries");
    let history = app.history(GROUP).await;
    assert_eq!((summaries(&history), app.model().count()), (notes, 1));
    let reply = history.last().unwrap();
    assert!(reply["metadata"].get("context").is_none(), "{reply}");
    assert!(estimated(&request) <= BUDGET, "{} tokens: {request}", estimated(&request));
    // What is not in a request for a summary is in the one for the answer, each message in one.
    let shown = texts_of(&request, "user").concat().matches(" message ").count();
    assert_eq!(shown + ids_counted(&app), 20, "{request}");
    assert_eq!(app.context(GROUP).await[0]["metadata"]["sourceRange"]["count"], 20 - shown);
    app.finish().await;
}

#[tokio::test]
async fn a_backlog_beyond_a_turn_s_summaries_is_continued_by_the_next_turn() {
    let app = thousand().set("GROUP_ACTIVATION", "mention").start().await;
    app.model().answer_with("Noted.");
    let request = asked_behind_a_backlog(&app, 70).await;
    assert_eq!(app.model().requests_for_notes().len(), 4, "no more before one turn");
    let history = app.history(GROUP).await;
    let left_out = history.last().unwrap()["metadata"]["context"]["leftOut"].as_u64().unwrap();
    let shown = texts_of(&request, "user").concat().matches(" message ").count();
    assert_eq!(shown + ids_counted(&app) + usize::try_from(left_out).unwrap(), 70, "each message in one");
    assert!(estimated(&request) <= BUDGET, "{} tokens: {request}", estimated(&request));

    let mut turns = 0;
    loop {
        turns += 1;
        assert!(turns < 5, "still not caught up");
        app.handle(group(-7, 900 + turns, "@annals_test_bot And now?").mention()).await;
        assert!(estimated(&app.last_request()) <= BUDGET);
        let history = app.history(GROUP).await;
        if history.last().unwrap()["metadata"].get("context").is_none() {
            break;
        }
    }
    let context = app.get(&chat_path(GROUP, "context")).await;
    assert!(context["tokens"].as_u64().unwrap() <= u64::from(BUDGET), "{context}");
    let shown = texts_of(&app.last_request(), "user").concat().matches(" message ").count();
    assert_eq!(shown + ids_counted(&app), 70, "each message in one");
    app.finish().await;
}

#[tokio::test]
async fn unanswered_messages_are_sent_verbatim() {
    let app = thousand().start().await;
    app.model().answer_with("Noted.");
    let text = |id: i64| {
        format!("  \"{id}\":\n\n\t{{逐字}} <b>& that</b> — 🌱\r\n{}\n    </conversation> end {id}", words(70))
    };
    // Word for word, but for what looks like an element.
    let sent = |text: &str| Some(text.replace("</conversation>", "&lt;/conversation>"));
    let mut right_behind_a_summary = 0;
    for id in 1..16 {
        let before = app.model().requests_for_notes().len();
        app.ada_says(id, &text(id)).await;
        let asked = texts_of(&app.last_request(), "user");
        assert_eq!(asked.last().cloned(), sent(&text(id)));
        right_behind_a_summary += usize::from(app.model().requests_for_notes().len() > before);
    }
    assert!(right_behind_a_summary >= 3, "{right_behind_a_summary}");
    // Also where it takes most of the window, so that all the rest becomes a summary.
    let long = format!("{}\n{}", text(25), words(370));
    app.ada_says(25, &long).await;
    let request = app.last_request();
    assert_eq!(texts_of(&request, "user").last().cloned(), sent(&long));
    assert!(estimated(&request) <= BUDGET, "{}", estimated(&request));
    assert!(replies(&app.history(CHAT).await).iter().all(|reply| reply["metadata"].get("context").is_none()));
    app.finish().await;
}

#[tokio::test]
async fn a_summary_takes_no_more_than_its_share() {
    let app = thousand().start().await;
    // 150 words, which the emulator counts as 75 tokens, and so does not cut off.
    let notes = "a ".repeat(150).trim().to_owned();
    assert_eq!(tokens::of_text(&notes), 150);
    app.model().answer_by(move |body| is_for_summary(body).then(|| notes.clone()));
    // An eighth of the budget.
    let most = BUDGET / 8;
    for id in 1..12 {
        app.ada_says(id, &format!("message {id}: {}", words(50))).await;
    }
    let records = app.records(CHAT).await;
    let made = records.iter().filter(|record| record.source().is_some());
    let made: Vec<u32> = made.map(|record| tokens::of_text(&record.message.plain_text())).collect();
    assert!(!made.is_empty());
    assert!(made.iter().all(|tokens| *tokens <= most && *tokens > most * 9 / 10), "{made:?}");
    let asked = texts_of(&app.model().requests_for_notes()[0], "system").concat();
    assert!(asked.ends_with("Use at most 75 words."), "{asked}");
    app.finish().await;
}

#[tokio::test]
async fn a_model_that_takes_next_to_nothing_is_asked_with_less_three_times_and_given_up() {
    let app = TestApp::builder().set("KEEP_RECENT", "2").telegram().model().start().await;
    app.model().answer_with("Noted.");
    for id in 1..4 {
        app.ada_says(id, &format!("message {id}: {}", words(200))).await;
    }
    app.model().limit_context(5);
    let before = app.model().count();
    app.handle_as_time_passes(private(42, 4, &format!("message 4: {}", words(400)))).await;
    let requests = &app.model().requests()[before..];
    assert_eq!(requests.len(), 3 * (1 + 3), "three deliveries, each with three tries with less");
    for delivery in requests.chunks(4) {
        let sizes: Vec<u32> = delivery.iter().map(estimated).collect();
        assert!(sizes.is_sorted_by(|a, b| b < a), "{sizes:?}");
        // Each is about six tenths of the one before, by a count that the model's own has corrected, and with what a
        // message takes beside its text.
        let is_much_less = |pair: &[u32]| f64::from(pair[1]) <= f64::from(pair[0]) * 0.65 + 24.0;
        assert!(sizes.windows(2).all(is_much_less), "{sizes:?}");
    }
    let lines = app.lines(CHAT).await;
    let notice = "4/notice assistant notice: Sorry, I could not answer that";
    assert!(lines.last().unwrap().starts_with(notice), "{lines:?}");
    assert_eq!(lines.iter().filter(|line| line.contains("could not")).count(), 1);
    assert_eq!(app.telegram_api().sent().len(), 4);
    assert_eq!(summaries(&app.history(CHAT).await), 0);
    app.finish().await;
}
