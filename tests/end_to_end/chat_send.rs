//! The tool `chat_send`: to the direct chat of the person who asks, to a chat that an admin allows, and nowhere else.

use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::chat_settings::SendTarget;
use annals_core::draft::Draft;
use annals_core::record::{Kind, Record};
use annals_core::sort_key::SortKey;
use annals_core::testing::set;
use annals_test_support::model_api::{ModelApi, texts_of};
use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{OPS_KEY, TestApp, chat_path, text_of};
use crate::chat_settings::change;
use crate::faults::Plan;
use crate::lines::business;
use crate::memory::call;
use crate::meter::Consumed;
use crate::outside_tools::{offered, results};
use crate::updates::{group, private};
use crate::world::{self, World, at_each_request};

const DIRECT: &str = "telegram:chat:42";
const GROUP: &str = "telegram:chat:-7";
const TEAM: &str = "telegram:chat:-8";

async fn started(settings: &[(&str, &str)]) -> TestApp {
    let builder = TestApp::builder().telegram().model().set("GROUP_ACTIVATION", "always");
    builder.set_all(settings).start().await
}

/// Has the model call `chat_send` once with this text.
fn will_send(model: &ModelApi, to: &str, text: &str) {
    model.answer_tools(&[("chat_send", json!({"to": to, "text": text}))]);
}

async fn allow(app: &TestApp, chat: &str, to: &str, approval: &str) {
    let targets = json!([{"name": "team", "chat": to, "approval": approval}]);
    let changed = change(app, chat, json!({"sendsTo": targets})).await;
    assert_eq!(changed.status, 200, "{changed:?}");
}

/// Returns what was sent to a chat of Telegram.
fn sent_to(app: &TestApp, chat: i64) -> Vec<String> {
    let sent = app.telegram_api().sent().into_iter();
    sent.filter(|sent| sent.chat_id == chat).map(|sent| sent.text).collect()
}

async fn told(app: &TestApp, chat: &str) -> Value {
    results(app, chat).await.pop().unwrap().1
}

#[tokio::test]
async fn in_a_group_the_asker_gets_a_text_in_their_direct_chat() {
    let app = started(&[]).await;
    app.handle(private(42, 1, "hello")).await;
    assert!(!offered(&app.last_request()).contains(&"chat_send"), "there is nothing to send to");
    will_send(app.model(), "direct", "The code is 7.");
    app.handle(group(-7, 2, "Send me the code in private.").by(42)).await;
    assert_eq!(told(&app, GROUP).await, json!({"sent": true}));
    assert_eq!(sent_to(&app, 42), ["You said: hello", "The code is 7."]);
    assert_eq!(app.model().count(), 3, "the direct chat's turn asks no model");
    let message = app.history(DIRECT).await.pop().unwrap();
    assert_eq!((&message["role"], text_of(&message).as_str()), (&json!("assistant"), "The code is 7."));
    let from = json!({"chatKey": GROUP, "agentId": "annals"});
    assert_eq!(message["metadata"]["sentFrom"], from, "{message}");
    assert!(message["metadata"]["sentBy"].is_null(), "{message}");

    // It is what the assistant said there.
    app.handle(private(42, 3, "Which code?")).await;
    let said = texts_of(&app.last_request(), "assistant");
    assert!(said.last().is_some_and(|said| said.ends_with("The code is 7.")), "{said:?}");

    // Another has no direct chat.
    will_send(app.model(), "direct", "Psst.");
    app.handle(group(-7, 4, "And me?").by(43)).await;
    assert_eq!(told(&app, GROUP).await, "there is no such chat: nobody has written to you there lately");
    assert_eq!(sent_to(&app, 43), [""; 0]);
    app.finish().await;
}

