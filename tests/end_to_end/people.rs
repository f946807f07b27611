//! One person, one chat: links between the channels of a person, by `/link`, by an operator and by a change of
//! `DM_SCOPE`.

use annals_channel::channel::Example;
use annals_core::chat_key::ChatKey;
use annals_core::record::Channel;
use annals_core::settings::Env;
use annals_runtime::channels;
use annals_test_support::discord_api::BOT_TOKEN;
use annals_test_support::model_api::is_for_summary;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::app::{APP_KEY, Answer, Builder, NOW, OPS_KEY, TestApp};
use crate::discord::{self, DM, DiscordApp, ask, command, direct};
use crate::lark::{P2P, receive_plain, text};
use crate::memory::{call, remember, texts, user};
use crate::terminal::{annals, beside, piped};
use crate::turns::assert_has;
use crate::updates::{Update, group, private};

const ADA: &str = "agent:annals:user:ada";
const TELEGRAM: &str = "agent:annals:user:telegram-42";
const LARK: &str = "agent:annals:user:lark-ou_ada";
const LINKED: &str = "Linked: here and there you now have one conversation";
const WRONG: &str = "This code is wrong, was used, or is too old.";

pub(crate) fn by_person() -> Builder {
    TestApp::builder().telegram().model().set("DM_SCOPE", "user")
}

/// Says `text` over HTTP as the admin key's user; returns the reply.
pub(crate) async fn http(app: &TestApp, user_id: &str, text: &str) -> String {
    let body = json!({"userId": user_id, "text": text});
    let said = app.post("/v1/messages?wait=20", OPS_KEY, &body);
    let answer = app.as_time_passes(Box::pin(said)).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    answer.reply_text()
}

/// A Telegram message of `user`, so many seconds after the program's start.
pub(crate) fn telegram(user: i64, seconds: i64, text: &str) -> Update {
    let update = private(user, 1000 + seconds, text).at(60 + seconds);
    if text.starts_with('/') { update.command() } else { update }
}

/// Says `text` in Telegram so many seconds after the program's start; returns what Telegram was sent last.
pub(crate) async fn telegram_says(app: &TestApp, user: i64, seconds: i64, text: &str) -> String {
    app.advance_to((NOW + seconds) * 1000);
    app.handle(telegram(user, seconds, text)).await;
    app.last_sent().text
}

/// Says `text` in Lark; returns the last reply in the outbox.
async fn lark_says(app: &TestApp, seconds: i64, words: &str) -> String {
    app.advance_to((NOW + seconds) * 1000);
    receive_plain(app, text(&format!("om_{seconds}"), P2P, words, seconds)).await;
    app.idle().await;
    let outbox = app.get_outbox().await;
    text_in(outbox.last().unwrap())
}

fn text_in(entry: &Value) -> String {
    entry["text"].as_str().unwrap().to_owned()
}

