//! Outside tools over MCP: listed, called, cut, and their failures as results.

use std::time::Duration;

use annals_test_support::mcp_server::{McpServer, TOKEN};
use annals_test_support::model_api::{ModelApi, notes_of, texts_of};
use serde_json::{Value, json};

use crate::app::{Builder, NOW, TestApp, text_of, wait_until};
use crate::updates::private;

const CHAT: &str = "telegram:chat:42";
/// The tools that a direct chat offers without a server.
pub(crate) const OWN_TOOLS: [&str; 6] =
    ["memory_search", "memory_save", "memory_forget", "schedule_create", "schedule_list", "schedule_cancel"];

pub(crate) fn with_shop(shop: &McpServer, fields: &Value) -> Builder {
    TestApp::builder().telegram().model().set("TOOLS", &shop.tools(fields)).set("SHOP_TOKEN", TOKEN)
}

/// Starts a shop and a program whose model may call its tools.
pub(crate) async fn start_with_shop(fields: &Value) -> (McpServer, TestApp) {
    shop_with(fields, |app| app).await
}

/// Starts them, with what `more` adds to the program's setup.
pub(crate) async fn shop_with(fields: &Value, more: impl FnOnce(Builder) -> Builder) -> (McpServer, TestApp) {
    let shop = McpServer::start().await;
    let app = more(with_shop(&shop, fields)).start().await;
    (shop, app)
}

pub(crate) fn offered(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array();
    tools.into_iter().flatten().map(|tool| tool["function"]["name"].as_str().unwrap()).collect()
}

/// `(state, output or errorText)` of each call of the newest reply.
pub(crate) async fn results(app: &TestApp, chat: &str) -> Vec<(String, Value)> {
    let history = app.history(chat).await;
    let parts = history.last().unwrap()["parts"].as_array().unwrap().clone();
    let calls = parts.iter().filter(|part| part["toolCallId"].is_string());
    let result = |part: &Value| {
        let said = if part["output"].is_null() { &part["errorText"] } else { &part["output"] };
        (part["state"].as_str().unwrap().to_owned(), said.clone())
    };
    calls.map(result).collect()
}

#[tokio::test]
async fn tools_are_listed_once_and_every_outcome_of_a_call_is_a_result() {
    let (shop, app) = start_with_shop(&json!({"tools": {"long": {"enabled": false}}})).await;
    assert_eq!((shop.sessions(), shop.lists()), (0, 0), "nothing is done at start");
    app.model().answer_tools(&[
        ("shop_lookup", json!({"order": "A1"})),
        ("shop_fail", json!({})),
        ("shop_picture", json!({})),
        ("shop_old", json!({})),
        ("shop_lookup", json!({"order": 7})),
    ]);
    app.ada_says(1, "Where is my order?").await;
    let request = &app.model().requests()[0];
    let shops = ["shop_lookup", "shop_refund", "shop_fail", "shop_slow", "shop_picture", "shop_old"];
    assert_eq!(offered(request), [&OWN_TOOLS[..], &shops].concat(), "every page of the list, in its order");
    let told = results(&app, CHAT).await;
    let (done, failed) = ("output-available".to_owned(), "output-error".to_owned());
    assert_eq!(told[0], (done.clone(), json!({"order": "A1", "total": 12.5})));
    assert_eq!(told[1], (failed.clone(), json!("the till is broken")));
    let picture = "[an image (image/png) of 8 bytes, which cannot be shown here]\n[a link to plan, https://shop.example/plan]";
    assert_eq!(told[2], (done, json!(picture)));
    assert_eq!(told[3], (failed.clone(), json!("the tool refused the call: Unknown tool: old")));
    assert_eq!(told[4], (failed, json!("\"order\" of the input must be string")));
    let seen = texts_of(&app.model().requests()[1], "tool");
    assert_eq!(seen[1], r#"{"error":"the till is broken"}"#);
    assert_eq!(seen.len(), 5);
    let names: Vec<String> = shop.carried_out().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 4, "what the schema forbids is not sent: {names:?}");
    assert_eq!(shop.sessions(), 2, "one for the list, one for the calls of the turn");

    app.ada_says(2, "Thank you.").await;
    assert_eq!((shop.sessions(), shop.lists()), (2, 1), "a turn that calls nothing asks nobody");
    assert_eq!(app.model().requests().last().unwrap()["tools"], request["tools"], "and offers the same");
    assert_eq!(shop.refusals(), [""; 0]);
    app.export(CHAT, "outside-tools").await;
    app.finish().await;
}

