//! Links and separations whose process dies between any two requests to the stores, and a change of `DM_SCOPE`.

use std::collections::HashSet;

use annals_channel::settings::DmScope;
use annals_core::chat_key::ChatKey;
use annals_core::command::Command;
use annals_core::draft::{Draft, Origin};
use annals_core::message::Part;
use annals_core::record::{Channel, Kind};
use annals_core::sort_key::{MessageId, Timestamp};
use annals_engine::ingress::{Ingress, IngressConfig, IngressError};
use annals_engine::remembering::recalled;
use annals_store::history::History;
use annals_store::people::People;
use annals_test_support::discord_api::BOT_TOKEN;
use annals_test_support::model_api::is_for_summary;

use futures::future::join_all;
use reqwest::Method;
use serde_json::json;

use crate::app::{NOW, OPS_KEY};
use crate::discord::{self, DiscordApp, ask, direct as in_private};
use crate::faults::{Faults, Plan};
use crate::memory::{call, findings, remember, source, texts, user};
use crate::people::{by_person, code_in, http, link_telegram, summed_up, telegram_says};
use crate::world::{START, World};

const SETTINGS: &[(&str, &str)] = &[("DM_SCOPE", "user")];

fn direct(identity: &str) -> ChatKey {
    ChatKey::direct("annals", identity).unwrap()
}

/// A message of `identity` in the terminal, so many seconds after the start.
fn said(identity: &str, seconds: i64, text: &str) -> Draft {
    let origin = Origin {
        chat: direct(identity),
        channel: Channel::Terminal,
        chat_id: identity.into(),
        user_id: identity.into(),
    };
    let ts = Timestamp::from_millis(START + seconds * 1000).unwrap();
    Draft::new(origin, MessageId::new(format!("{identity}-{seconds}")).unwrap(), ts)
        .with_parts(vec![Part::text(text)])
        .asking(true)
        .of_person(identity.to_owned())
}

fn ingress(world: &World, history: &History) -> Ingress {
    scoped(world, history, DmScope::User)
}

fn scoped(world: &World, history: &History, dm_scope: DmScope) -> Ingress {
    world.ingress_with(history, IngressConfig { dm_scope, ..IngressConfig::default() })
}

/// Says `text`, which may be a command, in a process that works on `history`; returns what is confirmed.
async fn say(
    world: &World,
    history: &History,
    identity: &str,
    seconds: i64,
    text: &str,
) -> Result<String, IngressError> {
    world.advance_to(seconds);
    let ingress = ingress(world, history);
    let draft = ingress.placed(said(identity, seconds, text)).await?;
    let Some(command) = Command::parse(text, None) else {
        ingress.receive(&draft).await?;
        return Ok(String::new());
    };
    let confirmation = ingress.command(&command, &draft).await?.confirmation;
    let Some(confirmation) = confirmation else { return Ok(String::new()) };
    let text = confirmation.text.clone();
    ingress.confirmed(&draft, confirmation).await?;
    Ok(text)
}

/// A world in which `ada` and `bo` have said something and have a memory each.
async fn two_people() -> World {
    let world = World::with(SETTINGS).await;
    for (identity, seconds) in [("ada", 1), ("bo", 2)] {
        say(&world, &world.history, identity, seconds, &format!("I am {identity}")).await.unwrap();
        let source = source(&direct(identity).to_string(), 9);
        let found = findings(&[format!("Is {identity}.").as_str(), "Likes tea."]);
        world.memory.capture(&user(identity), &source, &found).await.unwrap();
    }
    settle(&world).await;
    world
}

/// Takes all steps of a link of `bo` to `ada` but the last.
async fn nearly_linked(world: &World) {
    let own = &world.history;
    let code = code_in(&say(world, own, "ada", 10, "/link").await.unwrap());
    say(world, own, "bo", 11, &format!("/link {code}")).await.unwrap();
    say(world, own, "bo", 12, "/link yes").await.unwrap();
    say(world, own, "ada", 13, "/link yes").await.unwrap();
}

async fn linked() -> World {
    let world = two_people().await;
    nearly_linked(&world).await;
    say(&world, &world.history, "ada", 14, "/link yes").await.unwrap();
    world
}

/// Runs the turns of both chats until nothing is left to do.
async fn settle(world: &World) {
    for identity in ["ada", "bo"] {
        world.agent().run(&direct(identity), &[]).await.map_err(|undone| undone.error).unwrap();
    }
}