/// The messages are the calls that the program prints at its start, with development secrets and the outbox.
#[tokio::test]
async fn the_private_chat_of_each_platform_is_as_the_scope_says() {
    let hello = json!("hello");
    for scope in ["chat", "user"] {
        let app = TestApp::builder().set("DM_SCOPE", scope).start().await;
        for entry in channels::local() {
            let unset = (entry.from_env)(Env::new(&|_| None)).unwrap();
            let Example { headers, body } = unset.example(None, NOW).unwrap();
            let request = app.request(Method::POST, &entry.about.path()).body(body.to_string());
            let headers = headers.into_iter();
            let request = headers.fold(request, |request, (name, value)| request.header(name, value));
            let answer = Answer::of(request).await;
            assert!(answer.status.is_success(), "{answer:?}");
            app.idle().await;
        }
        let list = app.get("/v1/chats").await;
        let mut spoken = Vec::new();
        for chat in list["chats"].as_array().unwrap() {
            let key = chat["chatKey"].as_str().unwrap();
            let history = app.history(key).await;
            let [said, _] = &history[..] else { panic!("{history:#?}") };
            let text = |name: &str| said["metadata"][name].as_str().unwrap();
            let channel: Channel = text("channel").parse().unwrap();
            let window = ChatKey::private_window(channel, text("chatId")).filter(|_| scope == "chat");
            let direct = ChatKey::direct("annals", &channel.identity(text("userId"))).unwrap();
            assert_eq!(key, window.unwrap_or(direct).to_string());
            spoken.push(channel);
        }
        spoken.sort_unstable();
        assert_eq!(spoken, Channel::platforms().collect::<Vec<_>>());
        let outbox = app.get("/local/outbox").await;
        let sent = outbox.as_array().unwrap().iter();
        let sent: Vec<_> = sent.map(|sent| (sent["channel"].as_str().unwrap(), &sent["text"])).collect();
        let wanted = channels::local().into_iter().map(|entry| (entry.about.channel.as_str(), &hello));
        assert_eq!(sent, wanted.collect::<Vec<_>>());
        app.finish().await;
    }
}

/// Returns what the model of a test makes of a request for a summary: the names in it.
pub(crate) fn summed_up(request: &Value) -> String {
    let said = request.to_string();
    let facts = ["My name is Ada", "My dog is Rex", "My cat is Tom"];
    facts.into_iter().filter(|fact| said.contains(fact)).collect::<Vec<_>>().join(", ")
}

pub(crate) fn code_in(told: &str) -> String {
    let (_, rest) = told.split_once("say /link ").unwrap_or_else(|| panic!("no code: {told}"));
    rest.split_once(' ').unwrap().0.to_owned()
}

/// Links Telegram's user 42 to `ada` of HTTP, from so many seconds after the start on.
pub(crate) async fn link_telegram(app: &TestApp, seconds: i64) {
    app.advance_to((NOW + seconds) * 1000);
    let code = code_in(&http(app, "ada", "/link").await);
    let whose = telegram_says(app, 42, seconds + 1, &format!("/link {code}")).await;
    assert!(whose.contains("the code of ada on the HTTP API."), "{whose}");
    let agreed = telegram_says(app, 42, seconds + 2, "/link yes").await;
    assert!(agreed.contains("as ada on the HTTP API"), "{agreed}");
    let asked = http(app, "ada", "/link").await;
    assert!(asked.contains("by telegram-42 on Telegram, called “Ada” there"), "{asked}");
    let linked = http(app, "ada", "/link yes").await;
    assert!(linked.starts_with(LINKED), "{linked}");
    app.idle_as_time_passes().await;
}

