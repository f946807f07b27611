//! The bot's own texts in the language of the person who is answered, on each channel.

use annals_core::language::Language;
use annals_test_support::discord_api::BOT_TOKEN;
use reqwest::Method;
use reqwest::header::ACCEPT_LANGUAGE;
use serde_json::{Value, json};

use crate::app::{APP_KEY, Answer, TestApp, text_of};
use crate::approvals::press;
use crate::chat::{Stream, streamed, submit, user};
use crate::discord::{ADA, DiscordApp, command, direct};
use crate::lark::{GROUP, LarkApp, P2P, mentioning, pressed, text};
use crate::outside_tools::start_with_shop;
use crate::terminal::{annals, beside, piped};
use crate::updates::{Update, private};

const CHAT: &str = "telegram:chat:42";
const FAILED: &str = "抱歉，模型暂时不可用，我没能回答这个问题。请稍后再问一次。";
const NEW: &str = "新对话已开始。想聊点什么？";
const RESET: &str = "好的，我们重新开始。我不再参考此前的消息。";
const UNANSWERED: &str = "还没有开始回答就停止了。";

/// Creates a message of Ada, whose Telegram is Chinese.
fn chinese(id: i64, text: &str) -> Update {
    let ada = json!({"id": 42, "is_bot": false, "first_name": "Ada", "language_code": "zh-hans"});
    private(42, id, text).with("from", ada)
}

#[tokio::test]
async fn telegram_s_language_is_that_of_notices_confirmations_questions_and_buttons() {
    let (_shop, mut app) = start_with_shop(&json!({"tools": {"refund": {"approval": true}}})).await;
    app.model().fail(1, 401);
    app.handle(chinese(1, "hello")).await;
    app.model().recover();
    app.handle(chinese(2, "/reset").command()).await;
    app.handle(chinese(3, "/usage").command()).await;
    assert_eq!(app.sent_texts()[..2], [FAILED, RESET]);
    assert!(app.last_sent().text.starts_with("这个对话今天："), "{}", app.last_sent().text);

    app.model().answer_tools(&[("shop_refund", json!({"order": "A1"}))]);
    app.handle(chinese(4, "Pay A1 back.")).await;
    let asked = app.last_sent();
    assert!(asked.text.starts_with("可以用以下参数调用 shop_refund 吗？"), "{}", asked.text);
    let labels: Vec<_> = asked.keyboard[0].as_array().unwrap().iter().map(|button| &button["text"]).collect();
    assert_eq!(labels, ["✅ 批准", "❌ 拒绝"]);
    // The Telegram of the person who presses tells none, and they have written nothing: that of the chat.
    press(&app, &asked, (0, 1), 7, "c1").await;
    assert_eq!(app.telegram_api().answered()[0].text, "只有提问者或管理员可以答复这个请求。");
    app.handle(chinese(5, "/deny").command()).await;
    assert!(app.sent_texts().contains(&"已拒绝：shop_refund。".to_owned()), "{:?}", app.sent_texts());

    app.hold(chinese(6, "Write a novel")).await;
    app.handle(chinese(7, "/stop").command()).await;
    app.model().resume();
    app.idle().await;
    assert_eq!(app.last_sent().text, "已停止。");

    let (before, sent) = (app.history(CHAT).await, app.sent_texts());
    let of = |id: &str| before.iter().find(|message| message["id"] == id).unwrap();
    assert_eq!(of("1")["metadata"]["language"], "zh-hans");
    assert_eq!([text_of(of("1/notice")), text_of(of("6/reply"))], [FAILED, UNANSWERED]);
    assert_eq!(of("1/notice")["metadata"]["notice"], "noAnswer");
    assert_eq!(of("6/reply")["metadata"]["notice"], "stoppedUnanswered");
    assert_eq!(of("7/notice")["metadata"]["notice"], "stopped");
    // The same updates under another language, also of the person's Telegram: nothing is stored or said again.
    app.set("LANGUAGE", "en").await;
    for (id, text) in
        [(1, "hello"), (2, "/reset"), (3, "/usage"), (4, "Pay A1 back."), (5, "/deny"), (7, "/stop")]
    {
        for update in [chinese(id, text), private(42, id, text)] {
            app.handle(if text.starts_with('/') { update.command() } else { update }).await;
        }
    }
    assert_eq!((app.history(CHAT).await, app.sent_texts()), (before, sent));
    // What is new is said in the fixed language.
    app.handle(chinese(8, "/reset").command()).await;
    assert_eq!(app.last_sent().text, Language::En.texts().started_over());
    app.finish().await;
}

