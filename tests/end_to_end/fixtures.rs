//! Whole payloads: the program accepts each. The parsers' tests check that no text is lost.

use annals_test_support::fixtures::all_payloads;

use crate::app::TestApp;

#[tokio::test]
async fn every_telegram_payload_is_accepted() {
    let app = TestApp::builder().telegram().start().await;
    for (name, update) in all_payloads("telegram") {
        assert_eq!(app.telegram(&update).await, 200, "{name}");
    }
    app.idle_as_time_passes().await;
    app.finish().await;
}