#[tokio::test]
async fn every_direct_message_has_the_key_of_its_person() {
    let it = DiscordApp::beside(TestApp::builder().telegram().set("DM_SCOPE", "user"), &[]).await;
    let app = &it.app;
    assert_eq!(telegram_says(app, 42, 1, "t").await, "t");
    assert_eq!(lark_says(app, 2, "l").await, "l");
    it.handle(&direct(ask("d", 3))).await;
    assert_eq!(it.discord.sent().pop().unwrap().content, "d");
    assert_eq!(http(app, "ada", "h").await, "h");
    let (odd, longest) = ("a:b%c/ü 喝", ":".repeat(512));
    assert_eq!(http(app, odd, "odd").await, "odd");
    assert_eq!(http(app, &longest, "long").await, "long");
    let dir = app.data_dir().to_owned();
    let said = beside(move || piped(annals(&dir, &["chat", "--user", "ada", "c"]), ""));
    assert_eq!(app.as_time_passes(said).await.1, "c\n");
    let room = |scope: &str| {
        let said =
            json!({"id": format!("m-{scope}"), "role": "user", "parts": [{"type": "text", "text": scope}]});
        json!({"id": "r1", "messages": [said], "userId": "ada", "scope": scope})
    };
    for scope in ["user", "room"] {
        let streamed = app.request(Method::POST, "/api/chat").bearer_auth(OPS_KEY).json(&room(scope));
        let streamed =
            app.as_time_passes(async { streamed.send().await.unwrap().text().await.unwrap() }).await;
        assert!(streamed.contains(&format!("\"delta\":\"{scope}\"")), "{streamed}");
    }
    app.post("/v1/messages", APP_KEY, &json!({"userId": "ada", "text": "app"})).await;
    app.idle().await;
    for (key, said) in [
        (TELEGRAM, &[("telegram", "42", "42", "t")][..]),
        (LARK, &[("lark", P2P, "ou_ada", "l")]),
        (ADA, &[("http", "ada", "ada", "h"), ("terminal", "ada", "ada", "c"), ("web", "ada", "ada", "user")]),
        (&format!("agent:annals:user:{}", discord::ADA), &[("discord", DM, discord::ADA, "d")]),
        ("agent:annals:user:a%3Ab%25c/ü 喝", &[("http", odd, odd, "odd")]),
        (&format!("agent:annals:user:{}", "%3A".repeat(512)), &[("http", &longest, &longest, "long")]),
        ("web:room:ops:r1", &[("web", "r1", "ada", "room")]),
        ("agent:annals:user:app/ada", &[("http", "app/ada", "ada", "app")]),
    ] {
        let history = app.history(key).await;
        let found: Vec<_> = history
            .iter()
            .filter(|message| message["role"] == "user")
            .map(|message| {
                let field = |name: &str| message["metadata"][name].as_str().unwrap();
                let text = message["parts"][0]["text"].as_str().unwrap();
                (field("channel"), field("chatId"), field("userId"), text)
            })
            .collect();
        assert_eq!(found, said, "{key}");
        // The agent answered in that chat, to the window of the message.
        let replies = history.iter().filter(|message| message["role"] == "assistant");
        let windows: Vec<&Value> = replies.map(|reply| &reply["metadata"]["chatId"]).collect();
        assert_eq!(windows, said.iter().map(|said| said.1).collect::<Vec<_>>(), "{key}");
    }
    for user_id in ["", "a\u{7}", &"x".repeat(513)] {
        let answer = app.post("/v1/messages", OPS_KEY, &json!({"userId": user_id, "text": "x"})).await;
        answer.assert_problem(400, "bad-user");
        let said = json!({"id": "m1", "role": "user", "parts": [{"type": "text", "text": "x"}]});
        let body = json!({"id": "r2", "messages": [said], "userId": user_id, "scope": "user"});
        app.post("/api/chat", OPS_KEY, &body).await.assert_problem(400, "bad-user");
    }
    it.app.finish().await;
}