/// The state that people can see: events of other chats, identities, memory, and what the contexts hold.
async fn state(world: &World) -> Vec<String> {
    let history = world.another_process();
    let people = People::beside(&history);
    let mut state = Vec::new();
    for identity in ["ada", "bo"] {
        let person = people.person_of(identity).await.unwrap();
        state.push(format!("{identity} is {person} with {:?}", people.linked_to(identity).await.unwrap()));
        let head = history.head(&direct(identity)).await.unwrap();
        assert!(head.joins.is_empty(), "{:?}", head.joins);
        let records = history.range(&direct(identity), None).await.unwrap();
        let notable = records.iter().filter(|record| record.kind() != Kind::Notice);
        state.extend(
            notable.map(|record| format!("{identity} {}: {}", record.kind(), record.message.plain_text())),
        );
        let memory = world.memory.list(&user(identity)).await.unwrap();
        state.extend(
            memory.into_iter().map(|kept| format!("{identity} {}. {}", kept.number, kept.entry.text)),
        );
    }
    state
}

/// Does `act` in a process that dies before each of its requests to the stores, on a copy of `prepared`; then in another
/// process. The state must be that of an act that nothing disturbs.
async fn dies_anywhere(prepared: World, act: impl AsyncFn(&World, &History) -> bool) {
    let (now, dir) = (prepared.clock.now(), prepared.into_dir());
    let copy = async || World::copy_of(dir.path(), now, SETTINGS).await;
    let world = copy().await;
    assert!(act(&world, &world.history).await);
    settle(&world).await;
    let wanted = state(&world).await;
    // What follows depends on what the process leaves behind alone.
    let mut continued = HashSet::new();
    for number in 1.. {
        let world = copy().await;
        let faults = Faults::new(Plan::Before(number));
        let is_done = act(&world, &world.history_with(faults.clone())).await;
        if is_done && faults.requests() < number {
            assert!(number > 5, "{number}");
            break;
        }
        if !continued.insert(world.state().await) {
            continue;
        }
        assert!(act(&world, &world.another_process()).await, "request {number}");
        settle(&world).await;
        assert_eq!(state(&world).await, wanted, "request {number}");
    }
}