#[tokio::test]
async fn texts_of_one_answer_arrive_in_its_order() {
    let app = started(&[]).await;
    app.handle(private(42, 1, "hello")).await;
    let texts = ["one", "two", "three", "four", "five", "six"];
    app.model().answer_tools(&texts.map(|text| ("chat_send", json!({"to": "direct", "text": text}))));
    app.handle_as_time_passes(group(-7, 2, "Count in private.").by(42)).await;
    assert_eq!(sent_to(&app, 42)[1..], texts);
    app.finish().await;
}

#[tokio::test]
async fn the_model_learns_that_a_chat_refuses_messages() {
    let builder = TestApp::builder().telegram().model().set("GROUP_ACTIVATION", "always");
    let app = builder.refusals_are_fine().start().await;
    app.handle(private(42, 1, "hello")).await;
    app.telegram_api().block(42);
    let refused = "that chat refuses messages from the bot, so nothing was sent";
    // The first finds out.
    for (id, result) in [(2, json!({"sent": true})), (3, json!(refused))] {
        will_send(app.model(), "direct", "The code is 7.");
        app.handle(group(-7, id, "Send me the code in private.").by(42)).await;
        assert_eq!(told(&app, GROUP).await, result);
    }
    assert_eq!(sent_to(&app, 42), ["You said: hello"]);
    app.finish().await;
}

/// Telegram gives a person's chat with the bot and those with businesses the same id.
#[tokio::test]
async fn nothing_private_is_sent_over_a_business_connection() {
    let app = started(&[]).await;
    app.handle(private(42, 1, "hello")).await;
    app.handle(business("bc_a", 2, "Do you sell honey?")).await;
    let sent = sent_to(&app, 42);
    will_send(app.model(), "direct", "The code is 7.");
    app.handle(group(-7, 3, "Send me the code in private.").by(42)).await;
    assert_eq!(told(&app, GROUP).await, "there is no such chat: nobody has written to you there lately");
    assert_eq!(sent_to(&app, 42), sent);
    app.finish().await;
}

#[tokio::test]
async fn a_linked_person_gets_a_text_of_a_conversation_where_they_wrote_last() {
    let app = started(&[("DM_SCOPE", "user"), ("LINKS", "ada,telegram-42")]).await;
    app.handle(private(42, 1, "hello")).await;
    will_send(app.model(), "direct", "The report is ready.");
    let asked = app.ask("c1", OPS_KEY, &json!({"userId": "ada", "text": "Tell me in Telegram."})).await;
    assert_eq!(asked.status, 200, "{asked:?}");
    app.idle_as_time_passes().await;
    assert_eq!(sent_to(&app, 42), ["You said: hello", "The report is ready."]);
    app.finish().await;
}

#[tokio::test]
async fn an_allowed_chat_gets_a_text_after_approval_and_any_other_none() {
    let app = started(&[("ADMINS", "telegram-99")]).await;
    app.handle(private(42, 1, "hello")).await;
    app.handle(group(-8, 2, "We are the team.").by(50)).await;
    allow(&app, DIRECT, TEAM, "askers").await;
    let (asked, before) = (app.model().count(), sent_to(&app, -8).len());

    will_send(app.model(), "team", "Lunch at noon.");
    app.handle(private(42, 3, "Tell the team.")).await;
    assert!(app.last_sent().text.contains("Lunch at noon."), "{:?}", app.last_sent());
    assert_eq!(sent_to(&app, -8).len(), before, "nothing without approval");
    app.handle(private(42, 4, "/approve").command()).await;
    assert_eq!(sent_to(&app, -8).last().unwrap(), "Lunch at noon.");
    assert_eq!((sent_to(&app, -8).len(), app.model().count()), (before + 1, asked + 2));

    will_send(app.model(), "team", "Free beer.");
    app.handle(private(42, 5, "Tell them that.")).await;
    app.handle(private(42, 6, "/deny").command()).await;
    assert_eq!(sent_to(&app, -8).len(), before + 1);

    // Only administrators may.
    allow(&app, DIRECT, TEAM, "admins").await;
    will_send(app.model(), "team", "Free beer.");
    app.handle(private(42, 7, "Please.")).await;
    app.handle(private(42, 8, "/approve").command()).await;
    assert_eq!(sent_to(&app, -8).len(), before + 1);

    // Nowhere else.
    app.handle(private(42, 9, "/stop").command()).await;
    will_send(app.model(), "telegram:chat:-8", "x");
    app.handle(private(42, 10, "Again.")).await;
    assert_eq!(told(&app, DIRECT).await, "\"to\" of the input must be one of \"team\"");
    assert_eq!(sent_to(&app, -8).len(), before + 1);
    app.finish().await;
}