#[tokio::test]
async fn a_name_told_in_the_terminal_is_known_in_every_channel_and_to_nobody_else() {
    let it = DiscordApp::beside(by_person(), &[("DISCORD_BOT_TOKEN", BOT_TOKEN)]).await;
    let app = &it.app;
    app.model()
        .answer_by(|request| is_for_summary(request).then(|| format!("Facts: {}", summed_up(request))));
    telegram_says(app, 42, 1, "My dog is Rex").await;
    lark_says(app, 2, "My cat is Tom").await;
    let dir = app.data_dir().to_owned();
    let said = beside(move || piped(annals(&dir, &["chat", "--user", "ada", "My name is Ada"]), ""));
    assert_eq!(app.as_time_passes(said).await.1, "You said: My name is Ada\n");
    link_telegram(app, 100).await;
    // Lark is the second side of another exchange.
    let code = code_in(&telegram_says(app, 42, 200, "/link").await);
    let whose = lark_says(app, 201, &format!("/link {}", code.to_lowercase())).await;
    assert_has(&whose, &["telegram-42 on Telegram"]);
    lark_says(app, 202, "/link yes").await;
    assert!(telegram_says(app, 42, 203, "/link").await.contains("by lark-ou_ada on Lark"));
    assert!(telegram_says(app, 42, 204, "/link yes").await.starts_with(LINKED));
    app.idle().await;
    // As does Discord, where the answers are shown to the sender only.
    let link = |word: &str, seconds: i64| {
        app.advance_to((NOW + seconds) * 1000);
        direct(command("link", &json!([{"name": "code", "type": 3, "value": word}]), seconds))
    };
    let code = code_in(&http(app, "ada", "/link").await);
    let whose = it.handle(&link(&code, 210)).await;
    assert_eq!(whose["data"]["flags"], 68);
    assert_has(whose["data"]["content"].as_str().unwrap(), &["the code of ada on the HTTP API."]);
    it.handle(&link("yes", 211)).await;
    let asked = http(app, "ada", "/link").await;
    assert!(asked.contains(&format!("by {} on Discord, called “Ada” there", discord::ADA)), "{asked}");
    assert!(http(app, "ada", "/link yes").await.starts_with(LINKED));
    app.idle_as_time_passes().await;

    let knows = |request: &Value, wanted: bool| {
        let said = request["messages"].to_string();
        for name in ["My name is Ada", "My dog is Rex", "My cat is Tom"] {
            assert_eq!(said.contains(name), wanted, "{name}: {said}");
        }
    };
    let (sent, outbox) = (app.telegram_api().sent().len(), app.get_outbox().await.len());
    telegram_says(app, 42, 300, "What is my name?").await;
    knows(&app.last_request(), true);
    assert_eq!((app.telegram_api().sent().len(), app.get_outbox().await.len()), (sent + 1, outbox));
    lark_says(app, 301, "And here?").await;
    knows(&app.last_request(), true);
    assert_eq!((app.telegram_api().sent().len(), app.get_outbox().await.len()), (sent + 1, outbox + 1));
    let question = json!({"id": "m1", "role": "user", "parts": [{"type": "text", "text": "And there?"}]});
    let body = json!({"id": "r1", "messages": [question], "userId": "ada", "scope": "user"});
    let asked = app.request(Method::POST, "/api/chat").bearer_auth(OPS_KEY).json(&body);
    app.as_time_passes(async { asked.send().await.unwrap().text().await.unwrap() }).await;
    knows(&app.last_request(), true);
    app.advance_to((NOW + 305) * 1000);
    it.handle(&direct(ask("And on Discord?", 305))).await;
    knows(&app.last_request(), true);
    let answered = it.discord.sent().pop().unwrap();
    assert_eq!((answered.content.as_str(), answered.is_original), ("You said: And on Discord?", true));
    // Two channels at once: each is answered in its own.
    app.model().hang();
    app.receive(telegram(42, 310, "From Telegram")).await;
    app.model().wait_for(app.model().count()).await;
    receive_plain(app, text("om_310", P2P, "From Lark", 310)).await;
    app.model().resume();
    app.idle().await;
    assert_eq!(app.last_sent().text, "You said: From Telegram");
    assert!(text_in(app.get_outbox().await.last().unwrap()).contains("From Lark"));

    // One person: nobody is named to the model.
    assert!(!app.model().requests().iter().any(|request| request.to_string().contains("<message from")));
    // Others are told nothing, whatever they are called, and neither is Ada in a server.
    telegram_says(app, 43, 320, "What is my name?").await;
    knows(&app.last_request(), false);
    http(app, "bo", "What is my name?").await;
    knows(&app.last_request(), false);
    app.advance_to((NOW + 330) * 1000);
    let mut other = direct(ask("And mine?", 330));
    other["user"]["id"] = json!("1033044521375764531");
    for call in [other, ask("And here?", 331)] {
        it.handle(&call).await;
        knows(&app.last_request(), false);
    }
    let refused = it.handle(&command("link", &json!([]), 332)).await;
    assert_eq!(refused["data"]["content"], "This works in a direct chat with me only.");
    // Both histories stay where they are.
    assert!(app.lines(TELEGRAM).await.contains(&"1001 user: My dog is Rex".to_owned()));
    assert!(app.lines(LARK).await.contains(&"om_2 user: My cat is Tom".to_owned()));
    it.app.finish().await;
}