/// A tool that one provider refuses would fail every turn of every chat.
#[tokio::test]
async fn a_tool_whose_schema_or_description_a_provider_refuses_is_offered_as_it_takes_it() {
    let text = json!({"type": "string"});
    let by_id = json!({"type": "object", "properties": {"id": text}, "required": ["id"]});
    let by_name = json!({"$ref": "#/$defs/named"});
    let named = json!({"type": "object", "properties": {"name": text}, "required": ["name"]});
    let schema = json!({"type": "object", "anyOf": [by_id, by_name], "not": {"required": ["id", "name"]},
        "$defs": {"named": named}});
    for model in ModelApi::models() {
        let shop = McpServer::start().await;
        shop.offer(json!({"name": "attach", "description": "", "inputSchema": schema}));
        let app = with_shop(&shop, &json!({})).model_of(model).start().await;
        app.model().answer_tools(&[("shop_attach", json!({"name": "plan"}))]);
        app.ada_says(1, "Attach the plan.").await;
        assert_eq!(results(&app, CHAT).await, [("output-available".to_owned(), json!("done"))], "{model}");
        assert_eq!(shop.carried_out(), [("attach".to_owned(), json!({"name": "plan"}))]);
        let request = &app.model().requests()[0];
        let tools = request["tools"].as_array().unwrap();
        let offered = tools.iter().find(|tool| tool["function"]["name"] == "shop_attach").unwrap();
        let properties = json!({"id": text, "name": text});
        assert_eq!(offered["function"]["parameters"]["properties"], properties, "{model}");
        assert_eq!(offered["function"]["description"], "attach");
        app.finish().await;
    }
}

/// A model that calls a limited number of times and fails whenever it gets a result.
async fn failing_behind_a_call(status: u16, calls: usize) -> (McpServer, TestApp) {
    let (shop, app) = start_with_shop(&json!({})).await;
    for _ in 0..calls {
        app.model().answer_tools(&[("shop_lookup", json!({"order": "A1"}))]);
    }
    app.model().edit(|stored| stored.failing_with_results = Some(status));
    app.receive(private(42, 1, "Where is my order?")).await;
    (shop, app)
}

const UNFINISHED: &str =
    "Sorry, I could not finish this: the model is not available at the moment. Please ask again later.";