/// A sent text asks no model, so two chats that may send to each other do not go on for ever.
#[tokio::test]
async fn two_chats_that_send_to_each_other_make_no_loop() {
    let app = started(&[]).await;
    for (id, chat) in [(1, -7), (2, -8)] {
        app.handle(group(chat, id, "hello").by(42)).await;
    }
    allow(&app, GROUP, TEAM, "none").await;
    allow(&app, TEAM, GROUP, "none").await;
    let asked = app.model().count();
    will_send(app.model(), "team", "Send me something.");
    app.handle(group(-7, 3, "Go.").by(42)).await;
    assert_eq!(sent_to(&app, -8).last().unwrap(), "Send me something.");
    assert_eq!(app.model().count(), asked + 2);
    app.finish().await;
}

#[tokio::test]
async fn nothing_is_sent_to_a_chat_that_is_taken_over_or_forgotten() {
    let app = started(&[]).await;
    app.handle(private(42, 1, "hello")).await;
    app.handle(group(-8, 2, "We are the team.").by(50)).await;
    allow(&app, DIRECT, TEAM, "none").await;
    let body = json!({"operator": "Grace"});
    let taken = call(&app, Method::PUT, &chat_path(TEAM, "takeover"), OPS_KEY, Some(body)).await;
    assert_eq!(taken.status, 200);
    let sent = sent_to(&app, -8);
    will_send(app.model(), "team", "Lunch at noon.");
    app.handle(private(42, 3, "Tell the team.")).await;
    let taken = "an operator answers in that chat at the moment, so nothing was sent";
    assert_eq!(told(&app, DIRECT).await, taken);
    assert_eq!(app.forget(TEAM, OPS_KEY).await.status, 200);
    will_send(app.model(), "team", "Lunch at noon.");
    app.handle_as_time_passes(private(42, 4, "Tell them now.")).await;
    assert_eq!(told(&app, DIRECT).await, "there is no such chat: nobody has written to you there lately");
    assert_eq!((sent_to(&app, -8), app.history(TEAM).await.len()), (sent, 0));
    app.finish().await;
}

/// Returns a world with a team's group, to which the chat's agent may send, and a question.
async fn with_team(team: &ChatKey) -> (World, SortKey) {
    let world = World::hosted(&[]).await;
    let mut of_team = Draft { chat_id: "-8".into(), ..world::message(team, 1, 0, "We are the team.") };
    set(&mut of_team.metadata, "chatType", "group");
    world.append(&of_team).await;
    let from = world.hear(60, "Tell the team.", true).await;
    let target: SendTarget =
        serde_json::from_value(json!({"name": "team", "chat": team, "approval": "none"})).unwrap();
    let changed = world.history.change_settings(&world.chat, |settings| {
        settings.sends_to = vec![target.clone()];
    });
    assert!(changed.await.unwrap().is_some());
    (world, from)
}

