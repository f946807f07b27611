//! Telegram: an album comes as one webhook an item, and is answered as one message.

use std::time::Duration;

use annals_io::clock::Clock;
use annals_test_support::model_api::texts_of;
use serde_json::json;

use crate::app::{TestApp, ids};
use crate::updates::{Update, private};

fn items() -> [Update; 3] {
    let photo = |id: &str| json!([{"file_id": id, "file_unique_id": id, "width": 90, "height": 90}]);
    let item = |id| private(42, id, "").without("text").at(5).with("media_group_id", json!("1387120000"));
    let live = json!({"file_id": "live", "file_unique_id": "l", "width": 90, "height": 90, "duration": 2});
    [
        item(10).with("photo", photo("one")).with("caption", json!("Which of these?")),
        item(11).with("photo", photo("two")),
        item(12).with("live_photo", live).with("photo", photo("three")),
    ]
}

#[tokio::test]
async fn an_album_gets_one_answer() {
    let app = TestApp::start().await;
    for item in items() {
        app.receive(item).await;
    }
    app.clock().advance(Duration::from_millis(1500));
    app.idle().await;

    let requests = app.model().requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(texts_of(&requests[0], "user").concat().matches("[file").count(), 4, "a live photo is two");
    let history = app.history("telegram:chat:42").await;
    assert_eq!(ids(&history), ["10", "11", "12", "12/reply"]);
    assert_eq!(history[0]["parts"][1]["url"], "telegram:one");
    assert_eq!(app.records("telegram:chat:42").await[3].covers().len(), 3);
    let sent = app.telegram_api().sent();
    assert_eq!(sent.iter().map(|sent| sent.reply_to).collect::<Vec<_>>(), [Some(12)]);

    for item in items() {
        app.receive(item).await;
    }
    app.idle().await;
    assert_eq!((app.model().count(), app.telegram_api().sent().len()), (1, 1));
    app.finish().await;
}

/// A slow upload: the album is answered when it has been quiet, not when its first item comes. In a group one mention is
/// for all of it.
#[tokio::test]
async fn items_that_come_later_are_waited_for_and_one_mention_is_for_the_whole_album() {
    let app = TestApp::start().await;
    let group = json!({"id": -100, "type": "group", "title": "Allotment"});
    for (item, caption) in items().into_iter().zip(["", "@annals_test_bot which?", ""]) {
        app.clock().advance(Duration::from_millis(1400));
        app.receive(item.with("chat", group.clone()).with("caption", json!(caption))).await;
        assert_eq!(app.model().count(), 0);
    }
    // A run that woke may still read the chat without the last item; it must not find that time has passed since.
    Clock::system().sleep(Duration::from_millis(300)).await;
    app.idle_as_time_passes().await;
    assert_eq!(app.records("telegram:chat:-100").await.last().unwrap().covers().len(), 3);
    assert_eq!((app.model().count(), app.telegram_api().sent().len()), (1, 1));
    app.finish().await;
}