#[tokio::test]
async fn a_link_is_whole_wherever_its_process_dies() {
    let world = two_people().await;
    nearly_linked(&world).await;
    dies_anywhere(world, async |world, history| {
        Box::pin(say(world, history, "ada", 14, "/link yes")).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn a_separation_is_whole_wherever_its_process_dies() {
    for who in ["bo", "ada"] {
        let world = linked().await;
        settle(&world).await;
        say(&world, &world.history, "bo", 20, "Among friends").await.unwrap();
        settle(&world).await;
        dies_anywhere(world, async |world, history| {
            Box::pin(say(world, history, who, 30, "/unlink")).await.is_ok()
        })
        .await;
    }
}

#[tokio::test]
async fn the_run_after_a_link_may_die_anywhere() {
    dies_anywhere(linked().await, async |world, history| {
        let ran = world.agent_of(history).run(&direct("ada"), &[]).await.is_ok();
        // Another run waits until the lease is over.
        world.advance(600);
        ran
    })
    .await;
}

#[tokio::test]
async fn each_step_of_an_exchange_can_be_repeated() {
    let world = two_people().await;
    let own = &world.history;
    let code = code_in(&say(&world, own, "ada", 10, "/link").await.unwrap());
    // The process dies before it has noted that the person was told, so the repeat tells again.
    let again = async |identity: &str, seconds: i64, text: &str| {
        let ingress = ingress(&world, own);
        let draft = ingress.placed(said(identity, seconds, text)).await.unwrap();
        let command = Command::parse(text, None).unwrap();
        let told = async || ingress.command(&command, &draft).await.unwrap().confirmation.unwrap().text;
        let first = told().await;
        assert_eq!(told().await, first, "{text}");
        first
    };
    world.advance_to(15);
    assert!(again("bo", 11, &format!("/link {code}")).await.contains("the code of ada on the terminal"));
    assert!(again("bo", 12, "/link yes").await.starts_with("Now say /link where you got the code"));
    assert!(again("ada", 13, "/link yes").await.starts_with("Your code was entered by bo on the terminal"));
    assert!(again("ada", 14, "/link yes").await.starts_with("Linked"));
    // Those before it, again: nothing goes back.
    assert!(again("bo", 12, "/link yes").await.starts_with("Now say /link"));
    assert!(again("ada", 13, "/link yes").await.starts_with("Your code was entered by bo"));
    assert_eq!(People::beside(own).person_of("bo").await.unwrap(), "ada");
    assert!(again("bo", 16, "/unlink").await.starts_with("Separated"));
    // After a separation no step of that exchange links them, neither again nor anew.
    for (identity, seconds) in [("ada", 14), ("ada", 17), ("bo", 12), ("bo", 18)] {
        assert!(again(identity, seconds, "/link yes").await.starts_with("There is nothing to confirm here."));
    }
    assert_eq!(People::beside(own).person_of("bo").await.unwrap(), "bo");
}

/// All identities of a Person together enter five wrong codes in an hour, also at once.
#[tokio::test]
async fn a_person_with_several_identities_has_five_guesses() {
    let world = linked().await;
    settle(&world).await;
    world.advance_to(20);
    let guess = async |number: i64| {
        let identity = if number % 2 == 0 { "ada" } else { "bo" };
        let text = format!("/link AAAAA-{number:05}");
        let ingress = ingress(&world, &world.history);
        let draft = ingress.placed(said(identity, 20 + number, &text)).await.unwrap();
        let command = Command::parse(&text, None).unwrap();
        ingress.command(&command, &draft).await.unwrap().confirmation.unwrap().text
    };
    let told = join_all((0..20).map(guess)).await;
    let count = |start: &str| told.iter().filter(|told| told.starts_with(start)).count();
    assert_eq!((count("This code is wrong"), count("Too many wrong codes.")), (5, 15), "{told:?}");
    for number in [30, 31] {
        assert!(guess(number).await.starts_with("Too many wrong codes."));
    }
    world.advance_to(20 + 3600);
    assert!(guess(3600).await.starts_with("This code is wrong"));
}

/// A model that fails holds nobody up: the other chat's messages are quoted.
#[tokio::test]
async fn a_summary_that_cannot_be_made_is_a_quotation() {
    let app = by_person().start().await;
    telegram_says(&app, 42, 1, "My dog is Rex").await;
    app.model().fail(100, 500);
    app.advance_to((NOW + 100) * 1000);
    let linked = Box::pin(link_telegram(&app, 100));
    linked.await;
    app.idle_as_hours_pass().await;
    app.model().recover();
    assert_eq!(http(&app, "ada", "What is my dog's name?").await, "You said: What is my dog's name?");
    let said = app.last_request().to_string();
    assert!(said.contains("user: My dog is Rex"), "{said}");
    app.finish().await;
}

#[tokio::test]
async fn a_chat_follows_a_change_of_the_scope_there_and_back() {
    let mut app = by_person().start().await;
    app.set("DM_SCOPE", "chat").await;
    telegram_says(&app, 42, 1, "My dog is Rex").await;
    assert_eq!(app.lines("telegram:chat:42").await.len(), 2);

    app.set("DM_SCOPE", "user").await;
    telegram_says(&app, 42, 100, "My cat is Tom").await;
    let said = app.last_request().to_string();
    assert!(said.contains("in another chat (telegram)") && said.contains("My cat is Tom"), "{said}");
    let own = "agent:annals:user:telegram-42";
    telegram_says(&app, 42, 101, "And a bird").await;
    let events = app.lines(own).await.into_iter().filter(|line| line.contains(" event: ")).count();
    assert_eq!(events, 1, "once");

    app.set("DM_SCOPE", "chat").await;
    telegram_says(&app, 42, 200, "Who lives with me?").await;
    let said = app.last_request().to_string();
    for pet in ["My dog is Rex", "My cat is Tom", "And a bird"] {
        assert!(said.contains(pet), "{said}");
    }
    telegram_says(&app, 42, 201, "Only here").await;
    assert_eq!(app.lines("telegram:chat:42").await.len(), 2 + 4 + 4);

    app.set("DM_SCOPE", "user").await;
    telegram_says(&app, 42, 300, "And now?").await;
    let lines = app.lines(own).await;
    assert_eq!(lines.iter().filter(|line| line.contains(" event: ")).count(), 2, "{lines:?}");
    app.finish().await;
}

/// Discord, HTTP and the terminal have the same key under both scopes: an identity that is linked has its own chat back
/// under `chat`, with its part and its memory, and tells its person what was said there.
#[tokio::test]
async fn a_linked_identity_follows_a_change_of_the_scope_there_and_back() {
    let mut it = DiscordApp::with(&[("DISCORD_BOT_TOKEN", BOT_TOKEN), ("DM_SCOPE", "user")]).await;
    it.app
        .model()
        .answer_by(|request| is_for_summary(request).then(|| format!("Facts: {}", summed_up(request))));
    let links = Some(json!({"links": [format!("discord-{}", discord::ADA), "bo"]}));
    assert_eq!(call(&it.app, Method::PUT, "/v1/people/ada/links", OPS_KEY, links).await.status, 200);
    it.app.idle_as_time_passes().await;
    let in_discord = async |it: &DiscordApp, text: &str, seconds: i64| {
        it.app.advance_to((NOW + seconds) * 1000);
        it.handle(&in_private(ask(text, seconds))).await;
        it.app.last_request()["messages"].to_string()
    };
    let knows = |request: &str, facts: [bool; 3]| {
        let known = ["My cat is Tom", "My dog is Rex", "My name is Ada"].map(|fact| request.contains(fact));
        assert_eq!(known, facts, "{request}");
    };
    in_discord(&it, "My cat is Tom", 100).await;
    http(&it.app, "bo", "My dog is Rex").await;
    let own = format!("agent:annals:user:{}", discord::ADA);
    remember(&it.app, &user("ada"), &own, &["Has a cat."]).await;
    let events = async |it: &DiscordApp| {
        let all = it.app.lines("agent:annals:user:ada").await;
        all.into_iter().filter(|line| line.contains(" event: ")).collect::<Vec<_>>()
    };
    assert_eq!(events(&it).await, [""; 0], "nothing was said before the link");

    it.app.set("DM_SCOPE", "chat").await;
    knows(&in_discord(&it, "Who lives with me?", 200).await, [true, false, false]);
    http(&it.app, "bo", "And with me?").await;
    knows(&it.app.last_request()["messages"].to_string(), [false, true, false]);
    assert_eq!(texts(&it.app, &user(discord::ADA)).await, [(1, "Has a cat.".to_owned())]);
    in_discord(&it, "My name is Ada", 300).await;

    it.app.set("DM_SCOPE", "user").await;
    knows(&in_discord(&it, "Who am I?", 400).await, [true, true, true]);
    http(&it.app, "ada", "And here?").await;
    knows(&it.app.last_request()["messages"].to_string(), [true, true, true]);
    assert_eq!(events(&it).await.len(), 1, "{:?}", events(&it).await);
    it.app.finish().await;
}

/// A direct message costs one read more under `DM_SCOPE=user`, and any other message none.
#[tokio::test]
async fn a_direct_message_costs_one_read_whether_it_is_linked_or_not() {
    let world = two_people().await;
    let read = async |scope: DmScope, identity: &str, seconds: i64| {
        let history = world.another_process();
        let ingress = scoped(&world, &history, scope);
        let draft = said(identity, seconds, "hello");
        world.meter.take();
        ingress.placed(draft).await.unwrap();
        let consumed = world.meter.take();
        (consumed.calls, consumed.read_units, consumed.write_units)
    };
    assert_eq!(read(DmScope::User, "bo", 20).await, (1, 1.0, 0.0));
    nearly_linked(&world).await;
    say(&world, &world.history, "ada", 14, "/link yes").await.unwrap();
    assert_eq!(read(DmScope::User, "bo", 20).await, (1, 1.0, 0.0));
    assert_eq!(read(DmScope::Chat, "bo", 20).await, (0, 0.0, 0.0));
    let group = Draft { chat: ChatKey::telegram(-7, None), ..said("bo", 20, "hello") };
    let ingress = ingress(&world, &world.history);
    world.meter.take();
    ingress.placed(group).await.unwrap();
    assert_eq!(world.meter.take().calls, 0);
}

/// A session from before a link that is captured after it, and a conversation over HTTP, have the Person's memory.
#[tokio::test]
async fn what_is_captured_later_goes_to_the_memory_of_the_person() {
    let world = linked().await;
    settle(&world).await;
    world.advance_to(49 * 3600);
    world.run_compactor().await;
    let texts = async |owner: &str| {
        let memory = world.memory.list(&user(owner)).await.unwrap();
        memory.into_iter().map(|kept| kept.entry.text).collect::<Vec<_>>()
    };
    let all = texts("ada").await;
    assert!(all.contains(&"Said: I am bo".to_owned()), "{all:?}");
    assert!(all.contains(&"Said: I am ada".to_owned()), "{all:?}");
    assert_eq!(texts("bo").await, [""; 0]);

    let chat = ChatKey::http("ops", "c1").unwrap();
    let asked =
        Draft { chat: chat.clone(), channel: Channel::Http, ..said("bo", 49 * 3600 + 1, "Who am I?") };
    world.append(&asked).await;
    let records = world.history.range(&chat, None).await.unwrap();
    let config = world.config();
    let recalled = recalled(&world.history, &chat, &records, world.clock.now(), &config.view, &config.memory)
        .await
        .unwrap();
    let recalled = recalled.memory.unwrap();
    assert_eq!(recalled.owner, user("ada"));
    assert!(recalled.section.unwrap().contains("Is bo."));
}
