//! Images that people send: fetched once, stored, shown to the model, and reported if that fails.

use std::sync::Arc;
use std::time::Duration;

use annals_agent::{Agent, TurnError};
use annals_channel::platform::Platform;
use annals_channel_telegram::client::Client;
use annals_core::draft::Draft;
use annals_core::message::Part;
use annals_core::sort_key::SortKey;
use annals_engine::delivery::Deliverer;
use annals_test_support::model_api::{
    ModelApi, images_of, is_for_summary, last_user_line, lines_said, texts_of,
};
use annals_test_support::telegram_api::{TOKEN, TelegramApi, picture};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::app::{APP_KEY, OPS_KEY, TestApp, chat_path, ids, text_of};
use crate::faults::{Faults, Plan};
use crate::updates::{Update, group, private};
use crate::world::{LEASE, World, at_each_request};

const CHAT: &str = "telegram:chat:42";

/// Ada sends a photo of two sizes.
fn photo(id: i64, file: &str) -> Update {
    with_photo(private(42, id, "").without("text"), file)
}

fn with_photo(update: Update, file: &str) -> Update {
    let size = |name: &str, side: u32, bytes: u32| json!({"file_id": name, "file_unique_id": format!("u-{name}"), "width": side, "height": side, "file_size": bytes});
    update.with("photo", json!([size("thumb", 90, 900), size(file, 1280, 73_212)]))
}

/// Ada sends a document, whose size Telegram tells unless it is 0.
fn document(id: i64, name: &str, media_type: &str, bytes: u64) -> Update {
    let mut document =
        json!({"file_id": name, "file_unique_id": name, "file_name": name, "mime_type": media_type});
    if bytes > 0 {
        document["file_size"] = bytes.into();
    }
    private(42, id, "").without("text").with("document", document)
}

async fn say(app: &TestApp, update: Update) {
    app.receive(update).await;
    app.clock().advance(Duration::from_secs(2));
    app.idle_as_time_passes().await;
}

async fn kept(app: &TestApp) -> Vec<(String, Vec<u8>)> {
    let stores = app.stores();
    let mut kept = Vec::new();
    for key in stores.bucket.list("media/").await.unwrap() {
        let object = stores.bucket.get(&key).await.unwrap().unwrap();
        kept.push((key, object));
    }
    kept
}

/// Of each provider; the second turn shows the same again at the same place, from what is kept.
#[tokio::test]
async fn a_photo_reaches_the_model_and_is_fetched_once() {
    for model in ModelApi::models() {
        let builder = TestApp::builder().telegram().model_of(model);
        let mut app = builder.set("MODEL_PROMPT_CACHE", "true").start().await;
        say(&app, photo(1, "large").with("caption", json!("What is this?"))).await;
        let request = app.last_request();
        assert_eq!(images_of(&request), [picture("large")], "{model}");
        assert_eq!(lines_said(&request), ["What is this?", "[file, image/jpeg, photo, 73 KB]"]);
        let sent = app.sent_texts();
        assert!(sent[0].starts_with("You said: What is this?") && !sent[0].contains("Not seen"), "{sent:?}");
        let kept_first = kept(&app).await;
        assert_eq!(kept_first.len(), 1);
        assert_eq!(kept_first[0].1, picture("large"));

        app.restart().await;
        say(&app, private(42, 2, "and now?")).await;
        let second = app.last_request();
        assert_eq!(images_of(&second), [picture("large")], "{model}");
        let mut first = request["messages"][0].clone();
        let now = first["content"].as_array_mut().unwrap().pop().unwrap();
        assert!(now["text"].as_str().unwrap().starts_with("<time>Now: "), "{now}");
        assert_eq!(second["messages"][0], first, "the requests do not begin with the same message");
        // The first request tells nobody what to keep; the second does.
        say(&app, private(42, 3, "and then?")).await;
        assert_eq!((app.model().count(), app.model().refusals()), (3, Vec::new()), "{model}");
        assert_eq!(images_of(&app.last_request()), [picture("large")], "{model}");
        assert!(app.model().cached_tokens()[2] > 0, "{model}");
        assert_eq!(app.telegram_api().statuses("getFile"), [200], "{model}");
        assert_eq!(app.telegram_api().statuses("file"), [200], "{model}");
        assert_eq!(kept(&app).await, kept_first);
        app.finish().await;
    }
}