#[tokio::test]
async fn if_several_people_have_asked_nothing_is_sent_or_scheduled_for_one() {
    // A scheduled task of one may be among what is answered.
    for is_task in [false, true] {
        let (world, team) = (World::hosted(&[]).await, ChatKey::telegram(-8, None));
        world.hear(0, "hello", true).await;
        for (id, user) in [(1, "42"), (2, "43")] {
            let draft = world::message(&team, id, 1000 * i64::try_from(id).unwrap(), "Send it in private.");
            let mut draft = Draft { chat_id: "-8".into(), user_id: user.into(), asks: true, ..draft };
            set(&mut draft.metadata, "chatType", "group");
            if is_task && id == 1 {
                set(&mut draft.metadata, "schedule", json!({"id": "daily", "at": 1_000}));
            }
            world.append(&draft).await;
        }
        let send = ("chat_send", json!({"to": "direct", "text": "Psst."}));
        let schedule = ("schedule_create", json!({"text": "Psst.", "cron": "0 9 * * *"}));
        world.model().answer_tools(&[send, schedule]);
        world.agent().run(&team, &[]).await.unwrap();
        let records = world.another_process().range(&team, None).await.unwrap();
        let said = json!(records.last().unwrap().listed()).to_string();
        assert_eq!(said.matches("several people have asked").count(), 2, "{said}");
        assert_eq!(world.records().await.len(), 1);
        assert_eq!(world.history.schedules(&team).await.unwrap(), []);
    }
}

/// A turn that sends reads the other chat's head and newest records, and puts a record, which registers the chat, and its id
/// marker.
#[tokio::test]
async fn a_text_costs_three_reads_and_three_writes() {
    let team = ChatKey::telegram(-8, None);
    let cost = async |text: &str| -> Consumed {
        let (world, from) = with_team(&team).await;
        will_send(world.model(), "team", text);
        let history = world.another_process();
        let agent = world.agent_of(&history);
        world.meter.take();
        world.start(agent, &from).await.unwrap().unwrap();
        world.meter.take()
    };
    // Refused before anything is read.
    let (none, sent) = (cost(" ").await, cost("Lunch at noon.").await);
    let adds = Consumed {
        read_units: none.read_units + 3.0,
        write_units: none.write_units + 3.0,
        calls: none.calls + 5,
    };
    assert_eq!(sent, adds);
}

/// The turn that calls is cut off at each request to a store, and done by the next run: the other chat has one text.
#[tokio::test]
async fn a_text_is_sent_once_wherever_the_turn_is_cut_off() {
    let team = ChatKey::telegram(-8, None);
    let requests = at_each_request(&[Plan::Before, Plan::Lost], async |faults, plan| {
        let (world, from) = with_team(&team).await;
        will_send(world.model(), "team", "Lunch at noon.");
        let run = world.start(world.agent_with(faults.clone()), &from);
        let ended = tokio::time::timeout(Duration::from_secs(5), run).await;
        if !matches!(ended, Ok(Ok(Ok(())))) {
            world.clock.advance(Duration::from_mins(6));
            let is_answered = world.records().await.iter().any(|record| record.key.is_reply());
            if !is_answered && world.model().count() > 0 {
                will_send(world.model(), "team", "Lunch at noon.");
            }
            world.run(&from).await;
        }
        let history = world.another_process();
        let agent = world.agent_of(&history);
        // Those that the queue has, and one for anything else that comes there.
        let queued = world.queue.take().into_iter().filter(|turn| turn.chat == team);
        for named in queued.map(|turn| vec![turn.from]).chain([Vec::new()]) {
            agent.run(&team, &named).await.unwrap();
        }
        let result = json!(world.records().await.iter().map(Record::listed).collect::<Vec<_>>()).to_string();
        let (is_sent, is_known) = (result.contains("\"sent\":true"), !result.contains("it is not known"));
        let records = history.range(&team, None).await.unwrap();
        let is_message = |record: &&Record| record.kind() == Kind::Normal && record.key.is_reply();
        let sent: Vec<String> =
            records.iter().filter(is_message).map(|record| record.message.plain_text()).collect();
        let what = format!("{plan}, {sent:?}: {result}");
        assert!(sent.iter().all(|text| text == "Lunch at noon.") && sent.len() <= 1, "{what}");
        // The model of a run that meets a failure and lives on is told so.
        assert!(is_sent || plan.starts_with("Lost"), "{what}");
        assert!(!is_known || sent.len() == usize::from(is_sent), "{what}");
    });
    assert!(requests.await >= 10);
}