#[tokio::test]
async fn on_lark_the_script_of_what_a_person_wrote_is_their_language() {
    let (_shop, mut it) = LarkApp::with_shop(&json!({"tools": {"refund": {"approval": true}}}), &[]).await;
    it.handle(&text("om_1", P2P, "/new", 0)).await;
    it.handle(&text("om_2", P2P, "你好，今天吃什么？", 1)).await;
    // Neither a command nor a sign shows a language.
    it.handle(&text("om_3", P2P, "👍", 2)).await;
    it.handle(&text("om_4", P2P, "/reset", 3)).await;
    it.app.model().fail(1, 401);
    it.handle(&text("om_5", P2P, "ok?", 4)).await;
    let sent = it.sent();
    assert_eq!((sent[0].as_str(), sent[3].as_str()), (Language::En.texts().new_conversation(), RESET));
    assert_eq!(sent[4], Language::En.texts().no_answer(), "the newest text is English");
    let before = it.app.history("lark:chat:oc_ada").await;
    it.app.set("LANGUAGE", "zh").await;
    for (id, said, seconds) in [("om_1", "/new", 0), ("om_4", "/reset", 3), ("om_5", "ok?", 4)] {
        it.handle(&text(id, P2P, said, seconds)).await;
    }
    assert_eq!((it.app.history("lark:chat:oc_ada").await, it.sent()), (before, sent));
    it.app.set("LANGUAGE", "auto").await;

    it.app.model().recover();
    it.app.model().answer_tools(&[("shop_refund", json!({"order": "A1"}))]);
    it.handle(&mentioning(text("om_6", GROUP, "@_user_1 把 A1 的钱退给我", 5))).await;
    let sent = it.lark.sent();
    let (question, card) = (&sent[sent.len() - 2], &sent[sent.len() - 1]);
    assert!(question.text().contains("请回复 /approve 或 /deny"), "{}", question.text());
    assert!(card.content.to_string().contains("✅ 批准"), "{card:?}");
    // Who has written nothing is told in the language of the group.
    let toast = it.send(&pressed(&card.button_values()[1], GROUP, "ou_stranger")).await.body["toast"].take();
    assert_eq!(toast["content"], "只有提问者或管理员可以答复这个请求。");
    let toast = it.send(&pressed(&card.button_values()[1], GROUP, "ou_ada")).await.body["toast"].take();
    assert_eq!(toast, json!({"type": "success", "content": "已拒绝：shop_refund。"}));
    it.app.finish().await;
}

#[tokio::test]
async fn discord_s_locale_is_that_of_responses_and_refusals() {
    let in_chinese = |mut call: Value| {
        call["locale"] = "zh-CN".into();
        call
    };
    let mut it = DiscordApp::with(&[("DISCORD_BOT_TOKEN", BOT_TOKEN)]).await;
    let reset = in_chinese(command("reset", &json!([]), 0));
    assert_eq!(it.handle(&reset).await["data"]["content"], RESET);
    let memory = it.handle(&in_chinese(direct(command("memory", &json!([]), 1)))).await;
    assert_eq!(memory["data"]["content"], "我还没有记住关于你的内容。");
    let unknown = it.send(&in_chinese(command("weather", &json!([]), 2))).await.body;
    assert!(unknown["data"]["content"].as_str().unwrap().starts_with("我不认识这个命令。"), "{unknown}");
    let before = it.app.history(&format!("agent:annals:user:{ADA}")).await;
    it.app.set("LANGUAGE", "en").await;
    it.handle(&in_chinese(direct(command("memory", &json!([]), 1)))).await;
    assert_eq!(it.app.history(&format!("agent:annals:user:{ADA}")).await, before);
    it.app.set("LANGUAGE", "").await;
    it.app.set("ALLOW_FROM", "discord-7").await;
    let refused = it.send(&in_chinese(command("reset", &json!([]), 3))).await.body;
    assert_eq!(refused["data"]["content"], "你不能在这里使用这个机器人。请联系机器人的管理者开通。");
    it.app.finish().await;
}

