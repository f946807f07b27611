//! Several agents on one stack: profiles of a folder, the rules that choose one, and what each keeps for itself.

use annals_core::agents::Agents;
use annals_core::sort_key::Timestamp;
use annals_engine::erasing::Person;
use annals_store::people::People;
use annals_test_support::discord_api::BOT_TOKEN;
use annals_test_support::model_api::times_of;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::app::{Builder, OPS_KEY, TestApp, chat_path};
use crate::chat_settings::change;
use crate::discord::{DiscordApp, ask, direct};
use crate::lark::{GROUP, LarkApp, P2P, mentioning, text};
use crate::outside_tools::{offered, results, shop_with};
use crate::people::{link_telegram, telegram_says};
use crate::process::program;
use crate::terminal::piped;
use crate::updates::{group, private};
use crate::world::scan;

/// A folder with the files of agents.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

fn with(builder: Builder, folder: &TempDir, rules: &Value) -> Builder {
    builder.set("AGENTS_FOLDER", folder.path().to_str().unwrap()).set("AGENTS", &rules.to_string())
}

const SUPPORT: &str = "---\nmodel: openai:small\ntools: [memory_save, memory_search]\nlanguage: zh\n---\nYou answer questions about orders.\n";
const REFUNDS: &str =
    "---\nname: refunds\ndescription: How refunds are made\n---\nAsk for the order's number first.\n";

/// Returns the system prompt of a request.
fn system(request: &Value) -> &str {
    request["messages"][0]["content"].as_str().unwrap()
}

async fn last_reply(app: &TestApp, chat: &str) -> Value {
    app.history(chat).await.pop().unwrap()
}