/// Each item comes as a message of its own. A live photo is a video, which is not shown, and a picture.
#[tokio::test]
async fn an_album_gets_one_answer_is_shown_whole_and_is_forgotten_with_its_chat() {
    let app = TestApp::start().await;
    let item = |id, file| photo(id, file).at(5).with("media_group_id", json!("1387"));
    let live = json!({"file_id": "live", "file_unique_id": "l", "width": 90, "height": 90, "duration": 2});
    let items = [
        item(10, "one").with("caption", json!("Which of these?")),
        item(11, "two"),
        item(12, "three").with("live_photo", live),
    ];
    for item in &items {
        app.receive(item).await;
    }
    app.clock().advance(Duration::from_millis(1500));
    app.idle().await;
    let [request] = &app.model().requests()[..] else { panic!("one request") };
    assert_eq!(images_of(request), [picture("one"), picture("two"), picture("three")]);
    let texts = texts_of(request, "user").concat();
    assert!(texts.contains("live photo, 0:02") && texts.matches("[file").count() == 4, "{texts}");
    let history = app.history(CHAT).await;
    assert_eq!(ids(&history), ["10", "11", "12", "12/reply"]);
    assert_eq!(history[0]["parts"][1]["url"], "telegram:one");
    let records = app.records(CHAT).await;
    assert_eq!(records.iter().map(|record| record.covers().len()).collect::<Vec<_>>(), [0, 0, 0, 3]);
    let [sent] = &app.telegram_api().sent()[..] else { panic!("one answer") };
    assert!(sent.reply_to == Some(12) && !sent.text.contains("Not seen"), "{sent:?}");

    for item in &items {
        app.receive(item).await;
    }
    app.idle().await;
    assert_eq!((app.model().count(), app.sent_texts().len(), kept(&app).await.len()), (1, 1, 3));

    say(&app, with_photo(private(43, 1, "").without("text"), "other")).await;
    assert_eq!(app.forget(CHAT, OPS_KEY).await.body["removed"]["media"], 3);
    let left = kept(&app).await;
    assert_eq!(left.iter().map(|(_, bytes)| bytes.clone()).collect::<Vec<_>>(), [picture("other")]);
    app.finish().await;
}

#[tokio::test]
async fn unsupported_images_are_named_to_the_model_and_reported_to_the_user_once() {
    let app = TestApp::start().await;
    let voice = json!({"file_id": "v", "file_unique_id": "v", "duration": 12, "file_size": 34_000, "mime_type": "audio/ogg"});
    say(&app, private(42, 1, "").without("text").with("voice", voice)).await;
    let told = "[file, audio/ogg, voice message, 0:12, 34 KB; not shown to you: sound cannot be heard here]";
    assert_eq!(lines_said(&app.last_request()), [told]);
    let note = "Not seen: voice message, 0:12, 34 KB (sound cannot be heard here).";
    let reply = format!("You said: {told}\n\n{note}");
    assert_eq!(app.sent_texts(), [reply.as_str()]);
    // In the history, as what was sent; the model does not take it for its own.
    let history = app.history(CHAT).await;
    assert_eq!(text_of(&history[1]), reply);
    assert_eq!(history[1]["parts"][1]["providerMetadata"], json!({"annals": {"note": true}}));
    say(&app, document(2, "beans.pdf", "application/pdf", 1_200_000).with("caption", json!("read it"))).await;
    let request = app.last_request();
    assert_eq!(texts_of(&request, "assistant"), [format!("You said: {told}")]);
    assert!(lines_said(&request).contains(&told.to_owned()), "the earlier file is not described as before");
    let second = app.last_sent().text;
    let unseen = "Not seen: beans.pdf, 1.2 MB (files of this kind cannot be opened here).";
    assert!(second.ends_with(unseen), "{second}");
    // An animated sticker is described by its emoji.
    let sticker = json!({"file_id": "s", "file_unique_id": "s", "emoji": "👌", "is_animated": true});
    say(&app, private(42, 3, "").without("text").with("sticker", sticker)).await;
    assert!(!app.last_sent().text.contains("Not seen"));
    assert_eq!(app.telegram_api().statuses("getFile"), [0; 0]);
    assert_eq!(kept(&app).await, []);
    app.finish().await;
}