#[tokio::test]
async fn a_browser_asks_for_its_language_and_chinese_text_is_a_better_sign() {
    let mut app = TestApp::builder().model().start().await;
    let say = async |app: &TestApp, id: &str, text: &str, header: &str| {
        let request =
            app.request(Method::POST, "/api/chat").bearer_auth(APP_KEY).header(ACCEPT_LANGUAGE, header);
        let stream = Stream::of(request.json(&submit(&[user(id, text)])).send().await.unwrap());
        streamed(&app.as_time_passes(stream.rest()).await)
    };
    assert_eq!(say(&app, "m1", "/new", "zh-CN,zh;q=0.9,en;q=0.8").await, NEW);
    assert_eq!(say(&app, "m2", "/reset", "de-DE,en;q=0.5").await, Language::En.texts().started_over());
    app.model().fail(2, 401);
    assert_eq!(say(&app, "m3", "你好", "en-GB").await, FAILED);
    assert_eq!(say(&app, "m4", "hello", "zh-TW").await, FAILED);
    app.model().recover();
    // Another language of the same request is no other message.
    let before = app.history("web:room:app:r1").await;
    assert_eq!(say(&app, "m4", "hello", "en").await, FAILED);
    assert_eq!(app.history("web:room:app:r1").await, before);

    app.model().hang();
    let body = json!({"userId": "ada", "messageId": "h1", "text": "hello"});
    let post =
        |path: &str| app.request(Method::POST, path).bearer_auth(APP_KEY).header(ACCEPT_LANGUAGE, "zh");
    let requests = app.model().count();
    assert_eq!(Answer::of(post("/v1/chats/c/messages").json(&body)).await.status, 202);
    app.model().wait_for(requests + 1).await;
    let stop = json!({"userId": "ada", "messageId": "h2", "text": "/stop"});
    assert_eq!(Answer::of(post("/v1/chats/c/messages?wait=5").json(&stop)).await.reply_text(), "已停止。");
    app.model().resume();
    app.idle().await;
    assert_eq!(app.lines("http:chat:app:c").await[1], format!("h1/reply assistant: {UNANSWERED}"));
    // Errors stay English.
    let error = Answer::of(post("/v1/chats/c/messages").json(&json!({}))).await;
    assert_eq!(error.body["title"], "userId is missing");
    app.set("LANGUAGE", "en").await;
    assert_eq!(say(&app, "m5", "/new", "zh-CN").await, Language::En.texts().new_conversation());
    app.finish().await;
}

#[tokio::test]
async fn the_terminal_s_own_words_are_in_the_language_of_the_locale() {
    let app = TestApp::start().await;
    let dir = app.data_dir().to_owned();
    let chat = async |text: &'static str, settings: &'static [(&str, &str)]| {
        let mut command = annals(&dir, &["chat", text]);
        command.envs(settings.iter().copied());
        beside(move || piped(command, "")).await.2
    };
    let unknown = "没有 /hlep 这个命令：你是想输入 /help 吗？没有发送任何内容。";
    let locale: &[_] = &[("LANG", "zh_CN.UTF-8"), ("LANGUAGE", "zh_CN:zh")];
    assert!(chat("/hlep", locale).await.contains(unknown));
    assert!(chat("/hlep", &[("LANGUAGE", "zh")]).await.contains(unknown));
    for english in
        [&[("LANG", "zh_CN.UTF-8"), ("LANGUAGE", "en")][..], &[("LC_ALL", "C"), ("LANG", "zh_CN.UTF-8")], &[]]
    {
        assert!(chat("/hlep", english).await.contains("There is no command /hlep"), "{english:?}");
    }
    app.finish().await;
}