#[tokio::test]
async fn a_call_is_not_repeated_if_the_model_fails_afterwards() {
    for status in [500, 400] {
        let (shop, app) = failing_behind_a_call(status, 3).await;
        app.idle_as_time_passes().await;
        assert_eq!(shop.carried_out().len(), 1, "{status}");
        assert_eq!(app.model().count(), 1 + 9, "one that calls, then as many tries as in three deliveries");
        assert!(app.clock().now().as_millis() < (NOW + 60) * 1000, "{}", app.clock().now());
        let history = app.history(CHAT).await;
        let [_, reply] = &history[..] else { panic!("{history:#?}") };
        assert_eq!((&reply["id"], &reply["metadata"]["kind"]), (&json!("1/reply"), &json!("normal")));
        assert_eq!(results(&app, CHAT).await[0].0, "output-available");
        assert_eq!(text_of(reply), UNFINISHED);
        assert_eq!(app.sent_texts(), [UNFINISHED]);
        app.export(CHAT, &format!("unfinished-{status}")).await;
        // A redelivery finds it answered, and the next turn knows what was done.
        app.receive(private(42, 1, "Where is my order?")).await;
        app.model().recover();
        app.ada_says(2, "And now?").await;
        let seen = texts_of(&app.model().requests()[10], "tool");
        assert_eq!(seen, [r#"{"order":"A1","total":12.5}"#]);
        app.finish().await;
    }
}

#[tokio::test]
async fn a_model_that_recovers_after_a_call_continues_with_its_result() {
    let (shop, app) = failing_behind_a_call(503, 1).await;
    app.as_time_passes(app.model().wait_for(6)).await;
    app.model().recover();
    app.idle_as_time_passes().await;
    assert_eq!(shop.carried_out().len(), 1);
    assert_eq!(texts_of(&app.last_request(), "tool").len(), 1);
    assert_eq!(app.sent_texts(), ["You said: Where is my order?"]);
    app.finish().await;
}

/// A model that says nothing for as long as a run has.
#[tokio::test]
async fn a_call_is_kept_if_the_model_takes_too_long_afterwards() {
    let (shop, app) = start_with_shop(&json!({})).await;
    app.model().answer_tools(&[("shop_slow", json!({}))]);
    app.receive(private(42, 1, "Go.")).await;
    wait_until("the call is under way", async || shop.carried_out().len() == 1).await;
    app.model().hang();
    shop.release();
    app.model().wait_for(2).await;
    app.idle_as_hours_pass().await;
    assert_eq!(shop.carried_out().len(), 1);
    assert_eq!(results(&app, CHAT).await, [("output-available".to_owned(), json!("at last"))]);
    assert_eq!(app.last_sent().text, UNFINISHED);
    app.model().resume();
    app.finish().await;
}

#[tokio::test]
async fn a_result_is_cut_to_its_bound_and_kept_so() {
    let (_shop, app) = start_with_shop(&json!({})).await;
    app.model().answer_tools(&[("shop_long", json!({}))]);
    app.ada_says(1, "Tell me.").await;
    let told = results(&app, CHAT).await;
    let text = told[0].1.as_str().unwrap();
    assert!(text.starts_with("BEGIN") && text.ends_with("END") && text.contains("characters are left out"));
    assert!(annals_core::tokens::of_text(text) <= 4_000, "{}", text.len());
    assert_eq!(texts_of(&app.model().requests()[1], "tool"), [text], "the model sees what is kept");
    app.finish().await;
}

/// Without a new connection, the server of a lost one would be asked in vain for the rest of the turn.
#[tokio::test]
async fn a_tool_that_takes_too_long_is_given_up_and_the_turn_goes_on_with_another_connection() {
    let (shop, app) = start_with_shop(&json!({"timeoutSecs": 2})).await;
    app.model().answer_tools(&[("shop_slow", json!({})), ("shop_lookup", json!({"order": "A1"}))]);
    app.model().answer_tools(&[("shop_lookup", json!({"order": "A1"}))]);
    app.handle_as_time_passes(private(42, 1, "Go.")).await;
    let told = results(&app, CHAT).await;
    let late = "there was no answer within 2 seconds. Whether the call was carried out is not known.";
    assert_eq!(told[0], ("output-error".into(), json!(late)));
    assert_eq!([&told[1].0, &told[2].0], ["output-available"; 2]);
    assert_eq!(app.last_sent().text, "You said: Go.");
    assert_eq!(shop.sessions(), 3, "one for the list, one for each round of calls");
    assert_eq!(shop.refusals(), [""; 0]);
    app.finish().await;
}

/// The official reference server refuses a session that it has lost with an error without an id.
#[tokio::test]
async fn a_lost_session_fails_one_call_and_the_next_call_opens_another() {
    let (shop, app) = start_with_shop(&json!({})).await;
    shop.edit(|stored| stored.loses_after = Some(1));
    for _ in 0..3 {
        app.model().answer_tools(&[("shop_lookup", json!({"order": "A1"}))]);
    }
    // No time passes, so nothing waits for a timeout.
    app.ada_says(1, "Where is my order?").await;
    let told = results(&app, CHAT).await;
    let found = ("output-available".to_owned(), json!({"order": "A1", "total": 12.5}));
    let refused = "the tool refused the call: Bad Request: No valid session ID provided";
    assert_eq!(told, [found.clone(), ("output-error".into(), json!(refused)), found]);
    assert_eq!((shop.carried_out().len(), shop.sessions()), (2, 3));
    app.finish().await;
}

#[tokio::test]
async fn a_tool_that_a_server_adds_during_a_turn_is_offered_by_the_next_request_of_that_turn() {
    let (shop, app) = start_with_shop(&json!({})).await;
    let schema = json!({"type": "object", "properties": {}});
    let track = json!({"name": "track", "description": "Tracks.", "inputSchema": schema});
    shop.edit(|stored| stored.adds = Some(("lookup".into(), track)));
    app.model().answer_tools(&[("shop_lookup", json!({"order": "A1"}))]);
    app.model().answer_tools(&[("shop_track", json!({}))]);
    app.ada_says(1, "Where is my order?").await;
    let requests = app.model().requests();
    assert!(!offered(&requests[0]).contains(&"shop_track"));
    let before = offered(&requests[0]).len();
    assert_eq!(offered(&requests[1])[before..], ["shop_track"], "the others stay in their order");
    assert_eq!(results(&app, CHAT).await[1], ("output-available".into(), json!("done")));
    assert_eq!((shop.sessions(), shop.lists()), (2, 2), "listed again by the connection of the turn");
    app.ada_says(2, "Thanks.").await;
    assert!(offered(&app.last_request()).contains(&"shop_track"));
    assert_eq!(shop.lists(), 3, "and by the next turn");
    app.finish().await;
}

/// A server's headers hold secrets, which a redirect would carry to whomever it names.
#[tokio::test]
async fn a_redirect_of_a_server_is_not_followed() {
    let (shop, thief) = (McpServer::start().await, McpServer::start().await);
    shop.edit(|stored| stored.moved_to = Some(thief.url()));
    let app = with_shop(&shop, &json!({})).start().await;
    app.ada_says(1, "Where is A1?").await;
    assert_eq!((thief.sessions(), thief.lists(), thief.refusals()), (0, 0, Vec::new()));
    assert_eq!(app.history(CHAT).await.len(), 2, "answered without its tools");
    app.finish().await;
}

/// `approval: destructive` relies on the server's hints about its tools. A compromised server could change them.
#[tokio::test]
async fn a_server_cannot_declare_a_destructive_tool_harmless() {
    let (shop, mut app) = start_with_shop(&json!({"approval": "destructive"})).await;
    let refund = ("shop_refund", json!({"order": "A1"}));
    app.model().answer_tools(&[("shop_lookup", json!({"order": "A1"})), refund.clone()]);
    app.ada_says(1, "Pay A1 back.").await;
    let carried_out = || shop.carried_out().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(carried_out(), ["lookup"], "what reads needs no word, what pays does");

    // In the same process once its list is asked for anew, and in one that has forgotten all.
    let harmless = json!({"readOnlyHint": true, "destructiveHint": false});
    shop.edit(|stored| stored.hints.push(("refund".into(), harmless)));
    for id in [2, 3] {
        app.clock().advance(Duration::from_mins(6));
        app.model().answer_tools(std::slice::from_ref(&refund));
        app.ada_says(id, "Now?").await;
        assert_eq!(carried_out(), ["lookup"]);
        let asked = app.last_sent().text;
        assert!(asked.contains("May I call shop_refund"), "{asked}");
        app.restart().await;
    }
    // What it calls destructive only now, asks from now on.
    shop.edit(|stored| stored.hints.push(("lookup".into(), json!({"destructiveHint": true}))));
    app.clock().advance(Duration::from_mins(6));
    app.model().answer_tools(&[("shop_lookup", json!({"order": "A1"}))]);
    app.ada_says(4, "And now?").await;
    assert_eq!(carried_out(), ["lookup"]);
    app.finish().await;

    // The operator's word goes before.
    let fields = json!({"approval": "destructive", "tools": {"refund": {"approval": false}}});
    let app = with_shop(&shop, &fields).start().await;
    app.model().answer_tools(&[refund]);
    app.ada_says(1, "Pay A1 back.").await;
    assert_eq!(carried_out(), ["lookup", "refund"]);
    app.finish().await;
}

#[tokio::test]
async fn a_server_that_is_down_is_left_out_and_comes_back() {
    let (shop, app) = start_with_shop(&json!({})).await;
    shop.edit(|stored| stored.is_down = true);
    app.ada_says(1, "Hello.").await;
    let request = app.last_request();
    assert_eq!(offered(&request), OWN_TOOLS);
    assert_eq!(notes_of(&request), "At the moment the tools of shop cannot be reached.");
    assert!(texts_of(&request, "system").is_empty(), "what a request starts with stays the same");
    shop.edit(|stored| stored.is_down = false);
    app.ada_says(2, "And now?").await;
    assert_eq!(shop.lists(), 0, "for a while it is not asked again");
    app.clock().advance(Duration::from_secs(31));
    app.ada_says(3, "And now?").await;
    let request = app.last_request();
    assert!(offered(&request).contains(&"shop_lookup") && notes_of(&request).is_empty(), "{request}");
    // It goes down again: what is known of it stays, and a call says what is wrong.
    shop.edit(|stored| stored.is_down = true);
    app.clock().advance(Duration::from_secs(301));
    app.model().answer_tools(&[("shop_lookup", json!({"order": "A1"}))]);
    app.ada_says(4, "And now?").await;
    let told = results(&app, CHAT).await;
    let wanted = "the tool cannot be reached at the moment; nothing was carried out";
    assert_eq!(told[0], ("output-error".into(), json!(wanted)));
    app.finish().await;
}

#[tokio::test]
async fn a_call_to_a_server_whose_token_has_expired_was_refused() {
    let (shop, app) = start_with_shop(&json!({})).await;
    app.ada_says(1, "Hello.").await;
    shop.edit(|stored| stored.has_expired = true);
    app.model().answer_tools(&[("shop_lookup", json!({"order": "A1"}))]);
    app.ada_says(2, "Where is A1?").await;
    let refused = "the tool refused the call; nothing was carried out";
    assert_eq!(results(&app, CHAT).await, [("output-error".to_owned(), json!(refused))]);
    app.finish().await;
}