async fn memories(app: &TestApp, query: &str) -> Vec<String> {
    let list = app.get(&format!("/v1/memory?{query}")).await;
    let entries = list["memories"].as_array().unwrap().iter();
    entries.map(|entry| entry["text"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn two_agents_of_one_stack_have_prompts_models_tools_skills_and_memories_of_their_own() {
    let folder = folder(&[("support/Agent.md", SUPPORT), ("support/skills/refunds/SKILL.md", REFUNDS)]);
    let builder = TestApp::builder().telegram().model().set("DM_SCOPE", "user").set("MODELS", "openai:small");
    let builder = builder.set("SYSTEM_PROMPT", "You help.");
    let app = with(builder, &folder, &json!([{"agent": "support", "channel": "telegram"}])).start().await;
    let (theirs, ours) = ("agent:support:user:telegram-42", "agent:annals:user:telegram-42");

    app.model().answer_tools(&[
        ("skills_load", json!({"name": "refunds"})),
        ("skills_load", json!({"name": "payments"})),
        ("memory_save", json!({"text": "Wants refunds in stamps.", "type": "preference"})),
    ]);
    app.handle(private(42, 1, "Can I have my money back?")).await;
    let requests = app.model().requests();
    let prompt = "You answer questions about orders.\n\nYou have these skills. Load one with the tool skills_load before \
                  you do what it describes:\n- refunds: How refunds are made";
    assert_eq!((system(&requests[0]), &requests[0]["model"]), (prompt, &json!("small")));
    assert_eq!(offered(&requests[0]), ["skills_load", "memory_search", "memory_save"]);
    let loaded = requests[1].to_string();
    assert!(loaded.contains("Ask for the order's number first."), "{loaded}");
    let reply = last_reply(&app, theirs).await;
    assert_eq!([&reply["metadata"]["agent"], &reply["metadata"]["userId"]], ["support", "support"]);
    let calls = results(&app, theirs).await;
    assert_eq!(calls[0].1["instructions"], "Ask for the order's number first.");
    assert_eq!(calls[1].0, "output-error", "no skill of this name");

    // The default agent is as it was without the others, and remembers nothing of what was said to them.
    let said = json!({"userId": "telegram-42", "text": "What do you know of me?"});
    let answer = app.post("/v1/messages", OPS_KEY, &said).await;
    assert_eq!((answer.status, &answer.body["chatKey"]), (StatusCode::ACCEPTED, &json!(ours)));
    app.idle().await;
    let request = app.last_request();
    assert_eq!((system(&request), &request["model"]), ("You help.", &json!("test")));
    assert!(offered(&request).contains(&"schedule_create") && !offered(&request).contains(&"skills_load"));
    assert!(!request.to_string().contains("stamps"), "{request}");
    let reply = last_reply(&app, ours).await;
    assert_eq!((&reply["metadata"]["agent"], &reply["metadata"]["userId"]), (&Value::Null, &json!("annals")));
    assert_eq!(memories(&app, "userId=telegram-42").await, [""; 0]);
    assert_eq!(memories(&app, "userId=telegram-42&agent=support").await, ["Wants refunds in stamps."]);
    let nobody = app.call(Method::GET, "/v1/memory?userId=ada&agent=nobody", OPS_KEY).await;
    nobody.assert_problem(400, "bad-owner");
    app.handle(private(42, 2, "And now?")).await;
    assert!(app.last_request().to_string().contains("Wants refunds in stamps."));

    let context = app.get(&chat_path(theirs, "context")).await;
    assert!(context["system"].as_str().unwrap().starts_with(prompt), "{context}");
    assert_eq!(context["agent"], "support");
    // The chat's own settings come after the profile's.
    change(&app, theirs, json!({"model": "openai:test", "prompt": "Be brief."})).await;
    app.handle(private(42, 3, "And now?")).await;
    let request = app.last_request();
    assert_eq!(request["model"], "test");
    assert_eq!(system(&request), format!("{prompt}\n\nBe brief."));
    // `/memory` is about the agent that one speaks to, and its texts are in the profile's language alone in turns.
    app.handle(private(42, 4, "/memory")).await;
    assert!(app.last_sent().text.contains("Wants refunds in stamps."), "{}", app.last_sent().text);
    app.finish().await;
}

#[tokio::test]
async fn rules_by_channel_chat_person_and_key_choose_the_agent() {
    let folder = folder(&[
        ("ops/Agent.md", "You are ops."),
        ("vip/Agent.md", "You are vip."),
        ("shop/Agent.md", "You are shop."),
        ("tele/Agent.md", "You are tele."),
    ]);
    let rules = json!([
        {"agent": "vip", "person": "telegram-42"}, {"agent": "vip", "person": "cleo"},
        {"agent": "ops", "chat": "telegram:chat:-7"}, {"agent": "shop", "key": "shop"},
        {"agent": "tele", "channel": "telegram"},
    ]);
    let builder = TestApp::builder().telegram().model().set("SYSTEM_PROMPT", "You are annals.");
    let builder = builder.set("HTTP_API_KEYS", "app:app-secret,ops:ops-secret:admin,shop:shop-secret");
    let app = with(builder, &folder, &rules).start().await;
    let answered = |agent: &str| assert_eq!(system(&app.last_request()), format!("You are {agent}."));
    for (message, agent) in [
        (private(43, 1, "hello"), "tele"),
        (private(42, 2, "hello"), "vip"),
        (group(-7, 3, "@annals_test_bot hello").mention(), "ops"),
        (group(-8, 4, "@annals_test_bot hello").mention(), "tele"),
    ] {
        app.handle(message).await;
        answered(agent);
    }
    assert_eq!(last_reply(&app, "telegram:chat:-8").await["metadata"]["agent"], "tele");
    for (key, user, agent) in [("app-secret", "bo", "annals"), ("shop-secret", "bo", "shop")] {
        let said = json!({"userId": user, "text": "hello"});
        app.ask("c1", key, &said).await;
        app.idle().await;
        answered(agent);
        let direct = app.post("/v1/messages", key, &said).await;
        let name = if agent == "shop" { "shop" } else { "app" };
        assert_eq!(direct.body["chatKey"], format!("agent:{agent}:user:{name}/{user}"));
        app.idle().await;
        answered(agent);
    }
    // Who speaks in a conversation over HTTP, only its messages tell.
    app.ask("http:chat:ops:c2", OPS_KEY, &json!({"userId": "cleo", "text": "hello"})).await;
    app.idle().await;
    answered("vip");
    assert_eq!(app.get(&chat_path("http:chat:ops:c2", "context")).await["agent"], "vip");
    app.finish().await;
}

#[tokio::test]
async fn a_key_of_discord_names_the_agent_that_the_rules_choose() {
    let folder = folder(&[("helper/Agent.md", "You are the helper.")]);
    let builder =
        with(TestApp::builder().model(), &folder, &json!([{"agent": "helper", "channel": "discord"}]));
    let it = DiscordApp::beside(builder, &[("DISCORD_BOT_TOKEN", BOT_TOKEN)]).await;
    it.handle(&ask("hello", 1)).await;
    it.handle(&direct(ask("hello", 2))).await;
    let channel = "agent:helper:channel:290926798626357999:645027906669510667";
    for chat in [channel, "agent:helper:user:1033044521375764530"] {
        let history = it.app.history(chat).await;
        assert_eq!(history.len(), 2, "{chat}");
        assert_eq!(history[1]["metadata"]["agent"], "helper");
    }
    assert_eq!(system(&it.app.last_request()), "You are the helper.");
    it.app.finish().await;
}

#[tokio::test]
async fn in_lark_a_person_has_an_agent_in_their_p2p_chat_alone() {
    let folder = folder(&[("vip/Agent.md", "You are vip.")]);
    let rules = json!([{"agent": "vip", "person": "lark-ou_ada"}]);
    let (place, rules) = (folder.path().to_str().unwrap(), rules.to_string());
    let own = [("AGENTS_FOLDER", place), ("AGENTS", rules.as_str()), ("LARK_GROUP_CONTEXT", "0")];
    let it = LarkApp::with(&own).await;
    it.handle(&text("om_1", P2P, "hello", 0)).await;
    assert_eq!(system(&it.app.last_request()), "You are vip.");
    it.handle(&mentioning(text("om_2", GROUP, "@_user_1 hello", 1))).await;
    assert_eq!(last_reply(&it.app, &format!("lark:chat:{GROUP}")).await["metadata"]["agent"], Value::Null);
    it.app.finish().await;
}

#[tokio::test]
async fn a_profile_offers_the_servers_and_tools_that_it_names_and_bounds_their_rounds() {
    let folder =
        folder(&[("shop/Agent.md", "---\ntools: [shop/lookup]\nlimits: [rounds=1]\n---\nYou sell.")]);
    let rules = json!([{"agent": "shop", "channel": "telegram"}]);
    let (_shop, app) = shop_with(&json!({}), |app| with(app, &folder, &rules)).await;
    app.model().answer_tools(&[("shop_lookup", json!({"order": "A1"}))]);
    app.handle(private(42, 1, "Where is it?")).await;
    let requests = app.model().requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(offered(&requests[0]), ["shop_lookup"]);
    assert!(offered(&requests[1]).is_empty(), "after one round the next answer is text");
    app.finish().await;
}

/// The program and `doctor` name file and line.
#[test]
fn a_file_that_cannot_be_used_stops_the_program_with_its_line() {
    let run = |files: &[(&str, &str)], arguments: &[&str]| {
        let (agents, dir) = (folder(files), tempfile::tempdir().unwrap());
        let (folder, data) = (agents.path().to_str().unwrap(), dir.path().join("data"));
        let settings = [
            ("ANNALS_DATA_DIR", data.to_str().unwrap()),
            ("ANNALS_PORT", "0"),
            ("AGENTS", r#"[{"agent": "support", "channel": "telegram"}]"#),
            ("AGENTS_FOLDER", folder),
        ];
        let (status, printed, told) = piped(program(&settings, arguments), "");
        assert_ne!(status, 0);
        ((printed + &told).replace(folder, "agents"), data.exists())
    };
    let profile = |text| vec![("support/Agent.md", text)];
    for (files, told) in [
        (vec![], "Agent.md:1: the file is missing"),
        (profile("---\nmodle: x\n---\nHi"), "Agent.md:2: unknown key 'modle'"),
        (
            profile("---\nmodel: openai:x\n---\nHi"),
            "Agent.md:2: the model openai:x is not one of MODEL, MODEL_FALLBACK and MODELS",
        ),
        (
            profile("---\nmodel: echo\n---\nHi"),
            "Agent.md:2: the model echo only repeats messages: give one of MODEL",
        ),
    ] {
        for arguments in [&[][..], &["doctor"]] {
            let (printed, left) = run(&files, arguments);
            let told = format!("agents/support/{told}");
            assert!(printed.contains("AGENTS_FOLDER is unusable") && printed.contains(&told), "{printed}");
            assert!(!left, "a data directory");
        }
    }
    let (printed, _) = run(&profile("---\n\ntools: [shop]\n---\nHi"), &[]);
    assert!(printed.contains("agents/support/Agent.md:3: shop is neither"), "{printed}");
}

#[tokio::test]
async fn a_person_is_linked_forgotten_and_exported_with_every_agent() {
    let folder = folder(&[("support/Agent.md", "You answer questions about orders.")]);
    let builder = TestApp::builder().telegram().model().set("DM_SCOPE", "user");
    let app = with(builder, &folder, &json!([{"agent": "support", "channel": "telegram"}])).start().await;
    let remembered = |text: &str| [("memory_save", json!({"text": text, "type": "fact"}))];
    app.model().answer_tools(&remembered("Has a cat called Kettle."));
    app.handle(private(42, 1, "My cat is called Kettle")).await;
    app.model().answer_tools(&remembered("Has a dog called Teapot."));
    app.post("/v1/messages", OPS_KEY, &json!({"userId": "ada", "text": "My dog is called Teapot"})).await;
    app.idle().await;
    assert_eq!(memories(&app, "userId=telegram-42&agent=support").await, ["Has a cat called Kettle."]);

    link_telegram(&app, 10).await;
    app.idle_as_time_passes().await;
    // From now on both are one person, with each agent.
    telegram_says(&app, 42, 30, "Who am I?").await;
    let chat = "agent:support:user:ada";
    assert_eq!(last_reply(&app, chat).await["metadata"]["agent"], "support", "{:?}", app.lines(chat).await);
    assert_eq!(memories(&app, "userId=ada&agent=support").await, ["Has a cat called Kettle."]);
    assert_eq!(memories(&app, "userId=ada").await, ["Has a dog called Teapot."]);

    let export = app.export_of("/v1/people/ada/export", OPS_KEY).await;
    let export = Value::Array(export).to_string();
    assert!(export.contains("Kettle") && export.contains("Teapot"));
    let person = app.get("/v1/people/ada").await;
    let agents: Vec<&Value> =
        person["memories"].as_array().unwrap().iter().map(|entry| &entry["agent"]).collect();
    assert_eq!(agents, [&Value::Null, &json!("support")], "{person}");

    let erasing = app.call(Method::DELETE, "/v1/people/ada", OPS_KEY);
    let erased = app.as_time_passes(Box::pin(erasing)).await;
    assert_eq!((erased.status, &erased.body["removed"]["memories"]), (StatusCode::OK, &json!(2)));
    for item in scan(app.stores()).await {
        let text = format!("{item:?}");
        assert!(!text.contains("Kettle") && !text.contains("Teapot"), "{text}");
        // An emptied head keeps its fence, so that no write under an earlier one holds.
        let is_head = item["pk"].as_s().unwrap().starts_with("agent:");
        assert!(is_head || (!text.contains("user:ada") && !text.contains("telegram-42")), "{text}");
    }
    app.finish().await;
}

#[tokio::test]
async fn a_person_s_time_zone_is_that_of_all_agents() {
    let folder = folder(&[("support/Agent.md", "You answer questions about orders.")]);
    let rules = json!([{"agent": "support", "chat": "http:chat:app:c2"}]);
    let app = with(TestApp::builder().model(), &folder, &rules).start().await;
    app.say("c1", &json!({"userId": "ada", "text": "/timezone Asia/Tokyo"})).await;
    app.say("c2", &json!({"userId": "ada", "text": "What time is it?"})).await;
    assert!(system(&app.last_request()).contains("about orders"));
    let now = times_of(&app.last_request()).pop().unwrap();
    assert!(now.contains("Asia/Tokyo"), "{now}");
    app.finish().await;
}

#[tokio::test]
async fn a_chat_is_forgotten_with_the_memory_of_an_agent_that_no_rule_names_any_more() {
    let folder = folder(&[("support/Agent.md", "You answer questions about orders.")]);
    let builder = TestApp::builder().telegram().model().set("DM_SCOPE", "user");
    let app = with(builder, &folder, &json!([{"agent": "support", "channel": "telegram"}])).start().await;
    app.model().answer_tools(&[("memory_save", json!({"text": "Has a cat called Kettle.", "type": "fact"}))]);
    app.handle(private(42, 1, "My cat is called Kettle")).await;
    let history = app.open_history();
    let erasing = async {
        let person = Person::of(&People::beside(&history), "telegram-42").await.unwrap();
        person.erase(&history, &Agents::only("annals".into()), Timestamp::MAX, &mut Vec::new()).await
    };
    let removed = app.as_time_passes(Box::pin(erasing)).await.unwrap();
    assert_eq!((removed.chats, removed.memories), (1, 1));
    let items = scan(app.stores()).await;
    assert!(!format!("{items:?}").contains("Kettle"), "{items:?}");
    app.finish().await;
}

#[test]
fn the_guides_example_is_a_profile() {
    const GUIDE: &str = include_str!("../../docs/guide.md");
    let (_, section) = GUIDE.split_once("## Several agents").unwrap();
    let file = |name: &str| {
        let (_, rest) = section.split_once(&format!("`{name}`:\n\n```markdown\n")).unwrap();
        rest.split_once("\n```").unwrap().0.to_owned()
    };
    let files = [
        ("Agent.md", "agents/support/Agent.md"),
        ("skills/refunds/SKILL.md", "agents/support/skills/refunds/SKILL.md"),
    ];
    let files = files.map(|(path, name)| (path.to_owned(), file(name))).into();
    let profile = annals_core::agents::Profile::parse("agents", "support", &files).unwrap();
    assert_eq!(profile.skills.len(), 1);
}
