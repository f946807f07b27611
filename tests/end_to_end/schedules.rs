//! Schedules of chats: what is said, or asked, at a time, once for each date.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use annals_core::record::{Channel, Kind};
use annals_core::schedule::{Action, Recipient, Schedule, ScheduleId, Timing};
use annals_core::sort_key::Timestamp;
use annals_core::time_zone::TimeZone;
use annals_engine::scheduling::{Ran, Scheduling};
use annals_store::history::{History, Reuse};
use annals_test_support::model_api::texts_of;
use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{Answer, OPS_KEY, TestApp, chat_path, passing, text_of, wait_until};
use crate::faults::Plan;
use crate::memory::{remember, user};
use crate::meter::Consumed;
use crate::turns::assert_answered_once;
use crate::updates::{group, private};
use crate::world::{World, at_each_request};

const CHAT: &str = "telegram:chat:42";
const MINUTE: Duration = Duration::from_mins(1);

async fn create(app: &TestApp, body: &Value) -> Answer {
    app.post(&chat_path(CHAT, "schedules"), OPS_KEY, body).await
}

async fn created(app: &TestApp, body: &Value) -> Value {
    let answer = create(app, body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.body
}

async fn listed(app: &TestApp) -> Vec<Value> {
    let Value::Array(schedules) = app.get(&chat_path(CHAT, "schedules")).await["schedules"].take() else {
        panic!()
    };
    schedules
}

fn in_minutes(app: &TestApp, minutes: u32) -> String {
    app.clock().now().plus(minutes * MINUTE).rfc3339()
}

/// Lets `minutes` pass, and waits until the person has got `count` messages.
async fn pass(app: &TestApp, minutes: u32, count: usize) {
    app.clock().advance(minutes * MINUTE);
    carried_out(app, count).await;
    assert_eq!(app.sent_texts().len(), count);
}

/// Waits until the person has got `count` messages and no schedule is due: a message is sent before its schedule goes on to its
/// next date. Meanwhile seconds pass, since the program may have looked at the schedules just before the time that was set.
async fn carried_out(app: &TestApp, count: usize) {
    let arrived = wait_until("what is due has arrived", async || app.sent_texts().len() >= count);
    passing(app.clock(), Duration::from_secs(1), arrived).await;
    let now = app.clock().now().as_millis();
    wait_until("no schedule is due", async || {
        listed(app).await.iter().all(|schedule| schedule["nextAt"].as_i64().unwrap() > now)
    })
    .await;
    app.idle().await;
}

/// Lets `hours` pass, and waits until the chat's only schedule has gone on to its next date and its turn is done.
async fn pass_silently(app: &TestApp, hours: u32) {
    app.clock().advance(hours * 60 * MINUTE);
    let now = app.clock().now().as_millis();
    let gone_on = wait_until("the schedule has gone on", async || {
        listed(app).await[0]["nextAt"].as_i64().unwrap() > now
    });
    passing(app.clock(), Duration::from_secs(1), gone_on).await;
    app.idle_as_time_passes().await;
}

#[tokio::test]
async fn a_text_is_sent_at_its_time_once() {
    let mut app = TestApp::start().await;
    app.ada_says(1, "hello").await;
    let at = in_minutes(&app, 60);
    let body = json!({"id": "tea", "text": "Tea is ready", "at": at});
    let stored = created(&app, &body).await;
    assert_eq!([&stored["text"], &stored["userId"]], ["Tea is ready", "42"]);
    assert_eq!(stored["nextAt"], stored["at"]);
    let again = create(&app, &body).await;
    assert_eq!((again.status.as_u16(), &again.body), (200, &stored));
    let other = create(&app, &json!({"id": "tea", "text": "Coffee", "at": at})).await;
    other.assert_problem(409, "schedule-refused");
    assert_eq!(listed(&app).await, [stored]);

    app.clock().advance(59 * MINUTE);
    app.restart().await;
    assert_eq!(app.sent_texts().len(), 1);
    pass(&app, 1, 2).await;
    assert_eq!((app.last_sent().text.as_str(), app.last_sent().reply_to), ("Tea is ready", None));
    assert_eq!(app.model().count(), 1, "a model is asked");
    assert_eq!(listed(&app).await, [Value::Null; 0]);
    let history = app.history(CHAT).await;
    let reply = history.last().unwrap();
    assert_eq!((text_of(reply).as_str(), &reply["role"]), ("Tea is ready", &json!("assistant")));
    assert_eq!(reply["metadata"]["schedule"]["id"], "tea");
    assert_eq!(reply["metadata"]["sentBy"], Value::Null);

    app.restart().await;
    app.clock().advance(60 * MINUTE);
    app.ada_says(7200, "thanks").await;
    assert_eq!(app.sent_texts().len(), 3);
    assert_eq!(texts_of(&app.last_request(), "assistant").concat(), "You said: hello\nTea is ready");
    assert_answered_once(&app.records(CHAT).await);
    app.finish().await;
}

#[tokio::test]
async fn a_prompt_is_asked_at_each_date_and_the_newest_alone_is_in_view() {
    let app = TestApp::start().await;
    app.ada_says(1, "hello").await;
    let stored =
        created(&app, &json!({"prompt": "News?", "cron": "0 * * * *", "timeZone": "Asia/Shanghai"})).await;
    let first = Timestamp::from_millis(stored["nextAt"].as_i64().unwrap()).unwrap();
    let minutes = |from: Timestamp, to: Timestamp| u32::try_from(to.since(from).as_secs() / 60 + 1).unwrap();
    pass(&app, minutes(app.clock().now(), first), 2).await;
    let asked = texts_of(&app.last_request(), "user").pop().unwrap();
    assert!(asked.contains("[Scheduled for 20") && asked.contains("Asia/Shanghai]\nNews?"), "{asked}");
    for run in 3..=5 {
        pass(&app, 60, run).await;
    }
    let request = app.last_request();
    assert_eq!(texts_of(&request, "assistant").len(), 1, "earlier ones are in view: {request}");
    assert_eq!(
        listed(&app).await[0]["nextAt"].as_i64().unwrap(),
        stored["nextAt"].as_i64().unwrap() + 4 * 3_600_000
    );
    app.ada_says(20_000, "And now?").await;
    assert_eq!(texts_of(&app.last_request(), "user").len(), 3, "hello, the last occurrence, this");
    let context = app.context(CHAT).await;
    assert_eq!(context.iter().filter(|message| message["metadata"]["schedule"].is_object()).count(), 2);
    assert_answered_once(&app.records(CHAT).await);
    app.finish().await;
}

#[tokio::test]
async fn a_task_sets_a_reminder_and_no_other_pattern() {
    let app = TestApp::start().await;
    app.ada_says(1, "hello").await;
    created(&app, &json!({"prompt": "News?", "cron": "0 * * * *"})).await;
    let [again, once] =
        [json!({"task": "News?", "cron": "0 * * * *"}), json!({"text": "Tea", "at": "2025-11-23T09:00"})];
    app.model().answer_tools(&[("schedule_create", again), ("schedule_create", once)]);
    pass(&app, 1, 2).await;
    let told = texts_of(&app.last_request(), "tool");
    assert!(told[0].starts_with("{\"error\":\"this is an occurrence of a schedule"), "{told:?}");
    assert!(told[1].contains("Tea"), "{told:?}");
    assert_eq!(listed(&app).await.len(), 2);
    app.finish().await;
}

/// An occurrence starts no session, but the person is known.
#[tokio::test]
async fn a_task_after_a_long_silence_knows_the_persons_memory_and_time_zone() {
    let app = TestApp::start().await;
    app.ada_says(1, "hello").await;
    app.handle(private(42, 2, "/timezone Asia/Shanghai").command()).await;
    remember(&app, &user("telegram-42"), CHAT, &["Ada drinks oolong."]).await;
    created(&app, &json!({"prompt": "News?", "at": in_minutes(&app, 50 * 60)})).await;
    pass(&app, 50 * 60, 3).await;
    let request = app.last_request().to_string();
    assert!(request.contains("in the time zone Asia/Shanghai"), "{request}");
    assert!(request.contains("Ada drinks oolong."), "{request}");
    app.finish().await;
}

/// Each date would ask the model for a reply that nobody gets.
#[tokio::test]
async fn a_chat_that_refuses_messages_is_tried_once_a_day() {
    let app = TestApp::builder().telegram().model().refusals_are_fine().start().await;
    app.ada_says(1, "hello").await;
    created(&app, &json!({"prompt": "News?", "cron": "0 * * * *"})).await;
    app.telegram_api().block(42);
    let after = async |hours: u32| {
        pass_silently(&app, hours).await;
        app.model().count()
    };
    assert_eq!(after(1).await, 2, "the first finds out");
    for _ in 0..3 {
        assert_eq!(after(1).await, 2);
    }
    assert_eq!(after(24).await, 3);
    assert_eq!(after(1).await, 3);
    app.telegram_api().unblock(42);
    app.ada_says(120_000, "I am back").await;
    assert_eq!((after(1).await, after(1).await), (5, 6));
    assert_answered_once(&app.records(CHAT).await);
    app.finish().await;
}

#[tokio::test]
async fn a_person_who_is_not_allowed_any_more_gets_nothing_until_they_are_again() {
    let mut app = TestApp::start().await;
    app.ada_says(1, "hello").await;
    created(&app, &json!({"text": "Tea", "cron": "0 * * * *"})).await;
    for (person, count) in [("telegram-43", 1), ("telegram-42", 2)] {
        app.set("ALLOW_FROM", person).await;
        pass_silently(&app, 1).await;
        assert_eq!(app.sent_texts().len(), count, "{person}");
    }
    app.finish().await;
}

#[tokio::test]
async fn a_task_at_a_limit_is_noted_and_sends_nothing() {
    // In the middle of an hour.
    const MORNING: i64 = 8 * 3600 + 1800;
    let app = TestApp::builder().telegram().model().set("LIMITS", "person=1 tokens/day").start().await;
    app.clock().advance(Duration::from_secs(MORNING.unsigned_abs()));
    app.handle_as_time_passes(private(42, 1, "hello").at(MORNING)).await;
    created(&app, &json!({"prompt": "News?", "cron": "0 * * * *"})).await;
    for _ in 0..2 {
        pass_silently(&app, 1).await;
    }
    assert_eq!((app.sent_texts().len(), app.model().count()), (1, 1));
    let history = app.history(CHAT).await;
    let is_notice = |message: &&Value| message["metadata"]["notice"] == "limitReached";
    assert_eq!(history.iter().filter(is_notice).count(), 2, "{history:#?}");
    // A person is told.
    app.handle_as_time_passes(private(42, 2, "And now?").at(MORNING + 2 * 3600)).await;
    assert!(app.last_sent().text.starts_with("You have used up"), "{:?}", app.last_sent());
    app.finish().await;
}

#[tokio::test]
async fn an_occurrence_that_an_outage_delayed_comes_once_and_says_that_it_is_late() {
    let mut app = TestApp::start().await;
    app.ada_says(1, "hello").await;
    created(&app, &json!({"text": "Stand-up!", "cron": "0 * * * *"})).await;
    created(&app, &json!({"prompt": "Weather?", "at": in_minutes(&app, 90)})).await;
    app.stop().await;
    // In the middle of an hour, so that the next date is far away.
    app.clock().advance((10 * 60 + 30) * MINUTE);
    app.restart().await;
    carried_out(&app, 3).await;
    let sent = app.sent_texts();
    assert_eq!(sent.len(), 3, "{sent:?}");
    let text = sent.iter().find(|text| text.starts_with("Stand-up!")).unwrap();
    assert!(text.contains("This is late: it was due at 20"), "{text}");
    let asked = texts_of(&app.last_request(), "user").pop().unwrap();
    assert!(asked.contains("; late: it is 20"), "{asked}");
    assert_eq!(listed(&app).await.len(), 1, "the date of the pattern after the outage is left");
    app.finish().await;
}

#[tokio::test]
async fn a_cancelled_schedule_and_that_of_a_forgotten_chat_never_run() {
    let app = TestApp::start().await;
    app.ada_says(1, "hello").await;
    created(&app, &json!({"id": "a", "text": "A", "at": in_minutes(&app, 60)})).await;
    let path = format!("{}/a", chat_path(CHAT, "schedules"));
    for _ in 0..2 {
        assert_eq!(app.call(Method::DELETE, &path, OPS_KEY).await.status, 204);
    }
    created(&app, &json!({"id": "b", "text": "B", "cron": "0 * * * *"})).await;
    app.forget(CHAT, OPS_KEY).await;
    app.clock().advance(120 * MINUTE);
    let stores = app.open_history();
    assert_eq!(stores.due_schedules(app.clock().now(), 10).await.unwrap(), []);
    app.ada_says(8000, "again").await;
    assert_eq!(app.sent_texts(), ["You said: hello", "You said: again"]);
    app.finish().await;
}

/// An operator has the chat: what a text says comes all the same. What a model would be asked waits for the return, since the
/// operator does not see it as a question.
#[tokio::test]
async fn a_chat_that_is_taken_over_gets_its_texts() {
    let app = TestApp::start().await;
    app.ada_says(1, "hello").await;
    created(&app, &json!({"text": "Tea", "at": in_minutes(&app, 60)})).await;
    created(&app, &json!({"prompt": "Weather?", "at": in_minutes(&app, 60)})).await;
    app.request(Method::PUT, &chat_path(CHAT, "takeover")).bearer_auth(OPS_KEY).send().await.unwrap();
    pass(&app, 61, 2).await;
    assert_eq!(app.last_sent().text, "Tea");
    let message = json!({"messageId": "op-1", "text": "From a person"});
    assert_eq!(app.post(&chat_path(CHAT, "send"), OPS_KEY, &message).await.status, 202);
    app.idle().await;
    assert_eq!(app.sent_texts()[2..], ["From a person"]);
    app.call(Method::DELETE, &chat_path(CHAT, "takeover"), OPS_KEY).await;
    app.idle().await;
    let sent = app.sent_texts();
    assert!(sent.len() == 4 && sent[3].ends_with("Weather?"), "{sent:?}");
    assert_answered_once(&app.records(CHAT).await);
    app.finish().await;
}

#[tokio::test]
async fn an_invalid_schedule_is_refused_with_its_reason() {
    let app = TestApp::start().await;
    let valid = json!({"text": "Tea", "at": in_minutes(&app, 60)});
    create(&app, &valid).await.assert_problem(404, "no-such-chat");
    app.ada_says(1, "hello").await;
    let with = |name: &str, value: Value| {
        let mut body = valid.clone();
        body[name] = value;
        body
    };
    for (body, kind, reason) in [
        (with("at", json!("tomorrow")), "bad-schedule", "\"at\" must be a date such as"),
        (with("at", json!("2020-01-01T00:00:00Z")), "bad-schedule", "its date is past"),
        (with("timeZone", json!("Mars/Base")), "bad-schedule", "\"timeZone\" must be an IANA time zone"),
        (with("id", json!("a/b")), "bad-schedule", "\"id\" must be 1 to 64 letters"),
        (with("text", json!(" ")), "bad-schedule", "its content is blank"),
        (with("text", json!("x".repeat(8193))), "bad-schedule", "its content is longer than 8 KiB"),
        (with("prompt", json!("x")), "bad-body", "as \"text\" or as \"prompt\""),
        (with("cron", json!("0 9 * * *")), "bad-body", "as \"at\" or as \"cron\""),
        (json!({"text": "x", "cron": "* * * * *"}), "bad-schedule", "more often than every 5 minutes"),
        (json!({"text": "x", "cron": "9 o'clock"}), "bad-schedule", "is not a cron pattern of five fields"),
    ] {
        let answer = create(&app, &body).await;
        answer.assert_problem(400, kind);
        let detail = answer.body["detail"].as_str().unwrap();
        assert!(detail.contains(reason), "{detail}");
    }
    for n in 0..50 {
        created(&app, &with("id", json!(format!("s{n}")))).await;
    }
    create(&app, &valid).await.assert_problem(409, "schedule-refused");
    // The command lists all of them.
    app.handle(private(42, 2, "/remind").command()).await;
    let list = app.last_sent().text;
    for n in 0..50 {
        assert!(list.contains(&format!("s{n} ")), "s{n}: {list}");
    }
    app.finish().await;
}

/// The command, in both languages: it lists, adds and cancels, and its repeat adds nothing.
#[tokio::test]
async fn a_person_sets_and_cancels_reminders_by_a_command() {
    let app = TestApp::start().await;
    app.ada_says(1, "hello").await;
    app.handle(private(42, 2, "/remind").command()).await;
    assert!(app.last_sent().text.starts_with("Nothing is to come."), "{:?}", app.last_sent());
    app.handle(private(42, 3, "/remind in 20 minutes the oven").command()).await;
    let set = app.last_sent().text;
    assert!(set.starts_with("I will say on 20") && set.contains(": the oven"), "{set}");
    app.receive(private(42, 3, "/remind in 20 minutes the oven").command()).await;
    for (id, text, answer) in [
        (10, "/timezone Asia/Shanghai", ""),
        (11, "/remind soon call Bo", "I cannot read a date"),
        (12, "/remind 2020-01-01 9:00 x", "That date is past"),
    ] {
        app.handle(private(42, id, text).command()).await;
        assert!(app.last_sent().text.starts_with(answer), "{text}: {}", app.last_sent().text);
    }
    app.handle(private(42, 14, "/remind 明天9点半 开会").command()).await;
    let set = app.last_sent().text;
    assert!(set.starts_with("我会在 20") && set.contains(" 09:30 Asia/Shanghai 提醒：开会"), "{set}");
    let stored = listed(&app).await;
    let texts: Vec<_> = stored.iter().map(|stored| stored["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["⏰ the oven", "⏰ 提醒：开会"]);
    app.handle(private(42, 15, "/remind").command()).await;
    let list = app.last_sent().text;
    let ids: Vec<_> = stored.iter().map(|stored| stored["id"].as_str().unwrap()).collect();
    assert!(ids.iter().all(|id| list.contains(id)), "{list}");
    app.handle(private(42, 16, &format!("/remind cancel {}", ids[1])).command()).await;
    app.handle(private(42, 19, "/remind 也许开会").command()).await;
    assert!(app.last_sent().text.starts_with("没有看懂时间和内容"), "{}", app.last_sent().text);
    let count = app.sent_texts().len();
    pass(&app, 60 * 48, count + 1).await;
    assert_eq!(app.last_sent().text.lines().next(), Some("⏰ the oven"));
    app.finish().await;
}

/// The confirmation could not be sent, so Telegram delivers the command again, when the reminder has come or was cancelled.
#[tokio::test]
async fn a_reminder_that_has_ended_is_not_set_again() {
    let app = TestApp::builder().telegram().refusals_are_fine().start().await;
    app.ada_says(1, "hello").await;
    let [comes, is_cancelled]: [Value; 2] = [(2, "tea"), (3, "milk")]
        .map(|(id, what)| private(42, id, &format!("/remind in 5 minutes {what}")).command().into());
    for command in [&comes, &is_cancelled] {
        app.telegram_api().fail(3, 502);
        assert_eq!(app.as_time_passes(app.telegram(command)).await, 503);
    }
    let stored = listed(&app).await;
    let milk = stored.iter().find(|stored| stored["text"] == "⏰ milk").unwrap();
    app.handle(private(42, 4, &format!("/remind cancel {}", milk["id"].as_str().unwrap())).command()).await;
    let count = app.sent_texts().len();
    pass(&app, 10, count + 1).await;
    assert!(app.last_sent().text.starts_with("⏰ tea"), "{}", app.last_sent().text);
    for command in [comes, is_cancelled] {
        app.receive(command).await;
        assert!(
            app.last_sent().text.ends_with("has come already, or was cancelled."),
            "{}",
            app.last_sent().text
        );
    }
    assert_eq!(listed(&app).await, [json!(null); 0]);
    pass(&app, 60 * 24 * 30, count + 3).await;
    app.finish().await;
}

/// A turn that is repeated adds nothing, since the id of a schedule comes from the reply and the call.
#[tokio::test]
async fn the_agent_sets_lists_and_cancels_by_its_tools() {
    let app = TestApp::start().await;
    let at = |hour: u32| format!("2025-11-23T{hour:02}:00");
    let create = |input: Value| app.model().answer_tools(&[("schedule_create", input)]);
    create(json!({"text": "Tea", "at": at(9)}));
    app.ada_says(1, "remind me").await;
    create(json!({"task": "Say the weather", "cron": "0 8 * * *"}));
    app.ada_says(2, "each morning").await;
    for (id, input, reason) in [
        (3, json!({"text": "x"}), "\"at\" or \"cron\""),
        (4, json!({"text": "x", "task": "y", "at": at(9)}), "\"text\" or \"task\""),
        (5, json!({"text": "x", "at": "soon"}), "must be a date"),
        (6, json!({"text": "x", "cron": "* * * * *"}), "more often than"),
        (7, json!({"text": "x", "at": "2020-01-01T00:00"}), "its date is past"),
    ] {
        create(input);
        app.ada_says(id, "again").await;
        let request = app.last_request().to_string().replace("\\\"", "\"").replace("\\\\", "");
        assert!(request.replace('\\', "").contains(reason), "{reason}: {request}");
    }
    let stored = listed(&app).await;
    let contents: Vec<_> =
        stored.iter().map(|stored| stored["text"].as_str().or(stored["prompt"].as_str()).unwrap()).collect();
    assert_eq!(contents.len(), 2, "{stored:?}");
    assert!(contents.contains(&"Tea") && contents.contains(&"Say the weather"));
    app.model()
        .answer_tools(&[("schedule_cancel", json!({"id": stored[0]["id"]})), ("schedule_list", json!({}))]);
    app.ada_says(8, "stop one").await;
    assert_eq!(listed(&app).await, stored[1..]);
    // What is not there any more is not said to be cancelled now.
    let gone = json!({"id": stored[0]["id"]});
    app.model().answer_tools(&[("schedule_cancel", gone), ("schedule_cancel", json!({"id": "nope"}))]);
    app.ada_says(9, "stop both").await;
    for told in texts_of(&app.last_request(), "tool").iter().rev().take(2) {
        assert!(told.starts_with("{\"error\":\"there is no schedule "), "{told}");
    }
    app.finish().await;
}

#[tokio::test]
async fn a_turn_that_is_repeated_with_a_message_more_sets_its_reminder_once() {
    let most = AtomicUsize::new(0);
    let requests = at_each_request(&[Plan::Before, Plan::Lost], async |faults, plan| {
        let world = World::hosted(&[]).await;
        let from = world.hear(0, "remind me", true).await;
        let tea = json!({"text": "Tea", "at": "2026-11-30T09:00"});
        let remind = || world.model().answer_tools(&[("schedule_create", tea.clone())]);
        remind();
        let run = world.start(world.agent_with(faults.clone()), &from);
        let ended = tokio::time::timeout(Duration::from_secs(5), run).await;
        if !matches!(ended, Ok(Ok(Ok(())))) {
            world.clock.advance(6 * MINUTE);
            if world.model().count() > 0 && !world.records().await.iter().any(|record| record.key.is_reply())
            {
                remind();
            }
            world.hear(300, "thanks", true).await;
            world.run(&from).await;
        }
        let set = world.another_process().schedules(&world.chat).await.unwrap();
        assert!(set.len() <= 1, "{plan}: {set:?}");
        most.fetch_max(set.len(), Ordering::SeqCst);
    });
    assert!(requests.await >= 6);
    assert_eq!(most.into_inner(), 1);
}

/// In a group, where others have theirs.
#[tokio::test]
async fn what_a_person_scheduled_is_exported_and_erased_with_them() {
    const GROUP: &str = "telegram:chat:-5";
    let app = TestApp::start().await;
    let remind = |id: i64, user: i64, text: &str| {
        group(-5, id, text).with("from", json!({"id": user, "is_bot": false, "first_name": "P"})).command()
    };
    app.handle(remind(1, 42, "/remind 2026-12-01 9:00 ada's")).await;
    app.handle(remind(2, 43, "/remind 2026-12-01 9:00 bo's")).await;
    let exported = app.export_of("/v1/people/telegram-42/export", OPS_KEY).await;
    let schedules: Vec<_> = exported.iter().filter(|line| line["type"] == "schedule").collect();
    assert_eq!(schedules.len(), 1, "{exported:?}");
    assert_eq!(
        (&schedules[0]["chatKey"], &schedules[0]["schedule"]["text"]),
        (&json!(GROUP), &json!("⏰ ada's"))
    );
    let erased = app.as_time_passes(app.call(Method::DELETE, "/v1/people/telegram-42", OPS_KEY)).await;
    assert_eq!(erased.status, 200, "{erased:?}");
    let left = app.get(&chat_path(GROUP, "schedules")).await;
    let left: Vec<_> =
        left["schedules"].as_array().unwrap().iter().map(|left| left["text"].clone()).collect();
    assert_eq!(left, ["⏰ bo's"]);
    app.finish().await;
}

fn scheduling(world: &World, history: &History) -> Scheduling {
    world.ingress_of(history).scheduling()
}

fn schedule(action: Action, timing: Timing, created_at: Timestamp) -> Schedule {
    let to = Recipient {
        channel: Channel::Telegram,
        chat_id: "42".into(),
        user_id: "42".into(),
        person: None,
        message_id: "1".into(),
        metadata: annals_core::metadata::Metadata::default(),
    };
    let id = ScheduleId::try_from("s".to_owned()).unwrap();
    Schedule { id, action, timing, time_zone: TimeZone::UTC, created_at, to }
}

/// A process dies before each request of an occurrence, or loses the answer to it; then two do it at once. There is one record of the
/// date, one reply to it, and the next date is kept.
#[tokio::test(flavor = "multi_thread")]
async fn an_occurrence_that_is_cut_off_anywhere_is_continued_and_comes_once() {
    for action in [Action::Text("Tea".into()), Action::Prompt("News?".into())] {
        let prepared = World::new().await;
        prepared.ask(1, 0, "hello").await;
        let new = schedule(action.clone(), Timing::Cron("0 * * * *".into()), prepared.clock.now());
        annals_engine::scheduling::create(&prepared.history, &prepared.chat, new, Reuse::Never)
            .await
            .unwrap();
        prepared.advance(3600);
        let (now, dir) = (prepared.clock.now(), prepared.into_dir());
        let requests = at_each_request(&[Plan::Before, Plan::Lost], async |faults, what| {
            let world = World::copy_of(dir.path(), now, &[]).await;
            let broken = world.history_with(faults.clone());
            let _ = scheduling(&world, &broken).run_due(world.in_an_hour()).await;
            let others = world.another_process();
            let (a, b) = (scheduling(&world, &others), scheduling(&world, &world.history));
            let (a, b) = tokio::join!(a.run_due(world.in_an_hour()), b.run_due(world.in_an_hour()));
            assert_eq!((a.unwrap().failed, b.unwrap().failed), (0, 0), "{what}");
            for turn in world.queue.take() {
                world.run(&turn.from).await;
            }
            let records = world.listed().await;
            let runs = records.iter().filter(|record| record.due().is_some());
            let (replies, asked): (Vec<_>, Vec<_>) = runs.partition(|record| record.key.is_reply());
            assert_eq!((asked.len(), replies.len()), (1, 1), "{what}: {records:#?}");
            assert_eq!(asked[0].kind() == Kind::Notice, matches!(action, Action::Text(_)));
            assert_answered_once(&records);
            let left = world.history.schedules(&world.chat).await.unwrap();
            assert_eq!(left.len(), 1, "{what}");
            assert!(left[0].due_at > world.clock.now() && !left[0].has_fired, "{what}: {left:?}");
            let again = scheduling(&world, &world.history).run_due(world.in_an_hour()).await.unwrap();
            assert_eq!(again, Ran::default(), "{what}");
        });
        assert!((5..20).contains(&requests.await), "{action:?}");
    }
}

/// As `bench/README.md` says, beside the occurrence's turn.
#[tokio::test]
async fn a_schedule_costs_what_the_page_says() {
    let world = World::new().await;
    world.ask(1, 0, "hello").await;
    for turn in world.queue.take() {
        world.run(&turn.from).await;
    }
    let history = world.another_process();
    let meter = || world.meter.take();
    let new = schedule(Action::Text("Tea".into()), Timing::Cron("0 * * * *".into()), world.clock.now());
    let scheduling = scheduling(&world, &history);
    meter();
    scheduling.run_due(world.in_an_hour()).await.unwrap();
    let look = meter();
    annals_engine::scheduling::create(&history, &world.chat, new, Reuse::Never).await.unwrap();
    let created = meter();
    let mut occurrences = Vec::new();
    for _ in 0..2 {
        world.advance(3600);
        meter();
        assert_eq!(scheduling.run_due(world.in_an_hour()).await.unwrap().occurrences, 1);
        occurrences.push(meter());
    }
    let units = |of: &Consumed| (of.read_units, of.write_units, of.calls);
    assert_eq!(units(&look), (0.5, 0.0, 1));
    assert_eq!(units(&created), (1.0, 2.0, 2));
    // The first also registers the chat of this process with the compactor.
    assert_eq!((units(&occurrences[0]), units(&occurrences[1])), ((5.0, 8.0, 8), (5.0, 7.0, 8)));
}