/// A code lets nobody in who is not confirmed by the person that it was given to.
#[tokio::test]
async fn guessed_overheard_replayed_and_old_codes_let_nobody_in() {
    let app = by_person().start().await;
    let code = code_in(&http(&app, "ada", "/link").await);
    // Guesses, of which five are allowed in an hour; then not even the code itself.
    for seconds in 1..=5 {
        let told = telegram_says(&app, 666, seconds, &format!("/link AAAAA-0000{seconds}")).await;
        assert!(told.starts_with(WRONG), "{told}");
    }
    // A guess that is delivered again counts once.
    app.handle(telegram(666, 5, "/link AAAAA-00005")).await;
    for (seconds, code) in [(6, "AAAAA-00006"), (7, code.as_str())] {
        let told = telegram_says(&app, 666, seconds, &format!("/link {code}")).await;
        assert_eq!(told, "Too many wrong codes. Try again in an hour.");
    }
    // Somebody who overhears it is first to enter it: Ada sees who it is, and her own channel gets no second chance.
    let eve = telegram(667, 10, &format!("/link {code}"));
    let eve = eve.with("from", json!({"id": 667, "is_bot": false, "first_name": "telegram-42 (Ada)"}));
    app.advance_to((NOW + 10) * 1000);
    app.handle(eve).await;
    assert!(app.last_sent().text.contains("the code of ada"), "{:?}", app.last_sent());
    assert!(telegram_says(&app, 42, 11, &format!("/link {code}")).await.starts_with(WRONG));
    // Before Eve has confirmed, there is nothing to confirm, and not before Ada has seen who asks.
    let early = http(&app, "ada", "/link yes").await;
    assert!(early.starts_with("Nobody has entered your code and confirmed yet."), "{early}");
    telegram_says(&app, 667, 12, "/link yes").await;
    for _ in 0..2 {
        let asked = http(&app, "ada", "/link").await;
        assert!(asked.contains("by telegram-667 on Telegram, called “telegram-42 Ada” there"), "{asked}");
    }
    assert!(http(&app, "ada", "/link no").await.starts_with("Nothing is linked"));
    assert!(http(&app, "ada", "/link yes").await.starts_with("There is nothing to confirm here."));
    assert!(telegram_says(&app, 667, 13, "/link yes").await.starts_with("There is nothing to confirm here."));

    // Whoever confirms blindly has seen nothing, and is shown it instead.
    let code = code_in(&http(&app, "ada", "/link").await);
    telegram_says(&app, 667, 20, &format!("/link {code}")).await;
    telegram_says(&app, 667, 21, "/link yes").await;
    let asked = http(&app, "ada", "/link yes").await;
    assert!(asked.contains("by telegram-667"), "{asked}");
    // After ten minutes it is over.
    app.clock().advance(std::time::Duration::from_secs(601));
    assert!(http(&app, "ada", "/link yes").await.starts_with("There is nothing to confirm here."));

    // A code that is too old, a person's own, and one in a group.
    let code = code_in(&http(&app, "ada", "/link").await);
    app.clock().advance(std::time::Duration::from_secs(599));
    let own = http(&app, "ada", &format!("/link {code}")).await;
    assert!(own.starts_with("This code is for your other channel"), "{own}");
    app.clock().advance(std::time::Duration::from_secs(2));
    let late = app.clock().now().as_millis() / 1000 - NOW;
    assert!(telegram_says(&app, 668, late, &format!("/link {code}")).await.starts_with(WRONG));
    let code = code_in(&http(&app, "ada", "/link").await);
    let words =
        ["/link@annals_test_bot", "/unlink@annals_test_bot", &format!("/link@annals_test_bot {code}")];
    for (id, words) in (1..).zip(words) {
        app.handle(group(-7, id, words).command()).await;
        assert_eq!(app.last_sent().text, "This works in a direct chat with me only.");
    }

    // Nobody is linked.
    for key in ["agent:annals:user:telegram-666", "agent:annals:user:telegram-667", TELEGRAM] {
        assert!(!app.history(key).await.is_empty(), "{key}");
    }
    assert!(app.history(ADA).await.iter().all(|message| message["metadata"]["channel"] == "http"));
    // The history does not hold a code that was shown on a platform.
    let told = telegram_says(&app, 669, late + 10, "/link").await;
    let code = code_in(&told);
    let kept = app.lines("agent:annals:user:telegram-669").await.join("\n");
    assert!(kept.contains("Your code is •••••-•••••") && !kept.contains(&code), "{kept}");
    app.finish().await;
}

