//! Telegram: an album comes as one webhook an item, and is answered as one message.

use std::time::Duration;

use annals_io::clock::Clock;
use serde_json::json;

use crate::app::TestApp;
use crate::updates::group;

/// A slow upload: the album is answered when it has been quiet, not when its first item comes. In a group one mention is
/// for all of it.
#[tokio::test]
async fn items_that_come_later_are_waited_for_and_one_mention_is_for_the_whole_album() {
    let app = TestApp::start().await;
    for (id, caption) in (10..).zip(["", "@annals_test_bot which?", ""]) {
        app.clock().advance(Duration::from_millis(1400));
        let file = format!("photo-{id}");
        let photo = json!([{"file_id": file, "file_unique_id": file, "width": 90, "height": 90}]);
        let item = group(-100, id, "").without("text").with("photo", photo).with("caption", json!(caption));
        app.receive(item.at(5).with("media_group_id", json!("1387120000"))).await;
        assert_eq!(app.model().count(), 0);
    }
    // A run that woke may still read the chat without the last item; it must not find that time has passed since.
    Clock::system().sleep(Duration::from_millis(300)).await;
    app.idle_as_time_passes().await;
    assert_eq!(app.records("telegram:chat:-100").await.last().unwrap().covers().len(), 3);
    assert_eq!((app.model().count(), app.telegram_api().sent().len()), (1, 1));
    app.finish().await;
}