#[tokio::test]
async fn large_missing_and_invalid_images_are_not_fetched_again() {
    let app = TestApp::builder().telegram().model().refusals_are_fine().start().await;
    let telegram = app.telegram_api();
    telegram.set_file("larger.png", [picture("x"), vec![0; 4_000_000]].concat());
    telegram.set_file("huge.png", vec![0; 21 * 1024 * 1024]);
    telegram.set_file("text.png", b"no image at all".to_vec());
    // 9,000 pixels wide.
    let mut wide = picture("wide");
    wide[16..20].copy_from_slice(&9_000_u32.to_be_bytes());
    telegram.set_file("wide.png", wide);
    telegram.edit(|store| store.files.set.insert("gone.png".into(), None));
    let cases = [
        ("said.png", 8_200_000, "8.2 MB (it is larger than 3.75 MB or 8,000 pixels)"),
        ("larger.png", 0, "larger.png (it is larger than 3.75 MB or 8,000 pixels)"),
        ("huge.png", 0, "huge.png (it is larger"),
        ("wide.png", 0, "wide.png (it is larger"),
        ("text.png", 0, "text.png (it is damaged, or no JPEG"),
        ("gone.png", 0, "gone.png (it can no longer be fetched)"),
    ];
    for (id, (name, bytes, wanted)) in (1..).zip(cases) {
        say(&app, document(id, name, "image/png", bytes)).await;
        let reply = app.last_sent().text;
        assert!(reply.contains("Not seen: ") && reply.contains(wanted), "{name}: {reply}");
        let request = app.last_request();
        assert!(last_user_line(&request).contains("; not shown to you: it "), "{name}");
        assert_eq!(images_of(&request).len(), 0, "{name}");
    }
    assert_eq!(telegram.statuses("getFile"), [200, 400, 200, 200, 400]);
    let kept = kept(&app).await;
    assert_eq!(kept.len(), 5);
    // No more is stored than why they are not shown.
    assert!(kept.iter().all(|(_, bytes)| bytes.starts_with(br#"{"unseen":""#)));
    say(&app, private(42, 20, "anything else?")).await;
    assert_eq!(telegram.statuses("getFile").len(), 5);
    assert!(!app.last_sent().text.contains("Not seen"));
    app.finish().await;
}

#[tokio::test]
async fn a_temporary_failure_is_reported_and_retried_by_turns_for_an_hour() {
    let app = TestApp::builder().telegram().model().refusals_are_fine().start().await;
    let telegram = app.telegram_api();
    telegram.edit(|store| store.files.fail = (2, 502));
    say(&app, photo(1, "later")).await;
    let told = &app.sent_texts()[0];
    assert!(told.ends_with("Not seen: photo, 73 KB (it could not be fetched)."), "{told}");
    assert_eq!(kept(&app).await, []);
    say(&app, private(42, 2, "and now?")).await;
    assert_eq!(images_of(&app.last_request()), [picture("later")]);
    assert!(!app.sent_texts()[1].contains("Not seen"));
    assert_eq!(telegram.statuses("file"), [502, 502, 200]);

    telegram.edit(|store| store.files.fail = (1000, 502));
    say(&app, photo(3, "never")).await;
    app.clock().advance(Duration::from_hours(2));
    let asked = telegram.statuses("file").len();
    say(&app, private(42, 7300, "hm")).await;
    assert_eq!(telegram.statuses("file").len(), asked + 2);
    assert!(texts_of(&app.last_request(), "user").concat().contains("it can no longer be fetched"));
    say(&app, private(42, 7310, "well")).await;
    assert_eq!(telegram.statuses("file").len(), asked + 2, "the image was fetched again");
    assert_eq!(images_of(&app.last_request()), [picture("later")]);
    app.finish().await;
}

#[tokio::test]
async fn a_model_without_images_answers_and_both_sides_are_informed() {
    for model in ModelApi::models() {
        let app = TestApp::builder().telegram().model_of(model).start().await;
        app.model().edit(|stored| stored.images_refused = Some(0));
        say(&app, photo(1, "a").with("caption", json!("What is this?"))).await;
        let reply = &app.sent_texts()[0];
        let why = "the model that answers cannot see images, or not this one";
        assert!(reply.ends_with(&format!("Not seen: photo, 73 KB ({why}).")), "{model}: {reply}");
        assert!(reply.contains(&format!("; not shown to you: {why}]")), "{model}: {reply}");
        assert_eq!(app.model().images_refused(), 1);
        say(&app, photo(2, "b")).await;
        assert_eq!(app.model().images_refused(), 1, "{model}: it is known by now");
        assert_eq!(app.telegram_api().statuses("getFile"), [200], "{model}");
        assert!(app.sent_texts()[1].contains("Not seen: photo"));
        app.finish().await;
    }
    let app = TestApp::builder().telegram().model().set("MODEL_VISION", "false").start().await;
    say(&app, photo(1, "a")).await;
    assert!(app.sent_texts()[0].contains("Not seen: photo"));
    assert_eq!(app.telegram_api().statuses("getFile"), [0; 0]);
    assert_eq!(images_of(&app.last_request()).len(), 0);
    app.finish().await;
}

#[tokio::test]
async fn callers_of_the_api_send_bytes_and_nothing_is_fetched_for_them() {
    let app = TestApp::builder().telegram().model().start().await;
    let image = format!("data:image/png;base64,{}", STANDARD.encode(picture("inline")));
    let file = |url: &str| json!({"type": "file", "mediaType": "image/png", "filename": "a.png", "url": url});
    let own = format!("{}/health", app.base());
    let parts = json!([{"type": "text", "text": "look"}, file(&image), file(&own), file("telegram:secret")]);
    let body = json!({"userId": "ada", "parts": parts});
    let reply = app.ask("c", APP_KEY, &body).await.reply_text();
    assert!(reply.ends_with("Not seen: a.png; a.png (addresses are not opened here)."), "{reply}");
    assert_eq!(images_of(&app.last_request()), [picture("inline")]);
    assert_eq!(app.telegram_api().calls(), []);
    assert_eq!(kept(&app).await, [], "an image that the record holds is stored again");
    app.finish().await;
}

#[tokio::test]
async fn in_a_group_images_of_others_are_shown_and_failures_of_the_asker_s_are_reported() {
    let app = TestApp::start().await;
    app.receive(with_photo(group(-7, 1, "").without("text"), "garden")).await;
    let video = json!({"file_id": "v", "file_unique_id": "v", "width": 90, "height": 90, "duration": 65});
    app.handle(group(-7, 2, "").without("text").with("video", video)).await;
    assert_eq!(app.telegram_api().calls(), [], "an image was fetched before anybody asked");
    say(&app, group(-7, 3, "@annals_test_bot what grows there?").mention()).await;
    let request = app.last_request();
    assert_eq!(images_of(&request), [picture("garden")]);
    assert!(texts_of(&request, "user").concat().contains("video/mp4, 1:05; not shown to you: videos"));
    assert!(!app.sent_texts()[0].contains("Not seen"), "the reply mentions a video of which nobody asked");
    app.finish().await;
}

#[tokio::test]
async fn images_count_in_the_budget_and_a_summary_names_them() {
    // Room for three images at once, and for little more.
    let app = TestApp::builder().set("CONTEXT_WINDOW", "9700").set("KEEP_RECENT", "2");
    let app = app.telegram().model().start().await;
    for id in 1..=3 {
        say(&app, photo(id, &format!("p{id}"))).await;
    }
    assert_eq!(images_of(&app.last_request()).len(), 3);
    assert_eq!(app.model().requests_for_notes().len(), 0);
    let tokens = app.get(&chat_path(CHAT, "context")).await["tokens"].as_u64().unwrap();
    assert!((4_800..5_600).contains(&tokens), "{tokens}");
    // The window holds three images, so a fourth takes half of the place of the earlier ones.
    say(&app, photo(4, "p4")).await;
    assert_eq!(images_of(&app.last_request()), [picture("p2"), picture("p3"), picture("p4")]);
    let text = texts_of(&app.last_request(), "user").concat();
    assert!(text.contains("; not shown to you: there are more images than can be shown at once"), "{text}");

    say(&app, private(42, 5, &"lorem ipsum ".repeat(2_000))).await;
    let notes = app.model().requests_for_notes();
    let summary = notes.iter().find(|body| is_for_summary(body)).unwrap();
    assert!(texts_of(summary, "user").concat().contains("[file, image/jpeg, photo, 73 KB]"));
    assert_eq!(images_of(summary).len(), 0);
    assert!(images_of(&app.last_request()).len() < 3);
    app.finish().await;
}

/// A world with a Telegram and a model.
struct Bench {
    world: World,
    telegram: TelegramApi,
}

impl Bench {
    async fn new() -> Self {
        Self { world: World::hosted(&[]).await, telegram: TelegramApi::start().await }
    }

    fn agent(&self, faults: &Faults) -> Agent {
        let clock = self.world.clock.clone();
        let client = Client::new(self.telegram.base_url(), TOKEN.to_owned().into(), clock).unwrap();
        let deliverer = Deliverer::new([Arc::new(client) as Arc<dyn Platform>], None);
        Agent { deliverer, ..self.world.agent_with(faults.clone()) }
    }

    /// Appends a message that is the photo `file`.
    async fn append(&self, id: u64, file: &str) -> SortKey {
        let own = json!({"fileId": file, "fileUniqueId": file, "kind": "photo"});
        let part = Part::file("image/jpeg", None, format!("telegram:{file}"), ("telegram", &own));
        let said = self.world.message(id, id.cast_signed() * 1000, "");
        let draft = Draft { parts: vec![part], chat_id: "42".into(), asks: true, ..said };
        self.world.append(&draft).await.base
    }

    async fn run(&self, faults: &Faults, from: &SortKey) -> Result<(), TurnError> {
        self.world.start(self.agent(faults), from).await.unwrap()
    }
}

/// The run of a turn with a photo, stopped before each of its requests to a store, and gone on with by another.
#[tokio::test]
async fn a_run_that_dies_anywhere_leaves_one_image_and_one_answer() {
    let requests = at_each_request(&[Plan::Before], async |faults, what| {
        let bench = Bench::new().await;
        let from = bench.append(1, "f").await;
        drop(bench.run(faults, &from).await);
        bench.world.clock.advance(LEASE + Duration::from_secs(1));
        bench.run(&Faults::default(), &from).await.unwrap();
        assert_eq!(bench.world.records().await.len(), 2, "{what}");
        assert_eq!(bench.world.objects("media/").await.len(), 1, "{what}");
        assert_eq!(images_of(bench.world.model().requests().last().unwrap()), [picture("f")], "{what}");
        assert!((1..=2).contains(&bench.telegram.statuses("file").len()), "{what}");
    });
    assert!(requests.await > 5);
}

/// An image that cannot be stored is shown all the same, and fetched again by the next turn.
#[tokio::test]
async fn an_image_that_is_not_kept_is_shown() {
    let bench = Bench::new().await;
    let from = bench.append(1, "f").await;
    bench.run(&Faults::new(Plan::NoMedia), &from).await.unwrap();
    assert_eq!(images_of(&bench.world.model().requests()[0]), [picture("f")]);
    assert_eq!(bench.world.objects("media/").await, [""; 0]);
    let from = bench.append(2, "g").await;
    bench.run(&Faults::default(), &from).await.unwrap();
    assert_eq!(images_of(&bench.world.model().requests()[1]), [picture("f"), picture("g")]);
    assert_eq!(bench.world.objects("media/").await.len(), 2);
}