#[tokio::test]
async fn under_the_scope_of_chats_nothing_is_linked() {
    let app = TestApp::builder().telegram().model().start().await;
    let off = "Linking is off. The owner of this bot can turn it on with DM_SCOPE=user.";
    assert_eq!(telegram_says(&app, 42, 1, "/link").await, off);
    assert_eq!(telegram_says(&app, 42, 2, "/unlink").await, off);
    assert_eq!(http(&app, "ada", "/link").await, off);
    let links = Some(json!({"links": ["telegram-42"]}));
    call(&app, Method::PUT, "/v1/people/ada/links", OPS_KEY, links).await.assert_problem(409, "links-off");
    app.finish().await;
}

/// Checks that both sides have to link again after a separation, no matter who separated them.
#[tokio::test]
async fn neither_side_links_alone_after_a_separation() {
    let app = by_person().start().await;
    let nothing = "There is nothing to confirm here.";
    for (start, by) in [(1000, "telegram"), (2000, "http"), (3000, "operator")] {
        link_telegram(&app, start).await;
        match by {
            "telegram" => drop(telegram_says(&app, 42, start + 10, "/unlink").await),
            "http" => drop(http(&app, "ada", "/unlink").await),
            _ => {
                let links = Some(json!({"links": []}));
                call(&app, Method::PUT, "/v1/people/ada/links", OPS_KEY, links).await;
            }
        }
        app.idle_as_time_passes().await;
        let told = telegram_says(&app, 42, start + 20, "/link yes").await;
        assert!(told.starts_with(nothing), "{by}: {told}");
        let told = http(&app, "ada", "/link yes").await;
        assert!(told.starts_with(nothing), "{by}: {told}");
        // The confirmation of then, again.
        app.handle(telegram(42, start + 2, "/link yes")).await;
        assert_eq!(app.get("/v1/people/telegram-42").await["id"], "telegram-42", "{by}");
    }
    app.finish().await;
}

/// Messages from before the link stay, as do those from after it, and every step can be repeated.
#[tokio::test]
async fn a_link_joins_two_conversations_and_memories_and_can_be_undone() {
    let app = by_person().start().await;
    app.model()
        .answer_by(|request| is_for_summary(request).then(|| format!("Facts: {}", summed_up(request))));
    http(&app, "ada", "My name is Ada").await;
    telegram_says(&app, 42, 1, "My dog is Rex").await;
    remember(&app, &user("telegram-42"), TELEGRAM, &["Has a dog."]).await;
    remember(&app, &user("ada"), ADA, &["Is called Ada."]).await;
    link_telegram(&app, 100).await;
    assert_eq!(texts(&app, &user("telegram-42")).await, []);
    let both = [(1, "Is called Ada.".to_owned()), (2, "Has a dog.".to_owned())];
    assert_eq!(texts(&app, &user("ada")).await, both);
    // A message from before the link, and the confirmation, are delivered again: both meet their own records.
    let (before, requests) = (app.lines(TELEGRAM).await, app.model().count());
    app.handle(telegram(42, 1, "My dog is Rex")).await;
    app.handle(telegram(42, 102, "/link yes")).await;
    assert_eq!((app.lines(TELEGRAM).await, app.model().count()), (before.clone(), requests));

    telegram_says(&app, 42, 200, "My cat is Tom").await;
    http(&app, "ada", "Only over HTTP").await;
    let joined = app.lines(ADA).await;
    let event = joined.iter().find(|line| line.contains(" user event: ")).unwrap();
    assert!(event.contains("in another chat (telegram), until 2025-11-21 22:59 UTC"), "{event}");
    assert!(event.ends_with("Facts: My dog is Rex"), "{event}");
    assert!(joined.contains(&"1200 user: My cat is Tom".to_owned()));
    let memories = call(&app, Method::GET, "/v1/memory?userId=telegram-42", OPS_KEY, None).await;
    assert_eq!(memories.body["memories"].as_array().unwrap().len(), 2);
    // What the two are captured to while they are linked.
    remember(&app, &user("ada"), "http:chat:ops:c1", &["Cannot be told."]).await;

    let told = telegram_says(&app, 42, 300, "/unlink").await;
    assert!(told.starts_with("Separated"), "{told}");
    app.idle().await;
    // The command again: it meets its own record.
    let count = app.telegram_api().sent().len();
    app.handle(telegram(42, 300, "/unlink")).await;
    assert_eq!(app.telegram_api().sent().len(), count);
    assert!(app.lines(TELEGRAM).await.contains(&"1200/reply assistant: You said: My cat is Tom".to_owned()));
    telegram_says(&app, 42, 310, "And now?").await;
    let said = app.last_request().to_string();
    assert!(said.contains("My dog is Rex") && said.contains("My cat is Tom"), "{said}");
    assert!(!said.contains("My name is Ada") && !said.contains("Only over HTTP"), "{said}");
    http(&app, "ada", "And here?").await;
    let said = app.last_request()["messages"].to_string();
    assert!(said.contains("My name is Ada"), "{said}");
    assert!(!said.contains("My dog is Rex") && !said.contains("My cat is Tom"), "{said}");
    assert_eq!(texts(&app, &user("telegram-42")).await, [(2, "Has a dog.".to_owned())]);
    let left = texts(&app, &user("ada")).await.into_iter().map(|(_, text)| text).collect::<Vec<_>>();
    assert_eq!(left, ["Is called Ada.", "Cannot be told."]);
    assert_eq!(http(&app, "ada", "/unlink").await, "This channel is not linked to another. /link links one.");
    // The person's history keeps all of it.
    assert!(app.lines(ADA).await.contains(&"1200 user: My cat is Tom".to_owned()));
    app.finish().await;
}

#[tokio::test]
async fn a_message_of_a_browser_that_comes_again_after_a_link_meets_its_own_record() {
    let app = by_person().start().await;
    let said = json!({"id": "w1", "role": "user", "parts": [{"type": "text", "text": "hello"}]});
    let body = json!({"id": "r1", "messages": [said], "userId": "telegram-42", "scope": "user"});
    let say = async || {
        let streamed = app.request(Method::POST, "/api/chat").bearer_auth(OPS_KEY).json(&body).send();
        let streamed = app.as_time_passes(async { streamed.await.unwrap().text().await.unwrap() }).await;
        assert!(streamed.contains("w1/reply") && streamed.contains("hello"), "{streamed}");
    };
    say().await;
    link_telegram(&app, 100).await;
    let stored = async || (app.lines(TELEGRAM).await, app.lines(ADA).await, app.model().count());
    let before = stored().await;
    say().await;
    app.idle_as_time_passes().await;
    assert_eq!(stored().await, before);
    app.finish().await;
}
